"""Replication of the tables that a run names, in the warehouse of the connection `hivex_default`."""

from __future__ import annotations

from airflow_hivex.dags.replication import replication_dag

replication_dag()
