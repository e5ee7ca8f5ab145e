"""Waits of a database transaction for locks of other clients. The log and the error name these clients."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

log = logging.getLogger(__name__)

_LOCK_NOT_AVAILABLE = "55P03"
_ASKED_AFTER_S = 1.0
"""The seconds of waiting before each query that finds the clients with the lock."""

# Connections of one process have the same name, so that no thread need know the number of its server process, which
# pgbouncer hides. A client that waits itself is left out: the one at the end of its chain is the cause.
_HOLDERS = """
WITH RECURSIVE holder (pid) AS (
    SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
        AND application_name = current_setting('application_name')
    UNION SELECT unnest(pg_blocking_pids(pid)) FROM holder
)
SELECT pid, application_name, host(client_addr), usename, state,
    extract(epoch FROM clock_timestamp() - xact_start)::int
FROM holder LEFT JOIN pg_stat_activity USING (pid) WHERE cardinality(pg_blocking_pids(pid)) = 0 ORDER BY pid
"""


class LockWait(Generic[T]):
    """A change that is attempted repeatedly.

    If an attempt failed because it waited too long for a lock, the next attempt also asks which clients have the lock.
    """

    def __init__(
        self, attempt: Callable[[], T], connect: Callable[[], psycopg.Connection[Any]], database: str, first: DBAPIError
    ) -> None:
        """Create the wait after a first attempt, which has failed with the error ``first``.

        ``attempt`` is the change. ``connect`` returns a connection for the queries that find the clients with the lock.
        ``database`` is the name of the database in the log.
        """
        self._attempt = attempt
        self._connect = connect
        self._database = database
        self._is_waiting = is_lock_timeout(first)
        self.holders = ""
        """The clients that have the locks, as a text for messages, which is empty if the clients are unknown."""

    def __call__(self) -> T:
        """Attempt the change and return its result."""
        with self._asking() if self._is_waiting else nullcontext():
            try:
                return self._attempt()
            except DBAPIError as error:
                self._is_waiting = is_lock_timeout(error)
                raise

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Ask the database which clients have the locks, while the block waits."""
        ended = threading.Event()
        threading.Thread(target=self._ask, args=(ended,), name="hivex-lock-wait", daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _ask(self, ended: threading.Event) -> None:
        if ended.wait(_ASKED_AFTER_S):
            return
        import psycopg

        try:
            with self._connect() as connection:
                while True:
                    self._note([describe_holder(*row) for row in connection.execute(_HOLDERS).fetchall()])
                    if ended.wait(_ASKED_AFTER_S):
                        return
        except psycopg.Error as error:
            # The change itself reports a database that cannot be reached.
            log.debug("Metastore database %s does not name the clients that have locks: %s", self._database, error)

    def _note(self, holders: list[str]) -> None:
        if not holders:
            return
        if not self.holders:
            log.warning(
                "A change of metastore database %s waits for locks of other clients: %s.",
                self._database,
                " and ".join(holders),
            )
        self.holders = " and ".join(holders)


def is_lock_timeout(error: DBAPIError) -> bool:
    """Return whether an attempt waited for a lock until its time limit."""
    return getattr(error.orig, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def describe_holder(
    process: int, application: str | None, address: str | None, user: str | None, state: str | None, age_s: int | None
) -> str:
    """Return a description of a client of PostgreSQL for messages.

    An argument is None if the user of this connection is not allowed to see the value in PostgreSQL.
    """
    if not process:
        return "a prepared transaction"
    facts = (
        f"application {application!r}" if application else "",
        f"address {address}" if address else "",
        f"user {user}" if user else "",
        f"{state}, for {age_s} s in its transaction" if state and age_s is not None else "",
    )
    known = ", ".join(filter(None, facts))
    return f"server process {process}" + (f" ({known})" if known else "")
