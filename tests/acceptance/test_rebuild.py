"""The rebuild of a metastore whose database is lost: from the directories of a cluster alone."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.imports.writing import ImportOutcome

pytestmark = pytest.mark.spark

TABLES = ("sales", "of_hive", "events", "marks", "shop.emptied")


def opened(root: Path, number: int) -> Metastore:
    clusters = {"c1": {"filesystem": (root / "c1").as_uri(), "jobtracker": "local[2]"}}
    return Metastore.open(f"sqlite:///{root}/metastore-{number}.db", clusters=clusters)


def fill(session: Session) -> None:
    session.sql("CREATE DATABASE shop")
    session.sql(
        "CREATE TABLE sales (id bigint, Name string, price decimal(9,2), sizes array<int>, "
        "part struct<b:int,`c d`:string>, seen timestamp) PARTITIONED BY (year int, day date, code string)"
    )
    rows = "id, 'a', 1.5, array(1), named_struct('b', 1, 'c d', 'x'), timestamp'2024-01-01 10:00:00'"
    session.sql(f"INSERT INTO sales SELECT {rows}, 2013, date'2024-01-01', '0' || id FROM range(3)")
    session.sql("UPDATE sales SET price = 2.5 WHERE id = 1")
    session.sql("DELETE FROM sales WHERE id = 2")
    session.sql("ALTER TABLE sales ADD COLUMNS (note string)")
    session.sql("INSERT INTO sales (id, note, year, day, code) VALUES (7, 'n', 2014, date'2024-01-02', NULL)")
    session.sql("CREATE TABLE of_hive (id int) TBLPROPERTIES ('hivex.row.layout' = 'hive')")
    session.sql("INSERT INTO of_hive SELECT id FROM range(4)")
    session.sql("DELETE FROM of_hive WHERE id = 0")
    session.sql("CREATE TABLE events (id int, at timestamp) STORED AS PARQUET TBLPROPERTIES ('transactional' = 'true')")
    session.sql("INSERT INTO events SELECT id, timestamp'2024-01-01 00:00:00' FROM range(3)")
    insert_only = "'transactional' = 'true', 'transactional_properties' = 'insert_only'"
    session.sql(f"CREATE TABLE marks (id int) TBLPROPERTIES ({insert_only})")
    session.sql("INSERT INTO marks VALUES (1)")
    session.sql("INSERT OVERWRITE TABLE marks SELECT 5")
    session.sql("CREATE TABLE shop.emptied (id int)")
    session.sql("INSERT INTO shop.emptied VALUES (1)")
    session.sql("TRUNCATE TABLE shop.emptied")


def rows_of(session: Session) -> dict[str, list[tuple[object, ...]]]:
    return {table: sorted(session.sql(f"SELECT * FROM {table}").rows, key=repr) for table in TABLES}


def compacted(metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("ALTER TABLE of_hive COMPACT 'minor'")
    metastore.compactor.work()


def test_rows_are_those_of_the_lost_metastore_and_writes_go_on(tmp_path: Path) -> None:
    with opened(tmp_path, 1) as lost, lost.session() as session:
        fill(session)
        compacted(lost)
        before = rows_of(session)
        row_ids = session.sql("SELECT ROW__ID, id FROM sales ORDER BY id").rows
    with opened(tmp_path, 2) as metastore:
        planned = {each.name: each.outcome for each in metastore.rebuild(dry_run=True)}
        found = {each.name: each for each in metastore.rebuild()}
        assert set(planned.values()) == {ImportOutcome.PLANNED, ImportOutcome.PRESENT}
        names = {"default", "shop", TABLES[4], *(f"default.{name}" for name in TABLES[:4])}
        assert planned.keys() == found.keys() == names
        assert not any(each.is_missing for each in found.values())
        assert found["default.sales"].partitions == 4
        with metastore.session() as session:
            assert rows_of(session) == before
            assert session.sql("SELECT ROW__ID, id FROM sales ORDER BY id").rows == row_ids
            types = {row[0]: row[1] for row in session.sql("DESCRIBE TABLE sales").rows}
            assert types["part"] == "struct<b:int,`c d`:string>"
            assert (types["seen"], types["price"]) == ("timestamp", "decimal(9,2)")
            assert (types["year"], types["day"], types["code"]) == ("int", "date", "string")
            # Write ids and transactions go on above the highest that a name has.
            session.sql("UPDATE sales SET price = 9 WHERE id = 0")
            session.sql("DELETE FROM of_hive WHERE id = 3")
            session.sql("INSERT INTO marks VALUES (6)")
            session.sql("INSERT INTO shop.emptied VALUES (2)")
            session.sql("ALTER TABLE sales PARTITION (year = 2013, day = '2024-01-01', code = '01') COMPACT 'major'")
            session.sql("ALTER TABLE of_hive COMPACT 'major'")
            metastore.compactor.work()
            changed = rows_of(session)
        assert changed["of_hive"] == [row for row in before["of_hive"] if row != (3,)]
        assert changed["marks"] == [(5,), (6,)]
        assert changed["shop.emptied"] == [(2,)]
        sold = {row[0]: row[2] for row in changed["sales"]}
        assert sold == {0: Decimal("9.00"), 1: Decimal("2.50"), 7: None}
        assert {row[-2] for row in changed["sales"]} == {date(2024, 1, 1), date(2024, 1, 2)}
        assert {each.outcome for each in metastore.rebuild()} == {ImportOutcome.PRESENT}


def test_table_that_was_created_again_keeps_its_definition_and_gets_its_rows(tmp_path: Path) -> None:
    create = (
        "CREATE TABLE seen (code varchar(5) COMMENT 'the code', at timestamp_ntz NOT NULL) PARTITIONED BY (day string)"
    )
    with opened(tmp_path, 1) as lost, lost.session() as session:
        session.sql(create)
        session.sql("INSERT INTO seen SELECT 'a', timestamp_ntz'2024-01-01 10:00:00', '2024-01-01'")
        session.sql("UPDATE seen SET code = 'b'")
        session.sql("CREATE TABLE plain (id int)")
        session.sql("INSERT INTO plain VALUES (1)")
        before = session.sql("SELECT * FROM seen").rows
    with opened(tmp_path, 2) as metastore, metastore.session() as session:
        session.sql(create)
        session.sql("CREATE TABLE plain (id int)")
        found = {each.name: each for each in metastore.rebuild()}
        assert (found["default.seen"].outcome, found["default.seen"].partitions) == (ImportOutcome.REBUILT, 1)
        assert session.sql("SELECT * FROM seen").rows == before
        assert session.sql("DESCRIBE TABLE seen").rows[0] == ("code", "varchar(5)", "the code")
        session.sql("INSERT INTO plain VALUES (2)")
        assert sorted(session.sql("SELECT id FROM plain").rows) == [(1,), (2,)]
        session.sql("UPDATE seen SET code = 'c'")
        assert session.sql("SELECT code, day FROM seen").rows == [("c", "2024-01-01")]
        assert {each.outcome for each in metastore.rebuild()} == {ImportOutcome.PRESENT}


def test_folder_that_is_no_managed_table_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "c1" / "default.db"
    for path, text in {
        "plain/part.csv": "1,2\n",
        "broken/delta_0000001_0000001_0000/bucket_00000": "no ORC",
        "two/a=1/delta_0000001_0000001_0000/bucket_00000": "x",
        "two/b=1/delta_0000001_0000001_0000/bucket_00000": "x",
    }.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    (root / "never_filled").mkdir()
    # This is what a cleaning leaves of a TRUNCATE.
    (root / "cleaned/base_0000002").mkdir(parents=True)
    (root / "cleaned/base_0000002/_hidden").touch()
    monkeypatch.setenv("HIVEX_METASTORE_URL", f"sqlite:///{tmp_path}/metastore.db")
    monkeypatch.setenv(
        "HIVEX_CLUSTER_PROPERTIES",
        json.dumps({"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[1]"}}),
    )
    command = ["metastore", "rebuild", "--format", "json"]
    assert main([*command, "--table", "never_filled|cleaned"]) == 0
    capsys.readouterr()
    assert main(command) == 1
    captured = capsys.readouterr()
    rows = {row[2]: (row[0], row[5]) for row in json.loads(captured.out)["rows"]}
    assert rows["default"][0] == "present"
    assert rows["default.never_filled"][0] == rows["default.cleaned"][0] == "skipped"
    assert {rows[f"default.{name}"][0] for name in ("plain", "broken", "two")} == {"refused"}
    assert "no base or delta directory with rows" in rows["default.plain"][1]
    assert "bucket_00000" in rows["default.broken"][1]
    assert "views, links, functions and external tables" in captured.err
