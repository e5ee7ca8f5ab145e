"""The queue of compactions: who asks, who works, and what happens when a worker is lost.

Source: docs/reference/compaction.md (Hive TxnHandler.compact, CompactionTxnHandler).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, not_, or_, select, update

from airflow_hivex import __version__
from airflow_hivex.core.compaction.candidates import Resource
from airflow_hivex.core.compaction.entries import (
    IS_ABORT_CLEANUP,
    IS_INITIATED,
    IS_READY,
    IS_WORKING,
    MESSAGE_LENGTH,
    QUEUE_COLUMNS,
    Q,
    change,
    compaction_from_row,
    end,
    end_locked,
    lock_ids,
    new_row,
    take_ids,
)
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.cleaning import Aborted
from airflow_hivex.core.model.compaction import (
    REFUSED_ID,
    Compaction,
    CompactionRequest,
    CompactionResponse,
    CompactionState,
    pool_name,
)
from airflow_hivex.core.model.texts import shortened
from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import JoinsTransactions
from airflow_hivex.core.store.schema import (
    compaction_queue,
    completed_compactions,
    counters,
    txn_components,
    txn_to_write_id,
    txns,
)
from airflow_hivex.core.store.schema.base import partition_to_column
from airflow_hivex.core.transactions.allocation import is_id

_WITHOUT_WORKER: dict[str, None] = dict.fromkeys(
    ("worker_id", "worker_version", "started_ms", "txn_id", "highest_write_id", "job_id")
)
"""The columns that an entry without a worker does not have."""


class CompactionQueue(JoinsTransactions):
    """The entries that wait or are at work.

    Every change is a database transaction, or with :meth:`joining` a part of the caller's.
    """

    def __init__(self, services: Foundation) -> None:
        settings = services.settings
        super().__init__(services.store)
        self._clock = services.clock
        self._pool_timeout_ms = round(float(settings["metastore.compactor.worker.pool.timeout"]) * 3_600_000)
        self._worker_timeout_ms = int(settings["hive.compactor.worker.timeout"]) * 1000
        self._start_timeout_ms = int(settings["hive.txn.timeout"]) * 1000

    # -- asking ---------------------------------------------------------------------

    def enqueue(self, requests: Sequence[CompactionRequest], *, initiator: str) -> list[CompactionResponse]:
        """Put compactions into the queue; what became of each, in their order.

        One is refused when the same table or partition has an entry that waits or is at work, or one that waits to
        be cleaned and covers all that a compaction would cover now. ``initiator`` is the thread, or
        :data:`MANUALLY`, of this host. Four statements for up to 10,000 tables and as many requests.
        """
        if not requests:
            return []

        def work(connection: Connection) -> list[CompactionResponse]:
            now = self._clock()
            first = lock_ids(connection)
            in_the_way = _InTheWay(connection, {request.table_id for request in requests})
            rows: list[dict[str, Any]] = []
            responses = []
            for request in requests:
                refusal = in_the_way.refusal(request)
                if refusal is not None:
                    responses.append(refusal)
                    continue
                new_id = first + len(rows)
                rows.append(new_row(request, new_id, initiator, now))
                in_the_way.add(request, new_id)
                responses.append(CompactionResponse(new_id, CompactionState.INITIATED))
            take_ids(connection, len(rows))
            for batch in batches(rows):
                connection.execute(insert(compaction_queue), batch)
            return responses

        return self._write(work, "enqueue")

    def record_not_initiated(
        self, requests: Sequence[tuple[CompactionRequest, str]], *, initiator: str
    ) -> tuple[int, ...]:
        """Record in the history why compactions were not initiated; return the new ids.

        Each reason is recorded once, as long as nothing else happens. Four statements for up to 10,000 tables and
        requests.
        """
        if not requests:
            return ()
        state = CompactionState.DID_NOT_INITIATE.value

        def work(connection: Connection) -> tuple[int, ...]:
            now = self._clock()
            first = lock_ids(connection)
            last = _last_of(connection, {request.table_id for request, _ in requests})
            news = [
                (request, shortened(message, MESSAGE_LENGTH))
                for request, message in requests
                if last.get(_key(request)) != (state, shortened(message, MESSAGE_LENGTH))
            ]
            rows = [
                {
                    **new_row(request, new_id, initiator, now),
                    "state": state,
                    "ended_ms": now,
                    "error_message": message,
                }
                for new_id, (request, message) in enumerate(news, first)
            ]
            take_ids(connection, len(rows))
            for batch in batches(rows):
                connection.execute(insert(completed_compactions), batch)
            return tuple(row["id"] for row in rows)

        return self._write(work, "record")

    def abort(self, compaction_ids: Iterable[int]) -> dict[int, str | None]:
        """Take compactions without a worker out of the queue; return, by id, why one could not be taken, or None.

        Four statements for up to 10,000.
        """
        wanted = list(dict.fromkeys(compaction_ids))
        history = completed_compactions.c

        def work(connection: Connection) -> dict[int, str | None]:
            found: dict[int, Compaction] = {}
            over: dict[int, str] = {}
            for batch in batches([each for each in wanted if is_id(each)]):
                queued = select(*QUEUE_COLUMNS).where(Q.id.in_(batch)).order_by(Q.id).with_for_update()
                found |= {row.id: compaction_from_row(row) for row in connection.execute(queued)}
                ended = connection.execute(select(history.id, history.state).where(history.id.in_(batch)))
                over |= {row.id: CompactionState(row.state).shown for row in ended}
            answers = {each: _why_not_aborted(found.get(each), over.get(each)) for each in wanted}
            taken = [found[each] for each, why in answers.items() if why is None]
            end_locked(connection, taken, CompactionState.ABORTED, "aborted by ABORT COMPACTIONS", self._clock())
            return answers

        return self._write(work, "abort compactions") if wanted else {}

    # -- working --------------------------------------------------------------------

    def next_entry(
        self,
        worker_id: str,
        pool: str | None = None,
        *,
        compaction_id: int | None = None,
        version: str = __version__,
    ) -> Compaction | None:
        """Take the oldest entry of a pool that has no worker, or return None. One statement.

        With ``compaction_id`` take that one, of whatever pool; None unless it waits.
        A worker of the default pool (None) also takes those of others that have waited longer than
        ``metastore.compactor.worker.pool.timeout``. ``worker_id`` is ``host-thread`` and unlike any other's.
        The worker opens a transaction and reports it by :meth:`mark_started` within ``hive.txn.timeout``.
        """
        now = self._clock()
        own = self._is_for(pool, now)
        if compaction_id is not None:
            if not is_id(compaction_id):
                return None
            own = Q.id == compaction_id
        oldest = (
            select(Q.id).where(IS_INITIATED, own).order_by(Q.id).limit(1).with_for_update(skip_locked=True)
        ).scalar_subquery()
        taking = (
            update(compaction_queue)
            .where(Q.id == oldest, IS_INITIATED)
            .values(
                state=CompactionState.WORKING.value, worker_id=worker_id[-255:], worker_version=version, started_ms=now
            )
            .returning(*QUEUE_COLUMNS)
        )

        def work(connection: Connection) -> Compaction | None:
            row = connection.execute(taking).one_or_none()
            return None if row is None else compaction_from_row(row)

        return self._write(work, "take")

    def waiting(self, pool: str | None = None, *, limit: int | None = None) -> list[Compaction]:
        """Return the entries that workers of a pool would take now, the oldest first. One statement."""
        query = select(*QUEUE_COLUMNS).where(IS_INITIATED, self._is_for(pool, self._clock())).order_by(Q.id)
        with self._read() as connection:
            return [compaction_from_row(row) for row in connection.execute(query.limit(limit))]

    def _is_for(self, pool: str | None, now: int) -> ColumnElement[bool]:
        """Return the condition that an entry is for the workers of a pool."""
        name = pool_name(pool)
        return Q.pool == name if name else or_(Q.pool.is_(None), Q.enqueued_ms < now - self._pool_timeout_ms)

    def mark_started(self, entry: Compaction, txn_id: int, highest_write_id: int) -> Compaction:
        """Note the transaction of a worker and what it covers; the entry as it is then.

        From here the transaction's heartbeat shows whether the worker is alive. A component row of the transaction
        names the files that it may leave behind, for the cleaner.

        Raises:
            CompactionLostError: another worker owns the entry, or it has ended.
        """

        def work(connection: Connection) -> Compaction:
            found = change(connection, entry, {"txn_id": txn_id, "highest_write_id": highest_write_id})
            connection.execute(
                insert(txn_components).values(
                    txn_id=txn_id,
                    table_id=entry.table_id,
                    partition=entry.partition,
                    operation=Operation.COMPACT.value,
                    write_id=highest_write_id,
                )
            )
            return found

        return self._write(work, "start compaction")

    def note_job(self, entry: Compaction, job_id: str) -> Compaction:
        """Note the job that a worker has started.

        Raises:
            CompactionLostError: another worker owns the entry, or it has ended.
        """
        values = {"job_id": job_id[:255]}
        return self._write(lambda connection: change(connection, entry, values), "note job")

    def mark_ready_for_cleaning(self, entry: Compaction) -> Compaction:
        """Record that the compaction is done: replaced directories can be removed once their readers are gone.

        Call it :meth:`joining` the commit of its transaction: then it counts with it, or not at all. No
        transaction is opened until that has committed: a transaction with an id above ``next_txn_id`` sees the
        compaction.

        Raises:
            CompactionLostError: another worker owns the entry, or it has ended; the caller must not commit.
        """

        def work(connection: Connection) -> Compaction:
            highest = connection.execute(
                select(counters.c.value).where(counters.c.name == "txn").with_for_update(read=True)
            ).scalar_one()
            values = {"next_txn_id": highest, "committed_ms": self._clock()}
            return change(connection, entry, values, CompactionState.READY_FOR_CLEANING)

        return self._write(work, "ready for cleaning")

    def give_back(self, entry: Compaction) -> Compaction:
        """Return an entry of a worker that does not go on to the queue. The worker's transaction is aborted before.

        Raises:
            CompactionLostError: another worker owns the entry, or it has ended.
        """
        return self._write(
            lambda connection: change(connection, entry, _WITHOUT_WORKER, CompactionState.INITIATED), "give back"
        )

    def mark_failed(self, entry: Compaction, message: str) -> None:
        """End an entry with an error, as its worker or as the cleaner.

        Raises:
            CompactionLostError: another worker or the cleaner owns the entry, or it has ended.
        """
        self._end(entry, CompactionState.FAILED, message)

    def mark_refused(self, entry: Compaction, message: str) -> None:
        """End an entry without work, by its worker or by the cleaner: there is nothing to do, or it is not allowed.

        Raises:
            CompactionLostError: another worker or the cleaner owns the entry, or it has ended.
        """
        self._end(entry, CompactionState.REFUSED, message)

    def _end(self, entry: Compaction, state: CompactionState, message: str) -> None:
        self._write(lambda connection: end(connection, entry, state, message, self._clock()), f"mark {state.shown}")

    def requeue_lost(self) -> list[int]:
        """Give entries back to the queue whose worker is gone; their ids. Two statements, three if one has failed.

        Such a worker has worked for longer than ``hive.compactor.worker.timeout``, or has not reported a transaction
        within ``hive.txn.timeout``, or its transaction is aborted or does not exist any more. An entry that is ready
        for cleaning although its transaction was aborted has failed: its worker did not report it within the commit.
        Hive, when it starts, also puts back the entries of its own host. Here the processes of a host do not know each
        other, and the transaction decides.
        """
        of_entry = txns.c.id == Q.txn_id
        may_be_alive = txns.c.state.in_([TxnState.OPEN.value, TxnState.COMMITTED.value])
        is_alive = select(txns.c.id).where(of_entry, may_be_alive).exists()
        is_aborted = select(txns.c.id).where(of_entry, txns.c.state == TxnState.ABORTED.value).exists()

        def work(connection: Connection) -> list[int]:
            now = self._clock()
            uncommitted = select(*QUEUE_COLUMNS).where(IS_READY, is_aborted).with_for_update(of=compaction_queue)
            failed = [compaction_from_row(row) for row in connection.execute(uncommitted)]
            end_locked(connection, failed, CompactionState.FAILED, "its transaction was aborted", now)
            is_lost = or_(
                Q.started_ms < now - self._worker_timeout_ms,
                and_(Q.txn_id.is_(None), Q.started_ms < now - self._start_timeout_ms),
                and_(Q.txn_id.is_not(None), not_(is_alive)),
            )
            requeued = connection.execute(
                update(compaction_queue)
                .where(IS_WORKING, is_lost)
                .values(state=CompactionState.INITIATED.value, **_WITHOUT_WORKER)
                .returning(Q.id)
            )
            return sorted(requeued.scalars())

        return self._write(work, "requeue")


class _InTheWay:
    """The entries of some tables that may keep others out of the queue."""

    def __init__(self, connection: Connection, table_ids: Collection[int]) -> None:
        self._active: dict[tuple[int, str], tuple[int, CompactionState]] = {}
        self._to_clean: dict[tuple[int, str], dict[int | None, int]] = {}
        for batch in batches(sorted(table_ids)):
            for row in connection.execute(
                select(Q.id, Q.table_id, Q.partition, Q.state, Q.highest_write_id).where(
                    Q.table_id.in_(batch), ~IS_ABORT_CLEANUP
                )
            ):
                key, state = (row.table_id, row.partition), CompactionState(row.state)
                if state is CompactionState.READY_FOR_CLEANING:
                    self._to_clean.setdefault(key, {})[row.highest_write_id] = row.id
                else:
                    self._active[key] = (row.id, state)

    def add(self, request: CompactionRequest, compaction_id: int) -> None:
        self._active[_key(request)] = (compaction_id, CompactionState.INITIATED)

    def refusal(self, request: CompactionRequest) -> CompactionResponse | None:
        """Return the refusal of a request, or None."""
        found = self._active.get(_key(request))
        if found is not None:
            compaction_id, state = found
            return _refusal(
                compaction_id, f"A compaction of {request.name} is {state.shown} already: compaction {compaction_id}."
            )
        covering = self._to_clean.get(_key(request), {}).get(request.high_watermark)
        if request.high_watermark is None or covering is None:
            return None
        return _refusal(
            covering,
            f"A compaction of {request.name} is {CompactionState.READY_FOR_CLEANING.shown} that covers all up to "
            f"write id {request.high_watermark}: compaction {covering}.",
        )


def _refusal(in_the_way: int, message: str) -> CompactionResponse:
    return CompactionResponse(REFUSED_ID, CompactionState.REFUSED, message, in_the_way)


def _key(request: CompactionRequest) -> tuple[int, str]:
    return request.table_id, partition_to_column(request.partition)


def _last_of(connection: Connection, table_ids: Collection[int]) -> dict[tuple[int, str], tuple[str, str | None]]:
    """Return the state and message of the newest entry in the history, by table and partition."""
    history = completed_compactions.c
    found: dict[tuple[int, str], tuple[str, str | None]] = {}
    for batch in batches(sorted(table_ids)):
        of_tables = select(func.max(history.id)).where(history.table_id.in_(batch))
        newest = of_tables.group_by(history.table_id, history.partition)
        query = select(history.table_id, history.partition, history.state, history.error_message)
        for row in connection.execute(query.where(history.id.in_(newest))):
            found[row.table_id, row.partition] = (row.state, row.error_message)
    return found


def _why_not_aborted(entry: Compaction | None, over: str | None) -> str | None:
    if entry is None:
        return "there is no such compaction" if over is None else f"it is over: {over}"
    if entry.state is not CompactionState.INITIATED:
        return f"it is {entry.state.shown}; only an initiated one can be aborted"
    return None


def read_aborted(connection: Connection, only: Resource | None = None) -> Mapping[Resource, Aborted]:
    """Return the places of aborted writes, the oldest first.

    One statement.

    A partition of None is the table, or, where it has partitions, any of them. ``only`` is one table or partition.
    """
    components, mapping = txn_components.c, txn_to_write_id.c
    query = (
        select(
            components.txn_id,
            components.table_id,
            components.partition,
            components.operation,
            components.write_id,
            mapping.write_id.label("mapped"),
        )
        .join(txns, txns.c.id == components.txn_id)
        .outerjoin(txn_to_write_id, and_(mapping.table_id == components.table_id, mapping.txn_id == components.txn_id))
        .where(txns.c.state == TxnState.ABORTED.value)
        .order_by(components.id)
    )
    if only is not None:
        query = query.where(components.table_id == only[0], components.partition.is_not_distinct_from(only[1]))
    txn_ids: defaultdict[Resource, set[int]] = defaultdict(set)
    write_ids: defaultdict[Resource, set[int]] = defaultdict(set)
    compactions: defaultdict[Resource, set[int]] = defaultdict(set)
    for row in connection.execute(query):
        resource = (row.table_id, row.partition)
        txn_ids[resource].add(row.txn_id)
        if row.operation == Operation.COMPACT.value:
            # Its write id is the highest that it covers, which is another's.
            compactions[resource].add(row.txn_id)
        else:
            write_ids[resource].update(each for each in (row.write_id, row.mapped) if each is not None)
    return {
        resource: Aborted(frozenset(ids), frozenset(write_ids[resource]), frozenset(compactions[resource]))
        for resource, ids in txn_ids.items()
    }
