"""Transactions that begin with their locks and write ids: all at once, or open with nothing else."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy import select

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.snapshot_rows import read_snapshot, snapshot_call
from airflow_hivex.core.errors import StoreUnavailableError, TooManyOpenTransactionsError, WriteConflictError
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import txn_components
from airflow_hivex.core.transactions.beginning import Begun
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock
from tests.postgresql_proxy import COMMITTED, PostgresqlProxy
from tests.round_trips import counted


def on(type: LockType, table: str | None = "tab3", partition: str | None = None) -> LockComponent:
    operation = DataOperation.SELECT if type is LockType.SHARED_READ else DataOperation.INSERT
    return LockComponent("default", table, partition, type, operation)


PLACES: tuple[tuple[str | None, str | None], ...] = (("tab1", None), ("tab1", "p=1"))
CASES = list(product(product(LockType, PLACES), product((LockType.SHARED_WRITE, LockType.EXCLUSIVE), PLACES)))


@pytest.fixture
def tab3(warehouse: ObjectStore) -> Table:
    return warehouse.get_table("default", "tab3")


def begin(locks: LockManager, *components: LockComponent, write_ids_of: tuple[int, ...] = ()) -> Begun:
    found: list[Begun] = []
    begun = locks.begin(components, found.append, write_ids_of=write_ids_of, user="ann", agent_info="a task")
    assert found == [begun]
    return begun


def notes(store: Store, txn_id: int) -> list[tuple[int, str]]:
    of_txn = select(txn_components.c.table_id, txn_components.c.operation).where(txn_components.c.txn_id == txn_id)
    with store.read() as connection:
        return [tuple(row) for row in connection.execute(of_txn)]


def test_transaction_begins_with_locks_notes_and_write_ids_in_one_round_trip(
    locks: LockManager, transactions: TransactionManager, store: Store, tab3: Table
) -> None:
    # This one counts those that are open.
    before = begin(locks, on(LockType.SHARED_READ), write_ids_of=(tab3.id,))
    with counted(store) as trips:
        begun = begin(locks, on(LockType.SHARED_WRITE), on(LockType.SHARED_READ, "tab1"), write_ids_of=(tab3.id,))
    assert len(trips) == 1, trips.described()
    assert begun.lock is not None
    assert begun.txn_id == before.txn_id + 1
    assert (dict(before.write_ids), dict(begun.write_ids)) == ({tab3.id: 1}, {tab3.id: 2})
    transaction = transactions.get(begun.txn_id)
    assert (transaction.state, transaction.type) == (TxnState.OPEN, TxnType.DEFAULT)
    assert (transaction.user, transaction.agent_info) == ("ann", "a task")
    held = locks.show(txn_id=begun.txn_id)
    assert {(lock.lock_id, lock.component.resource, lock.user, lock.agent_info) for lock in held} == {
        (begun.lock.lock_id, "default/tab3", "ann", "a task"),
        (begun.lock.lock_id, "default/tab1", "ann", "a task"),
    }
    assert notes(store, begun.txn_id) == [(tab3.id, "i")]
    # The same write id, as for a client that asks again.
    assert transactions.allocate_write_ids([begun.txn_id], "default", "tab3") == {begun.txn_id: 2}
    transactions.commit(begun.txn_id)
    assert locks.show(txn_id=begun.txn_id) == []


def test_snapshot_that_comes_with_the_locks_sees_its_transaction_but_no_write_id_of_it(
    locks: LockManager, transactions: TransactionManager, store: Store, tab3: Table
) -> None:
    asked = [snapshot_call([("default", "tab3")], None)]
    write, read = on(LockType.SHARED_WRITE), on(LockType.SHARED_READ)
    earlier = locks.begin([write], lambda _: None, write_ids_of=[tab3.id])
    transactions.commit(earlier.txn_id)
    is_open = locks.begin([write], lambda _: None, write_ids_of=[tab3.id])
    with counted(store) as trips:
        begun = locks.begin([read], lambda _: None, write_ids_of=[tab3.id], also=asked)
    assert len(trips) == 1, trips.described()
    assert begun.write_ids == {tab3.id: 3}
    taken = read_snapshot(begun.answers[0], begun.txn_id)
    assert (taken.valid_txns.high_watermark, taken.valid_txns.open_ids) == (begun.txn_id, (is_open.txn_id,))
    seen = taken.write_ids[tab3.id]
    assert [seen.is_valid(write_id) for write_id in (1, 2, 3)] == [True, False, False]
    locks.acquire([on(LockType.EXCLUSIVE, "tab1")])
    blocked = locks.begin([on(LockType.SHARED_READ, "tab1")], lambda _: None, also=asked)
    assert (blocked.lock, blocked.answers) == (None, ())


def test_commit_of_an_update_looks_for_conflicts_without_a_round_trip_more(
    locks: LockManager, transactions: TransactionManager, store: Store, tab3: Table
) -> None:
    update = LockComponent("default", "tab3", None, LockType.SHARED_WRITE, DataOperation.UPDATE)
    first, second = (locks.begin([update], lambda _: None, write_ids_of=[tab3.id]) for _ in range(2))
    with counted(store) as trips:
        transactions.commit(first.txn_id)
    assert len(trips) == 2, trips.described()
    with pytest.raises(WriteConflictError):
        transactions.commit(second.txn_id)


def test_locks_that_would_wait_leave_a_transaction_without_locks_and_write_ids(
    locks: LockManager, transactions: TransactionManager, store: Store, tab3: Table
) -> None:
    allocated = 0
    for held, wanted in CASES:
        (held_type, held_place), (wanted_type, wanted_place) = held, wanted
        owner = locks.acquire([on(held_type, *held_place)], user="bob")
        asked = locks.acquire([on(wanted_type, *wanted_place)], user="ann", wait=False)
        locks.unlock(asked.lock_id)
        begun = begin(locks, on(wanted_type, *wanted_place), write_ids_of=(tab3.id,))
        assert asked.is_acquired or begun.lock is None, (held, wanted)
        assert transactions.get(begun.txn_id).state is TxnState.OPEN
        if begun.lock is None:
            assert locks.show(txn_id=begun.txn_id) == []
            assert notes(store, begun.txn_id) == []
            assert not begun.write_ids
        else:
            allocated += 1
            assert begun.write_ids == {tab3.id: allocated}
        transactions.abort(begun.txn_id)
        locks.unlock(owner.lock_id)
    assert 0 < allocated < len(CASES)


@pytest.mark.usefixtures("warehouse")
def test_table_that_does_not_exist_leaves_the_error_to_the_request(locks: LockManager) -> None:
    assert begin(locks, on(LockType.SHARED_READ), on(LockType.SHARED_READ, "missing")).lock is None


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("point", ["before open", "after open", "the answer"])
def test_interrupt_while_a_transaction_begins_leaves_none(
    metastore_url: str, store: Store, clock: Clock, transactions: TransactionManager, locks: LockManager, point: str
) -> None:
    def interrupt(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    interrupted = Store(metastore_url, interrupt)
    begins = LockManager(interrupted, Settings({}), clock, TransactionManager(interrupted, Settings({}), clock))
    with pytest.raises(KeyboardInterrupt):
        begins.begin([on(LockType.SHARED_WRITE)], lambda _: interrupt("the answer"))
    interrupted.close()
    assert transactions.valid_txns().open_ids == ()
    assert locks.show() == []


@pytest.mark.usefixtures("warehouse")
def test_open_transactions_are_limited(store: Store, clock: Clock) -> None:
    settings = Settings({"hive.max.open.txns": 10})
    locks = LockManager(store, settings, clock, TransactionManager(store, settings, clock))
    for _ in range(10):
        begin(locks, on(LockType.SHARED_READ))
    with pytest.raises(TooManyOpenTransactionsError):
        begin(locks, on(LockType.SHARED_READ))
    assert len(locks.show()) == 10


@pytest.mark.usefixtures("warehouse")
def test_count_that_comes_with_a_transaction_limits_it_too(store: Store, clock: Clock) -> None:
    settings = Settings({"hive.max.open.txns": 10})
    own, other = (LockManager(store, settings, clock, TransactionManager(store, settings, clock)) for _ in range(2))
    begin(own, on(LockType.SHARED_READ))
    for _ in range(9):
        begin(other, on(LockType.SHARED_READ))
    clock.advance(2)
    with pytest.raises(TooManyOpenTransactionsError):
        begin(own, on(LockType.SHARED_READ))
    assert len(own.show()) == 10
    # Each further attempt counts first.
    with counted(store) as trips, pytest.raises(TooManyOpenTransactionsError):
        begin(own, on(LockType.SHARED_READ))
    assert len(trips) == 1, trips.described()
    assert len(TransactionManager(store, settings, clock).valid_txns().open_ids) == 10


def test_lost_answer_to_the_commit_leaves_no_locks(postgresql_url: str, clock: Clock) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        transactions = TransactionManager(store, Settings({}), clock)
        locks = LockManager(store, Settings({}), clock, transactions)
        proxy.cut_before(COMMITTED)
        with pytest.raises(StoreUnavailableError):
            begin(locks, on(LockType.SHARED_READ, None))
        assert proxy.cuts == 1
        # It had been applied.
        assert [each.state for each in transactions.show()] == [TxnState.ABORTED]
        assert locks.show() == []
        store.close()
