"""Tables as a query sees them: the partitions and directories that it reads, and the locations of their copies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import Directory, RegisteredDirectory
from airflow_hivex.core.catalog.pruning import matching
from airflow_hivex.core.model.directories import DirectoryState, directory_state, parse_directory
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.routes import RouteInput
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList, ValidWriteIdList

_ALL_TXNS = ValidTxnList(MAX_ID)


@dataclass(frozen=True, slots=True)
class BoundPartition:
    """A partition that a query reads. Its name is None for a table without partitions.

    ``location`` is relative to the primary cluster's file system. ``directories`` are the base and the deltas that the
    query's snapshot sees, in reading order; a table without transactions has none. They include directories that the
    query's own transaction has written but not registered yet. ``is_registered`` is false if the query's own
    transaction adds the partition.
    """

    name: str | None
    location: str
    directories: tuple[Directory, ...] = ()
    is_registered: bool = True


@dataclass(frozen=True, slots=True)
class BoundTable:
    """A table as a query sees it in its snapshot.

    ``copies`` has the usable copies: a dict from secondary cluster to a dict from partition to location. ``stale`` is a
    dict from secondary cluster to the partitions whose copies lag. ``partly_visible`` is True if a directory has rows
    that the snapshot must not see.
    """

    table: StoredTable
    partitions: tuple[BoundPartition, ...]
    write_ids: ValidWriteIdList | None = None
    partly_visible: bool = False
    copies: Mapping[str, Mapping[str | None, str]] = field(default_factory=dict)
    stale: Mapping[str, frozenset[str | None]] = field(default_factory=dict)

    @property
    def partition_names(self) -> list[str]:
        """Return the names of the partitions. The list is empty for a table without partitions."""
        return [each.name for each in self.partitions if each.name is not None]

    @property
    def registered_directories(self) -> tuple[RegisteredDirectory, ...]:
        """Return the directories that the query reads, except those that its own transaction has not registered yet."""
        directories = (each for partition in self.partitions for each in partition.directories)
        return tuple(each for each in directories if isinstance(each, RegisteredDirectory))


def bind_table(
    table: StoredTable,
    contents: TableContents,
    predicate: Predicate | None,
    snapshot: Snapshot,
    clusters: Collection[str],
    own: Mapping[str | None, Sequence[WrittenDirectory]] = MappingProxyType({}),
) -> BoundTable:
    """Return a table with the partitions that match ``predicate`` in the snapshot, and their copies on ``clusters``.

    ``own`` is a dict from partition to the directories that the query's own transaction has written but not registered
    yet.
    """
    write_ids = snapshot.list_of(table)
    needed = _needed(table, contents, predicate, own)
    visible: dict[str | None, tuple[Directory, ...]] = {}
    partly_visible = False
    if write_ids is not None:
        states: dict[tuple[str, ...], DirectoryState] = {}
        for each in needed:
            registered: Sequence[Directory] = contents.directories.get(each.id, ()) if each.is_registered else ()
            if own:
                registered = [*registered, *_unregistered(own.get(each.name, ()), table)]
            by_name = {directory.name: directory for directory in registered}
            # Most partitions of a table have been written by the same few statements.
            names = tuple(by_name)
            if names not in states:
                states[names] = _state(names, write_ids, snapshot.valid_txns)
            state = states[names]
            read = (*((state.base,) if state.base else ()), *state.originals, *state.deltas)
            visible[each.name] = tuple(by_name[name] for name in read)
            partly_visible = partly_visible or bool(state.partial)
    partitions = tuple(
        BoundPartition(each.name, each.location, visible.get(each.name, ()), each.is_registered) for each in needed
    )
    secondaries = [cluster for cluster in clusters if cluster != table.storage.primary.cluster]
    copies, stale = _copies(contents, list(zip(needed, partitions, strict=True)), secondaries)
    return BoundTable(table, partitions, write_ids, partly_visible, copies, stale)


class _Needed(NamedTuple):
    """A partition that a query reads. Its ``name`` and ``id`` are None for a table without partitions."""

    name: str | None
    location: str
    id: int | None = None
    is_registered: bool = True


class _OwnPartition(NamedTuple):
    name: str


def _needed(
    table: StoredTable,
    contents: TableContents,
    predicate: Predicate | None,
    own: Iterable[str | None],
) -> list[_Needed]:
    """Return the partitions that match the predicate, including those that the query's own transaction has added."""
    root = table.storage.primary.location
    if not table.is_partitioned:
        return [_Needed(None, root)]
    existing = {each.name for each in contents.partitions}
    names = sorted(name for name in own if name is not None and name not in existing)
    return [
        *(_Needed(each.name, each.location, each.id) for each in contents.partitions),
        *(
            _Needed(each.name, f"{root}/{each.name}", is_registered=False)
            for each in matching(list(map(_OwnPartition, names)), table.partition_keys, predicate)
        ),
    ]


def _unregistered(written: Iterable[WrittenDirectory], table: Table) -> list[Directory]:
    """Return written directories as a reader uses them, without ids, since they are not registered yet."""
    return [
        Directory(each.name, each.row_layout or table.row_layout, each.files, each.rows, each.size_bytes)
        for each in written
    ]


def route_input(bound: BoundTable) -> RouteInput:
    """Return the facts from which the router chooses a cluster: the table's primary, its partitions, and its copies."""
    table = bound.table
    return RouteInput(
        table=table.full_name,
        primary=table.storage.primary.cluster,
        partitions=tuple(partition.name for partition in bound.partitions),
        present={cluster: frozenset(locations) for cluster, locations in bound.copies.items()},
        stale=bound.stale,
    )


def _state(names: Sequence[str], write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> DirectoryState:
    """Return which of the named directories a snapshot reads, and which it ignores."""
    seen = [name for name in names if _is_compaction_seen(name, write_ids, valid_txns)]
    return directory_state(seen, write_ids, _ALL_TXNS)


def _is_compaction_seen(name: str, write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> bool:
    """Return False if a compaction has written a directory, and the snapshot must not read the merged rows.

    This is so only if the compaction has committed after the snapshot, and one of the merged write ids is still open
    for the snapshot. Otherwise return True.
    """
    found = parse_directory(name)
    if found is None or not found.visibility_txn_id or valid_txns.is_valid(found.visibility_txn_id):
        return True
    return write_ids.is_base_valid(found.max_write_id)


def _copies(
    contents: TableContents, partitions: Sequence[tuple[_Needed, BoundPartition]], clusters: Sequence[str]
) -> tuple[dict[str, dict[str | None, str]], dict[str, frozenset[str | None]]]:
    copies: dict[str, dict[str | None, str]] = {cluster: {} for cluster in clusters}
    stale: dict[str, frozenset[str | None]] = {}
    for cluster, locations in contents.locations.items():
        held = contents.held.get(cluster, frozenset())
        behind = set()
        for needed, partition in partitions:
            location = locations.get(needed.id) if needed.is_registered else None
            if location is None:
                continue
            if all(_is_held(directory, held) for directory in partition.directories):
                copies[cluster][partition.name] = location
            else:
                behind.add(partition.name)
        stale[cluster] = frozenset(behind)
    return copies, stale


def _is_held(directory: Directory, held: frozenset[int]) -> bool:
    return isinstance(directory, RegisteredDirectory) and directory.id in held
