"""The replicator: copies the directories of tables that a cluster lacks, and registers the copies.

One transaction, which locks the tables for reading, copies and registers. The cleaner keeps the directories that the
transaction reads, and all copies become visible with the commit. Compactions and writes can run at the same time. If
the client dies, the transaction times out, and no query sees the copies. The next replication reuses the files.

Source: docs/reference/clusters.md, "Storage".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.metadata_reader import later_snapshot
from airflow_hivex.core.catalog.snapshot_rows import snapshot_call
from airflow_hivex.core.catalog.specifications import covered, typed_specification
from airflow_hivex.core.catalog.table_rows import hold_for_change
from airflow_hivex.core.errors import (
    CopyAlteredError,
    CopyOutdatedError,
    InvalidOperationError,
    InvalidParametersError,
)
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.replication import CopyProgress, CopyStatus, Replication
from airflow_hivex.core.model.snapshots import Moment, QualifiedName
from airflow_hivex.core.parser.grammar.values import read_partition_filter
from airflow_hivex.core.replication.copying import CopiedFiles
from airflow_hivex.core.replication.leftovers import CopyLeftovers
from airflow_hivex.core.replication.places import CopyPlaces
from airflow_hivex.core.replication.planning import (
    PlannedTable,
    ReplicationPlanner,
    check_target,
    place_of,
    plan_directory,
    registered_places,
)
from airflow_hivex.core.replication.running import ReplicationTransactions, RunningReplication
from airflow_hivex.core.replication.transfers import THREADS, CopyOptions, Transfers, checksum_of

log = logging.getLogger(__name__)

_MOST_TRIES = 3


AloneChange: TypeAlias = Callable[[Connection, int, Sequence[PlannedTable], Moment], None]
"""A function that changes the metastore in the commit of a replication under exclusive locks.

The arguments are the connection, the id of the transaction, the planned tables, and the moment of the snapshot.
"""


@dataclass(frozen=True, slots=True)
class _Alone:
    """The options of a replication under exclusive locks: the change in the commit, and the extent of the locks."""

    change: AloneChange
    database: str | None = None
    lock_timeout_s: float | None = None


class Replicator:
    """The copying of tables and partitions to clusters. The object is safe to share between threads and processes."""

    def __init__(self, services: Foundation) -> None:
        self._services = services
        self._catalog = services.catalog
        self._running = ReplicationTransactions(services)
        self._places = CopyPlaces(services)
        self._planner = ReplicationPlanner(services)
        self._transfers = Transfers(services, self._places)
        self._leftovers = CopyLeftovers(services, self._running)

    def replicate(
        self,
        tables: str | Sequence[str],
        cluster: str,
        partitions: Collection[str] | None = None,
        *,
        partition_filter: str | None = None,
        dry_run: bool = False,
        verify: bool = False,
        threads: int = THREADS,
        bytes_per_second: int | None = None,
        copy_cluster: str | None = None,
        progress: Callable[[CopyProgress], object] | None = None,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> Replication:
        """Copy the directories of tables that a cluster lacks, as of one snapshot. Return the copied directories.

        No copy is visible before all files are copied and verified. The call is safe to repeat after an error or a
        kill: existing files with the right checksum stay. If another replication of a table to the cluster is running,
        the call waits for it.

        Args:
            tables: one name or several, as ``database.table``; the default database is ``default``. Views need no copy,
                since all clusters share one metastore.
            cluster: the cluster that gets the copies.
            partitions: names of partitions of one table. A name with only some of the keys (``year=2013``) is allowed.
                None means all partitions.
            partition_filter: conditions on the partition keys of one table, such as ``year = 2013, month < 3``, as in a
                PARTITION clause. Give either names or conditions.
            dry_run: whether to return only the directories that would be copied, with their sizes.
            verify: whether to read also the registered copies, and to copy damaged copies again.
            threads: the number of files that are copied at the same time.
            bytes_per_second: the limit of written bytes.
            copy_cluster: the cluster whose Spark copies the files. With None the amount of data decides whether a job
                or this process copies (``hivex.replication.job.min.size``, ``hivex.replication.job.cluster``).
            progress: called every few seconds, in this thread.
            user: the owner of the transaction.
            agent_info: a text for people that names the caller, such as a DAG run and task.

        Raises:
            UnknownClusterError: a cluster is not configured.
            NoSuchTableError, NoSuchPartitionError: the table or partition does not exist.
            InvalidOperationError: the cluster is the primary of a table, or partitions are named for a table without
                partition keys.
            InvalidParametersError: no table is named, an option is not valid, or partitions are named for several
                tables.
            CopyAlteredError: a source or a copy is truncated or altered.
            CopyOutdatedError: streaming writers have added files to the copied directories during each attempt.
            StorageError: a file system cannot be read or written, or is full.
            RootMissingError, ForeignRootError: the root of the target is not mounted, or is another root.
            JobError: the job that copies has failed, or its cluster cannot run jobs.
            LockError, DeadlockError: other transactions lock the tables for too long.
            TransactionAbortedError: another client has aborted the transaction, or the transaction had no heartbeat for
                too long.
        """
        names = _names([tables] if isinstance(tables, str) else tables)
        target = self._services.clusters.get(cluster).name
        if partition_filter is not None:
            partitions = self._partitions_of(names, target, partitions, partition_filter)
            if not partitions:
                return Replication(target, ())
        _check_options(names, partitions, threads, bytes_per_second)
        if copy_cluster is not None:
            copy_cluster = self._services.clusters.get(copy_cluster).name
        options = CopyOptions(threads, bytes_per_second, progress, verify, copy_cluster)
        if dry_run:
            snapshot = self._catalog.snapshot(names)
            return Replication(target, tuple(each.shown() for each in self._planner.plan(snapshot, target, partitions)))
        return self._retried(
            lambda running: self._replicate(running, names, target, partitions, options), user, agent_info
        )

    def _partitions_of(
        self, names: Sequence[QualifiedName], target: str, given: Collection[str] | None, conditions: str
    ) -> list[str]:
        """Return the names of the partitions that match the conditions of a PARTITION clause."""
        if given is not None or len(names) != 1:
            raise InvalidParametersError("A filter of partitions belongs to one table, and to no list of partitions.")
        predicate = read_partition_filter(conditions)
        table = self._catalog.get_table(*names[0])
        exact = typed_specification("REPLICATE", table, predicate)
        check_target(table, target)
        listed = self._catalog.list_partition_names(table.database, table.name, exact)
        found = covered(listed, exact, table.partition_keys)
        if not found:
            log.warning("No partition of %s matches %s; nothing is replicated", table.full_name, conditions)
        return found

    def replicate_alone(
        self,
        tables: str | Sequence[str],
        cluster: str,
        then: AloneChange,
        options: CopyOptions,
        *,
        database: str | None = None,
        lock_timeout_s: float | None = None,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> Replication:
        """Copy all registered directories of tables under exclusive locks, and apply ``then`` in the commit.

        Complete directories that no new snapshot reads are copied, too, since an open transaction of several statements
        can still read them. A given ``database`` is locked as a whole, so that no other client creates a table in it.
        ``lock_timeout_s`` limits the wait for the locks.

        Raises: HivexError: for the reasons of :meth:`replicate`.
        """
        names = _names([tables] if isinstance(tables, str) else tables)
        alone = _Alone(then, database, lock_timeout_s)
        target = self._services.clusters.get(cluster).name
        return self._retried(
            lambda running: self._replicate(running, names, target, None, options, alone), user, agent_info
        )

    def _retried(
        self, replicate: Callable[[RunningReplication], Replication], user: str | None, agent_info: str | None
    ) -> Replication:
        """Run a replication in a transaction of its own, and return the result.

        If streaming writers have changed the files during the replication, the replication is retried.
        """
        for attempt in range(_MOST_TRIES):
            try:
                with self._running.open(user, agent_info) as running:
                    return replicate(running)
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
        """Copy directories of a table from the clusters that have them. Return a dict from directory to checksum.

        Each item of ``wanted`` has the partition, the directory, the source cluster, and the location of the partition
        on the source cluster. ``registered`` is a dict from partition to the location of the partition's copy on the
        target. The caller must lock the table exclusively, and register the copies.
        """
        partitions = {each.name: each for each in bound.partitions}
        lacking = [
            plan_directory(
                bound, cluster, partitions[name], directory, (source, location), registered, self._services.files
            )
            for name, directory, source, location in wanted
        ]
        plan = PlannedTable(bound, cluster, tuple(lacking), registered=registered)
        done = self._transfers.transfer(running, [plan], cluster, options)
        checksums, _ = self._checked(done.planned[0], done.copied)
        return {each.registered: checksums[each.registered.id] for each in lacking if each.registered is not None}

    def finish_copies(self, connection: Connection, running: RunningReplication) -> None:
        """Record, in the caller's database transaction, that the copies of :meth:`copy_directories` are registered."""
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
        """Withdraw the copy of a table or a partition on a cluster, if there is one, and delete the files of the copy.

        The call waits for the readers of the table, and locks the table exclusively. The files of an external table
        stay. The call is safe to repeat, but the remaining files of a killed call stay until the table is replicated to
        the cluster again.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchTableError, NoSuchPartitionError: the table or partition does not exist.
            InvalidOperationError: the cluster is the table's primary, or the table is a view.
            RootMissingError, ForeignRootError: the root of the cluster is not mounted, or is another root.
            StorageError: files could not be deleted; the copy is withdrawn.
            LockError, DeadlockError: other transactions lock the table for too long.
        """
        (name,) = _names([table])
        target = self._services.clusters.get(cluster).name
        with self._running.open(user, agent_info) as running:
            before = self._catalog.snapshot([name])
            stored = before.tables[name]
            if stored.is_view:
                raise InvalidOperationError("DROP COPY", stored.full_name, "it is a view, which has no files")
            if target == stored.storage.primary.cluster:
                raise InvalidOperationError("DROP COPY", stored.full_name, f"{target} is its primary cluster")
            self._running.lock_alone(running, [stored], target)
            snapshot = self._catalog.snapshot([name], running.txn_id)
            stored = snapshot.tables[name]
            contents = self._catalog.contents(snapshot, stored, None, [target])
            self._services.roots.check(target)
            wanted = None if partition is None else [partition]
            self._catalog.unregister_copy(stored.database, stored.name, target, wanted)
            names = {each.id: each.name for each in contents.partitions}
            for id_, location in contents.locations.get(target, {}).items():
                if not stored.is_external and (partition is None or names.get(id_ or 0) == partition):
                    self._services.files(target).delete_directory(location)
            self._services.transactions.commit(running.txn_id)

    def clean(self, most_s: float | None = None) -> int:
        """Delete the files of copies that are not needed any more, and return the number of emptied places.

        These are the files of unfinished replications, and of replaced or withdrawn copies. Files of other programs in
        the same folders stay. The call stops after ``most_s`` seconds, if given, and the next call continues. The call
        is safe at any time, and safe to repeat.
        """
        return self._leftovers.clean(most_s)

    def copies(self, table: str) -> list[CopyStatus]:
        """Return the current state of each partition's copy on each cluster. The call reads only the metastore.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidOperationError: the object is a view.
        """
        (name,) = _names([table])
        snapshot = self._catalog.snapshot([name])
        stored = snapshot.tables[name]
        if stored.is_view:
            raise InvalidOperationError("SHOW COPIES", stored.full_name, "it is a view, which has no files")
        contents = self._catalog.contents(snapshot, stored, None, self._services.clusters.names)
        bound = bind_table(stored, contents, None, snapshot, self._services.clusters.names)
        registered_ms = self._catalog.registered_ms(bound.registered_directories, stored.storage.primary.cluster)
        return list(copy_statuses(bound, contents, registered_ms, self._services.clock()))

    def _replicate(
        self,
        running: RunningReplication,
        names: Sequence[QualifiedName],
        target: str,
        partitions: Collection[str] | None,
        options: CopyOptions,
        alone: _Alone | None = None,
    ) -> Replication:
        before = self._catalog.snapshot(names)
        for each in before.tables.values():
            check_target(each, target)
        tables = before.tables.values()
        taken_ms = self._services.clock()
        answers = None if alone else self._running.begin(running, tables, target, [snapshot_call(names, None)])
        if answers is None:
            # The owner of a lock may be a process that has died.
            self._running.abort_dead(self._places.owners([each.id for each in tables], target))
            if alone is None:
                self._running.lock(running, tables, target)
            else:
                self._running.lock_alone(running, tables, target, alone.database, alone.lock_timeout_s)
            taken_ms = self._services.clock()
        snapshot = None if answers is None else later_snapshot(before, answers[0], running.txn_id)
        if snapshot is None:
            # No writer is running under exclusive locks: a snapshot of the transaction would miss writers that began
            # after it, and committed before it got its locks.
            snapshot = self._catalog.snapshot(names, running.txn_id if alone is None else None, known=tables)
        planned = self._planner.plan(
            snapshot, target, partitions, with_present=options.verify, everything=alone is not None
        )
        done = self._transfers.transfer(running, planned, target, options)
        self._commit(running, done.planned, done.copied, Moment(taken_ms, snapshot.valid_txns), alone)
        kept = done.copied.kept
        return Replication(
            target,
            tuple(each.shown() for each in done.planned),
            running.txn_id,
            len(done.files) - len(kept),
            sum(each.size_bytes for each in done.files if each.place not in kept),
            len(kept),
        )

    def _commit(
        self,
        running: RunningReplication,
        planned: Sequence[PlannedTable],
        copied: CopiedFiles,
        moment: Moment,
        alone: _Alone | None,
    ) -> None:
        """Register all copies, in the commit of the transaction."""
        found = {id(each): self._checked(each, copied) for each in planned}

        def changes(connection: Connection) -> None:
            catalog = self._catalog.joining(connection)
            # Tables are always locked in the order of ids.
            hold_for_change(connection, [each.table.id for each in planned])
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
                alone.change(connection, running.txn_id, planned, moment)

        self._running.commit(running, changes)

    def _checked(self, planned: PlannedTable, copied: CopiedFiles) -> tuple[dict[int, str], frozenset[int]]:
        """Return a dict from id of a copied directory to checksum, and the ids that had no recorded checksum before.

        Raises:
            CopyAlteredError: the checksum of a directory differs from the recorded checksum.
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


def copy_statuses(
    bound: BoundTable, contents: TableContents, registered_ms: Mapping[int, int], now_ms: int
) -> Iterator[CopyStatus]:
    """Yield the states of all copies of each partition, first the copy on the primary.

    ``registered_ms`` is a dict from directory id to the time of the directory's registration on the primary.
    """
    primary = bound.table.storage.primary.cluster
    places = {cluster: registered_places(contents, cluster) for cluster in bound.copies}
    ids: dict[str | None, int | None] = {each.name: each.id for each in contents.partitions}
    for partition in bound.partitions:
        directories = [each for each in partition.directories if isinstance(each, RegisteredDirectory)]
        registered = contents.directories.get(ids.get(partition.name), ())
        yield _status(partition, primary, partition.location, directories, (), None, registered, is_primary=True)
        for cluster, there in bound.copies.items():
            is_current = partition.name in there
            if not is_current and partition.name not in bound.stale.get(cluster, ()):
                continue
            held = contents.held.get(cluster, frozenset())
            has = [each for each in directories if each.id in held]
            lacks = [each for each in directories if each.id not in held]
            since = [registered_ms[each.id] for each in lacks if each.id in registered_ms]
            lag_ms = max(0, now_ms - min(since)) if since else None if lacks else 0
            location = there[partition.name] if is_current else place_of(bound, cluster, partition, places[cluster])
            own = [each for each in registered if each.id in held]
            yield _status(partition, cluster, location, has, lacks, lag_ms, own)


def _status(
    partition: BoundPartition,
    cluster: str,
    location: str,
    has: Sequence[RegisteredDirectory],
    lacks: Sequence[RegisteredDirectory],
    lag_ms: int | None,
    own: Sequence[RegisteredDirectory],
    *,
    is_primary: bool = False,
) -> CopyStatus:
    return CopyStatus(
        partition.name,
        cluster,
        location,
        len(has),
        sum(each.size_bytes for each in has),
        len(lacks),
        sum(each.size_bytes for each in lacks),
        lag_ms,
        is_primary,
        max((last for each in own if (last := _last_write_id(each)) is not None), default=None),
        len(_commits(lacks, own)),
    )


def _commits(lacks: Sequence[RegisteredDirectory], own: Sequence[RegisteredDirectory]) -> set[int]:
    """Return the write ids of the commits that a copy lacks.

    Of a directory with merged writes, only the write ids above the highest write id of the copy are returned.
    """
    highest = max((last for each in own if (last := _last_write_id(each)) is not None), default=0)
    found: set[int] = set()
    for each in lacks:
        directory = parse_directory(each.name)
        if directory is None:
            found.add(0)
        elif directory.visibility_txn_id or directory.is_batch:
            found.update(range(max(highest + 1, directory.min_write_id), directory.max_write_id + 1))
        else:
            found.add(directory.max_write_id)
    return found


def _last_write_id(directory: RegisteredDirectory) -> int | None:
    found = parse_directory(directory.name)
    return None if found is None else found.max_write_id
