"""Binding a table reference: which partitions and directories a query needs, and where copies lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.pruning import FoundPartition, matching
from airflow_hivex.core.model.directories import DirectoryState, directory_state, parse_directory
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.routes import RouteInput
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList, ValidWriteIdList

_UNREGISTERED = -1
_ALL_TXNS = ValidTxnList(MAX_ID)

WHOLE_TABLE = ""
"""Stands for a partition's name where the table has no partitions."""


@dataclass(frozen=True, slots=True)
class BoundPartition:
    """The directories and copies of one partition that a query reads (or of a table without partitions).

    ``location`` is relative to the primary cluster's file system; ``directories`` are the base and
    deltas that its snapshot sees, in reading order; plain tables have none. One that is not
    registered yet was made by the reader's own transaction.
    """

    name: str
    location: str
    directories: tuple[RegisteredDirectory, ...] = ()
    is_registered: bool = True


@dataclass(frozen=True, slots=True)
class BoundTable:
    """One table as a query sees it in its snapshot.

    ``copies`` has, for each secondary cluster asked about, the locations of the needed partitions
    whose copies are complete and current; ``stale`` the names of those that lag behind.
    ``partly_visible`` is set when a directory holds write ids that the snapshot must not see.
    """

    table: StoredTable
    partitions: tuple[BoundPartition, ...]
    write_ids: ValidWriteIdList | None = None
    partly_visible: bool = False
    copies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stale: Mapping[str, frozenset[str]] = field(default_factory=dict)


def bind(
    table: StoredTable,
    contents: TableContents,
    predicate: Predicate | None,
    snapshot: Snapshot,
    clusters: Collection[str],
    own: Mapping[str | None, Sequence[WrittenDirectory]] = MappingProxyType({}),
) -> BoundTable:
    """Return the table with what ``predicate`` leaves of it, as the snapshot sees it, and its copies on ``clusters``.

    It is pure. ``own`` has, by partition, the directories that the reader's own transaction has written and not
    registered yet.
    """
    write_ids = snapshot.list_of(table)
    needed: list[tuple[int | None, str, str]] = [(None, WHOLE_TABLE, table.storage.primary.location)]
    if table.is_partitioned:
        names_there = {each.name for each in contents.partitions}
        found = [*contents.partitions, *_own_partitions(table, own, names_there, predicate)]
        needed = [(each.id, each.name, each.location) for each in found]
    visible: dict[int | None, tuple[RegisteredDirectory, ...]] = {}
    partly_visible = False
    if write_ids is not None:
        states: dict[tuple[str, ...], DirectoryState] = {}
        for partition_id, name, _ in needed:
            registered: Sequence[RegisteredDirectory] = contents.directories.get(partition_id, ())
            if own:
                registered = [*registered, *_unregistered(own.get(name or None, ()), table, partition_id)]
            by_name = {directory.name: directory for directory in registered}
            # Most partitions of a table have been written by the same few statements.
            names = tuple(by_name)
            if names not in states:
                states[names] = _state(names, write_ids, snapshot.valid_txns)
            state = states[names]
            read = (*((state.base,) if state.base else ()), *state.originals, *state.deltas)
            visible[partition_id] = tuple(by_name[each] for each in read)
            partly_visible = partly_visible or bool(state.partial)
    partitions = tuple(
        BoundPartition(name, location, visible.get(partition_id, ()), partition_id is None or partition_id > 0)
        for partition_id, name, location in needed
    )
    ids = [each[0] for each in needed]
    secondaries = [cluster for cluster in clusters if cluster != table.storage.primary.cluster]
    copies, stale = _copies(contents, list(zip(ids, partitions, strict=True)), secondaries)
    return BoundTable(table, partitions, write_ids, partly_visible, copies, stale)


def _own_partitions(
    table: Table, own: Iterable[str | None], existing: Collection[str], predicate: Predicate | None
) -> list[FoundPartition]:
    """Return the partitions of the predicate that the reader's transaction has made, with ids below 0."""
    root = table.storage.primary.location
    names = sorted(name for name in own if name is not None and name not in existing)
    rows = [FoundPartition(-number, name, f"{root}/{name}") for number, name in enumerate(names, 1)]
    return list(matching(rows, table.partition_keys, predicate))


def _unregistered(
    written: Iterable[WrittenDirectory], table: Table, partition_id: int | None
) -> list[RegisteredDirectory]:
    """Directories that have no row yet; with an id of nobody's, no copy on another cluster has them."""
    return [
        RegisteredDirectory(
            _UNREGISTERED,
            partition_id,
            each.name,
            each.row_layout or table.row_layout,
            each.files,
            each.rows,
            each.size_bytes,
        )
        for each in written
    ]


def route_input(bound: BoundTable) -> RouteInput:
    """Return what the router needs to know of one place where a table is read."""
    table = bound.table
    return RouteInput(
        table=table.full_name,
        primary=table.storage.primary.cluster,
        partitions=tuple(partition.name for partition in bound.partitions) if table.is_partitioned else None,
        present={cluster: frozenset(locations) for cluster, locations in bound.copies.items()},
        stale=bound.stale,
    )


def _state(names: Sequence[str], write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> DirectoryState:
    """Return which of the registered directories a snapshot reads."""
    seen = [name for name in names if _is_compaction_seen(name, write_ids, valid_txns)]
    return directory_state(seen, write_ids, _ALL_TXNS)


def _is_compaction_seen(name: str, write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> bool:
    """Return whether a snapshot may read a directory as far as that depends on the compaction that made it, if one did.

    What is registered is committed. A compaction changes no visible row, so that an older snapshot may read its result,
    too, where all write ids that it has merged are settled for it: the directories before it may be gone.
    """
    found = parse_directory(name)
    if found is None or not found.visibility_txn_id or valid_txns.is_valid(found.visibility_txn_id):
        return True
    return write_ids.is_base_valid(found.max_write_id)


def _copies(
    contents: TableContents, partitions: Sequence[tuple[int | None, BoundPartition]], clusters: Sequence[str]
) -> tuple[dict[str, dict[str, str]], dict[str, frozenset[str]]]:
    copies: dict[str, dict[str, str]] = {cluster: {} for cluster in clusters}
    stale: dict[str, frozenset[str]] = {}
    for cluster, locations in contents.locations.items():
        held = contents.held.get(cluster, frozenset())
        behind = set()
        for partition_id, partition in partitions:
            location = locations.get(partition_id)
            if location is None:
                continue
            if all(directory.id in held for directory in partition.directories):
                copies[cluster][partition.name] = location
            else:
                behind.add(partition.name)
        stale[cluster] = frozenset(behind)
    return copies, stale
