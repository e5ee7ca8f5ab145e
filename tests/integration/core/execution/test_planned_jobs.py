"""The plans that statements give to a runner, seen by a runner of a kind of its own. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import JobError
from tests.integration.core.execution.recorder import Recorder

PUSHDOWN = "spark.sql.orc.filterPushdown"


@pytest.fixture
def session(sqlite_url: str, tmp_path: Path, recorder: Recorder) -> Iterator[Session]:
    properties = {"filesystem": tmp_path.as_uri(), "jobtracker": "sc://recorder:1", "spark_conf": {"spark.a": "b"}}
    with Metastore.open(sqlite_url, clusters={"c1": properties}) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int, s string)")
        session.sql("CREATE TABLE u (id int, s string)")
        yield session


STATEMENTS = [
    "SELECT id FROM t WHERE {}",
    "DESCRIBE QUERY SELECT id FROM t WHERE {}",
    "EXPLAIN SELECT id FROM t WHERE {}",
    "INSERT INTO t SELECT * FROM u WHERE {}",
    "CREATE TABLE v AS SELECT * FROM u WHERE {}",
    "CREATE VIEW v AS SELECT * FROM u WHERE {}",
    "FROM u INSERT INTO t SELECT * WHERE {}",
    "UPDATE t SET s = 'y' WHERE {}",
    "DELETE FROM t WHERE {}",
    "MERGE INTO t USING (SELECT * FROM u WHERE {}) AS n ON t.id = n.id WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize(("condition", "is_pushed_down"), [("id IN (1, 2)", True), ("id IN (1, NULL)", False)])
def test_no_runner_gets_a_condition_that_orc_misjudges(
    session: Session, recorder: Recorder, statement: str, condition: str, *, is_pushed_down: bool
) -> None:
    with pytest.raises(JobError, match="only recorded"):
        session.sql(statement.format(condition))
    (plan,) = recorder.plans
    assert plan.spark_conf == {"spark.a": "b"} | ({} if is_pushed_down else {PUSHDOWN: "false"})
