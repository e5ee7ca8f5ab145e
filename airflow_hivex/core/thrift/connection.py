"""The connection of a client: SASL, then framed or unframed messages, with one call at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from airflow_hivex.core import errors
from airflow_hivex.core.errors import HivexError, Outcome
from airflow_hivex.core.thrift import messages
from airflow_hivex.core.thrift.bindings import Method, method, ttypes
from airflow_hivex.core.thrift.calls.registry import Call, Raw
from airflow_hivex.core.thrift.clients import Client, PlainExchange, SaslError
from airflow_hivex.core.thrift.decoding import decode_counted
from airflow_hivex.core.thrift.joining import JoinedCall
from airflow_hivex.core.thrift.messages import (
    FEW,
    LARGE,
    Head,
    MalformedMessageError,
    MessageScanner,
    application_exception,
    decoded,
    encoded,
    read_head,
    written_head,
)

if TYPE_CHECKING:
    from airflow_hivex.core.thrift.server import Server


log = logging.getLogger(__name__)
access_log = logging.getLogger("airflow_hivex.metastore.access")

LONGEST_REMEMBERED = 64 << 10
"""The largest size in bytes of a call whose decoded arguments are kept for equal calls."""
_MOST_AHEAD = 64 << 10
"""The number of bytes that a client can send while its call runs, before the server stops reading."""

_U32 = Struct(">I")
_FIRST_BYTES = {
    0x82: "the compact protocol; set the client to the binary one",
    0x16: "TLS, and this server has no certificate",
    0x47: "HTTP",
    0x50: "HTTP",
}


class Connection(asyncio.Protocol):
    """The connection of one client. The server closes the connection if the client sends bytes that are not a call.

    Errors do not affect other clients.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = bytearray()
        self._scanner = MessageScanner(server.limits.message_bytes)
        self._is_framed: bool | None = None
        self._frame: int | None = None
        """The length of the frame that is being read."""
        self._sasl: PlainExchange | None = None
        self._transport: asyncio.Transport | None = None
        self._client: Client | None = None
        self._is_blocked = False
        self._is_paused = False
        self._has_ended = False
        self.is_busy = False
        self.used_at = self.connected_at = server.monotonic()

    # -- events of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection, unless the server has too many."""
        server = self._server
        # A transport of libuv has the methods of asyncio's, but not its class.
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        shown = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else "local"
        self._client = server.endpoint.client(shown)
        # A client of TLS was counted when its handshake began.
        if not server.is_encrypted and not server.admits(shown):
            self._transport.abort()
            return
        server.connections.add(self)
        server.metrics.connections = len(server.connections)
        if server.credentials is not None:
            self._sasl = PlainExchange(server.credentials)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - given by asyncio
        """Remove a closed connection from the lists of the server."""
        self._server.connections.discard(self)
        self._server.unread.remove(self)
        self._server.unfinished.remove(self)
        self._server.metrics.connections = len(self._server.connections)
        self._buffer.clear()

    def data_received(self, data: bytes) -> None:
        """Serve the received calls, either at once from memory or in another thread."""
        self.used_at = self._server.monotonic()
        if not self._buffer and self._is_framed is False and not self.is_busy and self._serve_remembered(data):
            return
        self._buffer += data
        if not self.is_busy:
            self._advance()
            if len(self._buffer) >= LARGE:
                self._server.unfinished.add(self)
        elif len(self._buffer) > _MOST_AHEAD:
            self._pause()

    def pause_writing(self) -> None:
        """Serve no more calls of a client that does not read its answers."""
        self._is_blocked = True
        self._pause()
        self._server.unread.add(self)

    def resume_writing(self) -> None:
        """Serve calls again after the client has read its answers."""
        self._is_blocked = False
        self._server.unread.remove(self)
        if not self.is_busy:
            self._resume()

    def eof_received(self) -> bool:
        """Serve the calls that the client sent before it closed the connection, then close the connection here, too."""
        self._has_ended = True
        return self.is_busy

    def close(self) -> None:
        """Close the connection after all written bytes are sent."""
        # A second close of a TLS transport would drop its answers.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    @property
    def client(self) -> Client:
        """Return the client of the connection, with its user and settings."""
        assert self._client is not None
        return self._client

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes of unread answers."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def unfinished_bytes(self) -> int:
        """Return the number of received bytes of a call that is not complete yet."""
        return len(self._buffer)

    @property
    def has_logged_in(self) -> bool:
        """Return whether the client has logged in, or need not log in."""
        return self._sasl is None or self._sasl.is_complete

    def abort(self, reason: str) -> None:
        """Close the connection at once. Unread answers are lost."""
        self._warn(reason)
        self._buffer.clear()
        if self._transport is not None:
            self._transport.abort()

    # -- messages

    def _advance(self) -> None:
        try:
            while not (self.is_busy or self._is_blocked) and self._buffer and self._take_one():
                pass
        except (MalformedMessageError, SaslError) as error:
            self._refuse(str(error))

    def _take_one(self) -> bool:
        """Serve one message of the buffer, and return whether the buffer must be searched for another message."""
        if self._sasl is not None and not self._sasl.is_complete:
            return self._take_sasl()
        if self._is_framed is None and not self._find_form():
            return False
        if self._is_framed:
            return self._take_frame()
        end = self._scanner.end(self._buffer)
        if end is None:
            self._check_size()
            return False
        self._serve_first(end)
        return True

    def _serve_first(self, end: int) -> None:
        """Serve the buffer's first message, up to ``end``."""
        parts = self._scanner.parts
        message = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        self._scanner.reset()
        self._serve(message, parts)

    def _find_form(self) -> bool:
        """Decide from the first bytes whether messages are framed. Return False if more bytes are needed to decide."""
        buffer = self._buffer
        known = _FIRST_BYTES.get(buffer[0])
        if known is not None:
            raise MalformedMessageError(f"the client speaks {known}")
        if self._sasl is not None:
            # After SASL each message is framed.
            self._is_framed = True
            return True
        if buffer[0] == 0x80:
            self._is_framed = False
            return True
        if buffer[0] == 1 and len(buffer) >= 5 and buffer[1:3] == b"\0\0":
            raise MalformedMessageError("the client begins with SASL, which this server does not ask for")
        if len(buffer) < 5:
            return False
        # The name of a method in the older form begins with a letter.
        self._is_framed = not 0x20 <= buffer[4] < 0x7F
        return True

    def _take_frame(self) -> bool:
        if self._frame is None:
            if len(self._buffer) < 4:
                return False
            (size,) = _U32.unpack_from(self._buffer)
            if size > self._server.limits.message_bytes:
                raise MalformedMessageError(
                    f"it announces a frame of {size} bytes; at most {self._server.limits.message_bytes} are taken"
                )
            del self._buffer[:4]
            self._frame = size
        # Scanned as its bytes arrive: a long frame at once would make other clients wait.
        end = self._scanner.end(self._buffer)
        if (end is None and len(self._buffer) >= self._frame) or (end is not None and end > self._frame):
            raise MalformedMessageError("a frame ends before its message")
        if len(self._buffer) < self._frame:
            return False
        assert end is not None
        rest, self._frame = self._frame - end, None
        if rest:
            del self._buffer[end : end + rest]
        self._serve_first(end)
        return True

    def _take_sasl(self) -> bool:
        assert self._sasl is not None
        assert self._client is not None
        answer = self._sasl.take(self._buffer)
        if answer is None:
            return False
        self._write(answer)
        if self._sasl.user is not None:
            self._client.user, self._client.is_authenticated = self._sasl.user, True
        if self._sasl.failed is not None:
            raise SaslError(self._sasl.failed)
        return True

    def _check_size(self) -> None:
        if len(self._buffer) > self._server.limits.message_bytes:
            raise MalformedMessageError(f"it has more than {self._server.limits.message_bytes} bytes")

    def _serve_remembered(self, data: bytes) -> bool:
        """Serve a message if its decoded arguments are in memory. Return whether the message was served."""
        if len(data) < 12 or len(data) > LONGEST_REMEMBERED or data[:4] != b"\x80\x01\x00\x01":
            return False
        length = int.from_bytes(data[4:8], "big")
        if length > 200:
            return False
        name = data[8 : 8 + length]
        found = self._server.remembered.get((name, data[12 + length :]))
        if found is None:
            return False
        number = int.from_bytes(data[8 + length : 12 + length], "big", signed=True)
        head = Head(name, messages.CALL, number, True, 12 + length)
        self._run(head, *found)
        return True

    def _serve(self, message: bytes, parts: int) -> None:
        head = read_head(message)
        found = self._server.calls.get(head.name)
        if found is None:
            self._answer_unknown(head)
            return
        if len(message) > LONGEST_REMEMBERED or parts > FEW:
            # Other clients are served while it is decoded.
            self._run_elsewhere(head, lambda: self._decode_and_answer(head, found, message))
            return
        content = message[head.arguments_at :]
        try:
            args = decoded(found.method.arguments(), content, self._server.limits.message_bytes)
        except MalformedMessageError as error:
            self._count(head, "malformed")
            self._reply(head, _malformed(head, error))
            return
        if found.recall is not None:
            self._server.remember(head.name, content, found, args)
        self._run(head, found, args)

    def _decode_and_answer(self, head: Head, call: Call, message: bytes) -> tuple[bytes, str]:
        try:
            args = decode_counted(call.method.arguments(), message, head.arguments_at)
        except MalformedMessageError as error:
            return _malformed(head, error), "malformed"
        if call.recall is not None:
            field = self._recalled(head, call, args)
            if field is not None:
                return written_head(head, messages.REPLY) + field + messages.STOP, "ok"
        return self._answer(head, call, args)

    def _recalled(self, head: Head, call: Call, args: Any) -> bytes | None:
        """Return the result of a call from memory, or None if the database must be read."""
        assert call.recall is not None
        assert self._client is not None
        try:
            return call.recall(self._server.endpoint, self._client, args)
        except Exception:
            # The call that reads the database reports the error.
            log.debug("%s is not answered from memory", _shown(head), exc_info=True)
            return None

    def _answer_unknown(self, head: Head) -> None:
        name = _shown(head)
        if method(name) is None:
            sentence = f"Invalid method name: '{name}'"
        else:
            sentence = f"Invalid method name: '{name}' is a method of Hive that this metastore does not support"
        self._count(head, "unknown")
        self._reply(head, application_exception(head, messages.UNKNOWN_METHOD, sentence))

    # -- calls

    def _run(self, head: Head, call: Call, args: Any) -> None:
        assert self._client is not None
        began = self._server.monotonic()
        if call.recall is not None:
            field = self._recalled(head, call, args)
            if field is not None:
                self._write(written_head(head, messages.REPLY) + field + messages.STOP)
                self._note(head, "ok", began, from_memory=True)
                return
        joined = self._server.joined.get(head.name)
        if joined is None or any(getattr(args, each) is None for each in call.method.needed):
            self.serve_alone(head, call, args)
            return
        self._begin()
        joined.add(JoinedCall(self, head, args, began))

    def serve_alone(self, head: Head, call: Call, args: Any) -> None:
        """Serve a call in another thread, without other calls."""
        self._run_elsewhere(head, lambda: self._answer(head, call, args))

    def _run_elsewhere(self, head: Head, answer: Callable[[], tuple[bytes, str]]) -> None:
        """Answer a call in another thread. The next calls of the client wait for the answer."""
        began = self._server.monotonic()
        self._begin()
        self._server.executor.submit(self._answer_elsewhere, asyncio.get_running_loop(), head, began, answer)

    def _begin(self) -> None:
        self.is_busy = True
        if self._server.is_encrypted:
            # TLS closes both directions together: the client's end is read after the answer is written.
            self._pause()

    def _answer_elsewhere(
        self, loop: asyncio.AbstractEventLoop, head: Head, began: float, answer: Callable[[], tuple[bytes, str]]
    ) -> None:
        try:
            reply, outcome = answer()
        except BaseException as error:
            log.error("%s was not answered: %s", _shown(head), error)
            reply = application_exception(head, messages.INTERNAL_ERROR, f"{_shown(head)}: {error}")
            outcome = type(error).__name__
        # A chain of futures would take as long as a short call. A stopped server has no loop.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self.done, head, began, reply, outcome)

    def _answer(self, head: Head, call: Call, args: Any) -> tuple[bytes, str]:
        """Run a call, and return (reply, outcome). This method does not run in the event loop's thread."""
        assert self._client is not None
        known = call.method
        missing = [each for each in known.needed if getattr(args, each) is None]
        if missing:
            return self._refused(head, known, f"{_shown(head)}: its argument {missing[0]} is missing")
        try:
            result = call.serve(self._server.endpoint, self._client, args)
        except HivexError as error:
            answer = exception_of(error, known)
            if answer is None:
                return application_exception(head, messages.INTERNAL_ERROR, sentence_of(error)), error.code
            return self._written(head, known.result, **{known.exceptions[answer.__class__]: answer}), error.code
        except Exception as error:
            field = known.declared(error)
            if field is not None:
                return self._written(head, known.result, **{field: error}), type(error).__name__
            log.exception("%s of %s ended with an unexpected error", _shown(head), self._client.peer)
            sentence = f"{_shown(head)} ended with an internal error: {type(error).__name__}: {error}"
            return application_exception(head, messages.INTERNAL_ERROR, sentence), type(error).__name__
        return self.reply(head, call, result)

    def reply(self, head: Head, call: Call, result: Any) -> tuple[bytes, str]:
        """Return a pair: the reply with the ``result`` of a successful call, and the outcome for the metrics."""
        if isinstance(result, Raw):
            return written_head(head, messages.REPLY) + result.field + messages.STOP, "ok"
        values = {"success": result} if call.method.has_success and result is not None else {}
        return self._written(head, call.method.result, **values), "ok"

    def _refused(self, head: Head, known: Method, sentence: str) -> tuple[bytes, str]:
        """Return the reply to an invalid call: an exception after which a client does not repeat the call."""
        field = known.exceptions.get(ttypes.MetaException)
        if field is None:
            return application_exception(head, messages.PROTOCOL_ERROR, sentence), "malformed"
        return self._written(head, known.result, **{field: ttypes.MetaException(sentence)}), "malformed"

    @staticmethod
    def _written(head: Head, result: type[Any] | None, **values: Any) -> bytes:
        if result is None:
            return b""
        return written_head(head, messages.REPLY) + encoded(result(**values))

    def done(self, head: Head, began: float, reply: bytes, outcome: str) -> None:
        """Write the reply of a call that began at the time ``began``, and serve the next call."""
        self.is_busy = False
        self.used_at = self._server.monotonic()
        self._reply(head, reply)
        self._note(head, outcome, began, from_memory=False)
        if self._server.is_stopping:
            self.close()
            return
        if not self._is_blocked:
            self._resume()

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        self._advance()
        if self._has_ended and not self.is_busy:
            self.close()

    def _reply(self, head: Head, reply: bytes) -> None:
        # The client does not wait for the answer of a oneway call.
        if reply and head.type != messages.ONEWAY:
            self._write(reply)

    def _write(self, reply: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._is_framed:
            self._transport.writelines([_U32.pack(len(reply)), reply])
        else:
            self._transport.write(reply)

    def _warn(self, reason: str) -> None:
        assert self._client is not None
        self._server.warn(self._client.peer, reason)

    def _refuse(self, reason: str) -> None:
        self._warn(reason)
        self._server.metrics.count("(malformed)", "malformed", 0, from_memory=False)
        self._buffer.clear()
        self.close()

    def _count(self, head: Head, outcome: str) -> None:
        self._note(head, outcome, self._server.monotonic(), from_memory=False)

    def _note(self, head: Head, outcome: str, began: float, *, from_memory: bool) -> None:
        elapsed_s = self._server.monotonic() - began
        known = head.name in self._server.calls
        name = _shown(head) if known else "(unknown)"
        self._server.metrics.count(name, outcome, elapsed_s, from_memory=from_memory)
        if access_log.isEnabledFor(logging.INFO):
            client = self._client
            assert client is not None
            access_log.info(
                "%s %s %s %s %.1f ms%s",
                client.peer,
                client.user or "-",
                _shown(head),
                outcome,
                elapsed_s * 1000,
                " from memory" if from_memory else "",
            )


def _malformed(head: Head, error: MalformedMessageError) -> bytes:
    return application_exception(head, messages.PROTOCOL_ERROR, f"{_shown(head)}: {error}")


def _shown(head: Head) -> str:
    """Return the method's name in a form that is safe for logs. A client can send any text as the name."""
    return ascii(head.name[:100].decode("utf-8", "replace"))[1:-1]


_EXCEPTIONS: tuple[tuple[type[HivexError], type[Any]], ...] = (
    (errors.NoSuchColumnError, ttypes.InvalidObjectException),
    (errors.NoSuchObjectError, ttypes.NoSuchObjectException),
    (errors.AlreadyExistsError, ttypes.AlreadyExistsException),
    (errors.InvalidObjectError, ttypes.InvalidObjectException),
    (errors.InvalidTypeError, ttypes.InvalidObjectException),
    (errors.InvalidTextError, ttypes.InvalidObjectException),
    (errors.LocationOutsideClusterError, ttypes.InvalidObjectException),
    (errors.InvalidOperationError, ttypes.InvalidOperationException),
    (errors.LinkError, ttypes.InvalidOperationException),
    (errors.TransactionAbortedError, ttypes.TxnAbortedException),
    (errors.TransactionCommittedError, ttypes.NoSuchTxnException),
    (errors.NoSuchTransactionError, ttypes.NoSuchTxnException),
    (errors.LockOfOpenTransactionError, ttypes.TxnOpenException),
    (errors.NoSuchLockError, ttypes.NoSuchLockException),
)
_OTHER_NAMES: dict[type[Any], tuple[type[Any], ...]] = {
    ttypes.NoSuchObjectException: (
        ttypes.UnknownTableException,
        ttypes.UnknownDBException,
        ttypes.InvalidObjectException,
        ttypes.InvalidOperationException,
    ),
    ttypes.InvalidObjectException: (ttypes.InvalidOperationException,),
    ttypes.AlreadyExistsException: (ttypes.InvalidOperationException,),
    ttypes.InvalidOperationException: (ttypes.InvalidObjectException,),
}
"""A dict from an exception to its substitutes, the best first, for methods that do not declare this exception."""


def exception_of(error: HivexError, method: Method) -> Any | None:
    """Return the exception by which a method reports an error, or None if the method declares no suitable exception.

    The result is also None for a temporary failure of the database that has changed nothing. After None, the client
    gets an exception that the method does not declare. Clients of Hive then repeat the call.
    """
    if error.retryable and error.outcome is not Outcome.UNKNOWN and isinstance(error, errors.StoreError):
        return None
    wanted = next((answer for ours, answer in _EXCEPTIONS if isinstance(error, ours)), ttypes.MetaException)
    sentence = sentence_of(error)
    for each in (wanted, *_OTHER_NAMES.get(wanted, ()), ttypes.MetaException):
        if each in method.exceptions:
            return each(sentence)
    return None


def sentence_of(error: HivexError) -> str:
    """Return the message of an error for a client of Hive."""
    if isinstance(error, errors.MissingWriteIdListError):
        (table, *_) = error.facts
        return (
            f"Table {table} is transactional, and this call has no write id list: its files would be read wrongly. "
            "Read it by `hivex sql`, or by a client that sends validWriteIdList."
        )
    return str(error)
