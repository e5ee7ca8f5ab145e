"""ALTER TABLE for columns: what rows of before look like afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    StatementSyntaxError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str = "SELECT * FROM t ORDER BY ALL") -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def columns(session: Session) -> list[tuple[object, ...]]:
    return [row[:2] for row in rows(session, "DESCRIBE t")][: len(session.sql("SELECT * FROM t LIMIT 0").columns)]


@pytest.fixture(params=["plain", "partitioned", "bucketed"])
def t(session: Session, request: pytest.FixtureRequest) -> Session:
    """``t`` with columns a, b and c (and p), two rows of it written by this process and by Spark."""
    clauses = {"plain": "", "partitioned": "", "bucketed": "CLUSTERED BY (a) SORTED BY (a) INTO 2 BUCKETS"}
    keys = "PARTITIONED BY (p int)" if request.param == "partitioned" else ""
    session.sql(f"CREATE TABLE t (a int, b varchar(3), c float COMMENT 'old') {keys} {clauses[request.param]}")
    last = ", 1" if keys else ""
    session.sql(f"INSERT INTO t VALUES (1, 'x', 1.5{last})")
    session.sql(f"INSERT INTO t SELECT 2, 'y', CAST(2.5 AS FLOAT){last}")
    return session


def shown(session: Session) -> list[tuple[object, ...]]:
    """The rows without the partition column."""
    width = 3
    return [row[:width] for row in rows(session)]


@pytest.mark.evidence(cases=1)
def test_a_renamed_column_keeps_its_values(t: Session) -> None:
    t.sql("ALTER TABLE t RENAME COLUMN a TO number")
    assert rows(t, "SELECT number FROM t WHERE number > 1") == [(2,)]
    if "CLUSTERED" in str(rows(t, "SHOW CREATE TABLE t")):
        assert "CLUSTERED BY (`number`) SORTED BY (`number` ASC)" in str(rows(t, "SHOW CREATE TABLE t"))
        t.sql("DELETE FROM t WHERE b = 'x'")
        t.sql("INSERT INTO t VALUES (10, 'x', 0)")
    else:
        t.sql("UPDATE t SET number = number * 10 WHERE b = 'x'")
    t.sql("INSERT INTO t SELECT 7, 'z', CAST(0 AS FLOAT)" + (", 1" if "p" in t.sql("SELECT * FROM t").columns else ""))
    assert [row[0] for row in rows(t, "SELECT number FROM t ORDER BY 1")] == [2, 7, 10]
    t.sql("ALTER TABLE t RENAME COLUMN b TO a")
    t.sql("ALTER TABLE t RENAME COLUMN number TO b")
    assert rows(t, "SELECT b, a FROM t ORDER BY 1") == [(2, "y"), (7, "z"), (10, "x")]
    t.sql("ALTER TABLE t ADD COLUMNS (number string)")
    assert rows(t, "SELECT DISTINCT number FROM t") == [(None,)]
    t.sql("UPDATE t SET number = 'new' WHERE b = 7")
    t.sql("DELETE FROM t WHERE a = 'x'")
    assert rows(t, "SELECT b, number FROM t ORDER BY 1") == [(2, None), (7, "new")]


@pytest.mark.evidence(cases=1)
def test_a_dropped_column_does_not_come_back(t: Session) -> None:
    t.sql("ALTER TABLE t DROP COLUMN c")
    t.sql("ALTER TABLE t ADD COLUMNS (c double, d int)")
    assert rows(t, "SELECT a, c, d FROM t ORDER BY a") == [(1, None, None), (2, None, None)]
    t.sql("UPDATE t SET c = a / 2, d = 5 WHERE a = 1")
    assert rows(t, "SELECT a, c, d FROM t ORDER BY a") == [(1, 0.5, 5), (2, None, None)]
    t.sql("ALTER TABLE t DROP COLUMNS IF EXISTS (c, nothing)")
    t.sql("ALTER TABLE t ADD COLUMN c int")
    assert rows(t, "SELECT c FROM t") == [(None,), (None,)]


@pytest.mark.evidence(cases=1)
def test_types_become_wider_and_columns_change_places(t: Session) -> None:
    t.sql("ALTER TABLE t CHANGE COLUMN c ratio double COMMENT 'new' FIRST")
    t.sql("ALTER TABLE t ALTER COLUMN b TYPE string")
    if "CLUSTERED" not in str(rows(t, "SHOW CREATE TABLE t")):
        t.sql("ALTER TABLE t ALTER COLUMN a TYPE bigint AFTER b")
        assert columns(t)[:3] == [("ratio", "double"), ("b", "string"), ("a", "bigint")]
        assert shown(t) == [(1.5, "x", 1), (2.5, "y", 2)]
        t.sql("UPDATE t SET a = 5000000000, b = 'longer' WHERE a = 2")
        assert shown(t) == [(1.5, "x", 1), (2.5, "longer", 5000000000)]
    t.sql("ALTER TABLE t ADD COLUMNS (d int AFTER ratio, e int FIRST)")
    assert [name for name, _ in columns(t)[:3]] == ["e", "ratio", "d"]
    assert rows(t, "SELECT ratio, d, e, b FROM t WHERE ratio > 2")[0][:3] == (2.5, None, None)
    assert ("ratio", "double", "new") in rows(t, "DESCRIBE t")


@pytest.mark.evidence(cases=1)
def test_columns_are_replaced_by_name(t: Session) -> None:
    t.sql("ALTER TABLE t REPLACE COLUMNS (c double, e int, a int COMMENT 'kept')")
    assert shown(t) == [(1.5, None, 1), (2.5, None, 2)]
    t.sql("ALTER TABLE t ADD COLUMNS (b string)")
    assert rows(t, "SELECT b FROM t") == [(None,), (None,)]


REFUSED = [
    ("RENAME COLUMN x TO y", NoSuchColumnError, "x"),
    ("RENAME COLUMN a TO b", InvalidObjectError, "column b twice"),
    ("RENAME COLUMN a TO p", InvalidObjectError, "column p twice"),
    ("RENAME COLUMN p TO q", InvalidOperationError, "partition key"),
    ("RENAME COLUMN a TO __row_id", InvalidObjectError, "reserved"),
    ("CHANGE a a smallint", InvalidObjectError, "from int to smallint"),
    ("ALTER COLUMN b TYPE int", InvalidObjectError, r"from varchar\(3\) to int"),
    ("ALTER COLUMN a AFTER x", NoSuchColumnError, "x"),
    ("ALTER COLUMN a", StatementSyntaxError, "TYPE"),
    ("DROP COLUMN x", NoSuchColumnError, "x"),
    ("DROP COLUMN p", InvalidOperationError, "partition key"),
    ("DROP COLUMNS (a, b, c)", InvalidOperationError, "no column left"),
    ("REPLACE COLUMNS (p int)", InvalidObjectError, "column p twice"),
]


@pytest.mark.parametrize("t", ["partitioned"], indirect=True)
def test_what_cannot_be_is_refused(t: Session) -> None:
    before = rows(t, "DESCRIBE t")
    for statement, error, reason in REFUSED:
        with pytest.raises(error, match=reason):
            t.sql(f"ALTER TABLE t {statement}")
        assert (statement, rows(t, "DESCRIBE t")) == (statement, before)
    t.sql("ALTER TABLE t DROP COLUMN c")
    with pytest.raises(InvalidObjectError, match="cannot be changed"):
        t.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.columns.dropped' = '')")
    assert rows(t, "SELECT a, b FROM t ORDER BY a") == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("t", ["bucketed"], indirect=True)
def test_columns_that_place_rows_stay(t: Session) -> None:
    with pytest.raises(InvalidOperationError, match="bucketed, sorted or skewed by column a"):
        t.sql("ALTER TABLE t DROP COLUMN a")
    with pytest.raises(InvalidOperationError, match="bucketed, sorted or skewed by column a"):
        t.sql("ALTER TABLE t REPLACE COLUMNS (b string)")


def test_files_are_sorted_in_the_direction_that_is_declared(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE s (k int, v int) CLUSTERED BY (k) SORTED BY (v DESC) INTO 1 BUCKETS")
    session.sql("INSERT INTO s VALUES (1, 5), (2, NULL), (3, 9), (4, 7)")
    session.sql("INSERT INTO s SELECT k, v FROM VALUES (5, 1), (6, NULL), (7, 3) AS x(k, v)")
    session.sql("UPDATE s SET v = v + 10 WHERE v > 1")
    folders = sorted((tmp_path / "c1" / "default.db" / "s").glob("delta_*"))
    found = [orc.ORCFile(file).read(["v"]).to_pydict()["v"] for folder in folders for file in folder.glob("bucket_*")]
    assert found == [[9, 7, 5, None], [3, 1, None], [19, 17, 15, 13]]
    assert ("Sort Columns", "v DESC", "") in session.sql("DESCRIBE EXTENDED s").rows


def test_classes_of_hive_are_kept_for_its_clients(session: Session, metastore: Metastore) -> None:
    serde = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    session.sql(f"CREATE EXTERNAL TABLE e (a string) ROW FORMAT SERDE '{serde}' STORED AS TEXTFILE")
    assert metastore.catalog.get_table("default", "e").storage.serde.library == serde
    assert ("Serde Library", serde, "") in session.sql("DESCRIBE EXTENDED e").rows
    formats = [f"org.apache.hadoop.hive.ql.io.orc.Orc{each}putFormat" for each in ("In", "Out")]
    session.sql(f"CREATE TABLE o (a int) STORED AS INPUTFORMAT '{formats[0]}' OUTPUTFORMAT '{formats[1]}'")
    stored = metastore.catalog.get_table("default", "o").storage
    assert [stored.input_format, stored.output_format] == formats
