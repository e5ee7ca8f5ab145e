"""The types of columns in the tail of an ORC file, and the merge of the statistics of several files.

Statistics that cannot be merged exactly are omitted. Without statistics, readers assume that any value can exist.
Source: orc_proto.proto of Apache ORC and the ``merge`` methods of its ``ColumnStatisticsImpl``.
"""

from __future__ import annotations

import decimal
import enum
import math
from collections.abc import Callable, Sequence
from struct import pack, unpack
from typing import NamedTuple

from airflow_hivex.core.job.orc_tail.wire import BYTES, FIXED64, VARINT, Field, Message, packed, signed, unsigned

_TYPE_KIND, _TYPE_SUBTYPES, _TYPE_NAMES, _TYPE_LENGTH, _TYPE_PRECISION, _TYPE_SCALE = range(1, 7)
_TYPE_ATTRIBUTE = 7

VALUES, HAS_NULL, BYTES_ON_DISK = 1, 10, 11
"""The numbers of fields that the statistics of every type have."""
INTEGERS, BOOLEANS, TIMESTAMPS = 2, 5, 9
MINIMUM, MAXIMUM = 1, 2
UTC_MINIMUM, UTC_MAXIMUM = 3, 4


class Kind(enum.IntEnum):
    """The types that this package distinguishes, with ORC's numbers."""

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
    """Return ORC's number for the kind of a type, such as struct."""
    return type_.number(_TYPE_KIND)


def children(type_: Message) -> list[int]:
    """Return the column numbers of the direct children of a type."""
    return type_.numbers(_TYPE_SUBTYPES)


def names(type_: Message) -> list[str]:
    """Return the names of a struct's fields."""
    return [name.decode() for name in type_.all(_TYPE_NAMES)]


def decimal_parameters(type_: Message) -> tuple[int, int]:
    """Return the precision and the scale of a decimal type. A missing number is 0."""
    return type_.number(_TYPE_PRECISION), type_.number(_TYPE_SCALE)


def struct(like: Message, fields: Sequence[tuple[str, int]]) -> Message:
    """Return a struct type with the attributes of ``like``; ``fields`` are (name, column number) pairs."""
    rest = like.without(_TYPE_KIND, _TYPE_SUBTYPES, _TYPE_NAMES)
    own = Message().replaced(_TYPE_KIND, [Kind.STRUCT])
    if fields:
        own = own.replaced(_TYPE_SUBTYPES, [packed([column for _, column in fields])])
    own = own.replaced(_TYPE_NAMES, [name.encode() for name, _ in fields])
    return Message(own.fields + rest.fields)


def described(types: Sequence[Message]) -> list[Message]:
    """Return the types without attributes, in a form for comparisons. Writers encode equal types differently."""
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
    """Return the attributes that writers have added to each type. Spark adds its own name of the type."""
    return [sorted(type_.all(_TYPE_ATTRIBUTE)) for type_ in types]


class Range(NamedTuple):
    """The lowest and the highest number in a column."""

    minimum: int
    maximum: int


def integer_range(statistics: Message) -> Range | None:
    """Return the range of a column of integers, or None if the statistics lack it."""
    integers = Message.parse(statistics.data(INTEGERS))
    if not (integers.has(MINIMUM) and integers.has(MAXIMUM)):
        return None
    return Range(signed(integers.number(MINIMUM)), signed(integers.number(MAXIMUM)))


def timestamp_range(statistics: Message) -> Range | None:
    """Return the range of a column of timestamps, in milliseconds of UTC, or None if the statistics lack it."""
    moments = Message.parse(statistics.data(TIMESTAMPS))
    if not (moments.has(UTC_MINIMUM) and moments.has(UTC_MAXIMUM)):
        return None
    return Range(signed(moments.number(UTC_MINIMUM)), signed(moments.number(UTC_MAXIMUM)))


_DOUBLES, _STRINGS, _DECIMALS, _DATES, _BINARIES, _COLLECTIONS = 3, 4, 6, 7, 8, 12
_SUM = 3
_LOWER_BOUND, _UPPER_BOUND = 4, 5
_MINIMUM_NANOS, _MAXIMUM_NANOS = 5, 6
_BINARY_SUM = _BOOLEAN_COUNTS = 1
_LAST_NANO = 999_999
_MOST = 2**63 - 1


def merge(statistics: Sequence[Message]) -> Message:
    """Return the merged statistics of one column, from its statistics in several files or stripes."""
    merged = Message().replaced(VALUES, [sum(part.number(VALUES) for part in statistics)])
    # A part without values does not restrict the merged statistics.
    parts = [part for part in statistics if part.number(VALUES)]
    for number, merge_type in _TYPES.items():
        if parts and all(part.has(number) for part in parts):
            found = merge_type([Message.parse(part.data(number)) for part in parts])
            merged = merged.replaced(number, [found] if found.fields else [])
    merged = merged.replaced(HAS_NULL, [int(any(part.number(HAS_NULL, 1) for part in statistics))])
    if all(part.has(BYTES_ON_DISK) for part in statistics):
        merged = merged.replaced(BYTES_ON_DISK, [sum(part.number(BYTES_ON_DISK) for part in statistics)])
    return merged


def _all_have(parts: Sequence[Message], number: int) -> bool:
    return all(part.has(number) for part in parts)


def _signed(parts: Sequence[Message], number: int, choose: Callable[[list[int]], int]) -> Message:
    """Return a message with one number, computed from all parts.

    The message is empty if a part lacks the number, or if the result has more than 64 bits.
    """
    if not _all_have(parts, number):
        return Message()
    value = choose([signed(part.number(number)) for part in parts])
    return Message().replaced(number, [unsigned(value)]) if -_MOST - 1 <= value <= _MOST else Message()


def _joined(*messages: Message) -> Message:
    return Message(tuple(field for message in messages for field in message.fields))


def _integers(parts: Sequence[Message]) -> Message:
    return _joined(_signed(parts, MINIMUM, min), _signed(parts, MAXIMUM, max), _signed(parts, _SUM, sum))


def _dates(parts: Sequence[Message]) -> Message:
    return _joined(_signed(parts, MINIMUM, min), _signed(parts, MAXIMUM, max))


def _binaries(parts: Sequence[Message]) -> Message:
    return _signed(parts, _BINARY_SUM, sum)


def _booleans(parts: Sequence[Message]) -> Message:
    counts = [part.numbers(_BOOLEAN_COUNTS) for part in parts]
    if len({len(each) for each in counts}) != 1:
        return Message()
    return Message().replaced(_BOOLEAN_COUNTS, [packed([sum(each) for each in zip(*counts, strict=True)])])


def _doubles(parts: Sequence[Message]) -> Message:
    fields = []
    for number, choose in ((MINIMUM, min), (MAXIMUM, max), (_SUM, math.fsum)):
        if not all(len(part.data(number)) == 8 for part in parts):
            continue
        values = [unpack("<d", part.data(number))[0] for part in parts]
        # NaN is neither above nor below anything, and infinities have no sum.
        if all(map(math.isfinite, values)):
            fields.append(Field(number, FIXED64, pack("<d", choose(values))))
    return Message(tuple(fields))


def _strings(parts: Sequence[Message]) -> Message:
    return _joined(
        _bound(parts, MINIMUM, _LOWER_BOUND, min), _bound(parts, MAXIMUM, _UPPER_BOUND, max), _signed(parts, _SUM, sum)
    )


def _bound(parts: Sequence[Message], exact: int, cut: int, choose: Callable[[list[bytes]], bytes]) -> Message:
    """Return the lowest or highest text of all parts: an exact value, or a bound if a long value was shortened."""
    if not all(part.has(exact) or part.has(cut) for part in parts):
        return Message()
    chosen = choose([part.data(exact) if part.has(exact) else part.data(cut) for part in parts])
    is_exact = any(part.has(exact) and part.data(exact) == chosen for part in parts)
    return Message().replaced(exact if is_exact else cut, [chosen])


def _decimals(parts: Sequence[Message]) -> Message:
    merged = Message()
    with decimal.localcontext(prec=100):
        for number, choose in ((MINIMUM, min), (MAXIMUM, max), (_SUM, sum)):
            try:
                values = [decimal.Decimal(part.data(number).decode()) for part in parts]
            except decimal.InvalidOperation:
                continue
            merged = merged.replaced(number, [f"{decimal.Decimal(choose(values)).normalize():f}".encode()])
    return merged


def _timestamps(parts: Sequence[Message]) -> Message:
    return _joined(
        _dates(parts),
        _moment(parts, UTC_MINIMUM, _MINIMUM_NANOS, 0, min),
        _moment(parts, UTC_MAXIMUM, _MAXIMUM_NANOS, _LAST_NANO, max),
    )


def _moment(
    parts: Sequence[Message],
    milliseconds: int,
    nanos: int,
    default: int,
    choose: Callable[[list[tuple[int, int]]], tuple[int, int]],
) -> Message:
    """Return the lowest or highest time. Nanoseconds within the millisecond are stored plus one, or not at all."""
    if not _all_have(parts, milliseconds):
        return Message()
    moment, nano = choose([(signed(part.number(milliseconds)), part.number(nanos, default + 1) - 1) for part in parts])
    merged = Message().replaced(milliseconds, [unsigned(moment)])
    return merged if nano == default else merged.replaced(nanos, [nano + 1])


def _collections(parts: Sequence[Message]) -> Message:
    merged = Message()
    for number, choose in ((MINIMUM, min), (MAXIMUM, max), (_SUM, sum)):
        if _all_have(parts, number):
            merged = merged.replaced(number, [choose([part.number(number) for part in parts])])
    return merged


_TYPES: dict[int, Callable[[Sequence[Message]], Message]] = {
    INTEGERS: _integers,
    _DOUBLES: _doubles,
    _STRINGS: _strings,
    BOOLEANS: _booleans,
    _DECIMALS: _decimals,
    _DATES: _dates,
    _BINARIES: _binaries,
    TIMESTAMPS: _timestamps,
    _COLLECTIONS: _collections,
}
