"""The record of a running statement. It becomes one row of the history of statements when the statement ends."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import HivexError, StatementCancelledError, StoreUnavailableError
from airflow_hivex.core.errors.secrets import hide_as_logs
from airflow_hivex.core.execution.own_errors import own_errors
from airflow_hivex.core.model.ended_statements import STEPS, StatementOutcome, TaskTry
from airflow_hivex.core.model.plans import JobResult
from airflow_hivex.core.model.routes import Route
from airflow_hivex.core.model.texts import shortened
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.parser.statements import ObjectKind, StartTransaction, Statement, UsedObject
from airflow_hivex.core.store.exchange import Call, Value
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.statement_history import (
    RECORD,
    RECORD_COMMITTED,
    RECORD_NEW,
    StatementHistory,
)

if TYPE_CHECKING:
    from airflow_hivex.core.execution.context import Result, Services, SessionState, StatementContext

P = ParamSpec("P")
T = TypeVar("T")

_OF_SESSION = ("SHOW", "DESCRIBE", "EXPLAIN", "USE", "SET", "RESET", "DECLARE")
_OF_SESSION_WHOLE = (
    "CREATE TEMPORARY FUNCTION",
    "CREATE TEMPORARY VIEW",
    "DROP TEMPORARY FUNCTION",
    "DROP VARIABLE",
    "REFRESH TABLE",
    StartTransaction.KIND,
)
_LONGEST = 2_000
_LONGEST_KIND, _LONGEST_CODE, _LONGEST_HOST, _LONGEST_AGENT = 64, 64, 255, 4_096


class StatementRecord:
    """The facts of a running statement: text, tables, transaction, route, rows, waits and steps.

    A statement that only shows something, or changes only the session, has a row in the history only if it fails.
    """

    def __init__(
        self,
        history: StatementHistory,
        clock: Clock,
        *,
        text: str,
        user: str,
        agent_info: str | None,
        task: TaskTry | None,
        database: str,
    ) -> None:
        self._history = history
        self._clock = clock
        self._user = user
        self._agent_info = None if agent_info is None else shortened(hide_as_logs(agent_info), _LONGEST_AGENT)
        self._task = task
        self._database = database
        # The reader refuses a value of another type than str.
        self._text = _masked(str(text), history.text_length)
        self._started_ms = clock()
        self._kind = ""
        self._tables: tuple[str, ...] = ()
        self._route: Route | None = None
        self._target: str | None = None
        self._written: tuple[int, int, int | None] | None = None
        self._step, self._since = STEPS[-1], time.monotonic()
        self._seconds: dict[str, float] = dict.fromkeys(STEPS, 0.0)
        self.txn_id: int | None = None
        self.wait_s = 0.0
        """The seconds in which the statement has waited for locks of other transactions."""
        self.is_cancelled = False
        self.is_refused = False
        """The fact that no cluster can run the statement."""
        self.is_sent = False
        """The fact that the row was sent together with a commit. The row is there only if the commit was applied."""

    def describe(self, statement: Statement) -> None:
        """Note the kind and the tables of the statement. Only the first call counts, as a statement may run others."""
        if not self._kind:
            tables = dict.fromkeys(self._named(use) for use in statement.uses if _is_table(use))
            written = {self._named(use) for use in statement.uses if use.role.is_output and _is_table(use)}
            self.describe_as(statement.kind, *tables)
            self._target = written.pop() if len(written) == 1 else None

    def describe_as(self, kind: str, *tables: str) -> None:
        """Note the kind and the tables of a statement that writes at most one table."""
        self._kind, self._tables = kind, tables
        self._target = tables[0] if kind == "INSERT" and tables else None

    def _named(self, use: UsedObject) -> str:
        return f"{use.namespace or use.database or self._database}.{use.name}".lower()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the seconds of the block for a step. The seconds of a step within the block count for that step."""
        before = self._turn_to(name)
        try:
            yield
        finally:
            self._turn_to(before)

    def _turn_to(self, step: str) -> str:
        now = time.monotonic()
        self._seconds[self._step] += now - self._since
        before, self._step, self._since = self._step, step, now
        return before

    def note_begin(self, txn_id: int) -> None:
        """Note the transaction of the statement. Rows of an earlier try of the statement do not count."""
        self.txn_id, self._written = txn_id, None

    def note_route(self, route: Route) -> None:
        """Note the route of the statement. A route without a cluster refuses the statement."""
        self._route, self.is_refused = route, route.cluster is None

    def note_written(self, result: JobResult) -> None:
        """Note the rows that a job of the statement has written."""
        written, deleted, size_bytes = self._written or (0, 0, 0)
        rows = [each for directories in (result.directories, *result.inserted) for each in directories]
        written += sum(each.rows for each in rows if not each.is_delete_delta)
        deleted += sum(each.rows for each in rows if each.is_delete_delta)
        self._written = written, deleted, (size_bytes or 0) + sum(each.size_bytes for each in rows)

    @property
    def is_shown(self) -> bool:
        """Return whether the history shows the statement although it has not failed."""
        return self._kind.partition(" ")[0] not in _OF_SESSION and self._kind not in _OF_SESSION_WHOLE

    @property
    def document(self) -> str | None:
        """Return the facts for the row of the statement's transaction, so that a lost statement is known later.

        A lost transaction of several statements is shown as its START TRANSACTION.
        """
        if not self.is_shown and self._kind != StartTransaction.KIND:
            return None
        return json.dumps({"started_ms": self._started_ms, **self._facts()})

    @contextmanager
    def accompanying(self, transactions: TransactionManager, txn_id: int) -> Iterator[None]:
        """Send the row together with the commit of a transaction, if the transaction commits within the block."""
        transactions.companions[txn_id] = self._calls
        try:
            yield
        finally:
            transactions.companions.pop(txn_id, None)

    def _calls(self, now_ms: int) -> Sequence[Call]:
        return self._sent(RECORD_COMMITTED(**self._row(StatementOutcome.SUCCEEDED, now_ms)))

    def calls_of_new(self, now_ms: int) -> Sequence[Call]:
        """Return the call that records the statement in the database transaction that opens its transaction."""
        return self._sent(RECORD_NEW(**self._row(StatementOutcome.SUCCEEDED, now_ms)))

    def calls_of_open(self) -> Sequence[Call]:
        """Return the call that records the statement with its last change in a transaction that stays open."""
        return self._sent(RECORD(**self._row(StatementOutcome.OPEN, self._clock())))

    def _sent(self, call: Call) -> Sequence[Call]:
        if not self.is_shown:
            return ()
        self.is_sent = True
        return (call,)

    def end(self, result: Result | None, *, is_open: bool) -> None:
        """Write the row of a statement that has ended without an error, unless a commit has written the row."""
        if self.is_sent or not self.is_shown:
            return
        if result is not None:
            self.txn_id = self.txn_id or result.txn_id
            if result.rows_written is not None and self._written is None:
                self._written = result.rows_written, result.rows_deleted or 0, None
        outcome = StatementOutcome.OPEN if is_open and self.txn_id is not None else StatementOutcome.SUCCEEDED
        self._history.record(self._row(outcome, self._clock()))

    def fail(self, error: BaseException, transactions: TransactionManager) -> None:
        """Write the row of a statement that has ended with an error.

        The row of a statement that has committed before the error stays as it is. If the database cannot be
        reached, nothing is written, because the statement would wait for the database once more.
        """
        if isinstance(error, StoreUnavailableError):
            return
        if self.is_sent and self.txn_id is not None and _has_committed(transactions, self.txn_id):
            return
        is_cancelled = self.is_cancelled or isinstance(error, StatementCancelledError)
        if is_cancelled or not isinstance(error, Exception):
            outcome = StatementOutcome.CANCELLED
        else:
            outcome = StatementOutcome.REFUSED if self.is_refused else StatementOutcome.FAILED
        code = error.code if isinstance(error, HivexError) else type(error).__name__
        row = self._row(outcome, self._clock())
        sentence = _masked(str(error) or code, _LONGEST)
        self._history.record({**row, "error_code": code[:_LONGEST_CODE], "error": sentence})

    def _facts(self) -> dict[str, Value]:
        task = self._task
        return {
            "kind": self._kind[:_LONGEST_KIND],
            "text": self._text,
            "database": self._database,
            "tables": f" {' '.join(map(_name, self._tables))} ",
            "target": None if self._target is None else _name(self._target),
            "dag_id": None if task is None else task.dag_id,
            "task_id": None if task is None else task.task_id,
            "run_id": None if task is None else task.run_id,
            "map_index": None if task is None else task.map_index,
            "try_number": None if task is None else task.try_number,
        }

    def _row(self, outcome: StatementOutcome, now_ms: int) -> dict[str, Value]:
        self._turn_to(self._step)
        written, deleted, size_bytes = self._written or (None, None, None)
        route = self._route
        return {
            **self._facts(),
            "started_ms": self._started_ms,
            "ended_ms": max(now_ms, self._started_ms),
            "outcome": outcome.value,
            "user": self._user,
            "host": socket.gethostname()[:_LONGEST_HOST],
            "agent_info": self._agent_info,
            "txn_id": self.txn_id,
            "cluster": None if route is None else route.cluster,
            "route": None if route is None else _masked(route.reason, _LONGEST),
            "rows_written": written,
            "rows_deleted": deleted,
            "size_bytes": size_bytes,
            "wait_ms": round(self.wait_s * 1000),
            "steps": json.dumps({step: round(s * 1000) for step, s in self._seconds.items() if s >= 0.0005}),
            "error_code": None,
            "error": None,
        }


def _name(table: str) -> str:
    """Return the name of a table. A refused name may have any characters."""
    return _masked(table, _LONGEST)


def _masked(text: str, length: int) -> str:
    """Return the first ``length`` characters of a text without secrets.

    The end of a text is cut before the masking, which takes its time for each character. A secret that was cut is not
    found: the text ends before it.
    """
    masked = hide_as_logs(text[: length + _LONGEST])
    return shortened(masked if len(text) <= length + _LONGEST else masked[:-_LONGEST], length)


def _is_table(use: UsedObject) -> bool:
    return use.kind is ObjectKind.TABLE and use.name is not None


def _has_committed(transactions: TransactionManager, txn_id: int) -> bool:
    try:
        return transactions.get(txn_id).state is TxnState.COMMITTED
    except HivexError:
        return False


class Ended:
    """The result of a statement, for :func:`recorded`."""

    result: Result | None = None


@contextmanager
def recorded(
    services: Services, session: SessionState, what: str, text: str, kind: str = "", *tables: str
) -> Iterator[Ended]:
    """Run a statement in the block, and record its end in the history of statements.

    Each error of the block is raised as an error of this package, in which ``what`` names the action that failed. The
    block gives its result to the yielded object. A statement within a statement has no row of its own. ``kind`` and
    ``tables`` describe a call that has no statement in SQL.

    Raises:
        UnexpectedError: the block has raised an exception that is not a HivexError.
    """
    ended = Ended()
    if session.record is not None or not services.statements.is_on:
        with own_errors(what):
            yield ended
        return
    record = session.record = StatementRecord(
        services.statements,
        services.clock,
        text=text,
        user=session.user,
        agent_info=session.agent_info,
        task=session.task,
        database=session.database,
    )
    if kind:
        record.describe_as(kind, *tables)
    try:
        with own_errors(what):
            yield ended
    except BaseException as error:
        record.fail(error, services.transactions)
        raise
    else:
        record.end(ended.result, is_open=session.transaction is not None)
    finally:
        session.record = None


def in_step(
    name: str,
) -> Callable[[Callable[Concatenate[StatementContext, P], T]], Callable[Concatenate[StatementContext, P], T]]:
    """Return a decorator that counts the seconds of a function for a step of the statement."""

    def decorate(
        function: Callable[Concatenate[StatementContext, P], T],
    ) -> Callable[Concatenate[StatementContext, P], T]:
        @wraps(function)
        def run(context: StatementContext, /, *arguments: P.args, **named: P.kwargs) -> T:
            with context.session.step(name):
                return function(context, *arguments, **named)

        return run

    return decorate
