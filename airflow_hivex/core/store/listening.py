"""Listeners that receive announcements of other clients of the metastore database."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.outages import Outage
from airflow_hivex.core.store.time_limits import is_pooled

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

_WATCHED_S = 0.1
"""The seconds between two checks of a SQLite file."""
_DEAF_S = 0.5
"""The longest pause in seconds of a listener without a connection."""


class Listener(Protocol):
    """A listener that waits for announcements.

    A wait can end without an announcement, so the caller must check the database after each wait.
    """

    def wait(self, seconds: float) -> list[str] | None:
        """Return the received announcements, or None if announcements can have been missed.

        The list is empty if there was no announcement for ``seconds``.
        """


class _Sleeper:
    """A listener for a database without announcements, which only sleeps."""

    def wait(self, seconds: float) -> list[str] | None:
        # The pause is the contract: SQLite has no event to wait for.
        time.sleep(seconds)
        return None


class _FileWatcher:
    """A listener that wakes when a SQLite file or its write-ahead log changes."""

    def __init__(self, store: Store) -> None:
        self._files = [store.file, store.file.with_name(store.file.name + "-wal")]
        self._seen = self._look()

    def wait(self, seconds: float) -> list[str] | None:
        end = time.monotonic() + seconds
        while (found := self._look()) == self._seen and time.monotonic() < end:
            # Nothing announces a change of the file; checking it takes some microseconds.
            time.sleep(min(_WATCHED_S, max(0.0, end - time.monotonic())))
        if found == self._seen:
            return []
        self._seen = found
        return [str(self._files[0])]

    def _look(self) -> list[tuple[int, int] | None]:
        return [_state_of(file) for file in self._files]


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


class _PostgresqlListener:
    """A listener on a connection of its own, which connects again, with short pauses, after a lost connection."""

    def __init__(self, store: Store, channel: str) -> None:
        self._store = store
        self._channel = channel
        self._connection: psycopg.Connection[Any] | None = None
        self._outage = Outage("The listening for announcements, for which the database is asked instead,")
        self._is_pooled = False

    def listen(self) -> bool:
        """Connect, and return whether the listener now listens. A listener does not listen through a pooler."""
        import psycopg
        from psycopg import sql

        began = time.monotonic()
        try:
            self._connection = self._store.connect_apart()
            self._is_pooled = is_pooled(self._connection)
            if self._is_pooled:
                self._outage.note_success()
                log.info("A pooler is between this process and the metastore database, which is asked twice a second")
                self.close()
                return False
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except psycopg.Error as error:
            self._lose(error, time.monotonic() - began)
            return False
        self._outage.note_success()
        return True

    def wait(self, seconds: float) -> list[str] | None:
        import psycopg

        if self._connection is None:
            # No event reports that the server is back; the caller checks after each pause.
            time.sleep(min(seconds, _DEAF_S))
            # The caller checks for changes announced meanwhile. A pooler passes no announcements on.
            if not self._is_pooled:
                self.listen()
            return None
        try:
            heard = [notify.payload for notify in self._connection.notifies(timeout=seconds, stop_after=1)]
            return heard + [notify.payload for notify in self._connection.notifies(timeout=0)]
        except psycopg.Error as error:
            self._lose(error, None)
            return None

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _lose(self, error: Exception, tried_s: float | None) -> None:
        self._outage.note_failure(self._store.unavailable(error, tried_s))
        self.close()


@contextmanager
def watching(store: Store, channel: str) -> Iterator[Listener]:
    """Yield a listener for announcements on ``channel``. On SQLite the listener wakes when the file has changed."""
    if store.is_postgresql:
        with listening(store, channel) as listener:
            yield listener
    else:
        yield _FileWatcher(store)


@contextmanager
def listening(store: Store, channel: str) -> Iterator[Listener]:
    """Yield a listener for the announcements on ``channel``, with a connection of its own.

    On SQLite, or without a connection, the listener only sleeps.
    """
    if not store.is_postgresql:
        yield _Sleeper()
        return
    listener = _PostgresqlListener(store, channel)
    try:
        listener.listen()
        yield listener
    finally:
        listener.close()
