"""Functions of numbers, casts, and the first value that is not NULL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from airflow_hivex.core.model.expressions import UNKNOWN_TYPE, VOID, Typed, UndecidedError
from airflow_hivex.core.model.functions.arguments import (
    BITS,
    Function,
    as_number,
    as_string,
    date_of,
    text_of,
    whole_of,
)
from airflow_hivex.core.model.functions.dates import add_days, subtract_days

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def _plus(left: Typed, right: Typed) -> Typed:
    if left.type == "date":
        return add_days(left, right)
    if right.type == "date":
        return add_days(right, left)
    return _arithmetic(lambda a, b: a + b)(left, right)


def _minus(left: Typed, right: Typed) -> Typed:
    if left.type == "date" and right.type != "date":
        return subtract_days(left, right)
    return _arithmetic(lambda a, b: a - b)(left, right)


def _arithmetic(operation: Callable[[int, int], int], type: str | None = None) -> Function:
    def function(left: Typed, right: Typed) -> Typed:
        result = operation(whole_of(left), whole_of(right))
        return as_number(result, type or max(left.type, right.type, key=lambda each: BITS[each]))

    return function


def _remainder(left: int, right: int) -> int:
    # With the sign of the left side, unlike in Python.
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _positive_remainder(left: int, right: int) -> int:
    rest = _remainder(left, right)
    if rest < 0 and right < 0:
        # Java may overflow there.
        raise UndecidedError
    return rest + right if rest < 0 else rest


def _quotient(left: int, right: int) -> int:
    return abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)


def _coalesce(arguments: Sequence[Typed]) -> Typed:
    # Of several types, Spark makes one.
    types = {argument.type for argument in arguments if argument.type != VOID}
    if len(types) != 1 or UNKNOWN_TYPE in types:
        raise UndecidedError
    return next((argument for argument in arguments if argument.value is not None), arguments[0])


def _cast_to_whole(type: str) -> Function:
    def function(argument: Typed) -> Typed:
        if isinstance(argument.value, str) and argument.type == "string" and _WHOLE.fullmatch(argument.value):
            return as_number(int(argument.value), type)
        if argument.type == "boolean":
            return as_number(int(bool(argument.value)), type)
        return as_number(whole_of(argument), type)

    return function


def _cast_to_date(argument: Typed) -> Typed:
    return Typed(date_of(argument), "date")


def _cast_to_string(argument: Typed) -> Typed:
    return as_string(text_of(argument))


def _negative(argument: Typed) -> Typed:
    return as_number(-whole_of(argument), argument.type)


_CASTS: dict[str, Function] = {
    **{name: _cast_to_whole(name) for name in BITS},
    "date": _cast_to_date,
    "string": _cast_to_string,
}


FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    "+": (2, 2, _plus),
    "-": (2, 2, _minus),
    "*": (2, 2, _arithmetic(lambda a, b: a * b)),
    "mod": (2, 2, _arithmetic(_remainder)),
    "pmod": (2, 2, _arithmetic(_positive_remainder)),
    "div": (2, 2, _arithmetic(_quotient, "bigint")),
    "abs": (1, 1, lambda number: as_number(abs(whole_of(number)), number.type)),
    "negative": (1, 1, _negative),
    **{f"cast {name}": (1, 1, cast) for name, cast in _CASTS.items()},
}
"""By name: the least and the most arguments, and the function of arguments that are not NULL."""

OF_NULLS: dict[str, Callable[[Sequence[Typed]], Typed]] = {"coalesce": _coalesce}
"""Functions whose result may have a value where an argument is NULL."""
