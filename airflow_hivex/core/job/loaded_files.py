"""The files of LOAD DATA as rows of their table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from airflow_hivex.core.job import data_files, loading
from airflow_hivex.core.job.assignment import field, quoted
from airflow_hivex.core.job.configuration import READ_OPTIONS
from airflow_hivex.core.model.plans import LoadedFiles

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
    reader = data_files.source(spark, loaded.format).options(**READ_OPTIONS, mergeSchema="true")
    rows = _load(reader, loaded.paths)
    names = [column.name for column in loaded.columns]
    if sorted(name.lower() for name in rows.columns) == sorted(name.lower() for name in names):
        return rows.select(*map(quoted, names))
    return rows


def _undescribed(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    fields = [field(column) for column in loaded.columns]
    reader = data_files.reader(spark, loaded.format, loaded.options, fields)
    return data_files.rows_of(_load(reader, loaded.paths), loaded.format, loaded.options, loaded.columns)


def _load(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files, whose names may have characters of patterns.

    Without patterns Spark reads one of several such files twice. It logs an error for a single pattern, which it looks
    for as a file first.
    """
    if len(paths) == 1:
        return loading.load(reader.option("__globPaths__", "false"), paths)
    return loading.load(reader, [_SPECIAL.sub(r"\\\1", path) for path in paths])
