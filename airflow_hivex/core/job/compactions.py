"""Compaction: the rows of several directories in one directory, with unchanged row ids and write ids.

If the form of the files allows this, their stripes are concatenated, and only some stripes are rewritten. Otherwise one
pass reads, sorts and writes all rows. The *writer* of a row is the number of the task that gave the row its id. The
rows of each writer are in one file. Source: docs/reference/spark.md, "Compaction"; docs/reference/directories.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import accumulate

from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import layout, scans
from airflow_hivex.core.job.assignment import nothing, quoted
from airflow_hivex.core.job.delete_events import event_files
from airflow_hivex.core.job.deletes import delete_events
from airflow_hivex.core.job.layout import (
    BUCKET,
    METADATA_COLUMNS,
    OPERATION,
    ORIGINAL_WRITE_ID,
    ROW_ID,
    ROW_PLACE,
    WRITE_ID,
)
from airflow_hivex.core.job.new_directories import NewDirectories
from airflow_hivex.core.job.shared_rows import Kept, with_kept
from airflow_hivex.core.job.staging import Staging
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.job.stripe_merging import put_together
from airflow_hivex.core.job.writes import in_buckets, in_order
from airflow_hivex.core.model.plans import Compaction, Plan, Rebalance, Scan, Write, WrittenDirectory
from airflow_hivex.core.model.row_ids import WRITER_SHIFT, encode_bucket, hive_bucket

LARGEST_FILE = 128 << 20
"""The largest number of bytes of data in one new file of an insert-only table."""

_KIND = "__kind"
_WRITER = "__writer"
_EVENT, _ROW = 0, 1
_WRITTEN_EXACTLY = ("orc", "parquet", "avro")
"""Formats whose values do not change when they are read and rewritten; files of other formats are copied."""


def compact(spark: SparkSession, plan: Plan, views: list[str]) -> tuple[WrittenDirectory, ...]:
    """Write the compacted rows and delete events, and return the new base, or the new delta and delete delta.

    The directories are written even without rows. New temporary views are added to ``views``, for the caller to drop.

    Raises:
        JobError: a file is missing or cannot be read. No new directory is left.
    """
    assert plan.compaction is not None
    assert plan.write is not None
    (scan,) = plan.scans
    staging, made = Staging(plan.write), NewDirectories(plan.write)
    try:
        made.directory(None, ())
        if plan.write.layout == layout.PLAIN:
            _compact_plain(spark, scan, plan.write, plan.compaction, staging, made, views)
        else:
            if not plan.write.overwrite:
                made.directory(None, (), deletes=True)
            _compact_full_acid(spark, scan, plan.write, plan.compaction, staging, made, views)
    except BaseException:
        made.discard()
        raise
    finally:
        staging.remove()
    return made.written


# -- full ACID -----------------------------------------------------------------------


def _compact_full_acid(
    spark: SparkSession,
    scan: Scan,
    write: Write,
    compaction: Compaction,
    staging: Staging,
    made: NewDirectories,
    views: list[str],
) -> None:
    if compaction.rebalance is not None:
        if scan.parts:
            views += scans.register(spark, scan)
            rebalance(spark, scan.view, write, compaction.rebalance, staging, made)
        return
    events: list[DataFrame] = []
    if scan.parts and not (compaction.is_of_one_layout and put_together(spark, scan, write, staging, made)):
        views += scans.register(spark, scan)
        events.append(_events(spark.table(scan.view), _ROW, write))
    if compaction.deletes:
        deletes = replace(scan, deletes=compaction.deletes)
        # This checks that no file is missing.
        event_files(deletes)
        values = [nothing(column) for column in write.columns]
        metadata = [F.col(column.name) for column in METADATA_COLUMNS]
        events.append(_events(delete_events(spark, deletes).select(*metadata, *values), _EVENT, write))
    if not events:
        return
    parted_by = [_KIND, _WRITER]
    order = [F.col(name) for name in (*parted_by, ORIGINAL_WRITE_ID, BUCKET, ROW_ID)] + [F.col(WRITE_ID).desc()]
    # No column is computed after the sort, so Spark has no reason to sort again by fewer columns.
    rows = reduce(lambda one, other: one.union(other), events).repartition(F.col(_WRITER))
    if staging.place.exists():
        # Stripes were rewritten there before.
        staging.discard()
    staging.write(rows, parted_by, lambda each: each.sortWithinPartitions(*order))
    for file in staging.files(parted_by):
        kind, writer = map(int, file.values)
        target = made.directory(None, (), deletes=kind == _EVENT) / layout.bucket_file_name(writer)
        made.count(None, file.rows, staging.publish(file, target), deletes=kind == _EVENT)


def _events(rows: DataFrame, kind: int, write: Write) -> DataFrame:
    """Return rows or delete events with the columns of files, and two columns that choose the file: kind and writer."""
    is_row = kind == _ROW
    row_place = [F.lit(True if is_row else None).cast("boolean").alias(layout.ROW_PLACE)]
    # In a form that Spark cannot simplify: after constants it would not sort by further columns.
    number = F.expr(f"{kind} + CAST({ROW_ID} < 0 AS INT)").alias(_KIND)
    return rows.select(
        *(F.col(column.name) for column in METADATA_COLUMNS),
        *(row_place if write.layout == layout.HIVE else ()),
        *(F.col(quoted(column.name)) for column in write.columns),
        number,
        F.expr(layout.WRITER).alias(_WRITER),
    )


# -- insert-only ---------------------------------------------------------------------


def _compact_plain(
    spark: SparkSession,
    scan: Scan,
    write: Write,
    compaction: Compaction,
    staging: Staging,
    made: NewDirectories,
    views: list[str],
) -> None:
    if not scan.parts:
        return
    if write.format not in _WRITTEN_EXACTLY:
        _copy_files(scan, compaction, made)
        return
    views += scans.register(spark, scan)
    rows = spark.table(scan.view)
    if write.num_buckets > 0:
        staging.write(in_buckets(rows, write), (), lambda each: in_order(each, write))
    else:
        files = min(layout.MOST_WRITERS, max(1, math.ceil(compaction.size_bytes / LARGEST_FILE)))
        staging.write(rows.coalesce(files), ())
    directory = made.directory(None, ())
    for file in staging.files(()):
        target = directory / layout.file_name(write, file.task)
        made.count(None, file.rows, staging.publish(file, target))


def _copy_files(scan: Scan, compaction: Compaction, made: NewDirectories) -> None:
    """Copy all files under new names.

    A new name keeps the ending after the first dot, which shows readers the compression.

    Raises:
        JobError: files are missing, or there are additional files.
    """
    directory = made.directory(None, ())
    rows = compaction.rows
    for part in scan.parts:
        files = [file for path in part.paths for file in _files_at(path)]
        if part.files is not None and len(files) != part.files:
            raise JobError(
                "",
                f"{scan.table} has {len(files)} data files below {part.base_path} where {part.files} were written: "
                "some were deleted or added by other means; restore them, or drop the table or partition.",
            )
        for number, (file, size_bytes) in enumerate(files):
            name = file.path.rpartition("/")[2]
            _, dot, ending = name.partition(".")
            bucket = hive_bucket(name.partition(".")[0]) or 0
            target = directory / f"{bucket:06d}_0_copy_{number + 1}{dot}{ending}"
            file.filesystem.copy_file(file.path, target.path)
            made.count(None, rows, size_bytes)
            rows = 0


def _files_at(path: str) -> list[tuple[Place, int]]:
    """Return the file at the path, or the data files below this directory, as (file, size in bytes) pairs."""
    there = place(path)
    size = there.filesystem.get_file_info(there.path).size
    if size is not None:
        return [(there, int(size))]
    return [(there / name, size) for name, size in there.files() if not name.startswith(("_", "."))]


# Rebalancing: the rows of a table or partition in files of the same length, with new row ids. Source: Hive's
# RebalanceQueryCompactor, which divides a row's ROW_NUMBER by the number of rows in a file.


_PART = "__part"
_PLACE = "__place"
_PLACE_BITS = 33
"""The number of low bits of ``monotonically_increasing_id()`` that count the rows of a task."""


def rebalance(
    spark: SparkSession, view: str, write: Write, wanted: Rebalance, staging: Staging, made: NewDirectories
) -> None:
    """Write the rows of ``view`` into evenly filled files of one new base.

    The view has the rows' metadata columns.

    Raises:
        JobError: executors with computed rows were lost at every retry.
    """
    with_kept(spark, lambda kept: _write(spark, view, write, wanted, staging, kept))
    directory = made.directory(None, ())
    for file in staging.files(()):
        target = directory / layout.bucket_file_name(file.task)
        made.count(None, file.rows, staging.publish(file, target))


def _write(spark: SparkSession, view: str, write: Write, wanted: Rebalance, staging: Staging, kept: Kept) -> None:
    staging.discard()
    ids = f"{ORIGINAL_WRITE_ID}, {BUCKET}, {ROW_ID}"
    order = ids if wanted.order_by is None else f"{wanted.order_by}, {ids}"
    # All names are quoted.
    rows = spark.sql(f"SELECT * FROM {quoted(view)} ORDER BY {order}")  # noqa: S608
    ordered = kept.keep(
        rows.select(
            "*",
            F.spark_partition_id().alias(_PART),
            F.expr(f"monotonically_increasing_id() & {(1 << _PLACE_BITS) - 1}L").alias(_PLACE),
        )
    )
    writer = F.expr(layout.WRITER)
    parts = sorted(ordered.groupBy(_PART).agg(F.count("*"), F.collect_set(writer)).collect())
    # The rows were counted: from now on they must stay in their tasks.
    kept.check()
    total = sum(count for _, count, _ in parts)
    if not total:
        return
    buckets = wanted.buckets or len({each for *_, writers in parts for each in writers})
    numbered = _numbered(ordered, write, wanted, {part: count for part, count, _ in parts}, -(-total // buckets))
    staging.write(numbered.repartitionById(buckets, writer), (), lambda each: each.sortWithinPartitions(ROW_ID))
    kept.check()


def _numbered(rows: DataFrame, write: Write, wanted: Rebalance, counts: dict[int, int], length: int) -> DataFrame:
    """Return the rows with new row ids.

    The ids are consecutive numbers over all rows. Each file gets ``length`` rows, and the last file possibly gets fewer
    rows.
    """
    firsts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
    first = F.expr(f"get(array({', '.join(f'{firsts.get(part, 0)}L' for part in range(max(firsts) + 1))}), {_PART})")
    number = f"({_PLACE} + __first)"
    # In another order a file has rows of several writes, and its ids have to rise.
    write_ids = (ORIGINAL_WRITE_ID, WRITE_ID) if wanted.order_by is None else (f"{write.write_id}L",) * 2
    return rows.withColumn("__first", first).selectExpr(
        f"{layout.INSERT_OPERATION} AS {OPERATION}",
        f"{write_ids[0]} AS {ORIGINAL_WRITE_ID}",
        f"{encode_bucket(0)} | shiftleft(CAST({number} div {length} AS INT), {WRITER_SHIFT}) AS {BUCKET}",
        f"{number} + {wanted.first_row_id}L AS {ROW_ID}",
        f"{write_ids[1]} AS {WRITE_ID}",
        *((f"true AS {ROW_PLACE}",) if write.layout == layout.HIVE else ()),
        *(quoted(column.name) for column in write.columns),
    )
