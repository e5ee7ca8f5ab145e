"""A proxy before a server of S3 that answers late or wrong on demand."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

FAULTS = ("busy", "busy-once", "late", "cut")
"""Every request is answered by 503; every second one is; a listing lacks objects that were put under the fault; an
answer with the content of an object ends in its middle."""

_ENTRY = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_KEY = re.compile(rb"<Key>(.*?)</Key>")


class FaultyObjectStore:
    """A running proxy at ``url``."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.named = ""
        self.requests = 0
        self.new: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": self}))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Answer with a fault inside the block."""
        self.new, self.requests, self.named = set(), 0, name
        try:
            yield
        finally:
            self.named = ""

    def stop(self) -> None:
        """End the proxy."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Passes each request on, and answers with the fault of ``store``."""

    store: FaultyObjectStore
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def answer(self) -> None:
        fault, body = self.store.named, self._body()
        self.store.requests += 1
        if fault == "busy" or (fault == "busy-once" and self.store.requests % 2):
            self._send(503, [], _BUSY)
            return
        onward = HTTPConnection(self.store.target, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        onward.request(self.command, self.path, body, headers)
        response = onward.getresponse()
        found = response.read()
        if fault and self.command == "PUT":
            self.store.new.add(unquote(urlsplit(self.path).path).partition("/")[2].partition("/")[2])
        if fault == "late" and b"<ListBucketResult" in found:
            found = _ENTRY.sub(self._shown, found)
        is_content = response.headers.get("ETag") and self.command == "GET"
        self._send(response.status, response.getheaders(), found, cut=fault == "cut" and bool(is_content))
        onward.close()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - the names of the library

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _shown(self, entry: re.Match[bytes]) -> bytes:
        key = _KEY.search(entry[0])
        return b"" if key is not None and key[1].decode() in self.store.new else entry[0]

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        left_out = ("connection", "content-length", "transfer-encoding")
        for name, value in headers:
            if name.lower() not in left_out:
                self.send_header(name, value)
        given = {name.lower(): value for name, value in headers}.get("content-length", "0")
        self.send_header("Content-Length", given if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = cut
