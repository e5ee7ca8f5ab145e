"""The doctor: compares the registered directories with the files on the disks of the clusters. It only reads.

Writers, workers and cleaners continue meanwhile, and database and disk cannot be read at the same moment. So the doctor
reads the database, then the disk and, where disk and database differ, the database again. A directory is missing if it
is in both reads of the database, and not on the disk. A directory on disk is unregistered if the second read of the
database has neither the directory nor an active writer of it. A running deletion causes findings that disappear. So the
doctor repeats the check after a pause until no finding disappears any more.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, func, or_, select

from airflow_hivex.core.catalog.database_rows import select_database
from airflow_hivex.core.catalog.folders import shared_folders
from airflow_hivex.core.catalog.table_rows import select_table
from airflow_hivex.core.compaction.readers import Readers
from airflow_hivex.core.doctor.comparison import Difference, lost, unregistered
from airflow_hivex.core.doctor.disks import Disks, Looked, sizes, unconfigured
from airflow_hivex.core.doctor.registered import TableRows, read_tables
from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.cleaning import obsolete
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.findings import Finding, FindingKind
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, normalise
from airflow_hivex.core.model.objects import TableType
from airflow_hivex.core.model.table_properties import history_retention_ms
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    databases,
    directories,
    partitions,
    tables,
    txn_to_write_id,
    txns,
)

_TABLES_AT_ONCE = 200
_DIRECTORIES_AT_ONCE = 200_000
_MOST_LOOKS = 10
PAUSE_S = 0.5

_Differences = dict[tuple[Looked, str, bool], Difference]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A table to examine, its clusters, and the number of its directories."""

    id: int
    clusters: frozenset[str]
    directories: int


class Doctor:
    """The comparison of the registered directories with the clusters' disks; see :meth:`examine`."""

    def __init__(self, services: Foundation, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._services, settings = services, services.settings
        self._sleep = sleep
        self._without_locks = bool(settings["hive.acid.lockless.reads.enabled"]) or not settings["hive.txn.read.locks"]

    def examine(
        self,
        database: str | None = None,
        table: str | None = None,
        cluster: str | None = None,
        *,
        progress: Callable[[str], None] = lambda _sentence: None,
    ) -> list[Finding]:
        """Return the differences between the registered directories and the disks, errors first.

        Running writes are not differences. External tables and views have no registered directories.

        The call only reads, and is safe at any time. It needs a fixed number of queries for each 200 tables, and one
        listing of each table's folder on each cluster.

        Args:
            database: examine only this database.
            table: examine only this table, of ``database`` or else of ``default``, and no other folders.
            cluster: examine only this cluster.
            progress: called with a sentence about the progress.

        Raises:
            UnknownClusterError, NoSuchDatabaseError, NoSuchTableError: the object does not exist.
            StoreUnavailableError: the metastore's database cannot be reached. A cluster that does not respond is a
                finding, and the other clusters are examined.
        """
        names = self._services.clusters.names if cluster is None else (self._services.clusters.get(cluster).name,)
        with self._services.store.read_together() as connection:
            listed = _list(connection, database, table)
        disks = Disks(self._services.clusters, self._services.roots, names)
        chosen = [each for each in listed if cluster is None or cluster in each.clusters]
        progress(f"tables to compare: {len(chosen)}, on {', '.join(names)}")
        found: list[Finding] = []
        if cluster is None:
            unknown = Counter(name for each in chosen for name in each.clusters if name not in self._services.clusters)
            found += [unconfigured(name, count) for name, count in unknown.items()]
        done = 0
        for batch in _batches(chosen):
            found += self._compare([each.id for each in batch], disks)
            done += len(batch)
            progress(f"tables compared: {done} of {len(chosen)}, findings: {len(found)}")
        if table is None:
            for name in disks.names:
                found += self._beside(disks, name, None if database is None else normalise(database))
            found += self._shared(disks, None if database is None else normalise(database))
        found += disks.unreachable.values()
        found = [each for each in found if each.database is None or each.cluster not in disks.unreachable]
        return sorted(found, key=_order)

    def _shared(self, disks: Disks, database: str | None) -> Iterator[Finding]:
        """Yield a finding for each folder that is equal to, or lies in, a folder of another namespace."""
        with self._services.store.read() as connection:
            shared = shared_folders(connection)
        for each in shared:
            if each.cluster in disks.names and database in (None, each.inner.database, each.outer.database):
                message = (
                    f"this folder of {each.inner.owner} is not apart from {each.outer.location}, that of "
                    f"{each.outer.owner}: who overwrites one of them changes the rows of both; move one by SET LOCATION"
                )
                path = disks.cluster(each.cluster).uri(each.inner.location)
                inner = each.inner
                yield Finding(FindingKind.SHARED, each.cluster, inner.database, inner.table, None, path, message)

    # -- tables ---------------------------------------------------------------------

    def _compare(self, ids: Sequence[int], disks: Disks) -> list[Finding]:
        rows = self._read(ids)
        looked = disks.look(rows)
        unreadable = [each for each in looked.values() if isinstance(each, Finding)]
        suspects = self._differences(rows, looked, disks)
        for name in disks.names:
            missing = sum(key[0].cluster == name and each.row is not None for key, each in suspects.items())
            if missing and disks.is_absent(name, missing):
                suspects = {key: each for key, each in suspects.items() if key[0].cluster != name}
        for _ in range(_MOST_LOOKS):
            if not suspects:
                break
            if any(each.row is None for each in suspects.values()):
                self._sleep(PAUSE_S)
            rows = self._read({key[0].table_id for key in suspects})
            looked = disks.look(rows, {key[0]: None for key in suspects})
            unreadable += [each for each in looked.values() if isinstance(each, Finding)]
            again = self._differences(rows, looked, disks)
            kept = {key: each for key, each in again.items() if key in suspects}
            at_work = {key[0] for key, each in suspects.items() if kept.get(key) != each}
            suspects = kept
            if not at_work:
                break
        else:
            # Another process still deletes or copies files there.
            suspects = {key: each for key, each in suspects.items() if each.row is not None or key[0] not in at_work}
        return [*unreadable, *(each.finding for each in suspects.values())]

    def _differences(
        self, rows: Mapping[int, TableRows], looked: Mapping[Looked, object], disks: Disks
    ) -> _Differences:
        """Read the database again, and return its differences from the disk.

        ``rows`` were read from the database before the disk was read, and ``looked`` are the entries on the disk.
        """
        self._services.store.reach("doctor looked")
        found: _Differences = {}
        suspicious = set()
        for each, entries in looked.items():
            if not isinstance(entries, dict):
                continue
            cluster = disks.cluster(each.cluster)
            of_rows = list(lost(rows[each.table_id], cluster, entries))
            found |= {(each, *difference.key): difference for difference in of_rows}
            if of_rows or any(True for _ in unregistered(rows[each.table_id], cluster, entries)):
                suspicious.add(each)
        if not suspicious:
            return {}
        ids = sorted({each.table_id for each in suspicious})
        with self._services.store.read_together() as connection:
            after = read_tables(connection, ids)
            there = {
                each: {(path, row.id) for path, _, row in after[each.table_id].on(each.cluster)}
                for each in {key[0] for key in found}
                if each.table_id in after
            }
            still = {key: each for key, each in found.items() if _is_registered(there, key[0], each)}
            found = dict(self._as_read(connection, after, still))
        for each in suspicious:
            entries = looked[each]
            if each.table_id in after and isinstance(entries, dict):
                found_here = unregistered(after[each.table_id], disks.cluster(each.cluster), entries)
                found |= {(each, *difference.key): difference for difference in found_here}
        return found

    def _as_read(
        self, connection: Connection, rows: Mapping[int, TableRows], differences: _Differences
    ) -> Iterator[tuple[tuple[Looked, str, bool], Difference]]:
        """Yield the differences of registered directories. The kind is OBSOLETE if no reader needs the directory.

        An obsolete directory is skipped if the cleaner is possibly deleting it now.
        """
        if not differences:
            return
        names = {key: table.table.full_name for key, table in rows.items()}
        readers = Readers(
            connection,
            names,
            without_locks=self._without_locks,
            now_ms=self._services.clock(),
            retentions={
                key: history_retention_ms(self._services.settings, table.table.parameters)
                for key, table in rows.items()
            },
        )
        named: defaultdict[tuple[int, int | None], list[str]] = defaultdict(list)
        for table_id in {key[0].table_id for key in differences}:
            for row in rows[table_id].directories:
                # The empty name stands for a partition whose location is one file, which no compaction replaces.
                if row.name:
                    named[table_id, row.partition_id].append(row.name)
        unread: dict[tuple[int, int | None], frozenset[str]] = {}
        for key, each in differences.items():
            assert each.row is not None
            table_id = key[0].table_id
            place = table_id, each.row.partition_id
            if place not in unread:
                unread[place] = _unread(readers, table_id, named[place])
            if each.row.name not in unread[place]:
                yield key, each
            elif each.finding.partition not in rows[table_id].cleaning:
                message = (
                    "something newer has replaced it for every reader, and its files are gone, wholly or in part; a "
                    "compaction and its cleaning remove the row"
                )
                yield key, replace(each, finding=replace(each.finding, kind=FindingKind.OBSOLETE, message=message))

    def _read(self, ids: Sequence[int] | set[int]) -> dict[int, TableRows]:
        with self._services.store.read_together() as connection:
            found = read_tables(connection, sorted(ids))
        self._services.store.reach("doctor read")
        return found

    # -- outside of tables ---------------------------------------------------------

    def _beside(self, disks: Disks, name: str, database: str | None) -> list[Finding]:
        """Return the findings about folders on a cluster that do not belong to a table.

        A finding is returned only if two successive checks have found it.
        """
        try:
            found = self._folders(disks, name, database)
            for _ in range(_MOST_LOOKS):
                if not found:
                    break
                self._sleep(PAUSE_S)
                before, found = found, self._folders(disks, name, database)
                if found == before:
                    break
                found = [each for each in found if each in before]
        except StorageError as error:
            uri = disks.cluster(name).shown_filesystem
            message = f"{error} The folders next to its tables were not examined"
            return [Finding(FindingKind.UNREACHABLE, name, database, None, None, uri, message)]
        return found

    def _folders(self, disks: Disks, name: str, database: str | None) -> list[Finding]:
        with self._services.store.read_together() as connection:
            folders = read_folders(connection)
        self._services.store.reach("doctor read")
        return list(folders.findings(disks.cluster(name), disks.files(name), database))


def _list(connection: Connection, database: str | None, table: str | None) -> list[_Listed]:
    """Return the tables to examine. Three queries.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: the database or table does not exist.
    """
    query = select(tables.c.id, tables.c.primary_cluster).where(~tables.c.dropped)
    if table is not None:
        found = select_table(connection, database or DEFAULT_DATABASE, table)
        query = query.where(tables.c.id == found.id)
    elif database is not None:
        query = query.where(tables.c.database_id == select_database(connection, database).id)
    clusters: defaultdict[int, set[str]] = defaultdict(set)
    for row in connection.execute(query.where(tables.c.location != "")):
        clusters[row.id].add(row.primary_cluster)
    counted: dict[int, int] = {}
    copies = cluster_storage_descriptors.c
    for batch in batches(sorted(clusters)):
        sums = select(directories.c.table_id, func.count()).group_by(directories.c.table_id)
        counted |= {row[0]: row[1] for row in connection.execute(sums.where(directories.c.table_id.in_(batch)))}
        held = select(copies.table_id, copies.cluster).distinct()
        for row in connection.execute(held.where(copies.table_id.in_(batch))):
            clusters[row.table_id].add(row.cluster)
    return [_Listed(key, frozenset(names), counted.get(key, 0)) for key, names in sorted(clusters.items())]


def _batches(listed: Sequence[_Listed]) -> Iterator[list[_Listed]]:
    """Yield batches with limited numbers of tables and of registered directories.

    If a single table exceeds the limit of directories, it is a batch of its own.
    """
    batch: list[_Listed] = []
    count = 0
    for each in listed:
        if batch and (len(batch) == _TABLES_AT_ONCE or count + each.directories > _DIRECTORIES_AT_ONCE):
            yield batch
            batch, count = [], 0
        batch.append(each)
        count += each.directories
    if batch:
        yield batch


def _is_registered(there: Mapping[Looked, set[tuple[str, int]]], looked: Looked, difference: Difference) -> bool:
    """Return whether the directory of a difference is still registered with the same id and path."""
    return difference.row is not None and (difference.path, difference.row.id) in there.get(looked, ())


def _unread(readers: Readers, table_id: int, names: Sequence[str]) -> frozenset[str]:
    """Return the directories among ``names`` that neither an open nor a new transaction reads."""
    found = obsolete(names, readers.now(table_id, None))
    for _, view in readers.of_table(table_id, None) if found else ():
        found &= obsolete(names, view)
    return found


def _order(finding: Finding) -> tuple[object, ...]:
    place = (finding.cluster, finding.database or "", finding.table or "", finding.partition or "", finding.path)
    return (not finding.is_error, *place)


@dataclass(frozen=True, slots=True)
class _Table:
    database: str
    name: str
    cluster: str
    is_dropped: bool
    is_managed: bool
    is_at_work: bool


@dataclass(frozen=True, slots=True)
class Folders:
    """The owners of the folders on all clusters.

    ``taken`` is a dict from cluster to the locations with an owner. ``tables`` is a dict from location to tables, and
    ``databases`` is a dict from location to database. The location of a table is that on its primary cluster.
    """

    taken: Mapping[str, frozenset[str]]
    tables: Mapping[str, tuple[_Table, ...]]
    databases: Mapping[str, str]

    def findings(self, cluster: Cluster, files: ClusterFiles, database: str | None) -> Iterator[Finding]:
        """Yield findings about folders on a cluster that have files, but do not belong to a table.

        ``database`` limits the findings to the folders of this database; None means all databases.

        Raises:
            StorageError: a folder cannot be read.
        """
        for location, owners in self.tables.items():
            for table in owners:
                is_here = table.cluster == cluster.name and database in (None, table.database)
                if is_here and table.is_dropped and table.is_managed and not table.is_at_work:
                    yield from self._finding(cluster, files, table.database, location)
        taken = self.taken.get(cluster.name, frozenset()) | self.databases.keys()
        above = {location[:at] for location in taken for at, letter in enumerate(location) if letter == "/"}
        for location, name in self.databases.items():
            if database in (None, name):
                yield from self._beside(cluster, files, name, location, taken, above)

    def _beside(
        self,
        cluster: Cluster,
        files: ClusterFiles,
        database: str,
        location: str,
        taken: frozenset[str],
        above: set[str],
    ) -> Iterator[Finding]:
        for name in files.list_entries(location):
            inside = f"{location}/{name}"
            if inside in taken:
                continue
            if inside in above:
                yield from self._beside(cluster, files, database, inside, taken, above)
            else:
                yield from self._finding(cluster, files, database, inside)

    def _finding(self, cluster: Cluster, files: ClusterFiles, database: str, location: str) -> Iterator[Finding]:
        count, size_bytes = sizes(files.walk(location))
        if not count:
            return
        owners = self.tables.get(location, ())
        dropped = next((table for table in owners if table.is_dropped), None)
        there = next((table for table in owners if not table.is_dropped), None)
        name = None
        if there is not None and there.cluster != cluster.name:
            kind, name = FindingKind.UNREGISTERED_COPY, there.name
            message = (
                f"table {there.database}.{name} lies there on cluster {there.cluster}, and no copy is registered here; "
                "register it (catalog.register_copy), or delete it"
            )
        elif dropped is not None:
            kind, name = FindingKind.DROPPED, dropped.name
            message = (
                f"table {dropped.database}.{name} was dropped, or never finished, and no query reads it; delete the "
                "folder if that does not run any more"
            )
        else:
            kind = FindingKind.UNKNOWN
            message = f"it belongs to no table of database {database}; delete it if you do not need it"
        yield Finding(kind, cluster.name, database, name, None, cluster.shown_uri(location), message, count, size_bytes)


def read_folders(connection: Connection) -> Folders:
    """Return the owners of all folders in the warehouse. Five queries."""
    d, t, p, copies = databases.c, tables.c, partitions.c, cluster_storage_descriptors.c
    at_work = set(
        connection.execute(
            select(txn_to_write_id.c.table_id)
            .join(txns, txns.c.id == txn_to_write_id.c.txn_id)
            .join(tables, t.id == txn_to_write_id.c.table_id)
            .where(t.dropped, txns.c.state == TxnState.OPEN.value)
        ).scalars()
    )
    taken: dict[str, set[str]] = {}
    by_location: dict[str, tuple[_Table, ...]] = {}
    query = select(t.id, t.name, t.primary_cluster, t.location, t.dropped, t.type, d.name.label("database"))
    for row in connection.execute(query.join(databases, d.id == t.database_id).where(t.location != "")):
        table = _Table(
            row.database,
            row.name,
            row.primary_cluster,
            row.dropped,
            row.type == TableType.MANAGED_TABLE.value,
            row.id in at_work,
        )
        if table.is_managed or table.is_at_work or not table.is_dropped:
            taken.setdefault(row.primary_cluster, set()).add(row.location)
        by_location[row.location] = (*by_location.get(row.location, ()), table)
    # Most partitions lie below their table.
    beside_table = func.substr(p.location, 1, func.length(t.location) + 1) != t.location + "/"
    apart = select(t.primary_cluster, p.location).join(tables, t.id == p.table_id).where(beside_table)
    for cluster, location in connection.execute(apart):
        taken.setdefault(cluster, set()).add(location)
    beside_table = func.substr(copies.location, 1, func.length(t.location) + 1) != t.location + "/"
    registered = select(copies.cluster, copies.location).join(tables, t.id == copies.table_id)
    for cluster, location in connection.execute(registered.where(or_(copies.partition_id.is_(None), beside_table))):
        taken.setdefault(cluster, set()).add(location)
    of_databases = {row.location: row.name for row in connection.execute(select(d.name, d.location))}
    return Folders({cluster: frozenset(each) for cluster, each in taken.items()}, by_location, of_databases)
