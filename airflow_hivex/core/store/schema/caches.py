"""The caches of metadata in the processes of all clients."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, String, Table

from airflow_hivex.core.store.schema.base import Id, metadata

caches = Table(
    "caches",
    metadata,
    Column("id", Id, primary_key=True),
    Column("host", String(255), nullable=False),
    Column("process_id", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("armed_until_ms", BigInteger, nullable=False),
    Column("event_id", BigInteger, nullable=False),
    Column("counts", JSON, nullable=False),
    sqlite_autoincrement=True,
)
"""Each process that follows the notification log. Until ``armed_until_ms`` it waits for announcements of new events:
writers announce them on PostgreSQL as long as there is such a row, since announcements make commits wait for each
other."""
