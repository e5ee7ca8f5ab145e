"""The schema of the catalog: databases, tables, partitions, directories, copies, statistics and recorded commits."""

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
"""The permanent functions of databases. A function has a class, and the files from which clients load the class."""

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
"""The storage descriptors of tables, and of partitions whose storage descriptor differs from their table's descriptor.
"""

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
"""Tables and views.

``version`` counts the changes without a write id: changes of the table, its partitions, directories and copies (see
``catalog/metadata_reader.py``). ``history_txn_id`` and ``history_write_id`` are the bounds of the history: states
before these bounds cannot be read (see ``catalog/history.py``).
"""

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
"""The values of the partition keys of each partition. An index finds the partitions with a value of a key."""

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
"""The secondary copies of partitions, and of tables without partitions (docs/reference/clusters.md).

The primary cluster is in the row of the table, and is the same for all partitions. ``moment_id`` is the moment of the
last replication.
"""

copied_moments = Table(
    "copied_moments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("taken_ms", BigInteger, nullable=False),
    Column("valid_txns", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""The snapshots of replications (moments). Several tables can be read as of the same moment."""

cluster_roots = Table(
    "cluster_roots",
    metadata,
    Column("cluster", Cluster, primary_key=True),
    Column("root_id", String(36), nullable=False),
    Column("is_marked", Boolean, nullable=False),
    Column("registered_ms", BigInteger, nullable=False),
)
"""The id in the marker file that lies in the root of a cluster's file system.

While ``is_marked`` is false, a process is writing this file.
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
"""The statistics that ANALYZE has computed for partitions, and for tables (without ``partition_id``).

``valid_write_ids`` is the snapshot in which the statistics were computed. ``columns`` is a dict from a column's name in
the files to the column's statistics. A rename of a column or table does not change the name in the files.
"""

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
"""The base, delta and delete-delta directories of transactional tables.

Readers see only the files of directories with a row in this table. A table that was converted to a transactional table
also has a row of the kind ``original`` for each file from before the conversion. The ``name`` of such a row is the path
of the file below the folder of the partition or table.
"""

directory_copies = Table(
    "directory_copies",
    metadata,
    Column("directory_id", Id, ForeignKey("directories.id"), primary_key=True),
    Column("cluster", Cluster, primary_key=True),
    Column("registered_ms", BigInteger, nullable=False),
    Column("checksum", Text),
)
"""The clusters that have each directory, including the primary cluster. An unknown ``checksum`` is NULL."""

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
"""The places (folders on clusters) into which replications write, with the names of the written files.

For a directory of a transactional table, the commit that registers the copy deletes the row. For a table without
transactions the row stays as long as the files. ``is_complete`` is set when the copy is registered. ``unused_txn_id``
and ``unused_ms`` are set when the housekeeping finds that the copy is not registered any more. ``txn_id`` is the
transaction of the last replication into the folder, and ``process`` is the process of this replication. There is no
foreign key, since the files of a dropped table outlive the row of the table.
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
"""The committed transactions that have a write id of a table, in the order of ``id``.

The first row of a table stands for the creation. The write id of this row is lower by 1 than the table's first write
id. If a commit has changed the columns, ``columns_before`` has the columns before the commit as JSON. A row without a
write id means that earlier versions cannot be read: a partition was dropped or renamed, or the table became
transactional.
"""

change_streams = Table(
    "change_streams",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("stream", String(128), primary_key=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("since_write_id", BigInteger),
    Column("until_write_id", BigInteger),
)
"""The progress of each stream that reads the changes of a table.

The next batch of a stream has the changes after ``since_write_id``, or all rows if ``since_write_id`` is NULL.
``until_write_id`` is the end of a batch that is being processed. If the batch is repeated, it has the same end.
"""

loaded_files = Table(
    "loaded_files",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("path_key", String(32), primary_key=True),
    Column("path", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("changed", Text, nullable=False),
    Column("checksum", String(64)),
    Column("txn_id", BigInteger, nullable=False),
    Column("rows_of_load", BigInteger, nullable=False),
    Column("loaded_ms", BigInteger, nullable=False),
)
"""The files that COPY INTO has loaded into tables, each with its last load. The commit of the load stores the row.

``path_key`` is a hash of ``path``. ``changed`` is the time of the file's last change, in the form of its file system.
``rows_of_load`` is the number of rows that the transaction ``txn_id`` has loaded from all its files.
"""
