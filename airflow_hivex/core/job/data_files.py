"""Data files of every format and row layout, read and written by Spark's data sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from airflow_hivex.core.errors import FolderExpectedError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import hive_text, local_times
from airflow_hivex.core.job.assignment import field
from airflow_hivex.core.job.configuration import OWN_FILES_OPTIONS, READ_OPTIONS
from airflow_hivex.core.job.layout import HIVE_NAMES, METADATA_COLUMNS
from airflow_hivex.core.job.layout import HIVE_ROW as _ROW
from airflow_hivex.core.model.file_properties import COMPRESSION, TEXTFILE, text_format
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION

_EXACT_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
_WRITE_OPTIONS = {
    "csv": {**_EXACT_TIMES, "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    "json": _EXACT_TIMES,
}
"""The options with which Spark's writers keep leading and trailing blanks of texts, and microseconds of timestamps."""


def source(spark: SparkSession, format: str) -> DataFrameReader:
    """Return a reader with Spark's data source for a file format."""
    return spark.read.format("text" if format == TEXTFILE else format)


def reader(
    spark: SparkSession,
    format: str,
    options: Mapping[str, str],
    columns: Sequence[StructField],
    keys: Sequence[StructField] = (),
) -> DataFrameReader:
    """Return a reader of files with ``columns`` below directories of the partition columns ``keys``.

    Pass the loaded rows to :func:`rows_of`.
    """
    if format == TEXTFILE:
        line = StructField(hive_text.LINE, StringType())
        return source(spark, format).options(**READ_OPTIONS).schema(StructType([line, *keys]))
    return source(spark, format).options(**{**READ_OPTIONS, **options}).schema(StructType([*columns, *keys]))


def rows_of(
    loaded: DataFrame, format: str, options: Mapping[str, str], columns: Sequence[Column], keys: Sequence[Column] = ()
) -> DataFrame:
    """Return the rows from data that :func:`reader` has loaded."""
    return hive_text.rows_of(loaded, columns, keys, text_format(options)) if format == TEXTFILE else loaded


def writer(
    rows: DataFrame, format: str, options: Mapping[str, str], columns: Sequence[Column], keys: Sequence[str]
) -> DataFrameWriter:
    """Return a writer of rows with ``columns``, partitioned by ``keys``."""
    if format == TEXTFILE:
        compression = {name: value for name, value in options.items() if name.lower() == COMPRESSION}
        return hive_text.lines_of(rows, columns, keys, text_format(options)).write.format("text").options(**compression)
    given = {name.lower() for name in options}
    exact = {name: value for name, value in _WRITE_OPTIONS.get(format, {}).items() if name.lower() not in given}
    return rows.write.format(format).options(**{**READ_OPTIONS, **exact, **options})


_SEPARATOR = "\0"
"""A separator of paths: a character that no path has."""
_NO_FOLDER = "'basePath' must be a directory"


@contextmanager
def below(folder: str) -> Iterator[None]:
    """Translate Spark's error if the block loads files below a path that is not a folder.

    Raises:
        FolderExpectedError: the path is a file.
    """
    try:
        yield
    except IllegalArgumentException as error:
        if _NO_FOLDER not in str(error):
            raise
        raise FolderExpectedError(folder) from error


def load(reader: Any, paths: Sequence[str]) -> DataFrame:
    """Return a DataFrame of the files below ``paths``.

    The paths are checked at once, also with Spark Connect.

    Raises:
        AnalysisException: as ``DataFrameReader.load``.
    """
    classic = getattr(reader, "_jreader", None)
    if classic is None or len(paths) == 1:
        frame: DataFrame = reader.load(list(paths))
        if classic is None:
            _ = frame.schema
        return frame
    split = getattr(reader._spark._jvm, "java.util.regex.Pattern").compile(_SEPARATOR).split
    loaded: DataFrame = reader._df(classic.load(split(_SEPARATOR.join(paths))))
    return loaded


WITH_NAMES = ("avro", "orc", "parquet")
"""Formats whose files have the names and types of columns."""
_SPECIAL = re.compile(r"([\\*?\[\]{},^])")


# Always true. Spark's optimizer simplifies simpler forms, and then leaves columns out.
_READS_ALL = f"coalesce({', '.join(HIVE_NAMES.values())}, if({_ROW} is null, null, 0)) IS NOT NULL"


def load_nested(
    spark: SparkSession, paths: Sequence[str], columns: Sequence[Column], keys: Sequence[Column] = ()
) -> DataFrame:
    """Return all rows of the files below ``paths``, which have the row layout ``hive``, in the columns of flat files.

    ORC recognises such a file by its six root columns, and then replaces the schema that was requested from its reader.
    So every scan must read all six columns, and must not have partition columns. Filters on root columns must not be
    pushed down to ORC, which would look for these columns among the user's columns. Source: docs/reference/spark.md;
    ORC's SchemaEvolution.

    The result has the metadata columns of a flat file, ``columns`` under their names in files, then ``keys``. The
    values of the partition keys are texts from the paths, ``.../key=value/delta_.../bucket_...``.
    """
    declared = StructType([field(replace(column, name=column.in_files)) for column in columns])
    stored = local_times.as_stored(declared)
    metadata = [field(replace(column, name=HIVE_NAMES[column.name])) for column in METADATA_COLUMNS]
    reader = (
        spark.read.format("orc")
        .schema(StructType([*metadata, StructField(_ROW, stored)]))
        .option("__globPaths__", "false")
        # Nothing in a path becomes a column.
        .option("recursiveFileLookup", "true")
        .options(**OWN_FILES_OPTIONS)
    )
    rows = load(reader, paths)
    # Filters on an expression are not pushed down, and the values are never NULL.
    ids = [
        F.expr(f"coalesce({HIVE_NAMES[column.name]}, CAST(0 AS {column.type}))").alias(column.name)
        for column in METADATA_COLUMNS
    ]
    row = _row(stored)
    values = [
        local_times.restore(row.getField(item.name), item.dataType).alias(item.name, metadata=item.metadata or None)
        for item in declared.fields
    ]
    return rows.where(F.expr(_READS_ALL)).select(*ids, *values, *_partition_texts(keys))


def _row(fields: StructType) -> Expression:
    if all(item.name.lower() != _ROW for item in fields.fields):
        return F.col(_ROW)
    # ORC would take a filter on a field of the row, or on the row itself, for a filter on the user's column of this
    # name. This form keeps all filters from ORC, at the price that all fields are read.
    nothing = F.struct(*(F.lit(None).cast(item.dataType).alias(item.name) for item in fields.fields))
    return F.coalesce(F.col(_ROW), nothing)


def _partition_texts(keys: Sequence[Column]) -> list[Expression]:
    return [_partition_text(len(keys) - at).alias(key.name) for at, key in enumerate(keys)]


def _partition_text(from_last: int) -> Expression:
    # The path is a URI; within it, Hive escapes a value in a way that URIs know, too. The value is computed for each
    # row, so rare cases must cost little.
    folder = f"substring_index(substring_index(_metadata.file_path, '/', -{from_last + 2}), '/', 1)"
    value = f"substring({folder}, instr({folder}, '=') + 1)"
    decoded = value
    for _ in range(2):
        # The character for a space in URLs means itself in a URI.
        decoded = f"url_decode(replace({decoded}, '+', '%2B'))"
    return F.expr(f"nullif(if(contains({value}, '%'), {decoded}, {value}), '{DEFAULT_PARTITION}')")
