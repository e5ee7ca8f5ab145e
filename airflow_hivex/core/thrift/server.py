"""The server: it listens over asyncio, limits its clients, and has what their connections share."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from airflow_hivex.core.thrift.calls.registry import Call, calls
from airflow_hivex.core.thrift.connection import LONGEST_REMEMBERED, Connection
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.handshakes import EncryptedListener
from airflow_hivex.core.thrift.joining import JoinedCalls
from airflow_hivex.core.thrift.metrics import Metrics
from airflow_hivex.core.thrift.sasl import Credentials
from airflow_hivex.core.thrift.unfinished import UnfinishedCalls
from airflow_hivex.core.thrift.unread import UnreadAnswers

log = logging.getLogger(__name__)

_MOST_REMEMBERED = 10_000
_MOST_REMEMBERED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of clients: bytes of a message, connections, seconds without a call, threads that ask the database.

    Answers that clients do not read are kept up to ``unread_bytes`` of all of them, and for ``unread_s`` seconds in
    which a client reads nothing. Calls that have not come to their end have ``unfinished_bytes`` at most, all together.
    A client has ``login_s`` seconds to log in.
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
    """Serves the calls of an endpoint. Use it in one event loop."""

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
        """Listen, and return the port; port 0 takes a free one.

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
        """Take no new connections, and close all. Wait ``grace_s`` seconds at most for calls, and for their readers."""
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
        """Return the number of clients, those in a TLS handshake among them."""
        return len(self.connections) + (0 if self._encrypted is None else len(self._encrypted))

    def admits(self, peer: str) -> bool:
        """Return whether there is a place for another client, and count one that is refused."""
        if not self.is_stopping and self.clients < self.limits.connections:
            return True
        self.metrics.refused += 1
        self.warn(peer, f"there are {self.clients} connections")
        return False

    def warn(self, peer: str, reason: str) -> None:
        """Log why the connection of a client is closed, at most some times a minute."""
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
        """Keep the arguments of a call that was read, as clients ask the same again and again."""
        if len(content) <= LONGEST_REMEMBERED:
            if (name, content) not in self.remembered:
                self._remembered_bytes += len(content)
            self.remembered[name, content] = (call, args)
            while len(self.remembered) > _MOST_REMEMBERED or self._remembered_bytes > _MOST_REMEMBERED_BYTES:
                (_, oldest), _ = self.remembered.popitem(last=False)
                self._remembered_bytes -= len(oldest)
