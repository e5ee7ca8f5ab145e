"""The problems of a warehouse that need a person's attention, as sentences, the most urgent first. No I/O."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.compaction import Compaction
from airflow_hivex.core.model.transactions import Transaction

_OLD_TRANSACTION = timedelta(hours=1)
_LONG_WAIT = timedelta(minutes=5)
_LONG_IN_QUEUE = timedelta(hours=1)


class Urgency(enum.Enum):
    """The degrees of urgency for a person, the most urgent first."""

    BROKEN = "broken"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Attention:
    """One problem as a sentence. ``tab`` is the page of the web view that shows more about the problem.

    ``table`` is the table with the problem, as ``database.table``, or None.
    """

    urgency: Urgency
    tab: str
    sentence: str
    table: str | None = None


@dataclass(frozen=True, slots=True)
class BlockedRequest:
    """The lock request that has waited longest.

    ``name`` is the object to lock, and ``by`` is the owner of the request. ``holder`` is the owner of the lock that
    must be released first.
    """

    name: str
    by: str
    holder: str

    @property
    def table(self) -> str | None:
        """Return ``database.table``, or None for a lock on a database."""
        table = self.name.partition(" ")[0]
        return table if "." in table else None


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts about a warehouse that :func:`judge` needs.

    Each of ``quotas`` is a pair: whether the quota is exceeded, and a sentence about it.
    """

    now: datetime
    open: int = 0
    oldest: Transaction | None = None
    waiting: int = 0
    oldest_request_at: datetime | None = None
    blocked: BlockedRequest | None = None
    in_queue: int = 0
    oldest_enqueued_at: datetime | None = None
    failed_compactions: int = 0
    last_failed: Compaction | None = None
    clusters: Mapping[str, Health] | None = None
    quotas: Iterable[tuple[bool, str]] = ()


def judge(situation: Situation) -> list[Attention]:
    """Return a sentence for each problem, the most urgent first, or an empty list if there is no problem."""
    order = list(Urgency)
    return sorted(_all(situation), key=lambda each: order.index(each.urgency))


def _all(found: Situation) -> Iterator[Attention]:
    for name, health in (found.clusters or {}).items():
        if health.problem is not None:
            yield Attention(Urgency.BROKEN, "overview", f"Cluster {name} cannot be used: {health.problem}")
    for is_exceeded, sentence in found.quotas:
        yield Attention(Urgency.BROKEN if is_exceeded else Urgency.WARNING, "namespaces", sentence)
    if found.oldest is not None:
        yield from _of_oldest(found, found.oldest)
    if found.oldest_request_at is not None:
        since = found.now - found.oldest_request_at
        urgency = Urgency.WARNING if since >= _LONG_WAIT else Urgency.NOTE
        requests = "1 lock request waits" if found.waiting == 1 else f"{found.waiting:,} lock requests wait"
        sentence = f"{requests}; the oldest since {in_words(since)}."
        if found.blocked is not None:
            blocked = found.blocked
            sentence = f"{requests}; the oldest since {in_words(since)}: {blocked.by} waits for {blocked.name}, "
            sentence += f"which {blocked.holder} has locked."
        yield Attention(urgency, "transactions", sentence, found.blocked.table if found.blocked else None)
    if found.failed_compactions and found.last_failed is not None:
        number = found.failed_compactions
        failed = "1 compaction has failed" if number == 1 else f"{number:,} compactions have failed"
        last = found.last_failed
        reason = f": {last.error_message}" if last.error_message else "."
        yield Attention(
            Urgency.WARNING,
            "compactions",
            f"{failed} in the last 24 hours. The last one is compaction {last.id} of {last.name}{reason}",
        )
    if found.oldest_enqueued_at is not None and found.now - found.oldest_enqueued_at >= _LONG_IN_QUEUE:
        since = found.now - found.oldest_enqueued_at
        yield Attention(
            Urgency.WARNING,
            "compactions",
            f"{found.in_queue:,} compactions wait for a worker, the oldest since {in_words(since)}. "
            "Run the compaction DAG, or more workers.",
        )


def _of_oldest(found: Situation, oldest: Transaction) -> Iterator[Attention]:
    age, silent = found.now - oldest.started_at, found.now - oldest.heartbeat_at
    of = f" ({oldest.agent_info})" if oldest.agent_info else ""
    who = f"Transaction {oldest.id} of {oldest.user}{of}"
    if silent > timedelta(seconds=oldest.timeout_s):
        yield Attention(
            Urgency.WARNING,
            "transactions",
            f"{who} has sent no heartbeat for {in_words(silent)}, longer than its time-out. The housekeeping aborts "
            "it; run the housekeeping DAG.",
        )
    elif age >= _OLD_TRANSACTION:
        yield Attention(
            Urgency.WARNING,
            "transactions",
            f"{who} has been open for {in_words(age)}. The cleaner keeps the files that it may read.",
        )


def in_words(time: timedelta) -> str:
    """Return a time in its two largest units, such as ``2 h 5 min``."""
    seconds = max(0, int(time.total_seconds()))
    for unit, length, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            rest = seconds % length // part
            return f"{seconds // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"
