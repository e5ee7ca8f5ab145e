"""Constants of a VALUES list as the values that Spark would store for them.

Only what is certain: None from :func:`stored_column` means that Spark has to say, be it the value
or the error. Source: Spark's store assignment policy ANSI, and Cast in ANSI mode.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from airflow_hivex.core.errors import TypeMismatchError
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.spark.types import TEXT, WHOLE_NUMBERS, is_assignable, parse_atomic

_EXACT = frozenset({*WHOLE_NUMBERS, "decimal"})
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_WIDE = Context(prec=100)

# Earlier dates are written in two calendars, and fractions of seconds before 1970 in two ways.
_FIRST_DATE = date(1900, 1, 1)
_FIRST_MOMENT = datetime(1970, 1, 2)  # noqa: DTZ001 - wall clock time

Converter = Callable[[Any], Any]


class _UncertainError(Exception):
    """Spark has to decide about this value."""


def stored_column(literals: Sequence[Literal], column: Column, table: str) -> list[Any] | None:
    """Return the values of one column of a VALUES list as they are stored in ``column``; None when that is not certain.

    Raises:
        TypeMismatchError: values of that type cannot be stored there without a CAST.
    """
    target = parse_atomic(column.type)
    if target is None:
        return None
    types = {literal.type for literal in literals if literal.type != "void"}
    parsed = {parse_atomic(given) for given in types}
    names = {source[0] for source in parsed if source is not None}
    if len(names) == 1 and not is_assignable(next(iter(names)), target[0]):
        raise TypeMismatchError(table, column.name, column.type, f"a value of type {next(iter(types))}")
    if None in parsed or (len(types) > 1 and not _is_one_exact_type(parsed, target[0])):
        return None
    try:
        return [
            None if literal.value is None else _converter(parse_atomic(literal.type), target)(literal.value)
            for literal in literals
        ]
    except _UncertainError:
        return None


def _is_one_exact_type(sources: set[Any], target: str) -> bool:
    """Return whether the common type that Spark finds for a column of constants holds each of them exactly."""
    if not all(name in _EXACT for name, _ in sources) or target not in {*_EXACT, "double"}:
        return False
    scales = [parameters[1] if name == "decimal" else 0 for name, parameters in sources]
    digits = [parameters[0] - parameters[1] if name == "decimal" else _DIGITS[name] for name, parameters in sources]
    return max(digits) + max(scales) <= 38


def _converter(source: Any, target: tuple[str, tuple[int, ...]]) -> Converter:
    given, (wanted, parameters) = source[0], target
    if wanted in WHOLE_NUMBERS and given in {*WHOLE_NUMBERS, "decimal", "double"}:
        return lambda value: _whole(value, WHOLE_NUMBERS[wanted])
    if wanted == "decimal" and given in _EXACT:
        return lambda value: _decimal(value, *parameters)
    if wanted in ("double", "float") and given in {*_EXACT, "double"}:
        return _single if wanted == "float" else float
    if wanted in TEXT:
        text = _text(given)
        return lambda value: _fitted(text(value), wanted, parameters)
    if given == wanted and wanted in ("boolean", "binary"):
        return lambda value: value
    if wanted in ("date", "timestamp", "timestamp_ntz"):
        return _moment(given, wanted)
    raise _UncertainError


def _whole(value: Any, bits: int) -> int:
    if isinstance(value, float) and not np.isfinite(value):
        raise _UncertainError
    whole = int(value)
    if not -(1 << bits) <= whole < 1 << bits:
        raise _UncertainError
    return whole


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    if abs(rounded) >= Decimal(10) ** (precision - scale):
        raise _UncertainError
    return rounded


def _single(value: Any) -> float:
    if isinstance(value, int):
        return float(np.float32(np.int64(value))) if value.bit_length() < 64 else _uncertain()
    double = float(value)
    # Half way between two floats the decimal decides, not the double nearest to it.
    half_way = struct.unpack("<q", struct.pack("<d", double))[0] & 0x1FFFFFFF == 0x10000000
    if isinstance(value, Decimal) and ((half_way and Decimal(double) != value) or 0 < abs(double) < 1.2e-38):
        raise _UncertainError
    with np.errstate(over="ignore"):
        return float(np.float32(double))


def _uncertain() -> Any:
    raise _UncertainError


def _text(given: str) -> Converter:
    if given in TEXT:
        return str
    if given in WHOLE_NUMBERS:
        return str
    if given == "boolean":
        return lambda value: "true" if value else "false"
    if given == "date":
        return lambda value: _date(value).isoformat()
    raise _UncertainError


def _fitted(text: str, wanted: str, parameters: tuple[int, ...]) -> str:
    if wanted == "string":
        return text
    (length,) = parameters
    if len(text) > length:
        if text[length:].strip(" "):
            raise _UncertainError
        return text[:length]
    return text.ljust(length) if wanted == "char" else text


def _moment(given: str, wanted: str) -> Converter:
    if wanted == "date" and given == "date":
        return _date
    if wanted == "date" and given == "timestamp_ntz":
        return lambda value: _date(value.date())
    if wanted == "timestamp_ntz" and given == "timestamp_ntz":
        return _wall_clock
    if wanted == "timestamp_ntz" and given == "date":
        return lambda value: _wall_clock(datetime.combine(value, time()))
    if wanted == "timestamp" and given == "timestamp":
        return _instant
    # A time zone of the session comes in.
    raise _UncertainError


def _date(value: date) -> date:
    return value if value >= _FIRST_DATE else _uncertain()


def _wall_clock(value: datetime) -> datetime:
    return value if value >= _FIRST_MOMENT else _uncertain()


def _instant(value: datetime) -> datetime:
    # One without a zone is in the session's, which is not known here.
    return _uncertain() if value.tzinfo is None else _wall_clock(value.astimezone(UTC).replace(tzinfo=None))
