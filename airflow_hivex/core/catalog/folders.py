"""Queries about the folders of tables, copies, partitions and databases: who owns a folder, and which folders overlap.

The queries about owners are constructed once, since their construction takes longer than their execution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    String,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    text,
    union_all,
)

from airflow_hivex.core.model.objects import TEMPORARY_DATABASE, TEMPORARY_NAMESPACE, TableType
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import cluster_storage_descriptors, databases, partitions, tables

_COPIES = cluster_storage_descriptors.c
_CLUSTER = bindparam("cluster", type_=String)
# Any constant works if all clients use the same one.
_LOCK_KEY = 0x68697665_79
_LOCKS = {
    chosen: text(f"SELECT pg_advisory_xact_lock{kind}({_LOCK_KEY})")
    for chosen, kind in ((True, ""), (False, "_shared"))
}


def hold_folders(connection: Connection, *, chosen: bool = True) -> None:
    """Lock the registration of folders until the caller's transaction ends, so that later checks see all folders.

    If ``chosen`` is true, a user has chosen the folder, and all other transactions that register folders must wait.
    Transactions whose folders the warehouse chooses do not wait for each other. On PostgreSQL the lock is taken with
    the next query. On SQLite only one transaction writes at a time.
    """
    if connection.dialect.name == "postgresql":
        later(connection, _LOCKS[chosen])


def _starts_with(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column.like(bindparam("beginning", type_=String), escape="/")


def beginning(text: str) -> dict[str, str]:
    """Return the query parameter for conditions that find values with the prefix ``text``."""
    return {"beginning": text.replace("/", "//").replace("%", "/%").replace("_", "/_") + "%"}


def overlaps(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the SQL condition that a folder overlaps a location: both are equal, or one contains the other.

    :func:`beside` returns the query parameters of the location.
    """
    # A view has no location.
    return (column != "") & (column.in_(bindparam("above", expanding=True)) | _starts_with(column))


def beside(location: str) -> dict[str, Any]:
    """Return the query parameters of a location for the condition :func:`overlaps`."""
    names = location.split("/")
    above = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]
    return {"above": above, **beginning(f"{location}/" if location else "")}


def _owners(*, only_managed: bool) -> CompoundSelect[Any]:
    t, p = tables.c, partitions.c
    but_id = bindparam("but_id", type_=BigInteger)
    of_table = select(databases.c.name, t.name).where(t.database_id == databases.c.id, t.id != but_id)
    if only_managed:
        of_table = of_table.where(t.type != TableType.EXTERNAL_TABLE.value)
    queries = {
        "table": of_table.add_columns(t.location).where(t.primary_cluster == _CLUSTER, overlaps(t.location)),
        "the copy of table": of_table.add_columns(_COPIES.location).where(
            _COPIES.table_id == t.id, _COPIES.cluster == _CLUSTER, overlaps(_COPIES.location)
        ),
    }
    if not only_managed:
        queries["a partition of table"] = of_table.add_columns(p.location).where(
            t.type == TableType.EXTERNAL_TABLE.value,
            t.primary_cluster == _CLUSTER,
            p.table_id == t.id,
            ~p.dropped,
            overlaps(p.location),
        )
    return union_all(*(query.add_columns(literal_column(f"'{kind}'")) for kind, query in queries.items())).limit(1)


OWNERS = {only_managed: _owners(only_managed=only_managed) for only_managed in (True, False)}
"""Two queries for a table whose folder on ``cluster`` overlaps a location. :func:`beside` returns their parameters.

``OWNERS[True]`` searches only managed tables, ``OWNERS[False]`` all tables. The table ``but_id`` is left out. A query
returns at most one row: database, table, location, and kind of the folder.
"""

LOCATIONS = union_all(
    *(
        select(column).where(on == _CLUSTER, _starts_with(column))
        for column, on in ((tables.c.location, tables.c.primary_cluster), (_COPIES.location, _COPIES.cluster))
    )
)
"""The query for the locations of tables and copies on ``cluster`` that have the prefix of :func:`beginning`."""

HOLDING_DATABASE = (
    select(databases.c.name)
    .where((databases.c.location == bindparam("location", type_=String)) | _starts_with(databases.c.location))
    .limit(1)
)
"""The query for a database whose location is ``location`` or has the prefix of :func:`beginning`.

It returns at most one row.
"""

_OWN = databases.alias("own")
_IN_OWN_FOLDER = (
    select(_OWN.c.id)
    .where(
        _OWN.c.name == bindparam("own", type_=String),
        func.substr(bindparam("location", type_=String), 1, func.length(_OWN.c.location) + 1) == _OWN.c.location + "/",
    )
    .exists()
)
"""The condition that ``location`` lies in the folder of the database ``own``.

Such a location can also lie in the folder of another database, if that folder contains the folder of ``own``.
"""


NAMESPACE_OF_TABLE = case(
    (
        databases.c.name == TEMPORARY_DATABASE,
        func.coalesce(tables.c.parameters[TEMPORARY_NAMESPACE].as_string(), databases.c.name),
    ),
    else_=databases.c.name,
)
"""The SQL expression for the namespace to which the folders of a table belong, as in :attr:`Table.namespace`."""


def _folders_of(database: ColumnElement[bool], namespace: ColumnElement[bool]) -> list[Select[Any]]:
    """Return queries for the folders of tables, copies, partitions and databases, each with the kind of the folder.

    ``database`` is a condition for the database of an object. ``namespace`` is a condition for the namespace of a
    table.
    """
    t, p = tables.c, partitions.c
    but_id = bindparam("but_id", type_=BigInteger)
    columns = (NAMESPACE_OF_TABLE.label("namespace"), databases.c.name.label("database"), t.name.label("table"))
    of_table = select(*columns).where(
        database | (databases.c.name == TEMPORARY_DATABASE),
        namespace,
        t.database_id == databases.c.id,
        t.id != but_id,
        ~t.dropped,
    )
    queries = {
        "table": of_table.add_columns(t.location.label("location")).where(
            t.primary_cluster == _CLUSTER, overlaps(t.location)
        ),
        "the copy of table": of_table.add_columns(_COPIES.location.label("location")).where(
            _COPIES.table_id == t.id, _COPIES.cluster == _CLUSTER, overlaps(_COPIES.location)
        ),
        "a partition of table": of_table.add_columns(p.location.label("location")).where(
            t.type == TableType.EXTERNAL_TABLE.value,
            t.primary_cluster == _CLUSTER,
            p.table_id == t.id,
            ~p.dropped,
            overlaps(p.location),
        ),
        "database": select(
            databases.c.name.label("namespace"),
            databases.c.name.label("database"),
            null().label("table"),
            databases.c.location.label("location"),
        ).where(database, ~_IN_OWN_FOLDER, overlaps(databases.c.location)),
    }
    return [query.add_columns(literal_column(f"'{kind}'").label("kind")) for kind, query in queries.items()]


_OWN_NAME, _NAMESPACE = bindparam("own", type_=String), bindparam("namespace", type_=String)
_OTHERS = union_all(*_folders_of(databases.c.name != _OWN_NAME, NAMESPACE_OF_TABLE != _OWN_NAME)).subquery()
NAMESPACES_AT = select(_OTHERS.c.namespace).distinct()
"""The query for namespaces other than ``own`` with a folder on ``cluster`` that overlaps ``location``.

Its parameters include those of :func:`beside`. Folders of the table ``but_id`` are left out.
"""

_OF_ONE = union_all(*_folders_of(databases.c.name == _NAMESPACE, NAMESPACE_OF_TABLE == _NAMESPACE)).subquery()
OWNER_AT = select(_OF_ONE.c.database, _OF_ONE.c.table, _OF_ONE.c.kind).limit(1)
"""The query for one database or table of ``namespace`` whose folder :data:`NAMESPACES_AT` would find.

The row also has the kind of the folder.
"""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a table on a cluster. If ``table`` is None, it is the folder of a database.

    ``kind`` is ``table``, ``the copy of table``, ``a partition of table`` or ``database``.
    """

    namespace: str
    database: str
    table: str | None
    kind: str
    cluster: str
    location: str
    is_external: bool

    @property
    def owner(self) -> str:
        """Return the kind and the name of the folder's owner, for messages."""
        return f"{self.kind} {self.database}" + ("" if self.table is None else f".{self.table}")


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """A folder of one namespace (``inner``) that lies in, or is equal to, a folder of another namespace (``outer``)."""

    inner: Folder
    outer: Folder

    @property
    def cluster(self) -> str:
        """Return the cluster of the two folders. The folder of a database is on all clusters."""
        return self.inner.cluster or self.outer.cluster


def shared_folders(connection: Connection) -> list[SharedFolder]:
    """Return the folders that lie in a folder of another namespace, or are equal to it. Four round trips.

    Each folder is returned with the nearest outer folder. Databases in the folder of another database are left out.
    Managed tables in the folder of another database are also left out, since a rename to another namespace leaves them
    there.
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
    """Yield the folders of tables and copies, and of partitions outside of their table's folder. Three round trips."""
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
