"""Of two transactions that register one folder at the same time, the second one sees the first."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event

import pytest
from sqlalchemy import Connection

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    Partition,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.store.engine import Store

_KEYS = (Column("p", "int"),)


def table(database: str, name: str, location: str, **others: object) -> Table:
    storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", location), format="orc")
    return replace(Table(database, name, storage, type=TableType.EXTERNAL_TABLE), **others)  # type: ignore[arg-type]


def managed(database: str, name: str, location: str) -> Table:
    return table(database, name, location, type=TableType.MANAGED_TABLE, parameters={"transactional": "true"})


SECOND: dict[str, Callable[[ObjectStore], object]] = {
    "the same folder": lambda catalog: catalog.create_table(table("b", "u", "data.db/x")),
    "a parent": lambda catalog: catalog.create_table(table("b", "u", "data.db")),
    "a folder in it": lambda catalog: catalog.create_table(table("b", "u", "data.db/x/y")),
    "a managed table": lambda catalog: catalog.create_table(managed("b", "u", "data.db/x")),
    "a partition": lambda catalog: catalog.add_partitions(
        "b", "p", [Partition("b", "p", ("1",), "p=1", "data.db/x/y")]
    ),
    "a database": lambda catalog: catalog.create_database(Database("d", "data.db")),
    "a database by its name": lambda catalog: catalog.create_database(Database("data", "")),
}


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("closed", ["a", "b"])
def test_only_one_of_two_namespaces_gets_a_folder(store: Store, catalog: ObjectStore, second: str, closed: str) -> None:
    if closed == "b" and "database" in second:
        closed = "a"
    for name in "ab":
        catalog.create_database(Database(name, "", parameters={"hivex.namespace.mode": str(name == closed).lower()}))
    catalog.create_table(table("b", "p", "parts", partition_keys=_KEYS))
    _second_is_refused(store, catalog, table("a", "t", "data.db/x"), SECOND[second])
    assert [catalog.get_table("a", "t").storage.primary.location, catalog.list_tables("b")] == ["data.db/x", ["p"]]


def test_managed_table_shares_its_folder_with_none(store: Store, catalog: ObjectStore) -> None:
    first = managed("default", "t", "")
    location = catalog.create_table(replace(first, name="u")).storage.primary.location.removesuffix("u") + "t"
    _second_is_refused(store, catalog, first, lambda it: it.create_table(table("default", "e", location)))


def _second_is_refused(
    store: Store, catalog: ObjectStore, first: Table, second: Callable[[ObjectStore], object]
) -> None:
    """Create a table, and let the other one begin before the transaction of the first commits."""
    created, commit = Event(), Event()

    def create(connection: Connection) -> None:
        catalog.joining(connection).create_table(first)
        created.set()
        assert commit.wait(60)

    with ThreadPoolExecutor(2) as threads:
        creating = threads.submit(store.write, create)
        assert created.wait(60)
        other = threads.submit(second, catalog)
        # It waits, unless it is done.
        wait([other], timeout=0.5)
        commit.set()
        creating.result(60)
        with pytest.raises(InvalidObjectError, match="is not apart from that of"):
            other.result(60)
