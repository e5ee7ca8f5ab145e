"""The files that COPY INTO has loaded into tables: one row for each file of a table, with the file's last load.

The rows are stored by the commit of the loaded rows, and removed with the table. Functions here take part in the
caller's database transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from airflow_hivex.core.model.loads import LoadedFile
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import loaded_files

_F = loaded_files.c
_MOST_ROWS = 1_000
"""The greatest number of rows in one INSERT. SQLite limits the number of values in a statement."""


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """A loaded file with its last load: the transaction, the number of rows of all its files, and the time."""

    file: LoadedFile
    txn_id: int
    rows_of_load: int
    loaded_ms: int


def find(connection: Connection, table_id: int, keys: Sequence[str]) -> Mapping[str, LoadedFile]:
    """Return the files that a table has loaded, as a dict from key, for those of ``keys``. One round trip per batch."""
    query = select(loaded_files).where(_F.table_id == table_id)
    return {
        row.path_key: _file(row)
        for batch in batches(keys)
        for row in connection.execute(query.where(_F.path_key.in_(batch)))
    }


def record(
    connection: Connection, table_id: int, txn_id: int, files: Sequence[LoadedFile], rows: int, now_ms: int
) -> None:
    """Record that a transaction has loaded files into a table, with ``rows`` rows in all. A later load replaces a row.

    The caller holds the lock of COPY INTO on the table, so no other transaction records the same file meanwhile.
    """
    for batch in batches(files, _MOST_ROWS):
        later(connection, delete(loaded_files).where(_F.table_id == table_id, _F.path_key.in_([f.key for f in batch])))
        values = [
            {
                "table_id": table_id,
                "path_key": each.key,
                "path": each.path,
                "size_bytes": each.size_bytes,
                "changed": each.changed,
                "checksum": each.checksum,
                "txn_id": txn_id,
                "rows_of_load": rows,
                "loaded_ms": now_ms,
            }
            for each in batch
        ]
        later(connection, insert(loaded_files).values(values))


def history(connection: Connection, table_id: int, limit: int | None) -> list[RecordedLoad]:
    """Return the loaded files of a table, the last loaded first, at most ``limit`` of them. One round trip."""
    query = select(loaded_files).where(_F.table_id == table_id).order_by(_F.txn_id.desc(), _F.path).limit(limit)
    return [RecordedLoad(_file(row), row.txn_id, row.rows_of_load, row.loaded_ms) for row in connection.execute(query)]


def _file(row: Any) -> LoadedFile:
    return LoadedFile(row.path, row.size_bytes, row.changed, row.checksum)
