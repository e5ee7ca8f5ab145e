"""The record of the commits to tables, which outlives the transactions."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, Table, Text

from airflow_hivex.core.store.schema.base import Id, Name, metadata

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

The first row of a table is its creation, with the write id before its first one. ``columns_before`` are the columns
that a commit has changed, as JSON. A row without a write id notes that earlier versions cannot be read: a partition
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
all rows if that is empty. ``until_write_id`` is set while the batch is processed, and the same when it is repeated."""
