"""Proxies before a PostgreSQL server: one loses connections in the middle of answers, one counts round trips."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.engine import make_url

from airflow_hivex.core.store import pipeline
from tests.tcp_proxy import TcpProxy

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""The server's answer to COMMIT. Source: PostgreSQL, "Message Formats", CommandComplete."""

_COMMITS = (b"Q\x00\x00\x00\x0bCOMMIT\x00", b"\x00%b\x00" % pipeline.COMMIT.name)
"""The client's COMMIT: of the driver, and as a prepared statement."""


class _BeforePostgresql(TcpProxy):
    """Passes on all that is said between clients at ``url`` and a server; a context manager."""

    def __init__(self, server_url: str) -> None:
        """``server_url`` is a URL of SQLAlchemy for a database of the server."""
        url = make_url(server_url)
        with psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)) as connection:
            super().__init__(connection.info.port, connection.info.host)
        self.url = url.set(
            host="127.0.0.1", port=self.port, query={"sslmode": "disable", "gssencmode": "disable"}
        ).render_as_string(hide_password=False)
        """The URL of the same database through the proxy."""


class PostgresqlProxy(_BeforePostgresql):
    """Loses a connection in the middle of the server's answers."""

    def __init__(self, server_url: str) -> None:
        """``server_url`` is a URL of SQLAlchemy for a database of the server."""
        super().__init__(server_url)
        self.cuts = 0
        """How many connections were lost."""
        self._answer: bytes | None = None
        self._lets_through = False
        self.commits, self._vanishes_at = 0, 0
        self.vanished = threading.Event()

    def cut_after(self, answer: bytes) -> None:
        """Lose the next connection that gets this answer, right after it."""
        self._answer, self._lets_through = answer, True

    def cut_before(self, answer: bytes) -> None:
        """Lose the next connection that would get this answer, right before it."""
        self._answer, self._lets_through = answer, False

    def vanish_before_commit(self, number: int = 1) -> None:
        """Hold back the COMMIT of this number, counted from now, and fall silent; ``vanished`` is set then."""
        self._vanishes_at = self.commits + number

    def asked(self, request: bytes, *, after_answer: bool) -> None:
        """Count the COMMITs, and fall silent before one if the client is to vanish."""
        if any(commit in request for commit in _COMMITS):
            self.commits += 1
            if self.commits == self._vanishes_at:
                self.fall_silent()
                self.vanished.set()

    def passed_on(self, answer: bytes) -> tuple[bytes, bool]:
        """Return all of an answer, or its part up to the cut."""
        if self._answer is None or self._answer not in answer:
            return answer, False
        # An answer that comes in two pieces would pass; those of one exchange come in one.
        end = answer.index(self._answer) + (len(self._answer) if self._lets_through else 0)
        self._answer = None
        self.cuts += 1
        return answer[:end], True


class CountingProxy(_BeforePostgresql):
    """Counts round trips: how often a client speaks after the server, on each connection. It can delay each of them."""

    def __init__(self, server_url: str) -> None:
        """``server_url`` is a URL of SQLAlchemy for a database of the server."""
        super().__init__(server_url)
        self.delay_s = 0.0
        self._guard = threading.Lock()
        self._trips: list[list[str]] = []
        self._prepared: dict[str, str] = {}

    def asked(self, request: bytes, *, after_answer: bool) -> None:
        """Count a round trip, and delay it. The server does not answer the end of a connection."""
        if request[:1] == b"X":
            return
        with self._guard:
            if after_answer:
                self._trips.append([])
            self._trips[-1] += self._texts(request)
        if after_answer and self.delay_s:
            time.sleep(self.delay_s)

    @contextmanager
    def counted(self) -> Iterator[list[list[str]]]:
        """Yield a list that has, after the block, the statements of each round trip within the block."""
        trips: list[list[str]] = []
        with self._guard:
            before = len(self._trips)
        yield trips
        with self._guard:
            trips += self._trips[before:]

    def _texts(self, request: bytes) -> Iterator[str]:
        """Return the statements of a request. Source: PostgreSQL, "Message Formats": Query, Parse, Bind."""
        while len(request) > 5 and (kind := request[:1]).isalpha():
            length = int.from_bytes(request[1:5], "big") + 1
            first, _, rest = request[5:length].partition(b"\0")
            name, _, _ = rest.partition(b"\0")
            if kind == b"Q":
                yield first.decode()
            elif kind == b"P":
                self._prepared[first.decode()] = rest.partition(b"\0")[0].decode()
            elif kind == b"B":
                yield self._prepared.get(name.decode(), "(prepared)")
            request = request[length:]


def described(trips: list[list[str]]) -> str:
    """One line for each round trip, for a failing test."""
    return "\n".join(" + ".join(" ".join(text.split())[:120] for text in trip) or "(connects)" for trip in trips)
