from __future__ import annotations

import pytest

from airflow_hivex.core.errors import StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.model.configuration import refusal
from airflow_hivex.core.model.job_configuration import FIXED_CONF, TEXT_CONF, TEXT_DEFAULTS
from airflow_hivex.core.model.session_objects import SessionObjects, Variable
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import (
    CreateTemporaryFunction,
    DeclareVariable,
    DescribeFunction,
    DescribeQuery,
    DropTemporaryFunction,
    DropVariable,
    SetConfiguration,
)
from airflow_hivex.core.runners.kept_sessions import MOST_SESSIONS, kept_session


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/x')", "make an external table of them"),
        ("CREATE TEMPORARY FUNCTION f AS 'x.Y'", "write its body in SQL"),
        ("CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN (SELECT max(y) FROM t)", "reads no tables"),
        ("CREATE TEMPORARY MACRO f(x INT) (SELECT max(y) FROM t)", "reads no tables"),
        ("CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS 'x'", "the language of a function is SQL"),
        ("EXECUTE IMMEDIATE 'SELECT ?' USING 1 + 1", "DECLARE a variable for the expression"),
        ("SET x.y = z", "is not a parameter of Spark SQL or Hive"),
        ("SET password = x", "is a secret"),
        ("SET CATALOG x", "there is one catalog"),
        ("SET spark.executor.memory = 1g", "belongs to spark_conf of a cluster"),
        ("SET spark.hadoop.fs.s3a.secret.key = x", "is a secret"),
        ("SET spark.sql.extensions = x", "counts for all sessions of a Spark application"),
        ("SET spark.sql.sources.commitProtocolClass = x", "counts for all sessions"),
        ("SET hivex.namespace.mode = open", "is a setting of the metastore"),
        ("RESET spark.master", "belongs to spark_conf"),
        ("CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT RETURN x + :y", "write a constant for :y"),
        ("DROP TEMPORARY VIEW v", "DROP VIEW drops a temporary view"),
        ("SET TIME ZONE LOCAL", "RESET spark.sql.session.timeZone takes that of the cluster"),
        ("SET TIME ZONE utc", "takes the name of a zone"),
        ("EXECUTE IMMEDIATE 'SELECT ?' USING 3.14F", "DECLARE a variable for the expression"),
        ("EXECUTE IMMEDIATE 'SELECT ?' USING CAST(NULL AS INT)", "DECLARE a variable for the expression"),
        ("CREATE TEMPORARY VIEW v(e int) USING parquet", "make an external table of them"),
        ("CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS SELECT 1", "a temporary view in each session"),
        ("CREATE VIEW v DEFAULT COLLATION UTF8_LCASE AS SELECT 'a' AS b", "leave DEFAULT COLLATION out"),
        ("SHOW COLLATIONS LIKE 'U*'", "SELECT * FROM collations() lists them"),
        ("CREATE TABLE t (v ARRAY<VARIANT>)", "keep the JSON in a STRING"),
        ("CREATE TABLE t (g GEOGRAPHY(4326))", "keep the WKB in a BINARY"),
    ],
)
def test_what_a_session_cannot_have_is_refused_with_the_way(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError) as error:
        read(text)
    assert reason in error.value.reason


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("CREATE TEMPORARY VIEW d.v AS SELECT 1", 23, "give it a name of one part"),
        ("CREATE TEMPORARY FUNCTION f(x INT) RETURNS INT", 47, "expected RETURN and an expression"),
        ("CREATE TEMPORARY FUNCTION `a b`() RETURNS INT RETURN 1", 27, "is not a valid name of a function"),
        ("CREATE TEMPORARY MACRO f(x INT)", 32, "expected an expression"),
        ("CREATE TEMPORARY MACRO f(x DECIMAL(3, 1)", 25, "is not closed"),
        ("DECLARE x", 10, "expected DEFAULT, '=' or a type"),
        ("DECLARE x INT DEFAULT", 22, "expected an expression"),
        ("SET VAR x = 1, x = 2", 16, "variable x is named twice"),
        ("SET VAR (x) = 1", 15, "and a query"),
        ("EXECUTE 'SELECT 1'", 9, "expected IMMEDIATE"),
        ("EXECUTE IMMEDIATE 'SELECT 1' INTO x INTO y", 37, "INTO is given twice"),
        ("DROP TEMPORARY VARIABLE a.b.c", 26, "give it a name of one part"),
        ("DECLARE VARIABLE a, b, A INT", 24, "variable a is named twice"),
        ("EXECUTE IMMEDIATE 'SELECT 1, 2' INTO a, A", 41, "variable a is named twice"),
        ("EXECUTE IMMEDIATE 'SELECT :a' USING 1 AS a, 2 AS a", 45, "the marker :a has two values"),
        ("SET TIME ZONE INTERVAL 19 HOURS", 24, "at most 18 hours"),
        ("SET TIME ZONE INTERVAL '1:2' HOUR", 24, "is not a valid interval"),
        ("SET TIME ZONE INTERVAL 1 DAY", 26, "expected HOUR, MINUTE or SECOND"),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_place(text: str, column: int, reason: str) -> None:
    with pytest.raises(StatementSyntaxError, match=reason) as error:
        read(text)
    assert (error.value.line, error.value.column) == (1, column)


@pytest.mark.parametrize(
    ("interval", "zone"),
    [
        ("10 HOURS", "+10:00"),
        ("-1 HOUR -30 MINUTES", "-01:30"),
        ("'08:30:10' HOUR TO SECOND", "+08:30:10"),
        ("'-15:40' HOUR TO MINUTE", "-15:40"),
        ("'90' MINUTE", "+01:30"),
        ("0 SECONDS", "+00:00"),
    ],
)
def test_a_time_zone_is_an_offset(interval: str, zone: str) -> None:
    assert read(f"SET TIME ZONE INTERVAL {interval}") == SetConfiguration("spark.sql.session.timeZone", zone)


def test_the_schema_of_objects_of_a_session_is_read() -> None:
    for schema in ("session", "System.Session"):
        made = read(f"CREATE TEMPORARY FUNCTION {schema}.f(x INT) RETURNS INT RETURN x")
        assert isinstance(made, CreateTemporaryFunction)
        assert made.name == "f"
        assert read(f"DROP TEMPORARY FUNCTION {schema}.f") == DropTemporaryFunction("f")
        assert read(f"DROP TEMPORARY VAR {schema}.x") == DropVariable("x")
    for name in ("builtin.abs", "system.builtin.abs", "abs"):
        assert read(f"DESC FUNCTION {name}") == DescribeFunction("abs", extended=False)
    declared = read("DECLARE var = 'x'")
    assert isinstance(declared, DeclareVariable)
    assert declared.names == ("var",)
    assert isinstance(read("DESCRIBE FROM t SELECT a"), DescribeQuery)


# Rows would be lost, or have ids of other files, where these have other values.
OF_ROWS = {
    "spark.sql.files.maxPartitionNum",
    "spark.sql.optimizer.excludedRules",
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources",
}


@pytest.mark.parametrize("name", sorted({*FIXED_CONF, *TEXT_CONF, *TEXT_DEFAULTS, *OF_ROWS}))
def test_configuration_that_jobs_rely_on_stays(name: str) -> None:
    assert "jobs rely on it" in str(refusal(name))


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.shuffle.partitions",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.session.timeZone",
        "spark.sql.adaptive.enabled",
        "hive.exec.parallel",
        "mapreduce.job.queuename",
    ],
)
def test_configuration_of_spark_sql_and_of_hive_is_taken(name: str) -> None:
    assert refusal(name) is None


def test_a_job_gets_the_objects_that_it_names_and_those_that_they_name() -> None:
    objects = SessionObjects()
    objects.functions = {
        "plus": "(x INT) RETURNS INT RETURN x + 1",
        "twice": "(x INT) RETURNS INT RETURN plus(plus(x)) * low",
    }
    objects.variables = {
        name: Variable("int", 1, "CAST('1' AS int)", 1, "CAST('1' AS int)") for name in ("low", "high")
    }
    assert objects.prelude(["SELECT 1"]) == ()
    assert objects.prelude(["SELECT lower(surplus) FROM high_t"]) == ()
    assert objects.prelude(["SELECT Twice(1) FROM t"]) == (
        "DECLARE OR REPLACE VARIABLE `low` int DEFAULT CAST('1' AS int)",
        "CREATE OR REPLACE TEMPORARY FUNCTION `plus` (x INT) RETURNS INT RETURN x + 1",
        "CREATE OR REPLACE TEMPORARY FUNCTION `twice` (x INT) RETURNS INT RETURN plus(plus(x)) * low",
    )


def test_the_session_that_was_used_longest_ago_is_left() -> None:
    kept: dict[int, object] = {}
    first = kept_session(kept, 0, object)
    for key in range(1, MOST_SESSIONS):
        kept_session(kept, key, object)
    assert kept_session(kept, 0, object) is first
    kept_session(kept, MOST_SESSIONS, object)
    assert 1 not in kept
    assert kept_session(kept, 0, object) is first
