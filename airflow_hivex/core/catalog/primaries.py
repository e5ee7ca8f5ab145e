"""The change of a table's primary cluster, in one database transaction.

Functions here take part in the caller's database transaction. The caller has an exclusive lock on the table.
Source: docs/reference/clusters.md, "Changes of the primary cluster".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, update

from airflow_hivex.core.catalog.copy_rows import place_in_copy
from airflow_hivex.core.catalog.table_rows import check_apart, lock_for_change, select_tables_by_id
from airflow_hivex.core.errors import CopyOutdatedError, InvalidOperationError, NoSuchTableError
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.snapshots.valid_lists import keep_moment
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    directories,
    directory_copies,
    partitions,
    statistics,
    tables,
)

_OPERATION = "SET PRIMARY CLUSTER"


def switch_primary(
    connection: Connection,
    table: StoredTable,
    cluster: str,
    write_ids: ValidWriteIdList | None,
    moment: Moment,
    now_ms: int,
    seen: Collection[int],
) -> StoredTable:
    """Make a cluster with a complete copy the primary, make the former primary a secondary, and return the table.

    ``seen`` are the ids of the directories that existed when the copy was planned. The cluster is allowed to lack
    directories of ``seen``, but no directories that were added later.

    Raises:
        NoSuchTableError: the table was dropped.
        CopyOutdatedError: a partition or a directory was added since the copy.
        InvalidOperationError: the primary cluster was changed meanwhile, or a partition's copy lies outside of the
            table's folder.
    """
    current = _locked(connection, table)
    root, places = _places(connection, current, cluster)
    partition_rows = _partitions(connection, current)
    if root is None and current.is_partitioned and not partition_rows:
        # A replication registers the folder with the first partition, and this table has no partition.
        root = current.storage.primary.location
    if root is None:
        raise CopyOutdatedError(current.full_name, cluster, current.storage.primary.location, "is not registered")
    missing = [name for id_, (name, _) in partition_rows.items() if id_ not in places]
    if missing:
        raise CopyOutdatedError(current.full_name, cluster, missing[0], "was added meanwhile")
    _check_seen(connection, current, cluster, seen)
    before = current.storage.primary
    copied: dict[int | None, str] = {None: before.location}
    copied.update({id_: location for id_, (_, location) in partition_rows.items()})
    changed = _move(connection, current, cluster, root, {id_: places[id_] for id_ in partition_rows})
    shared: dict[str, Any] = {
        "table_id": current.id,
        "cluster": before.cluster,
        "valid_write_ids": None if write_ids is None else str(write_ids),
        "registered_ms": now_ms,
        "moment_id": keep_moment(connection, moment),
    }
    rows = [{**shared, "partition_id": id_, "location": location} for id_, location in copied.items()]
    for batch in batches(rows):
        later(connection, insert(cluster_storage_descriptors), batch)
    return changed


def replace_primary(
    connection: Connection, table: StoredTable, cluster: str, withdrawn: Collection[int]
) -> StoredTable:
    """Make a cluster the primary in place of a lost cluster, and return the table.

    The table keeps only the directories that the cluster has, without those in ``withdrawn``. The rows of all other
    directories are removed. The lost cluster then has no registered directories of the table.

    Raises:
        NoSuchTableError: the table was dropped.
        InvalidOperationError: the primary cluster was changed meanwhile, or a partition's copy lies outside of the
            table's folder.
    """
    current = _locked(connection, table)
    root, places = _places(connection, current, cluster)
    lost = current.storage.primary
    root = lost.location if root is None else root
    partition_rows = _partitions(connection, current)
    moved = {
        id_: places.get(id_, f"{root}/{place_in_copy(current, name, location)}")
        for id_, (name, location) in partition_rows.items()
    }
    d, held = directories.c, directory_copies.c
    of_table = select(d.id).where(d.table_id == current.id)
    later(connection, delete(directory_copies).where(held.cluster == lost.cluster, held.directory_id.in_(of_table)))
    kept = select(held.directory_id).where(held.cluster == cluster)
    gone = connection.execute(select(d.id).where(d.table_id == current.id, d.id.not_in(kept))).scalars().all()
    for batch in batches(sorted({*gone, *withdrawn})):
        later(connection, delete(directory_copies).where(held.directory_id.in_(batch)))
        later(connection, delete(directories).where(d.id.in_(batch)))
    later(connection, delete(statistics).where(statistics.c.table_id == current.id))
    return _move(connection, current, cluster, root, moved)


def _locked(connection: Connection, table: StoredTable) -> StoredTable:
    if not lock_for_change(connection, [table.id]):
        raise NoSuchTableError(table.database, table.name)
    (current,) = select_tables_by_id(connection, [table.id])
    if current.storage.primary != table.storage.primary:
        reason = f"its primary cluster is {current.storage.primary.cluster} meanwhile; try again"
        raise InvalidOperationError(_OPERATION, table.full_name, reason)
    return current


def _places(connection: Connection, table: StoredTable, cluster: str) -> tuple[str | None, dict[int, str]]:
    """Return the folder of the table's copy on a cluster, and a dict from partition id to the location of its copy."""
    c = cluster_storage_descriptors.c
    query = select(c.partition_id, c.location).where(c.table_id == table.id, c.cluster == cluster)
    found = {row.partition_id: row.location for row in connection.execute(query)}
    root = found.pop(None, None)
    return root, found


def _check_seen(connection: Connection, table: StoredTable, cluster: str, seen: Collection[int]) -> None:
    """Refuse the change if a cluster lacks a directory that is not in ``seen``.

    Such a directory was added meanwhile.
    """
    d, held = directories.c, directory_copies.c
    is_held = select(held.directory_id).where(held.directory_id == d.id, held.cluster == cluster).exists()
    for row in connection.execute(select(d.id, d.name).where(d.table_id == table.id, ~is_held)):
        if row.id not in seen:
            raise CopyOutdatedError(table.full_name, cluster, row.name, "was added meanwhile")


def _partitions(connection: Connection, table: StoredTable) -> dict[int, tuple[str, str]]:
    """Return a dict from the id of each existing partition to its name and location."""
    p = partitions.c
    query = select(p.id, p.name, p.location).where(p.table_id == table.id, ~p.dropped)
    return {row.id: (row.name, row.location) for row in connection.execute(query)}


def _move(
    connection: Connection, table: StoredTable, cluster: str, root: str, places: Mapping[int, str]
) -> StoredTable:
    """Make ``cluster`` the primary in the rows of a table and its partitions, and return the table.

    ``places`` is a dict from partition id to location. The rows of copies on the old and the new primary are removed.
    """
    if not table.is_external:
        names = {id_: name for id_, (name, _) in _partitions(connection, table).items()}
        apart = next((id_ for id_, place in places.items() if place != f"{root}/{names[id_]}"), None)
        if apart is not None:
            reason = (
                f"the copy of partition {names[apart]} on cluster {cluster} lies in {places[apart]}, and not below "
                f"{root}; drop that copy first"
            )
            raise InvalidOperationError(_OPERATION, table.full_name, reason)
    c = cluster_storage_descriptors.c
    lost = or_(c.cluster == cluster, c.cluster == table.storage.primary.cluster)
    later(connection, delete(cluster_storage_descriptors).where(c.table_id == table.id, lost))
    later(
        connection,
        update(tables)
        .where(tables.c.id == table.id)
        .values(primary_cluster=cluster, location=root, version=tables.c.version + 1),
    )
    move = update(partitions).where(partitions.c.id == bindparam("moved")).values(location=bindparam("place"))
    for batch in batches([{"moved": id_, "place": place} for id_, place in places.items()]):
        later(connection, move, batch)
    (changed,) = select_tables_by_id(connection, [table.id])
    check_apart(connection, changed)
    return changed
