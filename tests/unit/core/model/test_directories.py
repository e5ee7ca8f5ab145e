from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidObjectError, NotEnoughHistoryError
from airflow_hivex.core.model.directories import (
    NO_BUCKET,
    AcidDirectory,
    DirectoryKind,
    DirectoryState,
    base_name,
    bucket_number,
    delete_delta_name,
    delta_name,
    directory_state,
    parse_directory,
)
from airflow_hivex.core.model.write_ids import MAX_ID, ValidCompactorWriteIdList, ValidTxnList, ValidWriteIdList

EVERY_TXN = ValidTxnList.parse("")


def long(name: str) -> str:
    """The name that a shortened one of the worked examples stands for: ``dd1_5v40``, ``b25``, ``d5_5_0``."""
    found = re.fullmatch(r"(b|d|dd)(\d+)(?:_(\d+))?(?:_(\d+))?(?:v(\d+))?", name)
    if not found:
        return name
    kind, first, second, statement, visibility = found.groups()
    txn_id = int(visibility or 0)
    if kind == "b":
        return base_name(int(first), txn_id)
    named = delta_name if kind == "d" else delete_delta_name
    return named(int(first), int(second), None if statement is None else int(statement), txn_id)


def names(text: str) -> list[str]:
    return [long(name) for name in text.split()]


def snapshot(high_watermark: int, *, o: tuple[int, ...] = (), a: tuple[int, ...] = ()) -> ValidWriteIdList:
    return ValidWriteIdList.of("default.t", high_watermark, o, a)


def compactor(high_watermark: int, *, a: tuple[int, ...] = ()) -> ValidCompactorWriteIdList:
    return ValidCompactorWriteIdList.of("default.t", high_watermark, (), a)


# Source: docs/reference/directories.md, "Directories of a snapshot". Each one is:
# listing, snapshot, transactions, base, deltas, obsolete, aborted.
EXAMPLES = [
    (1, "b10 d11_11_0 d12_12_0", snapshot(12), EVERY_TXN, "b10", "d11_11_0 d12_12_0", "", ""),
    (2, "b10 d11_11_0 d12_12_0", snapshot(12, o=(11,)), EVERY_TXN, "b10", "d12_12_0", "", ""),
    (3, "b10 d11_11_0 d12_12_0", snapshot(12, a=(11,)), EVERY_TXN, "b10", "d12_12_0", "", "d11_11_0"),
    (4, "d1_1_0 d2_2_0 b2v20", snapshot(2), EVERY_TXN, "b2v20", "", "d1_1_0 d2_2_0", ""),
    (5, "d1_1_0 d2_2_0 b2v20", snapshot(2), ValidTxnList.of(30, [20]), None, "d1_1_0 d2_2_0", "", ""),
    (6, "d1_1_0 d2_2_0 b2v20", snapshot(2), ValidTxnList.of(30, [], [20]), None, "d1_1_0 d2_2_0", "", "b2v20"),
    (8, "b3 b5v30 d4_4_0 d5_5_0", snapshot(5, o=(4,)), EVERY_TXN, "b3", "d5_5_0", "", ""),
    (9, "b4 d1_1_0 d5_5_0", snapshot(5, a=(4,)), EVERY_TXN, None, "d1_1_0 d5_5_0", "", "b4"),
    (10, "b4 d1_1_0 d3_3_0", snapshot(5, o=(4,)), EVERY_TXN, None, "d1_1_0 d3_3_0", "", ""),
    (
        11,
        "d1_5v40 d1_1_0 d2_2_0 d5_5_0 dd1_5v40 dd2_2_0 d6_6_0",
        snapshot(6),
        EVERY_TXN,
        None,
        "dd1_5v40 d1_5v40 d6_6_0",
        "d1_1_0 dd2_2_0 d2_2_0 d5_5_0",
        "",
    ),
    (12, "d7_7_0 d7_7_1 dd7_7_0", snapshot(7), EVERY_TXN, None, "dd7_7_0 d7_7_0 d7_7_1", "", ""),
    (13, "b25 b25v26 d21_22", snapshot(25), EVERY_TXN, "b25v26", "", "b25 d21_22", ""),
    (14, "d1_10", snapshot(10, a=(2, 3)), EVERY_TXN, None, "d1_10", "", ""),
    (15, "d1_2", snapshot(10, a=(1, 2)), EVERY_TXN, None, "", "", "d1_2"),
    (16, "000000_0 000001_0 b2 d1_1_0", snapshot(2), EVERY_TXN, "b2", "", "000000_0 000001_0 d1_1_0", ""),
    (17, "000000_0 d1_1_0", snapshot(1), EVERY_TXN, None, "d1_1_0", "", ""),
    (18, "d11_11_0 d12_12_0", snapshot(11), EVERY_TXN, None, "d11_11_0", "", ""),
    (19, "b20 d21_22 d23_25 d26_27", compactor(22), EVERY_TXN, "b20", "d21_22", "", ""),
    (
        20,
        "b20 d21_22 d23_25 d26_27",
        compactor(27, a=(24, 25)),
        EVERY_TXN,
        "b20",
        "d21_22 d23_25 d26_27",
        "",
        "",
    ),
    (21, "d1_3v9 d2_6v12 d4_4_0", snapshot(6), EVERY_TXN, None, "d1_3v9 d2_6v12", "d4_4_0", ""),
    (22, "b5v30 b3v10", snapshot(5), EVERY_TXN, "b5v30", "", "b3v10", ""),
    (23, "b50 d40_60 d52_55 d60_60", snapshot(100), EVERY_TXN, "b50", "d40_60", "d52_55 d60_60", ""),
    (24, "b49 d50_105 d90_120", snapshot(100), EVERY_TXN, "b49", "d50_105", "", ""),
]


@pytest.mark.parametrize(
    ("listing", "write_ids", "txns", "base", "deltas", "obsolete", "aborted"),
    [pytest.param(*example[1:], id=str(example[0])) for example in EXAMPLES],
)
def test_worked_example(
    listing: str,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    base: str | None,
    deltas: str,
    obsolete: str,
    aborted: str,
) -> None:
    state = directory_state(names(listing), write_ids, txns)
    assert state.base == (long(base) if base else None)
    assert list(state.deltas) == names(deltas)
    assert list(state.obsolete) == names(obsolete)
    assert list(state.aborted) == names(aborted)


def test_worked_example_7_has_not_enough_history() -> None:
    with pytest.raises(NotEnoughHistoryError) as caught:
        directory_state(names("b5v30 d6_6_0"), snapshot(6, o=(3,)), EVERY_TXN)
    assert str(caught.value).startswith(
        "Not enough history available for (6,3). Oldest available base: base_0000005_v0000030"
    )


def test_originals_are_read_without_a_base_only() -> None:
    listing = ["000000_0", "subdirectory", *names("d1_1_0")]
    assert directory_state(listing, snapshot(1), EVERY_TXN).originals == ("000000_0", "subdirectory")
    assert directory_state([*listing, *names("b1")], snapshot(1), EVERY_TXN).originals == ()


def test_originals_are_sorted_whatever_the_order_of_the_listing() -> None:
    listing = ["a/000001_0", "000001_0", "000000_0_copy_1", "000000_0"]
    assert directory_state(listing, snapshot(1), EVERY_TXN).originals == tuple(sorted(listing))


def test_a_mix_of_aborted_and_other_writes_is_remembered() -> None:
    state = directory_state(names("d1_10"), snapshot(10, a=(2, 3)), EVERY_TXN)
    assert state.has_uncompacted_aborts
    assert list(state.partial) == names("d1_10")
    state = directory_state(names("d1_1_0 d2_2_0"), snapshot(2, a=(1,)), EVERY_TXN)
    assert not state.has_uncompacted_aborts


def test_a_delta_beyond_the_high_watermark_needs_a_filter() -> None:
    state = directory_state(names("b49 d50_105 d50_60"), snapshot(100), EVERY_TXN)
    assert list(state.partial) == names("d50_105")


def test_a_base_that_metadata_calls_compacted_needs_every_write_below() -> None:
    assert directory_state(names("b5"), snapshot(5, o=(3,)), EVERY_TXN).base == "base_0000005"
    with pytest.raises(NotEnoughHistoryError):
        directory_state(names("b5"), snapshot(5, o=(3,)), EVERY_TXN, compacted_bases=["base_0000005"])
    aborted = snapshot(5, a=(5,))
    assert directory_state(names("b5"), aborted, EVERY_TXN).aborted == ("base_0000005",)
    assert directory_state(names("b5"), aborted, EVERY_TXN, compacted_bases=["base_0000005"]).base == "base_0000005"


def test_the_first_compaction_of_a_converted_table_is_always_usable() -> None:
    listing = ["base_-9223372036854775808_v0000003", "000000_0", *names("d1_1_0 d2_2_0")]
    state = directory_state(listing, snapshot(2, o=(1,)), EVERY_TXN)
    assert state.base == listing[0]
    assert list(state.deltas) == names("d2_2_0")
    assert state.obsolete == ("000000_0",)


def test_an_unusable_overwrite_is_no_error() -> None:
    state = directory_state(names("b7 d1_1_0"), snapshot(5), EVERY_TXN)
    assert (state.base, list(state.deltas), state.obsolete) == (None, names("d1_1_0"), ())


def test_the_oldest_compacted_base_is_named() -> None:
    with pytest.raises(NotEnoughHistoryError, match=r"\(9,2\)\. Oldest available base: base_0000005_v0000030"):
        directory_state(names("b3 b8v40 b5v30"), snapshot(9, o=(2, 3)), EVERY_TXN)


def test_two_compactions_of_one_write_id_leave_the_later_one() -> None:
    for listing in ("b5v30 b5v40", "b5v40 b5v30"):
        state = directory_state(names(listing), snapshot(5), EVERY_TXN)
        assert (state.base, list(state.obsolete)) == (long("b5v40"), names("b5v30"))


def test_deltas_of_an_unseen_compaction_do_not_hide_their_sources() -> None:
    listing = names("d1_1_0 d2_2_0 d1_2v20 dd1_2v20")
    state = directory_state(listing, snapshot(2), ValidTxnList.of(30, [20]))
    assert (list(state.deltas), state.obsolete, state.aborted) == (names("d1_1_0 d2_2_0"), (), ())
    state = directory_state(listing, snapshot(2), ValidTxnList.of(19))
    assert list(state.deltas) == names("d1_1_0 d2_2_0")


def test_statements_of_a_write_id_already_in_a_minor_compaction_are_obsolete() -> None:
    state = directory_state(names("d7_8v9 dd7_8v9 d8_8_0 d8_8_1"), snapshot(8), EVERY_TXN)
    assert list(state.deltas) == names("dd7_8v9 d7_8v9")
    assert list(state.obsolete) == names("d8_8_0 d8_8_1")


@pytest.mark.parametrize("name", ["_orc_acid_version", "_tmp.base_0000005", ".hive-staging_1", ".base_0000009.crc"])
def test_hidden_names_do_not_count(name: str) -> None:
    state = directory_state([name, "base_0000005"], snapshot(9), EVERY_TXN)
    assert state == DirectoryState("base_0000005", (), (), (), ())


def test_unpadded_names_are_read_as_they_are() -> None:
    listing = ["base_5", "base_10", "base_49", "delta_025_025", "delta_029_029", "delta_025_030", "delta_050_105"]
    state = directory_state([*listing, "delta_90_120"], snapshot(100), EVERY_TXN)
    assert (state.base, state.deltas) == ("base_49", ("delta_050_105",))
    assert state.obsolete == ("base_5", "base_10", "delta_025_030", "delta_025_025", "delta_029_029")


def test_parsed_directories_may_be_given() -> None:
    listing = names("b10 d11_11_0 d12_12_0 d9_9_0")
    parsed = [directory for name in listing if (directory := parse_directory(name))]
    assert directory_state(parsed, snapshot(12), EVERY_TXN) == directory_state(listing, snapshot(12), EVERY_TXN)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base_5", (DirectoryKind.BASE, 0, 5, None, 0)),
        ("base_0000005_v0000000", (DirectoryKind.BASE, 0, 5, None, 0)),
        ("base_12345678901_v123456789", (DirectoryKind.BASE, 0, 12345678901, None, 123456789)),
        ("delta_025_030", (DirectoryKind.DELTA, 25, 30, None, 0)),
        ("delta_0000005_0000005_0012", (DirectoryKind.DELTA, 5, 5, 12, 0)),
        ("delete_delta_0000001_0000005_v0000040", (DirectoryKind.DELETE_DELTA, 1, 5, None, 40)),
    ],
)
def test_parse_directory(name: str, expected: tuple[DirectoryKind, int, int, int | None, int]) -> None:
    assert parse_directory(name) == AcidDirectory(name, *expected)


@pytest.mark.parametrize(
    "name",
    [
        "base_",
        "base_x",
        "base_5_",
        "delta_5",
        "delta_5_4",
        "delta_1_2_3_4",
        "delta_1_2_v",
        "xdelta_1_2",
        "000000_0",
        "",
    ],
)
def test_other_names_are_no_acid_directories(name: str) -> None:
    assert parse_directory(name) is None


def test_names_are_padded_as_hive_pads_them() -> None:
    assert base_name(5) == "base_0000005"
    assert base_name(5, 30) == "base_0000005_v0000030"
    assert base_name(123456789) == "base_123456789"
    assert delta_name(5, 5, 0) == "delta_0000005_0000005_0000"
    assert delete_delta_name(1, 5, visibility_txn_id=40) == "delete_delta_0000001_0000005_v0000040"


@pytest.mark.parametrize("arguments", [(5, 4), (-1, 4), (5, 5, -1), (5, 5, 4096)])
def test_impossible_delta_names_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(InvalidObjectError):
        delta_name(*arguments)


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        ("bucket_00012", 12),
        ("bucket_00012_0", 12),
        ("bucket_123456", 123456),
        ("000003_0", 3),
        ("3_0", 3),
        ("000003_0_copy_7", 3),
        ("bucket_00012_flush_length", NO_BUCKET),
        ("bucket_", NO_BUCKET),
        ("part-00000", NO_BUCKET),
        ("_orc_acid_version", NO_BUCKET),
    ],
)
def test_bucket_number(name: str, bucket: int) -> None:
    assert bucket_number(name) == bucket


write_id = st.integers(1, 9)
kinds = st.sampled_from([delta_name, delete_delta_name])
directories = st.one_of(
    st.builds(lambda kind, each, statement: kind(each, each, statement), kinds, write_id, st.integers(0, 2)),
    st.builds(
        lambda kind, ids, txn: kind(min(ids), max(ids), None, txn),
        kinds,
        st.tuples(write_id, write_id),
        st.integers(0, 6),
    ),
    st.builds(base_name, write_id, st.integers(0, 6)),
    st.sampled_from(["000000_0", "000001_0_copy_1"]),
)
readers = st.builds(
    lambda hwm, opened, aborted: ValidWriteIdList.of(
        "d.t", hwm, {each for each in opened if each <= hwm}, {each for each in aborted - opened if each <= hwm}
    ),
    st.integers(0, 9),
    st.frozensets(write_id, max_size=3),
    st.frozensets(write_id, max_size=3),
)
seen_txns = st.builds(
    lambda opened, aborted: ValidTxnList.of(6, opened, aborted - opened),
    st.frozensets(st.integers(1, 6), max_size=2),
    st.frozensets(st.integers(1, 6), max_size=2),
)


def outcome(listing: list[str], write_ids: ValidWriteIdList, txns: ValidTxnList) -> object:
    try:
        state = directory_state(listing, write_ids, txns)
    except NotEnoughHistoryError as error:
        return str(error)
    return state.base, state.deltas, set(state.obsolete), set(state.aborted), set(state.originals), state.partial


@given(
    st.lists(directories, unique=True).flatmap(lambda listing: st.tuples(st.just(listing), st.permutations(listing))),
    readers,
    seen_txns,
)
def test_the_order_of_the_listing_does_not_matter(
    listings: tuple[list[str], list[str]], write_ids: ValidWriteIdList, txns: ValidTxnList
) -> None:
    assert outcome(listings[0], write_ids, txns) == outcome(listings[1], write_ids, txns)


@given(st.lists(directories, unique=True), readers, seen_txns)
def test_no_write_that_the_snapshot_sees_is_lost(
    listing: list[str], write_ids: ValidWriteIdList, txns: ValidTxnList
) -> None:
    try:
        state = directory_state(listing, write_ids, txns)
    except NotEnoughHistoryError:
        return
    taken = [parsed for name in (state.base, *state.deltas) if name and (parsed := parse_directory(name))]
    covered = {each for directory in taken for each in range(directory.min_write_id, directory.max_write_id + 1)}
    for name in listing:
        delta = parse_directory(name)
        if delta is None or delta.kind is DirectoryKind.BASE:
            continue
        if not delta.visibility_txn_id or txns.is_valid(delta.visibility_txn_id):
            ids = range(delta.min_write_id, delta.max_write_id + 1)
            assert {each for each in ids if write_ids.is_valid(each)} <= covered


@given(st.lists(directories, unique=True), readers, seen_txns)
def test_every_name_ends_in_one_place_at_most(
    listing: list[str], write_ids: ValidWriteIdList, txns: ValidTxnList
) -> None:
    try:
        state = directory_state(listing, write_ids, txns)
    except NotEnoughHistoryError:
        return
    placed = [*state.originals, *state.deltas, *state.obsolete, *state.aborted, *([state.base] if state.base else [])]
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(listing)
    assert set(state.partial) <= set(state.deltas)


def test_a_table_never_written_reads_its_original_files_only() -> None:
    state = directory_state(["000000_0", *names("d1_1_0")], ValidWriteIdList.parse(f"d.t:0:{MAX_ID}::"), EVERY_TXN)
    assert (state.originals, state.deltas) == (("000000_0",), ())
