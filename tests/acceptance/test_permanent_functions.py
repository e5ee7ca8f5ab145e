"""Permanent functions: each session of each user calls them, and clients of Hive see them."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from hive_metastore import ttypes

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    AnalysisError,
    ForeignNameError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchFunctionError,
    UnsupportedStatementError,
)
from tests.hive_endpoint import hive_client, serving

pytestmark = [
    pytest.mark.spark,
    pytest.mark.evidence(cases=1, among="permanent functions"),
    pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True),
]

HEX = "org.apache.hadoop.hive.ql.udf.UDFHex"


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id int, v string)")
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return session


@pytest.fixture
def trusting(metastore_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Session]:
    """A session that may run classes."""
    settings = {"hivex.allow.code.execution": True}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session(user="trusted") as session,
    ):
        yield session


def test_functions_of_sql_are_called_by_all_sessions(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE DATABASE shop")
    t.sql("CREATE FUNCTION shop.plus(x INT, y INT DEFAULT 1) RETURNS INT COMMENT 'adds' RETURN x + y")
    t.sql("CREATE FUNCTION plus2(x INT) RETURNS INT RETURN shop.plus(shop.Plus(x))")
    t.sql("CREATE VIEW w AS SELECT plus2(id) AS n FROM t")
    with metastore.session(user="other", database="shop") as other:
        assert rows(other, "SELECT n, plus(n, 10), `shop`.`plus`(n) FROM default.w ORDER BY n") == [
            *[(3, 13, 4), (4, 14, 5)]
        ]
        assert other.sql("UPDATE default.t SET id = default.plus2(id) WHERE plus(id) = 3").rows_written == 1
        other.sql("INSERT INTO default.t SELECT shop.plus(id, 100), 'n' FROM default.t WHERE plus(id) = 2")
        with pytest.raises(AnalysisError, match="plus2"):
            other.sql("SELECT plus2(1)")
    assert rows(t, "SELECT id FROM t ORDER BY id") == [(1,), (4,), (101,)]
    assert rows(t, "SELECT * FROM w ORDER BY n") == [(3,), (6,), (103,)]
    (plan,) = t.sql("EXPLAIN UPDATE t SET v = 'x' WHERE shop.plus(id) = 2").rows[0]
    assert "FileScan" in str(plan)
    (plan,) = t.sql("EXPLAIN FROM t INSERT INTO t SELECT plus2(id), v INSERT INTO t SELECT id, v").rows[0]
    assert "FileScan" in str(plan)
    (plan,) = t.sql("EXPLAIN MERGE INTO t USING w ON plus2(t.id) = w.n WHEN MATCHED THEN DELETE").rows[0]
    assert "FileScan" in str(plan)
    t.sql("CREATE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN 2 * plus2(x)")
    t.sql("CREATE TEMPORARY FUNCTION own2(x INT) RETURNS INT RETURN own(x) + shop.plus(0)")
    t.sql("USE shop")
    assert rows(t, "SELECT own2(10), own(id) FROM default.t WHERE own(id) = 6") == [(25, 6)]
    t.sql("USE default")
    t.sql("CREATE OR REPLACE FUNCTION shop.plus(x INT) RETURNS INT RETURN x - 1")
    assert rows(t, "SELECT plus2(10), own(10)") == [(8, 16)]
    for name in ("own", "own2"):
        t.sql(f"DROP TEMPORARY FUNCTION {name}")
    # The functions of the session, and those of Spark, win over a name without a database.
    t.sql("CREATE FUNCTION lower(x STRING) RETURNS STRING RETURN 'own'")
    assert rows(t, "SELECT lower('A'), default.lower('A')") == [("a", "own")]
    t.sql("CREATE TEMPORARY FUNCTION plus2(x INT) RETURNS INT RETURN 0")
    assert rows(t, "SELECT plus2(10), default.plus2(10)") == [(0, 8)]
    assert rows(t, "SHOW USER FUNCTIONS") == [("default.lower",), ("default.plus2",), ("plus2",)]
    assert rows(t, "SHOW USER FUNCTIONS IN shop LIKE 'p*'") == [("plus2",), ("shop.plus",)]
    assert rows(t, "DESCRIBE FUNCTION EXTENDED shop.plus") == [
        ("Function: shop.plus",),
        ("Type: SCALAR",),
        ("Input: (x INT)",),
        ("Returns: int",),
        ("Deterministic: true",),
        ("Body: x - 1",),
        ("Owner: tester",),
    ]
    t.sql(
        "CREATE OR REPLACE FUNCTION plus2(x INT, y INT DEFAULT shop.plus(5)) COMMENT 'more' RETURN plus2.x || plus2.y"
    )
    assert rows(t, "SELECT default.plus2(1), default.plus2(1, 2)") == [("14", "12")]
    assert ("Returns: STRING",) in rows(t, "DESCRIBE FUNCTION default.plus2")
    t.sql("CREATE FUNCTION field(field STRUCT<a: INT>) RETURN field.a")
    assert rows(t, "SELECT field(named_struct('a', 4)) + 1") == [(5,)]
    t.sql("DROP FUNCTION shop.plus")
    t.sql("DROP FUNCTION IF EXISTS shop.plus")
    with pytest.raises(AnalysisError, match="plus"):
        t.sql("SELECT shop.plus(1)")


def test_functions_that_cannot_be_made_or_called_are_refused(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE FUNCTION f(x INT) RETURNS INT RETURN x")
    for statement, error in {
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN x": AlreadyExistsError,
        "CREATE FUNCTION nope.f(x INT) RETURNS INT RETURN x": NoSuchDatabaseError,
        "CREATE FUNCTION g(x INT) RETURNS INT RETURN z": AnalysisError,
        "CREATE FUNCTION g(x INT) RETURNS INT RETURN (SELECT max(id) FROM t)": HivexError,
        "CREATE FUNCTION g(x STRING DEFAULT reflect('a', 'b')) RETURNS STRING RETURN x": InvalidOperationError,
        "CREATE OR REPLACE FUNCTION f(x INT) RETURNS INT RETURN f(x)": HivexError,
        "CREATE OR REPLACE FUNCTION f(x INT DEFAULT f(1)) RETURN x": HivexError,
        "CREATE FUNCTION g(x INT) RETURNS TABLE RETURN SELECT x": UnsupportedStatementError,
        "CREATE FUNCTION g(x INT) RETURN NULL": InvalidObjectError,
        "CREATE FUNCTION g(x INT) RETURN array()": InvalidObjectError,
        "DROP FUNCTION g": NoSuchFunctionError,
        "DESCRIBE FUNCTION default.g": NoSuchFunctionError,
    }.items():
        with pytest.raises(error):
            t.sql(statement)
    assert t.sql("CREATE FUNCTION IF NOT EXISTS f(x INT) RETURNS INT RETURN 0").rows == []
    assert rows(t, "SELECT f(7)") == [(7,)]
    t.sql(f"CREATE FUNCTION code AS '{HEX}'")
    with pytest.raises(InvalidOperationError, match=r"hivex\.allow\.code\.execution"):
        t.sql("SELECT code(v) FROM t")
    t.sql("CREATE DATABASE closed WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    t.sql("USE closed")
    defaulted = "CREATE FUNCTION g(x INT DEFAULT default.f(1)) RETURN x"
    for statement in (
        defaulted,
        "SELECT default.f(1)",
        "CREATE VIEW v AS SELECT default.f(1) AS x",
        "DROP FUNCTION default.f",
    ):
        with pytest.raises(ForeignNameError, match=r"default\.f belongs to another namespace"):
            t.sql(statement)
    t.sql("CREATE FUNCTION f(x INT) RETURNS INT RETURN x * 2")
    assert rows(t, "SELECT f(1), closed.f(2)") == [(2, 4)]
    t.sql("CREATE TABLE own AS SELECT 1 AS id")
    t.sql("USE default")
    for query, foreign in (("SELECT f(1) AS x", r"default\.f"), ("SELECT id FROM t", r"default\.t")):
        t.sql(f"CREATE OR REPLACE VIEW moved AS {query}")
        with pytest.raises(ForeignNameError, match=f"{foreign} belongs to another namespace"):
            t.sql("ALTER VIEW moved RENAME TO closed.moved")
    t.sql("ALTER VIEW moved AS SELECT closed.f(id) AS id FROM closed.own")
    t.sql("ALTER VIEW moved RENAME TO closed.moved")
    assert rows(t, "SELECT id FROM closed.moved") == [(2,)]


def test_spark_and_sessions_share_functions_of_sql_and_of_classes(trusting: Session, metastore: Metastore) -> None:
    trusting.sql("CREATE FUNCTION twice(x INT) RETURNS INT COMMENT 'two' RETURN x * 2")
    trusting.sql(f"CREATE FUNCTION hexed AS '{HEX}'")
    with serving(metastore) as endpoint, hive_client(endpoint.port) as hive:
        assert hive.get_functions("default", "*") == ["hexed", "twice"]
        assert hive.get_function("default", "hexed").className == HEX
        uri = hive.get_function("default", "twice").resourceUris
        copied = ttypes.Function("again", "default", "sqlFunction.", "ann", 1, functionType=1, resourceUris=uri)
        hive.create_function(copied)
    assert rows(trusting, "SELECT hexed('abc'), again(4), upper(default.hexed('z'))") == [("616263", 8, "7A")]
    assert rows(trusting, "DESCRIBE FUNCTION hexed") == [("Function: default.hexed",), (f"Class: {HEX}",)]
    trusting.sql("CREATE FUNCTION missing AS 'nope.Nope'")
    with pytest.raises(AnalysisError, match=r"nope\.Nope"):
        trusting.sql("SELECT missing('abc')")


@pytest.mark.skipif(shutil.which("javac") is None, reason="a class is compiled")
def test_class_is_loaded_from_its_jar(trusting: Session, tmp_path: Path) -> None:
    code = tmp_path / "Shout.java"
    code.write_text(
        "public class Shout extends org.apache.hadoop.hive.ql.exec.UDF {"
        ' public String evaluate(String text) { return text + "!"; } }'
    )
    jars = Path(pyspark.__file__).parent / "jars"
    subprocess.run(["javac", "--release", "17", "-cp", f"{jars}/*", "-d", tmp_path, code], check=True)
    with zipfile.ZipFile(tmp_path / "shout.jar", "w") as jar:
        jar.write(tmp_path / "Shout.class", "Shout.class")
    trusting.sql(f"CREATE FUNCTION shout AS 'Shout' USING JAR '{(tmp_path / 'shout.jar').as_uri()}'")
    trusting.sql("CREATE TABLE t (v string)")
    trusting.sql("INSERT INTO t VALUES ('a'), ('b')")
    for _ in range(2):
        assert rows(trusting, "SELECT shout(v) FROM t ORDER BY v") == [("a!",), ("b!",)]
