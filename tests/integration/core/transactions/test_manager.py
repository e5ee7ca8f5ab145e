from __future__ import annotations

import queue
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import (
    InvalidTransactionRequestError,
    NoSuchTableError,
    NoSuchTransactionError,
    TooManyOpenTransactionsError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
)
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.model.transactions import AbortReason, HeartbeatRange, TxnState, TxnType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import txns
from airflow_hivex.core.transactions.heartbeats import batch_heartbeats
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock, add_unwritten_table
from tests.processes import CONTEXT


@pytest.fixture
def table(store: Store) -> str:
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
    add_unwritten_table(store, Table("default", "t", storage, parameters={"transactional": "true"}))
    return "default.t"


def test_ids_are_consecutive_from_one(transactions: TransactionManager) -> None:
    assert transactions.open() == [1]
    assert transactions.open(3, user="etl") == [2, 3, 4]
    assert transactions.get(3).user == "etl"


def test_batch_is_cut_to_its_limit(store: Store, clock: Clock) -> None:
    transactions = TransactionManager(store, Settings({"hive.txn.max.open.batch": 5}), clock)
    assert transactions.open(50) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", [0, -1])
def test_no_transactions_cannot_be_opened(transactions: TransactionManager, count: int) -> None:
    with pytest.raises(TransactionNotOpenError):
        transactions.open(count)
    assert transactions.valid_txns().high_watermark == 0


def test_limit_of_open_transactions_holds(store: Store, clock: Clock) -> None:
    transactions = TransactionManager(store, Settings({"hive.max.open.txns": 2}), clock)
    first, _ = transactions.open(2)
    with pytest.raises(TooManyOpenTransactionsError):
        transactions.open()
    transactions.commit(first)
    assert transactions.open() == [3]


def test_limit_holds_until_a_tenth_has_ended(store: Store, clock: Clock) -> None:
    transactions = TransactionManager(store, Settings({"hive.max.open.txns": 10}), clock)
    ids = transactions.open(10)
    with pytest.raises(TooManyOpenTransactionsError):
        transactions.open()
    transactions.commit(ids[0])
    with pytest.raises(TooManyOpenTransactionsError):
        transactions.open()
    transactions.commit(ids[1])
    assert transactions.open() == [11]


@pytest.mark.parametrize("timeout", [0, -1, 10**10, 2**70])
def test_impossible_time_outs_are_refused(transactions: TransactionManager, timeout: int) -> None:
    with pytest.raises(TransactionNotOpenError):
        transactions.open(timeout=timeout)


def test_replication_has_its_own_time_out(transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open(type=TxnType.REPL_CREATED)
    assert transactions.get(txn_id).timeout_s == 11 * 86_400


def test_transaction_of_a_key_is_opened_once(store: Store, clock: Clock, transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open(key="dag/run/1", user="etl")
    other_process = TransactionManager(store, Settings({}), clock)
    assert other_process.open(key="dag/run/1") == [txn_id]
    assert other_process.open(key="dag/run/2") == [txn_id + 1]
    found = other_process.find("dag/run/1")
    assert found is not None
    assert (found.id, found.user, found.state) == (txn_id, "etl", TxnState.OPEN)
    assert transactions.find("dag/run/3") is None


def test_transaction_of_a_key_is_not_opened_again_once_it_has_ended(transactions: TransactionManager) -> None:
    (committed,), (aborted,) = transactions.open(key="first"), transactions.open(key="second")
    transactions.commit(committed)
    transactions.abort(aborted, "on purpose")
    with pytest.raises(TransactionCommittedError):
        transactions.open(key="first")
    with pytest.raises(TransactionAbortedError, match="on purpose"):
        transactions.open(key="second")
    assert transactions.valid_txns().high_watermark == aborted


@pytest.mark.parametrize("key", ["", "k" * 1025, "a\0b"])
def test_impossible_keys_are_refused(transactions: TransactionManager, key: str) -> None:
    with pytest.raises(InvalidTransactionRequestError):
        transactions.open(key=key)
    with pytest.raises(InvalidTransactionRequestError):
        transactions.find(key)
    with pytest.raises(InvalidTransactionRequestError):
        transactions.open(2, key="of two")
    assert transactions.open(key="k" * 1024) == [1]


def test_processes_that_open_with_one_key_at_once_get_one_transaction(metastore_url: str, store: Store) -> None:
    with ProcessPoolExecutor(4, mp_context=CONTEXT) as pool:
        opened = list(pool.map(_open_with_keys, [metastore_url] * 4))
    assert opened == [opened[0]] * 4
    assert sorted(opened[0]) == list(range(1, 21))


def _open_with_keys(url: str) -> list[int]:
    store = Store(url)
    try:
        transactions = TransactionManager(store, Settings({}), system_clock)
        return [transactions.open(key=f"key {number}")[0] for number in range(20)]
    finally:
        store.close()


def test_transaction_of_a_key_is_found_by_the_successor_of_a_client_that_died(
    metastore_url: str, store: Store, clock: Clock, transactions: TransactionManager
) -> None:
    def die(point: str) -> None:
        if point == dying_at:
            raise KeyboardInterrupt

    dying = Store(metastore_url, die)
    client = TransactionManager(dying, Settings({}), clock)
    for dying_at in ("before open", "after open"):
        with pytest.raises(KeyboardInterrupt):
            client.open(key=dying_at)
    dying.close()
    assert transactions.find("before open") is None
    (survivor,) = transactions.open(key="after open")
    assert [each.id for each in transactions.show()] == [survivor]


def test_open_and_aborted_transactions_are_shown(transactions: TransactionManager) -> None:
    committed, aborted, still_open = transactions.open(3, user="etl")
    transactions.commit(committed)
    transactions.abort(aborted, "on purpose", AbortReason.ROLLBACK)
    assert [(each.id, each.state, each.reason_code) for each in transactions.show()] == [
        (aborted, TxnState.ABORTED, 50005),
        (still_open, TxnState.OPEN, None),
    ]


def test_commit_is_final_and_repeatable(transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open()
    transactions.commit(txn_id)
    transactions.commit(txn_id)
    assert transactions.get(txn_id).state is TxnState.COMMITTED
    with pytest.raises(TransactionCommittedError):
        transactions.abort(txn_id)


def test_abort_is_final_and_repeatable(transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open()
    transactions.abort(txn_id, "on purpose")
    transactions.abort(txn_id)
    with pytest.raises(TransactionAbortedError, match="on purpose"):
        transactions.commit(txn_id)
    with pytest.raises(TransactionAbortedError):
        transactions.heartbeat(txn_id)


@pytest.mark.parametrize("txn_id", [-1, 0, 99, 2**62, 2**63, -(2**80), 2**200, True, "7", 1.5])
def test_unknown_ids_are_reported(transactions: TransactionManager, txn_id: int) -> None:
    for call in (transactions.commit, transactions.abort, transactions.heartbeat, transactions.get):
        with pytest.raises(NoSuchTransactionError):
            call(txn_id)


def test_refused_commit_undoes_its_changes(transactions: TransactionManager, catalog: ObjectStore, table: str) -> None:
    (txn_id,) = transactions.open()

    def changes(connection: Connection) -> None:
        catalog.joining(connection).drop_table("default", "t")
        raise NoSuchTableError("default", "u")

    with pytest.raises(NoSuchTableError):
        transactions.commit(txn_id, changes)
    assert catalog.list_tables("default") == ["t"]
    assert transactions.get(txn_id).state is TxnState.OPEN


def test_changes_of_an_aborted_transaction_are_not_applied(
    transactions: TransactionManager, catalog: ObjectStore, table: str
) -> None:
    (txn_id,) = transactions.open()
    transactions.abort(txn_id)
    with pytest.raises(TransactionAbortedError):
        transactions.commit(txn_id, lambda connection: catalog.joining(connection).drop_table("default", "t"))
    assert catalog.list_tables("default") == ["t"]


def test_write_ids_count_per_table_and_are_handed_out_once(transactions: TransactionManager, table: str) -> None:
    first, second, third = transactions.open(3)
    assert transactions.allocate_write_ids([second], "default", "t") == {second: 1}
    assert transactions.allocate_write_ids([third, first], "DEFAULT", "T") == {first: 2, third: 3}
    assert transactions.allocate_write_ids([first, second], "default", "t") == {first: 2, second: 1}


def test_write_ids_need_open_writing_transactions(transactions: TransactionManager, table: str) -> None:
    open_id, ended = transactions.open(2)
    transactions.commit(ended)
    (reading,) = transactions.open(type=TxnType.READ_ONLY)
    for ids in ([open_id, ended], [reading], [77], []):
        with pytest.raises(TransactionNotOpenError):
            transactions.allocate_write_ids(ids, "default", "t")
    with pytest.raises(NoSuchTableError):
        transactions.allocate_write_ids([open_id], "default", "missing")
    assert transactions.allocate_write_ids([open_id], "default", "t") == {open_id: 1}


@pytest.mark.parametrize("txn_id", [-1, 2**63, 2**200])
def test_impossible_transactions_get_no_write_ids(transactions: TransactionManager, table: str, txn_id: int) -> None:
    (open_id,) = transactions.open()
    with pytest.raises(TransactionNotOpenError):
        transactions.allocate_write_ids([open_id, txn_id], "default", "t")
    assert transactions.allocate_write_ids([open_id], "default", "t") == {open_id: 1}


def test_reallocated_write_id_is_a_new_one_and_the_old_stands_for_nothing(
    transactions: TransactionManager, table: str
) -> None:
    first, second = transactions.open(2)
    assert transactions.allocate_write_ids([first, second], "default", "t") == {first: 1, second: 2}
    assert transactions.allocate_write_ids([first], "default", "t", reallocate=True) == {first: 3}
    write_ids = transactions.valid_write_ids([table], transactions.valid_txns())[table]
    assert (write_ids.high_watermark, write_ids.open_ids) == (3, (2, 3))


def test_write_ids_go_on_from_a_seed(transactions: TransactionManager, table: str) -> None:
    (txn_id,) = transactions.open()
    transactions.seed_write_ids("default", "t", 10)
    assert transactions.allocate_write_ids([txn_id], "default", "t") == {txn_id: 10}
    for taken in (10, 1, 0, -1, 2**63):
        with pytest.raises(InvalidTransactionRequestError):
            transactions.seed_write_ids("default", "t", taken)
    with pytest.raises(NoSuchTableError):
        transactions.seed_write_ids("default", "missing", 100)


def test_transaction_ids_go_on_from_a_seed(transactions: TransactionManager) -> None:
    transactions.open(3)
    transactions.seed_txn_ids(100)
    assert transactions.open() == [100]
    for taken in (100, 3, 0, -5, 2**63):
        with pytest.raises(InvalidTransactionRequestError):
            transactions.seed_txn_ids(taken)
    assert transactions.open() == [101]


def test_abort_of_many_ignores_those_that_are_not_open(transactions: TransactionManager) -> None:
    committed, aborted, first, second = transactions.open(4)
    transactions.commit(committed)
    transactions.abort(aborted, "before")
    many = [second, committed, aborted, first, first, 77, -1, 2**90]
    assert transactions.abort_many(many, "an operator said so") == [first, second]
    assert transactions.abort_many(many) == []
    assert transactions.get(aborted).reason == "before"
    assert (transactions.get(first).reason, transactions.get(first).reason_code) == ("an operator said so", 50001)
    assert transactions.get(committed).state is TxnState.COMMITTED


def test_heartbeat_of_a_range_returns_the_ended_transactions(transactions: TransactionManager, clock: Clock) -> None:
    first, committed, aborted, last = transactions.open(4)
    clock.advance(10)
    assert transactions.heartbeat_range(first, last) == HeartbeatRange()
    transactions.commit(committed)
    transactions.abort(aborted)
    clock.advance(10)
    found = transactions.heartbeat_range(first, last + 2)
    assert found == HeartbeatRange(frozenset({committed, last + 1, last + 2}), frozenset({aborted}))
    for alive in (first, last):
        assert transactions.get(alive).heartbeat_at.timestamp() * 1000 == clock.now_ms


@pytest.mark.parametrize(("lo", "hi"), [(2, 1), (0, 1), (-1, 1), (1, 2**63), (1, 2**62), (1, 10**9)])
def test_heartbeat_of_no_range_is_refused(transactions: TransactionManager, lo: int, hi: int) -> None:
    with pytest.raises(InvalidTransactionRequestError):
        transactions.heartbeat_range(lo, hi)


def test_heartbeat_of_no_transaction_is_refused(transactions: TransactionManager) -> None:
    for unknown in (None, 0):
        with pytest.raises(NoSuchTransactionError):
            transactions.heartbeat(unknown)
    (txn_id,) = transactions.open()
    transactions.commit(txn_id)
    with pytest.raises(NoSuchTransactionError):
        transactions.heartbeat(txn_id)


def test_points_before_and_after_a_commit_are_reported(metastore_url: str, store: Store, clock: Clock) -> None:
    reached: list[str] = []
    watched = Store(metastore_url, reached.append)
    transactions = TransactionManager(watched, Settings({}), clock)
    (txn_id,) = transactions.open()
    transactions.commit(txn_id)
    assert reached == ["before open", "after open", "before commit", "after commit"]
    watched.close()


def test_snapshot_sees_what_was_committed_before_it(transactions: TransactionManager, table: str) -> None:
    committed, aborted, still_open = transactions.open(3)
    transactions.allocate_write_ids([committed, aborted, still_open], "default", "t")
    transactions.commit(committed)
    transactions.abort(aborted)
    snapshot = transactions.valid_txns()
    assert str(snapshot) == "3:3:3:2"
    write_ids = transactions.valid_write_ids([table], snapshot)[table]
    assert str(write_ids) == "default.t:3:3:3:2"
    transactions.commit(still_open)
    assert str(transactions.valid_write_ids([table], snapshot)[table]) == "default.t:3:3:3:2"


def test_transaction_sees_its_own_writes_and_no_later_ones(transactions: TransactionManager, table: str) -> None:
    own, later = transactions.open(2)
    transactions.allocate_write_ids([own, later], "default", "t")
    transactions.commit(later)
    snapshot = transactions.valid_txns(own)
    assert (snapshot.high_watermark, snapshot.exceptions) == (1, ())
    write_ids = transactions.valid_write_ids([table], snapshot)[table]
    assert write_ids.is_valid(1)
    assert not write_ids.is_valid(2)


def test_table_never_written_has_no_visible_write_ids(transactions: TransactionManager, table: str) -> None:
    write_ids = transactions.valid_write_ids([table], transactions.valid_txns())[table]
    assert (write_ids.high_watermark, write_ids.exceptions) == (0, ())


def test_only_transactions_without_heartbeat_are_reaped(
    transactions: TransactionManager, housekeeper: Housekeeper, clock: Clock
) -> None:
    dead, alive, patient = transactions.open() + transactions.open() + transactions.open(timeout=3600)
    clock.advance(200)
    transactions.heartbeat(alive)
    clock.advance(101)
    assert housekeeper.run().aborted == (dead,)
    with pytest.raises(TransactionAbortedError, match="timed out"):
        transactions.commit(dead)
    transactions.commit(alive)
    transactions.commit(patient)


def test_commits_of_writers_are_in_the_log_in_order_without_gaps(
    transactions: TransactionManager, store: Store, table: str
) -> None:
    log = NotificationLog(store)
    start = log.current_event_id()
    ids = transactions.open(20)

    def write(txn_id: int) -> None:
        transactions.allocate_write_ids([txn_id], "default", "t")
        transactions.commit(txn_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, ids))
    events = log.events(after=start)
    assert [event.id for event in events] == list(range(start + 1, start + 21))
    assert {event.type for event in events} == {EventType.COMMIT_TXN}
    assert sorted(event.txn_id or 0 for event in events) == ids
    assert {event.message["write_ids"]["default.t"] for event in events} == set(range(1, 21))


def test_concurrent_opens_get_distinct_ids(transactions: TransactionManager) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = [txn_id for ids in pool.map(lambda _: transactions.open(), range(64)) for txn_id in ids]
    assert sorted(opened) == list(range(1, 65))


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("state", [TxnState.COMMITTED, TxnState.ABORTED])
def test_opening_and_committing_cost_the_same_beside_many_that_have_ended(
    store: Store, transactions: TransactionManager, state: TxnState
) -> None:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    def cost() -> int:
        nonlocal steps
        transactions.commit(*transactions.open())
        with store.read() as connection:
            raw: Any = connection.connection.dbapi_connection
        # SQLite's virtual machine calls it after each 10 instructions.
        raw.set_progress_handler(count, 10)
        steps = 0
        transactions.commit(*transactions.open())
        raw.set_progress_handler(None, 0)
        return steps

    few = cost()
    (ended,) = transactions.open()
    transactions.abort(ended)
    with store.read() as connection:
        row = dict(connection.execute(select(txns).where(txns.c.id == ended)).one()._mapping)
    rows = [{**row, "id": 1000 + number, "state": state.value} for number in range(5_000)]
    store.write(lambda connection: connection.execute(insert(txns), rows))
    transactions.seed_txn_ids(10_000)
    assert cost() <= 1.5 * few


def test_forgotten_heartbeats_may_end_in_their_own_thread(
    transactions: TransactionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    lo, hi = transactions.open(2)
    heartbeat_range, outcomes = transactions.heartbeat_range, queue.SimpleQueue[Exception | None]()

    def collecting(lo: int, hi: int) -> HeartbeatRange:
        found = heartbeat_range(lo, hi)
        # As the collector may do, in whatever thread it runs.
        try:
            beats.close()
        except RuntimeError as error:
            outcomes.put(error)
        else:
            outcomes.put(None)
        return found

    def beating() -> Generator[None, None, None]:
        with batch_heartbeats(transactions, lo, hi, 1):
            yield

    monkeypatch.setattr(transactions, "heartbeat_range", collecting)
    beats = beating()
    next(beats)
    assert outcomes.get(timeout=30) is None
