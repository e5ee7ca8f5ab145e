"""Readers of ORC and Parquet files. They read a file in pieces: stripes of ORC, or row groups of Parquet."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from airflow_hivex.core.arrow.conditions import Condition, Range
from airflow_hivex.core.errors import JobError, StorageError
from airflow_hivex.core.job.layout import HIVE_NAMES, HIVE_ROW
from airflow_hivex.core.job.orc_tail import Keys, Tail, known_keys, read_tail
from airflow_hivex.core.job.orc_tail.tail import JULIAN_GREGORIAN
from airflow_hivex.core.job.orc_tail.types import HAS_NULL, MAXIMUM, MINIMUM, VALUES, children, integer_range, names
from airflow_hivex.core.job.orc_tail.wire import Message, signed
from airflow_hivex.core.job.storage import Place
from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive
from airflow_hivex.core.model.objects import Column

_UNNAMED = "_col"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stripe or row group of a file: its number, its count of rows, and the count of rows before it.

    If ``is_julian``, days before 1582-10-15 are numbered by the Julian calendar. ``keys`` are the ranges of the
    metadata columns (write ids, bucket and row id of each row), or None if they were not requested or the file does not
    have them.
    """

    number: int
    rows: int
    first_row: int
    is_julian: bool = False
    keys: Keys | None = None


class Reading(Protocol):
    """A reader of files of one format. It finds ``columns`` by their names in files (``Column.in_files``)."""

    def pieces(self, file: Place, columns: Sequence[Column], condition: Condition | None, *, keys: bool) -> list[Piece]:
        """Return the stripes or row groups in which a row can fulfil the condition; ``keys`` fills ``Piece.keys``."""

    def rows(
        self, file: Place, piece: Piece, columns: Sequence[Column], metadata: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        """Return a dict from column name to values, for the ``columns`` that the file has and for ``metadata``."""


@contextmanager
def readable(file: Place) -> Iterator[None]:
    """Raise a StorageError in place of each error of pyarrow or the file system in the block, which reads the file.

    Raises:
        StorageError: the file cannot be read.
    """
    began = time.monotonic()
    try:
        yield
    except JobError as error:
        raise StorageError(file.path, str(error.facts[1])) from error
    except (OSError, pa.ArrowException) as error:
        reason = file.describe(error, began)
        if "nanosecond resolution" in reason:
            reason = (
                "it has a time before 1677 or after 2262, which pyarrow's reader of ORC does not represent; "
                "use session.sql"
            )
        raise StorageError(file.path, reason) from error


class OrcReading:
    """A reader of ORC files by stripes. If ``is_nested``, the columns are fields of a struct, as in files of Hive."""

    def __init__(self, declared: Sequence[Column], *, is_nested: bool = False) -> None:
        self._declared = declared
        self._is_nested = is_nested

    def pieces(self, file: Place, columns: Sequence[Column], condition: Condition | None, *, keys: bool) -> list[Piece]:
        """Return the stripes of a file in which, by their statistics, a row can fulfil the condition."""
        with readable(file):
            tail = read_tail(file)
        keys_of = _keys_of(tail) if keys else [None] * len(tail.stripes)
        is_julian = tail.form["calendar"] == JULIAN_GREGORIAN
        ids = self._column_ids(tail.types) if condition is not None else {}
        statistics = tail.stripe_statistics if condition is not None else []
        found, first_row = [], 0
        for number, stripe in enumerate(tail.stripes):
            ranges: dict[str, Range] = {}
            for column in columns if number < len(statistics) else ():
                at = ids.get(column.in_files.lower())
                known = None
                if at is not None and at < len(statistics[number]):
                    known = orc_range(statistics[number][at], column.parsed_type, is_julian=is_julian)
                if known is not None:
                    ranges[column.name.lower()] = known
            if condition is None or condition.can_hold(ranges):
                found.append(Piece(number, stripe.rows, first_row, is_julian, keys_of[number]))
            first_row += stripe.rows
        return found

    def _column_ids(self, types: Sequence[Any]) -> dict[str, int]:
        at = 0
        if self._is_nested:
            at = dict(zip(names(types[0]), children(types[0]), strict=True))[HIVE_ROW]
        return dict(zip(map(str.lower, names(types[at])), children(types[at]), strict=True))

    def rows(
        self, file: Place, piece: Piece, columns: Sequence[Column], metadata: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        """Return a dict from column name to the values in a stripe."""
        found = self._stored_rows(file, piece, columns, metadata)
        return {name: with_gregorian_days(values) for name, values in found.items()} if piece.is_julian else found

    def _stored_rows(
        self, file: Place, piece: Piece, columns: Sequence[Column], metadata: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        from pyarrow import orc

        with readable(file), file.open() as data:
            opened = orc.ORCFile(data)
            if self._is_nested:
                return self._nested_columns(opened, piece, columns, metadata)
            places = _places(opened.schema.names, columns, metadata, self._declared)
            if not places:
                return {}
            wanted = sorted(set(places.values()))
            stripe = opened.read_stripe(piece.number, columns=wanted)
            return {name: stripe.column(wanted.index(at)) for name, at in places.items()}

    def _nested_columns(
        self, opened: Any, piece: Piece, columns: Sequence[Column], metadata: Sequence[str]
    ) -> Mapping[str, pa.Array]:
        schema = opened.schema
        fields = list(schema.field(HIVE_ROW).type)
        places = _places([field.name for field in fields], columns, (), self._declared)
        chosen = [f"{HIVE_ROW}.{fields[at].name}" for at in sorted(set(places.values()))]
        if any("." in fields[at].name for at in places.values()):
            # pyarrow takes a name with a point for a path.
            chosen = [HIVE_ROW]
        if not chosen and not metadata:
            return {}
        stripe = opened.read_stripe(piece.number, columns=[*(HIVE_NAMES[name] for name in metadata), *chosen])
        found = {name: stripe.column(HIVE_NAMES[name]) for name in metadata}
        if places:
            row = stripe.column(HIVE_ROW)
            parts = dict(zip([field.name for field in row.type], row.flatten(), strict=True))
            found |= {name: parts[fields[at].name] for name, at in places.items()}
        return found


class ParquetReading:
    """A reader of Parquet files by row groups."""

    def __init__(self, declared: Sequence[Column]) -> None:
        self._declared = declared

    def pieces(
        self,
        file: Place,
        columns: Sequence[Column],
        condition: Condition | None,
        *,
        keys: bool,  # noqa: ARG002 - files of Parquet have no such keys
    ) -> list[Piece]:
        """Return the row groups of a file in which, by their statistics, a row can fulfil the condition."""
        from pyarrow import parquet

        with readable(file), file.open() as data:
            footer = parquet.read_metadata(data)
        types = {column.in_files.lower(): column.parsed_type for column in columns}
        tables = {column.in_files.lower(): column.name.lower() for column in columns}
        found, first_row = [], 0
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            known = parquet_ranges(group, types) if condition is not None else {}
            if condition is None or condition.can_hold({tables[name]: each for name, each in known.items()}):
                found.append(Piece(number, group.num_rows, first_row))
            first_row += group.num_rows
        return found

    def rows(
        self,
        file: Place,
        piece: Piece,
        columns: Sequence[Column],
        metadata: Sequence[str],  # noqa: ARG002 - files of Parquet have no metadata columns
    ) -> Mapping[str, pa.Array]:
        """Return a dict from column name to the values in a row group."""
        from pyarrow import parquet

        with readable(file), file.open() as data:
            opened = parquet.ParquetFile(data, coerce_int96_timestamp_unit="us")
            all_names = opened.schema_arrow.names
            places = _places(all_names, columns, (), self._declared)
            if not places:
                return {}
            chosen = sorted({all_names[at] for at in places.values()})
            table = opened.read_row_group(piece.number, columns=chosen, use_threads=False)
            return {name: _array(table.column(all_names[at])) for name, at in places.items()}


def _keys_of(tail: Tail) -> list[Keys | None]:
    """Return for each stripe the ranges of the metadata columns, or None if the statistics do not have them."""
    statistics = tail.stripe_statistics
    if len(statistics) != len(tail.stripes):
        return [None] * len(tail.stripes)
    return [known_keys(columns) for columns in statistics]


def _array(values: pa.ChunkedArray) -> pa.Array:
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def _places(
    there: Sequence[str], columns: Sequence[Column], metadata: Sequence[str], declared: Sequence[Column]
) -> dict[str, int]:
    """Return a dict from name in the table to position in a file, for the columns that the file has.

    Names are compared as in Spark. If a file has only names such as ``_col0``, as written by an older Hive, a column is
    found by its position among all ``declared`` columns.
    """
    if there and all(name.startswith(_UNNAMED) for name in there):
        by_place = {column.name: place for place, column in enumerate(declared) if place < len(there)}
        return {column.name: by_place[column.name] for column in columns if column.name in by_place}
    by_name = {name.lower(): place for place, name in reversed(list(enumerate(there)))}
    found = {name: by_name[name] for name in metadata}
    return found | {
        column.name: by_name[column.in_files.lower()] for column in columns if column.in_files.lower() in by_name
    }


_STRINGS, _DECIMALS, _DATES = 4, 6, 7
_EPOCH = date(1970, 1, 1)


def orc_range(statistics: Message, declared: ColumnType, *, is_julian: bool) -> Range | None:
    """Return the range of a column from the statistics of a stripe, or None if the statistics do not prove a range.

    ``is_julian`` has the meaning of ``Piece.is_julian``.
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
    # Writers order texts by their bytes or by UTF-16 units; in comparisons with an ASCII text both are the same.
    return (minimum, maximum) if minimum.isascii() and maximum.isascii() else None


def _day(number: int) -> date:
    """Return the date of a day number, or the first or last date that Python can represent."""
    try:
        return _EPOCH + timedelta(days=number)
    except OverflowError:
        return date.min if number < 0 else date.max


def parquet_ranges(row_group: Any, columns: Mapping[str, ColumnType]) -> dict[str, Range]:
    """Return a dict from a column's lower-case name in the file to its range in a row group."""
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


# Days of the calendar of ORC files, converted to days of the usual calendar.
#
# ORC numbers days before 1582-10-15 by the Julian calendar unless its footer says otherwise. Like Spark, readers here
# keep year, month and day, and number them by the proleptic Gregorian calendar. Source: CalendarUtils of Apache ORC.


FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970-01-01."""
_JULIAN_DAY_OF_EPOCH = 2_440_588


def gregorian(days: Any) -> Any:
    """Return days of the mixed Julian and Gregorian calendar as days of the Gregorian calendar, both since 1970-01-01.

    ``days`` is a number or an array.
    """
    days = np.asarray(days, np.int64)
    # Richards's algorithm: year, month and day in the Julian calendar.
    e = 4 * (days + _JULIAN_DAY_OF_EPOCH + 1401) + 3
    g = e % 1461 // 4
    h = 5 * g + 2
    day = h % 153 // 5 + 1
    month = (h // 153 + 2) % 12 + 1
    year = e // 1461 - 4716 + (14 - month) // 12
    # Days from a date of the Gregorian calendar, in years that begin in March.
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    number = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return np.where(days < FIRST_GREGORIAN_DAY, number, days)


def with_gregorian_days(values: pa.Array) -> pa.Array:
    """Return an array with all days, at any depth, converted to the Gregorian calendar."""
    declared = values.type
    if not _has_days(declared):
        return values
    if pa.types.is_date32(declared):
        days = values.cast(pa.int32())
        numbers = days.fill_null(0).to_numpy(zero_copy_only=False)
        if not len(numbers) or numbers.min() >= FIRST_GREGORIAN_DAY:
            return values
        return pa.array(gregorian(numbers).astype(np.int32), mask=np.asarray(values.is_null())).cast(declared)
    if pa.types.is_struct(declared):
        fields = [with_gregorian_days(values.field(place)) for place in range(declared.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(declared), mask=values.is_null())
    if pa.types.is_list(declared):
        items = with_gregorian_days(values.values)
        return pa.ListArray.from_arrays(values.offsets, items, type=declared, mask=values.is_null())
    keys, items = with_gregorian_days(values.keys), with_gregorian_days(values.items)
    return pa.MapArray.from_arrays(values.offsets, keys, items, type=declared, mask=values.is_null())


def _has_days(declared: pa.DataType) -> bool:
    if pa.types.is_date32(declared):
        return True
    return any(_has_days(declared.field(place).type) for place in range(declared.num_fields))
