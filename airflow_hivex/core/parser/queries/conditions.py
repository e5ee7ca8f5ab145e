"""Conditions that stand outside of queries: a filter on the rows of one table, and the WHERE of SHOW PARTITIONS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.predicates import And, Not, Or, Predicate, Unknown
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, tokenize
from airflow_hivex.core.parser.queries.filters import FilterReader
from airflow_hivex.core.parser.queries.parsing import parse

_BEFORE = "SELECT 1 WHERE "


def read_condition(text: str, parameters: Mapping[str, object] | None = None) -> Predicate:
    """Return the predicate of a condition such as ``year = 2013 AND dep_delay > 60``.

    Raises:
        StatementSyntaxError: the text is not one condition.
        InvalidParametersError: the parameters do not fit the markers of the condition.
        UnsupportedStatementError: only Spark can decide the condition, because it has more than comparisons of columns
            with constants.
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


def read_partition_condition(cursor: Cursor) -> Predicate:
    """Return the condition in SHOW PARTITIONS. The cursor is after the word WHERE.

    Raises:
        StatementSyntaxError: the text is not SQL.
        UnsupportedStatementError: the metastore cannot decide the condition.
    """
    where = cursor.index - 1
    cursor.index = _end_of_condition(cursor)
    tokens = cursor.tokens[where : cursor.index]
    if len(tokens) == 1:
        raise cursor.expected("a condition")
    predicate = FilterReader(_key, cursor.markers).read(_parsed(cursor, tokens))
    if not _is_known(predicate):
        reason = (
            "the metastore decides conditions that compare partition columns, and functions of them, with constants; "
            "this one it does not"
        )
        raise cursor.unsupported(reason, tokens[1])
    return predicate


def _end_of_condition(cursor: Cursor) -> int:
    depth = 0
    for index in range(cursor.index, len(cursor.tokens)):
        token = cursor.tokens[index]
        following = cursor.tokens[index + 1] if index + 1 < len(cursor.tokens) else None
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0 and following is not None:
            ends = token.word == "ORDER" and following.word == "BY"
            if ends or (token.word == "LIMIT" and following.kind is Kind.NUMBER):
                return index
    return len(cursor.tokens)


def _parsed(cursor: Cursor, condition: Sequence[Token]) -> exp.Expr:
    """Return sqlglot's tree of the condition. ``condition`` begins with the word WHERE."""
    # The words SHOW PARTITIONS become the beginning of the query, so that all other words keep their places.
    show, partitions = cursor.tokens[:2]
    query = [show._replace(text="SELECT"), partitions._replace(text="1", kind=Kind.NUMBER), *condition]
    tree = parse(cursor.text, query, {}, ())
    others = [name for name, value in tree.args.items() if value and name not in ("expressions", "where", "kind")]
    if not isinstance(tree, exp.Select) or others:
        raise cursor.error("expected one condition on partition columns, ORDER BY or LIMIT", condition[1])
    where = tree.args["where"].this
    assert isinstance(where, exp.Expr)
    return where


def _key(column: exp.Column) -> ColumnReference | None:
    return None if column.table else ColumnReference(normalise(column.name))
