"""The lowest and the highest values of columns in parts of files, from their footers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from airflow_hivex.core.arrow.calendars import gregorian
from airflow_hivex.core.arrow.conditions import Range
from airflow_hivex.core.job.orc_tail.types import HAS_NULL, MAXIMUM, MINIMUM, VALUES, integer_range
from airflow_hivex.core.job.orc_tail.wire import Message, signed
from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive

_STRINGS, _DECIMALS, _DATES = 4, 6, 7
_EPOCH = date(1970, 1, 1)


def orc_range(statistics: Message, declared: ColumnType, *, is_julian: bool) -> Range | None:
    """Return the range of a column that the statistics of a stripe tell; None where they tell nothing certain.

    ``is_julian`` as in ``Piece``.
    """
    if not isinstance(declared, Primitive) or not statistics.has(VALUES):
        return None
    has_null = bool(statistics.number(HAS_NULL, 1))
    if not statistics.number(VALUES):
        return Range(None, None, has_null)
    found = _orc_bounds(statistics, declared, is_julian)
    return None if found is None else Range(*found, has_null)


def _orc_bounds(statistics: Message, declared: Primitive, is_julian: bool) -> tuple[Any, Any] | None:
    if declared.family is Family.WHOLE:
        return integer_range(statistics)
    if declared.name == "date":
        days = Message.parse(statistics.data(_DATES))
        if days.has(MINIMUM) and days.has(MAXIMUM):
            bounds = signed(days.number(MINIMUM)), signed(days.number(MAXIMUM))
            low, high = (int(gregorian(day)) for day in bounds) if is_julian else bounds
            return _day(low), _day(high)
    if declared.family is Family.DECIMAL:
        texts = Message.parse(statistics.data(_DECIMALS))
        try:
            return Decimal(texts.data(MINIMUM).decode()), Decimal(texts.data(MAXIMUM).decode())
        except InvalidOperation:
            return None
    if declared.name in ("string", "varchar"):
        texts = Message.parse(statistics.data(_STRINGS))
        if texts.has(MINIMUM) and texts.has(MAXIMUM):
            return _texts(texts.data(MINIMUM).decode(), texts.data(MAXIMUM).decode())
    return None


def _texts(minimum: str, maximum: str) -> tuple[str, str] | None:
    # Writers order texts by their bytes or by UTF-16 units, which is the same against a text of ASCII.
    return (minimum, maximum) if minimum.isascii() and maximum.isascii() else None


def _day(number: int) -> date:
    """Return a day; one that Python does not have is the next one that it has."""
    try:
        return _EPOCH + timedelta(days=number)
    except OverflowError:
        return date.min if number < 0 else date.max


def parquet_ranges(row_group: Any, columns: Mapping[str, ColumnType]) -> dict[str, Range]:
    """Return the ranges of columns, by their lower-case name in the file, in a row group."""
    found = {}
    for place in range(row_group.num_columns):
        column = row_group.column(place)
        declared = columns.get(column.path_in_schema.lower())
        statistics = column.statistics if column.is_stats_set else None
        if declared is None or statistics is None or not statistics.has_min_max:
            continue
        known = _parquet_range(statistics, declared)
        if known is not None:
            found[column.path_in_schema.lower()] = known
    return found


def _parquet_range(statistics: Any, declared: ColumnType) -> Range | None:
    has_null = not statistics.has_null_count or statistics.null_count > 0
    low, high = statistics.min, statistics.max
    if not isinstance(declared, Primitive):
        return None
    if declared.family is Family.WHOLE and isinstance(low, int) and isinstance(high, int):
        return Range(low, high, has_null)
    if declared.family is Family.DECIMAL and isinstance(low, Decimal) and isinstance(high, Decimal):
        return Range(low, high, has_null)
    if declared.name == "date" and isinstance(low, date) and not isinstance(low, datetime):
        return Range(low, high, has_null)
    if declared.name in ("string", "varchar") and isinstance(low, str) and isinstance(high, str):
        bounds = _texts(low, high)
        return None if bounds is None else Range(*bounds, has_null)
    return None
