"""The operation of a server that writes the rows of a statement, so that a later process can find it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ServerOperation:
    """An operation of a Spark Connect server, which knows it by its session and the user of that."""

    session_id: str
    user_id: str
    operation_id: str


class ResumableWrite(Protocol):
    """The write of a statement whose job goes on at its server when this process ends.

    ``earlier`` is the operation that an earlier process has begun for the same write, None if this one begins it. While
    the operation ``is_running``, this process has not begun to put its files into place.
    """

    @property
    def is_running(self) -> bool:
        """Return whether a later process can go on with the write."""

    @property
    def earlier(self) -> ServerOperation | None:
        """Return the operation to wait for."""

    def note(self, operation: ServerOperation) -> None:
        """Note the operation that runs for the write; safe to repeat.

        Raises:
            WriteTakenBackError: the write belongs to another process now.
        """

    def claim(self) -> None:
        """Note that this process puts the written files into place, which no other one may do from now on.

        Raises:
            WriteTakenBackError: the write belongs to another process now.
        """
