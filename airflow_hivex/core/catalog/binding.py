"""Binding a table reference: which partitions and directories a query needs, and where copies lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlalchemy import Connection, select

from airflow_hivex.core.catalog.directories import RegisteredDirectory, copied_directories, directories_of
from airflow_hivex.core.catalog.pruning import (
    FoundPartition,
    check_stored_alike,
    find_partitions,
    matching,
    partition_predicate,
)
from airflow_hivex.core.model.directories import DirectoryState, directory_state, parse_directory
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.routes import RouteInput
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import cluster_storage_descriptors
from airflow_hivex.core.store.schema import partitions as partition_rows

_UNREGISTERED = -1
_ALL_TXNS = ValidTxnList(MAX_ID)

WHOLE_TABLE = ""
"""Stands for a partition's name where the table has no partitions."""


@dataclass(frozen=True, slots=True)
class BoundPartition:
    """What a query reads of one partition (or of a table without partitions).

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

    table: Table
    partitions: tuple[BoundPartition, ...]
    write_ids: ValidWriteIdList | None = None
    partly_visible: bool = False
    copies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stale: Mapping[str, frozenset[str]] = field(default_factory=dict)


def bind(
    connection: Connection,
    table: Table,
    filters: Iterable[Predicate],
    write_ids: ValidWriteIdList | None,
    valid_txns: ValidTxnList,
    clusters: Collection[str],
    own: Mapping[str | None, Sequence[WrittenDirectory]] = MappingProxyType({}),
) -> BoundTable:
    """Return the table with the partitions that ``filters`` leave, in the snapshot, on ``clusters``.

    ``own`` has, by partition, the directories that the reader's own transaction has written and not
    registered yet. At most four round trips, whatever the number of partitions.
    """
    predicate = partition_predicate(filters, table.partition_keys)
    needed: list[tuple[int | None, str, str]]
    made: list[FoundPartition] = []
    if table.is_partitioned:
        rows = find_partitions(connection, table, predicate)
        if not table.is_transactional:
            check_stored_alike(connection, table, rows)
        needed = [(row.id, row.name, row.location) for row in rows]
        made = _own_partitions(table, own, {row.name for row in rows}, predicate)
    else:
        needed = [(None, WHOLE_TABLE, table.storage.primary.location)]
    visible: dict[int | None, tuple[RegisteredDirectory, ...]] = {}
    partly_visible = False
    pruned = [each[0] for each in needed if each[0] is not None] if predicate is not None else None
    needed += [(each.id, each.name, each.location) for each in made]
    if table.is_transactional and write_ids is not None and needed:
        registered = directories_of(connection, table, pruned)
        states: dict[tuple[str, ...], DirectoryState] = {}
        for partition_id, name, _ in needed:
            found = registered.get(partition_id, [])
            if own:
                found = [*found, *_unregistered(own.get(name or None, ()), table, partition_id)]
            by_name = {directory.name: directory for directory in found}
            # Most partitions of a table have been written by the same few statements.
            names = tuple(by_name)
            if names not in states:
                states[names] = _state(names, write_ids, valid_txns)
            state = states[names]
            read = (*((state.base,) if state.base else ()), *state.originals, *state.deltas)
            visible[partition_id] = tuple(by_name[each] for each in read)
            partly_visible = partly_visible or bool(state.partial)
    partitions = tuple(
        BoundPartition(name, location, visible.get(partition_id, ()), partition_id is None or partition_id > 0)
        for partition_id, name, location in needed
    )
    secondaries = [cluster for cluster in clusters if cluster != table.storage.primary.cluster]
    copies, stale = _copies(connection, table, partitions, pruned, secondaries)
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
    connection: Connection,
    table: Table,
    partitions: Sequence[BoundPartition],
    pruned: Sequence[int] | None,
    clusters: Sequence[str],
) -> tuple[dict[str, dict[str, str]], dict[str, frozenset[str]]]:
    copies: dict[str, dict[str, str]] = {cluster: {} for cluster in clusters}
    stale: dict[str, set[str]] = {cluster: set() for cluster in clusters}
    registered = _registered_locations(connection, table, pruned, clusters) if clusters else {}
    if not registered:
        return copies, {}
    wanted = None if pruned is None else [each.id for partition in partitions for each in partition.directories]
    held = copied_directories(connection, table, wanted, clusters) if table.is_transactional else {}
    for cluster, locations in registered.items():
        for partition in partitions:
            location = locations.get(partition.name)
            if location is None:
                continue
            if all(directory.id in held.get(cluster, ()) for directory in partition.directories):
                copies[cluster][partition.name] = location
            else:
                stale[cluster].add(partition.name)
    return copies, {cluster: frozenset(names) for cluster, names in stale.items()}


def _registered_locations(
    connection: Connection, table: Table, pruned: Sequence[int] | None, clusters: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Per cluster, the locations of the registered copies by partition name."""
    copies = cluster_storage_descriptors.c
    query = (
        select(copies.cluster, partition_rows.c.name, copies.location)
        .join_from(
            cluster_storage_descriptors,
            partition_rows,
            partition_rows.c.id == copies.partition_id,
            # The row without a partition is the copy of a table without partitions; of others,
            # it only says where the copies of their partitions lie.
            isouter=not table.is_partitioned,
        )
        .where(copies.table_id == table.id, copies.cluster.in_(clusters))
    )
    queries = [query] if pruned is None else [query.where(copies.partition_id.in_(ids)) for ids in batches(pruned)]
    found: dict[str, dict[str, str]] = {}
    for each in queries:
        for cluster, name, location in connection.execute(each):
            found.setdefault(cluster, {})[name or WHOLE_TABLE] = location
    return found
