"""Housekeeping every minute: transactions, locks and files of dead clients.

Transactions and locks whose owners have sent no heartbeat for `hive.txn.timeout` are ended, the files
of their writes are deleted, and unused records are removed. A statement that waits for a lock does the same, so that
nothing is stuck where this DAG does not run; it keeps the metastore small.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_hivex.operators.compaction import HivexHousekeepingOperator


def housekeeping_dag(
    dag_id: str = "hivex_housekeeping", *, hivex_conn_id: str = "hivex_default", **options: Any
) -> DAG:
    """Return the DAG.

    :param dag_id: the DAG's id
    :param hivex_conn_id: the connection whose warehouse is kept
    :param options: other arguments of :class:`~airflow.sdk.DAG`, such as ``schedule``
    """
    settings: dict[str, Any] = {
        "schedule": timedelta(minutes=1),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["hivex", "housekeeping"],
        "default_args": {"owner": "hivex", "retries": 1, "retry_delay": timedelta(seconds=10)},
        "doc_md": __doc__,
    }
    with DAG(dag_id, **(settings | options)) as dag:
        HivexHousekeepingOperator(
            task_id="housekeep", hivex_conn_id=hivex_conn_id, execution_timeout=timedelta(minutes=10)
        )
    return dag
