"""Arguments of functions as Spark takes them, and their results."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import TypeAlias

from airflow_hivex.core.model.column_types import KINDS
from airflow_hivex.core.model.expressions import Typed, UndecidedError

Function: TypeAlias = Callable[..., Typed]
"""Raises UndecidedError where the value of Spark is not certain."""

BITS = {name: kind.bits for name, kind in KINDS.items() if kind.bits}
"""Whole-number types, with the bits next to the sign."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
LONGEST_TEXT = 10_000
"""The most characters of a text that is computed here."""


def text_of(argument: Typed) -> str:
    """Return the argument as Spark casts it to a string."""
    match argument:
        case Typed(bool(value), "boolean"):
            return str(value).lower()
        case Typed(str(value), "string"):
            return value
        case Typed(int(value), type) if type in BITS:
            return str(value)
        case Typed(date() as value, "date"):
            return value.isoformat()
    raise UndecidedError


def own_text(argument: Typed) -> str:
    """Return the text of an argument that is one by itself."""
    if argument.type != "string":
        raise UndecidedError
    return text_of(argument)


def ascii_of(argument: Typed) -> str:
    """Return the text of an argument that has only letters of ASCII."""
    # The case of other letters is another matter in Java than in Python.
    text = own_text(argument)
    if not text.isascii():
        raise UndecidedError
    return text


def whole_of(argument: Typed) -> int:
    """Return the value of a whole number."""
    if argument.type not in BITS or not isinstance(argument.value, int):
        raise UndecidedError
    return argument.value


def int_of(argument: Typed) -> int:
    """Return the value of a whole number that is not a BIGINT."""
    if argument.type == "bigint":
        raise UndecidedError
    return whole_of(argument)


def date_of(argument: Typed) -> date:
    """Return the argument as Spark casts it to a date. That of a TIMESTAMP depends on the time zone."""
    match argument:
        case Typed(datetime() as value, "timestamp_ntz"):
            return value.date()
        case Typed(date() as value, "date"):
            return value
        case Typed(str(value), "string") if _DAY.fullmatch(value):
            return date.fromisoformat(value)
    raise UndecidedError


def as_string(value: str) -> Typed:
    """Return a text as a result, if it is not too long to be computed here."""
    if len(value) > LONGEST_TEXT:
        raise UndecidedError
    return Typed(value, "string")


def as_number(value: int, type: str = "int") -> Typed:
    """Return a whole number as a result, if it is in the range of its type."""
    bound = 1 << BITS[type]
    if not -bound <= value < bound:
        raise UndecidedError
    return Typed(value, type)
