"""The reader of Hive's filters, which have AND, OR, NOT, comparisons, IN, LIKE and BETWEEN. Pure.

    ds = "2026-01-01" and (hr >= 2 or hr in (0, 1))

The types of the literals are decided in :mod:`airflow_hivex.core.thrift.filter_conditions`.

Source: Hive's Filter.g, and the filters that Spark's HiveShim makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias, TypeVar

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"])*"|'(?:[^'])*')
      | (?P<plain>[0-9]{4}-[0-9]{2}-[0-9]{2}(?![A-Za-z_0-9-])
                 |-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z_0-9.]))
      | (?P<name>`[^`]+`|[A-Za-z_0-9][A-Za-z_0-9]*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PLAIN_WORDS = ("true", "false")
_KEYWORDS = ("and", "or", "not", "in", "like", "between")
_T = TypeVar("_T")
_MOST_TOKENS = 100_000
_DEEPEST = 50


class InvalidFilterError(ValueError):
    """The text is not a valid filter, or names a column that is not a key."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one key. ``operator`` is ``= <> < <= > >= in`` or ``like``. ``in`` can have several literals."""

    key: str
    operator: str
    literals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """The negation of a filter."""

    operand: Filter


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Filters that must all be true. An empty conjunction is always true."""

    operands: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Disjunction:
    """Filters of which at least one must be true."""

    operands: tuple[Filter, ...]


Filter: TypeAlias = Condition | Negation | Conjunction | Disjunction


def read_filter(text: str) -> Filter:
    """Return the parsed form of a filter. An empty text gives a filter that is always true.

    Raises:
        InvalidFilterError: the text is not a filter.
    """
    if not text.strip():
        return Conjunction(())
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text = text.rstrip()
        self._tokens: list[tuple[str, str]] = []
        self._depth = 0
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None or len(self._tokens) >= _MOST_TOKENS:
                raise InvalidFilterError(f"Error parsing partition filter at position {at + 1}: {text[at : at + 40]!r}")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self._at = 0

    def read(self) -> Filter:
        """Return the parsed filter from all tokens of the text."""
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

    def _several(self, word: str, part: Callable[[], Filter], of: type[Conjunction] | type[Disjunction]) -> Filter:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else of(tuple(parts))

    def _any(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse()
        found = self._several("or", self._all, Disjunction)
        self._depth -= 1
        return _in_lists(found) if isinstance(found, Disjunction) else found

    def _all(self) -> Filter:
        return self._several("and", self._one, Conjunction)

    def _one(self) -> Filter:
        if self._take("not"):
            negations = 1
            while self._take("not"):
                negations += 1
            found = self._one()
            return Negation(found) if negations % 2 else found
        if self._word() == "(":
            keys = self._parenthesised_keys()
            if keys:
                return self._after(keys[0]) if len(keys) == 1 else self._in_rows(keys)
            self._expect("(")
            found = self._any()
            self._expect(")")
            return found
        return self._comparison()

    def _parenthesised_keys(self) -> list[str]:
        """Return the keys of ``(a, b) in ...`` or ``(struct(a, b)) in ...``, or an empty list for other tokens."""
        before = self._at
        self._expect("(")
        is_struct = [text.lower() for _, text in self._tokens[self._at : self._at + 2]] == ["struct", "("]
        self._at += 2 if is_struct else 0
        keys = []
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "name" and self._word() not in _KEYWORDS:
            keys.append(self._key())
            if not self._take(","):
                break
        if self._take(")") and (self._take(")") or not is_struct) and self._word() in ("in", "not") and keys:
            return keys
        self._at = before
        return []

    def _key(self) -> str:
        name = self._tokens[self._at][1]
        if name.lower() in _KEYWORDS:
            self._refuse()
        self._at += 1
        return name.strip("`").lower()

    def _comparison(self) -> Filter:
        if self._at >= len(self._tokens):
            self._refuse()
        if self._tokens[self._at][0] == "name" and not self._begins_literal():
            return self._after(self._key())
        literal = self._literal()
        operator = _OPERATORS.get(self._word())
        if operator is None:
            self._refuse()
        self._at += 1
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != "name":
            self._refuse()
        return Condition(self._key(), _TURNED[operator], (literal,))

    def _begins_literal(self) -> bool:
        """Return whether the current name begins a literal, such as ``true`` or ``date '...'``, and is not a key."""
        following = self._tokens[self._at + 1][0] if self._at + 1 < len(self._tokens) else ""
        if self._word() in _PLAIN_WORDS:
            return following == "sign" and self._tokens[self._at + 1][1] in _OPERATORS
        return self._word() in ("date", "timestamp") and following in ("text", "plain")

    def _after(self, key: str) -> Filter:
        operator = _OPERATORS.get(self._word())
        if operator is not None:
            self._at += 1
            return Condition(key, operator, (self._literal(),))
        negated = self._take("not")
        if self._take("in"):
            found: Filter = Condition(key, "in", self._list(self._literal))
        elif self._take("like"):
            found = Condition(key, "like", (self._literal(),))
        elif self._take("between"):
            low = self._literal()
            self._expect("and")
            found = Conjunction((Condition(key, ">=", (low,)), Condition(key, "<=", (self._literal(),))))
        else:
            self._refuse()
        return Negation(found) if negated else found

    def _in_rows(self, keys: list[str]) -> Filter:
        negated = self._take("not")
        self._expect("in")

        def row() -> Filter:
            self._take("const")
            self._take("struct")
            literals = self._list(self._literal)
            if len(literals) != len(keys):
                self._refuse()
            return Conjunction(
                tuple(Condition(key, "=", (literal,)) for key, literal in zip(keys, literals, strict=True))
            )

        found = Disjunction(self._list(row))
        return Negation(found) if negated else found

    def _list(self, part: Callable[[], _T]) -> tuple[_T, ...]:
        self._expect("(")
        found = [part()]
        while self._take(","):
            found.append(part())
        self._expect(")")
        return tuple(found)

    def _literal(self) -> str:
        if self._at < len(self._tokens) and self._word() in ("date", "timestamp"):
            # DATE '2026-01-01' is read as its text: the type of the key makes it a date.
            self._at += 1
        if self._at >= len(self._tokens):
            self._refuse()
        kind, text = self._tokens[self._at]
        if kind not in ("text", "plain") and self._word() not in _PLAIN_WORDS:
            self._refuse()
        self._at += 1
        return text[1:-1] if kind == "text" else text


def _in_lists(found: Disjunction) -> Filter:
    """Return an equivalent filter. All ``=`` comparisons of the same key are combined into one IN.

    For example, ``key = a or key = b`` becomes ``key in (a, b)``, which takes less time.
    """
    lists: dict[str, list[str]] = {}
    others: list[Filter] = []
    for each in found.operands:
        if isinstance(each, Condition) and each.operator == "=":
            lists.setdefault(each.key, []).extend(each.literals)
        else:
            others.append(each)
    joined = [Condition(key, "in" if len(literals) > 1 else "=", tuple(literals)) for key, literals in lists.items()]
    parts = (*joined, *others)
    return parts[0] if len(parts) == 1 else Disjunction(parts)
