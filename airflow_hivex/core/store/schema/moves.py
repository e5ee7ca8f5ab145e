"""Moves of namespaces to other clusters, and the copies that they make and leave behind."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, String, Table, Text

from airflow_hivex.core.store.schema.base import Cluster, Id, Name, metadata

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
"""A move of a namespace to a cluster. Without a foreign key: the record of a move outlives its namespace."""

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
"""The copies that a move makes, and after the switch the copies that it leaves on the previous clusters.

``is_new`` is set if the cluster had no copy of the table before the move. The housekeeping withdraws a copy after
``drop_after_ms``; a row without it is of a move that goes on."""
