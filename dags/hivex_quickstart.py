"""The example of two clusters."""

from __future__ import annotations

from airflow_hivex.dags.quickstart import quickstart_dag

quickstart_dag()
