"""The replicator: copies to a cluster what it lacks of tables, and registers the copies.

All happens in one transaction, which has the tables locked for reading. So the cleaner keeps the directories of its
snapshot, a compaction or a write of others goes on meanwhile, and the copies become visible with the commit, together.
If the client dies, its transaction times out, and no query sees the copies. The next replication keeps the files.

Source: docs/reference/clusters.md, "Storage".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.binding import BoundPartition, BoundTable, bind
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.errors import (
    CopyAlteredError,
    CopyOutdatedError,
    InvalidOperationError,
    InvalidParametersError,
)
from airflow_hivex.core.files.filesystem import UNFINISHED, ClusterFiles, is_hidden
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.replication import CopyProgress, CopyStatus, Replication
from airflow_hivex.core.model.snapshots import QualifiedName, Snapshot
from airflow_hivex.core.replication.copying import (
    CopiedFiles,
    copy_files,
    directory_checksum,
    hash_files,
)
from airflow_hivex.core.replication.planning import PlannedDirectory, PlannedTable, chosen, plan_table
from airflow_hivex.core.replication.running import ReplicationTransactions, RunningReplication
from airflow_hivex.core.replication.status import copy_statuses
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.transactions.locks import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager

log = logging.getLogger(__name__)

_THREADS = 8
_MOST_TRIES = 3
_NOT_IN_NAMES = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How a replication copies: threads, bytes per second at most, progress, and whether present copies are read."""

    threads: int = _THREADS
    bytes_per_second: int | None = None
    progress: Callable[[CopyProgress], object] | None = None
    verify: bool = False


class Replicator:
    """Copies tables and partitions to clusters. Safe to share between threads and processes."""

    def __init__(
        self,
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

    def replicate(
        self,
        tables: str | Sequence[str],
        cluster: str,
        partitions: Collection[str] | None = None,
        *,
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
        _check_options(names, partitions, threads, bytes_per_second)
        target = self._clusters.get(cluster).name
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
    ) -> Replication:
        before = self._catalog.snapshot(names)
        for each in before.tables.values():
            _check_target(each, target)
        self._running.lock(running, before.tables.values(), target)
        snapshot = self._catalog.snapshot(names, running.txn_id, known=before.tables.values())
        planned = self._plan(snapshot, target, partitions, with_present=options.verify)
        self._roots.check(target)
        planned = [self._without_equal(each, running, options) for each in planned]
        self._check_places(planned)
        self._withdraw(planned)
        self._delete_others(planned)
        wanted = [each for table in planned for lacks in table.lacking for each in lacks.copies(table.table.full_name)]
        copied = copy_files(
            self._files,
            self._files(target),
            target,
            wanted,
            running.stop,
            threads=options.threads,
            bytes_per_second=options.bytes_per_second,
            progress=options.progress,
        )
        self._commit(running, planned, copied)
        return Replication(
            target,
            tuple(each.shown() for each in planned),
            running.txn_id,
            len(wanted) - len(copied.kept),
            sum(each.size_bytes for each in wanted if each.place not in copied.kept),
            len(copied.kept),
        )

    def _commit(self, running: RunningReplication, planned: Sequence[PlannedTable], copied: CopiedFiles) -> None:
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
                    write_ids=each.bound.write_ids,
                )
                first = [directory for directory in directories if directory.id in new]
                if first:
                    catalog.add_copies(each.table, each.table.storage.primary.cluster, first, checksums)

        self._transactions.commit(running.txn_id, changes)

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
            checksum = _checksum_of({name: copied.checksums[each.place_of(name)] for name in each.files})
            if known.get(each.registered.id, checksum) != checksum:
                reason = "its checksum is not the one that was recorded when it was copied first"
                raise CopyAlteredError(planned.table.full_name, each.source, each.location, reason)
            checksums[each.registered.id] = checksum
        return checksums, frozenset(checksums.keys() - known.keys())

    # -- the plan -------------------------------------------------------------------

    def _plan(
        self, snapshot: Snapshot, target: str, partitions: Collection[str] | None, *, with_present: bool = False
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
            planned.append(
                plan_table(
                    chosen(bound, partitions),
                    target,
                    held,
                    self._files,
                    self._source_of,
                    with_present=with_present,
                )
            )
        return planned

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

    def _without_equal(self, planned: PlannedTable, running: RunningReplication, options: CopyOptions) -> PlannedTable:
        """Return the plan with those of the present directories that are not what they should be among the lacking."""
        if not planned.present:
            return planned
        registered = [each.registered for each in planned.present if each.registered is not None]
        known = self._catalog.copy_checksums(registered)
        target = self._files(planned.cluster)
        damaged = []
        for each in planned.present:
            there = {
                name: size for name, size in target.walk(each.place) if not name.rpartition("/")[2].startswith(".")
            }
            if there != dict(each.files) or not self._is_equal(planned, each, known, running, options):
                damaged.append(each)
        lacking = (*planned.lacking, *damaged)
        return replace(planned, lacking=lacking, present=(), is_complete=planned.is_complete and not damaged)

    def _is_equal(
        self,
        planned: PlannedTable,
        directory: PlannedDirectory,
        known: Mapping[int, str],
        running: RunningReplication,
        options: CopyOptions,
    ) -> bool:
        copies = [(planned.cluster, directory.place_of(name)) for name in directory.files]
        hashed = hash_files(self._files, copies, running.stop, threads=options.threads)
        found = _checksum_of({n: hashed[planned.cluster, directory.place_of(n)] for n in directory.files})
        if directory.registered is not None and directory.registered.id in known:
            return found == known[directory.registered.id]
        originals = {each.place: (each.source, each.location) for each in directory.copies("")}
        of_source = hash_files(self._files, list(originals.values()), running.stop, threads=options.threads)
        return all(hashed[planned.cluster, place] == of_source[original] for place, original in originals.items())

    def _check_places(self, planned: Sequence[PlannedTable]) -> None:
        """Refuse the place of a plain table's first copy that holds other files: they may belong to somebody else.

        Raises:
            InvalidOperationError: there is a file that the primary does not have.
        """
        for table in planned:
            there = table.bound.copies.get(table.cluster, {})
            for each in table.lacking:
                if each.registered is not None or each.partition in there:
                    continue
                for name, _ in self._files(table.cluster).walk(each.place):
                    if name not in each.files and not name.endswith((UNFINISHED, ".crc")):
                        reason = f"{each.place_of(name)} on cluster {table.cluster} is not on the primary; move it away"
                        raise InvalidOperationError("REPLICATE", table.table.full_name, reason)

    def _withdraw(self, planned: Sequence[PlannedTable]) -> None:
        """Withdraw the copies of plain tables that have changed: files without snapshots are replaced one by one."""
        for each in planned:
            table = each.table
            if table.is_transactional or each.is_complete:
                continue
            there = each.bound.copies.get(each.cluster, {})
            names = [lacks.partition for lacks in each.lacking if lacks.partition in there]
            if names:
                of_partitions = [name for name in names if name is not None] if table.is_partitioned else None
                self._catalog.unregister_copy(table.database, table.name, each.cluster, of_partitions)

    def _delete_others(self, planned: Sequence[PlannedTable]) -> None:
        """Delete from the places of new copies whatever does not belong there, such as the rest of a killed copy."""
        for table in planned:
            target = self._files(table.cluster)
            for each in table.lacking:
                for name, _ in target.walk(each.place):
                    if name not in each.files:
                        target.delete_file(each.place_of(name))

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


def _checksum_of(checksums: Mapping[str, str]) -> str:
    """Return the checksum of a directory, without files that only other programs read."""
    return directory_checksum({name: each for name, each in checksums.items() if not is_hidden(name)})
