"""The tables that a job reads: one DataFrame and one temporary view for each.

Source: docs/reference/spark.md, "Scans".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType, TimestampNTZType, TimestampType

from airflow_hivex.core.errors import FolderExpectedError, InvalidOperationError, JobError
from airflow_hivex.core.job import data_files, local_times, originals, root_checks
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import field, quoted
from airflow_hivex.core.job.configuration import OWN_FILES_OPTIONS
from airflow_hivex.core.job.deletes import DeletedInPartitions, DeletedRows
from airflow_hivex.core.job.functions import is_connect
from airflow_hivex.core.job.layout import FLAT, HIVE, METADATA_COLUMNS, ORIGINAL, PLAIN, ROW_ID_FIELDS, WRITE_ID
from airflow_hivex.core.job.original_files import OriginalFile, files_of
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import Scan, ScanPart

_NO_GLOBBING = "__globPaths__"
"""Spark's own option that turns patterns in paths off, so that ``*`` and ``[`` are plain characters."""


class Deleted:
    """The deleted rows of a scan.

    ``in_partitions`` has the deleted rows whose row ids are unique only within a partition. ``rows`` has all other
    deleted rows.
    """

    def __init__(self, spark: SparkSession, scan: Scan) -> None:
        self.rows = DeletedRows(spark, scan)
        self.in_partitions = DeletedInPartitions(spark, scan, self.rows)
        self._places = {path.rpartition("/")[0] for part in scan.deletes for path in part.paths}

    @property
    def views(self) -> list[str]:
        """Return the temporary views with the deleted rows."""
        return [view for view in (self.rows.view, self.in_partitions.view) if view is not None]

    def touches(self, part: ScanPart) -> bool:
        """Return whether a part can have deleted rows, because its folder has delete deltas."""
        return any(path.rpartition("/")[0] in self._places for path in part.paths)

    def leave_out(self, rows: DataFrame, part: ScanPart) -> DataFrame:
        """Return the rows of a part without deleted rows. ``rows`` must have the metadata columns."""
        return self.rows.leave_out(self.in_partitions.leave_out_of(rows, part.paths))


def register(spark: SparkSession, scan: Scan) -> list[str]:
    """Create the temporary views for a scan of a table, and return their names.

    The call lists directories and reads delete deltas, but no other data.

    Raises:
        InvalidOperationError: this release does not know the row layout.
    """
    for part in scan.parts:
        if part.layout not in (None, FLAT, HIVE, ORIGINAL, PLAIN):
            raise InvalidOperationError("SELECT", scan.table, f"rows of layout {part.layout!r} are not read")
    deleted = Deleted(spark, scan) if scan.deletes and scan.parts else None
    _with_row_id(_frame(spark, scan, deleted), scan).createOrReplaceTempView(scan.view)
    return [scan.view] if deleted is None else [scan.view, *deleted.views]


def _frame(spark: SparkSession, scan: Scan, deleted: Deleted | None) -> DataFrame:
    """Return the rows of a table: the data columns, then the partition columns.

    If the scan reads row ids, the columns of the row id come first.
    """
    parts = [rows for part in scan.parts for rows in _frames(spark, scan, part, deleted) if rows is not None]
    if not parts:
        return spark.range(0).select(*_columns(scan, [F.lit(None)] * len(_fields(scan))))
    return reduce(lambda one, other: one.union(other), parts)


def _with_row_id(rows: DataFrame, scan: Scan) -> DataFrame:
    """Return the rows with Hive's ROW__ID as the last column, under its name in the query."""
    if scan.row_id is None:
        return rows
    kept = (*(METADATA_COLUMNS if scan.row_ids else ()), *scan.columns, *scan.partition_columns)
    fields = (F.col(name).alias(field) for name, field in ROW_ID_FIELDS)
    return rows.select(*(F.col(quoted(column.name)) for column in kept), F.struct(*fields).alias(scan.row_id))


def _frames(spark: SparkSession, scan: Scan, part: ScanPart, deleted: Deleted | None) -> Iterator[DataFrame | None]:
    """Yield the rows of a part: one DataFrame for each group of files that Spark reads with the same options."""
    if part.layout == ORIGINAL:
        exact: list[OriginalFile] = []
        plain: list[OriginalFile] = []
        for file in files_of(scan.format, part):
            touched = deleted is not None and deleted.in_partitions.touches(file)
            (exact if _metadata(scan) or touched else plain).append(file)
        if plain:
            paths = tuple(file.uri for file in plain)
            yield _part(spark, scan, replace(part, files=len(paths)), paths, None)
        if exact:
            paths = tuple(file.uri for file in exact)
            yield _part(spark, scan, replace(part, files=len(paths)), paths, deleted, exact)
        return
    yield _part(spark, scan, part, part.paths, deleted if deleted is not None and deleted.touches(part) else None)


def _metadata(scan: Scan) -> tuple[Column, ...]:
    return METADATA_COLUMNS if scan.row_ids or scan.row_id is not None else ()


def _needs_metadata(scan: Scan, deleted: Deleted | None) -> bool:
    """Return whether a scan needs the metadata columns of ACID files, such as the row id.

    If the scan does not need them, Spark reads only the table's columns of a file with the layout ``flat``.
    """
    return bool(_metadata(scan)) or scan.filter is not None or deleted is not None


def _fields(scan: Scan) -> list[StructField]:
    return [field(column) for column in (*_metadata(scan), *scan.columns, *scan.partition_columns)]


def _columns(scan: Scan, values: Sequence[Expression]) -> list[Expression]:
    return [_typed(item, value) for value, item in zip(values, _fields(scan), strict=True)]


def _typed(item: StructField, value: Expression) -> Expression:
    return value.cast(item.dataType).alias(item.name, metadata=item.metadata)


def _part(
    spark: SparkSession,
    scan: Scan,
    part: ScanPart,
    paths: Sequence[str],
    deleted: Deleted | None,
    numbered: Sequence[OriginalFile] = (),
) -> DataFrame | None:
    """Return the rows of a part from the files below ``paths``, or None if no path of an external table exists."""
    rows = _load(spark, scan, part, paths, deleted, numbered)
    if rows is None or part.values is None:
        return rows
    own = [F.col(quoted(column.name)) for column in (*_metadata(scan), *scan.columns)]
    return rows.select(*_columns(scan, [*own, *map(F.lit, part.values)]))


def _load(
    spark: SparkSession,
    scan: Scan,
    part: ScanPart,
    paths: Sequence[str],
    deleted: Deleted | None,
    numbered: Sequence[OriginalFile] = (),
) -> DataFrame | None:
    """Return the rows from the files below ``paths``, or None if no path of an external table exists.

    If the part has no partition values, Spark takes them from the paths.
    """
    if part.layout == HIVE:
        return _load_nested(spark, scan, part, deleted)
    keys = scan.partition_columns if part.values is None else ()
    columns = (*scan.columns, *keys)
    metadata = METADATA_COLUMNS if part.layout == FLAT and _needs_metadata(scan, deleted) else ()
    stored = StructType([field(replace(column, name=column.in_files)) for column in (*metadata, *scan.columns)])
    numbered_times = scan.format == "orc" and local_times.holds_local_times(stored) and _is_written_here(part)
    if numbered_times:
        stored = local_times.as_stored(stored)
    key_fields = [field(replace(key, name=key.in_files)) for key in keys]
    schema = StructType([*stored.fields, *key_fields])
    reader = (
        data_files.reader(spark, scan.format, scan.options, stored.fields, key_fields)
        # Spark looks for partition values only below this path.
        .option("basePath", part.base_path)
        .option(_NO_GLOBBING, "false")
    )
    if part.layout == FLAT:
        reader = reader.options(**OWN_FILES_OPTIONS)
    try:
        with data_files.below(part.base_path):
            rows = data_files.load(reader, paths)
    except AnalysisException as error:
        if part.layout or error.getCondition() != "PATH_NOT_FOUND":
            raise
        # As in Hive, a missing directory counts as empty.
        there = [path for path in paths if len(paths) > 1 and _exists(spark, scan.format, path)]
        _check_unseen(spark, [path for path in paths if path not in there])
        return _load(spark, scan, part, there, deleted) if there else None
    _check_file_count(rows, scan, part, paths)
    rows = data_files.rows_of(rows, scan.format, scan.options, scan.columns, keys)
    if numbered:
        owner_of = deleted.in_partitions.owner if deleted is not None else lambda _place: originals.NO_OWNER
        owners = [owner_of(file.owner[0]) for file in numbered]
        rows = originals.with_row_ids(spark, rows, scan.table, numbered, owners)
        if deleted is not None:
            rows = deleted.in_partitions.leave_out(rows)
    elif metadata:
        rows = _visible(rows, scan, part, deleted)
    renamed = any(column.stored_name for column in columns)
    opaque = {column.name for column in scan.columns if _is_misjudged(column, scan.format)}
    as_declared = not (renamed or opaque or numbered_times or any(item.metadata for item in schema.fields))
    if as_declared and not numbered:
        # In SQL: each function of pyspark that makes a column costs several calls of the JVM.
        names = [quoted(column.name) for column in (*_metadata(scan), *columns)]
        return rows.selectExpr(*names) if metadata else rows
    if not (numbered or numbered_times or any(item.metadata for item in schema.fields)):
        named = [_named_in_sql(column, opaque=column.name in opaque) for column in (*_metadata(scan), *columns)]
        return rows.selectExpr(*named)
    # Spark forgets a field's metadata, such as its type CHAR, if the values come from the path.
    own = (
        _named(column, opaque=column.name in opaque, numbered_times=numbered_times)
        for column in (*_metadata(scan), *scan.columns)
    )
    return rows.select(*own, *map(_named, columns[len(scan.columns) :]))


def _visible(rows: DataFrame, scan: Scan, part: ScanPart, deleted: Deleted | None) -> DataFrame:
    """Return the rows that the snapshot sees. ``rows`` must have the metadata columns."""
    if scan.filter is not None:
        rows = rows.where(F.col(WRITE_ID) <= F.lit(scan.filter.high_watermark))
        if scan.filter.exceptions:
            rows = rows.where(~F.col(WRITE_ID).isin(list(scan.filter.exceptions)))
    return rows if deleted is None else deleted.leave_out(rows, part)


def _load_nested(spark: SparkSession, scan: Scan, part: ScanPart, deleted: Deleted | None) -> DataFrame:
    keys = scan.partition_columns if part.values is None else ()
    rows = data_files.load_nested(spark, part.paths, scan.columns, keys)
    _check_file_count(rows, scan, part, part.paths)
    own = [_named(column) for column in (*_metadata(scan), *scan.columns)]
    rows = _visible(rows, scan, part, deleted)
    return rows.select(*own, *(_typed(field(key), F.col(quoted(key.name))) for key in keys))


def _check_file_count(rows: DataFrame, scan: Scan, part: ScanPart, paths: Sequence[str]) -> None:
    """Raise an error if files of a part are missing or were added, or if a server does not see its external files.

    Raises:
        JobError: files are missing, or there are additional files.
        RootUnseenError: a server does not see the files of a path.
    """
    if part.files is None:
        if is_connect(rows.sparkSession):
            filled = {unquote(file.rpartition("/")[0]).partition(":")[2].strip("/") for file in rows.inputFiles()}
            empty = [path for path in paths if path.partition(":")[2].strip("/") not in filled]
            _check_unseen(rows.sparkSession, empty)
        return
    found = _file_count(rows)
    if found < part.files or (found > part.files and not part.growing):
        raise JobError(
            "",
            f"{scan.table} has {found} data files below {part.base_path} where {part.files} were written: "
            "some were deleted or added by other means; restore the directories there, or drop the table or partition.",
        )


def _check_unseen(spark: SparkSession, paths: Sequence[str]) -> None:
    """Raise an error if the Spark Connect server sees no files in a folder in which this process sees files.

    Raises:
        RootUnseenError: a server sees no files in a folder that has files for this process.
        FolderExpectedError: a file lies in the place of a folder.
    """
    if not is_connect(spark):
        return
    for path in paths:
        if path.startswith("file:") and place(path).is_file():
            raise FolderExpectedError(path)
        if path.startswith("file:") and any(
            size and "/" not in name and not name.startswith(("_", ".")) for name, size in place(path).files()
        ):
            root_checks.refuse_server(f"it finds no files in {path}, and this process does")


def _is_misjudged(column: Column, format: str) -> bool:
    """Return whether Spark would lose rows if it pushed conditions on the column down to a reader of the format.

    There are two such cases. Spark passes times to ORC without microseconds. ORC and Parquet compare the bits of
    floating point numbers in statistics, dictionaries and bloom filters, so 0.0 and -0.0 differ.
    """
    kind = field(column).dataType
    if isinstance(kind, (FloatType, DoubleType)):
        return format in ("orc", "parquet")
    return format == "orc" and isinstance(kind, (TimestampType, TimestampNTZType))


def _is_written_here(part: ScanPart) -> bool:
    """Return whether transactions have written all files of a part."""
    return part.layout is not None and all(parse_directory(path.rpartition("/")[2]) for path in part.paths)


def _named(column: Column, *, opaque: bool = False, numbered_times: bool = False) -> Expression:
    """Return Spark's expression for a column in the files, with the column's current name.

    Spark does not push conditions on an ``opaque`` column down to the files. If ``numbered_times`` is true, the files
    store a TIMESTAMP_NTZ as a number of microseconds.
    """
    declared, noted = field(column).dataType, field(column).metadata
    if numbered_times and local_times.holds_local_times(declared):
        value = F.col(quoted(column.in_files))
        return local_times.restore(value, declared).alias(column.name, metadata=noted)
    value = F.expr(_named_in_sql(column, opaque=opaque))
    return value.alias(column.name, metadata=noted) if noted else value


def _named_in_sql(column: Column, *, opaque: bool = False) -> str:
    """Return Spark SQL for a column in the files, with the column's current name."""
    value, declared = quoted(column.in_files), field(column).dataType
    if opaque and isinstance(declared, TimestampType):
        value = f"timestamp_micros(unix_micros({value}))"
    elif opaque and isinstance(declared, (FloatType, DoubleType)):
        value = f"{value} * CAST(1.0D AS {declared.simpleString()})"
    elif opaque:
        value = f"{value} + make_dt_interval()"
    return f"{value} AS {quoted(column.name)}" if opaque or column.stored_name else value


def _file_count(rows: DataFrame) -> int:
    """Return the number of files that the DataFrame reads."""
    classic = getattr(rows, "_jdf", None)
    if classic is None:
        return len(rows.inputFiles())
    scanned = classic.queryExecution().analyzed()
    # A DataFrame optimizes its plan before it returns its files; the relation returns them directly.
    is_relation = scanned.getClass().getSimpleName() == "LogicalRelation"
    return len(scanned.relation().inputFiles() if is_relation else classic.inputFiles())


def _exists(spark: SparkSession, format: str, path: str) -> bool:
    try:
        reader = data_files.source(spark, format).schema("value string").option(_NO_GLOBBING, "false")
        data_files.load(reader, [path])
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True
