"""What sessions see of each other: snapshots, aborts, races for one name, and cancelled statements."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    JobCancelledError,
    NoSuchTableError,
    NoSuchTransactionError,
    NoSuchVersionError,
    TransactionAbortedError,
)
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockState, LockType
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.session import Result
from tests.acceptance.cluster_files import data_files
from tests.waiting import wait_for_no_job

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)

PAUSED = "paused"


class _Gate(logging.Filter):
    """Holds the statement of the paused thread where it reports its route: its snapshot is taken, nothing is run.

    It is a filter because a handler has a lock, for which all other threads would wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reached = threading.Event()
        self.opened = threading.Event()

    def filter(self, record: logging.LogRecord) -> bool:
        if (record.threadName or "").startswith(PAUSED):
            self.reached.set()
            self.opened.wait(60)
        return True


@contextmanager
def paused(metastore: Metastore, sql: str) -> Iterator[tuple[Session, Future[Result]]]:
    """While the block runs, a statement of another session waits between its snapshot and its work."""
    module = "commands.create_as_select" if sql.startswith("CREATE") else "execution.select_and_insert"
    logger = logging.getLogger(f"airflow_hivex.core.{module}")
    level, gate = logger.level, _Gate()
    logger.addFilter(gate)
    logger.setLevel(logging.INFO)
    try:
        with ThreadPoolExecutor(1, thread_name_prefix=PAUSED) as pool, metastore.session(user=PAUSED) as session:
            running = pool.submit(session.sql, sql)
            assert gate.reached.wait(60)
            try:
                yield session, running
            finally:
                gate.opened.set()
                wait([running], timeout=120)
    finally:
        logger.removeFilter(gate)
        logger.setLevel(level)


def at_once(metastore: Metastore, *statements: str) -> list[Result | HivexError]:
    """What statements bring or raise that start together, each in a session of its own."""
    barrier = threading.Barrier(len(statements))

    def run(sql: str) -> Result | HivexError:
        with metastore.session() as session:
            barrier.wait(60)
            try:
                return session.sql(sql)
            except HivexError as error:
                return error

    with ThreadPoolExecutor(len(statements)) as pool:
        return list(pool.map(run, statements))


@contextmanager
def waiting(metastore: Metastore, sql: str) -> Iterator[Future[Result]]:
    """A statement of another session, which waits for a lock when the block begins."""
    with ThreadPoolExecutor(1) as pool, metastore.session(agent_info=sql) as session:
        running = pool.submit(session.sql, sql)
        deadline = time.monotonic() + 60
        while not any(lock.state is LockState.WAITING and lock.agent_info == sql for lock in metastore.locks.show()):
            assert not running.done(), running.result()
            assert time.monotonic() < deadline, "it does not wait"
            threading.Event().wait(0.01)
        yield running


@pytest.fixture
def table(session: Session) -> Session:
    session.sql("CREATE TABLE t (a bigint)")
    session.sql("INSERT INTO t VALUES (1), (2)")
    session.sql("CREATE TABLE p (a bigint) PARTITIONED BY (ds string)")
    session.sql("INSERT INTO p VALUES (1, 'x'), (2, 'y')")
    return session


# -- snapshots ---------------------------------------------------------------------------


@pytest.mark.spark
@on_sqlite
def test_reader_does_not_see_what_commits_after_its_snapshot(metastore: Metastore, table: Session) -> None:
    with paused(metastore, "SELECT sum(a) FROM t") as (_, reading):
        table.sql("INSERT INTO t VALUES (10)")
    assert reading.result().rows == [(3,)]
    assert table.sql("SELECT sum(a) FROM t").rows == [(13,)]


@pytest.mark.spark
@on_sqlite
@pytest.mark.parametrize("change", ["INSERT OVERWRITE t VALUES (10)", "DROP TABLE t"])
def test_exclusive_change_waits_for_the_reader(metastore: Metastore, table: Session, change: str) -> None:
    with ExitStack() as stack:
        with paused(metastore, "SELECT sum(a) FROM t") as (_, reading):
            changing = stack.enter_context(waiting(metastore, change))
        assert reading.result().rows == [(3,)]
        changing.result(timeout=60)
    assert table.sql("SHOW TABLES").rows == ([("p",)] if "DROP" in change else [("p",), ("t",)])
    assert metastore.locks.show() == []


@pytest.mark.spark
@on_sqlite
def test_overwrite_without_an_exclusive_lock_does_not_disturb_the_reader(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(metastore_url, clusters=clusters, settings={"hive.txn.xlock.iow": False}) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (a bigint)")
        session.sql("INSERT INTO t VALUES (1), (2)")
        with paused(metastore, "SELECT sum(a) FROM t") as (_, reading):
            session.sql("INSERT OVERWRITE t VALUES (10)")
        assert reading.result().rows == [(3,)]
        assert session.sql("SELECT sum(a) FROM t").rows == [(10,)]


@pytest.mark.spark
@on_sqlite
def test_insert_from_its_own_table_reads_the_snapshot(metastore: Metastore, table: Session) -> None:
    with paused(metastore, "INSERT INTO t SELECT a + 100 FROM t") as (_, writing):
        table.sql("INSERT INTO t VALUES (10)")
    assert writing.result().rows_written == 2
    assert table.sql("SELECT sum(a) FROM t").rows == [(216,)]


@pytest.mark.spark
@on_sqlite
@pytest.mark.parametrize(
    "sql",
    ["INSERT INTO p VALUES (9, 'new')", "INSERT INTO p SELECT 9, 'new'", "CREATE TABLE new AS SELECT a FROM t"],
)
def test_aborted_write_is_never_seen_and_its_files_are_deleted(
    metastore: Metastore, table: Session, tmp_path: Path, sql: str
) -> None:
    before = data_files(tmp_path)
    with paused(metastore, sql) as (_, writing):
        (txn_id,) = metastore.transactions.valid_txns().open_ids
        metastore.transactions.abort(txn_id, "its heartbeat timed out")
    with pytest.raises(TransactionAbortedError, match="heartbeat"):
        writing.result()
    assert data_files(tmp_path) == before
    assert not (tmp_path / "c1/default.db/p/ds=new").exists()
    assert table.sql("SELECT count(*) FROM p").rows == [(2,)]
    assert table.sql("SHOW TABLES").rows == [("p",), ("t",)]
    assert metastore.transactions.valid_txns().open_ids == ()


# -- many at once ------------------------------------------------------------------------


@pytest.mark.spark
def test_concurrent_inserts_lose_and_double_nothing(metastore: Metastore, table: Session) -> None:
    def insert(worker: int) -> None:
        with metastore.session(user=f"worker{worker}") as session:
            for number in range(8):
                session.sql("INSERT INTO p VALUES (:a, :ds)", {"a": 1000 + worker * 8 + number, "ds": f"n{number % 3}"})
            session.sql(f"INSERT INTO p SELECT {2000 + worker}, 'n1'")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(insert, range(4)))
    found = [row[0] for row in table.sql("SELECT a FROM p WHERE a >= 1000 ORDER BY a").rows]
    assert found == [*range(1000, 1032), *range(2000, 2004)]
    assert table.sql("SHOW PARTITIONS p").rows == [(f"ds={value}",) for value in ("n0", "n1", "n2", "x", "y")]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE new (a int)",
        "CREATE EXTERNAL TABLE new (a int) STORED AS ORC LOCATION 'new'",
        "CREATE DATABASE new",
        "ALTER TABLE p ADD PARTITION (ds = 'new')",
    ],
)
def test_of_those_that_make_one_thing_at_once_one_succeeds(metastore: Metastore, table: Session, sql: str) -> None:
    outcomes = at_once(metastore, *[sql] * 4)
    failed = [outcome for outcome in outcomes if isinstance(outcome, HivexError)]
    assert [type(error) for error in failed] == [AlreadyExistsError] * 3
    accepting = sql.replace("TABLE new", "TABLE IF NOT EXISTS new").replace("ADD ", "ADD IF NOT EXISTS ")
    accepting = accepting.replace("DATABASE new", "DATABASE IF NOT EXISTS new")
    assert not [outcome for outcome in at_once(metastore, *[accepting] * 3) if isinstance(outcome, HivexError)]
    assert metastore.transactions.valid_txns().open_ids == ()
    assert ("ds=x",) in table.sql("SHOW PARTITIONS p").rows


def test_drops_at_once_leave_no_trace(metastore: Metastore, table: Session, tmp_path: Path) -> None:
    outcomes = at_once(metastore, *["DROP TABLE t", "ALTER TABLE p DROP PARTITION (ds = 'x')", "DROP TABLE t"])
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, HivexError)] == [NoSuchTableError]
    assert [name for name in data_files(tmp_path) if "ds=y" not in name] == []
    table.sql("CREATE TABLE t (a bigint)")


@pytest.mark.spark
@on_sqlite
def test_create_table_as_select_that_comes_second_leaves_the_first_alone(
    metastore: Metastore, table: Session, tmp_path: Path
) -> None:
    with paused(metastore, "CREATE TABLE new AS SELECT a FROM t") as (_, creating):
        table.sql("CREATE TABLE new (b string)")
        table.sql("INSERT INTO new VALUES ('mine')")
        before = data_files(tmp_path)
    with pytest.raises(AlreadyExistsError, match=r"default\.new"):
        creating.result()
    assert data_files(tmp_path) == before
    assert table.sql("SELECT * FROM new").rows == [("mine",)]


@pytest.mark.spark
@on_sqlite
@pytest.mark.parametrize("sql", ["INSERT INTO p SELECT a + 6, 'x' FROM t WHERE a = 1", "INSERT INTO p VALUES (7, 'x')"])
def test_dropping_a_partition_waits_for_its_writer(metastore: Metastore, table: Session, sql: str) -> None:
    with ExitStack() as stack:
        with paused(metastore, sql) as (_, writing):
            dropping = stack.enter_context(waiting(metastore, "ALTER TABLE p DROP PARTITION (ds = 'x')"))
        assert writing.result().rows_written == 1
        dropping.result(timeout=60)
    assert table.sql("SELECT * FROM p ORDER BY a").rows == [(2, "y")]


@pytest.mark.spark
@on_sqlite
def test_dropping_a_table_waits_for_its_writer_and_leaves_no_trace(
    metastore: Metastore, table: Session, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        with paused(metastore, "INSERT INTO p SELECT a, 'x' FROM t") as (_, writing):
            dropping = stack.enter_context(waiting(metastore, "DROP TABLE p"))
            # Who comes after the waiting DROP waits behind it.
            late = stack.enter_context(waiting(metastore, "INSERT INTO p VALUES (7, 'x')"))
        assert writing.result().rows_written == 2
        dropping.result(timeout=60)
        with pytest.raises(NoSuchTableError, match=r"default\.p"):
            late.result(timeout=60)
    assert [name for name in data_files(tmp_path) if "/p/" in name] == []
    table.sql("CREATE TABLE p (a bigint) PARTITIONED BY (ds string)")
    for number in range(3):
        table.sql(f"INSERT INTO p VALUES ({number}, 'x')")
    assert table.sql("SELECT sum(a) FROM p").rows == [(3,)]


@pytest.mark.parametrize("where", ["TABLE t", "TABLE p PARTITION (ds = 'x')"])
def test_overwrites_of_one_thing_follow_each_other(metastore: Metastore, table: Session, where: str) -> None:
    outcomes = at_once(metastore, *(f"INSERT OVERWRITE {where} VALUES ({number})" for number in range(4)))
    assert [type(outcome) for outcome in outcomes] == [Result] * 4
    assert metastore.transactions.valid_txns().open_ids == ()
    assert metastore.locks.show() == []


# -- cancelling --------------------------------------------------------------------------


LONG = "SELECT sum(r.id * u.id) FROM range(4000000) r JOIN range(4000000) u ON r.id % 1000 = u.id % 1000"


def wait_for_job(running: Future[Any] | None = None) -> None:
    """Until Spark runs a job, which is that of ``running`` where it is given."""
    deadline = time.monotonic() + 120
    while True:
        # Two threads that import pyspark at once may find a part of it alone.
        context_class = getattr(sys.modules.get("pyspark.context"), "SparkContext", None)
        context = getattr(context_class, "_active_spark_context", None)
        # It is there a moment before it can be asked.
        started = context is not None and getattr(context, "_jsc", None) is not None
        if started and context.statusTracker().getActiveJobsIds():
            return
        if running is not None and running.done():
            raise AssertionError("the statement ended before its job") from running.exception()
        assert time.monotonic() < deadline, "no job began"
        threading.Event().wait(0.02)


@pytest.mark.spark
@on_sqlite
@pytest.mark.parametrize(
    "sql",
    [
        LONG,
        # Long enough to be cancelled; Spark may let tasks of a cancelled job run to their end.
        "INSERT INTO t SELECT id FROM range(100000000)",
        "CREATE TABLE new AS SELECT id FROM range(100000000)",
    ],
)
def test_cancelled_in_the_middle_of_its_job(metastore: Metastore, table: Session, tmp_path: Path, sql: str) -> None:
    before = data_files(tmp_path)
    with ThreadPoolExecutor(1) as pool, metastore.session() as session:
        running = pool.submit(session.sql, sql)
        wait_for_job(running)
        (txn_id,) = metastore.transactions.valid_txns().open_ids
        session.cancel()
        with pytest.raises((JobCancelledError, TransactionAbortedError)):
            running.result(timeout=60)
        assert metastore.transactions.get(txn_id).state is TxnState.ABORTED
        assert metastore.transactions.valid_txns().open_ids == ()
        assert data_files(tmp_path) == before
        assert session.sql("SELECT sum(a) FROM t").rows == [(3,)]
        assert session.sql("INSERT INTO t SELECT 4").rows_written == 1
    assert table.sql("SHOW TABLES").rows == [("p",), ("t",)]


@contextmanager
def interrupted_in_its_job() -> Iterator[None]:
    """Interrupt this thread, as Ctrl-C does, once a job runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        wait_for_job()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        interrupting = pool.submit(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                yield
        finally:
            interrupting.result()
            signal.signal(signal.SIGINT, before)


@pytest.mark.spark
@on_sqlite
@pytest.mark.parametrize("is_given", [False, True], ids=["own Spark", "user's Spark"])
def test_interrupt_stops_the_job_and_the_next_statement_runs_at_once(
    metastore: Metastore, table: Session, tmp_path: Path, is_given: bool
) -> None:
    from pyspark.sql import SparkSession

    table.sql("SELECT sum(a) FROM t")
    spark = SparkSession.builder.getOrCreate()
    before = data_files(tmp_path)
    with metastore.session() as session:
        if is_given:
            session.warehouse(spark)
        for sql in (LONG, f"INSERT INTO t {LONG}"):
            with interrupted_in_its_job():
                session.sql(sql)
            wait_for_no_job(spark.sparkContext)
            assert metastore.transactions.valid_txns().open_ids == ()
            assert data_files(tmp_path) == before
            assert session.sql("SELECT sum(a) FROM t").rows == [(3,)]


@pytest.mark.spark
@on_sqlite
def test_statement_whose_transaction_was_ended_stops_its_job_and_says_why(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    settings = {"hive.txn.timeout": 2}
    hours = [0]
    later_clock = lambda: system_clock() + hours[0] * 3_600_000  # noqa: E731 - as short as the clock is
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=later_clock) as later,
        metastore.session() as session,
        ThreadPoolExecutor(1) as pool,
    ):
        session.sql("CREATE TABLE t (a bigint)")
        before = data_files(tmp_path)

        def abort(txn_id: int) -> None:
            metastore.transactions.abort(txn_id, "an operator was in a hurry")

        def reap_and_forget(txn_id: int) -> None:
            # As for a process that was paused for long.
            metastore.transactions.commit(*metastore.transactions.open())
            for hours[0] in (1, 2):
                later.housekeeper.run()
            with pytest.raises(NoSuchTransactionError):
                metastore.transactions.get(txn_id)

        for sql, end, says in (
            (f"INSERT INTO t {LONG}", abort, "in a hurry"),
            (LONG, reap_and_forget, "heartbeat"),
        ):
            running = pool.submit(session.sql, sql)
            wait_for_job(running)
            (txn_id,) = metastore.transactions.valid_txns().open_ids
            end(txn_id)
            with pytest.raises(TransactionAbortedError, match=says):
                running.result(timeout=60)
            assert (metastore.locks.show(), data_files(tmp_path)) == ([], before)
        assert session.sql("INSERT INTO t VALUES (1)").rows_written == 1

        spark = SparkSession.builder.getOrCreate()
        warehouse = session.warehouse(spark)
        before = data_files(tmp_path)
        with session.transaction_batch("t", 1) as batch:
            for write in (batch.write, lambda rows: warehouse.write(rows, "t")):
                running = pool.submit(write, spark.sql(LONG).toDF("a"))
                wait_for_job(running)
                metastore.transactions.abort(
                    metastore.transactions.valid_txns().open_ids[0], "an operator was in a hurry"
                )
                with pytest.raises(TransactionAbortedError, match="in a hurry"):
                    running.result(timeout=60)
                wait_for_no_job(spark.sparkContext)
                assert (metastore.locks.show(), data_files(tmp_path)) == ([], before)


@pytest.mark.parametrize("cancel", [Session.cancel, Session.close])
def test_cancelled_before_its_work_began(
    metastore: Metastore, table: Session, tmp_path: Path, cancel: Callable[[Session], None]
) -> None:
    before = data_files(tmp_path)
    with paused(metastore, "INSERT INTO p VALUES (9, 'new')") as (session, writing):
        cancel(session)
    with pytest.raises(TransactionAbortedError, match="cancelled"):
        writing.result()
    assert data_files(tmp_path) == before
    table.cancel()
    assert metastore.transactions.valid_txns().open_ids == ()
    assert table.sql("SHOW PARTITIONS p").rows == [("ds=x",), ("ds=y",)]


# -- what a statement has waited for ---------------------------------------------------------------


@on_sqlite
def test_table_that_was_made_while_create_table_as_select_waited_is_there(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    settings = {"hive.txn.xlock.ctas": False}
    with (
        Metastore.open(metastore_url, clusters=clusters, settings=settings) as metastore,
        metastore.session() as session,
        ThreadPoolExecutor(2) as pool,
    ):
        (txn_id,) = metastore.transactions.open()
        new_table = LockComponent("default", "t", None, LockType.EXCL_WRITE, DataOperation.INSERT, is_new_table=True)
        metastore.locks.acquire([new_table], txn_id)
        made = [
            pool.submit(metastore.session().sql, f"CREATE TABLE {clause} t AS SELECT 1 AS a")
            for clause in ("IF NOT EXISTS", "")
        ]
        deadline = time.monotonic() + 60
        while sum(lock.state is LockState.WAITING for lock in metastore.locks.show()) < 2:
            assert time.monotonic() < deadline
            threading.Event().wait(0.01)
        session.sql("CREATE TABLE t (a int)")
        metastore.transactions.commit(txn_id)
        assert made[0].result(timeout=60).rows_written == 0
        with pytest.raises(AlreadyExistsError):
            made[1].result(timeout=60)
        assert metastore.locks.show() == []


def test_database_is_not_dropped_by_a_transaction_that_has_ended(
    metastore: Metastore, session: Session, metastore_url: str, tmp_path: Path
) -> None:
    session.sql("CREATE DATABASE d")
    session.sql("CREATE TABLE d.t (a int)")

    def time_out(point: str) -> None:
        if point == "while holding":
            metastore.transactions.abort_many(each.id for each in metastore.transactions.show())

    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(metastore_url, clusters=clusters, fault=time_out) as slow,
        slow.session() as dropping,
        pytest.raises(TransactionAbortedError),
    ):
        dropping.sql("DROP DATABASE d CASCADE")
    session.sql("INSERT INTO d.t VALUES (1)")


# -- earlier versions ------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.evidence(cases=1)
@on_sqlite
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_queries_read_versions_next_to_the_present_rows(metastore_url: str, tmp_path: Path, layout: str) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[2]"}}
    settings = {"hivex.history.retention": "1h"}
    with Metastore.open(metastore_url, clusters=clusters, settings=settings) as metastore:
        session = metastore.session()
        rows = _rows(session)
        session.sql(
            f"CREATE TABLE t (id int, v int) PARTITIONED BY (p string) TBLPROPERTIES ('hivex.row.layout'='{layout}')"
        )
        session.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'a')")  # 2
        session.sql("INSERT INTO t VALUES (3, 30, 'b')")  # 3
        session.sql("MERGE INTO t USING (SELECT 2 id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 21")  # 4
        session.sql("ALTER TABLE t CHANGE COLUMN v w int")  # 5
        session.sql("DELETE FROM t WHERE id = 1")  # 6
        session.sql("CREATE VIEW before AS SELECT id, v FROM t VERSION AS OF 3")
        for partition in ("a", "b"):
            metastore.compactor.request("default", "t", f"p={partition}", "major")
            metastore.compactor.work()
        metastore.compactor.clean()
        assert rows("SELECT id, v FROM t VERSION AS OF 2") == [(1, 10), (2, 20)]
        assert rows("SELECT id, v FROM before WHERE id > 1") == [(2, 20), (3, 30)]
        assert rows("SELECT o.id, o.w, n.w FROM t FOR SYSTEM_VERSION AS OF 5 o LEFT JOIN t n ON n.id = o.id") == [
            *((1, 10, None), (2, 21, 21), (3, 30, 30))
        ]
        assert rows("SELECT (SELECT count(*) FROM t VERSION AS OF 4 WHERE p = 'a'), count(*) FROM t") == [(2, 2)]
        session.sql("INSERT INTO t SELECT id, v, p FROM t VERSION AS OF 2 WHERE id = 1")
        assert rows("SELECT id, w FROM t") == [(1, 10), (2, 21), (3, 30)]
        assert rows("SELECT id, w FROM t VERSION AS OF 6") == [(2, 21), (3, 30)]


@pytest.mark.spark
@on_sqlite
def test_versions_of_insert_only_tables_and_of_a_transaction(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[2]"}}
    settings = {"hivex.history.retention": "1h"}
    with Metastore.open(metastore_url, clusters=clusters, settings=settings) as metastore:
        session = metastore.session()
        rows = _rows(session)
        session.sql("CREATE TABLE t (id int) TBLPROPERTIES ('transactional_properties'='insert_only')")
        for number in (1, 2, 3):
            session.sql(f"INSERT INTO t VALUES ({number})")  # 2, 3, 4
        metastore.compactor.request("default", "t", None, "minor")
        metastore.compactor.work()
        session.sql("INSERT OVERWRITE TABLE t SELECT id + 10 FROM t")  # 5
        assert rows("SELECT id FROM t VERSION AS OF 3") == [(1,), (2,)]
        assert rows("SELECT id FROM t VERSION AS OF 4") == [(1,), (2,), (3,)]
        session.sql("START TRANSACTION")
        session.sql("INSERT INTO t VALUES (99)")
        assert rows("SELECT id FROM t VERSION AS OF 5") == [(11,), (12,), (13,)]
        assert rows("SELECT id FROM t VERSION AS OF 2") == [(1,)]
        assert rows("SELECT count(*) FROM t") == [(4,)]
        session.sql("COMMIT")


@pytest.mark.spark
@on_sqlite
def test_restored_version_is_a_new_commit(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[2]"}}
    settings = {"hivex.history.retention": "1h"}
    with Metastore.open(metastore_url, clusters=clusters, settings=settings) as metastore:
        session = metastore.session()
        rows = _rows(session)
        session.sql("CREATE TABLE t (id int, v int) PARTITIONED BY (p string)")
        session.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")  # 2
        session.sql("ALTER TABLE t CHANGE COLUMN v w int")  # 3
        session.sql("ALTER TABLE t ADD COLUMNS (x int)")  # 4
        session.sql("INSERT INTO t VALUES (3, 30, 3, 'c')")  # 5
        session.sql("TRUNCATE TABLE t PARTITION (p = 'a')")  # 6
        with pytest.raises(NoSuchVersionError):
            session.sql("RESTORE TABLE t TO VERSION AS OF 99")
        result = session.sql("RESTORE TABLE t TO VERSION AS OF 2")  # 7
        assert result.rows_written == 2
        assert rows("SELECT id, w, x, p FROM t") == [(1, 10, None, "a"), (2, 20, None, "b")]
        assert rows("SELECT id, w, x, p FROM t VERSION AS OF 6") == [(2, 20, None, "b"), (3, 30, 3, "c")]
        assert session.sql("DESCRIBE HISTORY t LIMIT 1").rows[0][5] == "RESTORE TABLE"
        session.sql("START TRANSACTION")
        session.sql("RESTORE t VERSION AS OF 6")
        session.sql("ROLLBACK")
        assert rows("SELECT id FROM t") == [(1,), (2,)]


def _rows(session: Session) -> Callable[[str], list[tuple[object, ...]]]:
    return lambda query: sorted(session.sql(query).rows, key=str)
