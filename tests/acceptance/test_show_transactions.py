"""SHOW TRANSACTIONS, SHOW LOCKS and ABORT TRANSACTIONS, as people use them who look for what is stuck."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchTableError,
    StatementSyntaxError,
    TransactionAbortedError,
)
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockResponse, LockState, LockType
from airflow_hivex.core.model.transactions import AbortReason, TxnState
from tests.acceptance.cluster_files import data_files

pytestmark = pytest.mark.every_backend

LOCK_COLUMNS = [
    "lockid",
    "database",
    "table",
    "partition",
    "lock_state",
    "blocked_by",
    "lock_type",
    "transaction_id",
    "last_heartbeat",
    "acquired_at",
    "user",
    "hostname",
    "agent_info",
]
HOST = socket.gethostname()


def rows(session: Session, sql: str) -> list[dict[str, object]]:
    """The rows of a statement by the names of their columns."""
    result = session.sql(sql)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows]


def on(table: str | None, type: LockType, partition: str | None = None, database: str = "default") -> LockComponent:
    operation = DataOperation.SELECT if type is LockType.SHARED_READ else DataOperation.UPDATE
    return LockComponent(database, table, partition, type, operation if table else DataOperation.NO_TXN)


@pytest.fixture
def tables(session: Session) -> Session:
    session.sql("CREATE TABLE t (a int)")
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (ds string, hr int)")
    session.sql("CREATE DATABASE d")
    session.sql("CREATE TABLE d.t (a int)")
    return session


def open_one(metastore: Metastore, user: str) -> int:
    (txn_id,) = metastore.transactions.open(user=user)
    return txn_id


@contextmanager
def waiting(metastore: Metastore, user: str, *components: LockComponent) -> Iterator[tuple[int, Future[LockResponse]]]:
    """While the block runs, a transaction of ``user`` waits for its locks in a thread of its own."""
    txn_id = open_one(metastore, user)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(
            metastore.locks.acquire, components, txn_id, user=user, agent_info=f"task of {user}", timeout=60
        )
        try:
            deadline = time.monotonic() + 30
            while not any(lock.state is LockState.WAITING for lock in metastore.locks.show(txn_id=txn_id)):
                assert not asking.done(), asking.result()
                assert time.monotonic() < deadline
            yield txn_id, asking
        finally:
            metastore.transactions.abort_many([txn_id], "the test is over")


# -- SHOW TRANSACTIONS -------------------------------------------------------------------


def test_open_and_aborted_transactions_are_shown(metastore: Metastore, session: Session) -> None:
    before_ms = int(time.time() * 1000)
    mine, aborted, committed = (open_one(metastore, user) for user in ("ann", "bob", "cid"))
    metastore.transactions.abort(aborted, "not needed")
    metastore.transactions.commit(committed)
    result = session.sql("SHOW TRANSACTIONS")
    assert result.columns == ["txnid", "state", "startedtime", "lastheartbeattime", "user", "host", "agent_info"]
    assert [(row[0], row[1], *row[4:]) for row in result.rows] == [
        (str(mine), "OPEN", "ann", HOST, None),
        (str(aborted), "ABORTED", "bob", HOST, None),
    ]
    assert all(isinstance(value, str) for row in result.rows for value in row[:-1])
    started_ms, heartbeat_ms = int(str(result.rows[0][2])), int(str(result.rows[0][3]))
    # The database's clock is read across a connection.
    assert before_ms - 1000 <= started_ms == heartbeat_ms <= time.time() * 1000 + 1000
    metastore.transactions.heartbeat(mine)
    (shown, _) = rows(session, "SHOW TRANSACTIONS")
    assert int(str(shown["lastheartbeattime"])) >= started_ms == int(str(shown["startedtime"]))


def test_open_transaction_is_shown_with_its_dag_and_task(metastore: Metastore, session: Session) -> None:
    agent = "daily.load.orders scheduled__2026-01-01 1"
    with metastore.session(agent_info=agent) as other:
        other.sql("START TRANSACTION")
        (shown,) = rows(session, "SHOW TRANSACTIONS")
    assert shown["agent_info"] == agent


def test_without_transactions_and_locks_there_is_only_the_header(session: Session) -> None:
    for sql, width in (("SHOW TRANSACTIONS", 7), ("SHOW LOCKS", 13), ("SHOW LOCKS DATABASE default", 13)):
        result = session.sql(sql)
        assert (len(result.columns), result.rows) == (width, [])


# -- SHOW LOCKS --------------------------------------------------------------------------


def test_waiting_request_is_shown_with_its_blocker(metastore: Metastore, tables: Session) -> None:
    before_ms = int(time.time() * 1000)
    holder = open_one(metastore, "ann")
    held = metastore.locks.acquire(
        [on("t", LockType.SHARED_READ), on("p", LockType.EXCLUSIVE, "ds=x/hr=1")], holder, user="ann"
    )
    with waiting(metastore, "bob", on("p", LockType.EXCL_WRITE, "ds=x/hr=1")) as (waiter, _):
        (asked,) = metastore.locks.show(txn_id=waiter)
        result = tables.sql("SHOW LOCKS")
        assert result.columns == LOCK_COLUMNS
        shown = rows(tables, "SHOW LOCKS")
    times = [(row.pop("last_heartbeat"), row.pop("acquired_at")) for row in shown]
    common = {"database": "default", "hostname": HOST}
    assert shown == [
        common
        | {
            "lockid": f"{held.lock_id}.1",
            "table": "t",
            "partition": None,
            "lock_state": "ACQUIRED",
            "blocked_by": " " * 12,
            "lock_type": "SHARED_READ",
            "transaction_id": str(holder),
            "user": "ann",
            "agent_info": None,
        },
        common
        | {
            "lockid": f"{held.lock_id}.2",
            "table": "p",
            "partition": "ds=x/hr=1",
            "lock_state": "ACQUIRED",
            "blocked_by": " " * 12,
            "lock_type": "EXCLUSIVE",
            "transaction_id": str(holder),
            "user": "ann",
            "agent_info": None,
        },
        common
        | {
            "lockid": f"{asked.lock_id}.1",
            "table": "p",
            "partition": "ds=x/hr=1",
            "lock_state": "WAITING",
            "blocked_by": f"{held.lock_id}.2",
            "lock_type": "EXCL_WRITE",
            "transaction_id": str(waiter),
            "user": "bob",
            "agent_info": "task of bob",
        },
    ]
    # The database's clock is read across a connection.
    before_ms, now_ms = before_ms - 1000, time.time() * 1000 + 1000
    assert all(before_ms <= int(str(heartbeat)) <= now_ms for heartbeat, _ in times)
    assert all(before_ms <= int(str(acquired)) <= now_ms for _, acquired in times[:2])
    assert times[2][1] is None


def test_lock_without_transaction_on_a_whole_database_has_nulls(metastore: Metastore, tables: Session) -> None:
    metastore.locks.acquire([on(None, LockType.SHARED_READ, database="d")], user="ann")
    (shown,) = rows(tables, "SHOW LOCKS")
    assert [shown[name] for name in ("database", "table", "partition", "transaction_id", "agent_info")] == [
        "d",
        None,
        None,
        None,
        None,
    ]


FILTERS = {
    "SHOW LOCKS": [1, 2, 3, 4, 5, 6],
    "SHOW LOCKS EXTENDED": [1, 2, 3, 4, 5, 6],
    "SHOW LOCKS p": [2, 3, 4],
    "show locks Default.P extended": [2, 3, 4],
    "SHOW LOCKS p PARTITION (ds = 'x', hr = 1)": [3],
    "SHOW LOCKS p PARTITION (HR = '01', ds = 'x') EXTENDED": [3],
    "SHOW LOCKS p PARTITION (ds = NULL, hr = 1)": [4],
    "SHOW LOCKS p PARTITION (ds = 'y', hr = 1)": [],
    "SHOW LOCKS t": [1],
    "SHOW LOCKS d.t": [6],
    "SHOW LOCKS DATABASE d": [5, 6],
    "SHOW LOCKS SCHEMA D EXTENDED": [5, 6],
    "SHOW LOCKS DATABASE default": [1, 2, 3, 4],
}


def test_locks_are_shown_by_database_table_and_partition(metastore: Metastore, tables: Session) -> None:
    held = metastore.locks.acquire(
        [
            on("t", LockType.SHARED_READ),
            on("p", LockType.SHARED_READ),
            on("p", LockType.SHARED_READ, "ds=x/hr=1"),
            on("p", LockType.SHARED_READ, "ds=__HIVE_DEFAULT_PARTITION__/hr=1"),
            on(None, LockType.SHARED_READ, database="d"),
            on("t", LockType.SHARED_READ, database="d"),
        ],
        open_one(metastore, "ann"),
    )
    found = {sql: [row["lockid"] for row in rows(tables, sql)] for sql in FILTERS}
    assert found == {sql: [f"{held.lock_id}.{number}" for number in numbers] for sql, numbers in FILTERS.items()}


def test_table_without_database_is_one_of_the_current_database(metastore: Metastore, tables: Session) -> None:
    metastore.locks.acquire([on("t", LockType.SHARED_READ, database="d")], open_one(metastore, "ann"))
    assert rows(tables, "SHOW LOCKS t") == []
    tables.sql("USE d")
    assert [row["database"] for row in rows(tables, "SHOW LOCKS t")] == ["d"]


def test_lock_on_a_table_that_is_being_made_is_shown(metastore: Metastore, tables: Session) -> None:
    new = LockComponent("default", "new", None, LockType.EXCL_WRITE, DataOperation.INSERT, is_new_table=True)
    metastore.locks.acquire([new], open_one(metastore, "ann"))
    assert [row["table"] for row in rows(tables, "SHOW LOCKS new")] == ["new"]


def test_filter_that_fits_nothing_is_an_error(tables: Session) -> None:
    errors: dict[str, tuple[type[HivexError], str]] = {
        "SHOW LOCKS nowhere": (NoSuchTableError, "nowhere"),
        "SHOW LOCKS nowhere.t": (NoSuchDatabaseError, "nowhere"),
        "SHOW LOCKS DATABASE nowhere": (NoSuchDatabaseError, "nowhere"),
        "SHOW LOCKS t PARTITION (ds = 'x')": (InvalidOperationError, "no partition keys"),
        "SHOW LOCKS p PARTITION (ds = 'x')": (InvalidObjectError, "no value for key hr"),
        "SHOW LOCKS p PARTITION (ds = 'x', hour = 1)": (NoSuchColumnError, "hour"),
        "SHOW LOCKS p PARTITION (ds = 'x', hr = 'noon')": (InvalidObjectError, "not of type int"),
    }
    for sql, (error, named) in errors.items():
        with pytest.raises(error, match=named):
            tables.sql(sql)


# -- ABORT TRANSACTIONS ------------------------------------------------------------------


def test_abort_frees_locks_and_returns_the_open_ones(metastore: Metastore, tables: Session) -> None:
    ann, bob, cid = (open_one(metastore, user) for user in ("ann", "bob", "cid"))
    metastore.transactions.abort(bob, "the reason of bob")
    metastore.transactions.commit(cid)
    metastore.locks.acquire([on("t", LockType.EXCLUSIVE)], ann, user="ann")
    with metastore.session(user="boss", agent_info="on call") as boss:
        result = boss.sql(f"ABORT TRANSACTIONS {cid} {ann}, {bob} 123456 {ann}")
        assert (result.columns, result.rows) == (["txnid"], [(str(ann),)])
        assert boss.sql(f"ABORT TRANSACTIONS {ann}").rows == []
    assert rows(tables, "SHOW LOCKS") == []
    aborted = metastore.transactions.get(ann)
    assert aborted.reason_code == AbortReason.ABORT_QUERY.number
    assert aborted.reason == "aborted by ABORT TRANSACTIONS of boss (on call)"
    assert metastore.transactions.get(bob).reason == "the reason of bob"
    assert metastore.transactions.get(cid).state is TxnState.COMMITTED
    with pytest.raises(TransactionAbortedError, match="ABORT TRANSACTIONS of boss"):
        metastore.transactions.commit(ann)


def test_abort_deletes_what_the_transaction_has_written(metastore: Metastore, tables: Session, tmp_path: Path) -> None:
    with metastore.session(user="ann") as ann:
        ann.sql("START TRANSACTION")
        ann.sql("INSERT INTO t VALUES (1)")
        ann.sql("INSERT INTO p VALUES (1, 'x', 1)")
        assert len(list(tmp_path.glob("c1/**/bucket_*"))) == 2
        tables.sql(f"ABORT TRANSACTIONS {ann.txn_id}")
        assert data_files(tmp_path) == []
        assert not list(tmp_path.glob("c1/**/*=*"))
        with pytest.raises(TransactionAbortedError, match="ABORT TRANSACTIONS of tester"):
            ann.sql("INSERT INTO t VALUES (2)")
        ann.sql("ROLLBACK")
        ann.sql("INSERT INTO t VALUES (3)")
    assert [row["state"] for row in rows(tables, "SHOW TRANSACTIONS")] == ["ABORTED"]


def test_aborted_holder_lets_the_waiting_one_go_on(metastore: Metastore, tables: Session) -> None:
    ann = open_one(metastore, "ann")
    metastore.locks.acquire([on("t", LockType.EXCLUSIVE)], ann, user="ann")
    with waiting(metastore, "bob", on("t", LockType.EXCLUSIVE)) as (_, asking):
        tables.sql(f"ABORT TRANSACTIONS {ann}")
        assert asking.result(timeout=30).is_acquired


def test_aborted_waiter_learns_who_did_it(metastore: Metastore, tables: Session) -> None:
    ann = open_one(metastore, "ann")
    metastore.locks.acquire([on("t", LockType.EXCLUSIVE)], ann, user="ann")
    with waiting(metastore, "bob", on("t", LockType.EXCLUSIVE)) as (bob, asking):
        tables.sql(f"ABORT TRANSACTIONS {bob}")
        with pytest.raises(TransactionAbortedError, match="ABORT TRANSACTIONS of tester"):
            asking.result(timeout=30)
    assert [row["transaction_id"] for row in rows(tables, "SHOW LOCKS t")] == [str(ann)]


def test_nonsense_aborts_nothing(metastore: Metastore, session: Session) -> None:
    mine = open_one(metastore, "ann")
    for ids in (
        "",
        f"{mine} -1",
        f"{mine} 0",
        f"{mine} 9223372036854775808",
        f"{mine} all",
        f"{mine}; ABORT TRANSACTIONS {mine}",
        f"'{mine}'",
    ):
        with pytest.raises(StatementSyntaxError):
            session.sql(f"ABORT TRANSACTIONS {ids}")
    assert metastore.transactions.get(mine).state is TxnState.OPEN
    assert session.sql(f"ABORT TRANSACTIONS {2**63 - 1}").rows == []
