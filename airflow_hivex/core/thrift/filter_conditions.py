"""Decides whether values of keys satisfy the filter of a client. Pure.

A literal is read as a value of its key's type. Each condition is evaluated exactly, because Airflow's sensors and
HCatalog do not filter the answer themselves. NULL satisfies no condition. A value that does not have the type of its
key satisfies no condition. For a key of a text type, NULL counts as the name of Hive's default partition.

LIKE takes the patterns of a Hive Metastore: ``.*`` stands for any text, ``.`` for one character, and any other
character for itself. A pattern with a backslash before a dot has two meanings: a literal dot, or a literal backslash
before one character. LIKE is true if the value matches one of the two meanings.

Source: Hive's MetaStoreDirectSql.PartitionFilterGenerator; DataNucleus for LIKE.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TypeAlias

from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION
from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Unknown,
    wildcard_expression,
)
from airflow_hivex.core.model.predicates import Value as Constant
from airflow_hivex.core.thrift.partition_filter import (
    Condition,
    Conjunction,
    Disjunction,
    Filter,
    InvalidFilterError,
    Negation,
    read_filter,
)

Comparable: TypeAlias = str | bool | Decimal | tuple[int, ...] | tuple[bool, float]
"""A value of a key, in a form for Python's comparison operators."""
Texts: TypeAlias = Sequence[str | None]
"""The stored texts of a partition's values, in the order of the keys."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_DAY = re.compile(r"([+-]?[0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})(?![0-9])")
_TIME = re.compile(r"[ T]([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_LONGEST_NUMBER = 1000
_COMPARE: dict[str, Callable[[Comparable, Comparable], bool]] = {
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key that a filter can name, with its type and its position among the values."""

    name: str
    place: int
    type: ColumnType

    @property
    def is_text(self) -> bool:
        """Return whether the key has a text type: STRING, VARCHAR or CHAR."""
        return isinstance(self.type, Primitive) and self.type.family is Family.TEXT

    def read(self, text: str | None) -> Comparable | None:
        """Return the value of a stored text or of a literal, or None if the text does not fit the key's type."""
        if text is None or not isinstance(self.type, Primitive):
            return None
        match self.type.family:
            case Family.TEXT:
                return text.rstrip(" ") if self.type.name == "char" else text
            case Family.WHOLE | Family.DECIMAL:
                return Decimal(text) if len(text) <= _LONGEST_NUMBER and _NUMBER.fullmatch(text) else None
            case Family.FLOATING:
                return _floating(text, is_single=self.type.name == "float")
            case Family.BOOLEAN:
                return text.lower() == "true" if text.lower() in ("true", "false") else None
            case Family.MOMENT:
                return _moment(text, has_time=self.type.name != "date")
        return None

    def literal(self, text: str) -> Comparable:
        """Return the value of a literal.

        Raises:
            InvalidFilterError: the literal is not a value of the key.
        """
        found = self.read(text)
        if found is None:
            raise InvalidFilterError(f"{text[:100]!r} is not a value of key {self.name}, which has type {self.type}")
        return found


@dataclass(frozen=True, slots=True)
class _Decided:
    """A condition on a key. ``known`` is a dict from a value's text to the known result of the condition."""

    condition: Condition
    key: Key
    test: Callable[[Comparable], bool]
    known: dict[str | None, bool | None] = field(default_factory=dict)

    def holds(self, texts: Texts) -> bool | None:
        """Return whether the values satisfy the condition, or None if the result is SQL's NULL."""
        text = texts[self.key.place]
        if text not in self.known:
            value = self.key.read(text) if self.condition.operator != "like" else _shown(self.key, text)
            self.known[text] = None if value is None else self.test(value)
        return self.known[text]


@dataclass(frozen=True, slots=True)
class DecidedFilter:
    """A filter whose keys and literals are checked.

    ``holds`` decides whether the values of a partition satisfy the filter. ``superset`` is a predicate for the catalog.
    The predicate selects all partitions that match the filter, and perhaps other partitions.
    """

    holds: Callable[[Texts], bool | None]
    superset: Predicate


def decide_filter(text: str | None, keys: Sequence[Column]) -> DecidedFilter:
    """Return a client's filter, with checked keys and literals.

    Raises:
        InvalidFilterError: the text is not a filter, a name is not a partition key, or a literal is not a value of its
            key.
    """
    known = {key.name.lower(): Key(key.name.lower(), place, key.parsed_type) for place, key in enumerate(keys)}

    def key_of(name: str) -> Key:
        if name not in known:
            raise InvalidFilterError(f"Specified key <{name}> is not a partitioning key for the table")
        return known[name]

    found = read_filter(text or "")
    return DecidedFilter(decided(found, key_of), _superset(found, key_of, negated=False))


def decided(found: Filter, key_of: Callable[[str], Key]) -> Callable[[Texts], bool | None]:
    """Return the function that decides whether values satisfy a filter. The function returns None for SQL's NULL.

    Raises:
        InvalidFilterError: ``key_of`` does not know a key, or a literal is not a value of its key.
    """
    match found:
        case Negation(operand):
            holds = decided(operand, key_of)

            def negated(texts: Texts) -> bool | None:
                answer = holds(texts)
                return None if answer is None else not answer

            return negated
        case Conjunction(operands):
            return _all([decided(each, key_of) for each in operands])
        case Disjunction(operands):
            return _any([decided(each, key_of) for each in operands])
    return _Decided(found, key_of(found.key), _test(found, key_of(found.key))).holds


def _all(operands: Sequence[Callable[[Texts], bool | None]]) -> Callable[[Texts], bool | None]:
    def holds(texts: Texts) -> bool | None:
        answer: bool | None = True
        for each in operands:
            found = each(texts)
            if found is False:
                return False
            answer = None if found is None else answer
        return answer

    return holds


def _any(operands: Sequence[Callable[[Texts], bool | None]]) -> Callable[[Texts], bool | None]:
    def holds(texts: Texts) -> bool | None:
        answer: bool | None = False
        for each in operands:
            found = each(texts)
            if found:
                return True
            answer = None if found is None else answer
        return answer

    return holds


def _test(condition: Condition, key: Key) -> Callable[[Comparable], bool]:
    if condition.operator == "like":
        expressions = [re.compile(wildcard_expression(parts), re.DOTALL) for parts in _meanings(condition.literals[0])]
        return lambda value: any(each.fullmatch(str(value)) for each in expressions)
    literals = frozenset(map(key.literal, condition.literals))
    if condition.operator in ("=", "in"):
        return lambda value: value in literals
    if condition.operator == "<>":
        return lambda value: value not in literals
    (literal,) = literals
    compare = _COMPARE[condition.operator]
    return lambda value: compare(value, literal)


# -- values ------------------------------------------------------------------------------


def _floating(text: str, *, is_single: bool) -> Comparable | None:
    """Return a number that Python compares as Hive and Spark do: NaN equals NaN, and is the largest number."""
    if not _NUMBER.fullmatch(text) and text not in ("NaN", "Infinity", "-Infinity"):
        return None
    number = float(text)
    if is_single and math.isfinite(number):
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = math.copysign(math.inf, number)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _moment(text: str, *, has_time: bool) -> Comparable | None:
    """Return a date or, with ``has_time``, a timestamp with nanoseconds, or None if the text is not valid.

    As in Hive, a text for a date is allowed to have a time, and a text for a timestamp need not have a time.
    """
    day = _DAY.match(text)
    if day is None:
        return None
    year, month, of_month = map(int, day.groups())
    try:
        # The calendar repeats after 400 years. Spark has more years than Python.
        date(2000 + year % 400, month, of_month)
    except ValueError:
        return None
    if not has_time:
        return year, month, of_month
    if day.end() == len(text):
        return year, month, of_month, 0, 0, 0, 0
    time = _TIME.fullmatch(text, day.end())
    if time is None:
        return None
    hour, minute, second = (int(part or 0) for part in time.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    return year, month, of_month, hour, minute, second, int((time[4] or "0").ljust(9, "0"))


def _shown(key: Key, text: str | None) -> str | None:
    """Return the text for LIKE, or None for NULL. For a text type, NULL gives the default partition's name."""
    return None if text is None or (text == DEFAULT_PARTITION and not key.is_text) else text


# -- LIKE --------------------------------------------------------------------------------

_OF_PATTERN = re.compile(r"\.\*|\.|[^.\\]+|\\", re.DOTALL)
_OF_ESCAPED_PATTERN = re.compile(r"\\\.|\.\*|\.|[^.\\]+|\\", re.DOTALL)
_WILD: dict[str, str | None] = {".*": None, ".": "."}


def _meanings(pattern: str) -> list[list[str | None]]:
    """Return a list of parts for each meaning of a pattern. A part is a regular expression, or None for any text."""
    expressions = (_OF_ESCAPED_PATTERN, _OF_PATTERN) if "\\." in pattern else (_OF_PATTERN,)
    return [
        [
            _WILD[part] if part in _WILD else re.escape("." if part == "\\." else part)
            for part in expression.findall(pattern)
        ]
        for expression in expressions
    ]


def _like_of_spark(pattern: str) -> str | None:
    """Return the pattern of Spark's LIKE that matches the same texts, or None if the pattern has two meanings."""
    if "\\" in pattern:
        return None
    wild = {".*": "%", ".": "_"}
    return "".join(wild.get(part) or re.sub(r"([%_])", r"\\\1", part) for part in _OF_PATTERN.findall(pattern))


# -- predicates of the catalog -----------------------------------------------------------


def _superset(found: Filter, key_of: Callable[[str], Key], *, negated: bool) -> Predicate:
    """Return a predicate for the catalog. It selects all partitions that match a filter, and perhaps other partitions.

    With ``negated`` the predicate selects all partitions that match the negation of the filter.
    """
    match found:
        case Negation(operand):
            return _superset(operand, key_of, negated=not negated)
        case Conjunction(operands) | Disjunction(operands):
            parts = tuple(_superset(each, key_of, negated=negated) for each in operands)
            return And(parts) if isinstance(found, Conjunction) is not negated else Or(parts)
    key = key_of(found.key)
    known = _known_to_catalog(found, key)
    if isinstance(known, Unknown):
        return known
    if negated:
        known = Not(known)
    # The catalog takes the default partition for NULL, which no comparison selects.
    if key.is_text and _test(found, key)(DEFAULT_PARTITION) is not negated:
        return Or((known, IsNull(ColumnReference(key.name))))
    return known


def _known_to_catalog(condition: Condition, key: Key) -> Predicate:
    column = ColumnReference(key.name)
    if condition.operator == "like":
        pattern = _like_of_spark(condition.literals[0])
        is_known = pattern is not None and str(key.type) == "string"
        return Like(column, pattern) if is_known and pattern is not None else Unknown()
    constants = [_constant(key, text) for text in condition.literals]
    known = tuple(each for each in constants if each is not None)
    if len(known) < len(constants):
        return Unknown()
    return In(column, known) if condition.operator == "in" else Comparison(column, condition.operator, known[0])


def _constant(key: Key, text: str) -> Constant:
    """Return a literal as a constant for the catalog, or None if the catalog cannot compare the key exactly."""
    if str(key.type) == "string":
        return text
    value = key.literal(text)
    if isinstance(key.type, Primitive) and key.type.family is Family.WHOLE:
        assert isinstance(value, Decimal)
        return int(value) if value == value.to_integral_value() and abs(value) < 10**18 else None
    if key.type == Primitive("date"):
        assert isinstance(value, tuple)
        year, month, day = map(int, value)
        return date(year, month, day) if 1 <= year <= 9999 else None
    return None
