"""A DAG with one transaction over three tasks.

Three tasks write an order, its lines and a line of the journal to three tables. All rows become visible at once when
`load.commit` runs. With the configuration `{"fail": true}` a task fails, and no row becomes visible. `totals` and
`report` then do not run.

The DAG needs no connection: without `hivex_default` it creates a warehouse under `$AIRFLOW_HOME/hivex`. The DAG can be
run several times.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param, chain, dag, get_current_context, task

from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import HivexTransaction

CREATE_TABLES = """
CREATE DATABASE IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (run STRING, customer STRING) TBLPROPERTIES ('transactional' = 'true');
CREATE TABLE IF NOT EXISTS shop.order_lines (run STRING, article STRING, quantity INT)
TBLPROPERTIES ('transactional' = 'true');
CREATE TABLE IF NOT EXISTS shop.journal (run STRING, line STRING) TBLPROPERTIES ('transactional' = 'true');
"""

TOTALS = """
SELECT (SELECT count(*) FROM shop.orders) AS orders,
       (SELECT count(*) FROM shop.order_lines) AS order_lines,
       (SELECT count(*) FROM shop.journal) AS journal
"""


@task
def write_journal(txn_id: Any) -> None:
    """Write to the journal in the transaction of the task group. With the param ``fail``, raise an error."""
    from airflow.sdk.exceptions import AirflowFailException

    context = get_current_context()
    with HivexHook().session(txn_id=txn_id) as session:
        session.sql("INSERT INTO shop.journal VALUES (:run, 'an order came in')", {"run": context["run_id"]})
    if context["params"]["fail"]:
        raise AirflowFailException("The configuration of this run has asked for a failure.")


@task
def report(totals: Any) -> None:
    """Check that the totals fit: each run writes one order, two lines and one entry of the journal."""
    ((orders, lines, entries),) = totals["rows"]
    if not orders * 2 == lines == entries * 2:
        raise ValueError(f"{orders} orders, {lines} lines and {entries} entries were seen")


@dag(
    dag_id="hivex_transaction",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    tags=["hivex", "example"],
    params={"fail": Param(False, type="boolean")},
    default_args={"owner": "hivex", "retries": 1, "retry_delay": timedelta(seconds=10)},
)
def transaction_dag() -> None:
    """Define the tasks and their order."""
    create_tables = HivexQueryOperator(task_id="create_tables", sql=CREATE_TABLES)
    with HivexTransaction("load", timeout=timedelta(hours=2)) as transaction:
        order = HivexQueryOperator(
            task_id="order",
            sql="INSERT INTO shop.orders VALUES (:run, 'Ada')",
            parameters={"run": "{{ run_id }}"},
            transaction=transaction,
        )
        lines = HivexQueryOperator(
            task_id="lines",
            sql="INSERT INTO shop.order_lines VALUES (:run, 'pencil', 3), (:run, 'paper', 1)",
            parameters={"run": "{{ run_id }}"},
            transaction=transaction,
        )
        chain([order, lines], write_journal(transaction.txn_id))
    totals = HivexQueryOperator(task_id="totals", sql=TOTALS)
    chain(create_tables, transaction, totals)
    report(totals.output)
