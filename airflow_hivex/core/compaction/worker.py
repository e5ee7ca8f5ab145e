"""The worker: takes one compaction from the queue and runs it, without blocking readers or writers.

Source: docs/reference/compaction.md, "Worker" (Hive Worker, CompactorUtil).
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.directories import Directory, RegisteredDirectory, directories_of
from airflow_hivex.core.catalog.partition_rows import select_partition
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.catalog.snapshot_rows import read_lists
from airflow_hivex.core.catalog.statistics import select_statistics, store_sizes
from airflow_hivex.core.catalog.table_events import record_statistics_event
from airflow_hivex.core.catalog.table_rows import hold_for_change, select_tables_by_id
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import check_written
from airflow_hivex.core.compaction.history import CompactionHistory
from airflow_hivex.core.compaction.jobs import CompactionJob, CompactionTarget, first_jobs
from airflow_hivex.core.compaction.queue import CompactionQueue, read_aborted
from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    CompactionLostError,
    HivexError,
    InvalidOperationError,
    JobCancelledError,
    LockNotAcquiredError,
    NoSuchPartitionError,
    TransactionCommittedError,
)
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.compaction import (
    JOB_QUEUE,
    Compaction,
    CompactionState,
    CompactionType,
    check_spark_options,
    job_properties,
    job_queue,
    table_properties,
)
from airflow_hivex.core.model.compaction_thresholds import INSERT_ONLY, next_state
from airflow_hivex.core.model.directories import DirectoryState, directory_state, parse_directory
from airflow_hivex.core.model.file_properties import check_file_options, is_file_property
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType, StatementLocks
from airflow_hivex.core.model.objects import FLAT_LAYOUT, HIVE_LAYOUT, ROW_LAYOUT, StoredTable
from airflow_hivex.core.model.plans import Rebalance, WrittenDirectory
from airflow_hivex.core.model.row_ids import WRITTEN_BITS
from airflow_hivex.core.model.transactions import AbortReason, TxnType
from airflow_hivex.core.model.write_ids import ValidCompactorWriteIdList
from airflow_hivex.core.runners.registry import Runner, runner_for
from airflow_hivex.core.runners.running_jobs import ProgressLog
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.transactions.heartbeats import TransactionJob, heartbeats

log = logging.getLogger(__name__)

_SPARK_PROPERTY = "spark."


class CompactionWorker:
    """A worker, which runs one entry of the queue at a time. Many processes can each have several workers."""

    def __init__(self, services: Foundation, queue: CompactionQueue, history: CompactionHistory) -> None:
        self._services = services
        self._statement_locks = StatementLocks(services.settings)
        self._queue = queue
        self._history = history
        self._worker_timeout_s = int(services.settings["hive.compactor.worker.timeout"])
        # A signal handler cannot take a lock. So the worker first sets its job here and then reads _cancelled, and
        # cancel() does it in the other order: one of the two sees the other.
        self._running: dict[str, TransactionJob] = {}
        self._cancelled: set[str] = set()

    def work(self, worker_id: str, pool: str | None = None, compaction_id: int | None = None) -> Compaction | None:
        """Run the oldest waiting compaction, and return it with its outcome; return None if no compaction waits.

        A failed compaction has the state failed and a message. Its files are deleted, and readers see the same rows as
        before.

        Raises:
            CompactionLostError: the compaction took longer than ``hive.compactor.worker.timeout``, or its transaction
                was aborted. The entry is in the queue again, and the files are discarded.
            JobCancelledError, other HivexErrors: the compaction was cancelled, and waits in the queue again.
            StoreError: the metastore's database cannot be reached.
        """
        try:
            return self._take_and_work(worker_id, pool, compaction_id)
        finally:
            self._running.pop(worker_id, None)
            self._cancelled.discard(worker_id)

    def cancel(self, worker_id: str) -> None:
        """Stop the job of a worker of this process, and return the entry to the queue. Safe to repeat.

        If the worker has not taken an entry yet, its next entry returns to the queue at once. If the job has already
        ended, the compaction is committed.
        """
        self._cancelled.add(worker_id)
        running = self._running.get(worker_id)
        if running is not None:
            running.stop()

    def _take_and_work(self, worker_id: str, pool: str | None, compaction_id: int | None) -> Compaction | None:
        entry = self._queue.next_entry(worker_id, pool, compaction_id=compaction_id)
        if entry is None:
            return None
        log.info("Compaction %s, %s of %s, is with %s", entry.id, entry.type.shown, entry.name, worker_id)
        try:
            self._work_or_fail(entry, worker_id)
        except CompactionLostError:
            ended = self._history.get(entry.id)
            is_own = (ended.worker_id, ended.started_at) == (entry.worker_id, entry.started_at)
            if not ended.state.is_over or not is_own:
                raise
            log.info("Compaction %s of %s has ended while it was done: %s", entry.id, entry.name, ended.error_message)
            return ended
        return self._history.get(entry.id)

    def _work_or_fail(self, entry: Compaction, worker_id: str) -> None:
        try:
            self._work(entry)
        except CompactionLostError:
            raise
        except RefusedError as refused:
            self._queue.mark_refused(entry, str(refused))
        except CommitOutcomeUnknownError:
            # The housekeeper finds the outcome by the state of the transaction.
            raise
        except HivexError as error:
            if worker_id in self._cancelled:
                # Any error is a consequence of the cancellation: the end of a process may end its Spark first.
                self._give_back(entry)
                raise
            log.warning("Compaction %s of %s has failed: %s", entry.id, entry.name, error)
            self._queue.mark_failed(entry, str(error))
        except BaseException as error:
            self._mark_interrupted(entry, error)
            raise

    def _give_back(self, entry: Compaction) -> None:
        try:
            self._queue.give_back(entry)
        except HivexError as failure:
            # The transaction is aborted, so that the housekeeper returns the entry to the queue.
            log.warning("Compaction %s of %s could not be given back: %s", entry.id, entry.name, failure)
        else:
            log.info("Compaction %s of %s was cancelled and waits again", entry.id, entry.name)

    def _mark_interrupted(self, entry: Compaction, error: BaseException) -> None:
        try:
            self._queue.mark_failed(entry, f"{type(error).__name__}: {error}".removesuffix(": "))
        except HivexError as failure:
            # The caller gets the first error; the housekeeper returns the entry to the queue.
            log.warning("Compaction %s of %s could not be marked as failed: %s", entry.id, entry.name, failure)

    def _work(self, entry: Compaction) -> None:
        with self._services.store.read() as connection:
            target = find_target(connection, entry, self._services.settings, self._services.clusters)
        (txn_id,) = self._services.transactions.open(
            user=entry.run_as or "",
            agent_info=f"compaction {entry.id} of {entry.name} by {entry.worker_id}",
            type=TxnType.REBALANCE_COMPACTION if entry.type is CompactionType.REBALANCE else TxnType.COMPACTION,
        )
        made: list[str] = []
        running = TransactionJob(txn_id)
        try:
            self._services.roots.check(target.cluster.name)
            with heartbeats(
                self._services.transactions, txn_id, int(self._services.settings["hive.txn.timeout"]), running.end
            ):
                if entry.type is CompactionType.REBALANCE:
                    self._keep_ids(entry, txn_id)
                found = self._services.store.write(
                    lambda joined: self._find(joined, entry, txn_id), name="start compaction"
                )
                target = found.target
                self._services.store.reach("compaction started")
                self._compact(found, running, made)
        except BaseException as error:
            if not isinstance(error, CommitOutcomeUnknownError) and self._abort(txn_id, error):
                self._delete(target, made)
            ended = running.cause_of(error)
            if ended is not None:
                raise ended from error
            raise

    # -- the merged directories ---------------------------------------------------------

    def _find(self, connection: Connection, entry: Compaction, txn_id: int) -> CompactionWork:
        valid_txns, seen = read_lists(connection, f"{entry.database}.{entry.table}", entry.table_id, txn_id)
        write_ids = ValidCompactorWriteIdList.from_snapshot(seen)
        # Read after the snapshot, so that the table has all columns of the writes in the snapshot.
        target = find_target(connection, entry, self._services.settings, self._services.clusters)
        partition_ids = [target.partition_id] if target.partition_id is not None else []
        found = directories_of(connection, target.table, partition_ids if target.table.is_partitioned else None).get(
            target.partition_id, []
        )
        by_name = {each.name: each for each in found}
        state = directory_state(by_name, write_ids, valid_txns)
        leftovers = has_leftovers(connection, entry)
        started = self._queue.joining(connection).mark_started(entry, txn_id, write_ids.high_watermark)
        return CompactionWork(started, target, write_ids, state, by_name, seen.aborted_ids, leftovers)

    # -- work ---------------------------------------------------------------------------

    def _compact(self, found: CompactionWork, running: TransactionJob, made: list[str]) -> None:
        """Run the jobs of a compaction and commit it; add the names of written directories to ``made``."""
        entry, target, txn_id = found.entry, found.target, running.txn_id
        todo = next_state(entry.type, found.state, has_leftovers=found.has_leftovers)
        if todo is CompactionState.REFUSED:
            message = _nothing_to_do(entry.type, found.state)
            self._services.transactions.commit(
                txn_id, lambda connection: self._queue.joining(connection).mark_refused(found.entry, message)
            )
            log.info("Compaction %s of %s is refused: %s", entry.id, entry.name, message)
            return
        if entry.type is CompactionType.REBALANCE:
            found.check_ids()
        written: Sequence[WrittenDirectory] = ()
        if todo is CompactionState.WORKING:
            written = self._run(found, running, made)
            self._services.store.reach("compaction written")
            # The lock of an INSERT: statements that move or remove directories exclude it, whatever the settings. Other
            # statements wait for this lock only at the moment of the commit.
            (lock,) = self._statement_locks.insert(target.table, entry.partition)
            place = replace(lock, operation=DataOperation.NO_TXN)
            self._services.locks.acquire([place], txn_id, user=entry.run_as or "")

        def commit(connection: Connection) -> None:
            hold_for_change(connection, [entry.table_id])
            self._check_unchanged(connection, entry, target)
            self._services.catalog.joining(connection).register(
                Registration.of_compaction(target.table, entry.partition, written, txn_id, target.cluster.name)
            )
            self._queue.joining(connection).mark_ready_for_cleaning(found.entry)

        self._services.transactions.commit(txn_id, commit)
        log.info("Compaction %s of %s has made %s", entry.id, entry.name, ", ".join(each.name for each in written))
        if written and self._services.settings[GATHER_STATISTICS]:
            self._refresh_statistics(entry, target)

    def _refresh_statistics(self, entry: Compaction, target: CompactionTarget) -> None:
        def work(connection: Connection) -> None:
            if refresh_statistics(connection, target.table, target.partition_id):
                partitions = None if entry.partition is None else [entry.partition]
                record_statistics_event(connection, self._services.clock(), target.table, partitions)

        try:
            with self._services.store.read() as connection:
                if not has_statistics(connection, target.table, target.partition_id):
                    return
            self._services.store.write(work, name="refresh statistics")
        except HivexError as error:
            # The compaction has committed, so that this error does not matter for it.
            log.warning("Statistics of %s were not refreshed after compaction %s: %s", entry.name, entry.id, error)

    def _keep_ids(self, entry: Compaction, txn_id: int) -> None:
        """Acquire the lock of an UPDATE for a rebalance, which changes row ids.

        While the lock is held, no other statement can update or delete rows. After the rebalance, transactions that
        have read the old row ids cannot commit.

        Raises:
            LockNotAcquiredError: another statement is changing rows now.
        """
        place = LockComponent(
            entry.database, entry.table, entry.partition, type=LockType.EXCL_WRITE, operation=DataOperation.UPDATE
        )
        response = self._services.locks.acquire([place], txn_id, user=entry.run_as or "", wait=False)
        if not response.is_acquired:
            who = f": {response.blocked_by.describe()}" if response.blocked_by is not None else ""
            raise LockNotAcquiredError(f"Rebalancing {entry.name} waits until no other statement changes its rows{who}")

    def _check_unchanged(self, connection: Connection, entry: Compaction, target: CompactionTarget) -> None:
        """Ensure that the table or partition still exists at the location of the written directories.

        Raises:
            InvalidOperationError: the table or partition was dropped, renamed or moved meanwhile.
        """
        stored = find_place(connection, entry)
        there = stored is not None and stored[1:] == (target.partition_id, target.location)
        if stored is None or not there or stored[0].storage.primary.cluster != target.cluster.name:
            raise InvalidOperationError(
                "A compaction of", entry.name, "it was dropped, renamed or moved meanwhile; ask again for it"
            )

    def _run(self, found: CompactionWork, running: TransactionJob, made: list[str]) -> tuple[WrittenDirectory, ...]:
        is_major = found.entry.type is not CompactionType.MINOR
        rebalance = None
        if found.entry.type is CompactionType.REBALANCE:
            rebalance = Rebalance(found.entry.buckets, found.entry.order_by, running.txn_id << WRITTEN_BITS)
        inputs: list[Directory] = list(found.inputs(is_major=is_major))
        job = CompactionJob(found.target, tuple(inputs), is_major, running.txn_id, found.write_ids, rebalance)
        before = first_jobs(job, int(self._services.settings["hive.compactor.max.num.delta"]))
        for number, each in enumerate(before, 1):
            log.info("Compaction %s begins with deltas, part %s of %s", found.entry.id, number, len(before))
            merged = each.followed_by(self._run_job(found.entry, each, running, made))
            at = inputs.index(each.inputs[0])
            inputs[at : at + len(each.inputs)] = merged
        written = self._run_job(found.entry, replace(job, inputs=tuple(inputs)), running, made)
        names = {each.name for each in written}
        self._delete(found.target, [name for name in made if name not in names])
        made[:] = sorted(names)
        return written

    def _run_job(
        self, entry: Compaction, job: CompactionJob, running: TransactionJob, made: list[str]
    ) -> tuple[WrittenDirectory, ...]:
        cluster = job.target.cluster
        runner = runner_for(cluster)
        properties = job_properties(job.target.table.parameters, entry.properties)
        own = {name: value for name, value in properties.items() if name.startswith(_SPARK_PROPERTY)}
        plan = job.plan(
            tag=f"hivex_compaction_{job.txn_id}_{uuid.uuid4().hex[:8]}",
            name=job_name(entry),
            scheduler_pool=job_queue(
                job.target.table.parameters, entry.properties, str(self._services.settings[JOB_QUEUE])
            ),
            spark_conf={**cluster.spark_conf, **own},
        )
        self._queue.note_job(entry, plan.tag)
        worker_id = entry.worker_id or ""
        running.begin(runner, plan.tag)
        self._running[worker_id] = running
        if worker_id in self._cancelled:
            raise JobCancelledError(cluster.name)
        with self._cancelled_at_time_out(runner, plan.tag):
            plan = replace(plan, roots=(self._services.roots.planned(cluster.name),))
            result = runner.run(plan, cluster.name, ProgressLog(f"Compaction {entry.id}"))
            made += [each.name for each in result.directories]
            return check_written(cluster, plan, result).directories

    @contextmanager
    def _cancelled_at_time_out(self, runner: Runner, tag: str) -> Iterator[None]:
        """Stop the job if the block takes longer than ``hive.compactor.worker.timeout``.

        Another worker is then allowed to take the compaction.
        """
        timer = threading.Timer(self._worker_timeout_s, runner.cancel, [tag])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    # -- failures -----------------------------------------------------------------------

    def _abort(self, txn_id: int, error: BaseException) -> bool:
        """Abort the transaction; return whether its changes are certainly not visible."""
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        try:
            self._services.transactions.abort(txn_id, reason[:1000], AbortReason.COMPACTION)
        except TransactionCommittedError:
            log.warning("Transaction %s had committed before its compaction was interrupted", txn_id)
            return False
        except HivexError as failure:
            # The caller gets the first error; the housekeeper aborts the transaction after its time-out.
            log.warning("Transaction %s could not be aborted and will time out: %s", txn_id, failure)
            return False
        return True

    def _delete(self, target: CompactionTarget, names: Sequence[str]) -> None:
        """Delete directories of a compaction that has not committed. No query has read them."""
        files = ClusterFiles.of(target.cluster)
        for name in names:
            try:
                files.delete_directory(f"{target.location}/{name}")
            except HivexError as error:
                log.warning("Directory %s of a compaction could not be deleted: %s", name, error)


def job_name(entry: Compaction) -> str:
    """Return the name of the job in Spark's UI: ``host-compactor-db.table.partition``."""
    parts = [entry.database, entry.table, *([entry.partition] if entry.partition else [])]
    return f"{socket.gethostname()}-compactor-{'.'.join(parts)}"


def _nothing_to_do(type: CompactionType, state: DirectoryState) -> str:
    deltas = f"{len(state.deltas)} deltas" if len(state.deltas) != 1 else "1 delta"
    if type is CompactionType.MINOR:
        return f"there is nothing to merge: it has {deltas}, and a minor compaction takes two of a kind"
    base = "a base" if state.base else "no base"
    return f"there is nothing to merge: it has {base} and {deltas}"


# The statistics after a compaction: files and bytes change, rows and columns do not.
#
# Nothing is scanned, because no visible row changes. Source: docs/reference/compaction.md, "Worker", rule 12 (Hive
# StatsUpdater).


GATHER_STATISTICS = "hive.compactor.gather.stats"


def has_statistics(connection: Connection, table: StoredTable, partition_id: int | None) -> bool:
    """Return whether a table, or one of its partitions, has statistics."""
    return partition_id in select_statistics(connection, table, [] if partition_id is None else [partition_id])


def refresh_statistics(connection: Connection, table: StoredTable, partition_id: int | None) -> bool:
    """Update the numbers of files and bytes in the statistics of a table or partition.

    Return False if the table or partition has no statistics.
    """
    if not has_statistics(connection, table, partition_id):
        return False
    own = [] if partition_id is None else [partition_id]
    valid_txns, write_ids = read_lists(connection, table.full_name, table.id, None)
    found = directories_of(connection, table, own or None).get(partition_id, [])
    by_name = {each.name: each for each in found}
    state = directory_state(by_name, write_ids, valid_txns)
    read = [by_name[name] for name in (*((state.base,) if state.base else ()), *state.originals, *state.deltas)]
    store_sizes(
        connection, table, partition_id, sum(each.files for each in read), sum(each.size_bytes for each in read)
    )
    return True


class RefusedError(Exception):
    """A compaction has nothing to do, or must not compact the table or partition."""


@dataclass(frozen=True, slots=True)
class CompactionWork:
    """A compaction to run: its entry, its target, and the directories that the snapshot of its transaction sees."""

    entry: Compaction
    target: CompactionTarget
    write_ids: ValidCompactorWriteIdList
    state: DirectoryState
    directories: dict[str, RegisteredDirectory]
    aborted_ids: tuple[int, ...]
    has_leftovers: bool

    def check_ids(self) -> None:
        """Ensure that a rebalance, which changes row ids, can merge all delete deltas.

        Raises:
            InvalidOperationError: a delete delta is above the high watermark of the compaction, because a transaction
                with a lower id is open.
            RefusedError: the table or partition has no rows.
        """
        if not self.inputs(is_major=True):
            raise RefusedError("there is nothing in it")
        for name, directory in self.directories.items():
            named = parse_directory(name) if directory.is_delete_delta else None
            if named is None or named.max_write_id <= self.write_ids.high_watermark:
                continue
            if named.max_write_id not in self.aborted_ids:
                reason = (
                    f"{name} deletes rows by their ids, and cannot be merged before write id "
                    f"{self.write_ids.high_watermark + 1} is settled; ask again then"
                )
                raise InvalidOperationError("A rebalance of", self.entry.name, reason)

    def inputs(self, *, is_major: bool) -> tuple[RegisteredDirectory, ...]:
        """Return the directories that the compaction merges, in reading order. A minor compaction takes only deltas."""
        first = (*((self.state.base,) if self.state.base else ()), *self.state.originals) if is_major else ()
        return tuple(self.directories[name] for name in (*first, *self.state.deltas))


def find_target(connection: Connection, entry: Compaction, settings: Settings, clusters: Clusters) -> CompactionTarget:
    """Return the current table or partition of an entry.

    Raises:
        RefusedError: the table or partition was dropped, or is of a kind that is not compacted.
        InvalidOperationError: the table is insert-only, and the settings exclude insert-only tables.
    """
    found = find_place(connection, entry)
    if found is None:
        raise RefusedError("the table or partition was dropped")
    table, partition_id, location = found
    if not table.is_transactional:
        raise RefusedError("it is not a transactional table any more")
    is_whole = table.is_partitioned and partition_id is None
    # An aborted transaction may have written to any partition.
    if is_whole and (entry.type is CompactionType.REBALANCE or not has_leftovers(connection, entry)):
        raise RefusedError("it has partitions, which are compacted one by one")
    if table.storage.sort_columns:
        raise RefusedError("its files are sorted (SORTED BY), and no compaction keeps that order")
    if entry.type is CompactionType.REBALANCE and (table.is_insert_only or table.storage.num_buckets > 0):
        kind = "insert-only" if table.is_insert_only else "bucketed (CLUSTERED BY)"
        raise RefusedError(f"it is {kind}: there is nothing that its rows could be spread by")
    if table.is_insert_only and not settings[INSERT_ONLY]:
        raise InvalidOperationError("A compaction of", entry.name, f"it is insert-only, and {INSERT_ONLY} is false")
    cluster = clusters.get(table.storage.primary.cluster)
    return CompactionTarget(_as_requested(table, entry, settings), entry.partition, partition_id, location, cluster)


def has_leftovers(connection: Connection, entry: Compaction) -> bool:
    """Return whether aborted transactions can have left files, which the cleaner deletes."""
    return bool(read_aborted(connection, (entry.table_id, entry.partition)))


def find_place(connection: Connection, entry: Compaction) -> tuple[StoredTable, int | None, str] | None:
    """Return a triple: table, partition id and location. Return None if the table or partition was dropped."""
    found = select_tables_by_id(connection, [entry.table_id])
    if not found:
        return None
    (table,) = found
    if entry.partition is None:
        return table, None, table.storage.primary.location
    try:
        row = select_partition(connection, table, entry.partition)
    except NoSuchPartitionError:
        return None
    return table, int(row.id), str(row.location)


def _as_requested(table: StoredTable, entry: Compaction, settings: Settings) -> StoredTable:
    """Return the table with the row layout and file properties that the request names.

    Raises:
        HivexError: the layout or a property is not valid for the table; mostly InvalidOperationError.
    """
    given = table_properties(table.parameters, entry.properties)
    own = {name: value for name, value in given.items() if is_file_property(name)}
    if not table.is_insert_only:
        own[ROW_LAYOUT] = given.get(ROW_LAYOUT, table.row_layout).lower()
        if own[ROW_LAYOUT] not in (FLAT_LAYOUT, HIVE_LAYOUT):
            known = f"{FLAT_LAYOUT} and {HIVE_LAYOUT}"
            reason = f"there is no row layout {own[ROW_LAYOUT]!r}; have {known}"
            raise InvalidOperationError("A compaction of", entry.name, reason)
    check_spark_options(settings, entry.name, {**table.parameters, **entry.properties})
    requested = replace(table, parameters={**table.parameters, **own})
    check_file_options(table.full_name, table.storage.format, requested.file_options)
    return requested
