"""The lag of the copies of all tables, cluster by cluster: for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select, union_all

from airflow_hivex.core.model.directories import DirectoryKind
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    directories,
    directory_copies,
    partitions,
    tables,
)

_COPIES, _T, _P, _D = cluster_storage_descriptors.c, tables.c, partitions.c, directories.c
_ON_PRIMARY = directory_copies.alias("on_primary")
_HELD = directory_copies.alias("held")
_OTHER = directories.alias("others")
_BASE = DirectoryKind.BASE.value
_DELTAS = (DirectoryKind.DELTA.value, DirectoryKind.DELETE_DELTA.value)
_IS_SECONDARY = and_(~_T.dropped, _COPIES.cluster != _T.primary_cluster)


@dataclass(frozen=True, slots=True)
class CopyLag:
    """The copies on a cluster of tables whose primary is another one.

    ``tables`` counts the tables, and ``lagging_tables`` those of which a copy lacks a directory that current snapshots
    read. ``oldest_ms`` is when the oldest of these directories was registered on its primary; None if no copy lags.
    """

    cluster: str
    tables: int
    lagging_tables: int
    oldest_ms: int | None


def read_copy_lags(connection: Connection) -> list[CopyLag]:
    """Return the lag of each cluster that has copies, by name. Two statements.

    A partition without any copy on the cluster does not count, and neither does a directory that another one replaces.
    """
    held = (
        select(_COPIES.cluster, func.count(_COPIES.table_id.distinct()))
        .join(tables, _T.id == _COPIES.table_id)
        .where(_IS_SECONDARY)
        .group_by(_COPIES.cluster)
    )
    numbers: dict[str, int] = {row[0]: row[1] for row in connection.execute(held)}
    # Two queries, as an index serves equality, but not "both are null".
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
    """Return the query of directories that a copy lacks and no other directory replaces."""
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
    """Return the condition on another directory that makes this one obsolete (``model.directories``), in short."""
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
