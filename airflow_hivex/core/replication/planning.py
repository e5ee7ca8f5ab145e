"""The plan of a replication: the directories that a cluster lacks in a snapshot, and their files on another one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_hivex.core.catalog.binding import BoundPartition, BoundTable
from airflow_hivex.core.catalog.copies import place_in_copy
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.errors import NoSuchPartitionError
from airflow_hivex.core.files.filesystem import ClusterFiles, is_hidden
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.partitions import partition_values
from airflow_hivex.core.model.replication import ReplicatedDirectory, ReplicatedTable
from airflow_hivex.core.replication.copying import FileCopy, check_whole

PickSource = Callable[[BoundTable, BoundPartition], str]


@dataclass(frozen=True, slots=True)
class PlannedDirectory:
    """A directory that the target lacks. ``registered`` is None for a partition of a plain table.

    ``files`` are all that lie there, with their sizes, by name in the directory; that of an original file is empty.
    """

    partition: str | None
    name: str
    source: str
    location: str
    place: str
    files: Mapping[str, int]
    registered: RegisteredDirectory | None = None

    def copies(self, table: str) -> Iterator[FileCopy]:
        """Yield the copies of its files."""
        for name, size in self.files.items():
            yield FileCopy(table, self.source, _below(self.location, name), self.place_of(name), size)

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

    ``present`` are directories that it should have already.
    """

    bound: BoundTable
    cluster: str
    lacking: tuple[PlannedDirectory, ...] = ()
    present: tuple[PlannedDirectory, ...] = ()
    is_complete: bool = field(default=False)

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
        is_known = partition.name in there or partition.name in bound.stale.get(target, ())
        place = place_of(bound, target, partition)
        for directory in _directories(table, partition):
            is_held = is_known and (directory is None or directory.id in held)
            if is_held and directory is not None and not with_present:
                continue
            source = source_of(bound, partition)
            location = _location_on(bound, source, partition)
            name = "" if directory is None else directory.name
            planned = _planned(
                table, files(source), partition, source, _below(location, name), _below(place, name), directory
            )
            (present if is_held else lacking).append(planned)
    is_complete = all(each.name in there for each in bound.partitions) and not lacking
    return PlannedTable(bound, target, tuple(lacking), tuple(present), is_complete)


def place_of(bound: BoundTable, cluster: str, partition: BoundPartition) -> str:
    """Return where the copy of a partition lies on a cluster, or will lie."""
    known = bound.copies.get(cluster, {}).get(partition.name)
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
    directory: RegisteredDirectory | None,
) -> PlannedDirectory:
    found = {name: size for name, size in files.walk(location) if not name.rpartition("/")[2].startswith(".")}
    if directory is not None:
        data = {name: size for name, size in found.items() if not is_hidden(name)}
        check_whole(table.full_name, source, location, data, (directory.files, directory.size_bytes))
    name = "" if directory is None else directory.name
    return PlannedDirectory(partition.name, name, source, location, place, found, directory)


def _parts(partition: str) -> frozenset[tuple[str, str]]:
    keys = (part.partition("=")[0].lower() for part in partition.split("/"))
    return frozenset(zip(keys, partition_values(partition), strict=True))


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if name else folder
