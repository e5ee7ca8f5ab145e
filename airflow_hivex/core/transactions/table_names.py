"""The ids of tables by their names. Functions here read in the caller's connection."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, bindparam, select

from airflow_hivex.core.errors import NoSuchDatabaseError, NoSuchTableError
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE, normalise
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import TableMark
from airflow_hivex.core.store.schema import databases, tables

_TABLE_IDS = (
    select(databases.c.name, tables.c.name, tables.c.id, tables.c.version)
    .join(databases, databases.c.id == tables.c.database_id)
    .where(
        databases.c.name.in_(bindparam("databases", expanding=True)),
        tables.c.name.in_(bindparam("tables", expanding=True)),
        ~tables.c.dropped,
    )
)


def read_table_id(connection: Connection, database: str, table: str) -> int:
    """Return the id of a table. One round trip.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: it does not exist.
    """
    return read_table_ids(connection, [(database, table)])[normalise(database), normalise(table)]


def read_table_ids(connection: Connection, names: Iterable[QualifiedName]) -> dict[QualifiedName, int]:
    """Return the ids of tables by their normalised names. One round trip.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: one of them does not exist.
    """
    return {name: mark.id for name, mark in read_table_marks(connection, names).items()}


def read_table_marks(connection: Connection, names: Iterable[QualifiedName]) -> dict[QualifiedName, TableMark]:
    """Return the ids and versions of tables by their normalised names. One round trip.

    Raises:
        NoSuchDatabaseError, NoSuchTableError: one of them does not exist.
    """
    wanted = dict.fromkeys((normalise(database), normalise(table)) for database, table in names)
    rows = connection.execute(
        _TABLE_IDS,
        {"databases": sorted({database for database, _ in wanted}), "tables": sorted({name for _, name in wanted})},
    )
    found = {(database, table): TableMark(int(id_), version) for database, table, id_, version in rows}
    for database, table in wanted.keys() - found.keys():
        existing = select(databases.c.id).where(databases.c.name == database)
        if connection.execute(existing).one_or_none() is None:
            raise NoSuchDatabaseError(database)
        raise NoSuchTableError(database, table)
    return {name: found[name] for name in wanted}


def split_name(name: str) -> QualifiedName:
    """Return the database and the table of ``database.table``; a name alone is of the default database."""
    database, _, table = name.rpartition(".")
    return database or DEFAULT_DATABASE, table
