"""Hearing what other clients of a PostgreSQL metastore announce."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hivex.core.store.engine import Store

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Waits for news. It may wake for nothing; whoever asks looks for himself."""

    def wait(self, seconds: float) -> list[str] | None:
        """What was announced, at the latest after ``seconds``; None when nobody can tell."""


class _Sleeper:
    """For databases that announce nothing: whoever waits looks again after a pause."""

    def wait(self, seconds: float) -> list[str] | None:
        time.sleep(seconds)
        return None


class _PostgresqlListener:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._lost: _Sleeper | None = None

    def wait(self, seconds: float) -> list[str] | None:
        import psycopg

        if self._lost is not None:
            return self._lost.wait(seconds)
        try:
            heard = [notify.payload for notify in self._connection.notifies(timeout=seconds, stop_after=1)]
            return heard + [notify.payload for notify in self._connection.notifies(timeout=0)]
        except psycopg.Error as error:
            log.warning("Nothing more is heard from the metastore database, asking it instead: %s", error)
            self._lost = _Sleeper()
            return None


@contextmanager
def listening(store: Store, channel: str) -> Iterator[Listener]:
    """Hear what is announced on ``channel`` while the block runs, on a connection of its own.

    Where that cannot be had, the listener only lets time pass.
    """
    if not store.is_postgresql:
        yield _Sleeper()
        return
    import psycopg
    from psycopg import sql

    arguments, options = store.engine.dialect.create_connect_args(store.url)
    try:
        connection = psycopg.connect(*arguments, **options, autocommit=True)
    except psycopg.Error as error:
        log.warning("No connection to hear from the metastore database, asking it instead: %s", error)
        yield _Sleeper()
        return
    with connection:
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        yield _PostgresqlListener(connection)
