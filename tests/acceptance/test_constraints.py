"""DEFAULT, NOT NULL and CHECK: on each way by which rows come into a table, and when the table changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hive_metastore import ttypes

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AnalysisError,
    ColumnCountMismatchError,
    ConstraintViolationError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    TypeMismatchError,
    UnsupportedStatementError,
)
from tests.hive_endpoint import hive_client, serving

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

COLUMNS = """id int NOT NULL, v string DEFAULT 'none' COMMENT 'text', n int DEFAULT 1 + 1 CHECK (n > 0),
    CONSTRAINT short CHECK (length(v) < 10 AND id < 100)"""


def rows(session: Session, sql: str = "SELECT id, v, n, p FROM t ORDER BY id") -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.fixture
def t(session: Session) -> Session:
    session.sql(f"CREATE TABLE t ({COLUMNS}) PARTITIONED BY (p string DEFAULT 'x')")
    return session


def test_columns_that_are_not_given_have_their_default_values(t: Session) -> None:
    t.sql("INSERT INTO t (id) VALUES (1)")
    t.sql("INSERT INTO t (id, v, p) VALUES (2, 'b', 'y'), (3, DEFAULT, DEFAULT)")
    t.sql("INSERT INTO t VALUES (4, DEFAULT, 5, DEFAULT)")
    t.sql("INSERT INTO t BY NAME SELECT 5 AS id, CAST(NULL AS STRING) AS v")
    t.sql("INSERT INTO t PARTITION (p = 'z') (n, id) SELECT 7, 6")
    assert rows(t) == [
        (1, "none", 2, "x"),
        (2, "b", 2, "y"),
        (3, "none", 2, "x"),
        (4, "none", 5, "x"),
        (5, None, 2, "x"),
        (6, "none", 7, "z"),
    ]
    t.sql("UPDATE t SET v = DEFAULT, n = DEFAULT WHERE id > 3")
    t.sql(
        "MERGE INTO t USING (SELECT 2 AS id UNION ALL SELECT 20) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = DEFAULT WHEN NOT MATCHED THEN INSERT (n, id) VALUES (DEFAULT, s.id)"
    )
    assert rows(t, "SELECT id, p FROM t WHERE v = 'none' AND n = 2 ORDER BY id") == [
        *[(1, "x"), (2, "y"), (3, "x"), (4, "x"), (5, "x"), (6, "z")],
        (20, "x"),
    ]
    with pytest.raises(ColumnCountMismatchError, match="not 5"):
        t.sql("INSERT INTO t VALUES (1, DEFAULT, DEFAULT, DEFAULT, DEFAULT)")


REFUSED = {
    "INSERT INTO t (v) VALUES ('a')": "NOT NULL of column id, and a row with v = a, n = 2, p = x",
    "INSERT INTO t (id, v) VALUES (7, 'b'), (NULL, 'a')": "NOT NULL of column id",
    "INSERT INTO t (id, v) VALUES (8, 'a text that is too long')": r"CHECK short \(length.*v = a text that is too",
    "INSERT INTO t (id, n) SELECT 5 - id, 3 - id FROM range(5) r(id)": r"CHECK check_1 \(n > 0\), and a row with n = ",
    "INSERT OVERWRITE t PARTITION (p = 'x') (id, n) VALUES (1, -2)": "n = -2",
    "UPDATE t SET n = n - 5": "n = -3",
    "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = NULL": "NOT NULL",
    "MERGE INTO t USING (SELECT 200 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (id)": "id = 200",
    "FROM (SELECT -1 AS n) f INSERT INTO t (id, n) SELECT 3, n INSERT INTO t (id) SELECT 4": "n = -1",
    "LOAD DATA INPATH 'in' INTO TABLE t PARTITION (p = 'l') INPUTFORMAT 'org.apache.hadoop.mapred.TextInputFormat' "
    "SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'": "CHECK check_1.*n = -9",
}


def test_rows_that_violate_a_constraint_are_refused_and_nothing_changes(t: Session, tmp_path: Path) -> None:
    t.sql("INSERT INTO t (id) VALUES (1)")
    t.sql("INSERT INTO t (id, n) VALUES (2, NULL)")
    (tmp_path / "c1" / "in").mkdir()
    (tmp_path / "c1" / "in" / "f").write_bytes(b"1\x01a\x01-9\n")
    before = rows(t)
    for statement, reason in REFUSED.items():
        with pytest.raises(ConstraintViolationError, match=f"default.t has the constraint .*{reason}"):
            t.sql(statement)
        assert rows(t) == before, statement
    assert rows(t, "SHOW LOCKS") == []
    t.sql("CREATE TABLE u (id int CHECK (id))")
    with pytest.raises(AnalysisError, match="DATATYPE_MISMATCH"):
        t.sql("INSERT INTO u VALUES (1)")


def test_constraints_come_and_go_by_alter_table(t: Session, metastore: Metastore) -> None:
    t.sql("INSERT INTO t (id) VALUES (1), (2)")
    for statement, sample in {
        "ADD CONSTRAINT large CHECK (id > 1)": "CHECK large .*id = 1",
        "ALTER COLUMN missing SET NOT NULL": "missing",
    }.items():
        with pytest.raises(HivexError, match=sample):
            t.sql(f"ALTER TABLE t {statement}")
    t.sql("ALTER TABLE t ADD CONSTRAINT large CHECK (id > 0)")
    t.sql("ALTER TABLE t DROP CONSTRAINT short")
    t.sql("ALTER TABLE t DROP CONSTRAINT IF EXISTS short")
    with pytest.raises(InvalidObjectError, match="its constraints are check_1, large"):
        t.sql("ALTER TABLE t DROP CONSTRAINT short")
    with pytest.raises(InvalidObjectError, match="drop it first"):
        t.sql("ALTER TABLE t ADD CONSTRAINT large CHECK (id > 5)")
    t.sql("ALTER TABLE t ALTER COLUMN v SET DEFAULT 'other'")
    t.sql("ALTER TABLE t ALTER COLUMN id DROP NOT NULL")
    t.sql("INSERT INTO t (n) VALUES (9)")
    with pytest.raises(ConstraintViolationError, match="id = NULL"):
        t.sql("ALTER TABLE t ALTER COLUMN id SET NOT NULL")
    assert rows(t, "SELECT v FROM t WHERE n = 9") == [("other",)]
    with pytest.raises(InvalidOperationError, match="CHECK large"):
        t.sql("ALTER TABLE t RENAME COLUMN id TO key")
    with pytest.raises(InvalidOperationError, match="CHECK check_1"):
        t.sql("ALTER TABLE t DROP COLUMN n")
    t.sql("ALTER TABLE t RENAME COLUMN v TO w")
    t.sql("INSERT INTO t (id) VALUES (3)")
    assert rows(t, "SELECT w FROM t WHERE id = 3") == [("other",)]
    (statement,) = rows(t, "SHOW CREATE TABLE t")[0]
    before = metastore.catalog.get_table("default", "t").parameters
    t.sql("DROP TABLE t")
    t.sql(str(statement))
    assert metastore.catalog.get_table("default", "t").parameters == before
    t.sql("ALTER TABLE t DROP COLUMN w")
    with pytest.raises(InvalidObjectError, match="is set by DEFAULT"):
        t.sql("ALTER TABLE t SET TBLPROPERTIES ('hivex.check.x' = 'id > 0')")


KEYS = """id int CONSTRAINT n NOT NULL DISABLE NOVALIDATE, a int UNIQUE NOT ENFORCED, b string,
    CONSTRAINT pk PRIMARY KEY (id, a) DISABLE NOVALIDATE RELY,
    FOREIGN KEY (a) REFERENCES parent (x) DISABLE NOVALIDATE"""


def test_keys_that_nothing_enforces_are_kept_and_shown(session: Session, metastore: Metastore) -> None:
    session.sql(f"CREATE TABLE k ({KEYS})")
    session.sql("INSERT INTO k VALUES (NULL, 1, 'x'), (NULL, 1, 'x')")
    session.sql("ALTER TABLE k CHANGE b b string CONSTRAINT u UNIQUE DISABLE NOVALIDATE")
    (statement,) = rows(session, "SHOW CREATE TABLE k")[0]
    assert str(statement).splitlines()[1:8] == [
        "  `id` int CONSTRAINT `n` NOT NULL DISABLE NOVALIDATE,",
        "  `a` int,",
        "  `b` string,",
        "  CONSTRAINT `unique` UNIQUE (`a`) DISABLE NOVALIDATE,",
        "  CONSTRAINT `pk` PRIMARY KEY (`id`, `a`) DISABLE NOVALIDATE RELY,",
        "  CONSTRAINT `foreign_key` FOREIGN KEY (`a`) REFERENCES `default`.`parent` (`x`) DISABLE NOVALIDATE,",
        "  CONSTRAINT `u` UNIQUE (`b`) DISABLE NOVALIDATE)",
    ]
    facts = dict(row[:2] for row in rows(session, "DESCRIBE FORMATTED k"))
    assert str(facts["Keys"]).startswith("n: NOT NULL DISABLE NOVALIDATE of `id`; unique: UNIQUE (`a`)")
    before = metastore.catalog.get_table("default", "k").parameters
    session.sql("DROP TABLE k")
    session.sql(str(statement))
    assert metastore.catalog.get_table("default", "k").parameters == before
    with pytest.raises(InvalidObjectError, match=r"the primary key of default.k; drop it first"):
        session.sql("ALTER TABLE k ADD PRIMARY KEY (b) DISABLE NOVALIDATE")
    session.sql("ALTER TABLE k RENAME COLUMN a TO c")
    session.sql("ALTER TABLE k DROP CONSTRAINT n")
    assert "UNIQUE (`c`)" in rows(session, "SHOW CREATE TABLE k")[0][0]
    session.sql("ALTER TABLE k DROP COLUMN c")
    assert [each for each in metastore.catalog.get_table("default", "k").parameters if "hivex.key" in each] == [
        "hivex.key.u"
    ]
    session.sql("CREATE EXTERNAL TABLE e (id int PRIMARY KEY DISABLE NOVALIDATE) STORED AS ORC LOCATION 'files/e'")


def test_rows_are_compared_with_a_constraint_that_a_client_of_hive_adds(t: Session, metastore: Metastore) -> None:
    t.sql("INSERT INTO t (id, v) VALUES (1, NULL)")
    refused = ttypes.AddNotNullConstraintRequest([ttypes.SQLNotNullConstraint("hive", "default", "t", "v")])
    check = ttypes.SQLCheckConstraint("hive", "default", "t", "id", "id < 5", "small")
    before = metastore.catalog.get_table("default", "t").parameters
    with serving(metastore) as endpoint, hive_client(endpoint.port) as hive:
        with pytest.raises(ttypes.MetaException, match="NOT NULL of column v"):
            hive.add_not_null_constraint(refused)
        assert metastore.catalog.get_table("default", "t").parameters == before
        hive.add_check_constraint(ttypes.AddCheckConstraintRequest([check]))
        with pytest.raises(ConstraintViolationError, match="CHECK small"):
            t.sql("INSERT INTO t (id) VALUES (7)")
        hive.drop_constraint(ttypes.DropConstraintRequest("default", "t", "small"))
    assert metastore.catalog.get_table("default", "t").parameters == before


@pytest.mark.parametrize(
    ("columns", "error", "reason"),
    [
        ("a tinyint DEFAULT 300", InvalidObjectError, "300 is not a valid value of column a"),
        ("a int DEFAULT 'x'", TypeMismatchError, "int"),
        ("a int DEFAULT b, b int", UnsupportedStatementError, "reads no column, such as b"),
        ("a int CHECK (b > 1)", NoSuchColumnError, "b"),
        ("a int CHECK (1 > 0)", UnsupportedStatementError, "names none"),
        ("a int CHECK (a > (SELECT max(id) FROM t))", UnsupportedStatementError, "no table"),
        ("a int CHECK (reflect('a', 'b') > a)", UnsupportedStatementError, "no function that runs code"),
        ("a int CHECK (max(a) > 1)", UnsupportedStatementError, "no group of rows"),
        ("a int CHECK (a > 0) DISABLE", UnsupportedStatementError, "not enforced"),
        ("a int PRIMARY KEY", UnsupportedStatementError, "nothing enforces a PRIMARY KEY; write DISABLE NOVALIDATE"),
        ("a int, UNIQUE (a) ENABLE", UnsupportedStatementError, "nothing enforces a UNIQUE"),
        ("a int NOT NULL DISABLE VALIDATE", UnsupportedStatementError, "rows are not compared"),
        ("a int UNIQUE DISABLE, PRIMARY KEY (b) DISABLE", NoSuchColumnError, "b"),
        ("a int PRIMARY KEY DISABLE, b int PRIMARY KEY DISABLE", HivexError, "twice"),
        ("a int NOT NULL NOT NULL", HivexError, "twice"),
        ("a int, CONSTRAINT c CHECK (a > 0), CONSTRAINT c CHECK (a > 1)", HivexError, "twice"),
    ],
)
def test_constraints_that_are_not_valid_are_refused(
    session: Session, columns: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        session.sql(f"CREATE TABLE t ({columns})")
    assert rows(session, "SHOW TABLES") == []


def test_constraints_call_functions_of_spark_only(session: Session) -> None:
    # No class is loaded before a call.
    session.sql("CREATE FUNCTION code AS 'a.Missing'")
    session.sql("CREATE TABLE t (id int)")
    session.sql("CREATE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN x")
    for statement, function in {
        "CREATE TABLE u (id int CHECK (code(id) > 0))": "permanent function default.code",
        "CREATE TABLE u (id int DEFAULT default.code(1))": "permanent function default.code",
        "CREATE TABLE u (id int, CHECK (own(id) > 0))": "temporary function own",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (abs(own(id)) > 0)": "temporary function own",
        "ALTER TABLE t ALTER COLUMN id SET DEFAULT code(1)": "permanent function default.code",
        "ALTER TABLE t CHANGE id id int DEFAULT own(1)": "temporary function own",
    }.items():
        with pytest.raises(InvalidObjectError, match=f"calls the {function}; constraints call those of Spark only"):
            session.sql(statement)
    assert rows(session, "SHOW TABLES") == [("t",)]
