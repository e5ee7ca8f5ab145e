"""The facts that a query's text shows about the result: columns, lists of VALUES, and which values are constant texts.

Hive stores a constant text in a column of another type if the text is a valid value of this type. So an INSERT casts
each single value of VALUES to the type of the value's column. Source: docs/reference/statements.md, "Texts in columns
of other types".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from sqlglot import exp

from airflow_hivex.core.model.identifiers import Span
from airflow_hivex.core.parser.lexer.literals import read_constant
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, Kind, Token, name_of, syntax_error
from airflow_hivex.core.parser.statements import ValueList

_TEXTS = ("string", "void")


def text_columns(tree: exp.Expr, markers: Markers) -> tuple[int, ...]:
    """Return the positions of the result's columns that are constant texts or NULL in each row.

    Columns after ``*`` have negative positions, counted from the end.
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
    """Return the positions of the values that are constant texts or NULL. A value can be in parentheses."""
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


# Each of these expressions may return several columns.
_GENERATORS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}
)


def result_parts(tree: exp.Expr) -> list[exp.Select | exp.Values]:
    """Return each SELECT and VALUES that returns rows of the result, or an empty list if other parts return rows."""
    found: list[exp.Select | exp.Values] = []
    # A chain of UNION is as deep as it is long.
    parts = [tree]
    while parts:
        match part := parts.pop():
            case exp.Subquery():
                parts.append(part.this)
            case exp.SetOperation():
                parts += (part.this, part.expression)
            case exp.Values() | exp.Select():
                found.append(part)
            case _:
                return []
    return found


def lists_columns(tree: exp.Expr) -> bool:
    """Return whether the text lists each column of the result, without ``*`` and functions with several columns."""
    parts = result_parts(tree)
    return bool(parts) and all(
        isinstance(part, exp.Values) or all(map(is_one_column, part.expressions)) for part in parts
    )


def values_of(row: exp.Expr) -> list[exp.Expr]:
    """Return the values of one row of VALUES."""
    return list(row.expressions) if isinstance(row, exp.Tuple) else [row]


def is_one_column(value: exp.Expr) -> bool:
    """Return whether a value of a SELECT is one column, and not ``*`` or a function that returns several columns."""
    if isinstance(value, exp.Aliases) or value.is_star:
        return False
    called = value.unalias()
    name = called.name if isinstance(called, exp.Anonymous) else called.key
    is_generator = isinstance(called, (exp.UDTF, exp.Explode)) or name.lower() in _GENERATORS
    return not is_generator


def value_list(tree: exp.Expr, text: str, tokens: Sequence[Token], markers: Markers) -> ValueList | None:
    """Return the values of a query that is only a list of VALUES, or None for any other query.

    The result is also None if Spark reads the fields of a STRUCT as the values of a row.

    Raises:
        StatementSyntaxError: a row has more or fewer values than the first row.
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
    """Ensure that rows, each given by its first token and length, have the same number of values.

    Raises:
        StatementSyntaxError: a row has more or fewer values than the first row.
    """
    _, length = rows[0]
    for number, (token, values) in enumerate(rows, 1):
        if values != length:
            reason = f"row {number} has {values} values, the rows before have {length}"
            raise syntax_error(text, token.start, reason)


def _others(tree: exp.Expr, *known: str) -> bool:
    return any(value for name, value in tree.args.items() if name not in known)


def _without_alias(tokens: Sequence[Token]) -> tuple[Sequence[Token], tuple[str, ...]]:
    """Return the tokens without ``[AS] name [(column, ...)]`` at their end, and the names of the columns."""
    names: tuple[str, ...] = ()
    if tokens[-1].is_symbol(")"):
        opening = max(index for index, token in enumerate(tokens) if token.is_symbol("("))
        names = tuple(name_of(token) for token in tokens[opening:] if token.kind in (Kind.WORD, Kind.QUOTED))
        tokens = tokens[:opening]
    tokens = tokens[:-1]
    return (tokens[:-1] if tokens[-1].word == "AS" else tokens), names


def _parts(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens between commas outside of parentheses and brackets."""
    depth = start = 0
    for index, token in enumerate(tokens):
        depth += token.is_symbol("(", "[") - token.is_symbol(")", "]")
        if token.is_symbol(",") and depth == 0:
            yield tokens[start:index]
            start = index + 1
    yield tokens[start:]


def _values(row: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the values of a row, with or without parentheses."""
    while _is_enclosed(row):
        row = row[1:-1]
    return list(_parts(row))


def _is_enclosed(tokens: Sequence[Token]) -> bool:
    """Return whether the first token is a parenthesis that the last token closes."""
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
