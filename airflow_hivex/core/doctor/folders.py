"""Folders next to the tables: those that belong to no table of the database, and those of dropped tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, or_, select

from airflow_hivex.core.doctor.disks import sizes
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.findings import Finding, FindingKind
from airflow_hivex.core.model.objects import TableType
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    databases,
    partitions,
    tables,
    txn_to_write_id,
    txns,
)


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
    """The owners of the folders of the clusters: ``taken`` by cluster, tables and ``databases`` by location.

    A location is one on the cluster of its table; on others, the same location is that of a copy.
    """

    taken: Mapping[str, frozenset[str]]
    tables: Mapping[str, tuple[_Table, ...]]
    databases: Mapping[str, str]

    def findings(self, cluster: Cluster, files: ClusterFiles, database: str | None) -> Iterator[Finding]:
        """Yield the folders next to the tables of a database, or of all, on a cluster, except empty ones.

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
    """Return whose folders there are in the whole warehouse. Five statements."""
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
