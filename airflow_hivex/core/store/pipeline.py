"""Many statements sent to PostgreSQL in one round trip, through libpq's pipeline."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from sqlalchemy import Select, bindparam, func, literal_column, text
from sqlalchemy.pool import PoolProxiedConnection

from airflow_hivex.core.model.texts import check_text
from airflow_hivex.core.store.exchange import Call, ExchangeError, Prepared, Rows, Value
from airflow_hivex.core.store.time_limits import LIMITS, POOLED, TransactionLimits

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

COMMIT = Prepared(text("COMMIT"))
_BEGIN = Prepared(text("BEGIN ISOLATION LEVEL READ COMMITTED"))
# A plan is kept until its tables are analyzed. A plan that was made for small tables must not scan them after they
# have grown, so it uses indexes. A scan of a small table without a suitable index costs so much by this setting
# that PostgreSQL would compile the statement for tens of milliseconds.
_WITHOUT_SCANS = Prepared(
    Select(
        func.set_config(literal_column("'enable_seqscan'"), literal_column("'off'"), literal_column("true")),
        func.set_config(literal_column("'jit'"), literal_column("'off'"), literal_column("true")),
    )
)
_LIMITED = Prepared(
    Select(
        func.set_config(literal_column("'lock_timeout'"), bindparam("lock_timeout"), literal_column("true")),
        func.set_config(
            literal_column("'idle_in_transaction_session_timeout'"),
            bindparam("idle_in_transaction_session_timeout"),
            literal_column("true"),
        ),
    )
)
_WITH_SCANS = Prepared(text("SET LOCAL enable_seqscan TO DEFAULT"))
_SUCCESSES = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
# Source: PostgreSQL pg_type: bool, int8, int2, int4.
_DECODERS: Mapping[int, Callable[[bytes], Value]] = {16: lambda value: value == b"t", 20: int, 21: int, 23: int}


class PostgresqlExchange:
    """An exchange whose statements are prepared once for each connection; ``info`` exists as long as the connection.

    With ``owns`` it has its own database transaction, else its settings must not affect the caller's statements.
    """

    def __init__(self, connection: psycopg.Connection[Any], info: dict[Any, Any], *, owns: bool) -> None:
        self._pgconn: PGconn = connection.pgconn
        self._encoding: str = info.get("hivex_encoding") or info.setdefault("hivex_encoding", connection.info.encoding)
        self._owns = owns
        self._limits = asdict(info[LIMITS])
        self._is_pooled: bool = info[POOLED]
        self._prepared: set[bytes] = info.setdefault("hivex_prepared", set())

    @property
    def is_broken(self) -> bool:
        """Return whether the connection is unusable because answers are still to come."""
        return self._pgconn.pipeline_status != PipelineStatus.OFF

    def send(self, *calls: Call) -> list[Rows]:
        """Run statements and return the rows of each."""
        return self._round_trip(calls, commit=False)

    def finish(self, *calls: Call) -> list[Rows]:
        """Run statements, commit, and return the rows of each."""
        return self._round_trip(calls, commit=True)

    def _round_trip(self, calls: Sequence[Call], *, commit: bool) -> list[Rows]:
        results: list[PGresult] = []
        begins = self._pgconn.transaction_status == TransactionStatus.IDLE
        before = [_BEGIN(), _LIMITED(**self._limits)] if begins else []
        if begins or not self._owns:
            before.append(_WITHOUT_SCANS())
        after = [COMMIT()] if commit else [] if self._owns else [_WITH_SCANS()]
        calls = (*before, *calls, *after)
        commands = [(call.statement, self._values(call)) for call in calls]
        prepared = self._prepared
        # With a pooler, each transaction may have another connection to the server, with other prepared statements.
        new = {} if self._is_pooled else {each.name: each for each, _ in commands if each.name not in prepared}
        count = len(new) + len(commands)
        try:
            self._send(list(new.values()), commands)
            while len(results) < count:
                results.append(_next_result(self._pgconn))
            _next_result(self._pgconn)
            self._pgconn.exit_pipeline_mode()
        except psycopg.Error as error:
            self._note_prepared(new, results)
            self._check(results, is_lost=True)
            # Without the answer to COMMIT, the last answer, the outcome is unknown.
            if not commit or len(results) < count:
                raise ExchangeError(error, is_lost=True, was_committing=commit) from error
        if new:
            self._note_prepared(new, results)
        self._check(results, is_lost=False)
        return [self._rows(result) for result in results[len(new) + len(before) : count - len(after)]]

    def _send(self, new: Sequence[Prepared], commands: Sequence[tuple[Prepared, list[bytes | None]]]) -> None:
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        for statement in new:
            pgconn.send_prepare(statement.name, statement.for_postgresql()[0])
        for statement, values in commands:
            if self._is_pooled:
                pgconn.send_query_params(statement.for_postgresql()[0], values)
            else:
                pgconn.send_query_prepared(statement.name, values)
        pgconn.pipeline_sync()
        # Bytes beyond the socket's buffer wait until the server reads, and the server may wait
        # until its answers are read.
        while pgconn.flush():
            _wait(pgconn, select.POLLIN | select.POLLOUT)
            pgconn.consume_input()

    def _note_prepared(self, names: Iterable[bytes], results: Sequence[PGresult]) -> None:
        """Record the statements that were prepared, whose answers are the first ones.

        A rollback keeps them prepared.
        """
        self._prepared |= {name for name, result in zip(names, results, strict=False) if result.status in _SUCCESSES}

    def _check(self, results: Sequence[PGresult], *, is_lost: bool) -> None:
        """Raise the first error among the answers. The statements after it did not run."""
        for result in results:
            if result.status not in _SUCCESSES:
                error = error_from_result(result, self._encoding)
                if isinstance(error, InvalidSqlStatementName):
                    self._prepared.clear()
                raise ExchangeError(error, is_lost=is_lost, was_committing=False)

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


def begin_limited(connection: PoolProxiedConnection) -> None:
    """Begin a database transaction with time limits, in one round trip, unless the connection is in a transaction.

    Raises:
        ExchangeError: the connection is lost.
    """
    raw: Any = connection.dbapi_connection
    pgconn: PGconn = raw.pgconn
    if pgconn.transaction_status != TransactionStatus.IDLE:
        return
    limits: TransactionLimits = connection.info[LIMITS]
    # The driver would begin by a round trip of its own; it begins no transaction within another one.
    try:
        pgconn.send_query(
            b"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = %b; "
            b"SET LOCAL idle_in_transaction_session_timeout = %b"
            % (limits.lock_timeout.encode(), limits.idle_in_transaction_session_timeout.encode())
        )
        for _ in range(3):
            result = _next_result(pgconn)
            if result.status not in _SUCCESSES:
                raise error_from_result(result, raw.info.encoding)
        pgconn.get_result()
    except psycopg.Error as error:
        raise ExchangeError(error, is_lost=True, was_committing=False) from error


def _next_result(pgconn: PGconn) -> PGresult:
    """Return the next answer. Other threads may run during the wait.

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
