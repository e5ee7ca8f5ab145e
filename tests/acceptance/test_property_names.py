"""A property is named in one spelling: a name that differs by case alone is refused, as nothing would obey it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, UnknownSettingError
from airflow_hivex.core.model.objects import Database
from airflow_hivex.core.settings import Settings


@pytest.fixture
def a(metastore: Metastore) -> Iterator[Session]:
    with metastore.session() as session:
        session.sql("CREATE DATABASE a")
        session.sql("CREATE DATABASE b")
        session.sql("CREATE TABLE b.t (id int)")
        session.sql("USE a")
        session.sql("CREATE TABLE own (id int)")
        session.sql("CREATE LINK TO t@b")
        yield session


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("CREATE DATABASE c WITH DBPROPERTIES ('HIVEX.namespace.mode' = 'true')", "hivex.namespace.mode"),
        ("CREATE DATABASE IF NOT EXISTS a WITH DBPROPERTIES ('HIVEX.Cluster' = 'c1')", "hivex.cluster"),
        ("ALTER DATABASE a SET DBPROPERTIES ('HIVEX.NAMESPACE.MODE' = 'true')", "hivex.namespace.mode"),
        (
            "ALTER DATABASE a SET DBPROPERTIES ('x' = '1', 'Hive.Compactor.Worker.Pool' = 'p')",
            "hive.compactor.worker.pool",
        ),
        ("ALTER DATABASE a UNSET DBPROPERTIES IF EXISTS (HIVEX.namespace.MODE)", "hivex.namespace.mode"),
        ("CREATE TABLE u (id int) TBLPROPERTIES ('hivex.Row.Layout' = 'hive')", "hivex.row.layout"),
        ("CREATE TABLE u (id int) TBLPROPERTIES ('HIVEX.CLUSTER' = 'c1')", "hivex.cluster"),
        (
            "CREATE TABLE u TBLPROPERTIES ('Hivex.History.Retention' = '7d') AS SELECT 1 AS id",
            "hivex.history.retention",
        ),
        ("CREATE TABLE u LIKE own TBLPROPERTIES ('HIVEX.HISTORY.RETENTION' = '7d')", "hivex.history.retention"),
        ("CREATE VIEW v TBLPROPERTIES ('Hivex.x' = '1') AS SELECT id FROM own", "hivex.x"),
        ("ALTER TABLE own SET TBLPROPERTIES ('HIVEX.HISTORY.RETENTION' = '7d')", "hivex.history.retention"),
        ("ALTER TABLE own SET TBLPROPERTIES ('HIVEX.DEFAULT.id' = '7')", "hivex.default.id"),
        ("ALTER TABLE own SET TBLPROPERTIES ('Compactor.Tez.Queue' = 'x')", "compactor.Tez.Queue"),
        (
            "ALTER TABLE own SET TBLPROPERTIES ('CompactorThreshold.hive.compactor.delta.num.threshold' = '7')",
            "compactorthreshold.hive.compactor.delta.num.threshold",
        ),
        ("ALTER TABLE own UNSET TBLPROPERTIES IF EXISTS ('HIVEX.HISTORY.RETENTION')", "hivex.history.retention"),
        (
            "ALTER TABLE own COMPACT 'major' WITH OVERWRITE TBLPROPERTIES ('tblprops.HIVEX.row.layout' = 'hive')",
            "tblprops.hivex.row.layout",
        ),
        ("ALTER LINK t@b SET LINKPROPERTIES ('HIVEX.cluster' = 'c1')", "hivex.cluster"),
        ("ALTER LINK t@b UNSET LINKPROPERTIES IF EXISTS ('HIVEX.cluster')", "hivex.cluster"),
    ],
)
def test_name_in_another_case_is_refused_with_the_right_one(a: Session, text: str, written: str) -> None:
    before = a.sql("DESCRIBE DATABASE EXTENDED a").rows, a.sql("SHOW TBLPROPERTIES own").rows, a.sql("SHOW TABLES").rows
    with pytest.raises(InvalidObjectError, match=f"case-sensitive; write '{written}'"):
        a.sql(text)
    after = a.sql("DESCRIBE DATABASE EXTENDED a").rows, a.sql("SHOW TBLPROPERTIES own").rows, a.sql("SHOW TABLES").rows
    assert after == before


@pytest.mark.parametrize("name", ["hivex.folder.moving", "hivex.temporary.namespace"])
def test_names_that_the_warehouse_keeps_for_itself_are_refused(a: Session, name: str) -> None:
    for text in (
        f"CREATE TABLE u (id int) TBLPROPERTIES ('{name}' = 'landing')",
        f"CREATE EXTERNAL TABLE u (id int) STORED AS ORC LOCATION 'u' TBLPROPERTIES ('{name}' = 'landing')",
        f"ALTER TABLE own SET TBLPROPERTIES ('{name}' = 'landing')",
    ):
        with pytest.raises(InvalidObjectError, match=f"property {name} (is reserved|cannot be changed)"):
            a.sql(text)


def test_names_that_are_read_in_any_case_are_taken(a: Session) -> None:
    a.sql("CREATE TABLE u (id int) TBLPROPERTIES ('Transactional' = 'true', 'ORC.compress' = 'ZLIB')")
    a.sql("ALTER TABLE u SET TBLPROPERTIES ('NO_AUTO_COMPACTION' = 'true', 'Owner.Team' = 'x')")
    a.sql("ALTER LINK t@b SET LINKPROPERTIES ('retention' = '7', 'Team' = 'x')")
    a.sql("ALTER DATABASE a SET DBPROPERTIES ('Team' = 'x', 'hivex.namespace.mode' = 'true')")


def test_callers_in_python_are_refused(metastore: Metastore, a: Session) -> None:
    catalog = metastore.catalog
    with pytest.raises(InvalidObjectError, match=re.escape("write 'hivex.namespace.mode'")):
        catalog.create_database(Database("c", "", parameters={"HIVEX.NAMESPACE.MODE": "true"}))
    table = catalog.get_table("a", "own")
    with pytest.raises(InvalidObjectError, match=re.escape("write 'hivex.history.retention'")):
        catalog.alter_table(
            "a", "own", replace(table, parameters={**table.parameters, "hivex.History.retention": "1d"})
        )
    with pytest.raises(InvalidObjectError, match=re.escape("write 'hivex.x'")):
        metastore.links.set_properties("a", "t@b", {"HiveX.x": "1"})


def test_setting_in_another_case_is_refused_with_the_right_one() -> None:
    with pytest.raises(UnknownSettingError, match=r"Did you mean hivex\.namespace\.mode"):
        Settings({"HIVEX.NAMESPACE.MODE": "true"})
