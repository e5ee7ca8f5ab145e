"""The history of statements: each ended statement has one row, which says what became of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    NoSuchTableError,
    NoUsableClusterError,
    RoutingError,
)
from airflow_hivex.core.errors.secrets import MASKERS, remember
from airflow_hivex.core.model.ended_statements import TaskTry
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from tests.round_trips import counted
from tests.waiting import wait_until

DAY_MS = 86_400_000


def rows(session: Session, more: str = "") -> list[dict[str, Any]]:
    """The rows of SHOW STATEMENTS, the oldest first."""
    found = session.sql(f"SHOW STATEMENTS {more}")
    return [dict(zip(found.columns, row, strict=True)) for row in reversed(found.rows)]


def last(session: Session) -> dict[str, Any]:
    return rows(session)[-1]


@pytest.fixture
def table(session: Session) -> str:
    session.sql("CREATE TABLE t (a int) PARTITIONED BY (p string)")
    return "t"


@pytest.mark.every_backend
@pytest.mark.usefixtures("table")
def test_insert_is_kept_with_its_rows_route_and_steps(session: Session) -> None:
    result = session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    row = last(session)
    assert (row["status"], row["kind"], row["tables"]) == ("succeeded", "INSERT", "default.t")
    assert (row["rows_written"], row["txn_id"], row["cluster"]) == (2, result.txn_id, result.cluster)
    assert row["text"] == "INSERT INTO t VALUES (1, 'x'), (2, 'y')"
    assert result.route is not None
    assert row["route"] == result.route.reason
    assert {step.split()[0] for step in row["steps"].split(", ")} >= {"plan", "locks", "job"}
    assert row["wait_s"] == 0


@pytest.mark.usefixtures("table")
def test_definitions_calls_and_reads_without_spark_are_kept_and_lists_are_not(session: Session) -> None:
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('x' = '1')")
    session.insert_rows("t", [(1, "x")])
    assert session.to_arrow("t").num_rows == 1
    session.sql("SHOW TABLES")
    session.sql("USE default")
    session.sql("DROP TABLE t")
    kinds = [(row["kind"], row["status"]) for row in rows(session)]
    expected = ["CREATE TABLE", "ALTER TABLE SET TBLPROPERTIES", "INSERT", "SELECT", "DROP TABLE"]
    assert kinds == [(each, "succeeded") for each in expected]
    assert all(row["txn_id"] for row in rows(session))


def test_errors_are_kept_with_their_code_also_of_statements_that_only_show(session: Session) -> None:
    for text in ("SELEC 1", "SELECT * FROM nothing", "SHOW PARTITIONS nothing"):
        with pytest.raises(HivexError):
            session.sql(text)
    found = rows(session)
    assert [row["status"] for row in found] == ["failed"] * 3
    assert [row["error_code"] for row in found] == ["SYNTAX", "NO_SUCH_TABLE", "NO_SUCH_TABLE"]
    assert "nothing does not exist" in found[1]["error"]


@pytest.mark.usefixtures("table")
def test_statement_without_a_route_is_refused(session: Session) -> None:
    session.sql("INSERT INTO t VALUES (1, 'x')")
    session.sql("USE CLUSTER c2")
    with pytest.raises((RoutingError, NoUsableClusterError)):
        session.sql("INSERT INTO t VALUES (1, 'x')")
    row = last(session)
    assert (row["status"], row["cluster"]) == ("refused", None)
    assert "default.t" in row["error"]


@pytest.mark.every_backend
@pytest.mark.usefixtures("table")
def test_statements_of_a_transaction_are_open_until_it_ends(metastore: Metastore, session: Session) -> None:
    for end, status in (("COMMIT", "succeeded"), ("ROLLBACK", "rolled back")):
        session.sql("START TRANSACTION")
        session.sql("INSERT INTO t VALUES (1, 'x')")
        inside = last(session)
        assert (inside["kind"], inside["status"], inside["rows_written"]) == ("INSERT", "open", 1)
        session.sql(end)
        (row,) = [each for each in rows(session) if each["id"] == inside["id"]]
        assert row["status"] == status
        assert (last(session)["kind"], last(session)["status"]) == (end, "succeeded")
    before = rows(session)
    # It removes the records of the transactions.
    metastore.housekeeper.run()
    assert rows(session) == before


@pytest.mark.usefixtures("table")
def test_wait_for_a_lock_is_kept(metastore: Metastore, session: Session) -> None:
    (txn_id,) = metastore.transactions.open()
    lock = LockComponent("default", "t", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)
    metastore.locks.acquire([lock], txn_id)
    thread = threading.Thread(target=session.sql, args=("INSERT INTO t VALUES (1, 'x')",))
    thread.start()
    wait_until(lambda: metastore.transaction_listing.counts().waiting)
    metastore.abort(txn_id, "no more")
    thread.join()
    row = last(session)
    assert 0 < row["wait_s"] <= row["seconds"]


@pytest.mark.usefixtures("table")
def test_cancelled_statement_is_kept_as_cancelled(metastore: Metastore, session: Session) -> None:
    (txn_id,) = metastore.transactions.open()
    lock = LockComponent("default", "t", type=LockType.EXCLUSIVE, operation=DataOperation.DELETE)
    metastore.locks.acquire([lock], txn_id)

    def run() -> None:
        with suppress(HivexError):
            session.sql("INSERT INTO t VALUES (1, 'x')")

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: metastore.transaction_listing.counts().waiting)
    session.cancel()
    thread.join()
    assert last(session)["status"] == "cancelled"


KILLED = """
import os, sys
from airflow_hivex.core import Metastore
from airflow_hivex.core.model.ended_statements import TaskTry
fault = lambda point: os._exit(9) if point == "while writing" else None
with Metastore.open(sys.argv[1], clusters={clusters!r}, default_cluster="c1", fault=fault) as metastore:
    metastore.session("ann", agent_info=TaskTry("d.1", "g.t", "run 1", 2)).sql("INSERT INTO t VALUES (1, 'x')")
"""


@pytest.mark.usefixtures("table")
def test_statement_of_a_killed_process_is_lost(
    metastore_url: str, clusters: dict[str, dict[str, str]], session: Session
) -> None:
    script = KILLED.replace("{clusters!r}", repr(clusters))
    assert subprocess.run([sys.executable, "-c", script, metastore_url], check=False).returncode == 9
    assert [row["kind"] for row in rows(session)] == ["CREATE TABLE"]
    later = Metastore.open(
        metastore_url, clusters=clusters, default_cluster="c1", clock=lambda: system_clock() + 400_000
    )
    with later:
        for _ in range(2):
            later.housekeeper.run()
            _, row = rows(later.session())
            assert (row["status"], row["text"]) == ("lost", "INSERT INTO t VALUES (1, 'x')")
            assert (row["dag_id"], row["task_id"], row["run_id"]) == ("d.1", "g.t", "run 1")
            assert (row["try_number"], row["user"], row["tables"]) == (2, "ann", "default.t")
            assert "heartbeat" in row["error"]


@pytest.mark.every_backend
@pytest.mark.usefixtures("table")
def test_filters_select_by_table_task_user_and_status(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE DATABASE mart")
    session.sql("CREATE TABLE mart.sales (a int)")
    mapped = TaskTry("etl", "load", "r1", 1, 3)
    with metastore.session("ann", agent_info=mapped) as of_task:
        of_task.sql("INSERT INTO mart.sales VALUES (1)")
        with pytest.raises(HivexError):
            of_task.sql("INSERT INTO mart.sale VALUES (1)")
    for more, count in (
        ("FROM mart", 3),
        ("IN mart LIKE 'sales'", 2),
        ("LIKE 'sal*'", 3),
        ("LIKE 'sale'", 1),
        ("DAG 'etl'", 2),
        ("DAG 'et'", 0),
        ("TASK 'load' RUN 'r1' STATUS 'failed'", 1),
        ("USER 'ann' LIMIT 1", 1),
        ("ORDER BY seconds DESC, id LIMIT 2", 2),
    ):
        assert len(rows(session, more)) == count, more
    assert rows(session, "DAG 'etl'")[0]["map_index"] == 3
    with pytest.raises(HivexError, match="mars"):
        session.sql("SHOW STATEMENTS FROM mars")
    with pytest.raises(HivexError, match="SHOW STATEMENTS sorts by"):
        session.sql("SHOW STATEMENTS ORDER BY texts")


def test_text_is_masked_and_cut(metastore_url: str, clusters: dict[str, dict[str, str]]) -> None:
    settings = {"hivex.statements.text.length": 30}
    MASKERS.append(lambda text: text.replace("of-airflow", "###"))
    try:
        with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
            remember(["open-sesame"])
            session = metastore.session()
            with pytest.raises(HivexError):
                session.sql("SELECT 'open-sesame', 'of-airflow' FROM nothing")
            assert last(session)["text"] == "SELECT '***', '###' FROM nothi"
    finally:
        MASKERS.pop()


@pytest.mark.every_backend
def test_history_has_no_secret_of_a_refused_statement(metastore: Metastore) -> None:
    texts = (
        "SET password=hunter2",
        "DECLARE pwd\n STRING DEFAULT 'hunter2' 5",
        "SELECT 'password=hunter2' FROM nothing",
        "CREATE TABLE `x password=hunter2` (a int)",
        "SELECT '\0 \ud800' AS x, 'hunter2' AS token",
        # The masks shorten the text, so that a part of a secret beyond the length would move into it.
        "SELECT " + f"token = '{'s' * 150}', " * 20 + f"'s3://u:{'hunter2' * 9_999}@h'",
    )
    with metastore.session(agent_info="notebook\0 password=hunter2") as session:
        for text in texts:
            with pytest.raises(HivexError) as refused:
                session.sql(text)
            row = last(session)
            assert row["status"] == "failed"
            assert "hunter2" not in f"{row}{refused.value}"
        assert len(rows(session)) == len(texts)
        assert rows(session)[0]["text"] == "SET password=***"


@pytest.mark.parametrize("name", ["d\0", "d\ud800", "d" * 251])
def test_try_that_the_history_cannot_keep_is_refused_before_a_statement(name: str) -> None:
    for names in ((name, "t", "r"), ("d", name, "r"), ("d", "t", name)):
        with pytest.raises(HivexError, match="A name in a try of a task has"):
            TaskTry(*names, 1)


@pytest.mark.every_backend
def test_failed_write_of_the_history_leaves_the_error_of_the_statement(
    metastore: Metastore, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    def rename(old: str, new: str) -> None:
        with metastore.services.store.engine.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

    rename("ended_statements", "elsewhere")
    try:
        with pytest.raises(NoSuchTableError):
            session.sql("SELECT * FROM nothing")
    finally:
        rename("elsewhere", "ended_statements")
    assert caplog.text.count("A statement is missing in the history") == 1
    assert rows(session) == []


@pytest.fixture
def without_history(metastore_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    settings = {"hivex.statements.retention": 0}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
        yield metastore


@pytest.mark.every_backend
@pytest.mark.usefixtures("table")
def test_history_adds_no_round_trip_to_a_small_insert(metastore: Metastore, without_history: Metastore) -> None:
    trips = []
    for each in (metastore, without_history):
        session = each.session()
        session.sql("INSERT INTO t PARTITION (p = 'x') VALUES (1)")
        with counted(each.services.store) as counted_trips:
            session.sql("INSERT INTO t PARTITION (p = 'x') VALUES (1)")
        trips.append(len(counted_trips))
    assert trips[0] == trips[1]
    assert len(rows(metastore.session(), "LIKE 't' STATUS 'succeeded'")) == 3


def test_history_that_is_off_keeps_nothing(without_history: Metastore, session: Session) -> None:
    with pytest.raises(HivexError):
        without_history.session().sql("SELECT * FROM nothing")
    with pytest.raises(InvalidOperationError, match=r"hivex\.statements\.retention"):
        without_history.session().sql("SHOW STATEMENTS")
    assert rows(session) == []


@pytest.mark.usefixtures("table")
def test_housekeeping_removes_statements_after_a_day(
    metastore_url: str, clusters: dict[str, dict[str, str]], session: Session
) -> None:
    assert len(rows(session)) == 1
    for late_ms, removed in ((DAY_MS - 60_000, 0), (DAY_MS + 60_000, 1)):
        later = Metastore.open(
            metastore_url,
            clusters=clusters,
            default_cluster="c1",
            clock=lambda late_ms=late_ms: system_clock() + late_ms,  # type: ignore[misc]
        )
        with later:
            assert later.housekeeper.run().statements == removed
    assert rows(session) == []


@pytest.mark.usefixtures("table")
def test_tables_are_listed_by_growth(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE small (a int)")
    session.sql("INSERT INTO small VALUES (1)")
    for _ in range(2):
        session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    session.sql("START TRANSACTION")
    session.sql("INSERT INTO small VALUES (2), (3), (4), (5), (6)")
    session.sql("ROLLBACK")
    found = metastore.statements.grown(0)
    assert [(each.table, each.statements, each.rows_added) for each in found] == [
        ("default.t", 2, 4),
        ("default.small", 1, 1),
    ]
    assert all(each.size_bytes > 0 for each in found)
