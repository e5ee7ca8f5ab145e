"""The snapshot of a reader: the committed transactions, the tables, and the valid write ids of each table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList, equivalent

QualifiedName: TypeAlias = tuple[str, str]
"""The database and the name of a table."""


@dataclass(frozen=True, slots=True)
class History:
    """A point in the history of the metastore database: its incarnation, and the last opened transaction.

    The first incarnation is 0. Each restore from a backup starts another incarnation.
    """

    incarnation: int = 0
    last_txn: int = 0

    def continues(self, earlier: History) -> bool:
        """Return whether both points are in the same incarnation, and ``earlier`` is not after this point."""
        return self.incarnation == earlier.incarnation and self.last_txn >= earlier.last_txn


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of some tables at one moment, as one reader sees them.

    ``write_ids`` is a dict from table id to the write id list of the reader. ``committed`` is a dict from table id to
    the write id list of the committed writes. The lists differ if the reader's transaction sees its own writes, or if
    it does not see writes that were committed after its start.
    """

    valid_txns: ValidTxnList
    tables: Mapping[QualifiedName, StoredTable]
    write_ids: Mapping[int, ValidWriteIdList]
    committed: Mapping[int, ValidWriteIdList] = field(default_factory=dict)
    history: History = History()

    def list_of(self, table: StoredTable) -> ValidWriteIdList | None:
        """Return the write id list of a table, or None for a table without transactions."""
        return self.write_ids[table.id] if table.is_transactional else None

    def agrees_with(self, earlier: Snapshot, table: StoredTable) -> bool:
        """Return whether a table has the same contents in this snapshot as in the snapshot ``earlier``.

        This is so if the version of the table is the same and, for a transactional table, no write to the table was
        committed between the snapshots.
        """
        if not self.history.continues(earlier.history):
            return False
        then = earlier.tables.get((table.database, table.name))
        if then is None or (then.id, then.version) != (table.id, table.version):
            return False
        return not table.is_transactional or equivalent(earlier.write_ids[table.id], self.write_ids[table.id])


@dataclass(frozen=True, slots=True)
class Moment:
    """The snapshot of a replication, and its time by the clock of the database. A stored snapshot has an ``id``."""

    taken_ms: int
    valid_txns: ValidTxnList
    id: int | None = None

    def has_settled(self, txn_id: int) -> bool:
        """Return whether a transaction has ended before the snapshot was taken."""
        return txn_id <= self.valid_txns.high_watermark and txn_id not in self.valid_txns.open_ids


@dataclass(frozen=True, slots=True)
class MaxLag:
    """The largest lag of copies that a session accepts, as a time and as a number of commits. None means no limit."""

    ms: int | None = None
    commits: int | None = None

    @property
    def accepts_any(self) -> bool:
        """Return whether the session accepts copies with any lag."""
        return (self.ms is not None or self.commits is not None) and self.ms != 0 and self.commits != 0

    def accepts(self, lag_ms: int, commits: int) -> bool:
        """Return whether the session accepts a copy with this lag."""
        return (self.ms is None or lag_ms <= self.ms) and (self.commits is None or commits <= self.commits)

    def __str__(self) -> str:
        limits = [] if self.ms is None else [f"{self.ms / 1000:g} s"]
        limits += [] if self.commits is None else [f"{self.commits} commits"]
        return " and ".join(limits) or "none"


def lag_text(lag_ms: int, commits: int) -> str:
    """Return a description of a lag, as a part of a sentence."""
    return f"{lag_ms / 1000:g} s and {commits} {'commit' if commits == 1 else 'commits'}"


@dataclass(frozen=True, slots=True)
class AsOf:
    """The old snapshot that a query has read, because the copies on its cluster lag.

    ``time`` is the time of the snapshot. ``commits`` is the number of commits to the query's tables that the snapshot
    does not see, and ``lag_ms`` is the age of the oldest of these commits. ``write_ids`` is a dict from the full name
    of each transactional table to the highest write id that the snapshot sees.
    """

    time: datetime
    lag_ms: int
    commits: int
    write_ids: Mapping[str, int]

    def describe(self) -> str:
        """Return a description of the snapshot, as a part of a sentence."""
        ids = ", ".join(f"{table} at write id {write_id}" for table, write_id in sorted(self.write_ids.items()))
        return f"as of {self.time.isoformat()} ({ids}), {lag_text(self.lag_ms, self.commits)} behind"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as values of JSON, with the lag in seconds."""
        return {
            "time": self.time.isoformat(),
            "lag_s": self.lag_ms / 1000,
            "commits": self.commits,
            "write_ids": dict(self.write_ids),
        }
