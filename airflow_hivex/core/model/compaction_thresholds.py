"""The decision whether and how to compact a table or partition: filters, thresholds and the worker's check. No I/O.

Source: docs/reference/compaction.md (Hive InitiatorBase, CompactorUtil, QueryCompactor.Util).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_hivex.core.errors import InvalidSettingError
from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from airflow_hivex.core.model.directories import DirectoryState
from airflow_hivex.core.settings import Settings

DELTA_NUM = "hive.compactor.delta.num.threshold"
DELTA_PCT = "hive.compactor.delta.pct.threshold"
ABORTED_TXNS = "hive.compactor.abortedtxn.threshold"
ABORTED_TIME = "hive.compactor.aborted.txn.time.threshold"
FAILED_COMPACTIONS = "metastore.compactor.initiator.failed.compacts.threshold"
FAILED_RETRY_TIME = "metastore.compactor.initiator.failed.retry.time"
INSERT_ONLY = "hive.compactor.compact.insert.only"
QUERY_BASED = "hive.compactor.crud.query.based"
OVERRIDE_PREFIX = "compactorthreshold."
NO_AUTO_COMPACTION = "no_auto_compaction"
NO_CLEANUP = "no_cleanup"
NOT_REPLICATED_YET = "hive.repl.first.inc.pending"
POOL = "hive.compactor.worker.pool"
_MS_PER_HOUR = 3_600_000
_MS_PER_DAY = 24 * _MS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of the initiator. If ``abort_age_ms`` is None, the age of aborted transactions has no limit."""

    delta_num: int
    delta_pct: float
    abort_count: int
    abort_age_ms: int | None
    failures: int
    failed_retry_ms: int
    insert_only: bool
    query_based: bool

    @classmethod
    def of(cls, settings: Mapping[str, Any], table: Mapping[str, str] | None = None) -> Thresholds:
        """Return the thresholds from the settings. Properties of ``table`` override the settings.

        Raises:
            InvalidSettingError: a property is not a valid value of its threshold.
        """
        given = {
            name: table[f"{OVERRIDE_PREFIX}{name}"]
            for name in (DELTA_NUM, DELTA_PCT)
            if table is not None and f"{OVERRIDE_PREFIX}{name}" in table
        }
        overrides: Mapping[str, Any] = {}
        if given:
            try:
                overrides = Settings(given)
            except InvalidSettingError as error:
                raise InvalidSettingError(
                    f"{OVERRIDE_PREFIX}{error.name}", error.value, "it is not a value of that threshold"
                ) from error
        age_h = float(settings[ABORTED_TIME])
        return cls(
            delta_num=int(overrides[DELTA_NUM] if DELTA_NUM in given else settings[DELTA_NUM]),
            delta_pct=float(overrides[DELTA_PCT] if DELTA_PCT in given else settings[DELTA_PCT]),
            abort_count=int(settings[ABORTED_TXNS]),
            abort_age_ms=None if age_h < 0 else round(age_h * _MS_PER_HOUR),
            failures=int(settings[FAILED_COMPACTIONS]),
            failed_retry_ms=round(float(settings[FAILED_RETRY_TIME]) * _MS_PER_DAY),
            insert_only=bool(settings[INSERT_ONLY]),
            query_based=bool(settings[QUERY_BASED]),
        )


@dataclass(frozen=True, slots=True)
class Aborts:
    """The number of aborted transactions with writes to a table or partition, and the start of the oldest one."""

    count: int
    oldest_ms: int

    def are_too_many(self, thresholds: Thresholds) -> bool:
        """Return whether the number of aborted transactions is above ``hive.compactor.abortedtxn.threshold``."""
        return self.count > thresholds.abort_count

    def are_old(self, thresholds: Thresholds, now_ms: int) -> bool:
        """Return whether the oldest transaction is older than ``hive.compactor.aborted.txn.time.threshold``."""
        return thresholds.abort_age_ms is not None and now_ms - self.oldest_ms > thresholds.abort_age_ms


@dataclass(frozen=True, slots=True)
class CandidateTable:
    """The properties of a table that the initiator uses. If ``is_gone`` is true, the table was dropped."""

    id: int
    database: str
    name: str
    is_gone: bool = False
    is_partitioned: bool = False
    is_insert_only: bool = False
    owner: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    database_parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table or partition with writes, and the values that decide whether it is compacted.

    ``partition_id`` is None if the partition was dropped, or the table has no partitions. ``aborts`` is None if the
    cleaner removes the files of aborted transactions. ``active`` is the state of a waiting or running compaction, as
    SHOW COMPACTIONS shows it. If the number of failures in a row has reached the limit, ``failed_ms`` is the time of
    the last failure, otherwise None.
    """

    table: CandidateTable
    partition: str | None
    partition_id: int | None = None
    aborts: Aborts | None = None
    active: str | None = None
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition under which the initiator does not compact a candidate.

    ``why`` returns the reason if the filter rejects the candidate, otherwise None. ``value`` returns the value that the
    filter compares, as a text for users. If ``is_recorded`` is true, a rejection is recorded in the history of
    compactions with the state DID_NOT_INITIATE.
    """

    name: str
    why: Callable[[Candidate, Thresholds, int], str | None]
    value: Callable[[Candidate, Thresholds, int], str]
    is_recorded: bool = False


def flag(properties: Mapping[str, str], name: str) -> bool | None:
    """Return the value of a boolean property, or None if it is not set. The name is in lower or upper case."""
    for each in (name, name.upper()):
        if each in properties:
            return properties[each].strip().lower() == "true"
    return None


def is_compaction_off(table: CandidateTable) -> str | None:
    """Return ``database`` or ``table`` if a property of this object switches the initiator off, otherwise None."""
    for owner, properties in (("database", table.database_parameters), ("table", table.parameters)):
        value = flag(properties, NO_AUTO_COMPACTION)
        if value is not None:
            return owner if value else None
    return None


def _replication(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:  # noqa: ARG001
    for kind, properties in (
        ("database", candidate.table.database_parameters),
        ("table", candidate.table.parameters),
    ):
        if flag(properties, NOT_REPLICATED_YET):
            return f"the {kind} is being replicated and is not ready"
    return None


def _active(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:  # noqa: ARG001
    return None if candidate.active is None else f"a compaction of it is already {candidate.active}"


def _failures(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:
    if candidate.failed_ms is None:
        return None
    if thresholds.failed_retry_ms > 0 and now_ms - candidate.failed_ms >= thresholds.failed_retry_ms:
        return None
    return (
        f"its last {thresholds.failures} compactions have failed ({FAILED_COMPACTIONS}); "
        "find out why with SHOW COMPACTIONS and start one with ALTER TABLE ... COMPACT"
    )


def _failures_value(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str:
    if candidate.failed_ms is None:
        return f"fewer than {thresholds.failures} failures in a row"
    hours = (now_ms - candidate.failed_ms) / _MS_PER_HOUR
    retry = thresholds.failed_retry_ms / _MS_PER_HOUR
    again = f"tried again after {retry:g} h" if retry > 0 else "never tried again"
    return f"{thresholds.failures} failures in a row, the last {hours:.1f} h ago; {again}"


def _table_gone(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:  # noqa: ARG001
    return "the table was dropped" if candidate.table.is_gone else None


def _switched_off(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:  # noqa: ARG001
    owner = is_compaction_off(candidate.table)
    return None if owner is None else f"the {owner} has {NO_AUTO_COMPACTION} = true"


def _switched_off_value(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str:  # noqa: ARG001
    shown = {None: "not set", True: "true", False: "false"}
    database, table = (
        shown[flag(properties, NO_AUTO_COMPACTION)]
        for properties in (candidate.table.database_parameters, candidate.table.parameters)
    )
    return f"database: {database}, table: {table}"


def _insert_only(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:  # noqa: ARG001
    if candidate.table.is_insert_only and not thresholds.insert_only:
        return f"it is an insert-only table, and {INSERT_ONLY} is false"
    return None


def _no_partition(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:
    if candidate.table.is_partitioned and candidate.partition is None:
        old = candidate.aborts is not None and candidate.aborts.are_old(thresholds, now_ms)
        return None if old else "it is not known which of its partitions were written; each is looked at by itself"
    return None


def _partition_gone(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> str | None:  # noqa: ARG001
    gone = candidate.partition is not None and candidate.partition_id is None
    return "the partition was dropped" if gone else None


def _said(why: Callable[[Candidate, Thresholds, int], str | None]) -> Callable[[Candidate, Thresholds, int], str]:
    return lambda candidate, thresholds, now_ms: why(candidate, thresholds, now_ms) or "no"


FILTERS: tuple[Filter, ...] = (
    Filter("under replication", _replication, _said(_replication)),
    Filter("in the queue", _active, lambda candidate, *_: candidate.active or "no"),
    Filter("failed too often", _failures, _failures_value, is_recorded=True),
    Filter("table dropped", _table_gone, _said(_table_gone)),
    Filter("NO_AUTO_COMPACTION", _switched_off, _switched_off_value),
    Filter("insert-only", _insert_only, lambda candidate, *_: "yes" if candidate.table.is_insert_only else "no"),
    Filter("without partition", _no_partition, _said(_no_partition)),
    Filter("partition dropped", _partition_gone, _said(_partition_gone)),
)
"""The initiator's filters, in the order in which they are asked. The first filter with a reason rejects a candidate."""


def first_filter(candidate: Candidate, thresholds: Thresholds, now_ms: int) -> tuple[Filter, str] | None:
    """Return the filter that rejects the candidate, with the reason, or None if no filter rejects it."""
    for each in FILTERS:
        sentence = each.why(candidate, thresholds, now_ms)
        if sentence is not None:
            return each, sentence
    return None


@dataclass(frozen=True, slots=True)
class DirectoryCounters:
    """The totals that are compared with thresholds: the bytes of the base, and the bytes and number of current deltas.

    ``delta_count`` includes delete deltas. ``has_obsolete_base`` is true if there is a base that another base has
    replaced.
    """

    base_bytes: int = 0
    delta_bytes: int = 0
    delta_count: int = 0
    has_obsolete_base: bool = False
    has_originals: bool = False

    @classmethod
    def of(cls, state: DirectoryState, sizes: Mapping[str, int]) -> DirectoryCounters:
        """Return the totals of the directories that a compactor would read. ``sizes`` has their sizes, by name."""
        base = (state.base,) if state.base is not None else state.originals
        return cls(
            base_bytes=sum(sizes[name] for name in base),
            delta_bytes=sum(sizes[name] for name in state.deltas),
            delta_count=len(state.deltas),
            has_obsolete_base=any(name.startswith("base_") for name in state.obsolete),
            has_originals=bool(state.originals),
        )

    @property
    def has_no_base(self) -> bool:
        """Return whether all rows are in deltas."""
        return self.base_bytes == 0 and self.delta_bytes > 0


@dataclass(frozen=True, slots=True)
class DirectoryTotals:
    """The totals of all registered directories, whether a reader sees them or not.

    ``smallest_base_bytes`` is the size of the smallest base that is not empty, or 0. ``original_bytes`` is the total
    size of the original files.
    """

    delta_bytes: int = 0
    delta_count: int = 0
    base_count: int = 0
    smallest_base_bytes: int = 0
    original_bytes: int = 0

    def may_decide(self, thresholds: Thresholds) -> bool:
        """Return whether :func:`decide` could request a compaction, so that it is useful to read the directories."""
        compared_with = (self.smallest_base_bytes, self.original_bytes)
        return (
            self.delta_count > thresholds.delta_num
            or self.base_count > 1
            or any(each > 0 and self.delta_bytes > thresholds.delta_pct * each for each in compared_with)
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The type of a compaction, or None for no compaction, and the reason."""

    type: CompactionType | None
    why: str


def decide_by_aborts(aborts: Aborts | None, thresholds: Thresholds, now_ms: int) -> Decision | None:
    """Return the compaction that is required because of aborted transactions, or None."""
    if aborts is None:
        return None
    if aborts.are_too_many(thresholds):
        why = f"{aborts.count} aborted transactions are more than {thresholds.abort_count} ({ABORTED_TXNS})"
        return Decision(CompactionType.MAJOR, why)
    if aborts.are_old(thresholds, now_ms):
        age_h = (now_ms - aborts.oldest_ms) / _MS_PER_HOUR
        limit_h = (thresholds.abort_age_ms or 0) / _MS_PER_HOUR
        why = f"an aborted transaction is {age_h:.1f} h old, more than {limit_h:g} h ({ABORTED_TIME})"
        return Decision(CompactionType.MINOR, why)
    return None


def decide(counters: DirectoryCounters, thresholds: Thresholds, *, is_minor_supported: bool = True) -> Decision:
    """Return the compaction that the directories require.

    Source: docs/reference/compaction.md, "Thresholds", rules 4 to 8.
    """
    if not counters.has_no_base:
        if counters.base_bytes > 0:
            share = counters.delta_bytes / counters.base_bytes
            if share > thresholds.delta_pct:
                why = f"deltas are {share:.3g} of the base, more than {thresholds.delta_pct:g} ({DELTA_PCT})"
                return Decision(CompactionType.MAJOR, why)
        if counters.delta_bytes == 0 and counters.has_obsolete_base:
            return Decision(CompactionType.MAJOR, "there are several bases, and nothing came after the last one")
    count = f"{counters.delta_count} delta directories"
    if counters.delta_count <= thresholds.delta_num:
        return Decision(None, f"{count} are not more than {thresholds.delta_num} ({DELTA_NUM})")
    why = f"{count} are more than {thresholds.delta_num} ({DELTA_NUM})"
    if counters.has_no_base:
        return Decision(CompactionType.MAJOR, f"{why}, and there is no base yet")
    if not is_minor_supported:
        return Decision(CompactionType.MAJOR, f"{why}, and queries cannot compact its original files alone")
    return Decision(CompactionType.MINOR, why)


def is_minor_supported(table: CandidateTable, counters: DirectoryCounters, thresholds: Thresholds) -> bool:
    """Return whether a minor compaction can run.

    A query-based minor compaction cannot compact a full ACID table with original files.
    """
    return not (thresholds.query_based and not table.is_insert_only and counters.has_originals)


def next_state(type: CompactionType, state: DirectoryState, *, has_leftovers: bool = False) -> CompactionState:
    """Return the next state of a compaction after a worker has read the list of its directories.

    If there are directories to merge, the next state is WORKING, and the worker compacts them. Otherwise the next state
    is READY_FOR_CLEANING if there are files to remove, or else REFUSED. ``has_leftovers`` is true if aborted
    transactions have left files outside of the registered directories in ``state``.

    Source: docs/reference/compaction.md, "Worker", rules 6 and 7.
    """
    if _is_enough(type, state):
        return CompactionState.WORKING
    is_removable = state.obsolete or state.aborted or has_leftovers
    return CompactionState.READY_FOR_CLEANING if is_removable else CompactionState.REFUSED


def _is_enough(type: CompactionType, state: DirectoryState) -> bool:
    if type is CompactionType.REBALANCE:
        return True
    count = len(state.deltas)
    if type is CompactionType.MAJOR:
        return bool(state.originals) or count + (state.base is not None) > 1
    if count == 2:
        first, second = (name.startswith("delete_delta_") for name in state.deltas)
        return first == second
    return count > 1
