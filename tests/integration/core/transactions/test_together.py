"""Transactions and locks of several clients in one transaction of the database: each as if it were alone."""

from __future__ import annotations

import pytest

from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.transactions.locks.grants import LockRequest
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.shared_state import next_statement_id
from tests.integration.core.conftest import Clock
from tests.postgresql_proxy import COMMITTED, PostgresqlProxy

MISSING = 999_999


def lock(
    locks: LockManager,
    txn_id: int | None,
    type: LockType,
    *tables: str,
    operation: DataOperation = DataOperation.INSERT,
) -> LockRequest:
    return locks.described([LockComponent("default", table, None, type, operation) for table in tables], txn_id)


def states(transactions: TransactionManager, *txn_ids: int) -> list[TxnState]:
    return [transactions.get(txn_id).state for txn_id in txn_ids]


def test_each_transaction_has_its_own_values(transactions: TransactionManager) -> None:
    (before,) = transactions.open()
    new = [transactions.described(user=user, timeout=timeout) for user, timeout in (("ann", 7), ("bob", 9))]
    first, second = transactions.open_together(new)
    assert (first, second) == (before + 1, before + 2)
    assert [(each.user, each.timeout_s) for each in map(transactions.get, (first, second))] == [("ann", 7), ("bob", 9)]
    assert transactions.open() == [second + 1]


@pytest.mark.usefixtures("warehouse")
def test_requests_for_locks_are_granted_in_their_order(transactions: TransactionManager, locks: LockManager) -> None:
    first, second, third, aborted = transactions.open(4)
    transactions.abort(aborted)
    granted = locks.acquire_together(
        [
            lock(locks, first, LockType.EXCL_WRITE, "tab1", "tab2"),
            # Its lock on tab3 must not stay, as it does not get that on tab1.
            lock(locks, second, LockType.EXCL_WRITE, "tab3", "tab1"),
            lock(locks, third, LockType.EXCL_WRITE, "tab3"),
            lock(locks, first, LockType.EXCLUSIVE, "tab1"),
            lock(locks, aborted, LockType.SHARED_READ, "ext"),
            lock(locks, MISSING, LockType.SHARED_READ, "ext"),
            lock(locks, second, LockType.SHARED_READ, "nope"),
            lock(locks, None, LockType.SHARED_READ, "ext"),
        ]
    )
    assert [response is not None and response.is_acquired for response in granted] == [
        *(True, False, True, True),
        *(False, False, False, True),
    ]
    ids = [response.lock_id for response in granted if response is not None]
    assert ids == sorted(set(ids))
    held = {(each.lock_id, each.txn_id, each.component.table) for each in locks.show()}
    assert held == {
        *((ids[0], first, table) for table in ("tab1", "tab2")),
        *((ids[1], third, "tab3"), (ids[2], first, "tab1"), (ids[3], None, "ext")),
    }


@pytest.mark.usefixtures("warehouse")
def test_commits_are_done_that_need_nothing_else(
    transactions: TransactionManager, locks: LockManager, store: Store
) -> None:
    plain, writing, updating, noting, aborted, committed, other = transactions.open(7)
    transactions.allocate_write_ids([writing], "default", "tab3")
    assert all(
        locks.acquire_together([lock(locks, updating, LockType.SHARED_WRITE, "tab3", operation=DataOperation.UPDATE)])
    )
    store.write(lambda connection: next_statement_id(connection, noting))
    transactions.abort(aborted)
    transactions.commit(committed)
    granted = locks.acquire_together(
        [lock(locks, plain, LockType.SHARED_READ, "tab3"), lock(locks, other, LockType.SHARED_READ, "tab3")]
    )
    assert all(granted)
    waiting = locks.acquire(
        [LockComponent("default", "tab3", None, LockType.EXCLUSIVE, DataOperation.NO_TXN)], wait=False
    )
    asked = [plain, writing, updating, noting, aborted, committed, MISSING, plain, -1]
    assert transactions.commit_together(asked) == {plain, writing}
    assert states(transactions, plain, writing, updating, noting, aborted, other) == [
        *(TxnState.COMMITTED, TxnState.COMMITTED, TxnState.OPEN, TxnState.OPEN),
        *(TxnState.ABORTED, TxnState.OPEN),
    ]
    assert {each.txn_id for each in locks.show()} == {updating, other, None}
    events = [each for each in NotificationLog(store).events(0) if each.type is EventType.COMMIT_TXN]
    assert [(each.txn_id, dict(each.message["write_ids"])) for each in events] == [(writing, {"default.tab3": 1})]
    # What was not done stays possible.
    transactions.commit(updating)
    transactions.commit(other)
    assert locks.check(waiting.lock_id).is_acquired


@pytest.mark.usefixtures("warehouse")
def test_many_commit_at_once(transactions: TransactionManager, locks: LockManager) -> None:
    opened = transactions.open_together([transactions.described()] * 40)
    requests = [lock(locks, txn_id, LockType.SHARED_WRITE, "tab1") for txn_id in opened]
    assert all(locks.acquire_together(requests))
    assert transactions.commit_together(opened) == set(opened)
    assert locks.show() == []
    assert transactions.commit_together([]) == set()


def test_transaction_in_use_is_left_to_its_client(postgresql_url: str, clock: Clock) -> None:
    store = Store(postgresql_url)
    transactions = TransactionManager(store, Settings({}), clock)
    locks = LockManager(store, Settings({}), clock, transactions)
    used, free = transactions.open(2)
    requests = [
        locks.described([LockComponent("default", None, None, LockType.SHARED_READ, DataOperation.SELECT)], txn_id)
        for txn_id in (used, free)
    ]
    with store.engine.begin() as connection:
        transactions.heartbeat_in(connection, used)
        assert [response is not None for response in locks.acquire_together(requests)] == [False, True]
        assert transactions.commit_together([used, free]) == {free}
    assert all(locks.acquire_together(requests[:1]))
    assert transactions.commit_together([used]) == {used}
    store.close()


def test_lost_answer_to_several_commits_is_looked_up(postgresql_url: str, clock: Clock) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        transactions = TransactionManager(store, Settings({}), clock)
        opened = transactions.open(2)
        proxy.cut_before(COMMITTED)
        with pytest.raises(OutcomeUnknownError):
            transactions.commit_together(opened)
        for txn_id in opened:
            transactions.commit(txn_id)
        assert states(transactions, *opened) == [TxnState.COMMITTED] * 2
        store.close()
