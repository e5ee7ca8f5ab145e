"""Small INSERT ... VALUES without Spark, in milliseconds. Spark would write the same directories and files.

Source: docs/reference/spark.md, "Inserts".
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from airflow_hivex.core.errors import JobError, StorageError
from airflow_hivex.core.job import bucketing, layout
from airflow_hivex.core.job.conversions import check_types, stored_column
from airflow_hivex.core.job.new_directories import NewDirectories, PartitionValues
from airflow_hivex.core.job.orc_tail import nest
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import JobResult, Write
from airflow_hivex.core.model.row_ids import encode_bucket

_PARTITION_FAMILIES = (Family.WHOLE, Family.DECIMAL, Family.TEXT, Family.BOOLEAN)

# Spark records its own type in a file if ORC's type is less exact.
_SPARK_TYPE = "spark.sql.catalyst.type"
_NOTED_TYPES = {"string": "string", "varchar": "string", "char": "string", "timestamp": "timestamp"}

_TIMESTAMP_NTZ = Primitive("timestamp_ntz")


@dataclass(frozen=True, slots=True)
class _File:
    partition: str | None
    values: PartitionValues
    bucket: int
    rows: int
    data: pa.Buffer


def write_rows(write: Write, rows: Sequence[Sequence[Literal]]) -> JobResult | None:
    """Write the constants of a VALUES list; return the new directories, or None if Spark must run the INSERT.

    The result is None if this module cannot write the type of a column, or if the value that Spark would store is not
    certain, for example because a number overflows. Then nothing is written.

    Raises:
        ColumnCountMismatchError: a row has more or fewer values than the write has columns.
        TypeMismatchError: a column needs an explicit CAST, or a text is not a valid value of its type.
        StorageError: the files cannot be written.
    """
    if write.layout == layout.PLAIN:
        return None
    given: tuple[Column, ...] = ()
    for count in {len(row) for row in rows}:
        given = layout.given_columns(write, count)
    values: dict[str, list[Any]] = {}
    uncertain = not rows
    # As in Spark, a wrong type is an error, whatever the other columns and their texts are.
    for i, column in enumerate(given):
        check_types([row[i] for row in rows], column, write.table, casts=write.casts)
    for i, column in enumerate(given):
        stored = stored_column([row[i] for row in rows], column, write.table, casts=write.casts)
        uncertain = uncertain or stored is None
        values[column.name.lower()] = stored or []
    if uncertain or _needs_spark(write, values):
        return None
    files = _files(write, values, len(rows))
    if files is None:
        return None
    made = NewDirectories(write)
    began = time.monotonic()
    try:
        for file in files:
            target = made.directory(file.partition, file.values) / layout.file_name(write, file.bucket)
            made.count(file.partition, file.rows, _put(write, file.data, target))
    except BaseException as error:
        made.discard()
        if isinstance(error, (OSError, pa.ArrowException, JobError)):
            reason = error.facts[1] if isinstance(error, JobError) else place(write.path).describe(error, began)
            raise StorageError(write.path, f"{reason}. Nothing was written to {write.table}") from error
        raise
    return JobResult(directories=made.written)


def _needs_spark(write: Write, values: dict[str, list[Any]]) -> bool:
    """Return whether Spark has to compute a default value or check a constraint."""
    missing_default = any(name not in values and name not in layout.static_values(write) for name in write.defaults)
    static = layout.static_values(write)
    has_null = any(
        static[name] is None if name in static else name not in values or None in values[name]
        for name in write.not_null
    )
    return missing_default or has_null or bool(write.checks)


class _InMemory:
    """A file system with one file, whose content is a buffer."""

    def __init__(self, data: pa.Buffer) -> None:
        self._data = data

    def open_input_file(self, path: str) -> Any:  # noqa: ARG002 - there is no other
        return pa.BufferReader(self._data)


def _put(write: Write, data: pa.Buffer, target: Place) -> int:
    """Write a file in the write's row layout; return its size in bytes."""
    if write.layout == layout.HIVE:
        return nest(Place(_InMemory(data), target.path), target)
    return target.write(data)


def _files(write: Write, values: dict[str, list[Any]], count: int) -> list[_File] | None:
    """Return the files of all partitions and buckets, still in memory, or None if Spark must write them."""
    sorted_by = {column.name.lower() for column in write.sort_columns}
    if any(column.name.lower() in sorted_by and _is_floating(column) for column in write.columns):
        # Spark sorts NaN differently.
        return None
    columns = []
    for column in write.columns:
        arrow_type = arrow_type_of(column.parsed_type)
        if arrow_type is None:
            return None
        try:
            array = pa.array(values.get(column.name.lower(), [None] * count), arrow_type)
        except (pa.ArrowInvalid, UnicodeEncodeError):
            # Text that is not Unicode, such as half a surrogate pair.
            return None
        columns.append(_as_stored(array, column))
    partitions = _partitions(write, values, count)
    if partitions is None:
        return None
    table = pa.table(columns, schema=_schema(write))
    buckets = _buckets(write, table)
    # Row ids continue from one partition to the next: a delete event names a row within the whole table.
    numbered: dict[int, int] = defaultdict(int)
    files = []
    for (partition, texts), rows in partitions.items():
        for bucket in np.unique(buckets[rows]).tolist():
            chosen = [row for row in rows if buckets[row] == bucket]
            part = _sorted(table.take(chosen), write)
            files.append(_File(partition, texts, bucket, len(chosen), _encode(part, bucket, write, numbered[bucket])))
            numbered[bucket] += len(chosen)
    return files


def _is_floating(column: Column) -> bool:
    return isinstance(column.parsed_type, Primitive) and column.parsed_type.family is Family.FLOATING


def _as_stored(array: pa.Array, column: Column) -> pa.Array:
    # Spark stores a time without a zone as a number of microseconds.
    return array.cast(pa.int64()) if column.parsed_type == _TIMESTAMP_NTZ else array


def _schema(write: Write) -> pa.Schema:
    fields = []
    for column in write.columns:
        declared = column.parsed_type
        arrow_type = pa.int64() if declared == _TIMESTAMP_NTZ else arrow_type_of(declared)
        noted = _NOTED_TYPES.get(declared.name) if isinstance(declared, Primitive) else None
        fields.append(pa.field(column.in_files, arrow_type, metadata={_SPARK_TYPE: noted} if noted else None))
    return pa.schema(fields)


def _partitions(
    write: Write, values: dict[str, list[Any]], count: int
) -> dict[tuple[str | None, PartitionValues], list[int]] | None:
    """Return a dict from partition to the indexes of its rows, or None if the text of a partition value is not certain.

    A text is certain if it is the same with all settings of Spark.
    """
    texts: dict[str, list[str | None]] = {}
    for column in layout.dynamic_columns(write):
        if not _has_one_text(column.parsed_type):
            return None
        texts[column.name.lower()] = [_text(value) for value in values.get(column.name.lower(), [None] * count)]
    partitions: dict[tuple[str | None, PartitionValues], list[int]] = {}
    for row in range(count):
        found = layout.partition_of(write, {name: column[row] for name, column in texts.items()})
        partitions.setdefault(found, []).append(row)
    return partitions


def _has_one_text(type: ColumnType) -> bool:
    """Return whether the text of a partition value of this type is the same with all settings of Spark."""
    return isinstance(type, Primitive) and (type.family in _PARTITION_FAMILIES or type.name == "date")


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
    return str(value)


def _buckets(write: Write, table: pa.Table) -> Any:
    if write.num_buckets <= 0:
        return np.zeros(table.num_rows, dtype=np.int32)
    positions = {column.name.lower(): i for i, column in enumerate(write.columns)}
    arrays = [table.column(positions[name.lower()]).combine_chunks() for name in write.bucket_columns]
    return bucketing.bucket_numbers(arrays, layout.bucket_types(write), write.num_buckets)


def _sorted(table: pa.Table, write: Write) -> pa.Table:
    if write.num_buckets <= 0 or not write.sort_columns:
        return table
    names = {column.name.lower(): column.in_files for column in write.columns}
    # NULL comes before all values, as in Spark and Hive.
    keys = [
        (names[column.name.lower()], *(("ascending", "at_start") if column.ascending else ("descending", "at_end")))
        for column in write.sort_columns
    ]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def _encode(table: pa.Table, bucket: int, write: Write, first_row_id: int) -> pa.Buffer:
    """Return the bytes of an ORC file of the layout ``flat``: metadata columns, then the table's columns.

    For the layout ``hive``, a placeholder column lies between the two. The caller must replace it by the struct of the
    table's columns.
    """
    count = table.num_rows
    own_id = encode_bucket(bucket, write.statement_id)
    metadata = {
        layout.OPERATION: pa.array(np.full(count, layout.INSERT_OPERATION, np.int32)),
        layout.ORIGINAL_WRITE_ID: pa.array(np.full(count, write.write_id, np.int64)),
        layout.BUCKET: pa.array(np.full(count, own_id, np.int32)),
        layout.ROW_ID: pa.array(np.arange(first_row_id, first_row_id + count, dtype=np.int64)),
        layout.WRITE_ID: pa.array(np.full(count, write.write_id, np.int64)),
    }
    if write.layout == layout.HIVE:
        metadata[layout.ROW_PLACE] = pa.array(np.full(count, fill_value=True))
    fields = [pa.field(name, array.type) for name, array in metadata.items()]
    whole = pa.table([*metadata.values(), *table.columns], schema=pa.schema([*fields, *table.schema]))
    sink = pa.BufferOutputStream()
    compression = layout.compression(write.layout, write.options)
    orc.write_table(whole, sink, compression="uncompressed" if compression == "none" else compression)
    return sink.getvalue()


_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type_of(type: ColumnType) -> pa.DataType | None:
    """Return pyarrow's type for a primitive type in files, or None if the type is not primitive or pyarrow lacks it."""
    if not isinstance(type, Primitive):
        return None
    return pa.decimal128(*type.parameters) if type.family is Family.DECIMAL else _ARROW_TYPES.get(type.name)
