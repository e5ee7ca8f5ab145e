"""Column types as values, read from the spelling of Hive or Spark, and the conversions between them.

    >>> parse_type("STRUCT<id: INTEGER, tags: array<varchar(8)>>")
    Struct(fields=(Field(name='id', type=Primitive(name='int', ...)), ...))

The catalog stores the text of a type as it was given. ``parse_type`` returns the meaning of a text. The table
:data:`KINDS` is the only list of primitive types and their properties.

Source: docs/reference/spark.md, "Names of types".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn, TypeAlias, TypeVar

from airflow_hivex.core.errors import InvalidTypeError

MAX_PRECISION = 38
"""The greatest number of digits of a decimal, in Hive and in Spark."""

_MOST_DIGITS_OF_A_SECOND = 6


class Family(enum.Enum):
    """Primitive types that are stored, compared and converted in the same way."""

    WHOLE = "whole number"
    DECIMAL = "decimal"
    FLOATING = "floating point number"
    TEXT = "text"
    MOMENT = "date or timestamp"
    BOOLEAN = "boolean"
    BINARY = "binary"
    VOID = "void"
    INTERVAL = "interval"
    OTHER = "other"
    """A type without rules in this module. Only Spark and Hive compute with its values."""


_OF_BUCKETS = (Family.BOOLEAN, Family.WHOLE, Family.FLOATING, Family.DECIMAL, Family.TEXT, Family.BINARY)
_OF_PARTITIONS = (Family.WHOLE, Family.DECIMAL, Family.FLOATING, Family.TEXT, Family.MOMENT, Family.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties that all types of one name share.

    ``bits`` is the number of bits of a whole number, without the sign. ``defaults`` has the default value of each
    parameter; None stands for a parameter that must be given. ``in_tables`` is true if CREATE TABLE accepts the type,
    ``in_files`` if ORC can store it, and ``in_hive`` if Hive has it. ``is_instant`` is true if the values are points of
    time, which ORC files store as local times.
    """

    family: Family
    synonyms: tuple[str, ...] = ()
    bits: int = 0
    defaults: tuple[int | None, ...] = ()
    in_tables: bool = True
    in_files: bool = True
    in_hive: bool = True
    is_instant: bool = False


KINDS = {
    "boolean": Kind(Family.BOOLEAN),
    "tinyint": Kind(Family.WHOLE, ("byte",), bits=7),
    "smallint": Kind(Family.WHOLE, ("short",), bits=15),
    "int": Kind(Family.WHOLE, ("integer",), bits=31),
    "bigint": Kind(Family.WHOLE, ("long",), bits=63),
    "float": Kind(Family.FLOATING, ("real",)),
    "double": Kind(Family.FLOATING),
    "decimal": Kind(Family.DECIMAL, ("dec", "numeric"), defaults=(10, 0)),
    "date": Kind(Family.MOMENT),
    "timestamp": Kind(Family.MOMENT, ("timestamp_ltz",), is_instant=True),
    "timestamp_ntz": Kind(Family.MOMENT, in_hive=False),
    "string": Kind(Family.TEXT),
    "varchar": Kind(Family.TEXT, defaults=(None,)),
    "char": Kind(Family.TEXT, ("character",), defaults=(None,)),
    "binary": Kind(Family.BINARY),
    "void": Kind(Family.VOID, ("null",), in_tables=False, in_files=False),
    "interval": Kind(Family.INTERVAL, in_tables=False, in_files=False, in_hive=False),
    "interval_year_month": Kind(Family.INTERVAL, in_tables=False, in_files=False),
    "interval_day_time": Kind(Family.INTERVAL, in_tables=False, in_files=False),
    "variant": Kind(Family.OTHER, in_tables=False, in_files=False),
    "time": Kind(Family.OTHER, defaults=(_MOST_DIGITS_OF_A_SECOND,), in_tables=False, in_hive=False),
    "string collate": Kind(Family.OTHER, in_tables=False, in_files=False, in_hive=False),
    "timestamp with local time zone": Kind(Family.OTHER, in_tables=False, is_instant=True),
}
"""A dict from the name of a primitive type to its properties."""

BUCKET_TYPES = tuple(name for name, kind in KINDS.items() if name == "date" or kind.family in _OF_BUCKETS)
"""The types of bucket columns.

A bucket column cannot be a timestamp: Hive hashes local times, and Spark's timestamps are instants.
"""

_NAMES = {spelling: name for name, kind in KINDS.items() for spelling in (name, *kind.synonyms)}


def primitive_name(spelling: str) -> str | None:
    """Return the name of the primitive type with this one-word spelling, or None if there is no such type."""
    return _NAMES.get(spelling.lower())


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts. ``qualifier`` is the collation of a text, or the units of an interval."""

    name: str
    parameters: tuple[int, ...] = ()
    qualifier: str = ""

    @property
    def kind(self) -> Kind:
        """Return the properties of all types of this name."""
        return KINDS[self.name]

    @property
    def family(self) -> Family:
        """Return the family that the type belongs to."""
        return KINDS[self.name].family

    def __str__(self) -> str:
        parameters = f"({','.join(map(str, self.parameters))})" if self.parameters else ""
        return f"{self.name}{parameters} {self.qualifier}".rstrip()


@dataclass(frozen=True, slots=True)
class Array:
    """An ARRAY type: a list of values of one type."""

    element: ColumnType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """A MAP type: values by keys."""

    key: ColumnType
    value: ColumnType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a STRUCT type."""

    name: str
    type: ColumnType

    def __str__(self) -> str:
        return f"{field_name(self.name)}:{self.type}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A STRUCT type: named fields, in their order."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class Union:
    """Hive's UNIONTYPE: a value of one of several types. Spark has no such type."""

    alternatives: tuple[ColumnType, ...]

    def __str__(self) -> str:
        return f"uniontype<{','.join(map(str, self.alternatives))}>"


ColumnType: TypeAlias = Primitive | Array | Map | Struct | Union
"""A type of a column. ``str`` returns the spelling of Hive, in lower case except for names of fields."""


def field_name(name: str) -> str:
    """Return the name of a field as in the text of a type, in quotes if it needs them."""
    return name if _PLAIN_FIELD.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def parts(type: ColumnType) -> tuple[ColumnType, ...]:
    """Return the types of the direct parts of a type, such as the key and the value of a MAP."""
    match type:
        case Array(element):
            return (element,)
        case Map(key, value):
            return (key, value)
        case Struct(fields):
            return tuple(each.type for each in fields)
        case Union(alternatives):
            return alternatives
    return ()


def primitives(type: ColumnType) -> Iterator[Primitive]:
    """Yield the primitive types in a type, at any depth."""
    if isinstance(type, Primitive):
        yield type
    for part in parts(type):
        yield from primitives(part)


def field_names(type: ColumnType) -> Iterator[str]:
    """Yield the names of the fields in a type, at any depth."""
    if isinstance(type, Struct):
        yield from (each.name for each in type.fields)
    for part in parts(type):
        yield from field_names(part)


def is_partition_type(type: ColumnType) -> bool:
    """Return whether a partition key can have this type."""
    return isinstance(type, Primitive) and type.family in _OF_PARTITIONS


def is_bucket_type(type: ColumnType) -> bool:
    """Return whether a table can be bucketed by a column of this type."""
    return isinstance(type, Primitive) and type.name in BUCKET_TYPES


# -- reading ---------------------------------------------------------------------------

_PLAIN_FIELD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_UNIT = r"(?:year|month|day|hour|minute|second)"
_SPACED = re.compile(
    r"(?P<double>double\s+precision)\b"
    r"|(?P<zoned>timestamp\s+with\s+local\s+time\s+zone)\b"
    r"|(?P<unzoned>timestamp\s+without\s+time\s+zone)\b"
    rf"|interval\s+(?P<units>{_UNIT}(?:\s+to\s+{_UNIT})?)\b"
    r"|string\s+collate\s+(?P<collation>[\w.]+)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"[0-9]{1,9}")
# A field's name may have spaces and other characters if a colon ends it.
_QUOTED_FIELD = re.compile(r"`((?:[^`]|``)+)`\s*:?")
_FIELD = re.compile(r"([^`<>(),:\s](?:[^`<>(),:]*[^`<>(),:\s])?)\s*:|(\w+)(?=\s)")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> ColumnType:
    """Return the type that a text of Hive or Spark names.

    Raises:
        InvalidTypeError: the text is not a type. The error has the position.
    """
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


def parameters_of(name: str, given: tuple[int, ...]) -> tuple[int, ...]:
    """Return all parameters of a primitive type: the ``given`` parameters, and default values for the others.

    Raises:
        ValueError: the type cannot have these parameters. The text of the error is the reason.
    """
    defaults = KINDS[name].defaults
    if len(given) > len(defaults):
        raise ValueError(f"type {name} takes {len(defaults) or 'no'} parameter{'s' if len(defaults) > 1 else ''}")
    filled = (*given, *defaults[len(given) :])
    known = tuple(each for each in filled if each is not None)
    if len(known) < len(filled):
        raise ValueError(f"type {name} needs a length, as in {name}(10)")
    if name == "decimal" and (not 1 <= known[0] <= MAX_PRECISION or known[1] > known[0]):
        raise ValueError(f"a decimal has 1 to {MAX_PRECISION} digits, including those after the point")
    if name == "time" and known[0] > _MOST_DIGITS_OF_A_SECOND:
        raise ValueError(f"a time has at most {_MOST_DIGITS_OF_A_SECOND} digits of a second")
    if KINDS[name].family is Family.TEXT and known and known[0] < 1:
        raise ValueError("a length is at least 1")
    return known


Item = TypeVar("Item")


class _Reader:
    """A reader of one type in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._skip_spaces()

    def type(self) -> ColumnType:
        """Return the type at the reader's position in the text."""
        if spaced := self._take(_SPACED):
            return _spaced(spaced)
        begin = self._at
        word = self._take(_WORD)
        if word is None:
            self._fail("a type is expected")
        match word[0].lower():
            case "array":
                self._expect("<")
                element = self.type()
                self._expect(">")
                return Array(element)
            case "map":
                self._expect("<")
                key = self.type()
                self._expect(",")
                value = self.type()
                self._expect(">")
                return Map(key, value)
            case "struct":
                self._expect("<")
                return Struct(() if self._accept(">") else tuple(self._list(self._field)))
            case "uniontype":
                self._expect("<")
                return Union(tuple(self._list(self.type)))
        name = primitive_name(word[0])
        if name is None or " " in name:
            self._fail(f"there is no type {word[0]}", begin)
        return self._primitive(name)

    def end(self) -> None:
        """Raise an error if text follows the type."""
        if self._at < len(self._text):
            self._fail("the type should end here")

    def _primitive(self, name: str) -> Primitive:
        begin = self._at
        given: list[int] = []
        if self._accept("("):
            while True:
                number = self._take(_NUMBER)
                if number is None:
                    self._fail("a number is expected")
                given.append(int(number[0]))
                if not self._accept(","):
                    break
            self._expect(")")
        try:
            return Primitive(name, parameters_of(name, tuple(given)))
        except ValueError as error:
            self._fail(str(error), begin)

    def _field(self) -> Field:
        if quoted := self._take(_QUOTED_FIELD):
            return Field(quoted[1].replace("``", "`"), self.type())
        plain = self._take(_FIELD)
        if plain is None:
            self._fail("the name of a field is expected")
        return Field(plain[1] or plain[2], self.type())

    def _list(self, item: Callable[[], Item]) -> Iterator[Item]:
        yield item()
        while self._accept(","):
            yield item()
        self._expect(">")

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
            self._skip_spaces()
        return found

    def _accept(self, symbol: str) -> bool:
        if not self._text.startswith(symbol, self._at):
            return False
        self._at += len(symbol)
        self._skip_spaces()
        return True

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            self._fail(f"{symbol} is expected")

    def _skip_spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _fail(self, reason: str, at: int | None = None) -> NoReturn:
        raise InvalidTypeError(self._text, self._at if at is None else at, reason)


def _spaced(found: re.Match[str]) -> Primitive:
    """Return a type that is spelled in several words, such as ``DOUBLE PRECISION``."""
    match found.lastgroup:
        case "double":
            return Primitive("double")
        case "zoned":
            return Primitive("timestamp with local time zone")
        case "unzoned":
            return Primitive("timestamp_ntz")
        case "units":
            return Primitive("interval", qualifier=" ".join(found["units"].lower().split()))
    return Primitive("string collate", qualifier=found["collation"].upper())


_NUMBERS = (Family.WHOLE, Family.DECIMAL, Family.FLOATING)
_TO_TEXT = (*_NUMBERS, Family.TEXT, Family.MOMENT, Family.BOOLEAN, Family.BINARY, Family.INTERVAL)


def is_assignable(given: Primitive, target: Primitive) -> bool:
    """Return whether INSERT stores a value of the type ``given`` in a column of the type ``target``.

    Parameters of the types are ignored. Source: Spark's store assignment policy ANSI (Cast.canANSIStoreAssign).
    """
    return (
        given.family is Family.VOID
        or given.name == target.name
        or (given.family in _NUMBERS and target.family in _NUMBERS)
        or (given.family is target.family is Family.MOMENT)
        or (given.family in _TO_TEXT and target.family is Family.TEXT)
    )


def is_readable(target: ColumnType) -> bool:
    """Return whether INSERT is allowed to convert a constant text to a value of the type ``target``."""
    return isinstance(target, Primitive) and target.family in (*_NUMBERS, Family.MOMENT, Family.BOOLEAN, Family.BINARY)


def is_moment(type: ColumnType) -> bool:
    """Return whether a type is DATE or one of the timestamps."""
    return isinstance(type, Primitive) and type.family is Family.MOMENT


def is_widening(before: ColumnType, after: ColumnType) -> bool:
    """Return whether a column of type ``before`` in files can be read as type ``after`` without changing a value."""
    if not isinstance(before, Primitive) or not isinstance(after, Primitive):
        return False
    match before.family, after.family:
        case Family.WHOLE, Family.WHOLE:
            return before.kind.bits <= after.kind.bits
        case Family.DECIMAL, Family.DECIMAL:
            (digits, scale), (more, same) = before.parameters, after.parameters
            return more >= digits and same == scale
        case Family.TEXT, Family.TEXT if "char" not in (before.name, after.name):
            # Texts are stored alike; CHAR is padded and compared in ways of its own.
            return after.name == "string" or (before.name == "varchar" and after.parameters >= before.parameters)
    return (before.name, after.name) == ("float", "double")


def with_fields(before: ColumnType, other: ColumnType) -> ColumnType:
    """Return the type ``before`` with additional fields in its structs: the fields that only ``other`` has.

    Structs at any depth are completed. The additional fields come after the fields of ``before``.
    """
    match before, other:
        case Struct(fields), Struct(others):
            by_name = {field.name.lower(): field.type for field in others}
            known = {field.name.lower() for field in fields}
            kept = (
                replace(field, type=with_fields(field.type, by_name.get(field.name.lower(), field.type)))
                for field in fields
            )
            return Struct((*kept, *(field for field in others if field.name.lower() not in known)))
        case Array(element), Array(other_element):
            return Array(with_fields(element, other_element))
        case Map(key, value), Map(other_key, other_value):
            return Map(with_fields(key, other_key), with_fields(value, other_value))
    return before
