"""Replication as Airflow runs it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.dags.replication import replication_dag
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.replication import HivexReplicateOperator, HivexSetPrimaryClusterOperator
from airflow_hivex.sensors.replication import HivexReplicaFreshnessSensor
from airflow_hivex.triggers.replication import HivexReplicaFreshnessTrigger, look_at_copy
from tests.airflow.runs import context, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.models.dagrun import DagRun

    from airflow_hivex.core.metastore import Metastore

pytestmark = pytest.mark.airflow


def test_operator_copies_and_returns_the_counts(warehouse: dict[str, Any]) -> None:
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id INT)")
        session.sql("INSERT INTO t VALUES (1)")
    with DAG("replication"):
        replicate = HivexReplicateOperator(task_id="replicate", tables="default.t", cluster="c2")
        wrong = HivexReplicateOperator(task_id="wrong", tables="default.t", cluster="c1")
    result = replicate.execute(context())
    assert result["tables"] == ["default.t"]
    assert result["files_copied"] > 0
    assert replicate.execute(context())["files_copied"] == 0
    assert {each.is_current for each in metastore.replicator.copies("default.t")} == {True}
    with pytest.raises(AirflowFailException, match="primary"):
        wrong.execute(context())


def test_dag_has_a_task_for_each_table_of_its_run(run_dag: Callable[..., DagRun], warehouse: dict[str, Any]) -> None:
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        for table in "ab":
            session.sql(f"CREATE TABLE {table} (id INT)")
            session.sql(f"INSERT INTO {table} VALUES (1)")
    run = run_dag(replication_dag("replication_of_two"), run_conf={"tables": ["default.a", "default.b"]})
    assert states(run) == {"choose_tables": "success", "replicate[0]": "success", "replicate[1]": "success"}
    named = {ti.rendered_map_index for ti in run.get_task_instances() if ti.task_id == "replicate"}
    assert named == {"default.a", "default.b"}
    for table in "ab":
        assert [each.is_current for each in metastore.replicator.copies(f"default.{table}")] == [True, True]


@pytest.fixture
def t(warehouse: dict[str, Any]) -> Metastore:
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id INT)")
        session.sql("INSERT INTO t VALUES (1)")
    return metastore


def insert(metastore: Metastore, number: int) -> None:
    with metastore.session() as session:
        session.sql(f"INSERT INTO t VALUES ({number})")


def test_dry_run_and_filter_choose_and_list_partitions(warehouse: dict[str, Any]) -> None:
    with HivexHook().get_metastore().session() as session:
        session.sql("CREATE TABLE p (id INT) PARTITIONED BY (ds INT)")
        for ds in (1, 2, 10):
            session.sql(f"INSERT INTO p PARTITION (ds = {ds}) VALUES (1)")
    with DAG("replication_of_some"):
        planned = HivexReplicateOperator(
            task_id="plan", tables="p", cluster="c2", partition_filter="ds >= 2", dry_run=True
        )
        some = HivexReplicateOperator(task_id="some", tables="p", cluster="c2", partition_filter="ds >= 2")
        none = HivexReplicateOperator(task_id="none", tables="p", cluster="c2", partition_filter="ds = 99")
        wrong = HivexReplicateOperator(task_id="wrong", tables="p", cluster="c2", partition_filter="ds =")
    result = planned.execute(context())
    assert [each["partition"] for each in result["directories"]] == ["ds=2", "ds=10"]
    assert result["files_copied"] == 0
    assert some.execute(context())["files_copied"] == sum(each["files"] for each in result["directories"])
    assert none.execute(context())["tables"] == []
    with pytest.raises(AirflowFailException, match="expected"):
        wrong.execute(context())


def test_dag_waits_for_a_fresh_copy_and_changes_the_primary(run_dag: Callable[..., DagRun], t: Metastore) -> None:
    with DAG("move") as dag:
        (
            HivexReplicateOperator(task_id="replicate", tables="default.t", cluster="{{ dag_run.conf['to'] }}")
            >> HivexReplicaFreshnessSensor(task_id="fresh", table="t", cluster="{{ dag_run.conf['to'] }}")
            >> HivexSetPrimaryClusterOperator(task_id="move", table="default.t", cluster="{{ dag_run.conf['to'] }}")
        )
    run = run_dag(dag, run_conf={"to": "c2"})
    assert states(run) == {"replicate": "success", "fresh": "success", "move": "success"}
    assert t.catalog.get_table("default", "t").storage.primary.cluster == "c2"


@pytest.mark.parametrize("deferrable", [True, False])
def test_sensor_returns_the_lag_that_is_accepted(t: Metastore, deferrable: bool) -> None:
    t.replicator.replicate("t", "c2")
    sensor = HivexReplicaFreshnessSensor(task_id="s", table="t", cluster="c2", deferrable=deferrable)
    assert sensor.execute(context())["commits"] == 0
    insert(t, 2)
    insert(t, 3)
    within = HivexReplicaFreshnessSensor(
        task_id="w", table="t", cluster="c2", max_lag=3600, max_lag_commits="2", deferrable=deferrable
    )
    answer = within.execute(context())
    assert (answer["commits"], answer["write_id"]) == (2, 2)
    assert 0 < answer["lag_s"] < 3600
    assert look_at_copy("hivex_default", "t", "c2", None, 3600, 1) is None
    assert look_at_copy("hivex_default", "t", "c2", None, 0, None) is None
    with pytest.raises(AirflowFailException, match="c9"):
        HivexReplicaFreshnessSensor(task_id="x", table="t", cluster="c9", deferrable=deferrable).execute(context())
    with pytest.raises(AirflowFailException, match="max_lag"):
        HivexReplicaFreshnessSensor(task_id="y", table="t", cluster="c2", max_lag="soon").execute(context())


def test_trigger_ends_when_the_copy_is_fresh(t: Metastore) -> None:
    trigger = HivexReplicaFreshnessTrigger(table="t", cluster="c2", hivex_conn_id="hivex_default", poll_interval=0.05)
    path, arguments = trigger.serialize()
    assert path.endswith("HivexReplicaFreshnessTrigger")

    async def waits() -> Any:
        again = HivexReplicaFreshnessTrigger(**arguments)
        waiting = asyncio.ensure_future(anext(again.run()))
        await asyncio.to_thread(t.replicator.replicate, "t", "c2")
        return (await asyncio.wait_for(waiting, 30)).payload

    assert asyncio.run(waits())["answer"]["cluster"] == "c2"


def test_forced_change_fails_with_the_losses_until_they_are_confirmed(t: Metastore, tmp_path: Path) -> None:
    t.replicator.replicate("t", "c2")
    insert(t, 2)
    (tmp_path / "c1").rename(tmp_path / "lost")
    with DAG("forced"):
        forced = HivexSetPrimaryClusterOperator(task_id="a", table="t", cluster="c2", force=True)
        with pytest.raises(AirflowFailException, match="CONFIRM") as refused:
            forced.execute(context())
        confirmation = str(refused.value).split("CONFIRM '")[1].split("'")[0]
        confirmed = HivexSetPrimaryClusterOperator(
            task_id="b", table="t", cluster="c2", force=True, confirm=confirmation
        )
    assert confirmed.execute(context())["lost_write_ids"] == [[3, 3]]
    assert confirmed.execute(context())["is_changed"] is False
