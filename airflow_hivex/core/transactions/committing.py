"""Commits of transactions: one row change, after all that becomes visible with it was written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from sqlalchemy import BigInteger, Connection, bindparam, literal_column, update

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.snapshots.txn_states import IS_OPEN
from airflow_hivex.core.store.exchange import Call, Exchange, Prepared, Rows, joined
from airflow_hivex.core.store.schema import txns
from airflow_hivex.core.transactions import commit_record, conflicts, txn_rows
from airflow_hivex.core.transactions.commit_record import CommitFacts
from airflow_hivex.core.transactions.lock_rows import HELD_BY_TXN, releasing
from airflow_hivex.core.transactions.txn_rows import TxnRow, raise_if_settled, row_from

RegisterWrites: TypeAlias = Callable[[Connection, int], None]
"""Registers the pending writes of a transaction, within the database transaction that commits it."""

_WITHOUT_COMPLETED_COMPONENTS = (TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION, TxnType.SOFT_DELETE)

_COMMITTED = Prepared(
    update(txns)
    .where(txns.c.id == bindparam("txn_id", type_=BigInteger), IS_OPEN)
    .values(state=literal_column("'c'"), ended_ms=bindparam("now_ms", type_=BigInteger))
)


class Committer:
    """Commits transactions within the database transaction of its caller.

    ``register_writes`` brings the writes of a transaction's statements into the catalog.
    """

    def __init__(self, clock: Clock, register_writes: RegisterWrites | None) -> None:
        self._clock = clock
        self._register_writes = register_writes

    def commit(
        self,
        connection: Connection,
        txn_id: int,
        changes: Callable[[Connection], None] | None,
        exclusive_write_locks: bool,
    ) -> TxnRow:
        """Commit a transaction together with ``changes``; return its row. Committing twice is a no-op.

        Raises:
            ConflictFoundError: another transaction was first.
            TransactionAbortedError, NoSuchTransactionError: it is not open.
        """
        exchange = joined(connection)
        (found,) = exchange.send(txn_rows.LOCK(txn_id=txn_id))
        row = row_from(txn_id, found)
        if row.state == TxnState.COMMITTED.value:
            return row
        raise_if_settled(txn_id, row)
        with notification_log.deferred(connection) as events, commit_record.collected(connection) as facts:
            if row.statements and self._register_writes is not None:
                self._register_writes(connection, txn_id)
            if changes is not None:
                changes(connection)
        written, held = exchange.send(conflicts.WRITES(txn_id=txn_id), HELD_BY_TXN(txn_id=txn_id))
        self._settle(exchange, row, written, held, exclusive_write_locks, events, facts)
        return row

    def commit_alone(self, exchange: Exchange, txn_id: int, exclusive_write_locks: bool) -> TxnRow | None:
        """Commit in two round trips; return None, with nothing done, if writes must be registered together with that.

        Raises:
            ConflictFoundError: another transaction was first.
            TransactionAbortedError, NoSuchTransactionError: it is not open.
        """
        found, written, held = exchange.send(
            txn_rows.LOCK(txn_id=txn_id), conflicts.WRITES(txn_id=txn_id), HELD_BY_TXN(txn_id=txn_id)
        )
        row = row_from(txn_id, found)
        if row.state == TxnState.COMMITTED.value:
            return row
        raise_if_settled(txn_id, row)
        if row.statements and self._register_writes is not None:
            return None
        self._settle(exchange, row, written, held, exclusive_write_locks)
        return row

    def _settle(
        self,
        exchange: Exchange,
        row: TxnRow,
        written: Rows,
        held: Rows,
        exclusive_write_locks: bool,
        events: Sequence[Call] = (),
        facts: Mapping[int, CommitFacts] = MappingProxyType({}),
    ) -> None:
        """Commit a transaction whose row is locked. One round trip, and one more to look for conflicts."""
        kind = TxnType(row.type)
        writes = [] if kind is TxnType.READ_ONLY else conflicts.writes_from(written)
        updating = any(write.updates for write in writes)
        if updating and not exclusive_write_locks:
            sentence = conflicts.find_conflict(exchange, row.id, writes)
            if sentence is not None:
                raise conflicts.ConflictFoundError(sentence)
        now = self._clock()
        calls: list[Call] = []
        if kind not in _WITHOUT_COMPLETED_COMPONENTS:
            calls += conflicts.completing(row.id, writes, now)
        calls += commit_record.recording(row.id, writes, facts, now)
        if any(write.operation for write in writes):
            calls.append(conflicts.forgetting_components(row.id))
        calls += releasing(row.id, [(lock_id, state) for lock_id, state in held])
        if updating:
            calls += conflicts.recording_write_set(row.id, writes)
        calls.append(_COMMITTED(txn_id=row.id, now_ms=now))
        calls += events
        write_ids = {write.full_name: write.write_id for write in writes if write.write_id}
        if write_ids:
            partitions: dict[str, list[str]] = defaultdict(list)
            for table, name in sorted({(write.full_name, write.partition) for write in writes if write.partition}):
                partitions[table].append(name)
            table_ids = {write.full_name: write.table_id for write in writes if write.write_id}
            message = {"write_ids": write_ids, "table_ids": table_ids, "partitions": partitions}
            calls.append(notification_log.recording(now, EventType.COMMIT_TXN, txn_id=row.id, message=message))
        if events or write_ids:
            calls.append(notification_log.announcing(now))
        exchange.finish(*calls)
