"""A proxy before a server on this machine: a network that can be cut and mended."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class TcpProxy:
    """Passes on all that is said between clients at ``port`` and the server at another one; a context manager."""

    def __init__(self, server_port: int, host: str = "127.0.0.1") -> None:
        """``host`` is that of the server, or the folder of its Unix socket."""
        self._server = host, server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.refused = 0
        """How many connections were not accepted."""
        self._is_cut = threading.Event()
        self._is_silent = threading.Event()
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """Lose all connections, and accept no other one."""
        self._is_cut.set()
        with self._lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Accept connections again."""
        self._is_cut.clear()

    def fall_silent(self) -> None:
        """Pass nothing on any more, and keep the connections: both sides see a host that has vanished."""
        self._is_silent.set()

    def asked(self, request: bytes, *, after_answer: bool) -> None:
        """See what a client says, before the server; ``after_answer`` says whether the server has spoken last."""

    def passed_on(self, answer: bytes) -> tuple[bytes, bool]:
        """Return what a client gets of the server's answer, and whether its connection is lost then."""
        return answer, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._is_over.set()
        self.cut()
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
            if self._is_cut.is_set():
                self.refused += 1
                client.close()
                continue
            thread = threading.Thread(target=self._pass_on, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pass_on(self, client: socket.socket) -> None:
        with (
            client,
            self._connected() as server,
            selectors.DefaultSelector() as selector,
            suppress(OSError),
        ):
            with self._lock:
                self._open |= {client, server}
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            last = server
            try:
                while True:
                    for key, _ in selector.select():
                        source, target = key.fileobj, key.data
                        assert isinstance(source, socket.socket)
                        data = source.recv(1 << 16)
                        is_lost = not data
                        if source is server and data:
                            data, is_lost = self.passed_on(data)
                        elif data:
                            self.asked(data, after_answer=last is server)
                        last = source
                        if self._is_silent.is_set():
                            self._is_over.wait()
                            return
                        target.sendall(data)
                        if is_lost:
                            return
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _connected(self) -> socket.socket:
        host, port = self._server
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server
