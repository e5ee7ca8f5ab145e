from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ttypes

from tests import evidence
from tests.hive_endpoint import hive_client, partition, table
from tests.hive_metastore import hive_metastore
from tests.integration.core.thrift import hive_filters

RECORDED = Path(__file__).with_name("hive_filters_answers.json")
"""The answers of a real Hive Metastore 2.3."""


def recorded() -> list[tuple[str, str, list[str] | str]]:
    return [(of, text, answer) for of, text, answer in json.loads(RECORDED.read_text())]


def test_filters_leave_what_they_leave_in_hive(hive: Any, tmp_path: Path, counts: Any) -> None:
    hive_filters.make_tables(hive, tmp_path / "c1" / "d")
    answers = hive_filters.answers(hive)
    assert [each[:2] for each in answers] == [each[:2] for each in recorded()]
    differing = [
        (ours, theirs)
        for ours, theirs in zip(answers, recorded(), strict=True)
        # Hive refuses many conditions on numbers and dates that are decided here.
        if ours[2] != theirs[2] and theirs[2] != "MetaException"
    ]
    assert differing == []
    refused = {text for _, text, answer in answers if answer == "MetaException"}
    assert all(text in refused for _, text, _ in answers if "nope" in text)
    counts["filters on partitions compared with a Hive Metastore 2.3"] = {"filters": len(answers)}


@pytest.mark.skipif(not evidence.IS_WHOLE, reason="the answers of a real Hive Metastore are recorded")
def test_filters_of_a_real_hive_metastore_leave_what_was_recorded(tmp_path: Path) -> None:
    with hive_metastore(tmp_path / "warehouse") as server, hive_client(server.port) as client:
        hive_filters.make_tables(client, tmp_path / "d")
        assert hive_filters.answers(client) == recorded()


@pytest.mark.parametrize("is_kept", [False, True], ids=["asked of the database", "answered from memory"])
def test_all_calls_with_a_filter_decide_it_alike(hive: Any, is_kept: bool) -> None:
    hive.create_table(table("default", "p", keys={"ds": "string", "hr": "int", "at": "date"}))
    rows = [(ds, hr, at) for ds in ("a", "b") for hr in ("1", "2", "10") for at in ("2020-01-01", "2020-01-02")]
    hive.add_partitions([partition("default", "p", *row) for row in rows])
    if is_kept:
        assert len(hive.get_partitions("default", "p", -1)) == len(rows)
    kept = [("a", "10", "2020-01-02")]
    for text in (
        "ds = 'a' and hr = '10' and at = 2020-01-02",
        "ds like 'a' and hr > 2.5 and not at < '2020-1-2'",
        "(ds, hr, at) in (('a', 10, 2020-01-02))",
    ):
        for _ in range(2):
            assert calls(hive, text) == [kept] * 5, text
            assert hive.get_num_partitions_by_filter("default", "p", text) == 1, text
    for text in ("nope = '1'", "ds = 'a' or nope = '1'", "hr = 'x'", "at = 'today'"):
        for call in (
            lambda text=text: hive.get_partitions_by_filter("default", "p", text, -1),
            lambda text=text: hive.get_num_partitions_by_filter("default", "p", text),
            lambda text=text: hive.get_part_specs_by_filter("default", "p", text, -1),
            lambda text=text: hive.get_partitions_with_specs(of_specs(text)),
            lambda text=text: hive.get_partition_values(of_values(text)),
        ):
            with pytest.raises(ttypes.MetaException, match=r"is not a (partitioning key|value of key)"):
                call()
        of_expr = hive.get_partitions_by_expr(ttypes.PartitionsByExprRequest("default", "p", text.encode()))
        assert (len(of_expr.partitions), of_expr.hasUnknownPartitions) == (len(rows), True)
    with pytest.raises(ttypes.MetaException, match="Error parsing partition filter"):
        hive.get_partitions_with_specs(of_specs("ds = 'a') or (hr = 2", "ds = 'b'"))


def of_specs(*filters: str) -> Any:
    spec = ttypes.GetPartitionsFilterSpec(filterMode=ttypes.PartitionFilterMode.BY_EXPR, filters=list(filters))
    return ttypes.GetPartitionsRequest(dbName="default", tblName="p", filterSpec=spec)


def of_values(text: str) -> Any:
    keys = [ttypes.FieldSchema(name, of, None) for name, of in (("ds", "string"), ("hr", "int"), ("at", "date"))]
    return ttypes.PartitionValuesRequest("default", "p", keys, filter=text)


def calls(hive: Any, text: str) -> list[list[tuple[str, ...]]]:
    """Return the values of the partitions that each call with a filter returns."""
    (specs,) = hive.get_part_specs_by_filter("default", "p", text, -1)
    (with_specs,) = hive.get_partitions_with_specs(of_specs(text)).partitionSpec
    by_expr = hive.get_partitions_by_expr(ttypes.PartitionsByExprRequest("default", "p", text.encode()))
    assert not by_expr.hasUnknownPartitions
    found = (
        hive.get_partitions_by_filter("default", "p", text, -1),
        specs.partitionList.partitions,
        with_specs.partitionList.partitions,
        by_expr.partitions,
    )
    rows = [tuple(each.row) for each in hive.get_partition_values(of_values(text)).partitionValues]
    return [*([tuple(each.values) for each in partitions] for partitions in found), rows]
