"""Predicates on partition columns, and their evaluation for one partition.

A predicate prunes partitions: a query does not read a partition for which the result is NO or NULL. If the result
depends on unknown values, it is MAYBE, and the query reads the partition.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from types import MappingProxyType
from typing import TypeAlias

from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive, is_partition_type
from airflow_hivex.core.model.expressions import Call, ColumnReference, UndecidedError, Value, columns_read
from airflow_hivex.core.model.functions import compute

__all__ = ["ColumnReference", "Value"]

Operand: TypeAlias = ColumnReference | Call
"""The operand of a predicate: a column, or a function of columns."""


class Truth(enum.Enum):
    """SQL's three truth values, and MAYBE for a predicate whose truth is not known."""

    YES = "yes"
    NO = "no"
    NULL = "null"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True)
class Comparison:
    """``operand operator value``, with one of the operators ``= <> < <= > >= <=>``.

    ``is_of_between`` is true for a bound of BETWEEN, for which Spark 4 does not pad texts of CHAR.
    """

    operand: Operand
    operator: str
    value: Value
    is_of_between: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class In:
    """``operand IN (values)``.

    ``type`` is the common Python type of the values that are not NULL, or None if they have several types. If ``type``
    is not None, ``set`` has the values for fast look-up; otherwise ``set`` is empty.
    """

    operand: Operand
    values: tuple[Value, ...]
    type: type | None = field(init=False, repr=False, compare=False)
    set: frozenset[Value] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A list may be long, and is evaluated for every partition. In a set of several types, True equals 1.
        types = {value.__class__ for value in self.values if value is not None}
        object.__setattr__(self, "type", types.pop() if len(types) == 1 else None)
        object.__setattr__(self, "set", frozenset(self.values if self.type is not None else ()))


@dataclass(frozen=True, slots=True)
class Like:
    """``operand LIKE pattern`` with ``%`` and ``_``, escaped by a backslash."""

    operand: Operand
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT operand``."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """``operand AND operand ...``. Without operands, the predicate is always true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """``operand OR operand ...``. Without operands, the predicate is never true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that is not evaluated, and never prunes a partition."""


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


_NUMBER = re.compile(r"-?[0-9]{1,18}")
# Without leading zeros: with ANSI mode off, IN compares numbers and texts as texts.
_PLAIN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")


def columns_in(predicate: Predicate) -> frozenset[ColumnReference]:
    """Return the columns in a predicate, without the columns in its unknown parts."""
    match predicate:
        case Unknown():
            return frozenset()
        case Not(operand):
            return columns_in(operand)
        case And(operands) | Or(operands):
            return frozenset().union(*(columns_in(operand) for operand in operands))
    return frozenset(columns_read(predicate.operand))


def known_by(predicate: Predicate, names: Collection[str]) -> Predicate:
    """Return the predicate, with Unknown in place of each part that reads a column not in ``names`` (lower case)."""
    match predicate:
        case Unknown():
            return predicate
        case Not(operand):
            return Not(known_by(operand, names))
        case And(operands):
            return And(tuple(known_by(operand, names) for operand in operands))
        case Or(operands):
            return Or(tuple(known_by(operand, names) for operand in operands))
    return predicate if all(column.name.lower() in names for column in columns_read(predicate.operand)) else Unknown()


def restricts(predicate: Predicate) -> bool:
    """Return whether a predicate can exclude a row without the values of its unknown parts."""
    match predicate:
        case Unknown():
            return False
        case Or(operands):
            return all(restricts(operand) for operand in operands)
        case And(operands):
            return any(restricts(operand) for operand in operands)
        case Not(operand):
            return _may_hold(operand)
    return True


def _may_hold(predicate: Predicate) -> bool:
    """Return whether the negation of a predicate can exclude a row without the values of its unknown parts."""
    match predicate:
        case Unknown():
            return False
        case Or(operands):
            return any(_may_hold(operand) for operand in operands)
        case And(operands):
            return all(_may_hold(operand) for operand in operands)
        case Not(operand):
            return restricts(operand)
    return True


def evaluate(
    predicate: Predicate, values: Mapping[str, Value], types: Mapping[str, ColumnType] = MappingProxyType({})
) -> Truth:
    """Return the truth of ``predicate`` for a row whose columns have ``values`` and ``types`` (keys in lower case).

    The result is MAYBE if the predicate depends on a column that is not in ``values``, on a comparison whose result
    depends on Spark's settings or casts, or on a function of a column of unknown type.
    """
    match predicate:
        case Unknown():
            return Truth.MAYBE
        case Not(operand):
            return _NEGATED[evaluate(operand, values, types)]
        case And(operands):
            return _first_of((Truth.NO, Truth.MAYBE, Truth.NULL), operands, values, types)
        case Or(operands):
            return _first_of((Truth.YES, Truth.MAYBE, Truth.NULL), operands, values, types)
    if isinstance(predicate.operand, Call):
        try:
            value = compute(predicate.operand, values, types).value
        except UndecidedError:
            return Truth.MAYBE
    else:
        name = predicate.operand.name.lower()
        if name not in values:
            return Truth.MAYBE
        value = values[name]
    match predicate:
        case IsNull():
            return Truth.YES if value is None else Truth.NO
        case Like(_, pattern):
            return _like(value, pattern)
        case In():
            return _in(value, predicate)
        case Comparison(_, operator, right):
            return _compare(value, operator, right)


def _first_of(
    order: tuple[Truth, Truth, Truth],
    operands: Iterable[Predicate],
    values: Mapping[str, Value],
    types: Mapping[str, ColumnType],
) -> Truth:
    """Return the first truth in ``order`` that one of the operands has.

    If no operand has a truth in ``order``, the result is the opposite of the first truth in ``order``.
    """
    decisive = order[0]
    found = set()
    for operand in operands:
        answer = evaluate(operand, values, types)
        if answer is decisive:
            return decisive
        found.add(answer)
    return next((answer for answer in order if answer in found), _NEGATED[decisive])


def _compare(left: Value, operator: str, right: Value, numbers: re.Pattern[str] = _NUMBER) -> Truth:
    if operator == "<=>":
        if left is None or right is None:
            return Truth.YES if left is right else Truth.NO
        operator = "="
    if left is None or right is None:
        return Truth.NULL
    aligned = _aligned(left, right, numbers)
    if aligned is None:
        return Truth.MAYBE
    return Truth.YES if _COMPARE[operator](*aligned) else Truth.NO


_SIMPLY_EQUAL = (str, int, date)
"""The types whose values are compared in the same way by Spark and by Python."""


def _in(value: Value, predicate: In) -> Truth:
    if type(value) is predicate.type and predicate.type in _SIMPLY_EQUAL:
        if value in predicate.set:
            return Truth.YES
        return Truth.NULL if None in predicate.set else Truth.NO
    found = {_compare(value, "=", candidate, _PLAIN_NUMBER) for candidate in predicate.values}
    return next((answer for answer in (Truth.YES, Truth.MAYBE, Truth.NULL) if answer in found), Truth.NO)


_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,999}(?:\.[0-9]{0,999})?|\.[0-9]{1,999})(?:[eE][+-]?[0-9]{1,3})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?")


class PaddedText(str):
    """A value of a CHAR column. The result of a comparison is MAYBE, because Spark pads both values."""

    __slots__ = ()


def _aligned(left: Value, right: Value, numbers: re.Pattern[str]) -> tuple[object, object] | None:
    """Return both values as Spark converts them for a comparison, or None if the conversion is not certain.

    The conversion is not certain for floating-point values: the type decides on rounding, and NaN equals NaN in Spark.
    """
    kinds = type(left), type(right)
    if kinds == (str, str) or kinds == (date, date) or kinds == (bool, bool):
        return left, right
    if kinds == (datetime, datetime):
        return _aligned_moments(left, right)  # type: ignore[arg-type]
    if all(kind in (int, Decimal) for kind in kinds):
        return (left, right) if _is_short(left) and _is_short(right) else None
    if kinds[0] is str:
        return _aligned_text(left, right, numbers)  # type: ignore[arg-type]
    if kinds[1] is str:
        turned = _aligned_text(right, left, numbers)  # type: ignore[arg-type]
        return (turned[1], turned[0]) if turned else None
    return None


def _aligned_text(text: str, other: Value, numbers: re.Pattern[str]) -> tuple[object, object] | None:
    """Return the text, cast to the type of ``other``, and ``other``.

    The result is None if it is not certain that Spark casts the text to this type.
    """
    if type(other) is int and numbers.fullmatch(text):
        return int(text), other
    if type(other) is date and _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text), other
        except ValueError:
            return None
    return None


def _aligned_moments(left: datetime, right: datetime) -> tuple[object, object] | None:
    if left.tzinfo is not None or right.tzinfo is not None:
        return None
    # A local time that the session's zone skips or repeats does not identify one instant.
    return (left, right) if left == right or abs(left - right) >= timedelta(days=1) else None


def _is_short(number: object) -> bool:
    """Return whether a number has so few digits that Spark compares two such numbers without rounding."""
    if not isinstance(number, Decimal):
        return True
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and -18 <= exponent <= 0 and len(number.as_tuple().digits) <= 18


_LIKE_PART = re.compile(r"\\.|%|_|[^\\%_]+|\\", re.DOTALL)


@lru_cache(maxsize=256)
def _pattern(like: str) -> re.Pattern[str] | None:
    """Return the pattern as a regular expression, or None if Spark refuses the pattern."""
    parts = _LIKE_PART.findall(like)
    if any(part[0] == "\\" and part[1:] not in ("%", "_", "\\") for part in parts):
        return None
    wild: dict[str, str | None] = {"%": None, "_": "."}
    found = [wild[part] if part in wild else re.escape(_unescaped(part)) for part in parts]
    return re.compile(wildcard_expression(found), re.DOTALL)


def is_like_pattern(like: str) -> bool:
    """Return whether Spark accepts a pattern: each backslash stands before a wildcard or another backslash."""
    return _pattern(like) is not None


def fixed_beginning(like: str) -> str:
    """Return the common beginning of all texts that match a pattern of LIKE."""
    if _pattern(like) is None:
        return ""
    return "".join(map(_unescaped, takewhile(lambda part: part not in ("%", "_"), _LIKE_PART.findall(like))))


def _unescaped(part: str) -> str:
    return part[1:] if part[0] == "\\" else part


def _like(value: Value, pattern: str) -> Truth:
    if value is None:
        return Truth.NULL
    compiled = _pattern(pattern)
    if type(value) is not str or compiled is None:
        return Truth.MAYBE
    return Truth.YES if compiled.fullmatch(value) else Truth.NO


def typed(text: str | None, type: ColumnType) -> Value:
    """Return a partition value in its column's type.

    Raises:
        ValueError: the text is not a value of the type.
    """
    if text is None:
        return None
    if not isinstance(type, Primitive) or not is_partition_type(type):
        raise ValueError(f"{type} cannot be a partition column's type")
    match type.family:
        case Family.TEXT:
            return PaddedText(text) if type.name == "char" else text
        case Family.WHOLE:
            return _integer(text, type.kind.bits)
        case Family.DECIMAL:
            return _decimal(text, *type.parameters)
        case Family.FLOATING if "_" not in text:
            return float(text)
        case Family.BOOLEAN if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case Family.MOMENT if type.name == "date":
            if _DAY.fullmatch(text):
                return date.fromisoformat(text)
        case Family.MOMENT if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    raise ValueError(f"{text!r} is not a value of type {type}")


def _integer(text: str, bits: int) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        number = int(text)
        if -(1 << bits) <= number < (1 << bits):
            return number
    raise ValueError(f"{text!r} is not a whole number of {bits + 1} bits")


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the number with the scale of its type, so that 1.5 and 1.50 become equal."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is not a decimal number")
    units = Fraction(text) * 10**scale
    if units.denominator != 1 or abs(units.numerator) >= 10**precision:
        raise ValueError(f"{text!r} has more digits than decimal({precision},{scale})")
    return Decimal((int(units < 0), tuple(map(int, str(abs(units.numerator)))), -scale))


def wildcard_expression(parts: Sequence[str | None]) -> str:
    """Return the regular expression of a pattern for ``fullmatch``.

    ``parts`` are expressions for a fixed number of characters, or None for any number of any characters. The matching
    does not backtrack.
    """
    segments: list[list[str]] = [[]]
    for part in parts:
        if part is None:
            segments.append([])
        else:
            segments[-1].append(part)
    first, *others = map("".join, segments)
    if not others:
        return first
    *between, last = others
    return "".join((first, *(f"(?>.*?{each})" for each in between if each), ".*", last))


def name_expression(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern of names, as in SHOW and from clients of Hive.

    ``*`` means any characters, ``.`` means one character, and ``|`` separates alternatives. ``%`` means the same as
    ``*``, as in LIKE and in newer releases of Hive.
    """
    alternatives = (
        wildcard_expression(
            [None if sign in "*%" else sign if sign == "." else re.escape(sign) for sign in part.strip()]
        )
        for part in pattern.split("|")
    )
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)
