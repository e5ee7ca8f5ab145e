"""An open metastore over two clusters, on each of the databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.table_rows import insert_table
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def add_unwritten_table(store: Store, table: Table) -> StoredTable:
    """Add a table whose definition has taken no write id, so that its first writer gets 1."""
    return store.write(lambda connection: insert_table(connection, table, 0))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def clusters(tmp_path: Path) -> Clusters:
    properties = {
        name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2", "c3")
    }
    return Clusters.from_properties(properties, "c1")


@pytest.fixture
def store(metastore_url: str) -> Iterator[Store]:
    store = Store(metastore_url)
    migrating.prepare(store)
    yield store
    store.close()


@pytest.fixture
def catalog(store: Store, clusters: Clusters, clock: Clock) -> ObjectStore:
    return ObjectStore(store, clusters, clock, end_of_dropped)


@pytest.fixture
def transactions(store: Store, clock: Clock) -> TransactionManager:
    return TransactionManager(store, Settings({}), clock)


@pytest.fixture
def locks(store: Store, clock: Clock, transactions: TransactionManager) -> LockManager:
    return LockManager(store, Settings({}), clock, transactions)


@pytest.fixture
def housekeeper(store: Store, clock: Clock, transactions: TransactionManager, locks: LockManager) -> Housekeeper:
    return Housekeeper(store, Settings({}), clock, transactions, locks)
