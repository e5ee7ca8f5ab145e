"""Python's database API (PEP 249) over a session, for programs that work with any database.

``connect`` opens a warehouse. ``Connection(session)`` uses an open session.
"""

from __future__ import annotations

from airflow_hivex.core.dbapi.connection import Connection, connect
from airflow_hivex.core.dbapi.cursor import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Cursor,
    Date,
    DateFromTicks,
    ResultRows,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from airflow_hivex.core.errors.pep249 import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - the name that PEP 249 gives it
)

apilevel = "2.0"
threadsafety = 1
"""Threads can share the module, but not connections."""
paramstyle = "named"
"""The style of markers: ``:name`` with a mapping. ``?`` with a sequence works, too."""

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ResultRows",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
