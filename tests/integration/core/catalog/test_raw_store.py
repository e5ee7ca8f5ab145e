"""The interfaces of the catalog, as a type checker sees them: ``make lint`` refuses a keeper that lacks something."""

from __future__ import annotations

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.raw_store import RawStore
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.model.objects import Database
from airflow_hivex.core.store.engine import Store
from tests.integration.core.conftest import Clock


def test_object_store_is_a_raw_store(store: Store, clusters: Clusters, clock: Clock) -> None:
    raw: RawStore = ObjectStore(store, clusters, clock, end_of_dropped)
    raw.create_database(Database("sales"))
    assert raw.list_databases("s*") == ["sales"]
