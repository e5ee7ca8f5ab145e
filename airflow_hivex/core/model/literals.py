"""Constants of statements, and Python values as constants in Spark SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.column_types import Array, ColumnType, Family, Map, Primitive, Struct

Value: TypeAlias = str | int | float | bool | Decimal | date | datetime | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: its Python value and its Spark type (``int``, ``decimal(2,1)``, ``string``, ``void``...)."""

    value: Value | bytes
    type: str


_MICROSECOND = timedelta(microseconds=1)


def constant(value: object, type: ColumnType) -> str:
    """Return the expression of Spark SQL for a value of a type.

    Raises:
        InvalidOperationError: Spark SQL has no expression for values of the type.
    """
    return f"CAST({_expression(value, type)} AS {type})"


def _expression(value: object, type: ColumnType) -> str:
    if value is None:
        return "NULL"
    match type:
        case Array():
            assert isinstance(value, Sequence)
            return f"array({', '.join(constant(each, type.element) for each in value)})"
        case Map():
            # Arrow returns the entries of a map as pairs.
            pairs = value.items() if isinstance(value, Mapping) else _items(value)
            parts = (f"{constant(key, type.key)}, {constant(each, type.value)}" for key, each in pairs)
            return f"map({', '.join(parts)})"
        case Struct():
            fields = value.values() if isinstance(value, Mapping) else _items(value)
            named = zip(type.fields, fields, strict=True)
            return f"named_struct({', '.join(f'{_text(f.name)}, {constant(each, f.type)}' for f, each in named)})"
        case Primitive():
            return _primitive(value, type)
    raise _no_constant(type)


def _items(value: object) -> Sequence[Any]:
    assert isinstance(value, list | tuple)
    return value


def _primitive(value: object, type: Primitive) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return _text(str(value))
        case float():
            return _text("NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity"))
        case bytes() | bytearray():
            return f"X'{bytes(value).hex()}'"
        case datetime():
            return _text(value.isoformat(sep=" "))
        case date():
            return _text(value.isoformat())
        case timedelta() if type.kind.family is Family.INTERVAL:
            return f"INTERVAL '{value // _MICROSECOND // 10**6}.{value // _MICROSECOND % 10**6:06}' SECOND"
        case str() if type.kind.family is Family.TEXT:
            return _text(value)
    raise _no_constant(type)


def _no_constant(type: ColumnType) -> InvalidOperationError:
    return InvalidOperationError("A variable of", str(type), "values of this type cannot be kept; cast it to STRING")


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
