"""What statements read, from memory where a snapshot confirms it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from airflow_hivex.core.cache.counting import Kind, Miss
from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import ColumnReference, Comparison, Predicate
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.cache.conftest import STORAGE, E, P, Process, T, Writer


def read(
    catalog: ObjectStore, name: tuple[str, str], predicate: Predicate | None = None, txn_id: int | None = None
) -> BoundTable:
    """What a statement reads of a table."""
    snapshot = catalog.snapshot([name], txn_id)
    table = snapshot.tables[name]
    contents = catalog.contents(snapshot, table, predicate, ["c1", "c2"])
    return bind_table(table, contents, predicate, snapshot, ["c1", "c2"])


def is_(day: str) -> Predicate:
    return Comparison(ColumnReference("d"), "=", day)


def test_warm_read_makes_one_round_trip_and_sees_what_the_database_has(near: Process, writer: Writer) -> None:
    for name, partition in ((T, None), (P, "d=x"), (P, "d=y")):
        writer.insert(name, partition)
    for name, predicate in ((T, None), (P, None), (P, is_("x"))):
        assert read(near.catalog, name, predicate) == read(writer.catalog, name, predicate)
        trips = near.counted(lambda name=name, predicate=predicate: read(near.catalog, name, predicate))  # type: ignore[misc]
        assert len(trips) == 1, trips.described()


def test_commit_of_others_is_seen_at_once(near: Process, writer: Writer) -> None:
    for day in ("x", "y", "x"):
        writer.insert(P, f"d={day}")
        for predicate in (None, is_("x"), is_("y")):
            assert read(near.catalog, P, predicate) == read(writer.catalog, P, predicate)
    assert Miss.STALE.value in near.reasons()
    assert any("write id" in miss.detail for miss in near.cache.counting.recent)


def test_own_uncommitted_write_id_does_not_poison_the_entry(near: Process, far: Process, writer: Writer) -> None:
    """A reader that counts its own open transaction as committed reads from the database."""
    txn_id, write_id, _ = writer.begin(T)
    read(near.catalog, T, txn_id=txn_id)
    table = writer.catalog.get_table(*T)
    made = WrittenDirectory(None, (), f"delta_{write_id:07d}_{write_id:07d}_0000", 1, 1, 1)

    def changes(connection: Connection) -> None:
        facts = TableWrite(txn_id, write_id, "c1")
        writer.catalog.joining(connection).register(Registration.of_write(table, facts, [made]))

    writer.transactions.commit(txn_id, changes)
    assert len(read(near.catalog, T).registered_directories) == 1


def test_older_snapshot_is_answered_from_memory(near: Process, writer: Writer) -> None:
    writer.insert(T)
    (reader,) = writer.transactions.open()
    before = read(writer.catalog, T, txn_id=reader)
    earlier = writer.transactions.valid_txns(reader)
    writer.insert(T)
    read(near.catalog, T)
    snapshot = near.catalog.snapshot([T], reader, valid_txns=earlier)
    contents: list[BoundTable] = []

    def bound() -> None:
        table = snapshot.tables[T]
        contents.append(
            bind_table(table, near.catalog.contents(snapshot, table, None, ["c1", "c2"]), None, snapshot, ["c1", "c2"])
        )

    assert near.hits(bound)
    assert contents[0].partitions == before.partitions


def test_changes_without_a_write_id_are_seen_at_once(
    near: Process, writer: Writer, transactions: TransactionManager
) -> None:
    catalog = writer.catalog
    writer.insert(T)
    partitioned = catalog.get_table(*E)
    (txn_id,) = transactions.open(type=TxnType.COMPACTION)
    made = WrittenDirectory(None, (), f"base_0000001_v{txn_id:07d}", 1, 1, 1)

    def compact(connection: Connection) -> None:
        catalog.joining(connection).register(
            Registration.of_compaction(catalog.get_table(*T), None, [made], txn_id, "c1")
        )

    changes: list[tuple[tuple[str, str], Callable[[], object]]] = [
        (T, lambda: transactions.commit(txn_id, compact)),
        (T, lambda: catalog.add_copies(catalog.get_table(*T), "c2", read(catalog, T).registered_directories)),
        (T, lambda: catalog.unregister_copy(*T, "c2")),
        (E, lambda: catalog.add_partitions(*E, [catalog.new_partition(partitioned, ["1"])])),
        (E, lambda: catalog.rename_partition(*E, "d=1", "d=2")),
        (E, lambda: catalog.drop_partitions(*E, ["d=2"])),
        (E, lambda: writer.alter(E, 0, None, k="v")),
    ]
    for name, change in changes:
        read(near.catalog, name)
        change()
        assert read(near.catalog, name) == read(catalog, name)


def test_table_of_the_same_name_is_another_one(near: Process, writer: Writer) -> None:
    writer.insert(T)
    read(near.catalog, T)
    writer.catalog.drop_table(*T)
    writer.catalog.create_table(Table(*T, STORAGE, parameters={"transactional": "true", "k": "v"}))
    writer.insert(T)
    found = read(near.catalog, T)
    assert found == read(writer.catalog, T)
    assert found.table.parameters["k"] == "v"


def test_many_predicates_read_the_table_once(near: Process, writer: Writer) -> None:
    days = [f"d{number}" for number in range(12)]
    for day in days:
        writer.insert(P, f"d={day}")
    for day in days[:6]:
        read(near.catalog, P, is_(day))
    for day in days[6:]:
        assert len(near.counted(lambda day=day: read(near.catalog, P, is_(day)))) == 1  # type: ignore[misc]
        assert read(near.catalog, P, is_(day)) == read(writer.catalog, P, is_(day))


def test_caller_s_transaction_reads_the_database(near: Process, writer: Writer) -> None:
    read(near.catalog, T)

    def work(connection: Connection) -> None:
        joined = near.catalog.joining(connection)
        table = joined.get_table(*T)
        joined.alter_table(*T, Table(*T, table.storage, parameters={**table.parameters, "k": "v"}))
        assert joined.snapshot([T]).tables[T].parameters["k"] == "v"

    near.store.write(work)
    assert read(near.catalog, T) == read(writer.catalog, T)


def test_least_recently_used_tables_make_room(near: Process, writer: Writer) -> None:
    for number in range(6):
        writer.catalog.create_table(Table("default", f"n{number}", STORAGE, parameters={"transactional": "true"}))
    one = near.cache.used_bytes
    read(near.catalog, ("default", "n0"))
    near.cache.most_bytes = 3 * (near.cache.used_bytes - one)
    for number in (1, 2, 0, 3, 4, 5):
        read(near.catalog, ("default", f"n{number}"))
    assert 0 < near.cache.used_bytes <= near.cache.most_bytes
    assert 1 <= len(near.cache) <= 3
    near.cache.most_bytes = 1
    read(near.catalog, T)
    assert (len(near.cache), near.cache.used_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("white", "black", "kept"),
    [
        (".*", "", True),
        ("hive[.]default[.]t", "", True),
        ("default.t", "", False),
        (".*", "hive[.]default[.].*", False),
    ],
)
def test_lists_say_what_is_kept(
    processes: list[Process], clusters: object, clock: object, writer: Writer, white: str, black: str, kept: bool
) -> None:
    prefix = "metastore.cached.rawstore.cached.object."
    near = Process(processes[0].store, clusters, clock, **{f"{prefix}whitelist": white, f"{prefix}blacklist": black})  # type: ignore[arg-type]
    read(near.catalog, T)
    assert bool(len(near.cache)) is kept
    assert read(near.catalog, T) == read(writer.catalog, T)


def test_hits_and_misses_are_counted(near: Process, writer: Writer) -> None:
    writer.insert(T)
    for _ in range(3):
        read(near.catalog, T)
    counting = near.cache.counting
    assert counting.misses == {(Kind.TABLE, Miss.COLD): 1, (Kind.CONTENTS, Miss.COLD): 1}
    assert counting.hits == {Kind.TABLE: 2, Kind.CONTENTS: 2}
