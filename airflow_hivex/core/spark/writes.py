"""INSERT: the rows of a query into new base or delta directories, without a shuffle.

Spark writes to a hidden directory first; its files are then renamed into the directories of the
write. Nothing of it is visible before the transaction commits. Source: spark-notes, section 1.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from airflow_hivex.core.model.buckets import WRITER_SHIFT, encode_bucket
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, unescape
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.spark import bucketing, layout
from airflow_hivex.core.spark.assignment import assign, field, quoted
from airflow_hivex.core.spark.new_directories import NewDirectories
from airflow_hivex.core.spark.storage import Place, place

log = logging.getLogger(__name__)

_ROW_ID_MASK = (1 << 33) - 1
_BUCKET_NUMBER = "__bucket_number"
_TASK = re.compile(r"part-(\d+)-")


def write_rows(rows: DataFrame, write: Write) -> tuple[WrittenDirectory, ...]:
    """The directories that now hold the rows, one per partition that got any.

    An overwrite of a whole table or of one named partition makes its base also when there are no rows.

    Raises:
        ColumnCountMismatchError: the query brings more or fewer columns than are taken.
        TypeMismatchError: a column needs an explicit CAST.
    """
    given = layout.given_columns(write, len(rows.columns))
    complete = _complete(assign(rows, given, write.table), write)
    staging = place(write.path) / layout.staging_name(write)
    made = NewDirectories(write)
    try:
        _write_staging(_numbered(_arranged(complete, write), write), write)
        if _last_task(staging) >= layout.MOST_WRITERS:
            # More tasks than bucket ids, which is known only now, and rare. To ask for fewer each time
            # would cost every write: Spark generates no code across a coalesce.
            staging.delete()
            few = complete.coalesce(layout.MOST_WRITERS)
            _write_staging(_numbered(_arranged(few, write), write), write)
        _publish(staging, write, made)
    except BaseException:
        made.discard()
        raise
    finally:
        _remove(staging)
    return made.written


def _complete(rows: DataFrame, write: Write) -> DataFrame:
    """All columns of the table, NULL for those the INSERT left out, then the partition's texts."""
    there = {name.lower() for name in rows.columns}
    columns = [
        F.col(quoted(column.name))
        if column.name.lower() in there
        else F.lit(None).cast(field(column).dataType).alias(column.name)
        for column in write.columns
    ]
    # Texts that are never NULL or empty, so that Spark sorts by nothing else than what is sorted here.
    partition = [
        F.expr(f"coalesce(nullif(CAST({quoted(column.name)} AS STRING), ''), '{DEFAULT_PARTITION}')").alias(column.name)
        if column.name.lower() in there
        else F.lit(DEFAULT_PARTITION).alias(column.name)
        for column in layout.dynamic_columns(write)
    ]
    return rows.select(*columns, *partition)


def _arranged(rows: DataFrame, write: Write) -> DataFrame:
    """The rows in the tasks and in the order in which they are written."""
    order = [column.name for column in layout.dynamic_columns(write)]
    if write.num_buckets > 0:
        numbers = _bucket_number(write)(*(quoted(name) for name in write.bucket_columns))
        rows = rows.withColumn(_BUCKET_NUMBER, numbers).repartitionById(write.num_buckets, F.col(_BUCKET_NUMBER))
        rows = rows.drop(_BUCKET_NUMBER)
        order += write.sort_columns
    return rows.sortWithinPartitions(*map(quoted, order)) if order else rows


def _bucket_number(write: Write) -> Any:
    # By value: a cluster's Python workers need nothing of ours installed.
    cloudpickle.register_pickle_by_value(bucketing)  # type: ignore[no-untyped-call]
    by_name = {column.name.lower(): column.type for column in write.columns}
    types = [by_name[name.lower()] for name in write.bucket_columns]
    return bucketing.bucket_number_function(types, write.num_buckets)


def _numbered(rows: DataFrame, write: Write) -> DataFrame:
    """The rows with their metadata columns. No shuffle or sort may follow: ids rise in file order."""
    bucket = f"{encode_bucket(0, write.statement_id)} | shiftleft(spark_partition_id(), {WRITER_SHIFT})"
    return rows.selectExpr(
        f"{layout.INSERT_OPERATION} AS {layout.OPERATION}",
        f"{write.write_id}L AS {layout.ORIGINAL_WRITE_ID}",
        f"{bucket} AS {layout.BUCKET}",
        f"monotonically_increasing_id() & {_ROW_ID_MASK}L AS {layout.ROW_ID}",
        f"{write.write_id}L AS {layout.WRITE_ID}",
        "*",
    )


def _write_staging(rows: DataFrame, write: Write) -> None:
    writer = (
        rows.write.option("compression", layout.COMPRESSION)
        .option("maxRecordsPerFile", 0)
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    )
    dynamic = [column.name for column in layout.dynamic_columns(write)]
    if dynamic:
        writer = writer.partitionBy(*dynamic)
    writer.orc(f"{write.path.rstrip('/')}/{layout.staging_name(write)}")


def _last_task(staging: Place) -> int:
    tasks = (_TASK.match(path.rpartition("/")[2]) for path, _ in staging.files())
    return max((int(task[1]) for task in tasks if task is not None), default=-1)


def _publish(staging: Place, write: Write, made: NewDirectories) -> None:
    """Rename the files of ``staging`` into the directories of the write."""
    from pyarrow import orc

    keys = [column.name.lower() for column in layout.dynamic_columns(write)]
    for path, size_bytes in staging.files():
        *parts, name = path.split("/")
        task = _TASK.match(name)
        if task is None or len(parts) != len(keys):
            continue
        file = staging / path
        with file.open() as data:
            row_count = int(orc.ORCFile(data).nrows)
        if not row_count:
            continue
        texts = {key: unescape(part.partition("=")[2]) for key, part in zip(keys, parts, strict=True)}
        partition, values = layout.partition_of(write, texts)
        file.move(made.directory(partition, values) / layout.bucket_file_name(int(task[1])))
        made.count(partition, row_count, size_bytes)
    if write.overwrite and not keys:
        made.directory(*layout.partition_of(write, {}))


def _remove(staging: Place) -> None:
    try:
        staging.delete()
    except OSError as error:
        log.warning("Staging directory %s could not be deleted: %s", staging.path, error)
