"""The rows of databases. Functions here take part in the caller's database transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, String, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from airflow_hivex.core.catalog.closed_namespaces import check_folder
from airflow_hivex.core.catalog.folders import beside, overlaps
from airflow_hivex.core.errors import AlreadyExistsError, InvalidOperationError, NoSuchDatabaseError
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, check_name, check_owner, normalise
from airflow_hivex.core.model.objects import TEMPORARY_DATABASE, Database
from airflow_hivex.core.model.predicates import name_expression
from airflow_hivex.core.model.table_properties import check_spelling
from airflow_hivex.core.store.exchange import Call, Prepared, later
from airflow_hivex.core.store.schema import cluster_storage_descriptors, databases, functions, links, quotas, tables

_OF_NAME = select(databases).where(databases.c.name == bindparam("name", type_=String))


_FIND = Prepared(_OF_NAME)


def database_at(connection: Connection, location: str) -> str | None:
    """Return the name of a database whose folder overlaps a location, or None if there is no such database."""
    query = select(databases.c.name).where(overlaps(databases.c.location)).limit(1)
    return connection.execute(query, beside(location)).scalar_one_or_none()


def finding(name: str) -> Call:
    """Return a query that reads the row of a database. The result is empty if the database does not exist."""
    return _FIND(name=normalise(name))


def insert_database(connection: Connection, database: Database, now_ms: int) -> str:
    """Add a database and return its stored name.

    Raises:
        AlreadyExistsError: a database of that name exists.
        InvalidObjectError: the name is not a valid name.
    """
    name = check_name("database", database.name)
    check_spelling("database", name, database.parameters)
    location = database.location or f"{name}.db"
    values = {
        "name": name,
        "location": location,
        "description": database.description,
        "owner": check_owner(database.owner),
        "parameters": dict(database.parameters),
        "created_ms": now_ms,
    }
    try:
        with connection.begin_nested():
            connection.execute(insert(databases).values(**values))
    except IntegrityError as error:
        raise AlreadyExistsError("database", name) from error
    check_database_folder(connection, name, location)
    return name


def check_database_folder(connection: Connection, name: str, location: str) -> None:
    """Refuse a folder for a database if it overlaps a folder of another namespace on any cluster.

    The folder is refused only if at least one of the two namespaces is closed.

    Raises:
        InvalidObjectError: the folder belongs to another namespace.
    """
    clusters = select(tables.c.primary_cluster).union(select(cluster_storage_descriptors.c.cluster))
    for cluster in sorted({*connection.execute(clusters).scalars(), ""}):
        check_folder(connection, name, cluster, location, "database", name)


def select_database(connection: Connection, name: str) -> Row[Any]:
    """Return the row of a database.

    Raises:
        NoSuchDatabaseError: the database does not exist.
    """
    row = connection.execute(_OF_NAME, {"name": normalise(name)}).one_or_none()
    if row is None:
        raise NoSuchDatabaseError(normalise(name))
    return row


def select_database_for_change(connection: Connection, name: str) -> Row[Any]:
    """Return the row of a database, and lock it until the caller's database transaction ends.

    Raises:
        NoSuchDatabaseError: the database does not exist.
    """
    row = connection.execute(_OF_NAME.with_for_update(key_share=True), {"name": normalise(name)}).one_or_none()
    if row is None:
        raise NoSuchDatabaseError(normalise(name))
    return row


def select_database_names(connection: Connection, pattern: str | None) -> list[str]:
    """Return the sorted names of the databases that match a pattern of Hive (``*`` and ``|``)."""
    names = connection.execute(select(databases.c.name)).scalars().all()
    return matching(names, pattern)


def update_database(connection: Connection, name: str, database: Database) -> None:
    """Store the description, owner, location and parameters of a database."""
    row = select_database(connection, name)
    check_spelling("database", row.name, database.parameters, row.parameters)
    if database.location and database.location != row.location:
        check_database_folder(connection, row.name, database.location)
    later(
        connection,
        update(databases)
        .where(databases.c.id == row.id)
        .values(
            location=database.location or row.location,
            description=database.description,
            owner=check_owner(database.owner),
            parameters=dict(database.parameters),
        ),
    )


def delete_database(connection: Connection, name: str) -> None:
    """Remove a database that has no tables, functions or links.

    Raises:
        InvalidOperationError: the database is the default one, or has tables, functions or links.
    """
    row = select_database(connection, name)
    if row.name == DEFAULT_DATABASE:
        raise InvalidOperationError("DROP DATABASE", row.name, "the default database cannot be dropped")
    if row.name == TEMPORARY_DATABASE:
        raise InvalidOperationError("DROP DATABASE", row.name, "it has the temporary tables of all sessions")
    lock_for_drop(connection, row.id)
    left = connection.execute(
        select(func.count()).select_from(tables).where(tables.c.database_id == row.id, ~tables.c.dropped)
    ).scalar_one()
    if left:
        raise InvalidOperationError("DROP DATABASE", row.name, f"it has {left} tables; use CASCADE to drop them too")
    count = select(func.count()).select_from(links).where(links.c.database_id == row.id)
    linked = connection.execute(count).scalar_one()
    if linked:
        raise InvalidOperationError("DROP DATABASE", row.name, f"it has {linked} links; use CASCADE to drop them too")
    of_database = select(func.count()).select_from(functions).where(functions.c.database_id == row.id)
    kept = connection.execute(of_database).scalar_one()
    if kept:
        reason = f"it has {kept} functions; use CASCADE to drop them too"
        raise InvalidOperationError("DROP DATABASE", row.name, reason)
    later(connection, delete(quotas).where(quotas.c.database_id == row.id))
    # Tables that were dropped, but whose files are not all gone, move to the default database.
    default_id = select(databases.c.id).where(databases.c.name == DEFAULT_DATABASE).scalar_subquery()
    later(connection, update(tables).where(tables.c.database_id == row.id).values(database_id=default_id))
    later(connection, delete(databases).where(databases.c.id == row.id))


def lock_for_drop(connection: Connection, database_id: int) -> None:
    """Lock a database so that no transaction adds objects to it. Wait for transactions that are adding objects now.

    The lock ends with the caller's database transaction.
    """
    connection.execute(select(databases.c.id).where(databases.c.id == database_id).with_for_update()).all()


def matching(names: Sequence[str], pattern: str | None) -> list[str]:
    """Return the sorted names that match a pattern of SHOW. The pattern None matches all names."""
    if pattern is None:
        return sorted(names)
    expression = name_expression(pattern)
    return sorted(name for name in names if expression.fullmatch(name))
