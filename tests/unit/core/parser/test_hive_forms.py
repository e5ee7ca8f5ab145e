"""Forms of Hive's query tests: those that are read as others are, and the advice for those that are refused."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import UnsupportedStatementError
from airflow_hivex.core.parser.reader import read


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("SHOW TABLE EXTENDED LIKE t", "SHOW TABLE EXTENDED LIKE 't'"),
        ("SHOW TABLE EXTENDED IN d LIKE `t` PARTITION (p = 1)", "SHOW TABLE EXTENDED IN d LIKE 't' PARTITION (p = 1)"),
        ("SHOW TABLES IN d LIKE t", "SHOW TABLES IN d LIKE 't'"),
        ("CREATE TABLE t (a TIMESTAMP WITH LOCAL TIME ZONE, b INT)", "CREATE TABLE t (a TIMESTAMP, b INT)"),
    ],
)
def test_forms_of_hive_are_read_as_others(text: str, same: str) -> None:
    without_places = [str(read(each)).split("Span(")[0] for each in (text, same)]
    assert without_places[0] == without_places[1]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("ALTER TABLE t NOT CLUSTERED", "makes a table with other buckets"),
        ("ALTER TABLE t NOT SORTED", "makes a table with other buckets"),
        ("ALTER TABLE t INTO 3 BUCKETS", "makes a table with other buckets"),
        ("ALTER TABLE t NOT SKEWED", "SKEWED BY has no effect"),
        ("ALTER TABLE t NOT STORED AS DIRECTORIES", "SKEWED BY has no effect"),
        ("ALTER TABLE t PARTITION (p = 1) CHANGE a b INT", "leave PARTITION out"),
        ("ALTER TABLE t PARTITION (p = 1) ADD COLUMNS (c INT)", "leave PARTITION out"),
        ("ALTER TABLE t PARTITION (p = 1) CONCATENATE", "COMPACT 'major'"),
        ("SHOW CREATE DATABASE d", "DESCRIBE DATABASE EXTENDED"),
        ("SHOW RESOURCE PLANS", "Airflow"),
        ("DROP RESOURCE PLAN p", "Airflow"),
        ("EXPLAIN JOINCOST SELECT 1", "EXPLAIN FORMATTED"),
    ],
)
def test_statements_that_are_refused_have_advice(text: str, advice: str) -> None:
    with pytest.raises(UnsupportedStatementError) as error:
        read(text)
    assert advice in error.value.reason
