"""The findings of the doctor: differences between registered directories and disks."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class FindingKind(enum.Enum):
    """The kind of a difference between catalog and disk. Some kinds are errors (:attr:`is_error`)."""

    UNREACHABLE = "unreachable"
    """A cluster, or one of its folders, cannot be read."""
    MISSING = "missing"
    """The directory is registered, but not on the disk."""
    DIFFERENT = "different"
    """The directory's number of files or bytes differs from the registered number."""
    AHEAD = "ahead"
    """The directory has a write id or transaction that the metastore has not allocated yet."""
    OBSOLETE = "obsolete"
    """The directory is registered, but missing or incomplete. No reader needs it: other directories replace it."""
    LEFT = "left"
    """An aborted transaction or a compaction has left the directory, and the next cleaning deletes it."""
    DROPPED = "dropped"
    """The object was dropped, and its files are not deleted yet."""
    UNREGISTERED_COPY = "unregistered copy"
    """The directory is not registered on this cluster, but on another cluster."""
    SHARED = "shared folder"
    """The folder is equal to a folder of another namespace, or lies in such a folder."""
    UNKNOWN = "unknown"
    """The directory is not registered, and no process writes it."""

    @property
    def is_error(self) -> bool:
        """Return whether this kind of finding means that rows are lost, or that a statement will fail."""
        return self in _ERRORS


_ERRORS = frozenset({FindingKind.UNREACHABLE, FindingKind.MISSING, FindingKind.DIFFERENT, FindingKind.AHEAD})


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference between the registered directories and the disk of a cluster, or a folder that two namespaces share.

    ``path`` is a full URI. ``table`` is None for a folder that belongs to no table. ``database`` is None for a finding
    about a whole cluster. ``files`` is the number, and ``size_bytes`` the size, of the files on the disk. ``message``
    explains the finding and gives advice.
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
