"""Two processes with caches of their own over one database, and writers that use neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.follower import Follower
from airflow_hivex.core.cache.table_cache import ObjectLists, TableCache
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock
from tests.round_trips import RoundTrips, counted

T, P, E = ("default", "t"), ("default", "p"), ("default", "e")
STORAGE = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))


class Process:
    """The parts of one process: a cache, and a follower that applies events on command."""

    def __init__(
        self, store: Store, clusters: Clusters, clock: Clock, cache: TableCache | None = None, **settings: object
    ) -> None:
        self.store = store
        # One that is empty is false.
        self.cache = TableCache(ObjectLists(Settings(settings)), 10_000_000) if cache is None else cache
        self.catalog = CachedStore(store, clusters, clock, end_of_dropped, self.cache)
        self.follower = Follower(store, self.cache, clock, self.catalog.refresh, frequency_s=60)
        self.catalog.follow = self.follower.begin

    def counted(self, read: Callable[[], object]) -> RoundTrips:
        """The round trips of a read."""
        with counted(self.store) as trips:
            read()
        return trips

    def hits(self, read: Callable[[], object]) -> bool:
        """Whether a read makes no round trip."""
        return not self.counted(read)

    def reasons(self) -> list[str]:
        """Why the last questions went to the database."""
        return [miss.reason.value for miss in self.cache.counting.recent]


@pytest.fixture
def processes(store: Store, metastore_url: str, clusters: Clusters, clock: Clock) -> Iterator[list[Process]]:
    """Three processes over the database of ``store``."""
    stores = [Store(metastore_url) for _ in range(3)]
    yield [Process(each, clusters, clock) for each in stores]
    for each in stores:
        each.close()


@pytest.fixture
def near(processes: list[Process]) -> Process:
    return processes[0]


@pytest.fixture
def far(processes: list[Process]) -> Process:
    return processes[1]


@pytest.fixture
def tables(catalog: ObjectStore) -> None:
    """A table, one with partitions, and an external one with partitions."""
    keys = (Column("d", "string"),)
    transactional = {"transactional": "true"}
    catalog.create_table(Table(*T, STORAGE, parameters=transactional))
    catalog.create_table(Table(*P, STORAGE, partition_keys=keys, parameters=transactional))
    catalog.create_table(Table(*E, STORAGE, partition_keys=keys, type=TableType.EXTERNAL_TABLE))


class Writer:
    """Statements of a client without a cache, each in a transaction of its own."""

    def __init__(self, catalog: ObjectStore, transactions: TransactionManager) -> None:
        self.catalog = catalog
        self.transactions = transactions

    def list_of(self, name: tuple[str, str]) -> ValidWriteIdList:
        """The current write id list."""
        full = ".".join(name)
        return self.transactions.valid_write_ids([full], self.transactions.valid_txns())[full]

    def text_of(self, name: tuple[str, str]) -> str:
        """The same as text, as clients send it."""
        return str(self.list_of(name))

    def begin(self, name: tuple[str, str]) -> tuple[int, int, ValidWriteIdList]:
        """A transaction with a write id, and the list that it passes to its writes."""
        (txn_id,) = self.transactions.open()
        write_id = self.transactions.allocate_write_ids([txn_id], *name)[txn_id]
        full = ".".join(name)
        ids = self.transactions.valid_write_ids([full], self.transactions.valid_txns(txn_id))[full]
        return txn_id, write_id, ids

    def alter(self, name: tuple[str, str], txn_id: int, ids: ValidWriteIdList | None, **properties: str) -> None:
        """Change properties of a table, as a part of a transaction that is committed later."""
        table = self.catalog.get_table(*name)
        changed = Table(
            *name,
            table.storage,
            partition_keys=table.partition_keys,
            type=table.type,
            parameters={**table.parameters, **properties},
        )
        self.catalog.alter_table(*name, changed, *(() if ids is None else (ids,)), txn_id=txn_id)

    def altered(self, name: tuple[str, str], **properties: str) -> None:
        """Change properties of a table, with its commit."""
        txn_id, _, ids = self.begin(name)
        self.alter(name, txn_id, ids, **properties)
        self.transactions.commit(txn_id)

    def insert(self, name: tuple[str, str], partition: str | None = None) -> None:
        """Commit a directory."""
        txn_id, write_id, _ = self.begin(name)
        table = self.catalog.get_table(*name)
        values = () if partition is None else (partition.partition("=")[2],)
        made = WrittenDirectory(partition, values, f"delta_{write_id:07d}_{write_id:07d}_0000", 1, 1, 1)

        def changes(connection: Connection) -> None:
            facts = TableWrite(txn_id, write_id, "c1")
            self.catalog.joining(connection).register(Registration.of_write(table, facts, [made]))

        self.transactions.commit(txn_id, changes)


@pytest.fixture
def writer(catalog: ObjectStore, transactions: TransactionManager, tables: None) -> Writer:
    return Writer(catalog, transactions)
