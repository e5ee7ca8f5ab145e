"""The PostgreSQL side of connections: the driver, and servers that have ended a connection."""

from __future__ import annotations

import select
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import InvalidatePoolError

from airflow_hivex.core.errors import StoreDriverMissingError

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
