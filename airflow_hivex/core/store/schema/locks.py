"""Locks, granted and requested."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, text

from airflow_hivex.core.store.schema.base import Name, metadata

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
"""A request is a ``lock_id``, its locks are numbered from 1. Transaction 0 stands for no transaction. An empty table is
the whole database and an empty partition the whole table. Each question of what is in the way is put
to one column with an index of its own, so that databases without statistics answer it by that."""
