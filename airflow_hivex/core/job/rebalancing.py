"""Rebalancing: the rows of a table or partition in files of the same length, with new row ids.

Source: Hive's RebalanceQueryCompactor, which divides a row's ROW_NUMBER by how many rows a file gets.
"""

from __future__ import annotations

from itertools import accumulate

from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job import layout
from airflow_hivex.core.job.assignment import quoted
from airflow_hivex.core.job.layout import BUCKET, OPERATION, ORIGINAL_WRITE_ID, ROW_ID, ROW_PLACE, WRITE_ID
from airflow_hivex.core.job.new_directories import NewDirectories
from airflow_hivex.core.job.shared_rows import Kept, with_kept
from airflow_hivex.core.job.staging import Staging
from airflow_hivex.core.model.buckets import WRITER_SHIFT, encode_bucket
from airflow_hivex.core.model.plans import Rebalance, Write

_PART = "__part"
_PLACE = "__place"
_PLACE_BITS = 33
"""Spark's growing ids have the number of the partition above these bits, and below it that of the row in there."""


def rebalance(
    spark: SparkSession, view: str, write: Write, wanted: Rebalance, staging: Staging, made: NewDirectories
) -> None:
    """Write the rows of ``view``, which has their metadata columns, as evenly filled files of one base.

    Raises:
        JobError: executors that held rows were lost again and again.
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
    # The rows were counted: from now on they must stay where they are.
    kept.check()
    total = sum(count for _, count, _ in parts)
    if not total:
        return
    buckets = wanted.buckets or len({each for *_, writers in parts for each in writers})
    numbered = _numbered(ordered, write, wanted, {part: count for part, count, _ in parts}, -(-total // buckets))
    staging.write(numbered.repartitionById(buckets, writer), (), lambda each: each.sortWithinPartitions(ROW_ID))
    kept.check()


def _numbered(rows: DataFrame, write: Write, wanted: Rebalance, counts: dict[int, int], length: int) -> DataFrame:
    """Return the rows with their new ids.

    Numbers over all of them, of which each file has so many as are its ``length``.
    """
    firsts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
    first = F.expr(f"get(array({', '.join(f'{firsts.get(part, 0)}L' for part in range(max(firsts) + 1))}), {_PART})")
    number = f"({_PLACE} + __first)"
    # In another order, rows of several writes stand in one file, whose ids have to rise.
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
