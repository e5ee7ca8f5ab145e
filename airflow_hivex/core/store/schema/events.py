"""The schema of events: new events, the notification log, marks of partitions, and the caches that read the log."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, String, Table, Text

from airflow_hivex.core.store.schema.base import Id, Name, metadata

recorded_events = Table(
    "recorded_events",
    metadata,
    Column("sequence", Id, primary_key=True),
    Column("event_ms", BigInteger, nullable=False),
    Column("type", String(64), nullable=False),
    Column("database", Name),
    Column("table", Name),
    Column("txn_id", BigInteger),
    Column("message", JSON, nullable=False),
    sqlite_autoincrement=True,
)
"""Events that have no id yet. Each event is written in the database transaction of its change.

The next reader of the notification log gives ids to the events, and moves the events to the log. So writers do not wait
for each other.
"""

notification_log = Table(
    "notification_log",
    metadata,
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("event_ms", BigInteger, nullable=False),
    Column("type", String(64), nullable=False),
    Column("database", Name),
    Column("table", Name),
    Column("txn_id", BigInteger),
    Column("message", JSON, nullable=False),
    Index("ix_notification_log_event_ms", "event_ms"),
)

partition_events = Table(
    "partition_events",
    metadata,
    Column("database", Name, primary_key=True),
    Column("table", Name, primary_key=True),
    Column("partition", Text, primary_key=True),
    Column("type", Integer, primary_key=True, autoincrement=False),
    Column("event_ms", BigInteger, nullable=False),
    Index("ix_partition_events_event_ms", "event_ms"),
)
"""Marks by which clients report that a partition is loaded. A mark has the names of table and partition, as in Hive."""

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
"""The processes whose caches follow the notification log.

A process waits for announcements of new events until ``armed_until_ms``. On PostgreSQL, writers announce events only if
a process waits, since announcements make commits wait for each other."""
