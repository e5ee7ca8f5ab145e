"""Lists of VALUES, value by value: an INSERT stores each of them by itself as the type of its column.

Source: docs/reference/statements.md, "Texts in columns of other types".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from airflow_hivex.core.model.identifiers import Span
from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, name_of, syntax_error
from airflow_hivex.core.parser.statements import ValueList


def value_list(tree: exp.Expr, text: str, tokens: Sequence[Token], markers: Markers) -> ValueList | None:
    """Return the values of a query that is a list of VALUES; None where it is more than that.

    None, too, where Spark takes the fields of a STRUCT for the values of a row.

    Raises:
        StatementSyntaxError: a row has more or fewer values than the first one.
    """
    while isinstance(tree, exp.Subquery) and _is_enclosed(tokens) and not _others(tree, "this"):
        tree, tokens = tree.this, tokens[1:-1]
    if not isinstance(tree, exp.Values) or _others(tree, "expressions", "alias"):
        return None
    names: tuple[str, ...] = ()
    if tree.args.get("alias") is not None:
        tokens, names = _without_alias(tokens)
    parts = list(_parts(tokens[1:]))
    rows = [_values(row) for row in parts]
    if len(rows) != len(tree.expressions) or len(rows[0]) != (len(names) or len(rows[0])):
        return None
    if any(not value or (len(row) == 1 and value[0].word == "STRUCT") for row in rows for value in row):
        return None
    _check_lengths(text, [(row[0], len(values)) for row, values in zip(parts, rows, strict=True)])
    return ValueList(
        tuple(tuple(Span(value[0].start, value[-1].end) for value in row) for row in rows),
        tuple(tuple(_type_of(text, value, markers) for value in row) for row in rows),
        names,
    )


def _check_lengths(text: str, rows: Sequence[tuple[Token, int]]) -> None:
    """Check that rows, each with its first token, have equally many values.

    Raises:
        StatementSyntaxError: a row has more or fewer values than the first one.
    """
    _, length = rows[0]
    for number, (token, values) in enumerate(rows, 1):
        if values != length:
            reason = f"row {number} has {values} values, the rows before have {length}"
            raise syntax_error(text, token.start, reason)


def _others(tree: exp.Expr, *known: str) -> bool:
    return any(value for name, value in tree.args.items() if name not in known)


def _without_alias(tokens: Sequence[Token]) -> tuple[Sequence[Token], tuple[str, ...]]:
    """Return the tokens before ``[AS] name [(column, ...)]`` at their end, and the columns."""
    names: tuple[str, ...] = ()
    if tokens[-1].is_symbol(")"):
        opening = max(index for index, token in enumerate(tokens) if token.is_symbol("("))
        names = tuple(name_of(token) for token in tokens[opening:] if token.kind in (Kind.WORD, Kind.QUOTED))
        tokens = tokens[:opening]
    tokens = tokens[:-1]
    return (tokens[:-1] if tokens[-1].word == "AS" else tokens), names


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens between commas that stand outside of parentheses and brackets."""
    depth = start = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if token.is_symbol(",") and depth == 0:
            yield tokens[start:index]
            start = index + 1
    yield tokens[start:]


def _values(row: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the values of a row, in parentheses or not."""
    while _is_enclosed(row):
        row = row[1:-1]
    return list(_parts(row))


def _is_enclosed(tokens: Sequence[Token]) -> bool:
    """Return whether the first token is a parenthesis that the last one closes."""
    if len(tokens) < 2 or not tokens[0].is_symbol("(") or not tokens[-1].is_symbol(")"):
        return False
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            return index == len(tokens) - 1
    return False


def _type_of(text: str, value: Sequence[Token], markers: Markers) -> str | None:
    while _is_enclosed(value):
        value = value[1:-1]
    cursor = Cursor(text, value, markers)
    literal = read_constant(cursor)
    return literal.type if literal is not None and cursor.at_end else None
