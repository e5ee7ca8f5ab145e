"""The results and the progress of replications."""

from __future__ import annotations

import enum
from collections.abc import Iterable
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
    """The state of a partition (None: of a table without) on a cluster, in the current state.

    ``lag_ms`` is the time since the oldest directory that the copy lacks was registered on the primary; 0 for a current
    copy, None for the primary and where the time is not known. ``write_id`` is the highest that the copy has, and
    ``lag_commits`` the number of commits that it lacks; a compaction is not one of them. A table without transactions
    has no registered directories.
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
    write_id: int | None = None
    lag_commits: int = 0

    @property
    def is_current(self) -> bool:
        """Return whether current queries can use the copy."""
        return self.lacking_directories == 0


class LostReason(enum.Enum):
    """The fate of a directory when the primary cluster is lost."""

    LOST = "lost"
    WITHDRAWN = "withdrawn, as the same write is lost elsewhere"
    NO_COPY = "lost, as there is no copy of the partition"
    KEPT_IN_PART = "kept, although a write that it has merged is lost elsewhere"


@dataclass(frozen=True, slots=True)
class LostDirectory:
    """A directory whose rows are lost with a primary cluster, or are kept without the rest of their write.

    ``write_ids`` are the first and the last; None for an original file, and for a partition of a plain table, whose
    ``directory`` is empty.
    """

    partition: str | None
    directory: str
    reason: LostReason
    write_ids: tuple[int, int] | None = None
    rows: int = 0
    size_bytes: int = 0

    def describe(self) -> str:
        """Return the loss as a line of a list."""
        of = f" of partition {self.partition}" if self.partition is not None else ""
        if not self.directory:
            return f"all files{of}: {self.reason.value}"
        if self.write_ids is None:
            ids = "rows from before the table was transactional"
        else:
            first, last = self.write_ids
            ids = f"write id {last}" if first == last else f"write ids {first} to {last}"
        return f"{ids}{of}, {self.directory}: {self.rows} rows, {self.size_bytes} bytes, {self.reason.value}"


@dataclass(frozen=True, slots=True)
class PrimaryChange:
    """The result of a change of a table's primary cluster, or of its dry run.

    ``lost`` is empty without ``force``. ``confirmation`` is the text that confirms this loss, None without one.
    """

    table: str
    before: str
    cluster: str
    is_changed: bool
    replication: Replication | None = None
    lost: tuple[LostDirectory, ...] = ()
    confirmation: str | None = None
    txn_id: int | None = None

    @property
    def lost_write_ids(self) -> tuple[tuple[int, int], ...]:
        """Return the write ids that lose rows, as ranges with their ends; compactions count with all of theirs."""
        return write_id_spans(self.lost)


def write_id_spans(lost: Iterable[LostDirectory]) -> tuple[tuple[int, int], ...]:
    """Return the write ids of directories that are lost, as ranges with their ends."""
    spans: list[tuple[int, int]] = []
    gone = (each for each in lost if each.reason is not LostReason.KEPT_IN_PART)
    for first, last in sorted(each.write_ids for each in gone if each.write_ids is not None):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return tuple(spans)
