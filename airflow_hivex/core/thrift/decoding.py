"""The decoding of the arguments of calls, with a limit on the memory of the arguments. Pure.

The bindings are the Python classes that Thrift generates for Hive's structures. The decoder of the bindings decodes
only short messages with few structures, because it blocks other threads and does not limit its memory. This module
decodes all other messages. It refuses a message whose values take much more memory than the bytes of the message.
Fields that the bindings do not know are skipped, and take no memory.

Equal short texts are stored once, and so are equal lists of columns that follow each other. A message of Hive or Spark
then takes about three times its size as structures.
"""

from __future__ import annotations

from struct import Struct
from sys import getsizeof
from typing import Any

from hive_metastore.ttypes import FieldSchema
from thrift.Thrift import TType

from airflow_hivex.core.thrift.messages import LEAST, SIZES, MalformedMessageError

_NUMBERS = {TType.BYTE: Struct(">b"), TType.I16: Struct(">h"), TType.I32: Struct(">i"), TType.I64: Struct(">q")}
_DOUBLE = Struct(">d")
_I16, _I32 = Struct(">h").unpack_from, Struct(">i").unpack_from
_SHORT = 64
"""The largest size in bytes of a short text. Equal short texts are stored once."""
_MOST_SHORT = 4096
_LONG = 1 << 16
_LONG_FIELDS = frozenset(
    {
        *("filter", "expr", "validWriteIdList", "validTxnList", "validWriteIdlist"),
        *("viewOriginalText", "viewExpandedText", "type", "comment", "bitVectors", "message", "description"),
        *("default_value", "check_expression"),
    }
)
"""The fields that are allowed to have long texts. All other texts are names, and must be short."""
_REFERENCE = 8
_ALWAYS = 8 << 20
"""The bytes of memory that the values of even the shortest message are allowed to take."""
_TIMES = 3.5
"""The additional bytes of memory that the values are allowed to take for each byte of the message."""


def decode_counted(struct: Any, message: bytes, start: int) -> Any:
    """Return a structure of the bindings, filled from the bytes of a message from ``start`` on.

    Raises:
        MalformedMessageError: a text is not UTF-8, a value does not have its type, or the values take too much memory.
    """
    _Decoder(message, start).fill(struct, struct.thrift_spec)
    return struct


class _Decoder:
    def __init__(self, message: bytes, start: int) -> None:
        self._message = message
        self._view = memoryview(message)
        self._position = start
        self._left = _ALWAYS + int(_TIMES * (len(message) - start))
        self._short: dict[bytes, str] = {}
        self._sizes: dict[type[Any], int] = {}
        self._columns: tuple[bytes, list[Any]] = (b"", [])

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise MalformedMessageError(
                f"the values of its {len(self._message)} bytes take too much memory; send fewer of them in one call"
            )

    # -- structures

    def fill(self, struct: Any, spec: Any) -> None:
        """Set the fields of a structure. As in the bindings, a field of an unexpected type is skipped."""
        message = self._message
        while True:
            kind = message[self._position]
            self._position += 1
            if kind == TType.STOP:
                return
            (number,) = _I16(message, self._position)
            self._position += 2
            field = spec[number] if spec and 0 <= number < len(spec) else None
            if field is None or field[1] != kind:
                self._skip(kind)
            else:
                if kind == TType.STRING and field[2] not in _LONG_FIELDS:
                    self._check_name(field[2])
                setattr(struct, field[2], self._value(kind, field[3]))

    def _check_name(self, field: str) -> None:
        (length,) = _I32(self._message, self._position)
        if length > _LONG:
            raise MalformedMessageError(f"{field} has {length} bytes, and at most {_LONG} are taken")

    def _struct(self, made_by: Any) -> Any:
        of, spec = made_by
        struct = of()
        size = self._sizes.get(of)
        if size is None:
            size = self._sizes[of] = getsizeof(struct) + getsizeof(vars(struct))
        self._count(size)
        self.fill(struct, spec or of.thrift_spec)
        return struct

    # -- values

    def _value(self, kind: int, about: Any) -> Any:
        if kind == TType.STRING:
            return self._text(is_binary=about == "BINARY")
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == TType.STRUCT:
            return self._struct(about)
        if kind == TType.BOOL:
            self._position += 1
            return self._message[self._position - 1] == 1
        if kind == TType.LIST:
            return self._list(about)
        if kind == TType.SET:
            return set(self._hashable(self._elements(about)))
        if kind == TType.MAP:
            return self._map(about)
        return self._number(_DOUBLE)

    def _number(self, of: Struct) -> Any:
        (found,) = of.unpack_from(self._message, self._position)
        self._position += of.size
        self._count(getsizeof(found))
        return found

    def _text(self, *, is_binary: bool) -> Any:
        (length,) = _I32(self._message, self._position)
        start = self._position + 4
        self._position = end = start + length
        if is_binary:
            self._count(length)
            return self._message[start:end]
        if length > _LONG and not _is_ascii(self._view[start:end]):
            # A character may take four bytes of memory, which are counted before they are allocated.
            self._count(4 * length)
            self._left += 4 * length
        if length > _SHORT:
            return self._decoded(self._view[start:end])
        raw = self._message[start:end]
        known = self._short.get(raw)
        if known is None:
            known = self._decoded(raw)
            if len(self._short) < _MOST_SHORT:
                self._short[raw] = known
        return known

    def _decoded(self, raw: bytes | memoryview) -> str:
        try:
            found = str(raw, "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessageError("a text in it is not UTF-8") from None
        self._count(getsizeof(found))
        return found

    def _list(self, about: Any) -> list[Any]:
        if about[0] == TType.STRUCT and about[1][0] is FieldSchema:
            return self._columns_of(about)
        return self._elements(about)

    def _columns_of(self, about: Any) -> list[Any]:
        start = self._position
        raw, known = self._columns
        if raw and self._message.startswith(raw, start):
            self._position += len(raw)
            self._count(getsizeof(known))
            return list(known)
        found = self._elements(about)
        self._columns = (self._message[start : self._position], found)
        return found

    def _elements(self, about: Any) -> list[Any]:
        kind, (count,) = self._message[self._position], _I32(self._message, self._position + 1)
        self._position += 5
        if count and kind != about[0]:
            raise MalformedMessageError(f"an element has type {kind}, and {about[0]} is expected")
        found: list[Any] = []
        self._count(getsizeof(found) + _REFERENCE * count)
        found.extend(self._value(kind, about[1]) for _ in range(count))
        return found

    def _map(self, about: Any) -> dict[Any, Any]:
        key_kind, value_kind = self._message[self._position], self._message[self._position + 1]
        (count,) = _I32(self._message, self._position + 2)
        self._position += 6
        if count and (key_kind, value_kind) != (about[0], about[2]):
            raise MalformedMessageError(f"a pair has types {key_kind} and {value_kind}, not {about[0]} and {about[2]}")
        found: dict[Any, Any] = {}
        size = getsizeof(found)
        self._count(size)
        for _ in range(count):
            (key,) = self._hashable([self._value(key_kind, about[1])])
            found[key] = self._value(value_kind, about[3])
            grown = getsizeof(found)
            if grown != size:
                self._count(grown - size)
                size = grown
        return found

    def _hashable(self, values: list[Any]) -> list[Any]:
        try:
            for each in values:
                hash(each)
        except TypeError as error:
            raise MalformedMessageError(f"a value cannot be in a set or the key of a pair: {error}") from error
        return values

    # -- unknown fields

    def _skip(self, kind: int) -> None:
        """Skip a value without decoding it. The scanner has already checked its length and depth."""
        message = self._message
        fixed = SIZES.get(kind)
        if fixed is not None:
            self._position += fixed
        elif kind == TType.STRING:
            self._position += 4 + _I32(message, self._position)[0]
        elif kind == TType.STRUCT:
            self.fill(None, ())
        elif kind in (TType.LIST, TType.SET):
            element, (count,) = message[self._position], _I32(message, self._position + 1)
            self._position += 5
            self._skip_all((element,), count)
        elif kind == TType.MAP:
            kinds, (count,) = (message[self._position], message[self._position + 1]), _I32(message, self._position + 2)
            self._position += 6
            self._skip_all(kinds, count)
        else:
            raise MalformedMessageError(f"{kind} is not a valid type of a value")

    def _skip_all(self, kinds: tuple[int, ...], count: int) -> None:
        if all(each in SIZES for each in kinds):
            self._position += count * sum(LEAST[each] for each in kinds)
            return
        for _ in range(count):
            for each in kinds:
                self._skip(each)


def _is_ascii(view: memoryview) -> bool:
    return all(bytes(view[at : at + _LONG]).isascii() for at in range(0, len(view), _LONG))
