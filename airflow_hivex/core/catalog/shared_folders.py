"""Folders that objects of several namespaces have: one is, holds or lies in another. Takes part in a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select

from airflow_hivex.core.catalog.folders import NAMESPACE_OF_TABLE
from airflow_hivex.core.model.objects import TableType
from airflow_hivex.core.store.schema import cluster_storage_descriptors, databases, partitions, tables


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a table, or (``table`` None) of a database, on a cluster; ``kind`` is such as ``table``."""

    namespace: str
    database: str
    table: str | None
    kind: str
    cluster: str
    location: str
    is_external: bool

    @property
    def owner(self) -> str:
        """Return the owner of the folder, as messages name it."""
        return f"{self.kind} {self.database}" + ("" if self.table is None else f".{self.table}")


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder of one namespace that is or lies in a folder of another one."""

    inner: Folder
    outer: Folder

    @property
    def cluster(self) -> str:
        """Return the cluster; a database has its folder on each."""
        return self.inner.cluster or self.outer.cluster


def shared_folders(connection: Connection) -> list[SharedFolder]:
    """Return the folders that are or lie in one of another namespace, each with the nearest such one.

    A managed table that was renamed to another namespace stays in the folder of its former database, and a database may
    lie in another one: these are not returned. Four round trips, whatever the number of tables is.
    """
    by_cluster: dict[str, list[Folder]] = {}
    roots = [*_databases(connection)]
    for folder in table_folders(connection):
        by_cluster.setdefault(folder.cluster, []).append(folder)
    found: list[SharedFolder] = []
    for folders in by_cluster.values():
        found += _shared([*folders, *roots])
    return found


def _shared(folders: list[Folder]) -> Iterator[SharedFolder]:
    reported: set[tuple[str, str]] = set()
    around: list[tuple[tuple[str, ...], Folder]] = []
    # A database comes before the tables in its folder.
    placed = sorted((tuple(each.location.split("/")), each.table or "", each.database, each) for each in folders)
    for names, _, _, folder in placed:
        while around and names[: len(around[-1][0])] != around[-1][0]:
            around.pop()
        for _, outer in reversed(around):
            if outer.namespace == folder.namespace or not _count(folder, outer):
                continue
            if (folder.owner, outer.owner) not in reported:
                reported.add((folder.owner, outer.owner))
                yield SharedFolder(folder, outer)
            break
        around.append((names, folder))


def _count(inner: Folder, outer: Folder) -> bool:
    if inner.table is None:
        return outer.table is not None
    return outer.table is not None or (inner.is_external and inner.database != outer.database)


def _databases(connection: Connection) -> Iterator[Folder]:
    for row in connection.execute(select(databases.c.name, databases.c.location)):
        yield Folder(row.name, row.name, None, "database", "", row.location, is_external=False)


def table_folders(connection: Connection) -> Iterator[Folder]:
    """Yield the folders of tables and copies, and of the partitions that lie elsewhere. Three round trips."""
    t, p, c = tables.c, partitions.c, cluster_storage_descriptors.c
    columns = (NAMESPACE_OF_TABLE, databases.c.name, t.name, t.type)
    of_database = and_(t.database_id == databases.c.id, ~t.dropped)
    is_below = func.substr(p.location, 1, func.length(t.location) + 1) == t.location + "/"
    external = t.type == TableType.EXTERNAL_TABLE.value
    queries = {
        "table": select(*columns, t.primary_cluster, t.location).where(of_database, t.location != ""),
        "the copy of table": select(*columns, c.cluster, c.location).where(
            of_database, c.table_id == t.id, c.partition_id.is_(None)
        ),
        "a partition of table": select(*columns, t.primary_cluster, p.location).where(
            of_database, external, p.table_id == t.id, ~p.dropped, p.location != "", ~is_below
        ),
    }
    for kind, query in queries.items():
        for namespace, database, name, type_, cluster, location in connection.execute(query):
            yield Folder(namespace, database, name, kind, cluster, location, type_ == TableType.EXTERNAL_TABLE.value)
