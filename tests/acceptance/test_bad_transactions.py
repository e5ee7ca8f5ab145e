"""Bad input around transactions and locks: a clear error of our own, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidLockRequestError,
    InvalidObjectError,
    InvalidParametersError,
    InvalidSettingError,
    NoSuchDatabaseError,
    NoSuchLockError,
    NoSuchTableError,
    NoSuchTransactionError,
    Outcome,
    StatementSyntaxError,
    StoreUnavailableError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
    UnexpectedError,
)
from airflow_hivex.core.model.locks import LockComponent, LockState, LockType
from airflow_hivex.core.model.objects import Database, Table
from airflow_hivex.core.model.transactions import Operation, TxnState

pytestmark = pytest.mark.every_backend

_END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
NO_IDS: list[Any] = [0, -1, -(2**63), 999_999, 2**63 - 1, 2**63, 10**40, True, 1.5, "1", None]


@pytest.fixture
def tables(session: Session) -> Session:
    session.sql("CREATE TABLE t (a int)")
    session.sql("CREATE DATABASE other")
    session.sql("CREATE TABLE other.u (a int)")
    return session


@pytest.fixture
def txn_id(metastore: Metastore, tables: Session) -> int:
    """An open transaction with a lock, which no bad input may change."""
    (txn_id,) = metastore.transactions.open(user="owner", timeout=3600)
    metastore.locks.acquire([LockComponent("default", "t")], txn_id)
    return txn_id


def state(metastore: Metastore) -> tuple[object, ...]:
    """All that a client can see of transactions and locks."""
    return [(each.id, each.state) for each in metastore.transactions.show()], metastore.locks.show()


CALLS: dict[str, Callable[[Metastore, Any], object]] = {
    "commit": lambda metastore, number: metastore.transactions.commit(number),
    "metastore.commit": lambda metastore, number: metastore.commit(number),
    "abort": lambda metastore, number: metastore.transactions.abort(number),
    "metastore.abort": lambda metastore, number: metastore.abort(number),
    "get": lambda metastore, number: metastore.transactions.get(number),
    "heartbeat": lambda metastore, number: metastore.transactions.heartbeat(number),
    "allocate": lambda metastore, number: metastore.transactions.allocate_write_ids([number], "default", "t"),
    "session": lambda metastore, number: metastore.session(txn_id=-1 if number is None else number),
    "lock": lambda metastore, number: metastore.locks.acquire(
        [LockComponent("default", "t")], -1 if number is None else number
    ),
    "check lock": lambda metastore, number: metastore.locks.check(number),
    "heartbeat of a lock": lambda metastore, number: metastore.locks.heartbeat(number),
}


def test_ids_that_nothing_has(metastore: Metastore, txn_id: int) -> None:
    before = state(metastore)
    for call in CALLS.values():
        for number in NO_IDS:
            with pytest.raises((NoSuchTransactionError, NoSuchLockError, TransactionNotOpenError)):
                call(metastore, number)
    for number in NO_IDS[:-1]:
        if number not in (999_999, 2**63 - 1):
            with pytest.raises(NoSuchTransactionError):
                metastore.transactions.valid_txns(number)
    assert state(metastore) == before


def test_ids_that_were_never_opened_are_ignored_where_many_are_aborted(metastore: Metastore, txn_id: int) -> None:
    before = state(metastore)
    assert metastore.transactions.abort_many(NO_IDS) == []
    assert state(metastore) == before


@pytest.mark.parametrize(
    ("component", "error"),
    [
        (LockComponent("default", "nothing"), NoSuchTableError),
        (LockComponent("nowhere", "t"), NoSuchDatabaseError),
        (LockComponent("nowhere", None), NoSuchDatabaseError),
        # A name that is qualified twice is not a table of either database.
        (LockComponent("default", "other.u"), NoSuchTableError),
        (LockComponent("default", "u"), NoSuchTableError),
    ],
)
def test_lock_on_what_is_not_there(
    metastore: Metastore, txn_id: int, component: LockComponent, error: type[HivexError]
) -> None:
    before = state(metastore)
    for owner in (txn_id, None):
        with pytest.raises(error):
            metastore.locks.acquire([LockComponent("default", "t"), component], owner)
    assert state(metastore) == before


def test_components_of_two_databases_are_granted_together_or_not_at_all(metastore: Metastore, txn_id: int) -> None:
    exclusive = [
        LockComponent("other", "u", type=LockType.EXCLUSIVE),
        LockComponent("default", "t", type=LockType.EXCLUSIVE),
    ]
    waiting = metastore.locks.acquire(exclusive, wait=False)
    assert waiting.state is LockState.WAITING
    assert {lock.state for lock in metastore.locks.show(lock_id=waiting.lock_id)} == {LockState.WAITING}
    metastore.transactions.commit(txn_id)
    assert metastore.locks.check(waiting.lock_id).state is LockState.ACQUIRED
    assert {lock.state for lock in metastore.locks.show(lock_id=waiting.lock_id)} == {LockState.ACQUIRED}


def test_request_that_cannot_be_granted(metastore: Metastore, txn_id: int) -> None:
    before = state(metastore)
    for components, timeout in (
        ([], None),
        ([LockComponent("default", "t")], -1),
        ([LockComponent("default", "t")], float("nan")),
    ):
        with pytest.raises(InvalidLockRequestError):
            metastore.locks.acquire(components, txn_id, timeout=timeout)
    for names in (("", "t", None), ("default", "", None), ("default", None, "ds=1"), ("default", "t\0", None)):
        with pytest.raises(InvalidLockRequestError):
            LockComponent(*names)
    assert state(metastore) == before


def test_nothing_follows_an_end(metastore: Metastore, txn_id: int) -> None:
    metastore.transactions.abort(txn_id, "the owner has given up")
    for call in ("commit", "metastore.commit", "heartbeat", "session", "lock"):
        with pytest.raises(TransactionAbortedError, match="the owner has given up"):
            CALLS[call](metastore, txn_id)
    with pytest.raises(TransactionNotOpenError):
        CALLS["allocate"](metastore, txn_id)
    (committed,) = metastore.transactions.open()
    metastore.transactions.commit(committed)
    for call in ("abort", "metastore.abort", "session", "lock"):
        with pytest.raises(TransactionCommittedError):
            CALLS[call](metastore, committed)
    assert metastore.transactions.get(txn_id).state is TxnState.ABORTED
    assert metastore.transactions.get(committed).state is TxnState.COMMITTED
    assert metastore.locks.show() == []


def test_statement_whose_database_was_lost_before_its_commit_is_not_applied(
    postgresql_url: str, tmp_path: Path
) -> None:
    steps: list[str] = []
    outcome = Outcome.NOT_APPLIED, True

    def lose(point: str) -> None:
        # The transaction begins with its locks and its write id.
        if point == "before open" and not steps:
            steps.append(point)
            # The answer to what is committed now does not arrive.
            with other.connect() as connection:
                connection.execute(text(_END_OTHERS))

    other = create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[1]"}}
    with Metastore.open(postgresql_url, clusters=clusters) as first, first.session() as session:
        session.sql("CREATE TABLE t (a int)")
    with Metastore.open(postgresql_url, clusters=clusters, fault=lose) as metastore, metastore.session() as session:
        try:
            # Where it is certain that the step was not done, the step is retried.
            written = session.sql("INSERT INTO t VALUES (1)").rows_written
        except StoreUnavailableError as error:
            outcome = error.outcome, error.retryable
            written = 0
        assert steps
        assert outcome == (Outcome.NOT_APPLIED, True)
        assert len(session.snapshot_files("t").files) == written
        assert session.sql("INSERT INTO t VALUES (1)").rows_written == 1
        assert len(session.snapshot_files("t").files) == written + 1
    other.dispose()


def test_heartbeat_after_the_reaper(metastore_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    now = [1_700_000_000_000]
    with Metastore.open(metastore_url, clusters=clusters, clock=lambda: now[0]) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (a int)")
        (txn_id,) = metastore.transactions.open()
        lock = metastore.locks.acquire([LockComponent("default", "t")])
        now[0] += 301_000
        assert metastore.housekeeper.run().aborted == (txn_id,)
        for call in (metastore.transactions.heartbeat, metastore.transactions.commit):
            with pytest.raises(TransactionAbortedError, match="heartbeat"):
                call(txn_id)
        for ask in (metastore.locks.heartbeat, metastore.locks.check):
            with pytest.raises(NoSuchLockError):
                ask(lock.lock_id)
        assert metastore.locks.show() == []


def test_nonsense_in_abort_transactions(metastore: Metastore, tables: Session, txn_id: int) -> None:
    before = state(metastore)
    for ids in ("", "abc", "-1", "0", "1.5", "9" * 20, "'1'", "1 x", "1,,2", "1;2 3", ":id", "1 - 1", "NULL"):
        with pytest.raises((StatementSyntaxError, InvalidParametersError)):
            tables.sql(f"ABORT TRANSACTIONS {ids}")
    assert state(metastore) == before


@pytest.mark.parametrize(
    "settings",
    [
        {"hive.txn.timeout": 0},
        {"hive.txn.timeout": -5},
        {"hive.txn.timeout": "soon"},
        {"hive.txn.max.open.batch": 0},
        {"hive.max.open.txns": "many"},
        {"hive.txn.retrysnapshot.max.count": 21},
        {"hive.lock.numretries": -1},
        {"hivex.lock.matrix": "5"},
        {"hive.txn.xlock.write": "perhaps"},
    ],
)
def test_setting_out_of_range(metastore_url: str, tmp_path: Path, settings: dict[str, object]) -> None:
    (name,) = settings
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "local[1]"}}
    with pytest.raises(InvalidSettingError, match=name):
        Metastore.open(metastore_url, clusters=clusters, settings=settings)


HOSTILE = ["a\0b", "\ud800x"]


@pytest.mark.parametrize("text", HOSTILE, ids=["NUL", "half of a pair"])
def test_text_that_no_database_keeps_is_refused_or_replaced_and_settles_everything(
    metastore: Metastore, txn_id: int, text: str
) -> None:
    before = state(metastore)
    named = Database(name="new", description=text)
    calls: list[Callable[[], object]] = [
        lambda: metastore.session(user=text),
        lambda: metastore.session(database=text),
        lambda: metastore.session(cluster=text),
        lambda: metastore.transactions.open(user=text),
        lambda: metastore.transactions.open(key=text),
        lambda: metastore.transactions.find(text),
        lambda: metastore.transactions.allocate_write_ids([txn_id], "default", text),
        lambda: metastore.transactions.allocate_write_ids(
            [txn_id], "default", "t", partition=text, operation=Operation.INSERT
        ),
        lambda: metastore.locks.acquire([LockComponent("default", "t")], user=text),
        lambda: metastore.locks.show(text),
        lambda: LockComponent("default", "t", text),
        lambda: metastore.catalog.create_database(named),
        lambda: metastore.catalog.create_database(replace(named, description="", parameters={"a": text})),
        lambda: metastore.catalog.create_database(replace(named, description="", parameters={text: "a"})),
        lambda: metastore.catalog.create_database(replace(named, description="", location=text)),
        lambda: metastore.catalog.create_database(replace(named, description="", owner=text)),
        lambda: metastore.catalog.get_table("default", text),
        lambda: metastore.catalog.get_table("default", "t", cluster=text),
        lambda: metastore.catalog.alter_table("default", "t", replace(table(), comment=text)),
        lambda: metastore.catalog.alter_table("default", "t", replace(table(), parameters={"k": text})),
        lambda: metastore.compactor.request("default", text),
    ]

    def table() -> Table:
        return metastore.catalog.get_table("default", "t")

    for call in calls:
        with pytest.raises(HivexError):
            call()
    assert state(metastore) == before
    # A text that only people read is made fit.
    (other,) = metastore.transactions.open(agent_info=text, host=text)
    metastore.locks.acquire([LockComponent("default", "t")], other, agent_info=text)
    metastore.transactions.abort(other, f"because of {text}")
    reason = metastore.transactions.get(other).reason
    assert reason is not None
    assert reason.startswith("because of")
    metastore.transactions.commit(txn_id)
    assert metastore.locks.show() == []


@pytest.mark.parametrize("text", HOSTILE, ids=["NUL", "half of a pair"])
def test_statements_with_text_that_no_database_keeps(metastore: Metastore, tables: Session, text: str) -> None:
    tables.sql("CREATE TABLE p (a int) PARTITIONED BY (k string)")
    statements: list[tuple[Any, Any]] = [
        (f"SELECT '{text}'", None),
        (f"SELECT 1 -- {text}", None),
        (f"CREATE TABLE u (a int) COMMENT '{text}'", None),
        ("CREATE TABLE u (a int) COMMENT 'a\\0b'", None),
        ("ALTER TABLE t SET TBLPROPERTIES ('k' = 'a\\0b')", None),
        ("ALTER TABLE t SET TBLPROPERTIES ('k\\u0000' = 'a')", None),
        ("CREATE DATABASE d COMMENT 'a\\0b'", None),
        ("CREATE TABLE u (a int COMMENT 'a\\0b')", None),
        ("CREATE VIEW v COMMENT 'a\\0b' AS SELECT 1 AS a", None),
        ("ALTER TABLE p ADD PARTITION (k = 'a\\0b')", None),
        ("ALTER TABLE p DROP PARTITION (k = 'a\\0b')", None),
        ("INSERT INTO p PARTITION (k = 'a\\0b') VALUES (1)", None),
        ("INSERT INTO p VALUES (1, 'a\\0b')", None),
        ("INSERT INTO p VALUES (1, :k)", {"k": text}),
        ("INSERT INTO p PARTITION (k = :k) VALUES (1)", {"k": text}),
        ("SELECT :a", {"a": text} if "\0" not in text else {text: 1}),
    ]
    for statement, parameters in statements:
        try:
            with pytest.raises(HivexError) as raised:
                tables.sql(statement, parameters)
            str(raised.value).encode()
            assert not isinstance(raised.value, UnexpectedError)
            assert (metastore.transactions.valid_txns().open_ids, metastore.locks.show()) == ((), [])
        except BaseException as failure:
            failure.add_note(ascii(statement))
            raise
    tables.sql("INSERT INTO t VALUES (1)")
    tables.sql("INSERT INTO p VALUES (1, 'x')")


def test_names_that_are_too_long_are_refused_alike_on_both_databases(metastore: Metastore, tables: Session) -> None:
    tables.sql("CREATE TABLE p (a int) PARTITIONED BY (k string)")
    before = metastore.catalog.list_tables("default")
    long = "x" * 3000
    for statement, error in (
        (f"CREATE TABLE {long} (a int)", InvalidObjectError),
        (f"CREATE DATABASE {long}", InvalidObjectError),
        (f"ALTER TABLE t RENAME TO {long}", InvalidObjectError),
        (f"SELECT * FROM {long}", NoSuchTableError),
        (f"USE {long}", NoSuchDatabaseError),
        (f"ALTER TABLE p ADD PARTITION (k = '{long}')", InvalidObjectError),
        (f"INSERT INTO p PARTITION (k = '{long}') VALUES (1)", InvalidObjectError),
        (f"INSERT INTO p VALUES (1, '{long}')", InvalidObjectError),
        (f"INSERT INTO p VALUES (1, '{'ü' * 1500}')", InvalidObjectError),
        (f"CREATE EXTERNAL TABLE e (a int) STORED AS ORC LOCATION '/{long}'", InvalidParametersError),
        (f"CREATE DATABASE d LOCATION '/{long}'", InvalidParametersError),
    ):
        with pytest.raises(error):
            tables.sql(statement)
        assert metastore.catalog.list_tables("default") == before
        assert (metastore.transactions.valid_txns().open_ids, metastore.locks.show()) == ((), [])
    with pytest.raises(InvalidLockRequestError):
        LockComponent("default", "p", f"k={long}")
    for call in (
        lambda: metastore.session(user=long),
        lambda: metastore.catalog.create_database(Database(name="d", owner=long)),
        lambda: metastore.session(txn_id=metastore.transactions.open()[0], writer=long),
    ):
        with pytest.raises(InvalidParametersError):
            call()


@pytest.mark.parametrize("text", [None, b"", b"SELECT 1", 5, ["SELECT 1"]])
def test_what_is_no_text_is_refused_as_a_statement(tables: Session, text: Any) -> None:
    for call in (tables.sql, tables.explain, tables.snapshot_files):
        with pytest.raises(InvalidParametersError, match=type(text).__name__):
            call(text)


@pytest.mark.parametrize("parameters", [5, "a", ["a"], [("a", 1)], {"a"}])
def test_parameters_that_are_no_mapping_are_refused(tables: Session, parameters: Any) -> None:
    with pytest.raises(InvalidParametersError, match="mapping"):
        tables.sql("SELECT 1", parameters)


@pytest.mark.parametrize("max_rows", ["1", 1.5, -1, [1]])
def test_number_of_rows_that_is_none_is_refused(tables: Session, max_rows: Any) -> None:
    with pytest.raises(InvalidParametersError, match="max_rows"):
        tables.sql("SELECT 1", max_rows=max_rows)
