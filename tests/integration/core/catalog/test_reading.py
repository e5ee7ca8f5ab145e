"""The reads of the catalog as of a snapshot, and the signs of a change for a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.table_cache import ObjectLists, TableCache
from airflow_hivex.core.catalog.bound_tables import bind_table
from airflow_hivex.core.catalog.metadata_reader import SnapshotReading, later_snapshot
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.catalog.snapshot_rows import snapshot_call
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.errors import NoSuchDatabaseError, NoSuchTableError
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import And, ColumnReference, Comparison, Like, Not
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock
from tests.round_trips import counted

T = ("default", "t")
P = ("default", "p")


@pytest.fixture(params=[False, True], ids=["database", "cache"])
def reader(request: pytest.FixtureRequest, store: Store, clusters: Clusters, clock: Clock) -> SnapshotReading:
    """A reader that keeps nothing, and one with a cache; other writers change what it has read."""
    catalog = ObjectStore(store, clusters, clock, end_of_dropped)
    storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))
    transactional = {"transactional": "true"}
    catalog.create_table(Table("default", "t", storage, parameters=transactional))
    catalog.create_table(
        Table("default", "p", storage, partition_keys=(Column("d", "string"),), parameters=transactional)
    )
    catalog.create_table(
        Table("default", "e", storage, partition_keys=(Column("d", "int"),), type=TableType.EXTERNAL_TABLE)
    )
    reader: SnapshotReading = catalog
    if request.param:
        cache = TableCache(ObjectLists(Settings({})), 1_000_000)
        reader = CachedStore(store, clusters, clock, end_of_dropped, cache)
    return reader


def insert(
    catalog: ObjectStore, transactions: TransactionManager, name: str, partition: str | None = None
) -> Callable[[], None]:
    """Write a directory; what is returned commits it."""
    (txn_id,) = transactions.open()
    write_id = transactions.allocate_write_ids([txn_id], "default", name)[txn_id]
    table = catalog.snapshot([("default", name)]).tables["default", name]
    values = () if partition is None else (partition.partition("=")[2],)
    made = WrittenDirectory(partition, values, f"delta_{write_id:07d}_{write_id:07d}_0000", 1, 1, 1)

    def changes(connection: Connection) -> None:
        facts = TableWrite(txn_id, write_id, "c1")
        catalog.joining(connection).register(Registration.of_write(table, facts, [made]))

    return lambda: transactions.commit(txn_id, changes)


def test_snapshot_has_the_lists_that_the_transaction_manager_gives(
    reader: SnapshotReading, catalog: ObjectStore, transactions: TransactionManager
) -> None:
    commits = [insert(catalog, transactions, name, partition) for name, partition in [("t", None), ("p", "d=x")] * 3]
    for commit in commits[::2]:
        commit()
    (aborted,) = transactions.open()
    transactions.allocate_write_ids([aborted], "default", "t")
    transactions.abort(aborted)
    (own,) = transactions.open()
    transactions.allocate_write_ids([own], "default", "p")
    for txn_id in (None, own, aborted + 1):
        snapshot = reader.snapshot([T, P], txn_id)
        assert snapshot.valid_txns == transactions.valid_txns(txn_id)
        expected = transactions.valid_write_ids(["default.t", "default.p"], snapshot.valid_txns)
        assert {ids.table: ids for ids in snapshot.write_ids.values()} == expected
    earlier = transactions.valid_txns(own)
    for commit in commits[1::2]:
        commit()
    shared = reader.snapshot([T, P], own, valid_txns=earlier)
    assert {ids.table: ids for ids in shared.write_ids.values()} == transactions.valid_write_ids(
        ["default.t", "default.p"], earlier
    )


def test_snapshot_of_any_number_of_tables_is_one_round_trip(
    reader: SnapshotReading, catalog: ObjectStore, store: Store
) -> None:
    storage = catalog.get_table(*T).storage
    for number in range(9):
        catalog.create_table(
            Table("default", f"t{number}", storage.__class__(storage.columns, ClusterStorageDescriptor("c1", "")))
        )
    for count in (0, 1, 3, 9):
        names = [("default", f"t{number}") for number in range(count)]
        with counted(store) as trips:
            snapshot = reader.snapshot(names)
        assert list(snapshot.tables) == names
        with counted(store) as again:
            assert reader.snapshot(names, known=snapshot.tables.values()).tables == snapshot.tables
        assert (len(trips), len(again)) == (1, 1)


def test_missing_names_are_distinguished(reader: SnapshotReading) -> None:
    with pytest.raises(NoSuchTableError):
        reader.snapshot([T, ("default", "no")])
    with pytest.raises(NoSuchDatabaseError):
        reader.snapshot([T, ("no", "t")])


def test_tables_that_are_known_are_read_again_when_they_have_changed(
    reader: SnapshotReading, catalog: ObjectStore
) -> None:
    first = reader.snapshot([T])
    table = first.tables[T]
    catalog.alter_table(*T, Table("default", "t", table.storage, parameters={**table.parameters, "k": "v"}))
    second = reader.snapshot([T], known=[table])
    assert second.tables[T].parameters["k"] == "v"
    catalog.drop_table(*T)
    catalog.create_table(
        Table("default", "t", StorageDescriptor((Column("b", "int"),), ClusterStorageDescriptor("c1", "")))
    )
    third = reader.snapshot([T], known=[table])
    assert [column.name for column in third.tables[T].columns] == ["b"]
    assert not third.agrees_with(second, third.tables[T])


def test_contents_are_one_round_trip_also_where_names_decide(
    reader: SnapshotReading, catalog: ObjectStore, transactions: TransactionManager, store: Store
) -> None:
    for day in ("x", "y", "z"):
        insert(catalog, transactions, "p", f"d={day}")()
    snapshot = reader.snapshot([P])
    table = snapshot.tables[P]
    for predicate, names in (
        (None, ["d=x", "d=y", "d=z"]),
        (Comparison(ColumnReference("d"), "=", "y"), ["d=y"]),
        (Comparison(ColumnReference("d"), "<>", "y"), ["d=x", "d=z"]),
        (Comparison(ColumnReference("d"), ">", "x"), ["d=y", "d=z"]),
    ):
        with counted(store) as trips:
            contents = reader.contents(snapshot, table, predicate, ["c1", "c2"])
        assert len(trips) <= 1
        bound = bind_table(table, contents, predicate, snapshot, ["c1", "c2"])
        assert [each.name for each in bound.partitions] == names
        assert all(len(each.directories) == 1 for each in bound.partitions)


def test_of_many_partitions_only_the_contents_of_wanted_ones_are_read(
    reader: SnapshotReading, catalog: ObjectStore, transactions: TransactionManager, store: Store
) -> None:
    table = catalog.get_table(*P)
    catalog.add_partitions(*P, [catalog.new_partition(table, [f"other{number}"]) for number in range(300)])
    for day in ("x", "y", "z"):
        insert(catalog, transactions, "p", f"d={day}")()
    snapshot = reader.snapshot([P])
    predicate = Not(Like(ColumnReference("d"), "%o%"))
    for wanted, names in ((predicate, ["d=x", "d=y", "d=z"]), (And((predicate, Not(predicate))), [])):
        with counted(store) as trips:
            contents = reader.contents(snapshot, snapshot.tables[P], wanted, ["c1", "c2"])
        assert len(trips) <= 2
        bound = bind_table(snapshot.tables[P], contents, wanted, snapshot, ["c1", "c2"])
        assert [each.name for each in bound.partitions] == names
        assert sum(map(len, contents.directories.values())) == len(names)


def test_a_snapshot_agrees_with_an_earlier_one_until_a_commit(
    reader: SnapshotReading, catalog: ObjectStore, transactions: TransactionManager
) -> None:
    commit = insert(catalog, transactions, "t")
    first = reader.snapshot([T, P])
    insert(catalog, transactions, "p", "d=x")()
    second = reader.snapshot([T, P])
    assert second.agrees_with(first, second.tables[T])
    assert not second.agrees_with(first, second.tables[P])
    commit()
    third = reader.snapshot([T, P])
    assert not third.agrees_with(second, third.tables[T])
    assert third.agrees_with(second, third.tables[P])


def test_a_later_snapshot_has_the_tables_of_an_earlier_one_until_a_table_changes(
    reader: SnapshotReading, catalog: ObjectStore, transactions: TransactionManager, store: Store
) -> None:
    earlier = reader.snapshot([T, P])
    insert(catalog, transactions, "t")()
    (txn_id,) = transactions.open()

    def later() -> Snapshot | None:
        (rows,) = store.ask(snapshot_call(earlier.tables, None))
        return later_snapshot(earlier, rows, txn_id)

    found = later()
    assert found is not None
    # The same as a snapshot that asks for everything, without reading the tables again.
    assert found == reader.snapshot([T, P], txn_id, known=earlier.tables.values())
    assert found.tables[T] is earlier.tables[T]
    assert not found.agrees_with(earlier, found.tables[T])
    catalog.add_partitions(*P, [catalog.new_partition(earlier.tables[P], ["new"])])
    assert later() is None
    earlier = reader.snapshot([T, P])
    catalog.alter_table(*T, replace(earlier.tables[T], name="t2"))
    assert later() is None


def test_a_change_without_a_write_id_changes_the_version(
    reader: SnapshotReading, catalog: ObjectStore, transactions: TransactionManager, store: Store
) -> None:
    insert(catalog, transactions, "t")()
    external = ("default", "e")
    table = reader.snapshot([T]).tables[T]
    partitioned = catalog.get_table(*external)
    (txn_id,) = transactions.open(type=TxnType.COMPACTION)
    made = WrittenDirectory(None, (), f"base_0000001_v{txn_id:07d}", 1, 1, 1)

    def compact(connection: Connection) -> None:
        catalog.joining(connection).register(Registration.of_compaction(table, None, [made], txn_id, "c1"))

    changes: list[tuple[tuple[str, str], Callable[[], object]]] = [
        (T, lambda: transactions.commit(txn_id, compact)),
        (T, lambda: catalog.unregister_copy(*T, "c2")),
        (external, lambda: catalog.add_partitions(*external, [catalog.new_partition(partitioned, [1])])),
        (external, lambda: catalog.rename_partition(*external, "d=1", "d=2")),
        (external, lambda: catalog.drop_partitions(*external, ["d=2"])),
    ]
    for name, change in changes:
        before = reader.snapshot([name])
        change()
        after = reader.snapshot([name])
        assert not after.agrees_with(before, after.tables[name])
