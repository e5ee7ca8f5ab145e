"""VERSION AS OF and TIMESTAMP AS OF in queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_hivex.core.errors import StatementSyntaxError
from airflow_hivex.core.model.versions import VersionAsOf
from airflow_hivex.core.parser.grammar.views import definition
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeRows, CreateView, Select

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def select(text: str, parameters: dict[str, object] | None = None) -> Select:
    statement = read(text, parameters)
    assert isinstance(statement, Select)
    return statement


@pytest.mark.parametrize(
    ("clause", "version"),
    [
        ("VERSION AS OF 3", VersionAsOf(write_id=3)),
        ("version as of '3'", VersionAsOf(write_id=3)),
        ("FOR VERSION AS OF 3", VersionAsOf(write_id=3)),
        ("FOR SYSTEM_VERSION AS OF 3", VersionAsOf(write_id=3)),
        ("VERSION AS OF :n", VersionAsOf(write_id=7, marker="n")),
        ("TIMESTAMP AS OF '2026-01-31 12:00:00'", VersionAsOf(time=NOON)),
        ("FOR SYSTEM_TIME AS OF '2026-01-31T12:00:00Z'", VersionAsOf(time=NOON)),
        (
            "TIMESTAMP AS OF '2026-01-31 13:00:00+01:00'",
            VersionAsOf(time=NOON.astimezone(timezone(timedelta(hours=1)))),
        ),
        ("TIMESTAMP AS OF TIMESTAMP '2026-01-31 12:00:00'", VersionAsOf(time=NOON)),
        ("TIMESTAMP AS OF CAST('2026-01-31 12:00:00' AS TIMESTAMP)", VersionAsOf(time=NOON)),
        ("TIMESTAMP AS OF DATE '2026-01-31'", VersionAsOf(time=NOON.replace(hour=0))),
        ("TIMESTAMP AS OF '2026-01-31'", VersionAsOf(time=NOON.replace(hour=0))),
        ("TIMESTAMP AS OF :t", VersionAsOf(time=NOON, marker="t")),
        ("TIMESTAMP AS OF current_timestamp()", VersionAsOf(before_now_ms=0)),
        ("TIMESTAMP AS OF now() - INTERVAL 2 HOURS", VersionAsOf(before_now_ms=7_200_000)),
        ("TIMESTAMP AS OF CURRENT_TIMESTAMP - INTERVAL '30' MINUTE", VersionAsOf(before_now_ms=1_800_000)),
        ("TIMESTAMP AS OF CURRENT_TIMESTAMP - INTERVAL '1 day'", VersionAsOf(before_now_ms=86_400_000)),
        ("TIMESTAMP AS OF current_date()", VersionAsOf(before_now_ms=0, is_of_day=True)),
    ],
)
def test_clause_names_a_version(clause: str, version: VersionAsOf) -> None:
    values = {"n": 7, "t": NOON}
    parameters = {name: value for name, value in values.items() if f":{name}" in clause}
    query = select(f"SELECT x.a FROM db.t {clause} AS x JOIN t ON t.a = x.a", parameters or None).query
    assert [each.version for each in query.references] == [version, None]
    assert query.render(["v0", "v1"]).replace("  ", " ") == "SELECT x.a FROM v0 AS x JOIN v1 AS `t` ON t.a = x.a"


def test_each_place_has_its_own_version() -> None:
    text = (
        "WITH c AS (SELECT * FROM t VERSION AS OF 1) SELECT * FROM c, t@y VERSION AS OF 2 l "
        "WHERE a IN (SELECT a FROM t TIMESTAMP AS OF '2026-01-31' TABLESAMPLE (10 ROWS)) UNION ALL SELECT 1, t.* FROM t"
    )
    versions = [each.version for each in select(text).query.references]
    assert versions == [
        VersionAsOf(write_id=1),
        VersionAsOf(write_id=2),
        VersionAsOf(time=NOON.replace(hour=0)),
        None,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT version AS of FROM t",
        "SELECT timestamp AS of, version FROM t",
        "SELECT 1 AS version, 2 AS timestamp FROM t version",
    ],
)
def test_columns_may_have_the_words_as_names(text: str) -> None:
    assert [each.version for each in select(text).query.references] == [None]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t VERSION AS OF 1.5",
        "SELECT * FROM t VERSION AS OF 99999999999999999999",
        "SELECT * FROM t TIMESTAMP AS OF 'yesterday'",
        "SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL 1 YEAR",
        "SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL 1000000000 WEEKS",
        "SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL 99999999 DAYS",
        "SELECT * FROM t TIMESTAMP AS OF '9999-12-31T23:59:59-14:00'",
        "SELECT * FROM t TIMESTAMP AS OF '0001-01-01T00:00:00+14:00'",
        "SELECT * FROM t TIMESTAMP AS OF now() - 1",
        "SELECT * FROM range(5) VERSION AS OF 1",
        "UPDATE t VERSION AS OF 1 SET a = 1",
        "DELETE FROM t VERSION AS OF 1",
        "INSERT INTO t VERSION AS OF 1 VALUES (1)",
    ],
)
def test_what_is_not_a_version_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(StatementSyntaxError):
        read(text)


def test_source_of_a_merge_may_be_a_version() -> None:
    statement = read(
        "MERGE INTO t USING t VERSION AS OF 3 s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (s.a) "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert isinstance(statement, ChangeRows)
    versions = {str(each.table): each.version for each in statement.references if each.version is not None}
    assert versions == {"t": VersionAsOf(write_id=3)}


def test_view_keeps_the_version_of_its_tables() -> None:
    statement = read("CREATE VIEW v AS SELECT a FROM d.t VERSION AS OF 3 WHERE a > 1")
    assert isinstance(statement, CreateView)
    text = definition(statement.query, [each.table for each in statement.query.references], [], [])
    assert "FROM `d`.`t` VERSION AS OF 3 AS `t` WHERE a > 1" in text
