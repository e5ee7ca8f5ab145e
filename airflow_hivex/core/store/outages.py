"""Outages of the database: the text that explains an outage, and the log entries about repeated calls."""

from __future__ import annotations

import logging
import re
import time

from sqlalchemy.engine import URL

log = logging.getLogger(__name__)

_POSTGRESQL_PORT = 5432
_REFUSAL = re.compile(r"FATAL:\s*(.*)")
# Source: the messages of libpq (fe-connect.c, fe-misc.c) and of psycopg.
_CAUSES = (
    (re.compile(r"resolve host|translate host name", re.IGNORECASE), "this machine does not know the name {host}"),
    (re.compile(r"refused|No such file", re.IGNORECASE), "no server listens at {server}"),
    (
        re.compile(r"closed the connection|connection is lost|reset by peer|terminat"),
        "the server at {server} closed the connection",
    ),
    (re.compile(r"timeout|timed out", re.IGNORECASE), "{server} does not answer"),
)


def describe_outage(url: URL, message: str, tried_s: float | None) -> str:
    """Return a text that explains why a PostgreSQL server cannot be used. ``message`` is the driver's message.

    ``tried_s`` is the time that the attempt to connect took, or None if an open connection was lost.
    """
    host = str(url.host or url.query.get("host") or "localhost")
    server = host if host.startswith("/") else f"{host}:{url.port or url.query.get('port') or _POSTGRESQL_PORT}"
    refusal = _REFUSAL.search(message)
    if refusal is not None and "terminating" not in message:
        return f"the server at {server} refuses the connection ({refusal[1].strip()})"
    cause = next((text for pattern, text in _CAUSES if pattern.search(message)), "{server} cannot be reached")
    # The message quotes the address again, and has advice of its own in further lines.
    detail = message.partition("\n")[0].rpartition(" failed: ")[2].strip().rstrip(".")
    tried = "" if tried_s is None else f"; it was tried for {tried_s:.1f} s"
    return (
        f"{cause.format(host=host, server=server)}{tried} ({detail}). Check that PostgreSQL runs there and that this "
        "machine reaches it, then repeat the call"
    )


class Outage:
    """The failures of a call that is repeated until it succeeds. The log gets the first failure and the success."""

    def __init__(self, what: str) -> None:
        """Create the object. ``what`` names the call in the log, such as "The heartbeat of transaction 5"."""
        self._what = what
        self._began = 0.0
        self._failures = 0

    def note_failure(self, error: Exception, *, with_traceback: bool = False) -> None:
        """Count a failure, and log the first failure."""
        if not self._failures:
            self._began = time.monotonic()
            log.warning("%s fails, and is repeated: %s", self._what, error, exc_info=error if with_traceback else None)
        self._failures += 1

    def note_success(self) -> None:
        """Record a success, and log a success that ends an outage."""
        if self._failures:
            lasted_s = time.monotonic() - self._began
            log.warning("%s succeeds again, after %.0f s and %d failures", self._what, lasted_s, self._failures)
        self._failures = 0
