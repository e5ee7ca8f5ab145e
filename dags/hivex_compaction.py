"""Compaction of the warehouse of the connection `hivex_default`, every five minutes."""

from __future__ import annotations

from airflow_hivex.dags.compaction import compaction_dag

compaction_dag()
