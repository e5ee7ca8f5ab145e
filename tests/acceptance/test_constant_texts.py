"""Constant texts in columns of other types, with Spark and without it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from airflow_hivex.core import Session
from airflow_hivex.core.errors import InvalidOperationError, TypeMismatchError, UnreadableTextError

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def test_constant_texts_are_read_as_the_types_of_their_columns(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, c decimal(5,2), d date, at timestamp, o boolean) PARTITIONED BY (p date)")
    session.sql("INSERT INTO t (id, c, d, o, p) VALUES ('1', '1.5', '2020-01-01', 'true', '2020-02-29')")
    # By Spark: of another calendar, in a zone, and with what stands in no VALUES alone.
    session.sql("INSERT INTO t VALUES (' 2 ', '-0', '1066-10-14', '2020-01-01 09:00:00+09:00', 'No', '1066-10-14')")
    session.sql(
        "INSERT INTO t (p, id, d) SELECT '2020-02-29', x.*, '2020-02-28' FROM (SELECT 3) x WHERE :c", {"c": True}
    )
    session.sql(
        "FROM (SELECT 4 AS id) x INSERT INTO t (id, d) SELECT id, :d INSERT INTO t (id, c) SELECT '5', '7'",
        {"d": "2020-03-01"},
    )
    session.sql("UPDATE t SET d = '2024-01-01', c = ('8.5') WHERE id = 1")
    session.sql(
        "MERGE INTO t USING (SELECT 4 AS id UNION ALL SELECT 6) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET d = '2024-02-02' WHEN NOT MATCHED THEN INSERT (c, id, p) VALUES ('6', s.id, NULL)"
    )
    leap, hastings = date(2020, 2, 29), date(1066, 10, 14)
    assert session.sql("SELECT * FROM t ORDER BY id").rows == [
        (1, Decimal("8.50"), date(2024, 1, 1), None, True, leap),
        (2, Decimal("0.00"), hastings, datetime(2020, 1, 1, tzinfo=UTC), False, hastings),
        (3, None, date(2020, 2, 28), None, None, leap),
        (4, None, date(2024, 2, 2), None, None, None),
        (5, Decimal("7.00"), None, None, None, None),
        (6, Decimal("6.00"), None, None, None, None),
    ]


def test_texts_that_are_not_readable_are_refused_as_a_whole(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, d date, at timestamp, s string, l array<int>)")
    session.sql("INSERT INTO t (id, s) VALUES (1, '2')")
    for statement in (
        "INSERT INTO t (id) VALUES ('1'), ('one')",
        "INSERT INTO t (id, d) SELECT id, '2020-01-01 later' FROM t",
        "INSERT INTO t (id, at) VALUES ('1', '12:30:00')",
        "INSERT INTO t (id, d) SELECT 3, 'now'",
        "UPDATE t SET id = '2147483648'",
    ):
        with pytest.raises(UnreadableTextError, match=r"Column \w+ of default.t has type .* the text '.*Nothing"):
            session.sql(statement)
    # A text that is computed, or belongs to no simple type, needs a CAST as in Spark.
    for statement in ("INSERT INTO t (id) SELECT s FROM t", "UPDATE t SET id = s", "INSERT INTO t (l) VALUES ('1')"):
        with pytest.raises(TypeMismatchError, match="CAST"):
            session.sql(statement)
    assert session.sql("SELECT id, s FROM t").rows == [(1, "2")]


def test_a_session_can_ask_for_casts_of_all_values(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, s string)")
    session.sql("INSERT INTO t VALUES (1, '2'), (2, 'two')")
    with pytest.raises(InvalidOperationError, match="STRICT"):
        session.sql("SET spark.sql.storeAssignmentPolicy = STRICT")
    session.sql("SET spark.sql.storeAssignmentPolicy = LEGACY")
    session.sql("INSERT INTO t (id) VALUES (true)")
    session.sql("INSERT INTO t (id) VALUES ('x')")
    session.sql("INSERT INTO t SELECT s, 'copied' FROM t WHERE s IS NOT NULL")
    session.sql("UPDATE t SET id = s WHERE s = '2'")
    expected = [(None, "copied"), (None, None), (1, None), (2, "2"), (2, "copied"), (2, "two")]
    assert sorted(session.sql("SELECT * FROM t").rows, key=repr) == sorted(expected, key=repr)
    session.sql("RESET spark.sql.storeAssignmentPolicy")
    with pytest.raises(TypeMismatchError):
        session.sql("INSERT INTO t SELECT s, s FROM t")


MIXED = "(1, '2020-02-29', 'x', 9007199254740993L), ('2', DATE'2020-03-01', 1, 1.5D), (3L, NULL, 1.5, '7')"


@pytest.mark.parametrize(
    ("columns", "clauses"),
    [
        ("b bigint", ""),
        ("", "PARTITIONED BY (b bigint)"),
        ("b bigint", "CLUSTERED BY (d) SORTED BY (b) INTO 2 BUCKETS"),
        ("b bigint", "STORED AS PARQUET"),
        ("b bigint", "USING csv LOCATION 'files'"),
        ("b bigint", "USING json LOCATION 'files'"),
        ("b bigint CHECK (b > 0)", ""),
    ],
)
def test_each_value_of_a_list_is_stored_by_itself_in_any_table(session: Session, columns: str, clauses: str) -> None:
    kind = "EXTERNAL TABLE" if "LOCATION" in clauses else "TABLE"
    session.sql(f"CREATE {kind} t (id int, d date, s string{', ' if columns else ''}{columns}) {clauses}")
    rows = [
        (1, date(2020, 2, 29), "x", 9007199254740993),
        (2, date(2020, 3, 1), "1", 1),
        (3, None, "1.5", 7),
    ]
    session.sql(f"INSERT INTO t VALUES {MIXED}")
    assert session.sql("SELECT id, d, s, b FROM t ORDER BY id").rows == rows
    session.sql(f"INSERT OVERWRITE t (id, d, s, b) VALUES {MIXED}, (4, :day, upper('y'), NULL)", {"day": "2020-01-01"})
    assert session.sql("SELECT id, d, s, b FROM t ORDER BY id").rows == [*rows, (4, date(2020, 1, 1), "Y", None)]
    for value, error in {
        "true": TypeMismatchError,
        "'x'": UnreadableTextError,
        "'1' || '1'": TypeMismatchError,
    }.items():
        with pytest.raises(error, match="Column id"):
            session.sql(f"INSERT INTO t VALUES {MIXED}, ({value}, NULL, 'x', NULL)")
    assert session.sql("SELECT count(*) FROM t").rows == [(4,)]


def test_each_value_of_a_list_is_stored_by_itself_whatever_else_is_in_it(session: Session) -> None:
    session.sql("CREATE TABLE t (id int DEFAULT 7, s string DEFAULT 'none', l array<string>)")
    session.sql("INSERT INTO t VALUES (DEFAULT, 1, array(1)), ('2', DEFAULT, array(1.5)), (3, 1.5, array('x'))")
    session.sql("INSERT INTO t BY NAME VALUES (1, '4'), (1.5, 5) AS v (s, id)")
    session.sql("INSERT INTO t (id, s) (VALUES (:a, :b), (:b, :a), (8, lower('X')))", {"a": 1, "b": "6"})
    session.sql("INSERT WITH SCHEMA EVOLUTION INTO t VALUES ('9', 1, NULL, 1), (10, 'x', array(1), 2.5)")
    assert session.sql("SELECT * FROM t ORDER BY id, s").rows == [
        (1, "6", None, None),
        (2, "none", ["1.5"], None),
        (3, "1.5", ["x"], None),
        (4, "1", None, None),
        (5, "1.5", None, None),
        (6, "1", None, None),
        (7, "1", ["1"], None),
        (8, "x", None, None),
        (9, "1", None, Decimal("1.0")),
        (10, "x", ["1"], Decimal("2.5")),
    ]


def test_python_values_are_stored_each_by_itself(session: Session) -> None:
    session.sql("CREATE TABLE t (s string, at timestamp, k int)")
    rows = [
        (1, "2020-01-01", "5"),
        (Decimal("1.50"), datetime(2020, 1, 2, tzinfo=UTC), 6.0),
        ("x", date(2020, 1, 3), Decimal("7.9")),
        (date(2020, 1, 1), None, None),
    ]
    session.insert_rows("t", rows)
    assert session.sql("SELECT * FROM t ORDER BY k NULLS LAST").rows == [
        ("1", datetime(2020, 1, 1, tzinfo=UTC), 5),
        ("1.50", datetime(2020, 1, 2, tzinfo=UTC), 6),
        ("x", datetime(2020, 1, 3, tzinfo=UTC), 7),
        ("2020-01-01", None, None),
    ]
