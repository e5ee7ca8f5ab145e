"""Entries of the queue: new entries, changes by their owner, and their end, in the caller's database transaction.

A change is one conditional update with the expected state and owner, so that a worker which has lost its entry cannot
change the entry. The same database transaction moves an ended entry to the history.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from airflow_hivex import __version__
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.errors import CompactionLostError
from airflow_hivex.core.model.compaction import (
    NEXT,
    Compaction,
    CompactionRequest,
    CompactionState,
    CompactionType,
    pool_name,
    to_milliseconds,
)
from airflow_hivex.core.model.texts import shortened
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import compaction_queue, completed_compactions, counters
from airflow_hivex.core.store.schema.base import partition_from_column, partition_to_column

MESSAGE_LENGTH = 4096
Q = compaction_queue.c
IS_INITIATED, IS_WORKING, IS_READY = (
    Q.state == state.value
    for state in (CompactionState.INITIATED, CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)
)
IS_ABORT_CLEANUP = Q.type == CompactionType.ABORT_CLEANUP.value
_OF_IDS = counters.c.name == "compaction"
_HOST = socket.gethostname()


LOCKING_IDS = select(counters.c.value).where(_OF_IDS).with_for_update()
"""The query of :func:`lock_ids`, whose row has the last id."""


def lock_ids(connection: Connection) -> int:
    """Lock the counter of ids until the caller's database transaction ends, and return the next id.

    No other client can create an entry meanwhile.
    """
    return int(connection.execute(LOCKING_IDS).scalar_one()) + 1


def take_ids(connection: Connection, count: int) -> None:
    """Allocate ``count`` ids, beginning with the id that :func:`lock_ids` has returned."""
    if count:
        later(connection, update(counters).where(_OF_IDS).values(value=counters.c.value + count))


def new_row(request: CompactionRequest, compaction_id: int, initiator: str, now_ms: int) -> dict[str, Any]:
    """Return the columns of a new entry in the state initiated; ``initiator`` names a thread of this host."""
    return {
        "id": compaction_id,
        "table_id": request.table_id,
        "database": request.database,
        "table": request.table,
        "partition": partition_to_column(request.partition),
        "state": CompactionState.INITIATED.value,
        "type": request.type.value,
        "properties": dict(request.properties),
        "pool": pool_name(request.pool),
        "buckets": request.buckets,
        "order_by": request.order_by,
        "run_as": request.run_as,
        "enqueued_ms": now_ms,
        "initiator_id": f"{_HOST}-{initiator}"[-255:],
        "initiator_version": __version__,
    }


def change(
    connection: Connection, entry: Compaction, values: dict[str, Any], state: CompactionState | None = None
) -> Compaction:
    """Change values of an entry, and optionally its state; return the changed entry.

    Raises:
        CompactionLostError: the entry has another state or owner.
    """
    if state is not None:
        _check_next(entry.state, state)
        values = {**values, "state": state.value}
    row = connection.execute(
        update(compaction_queue).where(*_is_owned(entry)).values(**values).returning(*QUEUE_COLUMNS)
    ).one_or_none()
    if row is None:
        raise _lost(entry)
    return compaction_from_row(row)


def end(connection: Connection, entry: Compaction, state: CompactionState, message: str | None, now_ms: int) -> None:
    """Move an entry to the history.

    Raises:
        CompactionLostError: the entry has another state or owner.
    """
    if connection.execute(select(Q.id).where(*_is_owned(entry)).with_for_update()).one_or_none() is None:
        raise _lost(entry)
    end_locked(connection, [entry], state, message, now_ms)


def end_locked(
    connection: Connection, entries: Sequence[Compaction], state: CompactionState, message: str | None, now_ms: int
) -> None:
    """Move entries to the history. The caller has locked their rows.

    If ``message`` is None, each entry keeps its own message.
    """
    for entry in entries:
        _check_next(entry.state, state)
    for batch in batches([entry.id for entry in entries]):
        deleted = connection.execute(delete(compaction_queue).where(Q.id.in_(batch)).returning(*QUEUE_COLUMNS))
        ended = [
            replace(
                each,
                state=state,
                ended_at=to_datetime(now_ms),
                error_message=each.error_message if message is None else shortened(message, MESSAGE_LENGTH),
            )
            for each in map(compaction_from_row, deleted)
        ]
        if ended:
            later(connection, insert(completed_compactions), [compaction_to_values(each) for each in ended])


def end_of_dropped(
    connection: Connection, table_ids: Collection[int], names: Collection[str] | None, now_ms: int
) -> None:
    """End the entries of dropped tables, or of dropped partitions of one table.

    A waiting entry ends as aborted, an entry with a worker as refused. An entry that waits for the cleaner ends as
    succeeded, because the drop deletes its files.
    """
    for batch in batches(sorted(names)) if names is not None else [None]:
        query = select(*QUEUE_COLUMNS).where(Q.table_id.in_(table_ids)).order_by(Q.id).with_for_update()
        if batch is not None:
            query = query.where(Q.partition.in_(batch))
        found = [compaction_from_row(row) for row in connection.execute(query)]
        for state, (ended, message) in _AT_DROP.items():
            end_locked(connection, [each for each in found if each.state is state], ended, message, now_ms)


_DROPPED = "the table or partition was dropped"
_AT_DROP = {
    CompactionState.INITIATED: (CompactionState.ABORTED, _DROPPED),
    CompactionState.WORKING: (CompactionState.REFUSED, _DROPPED),
    CompactionState.READY_FOR_CLEANING: (CompactionState.SUCCEEDED, None),
}


def _is_owned(entry: Compaction) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that the row of ``entry`` still has its state and its worker."""
    conditions: list[ColumnElement[bool]] = [Q.id == entry.id, Q.state == entry.state.value]
    if entry.state is CompactionState.WORKING:
        conditions += [Q.worker_id == entry.worker_id, Q.started_ms == to_milliseconds(entry.started_at)]
    return tuple(conditions)


def _lost(entry: Compaction) -> CompactionLostError:
    owner = f"worker {entry.worker_id}" if entry.state is CompactionState.WORKING else "the cleaner"
    return CompactionLostError(entry.id, entry.name, owner)


def _check_next(state: CompactionState, following: CompactionState) -> None:
    if following not in NEXT[state]:
        raise AssertionError(f"a compaction that is {state.shown} cannot be {following.shown} next")


QUEUE_COLUMNS = tuple(compaction_queue.c)
HISTORY_COLUMNS = tuple(completed_compactions.c)
_NAMES = frozenset(column.name for column in HISTORY_COLUMNS)

_TIMES = ("enqueued", "started", "committed", "cleaner_started", "ended")


def compaction_from_row(row: Row[Any]) -> Compaction:
    """Return the compaction of a row of the queue or the history. Other columns of the row are ignored."""
    values = {name: value for name, value in row._mapping.items() if name in _NAMES}
    for name in _TIMES:
        time_ms = values.pop(f"{name}_ms", None)
        values[f"{name}_at"] = None if time_ms is None else to_datetime(time_ms)
    values["partition"] = partition_from_column(values["partition"])
    values["state"] = CompactionState(values["state"])
    values["type"] = CompactionType(values["type"])
    return Compaction(**values)


def compaction_to_values(entry: Compaction) -> dict[str, Any]:
    """Return the columns of an ended entry for the history."""
    values = {name: getattr(entry, name) for name in Compaction.__slots__}
    for name in _TIMES:
        values[f"{name}_ms"] = to_milliseconds(values.pop(f"{name}_at"))
    return values | {
        "partition": partition_to_column(entry.partition),
        "state": entry.state.value,
        "type": entry.type.value,
        "properties": dict(entry.properties),
    }
