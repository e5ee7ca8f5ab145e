"""Connections of SQLAlchemy to PostgreSQL that need few round trips.

BEGIN is sent together with the first statement of a database transaction. A change whose result is not needed is sent
together with the next statement or with COMMIT. Facts that the server reports when it accepts a connection, such as the
version, are not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import ClientCursor
from psycopg.adapt import Transformer
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Executable
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from airflow_hivex.core.clock import steady_us
from airflow_hivex.core.store.exchange import Call, ExchangeError, Postponed

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from airflow_hivex.core.store.pipeline import PostgresqlExchange
    from airflow_hivex.core.store.time_limits import TimeLimits

DRIVER = "postgresql+hivex"
"""The name of the dialect in URLs of SQLAlchemy."""

WRITERS = "READ COMMITTED"
"""The isolation level of database transactions that write. Only transactions of this level have time limits."""

_MOST_POSTPONED = 100
"""The most rows of a postponed ``executemany``. For more rows, the driver's own ``executemany`` is faster."""


class PostgresqlConnection(psycopg.Connection[Any]):
    """A connection that sends BEGIN and the postponed statements together with the next statement."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.level: str | None = None
        """The isolation level of database transactions, or None if each statement is a transaction of its own."""
        self.is_pooled = False
        """The fact that a pooler such as pgbouncer is between this connection and the server."""
        self.read_clock: tuple[int, int] | None = None
        """The monotonic clock and the server's time at the moment when the limits were set, in microseconds."""
        self._limits: tuple[tuple[str, str], ...] = ()
        self.postponed: list[Postponed] = []
        """Statements that run before the next statement, in this order."""
        self.is_postponing = False
        """The mode in which cursors postpone their statements."""
        self.is_last = False
        """The mode in which the next statement is the last of the transaction, and is sent together with COMMIT."""
        self.prepared: set[bytes] = set()
        """The names of the statements that exchanges have prepared on this connection."""
        self.encoding: str = self.info.encoding

    def limit(self, limits: TimeLimits) -> None:
        """Set the time limits of this connection and of its transactions, and read the clock, in one round trip."""
        level, self.level = self.level, None
        before = steady_us()
        try:
            self._limits, self.is_pooled, server_time_us = limits.set_on(self)
            self.read_clock = ((before + steady_us()) // 2, server_time_us)
        finally:
            self.level = level

    @property
    def limits_of_transaction(self) -> tuple[tuple[str, str], ...]:
        """Return the time limits of the next database transaction as pairs (name, value). Only writers have limits."""
        return self._limits if self.level == WRITERS else ()

    @property
    def begin(self) -> Sequence[str]:
        """Return the statements that begin a database transaction: BEGIN and the time limits of a writer.

        The result is empty if each statement is a transaction of its own.
        """
        return () if self.level is None else _begin(self.level, self.limits_of_transaction)

    @property
    def begins(self) -> bool:
        """Return whether the next statement begins a database transaction."""
        return self.level is not None and self.pgconn.transaction_status == TransactionStatus.IDLE

    def commit(self) -> None:
        """Run the postponed statements and commit, in one round trip, or in two if the commit waits for a check."""
        if any(each.check for each in self.postponed):
            self.run_postponed()
        if self.postponed:
            with self._exchange() as exchange:
                exchange.finish()
        self.is_last = False
        super().commit()

    def rollback(self) -> None:
        """Undo all changes, and forget the postponed statements."""
        self.postponed.clear()
        self.is_last = False
        super().rollback()

    def fetch_alone(self, query: str) -> Any:
        """Return the first row of a query that runs outside of a database transaction."""
        return psycopg.Cursor(self).execute(query).fetchone()

    def run_postponed(self) -> None:
        """Run the postponed statements now, in one round trip, if there are any."""
        if self.postponed:
            with self._exchange() as exchange:
                exchange.send()

    def answer(self, text: str, *, commit: bool) -> PGresult:
        """Run a statement after the postponed statements, in one round trip, and return the answer to the statement."""
        with self._exchange() as exchange:
            return exchange.answer(text, commit=commit)

    @contextmanager
    def _exchange(self) -> Iterator[PostgresqlExchange]:
        from airflow_hivex.core.store.pipeline import PostgresqlExchange

        try:
            yield PostgresqlExchange(self, owns=False)
        except ExchangeError as error:
            if error.is_lost:
                self.close()
            raise error.original from None


@cache
def _begin(level: str, limits: tuple[tuple[str, str], ...]) -> Sequence[str]:
    settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in limits)
    return f"BEGIN ISOLATION LEVEL {level}", *([f"SELECT {settings}"] if settings else [])


class _Cursor(psycopg.Cursor[Any]):
    """A cursor that sends BEGIN and the postponed statements together with its own statement."""

    _answer: PGresult | None = None
    """The answer to the last statement if an exchange has sent it, else None."""
    _rows: Iterator[tuple[Any, ...]]

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        connection: Any = self.connection
        self._answer = None
        if connection.is_postponing:
            connection.postponed.append(Postponed(self._text(query, params)))
            return self
        if connection.is_last or any(each.check or isinstance(each.statement, Call) for each in connection.postponed):
            commit, connection.is_last = connection.is_last, False
            answer = self._answer = connection.answer(self._text(query, params), commit=commit)
            loader = Transformer(connection)
            loader.set_pgresult(answer)
            self._rows = iter(loader.load_rows(0, answer.ntuples, tuple))
            return self
        before = [
            *(connection.begin if connection.begins else ()),
            *(each.statement for each in connection.postponed),
        ]
        if not before:
            return super().execute(query, params, **options)
        connection.postponed.clear()
        super().execute("; ".join([*before, self._text(query, params)]))
        for _ in before:
            self.nextset()
        return self

    def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
        connection: Any = self.connection
        given = list(params_seq)
        if connection.is_postponing and len(given) <= _MOST_POSTPONED:
            connection.postponed += [Postponed(self._text(query, params)) for params in given]
            return
        connection.run_postponed()
        with connection.pipeline():
            if connection.begins:
                for begin in connection.begin:
                    psycopg.Cursor(connection).execute(begin)
            super().executemany(query, given, **options)

    @property
    def description(self) -> Any:
        answer = self._answer
        if answer is None:
            return super().description
        return [(name.decode(), None, None, None, None, None, None) for name in _names(answer)] or None

    @property
    def rowcount(self) -> int:
        return super().rowcount if self._answer is None else self._answer.command_tuples or 0

    def fetchone(self) -> Any:
        return super().fetchone() if self._answer is None else next(self._rows, None)

    def fetchmany(self, size: int = 0) -> Any:
        return super().fetchmany(size) if self._answer is None else list(islice(self._rows, size or self.arraysize))

    def fetchall(self) -> Any:
        return super().fetchall() if self._answer is None else list(self._rows)

    def _text(self, query: Any, params: Any) -> str:
        return ClientCursor(self.connection).mogrify(query, params)


def _names(answer: PGresult) -> list[bytes]:
    return [answer.fname(number) or b"" for number in range(answer.nfields)]


@contextmanager
def postponing(connection: Connection) -> Iterator[None]:
    """Postpone the statements of the block until the next statement or COMMIT. The block gets no results."""
    raw: Any = connection.connection.dbapi_connection
    raw.is_postponing = True
    try:
        yield
    finally:
        raw.is_postponing = False


def text_of(connection: Connection, statement: Executable) -> str:
    """Return the SQL text of a statement, with its values as literals. The statement does not run."""
    raw: Any = connection.connection.dbapi_connection
    with postponing(connection):
        connection.execute(statement)
    text: str = raw.postponed.pop().statement
    return text


class PostgresqlDialect(PGDialect_psycopg):
    """The psycopg dialect of SQLAlchemy, with :class:`PostgresqlConnection` as its connections."""

    supports_statement_cache = True

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """Return a new connection."""
        return PostgresqlConnection.connect(*arguments, **{"autocommit": True, **options}, cursor_factory=_Cursor)

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        """Set the isolation level of the next database transactions. The call takes no round trip."""
        # The driver would send its BEGIN alone.
        dbapi_connection.autocommit = True
        dbapi_connection.level = None if level == "AUTOCOMMIT" else level

    def do_savepoint(self, connection: Any, name: str) -> None:
        """Begin a savepoint, together with the next statement."""
        with postponing(connection):
            super().do_savepoint(connection, name)  # type: ignore[no-untyped-call]

    def do_release_savepoint(self, connection: Any, name: str) -> None:
        """Run the postponed statements, and release the savepoint together with the next statement."""
        # An error of a statement within the savepoint belongs to it.
        connection.connection.dbapi_connection.run_postponed()
        with postponing(connection):
            super().do_release_savepoint(connection, name)  # type: ignore[no-untyped-call]

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the isolation level of writers. The server is not asked, because each BEGIN names its level."""
        return WRITERS

    def _get_server_version_info(self, connection: Any) -> Any:
        version: int = connection.connection.driver_connection.info.server_version
        return version // 10000, version % 10000

    def _get_default_schema_name(self, connection: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        return None

    def _set_backslash_escapes(self, connection: Any) -> None:
        status = connection.connection.driver_connection.info.parameter_status("standard_conforming_strings")
        self._backslash_escapes = status == "off"


registry.register("postgresql.hivex", __name__, PostgresqlDialect.__name__)
