"""The schema of namespaces: links to tables of other namespaces, quotas, sizes, homes, and moves to other clusters."""

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
)

from airflow_hivex.core.store.schema.base import Cluster, Id, Name, metadata

links = Table(
    "links",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("table_name", Name, nullable=False),
    Column("namespace", Name, nullable=False),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("type", String(32), nullable=False),
    Column("after_partition_id", BigInteger, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("owner", Name),
    Column("created_ms", BigInteger, nullable=False),
    UniqueConstraint("database_id", "table_name", "namespace"),
    UniqueConstraint("database_id", "table_id"),
    Index("ix_links_table_id", "table_id"),
    sqlite_autoincrement=True,
)
"""The links of namespaces.

The link ``table_name@namespace`` in the namespace ``database_id`` shows the table ``table_id``, the source of the link.

A dynamic link shows the partitions of its source with ids above ``after_partition_id``. So partitions that are added to
the source need no row in this table.
"""

link_partitions = Table(
    "link_partitions",
    metadata,
    Column("link_id", Id, ForeignKey("links.id"), primary_key=True),
    Column("partition_id", Id, ForeignKey("partitions.id"), primary_key=True),
    Column("is_shown", Boolean, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
    Index("ix_link_partitions_partition_id", "partition_id"),
)
"""The partitions that ALTER LINK has added to a link, and the partitions that were removed from a dynamic link.

ALTER LINK or the link's RETENTION removes partitions.
"""

quotas = Table(
    "quotas",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("cluster", Cluster, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("warning_percent", Integer, nullable=False),
    UniqueConstraint("database_id", "cluster"),
)
"""The limit of a namespace's bytes on a cluster, and the percentage above which commits log a warning."""

capacity_history = Table(
    "capacity_history",
    metadata,
    Column("database", Name, primary_key=True),
    Column("cluster", Cluster, primary_key=True),
    Column("day", Integer, primary_key=True),
    Column("owned_bytes", BigInteger, nullable=False),
    Column("owned_rows", BigInteger, nullable=False),
    Column("secondary_bytes", BigInteger, nullable=False),
    Column("obsolete_bytes", BigInteger, nullable=False),
)
"""The size of a namespace on a cluster at the first housekeeping of each day. ``day`` counts days since the epoch."""

namespace_homes = Table(
    "namespace_homes",
    metadata,
    Column("namespace", Name, primary_key=True),
    Column("metastore", Text, nullable=False),
    Column("noted_ms", BigInteger, nullable=False),
)
"""The metastore that stores a namespace, as the id of an Airflow connection or as a URL without secrets."""

namespace_moves = Table(
    "namespace_moves",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, nullable=False),
    Column("namespace", Name, nullable=False),
    Column("cluster", Cluster, nullable=False),
    Column("state", String(16), nullable=False),
    Column("copies_linked", Boolean, nullable=False),
    Column("keeps_copies", Boolean, nullable=False),
    Column("user", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    Index("ix_namespace_moves_database_id", "database_id"),
    sqlite_autoincrement=True,
)
"""The moves of namespaces to other clusters.

There is no foreign key, since the record of a move outlives the namespace.
"""

moved_copies = Table(
    "moved_copies",
    metadata,
    Column("move_id", Id, ForeignKey("namespace_moves.id"), primary_key=True),
    Column("table_id", Id, primary_key=True),
    Column("cluster", Cluster, primary_key=True),
    Column("is_new", Boolean, nullable=False),
    Column("noted_ms", BigInteger, nullable=False),
    Column("drop_after_ms", BigInteger),
)
"""The copies that a move makes and, after the switch of the primaries, the copies on the previous clusters.

``is_new`` is set if the cluster had no copy of the table before the move. The housekeeping withdraws a copy after
``drop_after_ms``, which is set at the end of the move.
"""
