"""Data files of every format, as Spark's data sources read and write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from airflow_hivex.core.errors import FolderExpectedError
from airflow_hivex.core.job import hive_text
from airflow_hivex.core.job.assignment import field, quoted
from airflow_hivex.core.job.configuration import READ_OPTIONS
from airflow_hivex.core.model.file_properties import COMPRESSION
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import LoadedFiles
from airflow_hivex.core.model.text_files import TEXTFILE, text_format

_EXACT_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
_WRITE_OPTIONS = {
    "csv": {**_EXACT_TIMES, "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
    "json": _EXACT_TIMES,
}
"""The options with which Spark's writers keep blanks at both ends of texts, and parts of a millisecond."""


def source(spark: SparkSession, format: str) -> DataFrameReader:
    """Return a reader of the data source by which Spark reads a format."""
    return spark.read.format("text" if format == TEXTFILE else format)


def reader(
    spark: SparkSession,
    format: str,
    options: Mapping[str, str],
    columns: Sequence[StructField],
    keys: Sequence[StructField] = (),
) -> DataFrameReader:
    """Return a reader of files with ``columns`` below directories of the partition columns ``keys``.

    What it loads goes through :func:`rows_of`.
    """
    if format == TEXTFILE:
        line = StructField(hive_text.LINE, StringType())
        return source(spark, format).options(**READ_OPTIONS).schema(StructType([line, *keys]))
    return source(spark, format).options(**{**READ_OPTIONS, **options}).schema(StructType([*columns, *keys]))


def rows_of(
    loaded: DataFrame, format: str, options: Mapping[str, str], columns: Sequence[Column], keys: Sequence[Column] = ()
) -> DataFrame:
    """Return the rows of what a reader has loaded."""
    return hive_text.rows_of(loaded, columns, keys, text_format(options)) if format == TEXTFILE else loaded


def writer(
    rows: DataFrame, format: str, options: Mapping[str, str], columns: Sequence[Column], keys: Sequence[str]
) -> DataFrameWriter:
    """Return a writer of rows with ``columns``, which are parted by ``keys``."""
    if format == TEXTFILE:
        compression = {name: value for name, value in options.items() if name.lower() == COMPRESSION}
        return hive_text.lines_of(rows, columns, keys, text_format(options)).write.format("text").options(**compression)
    given = {name.lower() for name in options}
    exact = {name: value for name, value in _WRITE_OPTIONS.get(format, {}).items() if name.lower() not in given}
    return rows.write.format(format).options(**{**READ_OPTIONS, **exact, **options})


_SEPARATOR = "\0"
"""No path has it."""
_NO_FOLDER = "'basePath' must be a directory"


@contextmanager
def below(folder: str) -> Iterator[None]:
    """Load files below a folder in the block.

    Raises:
        FolderExpectedError: it is a file.
    """
    try:
        yield
    except IllegalArgumentException as error:
        if _NO_FOLDER not in str(error):
            raise
        raise FolderExpectedError(folder) from error


def load(reader: Any, paths: Sequence[str]) -> DataFrame:
    """Return a reader of the files below ``paths``.

    Classic PySpark calls the JVM once for each of a list's items; as one text, ten thousand of them cost as little as
    ten. Spark Connect would look for the paths only when the reader is used, so its schema is asked for.

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


_WITH_NAMES = ("avro", "orc", "parquet")
"""Formats whose files have the names and types of their columns."""
_SPECIAL = re.compile(r"([\\*?\[\]{},^])")


def register(spark: SparkSession, loaded: LoadedFiles) -> str:
    """Make the rows of the files readable under the name of their view, and return it."""
    rows = _described(spark, loaded) if loaded.format in _WITH_NAMES else _undescribed(spark, loaded)
    rows.createOrReplaceTempView(loaded.view)
    return loaded.view


def _described(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    """Return rows with the columns of the files: in the table's order if they have its names, else in their own."""
    # All files are asked for their columns: a file with more columns than the first one loses none.
    reader = source(spark, loaded.format).options(**READ_OPTIONS, mergeSchema="true")
    rows = _load(reader, loaded.paths)
    names = [column.name for column in loaded.columns]
    if sorted(name.lower() for name in rows.columns) == sorted(name.lower() for name in names):
        return rows.select(*map(quoted, names))
    return rows


def _undescribed(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    fields = [field(column) for column in loaded.columns]
    undescribed = reader(spark, loaded.format, loaded.options, fields)
    return rows_of(_load(undescribed, loaded.paths), loaded.format, loaded.options, loaded.columns)


def _load(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files, whose names may have characters of patterns.

    Without patterns Spark reads one of several such files twice. It logs an error for a single pattern, which it looks
    for as a file first.
    """
    if len(paths) == 1:
        return load(reader.option("__globPaths__", "false"), paths)
    return load(reader, [_SPECIAL.sub(r"\\\1", path) for path in paths])
