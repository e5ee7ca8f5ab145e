"""A user who may write SQL reads and writes tables, and reaches nothing else on the clusters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hivex.core import HivexError, Metastore, Session
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.settings import ALLOW_CODE

CALL = "'java.lang.System', 'getProperty', 'user.home'"


@pytest.fixture
def session(sqlite_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Session]:
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore,
        metastore.session(user="tester") as session,
    ):
        session.sql("CREATE TABLE t (id INT, s STRING)")
        yield session


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT reflect({CALL})",
        f"SELECT java_method({CALL})",
        f"SELECT try_reflect({CALL})",
        f"SELECT `REFLECT` /* */ ({CALL}) FROM t",
        f"SELECT system.builtin.reflect({CALL})",
        f"SELECT `system`.`builtin`.`Java_Method`({CALL})",
        f"WITH x AS (SELECT Reflect({CALL}) AS s) SELECT * FROM x",
        f"SELECT * FROM t WHERE s IN (SELECT reflect({CALL}))",
        f"INSERT INTO t VALUES (1, reflect({CALL}))",
        f"INSERT INTO t SELECT 1, reflect({CALL})",
        f"FROM t INSERT INTO t SELECT id, reflect({CALL}) INSERT INTO t SELECT id, s",
        f"UPDATE t SET s = reflect({CALL})",
        f"DELETE FROM t WHERE s = reflect({CALL})",
        f"MERGE INTO t USING t AS u ON t.id = u.id WHEN NOT MATCHED THEN INSERT VALUES (1, reflect({CALL}))",
        f"CREATE TABLE c AS SELECT reflect({CALL}) AS s",
        f"CREATE VIEW v AS SELECT reflect({CALL}) AS s",
        f"CREATE TEMPORARY VIEW v AS FROM t |> SELECT reflect({CALL}) AS s",
        f"CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN reflect({CALL})",
        f"DECLARE x STRING DEFAULT reflect({CALL})",
        f'EXECUTE IMMEDIATE "SELECT reflect({CALL})"',
        f"SELECT IDENTIFIER('ref' || 'lect')({CALL})",
    ],
)
def test_functions_that_run_any_code_are_refused(session: Session, statement: str) -> None:
    with pytest.raises(HivexError, match=rf"(reflect|java_method).*{ALLOW_CODE}"):
        session.sql(statement)
    assert "OPEN" not in [row[1] for row in session.sql("SHOW TRANSACTIONS").rows]


def test_views_of_a_time_when_code_was_allowed_are_refused_as_well(
    sqlite_url: str, clusters: dict[str, dict[str, str]]
) -> None:
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1", settings={ALLOW_CODE: True}) as allowing,
        allowing.session() as session,
    ):
        session.sql(f"CREATE VIEW v AS SELECT reflect({CALL}) AS home")
        assert session.sql("SELECT * FROM v").rows
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as refusing,
        refusing.session() as session,
        pytest.raises(InvalidOperationError, match="reflect"),
    ):
        session.sql("SELECT * FROM v")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t SET TBLPROPERTIES ('compactor.spark.driver.extraJavaOptions' = '-javaagent:/tmp/x.jar')",
        "CREATE TABLE p (id INT) TBLPROPERTIES ('compactor.spark.executor.extraJavaOptions' = '-Dx=y')",
        "ALTER TABLE t SET TBLPROPERTIES ('compactor.spark.sql.extensions' = 'evil.Extension')",
        "ALTER TABLE t SET TBLPROPERTIES ('compactor.spark.shuffle.manager' = 'evil.Manager')",
        "ALTER TABLE t COMPACT 'major' WITH OVERWRITE TBLPROPERTIES ('compactor.spark.jars' = '/tmp/x.jar')",
        "CREATE TABLE p (id INT) USING csv OPTIONS (path '/etc')",
        "CREATE EXTERNAL TABLE p (line STRING) STORED AS TEXTFILE LOCATION 'file:///etc'",
        "CREATE EXTERNAL TABLE p (line STRING) STORED AS TEXTFILE LOCATION '/../../etc'",
        "CREATE EXTERNAL TABLE p (line STRING) ROW FORMAT SERDE 'evil.SerDe' LOCATION 'p'",
        "CREATE TABLE p (id INT) USING evil.Source",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM read_files('/etc/passwd')",
        "ADD JAR '/tmp/x.jar'",
        "SELECT TRANSFORM (s) USING 'cat' AS (s) FROM t",
        "SET spark.sql.extensions = evil.Extension",
        "SET spark.sql.sources.commitProtocolClass = evil.Protocol",
        "CREATE TEMPORARY FUNCTION f AS 'evil.Function' USING JAR '/tmp/x.jar'",
        "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'x')",
    ],
)
def test_files_classes_and_options_beyond_the_tables_are_refused(session: Session, statement: str) -> None:
    with pytest.raises(HivexError):
        session.sql(statement)
    assert "OPEN" not in [row[1] for row in session.sql("SHOW TRANSACTIONS").rows]
    assert len(session.sql("SHOW TABLES").rows) == 1


def test_a_permanent_function_of_a_class_is_kept_and_not_called(session: Session) -> None:
    session.sql("CREATE FUNCTION f AS 'evil.Function' USING JAR '/tmp/x.jar'")
    for statement in ("SELECT f(id) FROM t", "CREATE VIEW v AS SELECT default.f(id) AS x FROM t"):
        with pytest.raises(InvalidOperationError, match=rf"evil\.Function.*{ALLOW_CODE}"):
            session.sql(statement)
    assert "OPEN" not in [row[1] for row in session.sql("SHOW TRANSACTIONS").rows]


def test_options_of_resources_are_taken(session: Session) -> None:
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('compactor.spark.executor.memory' = '2g')")
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('compactor.spark.sql.shuffle.partitions' = '4')")


def test_xml_functions_open_no_file(session: Session, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    uri = (tmp_path / "secret").as_uri()
    document = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{uri}">]><a>&x;</a>'
    try:
        rows = session.sql("SELECT xpath_string(:document, 'a')", {"document": document}).rows
    except HivexError:
        rows = []
    assert "hidden" not in str(rows)
