"""The schema of compactions: the queue and the finished compactions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, String, Table, Text, text

from airflow_hivex.core.store.schema.base import Id, Name, metadata


def _compaction_columns() -> list[Column[Any]]:
    """Return the columns that the queue and the finished compactions share."""
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
"""Unfinished compactions. An empty ``partition`` stands for a table without partitions.

At most one compaction of a table or partition is initiated or working. ``table_id`` has no foreign key, since the row
can outlive the table."""

completed_compactions = Table(
    "completed_compactions",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    *_compaction_columns(),
    Column("ended_ms", BigInteger, nullable=False),
    Index("ix_completed_compactions_table_id_partition", "table_id", "partition", "id"),
    Index("ix_completed_compactions_state", "state"),
)
"""Finished compactions. Each compaction keeps the id that it had in the queue."""
