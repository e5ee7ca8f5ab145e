"""The columns of an INSERT: by name, by a list, and partition keys that the statement names in part."""

from __future__ import annotations

import pytest

from airflow_hivex.core import Session
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    TypeMismatchError,
)

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def test_columns_of_a_query_go_to_those_of_their_names(session: Session) -> None:
    session.sql("CREATE TABLE t (a int, b string, s struct<x:int,y:string>) PARTITIONED BY (p string, q int)")
    session.sql("INSERT INTO t BY NAME SELECT 'one' AS P, 1 AS q, 'b' AS B, named_struct('y', 'y', 'x', 2) AS s")
    session.sql("INSERT INTO t PARTITION (q = 5) BY NAME SELECT 3 AS a, 'two' AS p")
    session.sql(
        "FROM (SELECT 7 AS q, 9 AS a) f INSERT INTO t BY NAME SELECT a, q "
        "INSERT INTO t PARTITION (p = 'x', q = 1) SELECT a, 'z', NULL"
    )
    assert rows(session, "SELECT a, b, s.x, s.y, p, q FROM t ORDER BY ALL") == [
        (None, "b", 2, "y", "one", 1),
        (3, None, None, None, "two", 5),
        (9, None, None, None, None, 7),
        (9, "z", None, None, "x", 1),
    ]
    for query, error in {
        "SELECT 1 AS a, 2 AS nope": NoSuchColumnError,
        "SELECT 1 AS a, 2 AS A": ColumnCountMismatchError,
        "SELECT 'text' AS a": TypeMismatchError,
        "VALUES (1, 2)": NoSuchColumnError,
    }.items():
        with pytest.raises(error):
            session.sql(f"INSERT INTO t BY NAME {query}")
    with pytest.raises(NoSuchColumnError, match="q"):
        session.sql("INSERT INTO t PARTITION (q = 1) BY NAME SELECT 1 AS a, 2 AS q")
    assert rows(session, "SELECT count(*) FROM t") == [(4,)]


def test_columns_that_only_the_query_has_come_to_the_table(session: Session) -> None:
    session.sql("CREATE TABLE t (a int, s struct<x:int>) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, named_struct('x', 1), 1)")
    evolve = "INSERT WITH SCHEMA EVOLUTION INTO t"
    session.sql(f"{evolve} PARTITION (p = :p) BY NAME SELECT 'b' AS B, named_struct('x', 2, 'y', 'y') AS s", {"p": 2})
    session.sql(f"{evolve} BY NAME SELECT a, p, s, b FROM t WHERE p = 2")
    assert rows(session, "SELECT a, s.x, s.y, b, p FROM t ORDER BY ALL") == [
        (None, 2, "y", "b", 2),
        (None, 2, "y", "b", 2),
        (1, 1, None, None, 1),
    ]
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="write outside of it"):
        session.sql(f"{evolve} BY NAME SELECT 1 AS c, 1 AS p")
    session.sql("ROLLBACK")
    for query, error in {"SELECT 2 AS __row_id": InvalidObjectError, "SELECT 'x' AS a": TypeMismatchError}.items():
        with pytest.raises(error):
            session.sql(f"{evolve} BY NAME {query}")
    assert [row[0] for row in rows(session, "SHOW COLUMNS IN t")] == ["a", "s", "b", "p"]


def test_columns_behind_those_of_the_table_come_to_it(session: Session) -> None:
    session.sql("CREATE TABLE t (a int, b string) PARTITIONED BY (p int)")
    evolve = "INSERT WITH SCHEMA EVOLUTION INTO t PARTITION (p = 1)"
    session.sql(f"{evolve} SELECT 1 AS b, 'x' AS a, 2.5D AS C")
    session.sql(f"{evolve} VALUES (2, DEFAULT, 3.5D)")
    session.sql(f"{evolve} VALUES (3, 'z', 4.5D, DATE'2024-01-01')")
    columns = [row[0] for row in rows(session, "SHOW COLUMNS IN t")]
    assert columns == ["a", "b", "c", "col4", "p"]
    for text, error in {
        f"{evolve} SELECT 1, 'x', 2, 3, 4 AS A": InvalidObjectError,
        f"{evolve} SELECT 1, 'x', 2, 3, 4 AS p": InvalidObjectError,
        f"{evolve} SELECT 1, 'x', 2": ColumnCountMismatchError,
        "INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1, 'x', 2, 3, 4, 5 AS n": InvalidOperationError,
    }.items():
        with pytest.raises(error):
            session.sql(text)
    assert [row[0] for row in rows(session, "SHOW COLUMNS IN t")] == columns
    assert rows(session, "SELECT a, b, c, year(col4) FROM t ORDER BY a") == [
        (1, "x", 2.5, None),
        (2, None, 3.5, None),
        (3, "z", 4.5, 2024),
    ]


def test_partition_keys_may_be_named_in_part_and_in_any_order(session: Session) -> None:
    session.sql("CREATE TABLE t (a int) PARTITIONED BY (p string, q int, r string)")
    session.sql("INSERT INTO t PARTITION (q = 1) VALUES (1, 'x', 'u'), (2, 'y', 'v')")
    session.sql("INSERT INTO t PARTITION (r, p = 'x', q) SELECT 3, 2, 'w'")
    session.sql("INSERT INTO t PARTITION (r = 'u', p) SELECT 4, 'z', 3")
    assert rows(session, "SELECT * FROM t ORDER BY a") == [
        (1, "x", 1, "u"),
        (2, "y", 1, "v"),
        (3, "x", 2, "w"),
        (4, "z", 3, "u"),
    ]
    session.sql("INSERT OVERWRITE t PARTITION (q = 1) SELECT 5, 'x', 'u'")
    assert rows(session, "SELECT a FROM t ORDER BY a") == [(2,), (3,), (4,), (5,)]
    with pytest.raises(InvalidObjectError, match="lacks q, r"):
        session.sql("INSERT OVERWRITE t PARTITION (p = 'x') IF NOT EXISTS SELECT 1, 1, 'x'")


def test_partition_key_that_a_list_leaves_out_is_null(session: Session) -> None:
    session.sql("CREATE TABLE t (a int, b string) PARTITIONED BY (p string, q int)")
    session.sql("INSERT INTO t (a, p) VALUES (1, 'x')")
    session.sql("INSERT INTO t (q, a) SELECT 2, id FROM range(2) r(id)")
    session.sql(
        "MERGE INTO t USING (SELECT 7 AS id) s ON t.a = s.id WHEN NOT MATCHED THEN INSERT (a, q) VALUES (id, 3)"
    )
    assert rows(session, "SELECT * FROM t ORDER BY a, p") == [
        (0, None, None, 2),
        (1, None, None, 2),
        (1, None, "x", None),
        (7, None, None, 3),
    ]
    assert rows(session, "SHOW PARTITIONS t LIMIT 1") == [("p=__HIVE_DEFAULT_PARTITION__/q=2",)]
