"""Types of PEP 249: objects that a column's type compares equal to, constructors, descriptions of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal

Description = tuple[str, str, None, None, int | None, int | None, None]
"""A column as PEP 249 describes it: name, type, two sizes, precision, scale, whether it may be NULL."""

_NAME = re.compile(r"[a-z_]+")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


class TypeObject:
    """A group of column types; it compares equal to the type code of each column of the group."""

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = frozenset(types)

    def __repr__(self) -> str:
        return self._name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self is other
        if not isinstance(other, str):
            return NotImplemented
        found = _NAME.match(other)
        return found is not None and found.group() in self._types

    def __hash__(self) -> int:
        return hash(self._name)


STRING = TypeObject("STRING", "string", "varchar", "char")
BINARY = TypeObject("BINARY", "binary")
NUMBER = TypeObject("NUMBER", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
DATETIME = TypeObject("DATETIME", "date", "timestamp", "timestamp_ntz", "timestamp_ltz")
ROWID = TypeObject("ROWID")
"""Equal to no type: the row id of a table is a struct."""

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - the name that PEP 249 gives it
    """Return the date of a number of seconds since 1970, in UTC."""
    return datetime.fromtimestamp(ticks, UTC).date()


def TimeFromTicks(ticks: float) -> time:  # noqa: N802 - the name that PEP 249 gives it
    """Return the time of day of a number of seconds since 1970, in UTC."""
    return datetime.fromtimestamp(ticks, UTC).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802 - the name that PEP 249 gives it
    """Return the time of a number of seconds since 1970, in UTC."""
    return datetime.fromtimestamp(ticks, UTC)


def describe(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Description]:
    """Return the description of each column. Without ``types`` the first value of a column decides its type."""
    known = list(types) or [_type_of_values(rows, at) for at in range(len(names))]
    return [_column(name, spark_type) for name, spark_type in zip(names, known, strict=True)]


def _column(name: str, type: str) -> Description:
    decimal = _DECIMAL.fullmatch(type)
    precision, scale = (int(decimal[1]), int(decimal[2])) if decimal else (None, None)
    return (name, type, None, None, precision, scale, None)


def _type_of_values(rows: Sequence[Sequence[object]], at: int) -> str:
    value = next((row[at] for row in rows if row[at] is not None), None)
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint"
        case float():
            return "double"
        case Decimal():
            return "decimal"
        case datetime():
            return "timestamp"
        case date():
            return "date"
        case bytes():
            return "binary"
    return "string"
