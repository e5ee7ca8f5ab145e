"""The schema of the metastore database, the same for SQLite and PostgreSQL, with a module for each subject.

Names are stored in lower case. Times are milliseconds since the epoch, as in Hive. Values that are read and written as
a whole (columns, parameters) are stored as JSON, so a table or partition has only one row. The row of a dropped table
or partition is marked, and stays until the files are deleted. The unique indexes ignore marked rows. An id of a table,
partition or directory is never reused (``sqlite_autoincrement``), since clients can still know the id of a deleted row.
"""

from __future__ import annotations

from airflow_hivex.core.store.schema.base import Cluster, Id, Name, counters, metadata
from airflow_hivex.core.store.schema.catalog import (
    change_streams,
    cluster_roots,
    cluster_storage_descriptors,
    copied_moments,
    copy_places,
    databases,
    directories,
    directory_copies,
    functions,
    loaded_files,
    partition_key_values,
    partitions,
    statistics,
    storage_descriptors,
    table_commits,
    tables,
)
from airflow_hivex.core.store.schema.compactions import compaction_queue, completed_compactions
from airflow_hivex.core.store.schema.events import caches, notification_log, partition_events, recorded_events
from airflow_hivex.core.store.schema.namespaces import (
    capacity_history,
    link_partitions,
    links,
    moved_copies,
    namespace_homes,
    namespace_moves,
    quotas,
)
from airflow_hivex.core.store.schema.statements import ended_statements
from airflow_hivex.core.store.schema.transactions import (
    completed_txn_components,
    former_write_ids,
    kept_snapshots,
    locks,
    next_write_ids,
    pending_writes,
    txn_components,
    txn_to_write_id,
    txns,
    write_set,
    written_batches,
)

__all__ = [
    "Cluster",
    "Id",
    "Name",
    "caches",
    "capacity_history",
    "change_streams",
    "cluster_roots",
    "cluster_storage_descriptors",
    "compaction_queue",
    "completed_compactions",
    "completed_txn_components",
    "copied_moments",
    "copy_places",
    "counters",
    "databases",
    "directories",
    "directory_copies",
    "ended_statements",
    "former_write_ids",
    "functions",
    "kept_snapshots",
    "link_partitions",
    "links",
    "loaded_files",
    "locks",
    "metadata",
    "moved_copies",
    "namespace_homes",
    "namespace_moves",
    "next_write_ids",
    "notification_log",
    "partition_events",
    "partition_key_values",
    "partitions",
    "pending_writes",
    "quotas",
    "recorded_events",
    "statistics",
    "storage_descriptors",
    "table_commits",
    "tables",
    "txn_components",
    "txn_to_write_id",
    "txns",
    "write_set",
    "written_batches",
]
