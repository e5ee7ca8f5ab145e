"""Constant texts among the values of a statement: Hive stores them in columns of other types, where they are readable.

Source: docs/reference/statements.md, "Texts in columns of other types".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from sqlglot import exp

from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Token
from airflow_hivex.core.parser.queries.results import is_one_column, result_parts, values_of

_TEXTS = ("string", "void")


def text_columns(tree: exp.Expr, markers: Markers) -> tuple[int, ...]:
    """Return the columns of a query's result that are constant texts or NULL in each of its rows, by position.

    Those behind ``*`` are counted from the end, by negative positions.
    """
    parts = result_parts(tree)
    if not parts:
        return ()
    first, *others = (
        set.intersection(*(set(_positions(values_of(row), markers)) for row in part.expressions))
        if isinstance(part, exp.Values)
        else set(_positions(part.expressions, markers))
        for part in parts
    )
    return tuple(sorted(first.intersection(*others)))


def constant_texts(cursor: Cursor, values: Sequence[Sequence[Token]]) -> tuple[int, ...]:
    """Return the numbers of the values that are constant texts or NULL, in parentheses or not."""
    return tuple(number for number, tokens in enumerate(values) if _is_text(cursor, tokens))


def _is_text(cursor: Cursor, tokens: Sequence[Token]) -> bool:
    while len(tokens) > 1 and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
        tokens = tokens[1:-1]
    value = Cursor(cursor.text, list(tokens), cursor.markers)
    literal = read_constant(value)
    return literal is not None and literal.type in _TEXTS and value.at_end


def _positions(values: Sequence[exp.Expr], markers: Markers) -> tuple[int, ...]:
    def texts(among: Sequence[exp.Expr]) -> list[int]:
        single = list(takewhile(is_one_column, among))
        return [i for i, value in enumerate(single) if _is_constant_text(value, markers)]

    forward = texts(values)
    if all(map(is_one_column, values)):
        return tuple(forward)
    return (*forward, *(-1 - i for i in texts(values[::-1])))


def _is_constant_text(value: exp.Expr, markers: Markers) -> bool:
    constant = value.unalias().unnest()
    if isinstance(constant, exp.Placeholder):
        literal = markers.literal(constant.name)
        return literal is not None and literal.type in _TEXTS
    return isinstance(constant, exp.Null) or (isinstance(constant, exp.Literal) and constant.is_string)
