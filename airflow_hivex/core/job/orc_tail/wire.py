"""Messages of Protocol Buffers as lists of fields, so that unknown fields are kept.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_WIDEST_VARINT = 70


class Field(NamedTuple):
    """One field, whose value is a number for a VARINT, and bytes for all other wire types."""

    number: int
    wire_type: int
    value: int | bytes


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of a message in their order."""

    fields: tuple[Field, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Message:
        """Return the message of encoded bytes.

        Raises:
            ValueError: the bytes are not a valid message.
        """
        fields = []
        at = 0
        while at < len(data):
            key, at = _read_varint(data, at)
            number, wire_type = key >> 3, key & 7
            if wire_type == VARINT:
                value, at = _read_varint(data, at)
                fields.append(Field(number, wire_type, value))
                continue
            if wire_type == BYTES:
                size, at = _read_varint(data, at)
            elif wire_type in _SIZES:
                size = _SIZES[wire_type]
            else:
                raise ValueError(f"a field has wire type {wire_type}")
            if at + size > len(data):
                raise ValueError("a field is cut off")
            fields.append(Field(number, wire_type, data[at : at + size]))
            at += size
        return cls(tuple(fields))

    def __bytes__(self) -> bytes:
        out = bytearray()
        for number, wire_type, value in self.fields:
            out += varint(number << 3 | wire_type)
            if isinstance(value, int):
                out += varint(value)
            else:
                if wire_type == BYTES:
                    out += varint(len(value))
                out += value
        return bytes(out)

    def number(self, number: int, default: int = 0) -> int:
        """Return the value of the last occurrence of a VARINT field, or ``default`` if the field is missing."""
        found = self._last(number)
        return found if isinstance(found, int) else default

    def data(self, number: int) -> bytes:
        """Return the bytes of the last occurrence of a field other than a VARINT, or empty bytes without the field."""
        found = self._last(number)
        return found if isinstance(found, bytes) else b""

    def has(self, number: int) -> bool:
        """Return whether the message has the field."""
        return self._last(number) is not None

    def _last(self, number: int) -> int | bytes | None:
        return next((field.value for field in reversed(self.fields) if field.number == number), None)

    def all(self, number: int) -> list[bytes]:
        """Return the values of a repeated field of bytes."""
        return [field.value for field in self.fields if field.number == number and isinstance(field.value, bytes)]

    def messages(self, number: int) -> list[Message]:
        """Return the values of a repeated field of messages."""
        return [Message.parse(data) for data in self.all(number)]

    def numbers(self, number: int) -> list[int]:
        """Return the values of a repeated VARINT field, packed or not."""
        found: list[int] = []
        for field in self.fields:
            if field.number != number:
                continue
            if isinstance(field.value, int):
                found.append(field.value)
                continue
            at = 0
            while at < len(field.value):
                value, at = _read_varint(field.value, at)
                found.append(value)
        return found

    def without(self, *numbers: int) -> Message:
        """Return the message without some fields."""
        return Message(tuple(field for field in self.fields if field.number not in numbers))

    def replaced(self, number: int, values: Iterable[int | bytes | Message]) -> Message:
        """Return the message with new values of a field, in the place of its first old value or at the end."""
        new = tuple(_field(number, value) for value in values)
        places = [at for at, field in enumerate(self.fields) if field.number == number]
        at = places[0] if places else len(self.fields)
        rest = tuple(field for field in self.fields[at:] if field.number != number)
        return Message((*self.fields[:at], *new, *rest))


def _field(number: int, value: int | bytes | Message) -> Field:
    if isinstance(value, int):
        return Field(number, VARINT, value)
    return Field(number, BYTES, bytes(value))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift >= _WIDEST_VARINT:
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def varint(value: int) -> bytes:
    """Return a non-negative number of at most 64 bits, encoded as a VARINT."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def packed(values: Sequence[int]) -> bytes:
    """Return the value of a packed repeated VARINT field."""
    return b"".join(map(varint, values))


def signed(value: int) -> int:
    """Return the number that a VARINT encodes as ``sint64``."""
    return (value >> 1) ^ -(value & 1)


def unsigned(value: int) -> int:
    """Return the VARINT that encodes a number as ``sint64``."""
    return (value << 1) ^ (value >> 63)
