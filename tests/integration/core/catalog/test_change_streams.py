"""How far streams of changes have come, where several processes have one stream."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from airflow_hivex.core.catalog.change_streams import ChangeBatch, begin_batch, end_batch
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.store.engine import Store
from tests.integration.core.conftest import add_unwritten_table

PROCESSES = 4


def test_processes_that_begin_a_stream_at_once_get_one_batch(store: Store, catalog: ObjectStore) -> None:
    storage = StorageDescriptor((Column("a", "int"),), ClusterStorageDescriptor("c1", ""))
    add_unwritten_table(store, Table("default", "t", storage, (), parameters={"transactional": "true"}))
    table_id = catalog.get_table("default", "t").id
    at_once = Barrier(PROCESSES)

    def begin(stream: str) -> ChangeBatch | None:
        at_once.wait(60)
        return store.write(lambda connection: begin_batch(connection, table_id, stream, None))

    with ThreadPoolExecutor(PROCESSES) as pool:
        for number in range(20):
            stream = f"stream {number}"
            (batch,) = set(pool.map(begin, [stream] * PROCESSES))
            assert batch is not None
            store.write(lambda connection, name=stream, done=batch: end_batch(connection, table_id, name, done))
            assert set(pool.map(begin, [stream] * PROCESSES)) == {None}
