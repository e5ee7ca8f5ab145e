"""A job's queries read its own views, and nothing else that Spark knows by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core.errors import AnalysisError, InvalidOperationError
from tests.integration.core.job.conftest import TableOnDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def unbound(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table that Spark knows by name, and the warehouse does not."""
    spark.sql(f"CREATE TABLE unbound (a INT) USING orc LOCATION '{tmp_path / 'unbound'}'")
    spark.sql("CREATE FUNCTION most_unbound() RETURNS INT RETURN SELECT max(a) FROM unbound")
    yield "unbound"
    spark.sql("DROP FUNCTION most_unbound")
    spark.sql("DROP TABLE unbound")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM unbound",
        "SELECT * FROM spark_catalog.default.unbound",
        "SELECT t.a FROM t JOIN unbound AS u ON t.a = u.a",
        "SELECT a FROM t WHERE a IN (SELECT a FROM t WHERE EXISTS (SELECT 1 FROM unbound AS u WHERE u.a = t.a))",
        "SELECT a, (SELECT max(a) FROM unbound) AS b FROM t",
        "SELECT a, most_unbound() AS b FROM t",
        "WITH c AS (SELECT * FROM unbound) SELECT c.a FROM c, t",
        "SELECT a FROM t UNION ALL (SELECT * FROM unbound)",
        "SELECT * FROM t, LATERAL (SELECT a AS b FROM unbound)",
    ],
)
def test_queries_that_would_read_what_is_not_bound_are_refused(
    table: Callable[..., TableOnDisk], unbound: str, sql: str
) -> None:
    t = table("a int")
    t.insert("SELECT 1")
    before = t.files()
    with pytest.raises(InvalidOperationError, match="not a table of the warehouse"):
        t.select(sql)
    with pytest.raises(InvalidOperationError, match="not a table of the warehouse"):
        t.insert(f"SELECT a FROM ({sql})", scans=[t.scan()])
    assert t.files() == before


def test_values_read_nothing_that_is_not_bound(table: Callable[..., TableOnDisk], unbound: str) -> None:
    t = table("a int")
    for value in (f"(SELECT max(a) FROM {unbound})", "most_unbound()"):
        with pytest.raises((AnalysisError, InvalidOperationError)):
            t.select(f"SELECT * FROM (VALUES (current_timestamp(), {value})) AS v(now, a)")


def test_files_and_views_of_others_have_no_names(table: Callable[..., TableOnDisk], spark: SparkSession) -> None:
    t = table("a int")
    t.insert("SELECT 1")
    spark.range(1).createOrReplaceTempView("theirs")
    for name in (f"orc.`{t.root}`", f"text.`{t.root}/*`", f"orc.`file://{t.root}`", "theirs"):
        with pytest.raises(AnalysisError):
            t.select(f"SELECT * FROM {name}", spark_conf={"spark.sql.runSQLOnFiles": "true"})
    spark.catalog.dropTempView("theirs")


def test_queries_may_read_a_view_in_any_place_and_rows_of_their_own(table: Callable[..., TableOnDisk]) -> None:
    t = table("a int")
    t.insert("VALUES (1), (2)")
    for sql in (
        "SELECT x.a FROM t AS x JOIN t AS y USING (a) WHERE x.a IN (SELECT a FROM t) AND 0 < (SELECT count(*) FROM t)",
        "WITH c AS (SELECT * FROM t) SELECT c.a FROM c JOIN c AS d USING (a)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 2) SELECT n FROM r",
        "SELECT a FROM t UNION SELECT id FROM range(1, 3) UNION VALUES (1) UNION SELECT 2",
        "SELECT DISTINCT a FROM t, LATERAL (SELECT t.a + b AS c FROM VALUES (1) AS v(b)), LATERAL explode(array(0))",
        "SELECT a FROM t JOIN (VALUES (current_timestamp(), current_date())) AS v(t, d) ON v.t >= v.d",
    ):
        assert sorted(t.rows(sql)) == [(1,), (2,)]
