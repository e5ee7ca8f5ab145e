"""The conversion of a query's conditions to predicates, if the meaning of a condition is certain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from sqlglot import exp

from airflow_hivex.core.model.expressions import (
    Call,
    ColumnReference,
    Constant,
    Expression,
    UndecidedError,
    columns_read,
)
from airflow_hivex.core.model.functions import compute
from airflow_hivex.core.model.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Operand,
    Or,
    Predicate,
    Truth,
    Unknown,
    Value,
    columns_in,
    evaluate,
)
from airflow_hivex.core.parser.lexer.literals import date_value, number, timestamp_value
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.queries.functions import called_function, says_only
from airflow_hivex.core.parser.statements import Literal

FindColumn: TypeAlias = Callable[[exp.Column], ColumnReference | None]
"""A function that returns a reference to a column of one table, or None for other columns and for struct fields."""

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
    """Return the operands of AND in a condition, or the condition itself if it has no AND at its top."""
    return list(_operands(condition, exp.And))


def _operands(expression: exp.Expr, connector: type[exp.Connector]) -> Iterator[exp.Expr]:
    # Long chains are deep trees, too deep for a recursion.
    stack = [expression]
    while stack:
        node = stack.pop().unnest()
        if isinstance(node, connector):
            stack += [node.expression, node.this]
        else:
            yield node


def rejects_nulls(predicate: Predicate) -> bool:
    """Return whether the predicate is never true for a row in which an outer join has set the table's columns to NULL.

    The table's columns are the columns with a qualifier. If no column of the predicate has a qualifier, the result is
    true if a NULL in any single column is enough to make the predicate not true.
    """
    columns = columns_in(predicate)
    own: dict[str, Value] = {column.name: None for column in columns if column.qualifier is not None}
    loose = {column.name for column in columns if column.qualifier is None}
    cases = [own] if own else [{name: None} for name in loose]
    return all(evaluate(predicate, case) in (Truth.NO, Truth.NULL) for case in cases)


class FilterReader:
    """A reader that converts expressions to predicates on one table's columns. Other expressions become Unknown."""

    def __init__(self, find_column: FindColumn, markers: Markers) -> None:
        self._find_column = find_column
        self._markers = markers

    def read(self, expression: exp.Expr) -> Predicate:
        """Return the predicate of a condition."""
        node = expression.unnest()
        if isinstance(node, exp.And):
            return And(tuple(self.read(operand) for operand in _operands(node, exp.And)))
        if isinstance(node, exp.Or):
            return Or(tuple(self.read(operand) for operand in _operands(node, exp.Or)))
        if isinstance(node, exp.Not):
            operand = self.read(node.this)
            return operand if isinstance(operand, Unknown) else Not(operand)
        for type_, names, read in self._readers():
            if isinstance(node, type_):
                return read(node) if says_only(node, *names) else Unknown()
        # A boolean by itself, such as startswith(ds, '2013').
        operand_ = self._operand(node)
        return Comparison(operand_, "=", True) if operand_ is not None else Unknown()

    def _readers(self) -> Iterator[tuple[tuple[type[exp.Expr], ...], Sequence[str], Callable[[Any], Predicate]]]:
        yield tuple(_COMPARISONS), ("this", "expression"), self._comparison
        yield (exp.Between,), ("this", "low", "high"), self._between
        yield (exp.In,), ("this", "expressions"), self._in
        yield (exp.Like, exp.ILike), ("this", "expression", "negate"), self._like
        yield (exp.Escape,), ("this", "expression"), self._escape
        yield (exp.Is,), ("this", "expression"), self._is

    def _comparison(self, node: exp.Expr) -> Predicate:
        operator = _COMPARISONS[type(node)]
        operand, value = self._operand(node.this), self._value(node.expression)
        if operand is None:
            operand, value = self._operand(node.expression), self._value(node.this)
            operator = _MIRRORED[operator]
        if operand is None or value is None:
            return Unknown()
        comparison = Comparison(operand, operator, value[0])
        return Not(comparison) if isinstance(node, exp.NullSafeNEQ) else comparison

    def _between(self, node: exp.Between) -> Predicate:
        operand = self._operand(node.this)
        low, high = self._value(node.args["low"]), self._value(node.args["high"])
        if operand is None or (low is None and high is None):
            return Unknown()
        return And(
            (
                Comparison(operand, ">=", low[0], is_of_between=True) if low is not None else Unknown(),
                Comparison(operand, "<=", high[0], is_of_between=True) if high is not None else Unknown(),
            )
        )

    def _in(self, node: exp.In) -> Predicate:
        operand = self._operand(node.this)
        values = [self._value(item) for item in node.expressions]
        known = tuple(value[0] for value in values if value is not None)
        return In(operand, known) if operand and known and len(known) == len(values) else Unknown()

    def _is(self, node: exp.Is) -> Predicate:
        operand = self._operand(node.this)
        return IsNull(operand) if operand and isinstance(node.expression, exp.Null) else Unknown()

    def _like(self, node: exp.Like | exp.ILike) -> Predicate:
        operand, pattern = self._operand(node.this), self._value(node.expression)
        if operand is None or pattern is None or not isinstance(pattern[0], str):
            return Unknown()
        text = pattern[0]
        if isinstance(node, exp.ILike):
            if not text.isascii():
                return Unknown()
            operand, text = Call("lower", (operand,)), text.lower()
        like = Like(operand, text)
        return Not(like) if node.args.get("negate") else like

    def _escape(self, node: exp.Escape) -> Predicate:
        """Return ``LIKE pattern ESCAPE '/'`` as a LIKE whose escapes are backslashes."""
        like, escape = node.this, node.expression
        if not isinstance(like, exp.Like) or not isinstance(escape, exp.Literal) or len(escape.name) != 1:
            return Unknown()
        read = self._like(like) if says_only(like, "this", "expression", "negate") else Unknown()
        found = read.operand if isinstance(read, Not) else read
        if not isinstance(found, Like) or escape.name in ("%", "_"):
            return Unknown()
        if escape.name == "\\":
            return read
        parts = re.findall(re.escape(escape.name) + r".|.", found.pattern, re.DOTALL)
        if any(part == escape.name or (len(part) == 2 and part[1] not in ("%", "_", escape.name)) for part in parts):
            # Spark refuses it.
            return Unknown()
        pattern = "".join(part if part in ("%", "_") else re.sub(r"([%_\\])", r"\\\1", part[-1]) for part in parts)
        escaped = Like(found.operand, pattern)
        return Not(escaped) if isinstance(read, Not) else escaped

    def _operand(self, node: exp.Expr) -> Operand | None:
        """Return a column of the table or a function of its columns, or None for any other node."""
        expression = self._expression(node)
        if isinstance(expression, ColumnReference):
            return expression
        return expression if isinstance(expression, Call) and any(columns_read(expression)) else None

    def _expression(self, node: exp.Expr) -> Expression | None:
        """Return a column, a constant or a call of a function in ``model.functions``; None for other expressions."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return self._find_column(node)
        literal = self._literal(node)
        if literal is not None:
            value = literal.value
            if isinstance(value, bytes | datetime):
                return None
            return Constant(value, literal.type)
        called = called_function(node)
        if called is None:
            return None
        arguments = [self._expression(argument) for argument in called[1]]
        known = tuple(argument for argument in arguments if argument is not None)
        return Call(called[0], known) if len(known) == len(arguments) else None

    def _value(self, node: exp.Expr) -> tuple[Value] | None:
        """Return a tuple with the value of a constant, which can be None, or return None for any other node."""
        literal = self._literal(node.unnest())
        if literal is None:
            return self._computed(node)
        if isinstance(literal.value, bytes):
            return None
        value = literal.value
        # Python compares times with zones, and NaN, differently from Spark.
        if (isinstance(value, datetime) and value.tzinfo is not None) or value != value:
            return None
        return (value,)

    def _computed(self, node: exp.Expr) -> tuple[Value] | None:
        """Return a tuple with the value of a function of constants, or None for any other node."""
        expression = self._expression(node)
        if not isinstance(expression, Call):
            return None
        try:
            return (compute(expression, {}, {}).value,)
        except UndecidedError:
            return None

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
    """Return the constant of ``DATE '...'``, ``TIMESTAMP '...'`` or a number with a suffix, or None for other casts.

    sqlglot reads all these constants as casts.
    """
    operand, name = cast.this, cast.to.this.name
    if not isinstance(operand, exp.Literal) or cast.to.expressions or not says_only(cast, "this", "to"):
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
