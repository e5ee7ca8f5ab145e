"""The cleaner: deletes what compactions have replaced and what aborted transactions have left, on every cluster.

Files go first, then their rows, and the entry of the queue with these: a cleaner that is killed at any moment leaves
what the next one finds again, and a directory that is gone already is fine.

Source: docs/reference/compaction.md, "Cleaner" (Hive Cleaner, CompactionCleaner, AbortedTxnCleaner).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, and_, delete, or_, select

from airflow_hivex.core.catalog.partitions import secondaries_of, spelled_name
from airflow_hivex.core.catalog.table_events import record_table_event
from airflow_hivex.core.catalog.tables import raise_versions, select_table, select_tables_by_id
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.compaction.candidates import Resource
from airflow_hivex.core.compaction.cleaning import CleaningQueue
from airflow_hivex.core.compaction.leftovers import read_aborted
from airflow_hivex.core.compaction.readers import Readers
from airflow_hivex.core.errors import CompactionLostError, HivexError, ReplacementMissingError, StorageError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.cleaning import (
    Aborted,
    Blocker,
    CleaningOutcome,
    CleaningTask,
    Deletion,
    forbids_cleanup,
    is_of_nobody,
    is_settled,
    obsolete,
    replacing,
)
from airflow_hivex.core.model.compaction import Compaction, CompactionRequest, CompactionType
from airflow_hivex.core.model.objects import PLAIN_LAYOUT, Table
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import directories, directory_copies, partitions

log = logging.getLogger(__name__)

_CLEANS_ABORTS = "metastore.compactor.clean.aborts.using.cleaner"
_DELETED_AT_ONCE = 16
# SQLite takes no deeper conditions than 1,000.
_TABLES_A_BATCH = 200
_SUFFIXED = "bucket_"
OBSOLETE, ABORTED = "obsolete", "aborted"


@dataclass(frozen=True, slots=True)
class _Partition:
    id: int
    location: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Registered:
    id: int
    name: str
    row_layout: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Folder:
    """The location of a place on one cluster; of a whole table with partitions, ``depth`` levels below."""

    cluster: str
    location: str
    depth: int = 0


@dataclass(slots=True)
class _Work:
    """The task for one entry, or for the aborted data of one table or partition, before files are listed."""

    table_id: int
    database: str
    name: str
    partition: str | None
    entry: Compaction | None = None
    aborted: Aborted | None = None
    table: Table | None = None
    place: _Partition | None = None
    folders: tuple[_Folder, ...] = ()
    registered: dict[str, _Registered] = field(default_factory=dict)
    batches: frozenset[tuple[int | None, str]] = frozenset()
    write_ids: ValidWriteIdList | None = None
    valid_txns: ValidTxnList | None = None
    obsolete: frozenset[str] = frozenset()
    replacing: tuple[_Registered, ...] = ()
    waiting: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    outcome: CleaningOutcome = CleaningOutcome.CLEANED
    message: str | None = None

    @property
    def is_active(self) -> bool:
        """Return whether files are looked for."""
        return self.outcome in (CleaningOutcome.CLEANED, CleaningOutcome.WAITING) and bool(self.folders)

    def task(self, deleted: Iterable[Deletion] = ()) -> CleaningTask:
        return CleaningTask(
            compaction_id=None if self.entry is None else self.entry.id,
            database=self.database,
            table=self.name,
            partition=self.partition,
            outcome=self.outcome,
            deleted=tuple(deleted),
            waiting=self.waiting,
            blockers=self.blockers,
            message=self.message,
        )


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A directory or file that is there and goes; ``is_file`` is one of a delta that stays."""

    cluster: str
    location: str
    why: str
    is_file: bool = False


class Cleaner:
    """Finds what can be deleted; one :meth:`run` deletes it, :meth:`plan` only tells."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clusters: Clusters,
        cleaning: CleaningQueue,
        clock: Clock,
        roots: Roots,
    ) -> None:
        self._store = store
        self._clock = clock
        self._clusters = clusters
        self._roots = roots
        self._cleaning = cleaning
        self._with_aborts = bool(settings[_CLEANS_ABORTS])
        self._without_locks = bool(settings["hive.acid.lockless.reads.enabled"]) or not settings["hive.txn.read.locks"]
        self._most = int(settings["metastore.compactor.fetch.size"])
        self._threads = max(_DELETED_AT_ONCE, int(settings["hive.compactor.cleaner.threads.num"]))

    def plan(
        self, database: str | None = None, table: str | None = None, partition: str | None = None
    ) -> list[CleaningTask]:
        """Plan :meth:`run`, for everything or for one table or partition. Only reads."""
        tasks = []
        files = _Files(self._clusters, self._roots)
        for work in self._works(self._resource(database, table, partition)):
            try:
                files.check_replaced(work)
                tasks.append(work.task(self._deletions(files.find(work))))
            except HivexError as error:
                tasks.append(replace(work, outcome=CleaningOutcome.FAILED, message=str(error)).task())
        return tasks

    def run(self) -> list[CleaningTask]:
        """Run one cycle; safe to run at any time, from several places, and again after it was killed."""
        self._end_needless()
        files = _Files(self._clusters, self._roots)
        return [task for work in self._works(None) if (task := self._clean(work, files)) is not None]

    def _end_needless(self) -> None:
        """End the entries of aborted data that is gone: with its table, or with a compaction's cleaning."""
        entries = self._cleaning.abort_cleanups()
        if not entries:
            return
        with self._store.read() as connection:
            aborted = read_aborted(connection)
        for entry in entries:
            if (entry.table_id, entry.partition) not in aborted:
                self._cleaning.forget_aborted(entry.table_id, entry.partition, ())

    # -- what is to be done ---------------------------------------------------------

    def _resource(self, database: str | None, table: str | None, partition: str | None) -> Resource | None:
        if table is None:
            return None
        with self._store.read() as connection:
            found = select_table(connection, database or "default", table)
        return found.id, None if partition is None else spelled_name(found, partition)

    def _works(self, only: Resource | None) -> list[_Work]:
        """Return all tasks.

        A fixed number of statements, and one for each different snapshot of a reader.
        """
        entries = self._cleaning.next_entries()
        paused = {
            (entry.table_id, entry.partition): entry
            for entry in self._cleaning.abort_cleanups()
            if not self._cleaning.is_due(entry)
        }
        with self._store.read() as connection:
            aborted = read_aborted(connection)
        works: dict[Resource, _Work] = {}
        due = 0
        for entry in entries:
            resource = (entry.table_id, entry.partition)
            if not _is_wanted(resource, only):
                continue
            work = _Work(entry.table_id, entry.database, entry.table, entry.partition, entry)
            if self._cleaning.is_due(entry):
                work.aborted = aborted.get(resource)
                due += 1
            else:
                work.outcome, work.message = CleaningOutcome.PAUSED, _why_paused(entry)
            works[resource] = work
            if due == self._most:
                break
        of_aborts = [
            _Work(resource[0], "", "", resource[1], aborted=found)
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
            with self._store.read() as connection:
                self._look(connection, found)
        # What was written to a table that is gone went with it, and its components as well.
        return [work for work in found if work.entry is not None or work.table is not None]

    def _own_aborts(self, works: list[_Work]) -> list[_Work]:
        """Return the aborted data that the cleaner removes by itself.

        Where compactions take it with them, that is what was written to partitions that have never come to be, or
        were dropped: nobody compacts these.
        """
        if self._with_aborts or not works:
            return works
        with self._store.read() as connection:
            places = _places(connection, works)
        return [work for work in works if work.partition is not None and (work.table_id, work.partition) not in places]

    def _look(self, connection: Connection, works: Sequence[_Work]) -> None:
        """Read all about the places, and decide what is obsolete there."""
        by_id = {t.id: t for t in select_tables_by_id(connection, {work.table_id for work in works})}
        # Before the directories: of what is settled now, all is registered that ever will be.
        readers = Readers(
            connection,
            {each: table.full_name for each, table in by_id.items()},
            without_locks=self._without_locks,
            now_ms=self._clock(),
        )
        places = _places(connection, works)
        elsewhere = secondaries_of(connection, [place.id for place in places.values()])
        registered = _registered(connection, works, places)
        growing = _growing(connection, [work.table_id for work in works if work.aborted is not None])
        for work in works:
            table = by_id.get(work.table_id)
            if table is None:
                work.message = "the table was dropped"
                continue
            work.table, work.database, work.name = table, table.database, table.name
            work.place = places.get((work.table_id, work.partition))
            if work.outcome is CleaningOutcome.PAUSED:
                continue
            if table.is_partitioned and work.partition is not None and work.place is None and work.aborted is None:
                work.message = "the partition was dropped"
                continue
            parameters = [table.parameters.items(), work.place.parameters.items() if work.place else ()]
            if forbids_cleanup(*map(list, parameters)):
                work.outcome, work.message = CleaningOutcome.REFUSED, "NO_CLEANUP is set"
                continue
            txn_id = None if work.entry is None else work.entry.txn_id
            if txn_id is not None and not readers.valid_txns.is_valid(txn_id):
                work.outcome, work.message = CleaningOutcome.WAITING, "its transaction is not committed"
                continue
            work.write_ids, work.valid_txns = readers.write_ids(work.table_id), readers.valid_txns
            secondaries = elsewhere.get(work.place.id, []) if work.place else []
            work.folders = _folders(table, work, [(copy.cluster, copy.location) for copy in secondaries])
            work.batches = growing.get(work.table_id, frozenset())
            is_any_partition = table.is_partitioned and work.partition is None
            if not is_any_partition:
                found = registered.get((work.table_id, work.place.id if work.place else None), ())
                work.registered = {each.name: each for each in found}
            if work.entry is not None:
                _decide(work, readers)

    # -- doing it -------------------------------------------------------------------

    def _clean(self, work: _Work, files: _Files) -> CleaningTask | None:
        """Do the work; None if somebody else has ended the entry meanwhile."""
        try:
            return self._clean_entry(work, files) if work.entry is not None else self._clean_aborted(work, files)
        except CompactionLostError as error:
            log.info("%s", error)
            return None

    def _clean_entry(self, work: _Work, files: _Files) -> CleaningTask:
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
            message = _told(error, work)
            self._cleaning.mark_cleaning_failed(entry, message)
            return replace(work, outcome=CleaningOutcome.FAILED, message=message).task()

        def finish(connection: Connection) -> bool:
            if not self._forget(connection, work, doomed):
                return False
            if not work.waiting:
                # Components of aborted writes went one by one, with their files.
                self._cleaning.joining(connection).mark_cleaned(entry, ())
            return True

        if not self._store.write(finish, name="cleaned"):
            moved = replace(work, outcome=CleaningOutcome.WAITING, message="it was moved meanwhile")
            self._cleaning.clear_cleaning_started(entry)
            return moved.task()
        if work.waiting:
            self._cleaning.clear_cleaning_started(entry)
        return work.task(self._deletions(doomed))

    def _clean_aborted(self, work: _Work, files: _Files) -> CleaningTask:
        if not work.is_active:
            return work.task()
        try:
            doomed = self._delete(work, files)
        except Exception as error:
            message = _told(error, work)
            request = CompactionRequest(
                work.table_id, work.database, work.name, work.partition, CompactionType.ABORT_CLEANUP
            )
            self._cleaning.note_abort_cleanup(request, message)
            return replace(work, outcome=CleaningOutcome.FAILED, message=message).task()
        self._store.write(lambda connection: self._forget(connection, work, doomed), name="cleaned")
        return work.task(self._deletions(doomed))

    def _delete(self, work: _Work, files: _Files) -> list[_Doomed]:
        """Delete what can go, and see to it that it is gone.

        Raises:
            StorageError: not all of it could be deleted.
            ReplacementMissingError: the obsolete directories may hold the last copy of rows.
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

    def _forget(self, connection: Connection, work: _Work, doomed: Iterable[_Doomed]) -> bool:
        """Remove the rows of what is gone, unless the partition was moved meanwhile."""
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
            connection.execute(delete(directory_copies).where(directory_copies.c.directory_id.in_(batch)))
            connection.execute(delete(directories).where(directories.c.id.in_(batch)))
        if work.aborted is not None:
            cleaning = self._cleaning.joining(connection)
            cleaning.forget_aborted(work.table_id, work.partition, work.aborted.txn_ids)
        if gone and work.table is not None:
            message = {"partition": work.partition, "directories": gone_names}
            record_table_event(connection, self._clock(), EventType.REMOVE_DIRECTORIES, work.table, None, None, message)
        return True

    def _deletions(self, doomed: Iterable[_Doomed]) -> Iterable[Deletion]:
        return (
            Deletion(each.cluster, self._clusters.get(each.cluster).shown_uri(each.location), each.why)
            for each in doomed
        )


class _Files:
    """The file systems of the clusters, and what is found there."""

    def __init__(self, clusters: Clusters, roots: Roots) -> None:
        self._clusters = clusters
        self._roots = roots
        self._files: dict[str, ClusterFiles] = {}

    def of(self, name: str) -> ClusterFiles:
        """Return the file system of a cluster.

        Raises:
            UnknownClusterError: it is not configured any more.
            RootMissingError, ForeignRootError: its root is not the one that it was.
            StorageError: there is no such file system.
        """
        if name not in self._files:
            cluster = self._clusters.get(name)
            self._roots.check(name)
            self._files[name] = ClusterFiles(cluster.filesystem, cluster.storage_options)
        return self._files[name]

    def check_replaced(self, work: _Work) -> None:
        """Ensure that what has the rows of the obsolete directories is whole, on the primary cluster.

        One listing for each directory that replaces others.

        Raises:
            ReplacementMissingError: files of it are missing, or are shorter than they were.
            StorageError: the file system cannot be read.
        """
        if not work.is_active or work.table is None:
            return
        cluster = self._clusters.get(work.table.storage.primary.cluster)
        folder = work.place.location if work.place is not None else work.table.storage.primary.location
        for each in work.replacing:
            location = f"{folder}/{each.name}"
            found = self.of(cluster.name).list_files(location) if each.files else {}
            # A streaming batch may have added files since.
            if len(found) < each.files or sum(found.values()) < each.size_bytes:
                raise ReplacementMissingError(
                    cluster.shown_uri(location), (len(found), sum(found.values())), (each.files, each.size_bytes)
                )

    def find(self, work: _Work) -> list[_Doomed]:
        """Return the directories and files that can be deleted, from one listing of each folder.

        For aborted writes, the folder of the table is listed too.

        Raises:
            StorageError: a file system cannot be read.
        """
        if not work.is_active:
            return []
        found: dict[_Doomed, None] = {}
        for folder in work.folders:
            files = self.of(folder.cluster)
            there = files.list_entries(folder.location, folder.depth)
            found.update(dict.fromkeys(self._obsolete(work, folder, set(there))))
            found.update(dict.fromkeys(_on_the_way(work, folder, there)))
            found.update(dict.fromkeys(_of_nobody(work, folder, there)))
            if work.aborted is not None:
                for path in there:
                    found.update(dict.fromkeys(self._aborted(work, folder, path)))
                    if work.aborted.is_staging(path.rpartition("/")[2]):
                        found[_Doomed(folder.cluster, f"{folder.location}/{path}", ABORTED)] = None
        if work.aborted is not None and work.table is not None:
            primary = work.table.storage.primary
            for name in self.of(primary.cluster).list_entries(primary.location):
                if work.aborted.is_staging(name):
                    found[_Doomed(primary.cluster, f"{primary.location}/{name}", ABORTED)] = None
        return list(found)

    def _obsolete(self, work: _Work, folder: _Folder, there: set[str]) -> Iterable[_Doomed]:
        for name in sorted(work.obsolete):
            location = f"{folder.location}/{name}".rstrip("/")
            # Original files may lie deeper.
            is_there = name in there if "/" not in name else self.of(folder.cluster).exists(location)
            if is_there:
                yield _Doomed(folder.cluster, location, OBSOLETE)

    def _aborted(self, work: _Work, folder: _Folder, path: str) -> Iterable[_Doomed]:
        """Return the directory, or the files in it if it is the delta of a streaming batch."""
        assert work.aborted is not None
        assert work.write_ids is not None
        directory = work.aborted.leftover(path.rpartition("/")[2])
        if directory is None or directory.name in work.obsolete:
            return
        location = f"{folder.location}/{path}"
        partition_id = work.place.id if work.place is not None else None
        if not directory.is_batch:
            yield _Doomed(folder.cluster, location, ABORTED)
            return
        is_registered = (
            any(name == directory.name for _, name in work.batches)
            if folder.depth
            else (partition_id, directory.name) in work.batches
        )
        if not is_registered and is_settled(directory, work.write_ids):
            yield _Doomed(folder.cluster, location, ABORTED)
            return
        registered = work.registered.get(directory.name)
        if registered is not None and registered.row_layout == PLAIN_LAYOUT:
            return
        suffixes = tuple(f"_{each - directory.min_write_id}" for each in work.aborted.of_batch(directory))
        for name in self.of(folder.cluster).list_entries(location):
            # bucket_00000_3 is the fourth transaction's.
            if name.startswith(_SUFFIXED) and name.count("_") == 2 and name.endswith(suffixes):
                yield _Doomed(folder.cluster, f"{location}/{name}", ABORTED, is_file=True)

    def delete(self, doomed: _Doomed) -> None:
        """Delete it; gone already is fine.

        Raises:
            StorageError: it could not be deleted.
        """
        files = self.of(doomed.cluster)
        if doomed.is_file:
            files.delete_file(doomed.location)
        else:
            files.delete_directory(doomed.location)

    def delete_empty_folders(self, work: _Work) -> None:
        """Delete the folder of a partition that is none, as only aborted transactions have written to it."""
        if work.table is not None and work.table.is_partitioned and work.partition and work.place is None:
            for folder in work.folders:
                self.of(folder.cluster).delete_empty_directories(folder.location, len(work.table.partition_keys))


def _on_the_way(work: _Work, folder: _Folder, there: Iterable[str]) -> Iterable[_Doomed]:
    """Return the intermediate directories that the compaction of an entry could not delete."""
    if work.entry is None or work.entry.txn_id is None:
        return
    own = frozenset({work.entry.txn_id})
    made = Aborted(own, frozenset(), compactions=own)
    for name in there:
        if made.is_staging(name) or (name not in work.registered and made.leftover(name) is not None):
            yield _Doomed(folder.cluster, f"{folder.location}/{name}", ABORTED)


def _of_nobody(work: _Work, folder: _Folder, there: Collection[str]) -> Iterable[_Doomed]:
    """Return the directories at a place on its primary cluster of writers whose transactions had ended by then.

    Nothing where a registered directory is missing. The metastore's database may be older than the files then, and
    what it does not know may be the last copy of rows.
    """
    table, place = work.table, work.place
    if table is None or work.write_ids is None or work.valid_txns is None or (table.is_partitioned and place is None):
        return
    primary = table.storage.primary
    location = primary.location if place is None else place.location
    if (folder.cluster, folder.location) != (primary.cluster, location):
        return
    if any(each.files and each.name.partition("/")[0] not in there for each in work.registered.values()):
        return
    for name in there:
        if name not in work.registered and is_of_nobody(name, work.write_ids, work.valid_txns):
            yield _Doomed(folder.cluster, f"{location}/{name}", ABORTED)


def _is_wanted(resource: Resource, only: Resource | None) -> bool:
    if only is None:
        return True
    return resource[0] == only[0] and (only[1] is None or resource[1] == only[1])


def _why_paused(entry: Compaction) -> str:
    because = f": {entry.error_message}" if entry.error_message else ""
    return f"it waits {entry.retry_retention_ms // 1000} s after a failure, or for the delayed cleanup{because}"


def _told(error: BaseException, work: _Work) -> str:
    if not isinstance(error, HivexError):
        log.warning("Cleaning of %s.%s has failed", work.database, work.name, exc_info=error)
    return f"{type(error).__name__}: {error}" if not isinstance(error, HivexError) else str(error)


def _decide(work: _Work, readers: Readers) -> None:
    """Determine the directories that are obsolete for all readers, or only for new ones, and the blockers."""
    assert work.entry is not None
    # The empty name is a partition that is one original file, which nothing can replace.
    names = [name for name in work.registered if name]
    highest = work.entry.highest_write_id
    replaced = obsolete(names, readers.now(work.table_id, highest))
    free = replaced
    blockers = []
    if replaced:
        # Many readers have begun at the same point.
        answers: dict[tuple[object, int], frozenset[str]] = {}
        for blocker, view in readers.of_table(work.table_id, highest):
            key = (view.valid_txns, view.highest)
            if key not in answers:
                answers[key] = obsolete(names, view)
            if not replaced <= answers[key]:
                blockers.append(blocker)
                free &= answers[key]
    work.obsolete = free
    needed = replacing(names, readers.now(work.table_id, highest), free)
    work.replacing = tuple(work.registered[name] for name in sorted(needed))
    work.waiting = tuple(sorted(replaced - free))
    work.blockers = tuple(blockers)
    if work.waiting:
        work.outcome = CleaningOutcome.WAITING
        work.message = f"{len(work.waiting)} obsolete directories may still be read"


def _folders(table: Table, work: _Work, secondaries: Sequence[tuple[str, str]]) -> tuple[_Folder, ...]:
    """Return the locations of the place: on its primary cluster, and on each that has a copy."""
    primary = table.storage.primary
    roots = [(primary.cluster, primary.location)]
    roots += [(copy.cluster, copy.location) for copy in table.storage.secondaries]
    if not table.is_partitioned:
        return tuple(_Folder(*each) for each in dict.fromkeys(roots))
    if work.partition is None:
        depth = len(table.partition_keys)
        return tuple(_Folder(*each, depth) for each in dict.fromkeys(roots)) if work.aborted is not None else ()
    places = [] if work.place is None else [(primary.cluster, work.place.location), *secondaries]
    if work.aborted is not None:
        # Writes go below the table, whatever the partition's location.
        held = {cluster for cluster, _ in places} | ({primary.cluster} if work.place else {c for c, _ in roots})
        places += [(cluster, f"{root}/{work.partition}") for cluster, root in roots if cluster in held]
    return tuple(_Folder(*each) for each in dict.fromkeys(places))


def _places(connection: Connection, works: Sequence[_Work]) -> dict[tuple[int, str | None], _Partition]:
    """Return the partitions that exist, by table and name. One statement for each 200 tables."""
    p = partitions.c
    by_table: defaultdict[int, list[str]] = defaultdict(list)
    for work in works:
        if work.partition is not None:
            by_table[work.table_id].append(work.partition)
    found: dict[tuple[int, str | None], _Partition] = {}
    for batch in batches(list(by_table.items()), _TABLES_A_BATCH):
        conditions = [and_(p.table_id == table_id, p.name.in_(names)) for table_id, names in batch]
        query = select(p.table_id, p.name, p.id, p.location, p.parameters).where(~p.dropped, or_(*conditions))
        for row in connection.execute(query):
            found[row.table_id, row.name] = _Partition(row.id, row.location, row.parameters)
    return found


def _registered(
    connection: Connection, works: Sequence[_Work], places: Mapping[tuple[int, str | None], _Partition]
) -> dict[tuple[int, int | None], list[_Registered]]:
    """Return the registered directories of the places. One statement for each 10,000."""
    d = directories.c
    query = select(d.table_id, d.partition_id, d.id, d.name, d.row_layout, d.files, d.size_bytes)
    of_partitions = [place.id for place in places.values()]
    of_tables = sorted({work.table_id for work in works if work.partition is None})
    queries = [query.where(d.partition_id.in_(batch)) for batch in batches(of_partitions)]
    queries += [query.where(d.table_id.in_(batch), d.partition_id.is_(None)) for batch in batches(of_tables)]
    found: defaultdict[tuple[int, int | None], list[_Registered]] = defaultdict(list)
    for each in queries:
        for row in connection.execute(each):
            found[row.table_id, row.partition_id].append(_Registered(*row[2:]))
    return found


def _growing(connection: Connection, table_ids: Sequence[int]) -> dict[int, frozenset[tuple[int | None, str]]]:
    """Return the registered deltas that several transactions of a streaming batch share, by table. One statement."""
    d = directories.c
    found: defaultdict[int, set[tuple[int | None, str]]] = defaultdict(set)
    query = select(d.table_id, d.partition_id, d.name).where(
        d.kind == "delta", d.min_write_id < d.max_write_id, d.visibility_txn_id == 0
    )
    for batch in batches(sorted(set(table_ids))):
        for row in connection.execute(query.where(d.table_id.in_(batch))):
            found[row.table_id].add((row.partition_id, row.name))
    return {table_id: frozenset(names) for table_id, names in found.items()}
