"""Exchanges that send many statements to PostgreSQL in one round trip, through libpq's pipeline."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, PipelineStatus
from sqlalchemy import Select, func, literal_column, text

from airflow_hivex.core.model.texts import check_text
from airflow_hivex.core.store.exchange import Call, Check, ExchangeError, Prepared, Rows, Value
from airflow_hivex.core.store.postgresql import PostgresqlConnection

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

COMMIT = Prepared(text("COMMIT"))
# A plan is kept until its tables are analyzed. A plan that was made for small tables must not scan them after they
# have grown, so it uses indexes. A scan of a small table without a suitable index costs so much by this setting
# that PostgreSQL would compile the statement for tens of milliseconds.
_NO_SCANS: Select[Any] = Select(
    func.set_config(literal_column("'enable_seqscan'"), literal_column("'off'"), literal_column("true")),
    func.set_config(literal_column("'jit'"), literal_column("'off'"), literal_column("true")),
)
_WITHOUT_SCANS = Prepared(_NO_SCANS)
_WITH_SCANS = Prepared(text("SET LOCAL enable_seqscan TO DEFAULT"))
_SUCCESSES = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
# Source: PostgreSQL pg_type: bool, int8, int2, int4.
_DECODERS: Mapping[int, Callable[[bytes], Value]] = {16: lambda value: value == b"t", 20: int, 21: int, 23: int}


@cache
def _with_limits(limits: tuple[tuple[str, str], ...]) -> Call:
    """Return one statement for the time limits of a transaction and the settings of :data:`_WITHOUT_SCANS`."""
    texts = ((f"'{name}'", f"'{value}'", "true") for name, value in limits)
    return Prepared(_NO_SCANS.add_columns(*(func.set_config(*map(literal_column, each)) for each in texts)))()


class _Command(NamedTuple):
    """A statement for the server: the name of a prepared statement, or an empty name and the text."""

    name: bytes
    text: bytes
    values: list[bytes | None] | None


class PostgresqlExchange:
    """An exchange that prepares each statement once for each connection.

    The connection's postponed statements run before the statements of the exchange. With ``owns`` the exchange has a
    database transaction of its own. Otherwise the exchange resets its settings after its statements, so that the
    settings do not affect the caller's statements.
    """

    def __init__(self, connection: PostgresqlConnection, *, owns: bool) -> None:
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._encoding = connection.encoding
        self._owns = owns
        self._prepared = connection.prepared

    @property
    def is_broken(self) -> bool:
        """Return whether the connection is unusable because the server has not sent all answers."""
        return self._pgconn.pipeline_status != PipelineStatus.OFF

    def send(self, *calls: Call | str) -> list[Rows]:
        """Return the rows of each statement."""
        return [self._rows(result) for result in self._round_trip(calls, commit=False)]

    def finish(self, *calls: Call) -> list[Rows]:
        """Run the statements and commit. Return the rows of each statement."""
        return [self._rows(result) for result in self._round_trip(calls, commit=True)]

    def answer(self, text: str, *, commit: bool) -> PGresult:
        """Return the driver's answer to a statement. With ``commit`` the transaction is committed, too."""
        (result,) = self._round_trip([text], commit=commit)
        return result

    def _round_trip(self, calls: Sequence[Call | str], *, commit: bool) -> list[PGresult]:
        results: list[PGresult] = []
        connection = self._connection
        if not (calls or connection.postponed or commit):
            return []
        begin = connection.begin if connection.begins else ()
        postponed, connection.postponed = connection.postponed, []
        before = [each.statement for each in postponed]
        has_prepared = any(isinstance(each, Call) for each in calls)
        if has_prepared and begin and not before and connection.limits_of_transaction and self._are_prepared(calls):
            begin = begin[:1]
            before.append(_with_limits(connection.limits_of_transaction))
        elif has_prepared and (begin or not self._owns):
            before.append(_WITHOUT_SCANS())
        # Without BEGIN the settings end with this round trip.
        restores = has_prepared and not self._owns and connection.begin
        after = [COMMIT()] if commit else [_WITH_SCANS()] if restores else []
        commands = [self._command(each) for each in (*before, *calls, *after)]
        prepared = self._prepared
        new = {command.name: command.text for command in commands if command.name and command.name not in prepared}
        first = len(begin) + len(new)
        count = first + len(commands)
        checks = {first + number: each.check for number, each in enumerate(postponed) if each.check is not None}
        try:
            self._send(begin, new, commands)
            while len(results) < count:
                results.append(_next_result(self._pgconn))
            _next_result(self._pgconn)
            self._pgconn.exit_pipeline_mode()
        except psycopg.Error as error:
            self._note_prepared(new, results[first - len(new) :])
            self._check(results, {}, is_lost=True)
            # Without the answer to COMMIT, the last answer, the outcome is unknown.
            if not commit or len(results) < count:
                raise ExchangeError(error, is_lost=True, was_committing=commit) from error
        if new:
            self._note_prepared(new, results[first - len(new) :])
        self._check(results, checks, is_lost=False)
        return results[first + len(before) : count - len(after)]

    def _are_prepared(self, calls: Sequence[Call | str]) -> bool:
        """Return whether no call must be prepared before it runs. To prepare a statement locks its tables."""
        names = [each.statement.name for each in calls if isinstance(each, Call)]
        return self._connection.is_pooled or self._prepared.issuperset(names)

    def _command(self, statement: str | Call) -> _Command:
        if isinstance(statement, str):
            return _Command(b"", statement.encode(self._encoding), None)
        prepared = statement.statement
        # With a pooler, each transaction may have another connection to the server, with other prepared statements.
        name = b"" if self._connection.is_pooled else prepared.name
        return _Command(name, prepared.for_postgresql()[0], self._values(statement))

    def _send(self, begin: Sequence[str], new: Mapping[bytes, bytes], commands: Sequence[_Command]) -> None:
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        for statement in begin:
            # A statement before it, even one that is only prepared, would fix the isolation level.
            pgconn.send_query_params(statement.encode(self._encoding), None)
        for name, definition in new.items():
            pgconn.send_prepare(name, definition)
        for command in commands:
            if command.name:
                pgconn.send_query_prepared(command.name, command.values)
            else:
                pgconn.send_query_params(command.text, command.values)
        pgconn.pipeline_sync()
        # Bytes beyond the socket's buffer wait until the server reads, and the server may wait
        # until its answers are read.
        while pgconn.flush():
            _wait(pgconn, select.POLLIN | select.POLLOUT)
            pgconn.consume_input()

    def _note_prepared(self, names: Iterable[bytes], results: Sequence[PGresult]) -> None:
        """Record the statements that the server has prepared. ``results`` begins with the answers to PREPARE.

        The statements remain prepared after a rollback.
        """
        self._prepared |= {name for name, result in zip(names, results, strict=False) if result.status in _SUCCESSES}

    def _check(self, results: Sequence[PGresult], checks: Mapping[int, Check], *, is_lost: bool) -> None:
        """Raise the first error in the order of the answers: a failed statement, or a failed check of an answer.

        The server runs no statement after a failed statement.
        """
        for number, result in enumerate(results):
            if result.status not in _SUCCESSES:
                error = error_from_result(result, self._encoding)
                if isinstance(error, InvalidSqlStatementName):
                    self._prepared.clear()
                raise ExchangeError(error, is_lost=is_lost, was_committing=False)
            if number in checks:
                checks[number](self._rows(result))

    def _values(self, call: Call) -> list[bytes | None]:
        # Inlined, without own functions: this runs for each parameter of each statement.
        _, names = call.statement.for_postgresql()
        given, defaults = call.values, call.statement.defaults
        encoded: list[bytes | None] = []
        for name in names:
            value = given[name] if name in given else defaults[name]
            if value is None:
                encoded.append(None)
            elif isinstance(value, str):
                encoded.append(check_text("A text for the metastore", value).encode(self._encoding))
            else:
                encoded.append(b"%d" % value)
        return encoded

    def _rows(self, result: PGresult) -> Rows:
        if not result.ntuples:
            return []
        columns = [(number, _DECODERS.get(result.ftype(number), self._text)) for number in range(result.nfields)]
        return [
            tuple(
                None if (value := result.get_value(row, number)) is None else decode(value)
                for number, decode in columns
            )
            for row in range(result.ntuples)
        ]

    def _text(self, value: bytes) -> str:
        return value.decode(self._encoding)


def _next_result(pgconn: PGconn) -> PGresult:
    """Return the server's next answer. Other threads can run during the wait.

    Raises:
        psycopg.OperationalError: the connection is lost.
    """
    # The answers to two commands have a None between them.
    for _ in range(2):
        while pgconn.is_busy():
            _wait(pgconn, select.POLLIN)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is not None:
            return result
    raise psycopg.OperationalError(pgconn.get_error_message() or "the connection is lost")


def _wait(pgconn: PGconn, events: int) -> None:
    poll = select.poll()
    poll.register(pgconn.socket, events)
    poll.poll()
