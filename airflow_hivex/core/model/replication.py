"""The results and the progress of replications."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicatedDirectory:
    """A directory or original file of a table that goes to a cluster, or a partition of a plain table.

    ``location`` is that on the target, relative to its root.
    """

    partition: str | None
    name: str
    source: str
    location: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReplicatedTable:
    """A table that was replicated, or would be: the directories that the cluster lacked, and the partitions it has now.

    ``valid_write_ids`` is the snapshot that the copy holds, None for a table without transactions or a view.
    """

    table: str
    cluster: str
    directories: tuple[ReplicatedDirectory, ...] = ()
    partitions: tuple[str, ...] = ()
    valid_write_ids: str | None = None
    is_view: bool = False

    @property
    def files(self) -> int:
        """Return the number of files in these directories."""
        return sum(each.files for each in self.directories)

    @property
    def size_bytes(self) -> int:
        """Return the size of these directories."""
        return sum(each.size_bytes for each in self.directories)


@dataclass(frozen=True, slots=True)
class Replication:
    """The result of a replication: all its tables as of one snapshot.

    Files that an earlier, killed replication had copied are counted as ``files_kept``, and not as ``files_copied``.
    """

    cluster: str
    tables: tuple[ReplicatedTable, ...]
    txn_id: int | None = None
    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a running copy. Files count when they are verified; bytes when they are written or kept."""

    files_done: int
    files: int
    bytes_done: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The state of a partition (None: of a table without) on a cluster, as of now.

    ``lag_ms`` is the time since the oldest directory that the copy lacks was registered on the primary; 0 for a current
    copy, None for the primary and where the time is not known. A table without transactions has no registered
    directories.
    """

    partition: str | None
    cluster: str
    location: str
    directories: int
    size_bytes: int
    lacking_directories: int
    lacking_bytes: int
    lag_ms: int | None
    is_primary: bool = False

    @property
    def is_current(self) -> bool:
        """Return whether queries of now can use the copy."""
        return self.lacking_directories == 0
