"""The SQLite side of connections: the file, its mode, and how transactions begin."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, InvalidatePoolError

from airflow_hivex.core.errors import NotAMetastoreError, StoreDamagedError, StoreError, StoreUnavailableError
from airflow_hivex.core.store.exchange import BUSY_TIMEOUT_S, begin_immediate

WRITING = "hivex_writing"
"""The execution option of connections that will write."""

# An extended result code has the primary one in its lowest byte.
_PRIMARY_CODE = 0xFF


def sqlite_engine(url: URL, *, create: bool, **options: Any) -> Engine:
    """Return an engine for a SQLite file. Without ``create`` a file that does not exist is an empty database.

    Raises:
        StoreUnavailableError: the file, or its folder, cannot be used.
    """
    file = Path(str(url.database))
    if create:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailableError(str(url), f"its folder cannot be made: {error}") from error
    elif not _exists(file):
        url = url.set(database=":memory:")
    if _exists(file) and file.is_dir():
        raise StoreUnavailableError(f"sqlite:///{file}", "a folder is in the place of its file")
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}, **options)
    if create:
        # Not before the first connection: a caller that then refuses its other arguments leaves no file.
        event.listen(engine, "do_connect", lambda *_: _create_private(file))
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "close", _end)
    if url.database == str(file):
        event.listen(engine, "connect", lambda _, record: record.info.update(file=_identity(file)))
        event.listen(engine, "checkout", lambda _, record, __: _check_same_file(file, record.info["file"]))
    event.listen(engine, "begin", _begin)
    return engine


def damage(error: DatabaseError, name: str) -> StoreError | None:
    """Return the fault of the file of a database, if the error is one."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_NOTADB:
        return NotAMetastoreError(name, "the file is not a SQLite database")
    if code is not None and code & _PRIMARY_CODE == sqlite3.SQLITE_CORRUPT:
        return StoreDamagedError(name, str(error.orig).strip().partition("\n")[0])
    return None


def _create_private(file: Path) -> None:
    """Create an empty SQLite file for its owner alone, unless it exists; SQLite gives its log the same mode."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreUnavailableError(f"sqlite:///{file}", str(error)) from error


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:
        # Such as a name of more bytes than the file system takes, or a folder that may not be looked into.
        raise StoreUnavailableError(f"sqlite:///{file}", str(error)) from error


def _prepare(connection: Any, _record: object) -> None:
    # The driver's own transaction handling begins too late for DDL and for reads.
    connection.isolation_level = None
    cursor = connection.cursor()
    # A commit is acknowledged when it is on disk. NORMAL loses the last ones with the machine's power.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _end(connection: Any, _record: object) -> None:
    # With a cursor left, closing it is put off, and its transaction would lock the file. An interrupt leaves such.
    # What cannot be rolled back is closed next.
    with suppress(sqlite3.Error):
        connection.rollback()


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_same_file(file: Path, identity: tuple[int, int] | None) -> None:
    """See to it that a connection writes to the file that is there: a deleted one would take commits, and lose them."""
    found = _identity(file)
    if found is None:
        raise StoreUnavailableError(
            f"sqlite:///{file}", "its file was deleted while it was in use; put it back, or open the metastore again"
        )
    if found != identity:
        # Another one has taken its place.
        raise InvalidatePoolError


def _begin(connection: Connection) -> None:
    # A writer takes the lock at once: a reader that turns into a writer cannot be made to wait.
    writing = connection.get_execution_options().get(WRITING)
    if writing:
        raw: Any = connection.connection.dbapi_connection
        begin_immediate(raw)
    else:
        connection.exec_driver_sql("BEGIN")
