"""Clients of TLS: they count as connections from the beginning of their handshake on."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.thrift.connection import Connection

if TYPE_CHECKING:
    from airflow_hivex.core.thrift.server import Server

_NO_FILES_S = 0.1
"""The time until a process without a free file accepts a connection again."""


class EncryptedListener:
    """Accepts the clients of a server, and gives each handshake the time that a client has to log in.

    The loop's own server would tell of a client after its handshake only, so that none counted which does not end it.
    """

    def __init__(self, server: Server, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of handshakes that have not ended."""
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
        """Accept no more clients, and end the handshakes."""
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
            # Errors of TLS are among them, and that it has taken too long.
            reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
            self._server.warn(peer, f"its TLS handshake has failed: {reason or type(error).__name__}")
        except asyncio.CancelledError:
            with suppress(OSError):
                accepted.close()
            raise
