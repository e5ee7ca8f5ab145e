"""Types and statistics of an ORC file's columns, as far as its tail is edited.

Source: orc_proto.proto of Apache ORC.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from airflow_hivex.core.job.orc_tail.wire import BYTES, VARINT, Field, Message, packed, signed

_TYPE_KIND, _TYPE_SUBTYPES, _TYPE_NAMES, _TYPE_LENGTH, _TYPE_PRECISION, _TYPE_SCALE = range(1, 7)
_TYPE_ATTRIBUTE = 7

VALUES, HAS_NULL, BYTES_ON_DISK = 1, 10, 11
"""Fields that the statistics of every type have."""
INTEGERS, BOOLEANS, TIMESTAMPS = 2, 5, 9
MINIMUM, MAXIMUM = 1, 2
UTC_MINIMUM, UTC_MAXIMUM = 3, 4


class Kind(enum.IntEnum):
    """The types that matter here, by ORC's number."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    STRUCT = 12
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17


def kind(type_: Message) -> int:
    """Return the type's number."""
    return type_.number(_TYPE_KIND)


def children(type_: Message) -> list[int]:
    """Return the columns below."""
    return type_.numbers(_TYPE_SUBTYPES)


def names(type_: Message) -> list[str]:
    """Return the names of a struct's fields."""
    return [name.decode() for name in type_.all(_TYPE_NAMES)]


def decimal_parameters(type_: Message) -> tuple[int, int]:
    """Return the precision and the scale of a decimal type, 0 where they are missing."""
    return type_.number(_TYPE_PRECISION), type_.number(_TYPE_SCALE)


def struct(like: Message, fields: Sequence[tuple[str, int]]) -> Message:
    """Return a struct of these names and columns, with the attributes of another."""
    rest = like.without(_TYPE_KIND, _TYPE_SUBTYPES, _TYPE_NAMES)
    own = Message().replaced(_TYPE_KIND, [Kind.STRUCT])
    if fields:
        own = own.replaced(_TYPE_SUBTYPES, [packed([column for _, column in fields])])
    own = own.replaced(_TYPE_NAMES, [name.encode() for name, _ in fields])
    return Message(own.fields + rest.fields)


def described(types: Sequence[Message]) -> list[Message]:
    """Return the types without their attributes, to be compared: writers pack columns and order fields as they like."""
    return [
        Message(
            tuple(
                Field(number, VARINT, value)
                for number in (_TYPE_KIND, _TYPE_LENGTH, _TYPE_PRECISION, _TYPE_SCALE, _TYPE_SUBTYPES)
                for value in (type_.numbers(number) or [0])
            )
            + tuple(Field(_TYPE_NAMES, BYTES, name) for name in type_.all(_TYPE_NAMES))
        )
        for type_ in types
    ]


def attributes(types: Sequence[Message]) -> list[list[bytes]]:
    """Return the attributes of each type that its writer has noted; Spark notes its own name of the type."""
    return [sorted(type_.all(_TYPE_ATTRIBUTE)) for type_ in types]


class Range(NamedTuple):
    """The lowest and the highest of a column's numbers."""

    minimum: int
    maximum: int


def integer_range(statistics: Message) -> Range | None:
    """Return the statistics of a column of integers; None when they do not."""
    integers = Message.parse(statistics.data(INTEGERS))
    if not (integers.has(MINIMUM) and integers.has(MAXIMUM)):
        return None
    return Range(signed(integers.number(MINIMUM)), signed(integers.number(MAXIMUM)))


def timestamp_range(statistics: Message) -> Range | None:
    """Return the statistics of a column of timestamps, in milliseconds of UTC; None when they do not."""
    moments = Message.parse(statistics.data(TIMESTAMPS))
    if not (moments.has(UTC_MINIMUM) and moments.has(UTC_MAXIMUM)):
        return None
    return Range(signed(moments.number(UTC_MINIMUM)), signed(moments.number(UTC_MAXIMUM)))
