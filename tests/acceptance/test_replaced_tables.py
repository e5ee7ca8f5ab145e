"""CREATE OR REPLACE TABLE: readers see the earlier table or the new one, and a failure changes nothing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError, InvalidOperationError, JobError, NoSuchTableError

pytestmark = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


def rows(session: Session, sql: str = "SELECT * FROM t ORDER BY ALL") -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.mark.spark
def test_table_is_replaced_by_rows_of_itself(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    session.sql("CREATE OR REPLACE TABLE t AS SELECT 1 AS id, 'x' AS p")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('note' = 'gone with the table')")
    first = metastore.catalog.get_table("default", "t")
    done = session.sql("CREATE OR REPLACE TABLE t PARTITIONED BY (p) USING parquet AS SELECT id + 1 AS n, p FROM t")
    assert done.rows_written == 1
    assert rows(session) == [(2, "x")]
    second = metastore.catalog.get_table("default", "t")
    assert (second.storage.format, [key.name for key in second.partition_keys]) == ("parquet", ["p"])
    assert (second.id != first.id, "note" in second.parameters) == (True, False)
    for query in ("SELECT 1 / (n - 2) AS n FROM t", "SELECT raise_error('stop') || p AS x FROM t"):
        with pytest.raises(JobError):
            session.sql(f"REPLACE TABLE t AS {query}")
        assert rows(session) == [(2, "x")]
    session.sql("REPLACE TABLE t (v string)")
    assert rows(session) == []
    session.sql("INSERT INTO t VALUES ('new')")
    assert rows(session) == [("new",)]
    folders = [path for path in (tmp_path / "c1" / "default.db").iterdir() if any(path.rglob("bucket_*"))]
    assert [path.name.partition(".")[0] for path in folders] == ["t"]
    assert rows(session, "SHOW LOCKS") == []


def test_readers_find_the_table_at_each_moment(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (v0 int)")
    found: set[str] = set()
    problems: list[HivexError] = []
    ends = threading.Event()

    def read() -> None:
        while not ends.is_set():
            try:
                found.add(metastore.catalog.get_table("default", "t").columns[0].name)
            except HivexError as error:
                problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 21):
            session.sql(f"CREATE OR REPLACE TABLE t (v{number} int)")
    finally:
        ends.set()
        reader.join()
    assert not problems
    assert found <= {f"v{number}" for number in range(21)}


@pytest.mark.parametrize("query", [None, pytest.param(" AS SELECT 1 AS id", marks=pytest.mark.spark)])
def test_several_sessions_replace_a_table_at_once(metastore: Metastore, session: Session, query: str | None) -> None:
    session.sql("CREATE TABLE t (id int)")
    problems: list[HivexError] = []

    def replace() -> None:
        try:
            with metastore.session() as own:
                for _ in range(1 if query else 6):
                    own.sql(f"CREATE OR REPLACE TABLE t{query or ' (id int)'}")
        except HivexError as error:
            problems.append(error)

    others = [threading.Thread(target=replace) for _ in range(2 if query else 3)]
    for each in others:
        each.start()
    for each in others:
        each.join()
    assert problems == []
    assert session.to_arrow("t").num_rows == (1 if query else 0)
    assert rows(session, "SHOW LOCKS") == []


def test_replacing_waits_for_readers_and_keeps_what_links_show(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (a int)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE DATABASE d")
    session.sql("USE d")
    session.sql("CREATE LINK TO t@default")
    session.sql("USE default")
    with pytest.raises(InvalidOperationError, match="links show it, such as d"):
        session.sql("CREATE OR REPLACE TABLE t (b int)")
    session.sql("CREATE VIEW v AS SELECT 1 AS a")
    with pytest.raises(InvalidOperationError, match="CREATE OR REPLACE VIEW"):
        session.sql("CREATE OR REPLACE TABLE v (b int)")
    with pytest.raises(NoSuchTableError):
        session.sql("REPLACE TABLE missing (b int)")
    assert [column.name for column in metastore.catalog.get_table("default", "t").columns] == ["a"]


def test_external_table_is_replaced_and_its_files_stay(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    file = tmp_path / "c1" / "files" / "part.csv"
    file.parent.mkdir(parents=True)
    file.write_text("1,a\n")
    session.sql("CREATE TABLE t (id int) USING csv OPTIONS (path 'files')")
    assert metastore.catalog.get_table("default", "t").is_external
    session.sql("CREATE OR REPLACE TABLE t (id int, v string) USING csv LOCATION 'files'")
    session.sql("CREATE OR REPLACE TABLE t (id int, v string)")
    assert not metastore.catalog.get_table("default", "t").is_external
    assert file.exists()


def test_files_of_tables_whose_drop_was_killed_are_deleted_by_the_housekeeping(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    points: list[str] = []

    def fault(point: str) -> None:
        if point in points:
            points.clear()
            raise KeyboardInterrupt

    folder = tmp_path / "c1" / "default.db"
    opened: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "fault": fault}
    with Metastore.open(metastore_url, **opened) as metastore, metastore.session() as session:
        for statement in ("DROP TABLE t", "CREATE OR REPLACE TABLE t (id int)"):
            session.sql("CREATE TABLE IF NOT EXISTS t (id int)")
            session.sql("INSERT INTO t VALUES (1)")
            points.append("after commit")
            with pytest.raises(KeyboardInterrupt):
                session.sql(statement)
        session.sql("INSERT INTO t VALUES (2)")
        assert len([path for path in folder.iterdir() if any(path.rglob("bucket_*"))]) == 3
        assert metastore.housekeeper.run().dropped_objects == 2
        assert metastore.housekeeper.run().dropped_objects == 0
        assert session.to_arrow("t").to_pylist() == [{"id": 2}]
        assert metastore.doctor.examine() == []
        # The process that has dropped them may go on: no table gets their folders.
        session.sql("CREATE TABLE u (id int)")
        session.sql("DROP TABLE t")
        session.sql("CREATE TABLE t (id int)")
        locations = [metastore.catalog.get_table("default", name).storage.primary.location for name in ("t", "u")]
        assert not any((folder.parent / location).exists() for location in locations)
        assert "default.db/t" not in locations
