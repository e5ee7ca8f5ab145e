"""The server: it listens with asyncio, limits and counts its clients, and has the state that connections share."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from airflow_hivex.core.thrift.calls.registry import Call, calls
from airflow_hivex.core.thrift.clients import Credentials
from airflow_hivex.core.thrift.connection import LONGEST_REMEMBERED, Connection
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.joining import JoinedCalls
from airflow_hivex.core.thrift.messages import UnfinishedCalls

log = logging.getLogger(__name__)

_MOST_REMEMBERED = 10_000
_MOST_REMEMBERED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of clients.

    The unread answers of all clients together have at most ``unread_bytes``. A client that reads nothing for
    ``unread_s`` seconds is disconnected. All unfinished calls together have at most ``unfinished_bytes``. A client has
    ``login_s`` seconds to log in.
    """

    message_bytes: int = 100 << 20
    connections: int = 10_000
    idle_s: float = 3600
    threads: int = 12
    unread_bytes: int = 1 << 30
    unread_s: float = 60
    unfinished_bytes: int = 1 << 30
    login_s: float = 30


class Server:
    """A server of the calls of an endpoint. Use it in one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        limits: Limits = Limits(),
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoint = endpoint
        self.limits = limits
        self.credentials = credentials
        self.metrics = Metrics()
        self.calls = calls()
        self.executor = ThreadPoolExecutor(limits.threads, thread_name_prefix="hivex-metastore")
        self.joined = {
            name: JoinedCalls(endpoint, call, self.executor)
            for name, call in self.calls.items()
            if call.serve_together is not None
        }
        self.connections: set[Connection] = set()
        self.unread = UnreadAnswers(limits.unread_bytes, limits.unread_s, monotonic)
        self.unfinished = UnfinishedCalls(limits.unfinished_bytes)
        self.is_stopping = False
        self.monotonic = monotonic
        self.remembered: OrderedDict[tuple[bytes, bytes], tuple[Call, Any]] = OrderedDict()
        self._remembered_bytes = 0
        self._encrypted = None if tls is None else EncryptedListener(self, tls)
        self._server: asyncio.Server | None = None
        self._idle: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Port 0 stands for any free port.

        Raises:
            OSError: the address cannot be used.
        """
        await asyncio.get_running_loop().run_in_executor(self.executor, self.endpoint.move_back_folders)
        self._idle = asyncio.create_task(self._close_idle())
        if self._encrypted is not None:
            return await self._encrypted.start(host, port)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), host, port, backlog=1024, reuse_address=True
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float = 10) -> None:
        """Accept no new connections, and close all connections. Wait ``grace_s`` seconds at most for running calls."""
        self.is_stopping = True
        if self._server is not None:
            self._server.close()
        if self._encrypted is not None:
            self._encrypted.close()
        if self._idle is not None:
            self._idle.cancel()
        deadline = self.monotonic() + grace_s
        for connection in list(self.connections):
            if not connection.is_busy:
                connection.close()
        while any(each.is_busy for each in self.connections) and self.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.close()
        while any(each.unread_bytes for each in self.connections) and self.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            if connection.unread_bytes:
                connection.abort("the server stops")
        await asyncio.sleep(0)
        self.executor.shutdown(wait=False, cancel_futures=True)

    @property
    def is_encrypted(self) -> bool:
        """Return whether clients speak TLS."""
        return self._encrypted is not None

    @property
    def clients(self) -> int:
        """Return the number of clients, including clients in a TLS handshake."""
        return len(self.connections) + (0 if self._encrypted is None else len(self._encrypted))

    def admits(self, peer: str) -> bool:
        """Return whether a new client is allowed to connect, and count a refused client."""
        if not self.is_stopping and self.clients < self.limits.connections:
            return True
        self.metrics.refused += 1
        self.warn(peer, f"there are {self.clients} connections")
        return False

    def warn(self, peer: str, reason: str) -> None:
        """Log why the connection of a client is closed. Log at most a few messages of one client in a minute."""
        if self.metrics.malformed.may_log(peer.rpartition(":")[0]):
            log.warning("The connection of %s is closed: %s", peer, reason)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(min(self.limits.idle_s, self.limits.unread_s, self.limits.login_s) / 3)
            self.unread.check()
            oldest = self.monotonic() - self.limits.idle_s
            oldest_login = self.monotonic() - self.limits.login_s
            for connection in list(self.connections):
                if not connection.has_logged_in and connection.connected_at < oldest_login:
                    connection.abort(f"the client has not logged in within {self.limits.login_s:g} s")
                elif not connection.is_busy and connection.used_at < oldest:
                    connection.close()

    def remember(self, name: bytes, content: bytes, call: Call, args: Any) -> None:
        """Keep the decoded arguments of a call. An equal call then needs no decoding."""
        if len(content) <= LONGEST_REMEMBERED:
            if (name, content) not in self.remembered:
                self._remembered_bytes += len(content)
            self.remembered[name, content] = (call, args)
            while len(self.remembered) > _MOST_REMEMBERED or self._remembered_bytes > _MOST_REMEMBERED_BYTES:
                (_, oldest), _ = self.remembered.popitem(last=False)
                self._remembered_bytes -= len(oldest)


_NO_FILES_S = 0.1
"""The pause, in seconds, before a process that cannot open more files accepts connections again."""


class EncryptedListener:
    """A listener that accepts the TLS clients of a server. A handshake ends after ``login_s`` seconds at the latest.

    Clients in a handshake count as clients, in contrast to asyncio's own server.
    """

    def __init__(self, server: Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of unfinished handshakes."""
        return len(self._handshakes)

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the address cannot be used.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                listening = socket.create_server(address[:2], family=family, backlog=1024)
                listening.setblocking(False)
                self._sockets.append(listening)
        except OSError:
            self.close()
            raise
        self._accepting = [loop.create_task(self._accept(each)) for each in self._sockets]
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop accepting clients, and end the handshakes."""
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_NO_FILES_S)
                continue
            peer = f"{address[0]}:{address[1]}"
            if not self._server.admits(peer):
                accepted.close()
                continue
            task = loop.create_task(self._shake(accepted, peer))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _shake(self, accepted: socket.socket, peer: str) -> None:
        given: dict[str, Any] = {"ssl": self._context, "ssl_handshake_timeout": self._server.limits.login_s}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self._server), accepted, **given
            )
        except OSError as error:
            # Also errors of TLS, and a handshake that took too long.
            reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
            self._server.warn(peer, f"its TLS handshake has failed: {reason or type(error).__name__}")
        except asyncio.CancelledError:
            with suppress(OSError):
                accepted.close()
            raise


class Reader(Protocol):
    """A connection whose client has answers to read."""

    @property
    def unread_bytes(self) -> int:
        """Return the number of bytes of unread answers."""

    def abort(self, reason: str) -> None:
        """Close the connection at once; unread answers are lost."""


class _Waiting(NamedTuple):
    size: int
    since: float


class UnreadAnswers:
    """The clients that do not read their answers.

    A client that reads nothing for ``longest_s`` seconds is disconnected. If all unread answers together exceed
    ``most_bytes``, the clients that have read nothing for the longest time are disconnected, too.
    """

    def __init__(self, most_bytes: int, longest_s: float, monotonic: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._longest_s = longest_s
        self._monotonic = monotonic
        self._waiting: dict[Reader, _Waiting] = {}

    def add(self, reader: Reader) -> None:
        """Add a client that has unread answers. If the unread answers exceed their limit, disconnect clients."""
        self._waiting[reader] = _Waiting(reader.unread_bytes, self._monotonic())
        self.check()
        left = sum(each.unread_bytes for each in self._waiting)
        for each in sorted(self._waiting, key=lambda known: self._waiting[known].since):
            if left <= self._most_bytes:
                return
            left -= each.unread_bytes
            self._drop(each, "the clients of this server have too many answers that they do not read")

    def remove(self, reader: Reader) -> None:
        """Remove a client that has read its answers, or has disconnected."""
        self._waiting.pop(reader, None)

    def check(self) -> None:
        """Disconnect the clients that have read nothing for too long."""
        now = self._monotonic()
        for reader, known in list(self._waiting.items()):
            size = reader.unread_bytes
            if size < known.size:
                self._waiting[reader] = _Waiting(size, now)
            elif now - known.since > self._longest_s:
                self._drop(reader, f"the client has read nothing of its answer for {self._longest_s:g} s")

    def _drop(self, reader: Reader, reason: str) -> None:
        self.remove(reader)
        reader.abort(reason)


_BOUNDS_S = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
_PREFIX = "hivex_metastore"


class Metric(NamedTuple):
    """A metric of the endpoint, with its kind in Prometheus."""

    kind: str
    labels: tuple[str, ...]
    value: str


METRICS = {
    f"{_PREFIX}_connections": Metric("gauge", (), "clients that are connected"),
    f"{_PREFIX}_connections_refused_total": Metric("counter", (), "connections that were refused"),
    f"{_PREFIX}_calls_total": Metric("counter", ("method", "outcome"), "calls that have ended"),
    f"{_PREFIX}_calls_from_memory_total": Metric("counter", ("method",), "calls that the cache has answered"),
    f"{_PREFIX}_call_seconds": Metric("histogram", ("method",), "the times of calls, in seconds"),
}


class Metrics:
    """The numbers of calls and connections of one server. Only the thread of its event loop changes them."""

    def __init__(self) -> None:
        self.connections = 0
        self.refused = 0
        self.malformed = RateOfErrors()
        self._calls: dict[tuple[str, str], int] = defaultdict(int)
        self._from_memory: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._buckets: dict[str, list[int]] = {}

    def count(self, method: str, outcome: str, elapsed_s: float, *, from_memory: bool) -> None:
        """Count a call, its outcome and its time."""
        self._calls[method, outcome] += 1
        self._seconds[method] += elapsed_s
        if from_memory:
            self._from_memory[method] += 1
        buckets = self._buckets.get(method)
        if buckets is None:
            buckets = self._buckets[method] = [0] * (len(_BOUNDS_S) + 1)
        buckets[bisect_left(_BOUNDS_S, elapsed_s)] += 1

    def calls(self, method: str, outcome: str = "ok") -> int:
        """Return the number of calls of a method with an outcome."""
        return self._calls.get((method, outcome), 0)

    def text(self) -> str:
        """Return the counts in the text format of Prometheus."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head(f"{_PREFIX}_connections")
        yield f"{_PREFIX}_connections {self.connections}"
        yield from _head(f"{_PREFIX}_connections_refused_total")
        yield f"{_PREFIX}_connections_refused_total {self.refused}"
        yield from _head(f"{_PREFIX}_calls_total")
        for (method, outcome), number in sorted(self._calls.items()):
            yield f'{_PREFIX}_calls_total{{method="{method}",outcome="{outcome}"}} {number}'
        yield from _head(f"{_PREFIX}_calls_from_memory_total")
        for method, number in sorted(self._from_memory.items()):
            yield f'{_PREFIX}_calls_from_memory_total{{method="{method}"}} {number}'
        yield from _head(f"{_PREFIX}_call_seconds")
        for method, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, number in zip((*_BOUNDS_S, "+Inf"), buckets, strict=True):
                total += number
                yield f'{_PREFIX}_call_seconds_bucket{{method="{method}",le="{bound}"}} {total}'
            yield f'{_PREFIX}_call_seconds_sum{{method="{method}"}} {self._seconds[method]:.6f}'
            yield f'{_PREFIX}_call_seconds_count{{method="{method}"}} {total}'


def _head(name: str) -> Iterator[str]:
    yield f"# HELP {name} {METRICS[name].value}"
    yield f"# TYPE {name} {METRICS[name].kind}"


class RateOfErrors:
    """A limit for the number of errors of one client that are logged per minute."""

    def __init__(self, most: int = 10, per_s: float = 60, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._per_s = per_s
        self._monotonic = monotonic
        self._since: dict[str, tuple[float, int]] = {}

    def may_log(self, peer: str) -> bool:
        """Count an error of a client, and return whether the limit allows to log the error."""
        now = self._monotonic()
        began, number = self._since.get(peer, (now, 0))
        if now - began > self._per_s:
            began, number = now, 0
        if len(self._since) > 10_000:
            self._since.clear()
        self._since[peer] = (began, number + 1)
        return number < self._most
