"""Sensors end when what they wait for is committed, in whatever way they wait."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException, TaskDeferred

from airflow_hivex.core.errors import StoreUnavailableError
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.sensors.capacity import HivexQuotaSensor
from airflow_hivex.sensors.compaction import HivexCompactionThresholdSensor
from airflow_hivex.sensors.links import HivexLinkedPartitionSensor
from airflow_hivex.sensors.replication import HivexReplicaFreshnessSensor
from airflow_hivex.sensors.transactions import HivexTableCommitSensor, HivexTransactionSensor
from airflow_hivex.triggers.transactions import HivexTableCommitTrigger, HivexTransactionTrigger
from tests.airflow.runs import create_run_without_date, go_on, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.sensors.transactions import HivexSensor

pytestmark = pytest.mark.airflow

DAYS = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 6)]


@pytest.fixture
def metastore(warehouse: dict[str, Any]) -> Metastore:
    """The tables sales, and events, which is partitioned by day."""
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        session.sql("CREATE TABLE sales (id INT) TBLPROPERTIES ('transactional' = 'true')")
        session.sql("CREATE TABLE events (id INT) PARTITIONED BY (day STRING) TBLPROPERTIES ('transactional' = 'true')")
    return metastore


def insert(metastore: Metastore, target: str = "sales") -> int:
    """Commit a row, and return its write id."""
    with metastore.session() as session:
        session.sql(f"INSERT INTO {target} VALUES (1)")
    return metastore.commits.mark("default", target.split()[0]).write_id


def context(logical_date: datetime | None = DAYS[0]) -> Any:
    return {"ti": SimpleNamespace(map_index=-1), "dag_run": SimpleNamespace(logical_date=logical_date)}


def states(run: DagRun) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def returned(run: DagRun, task_id: str) -> Any:
    (ti,) = (ti for ti in run.get_task_instances() if ti.task_id == task_id)
    return ti.xcom_pull(task_ids=task_id)


def test_committed_transaction_is_returned_at_once(metastore: Metastore) -> None:
    (txn_id,) = metastore.transactions.open()
    metastore.transactions.commit(txn_id)
    for given in (txn_id, str(txn_id)):
        for deferrable in (True, False):
            sensor = HivexTransactionSensor(task_id="t", txn_id=given, deferrable=deferrable)
            assert sensor.execute(context()) == {"txn_id": txn_id}


@pytest.mark.parametrize("deferrable", [True, False])
@pytest.mark.parametrize(
    ("txn_id", "reason"),
    [
        (99, "no transaction 99"),
        ("7; --", "whole number"),
        (0, "whole number"),
        (-1, "whole number"),
        (None, "whole number"),
        (10**30, "no transaction 1000"),
    ],
)
def test_transaction_that_cannot_be_is_not_waited_for(
    metastore: Metastore, txn_id: Any, reason: str, deferrable: bool
) -> None:
    with pytest.raises(AirflowFailException, match=reason):
        HivexTransactionSensor(task_id="t", txn_id=txn_id, deferrable=deferrable).execute(context())


@pytest.mark.parametrize("deferrable", [True, False])
def test_aborted_transaction_fails_with_its_reason(metastore: Metastore, deferrable: bool) -> None:
    (txn_id,) = metastore.transactions.open()
    metastore.transactions.abort(txn_id, "a colleague stumbled")
    sensor = HivexTransactionSensor(task_id="t", txn_id=txn_id, deferrable=deferrable)
    with pytest.raises(AirflowFailException, match="a colleague stumbled"):
        sensor.execute(context())
    soft = HivexTransactionSensor(task_id="t", txn_id=txn_id, deferrable=deferrable, soft_fail=True)
    with pytest.raises(AirflowSkipException):
        soft.execute(context())


def test_time_out_names_what_was_waited_for(metastore: Metastore) -> None:
    (txn_id,) = metastore.transactions.open()
    sensor = HivexTransactionSensor(task_id="t", txn_id=txn_id, timeout=0, poke_interval=0)
    with pytest.raises(AirflowSensorTimeout, match=f"no commit of transaction {txn_id} within 0 s"):
        sensor.execute(context())


@pytest.mark.parametrize("waiting", [{"deferrable": True}, {"mode": "reschedule"}], ids=["deferrable", "reschedule"])
def test_open_transaction_is_waited_for_outside_of_the_worker(
    metastore: Metastore, run_dag: Callable[..., DagRun], when_waiting: Any, waiting: dict[str, Any]
) -> None:
    (txn_id,) = metastore.transactions.open()
    dag_id = f"hivex_waits_{'_'.join(waiting)}"
    with DAG(dag_id, schedule=None) as dag:
        HivexTransactionSensor(task_id="wait", txn_id=txn_id, poke_interval=0.05, timeout=60, **waiting)
    when_waiting(dag_id, lambda: metastore.transactions.commit(txn_id))
    run = run_dag(dag)
    assert states(run) == {"wait": "success"}
    assert returned(run, "wait") == {"txn_id": txn_id}


def test_transaction_that_is_aborted_while_deferred_fails_without_a_retry(
    metastore: Metastore, run_dag: Callable[..., DagRun], when_waiting: Any
) -> None:
    (txn_id,) = metastore.transactions.open()
    with DAG("hivex_waits_in_vain", schedule=None) as dag:
        HivexTransactionSensor(task_id="wait", txn_id=txn_id, poke_interval=0.05, deferrable=True, retries=3)
    when_waiting("hivex_waits_in_vain", lambda: metastore.transactions.abort(txn_id))
    assert [(ti.state, ti.try_number) for ti in run_dag(dag).get_task_instances()] == [("failed", 1)]


def test_deferred_sensor_gives_its_trigger_all_it_needs(metastore: Metastore) -> None:
    sensor = HivexTableCommitSensor(task_id="t", table="sales", after_write_id="7", deferrable=True, timeout=60)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context())
    path, arguments = deferred.value.trigger.serialize()
    assert path == "airflow_hivex.triggers.transactions.HivexTableCommitTrigger"
    assert HivexTableCommitTrigger(**arguments).serialize() == (path, arguments)
    assert (arguments["since"], deferred.value.timeout.total_seconds()) == (7, 60)


def run_trigger(trigger: Any, action: Callable[[], None]) -> Any:
    """The payload of the trigger's event; the action is done while it waits."""

    async def drive() -> Any:
        events = trigger.run()
        task = asyncio.create_task(anext(events))
        finished, _ = await asyncio.wait({task}, timeout=0.3)
        assert not finished
        await asyncio.to_thread(action)
        event = await asyncio.wait_for(task, timeout=60)
        await events.aclose()
        await trigger.cleanup()
        return event.payload

    return asyncio.run(drive())


def test_trigger_waits_for_the_commit(metastore: Metastore) -> None:
    (txn_id,) = metastore.transactions.open()
    trigger = HivexTransactionTrigger(txn_id=txn_id, hivex_conn_id="hivex_default", poll_interval=0.02)
    payload = run_trigger(trigger, lambda: metastore.transactions.commit(txn_id))
    assert payload == {"answer": {"txn_id": txn_id}}


def test_trigger_waits_while_the_metastore_is_away(
    metastore: Metastore, warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    (txn_id,) = metastore.transactions.open()
    metastore.transactions.commit(txn_id)
    away = warehouse | {"metastore_url": "postgresql+psycopg://u@127.0.0.1:1/none"}
    back = json.dumps({"conn_type": "hivex", "extra": warehouse})
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": away}))
    with pytest.raises(StoreUnavailableError):
        HivexTransactionSensor(task_id="t", txn_id=txn_id, deferrable=True).execute(context())
    trigger = HivexTransactionTrigger(txn_id=txn_id, hivex_conn_id="hivex_default", poll_interval=0.02)
    payload = run_trigger(trigger, lambda: monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", back))
    assert payload == {"answer": {"txn_id": txn_id}}


def test_killed_sensor_and_trigger_leave_the_transaction_alone(metastore: Metastore) -> None:
    (txn_id,) = metastore.transactions.open()
    HivexTransactionSensor(task_id="t", txn_id=txn_id).on_kill()
    trigger = HivexTransactionTrigger(txn_id=txn_id, hivex_conn_id="hivex_default", poll_interval=1)
    asyncio.run(trigger.on_kill())
    asyncio.run(trigger.cleanup())
    assert metastore.transactions.get(txn_id).state.name == "OPEN"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"table": "nowhere", "check_existence": True}, "nowhere"),
        ({"table": "nowhere.sales", "check_existence": True}, "nowhere"),
        ({"table": "sales", "partition": "day=1"}, "no partition keys"),
        ({"table": "events", "partition": "hour=1"}, "partition keys of default.events are day"),
        ({"table": "sales", "after_write_id": "x"}, "after_write_id"),
    ],
)
@pytest.mark.parametrize("deferrable", [True, False])
def test_commit_that_cannot_come_is_not_waited_for(
    metastore: Metastore, arguments: dict[str, Any], reason: str, deferrable: bool
) -> None:
    sensor = HivexTableCommitSensor(task_id="t", deferrable=deferrable, **({"after_write_id": 0} | arguments))
    with pytest.raises(AirflowFailException, match=reason):
        sensor.execute(context())


OBJECT_SENSORS: list[tuple[type[HivexSensor], dict[str, Any]]] = [
    (HivexTableCommitSensor, {"table": "later", "after_write_id": 0}),
    (HivexTableCommitSensor, {"table": "nowhere.later", "after_write_id": 0}),
    (HivexLinkedPartitionSensor, {"link": "later@nowhere", "partitions": "day=1"}),
    (HivexLinkedPartitionSensor, {"link": "later@default", "partitions": "day=1", "namespace": "nowhere"}),
    (HivexReplicaFreshnessSensor, {"table": "later", "cluster": "local"}),
    (HivexCompactionThresholdSensor, {"table": "later"}),
    (HivexCompactionThresholdSensor, {"table": "events", "partition": "day=1"}),
    (HivexQuotaSensor, {"namespace": "nowhere", "check_existence": False}),
]


@pytest.mark.parametrize(("sensor", "arguments"), OBJECT_SENSORS)
def test_missing_object_is_waited_for_unless_it_must_exist(
    metastore: Metastore, sensor: type[HivexSensor], arguments: dict[str, Any]
) -> None:
    if "cluster" in arguments:
        arguments = arguments | {"cluster": next(iter(metastore.clusters))}
    with pytest.raises(TaskDeferred) as deferred:
        sensor(task_id="t", deferrable=True, **arguments).execute(context())
    _, trigger = deferred.value.trigger.serialize()
    assert trigger["check_existence"] is False
    with pytest.raises(AirflowSensorTimeout):
        sensor(task_id="t", timeout=0, poke_interval=0, **arguments).execute(context())
    for deferrable in (True, False):
        with pytest.raises(AirflowFailException, match=r"nowhere|later|day=1"):
            sensor(task_id="t", deferrable=deferrable, **arguments | {"check_existence": True}).execute(context())


@pytest.mark.parametrize(
    "waiting",
    [{"deferrable": True}, {"mode": "reschedule"}, {"mode": "poke"}],
    ids=["deferrable", "reschedule", "poke"],
)
def test_table_that_is_made_later_is_waited_for(
    metastore: Metastore, run_dag: Callable[..., DagRun], when_running: Any, waiting: dict[str, Any]
) -> None:
    dag_id = f"hivex_waits_for_a_table_{'_'.join(map(str, waiting.values()))}"
    with DAG(dag_id, schedule=None) as dag:
        HivexTableCommitSensor(task_id="wait", table="later", poke_interval=0.05, timeout=60, **waiting)

    def create() -> None:
        with metastore.session() as session:
            session.sql("CREATE TABLE later (id INT) TBLPROPERTIES ('transactional' = 'true')")
        insert(metastore, "later")

    when_running(dag_id, create)
    run = run_dag(dag)
    assert states(run) == {"wait": "success"}
    assert returned(run, "wait")["table"] == "default.later"


def test_table_that_is_dropped_and_made_again_is_waited_for(metastore: Metastore) -> None:
    mark = metastore.commits.mark("default", "sales").to_json()
    trigger = HivexTableCommitTrigger(table="sales", since=mark, hivex_conn_id="hivex_default", poll_interval=0.02)

    def make_again() -> None:
        with metastore.session() as session:
            session.sql("DROP TABLE sales")
            wait_until(lambda: trigger.is_missing)
            session.sql("CREATE TABLE sales (id INT) TBLPROPERTIES ('transactional' = 'true')")
            wait_until(lambda: not trigger.is_missing)
        insert(metastore)

    answer = run_trigger(trigger, make_again)["answer"]
    assert answer["write_id"] == metastore.commits.mark("default", "sales").write_id


def test_runs_without_logical_dates_wait_for_what_the_last_success_has_not_seen(
    metastore: Metastore, store_dag: Callable[[DAG], None]
) -> None:
    fails: list[str] = []
    with DAG("hivex_since_without_dates", schedule=None) as dag:

        @task
        def work() -> None:
            if fails:
                raise RuntimeError(fails.pop())

        HivexTableCommitSensor(task_id="wait", table="sales", timeout=0, poke_interval=0) >> work()
    store_dag(dag)
    insert(metastore)
    runs = [go_on(dag, create_run_without_date(dag)) for _ in range(2)]
    insert(metastore)
    # A run that fails has seen nothing.
    fails.append("once")
    runs += [go_on(dag, create_run_without_date(dag)) for _ in range(3)]
    assert [states(run)["wait"] for run in runs] == ["success", "failed", "success", "success", "failed"]


def test_commit_after_a_write_id_is_waited_for(metastore: Metastore) -> None:
    first = insert(metastore)
    trigger = HivexTableCommitTrigger(table="sales", since=first, hivex_conn_id="hivex_default", poll_interval=0.02)
    answer = run_trigger(trigger, lambda: insert(metastore) and None)["answer"]
    assert (answer["table"], answer["partition"], answer["write_id"]) == ("default.sales", None, first + 1)
    sensor = HivexTableCommitSensor(task_id="t", table="default.sales", after_write_id=first)
    assert sensor.execute(context()) == answer


def test_commit_to_another_partition_is_not_enough(metastore: Metastore) -> None:
    insert(metastore, "events PARTITION (day='1')")
    sensor = HivexTableCommitSensor(
        task_id="t", table="events", partition="day=2", after_write_id=0, timeout=0, poke_interval=0
    )
    with pytest.raises(AirflowSensorTimeout, match=r"events \(day=2\)"):
        sensor.execute(context())
    insert(metastore, "events PARTITION (day='2')")
    assert sensor.execute(context())["partition"] == "day=2"


def test_each_successful_run_waits_for_what_the_last_one_has_not_seen(
    metastore: Metastore, run_dag: Callable[..., DagRun]
) -> None:
    with DAG("hivex_since_last_run", schedule=None) as dag:
        HivexTableCommitSensor(task_id="wait", table="sales", timeout=0, poke_interval=0)
    write_id = insert(metastore)
    first, second = (run_dag(dag, logical_date=day) for day in DAYS[:2])
    assert (states(first), states(second)) == ({"wait": "success"}, {"wait": "failed"})
    assert returned(first, "wait")["write_id"] == write_id
    early, late = metastore.transactions.open(2)
    metastore.transactions.allocate_write_ids([early, late], "default", "sales")
    insert(metastore)
    third, fourth = (run_dag(dag, logical_date=day) for day in DAYS[2:4])
    assert (states(third), states(fourth)) == ({"wait": "success"}, {"wait": "failed"})
    assert returned(third, "wait")["mark"]["open_ids"] == [write_id + 1, write_id + 2]


def test_run_that_skipped_its_sensor_has_seen_nothing_new(metastore: Metastore, run_dag: Callable[..., DagRun]) -> None:
    with DAG("hivex_since_skipped_run", schedule=None) as dag:
        HivexTableCommitSensor(task_id="wait", table="sales", timeout=0, poke_interval=0, soft_fail=True)
    insert(metastore)
    found = [states(run_dag(dag, logical_date=day))["wait"] for day in DAYS[:3]]
    insert(metastore)
    found += [states(run_dag(dag, logical_date=day))["wait"] for day in DAYS[3:]]
    assert found == ["success", "skipped", "skipped", "success", "skipped"]
