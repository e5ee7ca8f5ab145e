"""INSERT: the rows of a query are written into new base or delta directories, without a shuffle.

Spark writes files to a hidden directory. These files are then renamed into the directories of the write. No row is
visible before the transaction commits. Source: docs/reference/spark.md, "Inserts".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.job import bucketing, constraints, layout, view_queries
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import assign, nothing, quoted
from airflow_hivex.core.job.new_directories import NewDirectories, discard
from airflow_hivex.core.job.shared_rows import Kept, with_kept
from airflow_hivex.core.job.staging import Save, Staging
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, ESCAPED, MAX_FOLDER_BYTES
from airflow_hivex.core.model.plans import PlannedInsert, Source, Write, WrittenDirectory
from airflow_hivex.core.model.row_ids import WRITER_SHIFT, encode_bucket

ROW_ID_MASK = (1 << 33) - 1
"""The bits of Spark's increasing ids that count the rows of one task."""
_BUCKET_NUMBER = "__bucket_number"


def write_rows(
    rows: DataFrame, write: Write, save: Save | None = None, places: Sequence[int] | None = None
) -> tuple[WrittenDirectory, ...]:
    """Write rows; return the new directories, one for each partition that gets rows.

    An overwrite of a whole table or of one named partition writes a base even if there are no rows. ``places`` has, for
    each column of ``rows``, the position of its target among the columns that the INSERT gives. If several columns have
    the same target, only one of them has a value in each row, and this value is stored.

    Raises:
        ColumnCountMismatchError: the query returns more or fewer columns than the write has.
        NoSuchColumnError: columns match by name, and the table lacks a column of the query.
        TypeMismatchError: a column needs an explicit CAST.
        ConstraintViolationError: a row violates a constraint of the table. Spark raises its own error, which
            :func:`constraints.violation` converts.
    """
    width = len(rows.columns)
    if places is not None:
        given = layout.given_columns(write, len(set(places)))
    else:
        given = layout.named_columns(write, rows.columns) if write.by_name else layout.given_columns(write, width)
    texts = {position % width for position in write.texts if -width <= position < width}
    taken = len(given)
    rows, given = constraints.with_defaults(rows, given, write)
    if places is not None:
        places = (*places, *range(taken, len(given)))
    assigned = assign(
        rows, given, write.table, fields_by_name=write.by_name, texts=texts, casts=write.casts, places=places
    )
    complete = _complete(constraints.enforced(assigned, write), write)
    staging = Staging(write, save)
    keys = [column.name for column in layout.dynamic_columns(write)]
    made = NewDirectories(write)
    try:
        _stage(staging, complete, write, keys)
        if staging.last_task() >= layout.MOST_WRITERS:
            # There are more tasks than bucket ids, which is known only now, and rare. A limit for each write would cost
            # time: Spark generates no code across a coalesce.
            staging.discard()
            _stage(staging, complete.coalesce(layout.MOST_WRITERS), write, keys)
        _publish(staging, write, made)
    except BaseException:
        made.discard()
        raise
    finally:
        staging.remove()
    return made.written


def _complete(rows: DataFrame, write: Write) -> DataFrame:
    """Return the rows with all columns of the table, then the texts of the partition columns.

    Columns that the INSERT does not give are NULL.
    """
    there = {name.lower() for name in rows.columns}
    columns = [
        F.col(quoted(column.name)) if column.name.lower() in there else nothing(column) for column in write.columns
    ]
    # These texts are never NULL or empty, so Spark sorts by the same values as this module.
    partition = [
        F.expr(new_partition_text(column, write))
        if column.name.lower() in there
        else F.lit(DEFAULT_PARTITION).alias(column.name)
        for column in layout.dynamic_columns(write)
    ]
    return rows.select(*columns, *partition)


def partition_text(column: Column) -> Expression:
    """Return Spark's expression, with the column's name, for the text of a partition value in a directory's name."""
    return F.expr(f"{_partition_text(column)} AS {quoted(column.name)}")


def new_partition_text(column: Column, write: Write) -> str:
    """Return Spark SQL for the text of a new row's partition value in a directory's name.

    When Spark runs it, the SQL raises an error if the name of a directory cannot contain the text.
    """
    text, declared = _partition_text(column), column.parsed_type
    if isinstance(declared, Primitive) and declared.family is Family.TEXT:
        name, refused = quoted(column.name), constraints.no_partition_value(column, write)
        most = MAX_FOLDER_BYTES - len(f"{column.name}=".encode())
        is_long = f"octet_length({name}) > {most // 3} AND {_folder_bytes(name)} > {most}"
        text = (
            f"CASE WHEN contains({name}, {constraints.NUL}) THEN {refused} "
            f"WHEN {is_long} THEN {constraints.no_folder(column, write)} ELSE {text} END"
        )
    return f"{text} AS {quoted(column.name)}"


def _partition_text(column: Column) -> str:
    text, declared = f"CAST({quoted(column.name)} AS STRING)", column.parsed_type
    if isinstance(declared, Primitive) and declared.family is Family.DECIMAL and declared.parameters[1] > 0:
        # Without ANSI mode, Spark casts a small number to a text with an exponent.
        text = f"replace(format_number({quoted(column.name)}, {declared.parameters[1]}), ',', '')"
    return f"coalesce(nullif({text}, ''), '{DEFAULT_PARTITION}')"


def _folder_bytes(name: str) -> str:
    """Return Spark SQL for the number of bytes that a value takes in the name of a directory.

    An escaped character takes three bytes.
    """
    escaped = f"CAST(X'{''.join(ESCAPED).encode().hex()}' AS STRING)"
    return f"octet_length({name}) + 2 * (length({name}) - length(translate({name}, {escaped}, '')))"


def _stage(staging: Staging, rows: DataFrame, write: Write, keys: list[str]) -> None:
    staging.write(in_buckets(rows, write), keys, lambda each: _numbered(in_order(each, write), write))


def in_buckets(rows: DataFrame, write: Write) -> DataFrame:
    """Return the rows of a bucketed table with one task for each bucket, and rows of other tables unchanged."""
    if write.num_buckets <= 0:
        return rows
    numbered = rows.withColumn(_BUCKET_NUMBER, bucket_number(write))
    return numbered.repartitionById(write.num_buckets, F.col(_BUCKET_NUMBER)).drop(_BUCKET_NUMBER)


def in_order(rows: DataFrame, write: Write) -> DataFrame:
    """Return the rows, sorted within each task into the order in which they are written."""
    order = [F.col(quoted(column.name)) for column in layout.dynamic_columns(write)]
    order += sort_order(write) if write.num_buckets > 0 else []
    return rows.sortWithinPartitions(*order) if order else rows


def sort_order(write: Write) -> list[Expression]:
    """Return the sort columns of a bucketed table with their directions. As in Hive, NULL is less than any value."""
    columns = [(F.col(quoted(column.name)), column.ascending) for column in write.sort_columns]
    return [column.asc() if ascending else column.desc() for column, ascending in columns]


def bucket_number(write: Write) -> Expression:
    """Return a Spark column with the number of each row's bucket, from the bucketing columns of the table."""
    types = layout.bucket_types(write)
    names = [quoted(name) for name in write.bucket_columns]
    in_sql = bucketing.bucket_number_sql(names, types, write.num_buckets)
    if in_sql is not None:
        return F.expr(in_sql)
    # By value, so that a cluster's Python workers do not need our package.
    cloudpickle.register_pickle_by_value(bucketing)  # type: ignore[no-untyped-call]
    number: Expression = bucketing.bucket_number_function(types, write.num_buckets)(*names)
    return number


def _numbered(rows: DataFrame, write: Write) -> DataFrame:
    """Return the rows with the metadata columns of ACID files, such as the row id.

    The caller must not shuffle or sort the result, because files need the order of the row ids.
    """
    if write.layout == layout.PLAIN:
        return rows
    bucket = f"{encode_bucket(0, write.statement_id)} | shiftleft(spark_partition_id(), {WRITER_SHIFT})"
    write_id = layout.number_of_statement(write.write_id)
    return rows.selectExpr(
        f"{layout.INSERT_OPERATION} AS {layout.OPERATION}",
        f"{write_id} AS {layout.ORIGINAL_WRITE_ID}",
        f"{bucket} AS {layout.BUCKET}",
        f"monotonically_increasing_id() & {ROW_ID_MASK}L AS {layout.ROW_ID}",
        f"{write_id} AS {layout.WRITE_ID}",
        *((f"true AS {layout.ROW_PLACE}",) if write.layout == layout.HIVE else ()),
        "*",
    )


def _publish(staging: Staging, write: Write, made: NewDirectories) -> None:
    """Rename the files of ``staging`` into the directories of the write."""
    keys = [column.name for column in layout.dynamic_columns(write)]
    for file in staging.files(keys):
        texts = {key.lower(): value for key, value in zip(keys, file.values, strict=True)}
        partition, values = layout.partition_of(write, texts)
        target = made.directory(partition, values) / f"{layout.file_name(write, file.task)}{file.ending}"
        made.count(partition, file.rows, staging.publish(file, target))
    if write.overwrite and not keys:
        made.directory(*layout.partition_of(write, {}))


log = logging.getLogger(__name__)


def queried(
    spark: SparkSession,
    sources: Sequence[Source],
    inserts: Sequence[PlannedInsert],
    arguments: Mapping[str, Any],
    made: list[str],
    *,
    views: Sequence[str] = (),
) -> list[DataFrame]:
    """Return a DataFrame for each INSERT, for EXPLAIN. No job runs.

    ``made`` and ``views`` are used as in :func:`write_inserts`.
    """
    for source in sources:
        view_queries.query(spark, source.sql, arguments, (*made, *views)).createOrReplaceTempView(source.view)
        made.append(source.view)
    return [view_queries.query(spark, insert.sql, arguments, (*made, *views)) for insert in inserts]


def write_inserts(
    spark: SparkSession,
    sources: Sequence[Source],
    inserts: Sequence[PlannedInsert],
    arguments: Mapping[str, Any],
    made: list[str],
    *,
    views: Sequence[str] = (),
) -> tuple[tuple[WrittenDirectory, ...], ...]:
    """Write the rows of each INSERT as :func:`write_rows` does; return the new directories of each INSERT.

    The names of created temporary views are added to ``made``; the caller must drop these views. ``views`` are existing
    temporary views that the queries are allowed to read.

    Raises:
        ColumnCountMismatchError: a query returns more or fewer columns than the write has.
        TypeMismatchError: a column needs an explicit CAST.
    """

    def work(kept: Kept) -> tuple[tuple[WrittenDirectory, ...], ...]:
        for source in sources:
            kept.keep(view_queries.query(spark, source.sql, arguments, (*made, *views))).createOrReplaceTempView(
                source.view
            )
            made.append(source.view)
        written: list[tuple[WrittenDirectory, ...]] = []
        try:
            for number, insert in enumerate(inserts, start=1):
                log.info("INSERT %d of %d, into %s", number, len(inserts), insert.write.table)
                rows = view_queries.query(spark, insert.sql, arguments, (*made, *views))
                written.append(write_rows(rows, insert.write))
                # The first INSERT has computed the rows that all read.
                kept.check()
        except BaseException:
            for insert, directories in zip(inserts, written, strict=False):
                discard(insert.write, directories)
            raise
        return tuple(written)

    return with_kept(spark, work)
