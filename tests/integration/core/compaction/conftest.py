"""Tables with registered directories, without files: the initiator reads rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import pytest
from sqlalchemy import Connection, insert, update

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.partition_rows import insert_partitions, partition_ids
from airflow_hivex.core.catalog.table_rows import select_table
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.compaction.compactor import Compactor
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.directories import base_name, delete_delta_name, delta_name, parse_directory
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import databases, directories, directory_copies
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock, add_unwritten_table

DAY_S = 86_400


class Warehouse:
    """Makes tables and writes to them as statements do: components, write ids and registered directories."""

    def __init__(self, store: Store, catalog: ObjectStore, transactions: TransactionManager, clock: Clock) -> None:
        self.store = store
        self.catalog = catalog
        self.transactions = transactions
        self.clock = clock

    def database(self, name: str, **parameters: str) -> None:
        self.catalog.create_database(Database(name, parameters=parameters))

    def set_database(self, name: str, parameters: Mapping[str, str]) -> None:
        self.store.write(
            lambda connection: connection.execute(
                update(databases).where(databases.c.name == name).values(parameters=dict(parameters))
            )
        )

    def table(
        self,
        name: str,
        parameters: Mapping[str, str] | None = None,
        *,
        keys: Sequence[str] = (),
        database: str = "default",
        external: bool = False,
        owner: str | None = "owner",
    ) -> Table:
        storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", name if external else ""))
        table = Table(
            database,
            name,
            storage,
            tuple(Column(key, "string") for key in keys),
            parameters={} if external else {"transactional": "true", **(parameters or {})},
            type=TableType.EXTERNAL_TABLE if external else TableType.MANAGED_TABLE,
            owner=owner,
        )
        return add_unwritten_table(self.store, table)

    def partitions(self, table: str, *names: str) -> None:
        def work(connection: Connection) -> None:
            found = select_table(connection, "default", table)
            insert_partitions(connection, found, dict.fromkeys(names, ""), self.clock())

        self.store.write(work)

    def begin(self, table: str, partition: str | None = None, operation: Operation = Operation.INSERT) -> int:
        """A transaction that has a write id of the table."""
        (txn_id,) = self.transactions.open(timeout=10 * DAY_S)
        self.transactions.allocate_write_ids([txn_id], "default", table, operation=operation, partition=partition)
        return txn_id

    def write(
        self,
        table: str,
        partition: str | None = None,
        *,
        size: int = 100,
        base: bool = False,
        delete: bool = False,
        txn_id: int | None = None,
        commit: bool = True,
    ) -> int:
        """One directory of ``size`` bytes with the next write id; returns the write id."""
        operation = Operation.UPDATE if base or delete else Operation.INSERT
        txn_id = txn_id or self.begin(table, partition, operation)
        write_id = self.transactions.allocate_write_ids([txn_id], "default", table)[txn_id]
        named = delete_delta_name if delete else delta_name
        name = base_name(write_id) if base else named(write_id, write_id, 0)
        self.register(table, partition, {name: size}, txn_id=txn_id)
        if commit:
            self.transactions.commit(txn_id)
        return write_id

    def register(self, table: str, partition: str | None, sizes: Mapping[str, int], *, txn_id: int = 1) -> None:
        """The rows of directories by name."""
        self.register_each(table, [partition], sizes, txn_id=txn_id)

    def register_each(
        self, table: str, partitions: Sequence[str | None], sizes: Mapping[str, int], *, txn_id: int = 1
    ) -> None:
        """The same for each of some partitions, all at once."""

        def work(connection: Connection) -> None:
            found = select_table(connection, "default", table)
            places = partition_ids(connection, found, [name for name in partitions if name is not None])
            for partition, (name, size) in itertools.product(partitions, sizes.items()):
                parsed = parse_directory(name)
                assert parsed is not None
                row = {
                    "table_id": found.id,
                    "partition_id": None if partition is None else places[partition],
                    "name": name,
                    "kind": parsed.kind.value,
                    "min_write_id": parsed.min_write_id,
                    "max_write_id": parsed.max_write_id,
                    "statement_id": parsed.statement_id,
                    "visibility_txn_id": parsed.visibility_txn_id,
                    "row_layout": "flat",
                    "files": 1,
                    "rows": size,
                    "size_bytes": size,
                    "txn_id": txn_id,
                }
                made = insert(directories).values(**row).returning(directories.c.id)
                new_id = connection.execute(made).scalar_one()
                copy = {"directory_id": new_id, "cluster": "c1", "registered_ms": self.clock()}
                connection.execute(insert(directory_copies).values(**copy))

        self.store.write(work)


@pytest.fixture
def warehouse(store: Store, catalog: ObjectStore, transactions: TransactionManager, clock: Clock) -> Warehouse:
    return Warehouse(store, catalog, transactions, clock)


MakeCompactor = Callable[..., Compactor]


@pytest.fixture
def make_compactor(
    store: Store,
    clock: Clock,
    clusters: Clusters,
    catalog: ObjectStore,
    transactions: TransactionManager,
    locks: LockManager,
) -> MakeCompactor:
    """Makes a compactor with other settings."""
    roots = Roots(store, clusters, clock)

    def make(settings: Mapping[str, object] | None = None) -> Compactor:
        health = ClusterHealth(clusters, roots)
        services = Foundation(
            store, Settings(settings or {}), clock, clusters, roots, health, catalog, transactions, locks
        )
        return Compactor(services)

    return make


@pytest.fixture
def compactor(make_compactor: MakeCompactor) -> Compactor:
    return make_compactor()
