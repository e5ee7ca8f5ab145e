"""Lists of tables, partitions, directories and clusters for user interfaces. The database sorts and pages them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, or_, select, tuple_

from airflow_hivex.core.catalog.capacity import judged_directories
from airflow_hivex.core.catalog.copy_rows import CopyLag, read_copy_lags
from airflow_hivex.core.catalog.table_rows import select_table
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.model.directories import DirectoryKind
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.paging import Page, PageRequest, contains, read_page
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    databases,
    directories,
    directory_copies,
    locks,
    partitions,
    tables,
)

_D_OF_COMMIT_HISTORY, _C_OF_COMMIT_HISTORY = directories.c, directory_copies.c


@dataclass(frozen=True, slots=True)
class CommitPeriod:
    """The numbers of commits and compactions of a table in a period.

    ``rows`` and ``size_bytes`` are the sums that the commits have added. An update adds the rows that it changes.
    """

    start: datetime
    commits: int
    compactions: int
    rows: int
    size_bytes: int


def read_commit_history(
    connection: Connection, table: StoredTable, period_ms: int, since_ms: int
) -> list[CommitPeriod]:
    """Return the periods since a time in which a table had commits or compactions, oldest first. Two queries.

    A commit counts in the period in which its directories were registered on their first cluster. A commit is missing
    after all of its directories were compacted and cleaned.
    """
    of_table = cluster_storage_descriptors.c.table_id == table.id
    has_copies = connection.execute(select(cluster_storage_descriptors.c.id).where(of_table).limit(1)).first()
    if has_copies is None:
        is_first = _C_OF_COMMIT_HISTORY.cluster == table.storage.primary.cluster
    else:
        # A replication registers copies later, and a change of the primary cluster keeps them.
        earlier = directory_copies.alias("earlier")
        place = tuple_(earlier.c.registered_ms, earlier.c.cluster) < tuple_(
            _C_OF_COMMIT_HISTORY.registered_ms, _C_OF_COMMIT_HISTORY.cluster
        )
        is_first = ~(
            select(earlier.c.cluster)
            .where(earlier.c.directory_id == _C_OF_COMMIT_HISTORY.directory_id, place)
            .correlate(directory_copies)
            .exists()
        )
    is_compacted = _D_OF_COMMIT_HISTORY.visibility_txn_id > 0
    is_added = ~is_compacted & (_D_OF_COMMIT_HISTORY.kind != DirectoryKind.DELETE_DELTA.value)
    period = (_C_OF_COMMIT_HISTORY.registered_ms // period_ms).label("period")
    query = (
        select(
            period,
            func.count(case((~is_compacted, _D_OF_COMMIT_HISTORY.txn_id)).distinct()),
            func.count(case((is_compacted, _D_OF_COMMIT_HISTORY.txn_id)).distinct()),
            func.sum(case((is_added, _D_OF_COMMIT_HISTORY.rows), else_=0)),
            func.sum(case((is_added, _D_OF_COMMIT_HISTORY.size_bytes), else_=0)),
        )
        .select_from(directories.join(directory_copies, _C_OF_COMMIT_HISTORY.directory_id == _D_OF_COMMIT_HISTORY.id))
        .where(_D_OF_COMMIT_HISTORY.table_id == table.id, _C_OF_COMMIT_HISTORY.registered_ms >= since_ms, is_first)
        .group_by(period)
        .order_by(period)
    )
    return [
        CommitPeriod(to_datetime(number * period_ms), commits, compactions, int(rows), int(size))
        for number, commits, compactions, rows, size in connection.execute(query)
    ]


_T, _P, _D, _C = tables.c, partitions.c, directories.c, directory_copies.c
_NAME = databases.c.name + "." + _T.name
_DELTAS = ("delta", "delete_delta")
_TABLE_ORDERS: dict[str, ColumnElement[Any]] = {
    "name": _NAME,
    "type": _T.type,
    "cluster": _T.primary_cluster,
    "owner": _T.owner,
    "created": _T.created_ms,
}
_PARTITION_ORDERS: dict[str, ColumnElement[Any]] = {"name": _P.name, "created": _P.created_ms}
_DIRECTORY_ORDERS: dict[str, ColumnElement[Any]] = {
    "name": _D.name,
    "write_id": _D.max_write_id,
    "size": _D.size_bytes,
    "rows": _D.rows,
    "files": _D.files,
}


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table or view, and the number of its partitions."""

    database: str
    name: str
    type: str
    primary_cluster: str
    owner: str | None
    created_at: datetime
    partitions: int


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """A partition, and its numbers of directories, deltas, rows and bytes. Obsolete directories are not counted."""

    name: str
    created_at: datetime
    directories: int
    deltas: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ListedDirectory:
    """A registered directory, and the clusters that have it.

    An obsolete directory is listed until the cleaner deletes it, since earlier versions and open transactions can read
    it.
    """

    partition: str | None
    name: str
    kind: str
    min_write_id: int
    max_write_id: int
    files: int
    rows: int
    size_bytes: int
    txn_id: int
    clusters: tuple[str, ...]
    is_obsolete: bool = False


@dataclass(frozen=True, slots=True)
class HeldCopy:
    """A cluster with directories of a table: their number, and the number of all directories of the table.

    Obsolete directories are not counted.
    """

    cluster: str
    is_primary: bool
    directories: int
    size_bytes: int
    last_registered_at: datetime | None
    all_directories: int

    @property
    def is_current(self) -> bool:
        """Return whether the cluster has all directories of the table."""
        return self.directories == self.all_directories


@dataclass(frozen=True, slots=True)
class TableDeltas:
    """The number and size of a table's delta directories, and the size of all its directories.

    Obsolete directories are not counted.
    """

    database: str
    table: str
    deltas: int
    delta_bytes: int
    size_bytes: int
    is_partitioned: bool = False


@dataclass(frozen=True, slots=True)
class ClusterUse:
    """The number of tables whose primary is a cluster, and the cluster's needed and obsolete bytes."""

    cluster: str
    tables: int
    size_bytes: int
    obsolete_bytes: int = 0


class CatalogListing:
    """Pages of the catalog's current objects for user interfaces. The methods only read the metastore."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def tables(self, wanted: PageRequest, database: str | None = None) -> Page[ListedTable]:
        """Return a page of the tables and views of one database, or of all databases. Three queries.

        The search text is compared with names, owners and clusters.

        Raises:
            InvalidObjectError: the list cannot be sorted by the column.
        """
        query = (
            select(
                databases.c.name.label("database"),
                _T.id,
                _T.name,
                _T.type,
                _T.primary_cluster,
                _T.owner,
                _T.created_ms,
            )
            .join(databases, databases.c.id == _T.database_id)
            .where(~_T.dropped)
        )
        if database is not None:
            query = query.where(databases.c.name == database)
        if wanted.search:
            query = query.where(contains(wanted.search, _NAME, _T.owner, _T.primary_cluster))
        with self._store.read() as connection:
            found = read_page(connection, query, wanted, _TABLE_ORDERS, _T.id, lambda row: row)
            of_page = _P.table_id.in_([row.id for row in found.rows])
            counted = select(_P.table_id, func.count()).where(of_page, ~_P.dropped).group_by(_P.table_id)
            numbers = {row[0]: row[1] for row in connection.execute(counted)}
        return Page([_listed_table(row, numbers.get(row.id, 0)) for row in found.rows], found.total)

    def partitions(self, database: str, table: str, wanted: PageRequest) -> Page[ListedPartition]:
        """Return a page of the partitions of a table. Four queries.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidObjectError: the list cannot be sorted by the column.
        """
        with self._store.read() as connection:
            table_id = select_table(connection, database, table).id
            query = select(_P.id, _P.name, _P.created_ms).where(_P.table_id == table_id, ~_P.dropped)
            if wanted.search:
                query = query.where(contains(wanted.search, _P.name))
            found = read_page(connection, query, wanted, _PARTITION_ORDERS, _P.id, lambda row: row)
            # Computed for the rows of the page only: a database computes the columns of skipped rows, too.
            shown = [row.id for row in found.rows]
            judged = judged_directories(select(_T.id).where(_T.id == table_id), shown).c
            summed = (
                select(
                    _D.partition_id,
                    func.count().label("directories"),
                    func.count(case((_D.kind.in_(_DELTAS), 1))).label("deltas"),
                    func.sum(judged.rows).label("rows"),
                    func.sum(_D.size_bytes).label("size_bytes"),
                )
                .join(judged.id.table, judged.id == _D.id)
                .where(_D.partition_id.in_(shown), judged.is_obsolete == 0)
                .group_by(_D.partition_id)
            )
            sums = {row.partition_id: row for row in connection.execute(summed)}
        return Page([_listed_partition(row, sums.get(row.id)) for row in found.rows], found.total)

    def directories(
        self, database: str, table: str, wanted: PageRequest, partition: str | None = None
    ) -> Page[ListedDirectory]:
        """Return a page of the registered directories of a table, or of one of its partitions. Six queries.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidObjectError: the list cannot be sorted by the column.
        """
        with self._store.read() as connection:
            table_id = select_table(connection, database, table).id
            query: Select[Any] = select(directories).where(_D.table_id == table_id)
            if partition is not None or wanted.search:
                query = query.join(partitions, _P.id == _D.partition_id, isouter=True)
            if partition is not None:
                query = query.where(_P.table_id == table_id, _P.name == partition)
            if wanted.search:
                query = query.where(contains(wanted.search, _D.name, _P.name))
            found = read_page(connection, query, wanted, _DIRECTORY_ORDERS, _D.id, lambda row: row)
            holders = _holders(connection, [row.id for row in found.rows])
            named = select(_P.id, _P.name).where(_P.id.in_({row.partition_id for row in found.rows} - {None}))
            names = {row.id: row.name for row in connection.execute(named)}
            shown = {row.partition_id for row in found.rows}
            judged = judged_directories(
                select(_T.id).where(_T.id == table_id), None if None in shown else sorted(shown)
            ).c
            gone = select(judged.id).where(judged.is_obsolete == 1, judged.id.in_([row.id for row in found.rows]))
            obsolete = set(connection.scalars(gone))
        rows = [
            _listed_directory(
                row, names.get(row.partition_id), tuple(holders.get(row.id, ())), is_obsolete=row.id in obsolete
            )
            for row in found.rows
        ]
        return Page(rows, found.total)

    def copies(self, database: str, table: str) -> list[HeldCopy]:
        """Return the clusters that have directories of a table, the primary first. Three queries.

        Directories are only counted, which is fast for any number of partitions. ``Replicator.copies``, in contrast,
        compares the directories that snapshots read, partition by partition.

        Raises:
            NoSuchTableError: the table does not exist.
        """
        with self._store.read() as connection:
            found = select_table(connection, database, table)
            live = judged_directories(select(_T.id).where(_T.id == found.id)).c
            everything = connection.execute(select(func.count()).where(live.is_obsolete == 0)).scalar_one()
            query = (
                select(_C.cluster, func.count(), func.sum(live.size_bytes), func.max(_C.registered_ms))
                .join(live.id.table, live.id == _C.directory_id)
                .where(live.is_obsolete == 0)
                .group_by(_C.cluster)
            )
            held = connection.execute(query).all()
        primary = found.storage.primary.cluster
        copies = [
            HeldCopy(cluster, cluster == primary, number, int(size), to_datetime(last_ms), everything)
            for cluster, number, size, last_ms in held
        ]
        if primary not in {each.cluster for each in copies}:
            copies.append(HeldCopy(primary, True, 0, 0, None, everything))
        return sorted(copies, key=lambda each: (not each.is_primary, each.cluster))

    def commits(self, database: str, table: str, period_ms: int, since_ms: int) -> list[CommitPeriod]:
        """Return the periods since a time in which a table had commits or compactions, oldest first. Three queries.

        Raises:
            NoSuchTableError: the table does not exist.
        """
        with self._store.read() as connection:
            return read_commit_history(connection, select_table(connection, database, table), period_ms, since_ms)

    def copy_lags(self) -> list[CopyLag]:
        """Return the lag of the copies on each cluster, sorted by cluster. Two queries."""
        with self._store.read() as connection:
            return read_copy_lags(connection)

    def deltas(self, limit: int = 20) -> list[TableDeltas]:
        """Return the tables with the most delta directories. One query."""
        judged = judged_directories(None).c
        is_delta = _D.kind.in_(_DELTAS)
        number = func.count(case((is_delta, 1)))
        summed = (
            select(
                _D.table_id,
                number.label("deltas"),
                func.coalesce(func.sum(case((is_delta, _D.size_bytes))), 0).label("delta_bytes"),
                func.sum(_D.size_bytes).label("size_bytes"),
            )
            .join(judged.id.table, judged.id == _D.id)
            .where(judged.is_obsolete == 0)
            .group_by(_D.table_id)
            .subquery()
        )
        is_partitioned = select(_P.id).where(_P.table_id == _T.id).exists()
        query = (
            select(
                databases.c.name, _T.name, summed.c.deltas, summed.c.delta_bytes, summed.c.size_bytes, is_partitioned
            )
            .join(tables, _T.id == summed.c.table_id)
            .join(databases, databases.c.id == _T.database_id)
            .where(~_T.dropped, summed.c.deltas > 0)
            .order_by(summed.c.deltas.desc(), summed.c.size_bytes.desc(), _T.id)
            .limit(limit)
        )
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return [TableDeltas(row[0], row[1], row[2], int(row[3]), int(row[4]), bool(row[5])) for row in rows]

    def clusters(self) -> list[ClusterUse]:
        """Return the clusters that have tables or directories, sorted by name. Two queries."""
        primaries = select(_T.primary_cluster, func.count()).where(~_T.dropped).group_by(_T.primary_cluster)
        judged = judged_directories(None).c
        held = (
            select(_C.cluster, judged.is_obsolete, func.sum(judged.size_bytes))
            .join(judged.id.table, judged.id == _C.directory_id)
            .group_by(_C.cluster, judged.is_obsolete)
        )
        with self._store.read() as connection:
            numbers: dict[str, int] = {row[0]: row[1] for row in connection.execute(primaries)}
            sizes = {(cluster, int(obsolete)): int(size) for cluster, obsolete, size in connection.execute(held)}
        names = sorted(numbers.keys() | {cluster for cluster, _ in sizes})
        return [
            ClusterUse(name, numbers.get(name, 0), sizes.get((name, 0), 0), sizes.get((name, 1), 0)) for name in names
        ]


def _holders(connection: Connection, ids: list[int]) -> dict[int, list[str]]:
    holders: dict[int, list[str]] = {}
    query = select(_C.directory_id, _C.cluster).where(_C.directory_id.in_(ids)).order_by(_C.cluster)
    for directory_id, cluster in connection.execute(query):
        holders.setdefault(directory_id, []).append(cluster)
    return holders


def _listed_table(row: Row[Any], partition_count: int) -> ListedTable:
    return ListedTable(
        row.database,
        row.name,
        row.type,
        row.primary_cluster,
        row.owner,
        to_datetime(row.created_ms),
        partition_count,
    )


def _listed_partition(row: Row[Any], sums: Row[Any] | None) -> ListedPartition:
    created = to_datetime(row.created_ms)
    if sums is None:
        return ListedPartition(row.name, created, 0, 0, 0, 0)
    return ListedPartition(row.name, created, sums.directories, sums.deltas, int(sums.rows), int(sums.size_bytes))


def _listed_directory(
    row: Row[Any], partition: str | None, clusters: tuple[str, ...], *, is_obsolete: bool
) -> ListedDirectory:
    return ListedDirectory(
        partition,
        row.name,
        row.kind,
        row.min_write_id,
        row.max_write_id,
        row.files,
        row.rows,
        row.size_bytes,
        row.txn_id,
        clusters,
        is_obsolete,
    )


def transactions_by_cluster(connection: Connection) -> dict[str, int]:
    """Return a dict from cluster to the number of transactions that have locks on its tables. One round trip.

    Transactions of all processes count. A table counts for its primary cluster. A lock on a database counts for the
    primary clusters of all its tables.
    """
    query = (
        select(tables.c.primary_cluster, func.count(locks.c.txn_id.distinct()))
        .select_from(locks)
        .join(databases, databases.c.name == locks.c.database)
        .join(
            tables,
            and_(
                tables.c.database_id == databases.c.id,
                tables.c.dropped.is_(False),
                or_(tables.c.name == locks.c.table, locks.c.table == ""),
            ),
        )
        .where(locks.c.state == LockState.ACQUIRED.value, locks.c.txn_id > 0)
        .group_by(tables.c.primary_cluster)
    )
    return {str(cluster): int(count) for cluster, count in connection.execute(query)}
