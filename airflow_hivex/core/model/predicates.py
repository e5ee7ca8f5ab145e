"""Predicates on partition columns, and what they say about one partition.

A predicate is used to leave partitions out, so it may only answer NO when Spark's
own filter would drop every row of the partition. Where the answer depends on
anything that is not known here, it is MAYBE and the partition stays.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | Decimal | date | datetime | None


class Truth(enum.Enum):
    """SQL's three truth values, and MAYBE for what cannot be decided here."""

    YES = "yes"
    NO = "no"
    NULL = "null"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True)
class ColumnReference:
    """A column as written: ``qualifier`` is the table's alias or name, or None."""

    name: str
    qualifier: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column operator value``; the operator is one of ``= <> < <= > >= <=>``."""

    column: ColumnReference
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (values)``."""

    column: ColumnReference
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``column LIKE pattern`` with ``%`` and ``_``, escaped by a backslash."""

    column: ColumnReference
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``."""

    column: ColumnReference


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT operand``."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All operands hold; with none, always true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One operand holds; with none, never true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that is not read here; it never leaves a partition out."""


Predicate: TypeAlias = Comparison | In | Like | IsNull | Not | And | Or | Unknown

_NEGATED = {Truth.YES: Truth.NO, Truth.NO: Truth.YES, Truth.NULL: Truth.NULL, Truth.MAYBE: Truth.MAYBE}
_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


def columns_of(predicate: Predicate) -> frozenset[ColumnReference] | None:
    """The columns a predicate reads; None when a part of it is unknown."""
    match predicate:
        case Comparison() | In() | Like() | IsNull():
            return frozenset({predicate.column})
        case Not(operand):
            return columns_of(operand)
        case And(operands) | Or(operands):
            found = [columns_of(operand) for operand in operands]
            return None if None in found else frozenset().union(*(columns for columns in found if columns))
        case Unknown():
            return None


def evaluate(predicate: Predicate, values: Mapping[str, Value]) -> Truth:
    """What ``predicate`` says of a row whose columns have ``values`` (keys in lower case).

    A column that is not in ``values``, and two values whose types do not compare the way
    Spark compares them without a cast, give MAYBE.
    """
    match predicate:
        case Unknown():
            return Truth.MAYBE
        case Not(operand):
            return _NEGATED[evaluate(operand, values)]
        case And(operands):
            return _conjunction(operands, values)
        case Or(operands):
            return _NEGATED[_conjunction(tuple(Not(operand) for operand in operands), values)]
        case In(column, candidates):
            return evaluate(Or(tuple(Comparison(column, "=", value) for value in candidates)), values)
    name = predicate.column.name.lower()
    if name not in values:
        return Truth.MAYBE
    value = values[name]
    if isinstance(predicate, IsNull):
        return Truth.YES if value is None else Truth.NO
    if isinstance(predicate, Like):
        return _like(value, predicate.pattern)
    return _compare(value, predicate.operator, predicate.value)


def _conjunction(operands: tuple[Predicate, ...], values: Mapping[str, Value]) -> Truth:
    found = {evaluate(operand, values) for operand in operands}
    for answer in (Truth.NO, Truth.MAYBE, Truth.NULL):
        if answer in found:
            return answer
    return Truth.YES


def _compare(left: Value, operator: str, right: Value) -> Truth:
    if operator == "<=>":
        if left is None or right is None:
            return Truth.YES if left is right else Truth.NO
        operator = "="
    if left is None or right is None:
        return Truth.NULL
    if not _comparable(left, right):
        return Truth.MAYBE
    return Truth.YES if _COMPARE[operator](left, right) else Truth.NO


def _comparable(left: Value, right: Value) -> bool:
    exact = (int, Decimal)
    if isinstance(left, bool) or isinstance(right, bool):
        return type(left) is type(right)
    if isinstance(left, exact) and isinstance(right, exact):
        return True
    # Floating point against anything else, and text against numbers or dates, go through
    # Spark's casts; equal types compare as they are.
    return type(left) is type(right)


@lru_cache(maxsize=256)
def _pattern(like: str) -> re.Pattern[str]:
    parts = re.findall(r"\\.|%|_|[^\\%_]+|\\", like, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile(
        "".join(wild.get(part) or re.escape(part[1:] if part[0] == "\\" and part[1:] else part) for part in parts),
        re.DOTALL,
    )


def _like(value: Value, pattern: str) -> Truth:
    if value is None:
        return Truth.NULL
    if not isinstance(value, str):
        return Truth.MAYBE
    return Truth.YES if _pattern(pattern).fullmatch(value) else Truth.NO


_PARTITION_TYPES = frozenset(
    ["string", "varchar", "char", "tinyint", "smallint", "int", "bigint", "decimal", "double", "float", "boolean", "date", "timestamp", "timestamp_ntz"]
)


def is_partition_type(type: str) -> bool:
    """Whether a partition key may have this type."""
    return type.lower().partition("(")[0] in _PARTITION_TYPES


def typed(text: str | None, type: str) -> Value:
    """A partition value as its column's type; text that does not fit stays out of comparisons.

    Raises:
        ValueError: the text is not a value of the type.
    """
    if text is None:
        return None
    base = type.lower().partition("(")[0]
    if base in ("string", "varchar", "char"):
        return text
    if base in ("tinyint", "smallint", "int", "integer", "bigint"):
        return int(text)
    if base in ("decimal", "dec", "numeric"):
        return Decimal(text)
    if base in ("double", "float"):
        return float(text)
    if base == "boolean":
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text!r} is not a boolean")
        return text.lower() == "true"
    if base == "date":
        return date.fromisoformat(text)
    if base in ("timestamp", "timestamp_ntz"):
        return datetime.fromisoformat(text)
    raise ValueError(f"{type} cannot be a partition column's type")
