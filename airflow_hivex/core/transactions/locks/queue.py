"""The search for locks that block a request, with indexes and the lock matrix.

The functions run in the caller's database transaction.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, union_all

from airflow_hivex.core.model.locks import HeldLocks, LockComponent, LockInfo, LockMatrix, LockState, LockType
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import locks
from airflow_hivex.core.transactions.locks.rows import component_from_row, lock_from_row

# A statement with more branches, or a branch with more names, is split: SQLite takes 32,766 values.
_NAMES = 1000
BRANCHES = 20


class Reach(enum.IntEnum):
    """The relation of the object of an existing lock to the object of a requested lock.

    ``AT_OR_ABOVE``: the existing lock is on the same object or on an object that contains it. ``IN_TABLE`` and
    ``IN_DATABASE``: the existing lock is on the requested table or database, or on an object in it.
    """

    AT_OR_ABOVE = 1
    IN_TABLE = 2
    IN_DATABASE = 3


def blocker_of(
    connection: Connection,
    matrix: LockMatrix,
    components: Sequence[LockComponent],
    txn_id: int | None,
    *,
    before: int | None,
) -> tuple[LockComponent, LockInfo] | None:
    """Return (component, blocking lock) for the first component that must wait, or None if no lock must wait.

    ``before`` is the id of the request if the request is already in the queue. A transaction does not wait for its own
    locks. One round trip, or two if the request is blocked.
    """
    ahead: dict[tuple[str, str | None], list[LockInfo]] = defaultdict(list)
    queries = [
        _first_of_requests(reach, and_(*_conditions(condition, txn_id, before)))
        for reach, condition in conditions_ahead(matrix, components)
    ]
    for batch in batches(queries, BRANCHES):
        statement = batch[0] if len(batch) == 1 else union_all(*batch)
        for row in connection.execute(statement):
            lock = lock_from_row(row)
            ahead[lock.component.database, lock.component.table].append(lock)
    if not ahead:
        return None
    held: HeldLocks | None = None
    for component in components:
        if component.table is None:
            met = [lock for (database, _), found in ahead.items() if database == component.database for lock in found]
        else:
            met = ahead.get((component.database, component.table), []) + ahead.get((component.database, None), [])
        blocker = matrix.blocker(component, txn_id, met)
        if blocker is None:
            continue
        if held is None:
            held = _held_by(connection, txn_id)
        if not held.cover(component):
            return component, blocker
    return None


def _conditions(
    condition: ColumnElement[bool], txn_id: int | None, before: int | None
) -> Iterator[ColumnElement[bool]]:
    yield condition
    if txn_id is not None:
        yield locks.c.txn_id != txn_id
    if before is not None:
        yield locks.c.lock_id < before


def _first_of_requests(reach: Reach, condition: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the locks that satisfy a condition.

    For ``IN_TABLE`` and ``IN_DATABASE`` the query returns only one lock for each request, table, type and state,
    because all these locks block in the same way.
    """
    if reach is Reach.AT_OR_ABOVE:
        return select(locks).where(condition)
    first = (
        select(locks.c.lock_id, func.min(locks.c.internal_id).label("internal_id"))
        .where(condition)
        .group_by(locks.c.lock_id, locks.c.full_table, locks.c.type, locks.c.state)
        .subquery()
    )
    return select(locks).join(
        first, and_(locks.c.lock_id == first.c.lock_id, locks.c.internal_id == first.c.internal_id)
    )


def _held_by(connection: Connection, txn_id: int | None) -> HeldLocks:
    held = HeldLocks()
    if txn_id is not None:
        query = select(locks).where(locks.c.txn_id == txn_id, locks.c.state == LockState.ACQUIRED.value)
        for row in connection.execute(query):
            held.add(component_from_row(row))
    return held


def conditions_ahead(
    matrix: LockMatrix, components: Iterable[LockComponent]
) -> Iterator[tuple[Reach, ColumnElement[bool]]]:
    """Yield conditions for the locks that overlap a component and have a type that can block the component.

    Each of these locks satisfies at least one of the conditions. A condition compares one indexed column with up to
    1,000 names.
    """
    names: dict[tuple[Reach, LockType], set[str]] = defaultdict(set)
    for component in components:
        at_or_above = names[Reach.AT_OR_ABOVE, component.type]
        if component.table is None:
            names[Reach.IN_DATABASE, component.type].add(component.database)
            continue
        at_or_above.add(component.database)
        if component.partition is None:
            names[Reach.IN_TABLE, component.type].add(component.full_table)
        else:
            at_or_above |= {component.full_table, component.resource}
    for (reach, requested), wanted in names.items():
        column = _COLUMNS[reach]
        mildest = min(ahead.strictness for ahead in matrix.blocking[requested])
        for batch in batches(sorted(wanted), _NAMES):
            yield reach, and_(column.in_(batch), locks.c.strictness >= mildest)


_COLUMNS: dict[Reach, ColumnElement[str]] = {
    Reach.AT_OR_ABOVE: locks.c.resource,
    Reach.IN_TABLE: locks.c.full_table,
    Reach.IN_DATABASE: locks.c.database,
}
