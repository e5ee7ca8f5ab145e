"""Tests lose no power: as their PostgreSQL, the SQLite of each process that imports this does not wait for the disk."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool

_DONE = "unsynchronized"


@event.listens_for(Pool, "checkout")
def do_not_wait(connection: Any, record: Any, _proxy: object) -> None:
    """Set that for a connection once; the store has set its own way when it made the connection."""
    if _DONE not in record.info and isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
        record.info[_DONE] = True
