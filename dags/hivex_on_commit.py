"""The example of a DAG that commits to a table start."""

from __future__ import annotations

from airflow_hivex.dags.on_commit import on_commit_dag

on_commit_dag()
