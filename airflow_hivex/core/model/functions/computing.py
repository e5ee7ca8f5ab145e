"""The functions of all subjects, and the values of expressions that call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_hivex.core.model.column_types import ColumnType, parse_type
from airflow_hivex.core.model.expressions import (
    UNKNOWN_TYPE,
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
from airflow_hivex.core.model.functions import dates, numbers, texts

FUNCTIONS = {**texts.FUNCTIONS, **dates.FUNCTIONS, **numbers.FUNCTIONS}
"""By name: the least and the most arguments, and the function of arguments that are not NULL. With one that is NULL
all give NULL, except those of ``_OF_NULLS``."""

_TEXTS = {**texts.TEXTS, **dates.TEXTS}
_OF_NULLS = {**texts.OF_NULLS, **numbers.OF_NULLS}

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
"""The names of Spark's functions in this module."""


def compute(expression: Expression, values: Mapping[str, Value], types: Mapping[str, ColumnType]) -> Typed:
    """Return the value of an expression for a row whose columns have ``values`` and ``types`` (keys in lower case).

    Raises:
        UndecidedError: it is not certain.
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
        UndecidedError: it is not certain.
    """
    if name in _OF_NULLS:
        return _OF_NULLS[name](arguments)
    least, most, function = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        raise UndecidedError
    if any(argument.value is None for argument in arguments):
        texts = _TEXTS.get(name, ())
        if any(each.type == "string" and each.value is not None and n not in texts for n, each in enumerate(arguments)):
            # Spark casts it nevertheless, which may be an error.
            raise UndecidedError
        return Typed(None, UNKNOWN_TYPE)
    try:
        return function(*arguments)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise UndecidedError from error
