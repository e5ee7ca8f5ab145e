from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_hivex.core.catalog.notification_log import EventType, NotificationLog
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import (
    NoSuchTableError,
    NoSuchTransactionError,
    TooManyOpenTransactionsError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
)
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock


@pytest.fixture
def table(catalog: ObjectStore) -> str:
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
    catalog.create_table(Table("default", "t", storage, parameters={"transactional": "true"}))
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


@pytest.mark.parametrize("txn_id", [-1, 0, 99, 2**62])
def test_unknown_ids_are_told(transactions: TransactionManager, txn_id: int) -> None:
    for call in (transactions.commit, transactions.abort, transactions.heartbeat, transactions.get):
        with pytest.raises(NoSuchTransactionError):
            call(txn_id)


def test_refused_commit_undoes_its_changes(transactions: TransactionManager, catalog: ObjectStore, table: str) -> None:
    (txn_id,) = transactions.open()

    def changes(connection: object) -> None:
        catalog.drop_table("default", "t", connection=connection)  # type: ignore[arg-type]
        raise NoSuchTableError("default", "u")

    with pytest.raises(NoSuchTableError):
        transactions.commit(txn_id, changes)
    assert catalog.list_tables("default") == ["t"]
    assert transactions.get(txn_id).state is TxnState.OPEN


def test_changes_of_an_aborted_transaction_are_not_applied(transactions: TransactionManager) -> None:
    (txn_id,) = transactions.open()
    transactions.abort(txn_id)
    applied: list[object] = []
    with pytest.raises(TransactionAbortedError):
        transactions.commit(txn_id, applied.append)
    assert applied == []


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
