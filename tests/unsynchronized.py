"""Tests lose no power: as their PostgreSQL, the SQLite of each process that imports this does not wait for the disk."""

from __future__ import annotations

from functools import wraps
from typing import Any

from airflow_hivex.core.store import engine

prepare_synchronized = engine._prepare_sqlite


@wraps(prepare_synchronized)
def _prepare(connection: Any, record: object) -> None:
    prepare_synchronized(connection, record)
    connection.execute("PRAGMA synchronous = OFF")


engine._prepare_sqlite = _prepare
