"""Conditions on rows, as pyarrow evaluates them and as the statistics of a file can exclude them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hivex.core.errors import InvalidOperationError, InvalidParametersError, NoSuchColumnError
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.predicates import And, Comparison, In, IsNull, Like, Not, Or, Predicate, columns_in

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
    """The lowest and the highest value of a column in some rows, None where there is no value."""

    minimum: Any
    maximum: Any
    has_null: bool = True


class Condition:
    """A predicate on the columns of one table, whose constants are values of the columns' types."""

    def __init__(self, predicate: Predicate, columns: Mapping[str, Column], table: str) -> None:
        """``columns`` are by lower-case name.

        Raises:
            NoSuchColumnError: the predicate names another column.
            InvalidParametersError: a constant cannot be compared with its column.
            InvalidOperationError: only Spark decides the predicate.
        """
        self._columns = columns
        self._table = table
        self._predicate = self._bound(predicate)
        self.columns = frozenset(each.name.lower() for each in columns_in(self._predicate))
        self.expression: pc.Expression = self._expression(self._predicate)

    def can_hold(self, ranges: Mapping[str, Range]) -> bool:
        """Return whether a row may fulfil it, given what is known of the values of columns by lower-case name."""
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
                return replace(predicate, value=constant(value, self._column(column)))
            case In(ColumnReference() as column, values):
                return In(column, tuple(constant(value, self._column(column)) for value in values))
            case Like(ColumnReference() as column, _):
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
        if len({type(value) for value in values}) == 1 and isinstance(values[0], (int, str)):
            field = pc.field(column.name)
            found: pc.Expression = pc.if_else(field.is_valid(), field.isin(list(values)), _NULL)
            return found
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
        if declared.name == "date" and isinstance(value, datetime):
            field = field.cast(pa.timestamp("us"))
        found: pc.Expression = _COMPARE[sign](field, pc.scalar(value))
        if declared.family is Family.FLOATING and sign in (">", ">="):
            # To Spark NaN is above all numbers.
            found = found | pc.is_nan(field)
        return found


def constant(value: Any, column: Column) -> Any:
    """Return the value with which a column is compared, in Python's type for it.

    Raises:
        InvalidParametersError: it cannot be compared with the column.
    """
    declared = column.parsed_type
    if value is None:
        return None
    if isinstance(declared, Primitive):
        try:
            found = _constant(value, declared)
        except (ValueError, OverflowError, InvalidOperation):
            found = None
        if found is not None:
            return found
    raise InvalidParametersError(
        f"Column {column.name} of type {column.type} cannot be compared with {value!r} without Spark; "
        "give a constant of the column's type, or use session.sql."
    )


def _constant(value: Any, declared: Primitive) -> Any:
    """Return the constant in the type of a column, None where there is no such value."""
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    match declared.family:
        case Family.WHOLE | Family.DECIMAL:
            if not is_number and not isinstance(value, str):
                return None
            exact = value if isinstance(value, float) else Decimal(value)
            if declared.family is Family.WHOLE and exact == int(exact) and abs(int(exact)) < 1 << 63:
                return int(exact)
            return exact
        case Family.FLOATING:
            return float(value) if is_number or isinstance(value, str) else None
        case Family.TEXT:
            if not isinstance(value, str):
                return None
            # Spark compares CHAR padded to its length.
            return value.ljust(declared.parameters[0]) if declared.name == "char" else value
        case Family.BOOLEAN:
            return value if isinstance(value, bool) else None
        case Family.BINARY:
            return value if isinstance(value, bytes) else None
        case Family.MOMENT:
            return _moment(value, declared)
    return None


def _moment(value: Any, declared: Primitive) -> Any:
    if isinstance(value, str):
        text = value.strip()
        value = date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
    if declared.name == "date":
        if isinstance(value, datetime):
            return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return value if isinstance(value, date) else None
    if not isinstance(value, date):
        return None
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if declared.kind.is_instant:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return None if value.tzinfo is not None else value


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
