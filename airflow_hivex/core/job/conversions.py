"""The conversion of constants in a VALUES list to the values that Spark would store.

The conversion is exact: :func:`stored_column` returns None if only Spark knows the value or the error. Source:
Spark's store assignment policy ANSI, and Cast in ANSI mode.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from airflow_hivex.core.errors import TypeMismatchError, UnreadableTextError
from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive, is_assignable, is_readable, parse_type
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import Column

_EXACT = (Family.WHOLE, Family.DECIMAL)
_WIDE = Context(prec=100)

# Writers use two calendars for earlier dates, and two forms for fractions of seconds before 1970.
_FIRST_DATE = date(1900, 1, 1)
_FIRST_MOMENT = datetime(1970, 1, 2)  # noqa: DTZ001 - wall clock time

# Texts with the same meaning in each engine; Spark reads more texts.
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_PLAIN_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGIT = re.compile(r"[0-9]")

Converter = Callable[[Any], Any]


class _UncertainError(Exception):
    """The conversion of a value is uncertain, and Spark has to decide."""


def check_types(literals: Sequence[Literal], column: Column, table: str, *, casts: bool = False) -> None:
    """Check that ``column`` can store all ``literals``, which are one column of a VALUES list.

    With ``casts`` every type is accepted, because Spark casts the values.

    Raises:
        TypeMismatchError: a value cannot be stored in the column without a CAST.
    """
    target = column.parsed_type
    if casts or not isinstance(target, Primitive):
        return
    for name in dict.fromkeys(literal.type for literal in literals):
        source = parse_type(name)
        assert isinstance(source, Primitive), "constants have no parts"
        if not is_assignable(source, target) and not (source.family is Family.TEXT and is_readable(target)):
            raise TypeMismatchError(table, column.name, column.type, f"a value of type {name}")


def stored_column(literals: Sequence[Literal], column: Column, table: str, *, casts: bool = False) -> list[Any] | None:
    """Return the values that Spark would store in ``column``, or None if a value is not certain.

    ``literals`` are one column of a VALUES list. Each value is cast by itself, and a text is cast to the type of the
    column. :func:`check_types` must accept the types. With ``casts`` the result is None if the values have a type that
    needs a cast by Spark.

    Raises:
        UnreadableTextError: a text is not a valid value of the type.
    """
    target = column.parsed_type
    if not isinstance(target, Primitive):
        return None
    try:
        converters = {
            name: _converter_of(parse_type(name), column, target, table, casts)
            for name in {literal.type for literal in literals if literal.value is not None}
        }
        stored = [None if literal.value is None else converters[literal.type](literal.value) for literal in literals]
    except _UncertainError:
        return None
    return stored


def _converter_of(source: ColumnType, column: Column, target: Primitive, table: str, casts: bool) -> Converter:
    assert isinstance(source, Primitive), "constants have no parts"
    if is_assignable(source, target):
        return _converter(source, target)
    if casts:
        raise _UncertainError
    has_digits = target.family in (*_EXACT, Family.MOMENT)

    def read(value: Any) -> Any:
        text = str(value)
        if has_digits and not _DIGIT.search(text):
            raise UnreadableTextError(table, column.name, column.type, text)
        return _from_text(text, target)

    return read


def _from_text(text: str, target: Primitive) -> Any:
    is_number = _PLAIN_NUMBER.fullmatch(text) is not None
    match target.family:
        case Family.WHOLE if is_number and "." not in text:
            return _whole(int(text), target.kind.bits)
        case Family.DECIMAL if is_number:
            return _decimal(Decimal(text), *target.parameters)
        case Family.FLOATING if is_number:
            return _single(Decimal(text)) if target.name == "float" else float(text)
        case Family.BOOLEAN if text in ("true", "false"):
            return text == "true"
        case Family.MOMENT if target.name == "date" and _PLAIN_DATE.fullmatch(text):
            try:
                return _date(date.fromisoformat(text))
            except ValueError:
                raise _UncertainError from None
    raise _UncertainError


def _converter(source: Primitive, target: Primitive) -> Converter:
    is_number = source.family in _EXACT or source.name == "double"
    match target.family:
        case Family.WHOLE if is_number:
            bits = target.kind.bits
            return lambda value: _whole(value, bits)
        case Family.DECIMAL if source.family in _EXACT:
            return lambda value: _decimal(value, *target.parameters)
        case Family.FLOATING if is_number:
            floating = _single if target.name == "float" else float
            return (lambda value: floating(_unsigned_zero(value))) if source.family is Family.DECIMAL else floating
        case Family.TEXT:
            text = _text(source)
            return lambda value: _fitted(text(value), target)
        case Family.BOOLEAN | Family.BINARY if source == target:
            return lambda value: value
        case Family.MOMENT:
            return _moment(source.name, target.name)
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
    return _unsigned_zero(rounded)


def _unsigned_zero(value: Decimal) -> Decimal:
    """Return the value, with -0.0 replaced by 0.0, because Spark's decimals have no signed zero."""
    return value or value.copy_abs()


def _single(value: Any) -> float:
    if isinstance(value, int):
        return float(np.float32(np.int64(value))) if value.bit_length() < 64 else _uncertain()
    double = float(value)
    # Half way between two floats, Spark rounds the decimal itself, not the double nearest to it.
    half_way = struct.unpack("<q", struct.pack("<d", double))[0] & 0x1FFFFFFF == 0x10000000
    if isinstance(value, Decimal) and ((half_way and Decimal(double) != value) or 0 < abs(double) < 1.2e-38):
        raise _UncertainError
    with np.errstate(over="ignore"):
        return float(np.float32(double))


def _uncertain() -> Any:
    raise _UncertainError


def _text(source: Primitive) -> Converter:
    if source.family in (Family.TEXT, Family.WHOLE):
        return str
    if source.family is Family.BOOLEAN:
        return lambda value: "true" if value else "false"
    if source.name == "date":
        return lambda value: _date(value).isoformat()
    raise _UncertainError


def _fitted(text: str, target: Primitive) -> str:
    if not target.parameters:
        return text
    (length,) = target.parameters
    if len(text) > length:
        if text[length:].strip(" "):
            raise _UncertainError
        return text[:length]
    return text.ljust(length) if target.name == "char" else text


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
    # The result depends on the time zone of the session.
    raise _UncertainError


def _date(value: date) -> date:
    return value if value >= _FIRST_DATE else _uncertain()


def _wall_clock(value: datetime) -> datetime:
    return value if value >= _FIRST_MOMENT else _uncertain()


def _instant(value: datetime) -> datetime:
    # A time without a zone is in the session's zone, which is not known here.
    return _uncertain() if value.tzinfo is None else _wall_clock(value.astimezone(UTC).replace(tzinfo=None))
