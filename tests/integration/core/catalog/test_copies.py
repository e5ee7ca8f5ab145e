"""Copies of registered directories on other clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.errors import (
    CopyMismatchError,
    CopyOutdatedError,
    NoSuchPartitionError,
    NoSuchTableError,
    UnknownClusterError,
)
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    StorageDescriptor,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import directories, directory_copies
from airflow_hivex.core.transactions.manager import TransactionManager

STORAGE = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))
Insert = Callable[..., None]


@pytest.fixture
def table(catalog: ObjectStore) -> StoredTable:
    """A transactional table without partitions."""
    return catalog.create_table(Table("default", "t", STORAGE, parameters={"transactional": "true"}))


@pytest.fixture
def days(catalog: ObjectStore) -> StoredTable:
    """A transactional table by day."""
    keys = (Column("d", "int"),)
    return catalog.create_table(
        Table("default", "days", STORAGE, partition_keys=keys, parameters={"transactional": "true"})
    )


@pytest.fixture
def insert(catalog: ObjectStore, transactions: TransactionManager) -> Insert:
    def write(table: StoredTable, partition: str | None = None, batch: tuple[int, int] | None = None) -> None:
        (txn_id,) = transactions.open()
        write_id = transactions.allocate_write_ids([txn_id], table.database, table.name)[txn_id]
        first, last = batch or (write_id, write_id)
        name = f"delta_{first:07d}_{last:07d}" + ("" if batch else "_0000")
        values = () if partition is None else (partition.partition("=")[2],)
        facts = TableWrite(txn_id, write_id, "c1", batch=batch)
        registration = Registration.of_write(table, facts, [WrittenDirectory(partition, values, name, 1, 1, 10)])
        transactions.commit(txn_id, lambda connection: catalog.joining(connection).register(registration))

    return write


def bound(catalog: ObjectStore, table: StoredTable) -> BoundTable:
    """The table as a query that starts now sees it, with its copies on c2."""
    named = (table.database, table.name)
    snapshot = catalog.snapshot([named])
    found = snapshot.tables[named]
    return bind_table(found, catalog.contents(snapshot, found, None, ["c2"]), None, snapshot, ["c2"])


def registered(catalog: ObjectStore, table: StoredTable) -> list[RegisteredDirectory]:
    """What a query that starts now reads."""
    return [each for partition in bound(catalog, table).partitions for each in partition.directories]


def held(store: Store, cluster: str) -> dict[str, str | None]:
    """The directories that a cluster holds, each with its checksum."""
    query = select(directories.c.name, directory_copies.c.checksum).join_from(directory_copies, directories)
    with store.read() as connection:
        rows = connection.execute(query.where(directory_copies.c.cluster == cluster)).all()
    return {row.name: row.checksum for row in rows}


def test_copy_counts_when_the_last_of_its_directories_has_come(
    catalog: ObjectStore, table: StoredTable, insert: Insert
) -> None:
    insert(table)
    insert(table)
    first, second = registered(catalog, table)
    catalog.add_copies(table, "c2", [first])
    assert bound(catalog, table).copies["c2"] == {}
    catalog.add_copies(table, "c2", [second])
    assert bound(catalog, table).copies["c2"] == {None: table.storage.primary.location}
    insert(table)
    assert bound(catalog, table).copies["c2"] == {}
    catalog.add_copies(table, "c2", registered(catalog, table)[2:])
    assert len(bound(catalog, table).copies["c2"]) == 1


def test_adding_copies_again_keeps_what_is_known_of_them(
    catalog: ObjectStore, table: StoredTable, insert: Insert, store: Store
) -> None:
    insert(table)
    insert(table)
    first, second = registered(catalog, table)
    catalog.add_copies(table, "c2", [first, second], {first.id: "sha256:1"})
    assert held(store, "c2") == {first.name: "sha256:1", second.name: None}
    catalog.add_copies(table, "c2", [first, second], {second.id: "sha256:2"})
    assert held(store, "c2") == {first.name: "sha256:1", second.name: "sha256:2"}


def test_primary_cluster_keeps_checksums_only(
    catalog: ObjectStore, table: StoredTable, insert: Insert, store: Store
) -> None:
    insert(table)
    (made,) = registered(catalog, table)
    catalog.add_copies(table, "c1", [made], {made.id: "sha256:1"})
    assert held(store, "c1") == {made.name: "sha256:1"}
    assert catalog.get_table("default", "t").storage.secondaries == ()


def test_directory_that_has_grown_since_it_was_copied_is_refused(
    catalog: ObjectStore, table: StoredTable, insert: Insert, store: Store
) -> None:
    insert(table, batch=(1, 3))
    (copied,) = registered(catalog, table)
    catalog.add_copies(table, "c1", [copied], {copied.id: "sha256:1"})
    insert(table, batch=(1, 3))
    with pytest.raises(CopyOutdatedError, match="has grown"):
        catalog.add_copies(table, "c2", [copied], {copied.id: "sha256:1"})
    assert held(store, "c2") == {}
    assert catalog.get_table("default", "t").storage.secondaries == ()
    # It is that of fewer files.
    assert held(store, "c1") == {copied.name: None}


def test_what_is_not_there_any_more_is_refused_and_nothing_is_registered(
    catalog: ObjectStore, table: StoredTable, days: StoredTable, insert: Insert, store: Store
) -> None:
    insert(table)
    insert(days, "d=1")
    insert(days, "d=2")
    (of_table,) = registered(catalog, table)
    one, two = registered(catalog, days)
    with pytest.raises(UnknownClusterError):
        catalog.add_copies(table, "c9", [of_table])
    with pytest.raises(CopyOutdatedError, match="is not registered any more"):
        catalog.add_copies(days, "c2", [one, of_table])
    with pytest.raises(NoSuchPartitionError):
        catalog.add_copies(days, "c2", [one], partitions=["d=3"])
    catalog.drop_partitions("default", "days", ["d=2"])
    with pytest.raises(NoSuchPartitionError):
        catalog.add_copies(days, "c2", [one, two])
    catalog.drop_table("default", "t")
    with pytest.raises(NoSuchTableError):
        catalog.add_copies(table, "c2", [of_table])
    assert held(store, "c2") == {}


def test_partition_that_is_copied_to_another_folder_leaves_the_first_one(
    catalog: ObjectStore, days: StoredTable, insert: Insert, store: Store
) -> None:
    for partition in ("d=1", "d=1", "d=2"):
        insert(days, partition)
    one, later, two = registered(catalog, days)
    catalog.add_copies(days, "c2", [one, later, two], location="first")
    catalog.add_copies(days, "c2", [two], location="second")
    assert bound(catalog, days).copies["c2"] == {"d=1": "first/d=1", "d=2": "second/d=2"}
    # One directory of two is not there.
    catalog.add_copies(days, "c2", [one], location="second")
    assert bound(catalog, days).copies["c2"] == {"d=2": "second/d=2"}
    # Where no place is given, each partition stays where it is, and new ones come to the newest place.
    insert(days, "d=3")
    catalog.add_copies(days, "c2", [later, two, registered(catalog, days)[-1]])
    assert bound(catalog, days).copies["c2"] == {f"d={day}": f"second/d={day}" for day in (1, 2, 3)}


def test_copies_of_empty_partitions_and_of_plain_tables_are_named(catalog: ObjectStore, days: StoredTable) -> None:
    catalog.add_partitions("default", "days", [catalog.new_partition(days, [1])])
    assert bound(catalog, days).copies["c2"] == {}
    catalog.add_copies(days, "c2", [], partitions=["d=1"])
    assert list(bound(catalog, days).copies["c2"]) == ["d=1"]
    plain = catalog.create_table(Table("default", "plain", STORAGE, type=TableType.EXTERNAL_TABLE))
    catalog.add_copies(plain, "c2", [])
    assert catalog.get_table("default", "plain", cluster="c2").location.endswith("/c2/default.db/plain")


def test_withdrawn_copy_leaves_no_directory_behind(
    catalog: ObjectStore, table: StoredTable, insert: Insert, store: Store, transactions: TransactionManager
) -> None:
    insert(table)
    catalog.register_copy("default", "t", "c2")
    assert len(held(store, "c2")) == 1
    (txn_id,) = transactions.open()
    write_id = transactions.allocate_write_ids([txn_id], "default", "t")[txn_id]
    base = WrittenDirectory(None, (), f"base_{write_id:07d}", 1, 1, 1)
    facts = TableWrite(txn_id, write_id, "c1", overwrite=True)

    def overwrite(connection: Connection) -> None:
        catalog.joining(connection).register(Registration.of_write(table, facts, [base]))

    transactions.commit(txn_id, overwrite)
    # What it holds is not read any more, and waits for the cleaner.
    catalog.unregister_copy("default", "t", "c2")
    assert held(store, "c2") == {}


def test_event_of_added_copies_names_them(
    catalog: ObjectStore, days: StoredTable, insert: Insert, store: Store
) -> None:
    insert(days, "d=1")
    made = registered(catalog, days)
    version = catalog.get_table("default", "days").version
    catalog.add_copies(days, "c2", made)
    assert catalog.get_table("default", "days").version > version
    event = NotificationLog(store).events(0)[-1]
    assert event.type is EventType.REGISTER_COPY
    assert {name: event.message[name] for name in ("cluster", "partitions", "directories")} == {
        "cluster": "c2",
        "partitions": ["d=1"],
        "directories": [made[0].name],
    }


def test_files_of_partitions_are_compared_where_the_partitions_lie(catalog: ObjectStore, tmp_path: Path) -> None:
    keys = (Column("d", "int"),)
    plain = catalog.create_table(Table("default", "plain", STORAGE, partition_keys=keys, type=TableType.EXTERNAL_TABLE))
    inside, outside = catalog.new_partition(plain, [1]), catalog.new_partition(plain, [2], "elsewhere/two")
    catalog.add_partitions("default", "plain", [inside, outside])
    # The files of an external table stay where they are.
    catalog.rename_partition("default", "plain", "d=1", "d=7")

    def put(cluster: str, place: str) -> None:
        (tmp_path / cluster / place).mkdir(parents=True)
        (tmp_path / cluster / place / "a.csv").write_text("1")

    put("c1", "default.db/plain/d=1")
    put("c1", "elsewhere/two")
    put("c2", "default.db/plain/d=1")
    with pytest.raises(CopyMismatchError, match=r"d=2/a\.csv is missing"):
        catalog.register_copy("default", "plain", "c2")
    put("c2", "default.db/plain/d=2")
    catalog.register_copy("default", "plain", "c2")
    root = plain.storage.primary.location
    assert bound(catalog, plain).copies["c2"] == {"d=7": f"{root}/d=1", "d=2": f"{root}/d=2"}
