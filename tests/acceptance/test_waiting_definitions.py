"""Statements that wait for a lock change the object that they were made for, and nothing that has its name since."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hive_metastore import ttypes

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from tests.hive_endpoint import hive_client, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)

NEW = Table(
    "default",
    "v",
    StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", "")),
    parameters={"transactional": "true"},
)


def outcome(work: Callable[[], Any]) -> str:
    try:
        work()
    except (HivexError, ttypes.InvalidOperationException, ttypes.NoSuchObjectException) as error:
        return type(error).__name__
    return "done"


def waiting(metastore: Metastore, name: str, work: Callable[[], Any], meanwhile: Callable[[], Any]) -> str:
    """Return the outcome of work that waits for the lock of a table or view, while it is changed without a lock."""
    held = metastore.services.statement_locks.drop_table(
        replace(metastore.catalog.get_table("default", name), type=TableType.MANAGED_TABLE)
    )
    lock = metastore.locks.acquire(held, user="holder")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(outcome, work)
        wait_until(lambda: any(each.state is LockState.WAITING for each in metastore.locks.show()))
        meanwhile()
        metastore.locks.unlock(lock.lock_id)
        return running.result(60)


def in_session(metastore: Metastore, text: str) -> Callable[[], Any]:
    def run() -> None:
        with metastore.session(user="waiting") as session:
            session.sql(text)

    return run


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DROP VIEW v", "NoSuchTableError"),
        ("DROP VIEW IF EXISTS v", "done"),
        ("CREATE OR REPLACE VIEW v AS SELECT 2 AS b", "NoSuchTableError"),
        ("ALTER VIEW v AS SELECT 2 AS b", "NoSuchTableError"),
    ],
)
def test_a_table_that_takes_the_name_of_a_view_stays(
    metastore: Metastore, session: Session, text: str, expected: str
) -> None:
    session.sql("CREATE VIEW v AS SELECT 1 AS a")

    def replaced() -> None:
        metastore.catalog.drop_table("default", "v")
        metastore.catalog.create_table(NEW)

    assert waiting(metastore, "v", in_session(metastore, text), replaced) == expected
    assert metastore.catalog.get_table("default", "v").type is TableType.MANAGED_TABLE


@pytest.mark.parametrize("text", ["DROP TABLE t", "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')"])
def test_a_table_that_is_swapped_in_stays_as_it_is(metastore: Metastore, session: Session, text: str) -> None:
    session.sql("CREATE TABLE t (id int)")

    def swapped() -> None:
        found = metastore.catalog.get_table("default", "t").definition
        metastore.catalog.alter_table("default", "t", replace(found, name="old"))
        metastore.catalog.create_table(replace(NEW, name="t"))

    assert waiting(metastore, "t", in_session(metastore, text), swapped) == "NoSuchTableError"
    assert "a" not in metastore.catalog.get_table("default", "t").parameters
    assert "a" not in metastore.catalog.get_table("default", "old").parameters


def test_a_conversion_takes_back_no_change_that_it_has_not_seen(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE EXTERNAL TABLE e (id int) STORED AS ORC LOCATION 'e'")

    def comment() -> None:
        found = metastore.catalog.get_table("default", "e")
        metastore.catalog.alter_table("default", "e", replace(found.definition, comment="meanwhile"))

    convert = in_session(metastore, "ALTER TABLE e SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')")
    assert waiting(metastore, "e", convert, comment) == "InvalidOperationError"
    assert metastore.catalog.get_table("default", "e").comment == "meanwhile"
    convert()
    found = metastore.catalog.get_table("default", "e")
    assert (found.type, found.comment) == (TableType.MANAGED_TABLE, "meanwhile")


def test_a_client_of_hive_takes_back_no_change_that_it_has_not_seen(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (id int)")
    with serving(metastore, lock_patience_s=30) as endpoint, hive_client(endpoint.port) as hive:

        def add_comment() -> None:
            ids = str(
                metastore.transactions.valid_write_ids(["default.t"], metastore.transactions.valid_txns())["default.t"]
            )
            found = hive.get_table_req(ttypes.GetTableRequest("default", "t", validWriteIdList=ids)).table
            found.parameters["comment"] = "of a client"
            hive.alter_table_req(
                ttypes.AlterTableRequest(dbName="default", tableName="t", table=found, validWriteIdList=ids)
            )

        def add_column() -> None:
            found = metastore.catalog.get_table("default", "t")
            storage = replace(found.storage, columns=(*found.storage.columns, Column("more", "string")))
            metastore.catalog.alter_table("default", "t", replace(found.definition, storage=storage))

        assert waiting(metastore, "t", add_comment, add_column) == "InvalidOperationException"
        assert [each.name for each in metastore.catalog.get_table("default", "t").columns] == ["id", "more"]
        assert outcome(add_comment) == "done"
    found = metastore.catalog.get_table("default", "t")
    assert ([each.name for each in found.columns], found.comment) == (["id", "more"], "of a client")
