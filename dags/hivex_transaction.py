"""The example of one transaction over three tasks."""

from __future__ import annotations

from airflow_hivex.dags.transaction import transaction_dag

transaction_dag()
