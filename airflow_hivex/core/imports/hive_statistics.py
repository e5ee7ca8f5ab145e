"""The conversion of statistics of a Hive metastore to the statistics of ANALYZE. No table is read.

Hive and Spark store counts and sizes in the parameters of tables and partitions. Hive has structures for the statistics
of columns, and Spark stores them in parameters. Minima and maxima of texts and times are skipped, because Hive does not
have them, or has them in another form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from airflow_hivex.core.imports.conversion import SPARK_STATISTICS
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.statistics import ColumnStatistics, Statistics, StatisticsKind, statistics_kind

_OF_COLUMNS = f"{SPARK_STATISTICS}colStats."
_EPOCH = date(1970, 1, 1)


def convert_statistics(
    parameters: Mapping[str, str], columns: Sequence[Column], of_columns: Iterable[Any], now_ms: int
) -> Statistics | None:
    """Return the statistics of a table or partition, or None if neither Hive nor Spark knows its size.

    ``of_columns`` are Hive's structures of column statistics.
    """
    size = _number(parameters, "totalSize", f"{SPARK_STATISTICS}totalSize")
    if size is None:
        return None
    by_name = {column.name: column for column in columns}
    found: dict[str, ColumnStatistics] = {}
    for column in columns:
        given = _of_spark(parameters, column, now_ms)
        if given is not None:
            found[column.in_files] = given
    for each in of_columns:
        known = by_name.get(each.colName.lower())
        given = None if known is None else _of_hive(each.statsData, known, now_ms)
        if known is not None and given is not None:
            found[known.in_files] = given
    rows = _number(parameters, f"{SPARK_STATISTICS}numRows", "numRows")
    return Statistics(rows, _number(parameters, "numFiles") or 0, size, computed_ms=now_ms, columns=found)


def _number(parameters: Mapping[str, str], *names: str) -> int | None:
    """Return the first number in the named parameters, or None. Hive writes -1 for an unknown number."""
    for name in names:
        text = parameters.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def _of_spark(parameters: Mapping[str, str], column: Column, now_ms: int) -> ColumnStatistics | None:
    def given(fact: str) -> str | None:
        names = (column.in_files, column.name)
        return next((parameters[key] for name in names if (key := f"{_OF_COLUMNS}{name}.{fact}") in parameters), None)

    def number(fact: str) -> int | None:
        text = given(fact)
        return int(text) if text is not None and text.isdigit() else None

    nulls = number("nullCount")
    kind = statistics_kind(column.parsed_type)
    if nulls is None or kind is None:
        return None
    average = given("avgLen")
    has_range = kind is StatisticsKind.ORDERED and not column.type.startswith("timestamp")
    return ColumnStatistics(
        nulls,
        num_distinct=None if kind in (StatisticsKind.BINARY, StatisticsKind.BOOLEAN) else number("distinctCount"),
        low=given("min") if has_range else None,
        high=given("max") if has_range else None,
        average_length=float(average) if average and kind in (StatisticsKind.TEXT, StatisticsKind.BINARY) else None,
        longest=number("maxLen") if kind in (StatisticsKind.TEXT, StatisticsKind.BINARY) else None,
        computed_ms=now_ms,
    )


def _of_hive(data: Any, column: Column, now_ms: int) -> ColumnStatistics | None:
    if statistics_kind(column.parsed_type) is None:
        return None
    if (found := data.booleanStats) is not None:
        return ColumnStatistics(found.numNulls, num_true=found.numTrues, num_false=found.numFalses, computed_ms=now_ms)
    if (found := data.stringStats) is not None:
        return ColumnStatistics(
            found.numNulls, found.numDVs, average_length=found.avgColLen, longest=found.maxColLen, computed_ms=now_ms
        )
    if (found := data.binaryStats) is not None:
        return ColumnStatistics(
            found.numNulls, average_length=found.avgColLen, longest=found.maxColLen, computed_ms=now_ms
        )
    found = data.longStats or data.doubleStats or data.decimalStats or data.dateStats or data.timestampStats
    if found is None:
        return None
    low, high = (
        None if column.type.startswith("timestamp") else _text(value) for value in (found.lowValue, found.highValue)
    )
    return ColumnStatistics(found.numNulls, found.numDVs, low, high, computed_ms=now_ms)


def _text(value: Any) -> str | None:
    """Return a lowest or highest value of a column as text, in the form of Spark's casts."""
    if value is None:
        return None
    if (days := getattr(value, "daysSinceEpoch", None)) is not None:
        try:
            return (_EPOCH + timedelta(days=days)).isoformat()
        except OverflowError:
            return None
    if (unscaled := getattr(value, "unscaled", None)) is not None:
        whole = unscaled.encode("latin-1") if isinstance(unscaled, str) else bytes(unscaled)
        return format(Decimal(int.from_bytes(whole, "big", signed=True)).scaleb(-value.scale), "f")
    return str(value)
