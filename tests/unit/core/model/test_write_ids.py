from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hivex.core.errors import InvalidWriteIdListError
from airflow_hivex.core.model.write_ids import (
    MAX_ID,
    RangeResponse,
    ValidCleanerWriteIdList,
    ValidCompactorWriteIdList,
    ValidTxnList,
    ValidTxnWriteIdList,
    ValidWriteIdList,
    compare,
    equivalent,
)

ALL, SOME, NONE = RangeResponse.ALL, RangeResponse.SOME, RangeResponse.NONE


def short(text: str, *, open: tuple[int, ...] = ()) -> ValidWriteIdList:
    """A list from the notation of the design documents: ``12:7,8``; exceptions are aborted unless open."""
    high_watermark, _, exceptions = text.partition(":")
    ids = {int(each) for each in exceptions.split(",") if each}
    return ValidWriteIdList.of("default.t", int(high_watermark), open, ids - set(open))


@pytest.mark.parametrize(
    "text",
    [
        "1:9223372036854775807::",
        "5:4:2,4:",
        "11:4:4,6,10:2,8",
        "10:4:4-8,10:",
        "10:4:4,5,6,7:",
        "2000:100:100-1099:",
        "20:4:4-8:9-13",
    ],
)
def test_transaction_list_is_written_as_it_was_read(text: str) -> None:
    assert str(ValidTxnList.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "default.t:11:4:4,6,10:2,8",
        "default.t:10:4:4,5,6,7,8,9:",
        "default.t:23:9223372036854775807::",
        "default.t:8:9223372036854775807::7",
        "null:5:9223372036854775807::",
    ],
)
def test_write_id_list_is_written_as_it_was_read(text: str) -> None:
    assert str(ValidWriteIdList.parse(text)) == text


def test_runs_of_five_are_written_as_ranges_in_transaction_lists_only() -> None:
    assert str(ValidTxnList.of(10, open_ids=[4, 5, 6, 7, 8, 10])) == "10:4:4-8,10:"
    assert str(ValidTxnList.of(10, open_ids=[4, 5, 6, 7])) == "10:4:4,5,6,7:"
    assert str(ValidWriteIdList.of("d.t", 10, open_ids=[4, 5, 6, 7, 8, 10])) == "d.t:10:4:4,5,6,7,8,10:"


def test_an_aborted_id_ends_a_run_of_open_ids() -> None:
    assert str(ValidTxnList.of(20, open_ids=[1, 2, 3, 5, 6, 7], aborted_ids=[4])) == "20:1:1,2,3,5,6,7:4"


@pytest.mark.parametrize("text", ["tbl:4:9223372036854775807", "tbl:4:9223372036854775807:"])
def test_missing_tail_fields_are_empty_lists(text: str) -> None:
    ids = ValidWriteIdList.parse(text)
    assert (ids.high_watermark, ids.min_open, ids.exceptions) == (4, None, ())
    assert str(ids) == "tbl:4:9223372036854775807::"


def test_min_open_is_read_without_an_open_list() -> None:
    ids = ValidWriteIdList.parse("tbl:100:4:4")
    assert (ids.min_open, ids.open_ids, ids.aborted_ids) == (4, (4,), ())


@pytest.mark.parametrize("text", ["", None])
def test_empty_text_sees_everything(text: str | None) -> None:
    assert ValidTxnList.parse(text).is_valid(MAX_ID)
    assert str(ValidTxnList.parse(text)) == f"{MAX_ID}:{MAX_ID}::"
    ids = ValidWriteIdList.parse(text)
    assert ids.is_range_valid(1, MAX_ID) is ALL
    assert str(ids) == f"null:{MAX_ID}:{MAX_ID}::"
    assert str(ValidCompactorWriteIdList.parse(text)) == f"null:{MAX_ID}:{MAX_ID}::"


@pytest.mark.parametrize("word", ["null", "NULL", "Null"])
def test_the_word_null_is_no_table_name(word: str) -> None:
    assert ValidWriteIdList.parse(f"{word}:5:{MAX_ID}::").table is None


def test_ids_are_sorted_after_reading() -> None:
    ids = ValidWriteIdList.parse("t:20:4:10,4,6:8,2")
    assert ids.exceptions == (2, 4, 6, 8, 10)
    assert [each for each in ids.exceptions if ids.is_aborted(each)] == [2, 8]


def test_ranges_are_read_in_the_aborted_list_too() -> None:
    assert ValidTxnList.parse(f"20:{MAX_ID}::3-9,11").aborted_ids == (3, 4, 5, 6, 7, 8, 9, 11)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "5",
        "a:5::",
        "5:",
        ":5::",
        "-1:5::",
        "5:4:4:2:1",
        "5:4:4,:",
        "5:4:,4:",
        "5:4:4 ,5:",
        "5:4:8-4:",
        "5:4:1-9223372036854775807:",
        "5:4:4-:",
        "5:4:4:4",
        "9223372036854775808:4::",
        f"5:4:{'9' * 5000}:",
        "5:4:٤:",
        "5:4:1_0:",
    ],
)
def test_damaged_transaction_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidWriteIdListError):
        ValidTxnList.parse(text)


@pytest.mark.parametrize(
    "text", ["t", "t:5", ":5:5::", "t:5:4:4-8:", "t:x:4::", "t:5:4:4:4", "t:5:4:4:2:1", "5:4:4:2,x"]
)
def test_damaged_write_id_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidWriteIdListError):
        ValidWriteIdList.parse(text)


def test_an_id_cannot_be_open_and_aborted() -> None:
    with pytest.raises(InvalidWriteIdListError, match="7 is both open and aborted"):
        ValidWriteIdList.of("d.t", 10, open_ids=[7], aborted_ids=[7, 8])


def test_min_open_of_a_made_list_is_its_lowest_open_id() -> None:
    assert ValidTxnList.of(10, open_ids=[6, 4], aborted_ids=[2]).min_open == 4
    assert ValidTxnList.of(10, aborted_ids=[2]).min_open is None


def test_committed_ids_are_valid() -> None:
    ids = ValidTxnList.parse("11:4:4,6,10:2,8")
    assert [each for each in range(1, 14) if ids.is_valid(each)] == [1, 3, 5, 7, 9, 11]
    assert [each for each in range(1, 14) if ids.is_aborted(each)] == [2, 8]


@pytest.mark.parametrize(
    ("exceptions", "high_watermark", "answer"),
    [
        ("3,4", 2, NONE),
        ("13,14", 12, ALL),
        ("", 5, NONE),
        ("", 15, ALL),
        ("3,6", 3, NONE),
        ("3,6", 20, ALL),
        ("7,8,9", 15, NONE),
        ("8", 15, SOME),
        ("", 8, SOME),
        ("7,8", 8, NONE),
        ("10", 9, ALL),
        ("20", 8, ALL),  # Hive's quirk: the smallest exception is above the range
    ],
)
def test_range_from_seven_to_nine(exceptions: str, high_watermark: int, answer: RangeResponse) -> None:
    assert ValidWriteIdList.parse(f"t:{high_watermark}:{MAX_ID}:{exceptions}:").is_range_valid(7, 9) is answer
    assert ValidTxnList.parse(f"{high_watermark}:{MAX_ID}:{exceptions}:").is_range_valid(7, 9) is answer


@pytest.mark.parametrize(
    ("lo", "hi", "answer"),
    [(1, 3, NONE), (9, 10, NONE), (12, 20, NONE), (6, 7, ALL), (5, 8, ALL), (4, 6, SOME), (6, 13, SOME)],
)
def test_range_aborted(lo: int, hi: int, answer: RangeResponse) -> None:
    text = "t:11:4:4:5,6,7,8"
    for kind in (ValidWriteIdList, ValidCleanerWriteIdList):
        assert kind.parse(text).is_range_aborted(lo, hi) is answer
    assert ValidCompactorWriteIdList.parse("t:11:4::5,6,7,8").is_range_aborted(lo, hi) is answer


def test_compacted_base_is_usable_below_the_lowest_open_id_only() -> None:
    ids = ValidWriteIdList.parse("t:10:6:6:2")
    assert [each for each in range(1, 13) if ids.is_base_valid(each)] == [1, 2, 3, 4, 5]
    assert ValidWriteIdList.parse(f"t:10:{MAX_ID}::").is_base_valid(10)
    assert not ValidWriteIdList.parse(f"t:10:{MAX_ID}::").is_base_valid(11)


@pytest.mark.parametrize(
    ("aborted", "high_watermark", "answer"),
    [
        ("3,4", 2, NONE),
        ("13,14", 12, ALL),
        ("", 5, NONE),
        ("", 15, ALL),
        ("3,6", 3, NONE),
        ("8", 7, NONE),
        ("8,11,17,29", 15, ALL),
        ("8", 9, ALL),
    ],
)
def test_compactor_takes_a_range_whole_or_not_at_all(aborted: str, high_watermark: int, answer: RangeResponse) -> None:
    ids = ValidCompactorWriteIdList.parse(f"t:{high_watermark}:{MAX_ID}::{aborted}")
    assert ids.is_range_valid(7, 9) is answer


def test_compactor_forgets_exceptions_above_its_high_watermark() -> None:
    ids = ValidCompactorWriteIdList.of("t", 15, aborted_ids=[8, 11, 17, 29])
    assert ids.exceptions == (8, 11)
    assert str(ValidCompactorWriteIdList.of("t", 8, aborted_ids=[7, 9, 10, MAX_ID])) == f"t:8:{MAX_ID}::7"


def test_compactor_list_keeps_the_min_open_of_its_text() -> None:
    ids = ValidCompactorWriteIdList.parse("t:5:4::1,2,3")
    assert (ids.high_watermark, ids.min_open, ids.exceptions) == (5, 4, (1, 2, 3))


def test_compactor_stays_below_the_lowest_open_id() -> None:
    snapshot = ValidWriteIdList.parse("d.t:27:23:23,25:20,24")
    for ids in (ValidCompactorWriteIdList.from_snapshot(snapshot), ValidCompactorWriteIdList.parse(str(snapshot))):
        assert (ids.high_watermark, ids.open_ids, ids.aborted_ids, ids.table) == (22, (), (20,), "d.t")
        assert str(ids) == "d.t:22:23::20"
    assert str(ValidCompactorWriteIdList.of("d.t", 27, open_ids=[23])) == f"d.t:22:{MAX_ID}::"


def test_cleaner_sees_nothing_above_what_was_compacted() -> None:
    snapshot = ValidWriteIdList.parse("t:20:15:15:4,12")
    ids = ValidCleanerWriteIdList.from_snapshot(snapshot, 10)
    assert (ids.high_watermark, ids.min_open) == (10, 11)
    assert ids.is_range_valid(5, 10) is ALL
    assert ids.is_range_valid(5, 11) is NONE
    assert ids.is_range_valid(3, 5) is SOME
    assert ids.is_aborted(4)
    assert not ids.is_aborted(12)
    assert ValidCleanerWriteIdList.from_snapshot(snapshot, 30).high_watermark == 20
    assert ValidCleanerWriteIdList.from_snapshot(ValidWriteIdList.of("t", 20, [5]), 10).min_open == 5


def test_lists_of_several_tables_are_found_by_name() -> None:
    text = "42$default.t:5:9223372036854775807::$default.u:2:2:2:"
    ids = ValidTxnWriteIdList.parse(text)
    assert (ids.txn_id, str(ids)) == (42, text)
    found = ids.get("Default.U")
    assert found is not None
    assert found.open_ids == (2,)
    assert ids.get("default.v") is None
    assert ValidTxnWriteIdList.parse("42").lists == {}


@pytest.mark.parametrize("text", ["", "x$d.t:5:5::", "42$", "42$d.t:5", "42$null:5:5::", "42$d.t:5:5::$D.T:6:6::"])
def test_damaged_lists_of_several_tables_are_refused(text: str) -> None:
    with pytest.raises(InvalidWriteIdListError):
        ValidTxnWriteIdList.parse(text)


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ("1:", "1:", 0),
        ("12:7,8", "12:7,8", 0),
        ("12:7,8", "12:7", -1),
        ("13:7,8,12", "12:7", -1),
        ("13:7,8,12", "12:7,8", -1),
        ("12:7,8,12", "11:7,8", 0),
        ("12:7,8,12", "12:7,12", -1),
        ("13:7,8,13", "12:7,8", 0),
        ("14:7,8,13,14", "12:7,8", 0),
        ("14:7,8,14", "12:7,8", 1),
        ("14:7,8,12", "13:7,8,12", 1),
        ("11:7,8", "10:7,8", 1),
        ("8:", "5:", 1),
        ("0:", "5:1,2,3,4,5", 0),
        ("15:7,8,13,15", "12:7,8", 1),  # 14 is committed in a only
    ],
)
def test_compare(a: str, b: str, answer: int) -> None:
    assert compare(short(a), short(b)) == answer
    assert compare(short(b), short(a)) == -answer
    assert equivalent(short(a), short(b)) is (answer == 0)


def test_open_or_aborted_makes_no_difference_to_the_comparison() -> None:
    assert compare(short("12:7,8", open=(7,)), short("12:7,8", open=(7, 8))) == 0


def test_lists_of_different_tables_are_never_equivalent() -> None:
    a, b = ValidWriteIdList.of("d.a", 5), ValidWriteIdList.of("d.b", 5)
    assert compare(a, b) < 0 < compare(b, a)
    assert equivalent(a, ValidWriteIdList.of("D.A", 5))
    assert not equivalent(a, ValidWriteIdList.of(None, 5))


snapshots = st.integers(0, 12).flatmap(
    lambda hwm: st.dictionaries(st.integers(1, max(hwm, 1)), st.booleans()).map(
        lambda bits: ValidWriteIdList.of(
            "d.t",
            hwm,
            [each for each, aborted in bits.items() if not aborted and each <= hwm],
            [each for each, aborted in bits.items() if aborted and each <= hwm],
        )
    )
)


@given(snapshots, snapshots)
def test_equivalent_lists_see_the_same_ids(a: ValidWriteIdList, b: ValidWriteIdList) -> None:
    seen = [{each for each in range(1, 14) if ids.is_valid(each)} for ids in (a, b)]
    assert equivalent(a, b) is (seen[0] == seen[1])
    assert compare(a, b) == -compare(b, a)
    if seen[0] > seen[1]:
        assert compare(a, b) == 1


@given(snapshots, st.integers(1, 14), st.integers(0, 5))
def test_ranges_agree_with_their_ids(ids: ValidWriteIdList, lo: int, length: int) -> None:
    hi = lo + length
    for answer, holds in ((ids.is_range_valid, ids.is_valid), (ids.is_range_aborted, ids.is_aborted)):
        count = sum(map(holds, range(lo, hi + 1)))
        assert answer(lo, hi) is (NONE if count == 0 else ALL if count == length + 1 else SOME)


@given(snapshots)
def test_text_and_pickle_bring_back_the_same_list(ids: ValidWriteIdList) -> None:
    assert ValidWriteIdList.parse(str(ids)) == ids
    assert pickle.loads(pickle.dumps(ids)) == ids
    txns = ValidTxnList.of(ids.high_watermark, ids.open_ids, ids.aborted_ids)
    assert ValidTxnList.parse(str(txns)) == txns
    assert hash(ValidTxnList.parse(str(txns))) == hash(txns)
