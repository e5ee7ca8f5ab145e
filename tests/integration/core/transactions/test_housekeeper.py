"""What the housekeeper removes, and what it must not. Restates Hive's TestAcidTxnCleanerService among others."""

from __future__ import annotations

import pytest
from sqlalchemy import Table, func, select

from airflow_hivex.core.errors import NoSuchLockError, NoSuchTransactionError, TransactionAbortedError
from airflow_hivex.core.events.notification_log import PartitionEvents, PartitionEventType
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.transactions import AbortReason, Operation, TxnState
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import completed_txn_components, txn_to_write_id, txns, write_set
from airflow_hivex.core.transactions.housekeeper import Housekeeper, HousekeepingResult
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock

pytestmark = pytest.mark.usefixtures("warehouse")


def count(store: Store, table: Table) -> int:
    with store.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def write(
    transactions: TransactionManager, txn_id: int, operation: Operation = Operation.INSERT, table: str = "tab3"
) -> int:
    return transactions.allocate_write_ids([txn_id], "default", table, operation=operation)[txn_id]


def test_round_over_nothing_does_nothing(housekeeper: Housekeeper) -> None:
    assert housekeeper.run() == HousekeepingResult()


def test_dead_clients_lose_their_transactions_and_locks(
    housekeeper: Housekeeper, transactions: TransactionManager, locks: LockManager, clock: Clock
) -> None:
    dead, patient = transactions.open() + transactions.open(timeout=10_000)
    component = LockComponent("default", "tab1", None, LockType.SHARED_WRITE, DataOperation.NO_TXN)
    locks.acquire([component], dead)
    kept = locks.acquire([component], patient)
    without = locks.acquire([component])
    clock.advance(301)
    result = housekeeper.run()
    assert (result.aborted, result.dropped_locks) == ((dead,), (without.lock_id,))
    assert {lock.lock_id for lock in locks.show()} == {kept.lock_id}
    with pytest.raises(TransactionAbortedError, match="timed out"):
        transactions.commit(dead)
    with pytest.raises(NoSuchLockError):
        locks.heartbeat(without.lock_id)
    assert transactions.get(dead).reason_code == AbortReason.TIMEOUT.number


def test_longest_time_out_does_not_stop_the_reaper(
    housekeeper: Housekeeper, transactions: TransactionManager, clock: Clock
) -> None:
    transactions.open(timeout=10 * 365 * 86_400)
    (short,) = transactions.open(timeout=1)
    clock.advance(5)
    assert housekeeper.run().aborted == (short,)


def test_ended_transactions_are_forgotten_after_their_time_out_but_never_the_last(
    housekeeper: Housekeeper, transactions: TransactionManager, clock: Clock
) -> None:
    committed, aborted, still_open, last = transactions.open(4)
    transactions.commit(committed)
    transactions.abort(aborted)
    transactions.commit(last)
    assert housekeeper.run().transactions == 0
    clock.advance(299)
    transactions.heartbeat(still_open)
    clock.advance(2)
    assert housekeeper.run().transactions == 2
    for gone in (committed, aborted):
        with pytest.raises(NoSuchTransactionError):
            transactions.get(gone)
    assert transactions.get(last).state is TxnState.COMMITTED
    assert transactions.open() == [last + 1]


def test_aborted_transaction_with_components_stays_until_they_are_cleaned(
    housekeeper: Housekeeper, transactions: TransactionManager, clock: Clock, store: Store
) -> None:
    aborted, committed, _last = transactions.open(3)
    write(transactions, aborted)
    write(transactions, committed)
    transactions.abort(aborted)
    transactions.commit(committed)
    clock.advance(1000)
    housekeeper.run()
    assert transactions.get(aborted).state is TxnState.ABORTED
    snapshot = transactions.valid_txns()
    assert aborted in snapshot.aborted_ids
    assert transactions.valid_write_ids(["default.tab3"], snapshot)["default.tab3"].aborted_ids == (1,)


def test_write_ids_leave_when_every_snapshot_sees_them(
    housekeeper: Housekeeper, transactions: TransactionManager, store: Store, clock: Clock
) -> None:
    for _ in range(5):
        (txn_id,) = transactions.open()
        write(transactions, txn_id)
        transactions.commit(txn_id)
    before = transactions.valid_write_ids(["default.tab3"], transactions.valid_txns())
    assert housekeeper.run().write_ids == 4
    # The highest of the table stays, so that the high watermark is found.
    assert count(store, txn_to_write_id) == 1
    assert transactions.valid_write_ids(["default.tab3"], transactions.valid_txns()) == before


def test_snapshot_of_an_open_transaction_is_not_changed_by_a_round(
    housekeeper: Housekeeper, transactions: TransactionManager, clock: Clock
) -> None:
    writer, reader = transactions.open(2, timeout=100_000)
    write(transactions, writer)
    snapshot = transactions.valid_txns(reader)
    before = transactions.valid_write_ids(["default.tab3"], snapshot)
    transactions.commit(writer)
    clock.advance(50_000)
    housekeeper.run()
    assert transactions.valid_write_ids(["default.tab3"], snapshot) == before
    assert not before["default.tab3"].is_valid(1)
    transactions.commit(reader)
    housekeeper.run()
    assert transactions.valid_write_ids(["default.tab3"], transactions.valid_txns())["default.tab3"].is_valid(1)


def test_high_watermark_holds_where_a_later_transaction_took_the_lower_write_id(
    housekeeper: Housekeeper, transactions: TransactionManager
) -> None:
    first, second, third = transactions.open(3)
    assert write(transactions, second) == 1
    assert write(transactions, first) == 2
    transactions.commit(first)
    transactions.abort(second)
    transactions.commit(third)
    before = transactions.valid_write_ids(["default.tab3"], transactions.valid_txns())["default.tab3"]
    assert (before.high_watermark, before.aborted_ids) == (2, (1,))
    housekeeper.run()
    after = transactions.valid_write_ids(["default.tab3"], transactions.valid_txns())["default.tab3"]
    assert after == before


def test_write_sets_stay_while_a_transaction_overlaps_them(
    housekeeper: Housekeeper, transactions: TransactionManager, store: Store
) -> None:
    updater, overlapping = transactions.open(2)
    write(transactions, updater, Operation.UPDATE)
    transactions.commit(updater)
    assert housekeeper.run().write_sets == 0
    transactions.commit(overlapping)
    assert housekeeper.run().write_sets == 1
    assert count(store, write_set) == 0


def test_newest_write_and_newest_update_of_a_resource_stay(
    housekeeper: Housekeeper, transactions: TransactionManager, locks: LockManager, store: Store
) -> None:
    written = [("u", "p=1"), ("i", "p=1"), ("i", "p=1"), ("i", "p=2"), ("i", "p=2")]
    operations = {"u": DataOperation.UPDATE, "i": DataOperation.INSERT}
    for letter, partition in written:
        (txn_id,) = transactions.open()
        locks.acquire([LockComponent("default", "tab1", partition, LockType.SHARED_WRITE, operations[letter])], txn_id)
        transactions.allocate_write_ids([txn_id], "default", "tab1")
        transactions.commit(txn_id)
    assert housekeeper.run().completed_components == 2
    c = completed_txn_components.c
    with store.read() as connection:
        left = connection.execute(select(c.partition, c.write_id).order_by(c.write_id)).all()
    assert [tuple(row) for row in left] == [("p=1", 1), ("p=1", 3), ("p=2", 5)]
    assert housekeeper.run().completed_components == 0


def test_tasks_run_when_they_are_due(
    store: Store, clock: Clock, transactions: TransactionManager, locks: LockManager
) -> None:
    settings = Settings({"metastore.acid.housekeeper.interval": "60s", "metastore.acid.txn.cleaner.interval": "10s"})
    housekeeper = Housekeeper(store, settings, clock, transactions, locks)
    housekeeper.run(only_due=True)
    (first,) = transactions.open(timeout=1)
    clock.advance(11)
    assert housekeeper.run(only_due=True).aborted == ()
    clock.advance(50)
    assert housekeeper.run(only_due=True).aborted == (first,)
    (second, _last) = transactions.open(2, timeout=1)
    transactions.commit(second)
    clock.advance(11)
    result = housekeeper.run(only_due=True)
    assert (result.aborted, result.transactions) == ((), 2)
    assert count(store, txns) == 1


@pytest.mark.parametrize(("kept_s", "marked"), [(0, True), (60, False), (61, True)])
def test_marks_of_partitions_are_kept_for_ever_or_for_the_configured_time(
    store: Store,
    transactions: TransactionManager,
    locks: LockManager,
    clock: Clock,
    kept_s: int,
    marked: bool,
) -> None:
    events = PartitionEvents(store, clock)
    events.mark("default", "tab1", "ds=1", PartitionEventType.LOAD_DONE)
    clock.advance(61)
    settings = Settings({"metastore.event.expiry.duration": kept_s})
    Housekeeper(store, settings, clock, transactions, locks).run()
    assert events.is_marked("default", "tab1", "ds=1", PartitionEventType.LOAD_DONE) is marked
    events.mark("default", "tab1", "ds=1", PartitionEventType.LOAD_DONE)
    assert events.is_marked("default", "tab1", "ds=1", PartitionEventType.LOAD_DONE)
    assert not events.is_marked("default", "tab1", "ds=2", PartitionEventType.LOAD_DONE)
