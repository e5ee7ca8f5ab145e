"""The schema of transactions: states, components, pending writes, locks and write ids."""

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
    text,
)

from airflow_hivex.core.store.schema.base import Id, Name, metadata

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
    Column("statement", Text),
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
"""The transactions.

``min_open_id`` is the lowest id of the transactions that were open when this transaction began (Hive's
MIN_HISTORY_LEVEL). ``key`` is the owner's name for the transaction: a call with the key of an existing transaction gets
this transaction. In a transaction of several statements, ``statements`` is the number of allocated statement ids.
``snapshot`` is the ValidTxnList that the statements share, or an empty text before the first read. ``statement`` is a
document about the statement that has opened the transaction, for the history of statements.
"""

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
"""The writes of the statements of open transactions. A transaction sees its own writes; its commit registers them.

``written`` is NULL while the statement runs, and after its process was killed. ``writer`` names the part of the
transaction's work to which the statement belongs. If the part is repeated, the rows of the part in this table are
replaced.
"""

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
"""The tables and partitions to which an open or aborted transaction can have written, for the cleaner."""

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
"""The tables and partitions to which committed transactions have written. ``updates`` is false if the transaction has
only inserted rows."""

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
"""The committed updates and deletes that can conflict with a transaction that is still open."""

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

former_write_ids = Table(
    "former_write_ids",
    metadata,
    Column("database", Name, primary_key=True),
    Column("table", Name, primary_key=True),
    Column("next", BigInteger, nullable=False),
    Column("left_ms", BigInteger, nullable=False, index=True),
)
"""The first write id for a new table of a name. Dropped or renamed tables that had this name have lower write ids."""

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
"""The snapshots that are still read after the end of their transaction.

The cleaner keeps the files of such a snapshot until ``expires_ms``.
"""

written_batches = Table(
    "written_batches",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True, autoincrement=False),
    Column("app_id", String(128), primary_key=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("txn_id", BigInteger, nullable=False),
)
"""The last batch that each application has written to a table. The row is stored in the commit of the batch."""

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
"""The granted locks and the waiting locks. The locks of a request have the same ``lock_id``, and are numbered from 1.

Transaction 0 stands for no transaction. An empty ``table`` stands for the whole database, an empty ``partition`` for
the whole table. A search for blocking locks compares only a column that has an index of its own, so that the database
uses the index even without statistics.
"""
