"""SQLAlchemy's engine for the URL of a metastore database, in PostgreSQL or a SQLite file."""

from __future__ import annotations

import json
import os
import select
import socket
import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, InvalidatePoolError

from airflow_hivex.core.errors import (
    InvalidSettingError,
    NotAMetastoreError,
    StoreDamagedError,
    StoreDriverMissingError,
    StoreError,
    StoreUnavailableError,
)
from airflow_hivex.core.errors.secrets import hide_in_database_url
from airflow_hivex.core.model.texts import check_values
from airflow_hivex.core.store.exchange import BUSY_TIMEOUT_S, begin_immediate
from airflow_hivex.core.store.time_limits import TimeLimits

if TYPE_CHECKING:
    import psycopg


def parse_url(url: str) -> URL:
    """Return the parsed URL of a metastore database, with the name of the driver that the engine uses.

    Raises:
        InvalidSettingError: ``url`` is not the URL of a SQLite file or a PostgreSQL database.
    """
    if not isinstance(url, str):
        raise InvalidSettingError("metastore URL", type(url).__name__, "text is expected")

    def unusable(reason: str) -> InvalidSettingError:
        return InvalidSettingError("metastore URL", hide_in_database_url(url), reason)

    try:
        parsed = make_url(url.strip())
    except (ArgumentError, ValueError):
        # Messages of SQLAlchemy quote the URL, with its password.
        raise unusable(
            "it is not a database URL such as sqlite:////data/metastore.db or postgresql://user@host:5432/database"
        ) from None
    if any(character in url for character in "\0\r\n"):
        raise unusable("it has control characters")
    if "@" in (parsed.host or ""):
        # The driver would quote the rest of the password as the name of a host.
        raise unusable("it has several @; write an @ of a user or a password as %40")
    backend = parsed.drivername.partition("+")[0]
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise unusable("the metastore is in SQLite or PostgreSQL")
    database = parsed.database or ""
    if database in ("", ":memory:"):
        raise unusable("give a file: processes share the metastore")
    if not Path(database).is_absolute():
        raise unusable(
            f"its path is relative, so that each process would mean another file by it; with four slashes it is "
            f"absolute: sqlite:///{Path(database).absolute()}"
        )
    return parsed.set(drivername="sqlite")


def new_engine(url: URL, limits: TimeLimits, *, create: bool) -> Engine:
    """Return an engine for the URL. The engine refuses texts that SQLite or PostgreSQL cannot store.

    Without ``create`` a missing SQLite file is not created: the engine shows an empty database in its place.

    Raises:
        StoreDriverMissingError: the driver of PostgreSQL cannot be imported.
        StoreUnavailableError: the SQLite file, or its folder, cannot be used.
    """
    if url.get_backend_name() == "postgresql":
        engine = postgresql_engine(url, limits, json_serializer=_to_json)
    else:
        engine = sqlite_engine(url, create=create, json_serializer=_to_json)
    event.listen(engine, "before_cursor_execute", _check_texts)
    return engine


def _check_texts(
    _connection: Connection, _cursor: object, _statement: str, parameters: Any, _context: object, _many: object
) -> None:
    """Refuse texts that SQLite or PostgreSQL cannot store, so that both databases refuse the same texts."""
    check_values("A text for the metastore", parameters.values() if isinstance(parameters, dict) else parameters)


def _to_json(value: Any) -> str:
    # JSON has escapes in place of the characters, so the values are checked.
    check_values("A text for the metastore", [value])
    return json.dumps(value)


_CONNECT_TIMEOUT_S = 10
"""The time limit in seconds for a new connection, unless the URL sets another limit."""

_MOST_KEPT, _MOST_MORE = 12, 3
"""The most connections that a process keeps open, and the most extra connections, which are closed after use."""


def postgresql_engine(url: URL, limits: TimeLimits, **options: Any) -> Engine:
    """Return an engine for a PostgreSQL database.

    Raises:
        StoreDriverMissingError: the driver cannot be imported.
    """
    parameters = {"connect_timeout": str(_CONNECT_TIMEOUT_S), **limits.of_client()}
    try:
        from airflow_hivex.core.store.postgresql import DRIVER

        engine = create_engine(
            url.set(drivername=DRIVER).update_query_dict(
                {name: value for name, value in parameters.items() if name not in url.query}
            ),
            isolation_level="READ COMMITTED",
            pool_size=_MOST_KEPT,
            max_overflow=_MOST_MORE,
            pool_use_lifo=True,
            use_native_hstore=False,
            **options,
        )
    except ImportError as error:
        # The first line names the cause, such as psycopg without its binary part and libpq.
        raise StoreDriverMissingError(str(error).partition("\n")[0].rstrip(".")) from error
    event.listen(engine, "do_connect", _name_client)
    event.listen(engine, "connect", partial(_prepare_postgresql, limits))
    event.listen(engine, "checkout", _check_alive)
    return engine


def connect_apart(engine: Engine, limits: TimeLimits) -> psycopg.Connection[Any]:
    """Return a connection to PostgreSQL outside of the pool, which commits each query at once.

    Raises:
        psycopg.Error: the server cannot be reached.
    """
    dialect: Any = engine.dialect
    arguments, options = dialect.create_connect_args(engine.url)
    _name_client(dialect, None, arguments, options)
    connection: psycopg.Connection[Any] = dialect.connect(*arguments, **options, autocommit=True)
    limits.set_on(connection)
    return connection


def _name_client(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
    """Name the connection after this process, unless the URL or PGAPPNAME gives a name."""
    # At each connection: a forked process has another number.
    options.setdefault("fallback_application_name", f"hivex {os.getpid()}@{socket.gethostname()}")


def _prepare_postgresql(limits: TimeLimits, connection: Any, _record: object) -> None:
    # A rollback with prepared statements of the driver drops all of them, also those of the exchanges.
    # Exchanges prepare the hot statements; all others are planned for the present tables.
    connection.prepare_threshold = None
    connection.limit(limits)


def _check_alive(connection: Any, _record: object, _proxy: object) -> None:
    """Refuse a connection that the server has closed since the last use. The check needs no round trip.

    An idle connection receives data only when the server closes it.
    """
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    if poll.poll(0):
        raise InvalidatePoolError


WRITING = "hivex_writing"
"""The name of the execution option that marks a connection for writing."""

# An extended result code has the primary one in its lowest byte.
_PRIMARY_CODE = 0xFF


def sqlite_engine(url: URL, *, create: bool, **options: Any) -> Engine:
    """Return an engine for a SQLite file.

    Without ``create`` a missing file is not created: the engine shows an empty database in its place.

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
        # At the first connection: a caller that refuses its other arguments before leaves no file.
        event.listen(engine, "do_connect", lambda *_: _create_private(file))
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "close", _end)
    if url.database == str(file):
        event.listen(engine, "connect", lambda _, record: record.info.update(file=_identity(file)))
        event.listen(engine, "checkout", lambda _, record, __: _check_same_file(file, record.info["file"]))
    event.listen(engine, "begin", _begin)
    return engine


def damage(error: DatabaseError, name: str) -> StoreError | None:
    """Return this package's error for a damaged file or a file of another format, or None for other errors."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_NOTADB:
        return NotAMetastoreError(name, "the file is not a SQLite database")
    if code is not None and code & _PRIMARY_CODE == sqlite3.SQLITE_CORRUPT:
        return StoreDamagedError(name, str(error.orig).strip().partition("\n")[0])
    return None


def _create_private(file: Path) -> None:
    """Create an empty SQLite file that only its owner can read, unless the file exists.

    The write-ahead log gets the mode of the file.
    """
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
        # Such as a name that is too long for the file system, or a folder without permission.
        raise StoreUnavailableError(f"sqlite:///{file}", str(error)) from error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver's own transaction handling begins too late for DDL and for reads.
    connection.isolation_level = None
    cursor = connection.cursor()
    # A commit is acknowledged when it is on disk. NORMAL would lose the last commits in a power failure.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _end(connection: Any, _record: object) -> None:
    # An interrupt may leave a cursor: SQLite would delay the close, and the transaction would lock the file.
    # A connection that cannot be rolled back is closed next.
    with suppress(sqlite3.Error):
        connection.rollback()


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _check_same_file(file: Path, identity: tuple[int, int] | None) -> None:
    """Refuse a connection whose file was deleted or replaced, since commits on this connection would be lost."""
    found = _identity(file)
    if found is None:
        raise StoreUnavailableError(
            f"sqlite:///{file}", "its file was deleted while it was in use; put it back, or open the metastore again"
        )
    if found != identity:
        # Another file has taken its place.
        raise InvalidatePoolError


def _begin(connection: Connection) -> None:
    # A writer takes the lock at once: a reader that becomes a writer could not wait for it.
    writing = connection.get_execution_options().get(WRITING)
    if writing:
        raw: Any = connection.connection.dbapi_connection
        begin_immediate(raw)
    else:
        connection.exec_driver_sql("BEGIN")
