"""A backup of a metastore's database, and its restore while processes are connected, on both databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, text

from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import metadata


@dataclass(frozen=True)
class Backup:
    """The rows of all tables, and the last ids that their sequences have given."""

    rows: Mapping[Table, Sequence[Mapping[str, Any]]]
    sequences: Mapping[str, int]


def back_up(store: Store) -> Backup:
    """Read all rows at one moment."""

    def work(connection: Connection) -> Backup:
        rows = {
            table: [dict(row._mapping) for row in connection.execute(select(table))] for table in metadata.sorted_tables
        }
        return Backup(rows, _sequences(connection))

    return store.write(work, name="back up")


def restore(store: Store, backup: Backup) -> None:
    """Replace all rows by those of a backup; ids are given from there again."""

    def work(connection: Connection) -> None:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))
        for table in metadata.sorted_tables:
            if backup.rows[table]:
                connection.execute(insert(table), list(backup.rows[table]))
        _set_sequences(connection, backup.sequences)

    store.write(work, name="restore")


def _sequences(connection: Connection) -> dict[str, int]:
    if connection.dialect.name == "sqlite":
        names = connection.execute(text("SELECT name, seq FROM sqlite_sequence")).all()
    else:
        names = connection.execute(text("SELECT schemaname || '.' || sequencename, last_value FROM pg_sequences")).all()
    return {name: number or 0 for name, number in names}


def _set_sequences(connection: Connection, numbers: Mapping[str, int]) -> None:
    if connection.dialect.name == "sqlite":
        connection.execute(text("DELETE FROM sqlite_sequence"))
        for name, number in numbers.items():
            connection.execute(
                text("INSERT INTO sqlite_sequence VALUES (:name, :number)"), {"name": name, "number": number}
            )
        return
    for name, number in numbers.items():
        connection.execute(select(func.setval(name, max(number, 1), number > 0)))
