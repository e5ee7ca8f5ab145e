"""INSERT ... ON CONFLICT, which SQLite and PostgreSQL have both."""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_into(connection: Connection, table: Table) -> postgresql.Insert:
    """Return an INSERT for the database of a connection, to which ON CONFLICT can be added."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    # Both classes have the same methods.
    return cast("postgresql.Insert", sqlite.insert(table))
