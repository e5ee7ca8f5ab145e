"""The queue of compactions: requests, workers, and the return of entries whose worker is lost.

Source: docs/reference/compaction.md (Hive TxnHandler.compact, CompactionTxnHandler).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, not_, or_, select, update

from airflow_hivex import __version__
from airflow_hivex.core.compaction.candidates import Resource
from airflow_hivex.core.compaction.queue_entries import (
    IS_ABORT_CLEANUP,
    IS_INITIATED,
    IS_READY,
    IS_WORKING,
    LOCKING_IDS,
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
from airflow_hivex.core.store.exchange import later, together
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
"""The columns that are null for an entry without a worker."""


class CompactionQueue(JoinsTransactions):
    """The entries that wait for a worker, or that a worker runs.

    Each change is a database transaction of its own. With :meth:`joining` the change is a part of the caller's
    transaction.
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
        """Put compactions into the queue; return the responses in the order of the requests.

        A request is refused if the table or partition has a waiting or running entry, or an entry that is ready for
        cleaning and has merged all writes up to the high watermark of the request. ``initiator`` names a thread of this
        host, or is :data:`MANUALLY`. Four queries for up to 10,000 tables and requests.
        """
        if not requests:
            return []

        def work(connection: Connection) -> list[CompactionResponse]:
            now = self._clock()
            queries = _InTheWay.queries({request.table_id for request in requests})
            ((last,),), *entries = together(connection, LOCKING_IDS, *queries)
            first, in_the_way = last + 1, _InTheWay(chain(*entries))
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
                later(connection, insert(compaction_queue), batch)
            return responses

        return self._write(work, "enqueue")

    def record_not_initiated(
        self, requests: Sequence[tuple[CompactionRequest, str]], *, initiator: str
    ) -> tuple[int, ...]:
        """Record in the history the reasons why compactions were not initiated; return the ids of the records.

        No record is written if the last record of the table or partition has the same reason. Four queries for up to
        10,000 tables and requests.
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
                later(connection, insert(completed_compactions), batch)
            return tuple(row["id"] for row in rows)

        return self._write(work, "record")

    def abort(self, compaction_ids: Iterable[int]) -> dict[int, str | None]:
        """Withdraw compactions that wait for a worker; return a dict from each given id to None or to an explanation.

        None means that the compaction was withdrawn. An explanation says why it was not withdrawn. Four queries for up
        to 10,000 ids.
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
        """Take the oldest waiting entry of a pool for a worker, and return it, or None if no entry waits. One query.

        With ``compaction_id`` the worker takes this entry if the entry still waits, whatever the entry's pool is.

        A worker of the default pool (None) also takes entries of other pools that have waited longer than
        ``metastore.compactor.worker.pool.timeout``. ``worker_id`` is ``host-thread``, and unique. The worker must then
        open a transaction, and report the transaction by :meth:`mark_started` within ``hive.txn.timeout``.
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
        """Return the entries that workers of a pool would take now, the oldest first. One query."""
        query = select(*QUEUE_COLUMNS).where(IS_INITIATED, self._is_for(pool, self._clock())).order_by(Q.id)
        with self._read() as connection:
            return [compaction_from_row(row) for row in connection.execute(query.limit(limit))]

    def _is_for(self, pool: str | None, now: int) -> ColumnElement[bool]:
        """Return the SQL condition of the entries that the workers of a pool are allowed to take."""
        name = pool_name(pool)
        return Q.pool == name if name else or_(Q.pool.is_(None), Q.enqueued_ms < now - self._pool_timeout_ms)

    def mark_started(self, entry: Compaction, txn_id: int, highest_write_id: int) -> Compaction:
        """Record the transaction of a worker, and the highest write id to merge; return the changed entry.

        From now on the heartbeats of the transaction show that the worker is alive. The call also records that the
        transaction writes to the table. So the cleaner finds the new files if the worker is killed.

        Raises:
            CompactionLostError: another worker owns the entry, or the entry has ended.
        """

        def work(connection: Connection) -> Compaction:
            found = change(connection, entry, {"txn_id": txn_id, "highest_write_id": highest_write_id})
            later(
                connection,
                insert(txn_components).values(
                    txn_id=txn_id,
                    table_id=entry.table_id,
                    partition=entry.partition,
                    operation=Operation.COMPACT.value,
                    write_id=highest_write_id,
                ),
            )
            return found

        return self._write(work, "start compaction")

    def note_job(self, entry: Compaction, job_id: str) -> Compaction:
        """Record the job that a worker has started, and return the changed entry.

        Raises:
            CompactionLostError: another worker owns the entry, or the entry has ended.
        """
        values = {"job_id": job_id[:255]}
        return self._write_one(lambda connection: change(connection, entry, values), "note job")

    def mark_ready_for_cleaning(self, entry: Compaction) -> Compaction:
        """Record that the compaction is done. The cleaner deletes the replaced directories when no reader needs them.

        Call this method in the database transaction of the compaction's commit (:meth:`joining`), so that both are
        applied or none.

        Raises:
            CompactionLostError: another worker owns the entry, or the entry has ended; the caller must not commit.
        """

        def work(connection: Connection) -> Compaction:
            # It waits for transactions that are being opened: the cleaner must see each reader of the old files.
            highest = select(counters.c.value).where(counters.c.name == "txn").with_for_update(read=True)
            values = {"next_txn_id": highest.scalar_subquery(), "committed_ms": self._clock()}
            return change(connection, entry, values, CompactionState.READY_FOR_CLEANING)

        return self._write(work, "ready for cleaning")

    def give_back(self, entry: Compaction) -> Compaction:
        """Return an entry to the queue because its worker has stopped. The worker has already aborted its transaction.

        Raises:
            CompactionLostError: another worker owns the entry, or the entry has ended.
        """
        return self._write(
            lambda connection: change(connection, entry, _WITHOUT_WORKER, CompactionState.INITIATED), "give back"
        )

    def mark_failed(self, entry: Compaction, message: str) -> None:
        """End an entry as failed. The caller is the owner of the entry: its worker, or the cleaner.

        Raises:
            CompactionLostError: another worker or the cleaner owns the entry, or the entry has ended.
        """
        self._end(entry, CompactionState.FAILED, message)

    def mark_refused(self, entry: Compaction, message: str) -> None:
        """End an entry as refused, because there is nothing to do, or because the compaction is not allowed.

        The caller is the owner of the entry: its worker, or the cleaner.

        Raises:
            CompactionLostError: another worker or the cleaner owns the entry, or the entry has ended.
        """
        self._end(entry, CompactionState.REFUSED, message)

    def _end(self, entry: Compaction, state: CompactionState, message: str) -> None:
        self._write(lambda connection: end(connection, entry, state, message, self._clock()), f"mark {state.shown}")

    def requeue_lost(self) -> list[int]:
        """Return entries of lost workers to the queue; return their ids. One query if no entry is lost.

        A worker is lost if it has worked longer than ``hive.compactor.worker.timeout``, if it has not reported a
        transaction within ``hive.txn.timeout``, or if its transaction has been aborted. If an entry is ready for
        cleaning but its transaction was aborted, the entry ends as failed.

        A Hive server that starts also requeues all entries of its own host. This method does not, because several
        processes of a host can run workers.
        """
        of_entry = txns.c.id == Q.txn_id
        may_be_alive = txns.c.state.in_([TxnState.OPEN.value, TxnState.COMMITTED.value])
        is_alive = select(txns.c.id).where(of_entry, may_be_alive).exists()
        is_aborted = select(txns.c.id).where(of_entry, txns.c.state == TxnState.ABORTED.value).exists()
        now = self._clock()
        is_lost = or_(
            Q.started_ms < now - self._worker_timeout_ms,
            and_(Q.txn_id.is_(None), Q.started_ms < now - self._start_timeout_ms),
            and_(Q.txn_id.is_not(None), not_(is_alive)),
        )
        found = select(Q.id).where(or_(and_(IS_READY, is_aborted), and_(IS_WORKING, is_lost))).limit(1)
        with self._read() as connection:
            if connection.execute(found).first() is None:
                return []

        def work(connection: Connection) -> list[int]:
            uncommitted = select(*QUEUE_COLUMNS).where(IS_READY, is_aborted).with_for_update(of=compaction_queue)
            requeuing = (
                update(compaction_queue)
                .where(IS_WORKING, is_lost)
                .values(state=CompactionState.INITIATED.value, **_WITHOUT_WORKER)
                .returning(Q.id)
            )
            rows, requeued = together(connection, uncommitted, requeuing)
            failed = [compaction_from_row(row) for row in rows]
            end_locked(connection, failed, CompactionState.FAILED, "its transaction was aborted", now)
            return sorted(row.id for row in requeued)

        return self._write(work, "requeue")


class _InTheWay:
    """The queue entries of some tables, which decide whether a request is refused."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._active: dict[tuple[int, str], tuple[int, CompactionState]] = {}
        self._to_clean: dict[tuple[int, str], dict[int | None, int]] = {}
        for row in rows:
            key, state = (row.table_id, row.partition), CompactionState(row.state)
            if state is CompactionState.READY_FOR_CLEANING:
                self._to_clean.setdefault(key, {})[row.highest_write_id] = row.id
            else:
                self._active[key] = (row.id, state)

    @staticmethod
    def queries(table_ids: Collection[int]) -> list[Select[Any]]:
        """Return the queries for the rows of the entries of some tables."""
        entries = select(Q.id, Q.table_id, Q.partition, Q.state, Q.highest_write_id)
        return [entries.where(Q.table_id.in_(batch), ~IS_ABORT_CLEANUP) for batch in batches(sorted(table_ids))]

    def add(self, request: CompactionRequest, compaction_id: int) -> None:
        self._active[_key(request)] = (compaction_id, CompactionState.INITIATED)

    def refusal(self, request: CompactionRequest) -> CompactionResponse | None:
        """Return the response that refuses a request, or None if the request is accepted."""
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
    """Return a dict from (table id, partition) to (state, message) of the newest entry in the history."""
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
    """Return a dict from (table id, partition) to the aborted transactions, in the order of their writes. One query.

    For a table with partitions, the partition None stands for transactions that have not recorded their partitions.
    ``only`` selects one table or partition.
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
            # The write id of a compaction is the highest one that it merges, which belongs to another transaction.
            compactions[resource].add(row.txn_id)
        else:
            write_ids[resource].update(each for each in (row.write_id, row.mapped) if each is not None)
    return {
        resource: Aborted(frozenset(ids), frozenset(write_ids[resource]), frozenset(compactions[resource]))
        for resource, ids in txn_ids.items()
    }
