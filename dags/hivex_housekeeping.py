"""Housekeeping for the warehouse of the connection `hivex_default`, every minute."""

from __future__ import annotations

from airflow_hivex.dags.housekeeping import housekeeping_dag

housekeeping_dag()
