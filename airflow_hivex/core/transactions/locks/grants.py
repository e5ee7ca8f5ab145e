"""The grant of locks that no other lock blocks, in one round trip.

All queries of a grant are sent together. So the INSERT of each lock has conditions, called guards. If a guard is false,
the lock is not inserted. The caller must then request the locks by other queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import product
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    String,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles

from airflow_hivex.core.model.locks import LockComponent, LockLevel, LockMatrix, LockResponse, LockState
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN
from airflow_hivex.core.store.exchange import Call, Exchange, Prepared, Rows
from airflow_hivex.core.store.schema import counters, databases, locks, tables, txn_components, txns
from airflow_hivex.core.store.schema.base import partition_to_column
from airflow_hivex.core.transactions.allocation import is_id
from airflow_hivex.core.transactions.locks.requests import writes_of_request
from airflow_hivex.core.transactions.opening import NEW_TXN_ID


class JsonText(ColumnElement[str]):
    """The value of the member ``key`` at the top level of a JSON column, or NULL without such a member."""

    inherit_cache = False
    type = Text()

    def __init__(self, column: ColumnElement[Any], key: str) -> None:
        if not key.isidentifier():
            raise ValueError(key)
        self.column = column
        self.key = key


@compiles(JsonText, "postgresql")
def _postgresql(element: JsonText, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.column, **options)} ->> '{element.key}')"


@compiles(JsonText, "sqlite")
def _sqlite(element: JsonText, compiler: Any, **options: Any) -> str:
    return f"json_extract({compiler.process(element.column, **options)}, '$.{element.key}')"


# Longer requests are stored in bulk.
_MOST_COMPONENTS = 50

_TXN_ID = bindparam("txn_id", type_=BigInteger)
_DATABASE, _TABLE = bindparam("database", type_=String), bindparam("table", type_=String)
_PARTITION, _OPERATION = bindparam("partition", type_=Text), bindparam("operation", type_=Integer)
_FULL_TABLE, _RESOURCE = bindparam("full_table", type_=Text), bindparam("resource", type_=Text)
_NOW_MS = bindparam("now_ms", type_=BigInteger)
_OF_LOCK_IDS = counters.c.name == literal_column("'lock'")
_NEW_ID = counters.c.value - bindparam("before_last", type_=BigInteger)
_OWN_ID = select(_NEW_ID).where(_OF_LOCK_IDS).scalar_subquery()
_TAKE_IDS = Prepared(
    update(counters).where(_OF_LOCK_IDS).values(value=counters.c.value + bindparam("count", type_=BigInteger))
)
_NAMED_TABLE = (
    select(tables.c.id)
    .join(databases, databases.c.id == tables.c.database_id)
    .where(databases.c.name == _DATABASE, tables.c.name == _TABLE, ~tables.c.dropped)
)
_NAMED_DATABASE = select(databases.c.id).where(databases.c.name == _DATABASE)
_AHEAD = locks.alias("ahead")
# Each condition uses one column with an index of its own; see the schema.
_MEETING: dict[LockLevel, tuple[ColumnElement[bool], ...]] = {
    LockLevel.DB: (_AHEAD.c.database == _DATABASE,),
    LockLevel.TABLE: (_AHEAD.c.full_table == _FULL_TABLE, _AHEAD.c.resource == _DATABASE),
    LockLevel.PARTITION: (_AHEAD.c.resource.in_([_DATABASE, _FULL_TABLE, _RESOURCE]),),
}
_VALUES: dict[str, ColumnElement[Any]] = {
    "lock_id": _NEW_ID,
    "internal_id": bindparam("internal_id", type_=Integer),
    "txn_id": _TXN_ID,
    "database": _DATABASE,
    "table": _TABLE,
    "partition": _PARTITION,
    "full_table": _FULL_TABLE,
    "resource": _RESOURCE,
    "type": bindparam("type", type_=String),
    "strictness": bindparam("strictness", type_=Integer),
    "operation": _OPERATION,
    "state": literal_column("'a'"),
    "requested_ms": _NOW_MS,
    "heartbeat_ms": _NOW_MS,
    "acquired_ms": _NOW_MS,
    "user": bindparam("user", type_=String),
    "host": bindparam("host", type_=String),
    "agent_info": bindparam("agent_info", type_=String),
}


class _Owner(Enum):
    """The owner of the locks of a request.

    ``TXN`` is an open transaction. ``NEW_TXN`` is a transaction that is opened in the same database transaction.
    ``NONE`` means that the locks belong to no transaction.
    """

    NONE = auto()
    TXN = auto()
    NEW_TXN = auto()


def _granting(level: LockLevel, owner: _Owner, is_new_table: bool) -> Prepared:
    """Return the INSERT of a lock, with its guards.

    The guards are: the locked object exists, the transaction is open, and no lock with a lower id can block the lock.
    For a new table, the database must exist.
    """
    locked = _NAMED_DATABASE if is_new_table or level is LockLevel.DB else _NAMED_TABLE
    guards: list[ColumnElement[bool]] = [locked.exists()]
    mild = [
        _AHEAD.c.strictness >= bindparam("mildest", type_=Integer),
        # The request's own locks are not ahead of it.
        _AHEAD.c.lock_id < _NEW_ID,
    ]
    if owner is _Owner.TXN:
        # This keeps the transaction open until the end. Others wait for the counter meanwhile, so that no request
        # waits for a change of its transaction.
        is_open = select(txns.c.id).where(txns.c.id == _TXN_ID, IS_OPEN)
        guards.append(is_open.with_for_update(read=True, skip_locked=True).exists())
        mild.append(_AHEAD.c.txn_id != _TXN_ID)
    guards += [~select(_AHEAD.c.lock_id).where(meets, *mild).exists() for meets in _MEETING[level]]
    given = {**_VALUES, "txn_id": NEW_TXN_ID} if owner is _Owner.NEW_TXN else _VALUES
    values = select(*given.values()).where(_OF_LOCK_IDS, *guards)
    return Prepared(insert(locks).from_select(list(given), values).returning(locks.c.lock_id))


_GRANT = {case: _granting(*case) for case in product(LockLevel, _Owner, (False, True))}
_OF_REQUEST = locks.c.lock_id == _OWN_ID
_GRANTED = locks.alias("granted")
_ALL_OR_NOTHING = Prepared(
    delete(locks).where(
        _OF_REQUEST,
        select(func.count()).select_from(_GRANTED).where(_GRANTED.c.lock_id == _OWN_ID).scalar_subquery()
        != bindparam("count", type_=BigInteger),
    )
)


def _noting(txn_id: ColumnElement[int]) -> Prepared:
    """Return the INSERT that records a table or partition that the owner will write, if the locks were granted."""
    return Prepared(
        insert(txn_components).from_select(
            ["txn_id", "table_id", "partition", "operation"],
            _NAMED_TABLE.with_only_columns(
                txn_id, tables.c.id, _PARTITION, bindparam("letter", type_=String), maintain_column_froms=True
            )
            .where(
                func.lower(JsonText(tables.c.parameters, "transactional")) == literal_column("'true'"),
                select(locks.c.lock_id).where(_OF_REQUEST).exists(),
            )
            # A table that is being dropped gets no notes.
            .with_for_update(read=True, key_share=True, of=tables),
        )
    )


_NOTE = {_Owner.TXN: _noting(_TXN_ID), _Owner.NEW_TXN: _noting(NEW_TXN_ID)}


def _checking(level: LockLevel) -> Prepared:
    """Return a query that returns a row if no existing lock can block a lock of this level."""
    ahead = (_AHEAD.c.strictness >= bindparam("mildest", type_=Integer), _AHEAD.c.lock_id < counters.c.value)
    guards = [~select(_AHEAD.c.lock_id).where(meets, *ahead).exists() for meets in _MEETING[level]]
    return Prepared(select(counters.c.value).where(_OF_LOCK_IDS, *guards))


_CHECK = {level: _checking(level) for level in LockLevel}


def checks_at_once(matrix: LockMatrix, components: Sequence[LockComponent]) -> list[Call]:
    """Return calls that check whether locks could be granted now.

    The locks could be granted if every answer except the first has a row.

    The first call makes new lock requests wait until the caller's database transaction ends.
    """
    if not components:
        return []
    checks = []
    for component in components:
        given = {
            LockLevel.DB: {},
            LockLevel.TABLE: {"full_table": component.full_table},
            LockLevel.PARTITION: {"full_table": component.full_table, "resource": component.resource},
        }[component.level]
        mildest = min(ahead.strictness for ahead in matrix.blocking[component.type])
        checks.append(_CHECK[component.level](database=component.database, mildest=mildest, **given))
    return [_TAKE_IDS(count=1), *checks]


@dataclass(frozen=True, slots=True)
class LockRequest:
    """The locks that a client requests together, with or without a transaction."""

    components: Sequence[LockComponent]
    txn_id: int | None
    user: str
    host: str
    agent_info: str | None

    @property
    def is_simple(self) -> bool:
        """Return whether :func:`grant_at_once` can be tried."""
        return (self.txn_id is None or is_id(self.txn_id)) and are_simple(self.components)


def grant_at_once(
    exchange: Exchange, matrix: LockMatrix, requests: Sequence[LockRequest], now_ms: int
) -> list[LockResponse | None]:
    """Grant the locks of each request if possible, finish the exchange, and return one response for each request.

    One round trip. The tables that a granted request will write are recorded. The response to a request that was not
    granted is None.
    """
    calls, first_of = [_TAKE_IDS(count=len(requests))], []
    for number, request in enumerate(requests, 1):
        first_of.append(len(calls))
        owner = _Owner.NONE if request.txn_id is None else _Owner.TXN
        calls += _granting_calls(matrix, request, owner, len(requests) - number, now_ms)
    answers = exchange.finish(*calls)
    responses: list[LockResponse | None] = []
    for request, first in zip(requests, first_of, strict=True):
        responses.append(_response(answers[first : first + len(request.components)]))
    return responses


def granting_to_new(matrix: LockMatrix, request: LockRequest, now_ms: int) -> list[Call]:
    """Return the calls that grant locks to a transaction that is opened in the same database transaction.

    If another lock can block one of the locks, no lock is granted. :func:`granted_to_new` reads the answers.
    """
    return [_TAKE_IDS(count=1), *_granting_calls(matrix, request, _Owner.NEW_TXN, 0, now_ms)]


def granted_to_new(request: LockRequest, answers: Sequence[Rows]) -> LockResponse | None:
    """Return the response to a request of :func:`granting_to_new`, or None if the locks were not granted."""
    return _response(answers[1 : 1 + len(request.components)])


def _response(granted: Sequence[Rows]) -> LockResponse | None:
    return LockResponse(int(granted[0][0][0]), LockState.ACQUIRED) if all(granted) else None


def _granting_calls(
    matrix: LockMatrix, request: LockRequest, owner: _Owner, before_last: int, now_ms: int
) -> list[Call]:
    """Return the calls that grant one request. The first calls insert one lock for each component."""
    components = request.components
    of_txn: dict[str, int] = {} if owner is _Owner.NEW_TXN else {"txn_id": request.txn_id or 0}
    calls = [
        _GRANT[component.level, owner, component.is_new_table](
            before_last=before_last,
            internal_id=number,
            **of_txn,
            database=component.database,
            table=component.table or "",
            partition=partition_to_column(component.partition),
            full_table=component.full_table,
            resource=component.resource,
            type=component.type.value,
            strictness=component.type.strictness,
            mildest=min(ahead.strictness for ahead in matrix.blocking[component.type]),
            operation=component.operation.value,
            now_ms=now_ms,
            user=request.user,
            host=request.host,
            agent_info=request.agent_info,
        )
        for number, component in enumerate(components, 1)
    ]
    if len(components) > 1:
        calls.append(_ALL_OR_NOTHING(before_last=before_last, count=len(components)))
    if owner is not _Owner.NONE:
        calls += [
            _NOTE[owner](
                before_last=before_last,
                **of_txn,
                database=database,
                table=table,
                partition=partition,
                letter=operation.value,
            )
            for (database, table), partition, operation in writes_of_request(components)
        ]
    return calls


def are_simple(components: Sequence[LockComponent]) -> bool:
    """Return whether locks are so few that they can be granted or checked in one round trip."""
    return len(components) <= _MOST_COMPONENTS
