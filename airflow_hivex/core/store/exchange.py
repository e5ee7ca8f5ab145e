"""Database transactions in few round trips, for the most frequent calls.

A :class:`Prepared` statement is written in SQLAlchemy Core and compiled once. An :class:`Exchange` sends several
statements at once. On PostgreSQL an exchange sends the statements together with BEGIN and COMMIT through libpq's
pipeline. So a row that many clients wait for, such as a counter, is not locked during network round trips. Each
statement sees all commits before its own start (READ COMMITTED). On SQLite the statements run one after the other.
"""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
import time
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from sqlalchemy import JSON, Boolean, Connection, Dialect, Executable, Insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from airflow_hivex.core.model.texts import check_values

Value: TypeAlias = int | str | bool | None
Rows: TypeAlias = list[tuple[Any, ...]]

OBSERVER = "hivex_observer"
"""The key of an optional :data:`Observer` in a connection's ``info``."""

_numbers = itertools.count(1)
_POSTGRESQL = postgresql.psycopg.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
_SQLITE = sqlite.dialect(paramstyle="named")


class Prepared:
    """A statement of SQLAlchemy Core for an :class:`Exchange`. Calling it with values returns a :class:`Call`.

    Values of parameters and rows are numbers, texts, booleans and None; the value of a JSON column is the text of its
    document. ``skipped_on_sqlite`` is for statements that only lock rows or send notifications.
    """

    def __init__(self, statement: Executable, *, skipped_on_sqlite: bool = False) -> None:
        self._statement = statement
        self.skipped_on_sqlite = skipped_on_sqlite
        self.name = f"hivex_{next(_numbers)}".encode()
        self._postgresql: tuple[bytes, tuple[str, ...]] | None = None
        self._sqlite: str | None = None
        self._reader: _RowReader | None = None
        self.defaults: Mapping[str, Value] = {}
        """A dict from parameter to value, for the parameters of :meth:`for_postgresql` whose values the statement has.
        """
        self._sqlite_defaults: Mapping[str, Value] = {}

    def __call__(self, **values: Value) -> Call:
        """Return the statement with ``values`` for its parameters."""
        return Call(self, values)

    def for_postgresql(self) -> tuple[bytes, tuple[str, ...]]:
        """Return the statement's text with parameters ``$1``, ``$2`` ..., and the parameters' names in this order."""
        if self._postgresql is None:
            compiled, self.defaults = self._compile(_POSTGRESQL)
            self._postgresql = str(compiled).encode(), tuple(compiled.positiontup or ())
        return self._postgresql

    def for_sqlite(self) -> str:
        """Return the statement's text, with parameters as ``:name``."""
        if self._sqlite is None:
            compiled, self._sqlite_defaults = self._compile(_SQLITE)
            self._sqlite = str(compiled)
        return self._sqlite

    def values(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of all parameters of :meth:`for_sqlite`, by name. Given values replace the defaults."""
        return {**self._sqlite_defaults, **given}

    def named(self, rows: Rows) -> list[Any]:
        """Return the rows of an answer as named tuples, with parsed JSON documents and with booleans."""
        if self._reader is None:
            self._reader = _RowReader(self._statement)
        return self._reader(rows)

    def _compile(self, dialect: Dialect) -> tuple[Any, Mapping[str, Value]]:
        compiled: Any = self._statement.compile(dialect=dialect)  # type: ignore[attr-defined]
        required = {bind.key for bind in compiled.binds.values() if bind.required}
        return compiled, {name: value for name, value in compiled.params.items() if name not in required}


class _RowReader:
    """A function from the rows of an answer to named tuples, with parsed JSON documents and with booleans."""

    def __init__(self, statement: Any) -> None:
        columns = statement.exported_columns
        self._row = _row_class(tuple(name if name.isidentifier() else "" for name in columns.keys()))  # noqa: SIM118
        self._decoders = [
            (number, json.loads if isinstance(column.type, JSON) else bool)
            for number, column in enumerate(columns)
            if isinstance(column.type, (JSON, Boolean))
        ]

    def __call__(self, rows: Rows) -> list[Any]:
        named = []
        for row in rows:
            values = list(row)
            for number, decode in self._decoders:
                if values[number] is not None:
                    values[number] = decode(values[number])
            named.append(self._row._make(values))
        return named


@cache
def _row_class(names: tuple[str, ...]) -> Any:
    # A column without a name has its number. As in rows of SQLAlchemy, ``_mapping`` has the values by name.
    named: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    return type("Row", (named,), {"__slots__": (), "_mapping": property(named._asdict)})


@dataclass(frozen=True, slots=True)
class Call:
    """A statement and the values of its parameters."""

    statement: Prepared
    values: Mapping[str, Value]


Check: TypeAlias = Callable[[Rows], object]
"""A function that gets the rows of an answer, and raises an error if the database transaction must not commit."""


class Postponed(NamedTuple):
    """A statement that is sent together with the next statement.

    ``check`` gets the rows of the statement before the commit.
    """

    statement: str | Call
    check: Check | None = None


class Exchange(Protocol):
    """A sender of prepared statements, in a database transaction of its own or in the caller's database transaction."""

    @property
    def is_broken(self) -> bool:
        """Return whether an exception has made the connection unusable."""

    def send(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement. The statements run in order, in one round trip."""

    def finish(self, *calls: Call) -> list[Rows]:
        """Run statements and commit, all in one round trip. Return the rows of each statement.

        An exchange in the caller's database transaction does not commit.
        """


class ExchangeError(Exception):
    """The driver's error, with the facts whether the connection was lost, and whether a commit was running."""

    def __init__(self, original: Exception, *, is_lost: bool, was_committing: bool) -> None:
        super().__init__(original)
        self.original = original
        self.is_lost = is_lost
        self.was_committing = was_committing


def joined(connection: Connection) -> JoinedExchange:
    """Return an exchange, which raises SQLAlchemy's errors, in the database transaction of a SQLAlchemy connection."""
    if not connection.in_transaction():
        connection.begin()
    return JoinedExchange(connection)


def exchange_on(
    connection: PoolProxiedConnection, dialect: Dialect, *, owns: bool = True, reads: bool = False
) -> Exchange:
    """Return an exchange on a connection of the pool.

    With ``owns`` the exchange has a database transaction of its own; otherwise it is a part of the caller's database
    transaction. With ``reads`` the exchange only reads, and does not lock a SQLite file.
    """
    raw: Any = connection.dbapi_connection
    exchange: Exchange
    if dialect.name == "sqlite":
        exchange = SqliteExchange(raw, began=not owns, reads=reads)
    else:
        from airflow_hivex.core.store.pipeline import PostgresqlExchange

        exchange = PostgresqlExchange(raw, owns=owns)
    observer: Observer | None = connection.info.get(OBSERVER)
    return exchange if observer is None else _Observed(exchange, observer)


Observer: TypeAlias = Callable[[Sequence[str]], None]
"""A function that gets the texts of the statements before each round trip."""


class _Observed:
    def __init__(self, exchange: Exchange, observer: Observer) -> None:
        self._exchange = exchange
        self._observer = observer

    @property
    def is_broken(self) -> bool:
        return self._exchange.is_broken

    def send(self, *calls: Call) -> list[Rows]:
        self._observer([_text_of(call) for call in calls])
        return self._exchange.send(*calls)

    def finish(self, *calls: Call) -> list[Rows]:
        self._observer([_text_of(call) for call in calls])
        return self._exchange.finish(*calls)


def _text_of(call: Any) -> str:
    return call if isinstance(call, str) else call.statement.for_sqlite()


class JoinedExchange:
    """An exchange in the database transaction of a SQLAlchemy connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._exchange = exchange_on(connection.connection, connection.dialect, owns=False)

    @property
    def is_broken(self) -> bool:
        """Return whether an exception has made the connection unusable."""
        return self._exchange.is_broken

    def send(self, *calls: Call | str) -> list[Rows]:
        """Return the rows of each statement, in one round trip. Statements as texts are only allowed on PostgreSQL."""
        try:
            return self._exchange.send(*cast(Any, calls))
        except ExchangeError as error:
            if error.is_lost:
                self._connection.invalidate()
            raise as_sqlalchemy(error, self._connection.dialect) from error.original
        except BaseException:
            if self.is_broken:
                self._connection.invalidate()
            raise

    def finish(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, as :meth:`send` does. The caller must commit."""
        return self.send(*calls)

    def later(self, *calls: Call, check: Check | None = None) -> None:
        """Postpone statements as :func:`later` does. ``check`` is called with the rows of each statement."""
        raw: Any = self._connection.connection.dbapi_connection
        if self._connection.dialect.name == "sqlite" or raw.level is None:
            for rows in self.send(*calls):
                if check is not None:
                    check(rows)
        else:
            raw.postponed += [Postponed(call, check) for call in calls]


def together(connection: Connection, *asked: Executable | Call) -> list[list[Any]]:
    """Return the rows of each query as named tuples, all in one round trip on PostgreSQL."""
    exchange = joined(connection)
    if connection.dialect.name == "sqlite":
        return [
            each.statement.named(exchange.send(each)[0]) if isinstance(each, Call) else list(connection.execute(each))
            for each in asked
        ]
    from airflow_hivex.core.store.postgresql import text_of

    answers = exchange.send(*(each if isinstance(each, Call) else text_of(connection, each) for each in asked))
    return [
        each.statement.named(rows) if isinstance(each, Call) else _RowReader(each)(rows)
        for each, rows in zip(asked, answers, strict=True)
    ]


def later(connection: Connection, statement: Executable, values: Any = None, *, check: Check | None = None) -> None:
    """Execute a statement whose result the caller does not need.

    ``check`` gets the rows of the result before the commit. In a database transaction of PostgreSQL the statement is
    sent together with the next statement or COMMIT, without a round trip of its own. An error of the statement is
    raised at that time.
    """
    if isinstance(statement, Insert):
        # Without RETURNING for generated keys.
        statement = statement.inline()
    raw: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite" or raw.level is None:
        result = connection.execute(statement, values)
        if check is not None:
            check([tuple(row) for row in result])
        return
    from airflow_hivex.core.store.postgresql import postponing

    with postponing(connection):
        connection.execute(statement, values)
    if check is not None:
        raw.postponed[-1] = Postponed(raw.postponed[-1].statement, check)


def as_sqlalchemy(error: ExchangeError, dialect: Dialect) -> BaseException:
    """Return the error of SQLAlchemy for an error of an exchange."""
    return DBAPIError.instance(
        None, None, error.original, dialect.loaded_dbapi.Error, connection_invalidated=error.is_lost, dialect=dialect
    )


class SqliteExchange:
    """An exchange that runs statements one after the other.

    Without ``reads``, the first statement locks the file. With ``reads``, all statements see the same snapshot.
    """

    def __init__(self, connection: sqlite3.Connection, *, began: bool = False, reads: bool = False) -> None:
        self._connection = connection
        self._began = began
        self._reads = reads
        self.is_broken = False

    def send(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement."""
        try:
            if not self._began:
                if self._reads:
                    self._connection.execute("BEGIN")
                else:
                    begin_immediate(self._connection)
                self._began = True
            return [self._run(call) for call in calls]
        except sqlite3.Error as error:
            raise ExchangeError(error, is_lost=False, was_committing=False) from error

    def finish(self, *calls: Call) -> list[Rows]:
        """Run the statements and commit. Return the rows of each statement."""
        found = self.send(*calls)
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise ExchangeError(error, is_lost=False, was_committing=True) from error
        return found

    def _run(self, call: Call) -> Rows:
        statement = call.statement
        if statement.skipped_on_sqlite:
            return []
        text = statement.for_sqlite()
        values = statement.values(call.values)
        check_values("A text for the metastore", values.values())
        return self._connection.execute(text, values).fetchall()


BUSY_TIMEOUT_S = 60
# SQLite's own wait sleeps up to 100 ms between two attempts, and the longest waiting client tries least often.
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.0003, 0.003


def begin_immediate(connection: sqlite3.Connection) -> None:
    """Lock the SQLite file for writing. Wait up to ``BUSY_TIMEOUT_S`` seconds for other writers."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
            else:
                return
            # SQLite does not announce a free file; its own pauses grow to 100 ms and let others starve.
            time.sleep(random.uniform(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S))  # noqa: S311 - spreads load
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
