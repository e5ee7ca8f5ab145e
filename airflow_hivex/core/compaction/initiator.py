"""The initiator: compares all tables of the warehouse with the thresholds, and requests compactions.

Hive compares only the tables written since its last cycle, because it lists directories. Here the directories are rows
of the database, and each round compares all tables. Source: docs/reference/compaction.md, "Initiator" (Hive Initiator).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from airflow_hivex.core.compaction.candidates import (
    Snapshot,
    names_of,
    place_of,
    places_of,
    read_candidates,
    read_sizes,
    read_snapshot,
    read_totals,
    read_written,
)
from airflow_hivex.core.compaction.queue import CompactionQueue
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.compaction import CompactionRequest, CompactionType, pool_name
from airflow_hivex.core.model.compaction_thresholds import (
    DELTA_NUM,
    DELTA_PCT,
    FAILED_COMPACTIONS,
    OVERRIDE_PREFIX,
    POOL,
    Candidate,
    CandidateTable,
    Decision,
    DirectoryCounters,
    DirectoryTotals,
    Thresholds,
    decide,
    decide_by_aborts,
    first_filter,
    is_minor_supported,
)
from airflow_hivex.core.model.directories import directory_state
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches

CLEANER_TAKES_ABORTS = "metastore.compactor.clean.aborts.using.cleaner"
_NONE = DirectoryTotals()
_CANDIDATES_A_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class InitiatorResult:
    """The result of a round of the initiator.

    ``candidates`` is the number of checked tables and partitions. ``initiated`` has the ids of the compactions that the
    round has requested. ``did_not_initiate`` has the ids of the records in the history that say why no compaction was
    requested. ``requeued`` has the ids of entries whose worker is lost. ``is_complete`` is false if the round has
    stopped after ``metastore.compactor.fetch.size`` entries; the next round continues.
    """

    candidates: int = 0
    initiated: tuple[int, ...] = ()
    did_not_initiate: tuple[int, ...] = ()
    requeued: tuple[int, ...] = ()
    is_complete: bool = True


class Initiator:
    """The initiator of compactions; one :meth:`run` is one round."""

    def __init__(self, services: Foundation, queue: CompactionQueue) -> None:
        self._services = services
        self._queue = queue
        self._most = int(services.settings["metastore.compactor.fetch.size"])
        self._with_aborts = not bool(services.settings[CLEANER_TAKES_ABORTS])

    def run(self) -> InitiatorResult:
        """Run one round over all written tables and partitions. Several processes can run rounds at once.

        The call needs a fixed number of queries, and one for each 10,000 partitions whose directories are read.
        """
        requeued = self._queue.requeue_lost()
        settings = self._services.settings
        cycle = _Round(settings, self._services.clock())
        with self._services.store.read() as connection:
            written = read_written(connection, with_aborts=self._with_aborts)
            totals = read_totals(connection, *cycle.lowest_thresholds(written.tables.values()))
            candidates = read_candidates(
                connection, written, failures=int(settings[FAILED_COMPACTIONS]), promising=totals
            )
            left = [each for each in candidates if cycle.passes_filters(each)]
            undecided = [each for each in left if cycle.is_undecided(each, totals)]
            snapshot = read_snapshot(connection, names_of([*undecided, *(each for each, _ in cycle.decided)]))
            for batch in batches(undecided, _CANDIDATES_A_BATCH):
                if len(cycle.decided) > self._most:
                    break
                sizes = read_sizes(connection, places_of(batch))
                for each in batch:
                    cycle.decide(each, sizes.get(place_of(each), {}), snapshot)
        chosen = cycle.decided[: self._most]
        requests = [
            request_for(each, kind, settings, snapshot.write_ids[each.table.id].high_watermark) for each, kind in chosen
        ]
        thread = f"{os.getpid()}.{threading.get_ident()}"
        responses = self._queue.enqueue(requests, initiator=thread)
        refused = [(request_for(each, CompactionType.MAJOR, settings), why) for each, why in cycle.dropped]
        return InitiatorResult(
            candidates=len(written.partition_ids),
            initiated=tuple(response.id for response in responses if response.is_accepted),
            did_not_initiate=self._queue.record_not_initiated(refused, initiator=thread),
            requeued=tuple(requeued),
            is_complete=len(cycle.decided) <= self._most,
        )


class _Round:
    """The decisions of one round, and the thresholds of each table."""

    def __init__(self, settings: Settings, now_ms: int) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._common = Thresholds.of(settings)
        self._of_tables: dict[int, Thresholds] = {}
        self.decided: list[tuple[Candidate, CompactionType]] = []
        self.dropped: list[tuple[Candidate, str]] = []

    def lowest_thresholds(self, tables: Iterable[CandidateTable]) -> tuple[int, float]:
        """Return a pair: the lowest limits of all tables for the number of deltas, and for their share of the base.

        If a table has an invalid threshold, the result is (-1, 0). Then the round examines all tables, and records the
        error in the history.
        """
        number, share = self._common.delta_num, self._common.delta_pct
        for table in tables:
            try:
                own = self._of_table(table)
            except HivexError:
                return -1, 0.0
            number, share = min(number, own.delta_num), min(share, own.delta_pct)
        return number, share

    def passes_filters(self, candidate: Candidate) -> bool:
        found = first_filter(candidate, self._common, self._now_ms)
        if found is None:
            return True
        hit, sentence = found
        if hit.is_recorded:
            self.dropped.append((candidate, sentence))
        return False

    def is_undecided(self, candidate: Candidate, totals: Mapping[tuple[int, int | None], DirectoryTotals]) -> bool:
        """Return whether the candidate's directories must be read before the decision. If not, decide at once."""

        def look() -> bool:
            decision = decide_by_aborts(candidate.aborts, self._common, self._now_ms)
            if decision is not None:
                self._take(candidate, decision)
                return False
            return totals.get(place_of(candidate), _NONE).may_decide(self._of_table(candidate.table))

        return self._recording(candidate, look)

    def decide(self, candidate: Candidate, sizes: Mapping[str, int], snapshot: Snapshot) -> None:
        def look() -> bool:
            counters = count_directories(candidate, sizes, snapshot)
            thresholds = self._of_table(candidate.table)
            supported = is_minor_supported(candidate.table, counters, thresholds)
            self._take(candidate, decide(counters, thresholds, is_minor_supported=supported))
            return True

        self._recording(candidate, look)

    def _take(self, candidate: Candidate, decision: Decision) -> None:
        if decision.type is not None:
            self.decided.append((candidate, decision.type))

    def _recording(self, candidate: Candidate, look: Callable[[], bool]) -> bool:
        """Return the result of ``look``; if it raises an error, note the error for the history and return False."""
        try:
            return look()
        except HivexError as error:
            self.dropped.append((candidate, str(error)))
            return False

    def _of_table(self, table: CandidateTable) -> Thresholds:
        if f"{OVERRIDE_PREFIX}{DELTA_NUM}" not in table.parameters and (
            f"{OVERRIDE_PREFIX}{DELTA_PCT}" not in table.parameters
        ):
            return self._common
        if table.id not in self._of_tables:
            self._of_tables[table.id] = Thresholds.of(self._settings, table.parameters)
        return self._of_tables[table.id]


def count_directories(candidate: Candidate, sizes: Mapping[str, int], snapshot: Snapshot) -> DirectoryCounters:
    """Return the totals of the directories that a compaction would read.

    Raises:
        NotEnoughHistoryError: a base that the snapshot does not see has replaced directories that the snapshot needs.
    """
    state = directory_state(sizes, snapshot.write_ids[candidate.table.id], snapshot.valid_txns)
    return DirectoryCounters.of(state, sizes)


def request_for(
    candidate: Candidate, type: CompactionType, settings: Settings, high_watermark: int | None = None
) -> CompactionRequest:
    """Return the request for a candidate.

    The request has the pool of the table, or else the pool of the database. Its user is that of the settings, or else
    the owner of the table.
    """
    table = candidate.table
    pool = table.parameters.get(POOL) or table.database_parameters.get(POOL)
    return CompactionRequest(
        table_id=table.id,
        database=table.database,
        table=table.name,
        partition=candidate.partition,
        type=type,
        pool=pool_name(pool),
        run_as=settings["metastore.compactor.run.as.user"] or table.owner,
        high_watermark=high_watermark,
    )
