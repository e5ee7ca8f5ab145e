"""The cleaner: deletes directories that compactions have replaced, and files of aborted transactions, on every cluster.

The cleaner deletes files first. Then one database transaction deletes the rows about these files, and ends the entry of
the compaction queue. If a cleaner is killed, the next round finds all files again. A directory that is already deleted
is not an error.

Source: docs/reference/compaction.md, "Cleaner" (Hive Cleaner, CompactionCleaner, AbortedTxnCleaner).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sqlalchemy import Connection, delete, select

from airflow_hivex.core.catalog.history import raise_floor
from airflow_hivex.core.catalog.partition_rows import spelled_name
from airflow_hivex.core.catalog.table_events import record_table_event
from airflow_hivex.core.catalog.table_rows import raise_versions, select_table
from airflow_hivex.core.clock import to_ms
from airflow_hivex.core.compaction.candidates import Resource
from airflow_hivex.core.compaction.cleaner_files import ABORTED, CleaningFiles, Doomed
from airflow_hivex.core.compaction.cleaning_queue import CleaningQueue
from airflow_hivex.core.compaction.cleaning_work import CleaningWork, read_partitions, read_works
from airflow_hivex.core.compaction.queue import read_aborted
from airflow_hivex.core.errors import CompactionLostError, HivexError, StorageError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.cleaning import CleaningOutcome, CleaningTask, Deletion
from airflow_hivex.core.model.compaction import Compaction, CompactionRequest, CompactionType
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import directories, directory_copies, partitions

log = logging.getLogger(__name__)

_CLEANS_ABORTS = "metastore.compactor.clean.aborts.using.cleaner"
_DELETED_AT_ONCE = 16


class Cleaner:
    """The cleaner: :meth:`run` deletes files that no reader needs; :meth:`plan` only returns these files."""

    def __init__(self, services: Foundation, cleaning: CleaningQueue) -> None:
        self._services, settings = services, services.settings
        self._cleaning = cleaning
        self._with_aborts = bool(settings[_CLEANS_ABORTS])
        self._without_locks = bool(settings["hive.acid.lockless.reads.enabled"]) or not settings["hive.txn.read.locks"]
        self._most = int(settings["metastore.compactor.fetch.size"])
        self._threads = max(_DELETED_AT_ONCE, int(settings["hive.compactor.cleaner.threads.num"]))

    def plan(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[CleaningTask]:
        """Return the tasks that :meth:`run` would do now, and change nothing.

        The tasks are those of the warehouse, one table or one partition.
        """
        tasks = []
        files = CleaningFiles(self._services.clusters, self._services.roots)
        for work in self._works(self._resource(database, table, partition)):
            try:
                files.check_replaced(work)
                tasks.append(work.task(self._deletions(files.find(work))))
            except HivexError as error:
                tasks.append(replace(work, outcome=CleaningOutcome.FAILED, message=str(error)).task())
        return tasks

    def run(self, database: str | None = None, table: str | None = None) -> list[CleaningTask]:
        """Run one round, for the whole warehouse or one table, and return its tasks.

        Safe to run at any time, by several processes at once, and also after a killed round.
        """
        only = self._resource(database, table, None)
        self._end_needless()
        files = CleaningFiles(self._services.clusters, self._services.roots)
        return [task for work in self._works(only) if (task := self._clean(work, files)) is not None]

    def _end_needless(self) -> None:
        """End the entries of type ABORT_CLEANUP whose aborted data has been deleted.

        A DROP TABLE, or the cleaning of a compaction, can also delete such data.
        """
        _, entries = self._cleaning.ready()
        if not entries:
            return
        with self._services.store.read() as connection:
            aborted = read_aborted(connection)
        for entry in entries:
            if (entry.table_id, entry.partition) not in aborted:
                self._cleaning.forget_aborted(entry.table_id, entry.partition, ())

    # -- the work -------------------------------------------------------------------

    def _resource(self, database: str | None, table: str | None, partition: str | None) -> Resource | None:
        if table is None:
            return None
        with self._services.store.read() as connection:
            found = select_table(connection, database or "default", table)
        return found.id, None if partition is None else spelled_name(found, partition)

    def _works(self, only: Resource | None) -> list[CleaningWork]:
        """Return the work of a round.

        The call runs a fixed number of queries, and one more for each snapshot of the readers.
        """
        # Entries that wait for the retention of versions come last, so that they do not block others.
        kept_since = self._services.clock() - history_retention_ms(self._services.settings, {})
        ready, cleanups = self._cleaning.ready()
        entries = sorted(
            ready,
            key=lambda entry: (entry.committed_at is not None and to_ms(entry.committed_at) > kept_since, entry.id),
        )
        paused = {(entry.table_id, entry.partition): entry for entry in cleanups if not self._cleaning.is_due(entry)}
        with self._services.store.read() as connection:
            aborted = read_aborted(connection)
        works: dict[Resource, CleaningWork] = {}
        due = 0
        for entry in entries:
            resource = (entry.table_id, entry.partition)
            if not _is_wanted(resource, only):
                continue
            work = CleaningWork(entry.table_id, entry.database, entry.table, entry.partition, entry)
            if self._cleaning.is_due(entry):
                work.aborted = aborted.get(resource)
                due += 1
            else:
                work.outcome, work.message = CleaningOutcome.PAUSED, _why_paused(entry)
            works[resource] = work
            if due == self._most:
                break
        of_aborts = [
            CleaningWork(resource[0], "", "", resource[1], aborted=found)
            for resource, found in aborted.items()
            if resource not in works and _is_wanted(resource, only)
        ]
        for work in self._own_aborts(of_aborts)[: self._most]:
            pause = paused.get((work.table_id, work.partition))
            if pause is not None:
                work.outcome, work.message = CleaningOutcome.PAUSED, _why_paused(pause)
            works[work.table_id, work.partition] = work
        found = list(works.values())
        if found:
            with self._services.store.read() as connection:
                read_works(
                    connection,
                    found,
                    self._services.settings,
                    without_locks=self._without_locks,
                    now_ms=self._services.clock(),
                )
        # The drop of a table has deleted its aborted data, and the components of that.
        return [work for work in found if work.entry is not None or work.table is not None]

    def _own_aborts(self, works: list[CleaningWork]) -> list[CleaningWork]:
        """Return the items of ``works`` whose aborted data the cleaner itself must delete, not a compaction.

        If the settings leave aborted data to compactions, only items of partitions that do not exist are returned,
        because no compaction reads such partitions.
        """
        if self._with_aborts or not works:
            return works
        with self._services.store.read() as connection:
            places = read_partitions(connection, works)
        return [work for work in works if work.partition is not None and (work.table_id, work.partition) not in places]

    # -- doing it -------------------------------------------------------------------

    def _clean(self, work: CleaningWork, files: CleaningFiles) -> CleaningTask | None:
        """Do the work and return its report, or None if another process has ended the entry meanwhile."""
        try:
            return self._clean_entry(work, files) if work.entry is not None else self._clean_aborted(work, files)
        except CompactionLostError as error:
            log.info("%s", error)
            return None

    def _clean_entry(self, work: CleaningWork, files: CleaningFiles) -> CleaningTask:
        assert work.entry is not None
        if work.outcome is CleaningOutcome.REFUSED:
            self._cleaning.mark_refused(work.entry, work.message or "")
            return work.task()
        if work.outcome is CleaningOutcome.PAUSED or (not work.folders and work.outcome is CleaningOutcome.WAITING):
            return work.task()
        entry = self._cleaning.mark_cleaning_started(work.entry)
        try:
            doomed = self._delete(work, files)
        except Exception as error:
            message = _message_of(error, work)
            self._cleaning.mark_cleaning_failed(entry, message)
            return replace(work, outcome=CleaningOutcome.FAILED, message=message).task()

        def finish(connection: Connection) -> bool:
            if not self._forget(connection, work, doomed):
                return False
            if not work.waiting:
                # The components of aborted writes are removed already, together with their files.
                self._cleaning.joining(connection).mark_cleaned(entry, ())
            return True

        if not self._services.store.write(finish, name="cleaned"):
            moved = replace(work, outcome=CleaningOutcome.WAITING, message="it was moved meanwhile")
            self._cleaning.clear_cleaning_started(entry)
            return moved.task()
        if work.waiting:
            self._cleaning.clear_cleaning_started(entry)
        return work.task(self._deletions(doomed))

    def _clean_aborted(self, work: CleaningWork, files: CleaningFiles) -> CleaningTask:
        if not work.is_active:
            return work.task()
        try:
            doomed = self._delete(work, files)
        except Exception as error:
            message = _message_of(error, work)
            request = CompactionRequest(
                work.table_id, work.database, work.name, work.partition, CompactionType.ABORT_CLEANUP
            )
            self._cleaning.note_abort_cleanup(request, message)
            return replace(work, outcome=CleaningOutcome.FAILED, message=message).task()
        self._services.store.write(lambda connection: self._forget(connection, work, doomed), name="cleaned")
        return work.task(self._deletions(doomed))

    def _delete(self, work: CleaningWork, files: CleaningFiles) -> list[Doomed]:
        """Delete the files that the work allows to delete, check that they are gone, and return them.

        Raises:
            StorageError: a file could not be deleted.
            ReplacementMissingError: a directory that replaces obsolete directories is not complete, so the obsolete
                directories can have the last copy of rows.
        """
        files.check_replaced(work)
        doomed = files.find(work)
        if not doomed:
            return doomed
        with ThreadPoolExecutor(min(self._threads, len(doomed))) as pool:
            running = [pool.submit(files.delete, each) for each in doomed]
        errors = [error for each in running if (error := each.exception()) is not None]
        if errors:
            raise errors[0]
        left = set(files.find(work)).intersection(doomed)
        if left:
            raise StorageError(min(each.location for each in left), "it was deleted, and is still there")
        files.delete_empty_folders(work)
        return doomed

    def _forget(self, connection: Connection, work: CleaningWork, doomed: Iterable[Doomed]) -> bool:
        """Remove the rows about deleted directories, and return True.

        If the partition was moved meanwhile, change nothing and return False.
        """
        raise_versions(connection, [work.table_id])
        if work.place is not None:
            query = select(partitions.c.location).where(partitions.c.id == work.place.id, ~partitions.c.dropped)
            location = connection.execute(query.with_for_update()).scalar_one_or_none()
            if location is not None and location != work.place.location:
                return False
        names = {each.location.rpartition("/")[2] for each in doomed if each.why == ABORTED and not each.is_file}
        gone_names = sorted(name for name in work.registered if name in work.obsolete or name in names)
        gone = [work.registered[name].id for name in gone_names]
        for batch in batches(gone):
            later(connection, delete(directory_copies).where(directory_copies.c.directory_id.in_(batch)))
            later(connection, delete(directories).where(directories.c.id.in_(batch)))
        if any(name in work.obsolete for name in gone_names):
            floor = work.floor
            if floor is None:
                left = [name for name in work.registered if name not in gone_names]
                floor = max((each.max_write_id for name in left if (each := parse_directory(name))), default=0)
            raise_floor(connection, work.table_id, None if work.place is None else work.place.id, floor)
        if work.aborted is not None:
            cleaning = self._cleaning.joining(connection)
            cleaning.forget_aborted(work.table_id, work.partition, work.aborted.txn_ids)
        if gone and work.table is not None:
            message = {"partition": work.partition, "directories": gone_names}
            record_table_event(
                connection, self._services.clock(), EventType.REMOVE_DIRECTORIES, work.table, None, None, message
            )
        return True

    def _deletions(self, doomed: Iterable[Doomed]) -> Iterable[Deletion]:
        return (
            Deletion(each.cluster, self._services.clusters.get(each.cluster).shown_uri(each.location), each.why)
            for each in doomed
        )


def _is_wanted(resource: Resource, only: Resource | None) -> bool:
    if only is None:
        return True
    return resource[0] == only[0] and (only[1] is None or resource[1] == only[1])


def _why_paused(entry: Compaction) -> str:
    because = f": {entry.error_message}" if entry.error_message else ""
    return f"it waits {entry.retry_retention_ms // 1000} s after a failure, or for the delayed cleanup{because}"


def _message_of(error: BaseException, work: CleaningWork) -> str:
    if not isinstance(error, HivexError):
        log.warning("Cleaning of %s.%s has failed", work.database, work.name, exc_info=error)
    return f"{type(error).__name__}: {error}" if not isinstance(error, HivexError) else str(error)
