"""The time of the metastore database, by which all clients judge who is late."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError

from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.store.engine import Store

_SERVER_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_LONGEST_S = 600
# The kind of steady clock that goes on while the machine sleeps, where there is one.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class DatabaseClock:
    """The database's current time in milliseconds since the epoch, without a round trip of its own.

    The time of a PostgreSQL server is read on each new connection, and again on one that is taken from the pool when
    the last reading is ten minutes old. In between, the machine's steady clock, which no user can set, carries it on.
    So the wall clock of a client decides nothing. The clients of an SQLite file share one machine and its clock.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading: tuple[int, int] | None = None
        """A moment by the steady clock, and the server's time then, both in microseconds."""
        if store.is_postgresql:
            event.listen(store.engine, "connect", self._read)
            event.listen(store.engine, "checkout", self._read_again)

    def __call__(self) -> int:
        """Return the current time.

        Raises:
            StoreUnavailableError: the server has not been reached yet, and cannot be.
        """
        if not self._store.is_postgresql:
            return system_clock()
        if self._reading is None:
            with self._store.read():
                pass
        assert self._reading is not None
        moment, server_time = self._reading
        return (server_time + _steady_us() - moment) // 1000

    def _read(self, connection: Any, _record: object) -> None:
        before = _steady_us()
        # Outside of a transaction, which a connection from the pool must not be left in.
        autocommit, connection.autocommit = connection.autocommit, True
        try:
            (server_time,) = connection.execute(_SERVER_TIME).fetchone()
        finally:
            connection.autocommit = autocommit
        after = _steady_us()
        self._reading = ((before + after) // 2, int(server_time))

    def _read_again(self, connection: Any, record: object, _proxy: object) -> None:
        if self._reading is None or _steady_us() - self._reading[0] > _LONGEST_S * 1_000_000:
            try:
                self._read(connection, record)
            except self._store.engine.dialect.loaded_dbapi.OperationalError as error:
                # The pool makes another connection.
                raise DisconnectionError from error


def _steady_us() -> int:
    return time.clock_gettime_ns(_STEADY) // 1000
