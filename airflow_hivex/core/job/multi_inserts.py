"""Several INSERTs of one statement: what they read together is computed once, all or none of them is written."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.job import view_queries, writes
from airflow_hivex.core.job.new_directories import discard
from airflow_hivex.core.job.shared_rows import Kept, with_kept
from airflow_hivex.core.model.plans import PlannedInsert, Source, WrittenDirectory

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
    """Return the rows of each INSERT, for EXPLAIN. Runs no job; temporary views are as in :func:`write_inserts`."""
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
    """Return the directories of each INSERT, as :func:`writes.write_rows` makes them.

    Temporary views that are made join ``made``, for the caller to drop. ``views`` may be read besides them.

    Raises:
        ColumnCountMismatchError: a query brings more or fewer columns than are taken.
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
                written.append(writes.write_rows(rows, insert.write))
                # The first one has computed what all read.
                kept.check()
        except BaseException:
            for insert, directories in zip(inserts, written, strict=False):
                discard(insert.write, directories)
            raise
        return tuple(written)

    return with_kept(spark, work)
