"""The replicator: copies to a cluster what it lacks of tables, and registers the copies.

All happens in one transaction, which has the tables locked for reading. So the cleaner keeps the directories of its
snapshot, a compaction or a write of others goes on meanwhile, and the copies become visible with the commit, together.
If the client dies, its transaction times out, and no query sees the copies. The next replication keeps the files.

Source: docs/reference/clusters.md, "Storage".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from sqlalchemy import Connection

from airflow_hivex.core.catalog.binding import BoundPartition, BoundTable, bind
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.specifications import covered, typed_specification
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.errors import (
    CopyAlteredError,
    CopyOutdatedError,
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
)
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.replication import CopyProgress, CopyStatus, Replication
from airflow_hivex.core.model.snapshots import Moment, QualifiedName, Snapshot
from airflow_hivex.core.replication.comparing import CopyComparison, checksum_of
from airflow_hivex.core.replication.copying import CopiedFiles, There, copy_files
from airflow_hivex.core.replication.leftovers import CopyLeftovers
from airflow_hivex.core.replication.places import CopyPlaces
from airflow_hivex.core.replication.planning import (
    PlannedDirectory,
    PlannedTable,
    chosen,
    plan_directory,
    plan_table,
    registered_places,
)
from airflow_hivex.core.replication.running import ReplicationTransactions, RunningReplication
from airflow_hivex.core.replication.status import copy_statuses
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.sql.copies import read_partition_filter
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.locks import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager

log = logging.getLogger(__name__)

_THREADS = 8
_MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How a replication copies: threads, bytes per second at most, progress, and whether present copies are read."""

    threads: int = _THREADS
    bytes_per_second: int | None = None
    progress: Callable[[CopyProgress], object] | None = None
    verify: bool = False


AloneChange: TypeAlias = Callable[[Connection, int, PlannedTable, Moment], None]
"""A change that a replication without readers and writers applies in its commit.

It takes the connection, the transaction, the table as it was planned, and the moment of the snapshot.
"""


class Replicator:
    """Copies tables and partitions to clusters. Safe to share between threads and processes."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clusters: Clusters,
        catalog: ObjectStore,
        transactions: TransactionManager,
        locks: LockManager,
        roots: Roots,
        health: ClusterHealth,
        clock: Clock,
    ) -> None:
        self._clusters = clusters
        self._catalog = catalog
        self._transactions = transactions
        self._running = ReplicationTransactions(settings, transactions, locks)
        self._clock = clock
        self._roots = roots
        self._health = health
        self._places = CopyPlaces(store, clock)
        self._leftovers = CopyLeftovers(store, settings, clusters, clock, roots, self._running)

    def replicate(
        self,
        tables: str | Sequence[str],
        cluster: str,
        partitions: Collection[str] | None = None,
        *,
        partition_filter: str | None = None,
        dry_run: bool = False,
        verify: bool = False,
        threads: int = _THREADS,
        bytes_per_second: int | None = None,
        progress: Callable[[CopyProgress], object] | None = None,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> Replication:
        """Copy to a cluster what it lacks of tables, as of one snapshot; return what that was.

        Nothing is visible there before all of it is copied and verified. Safe to repeat after any end: files that are
        there with the right checksum stay. A second replication of a table to the cluster waits for the first.

        Args:
            tables: one name or several, as ``database.table``; without a database it is ``default``. Views have no
                files, and need none: all clusters share one metastore.
            cluster: the cluster that is to have the copies.
            partitions: names (``year=2013/month=1``) or leading parts of them, of one table; None for all.
            partition_filter: conditions on the partition keys of one table, as in a PARTITION clause
                (``year = 2013, month < 3``), instead of names.
            dry_run: only return what would be copied, with its size.
            verify: read the copies that are registered, too, and copy those again that are damaged.
            threads: how many files are copied at once.
            bytes_per_second: how much is written at most.
            progress: called every few seconds, in this thread.
            user: who owns the transaction.
            agent_info: tells people on whose behalf, such as a DAG run and task.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchTableError, NoSuchPartitionError: it does not exist.
            InvalidOperationError: the cluster is the primary of a table, or a list of partitions does not fit.
            CopyAlteredError: a source or a copy is truncated or altered.
            CopyOutdatedError: streaming writers added to the same directories during each try.
            StorageError: a file system cannot be read or written, or is full.
            RootMissingError, ForeignRootError: the root of the target is not the one that it was.
            LockError, DeadlockError: the tables are locked by others for too long.
            TransactionAbortedError: somebody aborted the replication, or it sent no heartbeat for too long.
        """
        names = _names([tables] if isinstance(tables, str) else tables)
        target = self._clusters.get(cluster).name
        if partition_filter is not None:
            partitions = self._partitions_of(names, partitions, partition_filter)
            if not partitions:
                return Replication(target, ())
        _check_options(names, partitions, threads, bytes_per_second)
        options = CopyOptions(threads, bytes_per_second, progress, verify)
        if dry_run:
            snapshot = self._catalog.snapshot(names)
            return Replication(target, tuple(each.shown() for each in self._plan(snapshot, target, partitions)))
        for attempt in range(_MOST_TRIES):
            try:
                with self._running.open(user, agent_info) as running:
                    return self._replicate(running, names, target, partitions, options)
            except CopyOutdatedError as error:
                if attempt + 1 == _MOST_TRIES:
                    raise
                log.info("The replication is retried: %s", error)
        raise AssertionError("the loop returns or raises")

    def _partitions_of(
        self, names: Sequence[QualifiedName], given: Collection[str] | None, conditions: str
    ) -> list[str]:
        """Return the names of the partitions that conditions cover."""
        if given is not None or len(names) != 1:
            raise InvalidParametersError("A filter of partitions belongs to one table, and to no list of partitions.")
        predicate = read_partition_filter(conditions)
        table = self._catalog.get_table(*names[0])
        exact = typed_specification("REPLICATE", table, predicate)
        found = self._catalog.list_partition_names(table.database, table.name, exact)
        return covered(found, exact, table.partition_keys)

    def replicate_alone(
        self,
        table: str,
        cluster: str,
        then: AloneChange,
        options: CopyOptions,
        *,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> Replication:
        """Copy all registered directories of a table with no writer or reader, and apply ``then`` in the same commit.

        Also directories that no new snapshot reads are copied, as far as they are still whole: a transaction of several
        statements may read them.

        Raises:
            As :meth:`replicate`.
        """
        names = _names([table])
        target = self._clusters.get(cluster).name
        for attempt in range(_MOST_TRIES):
            try:
                with self._running.open(user, agent_info) as running:
                    return self._replicate(running, names, target, None, options, then)
            except CopyOutdatedError as error:
                if attempt + 1 == _MOST_TRIES:
                    raise
                log.info("The replication is retried: %s", error)
        raise AssertionError("the loop returns or raises")

    def copy_directories(
        self,
        bound: BoundTable,
        cluster: str,
        wanted: Sequence[tuple[str | None, RegisteredDirectory, str, str]],
        registered: Mapping[str | None, str],
        running: RunningReplication,
        options: CopyOptions,
    ) -> dict[RegisteredDirectory, str]:
        """Copy directories of a table from whichever clusters have them; return their checksums.

        Each is a partition, a directory of it, its cluster, and the location of the partition there. ``registered`` has
        the locations of the copies on the target. The caller has the table alone, and registers the copies.
        """
        partitions = {each.name: each for each in bound.partitions}
        lacking = [
            plan_directory(bound, cluster, partitions[name], directory, (source, location), registered, self._files)
            for name, directory, source, location in wanted
        ]
        (planned,), copied = self._copy(
            running, [PlannedTable(bound, cluster, tuple(lacking), registered=registered)], cluster, options
        )
        checksums, _ = self._checked(planned, copied)
        return {each.registered: checksums[each.registered.id] for each in lacking if each.registered is not None}

    def finish_copies(self, connection: Connection, running: RunningReplication) -> None:
        """Note that the copies of :meth:`copy_directories` are registered. In the transaction that does so."""
        self._places.finish(connection, running.txn_id)

    def drop_copy(
        self,
        table: str,
        cluster: str,
        partition: str | None = None,
        *,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> None:
        """Withdraw the copy of a table or a partition on a cluster, and delete its files; no copy is fine.

        Waits for the readers of the table, and has it alone meanwhile. The files of an external table stay. Safe to
        repeat, but files that a killed call has left stay until the table is replicated there again.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchTableError, NoSuchPartitionError: it does not exist.
            InvalidOperationError: the cluster is the table's primary, or the table is a view.
            RootMissingError, ForeignRootError: the root of the cluster is not the one that it was.
            StorageError: files could not be deleted; the copy is withdrawn.
            LockError, DeadlockError: the table is locked by others for too long.
        """
        (name,) = _names([table])
        target = self._clusters.get(cluster).name
        with self._running.open(user, agent_info) as running:
            before = self._catalog.snapshot([name])
            stored = before.tables[name]
            if stored.is_view:
                raise InvalidOperationError("DROP COPY", stored.full_name, "it is a view, which has no files")
            if target == stored.storage.primary.cluster:
                raise InvalidOperationError("DROP COPY", stored.full_name, f"{target} is its primary cluster")
            self._running.lock(running, [stored], target, exclusive=True)
            snapshot = self._catalog.snapshot([name], running.txn_id)
            stored = snapshot.tables[name]
            contents = self._catalog.contents(snapshot, stored, None, [target])
            self._roots.check(target)
            wanted = None if partition is None else [partition]
            self._catalog.unregister_copy(stored.database, stored.name, target, wanted)
            names = {each.id: each.name for each in contents.partitions}
            for id_, location in contents.locations.get(target, {}).items():
                if not stored.is_external and (partition is None or names.get(id_ or 0) == partition):
                    self._files(target).delete_directory(location)
            self._transactions.commit(running.txn_id)

    def clean(self) -> int:
        """Delete the files of copies that are not needed any more; return the number of places. For the housekeeping.

        Those are the files of replications that have not finished, and of copies of plain tables that were replaced or
        withdrawn. Files of others in the same folders stay. Safe at any time, and to repeat.
        """
        return self._leftovers.clean()

    def copies(self, table: str) -> list[CopyStatus]:
        """Return the state of the copies of a table, by partition and cluster, as of now. Only reads the metastore.

        Raises:
            NoSuchTableError: it does not exist.
            InvalidOperationError: it is a view.
        """
        (name,) = _names([table])
        snapshot = self._catalog.snapshot([name])
        stored = snapshot.tables[name]
        if stored.is_view:
            raise InvalidOperationError("SHOW COPIES", stored.full_name, "it is a view, which has no files")
        contents = self._catalog.contents(snapshot, stored, None, self._clusters.names)
        bound = bind(stored, contents, None, snapshot, self._clusters.names)
        registered_ms = self._catalog.registered_ms(bound.registered_directories, stored.storage.primary.cluster)
        return list(copy_statuses(bound, contents, registered_ms, self._clock()))

    def _replicate(
        self,
        running: RunningReplication,
        names: Sequence[QualifiedName],
        target: str,
        partitions: Collection[str] | None,
        options: CopyOptions,
        alone: AloneChange | None = None,
    ) -> Replication:
        before = self._catalog.snapshot(names)
        for each in before.tables.values():
            _check_target(each, target)
        tables = before.tables.values()
        self._running.abort_dead(self._places.owners([each.id for each in tables], target))
        self._running.lock(running, tables, target, exclusive=alone is not None)
        taken_ms = self._clock()
        snapshot = self._catalog.snapshot(names, running.txn_id, known=tables)
        planned = self._plan(snapshot, target, partitions, with_present=options.verify, everything=alone is not None)
        planned, copied = self._copy(running, planned, target, options)
        self._commit(running, planned, copied, Moment(taken_ms, snapshot.valid_txns), alone)
        wanted = [each for table in planned for lacks in table.lacking for each in lacks.copies(table.table.full_name)]
        return Replication(
            target,
            tuple(each.shown() for each in planned),
            running.txn_id,
            len(wanted) - len(copied.kept),
            sum(each.size_bytes for each in wanted if each.place not in copied.kept),
            len(copied.kept),
        )

    def _copy(
        self, running: RunningReplication, planned: Sequence[PlannedTable], target: str, options: CopyOptions
    ) -> tuple[list[PlannedTable], CopiedFiles]:
        """Copy what the plan lacks; return the plan with the state of each place, and the checksums."""
        self._roots.check(target)
        files = cache(self._files)
        comparison = CopyComparison(files, running.stop, options.threads)
        compared = [self._compared(each, comparison, running) for each in planned]
        taken = [self._take_over(each) for each in self._places.take(running.txn_id, compared, files)]
        wanted = [each for table in taken for lacks in table.lacking for each in lacks.copies(table.table.full_name)]
        copied = copy_files(
            files,
            files(target),
            target,
            wanted,
            running.stop,
            threads=options.threads,
            bytes_per_second=options.bytes_per_second,
            progress=options.progress,
        )
        # A disk that was lost meanwhile leaves an empty folder, into which the last files may have gone.
        self._roots.check(target)
        return taken, copied

    def _compared(self, planned: PlannedTable, comparison: CopyComparison, running: RunningReplication) -> PlannedTable:
        if not planned.present:
            return planned
        known = self._catalog.copy_checksums([each.registered for each in planned.present if each.registered])
        unfinished = self._places.unfinished(planned.table.id, planned.cluster)
        return comparison.without_equal(planned, known, running.txn_id, unfinished)

    def _commit(
        self,
        running: RunningReplication,
        planned: Sequence[PlannedTable],
        copied: CopiedFiles,
        moment: Moment,
        alone: AloneChange | None,
    ) -> None:
        """Register all copies, in the commit of the transaction."""
        found = {id(each): self._checked(each, copied) for each in planned}

        def changes(connection: Connection) -> None:
            catalog = self._catalog.joining(connection)
            for each in planned:
                if each.is_complete or each.table.is_view:
                    continue
                checksums, new = found[id(each)]
                directories = [lacks.registered for lacks in each.lacking if lacks.registered is not None]
                catalog.add_copies(
                    each.table,
                    each.cluster,
                    directories,
                    checksums,
                    partitions=each.bound.partition_names,
                    locations={lacks.partition: lacks.folder for lacks in each.lacking if lacks.registered is None},
                    write_ids=each.bound.write_ids,
                    moment=moment,
                )
                first = [directory for directory in directories if directory.id in new]
                if first:
                    catalog.add_copies(each.table, each.table.storage.primary.cluster, first, checksums)
            self._places.finish(connection, running.txn_id)
            if alone is not None:
                alone(connection, running.txn_id, planned[0], moment)

        self._running.commit(running, changes)

    def _checked(self, planned: PlannedTable, copied: CopiedFiles) -> tuple[dict[int, str], frozenset[int]]:
        """Return the checksums of the copied directories by id, and which of these were not known before.

        Raises:
            CopyAlteredError: a directory is not what it was when it was copied first.
        """
        known = self._catalog.copy_checksums([each.registered for each in planned.lacking if each.registered])
        checksums: dict[int, str] = {}
        for each in planned.lacking:
            if each.registered is None:
                continue
            checksum = checksum_of({name: copied.checksums[each.place_of(name)] for name in each.files})
            if known.get(each.registered.id, checksum) != checksum:
                reason = "its checksum is not the one that was recorded when it was copied first"
                raise CopyAlteredError(planned.table.full_name, each.source, each.location, reason)
            checksums[each.registered.id] = checksum
        return checksums, frozenset(checksums.keys() - known.keys())

    # -- the plan -------------------------------------------------------------------

    def _plan(
        self,
        snapshot: Snapshot,
        target: str,
        partitions: Collection[str] | None,
        *,
        with_present: bool = False,
        everything: bool = False,
    ) -> list[PlannedTable]:
        planned = []
        for table in snapshot.tables.values():
            _check_target(table, target)
            contents = self._catalog.contents(snapshot, table, None, self._clusters.names)
            bound = bind(table, contents, None, snapshot, self._clusters.names)
            if table.is_view:
                planned.append(PlannedTable(replace(bound, partitions=()), target, is_complete=True))
                continue
            if partitions is not None and not table.is_partitioned:
                raise InvalidOperationError("REPLICATE", table.full_name, "the table has no partition keys")
            held = contents.held.get(target, frozenset())
            plan = plan_table(
                chosen(bound, partitions),
                target,
                held,
                registered_places(contents, target),
                self._files,
                self._source_of,
                with_present=with_present,
            )
            planned.append(self._with_unread(plan, contents) if everything else plan)
        return planned

    def _with_unread(self, planned: PlannedTable, contents: TableContents) -> PlannedTable:
        """Return the plan with the lacking directories that no new snapshot reads, as far as they are whole."""
        bound, held = planned.bound, contents.held.get(planned.cluster, frozenset())
        ids: dict[str | None, int | None] = {each.name: each.id for each in contents.partitions}
        unread: list[PlannedDirectory] = []
        for partition in bound.partitions:
            read = {each.name for each in partition.directories}
            for each in contents.directories.get(ids.get(partition.name), ()):
                if each.name in read or each.id in held:
                    continue
                alone = replace(bound, partitions=(replace(partition, directories=(each,)),))
                try:
                    plan = plan_table(alone, planned.cluster, held, planned.registered, self._files, self._source_of)
                    unread += plan.lacking
                except HivexError as error:
                    # The cleaner is deleting it, or its cluster cannot be used.
                    log.info("%s of %s stays where it is: %s", each.name, bound.table.full_name, error)
        return replace(planned, lacking=(*planned.lacking, *unread), is_complete=planned.is_complete and not unread)

    def _source_of(self, bound: BoundTable, partition: BoundPartition) -> str:
        """Return the cluster to copy a partition from: the primary, or if it cannot be used, one with a current copy.

        Raises:
            HivexError: no cluster that has it can be used; the reason is that of the primary.
        """
        primary = bound.table.storage.primary.cluster
        problem = self._health.of_root(primary).problem
        if problem is None:
            return primary
        for name, there in bound.copies.items():
            if partition.name in there and self._health.of_root(name).problem is None:
                return name
        raise problem

    def _take_over(self, planned: PlannedTable) -> PlannedTable:
        """Link the files of an earlier copy that have not changed into the place of the new one, where that works."""
        target = self._files(planned.cluster)
        lacking = []
        for each in planned.lacking:
            linked = [
                name
                for name, location in each.reused.items()
                if name not in each.there and target.link(location, each.place_of(name))
            ]
            lacking.append(replace(each, there={**each.there, **dict.fromkeys(linked, There.OWN)}))
        return replace(planned, lacking=tuple(lacking))

    def _files(self, name: str) -> ClusterFiles:
        cluster = self._clusters.get(name)
        return ClusterFiles(cluster.filesystem, cluster.storage_options)


def _names(tables: Sequence[str]) -> list[QualifiedName]:
    names = []
    for each in tables:
        database, _, name = each.rpartition(".")
        names.append((normalise(database or "default"), normalise(name)))
    return sorted(set(names))


def _check_options(
    names: Sequence[QualifiedName], partitions: Collection[str] | None, threads: int, bytes_per_second: int | None
) -> None:
    if not names:
        raise InvalidParametersError("No table is named; name at least one to replicate.")
    if partitions is not None and (len(names) > 1 or not partitions):
        raise InvalidParametersError("A list of partitions belongs to one table, and names at least one of them.")
    if threads < 1:
        raise InvalidParametersError(f"threads = {threads} is not valid; at least one thread copies.")
    if bytes_per_second is not None and bytes_per_second < 1:
        raise InvalidParametersError(f"bytes_per_second = {bytes_per_second} is not valid; None sets no limit.")


def _check_target(table: StoredTable, target: str) -> None:
    if not table.is_view and table.storage.primary.cluster == target:
        raise InvalidOperationError("REPLICATE", table.full_name, f"{target} is its primary cluster")
