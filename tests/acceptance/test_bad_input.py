"""Bad input: one clear error of our tree, and everything as it was before."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AnalysisError,
    ColumnCountMismatchError,
    HivexError,
    InvalidClusterPropertiesError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidParametersError,
    InvalidTextError,
    JobError,
    LocationOutsideClusterError,
    MergeCardinalityError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchPartitionError,
    NoSuchTableError,
    RoutingError,
    StatementSyntaxError,
    StorageError,
    TypeMismatchError,
    UnknownClusterError,
    UnsupportedJobTrackerError,
    UnsupportedStatementError,
)
from tests.acceptance.cluster_files import data_files

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


@pytest.fixture
def tables(session: Session) -> Session:
    """``t`` with one row, ``p`` with the partitions ds=x of one row and ds=y of none; ``far`` on c2."""
    session.sql("CREATE TABLE t (a int, b string)")
    session.sql("INSERT INTO t VALUES (1, 'one')")
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (ds string, n int)")
    session.sql("INSERT INTO p VALUES (1, 'x', 1)")
    session.sql("ALTER TABLE p ADD PARTITION (ds = 'y', n = 2)")
    session.sql("CREATE TABLE far (a int) TBLPROPERTIES ('hivex.cluster' = 'c2')")
    return session


REFUSED = [
    # what does not exist
    ("SELECT * FROM nope", NoSuchTableError, "default.nope"),
    ("SELECT * FROM nodb.t", NoSuchDatabaseError, "nodb"),
    ("INSERT INTO nope VALUES (1)", NoSuchTableError, "default.nope"),
    ("INSERT INTO t SELECT * FROM nope", NoSuchTableError, "default.nope"),
    ("CREATE TABLE new AS SELECT * FROM nope", NoSuchTableError, "default.nope"),
    ("CREATE TABLE nodb.new (a int)", NoSuchDatabaseError, "nodb"),
    ("CREATE TABLE nodb.new AS SELECT 1 AS a", NoSuchDatabaseError, "nodb"),
    ("DROP TABLE nope", NoSuchTableError, "default.nope"),
    ("ALTER TABLE nope SET TBLPROPERTIES ('a' = 'b')", NoSuchTableError, "default.nope"),
    ("SHOW TABLES IN nodb", NoSuchDatabaseError, "nodb"),
    ("USE nodb", NoSuchDatabaseError, "nodb"),
    ("USE CLUSTER c9", UnknownClusterError, "'c9'.*c1, c2, c3"),
    ("CREATE TABLE new (a int) TBLPROPERTIES ('hivex.cluster' = 'c9')", UnknownClusterError, "c9"),
    ("ALTER TABLE p DROP PARTITION (ds = 'nope')", NoSuchPartitionError, "default.p"),
    ("ALTER TABLE p DROP PARTITION (nope = 'x')", NoSuchColumnError, "nope.*ds, n"),
    ("SHOW PARTITIONS p PARTITION (a = 1)", NoSuchColumnError, "ds, n"),
    ("ALTER TABLE t ADD PARTITION (a = 1)", InvalidOperationError, "no partition keys"),
    ("ALTER TABLE t DROP PARTITION (a = 1)", InvalidOperationError, "no partition keys"),
    ("SHOW PARTITIONS t", InvalidOperationError, "no partition keys"),
    ("SHOW PARTITIONS t PARTITION (a = 1)", InvalidOperationError, "no partition keys"),
    ("INSERT INTO t PARTITION (a = 1) VALUES ('x')", InvalidOperationError, "no partition keys"),
    # values that do not fit
    ("ALTER TABLE p ADD PARTITION (ds = 'x')", InvalidObjectError, "no value for key n"),
    ("ALTER TABLE p ADD PARTITION (ds = 'x', n = 'one')", InvalidObjectError, "n=one.*type int"),
    ("ALTER TABLE p DROP PARTITION (n = 'one')", InvalidObjectError, "type int"),
    ("ALTER TABLE p DROP PARTITION (n > 1.5)", InvalidObjectError, "type int"),
    ("INSERT INTO p PARTITION (ds = 'x', n = 'one') VALUES (1)", InvalidObjectError, "type int"),
    ("INSERT INTO p PARTITION (ds = 'a\\0b', n = 1) VALUES (1)", InvalidObjectError, "ds="),
    ("INSERT INTO p PARTITION (ds = 'a\\ud800', n = 1) VALUES (1)", StatementSyntaxError, "column 31: .*no character"),
    ("INSERT INTO t VALUES (1, '\\U00110000')", StatementSyntaxError, "column 26: .*no character"),
    ("INSERT INTO p PARTITION (ds, n = 1) VALUES (1)", ColumnCountMismatchError, r"must be 2 \(a, ds\), not 1"),
    ("INSERT INTO p PARTITION (ds = 'x') VALUES (1)", ColumnCountMismatchError, r"must be 2 \(a, n\), not 1"),
    ("INSERT INTO p PARTITION (ds = 'x', m) VALUES (1, 2)", NoSuchColumnError, "m among its partition keys"),
    ("INSERT INTO t BY NAME (a) VALUES (1)", StatementSyntaxError, "leave the list out"),
    ("INSERT INTO t VALUES (1)", ColumnCountMismatchError, r"default\.t: .* must be 2 \(a, b\), not 1"),
    ("INSERT INTO t VALUES (1, 'x', 2)", ColumnCountMismatchError, "not 3"),
    ("INSERT INTO t VALUES (1, 'x'), (2)", StatementSyntaxError, "row 2"),
    ("INSERT INTO t (a) VALUES (1, 'x')", ColumnCountMismatchError, r"must be 1 \(a\), not 2"),
    ("INSERT INTO t (a, nope) VALUES (1, 'x')", NoSuchColumnError, "nope.*a, b"),
    ("INSERT INTO t (a, A) VALUES (1, 2)", StatementSyntaxError, "twice"),
    ("INSERT INTO t VALUES ('x', 'y')", TypeMismatchError, "a of default.t has type int"),
    ("INSERT INTO t VALUES (true, 'y')", TypeMismatchError, "CAST"),
    ("INSERT INTO t VALUES (:a, :b)", InvalidParametersError, ":a, :b"),
    # names of folders
    (f"INSERT INTO p VALUES (1, '{'x' * 253}', 1)", InvalidObjectError, "its folder would have a name"),
    (f"INSERT INTO p PARTITION (ds = '{'ü' * 127}', n) VALUES (1, 1)", InvalidObjectError, "its folder would have"),
    (f"INSERT INTO p PARTITION (ds = '{'=' * 85}', n) SELECT 1, 1", InvalidObjectError, "its folder would have"),
    (f"ALTER TABLE p ADD PARTITION (ds = '{'x' * 253}', n = 1)", InvalidObjectError, "its folder would have a name"),
    (
        f"ALTER TABLE p PARTITION (ds = 'x', n = 1) RENAME TO PARTITION (ds = '{'x' * 1000}', n = 1)",
        InvalidObjectError,
        "its folder would have a name",
    ),
    # definitions
    ("CREATE TABLE new (a foo)", StatementSyntaxError, "Line 1, column 21.*foo"),
    ("CREATE TABLE new (a int, A string)", StatementSyntaxError, "twice"),
    ("CREATE TABLE new (__row_id int)", InvalidObjectError, "reserved"),
    ("CREATE TABLE new (`a b` int)", InvalidObjectError, "'a b' has a blank; names of columns"),
    ("CREATE TABLE new (id int) PARTITIONED BY (`k=` int)", InvalidObjectError, "'k=' has '='; names of columns"),
    ("CREATE TABLE new (a int) PARTITIONED BY (b map<string,int>)", InvalidObjectError, "b cannot have"),
    ("CREATE TABLE new (a int) CLUSTERED BY (b) INTO 2 BUCKETS", NoSuchColumnError, "b"),
    ("CREATE TABLE new (a int) SKEWED BY (b) ON (1)", NoSuchColumnError, "b"),
    ("CREATE TABLE new (a int) USING delta", InvalidObjectError, "stored as one of avro.*, not delta"),
    ("CREATE OR REPLACE TABLE new LIKE t", UnsupportedStatementError, "does not replace"),
    ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a int)", StatementSyntaxError, "IF NOT EXISTS"),
    ("CREATE TABLE new (a int) USING csv OPTIONS (path 'a') LOCATION 'a'", StatementSyntaxError, "twice"),
    ("CREATE EXTERNAL TABLE new (a int) STORED AS RCFILE LOCATION 'x'", InvalidObjectError, "rcfile.*parquet"),
    ("CREATE EXTERNAL TABLE new (a int) USING text LOCATION 'x'", InvalidObjectError, "value string"),
    ("CREATE EXTERNAL TABLE new (a int) USING binaryFile LOCATION 'x'", InvalidObjectError, "content binary"),
    ("CREATE EXTERNAL TABLE new (a int) USING xml LOCATION 'x'", InvalidObjectError, "rowTag"),
    ("CREATE EXTERNAL TABLE new (a int) STORED AS ORC LOCATION 'file:///etc'", LocationOutsideClusterError, "c1"),
    ("CREATE EXTERNAL TABLE new (a int) STORED AS ORC LOCATION '../c2'", LocationOutsideClusterError, "c1"),
    ("CREATE EXTERNAL TABLE new (a int) STORED AS ORC LOCATION 's3://b/x'", LocationOutsideClusterError, "s3://b/x"),
    ("CREATE EXTERNAL TABLE new (a int) STORED AS ORC LOCATION 'x\\0'", InvalidTextError, "NUL"),
    ("LOAD DATA INPATH 'x\\0' INTO TABLE t", InvalidTextError, "location has a NUL"),
    ("CREATE TABLE new (a int) LOCATION '/etc'", LocationOutsideClusterError, "/etc"),
    ("CREATE DATABASE new LOCATION 'file:///etc'", LocationOutsideClusterError, "c1"),
    ("CREATE DATABASE new LOCATION ''", InvalidObjectError, "new"),
    ("CREATE TABLE `x y` (a int)", InvalidObjectError, "x y"),
    ("ALTER TABLE p ADD PARTITION (ds = 'z', n = 1) LOCATION 'z'", InvalidOperationError, "managed"),
    # routes
    ("SELECT * FROM t JOIN far USING (a)", RoutingError, "default.far"),
    ("INSERT INTO far SELECT a FROM t", RoutingError, "default.t"),
    # no statement of ours
    ("", StatementSyntaxError, "no statement"),
    ("SELEC 1", StatementSyntaxError, "column 1"),
    ("SELECT 1; SELECT 2", StatementSyntaxError, "second statement"),
    ("SELECT 'open", StatementSyntaxError, "column 8"),
    # changes of rows
    ("UPDATE nowhere SET a = 1", NoSuchTableError, "nowhere"),
    ("UPDATE t SET c = 1", NoSuchColumnError, "c"),
    ("UPDATE p SET ds = 'x'", InvalidOperationError, "partition column ds"),
    ("UPDATE t SET a.b = 1", UnsupportedStatementError, "field"),
    ("UPDATE t SET a = 1, a = 2", StatementSyntaxError, "twice"),
    ("DELETE FROM far WHERE a IN (SELECT a FROM t)", RoutingError, "default.t"),
    ("MERGE INTO t USING p ON t.a = p.a", StatementSyntaxError, "WHEN"),
    ("MERGE INTO t USING p ON t.a = p.a WHEN NOT MATCHED THEN INSERT VALUES (1)", ColumnCountMismatchError, "not 1"),
    ("MERGE INTO t USING p ON t.a = p.a WHEN NOT MATCHED THEN INSERT (c) VALUES (1)", NoSuchColumnError, "c"),
    ("MERGE INTO p USING t ON t.a = p.a WHEN NOT MATCHED THEN INSERT (nope) VALUES (1)", NoSuchColumnError, "nope"),
    ("EXPLAIN ROUTE DROP TABLE t", UnsupportedStatementError, "no route"),
    ("SELECT * FROM csv.`/etc/passwd`", HivexError, "csv"),
]


@on_sqlite
def test_refused_before_anything_changes(tables: Session, metastore: Metastore, tmp_path: Path) -> None:
    def state() -> list[object]:
        shown = [tables.sql(f"SHOW {what}").rows for what in ("DATABASES", "TABLES", "PARTITIONS p")]
        return [
            data_files(tmp_path),
            shown,
            tables.database,
            tables.cluster,
            metastore.transactions.valid_txns().open_ids,
        ]

    before = state()
    assert before[-1] == ()
    failures: list[Exception] = []
    for sql, error, says in REFUSED:
        try:
            with pytest.raises(error, match=says):
                tables.sql(sql)
            assert state() == before
        except Exception as failure:
            failure.add_note(sql)
            failures.append(failure)
    if failures:
        raise ExceptionGroup("not refused as expected", failures)


FAILING_JOBS = [
    ("SELECT nope FROM t", AnalysisError, r"`nope`.*\[`a`, `b`\]"),
    ("SELECT t.a FROM t JOIN t AS u ON t.a = u.a WHERE b = 'x'", AnalysisError, "`t`.`b`, `u`.`b`"),
    ("SELECT nofunction(a) FROM t", AnalysisError, "nofunction"),
    ("SELECT a FROM t WHERE a = 'x'", JobError, "'x'.*cannot be cast"),
    ("SELECT 1 / 0", JobError, "Division by zero"),
    ("INSERT INTO t SELECT 1", ColumnCountMismatchError, r"default\.t: the number of columns must be 2 .*not 1"),
    ("INSERT INTO t SELECT a, b, a FROM t", ColumnCountMismatchError, "not 3"),
    ("INSERT INTO t SELECT b, b FROM t", TypeMismatchError, "a of default.t has type int"),
    ("INSERT INTO t SELECT nope, b FROM t", AnalysisError, "nope"),
    ("INSERT INTO t VALUES (99999999999, 'x')", JobError, "overflow"),
    ("INSERT INTO t SELECT a + 99999999999, b FROM t", JobError, "overflow"),
    ("INSERT OVERWRITE t SELECT a / (a - 1), b FROM t", HivexError, "(?i)by zero|int"),
    ("INSERT INTO p SELECT 1, repeat('x', 300), 1", InvalidObjectError, "of default.p: its folder would have a name"),
    ("INSERT INTO p SELECT 1, repeat('/', 85), 1", InvalidObjectError, "of default.p: its folder would have a name"),
    ("INSERT INTO p VALUES (1, 'a\\0b', 1)", InvalidObjectError, "has a NUL character at position 5"),
    ("INSERT INTO p SELECT 1, 'a\\0b', 1", InvalidObjectError, r"'ds = a\\x00b' of default.p: the value has a NUL"),
    ("UPDATE t SET a = 'one'", TypeMismatchError, "a of default.t has type int"),
    ("UPDATE t SET a = a + 2147483647", JobError, "overflow"),
    ("UPDATE t SET a = 1 / 0", JobError, "Division by zero"),
    ("UPDATE t SET a = 1 WHERE nope = 2", AnalysisError, "nope"),
    ("UPDATE t SET a = sum(a)", AnalysisError, "(?i)group by"),
    ("UPDATE t SET b = explode(array('x', 'y'))", AnalysisError, "(?i)generator"),
    ("DELETE FROM t WHERE a", AnalysisError, "BOOLEAN"),
    ("DELETE FROM t WHERE 1 / 0 = a", JobError, "Division by zero"),
    ("MERGE INTO t USING (SELECT 1 AS x) s ON t.a = s.x WHEN MATCHED THEN UPDATE SET *", NoSuchColumnError, "source"),
    (
        "MERGE INTO t USING (SELECT explode(array(1, 1)) AS x) s ON t.a = s.x WHEN MATCHED THEN DELETE",
        MergeCardinalityError,
        "rows of the target that several rows of the source match each: 1",
    ),
    (
        "MERGE INTO p USING (SELECT 1 AS a, 'z' AS ds, 1 AS n) s ON p.a = s.a WHEN MATCHED THEN UPDATE SET *",
        JobError,
        "column ds, which decides where a row is stored",
    ),
    ("CREATE TABLE new AS SELECT a FROM t WHERE a / 0 = 1", JobError, "Division by zero"),
    ("CREATE TABLE new AS SELECT nope FROM t", AnalysisError, "nope"),
    ("CREATE TABLE new AS SELECT a, a FROM t", InvalidObjectError, "a twice"),
    ("CREATE TABLE new AS SELECT a + 1 FROM t", InvalidObjectError, "AS"),
    ("CREATE TABLE new AS SELECT NULL AS a", InvalidObjectError, "void"),
    ("CREATE TABLE new AS SELECT named_struct('b`c', 1) AS a", InvalidObjectError, "lose fields with a backquote"),
]


@pytest.mark.spark
@on_sqlite
def test_failing_jobs_leave_nothing_behind(tables: Session, metastore: Metastore, tmp_path: Path) -> None:
    before, shown = data_files(tmp_path), tables.sql("SHOW TABLES").rows
    for sql, error, says in FAILING_JOBS:
        with pytest.raises(error, match=says) as raised:
            tables.sql(sql)
        assert "hivex_" not in str(raised.value), f"{sql}: a view's name is in the message"
        assert (sql, data_files(tmp_path)) == (sql, before)
        assert (sql, metastore.transactions.valid_txns().open_ids) == (sql, ())
    assert tables.sql("SHOW TABLES").rows == shown
    assert tables.sql("SELECT * FROM t").rows == [(1, "one")]
    assert tables.sql("SELECT * FROM p").rows == [(1, "x", 1)]


PROPERTIES = [
    ("{", "JSON"),
    ("[]", "JSON"),
    ("{}", "cluster"),
    ({}, "cluster"),
    ({"c1": {"filesystem": "file:///x"}}, "c1.*jobtracker"),
    ({"c1": {"jobtracker": "local[1]"}}, "c1.*filesystem"),
    ({"c1": {"filesystem": "relative", "jobtracker": "local[1]"}}, "filesystem"),
    ({"c1": {"filesystem": "file:///x", "jobtracker": "local[x]"}}, "jobtracker"),
    ({"c1": {"filesystem": "file:///x", "jobtracker": "local[1]", "colour": "red"}}, "colour"),
    ({"c 1": {"filesystem": "file:///x", "jobtracker": "local[1]"}}, "c 1"),
    ({"a": {"filesystem": "file:///x", "jobtracker": "local[1]"},
      "b": {"filesystem": "file:///x/y", "jobtracker": "local[1]"}}, "x"),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "says"), PROPERTIES, ids=[str(case[0])[:50] for case in PROPERTIES])
def test_cluster_properties_are_checked_before_the_store_is_touched(
    tmp_path: Path, properties: object, says: str
) -> None:
    with pytest.raises(InvalidClusterPropertiesError, match=says):
        Metastore.open(f"sqlite:///{tmp_path / 'never.db'}", clusters=properties)  # type: ignore[arg-type]
    assert not (tmp_path / "never.db").exists()


def test_tables_of_a_removed_cluster_are_listed_and_refused_with_the_reason(
    metastore_url: str, tables: Session, tmp_path: Path
) -> None:
    tables.sql("INSERT INTO far VALUES (1)")
    clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(metastore_url, clusters=clusters) as reduced, reduced.session() as session:
        assert ("far",) in session.sql("SHOW TABLES").rows
        assert ("Primary Cluster", "c2", "") in session.sql("DESCRIBE EXTENDED far").rows
        assert session.sql("SHOW CREATE TABLE far").rows
        for sql in ("SELECT * FROM far", "INSERT INTO far VALUES (2)", "SELECT * FROM t JOIN far USING (a)"):
            with pytest.raises(RoutingError, match=r"c2.*hive\.cluster\.properties"):
                session.sql(sql)
        assert reduced.transactions.valid_txns().open_ids == ()


def test_a_job_tracker_without_a_runner_is_named(sqlite_url: str, tmp_path: Path) -> None:
    clusters = {"c1": {"filesystem": tmp_path.as_uri(), "jobtracker": "spark_default"}}
    with Metastore.open(sqlite_url, clusters=clusters) as metastore, metastore.session() as session:
        with pytest.raises(UnsupportedJobTrackerError, match=r"c1.*spark_default.*connection of Airflow"):
            session.sql("SELECT 1")
        assert metastore.transactions.valid_txns().open_ids == ()


@pytest.mark.spark
@on_sqlite
def test_unusable_storage_is_reported_and_the_table_recovers(
    tables: Session, metastore: Metastore, tmp_path: Path
) -> None:
    tables.sql("CREATE TABLE w (a int) PARTITIONED BY (p string)")
    in_the_way = tmp_path / "c1/default.db/w"
    in_the_way.write_text("not a directory", encoding="utf-8")
    with pytest.raises(StorageError, match=r"default\.db/w"):
        tables.sql("INSERT INTO w VALUES (1, 'x')")
    with pytest.raises(JobError, match=r"default\.db/w"):
        tables.sql("INSERT INTO w SELECT 1, 'x'")
    assert tables.sql("SELECT * FROM w").rows == []
    assert metastore.transactions.valid_txns().open_ids == ()
    in_the_way.unlink()
    tables.sql("INSERT INTO w VALUES (1, 'x')")
    tables.sql("INSERT INTO w SELECT 2, 'x'")
    assert tables.sql("SELECT sum(a) FROM w").rows == [(3,)]


@pytest.mark.spark
@on_sqlite
def test_a_directory_deleted_by_hand_is_an_error_that_names_the_table(tables: Session, tmp_path: Path) -> None:
    shutil.rmtree(next((tmp_path / "c1/default.db/t").glob("delta_*")))
    with pytest.raises(JobError, match=r"delta_\d+.*belongs to default\.t"):
        tables.sql("SELECT * FROM t")
    tables.sql("DROP TABLE t")
    tables.sql("CREATE TABLE t (a int)")
    assert tables.sql("SELECT * FROM t").rows == []


@pytest.mark.spark
@on_sqlite
def test_a_damaged_file_is_an_error_that_names_it(tables: Session, tmp_path: Path) -> None:
    tables.sql("CREATE TABLE w (a int, v string)")
    tables.sql("INSERT INTO w SELECT id, 'x' FROM range(1000)")
    tables.sql("DELETE FROM w WHERE a % 3 = 0")
    statements = ["SELECT sum(a) FROM w", "UPDATE w SET v = 'y'", "INSERT OVERWRITE w SELECT a + 1, v FROM w"]
    for kind, damage in itertools.product(("delta", "delete_delta"), ("cut off", "not ORC", "gone")):
        file = next((tmp_path / "c1/default.db/w").glob(f"{kind}_*/bucket_*"))
        data = file.read_bytes()
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(data[: len(data) // 2] if damage == "cut off" else b"a,v\n1,x\n")
        says = r"default\.w" if damage == "gone" else f"{file.parent.name}/{file.name}"
        for statement in statements:
            with pytest.raises(JobError, match=says):
                tables.sql(statement)
        file.write_bytes(data)
        assert tables.sql("SELECT count(*), max(v) FROM w").rows == [(666, "x")], (kind, damage)
