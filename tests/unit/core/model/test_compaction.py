"""The rules of compaction as tables. Source: docs/reference/compaction.md."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidObjectError, InvalidSettingError
from airflow_hivex.core.model.compaction import (
    NEXT,
    CompactionState,
    CompactionType,
    job_properties,
    job_queue,
    pool_name,
    table_properties,
)
from airflow_hivex.core.model.compaction_thresholds import (
    FILTERS,
    Aborts,
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
    next_state,
)
from airflow_hivex.core.model.directories import DirectoryState, directory_state
from airflow_hivex.core.model.write_ids import ValidCompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hivex.core.settings import Settings
from tests.unit.core.model.test_directories import names

MAJOR, MINOR, REBALANCE = CompactionType.MAJOR, CompactionType.MINOR, CompactionType.REBALANCE
WORKING, READY, REFUSED = CompactionState.WORKING, CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED
DEFAULTS = Thresholds.of(Settings())
HOUR_MS = 3_600_000
NOW = 1000 * 24 * HOUR_MS
TABLE = CandidateTable(1, "default", "t")


def kind(decision: Decision | None) -> CompactionType | None:
    return None if decision is None else decision.type


# -- states and types --------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "shown", "is_over"),
    [
        ("i", "initiated", False),
        ("w", "working", False),
        ("r", "ready for cleaning", False),
        ("s", "succeeded", True),
        ("f", "failed", True),
        ("a", "did not initiate", True),
        ("c", "refused", True),
        ("x", "aborted", True),
    ],
)
def test_states_have_hives_letters_and_words(letter: str, shown: str, is_over: bool) -> None:
    state = CompactionState(letter)
    assert (state.shown, state.is_over) == (shown, is_over)
    assert CompactionState.read(shown.upper()) is state
    assert CompactionState.read(state.name) is state


def test_every_state_can_be_left_until_it_is_over() -> None:
    def ends(state: CompactionState, seen: frozenset[CompactionState]) -> bool:
        return state.is_over or any(ends(each, seen | {each}) for each in NEXT[state] - seen)

    assert set(NEXT) == set(CompactionState)
    assert all(ends(state, frozenset({state})) for state in CompactionState)


def test_types_have_hives_letters() -> None:
    assert {each.name: each.value for each in CompactionType} == {
        "MAJOR": "a",
        "MINOR": "i",
        "REBALANCE": "r",
        "ABORT_CLEANUP": "c",
    }
    assert CompactionType.read(" Major ") is MAJOR
    with pytest.raises(InvalidObjectError, match="'rebalance'"):
        CompactionType.read("smart")
    with pytest.raises(InvalidObjectError, match="'ready for cleaning'"):
        CompactionState.read("done")


def test_properties_of_a_request_beat_those_of_the_table() -> None:
    table = {
        "compactor.hive.compactor.job.queue": "table",
        "compactor.a": "1",
        "tblprops.orc.compress": "zlib",
        "x": "y",
    }
    request = {"compactor.hive.compactor.job.queue": "request", "tblprops.orc.compress": "zstd"}
    assert job_queue(table, request, "default") == "request"
    assert job_queue(table, {}, "default") == "table"
    assert job_queue({}, {}, "default") == "default"
    assert job_properties(table, request) == {"hive.compactor.job.queue": "request", "a": "1"}
    assert table_properties(table, request)["orc.compress"] == "zstd"
    assert table_properties(table, request)["x"] == "y"


@pytest.mark.parametrize(
    ("text", "stored"), [(None, None), ("", None), ("default", None), ("DEFAULT ", None), ("Etl", "Etl")]
)
def test_default_pool_has_no_name(text: str | None, stored: str | None) -> None:
    assert pool_name(text) == stored


# -- thresholds --------------------------------------------------------------------


def test_defaults_are_hives() -> None:
    assert replace(DEFAULTS) == Thresholds(
        delta_num=10,
        delta_pct=0.1,
        abort_count=1000,
        abort_age_ms=12 * HOUR_MS,
        failures=2,
        failed_retry_ms=7 * 24 * HOUR_MS,
        insert_only=True,
        query_based=False,
    )


def test_table_overrides_two_thresholds_and_no_others() -> None:
    prefix = "compactorthreshold."
    table = {
        f"{prefix}hive.compactor.delta.num.threshold": "2",
        f"{prefix}hive.compactor.delta.pct.threshold": "0.5",
        f"{prefix}hive.compactor.abortedtxn.threshold": "3",
        f"{prefix}hive.compactor.aborted.txn.time.threshold": "4",
    }
    assert Thresholds.of(Settings(), table) == replace(DEFAULTS, delta_num=2, delta_pct=0.5)
    for wrong in ("many", "-1", "2.5", ""):
        with pytest.raises(InvalidSettingError, match="compactorthreshold"):
            Thresholds.of(Settings(), {f"{prefix}hive.compactor.delta.num.threshold": wrong})


def test_negative_time_switches_the_age_of_aborts_off() -> None:
    thresholds = Thresholds.of(Settings({"hive.compactor.aborted.txn.time.threshold": -1}))
    assert not Aborts(1, 0).are_old(thresholds, NOW)


@pytest.mark.parametrize(
    ("count", "age_h", "expected"),
    [(1000, 0, None), (1001, 0, MAJOR), (1001, 13, MAJOR), (1, 12, None), (1, 12.01, MINOR), (1000, 13, MINOR)],
)
def test_aborts(count: int, age_h: float, expected: CompactionType | None) -> None:
    assert kind(decide_by_aborts(Aborts(count, NOW - int(age_h * HOUR_MS)), DEFAULTS, NOW)) is expected


def test_aborts_that_the_cleaner_removes_decide_nothing() -> None:
    assert decide_by_aborts(None, DEFAULTS, NOW) is None


@pytest.mark.parametrize(
    ("base", "deltas", "count", "obsolete_base", "expected"),
    [
        # No base: only the number counts, and it is major.
        (0, 1, 10, False, None),
        (0, 1, 11, False, MAJOR),
        (0, 10**9, 1, False, None),
        # A share of exactly a tenth is not more.
        (1000, 100, 1, False, None),
        (1000, 101, 1, False, MAJOR),
        (1000, 101, 11, False, MAJOR),
        # The number.
        (1000, 100, 10, False, None),
        (1000, 100, 11, False, MINOR),
        (1000, 0, 11, False, MINOR),
        # Several bases.
        (1000, 0, 0, True, MAJOR),
        (1000, 1, 1, True, None),
        (0, 0, 0, True, MAJOR),
        (0, 0, 11, True, MAJOR),
        # Nothing, and empty files.
        (0, 0, 0, False, None),
        (0, 0, 11, False, MINOR),
    ],
)
def test_decision(base: int, deltas: int, count: int, obsolete_base: bool, expected: CompactionType | None) -> None:
    assert kind(decide(DirectoryCounters(base, deltas, count, obsolete_base), DEFAULTS)) is expected


def test_minor_becomes_major_where_queries_compact_and_original_files_are_there() -> None:
    counters = DirectoryCounters(1000, 1, 11, has_originals=True)
    by_query = replace(DEFAULTS, query_based=True)
    for table, thresholds, expected in (
        (TABLE, DEFAULTS, MINOR),
        (TABLE, by_query, MAJOR),
        (replace(TABLE, is_insert_only=True), by_query, MINOR),
    ):
        supported = is_minor_supported(table, counters, thresholds)
        assert kind(decide(counters, thresholds, is_minor_supported=supported)) is expected


@given(
    bases=st.lists(st.integers(0, 100), max_size=3),
    deltas=st.lists(st.integers(0, 30), max_size=14),
    visible=st.integers(0, 14),
    chosen=st.integers(0, 3),
    originals=st.lists(st.integers(0, 100), max_size=3),
    threshold=st.integers(0, 12),
    pct=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_sums_of_all_directories_never_hide_a_compaction(
    bases: list[int], deltas: list[int], visible: int, chosen: int, originals: list[int], threshold: int, pct: float
) -> None:
    """What the initiator leaves out by sums would not be compacted, whichever directories a snapshot reads."""
    thresholds = replace(DEFAULTS, delta_num=threshold, delta_pct=pct)
    smallest = min((size for size in bases if size), default=0)
    totals = DirectoryTotals(sum(deltas), len(deltas), len(bases), smallest, sum(originals))
    current = deltas[:visible]
    # A snapshot that sees none of the bases reads the original files.
    base = (*bases, sum(originals))[chosen % (len(bases) + 1)]
    counters = DirectoryCounters(base, sum(current), len(current), len(bases) > 1)
    if decide(counters, thresholds).type is not None:
        assert totals.may_decide(thresholds)


def test_counters_are_those_of_what_a_compaction_reads() -> None:
    listing = names("b3 b5 d4_4_0 d6_6_0 dd6_6_0 d7_7_0 d8_8_0")
    sizes = dict(zip(listing, (1, 20, 300, 4000, 50_000, 600_000, 7_000_000), strict=True))
    snapshot = ValidCompactorWriteIdList.from_snapshot(ValidWriteIdList.of("t", 9, [8], [7]))
    state = directory_state(listing, snapshot, ValidTxnList.parse(""))
    assert DirectoryCounters.of(state, sizes) == DirectoryCounters(20, 54_000, 2, has_obsolete_base=True)
    originals = DirectoryState(None, ("000000_0",), (), (), ())
    assert DirectoryCounters.of(originals, {"000000_0": 7}) == DirectoryCounters(7, 0, 0, has_originals=True)


# -- filters -----------------------------------------------------------------------


CANDIDATE = Candidate(TABLE, None)
PARTITIONED = replace(TABLE, is_partitioned=True)


@pytest.mark.parametrize(
    ("candidate", "dropped_by"),
    [
        (CANDIDATE, None),
        (
            replace(CANDIDATE, table=replace(TABLE, parameters={"hive.repl.first.inc.pending": "true"})),
            "under replication",
        ),
        (replace(CANDIDATE, active="working (compaction 3)"), "in the queue"),
        (replace(CANDIDATE, failed_ms=NOW - 7 * 24 * HOUR_MS + 1), "failed too often"),
        (replace(CANDIDATE, failed_ms=NOW - 7 * 24 * HOUR_MS), None),
        (replace(CANDIDATE, table=replace(TABLE, is_gone=True)), "table dropped"),
        (replace(CANDIDATE, table=replace(TABLE, parameters={"NO_AUTO_COMPACTION": "true"})), "NO_AUTO_COMPACTION"),
        (
            replace(
                CANDIDATE,
                table=replace(
                    TABLE,
                    parameters={"NO_AUTO_COMPACTION": "true"},
                    database_parameters={"no_auto_compaction": "false"},
                ),
            ),
            None,
        ),
        (Candidate(PARTITIONED, None), "without partition"),
        (Candidate(PARTITIONED, None, aborts=Aborts(1, NOW - 13 * HOUR_MS)), None),
        (Candidate(PARTITIONED, None, aborts=Aborts(5000, NOW)), "without partition"),
        (Candidate(PARTITIONED, "ds=1", 7), None),
        (Candidate(PARTITIONED, "ds=1"), "partition dropped"),
        # The first in their order.
        (
            Candidate(replace(PARTITIONED, is_gone=True), "ds=1", active="initiated (compaction 1)", failed_ms=NOW),
            "in the queue",
        ),
        (Candidate(replace(PARTITIONED, is_gone=True), "ds=1", failed_ms=NOW), "failed too often"),
    ],
)
def test_filters(candidate: Candidate, dropped_by: str | None) -> None:
    found = first_filter(candidate, DEFAULTS, NOW)
    assert (None if found is None else found[0].name) == dropped_by


def test_insert_only_tables_are_left_out_on_demand() -> None:
    candidate = replace(CANDIDATE, table=replace(TABLE, is_insert_only=True))
    assert first_filter(candidate, DEFAULTS, NOW) is None
    found = first_filter(candidate, replace(DEFAULTS, insert_only=False), NOW)
    assert found is not None
    assert found[0].name == "insert-only"


def test_only_failures_are_recorded_in_the_history() -> None:
    assert [each.name for each in FILTERS if each.is_recorded] == ["failed too often"]


# -- what a worker finds -------------------------------------------------------------


def found_by(
    listing: str, high_watermark: int, opened: list[int] | None = None, aborted: list[int] | None = None
) -> DirectoryState:
    snapshot = ValidWriteIdList.of("t", high_watermark, opened or [], aborted or [])
    return directory_state(
        names(listing.replace(",", "")), ValidCompactorWriteIdList.from_snapshot(snapshot), ValidTxnList.parse("")
    )


@pytest.mark.parametrize(
    ("listing", "high_watermark", "opened", "aborted", "minor", "major"),
    [
        ("b20, d21_22, d23_24", 25, [], [], WORKING, WORKING),
        ("d1_2, d3_4", 4, [], [], WORKING, WORKING),
        ("b20, d21_22, d23_25, d26_27", 27, [23], [], REFUSED, WORKING),
        ("b20, d21_22, d23_25, d26_27", 27, [], [24, 25], WORKING, WORKING),
        # One insert and one delete delta are the pair of one minor compaction.
        ("d1_2, dd1_2", 2, [], [], REFUSED, WORKING),
        ("b1, d2_2, dd2_2", 2, [], [], REFUSED, WORKING),
        ("d1_1, d2_2, dd2_2", 2, [], [], WORKING, WORKING),
        ("dd1_1, dd2_2", 2, [], [], WORKING, WORKING),
        # Nothing to merge.
        ("b20", 20, [], [], REFUSED, REFUSED),
        ("d1_1", 1, [], [], REFUSED, REFUSED),
        ("", 0, [], [], REFUSED, REFUSED),
        # Nothing to merge, and something to remove.
        ("b20, d21_21, d22_22", 22, [], [21, 22], READY, READY),
        ("b19, b20", 20, [], [], READY, READY),
    ],
)
def test_what_a_worker_does(
    listing: str,
    high_watermark: int,
    opened: list[int],
    aborted: list[int],
    minor: CompactionState,
    major: CompactionState,
) -> None:
    state = found_by(listing, high_watermark, opened, aborted)
    assert next_state(MINOR, state) is minor
    assert next_state(MAJOR, state) is major
    assert next_state(REBALANCE, state) is WORKING


def test_original_files_are_worth_a_major_compaction() -> None:
    assert next_state(MAJOR, DirectoryState(None, ("000000_0",), (), (), ())) is WORKING
    assert next_state(MINOR, DirectoryState(None, ("000000_0",), (), (), ())) is REFUSED
