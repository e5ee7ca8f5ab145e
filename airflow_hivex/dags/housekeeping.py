"""A DAG that runs the housekeeper every minute.

The housekeeper ends transactions and locks whose owners have sent no heartbeat for `hive.txn.timeout`. It also deletes
the files of such transactions, and removes unused records, so that the metastore stays small. A statement that waits
for a lock also ends such transactions. So the statement need not wait for a run of this DAG.
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
    :param hivex_conn_id: the id of the warehouse's connection
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
