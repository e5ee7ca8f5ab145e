"""Conditions of a query as predicates, as far as they can be read with certainty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeAlias

from sqlglot import exp

from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
    Value,
    evaluate,
)
from airflow_hivex.core.model.statements import Literal
from airflow_hivex.core.sql.literals import date_value, number, timestamp_value
from airflow_hivex.core.sql.markers import Markers

FindColumn: TypeAlias = Callable[[exp.Column], ColumnReference | None]
"""The column as one that may be the table's; None for one of another table, or a field of a struct."""

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_INTEGER_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")


def conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold."""
    return list(_operands(condition, exp.And))


def _operands(expression: exp.Expr, connector: type[exp.Connector]) -> Iterator[exp.Expr]:
    # Long chains are deep trees; a loop takes them where recursion would not.
    stack = [expression]
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, connector):
            stack += [node.expression, node.this]
        else:
            yield node


def restricts(predicate: Predicate) -> bool:
    """Whether it can rule a row out, whatever its unknown parts are."""
    match predicate:
        case Unknown():
            return False
        case Or(operands):
            return all(restricts(operand) for operand in operands)
        case And(operands):
            return any(restricts(operand) for operand in operands)
        case Not(operand):
            return _may_hold(operand)
    return True


def _may_hold(predicate: Predicate) -> bool:
    """Whether it can be true for certain, so that its negation rules a row out."""
    match predicate:
        case Unknown():
            return False
        case Or(operands):
            return any(_may_hold(operand) for operand in operands)
        case And(operands):
            return all(_may_hold(operand) for operand in operands)
        case Not(operand):
            return restricts(operand)
    return True


def columns_in(predicate: Predicate) -> set[ColumnReference]:
    """The columns it names, beside whatever its unknown parts read."""
    match predicate:
        case Unknown():
            return set()
        case Not(operand):
            return columns_in(operand)
        case And(operands) | Or(operands):
            return set().union(*(columns_in(operand) for operand in operands))
    return {predicate.column}


def rejects_nulls(predicate: Predicate) -> bool:
    """Whether a row fails it for certain once an outer join has made the table's columns NULL.

    A column without a qualifier may be another table's, so any one of them must be enough.
    """
    columns = columns_in(predicate)
    own: dict[str, Value] = {column.name: None for column in columns if column.qualifier is not None}
    loose = {column.name for column in columns if column.qualifier is None}
    cases = [own] if own else [{name: None} for name in loose]
    return all(evaluate(predicate, case) in (Truth.NO, Truth.NULL) for case in cases)


class FilterReader:
    """Reads expressions as predicates on one table's columns; what it cannot read is Unknown."""

    def __init__(self, find_column: FindColumn, markers: Markers) -> None:
        self._find_column = find_column
        self._markers = markers

    def read(self, expression: exp.Expr) -> Predicate:
        """The predicate of a condition."""
        node = expression.unnest()
        if isinstance(node, exp.And):
            return And(tuple(self.read(operand) for operand in _operands(node, exp.And)))
        if isinstance(node, exp.Or):
            return Or(tuple(self.read(operand) for operand in _operands(node, exp.Or)))
        if isinstance(node, exp.Not):
            operand = self.read(node.this)
            return operand if isinstance(operand, Unknown) else Not(operand)
        if type(node) in _COMPARISONS and _has_only(node, "this", "expression"):
            return self._comparison(node)
        if isinstance(node, exp.Between) and _has_only(node, "this", "low", "high"):
            return self._between(node)
        if isinstance(node, exp.In) and _has_only(node, "this", "expressions"):
            return self._in(node)
        if isinstance(node, exp.Like) and _has_only(node, "this", "expression", "negate"):
            return self._like(node)
        if isinstance(node, exp.Is) and _has_only(node, "this", "expression"):
            column = self._column(node.this)
            return IsNull(column) if column and isinstance(node.expression, exp.Null) else Unknown()
        return Unknown()

    def _comparison(self, node: exp.Expr) -> Predicate:
        operator = _COMPARISONS[type(node)]
        column, value = self._column(node.this), self._value(node.expression)
        if column is None:
            column, value = self._column(node.expression), self._value(node.this)
            operator = _MIRRORED[operator]
        if column is None or value is None:
            return Unknown()
        comparison = Comparison(column, operator, value[0])
        return Not(comparison) if isinstance(node, exp.NullSafeNEQ) else comparison

    def _between(self, node: exp.Expr) -> Predicate:
        column = self._column(node.this)
        low, high = self._value(node.args["low"]), self._value(node.args["high"])
        if column is None or (low is None and high is None):
            return Unknown()
        return And(
            (
                Comparison(column, ">=", low[0]) if low is not None else Unknown(),
                Comparison(column, "<=", high[0]) if high is not None else Unknown(),
            )
        )

    def _in(self, node: exp.In) -> Predicate:
        column = self._column(node.this)
        values = [self._value(item) for item in node.expressions]
        known = tuple(value[0] for value in values if value is not None)
        return In(column, known) if column and known and len(known) == len(values) else Unknown()

    def _like(self, node: exp.Like) -> Predicate:
        column, pattern = self._column(node.this), self._value(node.expression)
        if column is None or pattern is None or not isinstance(pattern[0], str):
            return Unknown()
        like = Like(column, pattern[0])
        return Not(like) if node.args.get("negate") else like

    def _column(self, node: exp.Expr) -> ColumnReference | None:
        column = node.unnest()
        return self._find_column(column) if isinstance(column, exp.Column) else None

    def _value(self, node: exp.Expr) -> tuple[Value] | None:
        """The constant's value, in a tuple as None is one; None where it is not a comparable constant."""
        literal = self._literal(node.unnest())
        if literal is None or isinstance(literal.value, bytes):
            return None
        value = literal.value
        # Zones and NaN do not compare in Python as they do in Spark.
        if (isinstance(value, datetime) and value.tzinfo is not None) or value != value:
            return None
        return (value,)

    def _literal(self, node: exp.Expr) -> Literal | None:
        if isinstance(node, exp.Literal):
            return Literal(node.name, "string") if node.is_string else number(node.name)
        if isinstance(node, exp.Boolean):
            return Literal(bool(node.this), "boolean")
        if isinstance(node, exp.Null):
            return Literal(None, "void")
        if isinstance(node, exp.Placeholder):
            return self._markers.literal(node.name)
        if isinstance(node, exp.Neg):
            return _negative(node.this)
        if isinstance(node, exp.Cast):
            return _typed(node, negative=False)
        return None


def _negative(operand: exp.Expr) -> Literal | None:
    if isinstance(operand, exp.Literal) and not operand.is_string:
        return number(operand.name, negative=True)
    return _typed(operand, negative=True) if isinstance(operand, exp.Cast) else None


def _typed(cast: exp.Cast, negative: bool) -> Literal | None:
    """``DATE '...'``, ``TIMESTAMP '...'`` and numbers with a suffix, which sqlglot reads as casts."""
    operand, name = cast.this, cast.to.this.name
    if not isinstance(operand, exp.Literal) or cast.to.expressions or not _has_only(cast, "this", "to"):
        return None
    text = operand.name
    if operand.is_string:
        moment = None
        if name == "DATE":
            moment = date_value(text)
        elif name in _TIMESTAMPS:
            moment = timestamp_value(text)
        return Literal(moment, name.lower()) if moment is not None and not negative else None
    if name == "DOUBLE":
        return number(f"{text}D", negative)
    if name in _INTEGER_BITS and text.isdigit():
        value = -int(text) if negative else int(text)
        bound = 1 << _INTEGER_BITS[name]
        return Literal(value, name.lower()) if -bound <= value < bound else None
    return None


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Whether nothing else was said there, which could change what it means."""
    return all(name in names for name, value in node.args.items() if value)
