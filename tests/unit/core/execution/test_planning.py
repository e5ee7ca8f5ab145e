"""Which directories of a table become which part of a scan."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.execution.planning import scan
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from airflow_hivex.core.model.plans import ScanPart

CLUSTER = Cluster("c1", "file:///data", "local[2]")
TABLE = Table(
    "d",
    "t",
    StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", "d.db/t")),
    partition_keys=(Column("p", "string"),),
    parameters={"transactional": "true"},
)


def directory(name: str, layout: str, files: int = 1) -> RegisteredDirectory:
    return RegisteredDirectory(name, layout, files, 10, 100, 1, 1)


def test_each_layout_and_each_partition_elsewhere_is_a_part() -> None:
    bound = BoundTable(
        TABLE,
        (
            BoundPartition(
                "p=a",
                "d.db/t/p=a",
                (
                    directory("base_0000002", "flat", 2),
                    directory("delta_0000003_0000003_0000", "hive"),
                    directory("delete_delta_0000004_0000004_0000", "hive"),
                    directory("delete_delta_0000005_0000005_0000", "flat", 3),
                ),
            ),
            BoundPartition("p=b", "d.db/t/p=b", (directory("delta_0000003_0000003_0000", "hive", 4),)),
            BoundPartition("p=c", "d.db/t/p=old", (directory("delta_0000001_0000001_0000", "flat"),)),
            BoundPartition("p=__HIVE_DEFAULT_PARTITION__", "else/x", (directory("base_0000001", "hive"),)),
            BoundPartition("p=e", "d.db/t/p=e", (directory("base_0000009", "hive", 0),)),
        ),
    )
    planned = scan(bound, CLUSTER, "v")
    root = "file:///data/d.db/t"
    assert planned.base_path == root
    assert planned.parts == (
        ScanPart((f"{root}/p=a/base_0000002",), root, "flat", files=2),
        ScanPart(
            (f"{root}/p=a/delta_0000003_0000003_0000", f"{root}/p=b/delta_0000003_0000003_0000"), root, "hive", files=5
        ),
        ScanPart((f"{root}/p=old/delta_0000001_0000001_0000",), f"{root}/p=old", "flat", ("c",), 1),
        ScanPart(("file:///data/else/x/base_0000001",), "file:///data/else/x", "hive", (None,), 1),
    )
    assert planned.deletes == (
        ScanPart((f"{root}/p=a/delete_delta_0000004_0000004_0000",), root, "hive", files=1),
        ScanPart((f"{root}/p=a/delete_delta_0000005_0000005_0000",), root, "flat", files=3),
    )


def test_tables_without_transactions_are_read_from_their_folders() -> None:
    plain = replace(TABLE, parameters={}, partition_keys=())
    planned = scan(BoundTable(plain, (BoundPartition(None, "d.db/t"),)), CLUSTER, "v")
    assert planned.parts == (ScanPart(("file:///data/d.db/t",), "file:///data/d.db/t"),)
    assert not planned.is_transactional
    parted = replace(TABLE, parameters={})
    planned = scan(
        BoundTable(parted, (BoundPartition("p=a", "d.db/t/p=a"), BoundPartition("p=b", "e/b"))), CLUSTER, "v"
    )
    assert planned.parts == (
        ScanPart(("file:///data/d.db/t/p=a",), "file:///data/d.db/t"),
        ScanPart(("file:///data/e/b",), "file:///data/e/b", values=("b",)),
    )
