"""Temporary views and functions, variables and configuration: they reach each job of their session, and no other."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    AnalysisError,
    InvalidObjectError,
    InvalidOperationError,
    InvalidParametersError,
    JobError,
    NoSuchTableError,
    NoSuchTemporaryFunctionError,
    NoSuchVariableError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, NULL, 2)")
    return session


def test_variables_of_hive_are_pieces_of_text(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, day date)")
    session.sql("INSERT INTO t VALUES (1, DATE '2024-02-29'), (2, DATE '2024-03-01')")
    session.sql("SET hivevar:day = DATE '2024-02-29'")
    session.sql("SET source=default.t")
    query = "SELECT ${columns} FROM ${hiveconf:source} WHERE day = ${day} AND 't${id}' = 't1'"
    for name, value in {"columns": "id, '${id}' -- ${day}\n", "id": "1"}.items():
        session.set_variable(f"hivevar:{name}", value)
    assert rows(session, query) == [(1, "1")]
    assert session.explain(query).cluster == "c1"
    assert session.inspect(query)[0].inputs[0].name == "t"
    # The process that it would go to has no variables.
    assert not session.is_detachable(query)
    session.sql("UPDATE ${hiveconf:source} SET id = id + ${id}")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(2,), (3,)]
    assert rows(session, "SET hivevar:id") == [("hivevar:id", "1")]
    assert ("hivevar:id", "1") in rows(session, "SET")
    shown = dict(rows(session, "SET -v"))
    assert {"hivevar:id": "1", "source": "default.t", "metastore.txn.timeout": "300"}.items() <= shown.items()
    with pytest.raises(NoSuchTableError):
        session.sql("DROP TABLE missing")
    session.sql("SET hive.exec.drop.ignorenonexistent = true")
    for kind in ("TABLE", "VIEW", "FUNCTION", "TEMPORARY FUNCTION"):
        assert session.sql(f"DROP {kind} missing").rows == []
    session.sql("DECLARE VARIABLE x INT DEFAULT 1")
    with pytest.raises(InvalidOperationError, match="SET VARIABLE x"):
        session.sql("SET x = 2")
    with pytest.raises(InvalidParametersError, match="belongs to spark_conf"):
        session.set_variable("hiveconf:spark.executor.memory", "1g")


def test_a_temporary_view_stands_for_its_query_in_its_session(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE TEMPORARY VIEW w (ten COMMENT 'ids', v) AS SELECT id * 10, v FROM t WHERE p = 1")
    assert rows(t, "SELECT * FROM w ORDER BY ten") == [(10, "a"), (20, "b")]
    # It hides the table of the current database, whose rows it reads.
    t.sql("CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM t WHERE id > 1")
    assert rows(t, "SELECT count(*) FROM t JOIN w ON t.id * 10 = w.ten") == [(1,)]
    t.sql("UPDATE default.t SET v = 'seen' WHERE id IN (SELECT ten / 10 FROM w) AND id = 2")
    assert rows(t, "SELECT v FROM default.t WHERE id = 2") == [("seen",)]
    assert rows(t, "SHOW VIEWS") == [("t",), ("w",)]
    assert t.explain("SELECT * FROM w").cluster == t.sql("EXPLAIN ROUTE SELECT * FROM w").rows[0][0] == "c1"
    assert rows(t, "DESCRIBE w") == [("ten", "int", "ids"), ("v", "string", None)]
    for text in ("INSERT INTO t VALUES (9, 'x', 1)", "DROP TABLE t", "ALTER TABLE w RENAME TO x", "ANALYZE TABLE t"):
        with pytest.raises(InvalidOperationError, match="it is a temporary view of the session"):
            t.sql(text if not text.startswith("ANALYZE") else f"{text} COMPUTE STATISTICS")
    with pytest.raises(InvalidObjectError, match="reads the temporary view w, which ends with the session"):
        t.sql("CREATE VIEW kept AS SELECT * FROM w")
    with pytest.raises(InvalidObjectError, match="its query reads the view itself"):
        t.sql("CREATE OR REPLACE TEMPORARY VIEW w AS SELECT * FROM w")
    with pytest.raises(AlreadyExistsError):
        t.sql("CREATE TEMPORARY VIEW w AS SELECT 1 AS one")
    with metastore.session(user="other") as other:
        assert rows(other, "SELECT count(*) FROM t") == [(3,)]
        with pytest.raises(NoSuchTableError):
            other.sql("SELECT * FROM w")
    t.sql("DROP VIEW t")
    assert rows(t, "SELECT count(*) FROM t") == [(3,)]


def test_configuration_of_a_session_counts_for_its_jobs_alone(t: Session, metastore: Metastore) -> None:
    text = "SELECT CAST('x' AS int) AS n"
    t.sql("SET spark.sql.ansi.enabled=false")
    assert rows(t, text) == [(None,)]
    with metastore.session(user="other") as other, pytest.raises(JobError):
        other.sql(text)
    assert rows(t, "SET spark.sql.ansi.enabled") == rows(t, "SET") == [("spark.sql.ansi.enabled", "false")]
    t.sql("RESET")
    with pytest.raises(JobError):
        t.sql(text)
    t.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    with pytest.raises(InvalidOperationError, match="it is a setting of the metastore, True for all sessions"):
        t.sql("SET hive.txn.xlock.write = false")


def test_variables_keep_their_types_and_values(t: Session) -> None:
    t.sql("DECLARE lowest INT DEFAULT 2")
    assert rows(t, "SELECT id FROM t WHERE id >= lowest ORDER BY id") == [(2,), (3,)]
    t.sql("SET VAR lowest = (SELECT max(id) FROM t)")
    assert rows(t, "SELECT lowest, session.lowest FROM t WHERE id = lowest AND p = lowest - 1") == [(3, 3)]
    t.sql("UPDATE t SET v = concat('is ', lowest) WHERE id = lowest")
    t.sql("INSERT INTO t VALUES (lowest + 1, 'new', 2)")
    assert rows(t, "SELECT v FROM t WHERE id >= 3 ORDER BY id") == [("is 3",), ("new",)]
    with pytest.raises(InvalidOperationError, match="returns several rows"):
        t.sql("SET VAR (lowest) = (SELECT id FROM t)")
    with pytest.raises(NoSuchVariableError):
        t.sql("SET VARIABLE lowest = 1, highest = 2")
    t.sql("SET VAR lowest = DEFAULT")
    t.sql("DECLARE kept = named_struct('at', timestamp'2024-05-01 10:00:00.123456', 'b', X'0aff', 'q', 'it\\'s \\\\')")
    t.sql("DECLARE OR REPLACE others = array(map(date'2024-02-29', 1.50), map())")
    t.sql("DECLARE lasting = INTERVAL '1 02:03:04.5' DAY TO SECOND")
    ((lowest, kept, others, lasting),) = rows(t, "SELECT lowest, kept, others, lasting")
    assert (lowest, lasting) == (2, timedelta(days=1, hours=2, minutes=3, seconds=4.5))
    assert kept == {"at": datetime(2024, 5, 1, 10, 0, 0, 123456, UTC), "b": b"\n\xff", "q": "it's \\"}
    assert others == [{date(2024, 2, 29): Decimal("1.50")}, {}]
    t.sql("DROP TEMPORARY VARIABLE lowest")
    with pytest.raises(AnalysisError):
        t.sql("SELECT lowest")


def test_temporary_functions_are_those_of_their_session(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE TEMPORARY FUNCTION plus(x INT, y INT DEFAULT 1) RETURNS INT RETURN x + y")
    t.sql("CREATE TEMPORARY FUNCTION plus2(x INT) RETURNS INT RETURN plus(plus(x))")
    t.sql("CREATE TEMPORARY VIEW w AS SELECT plus2(id) AS n FROM t")
    assert rows(t, "SELECT n, plus(n, 10) FROM w ORDER BY n LIMIT 1") == [(3, 13)]
    assert t.sql("DELETE FROM t WHERE plus2(id) > 4").rows_deleted == 1
    with metastore.session(user="other") as other, pytest.raises(AnalysisError):
        other.sql("SELECT plus(1)")
    t.sql("DECLARE VARIABLE three INT DEFAULT 3")
    t.sql("CREATE TEMPORARY FUNCTION times(x INT) RETURNS INT RETURN x * three")
    assert rows(t, "SELECT times(2)") == [(6,)]
    # One that others call is replaced, and calls a later one.
    t.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus(x INT, y INT DEFAULT 1) RETURNS INT RETURN times(y) / 3 + x")
    assert rows(t, "SELECT plus2(1)") == [(3,)]
    t.sql("SET VAR three = 4")
    assert rows(t, "SELECT times(2)") == [(8,)]
    t.sql("SET VAR three = DEFAULT")
    for query in ("SELECT plus(id) AS p FROM t", "SELECT id FROM t WHERE id = three", "SELECT session.three AS x"):
        with pytest.raises(InvalidObjectError, match="without the variables and temporary functions of a session"):
            t.sql(f"CREATE VIEW kept AS {query}")
    with pytest.raises(AlreadyExistsError, match="one of Spark's"):
        t.sql("CREATE TEMPORARY FUNCTION lower(x INT) RETURNS INT RETURN 1")
    with pytest.raises(AnalysisError):
        t.sql("CREATE OR REPLACE TEMPORARY FUNCTION plus(x INT) RETURNS INT RETURN z")
    with pytest.raises(InvalidOperationError, match="it runs any code"):
        t.sql("CREATE TEMPORARY FUNCTION f(x STRING DEFAULT reflect('a', 'b')) RETURNS STRING RETURN x")
    assert rows(t, "SELECT plus(1)") == [(2,)]
    assert rows(t, "SHOW FUNCTIONS LIKE 'plus*'") == [("plus",), ("plus2",)]
    assert rows(t, "DESCRIBE FUNCTION plus2")[0] == ("Function: plus2",)
    t.sql("CREATE TEMPORARY FUNCTION most(x INT) RETURNS BOOLEAN RETURN x >= ALL (SELECT * FROM VALUES (1), (2))")
    assert rows(t, "SELECT most(1), most(2)") == [(False, True)]
    t.sql("CREATE TEMPORARY MACRO half(x DOUBLE) x")
    t.sql("CREATE TEMPORARY MACRO half(x DOUBLE) -- replaces it\n x / 2 -- half")
    assert rows(t, "SELECT half(3), half(plus(id)) FROM t WHERE id = 1") == [(1.5, 1.0)]
    t.sql("DROP TEMPORARY MACRO half")
    with pytest.raises(NoSuchTemporaryFunctionError):
        t.sql("DROP TEMPORARY MACRO half")


def test_a_statement_may_be_a_value(t: Session) -> None:
    t.sql("DECLARE found BIGINT")
    t.sql("DECLARE text STRING DEFAULT 'SELECT count(*) FROM t WHERE id > ? AND v <> ?'")
    t.sql("EXECUTE IMMEDIATE text INTO found USING 0, 'a'")
    assert rows(t, "SELECT found") == [(1,)]
    t.sql("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (:n, concat(:v, 1), 3)' USING found AS n, 'x' AS v")
    assert rows(t, "EXECUTE IMMEDIATE 'SELECT v FROM t WHERE p = :p' USING 3 AS p") == [("x1",)]
    with pytest.raises(InvalidOperationError, match="returns several rows; INTO takes one"):
        t.sql("EXECUTE IMMEDIATE 'SELECT id FROM t' INTO found")
    with pytest.raises(InvalidParametersError, match="2 markers"):
        t.sql("EXECUTE IMMEDIATE text USING 1")
    with pytest.raises(InvalidOperationError, match="it cannot be nested"):
        t.sql("EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE text'")
    assert rows(t, "SELECT found") == [(1,)]


def test_a_time_zone_is_any_of_spark(t: Session) -> None:
    t.sql("CREATE TEMPORARY FUNCTION session.plus(x BIGINT) RETURNS BIGINT RETURN x + 1")
    for zone, hours in {"INTERVAL -1 HOUR -30 MINUTES": 1.5, "'UTC+3'": -3, "'Europe/Berlin'": -1, "'PST'": 8}.items():
        t.sql(f"SET TIME ZONE {zone}")
        found = t.sql("SELECT session.plus(unix_seconds(:at))", {"at": datetime(1970, 1, 2)})  # noqa: DTZ001 - of the session
        assert found.rows == [(86400 + 3600 * hours + 1,)]


def test_queries_with_pipes_and_computed_names_read_their_tables(t: Session) -> None:
    text = "FROM default.t |> WHERE default.t.p = 1 |> EXTEND id * 2 AS d |> SELECT d, v |> ORDER BY d DESC |> LIMIT 1"
    assert rows(t, text) == [(4, "b")]
    assert rows(t, "FROM t |> LIMIT 3 |> AGGREGATE count(*) AS n, max(id) GROUP BY p AS q |> ORDER BY q") == [
        (1, 2, 2),
        (2, 1, 3),
    ]
    t.sql("INSERT INTO t FROM t |> LEFT JOIN (FROM t |> WHERE p = 1) AS u USING (id) |> SELECT id + 10, u.v, 5")
    assert rows(t, "SELECT * FROM t WHERE p = 5 |> SELECT id, v |> ORDER BY id") == [(11, "a"), (12, "b"), (13, None)]
    (name,) = {str(name) for (name,) in rows(t, "SELECT INPUT__FILE__NAME FROM t WHERE p = 2")}
    assert "/t/p=2/delta_" in name
    found = t.sql("SELECT IDENTIFIER('max')(IDENTIFIER('t.id')) FROM IDENTIFIER(:name)", {"name": "default.t"})
    assert found.rows == [(13,)]


def test_the_current_database_is_that_of_the_session(session: Session) -> None:
    session.sql("CREATE DATABASE shop")
    session.sql("CREATE TABLE shop.t (id int, name string)")
    session.sql("CREATE VIEW shop.v AS SELECT current_database() AS now, id FROM shop.t")
    session.sql("CREATE FUNCTION shop.here() RETURNS STRING RETURN upper(current_schema())")
    session.sql("INSERT INTO shop.t VALUES (1, current_database())")
    session.sql("USE shop")
    session.sql("INSERT INTO t VALUES (2, concat(CURRENT_SCHEMA ( ), '!'))")
    session.sql("UPDATE t SET name = concat(name, '/', current_database()) WHERE current_database() = 'shop'")
    found = session.sql("SELECT id, name, current_database(), (SELECT max(current_schema()) FROM t) FROM t ORDER BY id")
    assert found.rows == [(1, "default/shop", "shop", "shop"), (2, "shop!/shop", "shop", "shop")]
    assert found.columns[2] == "current_database()"
    assert session.sql("SELECT now FROM v WHERE id = 1").rows == [("shop",)]
    assert session.sql("SELECT count(*) FROM t GROUP BY current_database()").rows == [(2,)]
    assert session.sql("FROM t |> WHERE id = 1 |> SELECT current_database()").rows == [("shop",)]
    assert session.sql("SELECT current_database(), upper(current_schema())").rows == [("shop", "SHOP")]
    session.sql("DECLARE here STRING DEFAULT current_database()")
    assert session.sql("SELECT here").rows == [("shop",)]
    session.sql("CREATE TEMPORARY VIEW seen AS SELECT DISTINCT current_database() FROM t")
    session.sql("USE default")
    assert session.sql("SELECT * FROM seen").rows == [("default",)]
    assert session.sql("SELECT now, shop.here() FROM shop.v WHERE id = 1").rows == [("default", "DEFAULT")]
