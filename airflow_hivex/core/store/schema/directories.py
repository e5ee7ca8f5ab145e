"""Directories of transactional tables, and the clusters that hold them."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from airflow_hivex.core.store.schema.base import Cluster, Id, metadata

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
"""The places on clusters that replications write to, each with the names of the files that they write there.

The commit that registers the copy of a directory deletes its row. A row of a table without transactions stays as long
as the files do; ``is_complete`` is set when the copy is registered, ``unused_txn_id`` and ``unused_ms`` when the
housekeeping finds that it is not any more. ``txn_id`` is the replication that has written there last, in ``process``.
Without a foreign key: the files of a dropped table outlive its row."""
