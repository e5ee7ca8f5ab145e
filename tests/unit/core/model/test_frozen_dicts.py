"""The parameters of shared objects refuse each change."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    FrozenDict,
    Partition,
    Skew,
    StorageDescriptor,
    StoredTable,
    Table,
)

STORAGE = StorageDescriptor(
    (Column("a", "int"),),
    ClusterStorageDescriptor("c1", ""),
    serde_parameters={"path": "x"},
    parameters={"k": "v"},
    skew=Skew(("a",), (("1",),), {("1",): "there"}),
)
TABLE = Table("default", "t", STORAGE, parameters={"k": "v"})
MAPPINGS: list[Any] = [
    TABLE.parameters,
    StoredTable.of(TABLE, 1).parameters,
    TABLE.with_location("there").parameters,
    replace(TABLE, parameters={"k": "v"}).parameters,
    STORAGE.parameters,
    STORAGE.serde_parameters,
    STORAGE.skew.locations if STORAGE.skew else {},
    Database("d", parameters={"k": "v"}).parameters,
    Partition("default", "t", ("x",), "d=x", "", parameters={"k": "v"}).parameters,
    Partition("default", "t", ("x",), "d=x", "").parameters,
]
CHANGES: list[Callable[[Any], object]] = [
    lambda mapping: mapping.__setitem__("k", "other"),
    lambda mapping: mapping.__delitem__("k"),
    lambda mapping: mapping.update(k="other"),
    lambda mapping: mapping.setdefault("z", "other"),
    lambda mapping: mapping.pop("k", None),
    lambda mapping: mapping.popitem(),
    lambda mapping: mapping.clear(),
    lambda mapping: mapping.__ior__({"k": "other"}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_part_of_an_object_can_be_changed(change: Callable[[Any], object]) -> None:
    for mapping in MAPPINGS:
        with pytest.raises(TypeError, match="replace"):
            change(mapping)


def test_object_does_not_follow_its_makers_dict() -> None:
    given, columns = {"k": "v"}, [Column("d", "string")]
    table = Table("default", "t", STORAGE, partition_keys=columns, parameters=given)  # type: ignore[arg-type]
    given["k"] = "other"
    columns.clear()
    assert table.parameters == {"k": "v"}
    assert table.partition_keys == (Column("d", "string"),)


def test_frozen_dict_is_a_dict_for_its_readers() -> None:
    values: FrozenDict[str, str] = FrozenDict({"k": "v"})
    assert values == {"k": "v"}
    assert json.dumps(values) == '{"k": "v"}'
    for same in (pickle.loads(pickle.dumps(values)), copy.copy(values), copy.deepcopy(values)):
        assert isinstance(same, FrozenDict)
        assert same == values
    mine = values.copy()
    mine["k"] = "other"
    assert {**values, "z": "1"} == {"k": "v", "z": "1"} == values | {"z": "1"}
    assert asdict(TABLE)["parameters"] == {"k": "v"}
    assert pickle.loads(pickle.dumps(TABLE)) == TABLE
