"""Connections to the metastore database, and transactions that are retried as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tenacity
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError

from airflow_hivex.core.errors import InvalidSettingError, Outcome, StoreUnavailableError

T = TypeVar("T")

BUSY_TIMEOUT_S = 60
# Source: PostgreSQL appendix A: serialization_failure, deadlock_detected, lock_not_available.
_TRANSIENT_SQLSTATES = frozenset({"40001", "40P01", "55P03"})
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
        self._fault = fault

    def reach(self, point: str) -> None:
        """Tell the ``fault`` given, if there is one, that a named point is reached; tests let processes die there."""
        if self._fault is not None:
            self._fault(point)

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
        try:
            with self.engine.connect() as own:
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
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            wait=tenacity.wait_random_exponential(multiplier=0.02, max=1),
            stop=tenacity.stop_after_delay(BUSY_TIMEOUT_S),
            reraise=True,
        )
        try:
            for attempt in retrying:
                with attempt:
                    result = self._attempt(work, name)
            return result
        except (OperationalError, InterfaceError) as error:
            raise StoreUnavailableError(self.name, _reason(error)) from error

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
        engine = create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True)
        event.listen(engine, "connect", _prepare_postgresql)
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
    # A plan kept from when a table was empty reads the whole of it after it has grown.
    connection.execute("SET plan_cache_mode = force_custom_plan")
    connection.commit()


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
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _is_transient(error: BaseException) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    original: Any = error.orig
    if getattr(original, "sqlstate", None) in _TRANSIENT_SQLSTATES:
        return True
    return "database is locked" in str(original)


def _reason(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
