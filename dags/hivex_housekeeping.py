"""What dead clients left behind, settled every minute.

Transactions and locks whose owners have sent no heartbeat for `hive.txn.timeout` are ended, the files
of their writes are deleted, and records that nobody needs any more are removed. Whoever waits for a
lock does the same, so that nothing is stuck where this DAG does not run; it keeps the metastore small.

Uses the connection `hivex_default`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag

from airflow_hivex.operators.compaction import HivexHousekeepingOperator

CONNECTION = "hivex_default"


@dag(
    dag_id="hivex_housekeeping",
    schedule=timedelta(minutes=1),
    catchup=False,
    max_active_runs=1,
    tags=["hivex", "housekeeping"],
    default_args={"owner": "hivex", "retries": 1, "retry_delay": timedelta(seconds=10)},
    doc_md=__doc__,
)
def hivex_housekeeping() -> None:
    """One task."""
    HivexHousekeepingOperator(task_id="housekeep", hivex_conn_id=CONNECTION, execution_timeout=timedelta(minutes=10))


hivex_housekeeping()
