"""Queries about the folders of tables, copies and partitions: whose are where.

Each is made once: to make one takes longer than to run it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    String,
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
from airflow_hivex.core.store.schema import cluster_storage_descriptors, databases, partitions, tables

_COPIES = cluster_storage_descriptors.c
_CLUSTER = bindparam("cluster", type_=String)
# Any constant will do, as long as all clients take the same one.
_LOCK_KEY = 0x68697665_79
_LOCKS = {
    chosen: text(f"SELECT pg_advisory_xact_lock{kind}({_LOCK_KEY})")
    for chosen, kind in ((True, ""), (False, "_shared"))
}


def hold_folders(connection: Connection, *, chosen: bool = True) -> None:
    """Wait for the transactions that register folders, so that a check sees theirs; others wait for the caller's.

    A folder that a user has ``chosen`` may be anywhere and waits for all. One that the warehouse chooses waits for
    those. One round trip on PostgreSQL; on SQLite one transaction writes at a time.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCKS[chosen])


def _starts_with(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column.like(bindparam("beginning", type_=String), escape="/")


def beginning(text: str) -> dict[str, str]:
    """Return the parameter of a query for what begins with a text."""
    return {"beginning": text.replace("/", "//").replace("%", "/%").replace("_", "/_") + "%"}


def overlaps(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that a folder is, holds or lies in a location; its parameters are :func:`beside`."""
    # A view has no location.
    return (column != "") & (column.in_(bindparam("above", expanding=True)) | _starts_with(column))


def beside(location: str) -> dict[str, Any]:
    """Return the parameters of a query for the folders that are, hold or lie in a location."""
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
"""The database, table, location and kind of a folder of ``cluster`` that is, holds or lies in one that is
:func:`beside`, but not of table ``but_id``; one row at most. Among managed tables only, or among all."""

LOCATIONS = union_all(
    *(
        select(column).where(on == _CLUSTER, _starts_with(column))
        for column, on in ((tables.c.location, tables.c.primary_cluster), (_COPIES.location, _COPIES.cluster))
    )
)
"""The locations of tables and copies on ``cluster`` that have a :func:`beginning`."""

HOLDING_DATABASE = (
    select(databases.c.name)
    .where((databases.c.location == bindparam("location", type_=String)) | _starts_with(databases.c.location))
    .limit(1)
)
"""The name of a database whose folder is ``location`` or has a :func:`beginning`; one row at most."""

_OWN = databases.alias("own")
_IN_OWN_FOLDER = (
    select(_OWN.c.id)
    .where(
        _OWN.c.name == bindparam("own", type_=String),
        func.substr(bindparam("location", type_=String), 1, func.length(_OWN.c.location) + 1) == _OWN.c.location + "/",
    )
    .exists()
)
"""Return whether ``location`` lies in the folder of the database ``own``, which may itself lie in that of another."""


NAMESPACE_OF_TABLE = case(
    (
        databases.c.name == TEMPORARY_DATABASE,
        func.coalesce(tables.c.parameters[TEMPORARY_NAMESPACE].as_string(), databases.c.name),
    ),
    else_=databases.c.name,
)
"""The namespace that the folders of a table belong to, as :attr:`Table.namespace` has it."""


def _folders_of(database: ColumnElement[bool], namespace: ColumnElement[bool]) -> list[Select[Any]]:
    """Return queries for the folders of tables, copies, partitions and databases of namespaces, with their kinds.

    ``database`` is the condition on the database of an object, ``namespace`` that on the namespace of a table.
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
"""The namespaces other than ``own`` with a folder of ``cluster`` that is, holds or lies in one that is :func:`beside`
``location``, besides the folders of table ``but_id``."""

_OF_ONE = union_all(*_folders_of(databases.c.name == _NAMESPACE, NAMESPACE_OF_TABLE == _NAMESPACE)).subquery()
OWNER_AT = select(_OF_ONE.c.database, _OF_ONE.c.table, _OF_ONE.c.kind).limit(1)
"""The owner of such a folder in one ``namespace``: a database, or a table or view and the kind of the folder."""
