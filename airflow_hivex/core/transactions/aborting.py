"""Aborts of transactions: one conditional update, the release of their locks, and their events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import BigInteger, ColumnElement, Connection, cast, select, update

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.texts import shortened
from airflow_hivex.core.model.transactions import AbortReason, TxnState
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import databases, locks, tables, txn_to_write_id, txns
from airflow_hivex.core.transactions.locks.rows import release

_REASON_LENGTH = 4096

# The column is a 32-bit integer, in which a long time-out in milliseconds would overflow.
_TIMED_OUT_MS = txns.c.heartbeat_ms + cast(txns.c.timeout_s, BigInteger) * 1000


def abort_in(
    connection: Connection, clock: Clock, txn_ids: Sequence[int], reason: str | None, code: AbortReason
) -> list[int]:
    """Abort the transactions that are still open, and return their ids; ``txn_ids`` are sorted."""
    return [
        txn_id
        for batch in batches(txn_ids)
        for txn_id in _abort_where(connection, clock, txns.c.id.in_(batch), reason=reason, code=code)
    ]


def abort_timed_out_in(connection: Connection, clock: Clock, limit: int) -> list[int]:
    """Abort at most ``limit`` open transactions whose last heartbeat is older than their time-out; return their ids."""
    return _abort_where(
        connection,
        clock,
        clock() > _TIMED_OUT_MS,
        reason=AbortReason.TIMEOUT.words,
        code=AbortReason.TIMEOUT,
        limit=limit,
    )


def _abort_where(
    connection: Connection,
    clock: Clock,
    condition: ColumnElement[bool],
    *,
    reason: str | None,
    code: AbortReason,
    limit: int | None = None,
) -> list[int]:
    """Abort the open transactions that meet the condition, with their locks and events; return their ids."""
    reason = None if reason is None else shortened(reason, _REASON_LENGTH)
    # Rows are locked in the order of ids, as everywhere, against deadlocks. With a limit (the housekeeper) a
    # transaction is skipped that commits or sends a heartbeat at this moment.
    chosen = (
        select(txns.c.id)
        .where(IS_OPEN, condition)
        .order_by(txns.c.id)
        .limit(limit)
        .with_for_update(skip_locked=limit is not None)
    )
    ids = sorted(
        connection.execute(
            update(txns)
            .where(txns.c.id.in_(chosen), IS_OPEN)
            .values(state=TxnState.ABORTED.value, reason=reason, reason_code=code.number, ended_ms=clock())
            .returning(txns.c.id)
        ).scalars()
    )
    for batch in batches(ids):
        release(connection, locks.c.txn_id.in_(batch))
    for batch in batches(ids):
        _record_aborts(connection, clock, batch)
    return ids


def _record_aborts(connection: Connection, clock: Clock, txn_ids: Sequence[int]) -> None:
    """Record an abort event for each of the transactions that had allocated write ids."""
    mapping = txn_to_write_id.c
    written: dict[int, dict[str, int]] = defaultdict(dict)
    table_ids: dict[int, dict[str, int]] = defaultdict(dict)
    for txn_id, table_id, database, table, write_id in connection.execute(
        select(mapping.txn_id, mapping.table_id, databases.c.name, tables.c.name, mapping.write_id)
        .select_from(txn_to_write_id)
        .join(tables, tables.c.id == mapping.table_id)
        .join(databases, databases.c.id == tables.c.database_id)
        .where(mapping.txn_id.in_(txn_ids))
    ):
        written[txn_id][f"{database}.{table}"] = write_id
        table_ids[txn_id][f"{database}.{table}"] = table_id
    for txn_id in sorted(written):
        message = {"write_ids": written[txn_id], "table_ids": table_ids[txn_id]}
        notification_log.record(connection, clock(), EventType.ABORT_TXN, txn_id=txn_id, message=message)
