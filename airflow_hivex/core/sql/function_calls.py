"""Calls of functions in a query that are not Spark's own: permanent functions, and temporary ones."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.statements import FunctionCall
from airflow_hivex.core.sql.spark_functions import SPARK_FUNCTIONS
from airflow_hivex.core.sql.tokens import Kind, Token, name_of

_NAMES = (Kind.WORD, Kind.QUOTED)
_BEFORE_CALLS = frozenset(
    """
    ALL AND BETWEEN BY CASE DISTINCT DIV ELSE ESCAPE EXCEPT EXTEND FILTER FROM HAVING ILIKE IN INTERSECT JOIN LATERAL
    LIKE LIMIT NOT OFFSET ON OR OUTER QUALIFY REGEXP RETURN RLIKE SELECT SET THEN UNION USING VALUES VIEW WHEN WHERE
    AGGREGATE
    """.split()  # noqa: SIM905
)
"""The words that may stand before a call. Behind another name, ``x (a, b)`` are an alias and its columns."""
_NO_NAMES = _BEFORE_CALLS | frozenset(
    """
    AS CUBE DEC EXISTS IDENTIFIER INTERVAL NUMERIC OVER PIVOT ROLLUP SETS TIMESTAMPADD TIMESTAMPDIFF TRY_CAST UNPIVOT
    VARCHAR
    """.split()  # noqa: SIM905
)
"""The words before a parenthesis that are a part of the language, or are functions of Spark that it does not list."""
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")


def function_calls(tokens: Sequence[Token]) -> tuple[FunctionCall, ...]:
    """Return the calls of functions that have a database, or a name that none of Spark's functions has."""
    found = []
    for index, token in enumerate(tokens[:-1]):
        if token.kind not in _NAMES or not tokens[index + 1].is_symbol("("):
            continue
        first = _first_part(tokens, index)
        if first is None:
            continue
        name = normalise(name_of(token))
        database = normalise(name_of(tokens[index - 2])) if first < index else None
        if database is None and not _is_call(tokens, index, name):
            continue
        found.append(FunctionCall(name, database, tokens[first].start, token.end))
    return tuple(found)


def _first_part(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the first part of a name of one or two parts, None for another one."""
    parts = [index]
    while parts[0] > 1 and tokens[parts[0] - 1].is_symbol(".") and tokens[parts[0] - 2].kind in _NAMES:
        parts.insert(0, parts[0] - 2)
    return parts[0] if len(parts) < 3 else None


def _is_call(tokens: Sequence[Token], index: int, name: str) -> bool:
    token = tokens[index]
    if name in SPARK_FUNCTIONS or token.word in _NO_NAMES:
        return False
    if index == 0:
        return True
    before = tokens[index - 1]
    if before.kind is Kind.SYMBOL:
        return not before.is_symbol(")", "]", ".") and not _is_common_table(tokens, index)
    return before.word in _BEFORE_CALLS


def _is_common_table(tokens: Sequence[Token], index: int) -> bool:
    """Return whether ``, name (columns) AS (SELECT ...`` stands here."""
    if not tokens[index - 1].is_symbol(","):
        return False
    depth = 0
    for at in range(index + 1, len(tokens) - 3):
        depth += tokens[at].is_symbol("(") - tokens[at].is_symbol(")")
        if depth == 0:
            query = tokens[at + 3]
            begins = query.word in _QUERY_WORDS or query.is_symbol("(")
            return tokens[at + 1].word == "AS" and tokens[at + 2].is_symbol("(") and begins
    return False
