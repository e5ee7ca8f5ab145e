"""Inlets, outlets and asset events of tasks that change tables without SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_hivex.assets.hivex import create_asset
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.compaction import HivexCompactOperator
from airflow_hivex.operators.links import HivexAlterLinkOperator, HivexCreateLinkOperator
from airflow_hivex.operators.namespaces import HivexImportNamespaceOperator, HivexMoveNamespaceOperator
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.replication import HivexReplicateOperator, HivexSetPrimaryClusterOperator
from tests.airflow.runs import context, events_of, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun
    from airflow.sdk import BaseOperator

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def source(warehouse: dict[str, Any]) -> None:
    """The namespace b with a table with partitions and one without."""
    with HivexHook().get_metastore().session() as session:
        session.sql("CREATE DATABASE b")
        session.sql("CREATE TABLE b.t (id INT) PARTITIONED BY (ds INT)")
        session.sql("INSERT INTO b.t VALUES (1, 1), (2, 2)")
        session.sql("CREATE TABLE b.whole (id INT)")
        session.sql("INSERT INTO b.whole VALUES (1)")
        session.sql("CREATE DATABASE d")


LINKS = """
CREATE LINK TO whole@b;
CREATE LINK IF NOT EXISTS TO whole@b;
CREATE LINK IF NOT EXISTS TO t@b;
ALTER LINK t@b ADD PARTITION (ds=1);
ALTER LINK t@b ADD IF NOT EXISTS PARTITION (ds=1);
ALTER LINK t@b ADD PARTITION (ds=2)
"""


def test_only_tasks_that_make_rows_available_send_events(
    store_dag: Callable[[DAG], None], run_dag: Callable[..., DagRun]
) -> None:
    names = ("b.t", "b.whole", "default.t@b", "default.whole@b", "d.t@b", "d.whole@b", "c.whole")
    with DAG(
        "links_consumer",
        schedule=[create_asset(table=each, name=each) for each in names],
        is_paused_upon_creation=False,
    ) as consumer:
        pass
    store_dag(consumer)
    with DAG("links_producer", schedule=None) as dag:
        (
            HivexCreateLinkOperator(task_id="empty", link="t@b")
            >> HivexCreateLinkOperator(task_id="whole", link="whole@b")
            >> HivexCreateLinkOperator(task_id="again", link="whole@b")
            >> HivexAlterLinkOperator(task_id="add", link="t@b", add_partitions=["ds=01"])
            >> HivexQueryOperator(task_id="statements", sql=f"USE d; {LINKS}")
            >> HivexQueryOperator(
                task_id="drop", sql="ALTER LINK t@b DROP PARTITION (ds=1); DROP LINK t@b", database="d"
            )
            >> HivexImportNamespaceOperator(
                task_id="bring", namespace="b", into="c", tables="whole", source_conn_id="hivex_default"
            )
        )
    run = run_dag(dag)
    assert set(states(run).values()) == {"success"}, states(run)
    assert events_of("b.t") == events_of("b.whole") == []
    assert events_of("default.t@b") == [(None, {"source": "b.t", "partitions": ["ds=1"]})]
    assert events_of("default.whole@b") == [(None, {"source": "b.whole", "partitions": []})]
    assert events_of("d.t@b") == [(None, {"source": "b.t", "partitions": ["ds=1", "ds=2"]})]
    assert events_of("d.whole@b") == [(None, {"source": "b.whole", "partitions": []})]
    assert events_of("c.whole") == [(None, {"imported_from": "hivex_default", "partitions": []})]


def inlets(operator: BaseOperator) -> list[str]:
    """Run an operator; return the tables of its inlets."""
    operator.execute(context())
    # Without an event of theirs, tables are not outlets: Airflow stores an event for each.
    assert operator.outlets == []
    return [each.uri.removeprefix("hivex://hivex_default/") for each in operator.inlets]


def test_tasks_declare_their_tables_as_inlets() -> None:
    with DAG("inlets"):
        link = HivexCreateLinkOperator(task_id="link", link="t@b")
        alter = HivexQueryOperator(task_id="alter", sql="ALTER LINK t@b SET LINKPROPERTIES ('RETENTION' = '9')")
        compact = HivexCompactOperator(task_id="compact", table="b.t", partition="ds=1")
        planned = HivexReplicateOperator(task_id="plan", tables="b.t", cluster="c2", dry_run=True)
        copy = HivexReplicateOperator(task_id="copy", tables=["b.T", "b.whole"], cluster="c2")
        primary = HivexSetPrimaryClusterOperator(task_id="primary", table="b.whole", cluster="c2")
        move = HivexMoveNamespaceOperator(task_id="move", namespace="b", cluster="c2")
    assert inlets(link) == ["b/t"]
    assert inlets(alter) == ["b/t"]
    assert inlets(compact) == ["b/t"]
    assert inlets(planned) == []
    assert inlets(copy) == ["b/t", "b/whole"]
    assert inlets(primary) == ["b/whole"]
    assert inlets(move) == ["b/t"]
