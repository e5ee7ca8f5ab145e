"""Parameters of PEP 249, converted to values of the ``:name`` markers of a statement."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import time
from itertools import pairwise
from typing import Any

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.parser.lexer.tokens import Kind, Token, tokenize

Parameters = Mapping[str, object] | Sequence[object]

MOST_VALUES = 20_000
"""The largest number of values in one INSERT that :func:`join_rows` makes of several sets of parameters."""


def bind(text: str, parameters: Parameters | None) -> tuple[str, dict[str, object] | None]:
    """Return a pair: the statement with ``:name`` markers only, and a dict from the names of markers to values.

    A mapping has the values of ``:name`` markers. A sequence has the values of ``?`` markers in their order; each ``?``
    is replaced by a ``:name`` marker. If there are no parameters, the text is unchanged and the dict is None.

    Raises:
        InvalidParametersError: the parameters are not a mapping, list or tuple, or their number is wrong.
        StatementSyntaxError: the text cannot be split into tokens.
    """
    if parameters is None or (not isinstance(parameters, Mapping) and not _checked(parameters)):
        return text, None
    if isinstance(parameters, Mapping):
        return text, {name: plain(value) for name, value in parameters.items()}
    marks = [token for token in tokenize(text, with_variables=True) if token.is_symbol("?")]
    if len(marks) != len(parameters):
        advice = " %s is a marker of other drivers; write ? in its place." if "%s" in text else ""
        raise InvalidParametersError(
            f"The statement has {len(marks)} markers ?, and {len(parameters)} values were given for them.{advice}"
        )
    names = [f"p{number}" for number in range(1, len(marks) + 1)]
    bound = _replaced(text, [(mark, f":{name}") for mark, name in zip(marks, names, strict=True)])
    return bound, {name: plain(value) for name, value in zip(names, parameters, strict=True)}


def share(statements: Sequence[str], parameters: Sequence[object]) -> list[Sequence[object] | None]:
    """Return for each statement all ``parameters`` if it has ``?`` markers, or else None.

    Raises:
        InvalidParametersError: there are parameters, but no statement has a marker.
        StatementSyntaxError: a statement cannot be split into tokens.
    """
    marked = [
        any(token.is_symbol("?") for token in tokenize(statement, with_variables=True)) for statement in statements
    ]
    if not any(marked):
        bind(";\n".join(statements), parameters)
    return [parameters if is_marked else None for is_marked in marked]


def join_rows(text: str, sets: Sequence[Parameters]) -> list[tuple[str, dict[str, object] | None]]:
    """Return (statement, values) pairs that together execute a statement with each set of parameters.

    Several rows of an INSERT become one statement: ``INSERT INTO t VALUES (?, ?)`` becomes
    ``INSERT INTO t VALUES (:r0p1, :r0p2), (:r1p1, :r1p2), ...``. Any other statement is returned once for each set.
    """
    row = _row_of_insert(text)
    if row is None or not sets:
        return [bind(text, each) for each in sets]
    start, end = row
    row_text, width = text[start:end], max(1, len(sets[0]))
    size = max(1, MOST_VALUES // width)
    return [_joined(text[:start], row_text, text[end:], sets[at : at + size]) for at in range(0, len(sets), size)]


def rows_of_sets(sets: Sequence[Parameters], names: Sequence[str], markers: Sequence[str]) -> list[Any]:
    """Return a row of values for each set of parameters, in the order of the ``markers`` of the row.

    ``names`` are the markers of the first set, as :func:`bind` returns them.

    Raises:
        InvalidParametersError: a set has other markers than the first one.
    """
    is_named = isinstance(sets[0], Mapping)
    keys: list[Any] = list(markers) if is_named else [names.index(marker) for marker in markers]
    rows = []
    for number, each in enumerate(sets, 1):
        if isinstance(each, Mapping) != is_named or len(each) != len(names) or (is_named and set(each) != set(names)):
            raise InvalidParametersError(
                f"Set {number} of the parameters has other markers than the first one, which has {', '.join(names)}."
            )
        rows.append([plain(each[key]) for key in keys])
    return rows


def plain(value: object) -> object:
    """Return a value in a type that statements accept. UUIDs, times, memoryviews and NumPy numbers are converted."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, memoryview):
        return bytes(value)
    item = getattr(value, "item", None)
    # A number of numpy has a method item and the dimension 0.
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value


def _checked(parameters: Iterable[object]) -> bool:
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise InvalidParametersError(
            f"The parameters are a {type(parameters).__name__}; give a mapping for :name markers, or a list or tuple "
            "for ? markers."
        )
    return len(parameters) > 0


def _row_of_insert(text: str) -> tuple[int, int] | None:
    """Return a pair: start and end of the only row in an ``INSERT INTO ... VALUES``; None for any other statement.

    The result is also None if a marker stands before VALUES, because its value can differ in each set of parameters.
    """
    tokens = tokenize(text, with_variables=True)
    while tokens and tokens[-1].is_symbol(";"):
        tokens.pop()
    if not tokens or tokens[0].word != "INSERT" or any(token.word in ("OVERWRITE", "SELECT") for token in tokens):
        return None
    at = next((i for i, token in enumerate(tokens) if token.word == "VALUES"), len(tokens))
    row = tokens[at + 1 :]
    if not row or not row[0].is_symbol("(") or not row[-1].is_symbol(")"):
        return None
    depth = 0
    for token in row[:-1]:
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth == 0:
            return None
    # A marker before the rows, such as in PARTITION (ds = :ds), has another value in each set.
    if any(token.is_symbol("?", ":") for token in tokens[:at]):
        return None
    return row[0].start, row[-1].end


def _joined(before: str, row: str, after: str, sets: Sequence[Parameters]) -> tuple[str, dict[str, object] | None]:
    marks = _marks(row)
    values: dict[str, object] = {}
    rows = []
    for number, parameters in enumerate(sets):
        bound, given = bind(row, parameters)
        names = _marks(bound) if given is not None and not isinstance(parameters, Mapping) else marks
        values |= {f"r{number}{name}": value for name, value in (given or {}).items()}
        rows.append(_replaced(bound, [(token, f"r{number}{token.text}") for token in names]))
    return f"{before}{', '.join(rows)}{after}", values or None


def _marks(text: str) -> list[Token]:
    """Return the name of each ``:name`` marker as a token."""
    tokens = tokenize(text, with_variables=True)
    return [name for colon, name in pairwise(tokens) if colon.is_symbol(":") and name.kind is Kind.WORD]


def _replaced(text: str, changes: Sequence[tuple[Token, str]]) -> str:
    parts, position = [], 0
    for token, new in changes:
        parts += [text[position : token.start], new]
        position = token.end
    return "".join([*parts, text[position:]])
