"""The metastore database: its connections, database transactions with retries, and the database's clock."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import tenacity
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import Pool, PoolProxiedConnection

from airflow_hivex.core.clock import steady_us, system_clock
from airflow_hivex.core.errors import HivexError, Outcome, StoreLockedError, StoreRefusedError, StoreUnavailableError
from airflow_hivex.core.errors.secrets import hide_in_database_url, remember, secrets_of_uri
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.connecting import WRITING, connect_apart, damage, new_engine, parse_url
from airflow_hivex.core.store.exchange import (
    BUSY_TIMEOUT_S,
    Call,
    Exchange,
    ExchangeError,
    Rows,
    as_sqlalchemy,
    exchange_on,
    joined,
)
from airflow_hivex.core.store.lock_waits import LockWait, is_lock_timeout
from airflow_hivex.core.store.outages import describe_outage
from airflow_hivex.core.store.time_limits import TimeLimits

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

# Source: PostgreSQL appendix A: serialization_failure, deadlock_detected, lock_not_available,
# invalid_sql_statement_name (behind a pooler a connection may get another server process),
# read_only_sql_transaction (a standby that has the address of a lost server, and is not promoted yet).
_TRANSIENT_SQLSTATES = frozenset({"40001", "40P01", "55P03", "26000", "25006"})
# Source: the same appendix: foreign_key_violation, unique_violation.
_OVERTAKEN_SQLSTATES = frozenset({"23503", "23505"})
_LOOKS = 5
# Source: the same appendix: the class of program_limit_exceeded, such as a text too long for an index.
_LIMITS = "54"

ENGINE_LISTENERS: list[Callable[[Engine], None]] = []
"""Functions that are called with each new engine of a store, before the first use of the engine."""


class OutcomeUnknownError(StoreUnavailableError):
    """The connection was lost during a commit. It is not known whether the change was applied."""

    code = "STORE_OUTCOME_UNKNOWN"
    outcome = Outcome.UNKNOWN
    retryable = False


class Store:
    """The metastore database that all services share.

    ``read`` yields a connection on which each query sees a consistent snapshot. ``write`` runs a function in one
    database transaction. The function is repeated after a deadlock, a serialization failure or a busy SQLite file, so
    the function must have no effects outside of the database. ``fault``, if given, is called at named points. Without
    ``create`` a missing SQLite file is not created: the store shows an empty database in its place.
    """

    def __init__(
        self,
        url: str,
        fault: Callable[[str], None] | None = None,
        *,
        settings: Settings | None = None,
        create: bool = True,
    ) -> None:
        self.url = parse_url(url)
        self.name = hide_in_database_url(self.url.render_as_string(hide_password=True))
        """The URL without secrets, for messages."""
        remember([self.url.password, *secrets_of_uri(self.url.render_as_string(hide_password=False))])
        self._limits = TimeLimits.of(settings or Settings())
        self.engine = new_engine(self.url, self._limits, create=create)
        self._patience_s = self._limits.locks_s if self.is_postgresql else BUSY_TIMEOUT_S
        for listener in ENGINE_LISTENERS:
            listener(self.engine)
        # A statement has its own snapshot: a transaction around it would only cost two round trips.
        # SQLite's readers need a transaction: they may run two statements.
        options = {"isolation_level": "AUTOCOMMIT"} if self.is_postgresql else {}
        self._reading = self.engine.execution_options(**options)
        together = {"isolation_level": "REPEATABLE READ"} if self.is_postgresql else {}
        self._reading_together = self.engine.execution_options(**together)
        self._fault = fault
        _stores.add(self)

    def reach(self, point: str) -> None:
        """Call ``fault``, if given, with the name of the reached point."""
        if self._fault is not None:
            self._fault(point)

    @property
    def is_watched(self) -> bool:
        """Return whether a ``fault`` was given."""
        return self._fault is not None

    @property
    def is_postgresql(self) -> bool:
        """Return True for PostgreSQL and False for SQLite."""
        return self.engine.dialect.name == "postgresql"

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def connect_apart(self) -> psycopg.Connection[Any]:
        """Return a connection to PostgreSQL outside of the pool, which commits each query at once.

        Raises:
            psycopg.Error: the server cannot be reached.
        """
        return connect_apart(self.engine, self._limits)

    def leave_to_parent(self) -> None:
        """Stop using the connections of the parent process after a fork. The connections stay open."""
        # The parent shares the open connections: their use or close here would break them there.
        # They are kept without use, because a forgotten connection is closed.
        _pools_of_parents.append(self.engine.pool)
        self.engine.dispose(close=False)

    @property
    def file(self) -> Path:
        """Return the file of a SQLite database."""
        return Path(str(self.url.database))

    def enable_write_ahead_log(self) -> None:
        """Let clients read a SQLite file while other clients write. The mode is stored in the file.

        Raises:
            StoreUnavailableError: other processes kept the file busy.
        """
        if self.is_postgresql:
            return

        def enable() -> None:
            with self.engine.connect() as connection:
                raw: Any = connection.connection.dbapi_connection
                try:
                    raw.execute("PRAGMA journal_mode = WAL")
                except sqlite3.Error as error:
                    lost = ExchangeError(error, is_lost=False, was_committing=False)
                    raise as_sqlalchemy(lost, self.engine.dialect) from error

        self._repeating(enable)

    @contextmanager
    def read(self, connection: Connection | None = None) -> Iterator[Connection]:
        """Yield a connection for reading, or ``connection`` itself if the caller has one.

        Raises:
            StoreUnavailableError: the database cannot be reached or is too busy.
        """
        if connection is not None:
            yield connection
            return
        with self._connected(self._reading) as own:
            yield own

    @contextmanager
    def read_together(self) -> Iterator[Connection]:
        """Yield a connection for reading on which all queries see the same snapshot.

        Raises:
            StoreUnavailableError: the database cannot be reached or is too busy.
        """
        with self._connected(self._reading_together) as own:
            yield own

    @contextmanager
    def _connected(self, engine: Engine) -> Iterator[Connection]:
        with self._own_errors(), engine.connect() as own, _left_clean(own):
            yield own

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Turn errors of SQLAlchemy and of the driver in the block into errors of this package."""
        driver: Any = self.engine.dialect.loaded_dbapi
        began = time.monotonic()
        try:
            yield
        except (SQLAlchemyError, driver.Error) as error:
            original: Any = error.orig if isinstance(error, StatementError) else error
            if isinstance(original, HivexError):
                # Raised for a value that was refused before it reached the driver.
                raise original from None
            damaged = damage(error, self.name) if isinstance(error, DatabaseError) else None
            if damaged is not None:
                raise damaged from original
            is_limit = (getattr(original, "sqlstate", None) or "").startswith(_LIMITS)
            unavailable = (OperationalError, InterfaceError, driver.OperationalError, driver.InterfaceError)
            if not is_limit and isinstance(error, (*unavailable, PoolTimeoutError)):
                raise self.unavailable(error, time.monotonic() - began) from error
            raise StoreRefusedError(self.name, _first_line(original)) from error
        except (OverflowError, UnicodeError) as error:
            # Raised by the driver for a value that it cannot send.
            raise StoreRefusedError(self.name, _first_line(error)) from error

    def unavailable(self, error: BaseException, tried_s: float | None) -> StoreUnavailableError:
        """Return this package's error for an error of the driver.

        ``tried_s`` is the time that the attempt to connect took, or None if an open connection was lost.
        """
        original = error.orig if isinstance(error, DBAPIError) else error
        # An answer of the server has a state; a failed or lost connection has none.
        has_answered = getattr(original, "sqlstate", None) is not None
        is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
        if not self.is_postgresql or isinstance(error, PoolTimeoutError) or (has_answered and not is_lost):
            return StoreUnavailableError(self.name, _first_line(original))
        return StoreUnavailableError(self.name, describe_outage(self.url, str(original), None if is_lost else tried_s))

    def _lost(self, error: BaseException | None) -> str:
        """Return the text for an error that explains why the outcome of a commit is unknown."""
        return f"the connection was lost during a commit ({_first_line(error)})"

    def write(self, work: Callable[[Connection], T], connection: Connection | None = None, *, name: str = "write") -> T:
        """Run ``work``, commit the changes that ``work`` makes, and return the result of ``work``.

        With ``connection``, ``work`` runs in the database transaction of this connection, and the caller commits. The
        points ``before name`` and ``after name``, around the commit, are reported to ``fault``.

        Raises:
            StoreUnavailableError: the database cannot be reached or stayed too busy; nothing was applied.
            StoreLockedError: other clients have kept rows locked for too long; nothing was applied.
            StoreRefusedError: the database refuses a value or a change; nothing was applied.
            OutcomeUnknownError: the connection was lost while committing.
        """
        if connection is not None:
            return work(connection)
        return self._repeating(lambda: self._attempt(work, name))

    def write_one(self, work: Callable[[Connection], T], *, name: str = "write") -> T:
        """Run ``work``, which makes one change, and return the result of ``work``.

        The change must be the first query of ``work``, and safe to repeat. On PostgreSQL the change is sent together
        with BEGIN and COMMIT, in one round trip.

        Raises:
            StoreUnavailableError: the database cannot be reached or stayed too busy.
            StoreRefusedError: the database refuses a value or a change; nothing was applied.
        """
        if not self.is_postgresql or self.is_watched:
            return self.write(work, name=name)
        return self._repeating(lambda: self._attempt(work, name, is_one=True))

    def exchange(self, work: Callable[[Exchange], T], *, name: str = "write") -> T:
        """Return the result of ``work``, which runs prepared statements in a database transaction of its own.

        After an error, ``work`` is repeated as in :meth:`write`. If ``work`` does not commit with the exchange's
        ``finish``, this method commits after ``work``.

        Raises:
            StoreUnavailableError: the database cannot be reached or stayed too busy; nothing was applied.
            StoreLockedError: other clients have kept rows locked for too long; nothing was applied.
            StoreRefusedError: the database refuses a value or a change; nothing was applied.
            OutcomeUnknownError: the connection was lost while committing.
        """
        return self._repeating(lambda: self._attempt_exchange(work, name))

    def ask(self, *calls: Call, connection: Connection | None = None) -> list[list[Any]]:
        """Return the rows of each query, in one round trip. The queries only read, and run in order.

        A given ``connection`` runs the queries. On SQLite all queries see the same snapshot. On PostgreSQL each query
        sees the commits before its own start.

        Raises:
            StoreUnavailableError: the database cannot be reached or is too busy.
        """
        if connection is not None:
            answers = joined(connection).send(*calls)
        else:
            answers = self._repeating(lambda: self._attempt_to_read(calls))
        return [call.statement.named(rows) for call, rows in zip(calls, answers, strict=True)]

    def _repeating(self, attempt: Callable[[], T]) -> T:
        """Return the result of ``attempt``, after retries if necessary."""
        with self._own_errors():
            began = time.monotonic()
            try:
                return attempt()
            except DBAPIError as error:
                # The first attempt may have used a connection that had been lost while idle. Or another client has
                # inserted the same row meanwhile: the next attempt sees that row.
                if not (_is_transient(error) or error.connection_invalidated or _is_overtaken(error)):
                    raise
                wait = LockWait(attempt, self.connect_apart, self.name, error)
            retrying = _RETRYING.copy(stop=tenacity.stop_after_delay(self._patience_s - (time.monotonic() - began)))
            try:
                return _LOOKING_AGAIN(lambda: retrying(wait))
            except DBAPIError as error:
                if not is_lock_timeout(error):
                    raise
                holders = wait.holders or "the database does not name them"
                waited = f"for {time.monotonic() - began:.0f} s it has waited for locks of other clients: {holders}"
                raise StoreLockedError(self.name, waited) from error

    def _attempt_exchange(self, work: Callable[[Exchange], T], name: str) -> T:
        connection = self._raw_connection()
        exchange = _Committing(self, exchange_on(connection, self.engine.dialect), name)
        try:
            result = work(exchange)
            if not exchange.is_finished:
                exchange.finish()
        except ExchangeError as error:
            if error.is_lost:
                connection.invalidate(error.original)
            if error.is_lost and error.was_committing:
                raise OutcomeUnknownError(self.name, self._lost(error.original)) from error.original
            raise as_sqlalchemy(error, self.engine.dialect) from error.original
        finally:
            _give_back(connection, exchange)
        self.reach(f"after {name}")
        return result

    def _attempt_to_read(self, calls: Sequence[Call]) -> list[Rows]:
        connection = self._raw_connection()
        exchange = exchange_on(connection, self.engine.dialect, reads=True)
        try:
            return exchange.finish(*calls)
        except ExchangeError as error:
            if error.is_lost:
                connection.invalidate(error.original)
            raise as_sqlalchemy(error, self.engine.dialect) from error.original
        finally:
            _give_back(connection, exchange)

    def _raw_connection(self) -> PoolProxiedConnection:
        try:
            return self.engine.raw_connection()
        except self.engine.dialect.loaded_dbapi.Error as error:
            # Unlike ``connect``, this raises the driver's own errors.
            lost = ExchangeError(error, is_lost=False, was_committing=False)
            raise as_sqlalchemy(lost, self.engine.dialect) from error

    def _attempt(self, work: Callable[[Connection], T], name: str, *, is_one: bool = False) -> T:
        with (
            self.engine.connect().execution_options(**{WRITING: True}) as connection,
            _left_clean(connection),
        ):
            if is_one:
                raw: Any = connection.connection.dbapi_connection
                raw.is_last = True
            result = work(connection)
            if self.is_watched:
                # The point lies between the statements and the commit.
                joined(connection).send()
                self.reach(f"before {name}")
            try:
                connection.commit()
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise OutcomeUnknownError(self.name, self._lost(error.orig)) from error
                raise
            self.reach(f"after {name}")
            return result


@contextmanager
def _left_clean(connection: Connection) -> Iterator[None]:
    """Roll back after an error, and close the connection after an interrupt such as KeyboardInterrupt.

    SQLAlchemy does not roll back after a COMMIT that failed or did not end, and the connection would return to the pool
    with an open transaction.
    """
    try:
        yield
    except BaseException as error:
        if not connection.closed and not connection.invalidated:
            # A connection that cannot roll back is lost, and its server has rolled back; raise the caller's error.
            with suppress(Exception):
                raw: Any = connection.connection.dbapi_connection
                raw.rollback()
            if not isinstance(error, Exception):
                # A cursor that the traceback keeps would block the next COMMIT on SQLite.
                connection.invalidate()
        raise


def _give_back(connection: PoolProxiedConnection, exchange: Exchange) -> None:
    """Undo all uncommitted changes, and give the connection back to the pool, or close an unusable connection."""
    if connection.is_valid and exchange.is_broken:
        # Broken by an exception, or ended by the server after the commit.
        connection.invalidate()
    connection.close()


_stores: weakref.WeakSet[Store] = weakref.WeakSet()
_pools_of_parents: list[Pool] = []


def _leave_to_parent() -> None:
    for store in list(_stores):
        store.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


class _Committing:
    """An exchange that calls the store's ``fault``, if given, between the statements and the commit of the exchange."""

    def __init__(self, store: Store, exchange: Exchange, name: str) -> None:
        self._store = store
        self._exchange = exchange
        self._name = name
        self.is_finished = False

    @property
    def is_broken(self) -> bool:
        return self._exchange.is_broken

    def send(self, *calls: Call) -> list[Rows]:
        return self._exchange.send(*calls)

    def finish(self, *calls: Call) -> list[Rows]:
        if self._store.is_watched:
            # The point lies between the statements and the commit.
            found = self._exchange.send(*calls)
            self._store.reach(f"before {self._name}")
            self._exchange.finish()
        else:
            found = self._exchange.finish(*calls)
        self.is_finished = True
        return found


def _is_transient(error: BaseException) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    original: Any = error.orig
    if getattr(original, "sqlstate", None) in _TRANSIENT_SQLSTATES:
        return True
    return "database is locked" in str(original)


def _is_overtaken(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and getattr(error.orig, "sqlstate", None) in _OVERTAKEN_SQLSTATES


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]


_RETRYING = tenacity.Retrying(
    retry=tenacity.retry_if_exception(_is_transient),
    wait=tenacity.wait_random_exponential(multiplier=0.02, max=1),
    reraise=True,
)

_LOOKING_AGAIN = tenacity.Retrying(
    retry=tenacity.retry_if_exception(_is_overtaken), stop=tenacity.stop_after_attempt(_LOOKS), reraise=True
)


class JoinsTransactions:
    """A service that makes each change in a database transaction of its own.

    After :meth:`joining` the changes are part of the caller's database transaction.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection: Connection | None = None

    def joining(self, connection: Connection) -> Self:
        """Return a copy of the service for the caller's database transaction, which the caller must commit."""
        joined = copy(self)
        joined._connection = connection  # noqa: SLF001 - its own
        return joined

    def _read(self) -> AbstractContextManager[Connection]:
        return self._store.read(self._connection)

    def _write(self, work: Callable[[Connection], T], name: str = "write") -> T:
        return self._store.write(work, self._connection, name=name)

    def _write_one(self, work: Callable[[Connection], T], name: str = "write") -> T:
        if self._connection is not None:
            return work(self._connection)
        return self._store.write_one(work, name=name)


_SERVER_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_LONGEST_S = 600


class DatabaseClock:
    """A clock that returns the database's time in milliseconds since the epoch, mostly without a round trip.

    The server time of PostgreSQL is read on each new connection, and again when the last reading is ten minutes old.
    Between two readings the machine's monotonic clock advances the time, so the wall clock of a client has no effect.
    The clients of a SQLite file share one machine, and use the clock of this machine.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading: tuple[int, int] | None = None
        """The last reading: the monotonic clock and the server time at the same moment, in microseconds."""
        if store.is_postgresql:
            event.listen(store.engine, "connect", self._note)
            event.listen(store.engine, "checkout", self._read_again)

    def __call__(self) -> int:
        """Return the current time.

        Raises:
            StoreUnavailableError: the server has not been reached yet, and cannot be reached now.
        """
        if not self._store.is_postgresql:
            return system_clock()
        if self._reading is None:
            with self._store.read():
                pass
        assert self._reading is not None
        moment, server_time = self._reading
        return (server_time + steady_us() - moment) // 1000

    def _note(self, connection: Any, _record: object) -> None:
        # A new connection has read the clock together with its time limits.
        self._reading = connection.read_clock

    def _read(self, connection: Any) -> None:
        before = steady_us()
        # A connection in the pool must not be within a transaction.
        (server_time,) = connection.fetch_alone(_SERVER_TIME)
        after = steady_us()
        self._reading = ((before + after) // 2, int(server_time))

    def _read_again(self, connection: Any, _record: object, _proxy: object) -> None:
        if self._reading is None or steady_us() - self._reading[0] > _LONGEST_S * 1_000_000:
            try:
                self._read(connection)
            except self._store.engine.dialect.loaded_dbapi.OperationalError as error:
                # The pool makes another connection.
                raise DisconnectionError from error
