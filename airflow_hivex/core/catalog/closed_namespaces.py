"""Closed namespaces, which use tables of other namespaces only through links, and the rules for their tables.

Functions here take part in the caller's database transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, select

from airflow_hivex.core.catalog import folders
from airflow_hivex.core.errors import ForeignNameError, InvalidObjectError, NoSuchDatabaseError
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.settings import NAMESPACE_MODE
from airflow_hivex.core.store.schema import counters, databases

_SHARED = select(counters.c.value).where(counters.c.name == NAMESPACE_MODE).scalar_subquery()


def closed_namespaces(connection: Connection, names: Iterable[str]) -> frozenset[str]:
    """Return the closed namespaces among ``names``. One round trip.

    The property ``hivex.namespace.mode`` of the database decides. A database without this property follows the common
    setting of all clients.
    """
    query = select(databases.c.name, databases.c.parameters, _SHARED).where(databases.c.name.in_(sorted({*names})))
    return frozenset(row.name for row in connection.execute(query) if _is_closed(row.parameters, row[2]))


def is_closed(connection: Connection, name: str) -> bool:
    """Return whether a namespace is closed. One round trip.

    Raises:
        NoSuchDatabaseError: the namespace does not exist.
    """
    query = select(databases.c.parameters, _SHARED).where(databases.c.name == normalise(name))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NoSuchDatabaseError(normalise(name))
    return _is_closed(row.parameters, row[1])


def check_parents(connection: Connection, namespace: str, table: Table) -> None:
    """Refuse a table in a closed namespace if one of its foreign keys references a table of another namespace.

    The check takes one round trip if there is such a foreign key, otherwise none.

    Raises:
        ForeignNameError: the namespace is closed, and a key references a table of another namespace.
    """
    parents = (key.parent for key in Constraints.of(table.parameters).keys.values() if key.parent is not None)
    foreign = sorted(parent for parent in parents if parent[0] != namespace)
    if foreign and is_closed(connection, namespace):
        advice = f"A foreign key of table {namespace}.{table.name} references it; reference a table of {namespace}."
        raise ForeignNameError(".".join(foreign[0]), namespace, None, None, advice, None)


def check_folder(
    connection: Connection, namespace: str, cluster: str, location: str, kind: str, name: str, table_id: int = 0
) -> None:
    """Refuse a folder that overlaps a folder of another namespace, if at least one of the two namespaces is closed.

    ``table_id`` is the table that gets the folder. If two transactions choose folders at the same time, the second one
    waits for the first one. The check takes two round trips if no folder of another namespace overlaps the folder.

    Raises:
        InvalidObjectError: the folder belongs to another namespace.
    """
    folders.hold_folders(connection)
    owner = foreign_owner(connection, namespace, cluster, location, table_id)
    if owner is not None:
        reason = (
            f"location {location} is not apart from that of {owner}, and a folder belongs to one namespace where "
            f"namespaces are closed ({NAMESPACE_MODE})"
        )
        raise InvalidObjectError(kind, name, f"{reason}; give it another one")


def foreign_owner(
    connection: Connection,
    namespace: str,
    cluster: str,
    location: str,
    table_id: int = 0,
    *,
    closed: Collection[str] | None = None,
) -> str | None:
    """Return the table or database because of which :func:`check_folder` refuses a folder, or None if it does not.

    ``closed`` are the closed namespaces, if the caller has read them.
    """
    found = _others_at(connection, namespace, cluster, location, table_id)
    if not found:
        return None
    if closed is None:
        closed = closed_namespaces(connection, {namespace, *found})
    return next((found[other] for other in sorted(found) if namespace in closed or other in closed), None)


def foreign_owners(connection: Connection, namespace: str, cluster: str, location: str) -> list[str]:
    """Return the owners of folders in other namespaces that overlap the location, one owner for each namespace.

    Closed and open namespaces count. The result is sorted.
    """
    return sorted(_others_at(connection, namespace, cluster, location, 0).values())


def _others_at(connection: Connection, namespace: str, cluster: str, location: str, table_id: int) -> dict[str, str]:
    values = {
        "cluster": cluster,
        "own": namespace,
        "but_id": table_id,
        "location": location,
        **folders.beside(location),
    }
    found = {}
    for other in connection.execute(folders.NAMESPACES_AT, values).scalars():
        owner = connection.execute(folders.OWNER_AT, {**values, "namespace": other}).one_or_none()
        if owner is not None:
            found[other] = f"{owner.kind} {owner.database}" + ("" if owner.table is None else f".{owner.table}")
    return found


def _is_closed(parameters: dict[str, str], shared: int | None) -> bool:
    own = parameters.get(NAMESPACE_MODE)
    return bool(shared) if own is None else own.lower() == "true"
