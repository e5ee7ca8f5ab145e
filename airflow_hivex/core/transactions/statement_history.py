"""The history of statements: the rows of ended statements, their outcomes, lists of them, and the removal of old rows.

A row is written together with the commit of its statement, or else on its own. ``execution/statement_record.py`` makes
the rows.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.sql.functions import coalesce

from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import HivexError, InvalidObjectError
from airflow_hivex.core.errors.secrets import hide_as_logs
from airflow_hivex.core.model.ended_statements import (
    UNSUCCESSFUL,
    EndedStatement,
    StatementOutcome,
    TaskTry,
)
from airflow_hivex.core.model.predicates import name_expression
from airflow_hivex.core.model.transactions import AbortReason, TxnState
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import Prepared, Value, later
from airflow_hivex.core.store.paging import Page, PageRequest, contains, read_page
from airflow_hivex.core.store.schema import ended_statements, txns
from airflow_hivex.core.transactions.opening import NEW_TXN_ID

log = logging.getLogger(__name__)

StatementRow: TypeAlias = Mapping[str, Value]
"""The values of a row of ``ended_statements``, by column. ``steps`` is a document as text."""

DEFAULT_LIMIT = 1_000
"""The number of rows of SHOW STATEMENTS without LIMIT."""

_S = ended_statements.c
_GIVEN: dict[str, ColumnElement[Any]] = {
    column.name: bindparam(column.name, type_=column.type) for column in ended_statements.c if column.name != "id"
}
_TXN_ID = bindparam("txn_id", type_=BigInteger)
_IS_COMMITTED = (
    select(txns.c.id).where(txns.c.id == _TXN_ID, txns.c.state == literal_column(f"'{TxnState.COMMITTED.value}'"))
).exists()


def _recording(values: Mapping[str, ColumnElement[Any]], *conditions: ColumnElement[bool]) -> Prepared:
    row = select(*values.values()).where(*conditions)
    return Prepared(insert(ended_statements).from_select(list(values), row).inline())


RECORD = _recording(_GIVEN)
"""The INSERT of a row."""
RECORD_COMMITTED = _recording(_GIVEN, _IS_COMMITTED)
"""The INSERT of the row of a statement whose transaction has committed before in the same database transaction."""
RECORD_NEW = _recording({**_GIVEN, "txn_id": NEW_TXN_ID})
"""The INSERT of the row of a statement whose transaction was opened in the same database transaction."""
# A server that crashes may forget the row: its loss is cheaper than a flush to the disk for each row.
_WITHOUT_FLUSH = Prepared(
    select(func.set_config(literal_column("'synchronous_commit'"), literal_column("'off'"), literal_column("true"))),
    skipped_on_sqlite=True,
)
_IS_OPEN_ROW = _S.outcome == literal_column(f"'{StatementOutcome.OPEN.value}'")
_ORDERS: dict[str, ColumnElement[Any]] = {
    "id": _S.id,
    "started_at": _S.started_ms,
    "ended_at": _S.ended_ms,
    "seconds": _S.ended_ms - _S.started_ms,
    "wait_s": _S.wait_ms,
    "rows_written": coalesce(_S.rows_written, 0),
    "rows_deleted": coalesce(_S.rows_deleted, 0),
    "status": _S.outcome,
    "kind": _S.kind,
    "user": _S.user,
    "dag_id": coalesce(_S.dag_id, ""),
    "cluster": coalesce(_S.cluster, ""),
}


@dataclass(frozen=True, slots=True)
class StatementFilter:
    """The filter of SHOW STATEMENTS: all given conditions must be true.

    ``database`` and ``pattern`` select statements that name a table of the database, or a table whose name matches.
    ``current`` is the current database of the statements. ``tries`` are the texts of tries of tasks. ``table`` is a
    part of the name ``database.table`` of a table that the statement names.
    """

    database: str | None = None
    pattern: str | None = None
    current: str | None = None
    dag_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    user: str | None = None
    outcome: StatementOutcome | None = None
    unsuccessful: bool = False
    tries: Sequence[str] = ()
    table: str | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class GrownTable:
    """The statements that have written a table in a period: their number, and the sums of their rows and bytes."""

    table: str
    statements: int
    rows_added: int
    rows_deleted: int
    size_bytes: int


class StatementHistory:
    """The service for the history of statements. Without a retention nothing is recorded."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.retention_s = int(settings["hivex.statements.retention"])
        self.text_length = int(settings["hivex.statements.text.length"])

    @property
    def is_on(self) -> bool:
        """Return whether statements are recorded."""
        return self.retention_s > 0

    def record(self, row: StatementRow) -> None:
        """Write the row of an ended statement. One round trip. A failure is only logged.

        The statement has ended, and its result or its error must reach the caller.
        """
        try:
            self._store.exchange(lambda exchange: exchange.finish(_WITHOUT_FLUSH(), RECORD(**row)), name="record")
        except Exception as error:
            # The text of a foreign error may be no valid text.
            shown = error if isinstance(error, HivexError) else repr(error)
            log.warning("A statement is missing in the history of statements: %s", shown)

    def show(self, wanted: StatementFilter) -> list[EndedStatement]:
        """Return the statements that match a filter, by default the newest 1,000 with the newest first.

        Raises:
            InvalidObjectError: ``order_by`` names a column by which the list cannot be sorted.
        """
        ordered: list[ColumnElement[Any]] = []
        for name, rises in wanted.order_by:
            if name.lower() not in _ORDERS:
                raise InvalidObjectError("column", name, f"SHOW STATEMENTS sorts by {', '.join(_ORDERS)}")
            order = _ORDERS[name.lower()]
            ordered.append(order.asc() if rises else order.desc())
        ordered.append(_S.id.desc())
        query = _filtered(_listed(), wanted).order_by(*ordered)
        limit = DEFAULT_LIMIT if wanted.limit is None else wanted.limit
        with self._store.read_together() as connection:
            if wanted.pattern is not None:
                named = connection.execute(query.with_only_columns(_S.id, _S.tables, maintain_column_froms=True))
                matching = islice(_matching(named.all(), wanted, name_expression(wanted.pattern)), limit)
                found = {
                    row.id: row
                    for ids in batches(list(matching))
                    for row in connection.execute(_listed().where(_S.id.in_(ids)).order_by(*ordered))
                }
                return [_statement_from(row) for row in found.values()]
            return [_statement_from(row) for row in connection.execute(query.limit(limit))]

    def page(self, wanted: PageRequest, among: StatementFilter, since_ms: int = 0) -> Page[EndedStatement]:
        """Return a page of the statements that have ended since a time and match a filter. Two queries.

        The search text is compared with texts, tables, users, agents and errors.

        Raises:
            InvalidObjectError: the list cannot be sorted by the column.
        """
        query = _filtered(_listed(), among).where(_S.ended_ms >= since_ms)
        if wanted.search:
            query = query.where(
                contains(wanted.search, _S.text, _S.tables, _S.user, _S.agent_info, _S.error_code, _S.error)
            )
        with self._store.read() as connection:
            return read_page(connection, query, wanted, _ORDERS, _S.id, _statement_from)

    def counts(self, since_ms: int) -> dict[StatementOutcome, int]:
        """Return the numbers of statements by outcome that have ended since a time. One query."""
        shown = select(_outcome().label("shown")).select_from(_with_txns()).where(_S.ended_ms >= since_ms).subquery()
        query = select(shown.c.shown, func.count()).group_by(shown.c.shown)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return {StatementOutcome(letter): number for letter, number in rows}

    def dags(self) -> list[str]:
        """Return the ids of the DAGs in the history, sorted. One query."""
        query = select(_S.dag_id).where(_S.dag_id.is_not(None)).distinct().order_by(_S.dag_id)
        with self._store.read() as connection:
            return list(connection.execute(query).scalars())

    def grown(self, since_ms: int, limit: int = 50) -> list[GrownTable]:
        """Return the tables whose rows statements have changed since a time, first those with the most new rows.

        Only statements whose changes count, and that write one table, are added up. One query.
        """
        written, deleted = func.coalesce(_S.rows_written, 0), func.coalesce(_S.rows_deleted, 0)
        added, removed = func.sum(written), func.sum(deleted)
        query = (
            select(_S.target, func.count(), added, removed, func.sum(func.coalesce(_S.size_bytes, 0)))
            .select_from(_with_txns())
            .where(
                _S.ended_ms >= since_ms,
                _S.target.is_not(None),
                written + deleted > 0,
                _outcome() == StatementOutcome.SUCCEEDED.value,
            )
            .group_by(_S.target)
            .order_by((added - removed).desc(), _S.target)
            .limit(limit)
        )
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return [GrownTable(row[0], row[1], int(row[2]), int(row[3]), int(row[4])) for row in rows]

    def settle(self, connection: Connection) -> None:
        """Store the outcomes of statements whose transactions have ended, and record lost statements.

        Call this before the records of ended transactions are removed. A statement is lost if its transaction was
        aborted, and its process has not written its row until the transaction's time-out. One round trip.
        """
        if not self.is_on:
            return
        ended = select(txns.c.id).where(txns.c.id == _S.txn_id, txns.c.state != TxnState.OPEN.value)
        settled = update(ended_statements).where(_IS_OPEN_ROW, ended.exists())
        later(connection, settled.values(outcome=_outcome_of_state(_state_of_txn())))
        lost = [_lost_row(row) for row in connection.execute(self._lost())]
        if lost:
            connection.execute(insert(ended_statements), lost)

    def _lost(self) -> Select[Any]:
        """Return the query for aborted transactions whose statement has no row.

        A transaction that was aborted by a write conflict has a successor, which the statement uses.
        """
        now = self._clock()
        timed_out = txns.c.reason_code == AbortReason.TIMEOUT.number
        is_over = txns.c.ended_ms + sql_cast(txns.c.timeout_s, BigInteger) * 1000 < now
        return select(txns).where(
            txns.c.state == literal_column(f"'{TxnState.ABORTED.value}'"),
            txns.c.statement.is_not(None),
            txns.c.ended_ms >= now - self.retention_s * 1000,
            coalesce(txns.c.reason_code, 0) != AbortReason.WRITE_CONFLICT.number,
            timed_out | is_over,
            ~select(_S.id).where(_S.txn_id == txns.c.id).exists(),
        )

    def purge(self, connection: Connection) -> int:
        """Remove the rows that are older than the retention, and return their number."""
        return connection.execute(
            delete(ended_statements).where(_S.ended_ms < self._clock() - self.retention_s * 1000)
        ).rowcount


def _state_of_txn() -> ColumnElement[str | None]:
    return select(txns.c.state).where(txns.c.id == _S.txn_id).scalar_subquery()


def _outcome_of_state(state: ColumnElement[Any]) -> ColumnElement[str]:
    """Return the outcome of a statement in a transaction of several statements, from the transaction's state."""
    return case(
        (state == TxnState.COMMITTED.value, StatementOutcome.SUCCEEDED.value),
        (state == TxnState.ABORTED.value, StatementOutcome.ROLLED_BACK.value),
        else_=StatementOutcome.OPEN.value,
    )


def _with_txns() -> Any:
    """Return the statements, and the transactions of statements whose outcome is not settled yet."""
    return ended_statements.outerjoin(txns, (txns.c.id == _S.txn_id) & _IS_OPEN_ROW)


def _outcome() -> ColumnElement[str]:
    return case((_IS_OPEN_ROW, _outcome_of_state(txns.c.state)), else_=_S.outcome)


def _listed() -> Select[Any]:
    columns = [column for column in ended_statements.c if column.name != "outcome"]
    return select(*columns, _outcome().label("outcome")).select_from(_with_txns())


def _filtered(query: Select[Any], wanted: StatementFilter) -> Select[Any]:
    equal = {
        _S.database: wanted.current,
        _S.dag_id: wanted.dag_id,
        _S.task_id: wanted.task_id,
        _S.run_id: wanted.run_id,
        _S.user: wanted.user,
    }
    query = query.where(*(column == value for column, value in equal.items() if value is not None))
    if wanted.outcome is not None:
        query = query.where(_outcome() == wanted.outcome.value)
    if wanted.unsuccessful:
        query = query.where(_outcome().in_([each.value for each in UNSUCCESSFUL]))
    if wanted.tries:
        query = query.where(_S.agent_info.in_(wanted.tries))
    if wanted.table is not None:
        query = query.where(_S.tables.contains(wanted.table, autoescape=True))
    if wanted.database is not None:
        query = query.where(_S.tables.contains(f" {wanted.database}.", autoescape=True))
    return query


def _matching(found: Iterable[Any], wanted: StatementFilter, expression: re.Pattern[str]) -> Iterator[int]:
    """Yield the ids of statements that name a table whose name matches, in the wanted database if there is one."""
    for each in found:
        named = (table.partition(".") for table in each.tables.split())
        if any(expression.fullmatch(name) for database, _, name in named if wanted.database in (None, database)):
            yield each.id


def _statement_from(row: Row[Any]) -> EndedStatement:
    task = None
    if row.dag_id is not None:
        task = TaskTry(row.dag_id, row.task_id, row.run_id, row.try_number, row.map_index)
    return EndedStatement(
        id=row.id,
        kind=row.kind,
        text=row.text,
        outcome=StatementOutcome(row.outcome),
        started_at=to_datetime(row.started_ms),
        ended_at=to_datetime(row.ended_ms),
        user=row.user,
        host=row.host,
        agent_info=row.agent_info,
        task=task,
        database=row.database,
        tables=tuple(row.tables.split()),
        txn_id=row.txn_id,
        cluster=row.cluster,
        route=row.route,
        rows_written=row.rows_written,
        rows_deleted=row.rows_deleted,
        wait_s=row.wait_ms / 1000,
        steps={step: ms / 1000 for step, ms in row.steps.items()},
        error_code=row.error_code,
        error=row.error,
    )


def _lost_row(row: Row[Any]) -> dict[str, Any]:
    """Return the row of a statement whose process has not reported an end, from the row of its transaction."""
    return {
        **dict.fromkeys(_GIVEN),
        **json.loads(row.statement),
        "ended_ms": row.ended_ms,
        "outcome": StatementOutcome.LOST.value,
        "user": row.user,
        "host": row.host,
        "agent_info": row.agent_info and hide_as_logs(row.agent_info),
        "txn_id": row.id,
        "wait_ms": 0,
        "steps": {},
        "error": row.reason and hide_as_logs(row.reason),
    }
