"""Comparisons with ``ALL (query)``, ``ANY (query)`` and ``SOME (query)``, which Spark has with lists only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_hivex.core.parser.lexer.tokens import Token, unsupported_error
from airflow_hivex.core.parser.statements import TextEdit

QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
"""The words that can begin a query."""

# `x > ALL (SELECT ...)`, and `ANY` or `SOME` in its place: comparisons that Spark has with lists only.
#
# Each becomes a sub-query that counts the rows for which the comparison holds, with the three values of SQL: of no
# rows `ALL` is true and `ANY` is false. IN is not `= ANY`: outside of WHERE, Spark's IN is false where it must be
# NULL.

_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_QUANTIFIERS = ("ALL", "ANY", "SOME")
# The words before an operand. It holds none of the others, which have no place in it outside of parentheses.
_BEFORE_OPERAND = frozenset(
    "SELECT DISTINCT ALL WHERE ON AND OR NOT WHEN THEN ELSE CASE HAVING BY QUALIFY SET EXTEND IF".split()  # noqa: SIM905
)
_NO_PART = frozenset("LIKE ILIKE RLIKE REGEXP IN IS BETWEEN EXISTS ESCAPE".split())  # noqa: SIM905
_AGGREGATES = frozenset("SUM COUNT AVG MEAN MIN MAX FIRST LAST ANY_VALUE STDDEV VARIANCE MEDIAN".split())  # noqa: SIM905
_HELD = {
    "ALL": "CASE WHEN count_if(NOT `__held`) > 0 THEN FALSE WHEN count(`__held`) < count(*) THEN NULL ELSE TRUE END",
    "ANY": "CASE WHEN count_if(`__held`) > 0 THEN TRUE WHEN count(`__held`) < count(*) THEN NULL ELSE FALSE END",
}


def quantified_comparisons(text: str, tokens: Sequence[Token]) -> Iterator[TextEdit]:
    """Yield the edits that replace each comparison with ``ALL (query)`` or ``ANY (query)`` by SQL that Spark has.

    Raises:
        UnsupportedStatementError: the operand before the comparison has no certain beginning, or is an aggregate.
    """
    for index, word in enumerate(tokens):
        if word.word not in _QUANTIFIERS or not 0 < index < len(tokens) - 2:
            continue
        operator, opening, first = tokens[index - 1], tokens[index + 1], tokens[index + 2]
        is_query = first.word in QUERY_WORDS or (first.is_symbol("(") and _holds_query(tokens, index + 2))
        if not operator.is_symbol(*_COMPARISONS) or not opening.is_symbol("(") or not is_query:
            continue
        start = _operand(text, tokens, index - 1)
        held = _HELD["ALL" if word.word == "ALL" else "ANY"]
        closing = _closing(tokens, index + 1)
        yield TextEdit(start.start, start.start, f"(SELECT {held} FROM (SELECT ")  # noqa: S608 - words of our own
        yield TextEdit(operator.start, word.end, f"{operator.text} `__value` AS `__held` FROM")
        yield TextEdit(closing.end, closing.end, " AS `__compared`(`__value`)))")


def _holds_query(tokens: Sequence[Token], index: int) -> bool:
    while index < len(tokens) and tokens[index].is_symbol("("):
        index += 1
    return index < len(tokens) and tokens[index].word in QUERY_WORDS


def _closing(tokens: Sequence[Token], opening: int) -> Token:
    depth = 0
    for token in tokens[opening:]:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            return token
    raise AssertionError("the parser has found the parenthesis")


def _operand(text: str, tokens: Sequence[Token], operator: int) -> Token:
    """Return the first token of the operand before an operator.

    Raises:
        UnsupportedStatementError: the operand has no certain beginning, or is an aggregate.
    """
    at = tokens[operator].start
    depth = cases = 0
    index = operator
    while index > 0:
        token = tokens[index - 1]
        depth += token.is_symbol(")", "]") - token.is_symbol("(", "[")
        if depth < 0:
            break
        before = tokens[index - 2] if index > 1 else None
        # After a point, each word is a name.
        word = "" if before is not None and before.is_symbol(".") else token.word
        if depth == 0:
            cases += word == "END"
            if word == "CASE" and cases:
                cases -= 1
            elif not cases:
                is_negated = before is not None and before.word == "IS"
                if token.is_symbol(*_COMPARISONS, "<=>") or word in _NO_PART or is_negated:
                    raise unsupported_error(text, at, "put the operand of ALL, ANY or SOME in parentheses")
                if token.is_symbol(",", "->", "=>", "|>", "!") or word in _BEFORE_OPERAND:
                    break
        if token.word in _AGGREGATES and tokens[index].is_symbol("("):
            reason = "Spark compares no aggregate with ALL, ANY or SOME; compute it in a sub-query of FROM first"
            raise unsupported_error(text, at, reason)
        index -= 1
    if index == operator:
        raise unsupported_error(text, at, "put the operand of ALL, ANY or SOME in parentheses")
    return tokens[index]
