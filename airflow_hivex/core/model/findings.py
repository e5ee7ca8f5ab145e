"""The findings of the doctor: differences between registered directories and disks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class FindingKind(enum.Enum):
    """The kind of a difference between rows and disk. See :attr:`is_error` for which of them cost rows, or will."""

    UNREACHABLE = "unreachable"
    """A cluster, or a folder of it, cannot be looked at."""
    MISSING = "missing"
    """It is registered, and not there."""
    DIFFERENT = "different"
    """It has other files than are registered: their number or their bytes."""
    AHEAD = "ahead"
    """It is of a write id or transaction that the metastore has yet to hand out."""
    OBSOLETE = "obsolete"
    """It is registered and gone, wholly or in part; something newer has replaced it for every reader."""
    LEFT = "left"
    """An aborted transaction or a compaction has left it, and the next cleaning deletes it."""
    DROPPED = "dropped"
    """It was dropped, and the files are still to go."""
    UNREGISTERED_COPY = "unregistered copy"
    """It is registered on another cluster, and not on this one."""
    SHARED = "shared folder"
    """It is, or lies in, a folder of another namespace."""
    UNKNOWN = "unknown"
    """It is not registered, and no process writes it."""

    @property
    def is_error(self) -> bool:
        """Return whether rows are lost, or a statement will fail; the others only take space."""
        return self in _ERRORS


_ERRORS = frozenset({FindingKind.UNREACHABLE, FindingKind.MISSING, FindingKind.DIFFERENT, FindingKind.AHEAD})


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between the registered directories and the disk of a cluster, or a folder of two namespaces.

    ``path`` is a full URI. ``table`` is None for a folder that belongs to no table, ``database`` also for a whole
    cluster.
    ``files`` and ``size_bytes`` are what lies there. ``message`` says what it means, and what to do.
    """

    kind: FindingKind
    cluster: str
    database: str | None
    table: str | None
    partition: str | None
    path: str
    message: str
    files: int = 0
    size_bytes: int = 0

    @property
    def is_error(self) -> bool:
        """Return whether rows are lost, or a statement will fail."""
        return self.kind.is_error

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.path} on {self.cluster}: {self.message}"
