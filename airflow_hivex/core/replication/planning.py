"""The plan of a replication: the directories that a cluster lacks in a snapshot, and their files on another one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.copies import place_in_copy
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.errors import NoSuchPartitionError
from airflow_hivex.core.files.filesystem import ClusterFiles, is_hidden
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.replication import ReplicatedDirectory, ReplicatedTable
from airflow_hivex.core.replication.copying import FileCopy, There, check_whole

PickSource = Callable[[BoundTable, BoundPartition], str]


@dataclass(frozen=True, slots=True)
class PlannedDirectory:
    """A directory that the target lacks. ``registered`` is None for a partition of a plain table.

    ``files`` are all that lie there, with their sizes, by name in the directory; that of an original file is empty.
    ``folder`` is that of the partition on the target. ``is_held`` is set where the target has it, damaged. ``there`` is
    what lies in the places of the files; ``reused`` are files of an earlier copy, by name, that are the same.
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
        """Return the names of the files that the replication writes, or an earlier one has written."""
        return [name for name in self.files if self.there.get(name) is not There.SAME_SIZE]

    @property
    def is_read(self) -> bool:
        """Return whether queries may read it on the target while files are copied there."""
        return self.is_held or (self.registered is not None and self.registered.is_growing)

    def copies(self, table: str) -> Iterator[FileCopy]:
        """Yield the copies of its files."""
        for name, size in self.files.items():
            there = self.there.get(name, There.NOTHING)
            yield FileCopy(table, self.source, self.source_of(name), self.place_of(name), size, there, self.is_read)

    def source_of(self, name: str) -> str:
        """Return the location of one of its files on the cluster that it comes from."""
        return _below(self.location, name)

    def place_of(self, name: str) -> str:
        """Return the location of one of its files on the target."""
        return _below(self.place, name)

    def shown(self) -> ReplicatedDirectory:
        """Return it for people."""
        return ReplicatedDirectory(
            self.partition, self.name, self.source, self.place, len(self.files), sum(self.files.values())
        )


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table, the partitions that the target is to have, and the directories that it lacks.

    ``present`` are directories that it should have already. ``registered`` are the places of the copies that the target
    has, current or not, by partition. ``seen`` are the ids of all registered directories, where all were asked for.
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
        """Return it for people."""
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
    """Return the table with the wanted partitions alone; names may be leading parts (``year=2013``).

    Raises:
        NoSuchPartitionError: one of the names matches no partition.
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
    """Return the directories of a table that ``target`` lacks, each with its files on the cluster that it comes from.

    Lists each of these directories once. The partitions of a plain table have no registered directories, so all of
    their files are listed; those that the target has are among ``present``, to be compared.

    Raises:
        CopyAlteredError: files of a source are missing or shorter than they were written.
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
    """Return where copies of partitions lie on a cluster, current or not."""
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
    """Return the plan of one directory, which comes from a cluster and a location of the partition there.

    Raises:
        CopyAlteredError: files of it are missing or shorter than they were written.
        StorageError: it cannot be listed.
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
    """Return where the copy of a partition lies on a cluster, or will lie."""
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
