"""Compaction as Airflow runs it: nothing is done twice or lost, whatever happens to a task."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, chain, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout, TaskDeferred

from airflow_hivex.core.errors import JobCancelledError
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.hooks import hivex as hooks
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.compaction import HivexCleanOperator, HivexCompactOperator
from airflow_hivex.operators.compaction_worker import HivexCompactionWorkerOperator
from airflow_hivex.sensors.compaction import HivexCompactionSensor, HivexCompactionThresholdSensor
from airflow_hivex.triggers.compaction import HivexCompactionThresholdTrigger, HivexCompactionTrigger
from tests.airflow.runs import context, kill_at, states, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

DAGS = Path(__file__).parents[2] / "dags"
TRANSACTIONAL = "'transactional' = 'true'"
FEW_DELTAS = "'compactorthreshold.hive.compactor.delta.num.threshold' = '1'"
ONLY_BY_HAND = f"{TRANSACTIONAL}, {FEW_DELTAS}, 'NO_AUTO_COMPACTION' = 'true'"

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@pytest.fixture
def metastore(warehouse: dict[str, Any]) -> Metastore:
    return HivexHook().get_metastore()


def fill(metastore: Metastore, table: str = "t", *, properties: str = TRANSACTIONAL, deltas: int = 2) -> None:
    """A table with a number of deltas of a row each."""
    with metastore.session() as session:
        session.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ({properties})")
        for number in range(deltas):
            session.sql(f"INSERT INTO {table} VALUES ({number})")


def ids(metastore: Metastore, table: str = "t") -> list[int]:
    with metastore.session() as session:
        return [row[0] for row in session.sql(f"SELECT id FROM {table} ORDER BY id").rows]


def directories(tmp_path: Path, place: str) -> list[str]:
    return sorted(path.name for path in (tmp_path / "c1" / "default.db" / place).iterdir() if path.is_dir())


def state(metastore: Metastore, compaction_id: int) -> CompactionState:
    return metastore.compactor.history.get(compaction_id).state


def returned(run: DagRun, task_id: str) -> Any:
    (ti,) = (ti for ti in run.get_task_instances() if ti.task_id == task_id)
    return ti.xcom_pull(task_ids=task_id)


def compaction_dag() -> DAG:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(DAGS))
    assert bag.import_errors == {}
    return bag.dags["hivex_compaction"]


# -- the DAG -----------------------------------------------------------------------


def test_dag_compacts_what_is_worth_it_and_what_was_asked_for(
    metastore: Metastore, run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    fill(metastore, "busy", properties=f"{TRANSACTIONAL}, {FEW_DELTAS}")
    fill(metastore, "calm")
    with metastore.session() as session:
        session.sql(f"CREATE TABLE days (id INT) PARTITIONED BY (day STRING) TBLPROPERTIES ({TRANSACTIONAL})")
        for number in range(2):
            session.sql(f"INSERT INTO days PARTITION (day = '1') VALUES ({number})")
    metastore.compactor.request("default", "days", "day=1", "minor")
    run = run_dag(compaction_dag())
    always = ("housekeep", "initiate", "find_waiting", "clean", "report")
    assert states(run) == dict.fromkeys((*always, "compact[0]", "compact[1]"), "success")
    found = {(each.table, each.partition, each.state) for each in metastore.compactor.show()}
    assert found == {("days", "day=1", CompactionState.SUCCEEDED), ("busy", None, CompactionState.SUCCEEDED)}
    made = [[name.partition("_v")[0] for name in directories(tmp_path, place)] for place in ("busy", "days/day=1")]
    assert made == [["base_0000003"], ["delete_delta_0000002_0000003", "delta_0000002_0000003"]]
    assert len(directories(tmp_path, "calm")) == 2
    assert [ids(metastore, table) for table in ("busy", "calm", "days")] == [[0, 1]] * 3
    assert returned(run, "report")["ready for cleaning"] == 2
    again = run_dag(compaction_dag())
    assert states(again) == dict.fromkeys(always, "success") | {"compact": "skipped"}
    assert str(again.state) == "success"


def test_failed_compaction_fails_its_task_and_run_and_nothing_else(
    metastore: Metastore, run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    fill(metastore, "damaged")
    fill(metastore, "whole")
    with metastore.session() as session:
        session.sql("DELETE FROM damaged WHERE id = 1")
    next((tmp_path / "c1" / "default.db" / "damaged").glob("delete_delta_*/bucket_*")).unlink()
    failed, done = (metastore.compactor.request("default", table).id for table in ("damaged", "whole"))
    run = run_dag(compaction_dag())
    assert states(run) == {
        **dict.fromkeys(("housekeep", "initiate", "find_waiting", "compact[1]", "clean"), "success"),
        "compact[0]": "failed",
        "report": "upstream_failed",
    }
    assert str(run.state) == "failed"
    assert (state(metastore, failed), state(metastore, done)) == (CompactionState.FAILED, CompactionState.SUCCEEDED)
    assert directories(tmp_path, "whole")[0].startswith("base_")


# -- workers -----------------------------------------------------------------------


def test_worker_goes_on_until_none_waits_or_it_has_done_enough(metastore: Metastore) -> None:
    for table in ("t1", "t2", "t3"):
        fill(metastore, table)
        metastore.compactor.request("default", table, pool="etl")

    def work(**arguments: Any) -> list[str]:
        operator = HivexCompactionWorkerOperator(task_id="t", **arguments)
        return [each["table"] for each in operator.execute(context())]

    assert work() == []
    assert work(compaction_pool="etl") == ["default.t1"]
    assert work(compaction_pool="etl", max_compactions=None) == ["default.t2", "default.t3"]
    with pytest.raises(AirflowFailException, match="max_compactions is 'many'"):
        work(max_compactions="many")
    with pytest.raises(AirflowFailException, match="no compaction 99"):
        work(compaction_id=99)


def test_task_that_is_killed_gives_its_compaction_back_and_a_retry_does_it(warehouse: dict[str, Any]) -> None:
    to_kill: list[HivexCompactionWorkerOperator] = []

    def fault(point: str) -> None:
        if point == "compaction started" and to_kill:
            to_kill.pop().on_kill()

    configuration = HivexHook().get_configuration()
    metastore = Metastore.open(
        configuration.url,
        clusters=configuration.clusters,
        default_cluster=configuration.default_cluster,
        settings=configuration.settings,
        fault=fault,
    )
    hooks.share_metastore(configuration, metastore)
    fill(metastore)
    compaction_id = metastore.compactor.request("default", "t").id
    operator = HivexCompactionWorkerOperator(task_id="t", compaction_id=str(compaction_id))
    to_kill.append(operator)
    with pytest.raises(JobCancelledError):
        operator.execute(context())
    assert state(metastore, compaction_id) is CompactionState.INITIATED
    assert ids(metastore) == [0, 1]
    (done,) = operator.execute(context(try_number=2))
    assert (done["compaction_id"], done["state"]) == (compaction_id, "ready for cleaning")
    # Cleared after it has succeeded: there is nothing to do any more.
    assert operator.execute(context(try_number=3)) == [done]
    assert ids(metastore) == [0, 1]


def test_retry_of_a_worker_that_died_waits_until_it_is_known_to_be_dead(metastore: Metastore) -> None:
    fill(metastore)
    compaction_id = metastore.compactor.request("default", "t").id
    operator = HivexCompactionWorkerOperator(task_id="t", compaction_id=compaction_id)
    kill_at("compaction started", operator)
    with pytest.raises(AirflowException, match="perhaps of an earlier try") as raised:
        operator.execute(context(try_number=2))
    assert not isinstance(raised.value, AirflowFailException)
    txn_id = metastore.compactor.history.get(compaction_id).txn_id
    metastore.transactions.abort(int(txn_id or 0), "its heartbeat was missed")
    (done,) = operator.execute(context(try_number=3))
    assert done["state"] == "ready for cleaning"
    assert ids(metastore) == [0, 1]


# -- requests ----------------------------------------------------------------------


def test_task_that_runs_again_asks_only_once(metastore: Metastore) -> None:
    fill(metastore)
    operator = HivexCompactOperator(task_id="t", table="t", properties={"compactor.hive.compactor.job.queue": "night"})
    first = operator.execute(context())
    assert first == {
        "compaction_id": 1,
        "table": "default.t",
        "partition": None,
        "type": "major",
        "state": "initiated",
        "message": None,
        "txn_id": None,
    }
    assert operator.execute(context(try_number=2)) == first
    with pytest.raises(AirflowException, match="It is a major one") as raised:
        HivexCompactOperator(task_id="t", table="default.t", compaction_type="minor").execute(context())
    assert not isinstance(raised.value, AirflowFailException)
    assert len(metastore.compactor.show()) == 1


def test_rebalance_is_asked_for_with_its_files_and_order(metastore: Metastore) -> None:
    fill(metastore)
    operator = HivexCompactOperator(
        task_id="t", table="t", compaction_type="rebalance", buckets="4", order_by="ID desc,"
    )
    assert operator.execute(context())["type"] == "rebalance"
    (entry,) = metastore.compactor.show()
    assert (entry.buckets, entry.order_by) == (4, "`ID` DESC")


def test_what_cannot_be_compacted_fails_without_a_retry(metastore: Metastore) -> None:
    fill(metastore, deltas=0)
    with metastore.session() as session:
        session.sql(f"CREATE TABLE days (id INT) PARTITIONED BY (day STRING) TBLPROPERTIES ({TRANSACTIONAL})")
        session.sql("ALTER TABLE days ADD PARTITION (day = '1')")
        session.sql("CREATE EXTERNAL TABLE files (id INT) USING csv LOCATION 'files'")
        session.sql("CREATE VIEW v AS SELECT id FROM t")
    nothing_to_wait_for: list[tuple[dict[str, Any], str]] = [
        ({"table": "nowhere"}, "nowhere"),
        ({"table": "a b"}, "Line 1"),
        ({"table": "v"}, "it is a view"),
        ({"table": "files"}, "it is an external table"),
        ({"table": "t@elsewhere"}, "it is a link"),
        ({"table": "t", "partition": "day=1"}, "partition"),
        ({"table": "days", "partition": "day=2"}, "day=2"),
    ]
    for arguments, reason in nothing_to_wait_for:
        with pytest.raises(AirflowFailException, match=reason):
            HivexCompactionThresholdSensor(task_id="t", deferrable=True, check_existence=True, **arguments).execute(
                context()
            )
    for arguments, reason in [
        *nothing_to_wait_for,
        ({"table": "days"}, "partition"),
        ({"table": "t", "compaction_type": "tiny"}, "tiny"),
        ({"table": "t", "buckets": "4"}, "for 'rebalance' only"),
        ({"table": "t", "compaction_type": "rebalance", "buckets": "4097"}, "1 to 4096 files"),
        ({"table": "t", "compaction_type": "rebalance", "buckets": "many"}, "buckets"),
        ({"table": "t", "compaction_type": "rebalance", "order_by": "nothing desc"}, "nothing"),
    ]:
        with pytest.raises(AirflowFailException, match=reason):
            HivexCompactOperator(task_id="t", **arguments).execute(context())
    assert metastore.compactor.show() == []


def test_task_that_waits_can_be_killed_and_its_compaction_stays(metastore: Metastore) -> None:
    fill(metastore, deltas=0)
    operator = HivexCompactOperator(
        task_id="t", table="t", wait_for_completion=True, deferrable=False, poll_interval=600
    )

    def kill() -> None:
        wait_until(lambda: bool(metastore.compactor.show()))
        os.kill(os.getpid(), signal.SIGUSR1)

    # As Airflow does it: in the main thread, on top of what that does.
    before = signal.signal(signal.SIGUSR1, lambda *_: operator.on_kill())
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(AirflowException, match="killed while it waited for compaction 1"):
            operator.execute(context())
    finally:
        killer.join()
        signal.signal(signal.SIGUSR1, before)
    assert state(metastore, 1) is CompactionState.INITIATED


def test_compaction_is_waited_for_in_the_triggerer(
    metastore: Metastore, run_dag: Callable[..., DagRun], when_waiting: Any
) -> None:
    fill(metastore)
    with DAG("hivex_compact_and_wait", schedule=None) as dag:
        HivexCompactOperator(
            task_id="compact",
            table="{{ params.table }}",
            params={"table": "t"},
            wait_for_completion=True,
            deferrable=True,
            poll_interval=0.05,
        )
    when_waiting("hivex_compact_and_wait", lambda: metastore.compactor.work())
    run = run_dag(dag)
    assert states(run) == {"compact": "success"}
    assert returned(run, "compact")["state"] == "ready for cleaning"


# -- sensors -----------------------------------------------------------------------


def test_sensor_waits_for_the_end_of_a_compaction_and_of_its_cleaning(metastore: Metastore) -> None:
    fill(metastore)
    compaction_id = metastore.compactor.request("default", "t").id

    def look(**arguments: Any) -> str:
        sensor = HivexCompactionSensor(
            task_id="t", compaction_id=compaction_id, timeout=0, poke_interval=0, deferrable=False, **arguments
        )
        return str(sensor.execute(context())["state"])

    with pytest.raises(AirflowSensorTimeout, match=f"no end of compaction {compaction_id} within 0 s"):
        look()
    metastore.compactor.work()
    assert look() == "ready for cleaning"
    with pytest.raises(AirflowSensorTimeout):
        look(until_cleaned=True)
    metastore.compactor.clean()
    assert look(until_cleaned=True) == "succeeded"


@pytest.mark.parametrize("deferrable", [True, False])
def test_compaction_that_will_not_be_done_is_not_waited_for(metastore: Metastore, deferrable: bool) -> None:
    fill(metastore, deltas=0)
    compaction_id = metastore.compactor.request("default", "t").id
    metastore.compactor.abort([compaction_id])
    cases: list[tuple[int | str, str]] = [
        (compaction_id, r"of default\.t is aborted"),
        (99, "no compaction 99"),
        ("x", "whole number"),
    ]
    for given, reason in cases:
        sensor = HivexCompactionSensor(task_id="t", compaction_id=given, deferrable=deferrable)
        with pytest.raises(AirflowFailException, match=reason):
            sensor.execute(context())


def test_partitions_that_need_it_are_compacted_where_the_initiator_may_not_act(
    metastore: Metastore, run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    with metastore.session() as session:
        session.sql(f"CREATE TABLE days (id INT) PARTITIONED BY (day STRING) TBLPROPERTIES ({ONLY_BY_HAND})")
        for day in ("1", "2", "2", "3", "3"):
            session.sql(f"INSERT INTO days PARTITION (day = '{day}') VALUES (1)")
    names_at_begin: set[str | None] = set()
    with DAG("hivex_compact_by_hand", schedule=None) as dag:
        needed = HivexCompactionThresholdSensor(task_id="needed", table="days", deferrable=False)

        @task
        def partitions_of(found: dict[str, Any]) -> list[dict[str, str]]:
            partitions: list[dict[str, str]] = found["partitions"]
            return partitions

        compact = HivexCompactOperator.partial(task_id="compact", table="days").expand_kwargs(
            partitions_of(needed.output)  # type: ignore[arg-type]
        )
        work = HivexCompactionWorkerOperator(task_id="work", max_compactions=None)
        ended = HivexCompactionSensor.partial(
            task_id="ended",
            deferrable=True,
            on_execute_callback=lambda context: names_at_begin.add(context["ti"].rendered_map_index),
        ).expand(compaction_id=compact.output)
        chain(compact, work, ended)
    run = run_dag(dag)
    done = [f"{task_id}[{index}]" for task_id in ("compact", "ended") for index in range(2)]
    assert states(run) == dict.fromkeys(("needed", "partitions_of", "work", *done), "success")
    names = {ti.rendered_map_index for ti in run.get_task_instances() if ti.task_id == "compact"}
    assert names == {"days (day=2)", "days (day=3)"}
    ended_names = {ti.rendered_map_index for ti in run.get_task_instances() if ti.task_id == "ended"}
    assert ended_names == names_at_begin == {"compaction 1", "compaction 2"}
    assert {(each["partition"], each["state"]) for each in returned(run, "work")} == {
        ("day=2", "ready for cleaning"),
        ("day=3", "ready for cleaning"),
    }
    assert [len(directories(tmp_path, f"days/day={day}")) for day in (1, 2, 3)] == [1, 3, 3]


def test_threshold_is_waited_for_also_where_the_initiator_may_not_act(metastore: Metastore) -> None:
    fill(metastore, properties=ONLY_BY_HAND, deltas=1)
    sensor = HivexCompactionThresholdSensor(task_id="t", table="t", timeout=0, poke_interval=0, deferrable=False)
    with pytest.raises(AirflowSensorTimeout, match="no threshold passed by t"):
        sensor.execute(context())
    with metastore.session() as session:
        session.sql("INSERT INTO t VALUES (2)")
    answer = sensor.execute(context())
    assert (answer["table"], answer["type"]) == ("default.t", "major")
    ((name, value),) = ((each["name"], each["value"]) for each in answer["thresholds"])
    assert "hive.compactor.delta.num.threshold" in name
    assert value == "2"
    assert metastore.compactor.initiate().initiated == ()


def test_deferred_sensors_give_their_triggers_all_they_need(metastore: Metastore) -> None:
    fill(metastore, deltas=0)
    compaction_id = metastore.compactor.request("default", "t").id
    sensors = {
        HivexCompactionTrigger: HivexCompactionSensor(
            task_id="a", compaction_id=str(compaction_id), until_cleaned=True, deferrable=True
        ),
        HivexCompactionThresholdTrigger: HivexCompactionThresholdSensor(task_id="b", table="t", deferrable=True),
    }
    for trigger, sensor in sensors.items():
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute(context())
        path, arguments = deferred.value.trigger.serialize()
        assert path == f"airflow_hivex.triggers.compaction.{trigger.__name__}"
        assert trigger(**arguments).serialize() == (path, arguments)


# -- cleaning ----------------------------------------------------------------------


def test_cleaner_names_who_is_in_the_way_and_deletes_later(metastore: Metastore, tmp_path: Path) -> None:
    fill(metastore)
    with metastore.session(agent_info="report.read daily_1 1") as reader:
        reader.sql("START TRANSACTION")
        assert reader.sql("SELECT count(*) FROM t").rows == [(2,)]
        metastore.compactor.request("default", "t")
        metastore.compactor.work()
        for plan_only in (True, False):
            (answer,) = HivexCleanOperator(task_id="t", plan_only=plan_only).execute(context())
            assert (answer["outcome"], answer["deleted"], answer["waiting"]) == ("waiting", 0, 2)
            assert "report.read daily_1 1" in answer["blockers"][0]
        reader.sql("ROLLBACK")
    (answer,) = HivexCleanOperator(task_id="t").execute(context())
    assert (answer["outcome"], answer["deleted"]) == ("cleaned", 2)
    assert len(directories(tmp_path, "t")) == 1
