"""Calls that clients have begun to send: how many bytes of them a server keeps."""

from __future__ import annotations

from typing import Protocol

LARGE = 1 << 20
"""The bytes of an unfinished call from which on it is counted."""


class Sender(Protocol):
    """A connection whose client sends a call."""

    @property
    def unfinished_bytes(self) -> int:
        """Return the bytes of a call that has not come to its end."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class UnfinishedCalls:
    """The clients that have sent large parts of calls. Beyond ``most_bytes`` the largest ones lose their connections.

    The limit of one message does not help against many clients that each send a part of one.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._senders: set[Sender] = set()

    def add(self, sender: Sender) -> None:
        """Note that a client has sent a large part of a call."""
        self._senders.add(sender)
        sizes = {each: each.unfinished_bytes for each in self._senders}
        self._senders = {each for each, size in sizes.items() if size >= LARGE}
        total = sum(sizes.values())
        for each in sorted(self._senders, key=lambda known: sizes[known], reverse=True):
            if total <= self._most_bytes:
                return
            total -= sizes[each]
            self.remove(each)
            each.abort("the clients of this server send too many large calls at once that do not end")

    def remove(self, sender: Sender) -> None:
        """Note that a client has gone."""
        self._senders.discard(sender)
