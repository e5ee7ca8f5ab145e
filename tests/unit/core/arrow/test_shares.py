"""The columns of a piece in shares."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from airflow_hivex.core.arrow import scanning
from airflow_hivex.core.arrow.files import Piece
from airflow_hivex.core.arrow.scanning import shares_of
from airflow_hivex.core.arrow.visible_rows import VisibleRows, numbered_keys
from airflow_hivex.core.model.objects import Column

COLUMNS = [Column(name, "int") for name in "abcde"]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (1, ["abcde"]),
        (scanning.VALUES // 5 - 1, ["abcde"]),
        (scanning.VALUES * 2 // 5, ["ace", "bd"]),
        (scanning.VALUES, ["a", "b", "c", "d", "e"]),
        (scanning.VALUES * 9, ["a", "b", "c", "d", "e"]),
    ],
)
def test_columns_of_many_rows_are_dealt_out(rows: int, names: list[str]) -> None:
    found = shares_of(Piece(0, rows, 0), None, COLUMNS)
    assert ["".join(column.name for column in each.columns) for each in found] == names
    assert [each.rows.add({}) for each in found] == [False] * (len(names) - 1) + [True]


def test_a_piece_without_columns_is_one_share() -> None:
    (only,) = shares_of(Piece(0, scanning.VALUES, 0), None, [])
    assert (only.columns, only.metadata, only.rows.add({})) == ([], (), True)


def test_a_name_with_a_point_keeps_a_piece_whole() -> None:
    assert len(shares_of(Piece(0, scanning.VALUES, 0), None, [*COLUMNS, Column("a.b", "int")])) == 1


def test_metadata_columns_are_read_once() -> None:
    deleted = {(1, 7): np.array([2])}
    unknown = VisibleRows(scanning.VALUES, None, deleted, None)
    first, *others = shares_of(Piece(0, scanning.VALUES, 0), unknown, COLUMNS)
    assert first.metadata == unknown.metadata
    assert not any(each.metadata for each in others)


def test_all_shares_leave_the_same_rows_out() -> None:
    known = VisibleRows(3, numbered_keys(1, 7, 0, 2), {(1, 7): np.array([1])}, None)
    (only,) = shares_of(Piece(0, 3, 0), known, COLUMNS)
    assert only.rows.stay({}).equals(pa.array([True, False, True]))
    assert only.rows.stay({}) is only.rows.stay({})
