"""The rows of the files that LOAD DATA and COPY INTO name, as a temporary view of the job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from airflow_hivex.core.job import data_files
from airflow_hivex.core.job.assignment import field, quoted
from airflow_hivex.core.job.configuration import READ_OPTIONS
from airflow_hivex.core.model.plans import ColumnNaming, LoadedFiles

_WITH_NAMES = ("avro", "orc", "parquet")
"""Formats whose files have the names and types of columns."""
_SPECIAL = re.compile(r"([\\*?\[\]{},^])")
_UNFIT = "_corrupt_record"
_WIDE_ENCODING = re.compile(r"utf-?(16|32)(le|be)?")


def register(spark: SparkSession, loaded: LoadedFiles) -> str:
    """Create a temporary view of the files' rows, and return its name."""
    if loaded.naming is not None:
        rows = _copied(spark, loaded, loaded.naming)
    else:
        rows = _described(spark, loaded) if loaded.format in _WITH_NAMES else _undescribed(spark, loaded)
    rows.createOrReplaceTempView(loaded.view)
    return loaded.view


def _described(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    """Return the rows of files, with the files' columns. If the table has the same columns, its order is kept."""
    rows = _with_all_columns(spark, loaded)
    names = [column.name for column in loaded.columns]
    if sorted(name.lower() for name in rows.columns) == sorted(name.lower() for name in names):
        return rows.select(*map(quoted, names))
    return rows


def _with_all_columns(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    # The columns of all files are read, so a file with more columns than the first one loses none.
    reader = data_files.source(spark, loaded.format).options(
        **{**READ_OPTIONS, "mergeSchema": "true", **loaded.options}
    )
    return _load(reader, loaded.paths)


def _undescribed(spark: SparkSession, loaded: LoadedFiles) -> DataFrame:
    fields = [field(column) for column in loaded.columns]
    undescribed = data_files.reader(spark, loaded.format, loaded.options, fields)
    return data_files.rows_of(_load(undescribed, loaded.paths), loaded.format, loaded.options, loaded.columns)


def _load(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files. The file names can have characters with a meaning in patterns, such as ``*``.

    Several paths are passed as patterns, because Spark would read files with such names twice. A single path is passed
    unchanged, because Spark logs an error for a single pattern.
    """
    if len(paths) == 1:
        return data_files.load(reader.option("__globPaths__", "false"), paths)
    return data_files.load(reader, [_SPECIAL.sub(r"\\\1", path) for path in paths])


def _copied(spark: SparkSession, loaded: LoadedFiles, naming: ColumnNaming) -> DataFrame:
    """Return the rows of the files of a COPY INTO. A row that its format or a column's type does not allow is an error.

    The names in the header of a CSV file, or in JSON, are found without regard to case.
    """
    if loaded.format in _WITH_NAMES or loaded.format == "text":
        return _with_all_columns(spark, loaded)
    options = _reading_options(loaded.format, loaded.options)
    if naming == ColumnNaming.BY_POSITION:
        fields = [field(column) for column in loaded.columns]
    else:
        fields = _fields_of_files(spark, loaded, options, infers=naming == ColumnNaming.INFERRED)
    strict = {"mode": "FAILFAST", "columnPruning": "false", "enforceSchema": "false", **options}
    reader = data_files.source(spark, loaded.format).options(**{**READ_OPTIONS, **strict})
    return _load(reader.schema(StructType(fields)), loaded.paths)


def _reading_options(format: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's reader. Lines of a wide encoding are found by a reader that decodes the file."""
    found = {name.lower(): value for name, value in options.items()}
    encoding = found.get("encoding", found.get("charset", "")).lower()
    if _WIDE_ENCODING.fullmatch(encoding):
        found.setdefault(*(("multiline", "true") if format == "csv" else ("linesep", "\n")))
    return found


def _fields_of_files(
    spark: SparkSession, loaded: LoadedFiles, options: Mapping[str, str], *, infers: bool
) -> list[StructField]:
    """Return the columns of CSV or JSON files. Columns of the target have the target's types.

    The columns of CSV files are those of the first file. Spark compares the headers of the other files with them.
    """
    inferring = {**options, "mode": "PERMISSIVE"}
    if loaded.format == "csv" and infers:
        inferring["inferschema"] = "true"
    reads_all = loaded.format == "json" or inferring.get("inferschema", "").lower() == "true"
    reader = data_files.source(spark, loaded.format).options(**{**READ_OPTIONS, **inferring})
    found = _load(reader, loaded.paths if reads_all else loaded.paths[:1]).schema.fields
    of_target = {column.name.lower(): field(column) for column in loaded.columns}
    fields = []
    for each in found:
        target = of_target.get(each.name.lower())
        if target is not None:
            fields.append(StructField(each.name, target.dataType, nullable=True, metadata=target.metadata))
        elif each.name != _UNFIT:
            fields.append(StructField(each.name, each.dataType))
    return fields or [StructField(column.name, StringType()) for column in loaded.columns]
