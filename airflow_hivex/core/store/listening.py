"""The announcements of other clients of a PostgreSQL metastore."""

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
"""The seconds between two checks of a file."""
_DEAF_S = 0.5
"""The seconds between two checks without a connection."""


class Listener(Protocol):
    """A listener that waits for announcements. It may wake without one, so the caller checks the database."""

    def wait(self, seconds: float) -> list[str] | None:
        """Return the announcements, an empty list after ``seconds`` without one, or None if they cannot be known."""


class _Sleeper:
    """A listener for a database that announces nothing: it only sleeps, and the caller checks again after the pause."""

    def wait(self, seconds: float) -> list[str] | None:
        # The pause is the contract: SQLite has no event to wait for.
        time.sleep(seconds)
        return None


class _FileWatcher:
    """A listener that watches a SQLite file, and wakes when the file or its log is written to."""

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
    """A listener on a connection of its own. If the connection is lost, it tries again after short pauses."""

    def __init__(self, store: Store, channel: str) -> None:
        self._store = store
        self._channel = channel
        self._connection: psycopg.Connection[Any] | None = None
        self._outage = Outage("The listening for announcements, for which the database is asked instead,")
        self._is_pooled = False

    def listen(self) -> bool:
        """Begin to listen, and return whether that succeeded."""
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
    """Listen as :func:`listening`, and on SQLite wake after another connection wrote to the file."""
    if store.is_postgresql:
        with listening(store, channel) as listener:
            yield listener
    else:
        yield _FileWatcher(store)


@contextmanager
def listening(store: Store, channel: str) -> Iterator[Listener]:
    """Receive the announcements on ``channel`` while the block runs, on a connection of its own.

    Without such a connection the listener only sleeps.
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
