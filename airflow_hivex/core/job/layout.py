"""The files of a write, and the columns of a full ACID file besides the user's columns.

Both writers, Spark and the writer of small VALUES lists, use the names of this module. Source:
docs/reference/directories.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_hivex.core.errors import ColumnCountMismatchError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.model import file_properties
from airflow_hivex.core.model.column_types import Primitive
from airflow_hivex.core.model.directories import base_name, delete_delta_name, delta_name
from airflow_hivex.core.model.objects import FLAT_LAYOUT, HIVE_LAYOUT, ORIGINAL_LAYOUT, PLAIN_LAYOUT, Column
from airflow_hivex.core.model.partitions import (
    DEFAULT_PARTITION,
    check_folder_name,
    check_partition_name,
    partition_name,
)
from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.model.row_ids import MAX_WRITER_ID, VERSION_SHIFT, WRITER_SHIFT

OPERATION = "__operation"
ORIGINAL_WRITE_ID = "__original_write_id"
BUCKET = "__bucket"
ROW_ID = "__row_id"
WRITE_ID = "__write_id"

METADATA_COLUMNS = (
    Column(OPERATION, "int"),
    Column(ORIGINAL_WRITE_ID, "bigint"),
    Column(BUCKET, "int"),
    Column(ROW_ID, "bigint"),
    Column(WRITE_ID, "bigint"),
)
"""The first columns of a file with the row layout ``flat``."""

HIVE_NAMES: Mapping[str, str] = {
    OPERATION: "operation",
    ORIGINAL_WRITE_ID: "originalTransaction",
    BUCKET: "bucket",
    ROW_ID: "rowId",
    WRITE_ID: "currentTransaction",
}
"""Hive's names of the metadata columns."""

HIVE_ROW = "row"
"""Hive's name of the struct that holds a row."""

ROW_ID_FIELDS = ((ORIGINAL_WRITE_ID, "writeid"), (BUCKET, "bucketid"), (ROW_ID, "rowid"))
"""Pairs of a metadata column and the field of Hive's ROW__ID for it. Source: Hive's RecordIdentifier."""

INSERT_OPERATION = 0
DELETE_OPERATION = 2

ROW_PLACE = "__row"
"""The placeholder for Hive's struct ``row``, after the metadata columns of a flat file; see ``orc_tail.nest``."""

FLAT = FLAT_LAYOUT
HIVE = HIVE_LAYOUT
"""The row layout of Hive's own files: metadata columns and one struct with the row."""
ORIGINAL = ORIGINAL_LAYOUT
PLAIN = PLAIN_LAYOUT
"""The row layout of insert-only tables: files of any format with only the table's columns."""
FULL_ACID = (FLAT, HIVE)
"""The row layouts with row ids, by which rows can be changed one by one."""
_COMPRESSION = {FLAT: "zstd", PLAIN: "zstd", HIVE: "snappy"}
"""A dict from row layout to the compression of ORC files.

Hive 3 does not support zstd. Snappy takes 1.02 times as long as zstd, and zlib 1.24 times.
"""

VERSION_FILE = "_orc_acid_version"
VERSION = b"2"

MOST_WRITERS = MAX_WRITER_ID + 1
"""The greatest number of writing tasks of one statement. Each task needs a separate bucket id."""
_HAS_NO_VERSION = f"shiftright({BUCKET}, {VERSION_SHIFT}) = 0"
WRITER = f"IF({_HAS_NO_VERSION}, {BUCKET}, shiftright({BUCKET}, {WRITER_SHIFT}) & {MOST_WRITERS - 1})"
"""Spark SQL for the number of a row's writer, from its bucket property."""


def number_of_statement(number: int) -> str:
    """Return Spark SQL for ``number``, which Spark does not write into the code that it generates for a query.

    With a plain number, Spark would generate and compile other code for each statement. For example, the result for 7
    is an item of ``array(7L)``. The rows must not be sorted after the number is computed.
    """
    return f"array({number}L)[shiftright(spark_partition_id(), 31)]"


def compression(row_layout: str, options: Mapping[str, str]) -> str:
    """Return Spark's name of the compression of an ORC file."""
    return file_properties.compression("orc", options) or _COMPRESSION[row_layout]


def directory_name(write: Write) -> str:
    """Return the name of the base or delta directory that every partition of the write gets."""
    if write.compacted is not None:
        first, last, txn_id = write.compacted
        return base_name(last, txn_id) if write.overwrite else delta_name(first, last, visibility_txn_id=txn_id)
    if write.overwrite:
        return base_name(write.write_id)
    if write.batch is not None:
        return delta_name(*write.batch)
    return delta_name(write.write_id, write.write_id, write.statement_id)


def delete_directory_name(write: Write) -> str:
    """Return the name of the delete delta directory that every partition with deleted rows gets."""
    if write.compacted is not None:
        first, last, txn_id = write.compacted
        return delete_delta_name(first, last, visibility_txn_id=txn_id)
    return delete_delta_name(write.write_id, write.write_id, write.statement_id)


def staging_name(write: Write) -> str:
    """Return the name of the hidden directory in the table's folder to which Spark writes first."""
    if write.compacted is not None:
        return compaction_staging_name(write.compacted[2])
    return f"_staging_{write.write_id}_{write.statement_id}"


def compaction_staging_name(txn_id: int) -> str:
    """Return the name of the hidden directory in the compacted folder to which a compaction writes first."""
    return f"_staging_v{txn_id}"


def bucket_file_name(bucket: int) -> str:
    """Return the name of a bucket file."""
    return f"bucket_{bucket:05d}"


def file_name(write: Write, bucket: int) -> str:
    """Return the name of a file with new rows.

    This is the name of a bucket file or, in an insert-only table, Hive's name for its files.
    """
    if write.layout == PLAIN:
        return f"{bucket:06d}_0"
    return f"{bucket_file_name(bucket)}{write.batch_suffix}"


def partition_location(write: Write, partition: str | None) -> str:
    """Return the URI of the folder with the base and delta directories of a partition."""
    return write.path if partition is None else f"{write.path.rstrip('/')}/{partition}"


def partition_of(write: Write, dynamic: Mapping[str, str | None]) -> tuple[str | None, tuple[str | None, ...]]:
    """Return a pair: the name and the values of a partition, or (None, ()) for a table without partitions.

    ``dynamic`` has the values of the dynamic partition columns, as a dict from the column's name in lower case.
    """
    if not write.partition_columns:
        return None, ()
    static = static_values(write)
    values = tuple(
        _value(static[key] if key in static else dynamic[key])
        for key in (column.name.lower() for column in write.partition_columns)
    )
    name = partition_name([column.name for column in write.partition_columns], [value or "" for value in values])
    return check_folder_name(check_partition_name(name)), values


def _value(text: str | None) -> str | None:
    # The empty string and the default partition's name both mean NULL in a partition's name.
    return None if text in (None, "", DEFAULT_PARTITION) else text


def static_values(write: Write) -> dict[str, str | None]:
    """Return a dict from lower-case key to static partition value."""
    return {name.lower(): value for name, value in write.static.items()}


def dynamic_columns(write: Write) -> tuple[Column, ...]:
    """Return the partition columns whose values come from the rows."""
    static = static_values(write)
    return tuple(column for column in write.partition_columns if column.name.lower() not in static)


def bucket_types(write: Write) -> list[str]:
    """Return the names of the types of the bucket columns."""
    types = {column.name.lower(): column.parsed_type for column in write.columns}
    # Only primitive types can be bucketed by.
    chosen = [types[name.lower()] for name in write.bucket_columns]
    return [each.name for each in chosen if isinstance(each, Primitive)]


def named_columns(write: Write, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the target columns that match a query's columns by name, in the order of the query.

    Raises:
        ColumnCountMismatchError: two columns have the same name.
        NoSuchColumnError: the table does not have a column, or the PARTITION clause gives the column a value.
        InvalidOperationError: the row layout cannot be written, or the table has too many buckets.
    """
    return given_columns(replace(write, input_columns=tuple(names)), len(names))


def given_columns(write: Write, count: int) -> tuple[Column, ...]:
    """Return the target columns of the ``count`` values of an input row, in the order of the row.

    Raises:
        ColumnCountMismatchError: the row has more or fewer values.
        NoSuchColumnError: the column list names a column that does not exist.
        InvalidOperationError: the row layout cannot be written, or the table has too many buckets.
    """
    if write.layout not in (*FULL_ACID, PLAIN):
        raise InvalidOperationError("INSERT", write.table, f"rows of layout {write.layout!r} are not written")
    if write.num_buckets > MOST_WRITERS:
        raise InvalidOperationError("INSERT", write.table, f"it has more than {MOST_WRITERS} buckets")
    takes = (*write.columns, *dynamic_columns(write))
    chosen: Sequence[Column] = takes
    if write.input_columns:
        by_name = {column.name.lower(): column for column in takes}
        for name in write.input_columns:
            if name.lower() not in by_name:
                raise NoSuchColumnError(write.table, name, [column.name for column in takes])
        chosen = [by_name[name.lower()] for name in write.input_columns]
    names = [column.name for column in chosen]
    if len(chosen) != count or len({name.lower() for name in names}) != len(names):
        raise ColumnCountMismatchError(write.table, len({name.lower() for name in names}), count, names)
    return tuple(chosen)
