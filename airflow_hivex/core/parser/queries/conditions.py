"""Conditions on the rows of one table, alone in a text."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.predicates import And, Not, Or, Predicate, Unknown
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, tokenize
from airflow_hivex.core.parser.queries.filters import FilterReader
from airflow_hivex.core.parser.queries.parsing import parse

_BEFORE = "SELECT 1 WHERE "


def read_condition(text: str, parameters: Mapping[str, object] | None = None) -> Predicate:
    """Return the predicate of a condition such as ``year = 2013 AND dep_delay > 60``.

    Raises:
        StatementSyntaxError: the text is not one condition.
        InvalidParametersError: the parameters do not fit its markers.
        UnsupportedStatementError: it compares more than columns with constants, so that only Spark decides it.
    """
    whole = _BEFORE + text
    markers = Markers(parameters)
    cursor = Cursor(whole, tokenize(whole), markers)
    if len(cursor.tokens) <= 3:
        raise cursor.error("a condition is expected")
    first = cursor.tokens[3]
    tree = parse(whole, cursor.tokens, {}, ())
    others = [name for name, value in tree.args.items() if value and name not in ("expressions", "where", "kind")]
    if not isinstance(tree, exp.Select) or others:
        raise cursor.error("one condition on the columns of the table is expected", first)
    predicate = FilterReader(_column, markers).read(tree.args["where"].this)
    markers.check()
    if not _is_known(predicate):
        reason = (
            "without Spark a filter compares columns with constants, by =, <, IN, BETWEEN, LIKE, IS NULL, AND, OR and "
            "NOT; use session.sql for others"
        )
        raise cursor.unsupported(reason, first)
    return predicate


def _column(column: exp.Column) -> ColumnReference | None:
    return None if column.table else ColumnReference(column.name)


def _is_known(predicate: Predicate) -> bool:
    match predicate:
        case Unknown():
            return False
        case Not(operand):
            return _is_known(operand)
        case And(operands) | Or(operands):
            return all(map(_is_known, operands))
    return True
