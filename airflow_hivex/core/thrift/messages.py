"""Messages of Thrift's binary protocol: heads of calls, replies, and exceptions of the server itself."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any

from thrift.protocol import fastbinary
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from airflow_hivex.core.thrift.scanning import STRICT, MalformedMessageError

CALL, REPLY, EXCEPTION, ONEWAY = TMessageType.CALL, TMessageType.REPLY, TMessageType.EXCEPTION, TMessageType.ONEWAY
_I32 = Struct(">i")
_HEAD = Struct(">Ii")


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a call: the name of the method, the type of the message, and the number that its reply has, too."""

    name: bytes
    type: int
    number: int
    is_strict: bool
    arguments_at: int


def read_head(message: bytes | bytearray) -> Head:
    """Return the head of a message whose end is known.

    Raises:
        MalformedMessageError: it is not that of a call.
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
    """Return the head of a reply, in the form that the call has."""
    if head.is_strict:
        return _HEAD.pack(STRICT | kind, len(head.name)) + head.name + _I32.pack(head.number)
    return _I32.pack(len(head.name)) + head.name + bytes([kind]) + _I32.pack(head.number)


def encoded(struct: Any) -> bytes:
    """Return the bytes of a structure of the bindings."""
    return bytes(fastbinary.encode_binary(struct, [struct.__class__, struct.thrift_spec]))


def decoded(struct: Any, content: bytes, longest: int) -> Any:
    """Return the structure, filled from few bytes whose end is that of the structure. No other thread runs meanwhile.

    Raises:
        MalformedMessageError: a text is not UTF-8, or the bytes are not those of such a structure.
    """
    protocol = TBinaryProtocolAccelerated(
        TMemoryBuffer(content), string_length_limit=longest, container_length_limit=longest, fallback=False
    )
    try:
        struct.read(protocol)
    except Exception as error:
        # The bindings raise several kinds, also TypeError and EOFError, for what they cannot decode.
        raise MalformedMessageError(f"it cannot be decoded: {error}") from error
    if not content.isascii() and _replacements(struct) > content.count(_REPLACEMENT.encode()):
        raise MalformedMessageError("a text in it is not UTF-8")
    return struct


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def _replacements(value: Any) -> int:
    """Return how often the decoder has put a replacement character in place of bytes that are not UTF-8."""
    if isinstance(value, str):
        return value.count(_REPLACEMENT)
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(_replacements, value))
    if isinstance(value, dict):
        return sum(map(_replacements, value)) + sum(map(_replacements, value.values()))
    return sum(map(_replacements, vars(value).values())) if hasattr(value, "__dict__") else 0


def application_exception(head: Head, type: int, sentence: str) -> bytes:
    """Return the reply that a method is unknown, or that its message could not be served."""
    error = TApplicationException(type, sentence)
    protocol = TBinaryProtocolAccelerated(TMemoryBuffer())
    error.write(protocol)
    return written_head(head, EXCEPTION) + bytes(protocol.trans.getvalue())


UNKNOWN_METHOD = TApplicationException.UNKNOWN_METHOD
PROTOCOL_ERROR = TApplicationException.PROTOCOL_ERROR
INTERNAL_ERROR = TApplicationException.INTERNAL_ERROR

STOP = b"\x00"
STRUCT_RESULT = b"\x0c\x00\x00"
"""The field of a reply that is a structure; its bytes follow."""


def list_result(structs: list[bytes]) -> bytes:
    """Return the field of a reply that is a list of structures."""
    return b"".join([b"\x0f\x00\x00\x0c", _I32.pack(len(structs)), *structs])
