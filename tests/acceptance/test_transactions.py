"""START TRANSACTION, COMMIT, ROLLBACK, and transactions that several sessions and processes share."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AnalysisError,
    ColumnCountMismatchError,
    DeadlockError,
    HivexError,
    InvalidOperationError,
    NoSuchObjectError,
    NoSuchTransactionError,
    RoutingError,
    StatementCancelledError,
    StoreUnavailableError,
    TransactionAbortedError,
    TransactionCommittedError,
    WriteConflictError,
    WriteTakenBackError,
)
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.transactions import TxnState
from tests.acceptance.joining_process import join_and_die
from tests.processes import ClientProcess

pytestmark = pytest.mark.every_backend

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


@pytest.fixture
def tables(session: Session) -> Session:
    session.sql("CREATE TABLE t (a bigint)")
    session.sql("CREATE TABLE p (a bigint) PARTITIONED BY (ds string) TBLPROPERTIES ('hivex.cluster' = 'c2')")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("INSERT INTO p VALUES (1, 'x')")
    return session


@pytest.fixture
def other(metastore: Metastore) -> Session:
    return metastore.session(user="other")


def directories(root: Path, table: str) -> list[str]:
    found = {str(path.parent.relative_to(root)) for path in root.glob(f"c?/default.db/{table}/**/bucket_*")}
    return sorted(each.partition(f"default.db/{table}/")[2] for each in found)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


# -- one session ---------------------------------------------------------------------------


@pytest.mark.spark
def test_statements_of_a_transaction_appear_together(
    metastore: Metastore, tables: Session, other: Session, tmp_path: Path
) -> None:
    txn_id = tables.sql("START TRANSACTION").txn_id
    assert tables.txn_id == txn_id
    for sql in (
        "INSERT INTO t VALUES (10)",
        "INSERT INTO t SELECT a + 100 FROM t",
        "INSERT INTO p VALUES (20, 'x'), (30, 'new')",
    ):
        assert tables.sql(sql).txn_id == txn_id
    # Its own writes, in a new partition too, and through a filter that prunes it.
    assert tables.sql("SELECT a FROM t ORDER BY a").rows == [(1,), (10,), (101,), (110,)]
    assert tables.sql("SELECT a FROM p ORDER BY a").rows == [(1,), (20,), (30,)]
    assert tables.sql("SELECT a FROM p WHERE ds = 'new'").rows == [(30,)]
    assert other.sql("SELECT count(*) FROM t").rows == [(1,)]
    assert other.sql("SELECT count(*) FROM p").rows == [(1,)]
    assert other.sql("SHOW PARTITIONS p").rows == [("ds=x",)]
    assert tables.sql("COMMIT").txn_id == txn_id
    assert tables.txn_id is None
    assert other.sql("SELECT sum(a) FROM t").rows == [(222,)]
    assert other.sql("SELECT sum(a) FROM p WHERE ds = 'new'").rows == [(30,)]
    assert other.sql("SHOW PARTITIONS p").rows == [("ds=new",), ("ds=x",)]
    assert directories(tmp_path, "t") == [
        "delta_0000002_0000002_0000",
        "delta_0000003_0000003_0000",
        "delta_0000003_0000003_0001",
    ]
    assert metastore.locks.show() == []
    assert tables.sql("INSERT INTO t VALUES (5)").txn_id != txn_id


@pytest.mark.spark
def test_rollback_leaves_nothing(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    before = directories(tmp_path, "t"), directories(tmp_path, "p")
    tables.sql("START TRANSACTION")
    tables.sql("INSERT INTO t VALUES (10)")
    tables.sql("INSERT INTO p VALUES (20, 'new')")
    tables.sql("INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (30)")
    tables.sql("ROLLBACK")
    assert tables.sql("SELECT a FROM t").rows == [(1,)]
    assert tables.sql("SELECT a FROM p").rows == [(1,)]
    assert (directories(tmp_path, "t"), directories(tmp_path, "p")) == before
    assert not (tmp_path / "c2/default.db/p/ds=new").exists()
    assert metastore.locks.show() == []


@pytest.mark.spark
@on_sqlite
def test_reads_of_a_transaction_share_one_snapshot(tables: Session, other: Session) -> None:
    tables.sql("START TRANSACTION")
    assert tables.sql("SELECT a FROM t").rows == [(1,)]
    other.sql("INSERT INTO t VALUES (10)")
    other.sql("INSERT INTO p VALUES (10, 'x')")
    assert tables.sql("SELECT a FROM t").rows == [(1,)]
    assert tables.sql("SELECT a FROM p").rows == [(1,)]
    tables.sql("COMMIT")
    assert tables.sql("SELECT count(*) FROM t").rows == [(2,)]


@pytest.mark.spark
@on_sqlite
def test_failed_statement_leaves_its_transaction_open_and_nothing_of_itself(tables: Session, tmp_path: Path) -> None:
    tables.sql("START TRANSACTION")
    tables.sql("INSERT INTO t VALUES (10)")
    before = directories(tmp_path, "t")
    with pytest.raises(AnalysisError):
        tables.sql("INSERT INTO t SELECT nothing FROM t")
    with pytest.raises(HivexError):
        tables.sql("INSERT INTO t SELECT assert_true(a > 1000) IS NULL FROM t")
    assert directories(tmp_path, "t") == before
    tables.sql("COMMIT")
    assert tables.sql("SELECT a FROM t ORDER BY a").rows == [(1,), (10,)]


def test_closed_session_rolls_back(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    before = directories(tmp_path, "t")
    with metastore.session() as session:
        txn_id = session.sql("START TRANSACTION").txn_id
        session.sql("INSERT INTO t VALUES (10)")
    assert txn_id is not None
    assert metastore.transactions.get(txn_id).state is TxnState.ABORTED
    assert directories(tmp_path, "t") == before


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE new (a int)",
        "CREATE TABLE new AS SELECT 1",
        "DROP TABLE t",
        "ALTER TABLE p ADD PARTITION (ds = 'z')",
        "ALTER TABLE t SET TBLPROPERTIES ('x' = 'y')",
        "CREATE DATABASE d",
        "START TRANSACTION",
    ],
)
@on_sqlite
def test_what_cannot_be_part_of_a_transaction_is_refused(tables: Session, sql: str) -> None:
    tables.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError):
        tables.sql(sql)
    tables.sql("INSERT INTO t VALUES (2)")
    tables.sql("COMMIT")


@on_sqlite
def test_closed_session_runs_nothing(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    before = directories(tmp_path, "t")
    session = metastore.session()
    session.sql("START TRANSACTION")
    session.close()
    session.close()
    with pytest.raises(InvalidOperationError, match="closed"):
        session.sql("INSERT INTO t VALUES (10)")
    assert directories(tmp_path, "t") == before


@on_sqlite
def test_partition_that_the_transaction_has_made_exists(tables: Session, tmp_path: Path) -> None:
    tables.sql("START TRANSACTION")
    tables.sql("INSERT INTO p PARTITION (ds = 'new') VALUES (5)")
    before = directories(tmp_path, "p")
    assert tables.sql("INSERT OVERWRITE p PARTITION (ds = 'new') IF NOT EXISTS VALUES (6)").rows_written == 0
    tables.sql("COMMIT")
    assert directories(tmp_path, "p") == before


@on_sqlite
def test_transaction_that_can_never_commit_is_aborted(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    before = directories(tmp_path, "p")
    txn_id = tables.sql("START TRANSACTION").txn_id
    assert txn_id is not None
    tables.sql("INSERT INTO t VALUES (2)")
    tables.sql("INSERT INTO p VALUES (2, 'x')")
    # By a tool that asks for no locks.
    metastore.catalog.drop_table("default", "t")
    with pytest.raises(NoSuchObjectError, match="dropped"):
        tables.sql("COMMIT")
    assert metastore.transactions.get(txn_id).state is TxnState.ABORTED
    assert metastore.locks.show() == []
    assert directories(tmp_path, "p") == before


@on_sqlite
def test_statement_that_failed_before_it_wrote_conflicts_with_no_other(tables: Session, other: Session) -> None:
    tables.sql("START TRANSACTION")
    other.sql("START TRANSACTION")
    with pytest.raises(RoutingError):
        tables.sql("INSERT OVERWRITE t SELECT a FROM p")
    tables.sql("COMMIT")
    other.sql("INSERT OVERWRITE t VALUES (5)")
    other.sql("COMMIT")


@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK"])
@on_sqlite
def test_end_without_beginning_is_an_error(tables: Session, sql: str) -> None:
    with pytest.raises(InvalidOperationError, match="START TRANSACTION"):
        tables.sql(sql)


@pytest.mark.spark
@on_sqlite
def test_overwrite_counts_from_its_place_in_the_transaction(tables: Session, tmp_path: Path) -> None:
    tables.sql("START TRANSACTION")
    tables.sql("INSERT INTO p VALUES (2, 'x'), (3, 'y')")
    tables.sql("INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (4)")
    assert tables.sql("SELECT a FROM p ORDER BY a").rows == [(3,), (4,)]
    before = directories(tmp_path, "p")
    # Its base directory would hide what the same transaction writes there afterwards.
    for later in (
        "INSERT INTO p PARTITION (ds = 'x') VALUES (5)",
        "INSERT INTO p VALUES (5, 'y'), (5, 'x')",
        "INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (5)",
    ):
        with pytest.raises(InvalidOperationError, match="ds=x"):
            tables.sql(later)
    assert directories(tmp_path, "p") == before
    tables.sql("INSERT INTO p VALUES (6, 'y')")
    tables.sql("COMMIT")
    assert tables.sql("SELECT a FROM p ORDER BY a").rows == [(3,), (4,), (6,)]


# -- conflicts -----------------------------------------------------------------------------


def test_second_update_of_a_partition_in_a_transaction_conflicts(tables: Session, other: Session) -> None:
    tables.sql("START TRANSACTION")
    tables.sql("INSERT INTO t VALUES (2)")
    other.sql("INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (7)")
    with pytest.raises(WriteConflictError):
        tables.sql("INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (8)")
    # As long as it was not ended, nothing runs by accident outside of it.
    with pytest.raises(TransactionAbortedError):
        tables.sql("INSERT INTO t VALUES (3)")
    with pytest.raises(TransactionAbortedError):
        tables.sql("COMMIT")
    tables.sql("INSERT INTO t VALUES (4)")


def test_updates_of_different_partitions_do_not_conflict(tables: Session, other: Session) -> None:
    tables.sql("START TRANSACTION")
    tables.sql("INSERT OVERWRITE p PARTITION (ds = 'y') VALUES (8)")
    other.sql("INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (7)")
    tables.sql("COMMIT")


def test_dynamic_overwrites_conflict_by_the_partitions_that_they_wrote(tables: Session, metastore: Metastore) -> None:
    with metastore.session() as first, metastore.session() as second:
        for each in (first, second):
            each.sql("START TRANSACTION")
        first.sql("INSERT OVERWRITE p VALUES (1, 'one')")
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(second.sql, "INSERT OVERWRITE p VALUES (2, 'two')")
            until(lambda: any(lock.state is LockState.WAITING for lock in metastore.locks.show()))
            first.sql("COMMIT")
            # It had locked the whole table, as the rows decide, and now knows that nothing was lost.
            with pytest.raises(WriteConflictError):
                running.result(timeout=60)


def test_of_a_deadlock_the_youngest_is_ended(metastore: Metastore, tables: Session) -> None:
    with metastore.session(user="old") as old, metastore.session(user="young") as young, ThreadPoolExecutor(1) as pool:
        old.sql("START TRANSACTION")
        young.sql("START TRANSACTION")
        old.sql("INSERT OVERWRITE t VALUES (2)")
        young.sql("INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (2)")
        running = pool.submit(old.sql, "INSERT OVERWRITE p PARTITION (ds = 'x') VALUES (3)")
        until(lambda: any(lock.state is LockState.WAITING for lock in metastore.locks.show()))
        with pytest.raises(DeadlockError, match=r"transactions \d+ -> \d+ -> \d+"):
            young.sql("INSERT OVERWRITE t VALUES (3)")
        running.result(timeout=60)
        old.sql("COMMIT")
        young.sql("ROLLBACK")
    assert metastore.locks.show() == []


# -- several sessions and processes -----------------------------------------------------------


@pytest.mark.spark
def test_sessions_join_a_transaction(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    (txn_id,) = metastore.transactions.open(user="group", timeout=3600)
    with metastore.session(txn_id=txn_id, writer="first") as first:
        first.sql("INSERT INTO t VALUES (10)")
    with metastore.session(txn_id=txn_id, writer="second") as second:
        assert second.sql("SELECT sum(a) FROM t").rows == [(11,)]
        second.sql("INSERT INTO p VALUES (11, 'new')")
        for sql in ("COMMIT", "ROLLBACK"):
            with pytest.raises(InvalidOperationError, match="joined"):
                second.sql(sql)
    assert tables.sql("SELECT sum(a) FROM t").rows == [(1,)]
    metastore.commit(txn_id)
    metastore.commit(txn_id)
    assert tables.sql("SELECT sum(a) FROM t").rows == [(11,)]
    assert tables.sql("SELECT sum(a) FROM p WHERE ds = 'new'").rows == [(11,)]
    with pytest.raises(TransactionCommittedError):
        metastore.session(txn_id=txn_id)


@pytest.mark.parametrize("agent_info", [None, "a task"])
def test_cancelled_statement_stops_waiting_and_others_of_its_transaction_go_on(
    metastore: Metastore, tables: Session, agent_info: str | None
) -> None:
    tables.sql("START TRANSACTION")
    tables.sql("INSERT OVERWRITE t VALUES (2)")
    (txn_id,) = metastore.transactions.open(timeout=3600)
    with ThreadPoolExecutor(2) as pool:
        first, second = (metastore.session(txn_id=txn_id, agent_info=agent_info) for _ in range(2))
        ended, going_on = (pool.submit(each.sql, "INSERT INTO t VALUES (3)") for each in (first, second))

        def requests() -> int:
            return len(metastore.locks.show(txn_id=txn_id))

        until(lambda: requests() == 2)
        first.cancel()
        with pytest.raises(StatementCancelledError):
            ended.result(timeout=60)
        assert requests() == 1
        tables.sql("COMMIT")
        assert going_on.result(timeout=60).rows_written == 1
    metastore.commit(txn_id)


def test_writer_that_begins_again_replaces_what_it_wrote(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    for attempt in (1, 2):
        with metastore.session(txn_id=txn_id, writer="load") as session:
            session.sql(f"INSERT INTO t VALUES ({attempt})")
            session.sql(f"INSERT OVERWRITE p PARTITION (ds = 'x') VALUES ({attempt})")
    with metastore.session(txn_id=txn_id, writer="other") as session:
        session.sql("INSERT INTO t VALUES (100)")
    metastore.commit(txn_id)
    assert directories(tmp_path, "t") == [
        "delta_0000002_0000002_0000",
        "delta_0000003_0000003_0004",
        "delta_0000003_0000003_0007",
    ]
    # The second try has a write id of its own there: whatever still runs of the first cannot touch what it wrote.
    assert directories(tmp_path, "p") == ["ds=x/base_0000004", "ds=x/delta_0000002_0000002_0000"]


@pytest.mark.parametrize("goes_on", ["before the new one writes", "after that"])
def test_writer_that_was_replaced_and_goes_on_is_left_out(
    metastore: Metastore, tables: Session, tmp_path: Path, goes_on: str
) -> None:
    """A task whose worker was taken for dead, and that runs at the same time as its next try."""
    (txn_id,) = metastore.transactions.open(timeout=3600)
    with metastore.session(txn_id=txn_id, writer="load") as old:
        old.sql("INSERT INTO t VALUES (1)")
        with metastore.session(txn_id=txn_id, writer="load") as new:
            if goes_on == "after that":
                new.sql("INSERT INTO t VALUES (1)")
                with pytest.raises(WriteTakenBackError, match="'load' runs again"):
                    old.sql("INSERT INTO t VALUES (2)")
            else:
                old.sql("INSERT INTO t VALUES (2)")
                new.sql("INSERT INTO t VALUES (1)")
            new.sql("INSERT INTO t VALUES (2)")
    metastore.commit(txn_id)
    assert len(directories(tmp_path, "t")) == 3


def run_and_die(url: str, root: Path, txn_id: int, statement: str) -> None:
    """Run a statement of the transaction in a process that is killed when the files are written."""
    with ClientProcess(join_and_die, url, root, txn_id, statement, log=root / "joining.log") as process:
        code = process.wait(timeout_s=120)
        assert code == -signal.SIGKILL, process.error()


@pytest.mark.parametrize("statement", ["INSERT INTO p VALUES (5, 'x'), (6, 'new')", "INSERT INTO t VALUES (5)"])
def test_killed_writer_of_a_transaction_begins_again(
    metastore: Metastore, metastore_url: str, tables: Session, tmp_path: Path, statement: str
) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    before = directories(tmp_path, "t"), directories(tmp_path, "p")
    run_and_die(metastore_url, tmp_path, txn_id, statement)
    assert (directories(tmp_path, "t"), directories(tmp_path, "p")) != before
    with metastore.session(txn_id=txn_id, writer="load") as session:
        assert (directories(tmp_path, "t"), directories(tmp_path, "p")) == before
        session.sql("INSERT INTO t VALUES (7)")
    metastore.commit(txn_id)
    assert len(directories(tmp_path, "t")) == 2


def test_files_of_a_killed_statement_do_not_survive_the_commit(
    metastore: Metastore, metastore_url: str, tables: Session, tmp_path: Path
) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    before = directories(tmp_path, "t")
    run_and_die(metastore_url, tmp_path, txn_id, "INSERT INTO t VALUES (5)")
    metastore.commit(txn_id)
    assert directories(tmp_path, "t") == before


def test_aborted_transaction_leaves_no_files(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    before = directories(tmp_path, "t")
    (txn_id,) = metastore.transactions.open(timeout=3600)
    with metastore.session(txn_id=txn_id) as session:
        session.sql("INSERT INTO t VALUES (5)")
        metastore.abort(txn_id, "the run has failed")
        with pytest.raises(TransactionAbortedError, match="the run has failed"):
            session.sql("INSERT INTO t VALUES (6)")
    assert directories(tmp_path, "t") == before
    metastore.abort(txn_id)
    with pytest.raises(TransactionAbortedError, match="the run has failed"):
        metastore.session(txn_id=txn_id)
    with pytest.raises(NoSuchTransactionError):
        metastore.session(txn_id=999)


def test_housekeeper_deletes_what_a_transaction_without_heartbeat_wrote(
    metastore_url: str, tmp_path: Path, tables: Session, metastore: Metastore
) -> None:
    before = directories(tmp_path, "t")
    (txn_id,) = metastore.transactions.open(timeout=60)
    with metastore.session(txn_id=txn_id) as session:
        session.sql("INSERT INTO t VALUES (5)")
        later = int(time.time() * 1000) + 120_000
        clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
        with Metastore.open(metastore_url, clusters=clusters, clock=lambda: later) as housekeeping:
            result = housekeeping.housekeeper.run()
        assert (result.aborted, result.abandoned_writes) == ((txn_id,), 1)
        assert directories(tmp_path, "t") == before
        with pytest.raises(TransactionAbortedError, match="heartbeat"):
            session.sql("INSERT INTO t VALUES (6)")


@pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("ahead_s", [-900, 900])
def test_the_clock_of_a_client_decides_nothing(
    metastore: Metastore, metastore_url: str, clusters: dict[str, dict[str, str]], ahead_s: int
) -> None:
    (alive,) = metastore.transactions.open()
    now = metastore.transactions.get(alive).heartbeat_at
    with pytest.MonkeyPatch.context() as patched:
        wrong = time.time() + ahead_s
        patched.setattr(time, "time_ns", lambda: int(wrong * 1_000_000_000))
        patched.setattr(time, "time", lambda: wrong)
        with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as client:
            assert client.housekeeper.run().aborted == ()
            (txn_id,) = client.transactions.open()
            client.transactions.heartbeat(alive)
            assert abs(client.transactions.get(txn_id).started_at - now).total_seconds() < 60
            assert abs(client.transactions.get(alive).heartbeat_at - now).total_seconds() < 60
    assert metastore.housekeeper.run().aborted == ()


# -- a metastore that is lost --------------------------------------------------------------------


class Losing:
    """A fault: from ``begin`` on the named points fail like a database that is lost, as long as it is armed."""

    def __init__(self, begin: str, *points: str) -> None:
        self.begin, self.points = begin, points
        self.is_armed = self.is_losing = False

    def __call__(self, point: str) -> None:
        self.is_losing = self.is_armed and (self.is_losing or point == self.begin)
        if self.is_losing and point in self.points:
            raise StoreUnavailableError("test", point)


def open_losing(url: str, root: Path, losing: Losing) -> Metastore:
    clusters = {name: {"filesystem": (root / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    return Metastore.open(url, clusters=clusters, default_cluster="c1", fault=losing)


@on_sqlite
def test_commit_that_cannot_tidy_up_is_a_commit(
    metastore: Metastore, metastore_url: str, tables: Session, tmp_path: Path
) -> None:
    (txn_id,) = metastore.transactions.open(timeout=3600)
    run_and_die(metastore_url, tmp_path, txn_id, "INSERT INTO t VALUES (5)")
    losing = Losing("after commit", "before write")
    with open_losing(metastore_url, tmp_path, losing) as other:
        losing.is_armed = True
        other.commit(txn_id)
    assert metastore.transactions.get(txn_id).state is TxnState.COMMITTED
    assert metastore.housekeeper.run().abandoned_writes == 1


@on_sqlite
def test_commit_is_tried_again_after_the_metastore_was_lost(
    metastore: Metastore, metastore_url: str, tables: Session, tmp_path: Path
) -> None:
    losing = Losing("before commit", "before commit")
    with open_losing(metastore_url, tmp_path, losing) as lost, lost.session() as session:
        txn_id = session.sql("START TRANSACTION").txn_id
        session.sql("INSERT INTO t VALUES (5)")
        losing.is_armed = True
        with pytest.raises(StoreUnavailableError):
            session.sql("COMMIT")
        losing.is_armed = False
        assert session.txn_id == txn_id
        session.sql("COMMIT")
    assert len(directories(tmp_path, "t")) == 2


@on_sqlite
def test_error_of_a_statement_is_raised_when_its_write_cannot_be_withdrawn(
    metastore_url: str, tables: Session, tmp_path: Path
) -> None:
    losing = Losing("after allocate", "before write")
    with open_losing(metastore_url, tmp_path, losing) as lost, lost.session() as session:
        session.sql("START TRANSACTION")
        losing.is_armed = True
        with pytest.raises(ColumnCountMismatchError):
            session.sql("INSERT INTO t VALUES (5, 6)")


@pytest.mark.spark
@on_sqlite
def test_first_read_sees_what_its_snapshot_has(
    metastore_url: str, metastore: Metastore, tables: Session, other: Session, tmp_path: Path
) -> None:
    """Another client commits while the snapshot is being taken; on SQLite it waits for that commit."""
    committing, reached, begun = threading.Event(), threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "before commit" and begun.is_set():
            reached.set()
            committing.wait(1)

    def commit_meanwhile(point: str) -> None:
        if point == "after lock" and begun.is_set() and not reached.is_set():
            running.append(pool.submit(writer.sql, "COMMIT"))
            assert reached.wait(60)

    running = []
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    with (
        ThreadPoolExecutor(1) as pool,
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=hold) as first,
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=commit_meanwhile) as second,
        first.session() as writer,
        second.session() as reader,
    ):
        writer.sql("START TRANSACTION")
        writer.sql("INSERT INTO t VALUES (10)")
        reader.sql("START TRANSACTION")
        begun.set()
        rows = reader.sql("SELECT a FROM t ORDER BY a").rows
        running[0].result(timeout=60)
        assert reader.sql("SELECT a FROM t ORDER BY a").rows == rows
        assert rows == [(1,), (10,)]
