"""Connections to the metastore database, and transactions that are retried as a whole."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tenacity
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    InvalidatePoolError,
    NoSuchModuleError,
    OperationalError,
)
from sqlalchemy.pool import PoolProxiedConnection

from airflow_hivex.core.errors import InvalidSettingError, Outcome, StoreUnavailableError
from airflow_hivex.core.store.exchange import (
    BUSY_TIMEOUT_S,
    Call,
    Exchange,
    ExchangeError,
    Rows,
    as_sqlalchemy,
    begin_immediate,
    exchange_on,
)

T = TypeVar("T")

# Source: PostgreSQL appendix A: serialization_failure, deadlock_detected, lock_not_available,
# invalid_sql_statement_name (behind a pooler a connection may get another server process).
_TRANSIENT_SQLSTATES = frozenset({"40001", "40P01", "55P03", "26000"})
_WRITING = "hivex_writing"


class OutcomeUnknownError(StoreUnavailableError):
    """The database was lost while it committed: the change may or may not have been applied."""

    code = "STORE_OUTCOME_UNKNOWN"
    outcome = Outcome.UNKNOWN
    retryable = False


class Store:
    """The metastore database as every service uses it.

    ``fault`` is called at named points, none by default.
    ``read`` gives a connection with one consistent snapshot of a statement; ``write`` runs a
    function in one database transaction and repeats it when the database asks for that
    (deadlock, serialization failure, a busy SQLite file), so the function must have no other
    effects.
    """

    def __init__(self, url: str, fault: Callable[[str], None] | None = None) -> None:
        self.url = _parse(url)
        self.engine = _engine(self.url)
        # A statement has its own snapshot anyway, so that a transaction around it is two round trips for nothing.
        # SQLite's readers need one: they may look twice.
        options = {"isolation_level": "AUTOCOMMIT"} if self.is_postgresql else {}
        self._reading = self.engine.execution_options(**options)
        together = {"isolation_level": "REPEATABLE READ"} if self.is_postgresql else {}
        self._reading_together = self.engine.execution_options(**together)
        self._fault = fault

    def reach(self, point: str) -> None:
        """Tell the ``fault`` given, if there is one, that a named point is reached; tests let processes die there."""
        if self._fault is not None:
            self._fault(point)

    @property
    def is_watched(self) -> bool:
        """Whether somebody is told of named points."""
        return self._fault is not None

    @property
    def name(self) -> str:
        """The URL without its password, for messages."""
        return self.url.render_as_string(hide_password=True)

    @property
    def is_postgresql(self) -> bool:
        """Whether the database is PostgreSQL; else it is SQLite."""
        return self.engine.dialect.name == "postgresql"

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

    @contextmanager
    def read(self, connection: Connection | None = None) -> Iterator[Connection]:
        """A connection for reading, or ``connection`` itself when the caller has one already.

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
        """A connection for reading whose statements all see one moment.

        Raises:
            StoreUnavailableError: the database cannot be reached or is too busy.
        """
        with self._connected(self._reading_together) as own:
            yield own

    @contextmanager
    def _connected(self, engine: Engine) -> Iterator[Connection]:
        try:
            with engine.connect() as own:
                yield own
        except (OperationalError, InterfaceError) as error:
            raise StoreUnavailableError(self.name, _reason(error)) from error

    def write(self, work: Callable[[Connection], T], connection: Connection | None = None, *, name: str = "write") -> T:
        """What ``work`` returns, after its changes were committed.

        With ``connection`` the work joins that transaction, whose owner commits it. ``before name``
        and ``after name`` are points for ``fault``.

        Raises:
            StoreUnavailableError: the database cannot be reached or stayed too busy; nothing was applied.
            OutcomeUnknownError: the connection was lost while committing.
        """
        if connection is not None:
            return work(connection)
        return self._repeating(lambda: self._attempt(work, name))

    def exchange(self, work: Callable[[Exchange], T], *, name: str = "write") -> T:
        """:meth:`write` for prepared statements: what ``work`` does in a database transaction of its own.

        It is committed by the exchange's ``finish``, or after ``work``.

        Raises:
            StoreUnavailableError: the database cannot be reached or stayed too busy; nothing was applied.
            OutcomeUnknownError: the connection was lost while committing.
        """
        return self._repeating(lambda: self._attempt_exchange(work, name))

    def _repeating(self, attempt: Callable[[], T]) -> T:
        """What ``attempt`` returns, in the end; most succeed at once."""
        try:
            try:
                return attempt()
            except DBAPIError as error:
                # The first one may have met a connection that had been lost while nobody used it.
                if not _is_transient(error) and not error.connection_invalidated:
                    raise
            return _RETRYING(attempt)
        except (OperationalError, InterfaceError) as error:
            raise StoreUnavailableError(self.name, _reason(error)) from error

    def _attempt_exchange(self, work: Callable[[Exchange], T], name: str) -> T:
        connection = self._raw_connection()
        try:
            exchange = _Committing(self, exchange_on(connection, self.engine.dialect), name)
            try:
                result = work(exchange)
                if not exchange.is_finished:
                    exchange.finish()
            except ExchangeError as error:
                if error.is_lost:
                    connection.invalidate(error.original)
                if error.is_lost and error.was_committing:
                    raise OutcomeUnknownError(self.name, _first_line(error.original)) from error.original
                raise as_sqlalchemy(error, self.engine.dialect) from error.original
            except BaseException:
                if exchange.is_broken:
                    connection.invalidate()
                raise
        finally:
            # What was not committed is undone by this.
            connection.close()
        self.reach(f"after {name}")
        return result

    def _raw_connection(self) -> PoolProxiedConnection:
        try:
            return self.engine.raw_connection()
        except self.engine.dialect.loaded_dbapi.Error as error:
            # Unlike ``connect``, this lets the driver's own errors through.
            lost = ExchangeError(error, is_lost=False, was_committing=False)
            raise as_sqlalchemy(lost, self.engine.dialect) from error

    def _attempt(self, work: Callable[[Connection], T], name: str) -> T:
        with self.engine.connect().execution_options(**{_WRITING: True}) as connection:
            result = work(connection)
            self.reach(f"before {name}")
            try:
                connection.commit()
            except DBAPIError as error:
                if error.connection_invalidated:
                    raise OutcomeUnknownError(self.name, _reason(error)) from error
                raise
            self.reach(f"after {name}")
            return result


class _Committing:
    """An exchange that tells when it is about to commit."""

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
            # The point is between the statements and the commit.
            found = self._exchange.send(*calls)
            self._store.reach(f"before {self._name}")
            self._exchange.finish()
        else:
            found = self._exchange.finish(*calls)
        self.is_finished = True
        return found


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError) as error:
        raise InvalidSettingError("metastore URL", url, "it is not a database URL") from error
    if backend not in ("sqlite", "postgresql"):
        raise InvalidSettingError("metastore URL", url, "the database is SQLite or PostgreSQL")
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.database in (None, "", ":memory:"):
        raise InvalidSettingError("metastore URL", url, "give a file: processes share the metastore")
    return parsed


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        engine = create_engine(url, isolation_level="READ COMMITTED")
        event.listen(engine, "connect", _prepare_postgresql)
        event.listen(engine, "checkout", _check_alive)
        return engine
    folder = Path(str(url.database)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(str(url), f"its folder cannot be made: {error}") from error
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_postgresql(connection: Any, _record: object) -> None:
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


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver's own transaction handling begins too late for DDL and for reads.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock at once: a reader that turns into a writer cannot be made to wait.
    writing = connection.get_execution_options().get(_WRITING)
    if writing:
        raw: Any = connection.connection.dbapi_connection
        begin_immediate(raw)
    else:
        connection.exec_driver_sql("BEGIN")


def _is_transient(error: BaseException) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    original: Any = error.orig
    if getattr(original, "sqlstate", None) in _TRANSIENT_SQLSTATES:
        return True
    return "database is locked" in str(original)


def _reason(error: DBAPIError) -> str:
    return _first_line(error.orig)


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]


_RETRYING = tenacity.Retrying(
    retry=tenacity.retry_if_exception(_is_transient),
    wait=tenacity.wait_random_exponential(multiplier=0.02, max=1),
    stop=tenacity.stop_after_delay(BUSY_TIMEOUT_S),
    reraise=True,
)
