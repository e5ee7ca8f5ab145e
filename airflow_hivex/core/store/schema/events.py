"""Recorded events and the notification log."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, String, Table

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
"""Events that have no id yet, each written in the transaction of its change. A writer waits for no other one: whoever
reads the notification log next gives them ids and moves them there."""

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
