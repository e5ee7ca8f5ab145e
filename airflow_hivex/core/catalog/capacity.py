"""How much namespaces hold, from the registered directories: no file system is asked.

Functions here take part in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, ColumnElement, Connection, Subquery, and_, case, cast, func, literal, or_, select

from airflow_hivex.core.model.links import LinkType
from airflow_hivex.core.store.schema import (
    databases,
    directories,
    directory_copies,
    link_partitions,
    links,
    partitions,
    storage_descriptors,
    tables,
)

_D, _COPIES = directories.c, directory_copies.c


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """The directories of a table on one cluster that were registered there in one span of ages.

    ``age`` is the number of the span, the newest is 0. ``rows`` are those of inserts, less the number of delete
    events. Directories are obsolete when no new reader needs them and the cleaner has not removed them.
    """

    namespace: str
    table: str
    format: str
    cluster: str
    is_secondary: bool
    is_obsolete: bool
    age: int
    size_bytes: int
    rows: int
    directories: int


@dataclass(frozen=True, slots=True)
class LinkedBytes:
    """The bytes that a namespace reaches through its links, on the primary clusters of their sources."""

    namespace: str
    cluster: str
    size_bytes: int


def read_held(
    connection: Connection,
    begins_ms: Sequence[int] = (),
    namespaces: Collection[str] | None = None,
    cluster: str | None = None,
) -> list[HeldBytes]:
    """Return the directories of tables, added up by cluster and age. One round trip.

    ``begins_ms`` are the times at which the spans of ages begin, the newest first; one span is before all of them.
    """
    spans = [(_COPIES.registered_ms >= begin, literal(number)) for number, begin in enumerate(begins_ms)]
    last = literal(len(begins_ms))
    judged = _judged(_in_namespaces(namespaces))
    held = (
        select(
            judged.c.table_id,
            judged.c.is_obsolete,
            judged.c.size_bytes,
            judged.c.rows,
            _COPIES.cluster,
            (case(*spans, else_=last) if spans else last).label("age"),
        )
        .join(directory_copies, _COPIES.directory_id == judged.c.id)
        .where(*([] if cluster is None else [_COPIES.cluster == cluster]))
        .subquery("held")
    )
    summed = (
        select(
            held.c.table_id,
            held.c.cluster,
            held.c.is_obsolete,
            held.c.age,
            _sum(held.c.size_bytes).label("size_bytes"),
            _sum(held.c.rows).label("rows"),
            func.count().label("directories"),
        )
        .group_by(held.c.table_id, held.c.cluster, held.c.is_obsolete, held.c.age)
        .subquery("summed")
    )
    query = (
        select(databases.c.name, tables.c.name, storage_descriptors.c.format, tables.c.primary_cluster, summed)
        .join(tables, tables.c.id == summed.c.table_id)
        .join(databases, databases.c.id == tables.c.database_id)
        .join(storage_descriptors, storage_descriptors.c.id == tables.c.storage_descriptor_id)
        .order_by(databases.c.name, tables.c.name, summed.c.cluster, summed.c.age)
    )
    found = []
    for namespace, table, stored_as, primary, _, of, obsolete, age, size, rows, count in connection.execute(query):
        found.append(HeldBytes(namespace, table, stored_as, of, of != primary, bool(obsolete), age, size, rows, count))
    return found


def read_linked(
    connection: Connection, namespaces: Collection[str] | None = None, cluster: str | None = None
) -> list[LinkedBytes]:
    """Return the bytes that namespaces reach through their links. One round trip."""
    link, exceptions = links.c, link_partitions.c
    judged = _judged(tables.c.id.in_(select(link.table_id)))
    is_shown = or_(
        judged.c.partition_id.is_(None),
        exceptions.is_shown,
        and_(
            exceptions.link_id.is_(None),
            link.type == LinkType.DYNAMIC.value,
            judged.c.partition_id > link.after_partition_id,
        ),
    )
    query = (
        select(databases.c.name, tables.c.primary_cluster, _sum(judged.c.size_bytes))
        .select_from(links)
        .join(databases, databases.c.id == link.database_id)
        .join(tables, tables.c.id == link.table_id)
        .join(judged, judged.c.table_id == link.table_id)
        .join(
            link_partitions,
            and_(exceptions.link_id == link.id, exceptions.partition_id == judged.c.partition_id),
            isouter=True,
        )
        .where(judged.c.is_obsolete == 0, is_shown)
        .group_by(databases.c.name, tables.c.primary_cluster)
        .order_by(databases.c.name, tables.c.primary_cluster)
    )
    if namespaces is not None:
        query = query.where(databases.c.name.in_(sorted(namespaces)))
    if cluster is not None:
        query = query.where(tables.c.primary_cluster == cluster)
    return [LinkedBytes(*row) for row in connection.execute(query)]


def used_bytes(connection: Connection, database_id: int, cluster: str) -> int:
    """Return the bytes that the tables of a namespace hold on a cluster, without obsolete directories."""
    judged = _judged(tables.c.database_id == database_id)
    query = (
        select(_sum(judged.c.size_bytes))
        .join(directory_copies, _COPIES.directory_id == judged.c.id)
        .where(judged.c.is_obsolete == 0, _COPIES.cluster == cluster)
    )
    return int(connection.execute(query).scalar_one() or 0)


def largest_tables(connection: Connection, database_id: int, cluster: str, count: int) -> list[tuple[str, int]]:
    """Return the names and bytes of the largest tables of a namespace on a cluster, the largest first."""
    judged = _judged(tables.c.database_id == database_id)
    size = _sum(judged.c.size_bytes)
    query = (
        select(databases.c.name, tables.c.name, size)
        .join(directory_copies, _COPIES.directory_id == judged.c.id)
        .join(tables, tables.c.id == judged.c.table_id)
        .join(databases, databases.c.id == tables.c.database_id)
        .where(judged.c.is_obsolete == 0, _COPIES.cluster == cluster)
        .group_by(databases.c.name, tables.c.name)
        .order_by(size.desc(), tables.c.name)
        .limit(count)
    )
    return [(f"{database}.{name}", int(bytes_)) for database, name, bytes_ in connection.execute(query)]


def _judged(restriction: ColumnElement[bool] | None) -> Subquery:
    """Return the directories of tables, and whether each is obsolete (1) or may be read (0).

    A directory is obsolete when a newer base holds its rows, when a compaction has merged it into another one, or when
    its table or partition was dropped. Registered directories have all been committed.
    """
    of_partition = (_D.table_id, _D.partition_id)
    of_kind = (*of_partition, _D.kind)
    base = func.max(case((_D.kind == "base", _D.max_write_id))).over(partition_by=of_partition)
    place = func.row_number().over(
        partition_by=of_kind, order_by=(_D.max_write_id.desc(), _D.visibility_txn_id.desc(), _D.id)
    )
    # Of the directories that begin no later, those of compactions; one that ends no earlier has the rows of this one.
    # Deltas and delete deltas that one compaction has written have the same range, and both are read.
    is_merged = and_(_D.kind != "base", _D.visibility_txn_id > 0)
    merged = func.max(case((is_merged, _D.max_write_id))).over(
        partition_by=of_partition,
        order_by=(_D.min_write_id, _D.max_write_id.desc(), _D.visibility_txn_id.desc()),
        groups=(None, -1),
    )
    found = (
        select(
            _D.id,
            *of_partition,
            _D.kind,
            _D.max_write_id,
            _D.size_bytes,
            case((_D.kind == "delete_delta", -_D.rows), else_=_D.rows).label("rows"),
            case((or_(tables.c.dropped, partitions.c.dropped), 1), else_=0).label("is_dropped"),
            base.label("base"),
            place.label("place"),
            merged.label("merged"),
        )
        .join(tables, tables.c.id == _D.table_id)
        .join(partitions, partitions.c.id == _D.partition_id, isouter=True)
    )
    if restriction is not None:
        found = found.where(restriction)
    f = found.subquery("found").c
    is_obsolete = case(
        (f.is_dropped == 1, 1),
        (f.kind == "base", case((f.place > 1, 1), else_=0)),
        (f.max_write_id <= f.base, 1),
        (f.max_write_id <= f.merged, 1),
        else_=0,
    )
    return select(f.id, f.table_id, f.partition_id, f.size_bytes, f.rows, is_obsolete.label("is_obsolete")).subquery(
        "judged"
    )


def _in_namespaces(namespaces: Collection[str] | None) -> ColumnElement[bool] | None:
    if namespaces is None:
        return None
    return tables.c.database_id.in_(select(databases.c.id).where(databases.c.name.in_(sorted(namespaces))))


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    return cast(func.sum(column), BigInteger)
