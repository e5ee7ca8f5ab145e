"""The Compactor: requests compactions directly or by thresholds, runs them, deletes replaced files, returns states."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, select

from airflow_hivex.core.catalog.partition_rows import select_partition, spelled_name
from airflow_hivex.core.catalog.pruning import find_partitions
from airflow_hivex.core.catalog.specifications import check_partitioned
from airflow_hivex.core.catalog.table_rows import select_table
from airflow_hivex.core.compaction.candidates import read_snapshot
from airflow_hivex.core.compaction.cleaner import Cleaner
from airflow_hivex.core.compaction.cleaning_queue import CleaningQueue
from airflow_hivex.core.compaction.explanations import Explainer, Explanation
from airflow_hivex.core.compaction.history import CompactionFilter, CompactionHistory
from airflow_hivex.core.compaction.initiator import Initiator, InitiatorResult
from airflow_hivex.core.compaction.queue import CompactionQueue
from airflow_hivex.core.compaction.worker import CompactionWorker
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.cleaning import CleaningTask
from airflow_hivex.core.model.compaction import (
    MANUALLY,
    REQUESTABLE,
    Compaction,
    CompactionRequest,
    CompactionResponse,
    CompactionState,
    CompactionType,
    check_spark_options,
    pool_name,
)
from airflow_hivex.core.model.compaction_thresholds import POOL
from airflow_hivex.core.model.objects import SortColumn, StoredTable
from airflow_hivex.core.model.row_ids import MAX_WRITER_ID
from airflow_hivex.core.model.table_properties import check_spelling
from airflow_hivex.core.store.schema import databases

COMPACT = "COMPACT"
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The clauses of a request for compactions, such as type and pool."""

    type: CompactionType | str
    pool: str | None
    properties: Mapping[str, str]
    buckets: int | None
    order_by: Sequence[SortColumn]

    @property
    def read_type(self) -> CompactionType:
        return CompactionType.read(self.type) if isinstance(self.type, str) else self.type


class Compactor:
    """The service for compactions: requests, workers, the cleaner, and the history.

    Workers take entries of the queue by ``queue.next_entry``, and cleaners by ``cleaning.entries_to_clean``. A worker
    records the outcome in ``queue``, and a cleaner in ``cleaning``.
    """

    def __init__(
        self,
        services: Foundation,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._services = services
        self._monotonic = monotonic
        self._sleep = sleep
        self.wait_timeout_s = int(services.settings["hive.compactor.wait.timeout"]) / 1000
        """The longest time that :meth:`wait` waits by default, in seconds."""
        self.queue = CompactionQueue(services)
        self.cleaning = CleaningQueue(services)
        self.history = CompactionHistory(services)
        self._initiator = Initiator(services, self.queue)
        self._explainer = Explainer(services)
        self._cleaner = Cleaner(services, self.cleaning)
        self._worker = CompactionWorker(services, self.queue, self.history)

    def request(
        self,
        database: str,
        table: str,
        partition: str | None = None,
        type: CompactionType | str = CompactionType.MAJOR,
        *,
        pool: str | None = None,
        properties: Mapping[str, str] | None = None,
        buckets: int | None = None,
        order_by: Sequence[SortColumn] = (),
    ) -> CompactionResponse:
        """Request a compaction. Thresholds, NO_AUTO_COMPACTION and earlier failures are ignored.

        Args:
            database: the database of the table.
            table: the name of the table.
            partition: ``key=value/...``; required for a table with partitions.
            type: ``major``, ``minor`` or ``rebalance``.
            pool: the pool whose workers run the compaction; by default the property ``hive.compactor.worker.pool`` of
                the table or its database.
            properties: ``compactor.*`` and ``tblprops.*`` properties, which override the properties of the table.
            buckets: the number of files after a rebalance.
            order_by: the order of the rows after a rebalance.

        Returns:
            The id of the compaction, or a refusal if another compaction waits, runs, or covers the same writes.

        Raises:
            NoSuchDatabaseError, NoSuchTableError, NoSuchPartitionError, NoSuchColumnError: the object does not exist.
            InvalidOperationError: the table is a view or external, or has partitions and ``partition`` is None.
            InvalidObjectError: the type is unknown, or the table cannot have the partition.
        """
        wanted = _Wanted(type, pool, properties or {}, buckets, order_by)
        self._check(wanted, database, table)

        def work(connection: Connection) -> CompactionResponse:
            found, name = _target(connection, database, table, partition)
            (response,) = self._enqueue(connection, found, [name], wanted)
            return response

        return self._services.store.write(work, name="enqueue")

    def request_each(
        self,
        database: str,
        table: str,
        type: CompactionType | str = CompactionType.MAJOR,
        *,
        pool: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> dict[str, CompactionResponse]:
        """Request compactions of all partitions of a table; return a sorted dict from partition to response.

        The arguments and errors are those of :meth:`request`.
        """
        wanted = _Wanted(type, pool, properties or {}, None, ())
        self._check(wanted, database, table)

        def work(connection: Connection) -> dict[str, CompactionResponse]:
            found, _ = _target(connection, database, table, None, whole=True)
            check_partitioned(COMPACT, found)
            names = sorted(row.name for row in find_partitions(connection, found, None))
            return dict(zip(names, self._enqueue(connection, found, names, wanted), strict=True))

        return self._services.store.write(work, name="enqueue")

    def _check(self, wanted: _Wanted, database: str, table: str) -> None:
        _check_clauses(wanted.read_type, wanted.buckets, wanted.order_by)
        check_spelling("compaction of", f"{database}.{table}", wanted.properties)
        check_spark_options(self._services.settings, f"{database}.{table}", wanted.properties)

    def _enqueue(
        self, connection: Connection, table: StoredTable, partitions: Sequence[str | None], wanted: _Wanted
    ) -> list[CompactionResponse]:
        columns = [each.name for each in table.columns]
        for column in wanted.order_by:
            if column.name.lower() not in {each.lower() for each in columns}:
                raise NoSuchColumnError(table.full_name, column.name, columns)
        snapshot = read_snapshot(connection, {table.id: table.full_name})
        request = CompactionRequest(
            table_id=table.id,
            database=table.database,
            table=table.name,
            partition=None,
            type=wanted.read_type,
            properties=dict(wanted.properties),
            pool=pool_name(wanted.pool if wanted.pool else self._pool_of(connection, table)),
            buckets=wanted.buckets,
            order_by=", ".join(map(_in_sql, wanted.order_by)) or None,
            run_as=self._services.settings["metastore.compactor.run.as.user"] or table.owner,
            high_watermark=snapshot.write_ids[table.id].high_watermark,
        )
        requests = [replace(request, partition=each) for each in partitions]
        return self.queue.joining(connection).enqueue(requests, initiator=MANUALLY)

    def wait(self, compaction_id: int, timeout_s: float | None = None) -> CompactionResponse:
        """Wait until the work of a compaction has ended, and return the state of the compaction.

        The wait ends after ``timeout_s`` or, by default, ``hive.compactor.wait.timeout``. The state is then
        ``initiated`` or ``working``.

        Raises:
            NoSuchCompactionError: no compaction has the id.
        """
        limit_s = self.wait_timeout_s if timeout_s is None else timeout_s
        began = self._monotonic()
        pause_s = _FIRST_PAUSE_S
        while True:
            entry = self.history.get(compaction_id)
            response = CompactionResponse(entry.id, entry.state, entry.error_message)
            if entry.state not in (CompactionState.INITIATED, CompactionState.WORKING):
                return response
            left_s = limit_s - (self._monotonic() - began)
            if left_s <= 0:
                return CompactionResponse(
                    entry.id, entry.state, f"it is still {entry.state.shown} after {limit_s:g} s; it goes on by itself"
                )
            self._sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def initiate(self) -> InitiatorResult:
        """Run one round of the initiator, which requests compactions by thresholds. Safe to run at any time."""
        return self._initiator.run()

    def work(
        self, worker_id: str | None = None, pool: str | None = None, *, compaction_id: int | None = None
    ) -> Compaction | None:
        """Run the oldest waiting compaction of a pool. Return its outcome, or None if no compaction waits.

        Readers and writers continue meanwhile. A failed compaction changes no table.

        Args:
            worker_id: the name of the worker, ``host-thread``, at most 255 characters; by default this thread.
            pool: the pool of the queue; by default compactions without a pool, and compactions of any pool that have
                waited longer than ``metastore.compactor.worker.pool.timeout``.
            compaction_id: run only this compaction, if it still waits; its pool does not matter.

        Raises:
            CompactionLostError: the compaction took too long, and another worker can take it. Its files are discarded.
            HivexError: :meth:`cancel` has stopped the compaction, which then waits again. This is mostly a
                JobCancelledError.
        """
        own = f"{socket.gethostname()}-{os.getpid()}.{threading.get_ident()}"
        return self._worker.work(worker_id or own, pool, compaction_id)

    def cancel(self, worker_id: str) -> None:
        """Stop the compaction that a worker of this process runs. The compaction then waits in the queue again.

        Other threads and signal handlers are allowed to call this method. If the compaction has already written all its
        files, it is still committed.
        """
        self._worker.cancel(worker_id)

    def show(self, wanted: CompactionFilter | None = None) -> list[Compaction]:
        """Return the compactions of the queue and the history, the newest first or in the order of the filter.

        Raises:
            InvalidObjectError: the order names a column that does not exist.
        """
        return self.history.show(wanted)

    def abort(self, compaction_ids: Iterable[int]) -> dict[int, str | None]:
        """Withdraw compactions from the queue.

        Return a dict from id to the reason why the compaction was not withdrawn, or to None if it was withdrawn.
        """
        return self.queue.abort(compaction_ids)

    def explain(self, database: str, table: str, partition: str | None = None) -> Explanation:
        """Return why the initiator would or would not compact a table or partition, with each check and its values.

        Raises:
            NoSuchDatabaseError, NoSuchTableError, NoSuchPartitionError: the object does not exist.
            InvalidOperationError: the table is a view or external.
            InvalidObjectError: the table cannot have the partition.
        """
        with self._services.store.read() as connection:
            found, name = _target(connection, database, table, partition, "EXPLAIN COMPACTION", whole=True)
        return self._explainer.explain(found.id, name)

    def clean(self, database: str | None = None, table: str | None = None) -> list[CleaningTask]:
        """Run one round of the cleaner, for the whole warehouse or one table, and return its tasks.

        The round deletes replaced directories and aborted data on every cluster, except files that an open transaction
        can read. A failed task is retried after a pause, which doubles each time. Safe to run at any time, also after a
        killed round.
        """
        self.queue.requeue_lost()
        return self._cleaner.run(database, table)

    def plan_clean(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[CleaningTask]:
        """Return the tasks that :meth:`clean` would do, with the readers that block deletions. Nothing is deleted.

        Raises:
            NoSuchDatabaseError, NoSuchTableError: the database or table does not exist.
            InvalidObjectError: the table cannot have the partition.
        """
        return self._cleaner.plan(database, table, partition)

    def housekeep(self) -> tuple[int, int]:
        """Put the compactions of lost workers back into the queue, and remove old history. Return both numbers."""
        return len(self.queue.requeue_lost()), self.history.purge()

    def _pool_of(self, connection: Connection, table: StoredTable) -> str | None:
        own = table.parameters.get(POOL)
        if own:
            return own
        query = select(databases.c.parameters).where(databases.c.name == table.database)
        parameters: Mapping[str, str] = connection.execute(query).scalar_one()
        return parameters.get(POOL)


def _in_sql(column: SortColumn) -> str:
    return f"`{column.name.replace('`', '``')}` {'ASC' if column.ascending else 'DESC'}"


def _check_clauses(type: CompactionType, buckets: int | None, order_by: Sequence[SortColumn]) -> None:
    if type not in REQUESTABLE:
        names = ", ".join(each.name.lower() for each in REQUESTABLE)
        raise InvalidObjectError("compaction type", f"'{type.name.lower()}'", f"what can be asked for is {names}")
    if type is not CompactionType.REBALANCE and (buckets is not None or order_by):
        clause = "CLUSTERED INTO ... BUCKETS" if buckets is not None else "ORDER BY"
        raise InvalidObjectError("compaction type", f"'{type.name.lower()}'", f"{clause} is for 'rebalance' only")
    if buckets is not None and not 1 <= buckets <= MAX_WRITER_ID + 1:
        reason = f"rows can be spread over 1 to {MAX_WRITER_ID + 1} files"
        raise InvalidObjectError("number of buckets", str(buckets), reason)


def check_compactable(table: StoredTable, operation: str = COMPACT) -> None:
    """Refuse a table that cannot be compacted.

    Raises:
        InvalidOperationError: the table is a view, or not transactional.
    """
    if table.is_view:
        raise InvalidOperationError(operation, table.full_name, "it is a view; compact the tables that it reads")
    if not table.is_transactional:
        kind = "an external table" if table.is_external else "not a transactional table"
        raise InvalidOperationError(operation, table.full_name, f"it is {kind}, whose files are not ours to merge")


def _target(
    connection: Connection,
    database: str,
    name: str,
    partition: str | None,
    operation: str = COMPACT,
    *,
    whole: bool = False,
) -> tuple[StoredTable, str | None]:
    """Return a table, and the name of its partition as stored.

    A partition is required for a table with partitions, unless ``whole`` is true.
    """
    table = select_table(connection, database, name)
    check_compactable(table, operation)
    if partition is not None:
        check_partitioned(f"{operation} with PARTITION", table)
        spelled = spelled_name(table, partition)
        select_partition(connection, table, spelled)
        return table, spelled
    if table.is_partitioned and not whole:
        keys = ", ".join(f"{key.name} = ..." for key in table.partition_keys)
        raise InvalidOperationError(
            operation, table.full_name, f"it has partitions, which are compacted one by one; add PARTITION ({keys})"
        )
    return table, None
