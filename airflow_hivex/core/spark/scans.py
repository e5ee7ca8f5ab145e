"""Tables as a job reads them: one DataFrame and one temporary view each.

Source: spark-notes, sections 2 and 8: one scan over all directories, partition columns from the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import StructField, StructType

from airflow_hivex.core.errors import InvalidOperationError, JobError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import Scan, ScanPart
from airflow_hivex.core.spark.assignment import field, quoted
from airflow_hivex.core.spark.deletes import DeletedRows
from airflow_hivex.core.spark.layout import FLAT, METADATA_COLUMNS, PLAIN, ROW_ID_FIELDS, WRITE_ID

_NO_GLOBBING = "__globPaths__"
"""Spark's own switch: the paths are taken as they stand, with any ``*`` and ``[`` in them."""


def register(spark: SparkSession, scan: Scan) -> list[str]:
    """Make the table of ``scan`` readable under its view's name, and return all views that were made.

    Lists the directories, and reads no data but that of delete deltas.

    Raises:
        InvalidOperationError: the rows are stored in a layout that this release does not read.
    """
    for part in scan.parts:
        if part.layout not in (None, FLAT, PLAIN):
            raise InvalidOperationError("SELECT", scan.table, f"rows of layout {part.layout!r} are not read")
    deleted = DeletedRows(spark, scan) if scan.deletes and scan.parts else None
    _with_row_id(_frame(spark, scan, deleted), scan).createOrReplaceTempView(scan.view)
    return [scan.view] if deleted is None or deleted.view is None else [scan.view, deleted.view]


def _frame(spark: SparkSession, scan: Scan, deleted: DeletedRows | None) -> DataFrame:
    """The rows of a table: its columns, then its partition columns; where row ids are read, their columns first."""
    parts = [
        rows for rows in (_part(spark, scan, part, part.paths, deleted) for part in scan.parts) if rows is not None
    ]
    if not parts:
        return spark.range(0).select(*_columns(scan, [F.lit(None)] * len(_fields(scan))))
    return reduce(DataFrame.union, parts)


def _with_row_id(rows: DataFrame, scan: Scan) -> DataFrame:
    """The rows with Hive's ROW__ID under the name that the query calls it by, behind all other columns."""
    if scan.row_id is None:
        return rows
    kept = (*(METADATA_COLUMNS if scan.row_ids else ()), *scan.columns, *scan.partition_columns)
    fields = (F.col(name).alias(field) for name, field in ROW_ID_FIELDS)
    return rows.select(*(F.col(quoted(column.name)) for column in kept), F.struct(*fields).alias(scan.row_id))


def _metadata(scan: Scan) -> tuple[Column, ...]:
    return METADATA_COLUMNS if scan.row_ids or scan.row_id is not None else ()


def _fields(scan: Scan) -> list[StructField]:
    return [field(column) for column in (*_metadata(scan), *scan.columns, *scan.partition_columns)]


def _columns(scan: Scan, values: Sequence[Expression]) -> list[Expression]:
    return [
        value.cast(item.dataType).alias(item.name, metadata=item.metadata)
        for value, item in zip(values, _fields(scan), strict=True)
    ]


def _part(
    spark: SparkSession, scan: Scan, part: ScanPart, paths: Sequence[str], deleted: DeletedRows | None
) -> DataFrame | None:
    """The rows of a part, or of those of its ``paths`` that are there; None where an external table has none."""
    rows = _load(spark, scan, part, paths, deleted)
    if rows is None or part.values is None:
        return rows
    own = [F.col(quoted(column.name)) for column in (*_metadata(scan), *scan.columns)]
    return rows.select(*_columns(scan, [*own, *map(F.lit, part.values)]))


def _load(
    spark: SparkSession, scan: Scan, part: ScanPart, paths: Sequence[str], deleted: DeletedRows | None
) -> DataFrame | None:
    """The data below ``paths``, with the partition columns that stand in them."""
    columns = (*scan.columns, *(scan.partition_columns if part.values is None else ()))
    metadata = METADATA_COLUMNS if part.layout == FLAT else ()
    stored = [replace(column, name=column.in_files) for column in columns]
    schema = StructType([field(column) for column in (*metadata, *stored)])
    reader = (
        spark.read.format(scan.format)
        .options(**scan.options)
        .schema(schema)
        # Nothing above it is looked at for partition values.
        .option("basePath", part.base_path)
        .option(_NO_GLOBBING, "false")
    )
    try:
        rows = reader.load(list(paths))
    except AnalysisException as error:
        if part.layout or error.getCondition() != "PATH_NOT_FOUND":
            raise
        # As in Hive, a directory that nobody has made yet is an empty one.
        there = [path for path in paths if len(paths) > 1 and _exists(spark, scan.format, path)]
        return _load(spark, scan, part, there, deleted) if there else None
    if part.files is not None and not _has_files(rows, part.files, growing=part.growing):
        raise JobError(
            "",
            f"{scan.table} has {_file_count(rows)} data files below {part.base_path} where {part.files} were written: "
            "some were deleted or added by other means; restore the directories there, or drop the table or partition.",
        )
    if scan.filter is not None:
        rows = rows.where(F.col(WRITE_ID) <= F.lit(scan.filter.high_watermark))
        if scan.filter.exceptions:
            rows = rows.where(~F.col(WRITE_ID).isin(list(scan.filter.exceptions)))
    if deleted is not None:
        rows = deleted.leave_out(rows)
    renamed = any(column.stored_name for column in columns)
    if not metadata and not renamed and not any(item.metadata for item in schema.fields):
        return rows
    # Spark forgets what a field notes, such as that it is CHAR, when it finds the values in the path.
    return rows.select(*(_named(column) for column in (*_metadata(scan), *columns)))


def _named(column: Column) -> Expression:
    """A column as it is called now, from what files call it."""
    value = F.col(quoted(column.in_files))
    noted = field(column).metadata
    return value.alias(column.name, metadata=noted) if noted or column.stored_name else value


def _has_files(rows: DataFrame, expected: int, *, growing: bool) -> bool:
    found = _file_count(rows)
    return found >= expected if growing else found == expected


def _file_count(rows: DataFrame) -> int:
    """How many files a scan has found. A list of their names would cost a call of the JVM for each."""
    classic = getattr(rows, "_jdf", None)
    return len(rows.inputFiles() if classic is None else classic.inputFiles())


def _exists(spark: SparkSession, format: str, path: str) -> bool:
    try:
        spark.read.format(format).schema("value string").option(_NO_GLOBBING, "false").load(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True
