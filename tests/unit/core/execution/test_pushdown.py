from __future__ import annotations

import pytest

from airflow_hivex.core.execution.pushdown import with_safe_pushdown
from airflow_hivex.core.model.plans import ChangePart, Changes, Plan, Source

SAFE = [
    "SELECT * FROM t WHERE s = 'a' AND n > 1",
    "SELECT * FROM t WHERE s = 'é中'",
    "SELECT user, x FROM (SELECT * FROM t) AS q JOIN (SELECT 1) AS r WHERE id IN (SELECT id FROM u)",
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
    "SELECT * FROM t WHERE n IN (1, 2) AND s IS NOT NULL",
    """SELECT * FROM t WHERE s NOT IN ('a', 'it''s)', 'it\\'s', "it's") OR n = 1""",
    "SELECT * FROM t WHERE d IN ( DATE '2020-01-01',TIMESTAMP'2020-01-01 10:00:00')",
    "SELECT * FROM t WHERE n IN (-1, +.5, 1e-5, 1.5BD, 2L, :p, true) AND n IN /* few */ (1)",
    "SELECT * FROM t PIVOT (count(*) FOR n IN (1 AS one, 2 AS two))",
    "WITH a AS (SELECT 1 AS id) SELECT * FROM a UNION ALL (SELECT 2)",
]
UNSAFE = [
    "SELECT * FROM t WHERE s = '\uff5e'",
    "SELECT * FROM t WHERE s = '\U0001f600'",
    r"SELECT * FROM t WHERE s = '\uFF5E'",
    "SELECT * FROM t WHERE s = decode(unhex('EFBD9E'), 'UTF-8')",
    "SELECT * FROM t WHERE s = CAST(X'EFBD9E' AS STRING)",
    "SELECT * FROM t WHERE s = format_string('%c', 65374)",
    "SELECT * FROM t WHERE s = (SELECT max(s) FROM u)",
    "SELECT * FROM t WHERE s = /* the last */ ( -- one\n SELECT max(s) FROM u)",
    "SELECT * FROM t WHERE s IN ('a', (SELECT max(s) FROM u))",
    "SELECT * FROM t WHERE n IN (1, NULL)",
    "SELECT * FROM t WHERE n in (1, CAST(null AS INT), 2)",
    "SELECT * FROM t WHERE n IN (nullif(3, 3), 2)",
    "SELECT * FROM t WHERE n IN (1, CASE WHEN false THEN 1 END)",
    "SELECT * FROM t WHERE s IN ('a)', NULL)",
    "SELECT * FROM t WHERE n IN /* ( */ (1 -- )\n, NULL)",
    "SELECT * FROM t WHERE n IN (1, f(g(h(1))), NULL)",
]


@pytest.mark.parametrize("sql", SAFE)
def test_orc_judges_what_it_judges_rightly(sql: str) -> None:
    plan = Plan("tag", "name", sql, parameters={"p": "é", "n": 1})
    assert with_safe_pushdown(plan) is plan


@pytest.mark.parametrize("sql", UNSAFE)
def test_orc_judges_nothing_that_it_may_misjudge(sql: str) -> None:
    matched = Changes("UPDATE", ChangePart(sql, ()), "v")
    for plan in (
        Plan("tag", "name", sql),
        Plan("tag", "name", "", changes=matched),
        Plan("tag", "name", "", sources=(Source("s", sql),)),
    ):
        assert with_safe_pushdown(plan).spark_conf["spark.sql.orc.filterPushdown"] == "false"


def test_parameters_count_as_well() -> None:
    plan = Plan("tag", "name", "SELECT * FROM t WHERE s = :p", parameters={"p": "\uff5e"}, spark_conf={"a": "b"})
    assert with_safe_pushdown(plan).spark_conf == {"a": "b", "spark.sql.orc.filterPushdown": "false"}
    plan = Plan("tag", "name", "SELECT * FROM t WHERE n IN (1, :p)", parameters={"p": None})
    assert with_safe_pushdown(plan).spark_conf == {"spark.sql.orc.filterPushdown": "false"}
