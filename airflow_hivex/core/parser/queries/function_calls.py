"""Calls of functions in a query that Spark does not answer as they are: all but its own, and the current database."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, name_of, tokenize
from airflow_hivex.core.parser.queries.spark_functions import SPARK_FUNCTIONS
from airflow_hivex.core.parser.statements import DatabaseCall, FunctionCall, Span

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
_CURRENT_DATABASE = ("current_database", "current_schema")
_END_OF_ITEM = frozenset("EXCEPT FROM INTERSECT LIMIT MINUS ORDER UNION WHERE".split())  # noqa: SIM905
_OTHER_CLAUSES = frozenset("BY FROM HAVING ON SET VALUES WHEN WHERE".split())  # noqa: SIM905
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


def default_calls(parameters: str) -> tuple[FunctionCall, ...]:
    """Return the calls, as those of :func:`function_calls`, in the DEFAULTs of a function's list of parameters."""
    found: list[FunctionCall] = []
    tokens = tokenize(parameters)
    start, depth = None, 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if start is None and depth == 0 and token.word == "DEFAULT":
            start = index + 1
        elif start is not None and (index + 1 == len(tokens) or (depth == 0 and token.is_symbol(","))):
            found += function_calls(tokens[start : index + 1])
            start = None
    return tuple(found)


def qualifying_places(text: str, start: int, end: int, name: str) -> tuple[Span, ...]:
    """Return where a name qualifies others in a part of a text, none if it stands there for anything else, too."""
    tokens = [token for token in tokenize(text) if start <= token.start < end]
    found = []
    for index, token in enumerate(tokens):
        if token.kind not in _NAMES or normalise(name_of(token)) != name:
            continue
        if index and tokens[index - 1].is_symbol("."):
            continue
        if index + 1 == len(tokens) or not tokens[index + 1].is_symbol("."):
            return ()
        found.append(Span(token.start, token.end))
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


def database_calls(tokens: Sequence[Token]) -> tuple[DatabaseCall, ...]:
    """Return the calls of functions that return the current database, which Spark does not know."""
    found = []
    for index, token in enumerate(tokens[:-2]):
        if token.kind not in _NAMES or name_of(token).lower() not in _CURRENT_DATABASE:
            continue
        is_qualified = index > 0 and tokens[index - 1].is_symbol(".")
        if not is_qualified and tokens[index + 1].is_symbol("(") and tokens[index + 2].is_symbol(")"):
            column = f"{name_of(token)}()" if _is_item(tokens, index, index + 3) else None
            found.append(DatabaseCall(token.start, tokens[index + 2].end, column))
    return tuple(found)


def _is_item(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return whether these tokens are a whole item of the list of a SELECT, so that its column is called by them."""
    if end < len(tokens):
        following = tokens[end]
        if not following.is_symbol(",", ")", "|>") and following.word not in _END_OF_ITEM:
            return False
    if start == 0:
        return False
    before = tokens[start - 1]
    if not before.is_symbol(",") and before.word not in ("SELECT", "DISTINCT", "ALL"):
        return False
    depth = 0
    for token in reversed(tokens[:start]):
        depth += token.is_symbol(")") - token.is_symbol("(")
        if depth < 0 or (depth == 0 and token.word in _OTHER_CLAUSES):
            return False
        if depth == 0 and token.word == "SELECT":
            return True
    return False
