"""Statistics of a column, merged from those of several files.

What cannot be merged exactly is left out: readers take missing statistics as "anything may be there".
Source: orc_proto.proto of Apache ORC and the ``merge`` methods of its ``ColumnStatisticsImpl``.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Callable, Sequence

from airflow_hivex.core.job.orc_tail.types import (
    BOOLEANS,
    BYTES_ON_DISK,
    HAS_NULL,
    INTEGERS,
    MAXIMUM,
    MINIMUM,
    TIMESTAMPS,
    UTC_MAXIMUM,
    UTC_MINIMUM,
    VALUES,
)
from airflow_hivex.core.job.orc_tail.wire import FIXED64, Field, Message, packed, signed, unsigned

_DOUBLES, _STRINGS, _DECIMALS, _DATES, _BINARIES, _COLLECTIONS = 3, 4, 6, 7, 8, 12
_SUM = 3
_LOWER_BOUND, _UPPER_BOUND = 4, 5
_MINIMUM_NANOS, _MAXIMUM_NANOS = 5, 6
_BINARY_SUM = _BOOLEAN_COUNTS = 1
_LAST_NANO = 999_999
_MOST = 2**63 - 1


def merge(statistics: Sequence[Message]) -> Message:
    """Return the statistics of all rows together."""
    merged = Message().replaced(VALUES, [sum(part.number(VALUES) for part in statistics)])
    # A part without values has nothing to say about them.
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
    """Return the field of one number, chosen or computed from all; none when a part lacks it or it does not fit."""
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
        values = [struct.unpack("<d", part.data(number))[0] for part in parts]
        # NaN is neither above nor below anything, and infinities have no sum.
        if all(map(math.isfinite, values)):
            fields.append(Field(number, FIXED64, struct.pack("<d", choose(values))))
    return Message(tuple(fields))


def _strings(parts: Sequence[Message]) -> Message:
    return _joined(
        _bound(parts, MINIMUM, _LOWER_BOUND, min), _bound(parts, MAXIMUM, _UPPER_BOUND, max), _signed(parts, _SUM, sum)
    )


def _bound(parts: Sequence[Message], exact: int, cut: int, choose: Callable[[list[bytes]], bytes]) -> Message:
    """Return the lowest or highest of all: the value itself, or of a long one a bound that begins as it does."""
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
    """Return the lowest or highest moment; nanoseconds below the millisecond are kept plus one, or left out."""
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
