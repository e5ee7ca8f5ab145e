"""Commits and aborts of transactions.

A commit or an abort changes the state in the transaction's row. Changes that take effect with the commit, such as the
registration of directories, are made in the same database transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, cast, literal_column, select, update

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.texts import shortened
from airflow_hivex.core.model.transactions import AbortReason, TxnState, TxnType
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN, LISTS, lists_of_commit
from airflow_hivex.core.store.batches import PreparedForIds, batches
from airflow_hivex.core.store.exchange import Call, Exchange, Prepared, Rows, joined
from airflow_hivex.core.store.schema import databases, locks, tables, txn_components, txn_to_write_id, txns
from airflow_hivex.core.transactions import commit_record, conflicts, txn_rows
from airflow_hivex.core.transactions.commit_record import CommitFacts
from airflow_hivex.core.transactions.locks.rows import (
    HAS_WAITING,
    HELD_BY_TXNS,
    release,
    releasing,
    releasing_if_committed,
)
from airflow_hivex.core.transactions.txn_rows import TxnRow, raise_if_settled, row_from

RegisterWrites: TypeAlias = Callable[[Connection, int], bool]
"""A function that registers the pending writes of a transaction, within the database transaction of the commit.

The function returns whether pending writes of killed statements are left.
"""

Companion: TypeAlias = Callable[[int], Sequence[Call]]
"""A function that returns calls for the last round trip of a commit. Its argument is the current time."""

_WITHOUT_COMPLETED_COMPONENTS = (TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION, TxnType.SOFT_DELETE)

_COMMITTED = PreparedForIds(
    lambda ids: (
        update(txns)
        .where(txns.c.id.in_(ids), IS_OPEN)
        .values(state=literal_column("'c'"), ended_ms=bindparam("now_ms", type_=BigInteger))
    )
)


_TXN_ID = bindparam("txn_id", type_=BigInteger)
_COMMIT_READER = Prepared(
    update(txns)
    .where(
        txns.c.id == _TXN_ID,
        IS_OPEN,
        txns.c.statements == literal_column("0"),
        ~select(txn_to_write_id.c.txn_id).where(txn_to_write_id.c.txn_id == _TXN_ID).exists(),
        ~select(txn_components.c.txn_id).where(txn_components.c.txn_id == _TXN_ID).exists(),
        ~HAS_WAITING,
    )
    .values(state=literal_column("'c'"), ended_ms=bindparam("now_ms", type_=BigInteger))
    .returning(txns.c.id)
)


class Committer:
    """The service that commits transactions, in the caller's database transaction.

    ``register_writes`` registers in the catalog the directories that the statements of a transaction have written.
    """

    def __init__(self, clock: Clock, register_writes: RegisterWrites | None) -> None:
        self._clock = clock
        self._register_writes = register_writes
        self.companions: dict[int, Companion] = {}
        """A dict from transaction id to the :data:`Companion` of the transaction's commit."""

    def commit(
        self,
        connection: Connection,
        txn_id: int,
        changes: Callable[[Connection], None] | None,
        exclusive_write_locks: bool,
        *,
        is_plain: bool,
    ) -> TxnRow:
        """Commit a transaction together with ``changes``, and return its row.

        In the returned row ``statements`` is 0, unless pending writes of killed statements are left. The caller sets
        ``is_plain`` if the transaction has no pending writes.

        Raises:
            OtherRowError: the transaction has committed before, or has pending writes despite ``is_plain``.
            ConflictFoundError: another transaction has committed a conflicting write first.
            TransactionAbortedError, NoSuchTransactionError: the transaction is not open.
        """
        exchange = joined(connection)
        rows: list[TxnRow] = []
        has_left = False

        def check(found: Rows) -> None:
            row = row_from(txn_id, found)
            rows.append(row)
            if row.state == TxnState.COMMITTED.value or (is_plain and row.statements):
                raise OtherRowError(row)
            raise_if_settled(txn_id, row)

        exchange.later(txn_rows.LOCK(txn_id=txn_id), check=check)
        with notification_log.deferred(connection) as events, commit_record.collected(connection) as facts:
            if not is_plain and self._register_writes is not None:
                has_left = self._register_writes(connection, txn_id)
            if changes is not None:
                changes(connection)
        asking, queries = _asking(txn_id, exclusive_write_locks), events.queries
        answers = exchange.send(*asking, *queries)
        (row,) = rows
        recorded = events.recording(answers[len(asking) :])
        exchange.later(*self._settling(row, answers[: len(asking)], recorded, facts))
        return row if has_left else row._replace(statements=0)

    def commit_reader(self, exchange: Exchange, txn_id: int) -> bool:
        """Commit a transaction if it is open and has no writes. Return whether it has committed. One round trip."""
        reader = _COMMIT_READER(txn_id=txn_id, now_ms=self._clock())
        also = self._accompanying(txn_id, int(reader.values["now_ms"] or 0))
        committed, *_ = exchange.finish(reader, *releasing_if_committed(txn_id), *also)
        return bool(committed)

    def commit_alone(self, exchange: Exchange, txn_id: int, exclusive_write_locks: bool) -> TxnRow | None:
        """Commit a transaction without pending writes, and return its row. Two round trips.

        If the transaction has pending writes, nothing is changed and the result is None.

        Raises:
            ConflictFoundError: another transaction has committed a conflicting write first.
            TransactionAbortedError, NoSuchTransactionError: the transaction is not open.
        """
        found, *answers = exchange.send(txn_rows.LOCK(txn_id=txn_id), *_asking(txn_id, exclusive_write_locks))
        row = row_from(txn_id, found)
        if row.state == TxnState.COMMITTED.value:
            return row
        raise_if_settled(txn_id, row)
        if row.statements and self._register_writes is not None:
            return None
        exchange.finish(*self._settling(row, answers))
        return row

    def commit_together(self, exchange: Exchange, txn_ids: Sequence[int]) -> set[int]:
        """Commit the transactions that need no check for conflicts, and return their ids. Two round trips.

        ``txn_ids`` are at most 16. A transaction is skipped if it is not open, has pending writes, updates or deletes
        rows, or is locked by another client's call.
        """
        found, written, held, lists = exchange.send(
            txn_rows.LOCK_FREE(txn_ids), conflicts.WRITES(txn_ids), HELD_BY_TXNS(txn_ids), LISTS(txn_ids)
        )
        rows = [TxnRow(*each) for each in found]
        writes = conflicts.writes_from(written)
        settled = {
            row.id: _Settled(row, writes.get(row.id, []))
            for row in rows
            if row.state == TxnState.OPEN.value and not row.statements
        }
        settled = {txn_id: each for txn_id, each in settled.items() if not each.is_updating}
        exchange.finish(*self._last_calls(list(settled.values()), [each for each in held if each[0] in settled], lists))
        return set(settled)

    def _settling(
        self,
        row: TxnRow,
        answers: Sequence[Rows],
        events: Sequence[Call] = (),
        facts: Mapping[int, CommitFacts] = MappingProxyType({}),
    ) -> list[Call]:
        """Search for conflicts, and return the calls that commit a transaction.

        The caller has locked the transaction's row.

        ``answers`` are the rows of :func:`_asking`.

        Raises:
            ConflictFoundError: another transaction has committed a conflicting write first.
        """
        written, held, lists, *others = answers
        settled = _Settled(row, conflicts.writes_from(written).get(row.id, []))
        sentence = conflicts.conflict_from(others[-1], row.id, settled.writes) if others else None
        if sentence is not None:
            raise conflicts.ConflictFoundError(sentence)
        return self._last_calls([settled], held, lists, events, facts)

    def _last_calls(
        self,
        settled: Sequence[_Settled],
        held: Rows,
        lists: Rows,
        events: Sequence[Call] = (),
        facts: Mapping[int, CommitFacts] = MappingProxyType({}),
    ) -> list[Call]:
        """Return the calls that commit transactions without conflicts.

        The caller has locked the rows of the transactions.
        """
        if not settled:
            return []
        now = self._clock()
        calls: list[Call] = []
        for each in settled:
            if each.kind not in _WITHOUT_COMPLETED_COMPONENTS:
                calls += conflicts.completing(each.row.id, each.writes, now)
            calls += commit_record.recording(each.row.id, each.writes, facts, now)
        has_notes = [each.row.id for each in settled if any(write.operation for write in each.writes)]
        calls += conflicts.forgetting_components(has_notes)
        calls += releasing(held)
        for each in settled:
            if each.is_updating:
                calls += conflicts.recording_write_set(each.row.id, each.writes)
        calls += _COMMITTED.batched([each.row.id for each in settled], now_ms=now)
        for each in settled:
            calls += self._accompanying(each.row.id, now)
        settled_calls = [call for each in settled if (call := each.event(now, lists)) is not None]
        calls += [*events, *settled_calls]
        if events or settled_calls:
            calls.append(notification_log.announcing(now))
        return calls

    def _accompanying(self, txn_id: int, now_ms: int) -> Sequence[Call]:
        companion = self.companions.get(txn_id)
        return () if companion is None else companion(now_ms)


def _asking(txn_id: int, exclusive_write_locks: bool) -> list[Call]:
    """Return the queries for the facts that decide how a transaction commits, and that look for write conflicts.

    With ``exclusive_write_locks`` the queries do not look for conflicts.
    """
    facts = [conflicts.WRITES([txn_id]), HELD_BY_TXNS([txn_id]), LISTS([txn_id])]
    return facts if exclusive_write_locks else [*facts, *conflicts.finding_conflicts(txn_id)]


class OtherRowError(Exception):
    """Error: the transaction cannot be committed in this way, since it has committed before or has pending writes."""

    def __init__(self, row: TxnRow) -> None:
        super().__init__(row)
        self.row = row


class _Settled:
    """A transaction that commits, with its writes."""

    def __init__(self, row: TxnRow, writes: list[conflicts.Write]) -> None:
        self.row = row
        self.kind = TxnType(row.type)
        self.writes = [] if self.kind is TxnType.READ_ONLY else writes

    @property
    def is_updating(self) -> bool:
        return any(write.updates for write in self.writes)

    def event(self, now_ms: int, lists: Rows) -> Call | None:
        """Return the call that records the commit's event, or None if the transaction has no write ids.

        The event has the write id list after the commit for each written table.
        """
        write_ids = {write.full_name: write.write_id for write in self.writes if write.write_id}
        if not write_ids:
            return None
        partitions: dict[str, list[str]] = defaultdict(list)
        for table, name in sorted({(each.full_name, each.partition) for each in self.writes if each.partition}):
            partitions[table].append(name)
        table_ids = {write.full_name: write.table_id for write in self.writes if write.write_id}
        left = lists_of_commit(lists, {table_id: name for name, table_id in table_ids.items()})
        message = {
            "write_ids": write_ids,
            "table_ids": table_ids,
            "valid_write_ids": {name: str(left[table_id]) for name, table_id in table_ids.items()},
            "partitions": partitions,
        }
        return notification_log.recording(now_ms, EventType.COMMIT_TXN, txn_id=self.row.id, message=message)


_REASON_LENGTH = 4096

# The column is a 32-bit integer, in which a long time-out in milliseconds would overflow.
_TIMED_OUT_MS = txns.c.heartbeat_ms + cast(txns.c.timeout_s, BigInteger) * 1000


def abort_in(
    connection: Connection, clock: Clock, txn_ids: Sequence[int], reason: str | None, code: AbortReason
) -> list[int]:
    """Abort the open transactions among the sorted ``txn_ids``, and return the ids of the aborted transactions."""
    return [
        txn_id
        for batch in batches(txn_ids)
        for txn_id in _abort_where(connection, clock, txns.c.id.in_(batch), reason=reason, code=code)
    ]


def abort_timed_out_in(connection: Connection, clock: Clock, limit: int) -> list[int]:
    """Abort up to ``limit`` transactions that have timed out, and return their ids.

    A transaction has timed out if it is open, and its last heartbeat is older than its time-out.
    """
    return _abort_where(
        connection,
        clock,
        clock() > _TIMED_OUT_MS,
        reason=AbortReason.TIMEOUT.words,
        code=AbortReason.TIMEOUT,
        limit=limit,
    )


def has_timed_out(connection: Connection, clock: Clock) -> bool:
    """Return whether the last heartbeat of any open transaction is older than the transaction's time-out.

    One round trip.
    """
    late = select(txns.c.id).where(IS_OPEN, clock() > _TIMED_OUT_MS).limit(1)
    return connection.execute(late).first() is not None


def _abort_where(
    connection: Connection,
    clock: Clock,
    condition: ColumnElement[bool],
    *,
    reason: str | None,
    code: AbortReason,
    limit: int | None = None,
) -> list[int]:
    """Abort the open transactions that meet the condition, and return their ids.

    The locks of the transactions are released, and an event is recorded for each transaction with write ids.
    """
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
    """Record an ABORT_TXN event for each transaction that has write ids."""
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
