"""Moves of namespaces to other clusters: states, the plan of a move, its progress and its result."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


class MoveState(enum.Enum):
    """The state of a move. The tables change their primary cluster with the step to SWITCHED, all of them at once."""

    COPYING = "copying"
    SWITCHED = "switched"
    CANCELLED = "cancelled"


MOVE_STEPS: Mapping[MoveState, frozenset[MoveState]] = {
    MoveState.COPYING: frozenset({MoveState.SWITCHED, MoveState.CANCELLED}),
    MoveState.SWITCHED: frozenset(),
    MoveState.CANCELLED: frozenset(),
}
"""The states that may follow each state."""


@dataclass(frozen=True, slots=True)
class MoveBlocker:
    """A reason against a move: an object such as ``link a.t@b``, the problem, and the step that removes it."""

    object: str
    problem: str
    remedy: str

    def describe(self) -> str:
        """Return the blocker as a line of a list."""
        return f"{self.object}: {self.problem}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A table that a move takes along. ``before`` is its primary cluster, ``size_bytes`` the part that is to be copied.

    ``is_linked`` is set for a table of another namespace, which stays where it is and gets a copy.
    """

    table: str
    before: str
    files: int
    size_bytes: int
    is_linked: bool = False


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The plan of a move in the current state, which changes nothing. ``notices`` are facts that do not stop it.

    ``estimated_s`` is the time for the bytes at ``bytes_per_second``.
    """

    namespace: str
    cluster: str
    tables: tuple[PlannedMove, ...]
    blockers: tuple[MoveBlocker, ...]
    notices: tuple[str, ...]
    bytes_per_second: int

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes that the target lacks."""
        return sum(each.size_bytes for each in self.tables)

    @property
    def estimated_s(self) -> float:
        """Return the seconds that copying takes at ``bytes_per_second``."""
        return self.size_bytes / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """The progress of a running move. ``round`` is 1 for the first copy, and higher while it catches up.

    ``bytes_done`` and ``size_bytes`` are those of the table that is being copied; ``bytes_copied`` is the sum of the
    tables before it.
    """

    round: int
    table: str
    tables_done: int
    tables: int
    bytes_done: int
    size_bytes: int
    bytes_copied: int


@dataclass(frozen=True, slots=True)
class NamespaceMove:
    """A move as the metastore has it."""

    id: int
    namespace: str
    cluster: str
    state: MoveState
    copies_linked: bool
    keeps_copies: bool
    user: str
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MovedNamespace:
    """The result of a move, or of its dry run. ``tables`` are those whose primary cluster has changed.

    ``is_changed`` is False for a dry run, and where the namespace was on the cluster already.
    """

    namespace: str
    cluster: str
    is_changed: bool
    tables: tuple[str, ...] = ()
    bytes_copied: int = 0
    rounds: int = 0
    locked_s: float = 0.0
    txn_id: int | None = None
    plan: MovePlan | None = None
