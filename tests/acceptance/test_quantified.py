"""Comparisons with ALL, ANY and SOME of a query: the three values of SQL."""

from __future__ import annotations

import pytest

from airflow_hivex.core import Session

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def test_all_any_and_some_have_three_values(session: Session) -> None:
    session.sql("CREATE TABLE t (x int, k int)")
    session.sql("INSERT INTO t VALUES (1, 1), (3, 2), (NULL, 1), (NULL, 9), (5, 9)")
    session.sql("CREATE TABLE u (y int) PARTITIONED BY (k int)")
    # Partition 9 has no rows.
    session.sql("INSERT INTO u VALUES (1, 1), (2, 1), (NULL, 2), (2, 2), (10, 3)")
    rows = "(SELECT y FROM u WHERE u.k = t.k)"
    found = session.sql(
        f"SELECT x, k, x > ALL {rows}, x >= ANY {rows}, t.x = SOME {rows}, x <> ALL {rows} FROM t ORDER BY x, k"
    ).rows
    assert found == [
        (None, 1, None, None, None, None),
        (None, 9, True, False, False, True),
        (1, 1, False, True, True, False),
        (3, 2, None, True, None, None),
        (5, 9, True, False, False, True),
    ]
    # Compared as the operator compares them: texts with a number as numbers.
    numbers = "(SELECT v FROM VALUES ('9'), ('10') AS v(v))"
    assert session.sql(f"SELECT x FROM t WHERE x + 5 < ALL {numbers} AND k = 1").rows == [(1,)]
    session.sql("CREATE VIEW largest AS SELECT x FROM t WHERE x > ALL (SELECT y FROM u WHERE k IN (1, 2) AND y > 0)")
    assert sorted(session.sql("SELECT * FROM largest").rows) == [(3,), (5,)]
    assert session.sql("DELETE FROM t WHERE x >= ALL (SELECT y FROM u WHERE k = 1)").rows_deleted == 2
