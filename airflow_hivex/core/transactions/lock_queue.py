"""Which locks are in the way of a request: read by an index, decided by the matrix. In the caller's transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, select, union_all

from airflow_hivex.core.model.locks import LockComponent, LockInfo, LockMatrix, LockState, LockType, covers
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import locks
from airflow_hivex.core.transactions.lock_rows import lock_from_row, select_locks

# A statement of more branches, or a branch of more names, is split: SQLite takes 32,766 values.
_NAMES = 1000
_BRANCHES = 20


def blocker_of(
    connection: Connection,
    matrix: LockMatrix,
    components: Sequence[LockComponent],
    txn_id: int | None,
    *,
    before: int | None,
) -> tuple[LockComponent, LockInfo] | None:
    """The first of the components that must wait, and for which lock; None when all can be granted.

    ``before`` is the id of a request that is in the queue already. What the transaction holds
    already, it need not wait for again. One round trip, two when something is in the way; they read
    only locks that meet the request and are of a type that can be in its way.
    """
    ahead: dict[tuple[str, str | None], list[LockInfo]] = defaultdict(list)
    queries = list(_queries(matrix, components, txn_id, before))
    for batch in batches(queries, _BRANCHES):
        statement = batch[0] if len(batch) == 1 else union_all(*batch)
        for row in connection.execute(statement):
            lock = lock_from_row(row)
            ahead[lock.component.database, lock.component.table].append(lock)
    if not ahead:
        return None
    held: list[LockComponent] | None = None
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
        if not any(covers(each, component) for each in held):
            return component, blocker
    return None


def _held_by(connection: Connection, txn_id: int | None) -> list[LockComponent]:
    if txn_id is None:
        return []
    query = select(locks).where(locks.c.txn_id == txn_id, locks.c.state == LockState.ACQUIRED.value)
    return [lock_from_row(row).component for row in connection.execute(query)]


def locks_of_waiting_transactions(connection: Connection) -> list[LockInfo]:
    """All locks of all transactions that wait for one. One round trip."""
    waiting = select(locks.c.txn_id).where(locks.c.state == LockState.WAITING.value, locks.c.txn_id > 0)
    return [lock_from_row(row) for row in connection.execute(select_locks().where(locks.c.txn_id.in_(waiting)))]


def _queries(
    matrix: LockMatrix, components: Sequence[LockComponent], txn_id: int | None, before: int | None
) -> Iterator[Select[Any]]:
    """For every type of request: what is on its things themselves or above them, and what is below them."""
    at_or_above: dict[LockType, set[str]] = defaultdict(set)
    of_tables: dict[LockType, set[str]] = defaultdict(set)
    in_databases: dict[LockType, set[str]] = defaultdict(set)
    for component in components:
        if component.table is None:
            in_databases[component.type].add(component.database)
            continue
        at_or_above[component.type].add(component.database)
        if component.partition is None:
            of_tables[component.type].add(component.full_table)
        else:
            at_or_above[component.type] |= {component.full_table, component.resource}
    for column, names_by_type in (
        (locks.c.resource, at_or_above),
        (locks.c.full_table, of_tables),
        (locks.c.database, in_databases),
    ):
        for requested, names in names_by_type.items():
            mildest = min(ahead.strictness for ahead in matrix.blocking[requested])
            for batch in batches(sorted(names), _NAMES):
                query = select(locks).where(column.in_(batch), locks.c.strictness >= mildest)
                if txn_id is not None:
                    query = query.where(locks.c.txn_id != txn_id)
                if before is not None:
                    query = query.where(locks.c.lock_id < before)
                yield query
