"""MSCK REPAIR TABLE, REFRESH, TOUCH, and changes of columns in the forms of Hive and Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchPartitionError, NoSuchTableError

pytestmark = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.fixture
def folder(session: Session, tmp_path: Path) -> Path:
    """The folder of the external table ``e``."""
    session.sql("CREATE EXTERNAL TABLE e (id INT) PARTITIONED BY (p INT, q STRING) STORED AS ORC LOCATION 'files/e'")
    return tmp_path / "c1" / "files" / "e"


def test_partitions_follow_the_directories_of_an_external_table(session: Session, folder: Path) -> None:
    for path in (
        "p=1/q=x%2Fy",
        "P=02/q=b",
        "p=3/q=__HIVE_DEFAULT_PARTITION__",
        "p=4",
        "_tmp/q=1",
        "z=1/q=2",
        "p=x/q=1",
    ):
        (folder / path).mkdir(parents=True)
    session.sql("ALTER TABLE e ADD PARTITION (p = 1, q = 'gone') PARTITION (p = 9, q = 'far') LOCATION 'files/far'")
    (folder.parent / "far").mkdir()
    new = ["p=1/q=x%2Fy", "p=2/q=b", "p=3/q=__HIVE_DEFAULT_PARTITION__"]
    shown = [*((name, "not in metastore") for name in new), ("p=1/q=gone", "not on filesystem")]
    assert rows(session, "MSCK TABLE e") == shown
    assert rows(session, "SHOW PARTITIONS e") == [("p=1/q=gone",), ("p=9/q=far",)]
    assert rows(session, "MSCK REPAIR TABLE e") == [(name, "added") for name in new]
    assert rows(session, "MSCK REPAIR TABLE e SYNC PARTITIONS") == [("p=1/q=gone", "dropped")]
    assert rows(session, "ALTER TABLE e RECOVER PARTITIONS") == []
    (folder.parent / "far").rmdir()
    assert rows(session, "MSCK REPAIR TABLE e DROP PARTITIONS") == [("p=9/q=far", "dropped")]
    # The files of the directory that spells its value otherwise.
    partition = session.sql("DESCRIBE FORMATTED e PARTITION (p = 2, q = 'b')").rows
    assert any("P=02/q=b" in str(value) for _, value, _ in partition)


@pytest.mark.parametrize(
    ("one", "other"), [("p=1/q=a", "P=01/q=a"), ("p=2/q=x y", "p=2/q=x%20y"), ("p=2/q=a", "p=2/Q=a")]
)
def test_two_directories_of_one_value_are_an_error_that_names_both(
    session: Session, folder: Path, one: str, other: str
) -> None:
    for path in (one, other):
        (folder / path).mkdir(parents=True)
    for sql in ("MSCK REPAIR TABLE e", "MSCK TABLE e", "ALTER TABLE e RECOVER PARTITIONS"):
        with pytest.raises(InvalidObjectError) as raised:
            session.sql(sql)
        assert f"{one} " in str(raised.value)
        assert f"{other} " in str(raised.value)
    assert rows(session, "SHOW PARTITIONS e") == []
    (folder / other).rmdir()
    assert len(rows(session, "MSCK REPAIR TABLE e")) == 1


def test_two_folders_of_one_value_are_not_added_at_once(session: Session, folder: Path) -> None:
    one, other = (
        "PARTITION (p = {}, q = 'a') LOCATION 'files/{}'".format(*each) for each in (("1", "x"), ("'01'", "y"))
    )
    add = f"ALTER TABLE e ADD {{}}{one} {other}"
    for words in ("", "IF NOT EXISTS "):
        with pytest.raises(InvalidObjectError, match=r"files/x and .*files/y both"):
            session.sql(add.format(words))
    assert rows(session, "SHOW PARTITIONS e") == []


def test_a_managed_table_is_not_repaired(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (p INT)")
    with pytest.raises(InvalidOperationError, match="registered by the commits that write them"):
        session.sql("MSCK REPAIR TABLE t")
    session.sql("CREATE EXTERNAL TABLE plain (id INT) LOCATION 'files/plain'")
    with pytest.raises(InvalidOperationError):
        session.sql("REPAIR TABLE plain")


def test_many_directories_are_registered_at_once(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE EXTERNAL TABLE big (id INT) PARTITIONED BY (p INT) STORED AS ORC LOCATION 'files/big'")
    for number in range(500):
        (tmp_path / "c1" / "files" / "big" / f"p={number}").mkdir(parents=True)
    assert len(rows(session, "MSCK REPAIR TABLE big")) == 500
    assert len(rows(session, "SHOW PARTITIONS big")) == 500


def test_refresh_and_touch_change_nothing(session: Session, metastore: Metastore) -> None:
    session.sql("CREATE TABLE t (id INT) PARTITIONED BY (p INT)")
    assert rows(session, "REFRESH TABLE t") == rows(session, "REFRESH t") == []
    with pytest.raises(NoSuchTableError):
        session.sql("REFRESH TABLE missing")
    before = metastore.catalog.get_table("default", "t")
    session.sql("ALTER TABLE t TOUCH")
    after = metastore.catalog.get_table("default", "t")
    assert (after.columns, after.parameters) == (before.columns, before.parameters)
    with pytest.raises(NoSuchPartitionError):
        session.sql("ALTER TABLE t TOUCH PARTITION (p = 1)")


def test_tables_are_listed_with_their_facts(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT)")
    session.sql("CREATE TABLE other (id INT) TBLPROPERTIES ('a.password' = 'secret')")
    session.sql("INSERT INTO t VALUES (1, 'a', 1)")
    shown = session.sql("SHOW TABLE EXTENDED LIKE 't|o*'")
    assert shown.columns == ["namespace", "tableName", "isTemporary", "information"]
    assert [row[:3] for row in shown.rows] == [("default", "other", False), ("default", "t", False)]
    assert "Schema: id int, v string, p int" in str(shown.rows[1][3])
    assert "secret" not in str(shown.rows[0][3])
    ((_, _, _, partition),) = rows(session, "SHOW TABLE EXTENDED IN default LIKE 't' PARTITION (p = 1)")
    assert "p=1" in str(partition)
    with pytest.raises(NoSuchPartitionError):
        session.sql("SHOW TABLE EXTENDED LIKE 't' PARTITION (p = 9)")
    with pytest.raises(NoSuchTableError):
        session.sql("SHOW TABLE EXTENDED LIKE 't*' PARTITION (p = 1)")


def test_columns_are_changed_in_the_forms_of_hive_and_spark(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT)")
    session.sql("ALTER TABLE t ADD COLUMNS a INT, b STRING COMMENT 'text'")
    session.sql("ALTER TABLE t CHANGE COLUMN a COMMENT 'number'")
    assert rows(session, "DESCRIBE t") == [("id", "int", None), ("a", "int", "number"), ("b", "string", "text")]
