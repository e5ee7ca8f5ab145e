"""Data files of every format, as Spark's data sources read and write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from airflow_hivex.core.job import hive_text
from airflow_hivex.core.job.configuration import READ_OPTIONS
from airflow_hivex.core.model.file_properties import COMPRESSION
from airflow_hivex.core.model.objects import Column
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
"""What Spark's writers would change otherwise: blanks at both ends, and all that is less than a millisecond."""


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
