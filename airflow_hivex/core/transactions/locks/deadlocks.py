"""Circles of waiting: who waits for whom, followed from one transaction. Read in the caller's connection.

A request waits for every lock ahead of it that its type does not bear, also for one that waits itself, but not where
its transaction holds a lock that gives it as much. Only transactions that wait themselves are part of a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, literal_column, select, union_all

from airflow_hivex.core.model.locks import (
    HeldLocks,
    LockAction,
    LockComponent,
    LockLevel,
    LockMatrix,
    LockState,
    find_circle,
)
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import locks
from airflow_hivex.core.transactions.locks.queue import BRANCHES, Reach, conditions_ahead
from airflow_hivex.core.transactions.locks.rows import component_from_row

_OTHERS = locks.alias("others")
_WAITS_ITSELF = (
    select(_OTHERS.c.lock_id)
    .where(_OTHERS.c.txn_id == locks.c.txn_id, _OTHERS.c.state == LockState.WAITING.value)
    .exists()
)


def deadlock_of(connection: Connection, matrix: LockMatrix, txn_id: int) -> tuple[int, ...]:
    """Return the transactions of a shortest circle of waiting that a transaction is part of, or none.

    One round trip if no request waits behind the transaction, else two more for each step away from it. They read locks
    of the transactions on the way, and no others.
    """
    own = select(locks.c.lock_id).where(locks.c.txn_id == txn_id).order_by(locks.c.lock_id).limit(1).scalar_subquery()
    behind = select(_OTHERS.c.lock_id).where(
        _OTHERS.c.state == LockState.WAITING.value,
        _OTHERS.c.txn_id > 0,
        _OTHERS.c.txn_id != txn_id,
        _OTHERS.c.lock_id > own,
    )
    if connection.execute(behind.limit(1)).first() is None:
        return ()
    return find_circle(txn_id, lambda txn_ids: waits_for(connection, matrix, txn_ids))


def waits_for(connection: Connection, matrix: LockMatrix, txn_ids: Collection[int]) -> Mapping[int, set[int]]:
    """Return the waiting transactions that each of these transactions waits for. Two round trips."""
    queue = _Queue(connection, txn_ids)
    queries = [
        select(
            literal_column(str(reach.value)).label("reach"),
            locks.c.txn_id,
            locks.c.lock_id,
            locks.c.type,
            locks.c.state,
            locks.c.database,
            locks.c.table,
            (locks.c.partition if reach is Reach.AT_OR_ABOVE else literal_column("''")).label("partition"),
        )
        .where(condition, locks.c.lock_id < queue.last_lock_id, locks.c.txn_id > 0, _WAITS_ITSELF)
        .distinct()
        for reach, condition in conditions_ahead(matrix, queue.components)
    ]
    found: dict[int, set[int]] = defaultdict(set)
    for batch in batches(queries, BRANCHES):
        for row in connection.execute(batch[0] if len(batch) == 1 else union_all(*batch)):
            ahead = component_from_row(row)
            state = LockState(row.state)
            for waiting in queue.that_meet(Reach(row.reach), ahead):
                if (
                    row.lock_id < waiting.lock_id
                    and row.txn_id != waiting.txn_id
                    and matrix.actions[waiting.component.type, ahead.type, state] is LockAction.WAIT
                    and not matrix.is_harmless(waiting.component, ahead)
                ):
                    found[waiting.txn_id].add(row.txn_id)
    return found


class _Waiting(NamedTuple):
    """A part of a request that waits. Of all its partitions of a table there is one."""

    txn_id: int
    lock_id: int
    component: LockComponent


class _Queue:
    """The requests of waiting transactions, by place."""

    def __init__(self, connection: Connection, txn_ids: Iterable[int]) -> None:
        held: dict[int, HeldLocks] = defaultdict(HeldLocks)
        waiting = []
        narrow = ("txn_id", "lock_id", "database", "table", "partition", "type", "state")
        query: Select[Any] = select(*(locks.c[name] for name in narrow))
        for batch in batches(sorted(txn_ids)):
            for row in connection.execute(query.where(locks.c.txn_id.in_(batch))):
                if row.state == LockState.WAITING.value:
                    waiting.append(row)
                else:
                    held[row.txn_id].add(component_from_row(row))
        self.components: set[LockComponent] = set()
        self.last_lock_id = max((row.lock_id for row in waiting), default=0)
        self._at: dict[tuple[str, str | None, str | None], set[_Waiting]] = defaultdict(set)
        self._in_table: dict[tuple[str, str | None], set[_Waiting]] = defaultdict(set)
        self._in_database: dict[str, set[_Waiting]] = defaultdict(set)
        for row in waiting:
            component = component_from_row(row)
            if held[row.txn_id].cover(component):
                continue
            self.components.add(component)
            in_table = LockComponent(component.database, component.table, type=component.type)
            each = _Waiting(row.txn_id, row.lock_id, in_table)
            self._at[component.place].add(each)
            self._in_table[component.database, component.table].add(each)
            self._in_database[component.database].add(each)

    def that_meet(self, reach: Reach, ahead: LockComponent) -> Iterable[_Waiting]:
        """Return the requests that wait at the object of a lock or in it, or at its table or database."""
        if reach is Reach.IN_TABLE:
            return self._at[ahead.database, ahead.table, None]
        if reach is Reach.IN_DATABASE:
            return self._at[ahead.database, None, None]
        if ahead.level is LockLevel.DB:
            return self._in_database[ahead.database]
        if ahead.level is LockLevel.TABLE:
            return self._in_table[ahead.database, ahead.table]
        return self._at[ahead.place]
