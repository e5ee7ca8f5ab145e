"""Tables to lock and write."""

from __future__ import annotations

import pytest

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.store.engine import Store
from tests.integration.core.conftest import add_unwritten_table


@pytest.fixture
def warehouse(store: Store, catalog: ObjectStore) -> ObjectStore:
    """default.tab1 and default.tab2 are partitioned by p, default.tab3 is not; others.tab1; default.ext is external."""
    catalog.create_database(Database("others"))
    for database, name, keys in (
        ("default", "tab1", (Column("p", "string"),)),
        ("default", "tab2", (Column("p", "string"),)),
        ("default", "tab3", ()),
        ("others", "tab1", ()),
    ):
        storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))
        add_unwritten_table(store, Table(database, name, storage, keys, parameters={"transactional": "true"}))
    external = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", "ext"))
    catalog.create_table(Table("default", "ext", external, type=TableType.EXTERNAL_TABLE))
    return catalog
