from __future__ import annotations

import pytest

from airflow_hivex.core.model.column_types import parse_type
from airflow_hivex.core.model.statistics import (
    ColumnStatistics,
    Statistics,
    StatisticsKind,
    is_exact,
    statistics_kind,
)
from airflow_hivex.core.model.write_ids import ValidWriteIdList


def write_ids(text: str) -> ValidWriteIdList:
    return ValidWriteIdList.parse(text)


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("boolean", StatisticsKind.BOOLEAN),
        ("decimal(10,2)", StatisticsKind.ORDERED),
        ("timestamp_ntz", StatisticsKind.ORDERED),
        ("VARCHAR(3)", StatisticsKind.TEXT),
        ("binary", StatisticsKind.BINARY),
        ("array<int>", None),
        ("map<string,int>", None),
        ("struct<a:string>", None),
    ],
)
def test_kind_follows_from_the_type(type: str, kind: StatisticsKind | None) -> None:
    assert statistics_kind(parse_type(type)) is kind


@pytest.mark.parametrize(
    ("then", "now", "exact"),
    [
        ("d.t:5:9223372036854775807::", "d.t:5:9223372036854775807::", True),
        ("d.t:5:9223372036854775807::", "d.t:6:9223372036854775807::", False),
        ("d.t:5:9223372036854775807::", "d.t:6:9223372036854775807::6", True),
        ("d.t:5:5:5:", "d.t:5:9223372036854775807::5", True),
        ("d.t:5:5:5:", "d.t:5:9223372036854775807::", False),
    ],
)
def test_statistics_hold_as_long_as_the_same_writes_are_seen(then: str, now: str, exact: bool) -> None:
    assert is_exact(then, write_ids(now)) is exact


def test_without_transactions_nothing_is_certain() -> None:
    assert not is_exact(None, None)
    assert not is_exact(None, write_ids("d.t:5:9223372036854775807::"))


def test_sizes_alone_keep_the_rows_of_the_same_snapshot_and_all_columns() -> None:
    column = ColumnStatistics(0, 3)
    counted = Statistics(7, 1, 100, "d.t:5:9223372036854775807::", 1, {"a": column})
    same = Statistics(None, 1, 100, "d.t:5:9223372036854775807::", 2, {"b": column})
    later = Statistics(None, 2, 200, "d.t:6:9223372036854775807::", 3)
    assert same.after(counted).num_rows == 7
    assert set(same.after(counted).columns) == {"a", "b"}
    assert later.after(counted).num_rows is None
    assert Statistics(None, 2, 200).after(Statistics(7, 1, 100)).num_rows is None


def test_column_statistics_come_back_from_json() -> None:
    column = ColumnStatistics(2, 5, "1", "9", valid_write_ids="d.t:5:9223372036854775807::", computed_ms=3)
    assert ColumnStatistics.from_json(column.to_json()) == column
