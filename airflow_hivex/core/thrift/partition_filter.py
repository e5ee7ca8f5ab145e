"""Hive's filters on partition keys as predicates: and, or, not, comparisons, IN, LIKE and BETWEEN. Pure.

    ds = "2026-01-01" and (hr >= 2 or hr in (0, 1))

A filter may be answered with too many partitions, as each client filters again, and never with too few. So a
condition that is not understood with certainty is an unknown predicate, which excludes no partition.

Source: Hive's Filter.g, and the filters that Spark's HiveShim makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.predicates import And, Comparison, In, Like, Not, Or, Predicate, Unknown, Value

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"])*"|'(?:[^'])*')
      | (?P<number>-?[0-9]+(?![A-Za-z_0-9]))
      | (?P<name>`[^`]+`|[A-Za-z_0-9][A-Za-z_0-9]*)
      | (?P<sign><=>|<=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_TOKENS = 100_000
_DEEPEST = 50
_LITERAL_PATTERN = re.compile(r"[\w \-:/,]*")


class InvalidFilterError(ValueError):
    """The text is not a filter."""


def read_filter(text: str) -> Predicate:
    """Return the predicate of a filter; an empty filter holds for all partitions.

    Raises:
        InvalidFilterError: the text is not a filter.
    """
    if not text.strip():
        return And(())
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._depth = 0
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None or len(self._tokens) >= _MOST_TOKENS:
                raise InvalidFilterError(f"Error parsing partition filter at position {at + 1}: {text[at : at + 40]!r}")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._at = 0

    def read(self) -> Predicate:
        """Return the predicate of all tokens."""
        found = self._any()
        if self._at < len(self._tokens):
            self._refuse()
        return found

    def _refuse(self) -> NoReturn:
        shown = self._tokens[self._at][1] if self._at < len(self._tokens) else "its end"
        raise InvalidFilterError(f"Error parsing partition filter at {shown!r}: {self._text[:200]!r}")

    def _word(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return text.lower() if kind in ("name", "sign") else ""

    def _take(self, word: str) -> bool:
        if self._word() == word:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._refuse()

    def _several(self, word: str, part: Callable[[], Predicate], of: type[And] | type[Or]) -> Predicate:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else of(tuple(parts))

    def _any(self) -> Predicate:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse()
        found = self._several("or", self._all, Or)
        self._depth -= 1
        return _in_lists(found) if isinstance(found, Or) else found

    def _all(self) -> Predicate:
        return self._several("and", self._one, And)

    def _one(self) -> Predicate:
        if self._take("not"):
            negations = 1
            while self._take("not"):
                negations += 1
            found = self._one()
            return Not(found) if negations % 2 else found
        if self._word() == "(":
            listed = self._parenthesised_column()
            if listed is not None:
                return listed
            self._expect("(")
            found = self._any()
            self._expect(")")
            return found
        return self._comparison()

    def _parenthesised_column(self) -> Predicate | None:
        """Return the predicate of ``(column) in (...)``; None for any other parenthesis."""
        tokens = self._tokens[self._at : self._at + 4]
        words = [text.lower() for _, text in tokens]
        if len(tokens) < 4 or tokens[1][0] != "name" or words[2] != ")" or words[3] not in ("in", "not"):
            return None
        self._at += 3
        return self._after(self._column(tokens[1][1]))

    @staticmethod
    def _column(name: str) -> ColumnReference:
        return ColumnReference(name.strip("`").lower())

    def _comparison(self) -> Predicate:
        if self._at >= len(self._tokens):
            self._refuse()
        kind, text = self._tokens[self._at]
        if kind == "name":
            self._at += 1
            return self._after(self._column(text))
        value = self._value()
        operator = _OPERATORS.get(self._word())
        if operator is None:
            self._refuse()
        self._at += 1
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind != "name":
            self._refuse()
        self._at += 1
        return Comparison(self._column(text), _TURNED[operator], value)

    def _after(self, column: ColumnReference) -> Predicate:
        operator = _OPERATORS.get(self._word())
        if operator is not None:
            self._at += 1
            return Comparison(column, operator, self._value())
        negated = self._take("not")
        if self._take("in"):
            found: Predicate = In(column, self._values())
        elif self._take("like"):
            found = _like(column, self._value())
        elif self._take("between"):
            low = self._value()
            self._expect("and")
            found = And((Comparison(column, ">=", low), Comparison(column, "<=", self._value())))
        else:
            self._refuse()
        return Not(found) if negated else found

    def _values(self) -> tuple[Value, ...]:
        self._expect("(")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _value(self) -> Value:
        if self._at >= len(self._tokens):
            self._refuse()
        kind, text = self._tokens[self._at]
        if kind == "name" and text.lower() in ("date", "timestamp"):
            # DATE '2026-01-01' is the text here, which a date is compared with.
            self._at += 1
            return self._value()
        if kind not in ("text", "number"):
            self._refuse()
        self._at += 1
        return text[1:-1] if kind == "text" else int(text)


def _in_lists(found: Or) -> Predicate:
    """Return a predicate in which comparisons of one column with texts, or with numbers, are a list.

    Clients name many partitions so, and a list is asked once for each partition.
    """
    lists: dict[tuple[ColumnReference, type], list[Value]] = {}
    others: list[Predicate] = []
    for each in found.operands:
        if isinstance(each, Comparison) and each.operator == "=" and isinstance(each.operand, ColumnReference):
            lists.setdefault((each.operand, type(each.value)), []).append(each.value)
        else:
            others.append(each)
    joined = [
        In(column, tuple(values)) if len(values) > 1 else Comparison(column, "=", values[0])
        for (column, _), values in lists.items()
    ]
    return Or((*joined, *others)) if len(joined) + len(others) > 1 else joined[0]


def _like(column: ColumnReference, value: Value) -> Predicate:
    """Return the predicate of LIKE, whose pattern is one of Java's regular expressions in a filter of Hive."""
    if not isinstance(value, str):
        return Unknown()
    parts = value.split(".*")
    if not all(_LITERAL_PATTERN.fullmatch(part) for part in parts):
        return Unknown()
    return Like(column, "%".join(part.replace("_", "\\_") for part in parts))
