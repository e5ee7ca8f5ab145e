"""A proxy before a PostgreSQL server, which loses a connection in the middle of the server's answers."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self

import psycopg
from sqlalchemy.engine import make_url

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""The server's answer to COMMIT. Source: PostgreSQL, "Message Formats", CommandComplete."""


class PostgresqlProxy:
    """Passes on all that is said between clients at ``url`` and a server; a context manager."""

    def __init__(self, server_url: str) -> None:
        """``server_url`` is a URL of SQLAlchemy for a database of the server."""
        url = make_url(server_url)
        with psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)) as connection:
            self._host, self._port = connection.info.host, connection.info.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.url = url.set(
            host="127.0.0.1", port=port, query={"sslmode": "disable", "gssencmode": "disable"}
        ).render_as_string(hide_password=False)
        """The URL of the same database through the proxy."""
        self.cuts = 0
        """How many connections were lost."""
        self._answer: bytes | None = None
        self._lets_through = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut_after(self, answer: bytes) -> None:
        """Lose the next connection that gets this answer, right after it."""
        self._answer, self._lets_through = answer, True

    def cut_before(self, answer: bytes) -> None:
        """Lose the next connection that would get this answer, right before it."""
        self._answer, self._lets_through = answer, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                # It was shut down.
                return
            thread = threading.Thread(target=self._pass_on, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, self._connected() as server, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is server and self._answer is not None and self._answer in data:
                        # An answer that comes in two pieces would pass; those of one exchange come in one.
                        end = data.index(self._answer) + (len(self._answer) if self._lets_through else 0)
                        self._answer = None
                        self.cuts += 1
                        target.sendall(data[:end])
                        return
                    target.sendall(data)

    def _connected(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server
