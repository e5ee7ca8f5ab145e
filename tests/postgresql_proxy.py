"""A proxy before a PostgreSQL server, which loses a connection in the middle of the server's answers."""

from __future__ import annotations

import psycopg
from sqlalchemy.engine import make_url

from tests.tcp_proxy import TcpProxy

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""The server's answer to COMMIT. Source: PostgreSQL, "Message Formats", CommandComplete."""


class PostgresqlProxy(TcpProxy):
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
        self.cuts = 0
        """How many connections were lost."""
        self._answer: bytes | None = None
        self._lets_through = False

    def cut_after(self, answer: bytes) -> None:
        """Lose the next connection that gets this answer, right after it."""
        self._answer, self._lets_through = answer, True

    def cut_before(self, answer: bytes) -> None:
        """Lose the next connection that would get this answer, right before it."""
        self._answer, self._lets_through = answer, False

    def passed_on(self, answer: bytes) -> tuple[bytes, bool]:
        """Return all of an answer, or its part up to the cut."""
        if self._answer is None or self._answer not in answer:
            return answer, False
        # An answer that comes in two pieces would pass; those of one exchange come in one.
        end = answer.index(self._answer) + (len(self._answer) if self._lets_through else 0)
        self._answer = None
        self.cuts += 1
        return answer[:end], True
