"""Numbers that all clients share."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, String, Table

from airflow_hivex.core.store.schema.base import metadata

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""Numbers that must be visible in the order in which they were handed out: ``txn``, ``event``, ``lock`` and
``compaction``; ``purged_event``, the last event that was purged; and ``hive.txn.timeout``, which all clients share."""
