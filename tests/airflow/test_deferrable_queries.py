"""Queries and copies that leave the worker while a Spark Connect server runs their jobs."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralTimeout, TaskDeferred

from airflow_hivex.assets.hivex import create_asset
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.runners.running_jobs import count_jobs
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.namespaces import HivexMoveNamespaceOperator
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.replication import HivexReplicateOperator
from airflow_hivex.operators.transaction import HivexTransaction
from tests.airflow.runs import events_of, wait_until
from tests.connect_server import is_running, noted_operation, running_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.models.dagrun import DagRun

    from airflow_hivex.core.runners.connect_server import Server
    from airflow_hivex.operators.copying import CopyOperator
    from airflow_hivex.triggers.copying import HivexCopyTrigger
    from airflow_hivex.triggers.query import HivexQueryTrigger

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.evidence(cases=3, among="deferrable queries"),
]

INSERT = "INSERT INTO t SELECT CAST(id AS int) FROM range(10)"
ENDLESS = "INSERT INTO t SELECT CAST(sum(hash(id)) % 7 AS int) FROM range(0, 1000000000000, 1, 100000)"
SLOW = "INSERT INTO t SELECT CAST(sum(hash(a.id, b.id)) % 7 AS int) FROM range(20000) a CROSS JOIN range(10000) b"
COUNT = "SELECT count(*) FROM t"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def tracker(server: Server) -> str:
    return server.url


@pytest.fixture
def until_at_work(server: Server) -> Callable[[], None]:
    """A function that waits until the server works for a job.

    Spark loses track of a job that is cancelled while it begins: it runs on.
    """
    process = server.process
    assert process is not None
    before = process.cpu_times().user
    return lambda: wait_until(lambda: count_jobs("c1") > 0 and process.cpu_times().user > before + 4)


@pytest.fixture
def remote(tracker: str, warehouse: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection ``hivex_default`` to c1 on a Spark Connect server and c2 in the process; t is on c1."""
    warehouse["cluster_properties"]["c1"]["jobtracker"] = tracker
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": warehouse}))
    HivexHook().run("CREATE TABLE t (id int)")
    yield
    assert HivexHook().get_metastore().transactions.valid_txns().open_ids == ()


def context(try_number: int = 1) -> Any:
    ti = {"dag_id": "d", "task_id": "t", "run_id": "r", "try_number": try_number, "map_index": -1}
    return {"ti": SimpleNamespace(**ti)}


def query(sql: Any, **arguments: Any) -> HivexQueryOperator:
    return HivexQueryOperator(task_id="t", sql=sql, **{"deferrable": True} | arguments)


def deferred(run: Callable[[], Any]) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        run()
    return caught.value


def restored(deferral: TaskDeferred) -> HivexQueryTrigger:
    """The trigger as a triggerer makes it."""
    from airflow_hivex.triggers.query import HivexQueryTrigger

    path, arguments = deferral.trigger.serialize()
    assert path == "airflow_hivex.triggers.query.HivexQueryTrigger"
    return HivexQueryTrigger(**json.loads(json.dumps(arguments)))


async def event_of(trigger: HivexQueryTrigger | HivexCopyTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    raise AssertionError("the trigger yields no event")


def run_trigger(deferral: TaskDeferred) -> Any:
    return asyncio.run(event_of(restored(deferral)))


def resume(operator: HivexQueryOperator, deferral: TaskDeferred, event: Any, try_number: int = 1) -> Any:
    return operator.resume_execution(
        deferral.method_name, {"event": json.loads(json.dumps(event))}, context(try_number)
    )


def rows() -> list[tuple[object, ...]]:
    return HivexHook().run(COUNT).rows


@pytest.mark.usefixtures("remote")
def test_a_script_is_deferred_for_each_of_its_jobs(run_dag: Callable[..., DagRun]) -> None:
    script = """
    CREATE DATABASE shop; USE shop; CREATE TABLE s (id int, note string);
    INSERT INTO s SELECT CAST(id AS int), :note FROM range(10);
    INSERT INTO s VALUES (100, 'small');
    DELETE FROM s WHERE id < 5;
    SELECT note, count(*) AS n FROM s GROUP BY note ORDER BY note
    """
    with DAG("hivex_deferred", schedule=None) as dag:
        query(script, parameters={"note": "it's"}, execution_timeout=timedelta(minutes=5))
    (ti,) = run_dag(dag).get_task_instances()
    assert (ti.state, ti.try_number) == ("success", 1)
    result = ti.xcom_pull(task_ids="t")
    assert (result["columns"], result["rows"]) == (["note", "n"], [["it's", 5], ["small", 1]])
    assert result["cluster"] == "c1"
    history = HivexHook().run("SHOW STATEMENTS DAG 'hivex_deferred' TASK 't' ORDER BY id")
    kinds = ["CREATE DATABASE", "CREATE TABLE", "INSERT", "INSERT", "DELETE", "SELECT"]
    kind, status = history.columns.index("kind"), history.columns.index("status")
    assert [(row[kind], row[status]) for row in history.rows] == [(each, "succeeded") for each in kinds]


@pytest.mark.usefixtures("remote")
def test_statements_behind_objects_of_the_session_find_them(run_dag: Callable[..., DagRun]) -> None:
    script = f"""
    {INSERT};
    SET spark.sql.ansi.enabled = false;
    DECLARE lowest INT DEFAULT 8;
    CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2;
    CREATE TEMPORARY VIEW high AS SELECT twice(id) AS n FROM t WHERE id >= lowest;
    INSERT INTO t SELECT n FROM high;
    SET hivex.replica.max.lag = 60;
    SELECT count(*), sum(n), CAST('x' AS INT) FROM high
    """
    with DAG("hivex_deferred_objects", schedule=None) as dag:
        query(script)
    (ti,) = run_dag(dag).get_task_instances()
    assert ti.state == "success"
    assert ti.xcom_pull(task_ids="t")["rows"] == [[4, 102, None]]


@pytest.mark.usefixtures("remote")
def test_a_link_that_is_made_before_a_deferral_has_its_event(
    store_dag: Callable[[DAG], None], run_dag: Callable[..., DagRun]
) -> None:
    with DAG(
        "hivex_link_consumer",
        schedule=[create_asset(table="shop.t@default")],
        is_paused_upon_creation=False,
    ) as consumer:
        pass
    store_dag(consumer)
    script = f"CREATE DATABASE shop; USE shop; CREATE LINK TO t@default; {INSERT.replace(' t ', ' default.t ')}"
    with DAG("hivex_deferred_link", schedule=None) as dag:
        query(f"{script}; SELECT count(*) FROM t@default")
    (ti,) = run_dag(dag).get_task_instances()
    assert ti.state == "success"
    assert ti.xcom_pull(task_ids="t")["rows"] == [[10]]
    assert events_of("shop.t@default") == [(None, {"source": "default.t", "partitions": []})]


@pytest.mark.usefixtures("remote")
def test_tasks_of_a_group_are_deferred_in_its_transaction(run_dag: Callable[..., DagRun]) -> None:
    statements = [INSERT, "INSERT INTO t VALUES (11)"]
    with DAG("hivex_deferred_group", schedule=None) as dag, HivexTransaction("load") as transaction:
        fill = HivexQueryOperator(task_id="fill", sql=statements, transaction=transaction, deferrable=True)
        fill >> HivexQueryOperator(task_id="look", sql=COUNT, transaction=transaction, deferrable=True)
    run = run_dag(dag)
    assert {str(ti.state) for ti in run.get_task_instances()} == {"success"}
    (look,) = [ti for ti in run.get_task_instances() if ti.task_id == "load.look"]
    assert look.xcom_pull(task_ids="load.look")["rows"] == [[11]]
    assert rows() == [(11,)]


@pytest.mark.usefixtures("remote")
def test_the_function_of_a_task_is_called_once() -> None:
    calls = 0

    def function_task() -> Any:
        """The task as each process of Airflow makes it of the DAG file."""
        with DAG("hivex_deferred_function", schedule=None):

            @task.hivex_sql(task_id="t", deferrable=True)
            def counted() -> list[str]:
                nonlocal calls
                calls += 1
                return [INSERT, "INSERT INTO t VALUES (100)", f"SELECT count(*), {calls} AS call FROM t"]

            return counted().operator

    deferral = deferred(lambda: function_task().execute(context()))
    again = deferred(lambda: resume(function_task(), deferral, run_trigger(deferral)))
    assert resume(function_task(), again, run_trigger(again))["rows"] == [[11, 1]]
    assert calls == 1
    deferred(lambda: function_task().execute(context()))
    with pytest.raises(TaskDeferralTimeout):
        function_task().resume_execution("__fail__", {"error": "Trigger timeout"}, context())


@pytest.mark.usefixtures("remote")
def test_a_trigger_that_moves_to_another_triggerer_writes_once() -> None:
    operator = query(INSERT)
    deferral = deferred(lambda: operator.execute(context()))

    async def both() -> Any:
        # The triggerer that was taken for lost is alive, and knows nothing.
        first = asyncio.create_task(event_of(restored(deferral)))
        await asyncio.to_thread(wait_until, lambda: count_jobs("c1") > 0 or first.done())
        event = await event_of(restored(deferral))
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        return event

    event = asyncio.run(both())
    assert rows() == [(0,)]
    assert resume(operator, deferral, event)["rows_written"] == 10
    assert rows() == [(10,)]


@pytest.mark.usefixtures("remote")
def test_the_job_of_a_triggerer_that_ends_is_waited_for_by_the_next_one(
    warehouse: dict[str, Any], tracker: str
) -> None:
    operator = query(SLOW)
    deferral = deferred(lambda: operator.execute(context()))
    txn_id = restored(deferral).txn_id
    noted: list[Any] = []
    operation = partial(noted_operation, warehouse["metastore_url"], txn_id)

    async def both() -> Any:
        running = asyncio.create_task(event_of(restored(deferral)))
        await asyncio.to_thread(wait_until, lambda: is_running(operation(), tracker))
        noted.append(operation())
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return await event_of(restored(deferral))

    event = asyncio.run(both())
    # It was not repeated, and the first triggerer, which lives on, has left it alone.
    assert [operation()] == noted
    wait_until(lambda: count_jobs("c1") == 0)
    assert resume(operator, deferral, event)["rows_written"] == 1
    assert rows() == [(1,)]


@pytest.mark.usefixtures("remote")
def test_a_triggerer_that_ends_stops_a_job_that_no_one_can_wait_for(until_at_work: Callable[[], None]) -> None:
    operator = query("SELECT sum(hash(id)) FROM range(0, 1000000000000, 1, 100000)")
    deferral = deferred(lambda: operator.execute(context()))

    async def end() -> None:
        running = asyncio.create_task(event_of(restored(deferral)))
        await asyncio.to_thread(until_at_work)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await asyncio.to_thread(wait_until, lambda: count_jobs("c1") == 0)

    asyncio.run(end())
    txn_id = restored(deferral).txn_id
    assert HivexHook().get_metastore().transactions.valid_txns().open_ids == (txn_id,)
    # The time of the task is over.
    with pytest.raises(TaskDeferralTimeout):
        operator.resume_execution("__fail__", {"error": "Trigger timeout"}, context())


@pytest.mark.usefixtures("remote")
def test_a_user_who_ends_the_task_aborts_the_transaction_and_the_job(until_at_work: Callable[[], None]) -> None:
    trigger = restored(deferred(lambda: query(ENDLESS).execute(context())))

    async def kill() -> None:
        running = asyncio.create_task(event_of(trigger))
        await asyncio.to_thread(until_at_work)
        # As Airflow says it.
        running.cancel("user-action")
        await trigger.on_kill()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(kill())
    wait_until(lambda: count_jobs("c1") == 0)
    assert HivexHook().get_metastore().transactions.valid_txns().open_ids == ()


@pytest.mark.usefixtures("remote")
def test_a_retry_aborts_what_an_earlier_try_has_left() -> None:
    operator = query(INSERT)
    lost = deferred(lambda: operator.execute(context()))
    deferral = deferred(lambda: operator.execute(context(2)))
    assert HivexHook().get_metastore().transactions.valid_txns().open_ids == (restored(deferral).txn_id,)
    late = run_trigger(lost)
    assert (late["kind"], "repeated by d.t r 2" in late["error"]) == ("fatal", True)
    resume(operator, deferral, run_trigger(deferral), 2)
    assert rows() == [(10,)]


@pytest.mark.usefixtures("remote")
def test_a_statement_that_is_outrun_is_deferred_again() -> None:
    HivexHook().run(INSERT)
    metastore = HivexHook().get_metastore()
    operator = query("DELETE FROM t WHERE id < 5", conflict_retries=1)

    def outrun(deferral: TaskDeferred) -> Any:
        event = run_trigger(deferral)
        # A client that takes no locks is faster.
        (txn_id,) = metastore.transactions.open()
        metastore.transactions.allocate_write_ids([txn_id], "default", "t", operation=Operation.UPDATE)
        metastore.transactions.commit(txn_id)
        return event

    deferral = deferred(lambda: operator.execute(context()))
    event = outrun(deferral)
    again = deferred(lambda: resume(operator, deferral, event))
    assert restored(again).course["conflicts"] == 1
    event = outrun(again)
    with pytest.raises(AirflowException, match=r"conflict|committed|updated"):
        resume(operator, again, event)
    assert rows() == [(10,)]


@pytest.mark.usefixtures("remote")
def test_a_statement_that_is_wrong_fails_without_a_retry() -> None:
    operator = query("SELECT nothing_here FROM t")
    deferral = deferred(lambda: operator.execute(context()))
    event = run_trigger(deferral)
    with pytest.raises(AirflowFailException, match="nothing_here"):
        resume(operator, deferral, event)
    with pytest.raises(AirflowFailException, match="HivexTransaction"):
        query("START TRANSACTION; SELECT 1").execute(context())


@pytest.mark.usefixtures("remote")
def test_a_job_in_the_process_cannot_be_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    HivexHook().run("USE CLUSTER c2; CREATE TABLE u (id int); INSERT INTO u VALUES (1)")
    with pytest.raises(AirflowFailException, match=r"needs a cluster with a Spark Connect server.*c2 \(local\[2\]\)"):
        query("SELECT * FROM u", cluster="c2").execute(context())
    # Only the route of the statement shows it.
    operator = query("SELECT * FROM u")
    deferral = deferred(lambda: operator.execute(context()))
    event = run_trigger(deferral)
    with pytest.raises(AirflowFailException, match=r"cluster c2 cannot be left to a server.*deferrable=False"):
        resume(operator, deferral, event)
    # No statement of this task has asked for it.
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    operator = query("SELECT * FROM u", deferrable=None)
    deferral = deferred(lambda: operator.execute(context()))
    assert resume(operator, deferral, run_trigger(deferral))["rows"] == [[1]]


def copying(operator: type[CopyOperator], **arguments: Any) -> CopyOperator:
    return operator(task_id="t", cluster="c2", **{"copy_cluster": "c1", "deferrable": True} | arguments)


def trigger_of(deferral: TaskDeferred) -> HivexCopyTrigger:
    from airflow_hivex.triggers.copying import HivexCopyTrigger

    path, arguments = deferral.trigger.serialize()
    assert path == "airflow_hivex.triggers.copying.HivexCopyTrigger"
    return HivexCopyTrigger(**json.loads(json.dumps(arguments)))


@pytest.mark.usefixtures("remote")
def test_tasks_that_copy_are_deferred_while_a_server_copies() -> None:
    HivexHook().run("INSERT INTO t VALUES (1)")
    replicate = copying(HivexReplicateOperator, tables="default.t")
    deferral = deferred(lambda: replicate.execute(context()))
    event = asyncio.run(event_of(trigger_of(deferral)))
    answer = replicate.resume_execution(deferral.method_name, {"event": json.loads(json.dumps(event))}, context())
    assert answer["tables"] == ["default.t"]
    assert answer["files_copied"] > 0
    assert HivexHook().run("SELECT * FROM t", cluster="c2").rows == [(1,)]
    HivexHook().run("INSERT INTO t VALUES (2)")
    move = copying(HivexMoveNamespaceOperator, namespace="default")
    deferral = deferred(lambda: move.execute(context()))
    event = asyncio.run(event_of(trigger_of(deferral)))
    answer = move.resume_execution(deferral.method_name, {"event": json.loads(json.dumps(event))}, context())
    assert answer["is_changed"] is True
    assert HivexHook().get_metastore().catalog.get_table("default", "t").storage.primary.cluster == "c2"
    assert sorted(HivexHook().run("SELECT * FROM t").rows) == [(1,), (2,)]


@pytest.mark.usefixtures("remote")
def test_copies_are_deferred_to_a_server_alone_and_stop_with_their_trigger() -> None:
    with pytest.raises(AirflowFailException, match="Spark Connect server, and those of c2 do not"):
        copying(HivexReplicateOperator, tables="default.t", copy_cluster="c2").execute(context())
    with pytest.raises(ValueError, match="needs copy_cluster"):
        copying(HivexReplicateOperator, tables="default.t", copy_cluster=None)
    missing = copying(HivexReplicateOperator, tables="default.missing")
    deferral = deferred(lambda: missing.execute(context()))
    event = asyncio.run(event_of(trigger_of(deferral)))
    with pytest.raises(AirflowFailException, match=r"default\.missing"):
        missing.resume_execution(deferral.method_name, {"event": event}, context())
    HivexHook().run("INSERT INTO t VALUES (1)")
    # A byte per second would take minutes.
    trigger = trigger_of(
        deferred(
            lambda: copying(HivexReplicateOperator, tables="default.t", bytes_per_second=1, threads=1).execute(
                context()
            )
        )
    )

    async def cancel() -> None:
        running = asyncio.create_task(event_of(trigger))
        await asyncio.to_thread(wait_until, lambda: count_jobs("c1") > 0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    wait_until(lambda: HivexHook().get_metastore().transactions.valid_txns().open_ids == ())
    # A task of the cancelled job may have published its file before it ended: such a file is taken over, not copied.
    HivexReplicateOperator(task_id="t", tables="default.t", cluster="c2").execute(context())
    assert HivexHook().run("SELECT * FROM t", cluster="c2").rows == [(1,)]


def test_deferrable_must_be_a_truth_value() -> None:
    with pytest.raises(ValueError, match="deferrable"):
        query("SELECT 1", deferrable="yes")
