"""The one schema of the metastore database, for SQLite and PostgreSQL.

Names are stored in lower case. Times are milliseconds since the epoch, as in Hive.
What is read and written as a whole (columns, parameters) is JSON in its row, so that a
table or partition is one row. A dropped table or partition keeps its row, marked, until
its files are gone; the unique indexes do not see it. No id of a table, partition or directory
is given twice, for others may have it at hand when the row is gone (``sqlite_autoincrement``).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only for a primary key declared INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")
Name = String(128)
Cluster = String(128)

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""Numbers that must be visible in the order in which they were handed out: ``txn``, ``event``, ``lock`` and
``compaction``; ``purged_event``, the last event that was purged; and ``hive.txn.timeout``, which all clients share."""

databases = Table(
    "databases",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
    Column("location", Text, nullable=False),
    Column("description", Text),
    Column("owner", Name),
    Column("parameters", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

storage_descriptors = Table(
    "storage_descriptors",
    metadata,
    Column("id", Id, primary_key=True),
    Column("columns", JSON, nullable=False),
    Column("format", String(64), nullable=False),
    Column("serde_parameters", JSON, nullable=False),
    Column("num_buckets", Integer, nullable=False),
    Column("bucket_columns", JSON, nullable=False),
    Column("sort_columns", JSON, nullable=False),
    Column("input_format", Text),
    Column("output_format", Text),
    Column("serde", JSON, nullable=False, server_default="{}"),
    Column("parameters", JSON, nullable=False, server_default="{}"),
    Column("compressed", Boolean, nullable=False, server_default=false()),
    Column("skew", JSON(none_as_null=True)),
    Column("stored_as_sub_directories", Boolean, nullable=False, server_default=false()),
)
"""How tables are stored, and those partitions that are stored in their own way."""

tables = Table(
    "tables",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("name", Name, nullable=False),
    Column("type", String(32), nullable=False),
    Column("storage_descriptor_id", Id, ForeignKey("storage_descriptors.id"), nullable=False, index=True),
    Column("primary_cluster", Cluster, nullable=False),
    Column("location", Text, nullable=False),
    Column("partition_keys", JSON, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("owner", Name),
    Column("comment", Text),
    Column("created_ms", BigInteger, nullable=False),
    Column("dropped", Boolean, nullable=False, default=False),
    Column("view_original_text", Text),
    Column("view_expanded_text", Text),
    Column("owner_type", String(16), nullable=False, server_default="USER"),
    Column("last_accessed_ms", BigInteger),
    Column("retention", Integer, nullable=False, server_default="0"),
    Column("version", BigInteger, nullable=False, server_default="0"),
    Index(
        "uq_tables_database_id_name",
        "database_id",
        "name",
        unique=True,
        sqlite_where=text("dropped = 0"),
        postgresql_where=text("NOT dropped"),
    ),
    Index("ix_tables_location", "primary_cluster", "location"),
    sqlite_autoincrement=True,
)
"""``version`` counts the changes of a table, its partitions, directories and copies that no write id of the table tells
of (see ``catalog/reading.py``)."""

partitions = Table(
    "partitions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("location", Text, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("dropped", Boolean, nullable=False, default=False),
    Column("storage_descriptor_id", Id, ForeignKey("storage_descriptors.id"), index=True),
    Column("last_accessed_ms", BigInteger),
    Index(
        "uq_partitions_table_id_name",
        "table_id",
        "name",
        unique=True,
        sqlite_where=text("dropped = 0"),
        postgresql_where=text("NOT dropped"),
    ),
    sqlite_autoincrement=True,
)

partition_key_values = Table(
    "partition_key_values",
    metadata,
    Column("partition_id", Id, ForeignKey("partitions.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("value", Text, nullable=False),
    Index("ix_partition_key_values_lookup", "table_id", "position", "value", "partition_id"),
)
"""The values of partitions by key, so that ``key = value`` is an index look-up whatever the key."""

cluster_storage_descriptors = Table(
    "cluster_storage_descriptors",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("partition_id", Id, ForeignKey("partitions.id"), index=True),
    Column("cluster", Cluster, nullable=False),
    Column("location", Text, nullable=False),
    Column("valid_write_ids", Text),
    Column("registered_ms", BigInteger, nullable=False),
    Index(
        "uq_cluster_storage_descriptors_table",
        "table_id",
        "cluster",
        unique=True,
        sqlite_where=text("partition_id IS NULL"),
        postgresql_where=text("partition_id IS NULL"),
    ),
    Index(
        "uq_cluster_storage_descriptors_partition",
        "table_id",
        "cluster",
        "partition_id",
        unique=True,
        sqlite_where=text("partition_id IS NOT NULL"),
        postgresql_where=text("partition_id IS NOT NULL"),
    ),
)
"""The secondary copies of tables without partitions, and of partitions (docs/reference/clusters.md). The primary is
in the table's own row: every table has exactly one, and its partitions share it."""

txns = Table(
    "txns",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", String(1), nullable=False),
    Column("type", Integer, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("heartbeat_ms", BigInteger, nullable=False),
    Column("timeout_s", Integer, nullable=False),
    Column("user", Name, nullable=False),
    Column("host", String(255), nullable=False),
    Column("agent_info", Text),
    Column("reason", Text),
    Column("reason_code", Integer),
    Column("min_open_id", BigInteger),
    Column("ended_ms", BigInteger),
    Column("key", String(1024)),
    Column("statements", Integer, nullable=False, server_default="0"),
    Column("snapshot", Text),
    Index(
        "uq_txns_key",
        "key",
        unique=True,
        sqlite_where=text("key IS NOT NULL"),
        postgresql_where=text("key IS NOT NULL"),
    ),
    Index(
        "ix_txns_unsettled",
        "state",
        "id",
        sqlite_where=text("state <> 'c'"),
        postgresql_where=text("state <> 'c'"),
    ),
    Index(
        "ix_txns_min_open_id",
        "min_open_id",
        sqlite_where=text("state = 'o'"),
        postgresql_where=text("state = 'o'"),
    ),
)
"""``min_open_id`` is the lowest transaction that was open when this one began (Hive's MIN_HISTORY_LEVEL),
``key`` what its owner calls it (opening it twice gives the same one). Of a transaction of several statements,
``statements`` is how many statement ids were handed out, and ``snapshot`` the ValidTxnList that all of them share,
empty as long as none has read."""

pending_writes = Table(
    "pending_writes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("txn_id", BigInteger, nullable=False, index=True),
    Column("statement_id", Integer, nullable=False),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("writer", String(1024), nullable=False),
    Column("document", JSON, nullable=False),
    Column("written", JSON(none_as_null=True)),
)
"""What the statements of an open transaction have written, for its commit to register and its own
reads to see. A row without ``written`` is a statement that runs, or whose process was killed.
``writer`` is the part of the transaction's work that it belongs to: done anew, it replaces its rows."""

replayed_txns = Table(
    "replayed_txns",
    metadata,
    Column("policy", String(256), primary_key=True),
    Column("source_txn_id", BigInteger, primary_key=True, autoincrement=False),
    Column("txn_id", BigInteger, nullable=False),
)
"""Our open transaction for each one of another warehouse that a replication policy replays (Hive's REPL_TXN_MAP)."""

txn_components = Table(
    "txn_components",
    metadata,
    Column("id", Id, primary_key=True),
    Column("txn_id", BigInteger, ForeignKey("txns.id"), nullable=False, index=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False, index=True),
    Column("partition", Text),
    Column("operation", String(1), nullable=False),
    Column("write_id", BigInteger),
)
"""What an unfinished or aborted transaction wrote, or may have written, for those who clean up."""

completed_txn_components = Table(
    "completed_txn_components",
    metadata,
    Column("id", Id, primary_key=True),
    Column("txn_id", BigInteger, nullable=False),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("partition", Text),
    Column("write_id", BigInteger),
    Column("updates", Boolean, nullable=False),
    Column("committed_ms", BigInteger, nullable=False),
    Index("ix_completed_txn_components_table_id_partition", "table_id", "partition"),
)
"""What committed transactions wrote, for those who decide on compaction; ``updates``: updated or deleted."""

write_set = Table(
    "write_set",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("partition", Text),
    Column("txn_id", BigInteger, nullable=False),
    Column("commit_id", BigInteger, nullable=False),
    Column("operation", String(1), nullable=False),
    Index("ix_write_set_table_id_commit_id", "table_id", "commit_id"),
    Index("ix_write_set_commit_id", "commit_id"),
)
"""Committed updates and deletes, as long as a transaction is open that could conflict with them."""

locks = Table(
    "locks",
    metadata,
    Column("lock_id", BigInteger, primary_key=True, autoincrement=False),
    Column("internal_id", Integer, primary_key=True, autoincrement=False),
    Column("txn_id", BigInteger, nullable=False),
    Column("database", Name, nullable=False),
    Column("table", Name, nullable=False),
    Column("partition", Text, nullable=False),
    Column("full_table", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("type", String(1), nullable=False),
    Column("strictness", Integer, nullable=False),
    Column("operation", Integer, nullable=False),
    Column("state", String(1), nullable=False),
    Column("requested_ms", BigInteger, nullable=False),
    Column("heartbeat_ms", BigInteger, nullable=False),
    Column("acquired_ms", BigInteger),
    Column("user", Name, nullable=False),
    Column("host", String(255), nullable=False),
    Column("agent_info", Text),
    Column("blocked_by_lock_id", BigInteger),
    Column("blocked_by_internal_id", Integer),
    Index("ix_locks_database", "database", "strictness"),
    Index("ix_locks_full_table", "full_table", "strictness"),
    Index("ix_locks_resource", "resource", "strictness"),
    Index("ix_locks_txn_id", "txn_id"),
    Index("ix_locks_waiting", "txn_id", sqlite_where=text("state = 'w'"), postgresql_where=text("state = 'w'")),
    Index(
        "ix_locks_blocked_by_lock_id",
        "blocked_by_lock_id",
        sqlite_where=text("blocked_by_lock_id IS NOT NULL"),
        postgresql_where=text("blocked_by_lock_id IS NOT NULL"),
    ),
)
"""A request is a ``lock_id``, its locks are numbered from 1. Transaction 0 is none. An empty table is
the whole database and an empty partition the whole table. Each question of what is in the way is put
to one column with an index of its own, so that databases without statistics answer it by that."""

txn_to_write_id = Table(
    "txn_to_write_id",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("txn_id", BigInteger, primary_key=True),
    Column("write_id", BigInteger, nullable=False),
    UniqueConstraint("table_id", "write_id"),
    Index("ix_txn_to_write_id_txn_id", "txn_id"),
)

next_write_ids = Table(
    "next_write_ids",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("next", BigInteger, nullable=False),
)

directories = Table(
    "directories",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("partition_id", Id, ForeignKey("partitions.id")),
    Column("name", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("min_write_id", BigInteger, nullable=False),
    Column("max_write_id", BigInteger, nullable=False),
    Column("statement_id", Integer),
    Column("visibility_txn_id", BigInteger, nullable=False),
    Column("row_layout", String(16), nullable=False),
    Column("files", Integer, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("txn_id", BigInteger, nullable=False),
    Index("ix_directories_table_id_partition_id", "table_id", "partition_id"),
    Index("ix_directories_partition_id", "partition_id"),
    sqlite_autoincrement=True,
)
"""Every base, delta and delete-delta directory: rows here, not listings, make files visible.

A table that was converted also has a row of the kind ``original`` for each file that lay there before, named by its
path below its partition."""

directory_copies = Table(
    "directory_copies",
    metadata,
    Column("directory_id", Id, ForeignKey("directories.id"), primary_key=True),
    Column("cluster", Cluster, primary_key=True),
    Column("registered_ms", BigInteger, nullable=False),
    Column("checksum", Text),
)
"""The clusters that hold a directory, its primary among them. Without a checksum none is known."""

cluster_roots = Table(
    "cluster_roots",
    metadata,
    Column("cluster", Cluster, primary_key=True),
    Column("root_id", String(36), nullable=False),
    Column("is_marked", Boolean, nullable=False),
    Column("registered_ms", BigInteger, nullable=False),
)
"""What the marker file in the root of a cluster's file system says. One that is not marked is being marked."""

statistics = Table(
    "statistics",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("partition_id", Id, ForeignKey("partitions.id")),
    Column("num_rows", BigInteger),
    Column("num_files", BigInteger, nullable=False),
    Column("total_size", BigInteger, nullable=False),
    Column("valid_write_ids", Text),
    Column("computed_ms", BigInteger, nullable=False),
    Column("columns", JSON, nullable=False),
    Index(
        "uq_statistics_table",
        "table_id",
        unique=True,
        sqlite_where=text("partition_id IS NULL"),
        postgresql_where=text("partition_id IS NULL"),
    ),
    Index("ix_statistics_table_id", "table_id"),
    Index(
        "uq_statistics_partition",
        "partition_id",
        unique=True,
        sqlite_where=text("partition_id IS NOT NULL"),
        postgresql_where=text("partition_id IS NOT NULL"),
    ),
)
"""What ANALYZE has found of tables (without ``partition_id``) and partitions, and in which snapshot. ``columns`` has
the statistics of columns by their names in files, so that renaming a column or what holds it changes nothing here."""


def _compaction_columns() -> list[Column[Any]]:
    """Return the columns that the queue and the history share."""
    return [
        Column("table_id", Id, nullable=False),
        Column("database", Name, nullable=False),
        Column("table", Name, nullable=False),
        Column("partition", Text, nullable=False),
        Column("state", String(1), nullable=False),
        Column("type", String(1), nullable=False),
        Column("properties", JSON, nullable=False),
        Column("pool", Name),
        Column("buckets", Integer),
        Column("order_by", Text),
        Column("run_as", Name),
        Column("initiator_id", String(255)),
        Column("initiator_version", String(64)),
        Column("enqueued_ms", BigInteger, nullable=False),
        Column("worker_id", String(255)),
        Column("worker_version", String(64)),
        Column("started_ms", BigInteger),
        Column("highest_write_id", BigInteger),
        Column("txn_id", BigInteger),
        Column("next_txn_id", BigInteger),
        Column("committed_ms", BigInteger),
        Column("cleaner_started_ms", BigInteger),
        Column("retry_retention_ms", BigInteger, nullable=False, server_default="0"),
        Column("error_message", Text),
        Column("job_id", String(255)),
    ]


_IS_ACTIVE = text("state IN ('i', 'w')")

compaction_queue = Table(
    "compaction_queue",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    *_compaction_columns(),
    Index(
        "uq_compaction_queue_active",
        "table_id",
        "partition",
        unique=True,
        sqlite_where=_IS_ACTIVE,
        postgresql_where=_IS_ACTIVE,
    ),
    Index("ix_compaction_queue_state", "state", "pool", "id"),
    Index("ix_compaction_queue_table_id_partition", "table_id", "partition"),
)
"""Compactions that are not over. An empty partition is none. Of a table or partition at most one waits or is at
work. Rows have the table's id and no foreign key: they tell of tables that are gone."""

completed_compactions = Table(
    "completed_compactions",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    *_compaction_columns(),
    Column("ended_ms", BigInteger, nullable=False),
    Index("ix_completed_compactions_table_id_partition", "table_id", "partition", "id"),
    Index("ix_completed_compactions_state", "state"),
)
"""Compactions that are over, with the ids that they had in the queue."""

kept_snapshots = Table(
    "kept_snapshots",
    metadata,
    Column("txn_id", BigInteger, primary_key=True, autoincrement=False),
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("settled_txn_id", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("user", String(128), nullable=False),
)
"""Snapshots of tables whose files the cleaner keeps until they expire, though their transactions have ended."""

written_batches = Table(
    "written_batches",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("app_id", String(128), primary_key=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("txn_id", BigInteger, nullable=False),
)
"""The last batch that each application has written to a table: written with the commit of its rows."""

recorded_events = Table(
    "recorded_events",
    metadata,
    Column("sequence", Id, primary_key=True),
    Column("event_ms", BigInteger, nullable=False),
    Column("type", String(64), nullable=False),
    Column("database", Name),
    Column("table", Name),
    Column("txn_id", BigInteger),
    Column("message", JSON, nullable=False),
    sqlite_autoincrement=True,
)
"""Events that have no id yet, each written in the transaction of its change. A writer waits for no other one: whoever
reads the notification log next gives them ids and moves them there."""

notification_log = Table(
    "notification_log",
    metadata,
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("event_ms", BigInteger, nullable=False),
    Column("type", String(64), nullable=False),
    Column("database", Name),
    Column("table", Name),
    Column("txn_id", BigInteger),
    Column("message", JSON, nullable=False),
    Index("ix_notification_log_event_ms", "event_ms"),
)
