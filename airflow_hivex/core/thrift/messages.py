"""Messages of Thrift's binary protocol: the end of a message, heads of calls, replies, and exceptions of the server."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol

from thrift.protocol import fastbinary
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

CALL, REPLY, EXCEPTION, ONEWAY = TMessageType.CALL, TMessageType.REPLY, TMessageType.EXCEPTION, TMessageType.ONEWAY
_I32 = Struct(">i")
_HEAD = Struct(">Ii")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a call: the name of the method, the type of the message, and the number that the reply repeats."""

    name: bytes
    type: int
    number: int
    is_strict: bool
    arguments_at: int


def read_head(message: bytes | bytearray) -> Head:
    """Return the head of a complete message.

    Raises:
        MalformedMessageError: the message has no valid head of a call.
    """
    (first,) = _I32.unpack_from(message, 0)
    if first < 0:
        kind, (length,) = first & 0xFF, _I32.unpack_from(message, 4)
        name, (number,) = bytes(message[8 : 8 + length]), _I32.unpack_from(message, 8 + length)
        head = Head(name, kind, number, True, 12 + length)
    else:
        name, kind = bytes(message[4 : 4 + first]), message[4 + first]
        (number,) = _I32.unpack_from(message, 5 + first)
        head = Head(name, kind, number, False, 9 + first)
    if head.type not in (CALL, ONEWAY):
        raise MalformedMessageError(f"{head.type} is not a valid type of a message from a client")
    return head


def written_head(head: Head, kind: int) -> bytes:
    """Return the head of a reply, in the same form as the head of the call."""
    if head.is_strict:
        return _HEAD.pack(STRICT | kind, len(head.name)) + head.name + _I32.pack(head.number)
    return _I32.pack(len(head.name)) + head.name + bytes([kind]) + _I32.pack(head.number)


def encoded(struct: Any) -> bytes:
    """Return the bytes of a structure of the bindings."""
    return bytes(fastbinary.encode_binary(struct, [struct.__class__, struct.thrift_spec]))


def decoded(struct: Any, content: bytes, longest: int) -> Any:
    """Fill ``struct`` from ``content``, and return the structure. ``content`` has no other bytes.

    No other thread runs meanwhile. So ``content`` must be short.

    Raises:
        MalformedMessageError: a text is not UTF-8, or the bytes do not encode the structure.
    """
    protocol = TBinaryProtocolAccelerated(
        TMemoryBuffer(content), string_length_limit=longest, container_length_limit=longest, fallback=False
    )
    try:
        struct.read(protocol)
    except Exception as error:
        # The bindings raise several kinds, also TypeError and EOFError, for malformed bytes.
        raise MalformedMessageError(f"it cannot be decoded: {error}") from error
    if not content.isascii() and _replacements(struct) > content.count(_REPLACEMENT.encode()):
        raise MalformedMessageError("a text in it is not UTF-8")
    return struct


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def _replacements(value: Any) -> int:
    """Return the number of replacement characters in a value. The decoder replaces bytes that are not UTF-8 by them."""
    if isinstance(value, str):
        return value.count(_REPLACEMENT)
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(_replacements, value))
    if isinstance(value, dict):
        return sum(map(_replacements, value)) + sum(map(_replacements, value.values()))
    return sum(map(_replacements, vars(value).values())) if hasattr(value, "__dict__") else 0


def application_exception(head: Head, type: int, sentence: str) -> bytes:
    """Return the reply to an unknown method, or to a message that could not be served."""
    error = TApplicationException(type, sentence)
    protocol = TBinaryProtocolAccelerated(TMemoryBuffer())
    error.write(protocol)
    return written_head(head, EXCEPTION) + bytes(protocol.trans.getvalue())


UNKNOWN_METHOD = TApplicationException.UNKNOWN_METHOD
PROTOCOL_ERROR = TApplicationException.PROTOCOL_ERROR
INTERNAL_ERROR = TApplicationException.INTERNAL_ERROR

STOP = b"\x00"
STRUCT_RESULT = b"\x0c\x00\x00"
"""The first bytes of a reply whose result is a structure. The bytes of the structure follow."""


def list_result(structs: list[bytes]) -> bytes:
    """Return the encoded result of a reply: a list of the given encoded structures."""
    return b"".join([b"\x0f\x00\x00\x0c", _I32.pack(len(structs)), *structs])


LARGE = 1 << 20
"""The size in bytes from which a partly received call is added to :class:`UnfinishedCalls`."""


class Sender(Protocol):
    """A connection whose client is sending a call."""

    @property
    def unfinished_bytes(self) -> int:
        """Return the number of received bytes of a call that is not complete yet."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class UnfinishedCalls:
    """The clients that have sent large parts of calls.

    If all parts together exceed ``most_bytes``, the clients with the largest parts are disconnected.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._senders: set[Sender] = set()

    def add(self, sender: Sender) -> None:
        """Add a client that has sent a large part of a call."""
        self._senders.add(sender)
        sizes = {each: each.unfinished_bytes for each in self._senders}
        self._senders = {each for each, size in sizes.items() if size >= LARGE}
        total = sum(sizes.values())
        for each in sorted(self._senders, key=lambda known: sizes[known], reverse=True):
            if total <= self._most_bytes:
                return
            total -= sizes[each]
            self.remove(each)
            each.abort("the clients of this server send too many large calls at once that do not end")

    def remove(self, sender: Sender) -> None:
        """Remove a client that has disconnected."""
        self._senders.discard(sender)


SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""A dict from type to size in bytes, for the types of fixed size: bool, byte, double, i16, i32, i64."""
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
LEAST = {**SIZES, _STRING: 4, _STRUCT: 1, _MAP: 6, _SET: 5, _LIST: 5}
"""A dict from type to the size in bytes of the smallest value of the type."""
_READ_I32 = Struct(">i").unpack_from
_DEEPEST = 64
FEW = 1000
"""The largest number of structures and containers in a message that the decoder of the bindings decodes."""
_MOST_FREE = 10_000
_BYTES_EACH = 12

STRICT = 0x80010000
"""The version word of a message, without its type."""


class MalformedMessageError(Exception):
    """The bytes are not a message of the binary protocol, or exceed a limit."""


class MessageScanner:
    """A scanner that finds the ends of successive messages in a growing buffer, without decoding them.

    The scanner reads each byte once, when it arrives. An invalid message is refused as early as possible. For example,
    a text with a length of two gigabytes is refused before the text arrives.
    """

    __slots__ = ("_longest", "_position", "_stack", "_state", "parts")

    def __init__(self, longest: int) -> None:
        """Create the scanner; ``longest`` is the largest size of a message in bytes."""
        self._longest = longest
        self._position = 0
        self._state = 0
        self._stack: list[list[int]] = []
        self.parts = 0
        """The number of structures and containers in the scanned part of the message."""

    def reset(self) -> None:
        """Begin the next message at the start of the buffer."""
        self._position, self._state, self._stack, self.parts = 0, 0, [], 0

    def end(self, buffer: bytes | bytearray) -> int | None:
        """Return the index of the end of the buffer's first message, or None as long as bytes are missing.

        Raises:
            MalformedMessageError: the bytes cannot become a message.
        """
        if self._state == 0:
            if len(buffer) < 8:
                return None
            end = self._header_end(buffer)
            if end > len(buffer):
                return None
            self._position, self._state = end, 1
            # A frame is [type, type of the value, number of elements left]; a struct has no number.
            self._stack = [[_STRUCT, 0, 0]]
        return self._walk(buffer)

    def _header_end(self, buffer: bytes | bytearray) -> int:
        (first,) = _READ_I32(buffer, 0)
        if first >= 0:
            # The older form without a version: name, type, number of the call.
            return self._checked(4 + self._length(first) + 5)
        if first & 0xFFFF0000 != STRICT:
            raise MalformedMessageError(f"its first bytes {bytes(buffer[:4]).hex()} are not a version of the protocol")
        (length,) = _READ_I32(buffer, 4)
        return self._checked(8 + self._length(length) + 4)

    def _length(self, length: int) -> int:
        if not 0 <= length <= self._longest:
            raise MalformedMessageError(f"it announces a length of {length} bytes; at most {self._longest} are taken")
        return length

    def _checked(self, end: int) -> int:
        if end > self._longest:
            raise MalformedMessageError(f"it has more than {self._longest} bytes, the most that are taken")
        return end

    def _walk(self, buffer: bytes | bytearray) -> int | None:
        stack, size = self._stack, len(buffer)
        position = self._position
        while stack:
            frame = stack[-1]
            kind = frame[0]
            if kind == _STRUCT:
                if position >= size:
                    break
                value = buffer[position]
                if value == 0:
                    stack.pop()
                    position += 1
                    continue
                following = position + 3
            else:
                if frame[2] and kind != _MAP and frame[1] == _STRING:
                    position = self._texts(buffer, size, frame, position)
                if frame[2] == 0:
                    stack.pop()
                    continue
                value, following = frame[1], position
            skipped = self._value(buffer, size, value, following)
            if skipped is None:
                break
            if kind == _MAP:
                # Keys and values alternate.
                frame[1], frame[2] = frame[3], frame[2] - 1
                frame[3] = value
            elif kind != _STRUCT:
                frame[2] -= 1
            position = self._checked(skipped[0])
            if skipped[1] is not None:
                self._enter(skipped[1], position)
        self._position = position
        return None if stack else position

    def _enter(self, frame: list[int], position: int) -> None:
        """Add the frame of a structure or container, whose contents begin at ``position``, to the stack."""
        if len(self._stack) >= _DEEPEST:
            raise MalformedMessageError(f"it is nested deeper than {_DEEPEST} levels")
        self._stack.append(frame)
        self.parts += 1
        if self.parts > _MOST_FREE + position // _BYTES_EACH:
            # Each structure would take some hundred bytes of memory. Honest clients send more bytes for each.
            raise MalformedMessageError(f"it has {self.parts} structures in its first {position} bytes")

    def _texts(self, buffer: bytes | bytearray, size: int, frame: list[int], position: int) -> int:
        """Skip the texts of a list, as far as they are received, and return the index of the next text."""
        longest, count = self._longest, frame[2]
        while count and position + 4 <= size:
            (length,) = _READ_I32(buffer, position)
            end = position + 4 + length
            if not 0 <= length <= longest or end > size or end > longest:
                break
            position = end
            count -= 1
        frame[2] = count
        return position

    def _value(
        self, buffer: bytes | bytearray, size: int, value: int, start: int
    ) -> tuple[int, list[int] | None] | None:
        """Return (end of the value, None). Return None if bytes are missing.

        For a structure or container return (start of the contents, frame). The caller must then scan the contents with
        the frame.
        """
        fixed = SIZES.get(value)
        if fixed is not None:
            end = start + fixed
            return (end, None) if end <= size else None
        if value == _STRUCT:
            return (start, [_STRUCT, 0, 0]) if start <= size else None
        if value == _STRING:
            if start + 4 > size:
                return None
            end = start + 4 + self._length(_READ_I32(buffer, start)[0])
            self._checked(end)
            return (end, None) if end <= size else None
        if value in (_LIST, _SET):
            if start + 5 > size:
                return None
            return self._elements(size, buffer[start], _READ_I32(buffer, start + 1)[0], start + 5, value)
        if value == _MAP:
            if start + 6 > size:
                return None
            return self._pairs(buffer, start)
        raise MalformedMessageError(f"{value} is not a valid type of a value")

    def _elements(
        self, size: int, element: int, count: int, start: int, kind: int
    ) -> tuple[int, list[int] | None] | None:
        least = self._announced(element, count)
        self._checked(start + least)
        if element in SIZES:
            end = start + least
            return (end, None) if end <= size else None
        return start, [kind, element, count]

    def _pairs(self, buffer: bytes | bytearray, start: int) -> tuple[int, list[int] | None]:
        key, value, count = buffer[start], buffer[start + 1], _READ_I32(buffer, start + 2)[0]
        if count == 0:
            return start + 6, None
        self._checked(start + self._announced(key, count) + self._announced(value, count))
        return start + 6, [_MAP, key, 2 * count, value]

    def _announced(self, element: int, count: int) -> int:
        """Return the minimum number of bytes that ``count`` elements of a type take."""
        if count and element not in LEAST:
            raise MalformedMessageError(f"{element} is not a valid type of an element")
        if not 0 <= count <= self._longest:
            raise MalformedMessageError(f"it announces {count} elements; at most {self._longest} bytes are taken")
        return count * LEAST.get(element, 0)
