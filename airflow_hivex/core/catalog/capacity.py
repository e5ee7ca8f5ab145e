"""The sizes of namespaces and tables, and quotas. Sizes come from the registered directories, not from file systems.

Functions here take part in the caller's database transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
    union_all,
    update,
)

from airflow_hivex.core.errors import QuotaExceededError
from airflow_hivex.core.model.links import LinkType
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import (
    databases,
    directories,
    directory_copies,
    link_partitions,
    links,
    partitions,
    quotas,
    storage_descriptors,
    tables,
)

_D, _COPIES = directories.c, directory_copies.c


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """The total size of a table's directories that were registered on a cluster in one span of time.

    ``age`` is the number of the span; the newest span is 0. ``rows`` is the number of inserted rows minus the number of
    deleted rows. Obsolete directories, which new readers do not need, are counted separately until the cleaner removes
    them.
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
    """The bytes that a namespace reads through a link, on the primary cluster of the linked table."""

    namespace: str
    cluster: str
    link: str
    size_bytes: int


def read_held(
    connection: Connection,
    begins_ms: Sequence[int] = (),
    namespaces: Collection[str] | None = None,
    cluster: str | None = None,
) -> list[HeldBytes]:
    """Return the total size of directories for each table, cluster and age. One round trip.

    Obsolete directories are counted separately. ``begins_ms`` are the times at which the spans of time begin, the
    newest first. One more span has all directories from before these times.
    """
    spans = [(_COPIES.registered_ms >= begin, literal(number)) for number, begin in enumerate(begins_ms)]
    last = literal(len(begins_ms))
    judged = judged_directories(None if namespaces is None else _tables_in(namespaces))
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
    """Return the bytes that namespaces read through each of their links. One round trip."""
    link, exceptions = links.c, link_partitions.c
    judged = judged_directories(select(link.table_id))
    is_shown = or_(
        judged.c.partition_id.is_(None),
        exceptions.is_shown,
        and_(
            exceptions.link_id.is_(None),
            link.type == LinkType.DYNAMIC.value,
            judged.c.partition_id > link.after_partition_id,
        ),
    )
    named = link.table_name + "@" + link.namespace
    query = (
        select(databases.c.name, tables.c.primary_cluster, named, _sum(judged.c.size_bytes))
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
        .group_by(databases.c.name, tables.c.primary_cluster, link.table_name, link.namespace)
        .order_by(databases.c.name, tables.c.primary_cluster, link.table_name, link.namespace)
    )
    if namespaces is not None:
        query = query.where(databases.c.name.in_(sorted(namespaces)))
    if cluster is not None:
        query = query.where(tables.c.primary_cluster == cluster)
    return [LinkedBytes(*row) for row in connection.execute(query)]


def used_bytes(connection: Connection, database_id: int, cluster: str) -> int:
    """Return the bytes that the tables of a namespace have on a cluster, without obsolete directories."""
    judged = judged_directories(_tables_of(database_id))
    query = (
        select(_sum(judged.c.size_bytes))
        .join(directory_copies, _COPIES.directory_id == judged.c.id)
        .where(judged.c.is_obsolete == 0, _COPIES.cluster == cluster)
    )
    return int(connection.execute(query).scalar_one() or 0)


def largest_tables(connection: Connection, database_id: int, cluster: str, count: int) -> list[tuple[str, int]]:
    """Return the names and bytes of the largest tables of a namespace on a cluster, the largest first."""
    judged = judged_directories(_tables_of(database_id))
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


def judged_directories(table_ids: Select[tuple[int]] | None, partition_ids: Collection[int] | None = None) -> Subquery:
    """Return the subquery for the directories of tables, each with ``is_obsolete``: 1 or 0.

    ``table_ids`` and ``partition_ids`` limit the search. A directory is obsolete if a newer base has its rows, if a
    compaction has merged it into another directory, or if its table or partition was dropped. All registered
    directories are committed.
    """
    place = tuple_(_D.table_id, _partition(_D))
    replacing = directories.alias("replacing").c
    # The search is limited to the wanted tables: a commit to a namespace with a quota waits for the answer.
    of_directory = [] if table_ids is None else [_D.table_id.in_(table_ids)]
    of_replacing = [] if table_ids is None else [replacing.table_id.in_(table_ids)]
    if partition_ids is not None:
        of_directory.append(_D.partition_id.in_(partition_ids))
        of_replacing.append(replacing.partition_id.in_(partition_ids))
    replaced = select(replacing.table_id, _partition(replacing)).where(
        or_(replacing.kind == "base", replacing.visibility_txn_id > 0), *of_replacing
    )
    untouched = _selected(literal(0), *of_directory, _D.kind != "base", place.not_in(replaced)).subquery("untouched").c
    newest_first = (_D.max_write_id.desc(), _D.visibility_txn_id.desc(), _D.id)
    of_partition = (_D.table_id, _D.partition_id)
    position = func.row_number().over(partition_by=of_partition, order_by=newest_first)
    bases = _selected(position, *of_directory, _D.kind == "base").subquery("bases").c
    # Compacted directories that begin no later than this one; if such a directory ends no earlier, it has the rows of
    # this one. Deltas and delete deltas of one compaction have the same range, and both are read.
    merged = func.max(case((_D.visibility_txn_id > 0, _D.max_write_id))).over(
        partition_by=of_partition,
        order_by=(_D.min_write_id, _D.max_write_id.desc(), _D.visibility_txn_id.desc()),
        groups=(None, -1),
    )
    deltas = _selected(merged, *of_directory, _D.kind != "base", place.in_(replaced)).subquery("deltas").c
    newest = (
        select(
            replacing.table_id,
            _partition(replacing).label("partition_id"),
            func.max(replacing.max_write_id).label("max_write_id"),
        )
        .where(replacing.kind == "base", *of_replacing)
        .group_by(replacing.table_id, _partition(replacing))
        .subquery("newest")
    )
    is_replaced = case((bases.judgement > 1, 1), else_=bases.is_dropped)
    is_merged = case(
        (deltas.max_write_id <= newest.c.max_write_id, 1),
        (deltas.max_write_id <= deltas.judgement, 1),
        else_=deltas.is_dropped,
    )
    return union_all(
        select(*_columns(untouched), untouched.is_dropped.label("is_obsolete")),
        select(*_columns(bases), is_replaced.label("is_obsolete")),
        select(*_columns(deltas), is_merged.label("is_obsolete")).join_from(
            deltas.id.table,
            newest,
            and_(newest.c.table_id == deltas.table_id, newest.c.partition_id == _partition(deltas)),
            isouter=True,
        ),
    ).subquery("judged")


def _selected(judgement: ColumnElement[int], *conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the query for directories, with ``judgement``, and with ``is_dropped``: 1 or 0.

    A directory is dropped if its table or partition was dropped.
    """
    return (
        select(
            _D.id,
            _D.table_id,
            _D.partition_id,
            _D.max_write_id,
            _D.size_bytes,
            case((_D.kind == "delete_delta", -_D.rows), else_=_D.rows).label("rows"),
            case((or_(tables.c.dropped, partitions.c.dropped), 1), else_=0).label("is_dropped"),
            judgement.label("judgement"),
        )
        .join(tables, tables.c.id == _D.table_id)
        .join(partitions, partitions.c.id == _D.partition_id, isouter=True)
        .where(*conditions)
    )


def _columns(of: Any) -> list[ColumnElement[Any]]:
    return [of.id, of.table_id, of.partition_id, of.size_bytes, of.rows]


def _partition(of: Any) -> ColumnElement[int]:
    """Return the expression for the id of a partition. It is -1 for a table without partitions."""
    return func.coalesce(of.partition_id, literal_column("-1"))


def _tables_in(namespaces: Collection[str]) -> Select[tuple[int]]:
    return (
        select(tables.c.id)
        .join(databases, databases.c.id == tables.c.database_id)
        .where(databases.c.name.in_(sorted(namespaces)))
    )


def _tables_of(database_id: int) -> Select[tuple[int]]:
    return select(tables.c.id).where(tables.c.database_id == database_id)


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    return cast(func.sum(column), BigInteger)


log = logging.getLogger(__name__)

_Q = quotas.c
_LARGEST = 3


@dataclass(frozen=True, slots=True)
class Quota:
    """The limit in bytes for the tables of a namespace, and copies of these tables, on a cluster.

    If more than ``warning_percent`` of the quota is used, commits log a warning.
    """

    namespace: str
    cluster: str
    size_bytes: int
    warning_percent: int

    def status(self, used: int) -> str:
        """Return ``ok``, ``warning`` or ``exceeded`` for a number of used bytes."""
        if used > self.size_bytes:
            return "exceeded"
        return "warning" if used * 100 >= self.size_bytes * self.warning_percent else "ok"


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota, and the bytes that were in use when the commit began to register its directories."""

    quota: Quota
    database_id: int
    before: int


def read_quotas(connection: Connection) -> list[Quota]:
    """Return all quotas, sorted by namespace and cluster. One round trip."""
    query = (
        select(databases.c.name, _Q.cluster, _Q.size_bytes, _Q.warning_percent)
        .join(databases, databases.c.id == _Q.database_id)
        .order_by(databases.c.name, _Q.cluster)
    )
    return [Quota(*row) for row in connection.execute(query)]


def lock_use(connection: Connection, table_id: int, cluster: str) -> QuotaUse | None:
    """Return the quota of a table's namespace on a cluster and the bytes in use, or None if the namespace has no quota.

    The quota is locked: until the caller's database transaction ends, no other commit adds bytes to the namespace on
    this cluster. Two round trips.
    """
    query = (
        select(_Q.database_id, databases.c.name, _Q.size_bytes, _Q.warning_percent)
        .join(databases, databases.c.id == _Q.database_id)
        .join(tables, tables.c.database_id == _Q.database_id)
        .where(tables.c.id == table_id, _Q.cluster == cluster)
        .with_for_update(of=quotas)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    quota = Quota(row.name, cluster, row.size_bytes, row.warning_percent)
    return QuotaUse(quota, row.database_id, used_bytes(connection, row.database_id, cluster))


def lock_use_of(connection: Connection, database_id: int, namespace: str, cluster: str) -> QuotaUse | None:
    """Lock and return the quota of a namespace on a cluster, and the bytes in use, as :func:`lock_use` does."""
    query = select(_Q.size_bytes, _Q.warning_percent).where(_Q.database_id == database_id, _Q.cluster == cluster)
    row = connection.execute(query.with_for_update()).one_or_none()
    if row is None:
        return None
    quota = Quota(namespace, cluster, row.size_bytes, row.warning_percent)
    return QuotaUse(quota, database_id, used_bytes(connection, database_id, cluster))


def check_use(connection: Connection, use: QuotaUse | None) -> None:
    """Refuse a commit if the namespace exceeds its quota after the commit has registered its directories.

    ``use`` is the result of :func:`lock_use` before the registration. A commit that does not increase the bytes in use
    is not refused. The check takes one round trip, or none without a quota.

    Raises:
        QuotaExceededError: the namespace would have more bytes than its quota.
    """
    if use is None:
        return
    quota, used = use.quota, used_bytes(connection, use.database_id, use.quota.cluster)
    status = quota.status(used)
    if status == "exceeded" and used > use.before:
        largest = largest_tables(connection, use.database_id, quota.cluster, _LARGEST)
        raise QuotaExceededError(quota.namespace, quota.cluster, quota.size_bytes, used, largest)
    if status != "ok":
        log.warning(
            "Namespace %s uses %s of the %s bytes of its quota on cluster %s",
            quota.namespace,
            f"{used:,}",
            f"{quota.size_bytes:,}",
            quota.cluster,
        )


def put_quota(connection: Connection, database_id: int, quota: Quota) -> None:
    """Store the quota of a namespace on a cluster, in place of an earlier quota."""
    values = {"size_bytes": quota.size_bytes, "warning_percent": quota.warning_percent}
    of_namespace = (_Q.database_id == database_id, _Q.cluster == quota.cluster)
    if not connection.execute(update(quotas).where(*of_namespace).values(**values)).rowcount:
        later(connection, insert(quotas).values(database_id=database_id, cluster=quota.cluster, **values))


def delete_quota(connection: Connection, database_id: int, cluster: str) -> bool:
    """Remove the quota of a namespace on a cluster, and return whether the quota existed."""
    of_namespace = (_Q.database_id == database_id, _Q.cluster == cluster)
    return bool(connection.execute(delete(quotas).where(*of_namespace)).rowcount)
