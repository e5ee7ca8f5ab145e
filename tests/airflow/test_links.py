"""Links as Airflow runs them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.links import HivexAlterLinkOperator, HivexCreateLinkOperator, HivexDropLinkOperator
from airflow_hivex.sensors.links import HivexLinkedPartitionSensor
from airflow_hivex.triggers.links import HivexLinkedPartitionTrigger, look_at_link
from tests.airflow.runs import context, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

    from airflow_hivex.core.metastore import Metastore

pytestmark = pytest.mark.airflow


@pytest.fixture
def metastore(warehouse: dict[str, Any]) -> Metastore:
    found = HivexHook().get_metastore()
    with found.session() as session:
        session.sql("CREATE DATABASE b")
        session.sql("CREATE TABLE b.t (id INT) PARTITIONED BY (ds INT)")
        session.sql("INSERT INTO b.t VALUES (1, 1)")
    return found


def insert(metastore: Metastore, ds: int) -> None:
    with metastore.session() as session:
        session.sql(f"INSERT INTO b.t VALUES (1, {ds})")


def test_dag_makes_changes_waits_for_and_drops_a_link(run_dag: Callable[..., DagRun], metastore: Metastore) -> None:
    link = "{{ dag_run.conf['link'] }}"
    with DAG("links") as dag:
        (
            HivexCreateLinkOperator(task_id="create", link=link, properties={"RETENTION": "90"})
            >> HivexAlterLinkOperator(task_id="alter", link=link, add_partitions=["ds=01"])
            >> HivexLinkedPartitionSensor(task_id="wait", link=link, partitions="ds=1")
            >> HivexDropLinkOperator(task_id="drop", link=link)
        )
    run = run_dag(dag, run_conf={"link": "t@b"})
    assert set(states(run).values()) == {"success"}
    assert metastore.links.show("default") == []


def test_operators_may_be_repeated(metastore: Metastore) -> None:
    create = HivexCreateLinkOperator(task_id="a", link="t@b", static=True)
    assert create.execute(context()) == {
        "namespace": "default",
        "link": "t@b",
        "source": "b.t",
        "is_created": True,
    }
    assert create.execute(context())["is_created"] is False
    alter = HivexAlterLinkOperator(
        task_id="b", link="t@b", add_partitions=["ds=1"], drop_partitions=["ds=2"], properties={"RETENTION": "3"}
    )
    assert alter.execute(context())["added"] == ["ds=1"]
    assert alter.execute(context())["added"] == []
    assert metastore.links.get("default", "t@b").retention_days == 3
    drop = HivexDropLinkOperator(task_id="c", link="t@b")
    assert [drop.execute(context())["is_dropped"] for _ in range(2)] == [True, False]
    for wrong, match in (
        (HivexCreateLinkOperator(task_id="d", link="u@b"), "10001"),
        (HivexCreateLinkOperator(task_id="e", link="t@b", namespace="b"), "10130"),
        (HivexAlterLinkOperator(task_id="f", link="t@b", add_partitions=["ds=1"]), "has no link t@b"),
        (HivexLinkedPartitionSensor(task_id="g", link="t@b", partitions=["ds=1"], check_existence=True), "has no link"),
    ):
        with pytest.raises(AirflowFailException, match=match):
            wrong.execute(context())


def test_sensor_waits_until_the_partition_is_available_through_the_link(metastore: Metastore) -> None:
    metastore.links.create("default", "t@b")
    assert look_at_link("hivex_default", "t@b", None, ["ds=1"]) is None
    insert(metastore, 2)
    sensor = HivexLinkedPartitionSensor(task_id="s", link="t@b", partitions=["ds=02"], deferrable=False)
    assert sensor.execute(context())["partitions"] == ["ds=2"]
    trigger = HivexLinkedPartitionTrigger(
        link="t@b", partitions=["ds=3"], hivex_conn_id="hivex_default", poll_interval=0.05
    )
    path, arguments = trigger.serialize()
    assert path.endswith("HivexLinkedPartitionTrigger")

    async def waits() -> Any:
        waiting = asyncio.ensure_future(anext(HivexLinkedPartitionTrigger(**arguments).run()))
        await asyncio.to_thread(insert, metastore, 3)
        return (await asyncio.wait_for(waiting, 30)).payload

    assert asyncio.run(waits())["answer"]["partitions"] == ["ds=3"]
