"""Spark's functions that this package computes itself, to prune partitions by functions of partition keys.

Each function returns exactly Spark's value, with ANSI mode on or off. Ambiguous texts, values out of range, and
arguments for which Spark can raise an error are "undecided": the function raises UndecidedError. Source: Spark's
reference of built-in functions; an acceptance test compares all functions with Spark.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TypeAlias

from airflow_hivex.core.model.column_types import KINDS, ColumnType, parse_type
from airflow_hivex.core.model.expressions import (
    UNKNOWN_TYPE,
    VOID,
    Call,
    ColumnReference,
    Constant,
    Expression,
    Typed,
    UndecidedError,
    Value,
    column_value,
    computed_type,
)

Function: TypeAlias = Callable[..., Typed]
"""A function of values; it raises UndecidedError if Spark's value is not certain."""

BITS = {name: kind.bits for name, kind in KINDS.items() if kind.bits}
"""A dict from whole-number type to its number of bits without the sign."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
LONGEST_TEXT = 10_000
"""The greatest length in characters of a computed text."""


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
    """Return the text of an argument that is a string."""
    if argument.type != "string":
        raise UndecidedError
    return text_of(argument)


def ascii_of(argument: Typed) -> str:
    """Return the text of an argument that has only ASCII characters."""
    # Java and Python change the case of other letters differently.
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
    """Return the argument as Spark casts it to a date. A TIMESTAMP, whose date needs a time zone, is undecided."""
    match argument:
        case Typed(datetime() as value, "timestamp_ntz"):
            return value.date()
        case Typed(date() as value, "date"):
            return value
        case Typed(str(value), "string") if _DAY.fullmatch(value):
            return date.fromisoformat(value)
    raise UndecidedError


def as_string(value: str) -> Typed:
    """Return a text with its type. A text that is longer than :data:`LONGEST_TEXT` is undecided."""
    if len(value) > LONGEST_TEXT:
        raise UndecidedError
    return Typed(value, "string")


def as_number(value: int, type: str = "int") -> Typed:
    """Return a whole number with its type. A number outside of the type's range is undecided."""
    bound = 1 << BITS[type]
    if not -bound <= value < bound:
        raise UndecidedError
    return Typed(value, type)


_FORMAT_PART = re.compile(r"([A-Za-z])\1*|[-/._ ]+")


def _of_date(part: Callable[[date], int]) -> Function:
    return lambda day: as_number(part(date_of(day)))


def add_days(day: Typed, days: Typed, sign: int = 1) -> Typed:
    """Return ``day`` plus ``sign`` times ``days``."""
    return Typed(date_of(day) + timedelta(sign * int_of(days)), "date")


def subtract_days(day: Typed, days: Typed) -> Typed:
    """Return ``day`` minus ``days``."""
    return add_days(day, days, -1)


def _add_months(day: Typed, months: Typed) -> Typed:
    start = date_of(day)
    count = start.year * 12 + start.month - 1 + int_of(months)
    year, month = count // 12, count % 12 + 1
    return Typed(date(year, month, min(start.day, monthrange(year, month)[1])), "date")


def _last_day(day: Typed) -> Typed:
    value = date_of(day)
    return Typed(value.replace(day=monthrange(value.year, value.month)[1]), "date")


def _trunc(day: Typed, unit: Typed) -> Typed:
    value = date_of(day)
    match own_text(unit).upper():
        case "YEAR" | "YYYY" | "YY":
            return Typed(value.replace(month=1, day=1), "date")
        case "QUARTER":
            return Typed(value.replace(month=(value.month - 1) // 3 * 3 + 1, day=1), "date")
        case "MONTH" | "MM" | "MON":
            return Typed(value.replace(day=1), "date")
        case "WEEK":
            return Typed(value - timedelta(value.weekday()), "date")
    raise UndecidedError


def _to_date(text: Typed, format: Typed | None = None) -> Typed:
    if format is None:
        return Typed(date_of(text), "date")
    pattern = "".join(
        _PARSED.get(part, "") or (re.escape(part) if not part[0].isalpha() else _undecided())
        for part in _format_parts(own_text(format))
    )
    found = re.fullmatch(pattern, own_text(text))
    if found is None or "year" not in found.groupdict():
        raise UndecidedError
    parts = {name: int(number) for name, number in found.groupdict().items()}
    return Typed(_plain_day(date(parts["year"], parts.get("month", 1), parts.get("day", 1))), "date")


def _date_format(day: Typed, format: Typed) -> Typed:
    value = _plain_day(date_of(day))
    return as_string(
        "".join(
            _WRITTEN[part](value) if part in _WRITTEN else part if not part[0].isalpha() else _undecided()
            for part in _format_parts(own_text(format))
        )
    )


_PARSED = {"yyyy": "(?P<year>[0-9]{4})", "MM": "(?P<month>[0-9]{2})", "dd": "(?P<day>[0-9]{2})"}
_WRITTEN: dict[str, Callable[[date], str]] = {
    "yyyy": lambda day: f"{day.year:04d}",
    "MM": lambda day: f"{day.month:02d}",
    "M": lambda day: str(day.month),
    "dd": lambda day: f"{day.day:02d}",
    "d": lambda day: str(day.day),
}
# Days that a time zone skipped when it moved over the date line: their midnights belong to another day there.
_LEFT_OUT = frozenset({date(2011, 12, 30), date(1994, 12, 31), date(1995, 1, 1), date(1993, 8, 21), date(1993, 8, 22)})


def _format_parts(format: str) -> list[str]:
    """Return the letters and separators of a pattern for dates."""
    parts = [found[0] for found in _FORMAT_PART.finditer(format)]
    letters = [part for part in parts if part[0].isalpha()]
    # Adjacent letters must be fields of fixed widths; Spark reads others differently.
    if not parts or "".join(parts) != format or len(set(letters)) < len(letters):
        raise UndecidedError
    return parts


def _plain_day(day: date) -> date:
    """Return a day that is the same in all calendars and time zones of Spark's settings; any other is undecided."""
    if day.year < 1900 or day in _LEFT_OUT:
        raise UndecidedError
    return day


def _undecided() -> str:
    raise UndecidedError


_OF_DATES: dict[str, tuple[int, int, Function]] = {
    "year": (1, 1, _of_date(lambda day: day.year)),
    "quarter": (1, 1, _of_date(lambda day: (day.month + 2) // 3)),
    "month": (1, 1, _of_date(lambda day: day.month)),
    "weekofyear": (1, 1, _of_date(lambda day: day.isocalendar().week)),
    "dayofyear": (1, 1, _of_date(lambda day: day.timetuple().tm_yday)),
    "day": (1, 1, _of_date(lambda day: day.day)),
    "dayofweek": (1, 1, _of_date(lambda day: day.isoweekday() % 7 + 1)),
    "weekday": (1, 1, _of_date(lambda day: day.weekday())),
    "to_date": (1, 2, _to_date),
    "date_format": (2, 2, _date_format),
    "date_add": (2, 2, add_days),
    "date_sub": (2, 2, subtract_days),
    "datediff": (2, 2, lambda end, start: as_number((date_of(end) - date_of(start)).days)),
    "add_months": (2, 2, _add_months),
    "last_day": (1, 1, _last_day),
    "trunc": (2, 2, _trunc),
    "make_date": (3, 3, lambda *parts: Typed(date(*map(int_of, parts)), "date")),
}

_TEXTS_OF_DATES: dict[str, Collection[int]] = {
    "to_date": (0, 1),
    **dict.fromkeys(("date_format", "trunc"), (1,)),
}
"""A dict from function to the positions of the arguments that must be texts, so that Spark does not cast them."""


def _substring(text: Typed, start: Typed, length: Typed | None = None) -> Typed:
    value, position = text_of(text), int_of(start)
    first = position - 1 if position > 0 else len(value) + position if position < 0 else 0
    end = len(value) if length is None else first + int_of(length)
    return as_string(value[max(first, 0) : max(end, 0)] if end > first else "")


def _left(text: Typed, length: Typed) -> Typed:
    return as_string(text_of(text)[: max(int_of(length), 0)])


def _right(text: Typed, length: Typed) -> Typed:
    count = int_of(length)
    return as_string(text_of(text)[-count:] if count > 0 else "")


def _replace(text: Typed, search: Typed, replacement: Typed | None = None) -> Typed:
    value, wanted = own_text(text), own_text(search)
    return as_string(value.replace(wanted, "" if replacement is None else own_text(replacement)) if wanted else value)


def _pad(text: Typed, length: Typed, pad: Typed | None) -> tuple[str, str]:
    value, count = text_of(text), int_of(length)
    filling = " " if pad is None else own_text(pad)
    missing = count - len(value)
    if missing <= 0 or not filling:
        return value[: max(count, 0)], ""
    if missing > LONGEST_TEXT:
        raise UndecidedError
    return value, (filling * missing)[:missing]


def _lpad(text: Typed, length: Typed, pad: Typed | None = None) -> Typed:
    value, filling = _pad(text, length, pad)
    return as_string(filling + value)


def _rpad(text: Typed, length: Typed, pad: Typed | None = None) -> Typed:
    value, filling = _pad(text, length, pad)
    return as_string(value + filling)


def _concat(*texts: Typed) -> Typed:
    return as_string("".join(map(text_of, texts)))


def _concat_ws(arguments: Sequence[Typed]) -> Typed:
    if not arguments:
        raise UndecidedError
    separator, *texts = arguments
    if separator.value is None:
        return Typed(None, "string")
    return as_string(own_text(separator).join(text_of(text) for text in texts if text.value is not None))


def _split_part(text: Typed, delimiter: Typed, number: Typed) -> Typed:
    wanted = int_of(number)
    if not wanted or not own_text(delimiter):
        raise UndecidedError
    parts = own_text(text).split(own_text(delimiter))
    index = wanted - 1 if wanted > 0 else len(parts) + wanted
    return as_string(parts[index] if 0 <= index < len(parts) else "")


def _substring_index(text: Typed, delimiter: Typed, count: Typed) -> Typed:
    # Spark finds overlapping places of a longer delimiter.
    if len(own_text(delimiter)) != 1:
        raise UndecidedError
    parts, wanted = own_text(text).split(own_text(delimiter)), int_of(count)
    if wanted == 0:
        return as_string("")
    return as_string(own_text(delimiter).join(parts[:wanted] if wanted > 0 else parts[wanted:]))


_OF_TEXTS: dict[str, tuple[int, int, Function]] = {
    "upper": (1, 1, lambda text: as_string(ascii_of(text).upper())),
    "lower": (1, 1, lambda text: as_string(ascii_of(text).lower())),
    "trim": (1, 1, lambda text: as_string(text_of(text).strip(" "))),
    "ltrim": (1, 1, lambda text: as_string(text_of(text).lstrip(" "))),
    "rtrim": (1, 1, lambda text: as_string(text_of(text).rstrip(" "))),
    "length": (1, 1, lambda text: as_number(len(text_of(text)))),
    "substring": (2, 3, _substring),
    "left": (2, 2, _left),
    "right": (2, 2, _right),
    "replace": (2, 3, _replace),
    "lpad": (2, 3, _lpad),
    "rpad": (2, 3, _rpad),
    "concat": (1, 100, _concat),
    "instr": (2, 2, lambda text, part: as_number(own_text(text).find(own_text(part)) + 1)),
    "split_part": (3, 3, _split_part),
    "substring_index": (3, 3, _substring_index),
    "startswith": (2, 2, lambda text, part: Typed(own_text(text).startswith(own_text(part)), "boolean")),
    "endswith": (2, 2, lambda text, part: Typed(own_text(text).endswith(own_text(part)), "boolean")),
    "contains": (2, 2, lambda text, part: Typed(own_text(part) in own_text(text), "boolean")),
}

_TEXTS_OF_TEXTS: dict[str, Collection[int]] = {
    "concat": range(100),
    **dict.fromkeys(("replace", "startswith", "endswith", "contains", "instr"), range(3)),
    **dict.fromkeys(("substring", "left", "right"), (0,)),
    **dict.fromkeys(("lpad", "rpad"), (0, 2)),
    **dict.fromkeys(("split_part", "substring_index"), (0, 1)),
}
"""A dict from function to the positions of the arguments that must be texts, so that Spark does not cast them."""

_TEXTS_OF_NULLS: dict[str, Callable[[Sequence[Typed]], Typed]] = {"concat_ws": _concat_ws}
"""The functions that can return a text if an argument is NULL."""


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
    # The result has the sign of the left side, unlike in Python.
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _positive_remainder(left: int, right: int) -> int:
    rest = _remainder(left, right)
    if rest < 0 and right < 0:
        # Java may overflow in this case.
        raise UndecidedError
    return rest + right if rest < 0 else rest


def _quotient(left: int, right: int) -> int:
    return abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)


def _coalesce(arguments: Sequence[Typed]) -> Typed:
    # Spark casts several types to a common one.
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


_OF_NUMBERS: dict[str, tuple[int, int, Function]] = {
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

_NUMBERS_OF_NULLS: dict[str, Callable[[Sequence[Typed]], Typed]] = {"coalesce": _coalesce}
"""The functions of values of any type that can return a value if an argument is NULL."""


FUNCTIONS = {**_OF_TEXTS, **_OF_DATES, **_OF_NUMBERS}
"""A dict from name to the least number of arguments, the greatest number, and the function itself.

The functions are called without NULLs. If an argument is NULL, the result is NULL, except for the functions of
``_OF_NULLS``.
"""

_TEXTS = {**_TEXTS_OF_TEXTS, **_TEXTS_OF_DATES}
_OF_NULLS = {**_TEXTS_OF_NULLS, **_NUMBERS_OF_NULLS}

SYNONYMS: dict[str, str] = {
    **{name: name for name in (*FUNCTIONS, *_OF_NULLS) if name.isidentifier()},
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "dayofmonth": "day",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "date": "cast date",
    "string": "cast string",
    "int": "cast int",
    "bigint": "cast bigint",
    "smallint": "cast smallint",
    "tinyint": "cast tinyint",
}
"""A dict from the name of a function in Spark to its name in this module."""


def compute(expression: Expression, values: Mapping[str, Value], types: Mapping[str, ColumnType]) -> Typed:
    """Return the value of an expression for a row whose columns have ``values`` and ``types`` (keys in lower case).

    Raises:
        UndecidedError: Spark's value is not certain.
    """
    match expression:
        case ColumnReference():
            return column_value(expression, values, types)
        case Constant(value, type):
            return Typed(value, computed_type(parse_type(type)))
        case Call(function, arguments):
            return call(function, [compute(argument, values, types) for argument in arguments])


def call(name: str, arguments: Sequence[Typed]) -> Typed:
    """Return the value of a function for these arguments.

    Raises:
        UndecidedError: Spark's value is not certain.
    """
    if name in _OF_NULLS:
        return _OF_NULLS[name](arguments)
    least, most, function = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        raise UndecidedError
    if any(argument.value is None for argument in arguments):
        texts = _TEXTS.get(name, ())
        if any(each.type == "string" and each.value is not None and n not in texts for n, each in enumerate(arguments)):
            # Spark casts the value nevertheless, which may raise an error.
            raise UndecidedError
        return Typed(None, UNKNOWN_TYPE)
    try:
        return function(*arguments)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise UndecidedError from error
