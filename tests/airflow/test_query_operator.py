from __future__ import annotations

import json
import os
import signal
import threading
import time
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.log import mask_secret
from pyspark import SparkContext

from airflow_hivex.assets.hivex import create_asset
from airflow_hivex.core.errors import (
    HivexError,
    RoutingError,
    StoreUnavailableError,
    WriteConflictError,
)
from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.hooks import hivex as hooks
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators import query
from airflow_hivex.operators.query import HivexQueryOperator, agent_info
from airflow_hivex.operators.transaction import HivexTransaction
from tests.airflow.runs import events_of
from tests.waiting import wait_for_no_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.models.dagrun import DagRun

CLUSTERS = {"c1": {"filesystem": "file:///nonexistent/c1", "jobtracker": "local[2]"}}

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

CREATE = """
CREATE TABLE sales (id INT, amount DECIMAL(38,18), day DATE, at TIMESTAMP, note STRING)
STORED AS ORC TBLPROPERTIES ('transactional' = 'true');
"""


def context(**fields: Any) -> Any:
    defaults = {"dag_id": "d", "task_id": "t", "run_id": "r", "try_number": 1, "map_index": -1}
    return {"ti": SimpleNamespace(**defaults | fields)}


def execute(sql: Any, **arguments: Any) -> dict[str, Any]:
    return HivexQueryOperator(task_id="t", sql=sql, **arguments).execute(context())


def states(run: DagRun) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def test_query_runs_in_a_dag_and_its_rows_reach_the_next_task(
    warehouse: dict[str, Any], run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    (tmp_path / "insert.sql").write_text(
        "INSERT INTO sales VALUES (1, {{ params.amount }}, DATE '2013-01-31', TIMESTAMP '2013-01-31 05:00:00', :note)"
    )
    seen: dict[str, Any] = {}
    with DAG("hivex_query", schedule=None, template_searchpath=str(tmp_path)) as dag:
        create = HivexQueryOperator(task_id="create", sql=CREATE, cluster="c2")
        insert = HivexQueryOperator(
            task_id="insert",
            sql="insert.sql",
            params={"amount": "12345678901234567890.123456789012345678"},
            parameters={"note": "{{ dag.dag_id }}; it's"},
        )
        select = HivexQueryOperator(task_id="select", sql=["USE default", "SELECT * FROM sales"])

        @task
        def look(result: dict[str, Any]) -> None:
            seen.update(result)

        create >> insert >> select
        look(select.output)
    run = run_dag(dag)
    assert states(run) == dict.fromkeys(("create", "insert", "select", "look"), "success")
    assert seen["columns"] == ["id", "amount", "day", "at", "note"]
    ((identity, amount, day, at, note),) = seen["rows"]
    assert (identity, amount, day) == (1, "12345678901234567890.123456789012345678", "2013-01-31")
    assert at.startswith("2013-01-31T05:00:00")
    assert note == "hivex_query; it's"
    assert (seen["cluster"], seen["truncated"]) == ("c2", False)


def test_insert_returns_rows_written_cluster_and_transaction(warehouse: dict[str, Any]) -> None:
    execute(CREATE)
    result = execute("INSERT INTO sales (id) VALUES (1), (2), (3)")
    assert (result["rows_written"], result["cluster"], result["rows"]) == (3, "c1", [])
    assert isinstance(result["txn_id"], int)
    assert result["rows_deleted"] is None
    json.dumps(result, allow_nan=False)


def test_no_more_than_max_rows_come_back(warehouse: dict[str, Any]) -> None:
    execute([CREATE, "INSERT INTO sales (id) VALUES (1), (2), (3)"])
    sql = "SELECT id FROM sales ORDER BY id"
    assert execute(sql, max_rows=2)["rows"] == [[1], [2]]
    assert execute(sql, max_rows=2)["truncated"] is True
    assert execute(sql, max_rows=3)["truncated"] is False
    assert execute(sql, max_rows=0)["rows"] == []


@pytest.mark.parametrize("max_rows", [-1, "10", None, True])
def test_max_rows_must_be_a_number_of_rows(max_rows: Any) -> None:
    with pytest.raises(ValueError, match="max_rows"):
        HivexQueryOperator(task_id="t", sql="SELECT 1", max_rows=max_rows)


def test_statements_of_a_script_share_database_and_parameters(warehouse: dict[str, Any]) -> None:
    result = execute(
        """
        CREATE DATABASE shop; USE shop;
        CREATE TABLE t (a INT, b STRING) TBLPROPERTIES ('transactional' = 'true');  -- a ; in a comment
        INSERT INTO t VALUES (:a, 'x;y'), (2, :b);
        SELECT b FROM t WHERE a = :a;
        """,
        parameters={"a": 1, "b": "z"},
    )
    assert result["rows"] == [["x;y"]]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELEC 1", "Line 1, column 1"),
        ("", "no statement"),
        (" ; -- nothing\n", "no statement"),
        ([], "no statement"),
        ("USE CLUSTER c9", "c9"),
        ("SELECT :a", ":a"),
    ],
)
def test_statement_that_is_wrong_fails_without_a_retry(warehouse: dict[str, Any], sql: Any, reason: str) -> None:
    with pytest.raises(AirflowFailException) as raised:
        execute(sql)
    assert reason in str(raised.value)


def test_statement_that_is_wrong_is_not_retried_by_airflow(
    warehouse: dict[str, Any], run_dag: Callable[..., DagRun], capfd: pytest.CaptureFixture[str]
) -> None:
    with DAG("hivex_fails", schedule=None) as dag:
        HivexQueryOperator(task_id="wrong", sql="SELECT * FROM nowhere", retries=3, retry_delay=timedelta(hours=1))
    run = run_dag(dag)
    assert [(ti.state, ti.try_number) for ti in run.get_task_instances()] == [("failed", 1)]
    output = "".join(capfd.readouterr())
    assert output.count("Traceback (most recent call last)") == 1
    assert "alembic" not in output


def test_parameters_that_no_statement_uses_are_reported_and_skipped(warehouse: dict[str, Any]) -> None:
    assert execute("SELECT :a AS a", parameters={"a": 1, "b": 2})["rows"] == [[1]]
    assert HivexHook().run("SELECT 1 AS a", parameters={"b": 2}).rows == [(1,)]


def test_session_of_a_task_is_shown_with_dag_run_and_try(
    warehouse: dict[str, Any], run_dag: Callable[..., DagRun]
) -> None:
    seen: list[Any] = []
    with DAG("hivex_agent", schedule=None) as dag:

        @task
        def look() -> None:
            with HivexHook().session() as session:
                session.sql("START TRANSACTION")
                seen.extend(session.sql("SHOW TRANSACTIONS").rows)

        look()
    run = run_dag(dag)
    assert [row[-1] for row in seen] == [f"hivex_agent.look {run.run_id} 1"]


def test_history_masks_what_airflow_masks(warehouse: dict[str, Any]) -> None:
    mask_secret("kept-by-airflow")
    with pytest.raises(AirflowFailException):
        execute("SELECT 'kept-by-airflow' FROM nothing")
    shown = HivexHook().run("SHOW STATEMENTS STATUS 'failed'")
    assert [row[shown.columns.index("text")] for row in shown.rows] == ["SELECT '***' FROM nothing"]


def test_failure_that_may_pass_is_left_to_airflows_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"metastore_url": "postgresql+psycopg://u@127.0.0.1:1/none", "cluster_properties": CLUSTERS}
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    with pytest.raises(StoreUnavailableError):
        execute("SHOW DATABASES")


def test_join_of_two_clusters_fails_with_what_each_one_lacks(warehouse: dict[str, Any]) -> None:
    create = "CREATE TABLE {} (id INT) TBLPROPERTIES ('transactional' = 'true')"
    execute(create.format("left_side"), cluster="c1")
    execute(create.format("right_side"), cluster="c2")
    with pytest.raises(AirflowFailException) as raised:
        execute("SELECT * FROM left_side JOIN right_side USING (id)")
    assert isinstance(raised.value.__context__, RoutingError)
    assert "default.left_side" in str(raised.value)
    assert "default.right_side" in str(raised.value)


ENDLESS = (
    "INSERT INTO sales (id) SELECT CAST(count(*) % 7 AS INT) FROM range(1000000000000) a, range(1000) b "
    "WHERE hash(a.id, b.id) = 3"
)


@pytest.fixture
def sales(warehouse: dict[str, Any]) -> Iterator[None]:
    """The table sales with one row, which nothing that goes wrong in the test may change."""
    execute([CREATE, "INSERT INTO sales (id) VALUES (1)", "SELECT id FROM sales"])
    yield
    wait_for_no_job(SparkContext.getOrCreate())
    assert HivexHook().get_metastore().transactions.valid_txns().open_ids == ()
    assert execute("SELECT id FROM sales")["rows"] == [[1]]


@pytest.mark.usefixtures("sales")
def test_killed_task_stops_its_job_and_leaves_the_table_as_it_was() -> None:
    """Airflow calls on_kill in a signal handler of the main thread, where the task runs."""
    operator = HivexQueryOperator(task_id="t", sql=ENDLESS)
    before = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())

    def kill() -> None:
        wait_for_spark_job()
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        # Left to Airflow's retries: a worker that is shut down kills its tasks too.
        with pytest.raises(HivexError, match="cancelled"):
            operator.execute(context())
    finally:
        killer.join()
        signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("sales")
def test_task_that_times_out_stops_its_job_and_leaves_the_table_as_it_was(run_dag: Callable[..., DagRun]) -> None:
    with DAG("hivex_times_out", schedule=None) as dag:
        HivexQueryOperator(task_id="endless", sql=ENDLESS, execution_timeout=timedelta(seconds=3))
    assert states(run_dag(dag)) == {"endless": "failed"}


@pytest.fixture
def rivals(warehouse: dict[str, Any]) -> list[int]:
    """The table sales, and a number: so often a client that takes no locks is faster with an update of it."""
    execute(CREATE)
    left = [0]
    configuration = HivexHook().get_configuration()
    other = HivexHook().get_metastore()

    def fault(point: str) -> None:
        if point == "while writing" and left[0]:
            left[0] -= 1
            (txn_id,) = other.transactions.open()
            other.transactions.allocate_write_ids([txn_id], "default", "sales", operation=Operation.UPDATE)
            other.transactions.commit(txn_id)

    metastore = Metastore.open(
        configuration.url,
        clusters=configuration.clusters,
        default_cluster=configuration.default_cluster,
        fault=fault,
    )
    hooks.share_metastore(configuration, metastore)
    return left


OVERWRITE = (
    "INSERT INTO sales (id) VALUES (1); INSERT OVERWRITE TABLE sales (id) VALUES (2); INSERT INTO sales (id) VALUES (3)"
)


def test_statement_that_loses_is_run_again_alone(rivals: list[int]) -> None:
    rivals[0] = 3
    execute(OVERWRITE)
    assert rivals == [0]
    assert execute("SELECT id FROM sales ORDER BY id")["rows"] == [[2], [3]]


def test_statement_that_loses_too_often_is_left_to_airflows_retries(rivals: list[int]) -> None:
    rivals[0] = 5
    with pytest.raises(WriteConflictError):
        execute(OVERWRITE.split(";")[1], conflict_retries=1)
    assert rivals == [3]
    assert execute("SELECT id FROM sales")["rows"] == []


def test_statement_of_a_longer_transaction_is_not_run_again(rivals: list[int]) -> None:
    rivals[0] = 1
    with pytest.raises(WriteConflictError):
        execute(f"START TRANSACTION; {OVERWRITE.split(';')[1]}; COMMIT")
    assert execute("SELECT id FROM sales")["rows"] == []


def test_killed_task_does_not_wait_to_run_its_statement_again(rivals: list[int]) -> None:
    rivals[0] = 1
    operator = HivexQueryOperator(task_id="t", sql=OVERWRITE.split(";")[1])
    conflict = threading.Event()
    query.log.addFilter(lambda record: conflict.set() or True)

    def kill() -> None:
        assert conflict.wait(60)
        operator.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with pytest.raises(AirflowException, match="killed before its statement was run again"):
            operator.execute(context())
    finally:
        query.log.filters.clear()
        killer.join()


@pytest.mark.parametrize("conflict_retries", [-1, "3", None, True])
def test_conflict_retries_must_be_a_number(conflict_retries: Any) -> None:
    with pytest.raises(ValueError, match="conflict_retries"):
        HivexQueryOperator(task_id="t", sql="SELECT 1", conflict_retries=conflict_retries)


def wait_for_spark_job() -> None:
    tracker = SparkContext.getOrCreate().statusTracker()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if tracker.getActiveJobsIds():
            return
    raise AssertionError("the statement started no job")


def test_on_kill_before_the_start_does_nothing() -> None:
    HivexQueryOperator(task_id="t", sql="SELECT 1").on_kill()


def test_agent_info_names_dag_task_run_and_try() -> None:
    assert agent_info(context(try_number=2)) == "d.t r 2"
    assert agent_info(context(map_index=3)) == "d.t[3] r 1"


def test_hook_runs_statements_and_tests_its_connection(warehouse: dict[str, Any]) -> None:
    hook = HivexHook()
    assert hook.run("SELECT 1 AS one").rows == [(1,)]
    succeeded, output = hook.test_connection()
    assert succeeded
    assert all(words in output for words in ("the metastore answers", "Cluster c1: ", "Cluster c2: "))


def test_metastore_is_opened_once_per_configuration(warehouse: dict[str, Any]) -> None:
    assert HivexHook().get_metastore() is HivexHook().get_metastore()


def test_accepted_lag_reads_a_copy_and_returns_its_moment(warehouse: dict[str, Any]) -> None:
    execute(["CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "REPLICATE TABLE t TO CLUSTER c2"])
    execute("INSERT INTO t VALUES (2)")
    with pytest.raises(AirflowFailException, match="behind its primary"):
        execute("SELECT id FROM t", cluster="c2")
    result = execute("SELECT id FROM t", cluster="c2", max_lag="1h")
    assert (result["rows"], result["as_of"]["commits"]) == ([[1]], 1)
    assert result["as_of"]["write_ids"] == {"default.t": 2}
    assert "as_of" not in execute("SELECT id FROM t", max_lag="1h")


@pytest.fixture
def sold(warehouse: dict[str, Any]) -> None:
    execute([CREATE, "INSERT INTO sales VALUES (1, 1.5, DATE '2013-01-31', NULL, 'a'), (2, 2.5, NULL, NULL, NULL)"])


def test_handler_gets_a_cursor_with_all_rows_and_its_result_is_that_of_the_task(sold: None) -> None:
    def handle(cursor: Any) -> Any:
        return [column[0] for column in cursor.description], cursor.fetchall(), cursor.rowcount

    found = execute("SELECT id, amount FROM sales ORDER BY id", handler=handle)
    assert found == (["id", "amount"], [(1, Decimal("1.5")), (2, Decimal("2.5"))], 2)


def test_rows_go_to_a_file(sold: None, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    sql = "SELECT id, amount, day, note FROM sales ORDER BY id"
    for form in ("csv", "json", "jsonl", "parquet"):
        result = execute(sql, output_path=str(tmp_path / "out" / f"rows.{form}"), output_format=form)
        assert (result["rows"], result["rows_read"]) == ([], 2)
    out = tmp_path / "out"
    assert (out / "rows.csv").read_text().splitlines()[:2] == [
        "id,amount,day,note",
        "1,1.500000000000000000,2013-01-31,a",
    ]
    assert json.loads((out / "rows.json").read_text())[1]["day"] is None
    assert len((out / "rows.jsonl").read_text().splitlines()) == 2
    assert pq.read_table(out / "rows.parquet").to_pylist()[0]["amount"] == Decimal("1.5")
    with pytest.raises(AirflowFailException):
        execute("SELECT nothing FROM sales", output_path=str(out / "rows.csv"))
    assert len((out / "rows.csv").read_text().splitlines()) == 3
    assert sorted(path.name for path in out.iterdir()) == [
        f"rows.{form}" for form in ("csv", "json", "jsonl", "parquet")
    ]


def test_rows_go_to_a_table(sold: None) -> None:
    sql = "SELECT id FROM sales WHERE id = :id"
    result = execute(sql, parameters={"id": 1}, output_table="kept")
    assert (result["rows_written"], result["output_table"]) == (1, "kept")
    execute(sql, parameters={"id": 2}, output_table="kept", output_mode="append")
    assert sorted(execute("SELECT * FROM kept")["rows"]) == [[1], [2]]
    execute("WITH one AS (SELECT 7 AS id) SELECT id FROM one", output_table="default.kept")
    assert execute("SELECT * FROM kept")["rows"] == [[7]]
    with pytest.raises(AirflowFailException, match="not a query"):
        execute("INSERT INTO kept VALUES (1)", output_table="kept")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"handler": "x"}, "handler"),
        ({"handler": len, "output_path": "x"}, "only one"),
        ({"output_path": "x", "output_format": "avro"}, "output_format"),
        ({"output_table": "t", "output_mode": "ignore"}, "output_mode"),
        ({"output_path": "x", "deferrable": True}, "deferrable"),
    ],
)
def test_outputs_that_are_wrong_are_refused_when_the_task_is_made(arguments: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        HivexQueryOperator(task_id="t", sql="SELECT 1", **arguments)


def test_result_is_logged_on_request(sold: None, capfd: pytest.CaptureFixture[str]) -> None:
    execute("SELECT id FROM sales WHERE id = 2", show_return_value_in_logs=True)
    shown = capfd.readouterr()
    assert "Result: {'columns': ['id'], 'rows': [[2]]" in shown.out + shown.err


def test_tables_that_a_task_writes_have_events_whether_or_not_a_dag_names_them(
    warehouse: dict[str, Any], store_dag: Callable[[DAG], None], run_dag: Callable[..., DagRun]
) -> None:
    execute("CREATE TABLE one (a INT); CREATE TABLE two (a INT) PARTITIONED BY (ds STRING); CREATE TABLE three (a INT)")
    assets = [create_asset(table="one"), create_asset(table="two")]
    with DAG("hivex_consumer", schedule=assets, is_paused_upon_creation=False) as consumer:
        pass
    store_dag(consumer)
    with DAG("hivex_producer", schedule=None) as dag:
        first = HivexQueryOperator(
            task_id="first",
            sql="INSERT INTO one VALUES (1); INSERT INTO three VALUES (1)",
        )
        second = HivexQueryOperator(
            task_id="second",
            sql="INSERT INTO two VALUES (1, 'x'), (2, 'y')",
            asset_partitions=True,
        )
        with HivexTransaction("group") as transaction:
            HivexQueryOperator(task_id="joined", sql="INSERT INTO one VALUES (2)", transaction=transaction)
        quiet = HivexQueryOperator(task_id="quiet", sql="INSERT INTO one VALUES (3)", asset_events=False)
        first >> second >> transaction >> quiet
    run = run_dag(dag)
    assert set(states(run).values()) == {"success"}, states(run)
    ((key, extra), (_, of_group)) = events_of("one")
    assert (key, extra["write_ids"], extra["partitions"]) == (None, [2], [])
    assert of_group["write_ids"] == [3]
    assert sorted(key for key, _ in events_of("two")) == ["ds=x", "ds=y"]
    ((_, of_other),) = events_of("three")
    assert of_other["write_ids"] == [2]
