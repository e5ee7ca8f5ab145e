"""A server in the foreground, with HTTP pages of health, readiness and metrics."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from airflow_hivex.core.errors import HivexError, InvalidSettingError
from airflow_hivex.core.store.outages import Outage
from airflow_hivex.core.thrift.clients import Credentials
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.server import Limits, Server

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses of a server.

    ``http_port`` is the port of the HTTP pages: None means no pages, 0 means any free port.
    """

    host: str = "127.0.0.1"
    port: int = 9083
    http_port: int | None = None
    certificate: str | None = None
    key: str | None = None
    credentials: Credentials | None = None
    limits: Limits = field(default_factory=Limits)

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None without a certificate.

        Raises:
            InvalidSettingError: the files are not a certificate and its key.
        """
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            expected = f"files in PEM with a certificate and its key are expected ({error})"
            raise InvalidSettingError("certificate", self.certificate, expected) from error
        return context


def serve(endpoint: Endpoint, listening: Listening, ready: Callable[[int, int | None], None]) -> None:
    """Serve until SIGINT or SIGTERM, then finish the running calls. ``ready`` is called with the two ports.

    Raises:
        OSError: an address cannot be used.
        InvalidSettingError: the certificate is not valid.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(endpoint, listening, ready))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of uvloop's fast event loop, or None if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(endpoint: Endpoint, listening: Listening, ready: Callable[[int, int | None], None]) -> None:
    limits = _within_open_files(listening.limits)
    server = Server(endpoint, limits=limits, credentials=listening.credentials, tls=listening.tls_context())
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    port = await server.start(listening.host, listening.port)
    try:
        with pages(server, listening.host, listening.http_port) as http_port:
            ready(port, http_port)
            await stopped.wait()
            log.info("The server stops; %s connections are open", len(server.connections))
            await server.stop()
    finally:
        await server.stop(0)


_OTHER_FILES = 128
"""The number of open files that a server needs for its database, file systems and pages."""


def _within_open_files(limits: Limits) -> Limits:
    """Raise the process's limit of open files, and return ``limits`` with as many connections as this limit allows."""
    try:
        import resource
    except ImportError:
        return limits
    wanted = limits.connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limits
    with suppress(OSError, ValueError):
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(1, soft - _OTHER_FILES)
    if most >= limits.connections:
        return limits
    log.warning("At most %s connections are taken, as the process may open %s files (ulimit -n)", most, soft)
    return replace(limits, connections=most)


@contextmanager
def pages(server: Server, host: str, port: int | None) -> Iterator[int | None]:
    """Answer ``/health``, ``/ready`` and ``/metrics`` while the block runs; yield the port."""
    if port is None:
        yield None
        return

    outage = Outage("The page /ready")

    class Pages(BaseHTTPRequestHandler):
        timeout = _PAGE_S
        """The time in seconds after which a client that sends no request is disconnected."""

        def do_GET(self) -> None:
            status, text = _page(server, self.path, outage)
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            log.debug(format, *args)

    http = _PageServer((host, port), Pages)
    thread = threading.Thread(target=http.serve_forever, args=(0.1,), name="hivex-metastore-pages", daemon=True)
    thread.start()
    try:
        yield http.server_port
    finally:
        http.shutdown()
        http.server_close()
        thread.join(5)


_PAGE_S = 2
_MOST_PAGES = 64


class _PageServer(ThreadingHTTPServer):
    """An HTTP server that limits the number of concurrent requests."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._free = threading.BoundedSemaphore(_MOST_PAGES)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - given by the library
        log.debug("A request of %s ended with an error", client_address, exc_info=True)


def _page(server: Server, path: str, outage: Outage) -> tuple[int, str]:
    match path.partition("?")[0]:
        case "/health":
            return 200, "alive\n"
        case "/ready":
            if server.is_stopping:
                return 503, "stopping\n"
            try:
                server.endpoint.services.catalog.get_database("default")
            except HivexError as error:
                # Not on the page, which anybody may read: the sentence names the database and its user.
                outage.note_failure(error)
                return 503, f"not ready: {error.code}\n"
            outage.note_success()
            return 200, "ready\n"
        case "/metrics":
            return 200, server.metrics.text()
    return 404, "the pages are /health, /ready and /metrics\n"
