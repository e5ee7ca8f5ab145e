"""What a cleaner may delete: rules without I/O."""

from __future__ import annotations

import pytest

from airflow_hivex.core.model.cleaning import (
    Aborted,
    View,
    capped,
    forbids_cleanup,
    is_settled,
    obsolete,
    settled_below,
)
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList

NAMES = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", "base_0000002_v0000020", "base_0000003")


def view(txns: ValidTxnList, highest: int, *, last: int = 3) -> View:
    return View(txns, ValidWriteIdList.of("default.t", last), highest)


@pytest.mark.parametrize(
    ("txns", "highest", "gone"),
    [
        # What a compaction covers; a later overwrite does not concern it.
        (ValidTxnList.of(30), 2, {NAMES[0], NAMES[1]}),
        (ValidTxnList.of(30), 3, {NAMES[0], NAMES[1], NAMES[2]}),
        # A reader from before its commit.
        (ValidTxnList.of(19), 2, set()),
        (ValidTxnList.of(30, open_ids=[20]), 2, set()),
        # A reader that must not see all of it.
        (ValidTxnList.of(30), 1, set()),
    ],
)
def test_obsolete_is_what_the_view_does_not_read(txns: ValidTxnList, highest: int, gone: set[str]) -> None:
    assert obsolete(NAMES, view(txns, highest)) == gone


def test_minor_compaction_below_a_later_major_one_is_cleaned_first() -> None:
    names = [*NAMES[:2], "delta_0000001_0000002_v0000010", "base_0000003_v0000020"]
    assert obsolete(names, view(ValidTxnList.of(30), 2)) == set(NAMES[:2])


def test_list_is_cut() -> None:
    assert capped(ValidTxnList.of(9, [3, 8], [2, 7]), 5) == ValidTxnList.of(5, [3], [2])
    assert capped(ValidTxnList.of(9, [3]), 12) == ValidTxnList.of(9, [3])
    assert settled_below(ValidWriteIdList.of("t", 9, [4], [2])) == 3
    assert settled_below(ValidWriteIdList.of("t", 9, aborted_ids=[2])) == 9


@pytest.mark.parametrize(
    ("name", "is_left"),
    [
        ("delta_0000005_0000005_0000", True),
        ("delete_delta_0000005_0000005_0001", True),
        ("base_0000005", True),
        ("base_0000006", False),
        # A streaming batch, in which one of the transactions was aborted.
        ("delta_0000004_0000008", True),
        ("delta_0000006_0000008", False),
        ("base_0000004_v0000012", True),
        ("delta_0000005_0000005_v0000013", False),
        ("000000_0", False),
    ],
)
def test_leftovers_are_those_of_aborted_transactions(name: str, is_left: bool) -> None:
    aborted = Aborted(frozenset({11, 12}), frozenset({5}), frozenset({12}))
    assert (aborted.leftover(name) is not None) is is_left


def test_staging_directories_are_known_by_their_write_id_or_compaction() -> None:
    aborted = Aborted(frozenset({11, 12}), frozenset({5}), frozenset({12}))
    names = ("_staging_5_0", "_staging_55_0", "_staging_5", "_staging_x_0", "_staging_v12", "_staging_v11")
    assert [name for name in names if aborted.is_staging(name)] == ["_staging_5_0", "_staging_v12"]


def test_batch_is_settled_when_none_of_its_transactions_is_open() -> None:
    batch = parse_directory("delta_0000004_0000008")
    assert batch is not None
    assert is_settled(batch, ValidWriteIdList.of("t", 9, [9], [5]))
    assert not is_settled(batch, ValidWriteIdList.of("t", 9, [8], [5]))
    assert not is_settled(batch, ValidWriteIdList.of("t", 7))


def test_no_cleanup_is_a_property_in_any_case() -> None:
    assert forbids_cleanup([("NO_CLEANUP", "TRUE")], [])
    assert forbids_cleanup([], [("no_cleanup", "true")])
    assert not forbids_cleanup([("no_cleanup", "false")])
