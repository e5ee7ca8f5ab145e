"""The planner of replications: the directories of a snapshot that a cluster lacks, and the files of each directory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.copy_rows import place_in_copy
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.errors import HivexError, InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.files.filesystem import ClusterFiles, is_hidden
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.replication import ReplicatedDirectory, ReplicatedTable
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.replication.copying import FileCopy, There, check_whole

PickSource = Callable[[BoundTable, BoundPartition], str]


@dataclass(frozen=True, slots=True)
class PlannedDirectory:
    """A directory to copy to the target. ``registered`` is None for a partition of a plain (not transactional) table.

    ``files`` is a dict from file name, relative to the directory, to size. The name is empty if the "directory" is a
    single file from before the table became transactional. ``folder`` is the folder of the partition on the target.
    ``is_held`` is true if the target already has a registered copy of the directory, which is damaged. ``there`` is a
    dict from file name to the kind of the file that already exists in the place of the copy. ``reused`` is a dict from
    file name to the location of an equal file in an earlier copy.
    """

    partition: str | None
    name: str
    source: str
    location: str
    place: str
    files: Mapping[str, int]
    folder: str
    registered: RegisteredDirectory | None = None
    is_held: bool = False
    there: Mapping[str, There] = field(default_factory=dict)
    reused: Mapping[str, str] = field(default_factory=dict)

    @property
    def own_names(self) -> list[str]:
        """Return the names of the files that this replication writes, or that an earlier replication has written."""
        return [name for name in self.files if self.there.get(name) is not There.SAME_SIZE]

    @property
    def is_read(self) -> bool:
        """Return whether queries can read the directory on the target while files are copied there."""
        return self.is_held or (self.registered is not None and self.registered.is_growing)

    def copies(self, table: str) -> Iterator[FileCopy]:
        """Yield a :class:`FileCopy` for each file of the directory."""
        for name, size in self.files.items():
            there = self.there.get(name, There.NOTHING)
            yield FileCopy(table, self.source, self.source_of(name), self.place_of(name), size, there, self.is_read)

    def source_of(self, name: str) -> str:
        """Return the location of a file on the source cluster."""
        return _below(self.location, name)

    def place_of(self, name: str) -> str:
        """Return the location of a file on the target."""
        return _below(self.place, name)

    def shown(self) -> ReplicatedDirectory:
        """Return the description of the directory for users."""
        return ReplicatedDirectory(
            self.partition, self.name, self.source, self.place, len(self.files), sum(self.files.values())
        )


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table, the partitions that the target will have, and the directories that the target lacks.

    ``present`` are directories that the target already has, according to the metastore. ``registered`` is a dict from
    partition to the place of the target's copy, which is not always current. ``seen`` are the ids of all registered
    directories of the table, if the plan includes directories that only old snapshots read.
    """

    bound: BoundTable
    cluster: str
    lacking: tuple[PlannedDirectory, ...] = ()
    present: tuple[PlannedDirectory, ...] = ()
    registered: Mapping[str | None, str] = field(default_factory=dict)
    is_complete: bool = field(default=False)
    seen: frozenset[int] = frozenset()

    @property
    def table(self) -> StoredTable:
        """Return the table."""
        return self.bound.table

    def shown(self) -> ReplicatedTable:
        """Return the description of the table for users."""
        write_ids = self.bound.write_ids
        return ReplicatedTable(
            self.table.full_name,
            self.cluster,
            tuple(each.shown() for each in self.lacking),
            tuple(self.bound.partition_names),
            None if write_ids is None else str(write_ids),
            self.table.is_view,
        )


def chosen(bound: BoundTable, wanted: Collection[str] | None) -> BoundTable:
    """Return the table with only the wanted partitions. A name with only some of the keys (``year=2013``) is allowed.

    Raises:
        NoSuchPartitionError: a name matches no partition.
    """
    if wanted is None:
        return bound
    table = bound.table
    parts = {each.name: _parts(each.name) for each in bound.partitions if each.name is not None}
    found: set[str] = set()
    for name in wanted:
        matching = {each for each, there in parts.items() if _parts(name) <= there}
        if not matching:
            raise NoSuchPartitionError(table.database, table.name, name)
        found |= matching
    return replace(bound, partitions=tuple(each for each in bound.partitions if each.name in found))


def plan_table(
    bound: BoundTable,
    target: str,
    held: Collection[int],
    registered: Mapping[str | None, str],
    files: Callable[[str], ClusterFiles],
    source_of: PickSource,
    *,
    with_present: bool = False,
) -> PlannedTable:
    """Return the plan for a table: the directories that ``target`` lacks, each with its files on the source cluster.

    Each of these directories is listed once. The partitions of a plain table have no registered directories, so all
    files of such partitions are listed. If the target already has such a partition, the partition is in ``present``,
    not in ``lacking``. With ``with_present``, ``present`` also has the registered directories that the target already
    has.

    Raises:
        CopyAlteredError: files of a source are missing, or shorter than registered.
        StorageError: a source cannot be listed.
    """
    table = bound.table
    there = bound.copies.get(target, {})
    lacking: list[PlannedDirectory] = []
    present: list[PlannedDirectory] = []
    for partition in bound.partitions:
        is_known = partition.name in registered
        place = place_of(bound, target, partition, registered)
        for directory in _directories(table, partition):
            is_held = is_known and (directory is None or directory.id in held)
            if is_held and directory is not None and not with_present:
                continue
            source = source_of(bound, partition)
            location = _location_on(bound, source, partition)
            name = "" if directory is None else directory.name
            planned = _planned(
                table, files(source), partition, source, _below(location, name), _below(place, name), place, directory
            )
            (present if is_held else lacking).append(planned)
    is_complete = all(each.name in there for each in bound.partitions) and not lacking
    return PlannedTable(bound, target, tuple(lacking), tuple(present), registered, is_complete)


def registered_places(contents: TableContents, cluster: str) -> dict[str | None, str]:
    """Return a dict from partition to the place of the partition's copy on a cluster. Outdated copies are included."""
    names: dict[int | None, str | None] = {each.id: each.name for each in contents.partitions}
    names[None] = None
    places = contents.locations.get(cluster, {})
    return {names[id_]: location for id_, location in places.items() if id_ in names}


def plan_directory(
    bound: BoundTable,
    target: str,
    partition: BoundPartition,
    directory: RegisteredDirectory,
    source: tuple[str, str],
    registered: Mapping[str | None, str],
    files: Callable[[str], ClusterFiles],
) -> PlannedDirectory:
    """Return the plan of one directory. ``source`` is a pair: the source cluster, and the partition's location there.

    Raises:
        CopyAlteredError: files of the directory are missing, or shorter than registered.
        StorageError: the directory cannot be listed.
    """
    cluster, location = source
    place = place_of(bound, target, partition, registered)
    return _planned(
        bound.table,
        files(cluster),
        partition,
        cluster,
        _below(location, directory.name),
        _below(place, directory.name),
        place,
        directory,
    )


def place_of(bound: BoundTable, cluster: str, partition: BoundPartition, registered: Mapping[str | None, str]) -> str:
    """Return the place that a partition's copy on a cluster has, or will have."""
    known = registered.get(partition.name)
    if known is not None:
        return known
    table = bound.table
    roots = {copy.cluster: copy.location for copy in table.storage.secondaries}
    root = roots.get(cluster, table.storage.primary.location)
    return _below(root, place_in_copy(table, partition.name, partition.location))


def _location_on(bound: BoundTable, source: str, partition: BoundPartition) -> str:
    if source == bound.table.storage.primary.cluster:
        return partition.location
    return bound.copies[source][partition.name]


def _directories(table: StoredTable, partition: BoundPartition) -> Sequence[RegisteredDirectory | None]:
    if not table.is_transactional:
        return [None]
    return [each for each in partition.directories if isinstance(each, RegisteredDirectory)]


def _planned(
    table: StoredTable,
    files: ClusterFiles,
    partition: BoundPartition,
    source: str,
    location: str,
    place: str,
    folder: str,
    directory: RegisteredDirectory | None,
) -> PlannedDirectory:
    found = {name: size for name, size in files.walk(location) if not name.rpartition("/")[2].startswith(".")}
    if directory is not None:
        data = {name: size for name, size in found.items() if not is_hidden(name)}
        check_whole(table.full_name, source, location, data, (directory.files, directory.size_bytes))
    name = "" if directory is None else directory.name
    return PlannedDirectory(partition.name, name, source, location, place, found, folder, directory)


def _parts(partition: str) -> frozenset[tuple[str, str]]:
    keys = (part.partition("=")[0].lower() for part in partition.split("/"))
    return frozenset(zip(keys, partition_values(partition), strict=True))


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if name else folder


log = logging.getLogger(__name__)


class ReplicationPlanner:
    """A planner of replications, which changes nothing."""

    def __init__(self, services: Foundation) -> None:
        self._services = services

    def plan(
        self,
        snapshot: Snapshot,
        target: str,
        partitions: Collection[str] | None,
        *,
        with_present: bool = False,
        everything: bool = False,
    ) -> list[PlannedTable]:
        """Return the plan for the tables of a snapshot. ``partitions`` limits the plan if there is a single table.

        The plan has the directories that the target lacks. With ``with_present`` the plan also has the directories that
        the target has. With ``everything`` the plan also has the lacking directories that only old snapshots read.

        Raises:
            InvalidOperationError: the target is the primary cluster of a table, or partitions are named for a table
                without partitions.
            NoSuchPartitionError: a partition does not exist.
            CopyAlteredError: files of a source are missing, or shorter than registered.
            StorageError: a source cannot be listed.
        """
        clusters, catalog = self._services.clusters.names, self._services.catalog
        planned = []
        for table in snapshot.tables.values():
            check_target(table, target)
            contents = catalog.contents(snapshot, table, None, clusters)
            bound = bind_table(table, contents, None, snapshot, clusters)
            if table.is_view:
                planned.append(PlannedTable(replace(bound, partitions=()), target, is_complete=True))
                continue
            if partitions is not None and not table.is_partitioned:
                raise InvalidOperationError("REPLICATE", table.full_name, "the table has no partition keys")
            plan = plan_table(
                chosen(bound, partitions),
                target,
                contents.held.get(target, frozenset()),
                registered_places(contents, target),
                self._services.files,
                self._source_of,
                with_present=with_present,
            )
            planned.append(self._with_unread(plan, contents) if everything else plan)
        return planned

    def _with_unread(self, planned: PlannedTable, contents: TableContents) -> PlannedTable:
        """Add to a plan the lacking directories that only old snapshots read, if their files are complete."""
        bound, held = planned.bound, contents.held.get(planned.cluster, frozenset())
        ids: dict[str | None, int | None] = {each.name: each.id for each in contents.partitions}
        unread: list[PlannedDirectory] = []
        for partition in bound.partitions:
            read = {each.name for each in partition.directories}
            for each in contents.directories.get(ids.get(partition.name), ()):
                if each.name in read or each.id in held:
                    continue
                alone = replace(bound, partitions=(replace(partition, directories=(each,)),))
                places = planned.registered
                try:
                    plan = plan_table(alone, planned.cluster, held, places, self._services.files, self._source_of)
                    unread += plan.lacking
                except HivexError as error:
                    # The cleaner is deleting the directory, or its cluster cannot be used.
                    log.info("%s of %s stays where it is: %s", each.name, bound.table.full_name, error)
        return replace(
            planned,
            lacking=(*planned.lacking, *unread),
            is_complete=planned.is_complete and not unread,
            seen=frozenset(each.id for found in contents.directories.values() for each in found),
        )

    def _source_of(self, bound: BoundTable, partition: BoundPartition) -> str:
        """Return the source cluster of a partition: the primary if usable, otherwise a cluster with a current copy.

        Raises:
            HivexError: no cluster with the partition can be used. The error is the error of the primary cluster.
        """
        health = self._services.health
        primary = bound.table.storage.primary.cluster
        problem = health.of_root(primary).problem
        if problem is None:
            return primary
        for name, there in bound.copies.items():
            if partition.name in there and health.of_root(name).problem is None:
                return name
        raise problem


def check_target(table: Table, target: str) -> None:
    """Ensure that a copy of a table on a cluster is allowed.

    Raises:
        InvalidOperationError: the cluster is the table's primary.
    """
    if not table.is_view and table.storage.primary.cluster == target:
        raise InvalidOperationError("REPLICATE", table.full_name, f"{target} is its primary cluster")
