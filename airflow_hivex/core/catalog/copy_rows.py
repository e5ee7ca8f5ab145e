"""The rows of copies on secondary clusters, the comparison of their files with the primary, and their lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, insert, or_, select, union_all

from airflow_hivex.core.catalog.bound_tables import BoundTable
from airflow_hivex.core.catalog.closed_namespaces import check_folder
from airflow_hivex.core.catalog.directories import RegisteredDirectory, put_copies
from airflow_hivex.core.catalog.partition_rows import partition_ids
from airflow_hivex.core.errors import CopyOutdatedError, NoSuchPartitionError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.directories import DirectoryKind
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.snapshots.valid_lists import keep_moment
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import Rows, later
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    directories,
    directory_copies,
    partitions,
    tables,
)

Files = Mapping[str, int]
"""A dict from relative file name to size in bytes."""


@dataclass(frozen=True, slots=True)
class NewCopies:
    """New copies of registered directories on ``cluster``. ``directories`` has their state when they were copied.

    ``checksums`` is a dict from directory id to checksum. ``partitions`` has the names of copied partitions without
    registered directories, such as empty partitions and partitions of a table without transactions. ``location`` is the
    table's folder on the cluster. None means the folder of earlier copies of the table or, without copies, the same
    path as on the primary cluster. ``locations`` is a dict from partition to location, for partitions outside of this
    folder; the key None stands for a table without partitions. ``moment`` is the snapshot in which the copy was made,
    and ``write_ids`` is the write id list of this snapshot.
    """

    table: StoredTable
    cluster: str
    directories: tuple[RegisteredDirectory, ...]
    checksums: Mapping[int, str] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()
    location: str | None = None
    write_ids: ValidWriteIdList | None = None
    locations: Mapping[str | None, str] = field(default_factory=dict)
    moment: Moment | None = None


def add_copies(connection: Connection, new: NewCopies, now_ms: int) -> list[str]:
    """Register copies, and return the names of their partitions. Safe to repeat.

    The caller has locked the table for a change. An earlier copy of a partition at another location is withdrawn. If
    the cluster is the primary cluster, only the checksums are stored.

    Raises, perhaps with the next statement:
        CopyOutdatedError: a directory is not registered any more, or has grown since it was copied.
        NoSuchPartitionError: a partition was dropped.
    """
    table, cluster = new.table, new.cluster
    ids = [each.id for each in new.directories]
    _check_current(connection, new)
    places = _places(connection, new)
    if cluster != table.storage.primary.cluster:
        _put_locations(connection, new, places, now_ms)
    put_copies(connection, {each: new.checksums.get(each) for each in ids}, cluster, now_ms)
    return sorted(name for name, _ in places.values())


def _check_current(connection: Connection, new: NewCopies) -> None:
    """Check, together with the next statement, that the directories have not changed since they were copied."""
    d = directories.c

    def check_all(wanted: Sequence[RegisteredDirectory], rows: Rows) -> None:
        there = {row[0]: row for row in rows}
        for each in wanted:
            as_copied = (each.id, each.partition_id, each.name, each.files, each.rows, each.size_bytes)
            if there.get(each.id) != as_copied:
                reason = "is not registered any more" if each.id not in there else "has grown"
                raise CopyOutdatedError(new.table.full_name, new.cluster, each.name, reason)

    for batch in batches(new.directories):
        # A streaming batch cannot let them grow meanwhile.
        query = select(d.id, d.partition_id, d.name, d.files, d.rows, d.size_bytes)
        query = query.where(d.table_id == new.table.id, d.id.in_([each.id for each in batch]))
        later(connection, query.order_by(d.id).with_for_update(read=True), check=partial(check_all, batch))


def _places(connection: Connection, new: NewCopies) -> dict[int, tuple[str, str]]:
    """Return a dict from partition id to the partition's name and its location on the primary cluster.

    Raises:
        NoSuchPartitionError: a partition was dropped.
    """
    table = new.table
    if not table.is_partitioned:
        return {}
    named = partition_ids(connection, table, sorted(new.partitions))
    missing = sorted(new.partitions - named.keys())
    if missing:
        raise NoSuchPartitionError(table.database, table.name, missing[0])
    wanted = {*named.values(), *(each.partition_id for each in new.directories if each.partition_id is not None)}
    columns = partitions.c
    found = {
        row.id: row
        for batch in batches(sorted(wanted))
        for row in connection.execute(
            select(columns.id, columns.name, columns.location, columns.dropped)
            .where(columns.id.in_(batch))
            .order_by(columns.id)
            .with_for_update(read=True)
        )
    }
    for row in found.values():
        if row.dropped:
            raise NoSuchPartitionError(table.database, table.name, row.name)
    return {row.id: (row.name, row.location) for row in found.values()}


def _put_locations(connection: Connection, new: NewCopies, places: Mapping[int, tuple[str, str]], now_ms: int) -> None:
    table, cluster = new.table, new.cluster
    before = _locations(connection, table, cluster, list(places))
    root = new.location if new.location is not None else before.get(None, table.storage.primary.location)
    root = new.locations.get(None, root)
    # The row without a partition has the table's folder.
    wanted: dict[int | None, str] = {None: root}
    if before.get(None) != root:
        check_folder(connection, table.namespace, cluster, root, "copy", table.full_name, table.id)
    for each, (name, location) in places.items():
        stays = new.location is None and each in before
        own = before[each] if stays else f"{root}/{place_in_copy(table, name, location)}"
        wanted[each] = new.locations.get(name, own)
    moved = [each for each, location in wanted.items() if before.get(each, location) != location]
    if table.is_partitioned:
        _forget_copies(connection, table, [each for each in moved if each is not None], cluster)
    elif moved:
        _forget_copies(connection, table, None, cluster)
    _remove_locations(connection, table, list(places), cluster, root=True)
    shared = {
        "table_id": table.id,
        "cluster": cluster,
        "valid_write_ids": None if new.write_ids is None else str(new.write_ids),
        "registered_ms": now_ms,
        "moment_id": None if new.moment is None else keep_moment(connection, new.moment),
    }
    rows = [{**shared, "partition_id": each, "location": location} for each, location in wanted.items()]
    for batch in batches(rows):
        later(connection, insert(cluster_storage_descriptors), batch)


def checksums_of(connection: Connection, directory_ids: Sequence[int]) -> dict[int, str]:
    """Return a dict from directory id to checksum, for the known checksums. One query per batch."""
    c = directory_copies.c
    return {
        row.directory_id: row.checksum
        for batch in batches(directory_ids)
        for row in connection.execute(
            select(c.directory_id, c.checksum).where(c.directory_id.in_(batch), c.checksum.is_not(None))
        )
    }


def registered_ms(connection: Connection, directory_ids: Sequence[int], cluster: str) -> dict[int, int]:
    """Return a dict from directory id to the time (ms) of the directory's registration on a cluster.

    One query per batch.
    """
    c = directory_copies.c
    return {
        row.directory_id: row.registered_ms
        for batch in batches(directory_ids)
        for row in connection.execute(
            select(c.directory_id, c.registered_ms).where(c.directory_id.in_(batch), c.cluster == cluster)
        )
    }


def drop_copies(connection: Connection, table: StoredTable, partition_ids: Sequence[int] | None, cluster: str) -> None:
    """Remove the rows of the copies of partitions on ``cluster``.

    ``partition_ids`` is None for a table without partitions.
    """
    _remove_locations(connection, table, partition_ids or (), cluster, root=partition_ids is None)
    _forget_copies(connection, table, partition_ids, cluster)


def drop_all_copies(connection: Connection, table: StoredTable, cluster: str) -> None:
    """Remove the rows of all copies of a table on ``cluster``, and of the folder in which they lie."""
    c = cluster_storage_descriptors.c
    later(connection, delete(cluster_storage_descriptors).where(c.table_id == table.id, c.cluster == cluster))
    _forget_copies(connection, table, None, cluster)


def _locations(
    connection: Connection, table: Table, cluster: str, partition_ids: Sequence[int]
) -> dict[int | None, str]:
    copies = cluster_storage_descriptors.c
    query = select(copies.partition_id, copies.location).where(copies.table_id == table.id, copies.cluster == cluster)
    queries = [query.where(copies.partition_id.is_(None))]
    queries += [query.where(copies.partition_id.in_(batch)) for batch in batches(partition_ids)]
    return {row.partition_id: row.location for each in queries for row in connection.execute(each)}


def _remove_locations(
    connection: Connection, table: Table, partition_ids: Sequence[int], cluster: str, *, root: bool
) -> None:
    copies = cluster_storage_descriptors.c
    here = (copies.table_id == table.id, copies.cluster == cluster)
    if root:
        later(connection, delete(cluster_storage_descriptors).where(*here, copies.partition_id.is_(None)))
    for batch in batches(partition_ids):
        later(connection, delete(cluster_storage_descriptors).where(*here, copies.partition_id.in_(batch)))


def _forget_copies(connection: Connection, table: Table, partition_ids: Sequence[int] | None, cluster: str) -> None:
    """Record that a cluster no longer has the directories of partitions (None: of the whole table)."""
    d, copies = directories.c, directory_copies.c
    of_table = select(d.id).where(d.table_id == table.id)
    chosen = [of_table]
    if partition_ids is not None:
        chosen = [of_table.where(d.partition_id.in_(batch)) for batch in batches(partition_ids)]
    for each in chosen:
        later(connection, delete(directory_copies).where(copies.cluster == cluster, copies.directory_id.in_(each)))


def place_in_copy(table: Table, name: str | None, location: str) -> str:
    """Return the path of a partition, relative to the folder of a table's copy.

    The path is the same as below the table's folder on the primary cluster. For a partition outside of the table's
    folder, the path is the partition's name.
    """
    if name is None:
        return ""
    root = f"{table.storage.primary.location}/"
    return location.removeprefix(root) if location.startswith(root) else name


def differences(primary: Files, secondary: Files) -> list[str]:
    """Return texts about the files that a copy lacks or that have another size in the copy, one text per file.

    Files that only the copy has are ignored, since readers read only registered directories. For a table without
    transactions, :func:`extra_files` returns such files.
    """
    found = []
    for name, size in sorted(primary.items()):
        if name not in secondary:
            found.append(f"{name} is missing")
        elif secondary[name] != size:
            found.append(f"{name} has {secondary[name]} bytes instead of {size}")
    return found


def extra_files(primary: Files, secondary: Files) -> list[str]:
    """Return texts about the files that only the copy has, one text per file."""
    return [f"{name} is not on the primary" for name in sorted(set(secondary) - set(primary))]


def below(files: Files, folder: str) -> dict[str, int]:
    """Return the ``files`` in ``folder``, under unchanged names. If ``folder`` is a file, return this file."""
    prefix = f"{folder}/" if folder else ""
    return {name: size for name, size in files.items() if name.startswith(prefix) or name == folder}


def compare(bound: BoundTable, primary: ClusterFiles, copy: ClusterFiles, copy_root: str) -> list[str]:
    """Return texts about the differences between the primary and a copy, one text per file.

    The list is empty for a complete copy. ``bound`` has the compared partitions. ``copy_root`` is the folder of the
    copy. For a transactional table, only the directories that the snapshot reads are compared. A file does not count as
    copied if it is the file of the primary itself, for example because of a symbolic link.
    """
    root = bound.table.storage.primary.location
    inside, copied = primary.list_files(root), copy.list_files(copy_root)
    found = []
    for partition in bound.partitions:
        place = place_in_copy(bound.table, partition.name, partition.location)
        there = inside
        is_inside = f"{partition.location}/".startswith(f"{root}/")
        if not is_inside:
            there = {f"{place}/{name}": size for name, size in primary.list_files(partition.location).items()}
        if bound.table.is_transactional:
            paths = [f"{place}/{directory.name}".lstrip("/") for directory in partition.directories]
            expected = {name: size for path in paths for name, size in below(there, path).items()}
            found += differences(expected, copied)
        else:
            expected, actual = below(there, place), below(copied, place)
            found += differences(expected, actual) + extra_files(expected, actual)
        found += [
            f"{name} is the file of the primary itself"
            for name in sorted(expected.keys() & copied.keys())
            if copy.is_same_file(
                f"{copy_root}/{name}",
                primary,
                f"{root}/{name}" if is_inside else f"{partition.location}/{name.removeprefix(f'{place}/')}",
            )
        ]
    return found


_COPIES, _T, _P, _D = cluster_storage_descriptors.c, tables.c, partitions.c, directories.c
_ON_PRIMARY = directory_copies.alias("on_primary")
_HELD = directory_copies.alias("held")
_OTHER = directories.alias("others")
_BASE = DirectoryKind.BASE.value
_DELTAS = (DirectoryKind.DELTA.value, DirectoryKind.DELETE_DELTA.value)
_IS_SECONDARY = and_(~_T.dropped, _COPIES.cluster != _T.primary_cluster)


@dataclass(frozen=True, slots=True)
class CopyLag:
    """The lag of the secondary copies on a cluster.

    ``tables`` is the number of tables with a secondary copy. ``lagging_tables`` is the number of those tables whose
    copy lacks a directory that current snapshots read. ``oldest_ms`` is the time at which the oldest missing directory
    was registered on its primary, or None if no copy lags.
    """

    cluster: str
    tables: int
    lagging_tables: int
    oldest_ms: int | None


def read_copy_lags(connection: Connection) -> list[CopyLag]:
    """Return the lag of the copies on each cluster, sorted by cluster. Two queries.

    A partition without any copy on a cluster does not count as lagging. A missing directory does not count if another
    directory replaces it.
    """
    held = (
        select(_COPIES.cluster, func.count(_COPIES.table_id.distinct()))
        .join(tables, _T.id == _COPIES.table_id)
        .where(_IS_SECONDARY)
        .group_by(_COPIES.cluster)
    )
    numbers: dict[str, int] = {row[0]: row[1] for row in connection.execute(held)}
    # Two queries: an index serves equality, but not "both are null".
    of_partitions = (
        _lacking(_D.partition_id == _COPIES.partition_id, _OTHER.c.partition_id == _D.partition_id)
        .join(partitions, _P.id == _COPIES.partition_id)
        .where(~_P.dropped)
    )
    of_tables = _lacking(
        and_(_D.table_id == _COPIES.table_id, _D.partition_id.is_(None), _COPIES.partition_id.is_(None)),
        and_(_OTHER.c.table_id == _D.table_id, _OTHER.c.partition_id.is_(None)),
    )
    found = union_all(of_partitions, of_tables).subquery()
    oldest = select(found.c.cluster, func.count(found.c.table_id.distinct()), func.min(found.c.registered_ms)).group_by(
        found.c.cluster
    )
    lagging = {cluster: (number, oldest_ms) for cluster, number, oldest_ms in connection.execute(oldest)}
    return [CopyLag(name, numbers[name], *lagging.get(name, (0, None))) for name in sorted(numbers)]


def _lacking(is_of_copy: ColumnElement[bool], is_beside: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the directories that copies lack, except those that another directory replaces."""
    replaced = select(_OTHER.c.id).where(is_beside, _replaces()).correlate(directories).exists()
    return (
        select(_COPIES.cluster, _COPIES.table_id, _ON_PRIMARY.c.registered_ms)
        .join(tables, _T.id == _COPIES.table_id)
        .join(directories, is_of_copy)
        .join(_ON_PRIMARY, and_(_ON_PRIMARY.c.directory_id == _D.id, _ON_PRIMARY.c.cluster == _T.primary_cluster))
        .join(_HELD, and_(_HELD.c.directory_id == _D.id, _HELD.c.cluster == _COPIES.cluster), isouter=True)
        .where(_IS_SECONDARY, _HELD.c.directory_id.is_(None), ~replaced)
    )


def _replaces() -> ColumnElement[bool]:
    """Return the SQL condition that the directory ``others`` makes the row of ``directories`` obsolete.

    It is a short form of the rules in ``model.directories``.
    """
    other = _OTHER.c
    by_base = and_(
        other.kind == _BASE,
        or_(
            other.max_write_id > _D.max_write_id,
            and_(
                other.max_write_id == _D.max_write_id,
                or_(_D.kind != _BASE, other.visibility_txn_id > _D.visibility_txn_id),
            ),
        ),
    )
    by_compacted = and_(
        other.kind == _D.kind,
        other.kind.in_(_DELTAS),
        other.visibility_txn_id > _D.visibility_txn_id,
        other.min_write_id <= _D.min_write_id,
        other.max_write_id >= _D.max_write_id,
    )
    return or_(by_base, by_compacted)
