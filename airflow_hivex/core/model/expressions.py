"""Expressions that this package computes without Spark: columns of a row, constants and calls of functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from airflow_hivex.core.model.column_types import ColumnType, Primitive
from airflow_hivex.core.model.literals import Value as Value

VOID = "void"
UNKNOWN_TYPE = "unknown"
"""The type of a NULL whose type is not known."""


class UndecidedError(Exception):
    """The result in Spark is not certain: it depends on settings, or Spark possibly raises an error."""


class Typed(NamedTuple):
    """A value with the name of its Spark type."""

    value: Value
    type: str


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column as written in a statement. ``qualifier`` is the alias or name of its table, or None."""

    name: str
    qualifier: str | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant, with the name of its Spark type."""

    value: Value
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a Spark function, whose name is in lower case. The name of a cast is ``cast`` followed by the type."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = ColumnReference | Constant | Call


def columns_read(expression: Expression) -> Iterator[ColumnReference]:
    """Yield the columns that an expression reads."""
    if isinstance(expression, ColumnReference):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns_read(argument)


def column_value(column: ColumnReference, values: Mapping[str, Value], types: Mapping[str, ColumnType]) -> Typed:
    """Return the value of a column as an argument of a function. Keys of ``values`` and ``types`` are in lower case.

    Raises:
        UndecidedError: the value or the type is not known, or the value depends on Spark's settings (type CHAR).
    """
    name = column.name.lower()
    if name not in values:
        raise UndecidedError
    declared = types.get(name)
    if values[name] is None:
        return Typed(None, UNKNOWN_TYPE if declared is None else computed_type(declared))
    # Spark's settings decide whether CHAR is padded.
    if declared is None or (isinstance(declared, Primitive) and declared.name == "char"):
        raise UndecidedError
    return Typed(values[name], computed_type(declared))


def computed_type(type: ColumnType) -> str:
    """Return the name of the type that a column has as an argument of a function. VARCHAR becomes ``string``."""
    if isinstance(type, Primitive) and not type.qualifier:
        if type.name == "varchar":
            return "string"
        if not type.parameters:
            return type.name
    return str(type)
