"""Replications of tables and moves of namespaces: states, plans, progress and results."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ReplicatedDirectory:
    """A copied part of a table: a directory, an original file, or a partition of a table without transactions.

    ``location`` is the location of the copy, relative to the root of the target cluster.
    """

    partition: str | None
    name: str
    source: str
    location: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReplicatedTable:
    """The result of a replication for one table.

    ``directories`` are the copied directories. ``partitions`` are the partitions that the cluster has after the
    replication. ``valid_write_ids`` is the snapshot of the copy, or None for a view or a table without transactions.
    """

    table: str
    cluster: str
    directories: tuple[ReplicatedDirectory, ...] = ()
    partitions: tuple[str, ...] = ()
    valid_write_ids: str | None = None
    is_view: bool = False

    @property
    def files(self) -> int:
        """Return the number of files in the copied directories."""
        return sum(each.files for each in self.directories)

    @property
    def size_bytes(self) -> int:
        """Return the size of the copied directories in bytes."""
        return sum(each.size_bytes for each in self.directories)


@dataclass(frozen=True, slots=True)
class Replication:
    """The result of a replication. The copies of all tables are of the same snapshot.

    Files that a killed replication has copied count as ``files_kept``, and not as ``files_copied``.
    """

    cluster: str
    tables: tuple[ReplicatedTable, ...]
    txn_id: int | None = None
    files_copied: int = 0
    bytes_copied: int = 0
    files_kept: int = 0


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a running copy: the verified files, and the bytes that were written or existed already."""

    files_done: int
    files: int
    bytes_done: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The current state of the copy of a partition on a cluster. ``partition`` is None for a table without partitions.

    ``lag_ms`` is the age of the oldest directory that the copy lacks, counted from its registration on the primary.
    ``lag_ms`` is 0 for a current copy, and None for the primary or if the age is not known. ``write_id`` is the highest
    write id of the copy, and ``lag_commits`` is the number of commits that the copy lacks, without compactions. For a
    table without transactions, all these numbers are 0.
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
        """Return whether the copy has all current data, so that every query can use it."""
        return self.lacking_directories == 0


class LostReason(enum.Enum):
    """The result for a directory when the primary cluster of its table is lost."""

    LOST = "lost"
    WITHDRAWN = "withdrawn, as the same write is lost elsewhere"
    NO_COPY = "lost, as there is no copy of the partition"
    KEPT_IN_PART = "kept, although a write that it has merged is lost elsewhere"


@dataclass(frozen=True, slots=True)
class LostDirectory:
    """A directory that is lost with a primary cluster, or that is kept although a write in it is partly lost.

    ``write_ids`` are the first and the last write id, or None for an original file. For a partition of a table without
    transactions, ``write_ids`` is None, and ``directory`` is empty.
    """

    partition: str | None
    directory: str
    reason: LostReason
    write_ids: tuple[int, int] | None = None
    rows: int = 0
    size_bytes: int = 0

    def describe(self) -> str:
        """Return the directory and its loss as a line of a list."""
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

    ``lost`` are the directories that a change with ``force`` loses. A change without ``force`` loses none.
    ``confirmation`` is the text by which a user confirms this loss, or None.
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
        """Return the write ids that lose rows, as ranges of the first and the last id.

        If a compacted directory is lost, all its write ids are in the result.
        """
        return write_id_spans(self.lost)


def write_id_spans(lost: Iterable[LostDirectory]) -> tuple[tuple[int, int], ...]:
    """Return the write ids of lost directories, as ranges of the first and the last id."""
    spans: list[tuple[int, int]] = []
    gone = (each for each in lost if each.reason is not LostReason.KEPT_IN_PART)
    for first, last in sorted(each.write_ids for each in gone if each.write_ids is not None):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return tuple(spans)


class MoveState(enum.Enum):
    """The state of a move. When it becomes SWITCHED, all tables change their primary cluster at once."""

    COPYING = "copying"
    SWITCHED = "switched"
    CANCELLED = "cancelled"


MOVE_STEPS: Mapping[MoveState, frozenset[MoveState]] = {
    MoveState.COPYING: frozenset({MoveState.SWITCHED, MoveState.CANCELLED}),
    MoveState.SWITCHED: frozenset(),
    MoveState.CANCELLED: frozenset(),
}
"""A dict from state to the possible next states."""


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
    """A table of a move. ``before`` is its current primary cluster, and ``size_bytes`` is the number of bytes to copy.

    ``is_linked`` is true for a table of another namespace that a link shows. The move copies such a table, and does not
    change its primary cluster.
    """

    table: str
    before: str
    files: int
    size_bytes: int
    is_linked: bool = False


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The plan of a move. ``notices`` are facts for the user that do not prevent the move."""

    namespace: str
    cluster: str
    tables: tuple[PlannedMove, ...]
    blockers: tuple[MoveBlocker, ...]
    notices: tuple[str, ...]
    bytes_per_second: int

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes to copy to the target."""
        return sum(each.size_bytes for each in self.tables)

    @property
    def estimated_s(self) -> float:
        """Return the time, in seconds, that copying takes at ``bytes_per_second``."""
        return self.size_bytes / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """The progress of a running move. Round 1 copies all files. Each further round copies the writes since then.

    ``bytes_done`` and ``size_bytes`` are those of the table that is being copied. ``bytes_copied`` is the number of
    bytes of the tables that were copied before this table.
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
    """A move as stored in the metastore."""

    id: int
    namespace: str
    cluster: str
    state: MoveState
    copies_linked: bool
    keeps_copies: bool
    user: str
    started_at: datetime
    ended_at: datetime | None = None


MOVE_COLUMNS = ("namespace", "cluster", "is_changed", "tables", "bytes_copied", "rounds", "locked_s")
"""The columns of :attr:`MovedNamespace.row`."""


@dataclass(frozen=True, slots=True)
class MovedNamespace:
    """The result of a move, or of its dry run. ``tables`` are the tables that the move gives a new primary cluster.

    ``is_changed`` is False for a dry run, and if the namespace already was on ``cluster``.
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

    @property
    def row(self) -> tuple[object, ...]:
        """Return the result as a row with the columns :data:`MOVE_COLUMNS`."""
        facts = (self.is_changed, len(self.tables), self.bytes_copied, self.rounds, round(self.locked_s, 3))
        return (self.namespace, self.cluster, *facts)
