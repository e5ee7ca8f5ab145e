"""Conditions on rows, as expressions of pyarrow. Parts of files are skipped if their statistics exclude a condition."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hivex.core.arrow.typed_values import TypedValues
from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, NoSuchColumnError
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    columns_in,
    is_like_pattern,
)

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_NULL: pc.Expression = pc.scalar(pa.scalar(None, pa.bool_()))


@dataclass(frozen=True, slots=True)
class Range:
    """The lowest and the highest value of a column in some rows. Both are None if all values are NULL.

    ``has_null`` is false only if no value is NULL.
    """

    minimum: Any
    maximum: Any
    has_null: bool = True


class Condition:
    """A predicate on the columns of one table. Its constants are converted to the types of the columns."""

    def __init__(self, predicate: Predicate, columns: Mapping[str, Column], table: str, values: TypedValues) -> None:
        """Convert a predicate; ``columns`` is a dict from lower-case name to column, and ``values`` converts constants.

        Raises:
            NoSuchColumnError: the predicate names a column that is not in ``columns``.
            InvalidParametersError: a constant cannot be compared with its column.
            InvalidOperationError: only Spark can decide the predicate.
        """
        self._columns = columns
        self._table = table
        self._values = values
        self._predicate = self._bound(predicate)
        self.columns = frozenset(each.name.lower() for each in columns_in(self._predicate))
        self.expression: pc.Expression = self._expression(self._predicate)

    def can_hold(self, ranges: Mapping[str, Range]) -> bool:
        """Return False if no row with values in ``ranges`` can fulfil the condition, otherwise True.

        ``ranges`` is a dict from lower-case column name to range.
        """
        return _can_hold(self._predicate, ranges)

    def _bound(self, predicate: Predicate) -> Predicate:
        match predicate:
            case And(operands):
                return And(tuple(map(self._bound, operands)))
            case Or(operands):
                return Or(tuple(map(self._bound, operands)))
            case Not(operand):
                return Not(self._bound(operand))
            case Comparison(ColumnReference() as column, _, value):
                if predicate.is_of_between:
                    self._values.check_bound(value, self._column(column))
                return replace(predicate, value=self._values.constant(value, self._column(column)))
            case In(ColumnReference() as column, values):
                return In(column, self._values.constants(values, self._column(column)))
            case Like(ColumnReference() as column, pattern):
                if not is_like_pattern(pattern):
                    reason = "a backslash stands before %, _ or another backslash alone"
                    raise InvalidParametersError(f"{pattern!r} is not a valid pattern of LIKE: {reason}.")
                declared = self._column(column).parsed_type
                if not isinstance(declared, Primitive) or declared.family is not Family.TEXT:
                    raise InvalidParametersError(f"Column {column.name} is not a text, which LIKE needs.")
                return predicate
            case IsNull(ColumnReference() as column):
                self._column(column)
                return predicate
        raise InvalidOperationError(
            "A read without Spark of",
            self._table,
            "its filter compares more than columns with constants; use session.sql",
        )

    def _column(self, column: ColumnReference) -> Column:
        found = self._columns.get(column.name.lower())
        if found is None:
            raise NoSuchColumnError(self._table, column.name, [each.name for each in self._columns.values()])
        return found

    def _expression(self, predicate: Predicate) -> pc.Expression:
        match predicate:
            case And(operands):
                found = pc.scalar(True)
                for each in operands:
                    found = found & self._expression(each)
                return found
            case Or(operands):
                found = pc.scalar(False)
                for each in operands:
                    found = found | self._expression(each)
                return found
            case Not(operand):
                return ~self._expression(operand)
            case Comparison(ColumnReference() as column, sign, value):
                return self._comparison(self._column(column), sign, value)
            case In(ColumnReference() as column, values):
                return self._in(self._column(column), values)
            case Like(ColumnReference() as column, pattern):
                return pc.match_like(pc.field(self._column(column).name), pattern)
        assert isinstance(predicate, IsNull)
        assert isinstance(predicate.operand, ColumnReference)
        return pc.field(self._column(predicate.operand).name).is_null()

    def _in(self, column: Column, values: Sequence[Any]) -> pc.Expression:
        kinds = {type(value) for value in values}
        declared = column.parsed_type
        assert isinstance(declared, Primitive)
        found: pc.Expression
        if declared.family is Family.WHOLE and kinds == {int}:
            field = pc.field(column.name)
            listed = pa.array(values, pa.int64())
            return pc.if_else(field.is_valid(), field.cast(pa.int64()).isin(listed), _NULL)
        if declared.family is Family.TEXT and kinds == {str}:
            width = max(map(len, values))
            field = _field(column, width)
            return pc.if_else(field.is_valid(), field.isin([_padded(value, column, width) for value in values]), _NULL)
        found = pc.scalar(False)
        for each in values:
            found = found | self._comparison(column, "=", each)
        return found

    def _comparison(self, column: Column, sign: str, value: Any) -> pc.Expression:
        field = pc.field(column.name)
        if sign == "<=>":
            if value is None:
                return field.is_null()
            return field.is_valid() & self._comparison(column, "=", value)
        if value is None:
            return _NULL
        declared = column.parsed_type
        assert isinstance(declared, Primitive)
        if isinstance(value, str):
            field = _field(column, len(value))
        elif declared.name == "date" and isinstance(value, datetime):
            field = field.cast(pa.timestamp("us"))
        elif declared.name == "float":
            field = field.cast(pa.float64())
        scalar = pa.scalar(value, pa.float64()) if declared.family is Family.FLOATING else pa.scalar(value)
        found: pc.Expression = _COMPARE[sign](field, pc.scalar(scalar))
        if declared.family is Family.FLOATING and sign in (">", ">="):
            # For Spark NaN is above all numbers.
            found = found | pc.is_nan(field)
        return found


def _field(column: Column, width: int) -> pc.Expression:
    """Return the expression for a column. A CHAR is padded to ``width``, as Spark does before it compares texts."""
    field = pc.field(column.name)
    return pc.utf8_rpad(field, width) if _is_shorter(column, width) else field


def _padded(value: Any, column: Column, width: int) -> Any:
    return value.ljust(width) if _is_shorter(column, width) else value


def _is_shorter(column: Column, width: int) -> bool:
    declared = column.parsed_type
    return isinstance(declared, Primitive) and declared.name == "char" and declared.parameters[0] < width


def _can_hold(predicate: Predicate, ranges: Mapping[str, Range]) -> bool:
    match predicate:
        case And(operands):
            return all(_can_hold(each, ranges) for each in operands)
        case Or(operands):
            return any(_can_hold(each, ranges) for each in operands)
        case Not(IsNull(ColumnReference() as column)):
            found = ranges.get(column.name.lower())
            return found is None or found.minimum is not None
        case Comparison(ColumnReference() as column, sign, value):
            found = ranges.get(column.name.lower())
            return found is None or _compares(found, sign, value)
        case In(ColumnReference() as column, values):
            found = ranges.get(column.name.lower())
            return found is None or any(_compares(found, "=", value) for value in values)
        case IsNull(ColumnReference() as column):
            found = ranges.get(column.name.lower())
            return found is None or found.has_null
    return True


def _compares(known: Range, sign: str, value: Any) -> bool:
    if sign == "<=>":
        if value is None:
            return known.has_null
        sign = "="
    if value is None or known.minimum is None:
        return False
    if isinstance(value, str) and (known.minimum + value).endswith(" "):
        # Texts of CHAR are padded to the longer of both.
        return True
    try:
        match sign:
            case "=":
                return bool(known.minimum <= value <= known.maximum)
            case "<" | "<=":
                return bool(_COMPARE[sign](known.minimum, value))
            case ">" | ">=":
                return bool(_COMPARE[sign](known.maximum, value))
    except TypeError:
        # A day and a time, for example.
        return True
    return True
