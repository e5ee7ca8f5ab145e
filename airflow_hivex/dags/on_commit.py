"""A DAG that runs after each commit to a table.

The triggerer polls the notification log of the warehouse. Each committed transaction that has written to the table
becomes an event of the asset `hivex://hivex_default/shop/orders`. These events start runs of the DAG. The task
`log_commits` logs the transactions and their write ids. The task `count` counts the rows of the table.

Run the DAG `hivex_transaction` to create the table and to make a commit.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow.sdk import DAG, get_current_context, task

from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.triggers.commits import watched_table

log = logging.getLogger(__name__)

TABLE = "shop.orders"


@task
def log_commits() -> list[dict[str, Any]]:
    """Return the commits that have started the run, oldest first."""
    events = get_current_context()["triggering_asset_events"]
    commits = [event.extra["payload"] for asset in events for event in events[asset] if "payload" in event.extra]
    # Airflow returns the events in any order.
    commits.sort(key=lambda commit: commit["event_id"])
    for commit in commits:
        log.info("Transaction %s at %s: %s", commit["txn_id"], commit["time"], commit["write_ids"])
    return commits


def on_commit_dag(table: str = TABLE, hivex_conn_id: str = "hivex_default", dag_id: str = "hivex_on_commit") -> DAG:
    """Return the DAG.

    :param table: ``database.table``
    :param hivex_conn_id: the connection of type ``hivex``
    :param dag_id: the DAG's id
    """
    with DAG(
        dag_id,
        schedule=watched_table(table, hivex_conn_id=hivex_conn_id),
        catchup=False,
        doc_md=__doc__,
        tags=["hivex", "example"],
        default_args={"owner": "hivex", "retries": 1},
    ) as dag:
        count = HivexQueryOperator(
            task_id="count",
            sql=f"SELECT count(*) FROM {table}",  # noqa: S608 - the author of the DAG names the table
            hivex_conn_id=hivex_conn_id,
        )
        log_commits() >> count
    return dag
