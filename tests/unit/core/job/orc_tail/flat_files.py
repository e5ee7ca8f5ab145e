"""Flat files of rows, as Spark writes them, made by pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

from airflow_hivex.core.job.orc_tail.tail import read_tail, replace_tail
from airflow_hivex.core.job.orc_tail.wire import Message
from airflow_hivex.core.job.storage import place

NAMES = ("__operation", "__original_write_id", "__bucket", "__row_id", "__write_id", "__row")
TYPES = (pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.bool_())

Key = tuple[int, int, int]


def inserts(keys: list[Key], columns: dict[str, pa.Array]) -> pa.Table:
    """Rows with these keys."""
    return _table([(0, *key, key[0], True) for key in keys], columns)


def deletes(keys: list[Key], write_id: int, columns: dict[str, pa.Array]) -> pa.Table:
    """Delete events of these keys; the columns have to be null."""
    return _table([(2, *key, write_id, None) for key in keys], columns)


def _table(rows: list[tuple[Any, ...]], columns: dict[str, pa.Array]) -> pa.Table:
    metadata = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(TYPES)]
    return pa.table([*metadata, *columns.values()], names=[*NAMES, *columns])


def write(path: Path, table: pa.Table, **options: Any) -> Path:
    """The table as an ORC file."""
    orc.write_table(table, str(path), **options)
    return path


def note(path: Path, column: int, type_name: str) -> None:
    """Give a column's type the attribute that Spark writes."""
    file = place(str(path))
    tail = read_tail(file)
    types = tail.types
    pair = Message().replaced(1, [b"spark.sql.catalyst.type"]).replaced(2, [type_name.encode()])
    types[column] = types[column].replaced(7, [pair])
    replace_tail(file, file, tail.with_types(types))
