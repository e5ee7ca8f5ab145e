"""First committer wins. The cases restate those of Hive's TestDbTxnManager2 and TestTxnHandler."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import TransactionAbortedError, WriteConflictError
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.transactions import AbortReason, Operation, TxnState, TxnType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import completed_txn_components, txn_components, write_set
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock

pytestmark = pytest.mark.usefixtures("warehouse")

OPERATIONS = {
    "i": DataOperation.INSERT,
    "u": DataOperation.UPDATE,
    "d": DataOperation.DELETE,
}


class Writer:
    """Transactions that take shared write locks, as with ``hive.txn.xlock.write`` off."""

    def __init__(self, transactions: TransactionManager, locks: LockManager) -> None:
        self.transactions = transactions
        self.locks = locks

    def open(self) -> int:
        return self.transactions.open()[0]

    def write(self, txn_id: int, letter: str, table: str = "tab1", partition: str | None = "p=two") -> None:
        component = LockComponent("default", table, partition, LockType.SHARED_WRITE, OPERATIONS[letter])
        self.locks.acquire([component], txn_id, timeout=0)
        self.transactions.allocate_write_ids([txn_id], "default", table)


@pytest.fixture
def writer(store: Store, clock: Clock, transactions: TransactionManager) -> Writer:
    return Writer(transactions, LockManager(store, Settings({}), clock, transactions))


def write_sets(store: Store) -> list[tuple[int, int, str | None, str]]:
    w = write_set.c
    with store.read() as connection:
        rows = connection.execute(select(w.txn_id, w.commit_id, w.partition, w.operation).order_by(w.id))
        return [(row.txn_id, row.commit_id, row.partition, row.operation) for row in rows]


# Two writers of the same partition; shared writes wait for each other in no other way.
@pytest.mark.parametrize(
    ("first", "second", "conflicts"),
    [(a, b, a != "i" and b != "i") for a in "iud" for b in "iud"],
)
@pytest.mark.parametrize(("table", "partition"), [("tab1", "p=two"), ("tab3", None)])
def test_conflict_table(
    writer: Writer, first: str, second: str, conflicts: bool, table: str, partition: str | None
) -> None:
    one, other = writer.open(), writer.open()
    writer.write(one, first, table, partition)
    writer.write(other, second, table, partition)
    writer.transactions.commit(one)
    if not conflicts:
        writer.transactions.commit(other)
        return
    with pytest.raises(WriteConflictError):
        writer.transactions.commit(other)
    assert writer.transactions.get(other).state is TxnState.ABORTED


def test_losing_a_commit_can_be_known_before(writer: Writer, catalog: ObjectStore) -> None:
    partitioned, other, whole = (catalog.get_table("default", name).id or 0 for name in ("tab1", "tab2", "tab3"))
    one, late = writer.open(), writer.open()
    writer.write(one, "u", "tab1", "p=two")
    writer.write(one, "i", "tab2", "p=two")
    writer.write(one, "d", "tab3", None)
    would_conflict = writer.transactions.would_conflict
    assert not would_conflict(late, [(partitioned, "p=two"), (whole, None)])
    writer.transactions.commit(one)
    for resource in ((partitioned, "p=two"), (partitioned, None), (whole, None), (whole, "p=one")):
        assert would_conflict(late, [(other, None), resource])
    assert not would_conflict(late, [(partitioned, "p=one"), (other, "p=two"), (other, None)])
    assert not would_conflict(late, [])
    assert not would_conflict(writer.open(), [(partitioned, "p=two"), (whole, None)])


def test_message_has_the_form_of_hive(writer: Writer) -> None:
    first, second = writer.transactions.open(5)[3:]
    writer.write(first, "u")
    writer.write(second, "d")
    writer.transactions.commit(first)
    with pytest.raises(WriteConflictError) as caught:
        writer.transactions.commit(second)
    expected = "Aborting [txnid:5,5] due to a write conflict on default/tab1/p=two committed by [txnid:4,5] d/u"
    assert expected in str(caught.value)
    assert caught.value.retryable
    aborted = writer.transactions.get(second)
    assert (aborted.reason, aborted.reason_code) == (expected, AbortReason.WRITE_CONFLICT.number)
    with pytest.raises(TransactionAbortedError, match=re.escape(expected)):
        writer.transactions.heartbeat(second)


def test_message_of_a_table_without_partitions_ends_with_its_name(writer: Writer) -> None:
    first, second = writer.open(), writer.open()
    writer.write(first, "d", "tab3", None)
    writer.write(second, "u", "tab3", None)
    writer.transactions.commit(second)
    with pytest.raises(WriteConflictError, match=r"conflict on default/tab3 committed by \[txnid:2,2\] d/u"):
        writer.transactions.commit(first)


def test_different_partitions_and_tables_do_not_conflict(writer: Writer) -> None:
    first, second, third = (writer.open() for _ in range(3))
    writer.write(first, "u", "tab1", "p=one")
    writer.write(second, "u", "tab1", "p=two")
    writer.write(third, "u", "tab2", "p=one")
    for txn_id in (third, first, second):
        writer.transactions.commit(txn_id)


def test_update_of_no_certain_partition_is_one_of_all(writer: Writer) -> None:
    first, second, third = (writer.open() for _ in range(3))
    writer.write(first, "u", "tab1", "p=one")
    writer.write(second, "u", "tab1", None)
    writer.write(third, "u", "tab1", "p=two")
    writer.transactions.commit(first)
    with pytest.raises(WriteConflictError):
        writer.transactions.commit(second)
    writer.transactions.commit(third)
    late, later = writer.open(), writer.open()
    writer.write(late, "u", "tab1", None)
    writer.write(later, "d", "tab1", "p=one")
    writer.transactions.commit(late)
    with pytest.raises(WriteConflictError):
        writer.transactions.commit(later)


def test_transactions_one_after_the_other_do_not_conflict(writer: Writer, store: Store) -> None:
    first = writer.open()
    writer.write(first, "u")
    writer.transactions.commit(first)
    second = writer.open()
    writer.write(second, "u")
    writer.transactions.commit(second)
    assert write_sets(store) == [(1, 1, "p=two", "u"), (2, 2, "p=two", "u")]


def test_overlap_is_of_intervals_from_begin_to_commit(writer: Writer, store: Store) -> None:
    """[1,2] and [2,3] overlap although neither contains the other; [1,2] and [3,3] do not."""
    first, second = writer.open(), writer.open()
    writer.write(first, "u")
    writer.transactions.commit(first)
    third = writer.open()
    writer.write(third, "u")
    writer.write(second, "u")
    writer.transactions.commit(third)
    with pytest.raises(WriteConflictError, match=r"\[txnid:2,3\].*\[txnid:1,2\]"):
        writer.transactions.commit(second)
    assert write_sets(store) == [(1, 2, "p=two", "u"), (3, 3, "p=two", "u")]


def test_aborted_transaction_wins_against_no_other(writer: Writer) -> None:
    first, second = writer.open(), writer.open()
    writer.write(first, "u")
    writer.write(second, "u")
    writer.transactions.abort(first)
    writer.transactions.commit(second)


def test_loser_keeps_its_components_for_the_cleaner_and_its_locks_are_free(
    writer: Writer, store: Store, locks: LockManager
) -> None:
    first, second = writer.open(), writer.open()
    writer.write(first, "u")
    writer.write(second, "u")
    writer.transactions.commit(first)
    with pytest.raises(WriteConflictError):
        writer.transactions.commit(second)
    assert locks.show() == []
    with store.read() as connection:
        left = connection.execute(select(txn_components.c.txn_id)).scalars().all()
    assert left == [second]


def test_changes_of_a_loser_are_undone(writer: Writer, warehouse: ObjectStore) -> None:
    first, second = writer.open(), writer.open()
    writer.write(first, "u")
    writer.write(second, "u")
    writer.transactions.commit(first)
    with pytest.raises(WriteConflictError):
        writer.transactions.commit(
            second, lambda connection: warehouse.joining(connection).drop_table("default", "tab3") and None
        )
    assert "tab3" in warehouse.list_tables("default")


def test_holder_of_exclusive_write_locks_is_not_checked(writer: Writer, store: Store) -> None:
    first, second = writer.open(), writer.open()
    writer.write(first, "u")
    writer.write(second, "u")
    writer.transactions.commit(first)
    writer.transactions.commit(second, exclusive_write_locks=True)
    assert len(write_sets(store)) == 2


def test_reader_and_inserter_leave_no_write_set(writer: Writer, store: Store) -> None:
    reader, inserter = writer.open(), writer.open()
    writer.locks.acquire([LockComponent("default", "tab1", operation=DataOperation.SELECT)], reader)
    writer.write(inserter, "i")
    writer.transactions.commit(reader)
    writer.transactions.commit(inserter)
    assert write_sets(store) == []


def test_what_a_transaction_wrote_is_completed_with_its_commit(writer: Writer, store: Store, clock: Clock) -> None:
    (txn_id,) = writer.transactions.open()
    writer.write(txn_id, "i", "tab1", "p=one")
    writer.write(txn_id, "u", "tab1", "p=two")
    writer.write(txn_id, "i", "tab1", "p=two")
    writer.write(txn_id, "i", "tab3", None)
    writer.transactions.commit(txn_id)
    c = completed_txn_components.c
    with store.read() as connection:
        rows = connection.execute(select(c.partition, c.write_id, c.updates, c.committed_ms).order_by(c.partition))
        found = {tuple(row) for row in rows}
    assert found == {
        ("p=one", 1, False, clock.now_ms),
        ("p=two", 1, True, clock.now_ms),
        (None, 1, False, clock.now_ms),
    }


def test_compaction_completes_nothing(writer: Writer, store: Store) -> None:
    (txn_id,) = writer.transactions.open(type=TxnType.COMPACTION)
    writer.transactions.allocate_write_ids([txn_id], "default", "tab1", operation=Operation.COMPACT)
    writer.transactions.commit(txn_id)
    with store.read() as connection:
        assert connection.execute(select(completed_txn_components)).all() == []
        assert connection.execute(select(txn_components)).all() == []


def test_dynamic_partitions_take_the_place_of_all(writer: Writer, store: Store) -> None:
    first, second, third = (writer.open() for _ in range(3))
    component = LockComponent(
        "default", "tab1", None, LockType.SHARED_WRITE, DataOperation.UPDATE, is_dynamic_partition_write=True
    )
    writer.locks.acquire([component], first)
    writer.transactions.allocate_write_ids([first], "default", "tab1")
    writer.write(second, "u", "tab1", "p=two")
    writer.write(third, "u", "tab1", "p=one")
    writer.transactions.add_dynamic_partitions(
        first, "default", "tab1", ["p=one", "p=three", "p=one"], Operation.UPDATE
    )
    writer.transactions.commit(second)
    writer.transactions.commit(first)
    assert [row[2:] for row in write_sets(store)] == [("p=two", "u"), ("p=one", "u"), ("p=three", "u")]
    with pytest.raises(WriteConflictError):
        writer.transactions.commit(third)
    with pytest.raises(TransactionAbortedError):
        writer.transactions.add_dynamic_partitions(third, "default", "tab1", ["p=one"], Operation.UPDATE)


def test_of_concurrent_committers_exactly_one_wins_each_time(writer: Writer) -> None:
    for _ in range(5):
        ids = writer.transactions.open(6)
        for txn_id in ids:
            writer.write(txn_id, "u", "tab1", "p=one")
            writer.write(txn_id, "u", "tab3", None)

        def commit(txn_id: int) -> bool:
            try:
                writer.transactions.commit(txn_id)
            except WriteConflictError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(commit, ids)) == 1


def test_counter_under_concurrent_clients_loses_no_update(writer: Writer, store: Store) -> None:
    """Each adds one to what its snapshot shows; what was committed last must be their number."""
    value: dict[int, int] = {0: 0}

    def add(_: int) -> None:
        while True:
            (txn_id,) = writer.transactions.open()
            writer.write(txn_id, "u", "tab3", None)
            snapshot = writer.transactions.valid_txns(txn_id)
            seen = max((each for each in list(value) if snapshot.is_valid(each) and each != txn_id), default=0)
            value[txn_id] = value[seen] + 1
            try:
                writer.transactions.commit(txn_id)
            except WriteConflictError:
                continue
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(20)))
    snapshot = writer.transactions.valid_txns()
    assert value[max(each for each in value if each and snapshot.is_valid(each))] == 20


def test_recheck_after_a_lock_wait_returns_tables_written_meanwhile(
    writer: Writer, housekeeper: Housekeeper, clock: Clock
) -> None:
    names = ["default.tab1", "default.tab2", "default.tab3"]
    before, reader, after = (writer.open() for _ in range(3))
    writer.write(before, "u", "tab1")
    snapshot = writer.transactions.valid_txns(reader)
    assert writer.transactions.written_since(names, snapshot) == frozenset()
    writer.transactions.commit(before)
    assert writer.transactions.written_since(names, snapshot) == {"default.tab1"}
    writer.write(after, "i", "tab2")
    assert writer.transactions.written_since(names, snapshot) == {"default.tab1"}
    writer.transactions.commit(after)
    assert writer.transactions.written_since(names, snapshot) == {"default.tab1", "default.tab2"}
    assert writer.transactions.written_since(names, snapshot, updates_only=True) == {"default.tab1"}
    # Neither time nor the housekeeper makes an open transaction forget.
    clock.advance(250)
    writer.transactions.heartbeat(reader)
    clock.advance(250)
    housekeeper.run()
    assert writer.transactions.written_since(names, snapshot) == {"default.tab1", "default.tab2"}
    assert writer.transactions.written_since(names, writer.transactions.valid_txns()) == frozenset()
