"""The lock manager. Many cases restate those of Hive's TestTxnHandler and TestDbTxnManager2."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, product
from random import Random

import pytest
from sqlalchemy import func, select

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import (
    DeadlockError,
    InvalidLockRequestError,
    LockOfOpenTransactionError,
    LockTimeoutError,
    NoSuchDatabaseError,
    NoSuchLockError,
    NoSuchTableError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionCommittedError,
)
from airflow_hivex.core.model.locks import (
    MATRICES,
    DataOperation,
    LockComponent,
    LockResponse,
    LockState,
    LockType,
)
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import locks as lock_rows
from airflow_hivex.core.store.schema import txn_components
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.locks.waiting import waits_for
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock
from tests.unit.core.model.test_locks import edges

pytestmark = pytest.mark.usefixtures("warehouse")

R, W, X, E = LockType
ACQUIRED, WAITING, NOT_ACQUIRED = LockState.ACQUIRED, LockState.WAITING, LockState.NOT_ACQUIRED


def on(
    type: LockType,
    table: str | None = "tab1",
    partition: str | None = None,
    database: str = "default",
    operation: DataOperation = DataOperation.SELECT,
) -> LockComponent:
    return LockComponent(database, table, partition, type, operation)


@pytest.fixture
def ask(locks: LockManager) -> Callable[..., LockResponse]:
    """Ask for locks and do not wait."""

    def ask(*components: LockComponent, txn_id: int | None = None) -> LockResponse:
        return locks.acquire(components, txn_id, wait=False)

    return ask


Ask = Callable[..., LockResponse]


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[Future[object]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work)


def until_waiting(locks: LockManager, count: int = 1) -> None:
    deadline = time.monotonic() + 60
    while sum(lock.state is WAITING for lock in locks.show()) < count:
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


# -- the matrix and the queue ----------------------------------------------------------


@pytest.mark.parametrize("name", list(MATRICES))
def test_database_decides_as_the_matrix(
    name: str, store: Store, clock: Clock, transactions: TransactionManager
) -> None:
    settings = Settings({"hivex.lock.matrix": name})
    locks = LockManager(store, settings, clock, transactions)
    levels = [(None, None), ("tab1", None), ("tab1", "p=1")]
    for held_type, held_level, asked_type, asked_level in product(LockType, levels, LockType, levels):
        held = locks.acquire([on(held_type, *held_level)])
        asked = locks.acquire([on(asked_type, *asked_level)], wait=False)
        expected = MATRICES[name].blocker(on(asked_type, *asked_level), None, locks.show(lock_id=held.lock_id))
        assert (asked.state is WAITING) == (expected is not None), (held_type, held_level, asked_type, asked_level)
        locks.unlock(held.lock_id)
        locks.unlock(asked.lock_id)
    assert locks.show() == []


def test_locks_on_different_things_are_all_granted(ask: Ask) -> None:
    assert ask(on(E, "tab1", "p=1")).state is ACQUIRED
    assert ask(on(E, "tab1", "p=2")).state is ACQUIRED
    assert ask(on(E, "tab2")).state is ACQUIRED
    assert ask(on(E, "tab1", database="others")).state is ACQUIRED


def test_waiting_exclusive_lock_lets_no_later_reader_pass(ask: Ask, locks: LockManager) -> None:
    reading = ask(on(R))
    dropping = ask(on(E))
    later = ask(on(R))
    assert [each.state for each in (reading, dropping, later)] == [ACQUIRED, WAITING, WAITING]
    assert later.blocked_by is not None
    assert later.blocked_by.lock_id == dropping.lock_id
    locks.unlock(reading.lock_id)
    assert locks.check(later.lock_id).state is WAITING
    assert locks.check(dropping.lock_id).state is ACQUIRED
    locks.unlock(dropping.lock_id)
    assert locks.check(later.lock_id).state is ACQUIRED


def test_request_is_granted_as_a_whole_or_not_at_all(ask: Ask, locks: LockManager) -> None:
    held = ask(on(X, "tab2"))
    both = ask(on(X, "tab1"), on(X, "tab2"))
    assert both.state is WAITING
    assert {lock.state for lock in locks.show(lock_id=both.lock_id)} == {WAITING}
    assert ask(on(X, "tab1")).blocked_by is not None
    locks.unlock(held.lock_id)
    assert locks.check(both.lock_id).state is ACQUIRED
    granted = locks.show(lock_id=both.lock_id)
    assert [(lock.state, lock.blocked_by) for lock in granted] == [(ACQUIRED, None)] * 2
    assert all(lock.acquired_at is not None for lock in granted)


def test_ids_rise_and_components_are_numbered(ask: Ask, locks: LockManager) -> None:
    first, second = ask(on(R), on(R, "tab2")), ask(on(R))
    assert second.lock_id == first.lock_id + 1
    assert [(lock.lock_id, lock.internal_id) for lock in locks.show()] == [(1, 1), (1, 2), (2, 1)]


def test_request_over_two_databases_is_one_request(ask: Ask, locks: LockManager) -> None:
    held = ask(on(X, database="others"))
    both = ask(on(R), on(X, database="others"))
    assert both.state is WAITING
    locks.unlock(held.lock_id)
    assert locks.check(both.lock_id).state is ACQUIRED


def test_updates_in_hive_4_wait_only_with_exclusive_writes(ask: Ask, transactions: TransactionManager) -> None:
    first, second, third = transactions.open(3)
    assert ask(on(W, operation=DataOperation.UPDATE), txn_id=first).state is ACQUIRED
    assert ask(on(W, operation=DataOperation.UPDATE), txn_id=second).state is ACQUIRED
    assert ask(on(X, operation=DataOperation.UPDATE), txn_id=third).state is WAITING


def test_locks_of_one_transaction_do_not_conflict(ask: Ask, transactions: TransactionManager) -> None:
    own, other = transactions.open(2)
    assert ask(on(R), txn_id=own).state is ACQUIRED
    assert ask(on(E), txn_id=own).state is ACQUIRED
    assert ask(on(R), txn_id=other).state is WAITING
    assert ask(on(X, "tab2"), txn_id=own).state is ACQUIRED


def test_what_a_transaction_holds_it_gets_again_before_those_who_wait(
    ask: Ask, transactions: TransactionManager
) -> None:
    own, other = transactions.open(2)
    assert ask(on(E), txn_id=own).state is ACQUIRED
    assert ask(on(E), txn_id=other).state is WAITING
    assert ask(on(E), on(R, "tab1", "p=1"), txn_id=own).state is ACQUIRED
    assert ask(on(E, None), txn_id=own).state is WAITING


def test_many_partitions_are_one_request(ask: Ask, locks: LockManager) -> None:
    held = ask(on(X, "tab1", "p=1500"))
    many = ask(*(on(X, "tab1", f"p={number}") for number in range(2500)))
    assert many.state is WAITING
    locks.unlock(held.lock_id)
    assert locks.check(many.lock_id).state is ACQUIRED
    assert ask(on(R, "tab1", "p=2400")).state is ACQUIRED
    assert ask(on(X, "tab1", "p=2400")).state is WAITING


# -- waiting --------------------------------------------------------------------------


def test_waiter_is_granted_when_the_holder_commits(locks: LockManager, transactions: TransactionManager) -> None:
    holder, waiter = transactions.open(2)
    locks.acquire([on(X)], holder, user="holder")
    with in_background(lambda: locks.acquire([on(X)], waiter, timeout=60)) as waiting:
        until_waiting(locks)
        transactions.commit(holder)
        assert waiting.result(60).state is ACQUIRED  # type: ignore[attr-defined]
    assert {lock.txn_id for lock in locks.show()} == {waiter}


@pytest.mark.parametrize("end", ["abort", "unlock", "reaper"])
def test_waiter_is_granted_however_the_holder_ends(
    end: str, locks: LockManager, transactions: TransactionManager, clock: Clock
) -> None:
    (holder,) = transactions.open(timeout=5)
    held = locks.acquire([on(X)], None if end == "unlock" else holder)
    with in_background(lambda: locks.acquire([on(X)], timeout=60)) as waiting:
        until_waiting(locks)
        if end == "abort":
            transactions.abort(holder)
        elif end == "unlock":
            locks.unlock(held.lock_id)
        else:
            clock.advance(6)
            assert transactions.abort_timed_out() == [holder]
        assert waiting.result(60).state is ACQUIRED  # type: ignore[attr-defined]


def test_queue_of_many_waiters_is_served_one_by_one(locks: LockManager, transactions: TransactionManager) -> None:
    order: list[int] = []
    inside = threading.Lock()

    def work(txn_id: int) -> None:
        locks.acquire([on(X)], txn_id, timeout=120)
        assert inside.acquire(blocking=False)
        order.append(locks.show(txn_id=txn_id)[0].lock_id)
        inside.release()
        transactions.commit(txn_id, exclusive_write_locks=True)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, transactions.open(18)))
    assert order == sorted(order)
    assert len(order) == 18


def test_lock_that_takes_too_long_names_its_holder_and_leaves_the_queue(locks: LockManager) -> None:
    held = locks.acquire([on(E)], user="ann", host="worker-7", agent_info="dag daily, run scheduled__2026-01-01")
    with pytest.raises(LockTimeoutError) as caught:
        locks.acquire([on(R)], timeout=0)
    text = str(caught.value)
    for fact in ("default/tab1", "ann on worker-7", "dag daily, run scheduled__2026-01-01", "EXCLUSIVE", "2023-11-14"):
        assert fact in text
    assert caught.value.retryable
    assert caught.value.blocker is not None
    assert caught.value.blocker.lock_id == held.lock_id
    assert [lock.lock_id for lock in locks.show()] == [held.lock_id]


# On PostgreSQL a waiter rests for as long as nothing is announced.
@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_waiting_is_logged_at_once_and_then_each_minute(
    store: Store, clock: Clock, transactions: TransactionManager, caplog: pytest.LogCaptureFixture
) -> None:
    # Some seconds pass at each look at the clock.
    seconds = count(step=7)
    locks = LockManager(store, Settings(), clock, transactions, monotonic=lambda: float(next(seconds)))
    locks.acquire([on(E)], user="ann", host="worker-7", agent_info="daily.load scheduled__2026-01-01 1")
    with caplog.at_level("INFO"), pytest.raises(LockTimeoutError):
        locks.acquire([on(R)], timeout=200)
    messages = [record.getMessage() for record in caplog.records if record.message.startswith("Waiting")]
    assert len(messages) == 3
    assert messages[0] == (
        "Waiting for locks on default/tab1, for 7 s so far and 200 s at most: "
        "ann on worker-7 (daily.load scheduled__2026-01-01 1) holds EXCLUSIVE on default/tab1 "
        "since 2023-11-14 22:13:20 UTC (lock 1.1, no transaction)"
    )


def test_no_retries_means_no_waiting(store: Store, clock: Clock, transactions: TransactionManager) -> None:
    locks = LockManager(store, Settings({"hive.lock.numretries": 0}), clock, transactions)
    locks.acquire([on(E)])
    with pytest.raises(LockTimeoutError):
        locks.acquire([on(R)])


def test_default_patience_is_that_of_hive(locks: LockManager) -> None:
    # 100 ms doubled up to 51.2 s, then 60 s each: about 91 minutes and 42 seconds.
    assert locks.waiter.patience_s() == pytest.approx(91 * 60 + 42, abs=1)


def test_waiter_whose_transaction_is_aborted_learns_why(locks: LockManager, transactions: TransactionManager) -> None:
    locks.acquire([on(E)])
    (txn_id,) = transactions.open()
    with in_background(lambda: locks.acquire([on(R)], txn_id, timeout=60)) as waiting:
        until_waiting(locks)
        transactions.abort(txn_id, "an operator said so")
        with pytest.raises(TransactionAbortedError, match="an operator said so"):
            waiting.result(60)


def test_zero_wait_read_is_refused_at_once(locks: LockManager, transactions: TransactionManager) -> None:
    holder, reader = transactions.open(2)
    locks.acquire([on(E)], holder, user="ann")
    answer = locks.acquire([on(R)], reader, zero_wait_read=True)
    assert (answer.state, answer.lock_id) == (NOT_ACQUIRED, 0)
    assert answer.message is not None
    assert "ann" in answer.message
    assert len(locks.show()) == 1
    # Only reads: a write waits in the queue.
    assert locks.acquire([on(W)], reader, zero_wait_read=True, wait=False).state is WAITING


def test_second_maker_of_a_table_is_refused_at_once(
    locks: LockManager, transactions: TransactionManager, store: Store
) -> None:
    first, second = transactions.open(2)
    component = on(X, "brand_new", operation=DataOperation.INSERT)
    assert locks.acquire([component], first, exclusive_ctas=True).state is ACQUIRED
    answer = locks.acquire([component], second, exclusive_ctas=True)
    assert answer.state is NOT_ACQUIRED
    assert "brand_new" in str(answer.message)
    transactions.abort(first)
    assert locks.acquire([component], second, exclusive_ctas=True).state is ACQUIRED


# -- deadlocks ------------------------------------------------------------------------


def test_younger_of_two_in_a_circle_gives_way(locks: LockManager, transactions: TransactionManager) -> None:
    older, younger = transactions.open(2)
    locks.acquire([on(X, "tab1")], older)
    locks.acquire([on(X, "tab2")], younger)
    with in_background(lambda: locks.acquire([on(X, "tab1")], younger, timeout=60)) as waiting:
        until_waiting(locks)
        assert locks.acquire([on(X, "tab2")], older, timeout=60).state is ACQUIRED
        with pytest.raises(DeadlockError, match=f"{older} -> {younger}|{younger} -> {older}") as caught:
            waiting.result(60)
    assert caught.value.retryable
    assert transactions.get(younger).state is TxnState.ABORTED
    with pytest.raises(TransactionAbortedError, match="deadlock"):
        transactions.commit(younger)
    transactions.commit(older)


def test_younger_gets_its_error_at_once_when_it_closes_the_circle(
    locks: LockManager, transactions: TransactionManager
) -> None:
    older, younger = transactions.open(2)
    locks.acquire([on(X, "tab1")], older)
    locks.acquire([on(X, "tab2")], younger)
    assert locks.acquire([on(X, "tab2")], older, wait=False).state is WAITING
    with pytest.raises(DeadlockError):
        locks.acquire([on(X, "tab1")], younger, timeout=60)
    assert {lock.txn_id for lock in locks.show()} == {older}


def test_two_readers_who_both_want_to_drop_are_a_deadlock(locks: LockManager, transactions: TransactionManager) -> None:
    first, second = transactions.open(2)
    locks.acquire([on(R)], first)
    locks.acquire([on(R)], second)
    assert locks.acquire([on(E)], first, wait=False).state is WAITING
    with pytest.raises(DeadlockError):
        locks.acquire([on(E)], second, timeout=60)


def test_circle_of_three_loses_only_its_youngest(locks: LockManager, transactions: TransactionManager) -> None:
    ids = transactions.open(3)
    tables = ["tab1", "tab2", "tab3"]
    for txn_id, table in zip(ids, tables, strict=True):
        locks.acquire([on(X, table)], txn_id)

    def work(number: int) -> object:
        try:
            return locks.acquire([on(X, tables[(number + 1) % 3])], ids[number], timeout=60).state
        except DeadlockError as error:
            return error
        finally:
            if number < 2:
                transactions.commit(ids[number])

    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(work, range(3)))
    assert outcomes[:2] == [ACQUIRED, ACQUIRED]
    assert isinstance(outcomes[2], DeadlockError)


def test_who_waits_for_whom_is_what_every_pair_of_locks_says(store: Store, transactions: TransactionManager) -> None:
    random = Random(14)
    places = [(None, None), ("tab1", None), ("tab2", None), ("tab1", "p=1"), ("tab1", "p=2"), ("tab2", "p=1")]
    for matrix in MATRICES.values():
        manager = LockManager(store, Settings({"hivex.lock.matrix": matrix.name}), lambda: 1, transactions)
        for _ in range(12):
            txn_ids = transactions.open(5)
            for _ in range(10):
                components = [
                    LockComponent(
                        "default", *random.choice(places), random.choice(list(LockType)), DataOperation.NO_TXN
                    )
                    for _ in range(random.choice([1, 1, 2, 3]))
                ]
                with suppress(DeadlockError, TransactionAbortedError):
                    manager.acquire(components, random.choice([*txn_ids, None]), wait=False)
            stored = manager.show()
            waiting = {lock.txn_id for lock in stored if lock.state is WAITING}
            expected = edges(stored, matrix, txn_ids)
            with store.read() as connection:
                found = waits_for(connection, matrix, txn_ids)
            for txn_id in txn_ids:
                assert found.get(txn_id, set()) == expected.get(txn_id, set()) & waiting
            transactions.abort_many(txn_ids)
            for lock in manager.show():
                manager.unlock(lock.lock_id)


def test_readers_of_many_partitions_look_for_deadlocks_in_no_time(
    transactions: TransactionManager, locks: LockManager
) -> None:
    (holder, *readers) = transactions.open(9)
    locks.acquire([on(E)], holder)
    partitions = [on(R, partition=f"p={number}") for number in range(365)]
    for reader in readers[:-1]:
        locks.acquire(partitions, reader, wait=False)
    before_s = time.process_time()
    assert locks.acquire(partitions, readers[-1], wait=False).state is WAITING
    # Comparing every lock with every other takes four seconds.
    assert time.process_time() - before_s < 1


# -- ids and states -------------------------------------------------------------------


@pytest.mark.parametrize("lock_id", [-1, 0, 2**63, 2**200, True, "1", None, 1.5])
def test_ids_that_no_lock_has_are_refused(locks: LockManager, lock_id: int) -> None:
    for call in (locks.check, locks.unlock, locks.heartbeat):
        with pytest.raises(NoSuchLockError):
            call(lock_id)
    if lock_id is not None:
        assert locks.show(lock_id=lock_id) == []


def test_unknown_lock_has_nothing_to_check_and_nothing_to_release(locks: LockManager) -> None:
    for call in (locks.check, locks.heartbeat):
        with pytest.raises(NoSuchLockError):
            call(99)
    locks.unlock(99)


@pytest.mark.parametrize("txn_id", [-1, 0, 77, 2**63, 2**100])
def test_lock_of_an_unknown_transaction_is_refused(locks: LockManager, txn_id: int) -> None:
    with pytest.raises(NoSuchTransactionError):
        locks.acquire([on(R)], txn_id)
    assert locks.show() == []


def test_lock_of_an_ended_transaction_is_refused(locks: LockManager, transactions: TransactionManager) -> None:
    aborted, committed = transactions.open(2)
    transactions.abort(aborted, "on purpose")
    transactions.commit(committed)
    with pytest.raises(TransactionAbortedError, match="on purpose"):
        locks.acquire([on(R)], aborted)
    with pytest.raises(TransactionCommittedError):
        locks.acquire([on(R)], committed)
    assert locks.show() == []


def test_locks_on_what_does_not_exist_are_refused(locks: LockManager, transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open()
    for owner in (None, txn_id):
        with pytest.raises(NoSuchTableError, match=r"default\.missing"):
            locks.acquire([on(R), on(R, "missing")], owner)
        with pytest.raises(NoSuchDatabaseError, match="nowhere"):
            locks.acquire([on(R, None, database="nowhere")], owner)
        with pytest.raises(NoSuchTableError):
            locks.acquire([on(R, "tab3", database="others")], owner)
    assert locks.show() == []


def test_request_without_components_or_with_nonsense_for_a_timeout_is_refused(locks: LockManager) -> None:
    with pytest.raises(InvalidLockRequestError):
        locks.acquire([])
    for timeout in (-1, float("nan")):
        with pytest.raises(InvalidLockRequestError):
            locks.acquire([on(R)], timeout=timeout)
    with pytest.raises(InvalidLockRequestError):
        locks.show(table="tab1")


def test_acquired_lock_of_a_transaction_cannot_be_unlocked(
    locks: LockManager, transactions: TransactionManager
) -> None:
    holder, waiter = transactions.open(2)
    held = locks.acquire([on(X)], holder)
    waiting = locks.acquire([on(X)], waiter, wait=False)
    with pytest.raises(LockOfOpenTransactionError):
        locks.unlock(held.lock_id)
    locks.unlock(waiting.lock_id)
    with pytest.raises(NoSuchLockError):
        locks.check(waiting.lock_id)
    assert [lock.lock_id for lock in locks.show()] == [held.lock_id]


def test_end_of_a_transaction_releases_its_locks(locks: LockManager, transactions: TransactionManager) -> None:
    committed, aborted = transactions.open(2)
    held = locks.acquire([on(R)], committed)
    locks.acquire([on(R)], aborted)
    transactions.commit(committed)
    transactions.abort(aborted)
    assert locks.show() == []
    with pytest.raises(NoSuchLockError):
        locks.check(held.lock_id)


def test_heartbeats_keep_locks_without_transaction(locks: LockManager, clock: Clock) -> None:
    dead, alive = locks.acquire([on(R)]), locks.acquire([on(R)])
    waiting = locks.acquire([on(E)], wait=False)
    clock.advance(200)
    locks.heartbeat(alive.lock_id)
    assert locks.check(waiting.lock_id).state is WAITING
    clock.advance(101)
    assert locks.drop_timed_out() == [dead.lock_id]
    with pytest.raises(NoSuchLockError):
        locks.heartbeat(dead.lock_id)
    assert {lock.lock_id for lock in locks.show()} == {alive.lock_id, waiting.lock_id}


def test_locks_of_transactions_are_as_alive_as_those(
    locks: LockManager, transactions: TransactionManager, clock: Clock
) -> None:
    (txn_id,) = transactions.open(timeout=10_000)
    locks.acquire([on(R)], txn_id)
    clock.advance(5_000)
    assert locks.drop_timed_out() == []
    transactions.heartbeat(txn_id)
    (shown,) = locks.show()
    assert shown.heartbeat_at == transactions.get(txn_id).heartbeat_at


def test_heartbeat_of_both_needs_both(locks: LockManager, transactions: TransactionManager, clock: Clock) -> None:
    (txn_id,) = transactions.open()
    held = locks.acquire([on(R)])
    clock.advance(1)
    transactions.heartbeat(txn_id, held.lock_id)
    assert transactions.get(txn_id).heartbeat_at.timestamp() * 1000 == clock.now_ms
    assert locks.show()[0].heartbeat_at == transactions.get(txn_id).heartbeat_at
    with pytest.raises(NoSuchLockError):
        transactions.heartbeat(txn_id, 99)
    with pytest.raises(NoSuchTransactionError):
        transactions.heartbeat(99, held.lock_id)
    transactions.heartbeat(0, held.lock_id)
    transactions.heartbeat(txn_id, 0)


def test_show_filters_by_what_is_locked_and_by_owner(locks: LockManager, transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open()
    locks.acquire([on(R, "tab1", "p=1"), on(R, "tab2"), on(R, None)], txn_id)
    locks.acquire([on(R, database="others")])
    assert len(locks.show()) == 4
    assert len(locks.show("DEFAULT")) == 3
    assert [lock.component.resource for lock in locks.show("default", "tab1")] == ["default/tab1/p=1"]
    assert locks.show("default", "tab1", "p=2") == []
    assert len(locks.show(txn_id=txn_id)) == 3
    assert locks.show("nowhere") == []


# -- what is noted for commit and cleaning --------------------------------------------


def noted(store: Store, txn_id: int) -> list[tuple[str | None, str]]:
    with store.read() as connection:
        rows = connection.execute(
            select(txn_components.c.partition, txn_components.c.operation)
            .where(txn_components.c.txn_id == txn_id)
            .order_by(txn_components.c.partition, txn_components.c.operation)
        )
        return [(row.partition, row.operation) for row in rows]


def test_only_writes_to_transactional_tables_are_noted(
    locks: LockManager, transactions: TransactionManager, store: Store
) -> None:
    (txn_id,) = transactions.open()
    locks.acquire(
        [
            on(R),
            on(R, "tab2", "p=1", operation=DataOperation.NO_TXN),
            on(X, "ext", operation=DataOperation.UPDATE),
            on(X, "tab1", "p=1", operation=DataOperation.UPDATE),
            on(X, "tab1", "p=2", operation=DataOperation.DELETE),
            on(R, "tab1", "p=3", operation=DataOperation.INSERT),
        ],
        txn_id,
    )
    assert noted(store, txn_id) == [("p=1", "u"), ("p=2", "d"), ("p=3", "i")]


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([DataOperation.INSERT], "i"),
        ([DataOperation.INSERT, DataOperation.DELETE], "u"),
        ([DataOperation.UPDATE, DataOperation.INSERT], "u"),
    ],
)
def test_dynamic_partition_write_is_noted_as_one_of_the_table(
    operations: list[DataOperation],
    expected: str,
    locks: LockManager,
    transactions: TransactionManager,
    store: Store,
) -> None:
    (txn_id,) = transactions.open()
    components = [
        LockComponent("default", "tab1", None, W, operation, is_dynamic_partition_write=True)
        for operation in operations
    ]
    locks.acquire(components, txn_id)
    assert noted(store, txn_id) == [(None, expected)]


def test_refused_request_leaves_no_trace(locks: LockManager, transactions: TransactionManager, store: Store) -> None:
    holder, other = transactions.open(2)
    locks.acquire([on(E)], holder)
    answer = locks.acquire([on(R), on(R, "tab2", operation=DataOperation.INSERT)], other, zero_wait_read=True)
    assert answer.state is NOT_ACQUIRED
    assert noted(store, other) == []
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(lock_rows)).scalar_one() == 1


# -- many clients ---------------------------------------------------------------------


def test_exclusive_locks_of_many_threads_never_overlap(
    locks: LockManager, transactions: TransactionManager, warehouse: ObjectStore
) -> None:
    holders: dict[str, int] = {}
    overlaps: list[str] = []

    def work(number: int) -> None:
        (txn_id,) = transactions.open()
        tables = ["tab1", "tab2", "tab3"]
        mine = [tables[number % 3], tables[(number // 3) % 3]]
        locks.acquire([on(X, table) for table in dict.fromkeys(mine)], txn_id, timeout=120)
        for table in set(mine):
            if holders.setdefault(table, txn_id) != txn_id:
                overlaps.append(table)
        for table in set(mine):
            holders.pop(table, None)
        transactions.commit(txn_id)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(36)))
    assert overlaps == []
    assert locks.show() == []


# -- retries -------------------------------------------------------------------------------


def test_a_retried_transaction_keeps_its_locks_without_a_gap(
    locks: LockManager, transactions: TransactionManager, ask: Ask
) -> None:
    (first,) = transactions.open(user="writer", agent_info="dag", timeout=77)
    update = on(X, "tab3", operation=DataOperation.UPDATE)
    held = ask(update, txn_id=first)
    (waiting,) = transactions.open()
    queued = ask(update, txn_id=waiting)
    assert queued.state is WAITING
    again = transactions.begin_again(first, "outrun")
    assert again > waiting
    old, new = transactions.get(first), transactions.get(again)
    assert (old.state, old.reason) == (TxnState.ABORTED, "outrun")
    assert (new.state, new.user, new.agent_info, new.timeout_s) == (TxnState.OPEN, "writer", "dag", 77)
    assert locks.check(queued.lock_id).state is WAITING
    assert {lock.txn_id for lock in locks.show() if lock.state is ACQUIRED} == {again}
    # What it asks for again it has at once, although another request is in the queue; and this is noted for it.
    assert ask(update, txn_id=again).state is ACQUIRED
    transactions.allocate_write_ids([again], "default", "tab3")
    transactions.commit(again)
    assert locks.check(queued.lock_id).state is ACQUIRED
    assert held.lock_id not in {lock.lock_id for lock in locks.show()}


def test_who_has_ended_cannot_begin_again(transactions: TransactionManager) -> None:
    aborted, committed = transactions.open(2)
    transactions.abort(aborted, "timed out")
    transactions.commit(committed)
    for txn_id, error in (
        (aborted, TransactionAbortedError),
        (committed, TransactionCommittedError),
        (99, NoSuchTransactionError),
    ):
        with pytest.raises(error):
            transactions.begin_again(txn_id, "outrun")
    assert transactions.valid_txns().open_ids == ()
    assert transactions.valid_txns().high_watermark == committed


@pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
def test_waiter_with_a_short_time_out_of_its_own_stays_alive(
    store: Store, clock: Clock, transactions: TransactionManager
) -> None:
    def monotonic() -> float:
        clock.advance(5)
        # As others do it, all the time.
        transactions.abort_timed_out()
        return clock.now_ms / 1000

    locks = LockManager(store, Settings({}), clock, transactions, monotonic=monotonic)
    (holder,), (waiter,) = transactions.open(timeout=100_000), transactions.open(timeout=50)
    locks.acquire([on(X)], holder)
    with pytest.raises(LockTimeoutError):
        locks.acquire([on(X)], waiter, timeout=400)
    assert transactions.get(waiter).state is TxnState.OPEN


def test_time_to_wait_for_many_retries_is_known_at_once(
    store: Store, clock: Clock, transactions: TransactionManager
) -> None:
    far = count(step=10**12)
    settings = Settings({"hive.lock.numretries": 10**8, "hive.lock.sleep.between.retries": 60})
    locks = LockManager(store, settings, clock, transactions, monotonic=lambda: float(next(far)))
    locks.acquire([on(E)])
    began = time.process_time()
    with pytest.raises(LockTimeoutError) as caught:
        locks.acquire([on(R)])
    assert time.process_time() - began < 2
    # 0.1 s, and twice as long each time up to a minute.
    assert caught.value.waited_s == pytest.approx(0.1 * (2**10 - 1) + (10**8 - 10) * 60)


@pytest.mark.parametrize("type", [W, X, E])
def test_lock_of_a_transaction_says_what_it_is_for(
    locks: LockManager, transactions: TransactionManager, type: LockType
) -> None:
    (txn_id,) = transactions.open()
    for component in (LockComponent("default", "tab1", type=type), on(type, operation=DataOperation.UNSET)):
        with pytest.raises(InvalidLockRequestError, match="operation"):
            locks.acquire([component], txn_id)
    assert locks.show() == []
    # A read is one, and without a transaction nothing is looked for.
    assert locks.acquire([LockComponent("default", "tab1")], txn_id).state is ACQUIRED
    assert locks.show()[0].component.operation is DataOperation.SELECT
    assert locks.acquire([LockComponent("default", "tab2", type=type)]).state is ACQUIRED


@pytest.mark.parametrize("point", ["before abort", "after abort"])
def test_interrupt_while_one_begins_again_leaves_no_successor(
    metastore_url: str, store: Store, locks: LockManager, clock: Clock, transactions: TransactionManager, point: str
) -> None:
    reached = []

    def interrupt(name: str) -> None:
        if name == point and not reached:
            reached.append(name)
            raise KeyboardInterrupt

    (first,) = transactions.open()
    locks.acquire([on(X, operation=DataOperation.UPDATE)], first)
    interrupted = Store(metastore_url, interrupt)
    with pytest.raises(KeyboardInterrupt):
        TransactionManager(interrupted, Settings({}), clock).begin_again(first, "outrun")
    interrupted.close()
    assert reached
    (other,) = transactions.open()
    open_ids = set(transactions.valid_txns().open_ids)
    assert open_ids == ({first, other} if point == "before abort" else {other})
    assert {lock.txn_id for lock in locks.show()} == open_ids - {other}


@pytest.mark.parametrize("point", ["before open", "after open"])
def test_interrupt_while_a_transaction_is_opened_leaves_none(
    metastore_url: str, store: Store, clock: Clock, transactions: TransactionManager, point: str
) -> None:
    def interrupt(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    interrupted = Store(metastore_url, interrupt)
    with pytest.raises(KeyboardInterrupt):
        TransactionManager(interrupted, Settings({}), clock).open(3)
    interrupted.close()
    assert transactions.valid_txns().open_ids == ()
