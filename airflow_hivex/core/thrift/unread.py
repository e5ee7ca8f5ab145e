"""Answers that clients do not read: how many bytes of them a server keeps, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Reader(Protocol):
    """A connection whose client has answers to read."""

    @property
    def unread_bytes(self) -> int:
        """Return the bytes of answers that wait for the client."""

    def abort(self, reason: str) -> None:
        """Close the connection at once; what the client has not read is lost."""


class _Waiting(NamedTuple):
    size: int
    since: float


class UnreadAnswers:
    """The clients that do not read their answers.

    Neither one client that never reads nor one answer for each of many clients may take all memory: a client that reads
    nothing for ``longest_s`` loses its connection, and so do those with the longest wait while there are more than
    ``most_bytes`` of answers.
    """

    def __init__(self, most_bytes: int, longest_s: float, monotonic: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._longest_s = longest_s
        self._monotonic = monotonic
        self._waiting: dict[Reader, _Waiting] = {}

    def add(self, reader: Reader) -> None:
        """Note that a client does not read as fast as it is answered."""
        self._waiting[reader] = _Waiting(reader.unread_bytes, self._monotonic())
        self.check()
        left = sum(each.unread_bytes for each in self._waiting)
        for each in sorted(self._waiting, key=lambda known: self._waiting[known].since):
            if left <= self._most_bytes:
                return
            left -= each.unread_bytes
            self._drop(each, "the clients of this server have too many answers that they do not read")

    def remove(self, reader: Reader) -> None:
        """Note that a client has read its answers, or has gone."""
        self._waiting.pop(reader, None)

    def check(self) -> None:
        """Drop the clients that have read nothing for too long."""
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
