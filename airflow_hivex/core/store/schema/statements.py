"""The schema of the history of statements."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, String, Table, Text, text

from airflow_hivex.core.store.schema.base import Cluster, Id, Name, metadata

ended_statements = Table(
    "ended_statements",
    metadata,
    Column("id", Id, primary_key=True),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=False, index=True),
    Column("outcome", String(1), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("text", Text, nullable=False),
    Column("database", Name, nullable=False),
    Column("tables", Text, nullable=False),
    Column("target", Text),
    Column("user", Name, nullable=False),
    Column("host", String(255), nullable=False),
    Column("agent_info", Text),
    Column("dag_id", String(250)),
    Column("task_id", String(250)),
    Column("run_id", String(250)),
    Column("map_index", Integer),
    Column("try_number", Integer),
    Column("txn_id", BigInteger, index=True),
    Column("cluster", Cluster),
    Column("route", Text),
    Column("rows_written", BigInteger),
    Column("rows_deleted", BigInteger),
    Column("size_bytes", BigInteger),
    Column("wait_ms", BigInteger, nullable=False),
    Column("steps", JSON, nullable=False),
    Column("error_code", String(64)),
    Column("error", Text),
    Index(
        "ix_ended_statements_open",
        "txn_id",
        sqlite_where=text("outcome = 'o'"),
        postgresql_where=text("outcome = 'o'"),
    ),
)
"""The statements that have ended, for ``hivex.statements.retention``.

``tables`` are the names ``database.table`` in the text, each between spaces, so that a part of the text is found by one
name. ``target`` is the only table that the statement has written. ``size_bytes`` is the size of the written files.
``txn_id`` has no foreign key, since the row outlives the transaction's row."""
