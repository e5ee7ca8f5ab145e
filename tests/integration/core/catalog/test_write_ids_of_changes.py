"""Each change of a managed table by the catalog takes a write id, with a transaction of the caller or its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import (
    HivexError,
    InvalidWriteIdListError,
    MissingWriteIdListError,
    NoSuchPartitionError,
    TransactionAbortedError,
    TransactionNotOpenError,
)
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.model.write_ids import ValidWriteIdList, equivalent
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.manager import TransactionManager

NAME = ("default", "t")
TABLE = Table(
    *NAME,
    StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", "")),
    (Column("d", "string"),),
    parameters={"transactional": "true"},
)
Change = Callable[..., object]


@pytest.fixture
def created(catalog: ObjectStore) -> None:
    """The table with one partition: write ids 1 and 2."""
    catalog.create_table(TABLE)
    catalog.add_partitions(*NAME, [catalog.new_partition(TABLE, ["x"])])


@pytest.fixture(params=["alter", "rename", "add", "alter partition", "rename partition", "drop partition", "drop"])
def change(request: pytest.FixtureRequest, catalog: ObjectStore, created: None) -> Change:
    """A change of the table; it is given a list, and perhaps a transaction."""
    found = catalog.get_table(*NAME).definition
    partition = catalog.new_partition(TABLE, ["x"])
    changes: dict[str, Change] = {
        "alter": lambda ids, txn_id: catalog.alter_table(*NAME, replace(found, comment="c"), ids, txn_id),
        "rename": lambda ids, txn_id: catalog.alter_table(*NAME, replace(found, name="u"), ids, txn_id),
        "add": lambda ids, txn_id: catalog.add_partitions(
            *NAME, [catalog.new_partition(TABLE, ["y"])], ids, txn_id=txn_id
        ),
        "alter partition": lambda ids, txn_id: catalog.alter_partitions(
            *NAME, [replace(partition, parameters={"k": "v"})], ids, txn_id=txn_id
        ),
        "rename partition": lambda ids, txn_id: catalog.rename_partition(*NAME, "d=x", "d=y", ids, txn_id=txn_id),
        "drop partition": lambda ids, txn_id: catalog.drop_partitions(*NAME, ["d=x"], ids, txn_id=txn_id),
        "drop": lambda ids, txn_id: catalog.drop_table(*NAME, ids, txn_id),
    }
    change = changes[request.param]
    return lambda ids, txn_id=None: change(ids, txn_id)


@pytest.fixture
def log(store: Store) -> NotificationLog:
    return NotificationLog(store)


def list_of(transactions: TransactionManager, name: str = "default.t") -> ValidWriteIdList:
    return transactions.valid_write_ids([name], transactions.valid_txns())[name]


def test_creation_takes_the_first_write_id(
    catalog: ObjectStore, transactions: TransactionManager, log: NotificationLog
) -> None:
    catalog.create_table(TABLE, ValidWriteIdList.parse("default.t:1:9223372036854775807::"))
    assert str(list_of(transactions)) == "default.t:1:9223372036854775807::"
    creation, commit = log.events()
    assert creation.message["valid_write_ids"] == "default.t:1:9223372036854775807::"
    assert (commit.type, commit.message["write_ids"]) == (EventType.COMMIT_TXN, {"default.t": 1})


def test_change_without_a_transaction_has_one_of_its_own(
    change: Change, transactions: TransactionManager, log: NotificationLog
) -> None:
    # 3 is open, and 4 was aborted, when the change is made.
    open_id, aborted_id = transactions.open(2)
    transactions.allocate_write_ids([open_id, aborted_id], *NAME)
    transactions.abort(aborted_id)
    before = list_of(transactions)
    position = log.current_event_id()
    change(str(before))
    announced, commit = log.events(position)
    event_list = ValidWriteIdList.parse(announced.message["valid_write_ids"])
    assert (event_list.high_watermark, event_list.exceptions) == (5, (3, 4))
    assert not equivalent(event_list, before)
    assert list(commit.message["write_ids"].values()) == [5]
    assert announced.txn_id == commit.txn_id
    assert not [each for each in transactions.show() if each.id not in (open_id, aborted_id)]


def test_change_of_a_transaction_has_its_write_id_and_counts_with_its_commit(
    change: Change, transactions: TransactionManager, log: NotificationLog
) -> None:
    before = list_of(transactions)
    (txn_id,) = transactions.open()
    position = log.current_event_id()
    change(before, txn_id)
    (announced,) = log.events(position)
    assert announced.message["valid_write_ids"].split(":")[1:3] == ["3", "9223372036854775807"]
    transactions.commit(txn_id)
    *_, commit = log.events(position)
    assert list(commit.message["write_ids"].values()) == [3]


def test_change_without_a_list_of_the_table_is_refused_and_takes_no_write_id(
    change: Change, transactions: TransactionManager, log: NotificationLog
) -> None:
    before, position = str(list_of(transactions)), log.current_event_id()
    refused: dict[str | None, type[HivexError]] = {
        None: MissingWriteIdListError,
        "": InvalidWriteIdListError,
        "default.u:2:9223372036854775807::": InvalidWriteIdListError,
        "default.t:2": InvalidWriteIdListError,
    }
    for given, error in refused.items():
        with pytest.raises(error):
            change(given)
    assert str(list_of(transactions)) == before
    assert log.current_event_id() == position


@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize("gone", ["dropped", "renamed"])
def test_change_with_the_list_of_an_earlier_table_of_the_name_is_refused(
    change: Change,
    catalog: ObjectStore,
    transactions: TransactionManager,
    log: NotificationLog,
    gone: str,
    is_text: bool,
) -> None:
    earlier = list_of(transactions)
    if gone == "dropped":
        catalog.drop_table(*NAME)
    else:
        catalog.alter_table(*NAME, replace(catalog.get_table(*NAME).definition, name="former"))
    catalog.create_table(replace(TABLE, comment="the new one"))
    catalog.add_partitions(*NAME, [catalog.new_partition(TABLE, ["x"])])
    present, position = list_of(transactions), log.current_event_id()
    with pytest.raises(InvalidWriteIdListError, match="an earlier table"):
        change(str(earlier) if is_text else earlier)
    assert catalog.get_table(*NAME).comment == "the new one"
    assert log.current_event_id() == position
    change(str(present) if is_text else present)


def test_external_table_refuses_the_list_of_the_managed_table_before_it(
    catalog: ObjectStore, created: None, transactions: TransactionManager
) -> None:
    earlier = str(list_of(transactions))
    catalog.drop_table(*NAME)
    catalog.create_table(replace(TABLE, type=TableType.EXTERNAL_TABLE, parameters={}))
    with pytest.raises(InvalidWriteIdListError, match="an earlier table"):
        catalog.add_partitions(*NAME, [catalog.new_partition(TABLE, ["x"])], earlier)
    catalog.add_partitions(*NAME, [catalog.new_partition(TABLE, ["x"])], None)
    catalog.drop_partitions(*NAME, ["d=x"], str(list_of(transactions)))


def test_change_of_a_transaction_that_cannot_write_is_refused(
    change: Change, transactions: TransactionManager, log: NotificationLog
) -> None:
    before, position = list_of(transactions), log.current_event_id()
    (aborted,) = transactions.open()
    transactions.abort(aborted)
    with pytest.raises(TransactionAbortedError):
        change(before, aborted)
    (reading,) = transactions.open(type=TxnType.READ_ONLY)
    with pytest.raises(TransactionNotOpenError):
        change(before, reading)
    assert list_of(transactions) == before
    assert log.current_event_id() == position


def test_change_that_fails_takes_no_write_id(
    catalog: ObjectStore, created: None, transactions: TransactionManager, log: NotificationLog
) -> None:
    before, position = list_of(transactions), log.current_event_id()
    with pytest.raises(NoSuchPartitionError):
        catalog.drop_partitions(*NAME, ["d=no"])
    assert catalog.drop_partitions(*NAME, ["d=no"], if_exists=True) == []
    assert (list_of(transactions), log.current_event_id()) == (before, position)


def test_change_within_a_commit_is_in_the_log_before_its_own_commit(
    catalog: ObjectStore, created: None, transactions: TransactionManager, log: NotificationLog
) -> None:
    position = log.current_event_id()
    (txn_id,) = transactions.open()
    transactions.commit(txn_id, lambda connection: catalog.joining(connection).drop_partitions(*NAME, ["d=x"]) and None)
    assert [event.type for event in log.events(position)] == [EventType.DROP_PARTITION, EventType.COMMIT_TXN]


def test_external_table_takes_no_write_id(catalog: ObjectStore, log: NotificationLog) -> None:
    catalog.create_table(replace(TABLE, type=TableType.EXTERNAL_TABLE, parameters={}), None)
    catalog.add_partitions(*NAME, [catalog.new_partition(TABLE, ["x"])], None)
    assert [event.type for event in log.events()] == [EventType.CREATE_TABLE, EventType.ADD_PARTITION]
