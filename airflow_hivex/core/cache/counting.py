"""Counts of the answers of the cache, and of the reasons why it has queried the database."""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_hivex.core.model.write_ids import ValidWriteIdList

_RECENT = 100


class Kind(enum.Enum):
    """The kinds of metadata that the cache is asked for."""

    TABLE = "table"
    """The definition of a table."""
    PARTITIONS = "partitions"
    """Partitions as objects, one or many."""
    CONTENTS = "contents"
    """Partitions, directories and copies for a statement."""


class Miss(enum.Enum):
    """The reasons for a query of the database."""

    COLD = "cold"
    """The object was not read before."""
    STALE = "stale"
    """The reader sees a commit or a change that the entry does not have."""
    UNCOMMITTED = "uncommitted"
    """A transaction has announced a change of the table, and its commit or abort is not known yet."""
    EVICTED = "evicted"
    """The entry was removed to make room for other entries."""
    LAGGING = "lagging"
    """The table has no write ids, and the notification log could not be read for too long."""
    NOT_CACHEABLE = "not cacheable"
    """The settings exclude the table, the table is too large, or the answer depends on more than the table."""


@dataclass(frozen=True, slots=True)
class RecentMiss:
    """One query of the database, with its table and reason; ``detail`` names the missing write id or version."""

    table: str
    kind: Kind
    reason: Miss
    detail: str = ""


class Counting:
    """The counts of hits and misses of a process. The cache calls the methods under its lock."""

    def __init__(self) -> None:
        self.hits: Counter[Kind] = Counter()
        self.misses: Counter[tuple[Kind, Miss]] = Counter()
        self.events = 0
        self.resynchronizations = 0
        self.recent: deque[RecentMiss] = deque(maxlen=_RECENT)

    def hit(self, kind: Kind) -> None:
        """Count an answer from memory."""
        self.hits[kind] += 1

    def miss(self, table: str, kind: Kind, reason: Miss, detail: str = "") -> None:
        """Count a query of the database."""
        self.misses[kind, reason] += 1
        self.recent.append(RecentMiss(table, kind, reason, detail))

    def document(self) -> dict[str, Any]:
        """Return the counts as values of JSON."""
        return {
            "hits": {kind.value: count for kind, count in self.hits.items()},
            "misses": [
                {"kind": kind.value, "reason": reason.value, "count": count}
                for (kind, reason), count in sorted(
                    self.misses.items(), key=lambda item: (item[0][0].value, item[0][1].value)
                )
            ],
            "events": self.events,
            "resynchronizations": self.resynchronizations,
        }


@dataclass(frozen=True, slots=True)
class CacheState:
    """The contents of a cache at one moment.

    ``event_id`` is the last event of the notification log that the follower has applied, or None without a follower.
    ``lag`` is the number of events after ``event_id``.
    """

    tables: int
    used_bytes: int
    most_bytes: int
    hits: Mapping[Kind, int]
    misses: Mapping[tuple[Kind, Miss], int]
    recent_misses: Sequence[RecentMiss]
    events: int
    resynchronizations: int
    event_id: int | None = None
    lag: int | None = None


def first_new(tag: ValidWriteIdList | None, seen: ValidWriteIdList | None) -> str:
    """Return a text about the first write id that an entry (``tag``) and a reader (``seen``) see differently."""
    if tag is None or seen is None:
        return ""
    for write_id in sorted({*tag.exceptions, *seen.exceptions, tag.high_watermark + 1, seen.high_watermark + 1}):
        if seen.is_valid(write_id) and not tag.is_valid(write_id):
            return f"write id {write_id} has committed"
        if tag.is_valid(write_id) and not seen.is_valid(write_id):
            return f"write id {write_id} is newer than the reader"
    return ""
