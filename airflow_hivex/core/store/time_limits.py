"""The time limits of connections to PostgreSQL, with which a vanished client does not keep rows locked.

A client whose host fails does not close its connection. Without limits, the client's rows stay locked until TCP finds
that the host does not answer, by default after two hours.

Queries set the limits, since pgbouncer refuses ``options`` of a new connection. Each transaction sets its own limits,
because pgbouncer can give each transaction another connection to the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow_hivex.core.settings import Settings

if TYPE_CHECKING:
    import psycopg

LOCK_SLICE_S = 10
"""The longest wait of one attempt for a locked row, in seconds. The next attempt also asks which client has the lock.
"""

# A value of the URL's `options`, of ALTER ROLE or of ALTER DATABASE is the user's own and stays. The first version with
# each parameter is 12 (tcp_user_timeout) and 14 (client_connection_check_interval); the latter works on Linux only.
_SET = """
SELECT name, setting, CASE
    WHEN source IN ('client', 'user', 'database', 'database user') THEN true
    WHEN is_of_session AND (name <> 'client_connection_check_interval' OR version() LIKE '%%linux%%')
        THEN set_config(name, value, false) IS NULL
    ELSE false END, pg_backend_pid(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM pg_settings JOIN unnest(%s::text[], %s::text[], %s::boolean[]) AS own (name, value, is_of_session) USING (name)
"""


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a pooler such as pgbouncer is between a connection and the server, with one round trip."""
    (process,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (None,)
    return _is_other(connection, process)


def _is_other(connection: psycopg.Connection[Any], process: int | None) -> bool:
    # A pooler has a number of its own for each connection, by which the client would cancel a query.
    return process != connection.pgconn.backend_pid


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The time limits of the connections of a process.

    ``silence_s`` is the longest time in seconds without an answer of the server or client, and the longest pause within
    a transaction. ``locks_s`` is the longest wait for locked rows.
    """

    silence_s: int
    locks_s: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits that the settings give."""
        return cls(settings["hivex.database.timeout"], settings["hivex.database.lock.timeout"])

    def of_client(self) -> dict[str, str]:
        """Return the parameters of libpq with which the client detects a vanished server."""
        idle, interval, count, timeout = self._keepalives()
        return {
            "keepalives_idle": idle,
            "keepalives_interval": interval,
            "keepalives_count": count,
            "tcp_user_timeout": timeout,
        }

    def set_on(self, connection: psycopg.Connection[Any]) -> tuple[tuple[tuple[str, str], ...], bool, int]:
        """Set the limits of a new connection, outside of a database transaction. The call takes one round trip.

        Return a triple: the limits for the connection's transactions as pairs (name, milliseconds), whether the
        connection goes through a pooler such as pgbouncer, and the server's time in microseconds. A connection through
        a pooler has no prepared statements and no announcements.
        """
        idle, interval, count, timeout = self._keepalives()
        of_session = {
            "tcp_keepalives_idle": idle,
            "tcp_keepalives_interval": interval,
            "tcp_keepalives_count": count,
            "tcp_user_timeout": timeout,
            # A server process that waits for a lock looks whether its client is still there.
            "client_connection_check_interval": str(self.silence_s * 1000 // 3),
        }
        of_transaction = {
            "lock_timeout": str(min(LOCK_SLICE_S, self.locks_s) * 1000),
            "idle_in_transaction_session_timeout": str(self.silence_s * 1000),
        }
        own = {**of_session, **of_transaction}
        arguments = list(own), list(own.values()), [name in of_session for name in own]
        found = connection.execute(_SET, arguments).fetchall()
        of_user = {name: setting for name, setting, is_of_user, *_ in found if is_of_user}
        process, server_time_us = found[0][3:]
        limits = tuple((name, of_user.get(name, value)) for name, value in of_transaction.items())
        return limits, _is_other(connection, process), int(server_time_us)

    def _keepalives(self) -> tuple[str, str, str, str]:
        """Return the settings of TCP keepalive: idle time and interval in seconds, number of probes, time-out in ms."""
        return str(max(1, self.silence_s // 3)), str(max(1, self.silence_s // 6)), "4", str(self.silence_s * 1000)
