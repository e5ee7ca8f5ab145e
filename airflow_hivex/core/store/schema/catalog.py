"""Databases, tables and partitions, their directories, copies and statistics, and the record of commits."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from airflow_hivex.core.store.schema.base import Cluster, Id, Name, metadata

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

functions = Table(
    "functions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("name", Name, nullable=False),
    Column("class_name", Text, nullable=False),
    Column("resources", JSON, nullable=False),
    Column("owner", Name),
    Column("owner_type", String(16), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    UniqueConstraint("database_id", "name"),
)
"""The permanent functions of databases: a class, and the files from which clients load it."""

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
"""The storage of tables, and of partitions with a storage of their own."""

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
    Column("history_txn_id", BigInteger),
    Column("history_write_id", BigInteger),
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
"""``version`` counts the changes of a table, its partitions, directories and copies that have no write id of the table
(see ``catalog/metadata_reader.py``). ``history_txn_id`` and ``history_write_id`` limit the earlier states of the table
that can be read (see ``catalog/history.py``)."""

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
    Column("history_write_id", BigInteger),
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
"""The values of partitions by key, so that ``key = value`` is an index look-up for each key."""

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
    Column("moment_id", BigInteger, index=True),
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
"""The secondary copies of tables without partitions, and of partitions (docs/reference/clusters.md). The table's own
row has the primary copy: each table has exactly one, and its partitions share it. ``moment_id`` is the last copied
moment."""

copied_moments = Table(
    "copied_moments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("taken_ms", BigInteger, nullable=False),
    Column("valid_txns", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""The snapshots of replications, so that several tables can be read at one of them."""

cluster_roots = Table(
    "cluster_roots",
    metadata,
    Column("cluster", Cluster, primary_key=True),
    Column("root_id", String(36), nullable=False),
    Column("is_marked", Boolean, nullable=False),
    Column("registered_ms", BigInteger, nullable=False),
)
"""The contents of the marker file in the root of a cluster's file system.

A row whose root has no marker yet belongs to a process that is marking the root.
"""

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
"""The statistics of ANALYZE for tables (without ``partition_id``) and partitions, with their snapshot. ``columns`` has
the statistics of columns by their names in files, which a rename of a column or its table does not change."""

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
"""Every base, delta and delete-delta directory. Files are visible if their directory has a row here, not by a listing.

A converted table also has a row of the kind ``original`` for each earlier file, named by its path below its
partition.
"""

directory_copies = Table(
    "directory_copies",
    metadata,
    Column("directory_id", Id, ForeignKey("directories.id"), primary_key=True),
    Column("cluster", Cluster, primary_key=True),
    Column("registered_ms", BigInteger, nullable=False),
    Column("checksum", Text),
)
"""The clusters that have a directory, including its primary cluster. An empty checksum is unknown."""

copy_places = Table(
    "copy_places",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, nullable=False),
    Column("cluster", Cluster, nullable=False),
    Column("location", Text, nullable=False),
    Column("directory_id", Id),
    Column("files", JSON, nullable=False),
    Column("txn_id", BigInteger, nullable=False),
    Column("process", Text, nullable=False),
    Column("noted_ms", BigInteger, nullable=False),
    Column("is_complete", Boolean, nullable=False),
    Column("unused_txn_id", BigInteger),
    Column("unused_ms", BigInteger),
    Index("ix_copy_places_table_id_cluster", "table_id", "cluster"),
    sqlite_autoincrement=True,
)
"""The places on clusters to which replications write, with the names of their files.

The commit that registers the copy of a directory deletes its row. A row of a table without transactions stays as long
as the files. ``is_complete`` is set when the copy is registered. ``unused_txn_id`` and ``unused_ms`` are set when the
housekeeping finds that the copy is not registered any more. ``txn_id`` is the last replication that has written there,
in ``process``. The table has no foreign key, since the files of a dropped table outlive its row.
"""

table_commits = Table(
    "table_commits",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("write_id", BigInteger),
    Column("txn_id", BigInteger),
    Column("committed_ms", BigInteger, nullable=False),
    Column("user", Name, nullable=False),
    Column("agent_info", Text),
    Column("operation", String(256), nullable=False),
    Column("rows_added", BigInteger, nullable=False),
    Column("rows_deleted", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("columns_before", Text),
    Index("ix_table_commits_table_id_id", "table_id", "id"),
    Index("ix_table_commits_committed_ms", "committed_ms"),
    sqlite_autoincrement=True,
)
"""The transactions that have taken a write id of a table and committed, in the order of ``id``.

The first row of a table is its creation, with the write id before its first one. ``columns_before`` has the columns
that a commit has changed, as JSON. A row without a write id means that earlier versions cannot be read: a partition
was dropped or renamed, or a table became transactional."""

change_streams = Table(
    "change_streams",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("stream", String(128), primary_key=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("since_write_id", BigInteger),
    Column("until_write_id", BigInteger),
)
"""The progress of each stream of the changes of a table: its next batch has the changes after ``since_write_id``, or
all rows if that is empty. ``until_write_id`` is set while the batch is processed, and a repetition keeps it."""
