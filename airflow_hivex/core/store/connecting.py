"""From the URL of a metastore to an engine for its database."""

from __future__ import annotations

import json
import select
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, InvalidatePoolError

from airflow_hivex.core.errors import InvalidSettingError, StoreDriverMissingError
from airflow_hivex.core.model.secrets import hide_in_database_url
from airflow_hivex.core.model.texts import check_values
from airflow_hivex.core.store.sqlite import sqlite_engine


def parse_url(url: str) -> URL:
    """Return the parts of the URL of a metastore, with the driver that connects to it.

    Raises:
        InvalidSettingError: it is not the URL of a SQLite file or a PostgreSQL database.
    """
    if not isinstance(url, str):
        raise InvalidSettingError("metastore URL", type(url).__name__, "text is expected")

    def unusable(reason: str) -> InvalidSettingError:
        return InvalidSettingError("metastore URL", hide_in_database_url(url), reason)

    try:
        parsed = make_url(url.strip())
    except (ArgumentError, ValueError):
        # Their messages quote the URL, with its password.
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


def new_engine(url: URL, *, create: bool) -> Engine:
    """Return an engine that refuses texts that one of the databases cannot keep.

    Without ``create`` a SQLite file that does not exist is an empty database, and stays away.

    Raises:
        StoreDriverMissingError: the driver of PostgreSQL cannot be imported.
        StoreUnavailableError: the SQLite file, or its folder, cannot be used.
    """
    if url.get_backend_name() == "postgresql":
        engine = postgresql_engine(url, json_serializer=_to_json)
    else:
        engine = sqlite_engine(url, create=create, json_serializer=_to_json)
    event.listen(engine, "before_cursor_execute", _check_texts)
    return engine


def _check_texts(
    _connection: Connection, _cursor: object, _statement: str, parameters: Any, _context: object, _many: object
) -> None:
    """Refuse a text that one of the databases cannot keep, so that both refuse the same."""
    check_values("A text for the metastore", parameters.values() if isinstance(parameters, dict) else parameters)


def _to_json(value: Any) -> str:
    # Its text has escapes in place of the characters themselves.
    check_values("A text for the metastore", [value])
    return json.dumps(value)


_LIMITS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""Parameters of libpq for connections, where the URL has no others. Without them a server that accepts a connection and
does not answer holds a thread for two minutes, and a host that has vanished holds it for hours."""

_MOST_KEPT, _MOST_MORE = 12, 3
"""The connections that threads of a process get, and those beyond, which are closed after each use."""


def postgresql_engine(url: URL, **options: Any) -> Engine:
    """Return an engine for a PostgreSQL database.

    Raises:
        StoreDriverMissingError: the driver cannot be imported.
    """
    try:
        engine = create_engine(
            url.update_query_dict({name: value for name, value in _LIMITS.items() if name not in url.query}),
            isolation_level="READ COMMITTED",
            pool_size=_MOST_KEPT,
            max_overflow=_MOST_MORE,
            pool_use_lifo=True,
            **options,
        )
    except ImportError as error:
        # Of psycopg without its binary part and without libpq, the first line says so.
        raise StoreDriverMissingError(str(error).partition("\n")[0].rstrip(".")) from error
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "checkout", _check_alive)
    return engine


def _prepare(connection: Any, _record: object) -> None:
    # The driver drops all prepared statements, ours too, after a rollback in which it has some of its own.
    # Those of the hot paths are prepared by their exchange; all others are planned as the tables are now.
    connection.prepare_threshold = None


def _check_alive(connection: Any, _record: object, _proxy: object) -> None:
    """Look whether the server has ended the connection since it was last used, without asking it.

    It says so before it does, and an idle connection hears of nothing else; asking would be a round trip.
    """
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    if poll.poll(0):
        raise InvalidatePoolError
