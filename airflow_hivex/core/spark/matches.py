"""The rows of a MERGE's source, and those of its target that they match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from airflow_hivex.core.errors import MergeCardinalityError
from airflow_hivex.core.model.plans import SOURCE_ROW
from airflow_hivex.core.spark import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.spark.writes import ROW_ID_MASK

_SAMPLED = 64
_ROW_OVERHEAD = 64
_MOST_BROADCAST_BYTES = 64 << 20
_FOUND = "__found_source_row"
_SOURCE_COLUMN = "__source_column_"
_TASK = "__task"
_MANY, _FEW, _TASKS_WITH_MANY = 1 << 15, 1 << 8, 1 << 5
_MOST_OF_TASK = f"IF({_TASK} < {_TASKS_WITH_MANY}, {_MANY}, {_FEW})"


@dataclass(frozen=True, slots=True)
class SourceSize:
    """How many rows a MERGE's source has, and whether they are sent to all tasks, so that the target is not shuffled.

    Spark's own limit is for tables that it knows little of; here the rows are there, and counted.
    """

    rows: int
    is_small: bool


def measure(source: DataFrame) -> SourceSize:
    """Return the size of a MERGE's source. One job, which also fills what is kept."""
    # As one text, because a sum of many columns is an expression so deep that the stack of the JVM can overflow.
    width = "length(CAST(struct(*) AS STRING))"
    counted = source.selectExpr("count(*)", f"avg(IF({SOURCE_ROW} % {_SAMPLED} = 0, {width}, NULL))")
    rows, width = counted.collect()[0]
    return SourceSize(rows, rows * ((width or 0) + _ROW_OVERHEAD) <= _MOST_BROADCAST_BYTES)


@dataclass(frozen=True, slots=True)
class Matches:
    """How many rows match, and the numbers of the rows of the source that do. Neither is known of very many."""

    rows: int | None = None
    source_rows: Any = None

    def rest(self, source: DataFrame, matched: DataFrame) -> DataFrame:
        """Return the rows of the source that match nothing."""
        if self.source_rows is None:
            found = matched.select(F.col(SOURCE_ROW).alias(_FOUND))
        elif len(self.source_rows) == 0:
            return source
        else:
            numbers = pa.table({_FOUND: self.source_rows})
            found = F.broadcast(source.sparkSession.createDataFrame(numbers))
        return source.join(found, F.expr(f"{SOURCE_ROW} = {_FOUND}"), "left_anti")

    def with_source(self, matched: DataFrame, source: DataFrame, size: SourceSize) -> DataFrame:
        """Return the rows that match with the columns of a small source, each under its :func:`joined_name`."""
        names = source.columns
        named = source.toDF(*(_FOUND if name == SOURCE_ROW else joined_name(name) for name in names))
        if self.rows is not None and self.rows <= size.rows and len(matched.columns) <= len(names):
            matched = F.broadcast(matched)
        else:
            named = F.broadcast(named)
        return named.join(matched, F.expr(f"{SOURCE_ROW} = {_FOUND}"))


def joined_name(name: str) -> str:
    """Return the name of a column of the source, next to those of the target."""
    return f"{_SOURCE_COLUMN}{name}"


def joined_names(rows: DataFrame) -> dict[str, str]:
    """Return the source's own names of its columns by lower-case name."""
    names = [name.removeprefix(_SOURCE_COLUMN) for name in rows.columns if name.startswith(_SOURCE_COLUMN)]
    return {name.lower(): name for name in names}


def find_matches(ids: DataFrame, keys: Sequence[str], table: str, *, one_each: bool) -> Matches:
    """Return the matches of rows, of which ``ids`` has the number of the source and the ``keys`` of the target.

    All of them are computed. One job, two where there are very many.

    Raises:
        MergeCardinalityError: several rows of the source match one row of the target, where there may be ``one_each``.
    """
    # Not too many by task: the driver gets few rows however many there are.
    number = f"monotonically_increasing_id() & {ROW_ID_MASK}L"
    found = ids.withColumn(_TASK, F.spark_partition_id()).where(f"{number} < {_MOST_OF_TASK}").toArrow()
    if _is_cut(found):
        if one_each:
            several = ids.groupBy(*keys).count().where("count > 1")
            # To count them all takes one more shuffle.
            if several.take(1):
                raise MergeCardinalityError(table, several.count())
        return Matches()
    if one_each:
        counts = found.group_by(list(keys)).aggregate([([], "count_all")])["count_all"]
        if len(counts) < found.num_rows:
            raise MergeCardinalityError(table, pc.sum(pc.greater(counts, 1)).as_py())
    return Matches(found.num_rows, pc.unique(found[SOURCE_ROW]))


def _is_cut(found: pa.Table) -> bool:
    """Return whether tasks may have had more rows than they have sent."""
    tasks = found.group_by(_TASK).aggregate([([], "count_all")])
    most = pc.if_else(pc.less(tasks[_TASK], _TASKS_WITH_MANY), _MANY, _FEW)
    return bool(pc.any(pc.greater_equal(tasks["count_all"], most)).as_py())
