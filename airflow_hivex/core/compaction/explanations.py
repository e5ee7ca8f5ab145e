"""Explanations why a table is not compacted: each filter and threshold of the initiator, and its decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from airflow_hivex.core.compaction.candidates import (
    Snapshot,
    names_of,
    place_of,
    places_of,
    read_aborts,
    read_candidates,
    read_sizes,
    read_snapshot,
    read_written,
)
from airflow_hivex.core.compaction.initiator import CLEANER_TAKES_ABORTS, count_directories
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.compaction import CompactionType, resource_name
from airflow_hivex.core.model.compaction_thresholds import (
    ABORTED_TIME,
    ABORTED_TXNS,
    DELTA_NUM,
    DELTA_PCT,
    FAILED_COMPACTIONS,
    FILTERS,
    Aborts,
    Candidate,
    Decision,
    DirectoryCounters,
    Thresholds,
    decide,
    decide_by_aborts,
    first_filter,
    is_minor_supported,
)
from airflow_hivex.core.snapshots.valid_lists import read_valid_write_ids

_MS_PER_HOUR = 3_600_000
_TYPES = frozenset({CompactionType.MAJOR.name.lower(), CompactionType.MINOR.name.lower()})
_ERROR = "error"


@dataclass(frozen=True, slots=True)
class Check:
    """A check by the initiator: its name, the present value, the threshold, and the result in words."""

    name: str
    value: str
    threshold: str
    result: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The present decision of the initiator for a table or partition.

    ``answer`` is the decision with its reason. ``type`` is the type of the compaction that the initiator would request,
    or None. For a whole table with partitions, ``partitions`` has (answer, number of partitions with this answer)
    pairs. ``worthwhile`` has (partition, type) pairs of the compactions that the initiator would request without its
    filters. For a table without partitions, the partition in the pair is None.
    """

    name: str
    checks: tuple[Check, ...]
    type: CompactionType | None
    answer: str
    partitions: tuple[tuple[str, int], ...] = ()
    worthwhile: tuple[tuple[str | None, CompactionType], ...] = ()

    @property
    def passed(self) -> tuple[Check, ...]:
        """Return the checks whose value exceeds the threshold for a major or minor compaction."""
        return tuple(each for each in self.checks if each.result in _TYPES)

    @property
    def problem(self) -> str | None:
        """Return the error that prevents a decision, such as an invalid threshold of the table, or None."""
        return next((each.value for each in self.checks if each.result == _ERROR), None)


class Explainer:
    """The rules of the initiator, applied to one table or partition for an explanation."""

    def __init__(self, services: Foundation) -> None:
        self._services, settings = services, services.settings
        self._failures = int(settings[FAILED_COMPACTIONS])
        self._with_aborts = not bool(settings[CLEANER_TAKES_ABORTS])

    def explain(self, table_id: int, partition: str | None) -> Explanation:
        """Return every filter and threshold with its value, and the decision. The call only reads."""
        now = self._services.clock()
        with self._services.store.read() as connection:
            only = (table_id, partition)
            written = read_written(connection, with_aborts=self._with_aborts, only=only)
            (candidate,) = read_candidates(connection, written, failures=self._failures, only=only)
            found_aborts = read_aborts(connection, only).get(only)
            aborts = None if found_aborts is None else found_aborts[0]
            snapshot = read_snapshot(connection, names_of([candidate]))
            checks = [*self._switches(), *self._seen(connection, candidate, snapshot)]
            common = Thresholds.of(self._services.settings)
            for each in FILTERS:
                holds = each.why(candidate, common, now) is not None
                value = each.value(candidate, common, now)
                checks.append(Check(f"filter: {each.name}", value, "", "left alone" if holds else "passes"))
            checks += self._abort_checks(aborts, common, now)
            place = place_of(candidate)
            sizes = read_sizes(connection, [place]).get(place, {})
            answer, worth = self._decide(candidate, sizes, snapshot, now)
            is_whole = candidate.table.is_partitioned and partition is None
            try:
                thresholds = Thresholds.of(self._services.settings, candidate.table.parameters)
                if not is_whole:
                    checks += _directory_checks(count_directories(candidate, sizes, snapshot), thresholds)
            except HivexError as error:
                checks.append(Check("directories", str(error), "", _ERROR))
            if is_whole:
                partitions, worthwhile = self._partitions(connection, candidate, snapshot, now)
                why = "each of its partitions is looked at by itself; name one for its own thresholds"
                answer = answer if answer.type is not None else Decision(None, why)
                return _explanation(candidate, checks, answer, partitions, worthwhile)
            of_it = () if worth.type is None else ((candidate.partition, worth.type),)
            return _explanation(candidate, checks, answer, worthwhile=of_it)

    def _switches(self) -> Iterator[Check]:
        name = "metastore.compactor.initiator.on"
        on = bool(self._services.settings[name])
        result = "it runs by itself" if on else "it runs only when it is called"
        yield Check("initiator", str(on).lower(), name, result)

    def _seen(self, connection: Connection, candidate: Candidate, snapshot: Snapshot) -> Iterator[Check]:
        table = candidate.table
        names = {table.id: f"{table.database}.{table.name}"}
        seen = read_valid_write_ids(connection, names, snapshot.valid_txns)[table.id]
        highest = snapshot.write_ids[table.id].high_watermark
        reached = f"up to write id {highest} of {seen.high_watermark}"
        held = f"write id {seen.open_ids[0]} is open" if seen.open_ids else "nothing is open"
        yield Check("snapshot of a compaction", reached, held, "later ones wait" if seen.open_ids else "sees all")

    def _abort_checks(self, aborts: Aborts | None, thresholds: Thresholds, now: int) -> Iterator[Check]:
        count = 0 if aborts is None else aborts.count
        age = "none" if aborts is None else f"{(now - aborts.oldest_ms) / _MS_PER_HOUR:.1f} h"
        limit = "off" if thresholds.abort_age_ms is None else f"> {thresholds.abort_age_ms / _MS_PER_HOUR:g} h"
        too_many = aborts is not None and aborts.are_too_many(thresholds)
        old = aborts is not None and aborts.are_old(thresholds, now)
        by_cleaner = "" if self._with_aborts else " (the cleaner's business)"
        yield Check(
            f"aborted transactions ({ABORTED_TXNS})",
            str(count),
            f"> {thresholds.abort_count}",
            _met(too_many, "major") + by_cleaner,
        )
        yield Check(f"age of the oldest of them ({ABORTED_TIME})", age, limit, _met(old, "minor") + by_cleaner)

    def _decide(
        self, candidate: Candidate, sizes: Mapping[str, int], snapshot: Snapshot, now: int
    ) -> tuple[Decision, Decision]:
        """Return a pair: the decision of the initiator, and its decision if it had no filters."""
        try:
            thresholds = Thresholds.of(self._services.settings, candidate.table.parameters)
            worth = decide_by_aborts(candidate.aborts, thresholds, now)
            if worth is None:
                counters = count_directories(candidate, sizes, snapshot)
                supported = is_minor_supported(candidate.table, counters, thresholds)
                worth = decide(counters, thresholds, is_minor_supported=supported)
        except HivexError as error:
            worth = Decision(None, str(error))
        dropped = first_filter(candidate, Thresholds.of(self._services.settings), now)
        return worth if dropped is None else Decision(None, dropped[1]), worth

    def _partitions(
        self, connection: Connection, of: Candidate, snapshot: Snapshot, now: int
    ) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str | None, CompactionType], ...]]:
        """Return ``partitions`` and ``worthwhile`` of an explanation, with the most frequent answer first."""
        written = read_written(connection, with_aborts=self._with_aborts)
        found = [
            each
            for each in read_candidates(connection, written, failures=self._failures)
            if each.table.id == of.table.id and each.partition is not None
        ]
        sizes = read_sizes(connection, [place for place in places_of(found) if place[1] is not None])
        answers: Counter[str] = Counter()
        worthwhile: list[tuple[str | None, CompactionType]] = []
        for each in found:
            answer, worth = self._decide(each, sizes.get(place_of(each), {}), snapshot, now)
            answers[f"nothing: {answer.why}" if answer.type is None else answer.type.name.lower()] += 1
            if worth.type is not None and each.partition_id is not None:
                worthwhile.append((each.partition, worth.type))
        return tuple(answers.most_common()), tuple(worthwhile)


def _directory_checks(counters: DirectoryCounters, thresholds: Thresholds) -> Iterator[Check]:
    yield Check("base", f"{counters.base_bytes} bytes", "", "no base" if counters.has_no_base else "")
    share = f"{counters.delta_bytes / counters.base_bytes:.3g}" if counters.base_bytes else "no base"
    larger = counters.base_bytes > 0 and counters.delta_bytes / counters.base_bytes > thresholds.delta_pct
    yield Check(
        f"share of deltas to base ({DELTA_PCT})",
        f"{share} ({counters.delta_bytes} bytes of deltas)",
        f"> {thresholds.delta_pct:g}",
        _met(larger, "major"),
    )
    several = counters.has_obsolete_base and counters.delta_bytes == 0
    yield Check("several bases", str(counters.has_obsolete_base).lower(), "", _met(several, "major"))
    many = counters.delta_count > thresholds.delta_num
    yield Check(
        f"delta directories ({DELTA_NUM})",
        str(counters.delta_count),
        f"> {thresholds.delta_num}",
        _met(many, "major" if counters.has_no_base else "minor"),
    )


def _met(holds: bool, result: str) -> str:
    return result if holds else "not met"


def _explanation(
    candidate: Candidate,
    checks: list[Check],
    decision: Decision,
    partitions: tuple[tuple[str, int], ...] = (),
    worthwhile: tuple[tuple[str | None, CompactionType], ...] = (),
) -> Explanation:
    table = candidate.table
    return Explanation(
        name=resource_name(table.database, table.name, candidate.partition),
        checks=tuple(checks),
        type=decision.type,
        answer=f"{'nothing' if decision.type is None else decision.type.name.lower()}: {decision.why}",
        partitions=partitions,
        worthwhile=worthwhile,
    )
