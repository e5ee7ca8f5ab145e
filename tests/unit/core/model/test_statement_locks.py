"""The locks of statements. Source: docs/reference/locks.md, "Locks of statements"."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from airflow_hivex.core.model.locks import DataOperation, LockComponent, StatementLocks
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from airflow_hivex.core.settings import Settings

SHARED_WRITES = {"hive.txn.xlock.write": False}
SHARED_OVERWRITES = {"hive.txn.xlock.iow": False}
LOCKLESS = {"hive.acid.lockless.reads.enabled": True}
NO_READ_LOCKS = {"hive.txn.read.locks": False}
EXTERNAL_LOCKS = {"hive.txn.ext.locking.enabled": True}
NO_PLAIN_READ_LOCKS = EXTERNAL_LOCKS | {"hive.txn.nonacid.read.locks": False}


def table(name: str, *, external: bool = False, partitioned: bool = False) -> Table:
    return Table(
        database="default",
        name=name,
        storage=StorageDescriptor(
            columns=(Column("a", "int"),), primary=ClusterStorageDescriptor("c1", f"default.db/{name}")
        ),
        partition_keys=(Column("ds", "string"),) if partitioned else (),
        type=TableType.EXTERNAL_TABLE if external else TableType.MANAGED_TABLE,
        parameters={} if external else {"transactional": "true"},
    )


INSERT, UPDATE, DELETE = DataOperation.INSERT, DataOperation.UPDATE, DataOperation.DELETE
ACID = table("t")
PARTITIONED = table("p", partitioned=True)
EXTERNAL = table("e", external=True)

Ask = Callable[[StatementLocks], Sequence[LockComponent]]


def shown(components: Sequence[LockComponent]) -> list[str]:
    """Type, resource and operation, and whether the partitions are not known yet."""
    return [
        f"{each.type.name} {each.resource} {each.operation.name}"
        + (" dynamic" if each.is_dynamic_partition_write else "")
        for each in components
    ]


@pytest.mark.parametrize(
    ("ask", "settings", "expected"),
    [
        # SELECT
        (lambda locks: locks.read(ACID, None), {}, ["SHARED_READ default/t SELECT"]),
        (
            lambda locks: locks.read(PARTITIONED, ["ds=1", "ds=2"]),
            {},
            ["SHARED_READ default/p/ds=1 SELECT", "SHARED_READ default/p/ds=2 SELECT"],
        ),
        (lambda locks: locks.read(PARTITIONED, []), {}, []),
        (lambda locks: locks.read(ACID, None), LOCKLESS, []),
        (lambda locks: locks.read(ACID, None), NO_READ_LOCKS, []),
        (lambda locks: locks.read(EXTERNAL, None), {}, []),
        (lambda locks: locks.read(EXTERNAL, None), EXTERNAL_LOCKS, ["SHARED_READ default/e SELECT"]),
        (lambda locks: locks.read(EXTERNAL, None), NO_PLAIN_READ_LOCKS, []),
        # Many partitions
        (
            lambda locks: locks.read(PARTITIONED, ["ds=1", "ds=2"]),
            {"hive.locks.max.partitions": 1},
            ["SHARED_READ default/p SELECT"],
        ),
        (
            lambda locks: locks.read(PARTITIONED, ["ds=1"]),
            {"hive.locks.max.partitions": 1},
            ["SHARED_READ default/p/ds=1 SELECT"],
        ),
        # INSERT
        (lambda locks: locks.insert(ACID, None), {}, ["SHARED_READ default/t INSERT"]),
        (lambda locks: locks.insert(ACID, None), SHARED_WRITES, ["SHARED_WRITE default/t INSERT"]),
        (lambda locks: locks.insert(ACID, None), LOCKLESS, ["SHARED_WRITE default/t INSERT"]),
        (lambda locks: locks.insert(PARTITIONED, "ds=1"), {}, ["SHARED_READ default/p/ds=1 INSERT"]),
        (lambda locks: locks.insert(PARTITIONED, None), {}, ["SHARED_READ default/p INSERT dynamic"]),
        # INSERT OVERWRITE
        (lambda locks: locks.insert_overwrite(ACID, None), {}, ["EXCLUSIVE default/t UPDATE"]),
        (lambda locks: locks.insert_overwrite(ACID, None), SHARED_WRITES, ["EXCL_WRITE default/t UPDATE"]),
        (lambda locks: locks.insert_overwrite(ACID, None), SHARED_OVERWRITES, ["EXCL_WRITE default/t UPDATE"]),
        (lambda locks: locks.insert_overwrite(ACID, None), LOCKLESS, ["EXCL_WRITE default/t UPDATE"]),
        (lambda locks: locks.insert_overwrite(PARTITIONED, "ds=1"), {}, ["EXCLUSIVE default/p/ds=1 UPDATE"]),
        (lambda locks: locks.insert_overwrite(PARTITIONED, None), {}, ["EXCLUSIVE default/p UPDATE dynamic"]),
        # UPDATE, DELETE and MERGE
        (lambda locks: locks.change_rows(ACID, None, {UPDATE}), {}, ["EXCL_WRITE default/t UPDATE"]),
        (lambda locks: locks.change_rows(ACID, None, {DELETE}), {}, ["EXCL_WRITE default/t DELETE"]),
        (lambda locks: locks.change_rows(ACID, None, {DELETE}), SHARED_WRITES, ["SHARED_WRITE default/t DELETE"]),
        (lambda locks: locks.change_rows(ACID, None, {DELETE, UPDATE}), {}, ["EXCL_WRITE default/t UPDATE"]),
        (lambda locks: locks.change_rows(ACID, None, {INSERT}), {}, ["SHARED_READ default/t INSERT"]),
        # A MERGE that only inserts, with hive.txn.xlock.mergeinsert.
        (lambda locks: locks.change_rows(ACID, None, {INSERT, UPDATE}), {}, ["EXCL_WRITE default/t UPDATE"]),
        (
            lambda locks: locks.change_rows(PARTITIONED, ["ds=1", "ds=2"], {DELETE}),
            {},
            ["EXCL_WRITE default/p/ds=1 DELETE", "EXCL_WRITE default/p/ds=2 DELETE"],
        ),
        (
            lambda locks: locks.change_rows(PARTITIONED, None, {UPDATE}),
            {},
            ["EXCL_WRITE default/p UPDATE dynamic"],
        ),
        (
            lambda locks: locks.change_rows(PARTITIONED, ["ds=1"], {UPDATE, INSERT}),
            {},
            ["EXCL_WRITE default/p UPDATE dynamic"],
        ),
        (lambda locks: locks.change_rows(PARTITIONED, [], {UPDATE}), {}, []),
        # CREATE and DROP
        (lambda locks: locks.create_table("d"), {}, ["SHARED_READ d NO_TXN"]),
        (lambda locks: locks.create_table_as_select("d", "new"), {}, ["EXCL_WRITE d/new NO_TXN"]),
        (
            lambda locks: locks.drop_table(ACID),
            {},
            ["SHARED_READ default NO_TXN", "EXCLUSIVE default/t NO_TXN"],
        ),
        (lambda locks: locks.drop_table(EXTERNAL), {}, ["SHARED_READ default NO_TXN"]),
        (
            lambda locks: locks.replace_table(EXTERNAL),
            {"hive.acid.lockless.reads.enabled": True},
            ["SHARED_READ default NO_TXN", "EXCLUSIVE default/e NO_TXN"],
        ),
        (lambda locks: locks.drop_database("d"), {}, ["EXCLUSIVE d NO_TXN"]),
        # ALTER TABLE
        (lambda locks: locks.drop_partitions(PARTITIONED, ["ds=1"]), {}, ["EXCLUSIVE default/p/ds=1 NO_TXN"]),
        (lambda locks: locks.drop_partitions(PARTITIONED, ["ds=1"]), LOCKLESS, ["EXCL_WRITE default/p/ds=1 NO_TXN"]),
        (
            lambda locks: locks.add_partitions(PARTITIONED, ["ds=1"], if_not_exists=False),
            {},
            ["SHARED_READ default/p/ds=1 NO_TXN"],
        ),
        (
            lambda locks: locks.add_partitions(PARTITIONED, ["ds=1"], if_not_exists=True),
            {},
            ["EXCL_WRITE default/p/ds=1 NO_TXN"],
        ),
        (lambda locks: locks.set_properties(ACID), {}, ["SHARED_READ default/t NO_TXN"]),
        (lambda locks: locks.set_properties(EXTERNAL), {}, []),
    ],
)
def test_locks_of_a_statement(ask: Ask, settings: dict[str, object], expected: list[str]) -> None:
    assert shown(ask(StatementLocks(Settings(settings)))) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, False), (SHARED_WRITES, True), (SHARED_OVERWRITES, True), (LOCKLESS, False)],
)
def test_reads_do_not_wait_where_writers_share(settings: dict[str, object], expected: bool) -> None:
    assert StatementLocks(Settings(settings)).zero_wait_reads is expected
