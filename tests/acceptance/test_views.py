"""Views: what they are made of, where their names are bound, and what is done to them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    AnalysisError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchTableError,
    RoutingError,
    StatementSyntaxError,
    UnsupportedStatementError,
)
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.queries.function_calls import SPARK_FUNCTIONS
from airflow_hivex.core.store.schema import tables

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str) -> list[tuple[object, ...]]:
    return session.sql(sql).rows


@pytest.fixture
def t(session: Session) -> Session:
    """``t`` with three rows in the partitions 1 and 2."""
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, NULL, 2)")
    return session


def test_a_view_is_its_query_wherever_it_is_read(t: Session) -> None:
    t.sql("CREATE VIEW w AS SELECT id * 10 AS ten, v FROM t WHERE p = 1 -- the first")
    assert rows(t, "SELECT * FROM w ORDER BY ten") == [(10, "a"), (20, "b")]
    assert rows(t, "SELECT x.ten FROM w AS x JOIN t ON t.id * 10 = x.ten WHERE t.v = 'b'") == [(20,)]
    assert rows(t, "SELECT default.w.v FROM default.w WHERE w.ten = 10") == [("a",)]
    assert rows(t, "WITH t AS (SELECT 1) SELECT count(*) FROM w") == [(2,)]
    t.sql("CREATE TABLE c AS SELECT * FROM w")
    t.sql("INSERT INTO c SELECT ten + :more, v FROM w", {"more": 1})
    assert rows(t, "SELECT ten FROM c ORDER BY ten") == [(10,), (11,), (20,), (21,)]
    t.sql("FROM w INSERT INTO c SELECT 0, v WHERE ten = 10 INSERT INTO c SELECT 1, v")
    assert rows(t, "SELECT count(*) FROM c") == [(7,)]
    t.sql("UPDATE c SET v = 'in view' WHERE ten IN (SELECT ten FROM w)")
    t.sql("MERGE INTO c USING w ON c.ten = w.ten WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (5, v)")
    assert rows(t, "SELECT ten, v FROM c ORDER BY ALL") == [(0, "a"), (1, "a"), (1, "b"), (11, "a"), (21, "b")]


def test_a_view_may_have_columns_that_no_file_holds(t: Session) -> None:
    t.sql("CREATE VIEW w AS SELECT NULL AS nothing, INTERVAL '1' DAY AS i, id AS `the id`, count(*) FROM t GROUP BY id")
    assert rows(t, "SELECT nothing, i, `the id`, `count(1)` FROM w WHERE `the id` = 1") == [
        (None, timedelta(days=1), 1, 1)
    ]
    assert [row[:2] for row in rows(t, "DESCRIBE w")] == [
        ("nothing", "void"),
        ("i", "interval day"),
        ("the id", "int"),
        ("count(1)", "bigint"),
    ]
    ((definition,),) = rows(t, "SHOW CREATE TABLE w")
    t.sql("DROP VIEW w")
    t.sql(str(definition))
    assert rows(t, "SELECT `the id` FROM w ORDER BY 1") == [(1,), (2,), (3,)]
    assert rows(t, "SELECT array(), map(), named_struct('a', NULL)") == [([], {}, {"a": None})]
    assert rows(t, "SELECT * FROM posexplode(array())") == []


def test_a_view_names_columns_of_one_name(t: Session) -> None:
    t.sql("CREATE VIEW w (first, second) AS SELECT x.id, y.id FROM t AS x JOIN t AS y ON x.p = y.p -- pairs")
    t.sql("CREATE TEMPORARY VIEW pairs (a, b) AS SELECT second, second FROM w WHERE first = 1")
    assert rows(t, "SELECT first, sum(second) FROM w GROUP BY first ORDER BY first") == [(1, 3), (2, 3), (3, 3)]
    assert rows(t, "SELECT b, a FROM pairs ORDER BY a") == [(1, 1), (2, 2)]
    # With another order of the columns of t, i would be p.
    for query in ("SELECT * FROM t JOIN t AS y ON t.p = y.p", "FROM t |> SELECT id, v, p, id, v, p"):
        with pytest.raises(InvalidObjectError, match=r"two columns \w+, .* one by one"):
            t.sql(f"CREATE VIEW all_pairs (i, a, p, j, b, q) AS {query}")


def test_a_query_is_described_without_being_run(t: Session) -> None:
    t.sql("CREATE VIEW w (number COMMENT 'its id', name) AS SELECT id, v FROM t")
    described = t.sql("DESCRIBE QUERY SELECT number, count(*) AS n, raise_error('run') AS e FROM w GROUP BY number")
    assert described.columns == ["col_name", "data_type", "comment"]
    assert [row[:2] for row in described.rows] == [("number", "int"), ("n", "bigint"), ("e", "void")]
    assert described.cluster == "c1"
    with pytest.raises(AnalysisError):
        t.sql("DESC SELECT missing FROM w")


def test_a_view_and_its_columns_have_comments(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE VIEW w (number COMMENT 'its id') AS SELECT id FROM t")
    t.sql("COMMENT ON VIEW w IS 'all'")
    t.sql("COMMENT ON COLUMN w.number IS 'another'")
    assert metastore.catalog.get_table("default", "w").comment == "all"
    assert rows(t, "DESCRIBE w") == [("number", "int", "another")]
    assert rows(t, "SELECT max(number) FROM w") == [(3,)]


def test_functions_are_those_of_the_cluster_s_spark(t: Session) -> None:
    shown = t.sql("SHOW FUNCTIONS LIKE 'json_*|lower'")
    assert (shown.columns, shown.cluster) == (["function"], "c1")
    assert {("json_array_length",), ("json_tuple",), ("lower",)} <= set(shown.rows)
    system = {str(name) for (name,) in rows(t, "SHOW SYSTEM FUNCTIONS")}
    assert {name for name in system if name.isidentifier()} == SPARK_FUNCTIONS
    assert "!=" in system
    described = t.sql("DESCRIBE FUNCTION EXTENDED lower")
    assert described.columns == ["function_desc"]
    assert described.rows[0] == ("Function: lower",)
    assert "Examples" in str(described.rows[-1][0])
    assert rows(t, "DESC FUNCTION +")[0] == ("Function: +",)
    with pytest.raises(AnalysisError, match="nope"):
        t.sql("DESCRIBE FUNCTION nope")
    with pytest.raises(AnalysisError):
        t.sql("DESCRIBE FUNCTION `lower``; DROP VIEW w`")


def test_a_query_is_explained_without_being_run(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE VIEW w (number, name) AS SELECT id, v FROM t")
    explained = t.sql("EXPLAIN SELECT raise_error(name) FROM w WHERE number > :least", {"least": 1})
    assert (explained.columns, explained.cluster) == (["plan"], "c1")
    ((plan,),) = explained.rows
    assert str(plan).startswith("== Physical Plan ==")
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,1)]" in str(plan)
    ((extended,),) = rows(t, "EXPLAIN EXTENDED SELECT number FROM w")
    assert "== Analyzed Logical Plan ==" in str(extended)
    assert "default.t" in str(extended)
    assert "hivex_" not in str(extended)
    ((formatted,),) = rows(t, "EXPLAIN FORMATTED SELECT count(*) FROM t")
    assert "(1) Scan orc" in str(formatted)
    before = rows(t, "SELECT * FROM t ORDER BY id")
    for statement, part in {
        "INSERT INTO t SELECT * FROM t WHERE id > 1": "GreaterThan(id,1)",
        "CREATE TABLE n AS SELECT * FROM t WHERE id > 1": "GreaterThan(id,1)",
        "UPDATE t SET v = 'x' WHERE id = 1": "EqualTo(id,1)",
        "DELETE FROM t WHERE id = 1": "EqualTo(id,1)",
        "MERGE INTO t USING w ON id = number WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *": "Join",
        "MERGE INTO t USING (SELECT CAST(raise_error('run') AS INT) AS k) s ON id = k WHEN MATCHED THEN DELETE": "Join",
    }.items():
        ((plan,),) = rows(t, f"EXPLAIN {statement}")
        assert str(plan).startswith("== Physical Plan ==")
        assert part in str(plan)
        assert "hivex_" not in str(plan)
    assert rows(t, "SELECT * FROM t ORDER BY id") == before
    assert metastore.locks.show() == []
    assert t.sql("SHOW TRANSACTIONS").rows == []
    with pytest.raises(AnalysisError):
        t.sql("EXPLAIN SELECT missing FROM w")


def test_views_of_views_see_what_is_written_later(t: Session) -> None:
    t.sql("CREATE VIEW one (number COMMENT 'its id', name) COMMENT 'all' AS SELECT id, v FROM t")
    t.sql("CREATE VIEW two AS WITH q AS (SELECT number FROM one) SELECT max(number) m, count(*) n FROM q")
    assert rows(t, "SELECT * FROM two") == [(3, 3)]
    t.sql("INSERT INTO t VALUES (9, 'new', 3)")
    t.sql("ALTER TABLE t ADD COLUMNS (more int)")
    assert rows(t, "SELECT m, n FROM two") == [(9, 4)]
    assert rows(t, "SELECT * FROM one WHERE number = 9") == [(9, "new")]
    assert rows(t, "DESCRIBE one") == [("number", "int", "its id"), ("name", "string", None)]


def test_names_are_bound_in_the_namespace_of_the_view(t: Session, metastore: Metastore) -> None:
    t.sql("CREATE VIEW w AS SELECT count(*) n FROM t")
    with metastore.session(user="other") as other:
        other.sql("CREATE DATABASE d")
        other.sql("USE d")
        other.sql("CREATE TABLE t (k int)")
        assert rows(other, "SELECT n FROM default.w") == [(3,)]


def test_a_view_is_routed_by_what_it_reads(t: Session) -> None:
    t.sql("CREATE VIEW w AS SELECT id, p FROM t")
    t.sql("USE CLUSTER c2")
    t.sql("CREATE TABLE u (k int)")
    with pytest.raises(RoutingError, match=r"default\.t"):
        t.sql("SELECT * FROM w")
    t.sql("USE CLUSTER")
    assert t.sql("SELECT * FROM w").cluster == "c1"
    with pytest.raises(RoutingError):
        t.sql("SELECT * FROM w JOIN u ON k = id")
    assert t.explain("SELECT * FROM w WHERE p = 2").cluster == "c1"
    assert "default.t" in " ".join(row[3] for row in rows(t, "EXPLAIN ROUTE SELECT * FROM w JOIN u ON k = id"))


def test_views_are_listed_shown_changed_and_dropped(t: Session) -> None:
    t.sql("CREATE VIEW w (a) COMMENT 'it''s' TBLPROPERTIES ('x' = 'y') AS SELECT id FROM t")
    assert rows(t, "SHOW VIEWS") == rows(t, "SHOW VIEWS LIKE 'w*'") == [("w",)]
    assert rows(t, "SHOW TABLES") == [("t",), ("w",)]
    t.sql("CREATE VIEW ticks (`a``b`) AS SELECT id FROM t")
    assert "(`a``b`)" in str(rows(t, "SHOW CREATE TABLE ticks"))
    t.sql("DROP VIEW ticks")
    ((made,),) = rows(t, "SHOW CREATE TABLE w")
    facts = {str(row[0]): row[1] for row in rows(t, "DESCRIBE EXTENDED w")}
    assert (facts["Type"], facts["View Original Text"]) == ("VIRTUAL_VIEW", "SELECT id FROM t")
    t.sql("ALTER VIEW w SET TBLPROPERTIES ('z' = '1')")
    t.sql("ALTER VIEW w AS SELECT id + 1 AS b FROM t")
    assert rows(t, "SELECT max(b) FROM w") == [(4,)]
    assert "'z' = '1'" in str(rows(t, "SHOW CREATE TABLE w"))
    t.sql("ALTER VIEW w RENAME TO v")
    t.sql(str(made))
    t.sql("CREATE OR REPLACE VIEW v AS SELECT a FROM w")
    t.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS other")
    assert rows(t, "SELECT max(a) FROM v") == [(3,)]
    t.sql("DROP VIEW w")
    t.sql("DROP VIEW IF EXISTS w")
    with pytest.raises(NoSuchTableError, match=r"default\.w"):
        t.sql("SELECT * FROM v")
    t.sql("DROP VIEW v")
    assert rows(t, "SHOW VIEWS") == []
    t.sql("CREATE TABLE v (k int)")


def test_views_have_no_files_on_any_cluster(t: Session, metastore: Metastore, tmp_path: Path) -> None:
    t.sql("CREATE DATABASE d")
    t.sql("CREATE VIEW d.w AS SELECT id FROM t")
    assert metastore.catalog.get_table("d", "w", cluster="c2").columns == (Column("id", "int"),)
    with pytest.raises(InvalidOperationError, match="it is a view"):
        metastore.catalog.register_copy("d", "w", "c2")
    t.sql("DROP DATABASE d CASCADE")
    with metastore.services.store.read() as connection:
        left = connection.execute(select(tables.c.name).where(tables.c.dropped)).all()
    assert left == []
    assert (tmp_path / "c1" / "default.db" / "t").exists()


@pytest.mark.parametrize(
    ("statement", "error", "reason"),
    [
        ("CREATE VIEW w AS SELECT 1 AS one", AlreadyExistsError, "w"),
        ("CREATE VIEW t AS SELECT 1 AS one", AlreadyExistsError, "t"),
        ("CREATE OR REPLACE VIEW t AS SELECT 1 AS one", InvalidOperationError, "it is a table"),
        ("CREATE OR REPLACE VIEW w AS SELECT * FROM (SELECT * FROM w)", InvalidObjectError, "reads the view itself"),
        ("CREATE VIEW x AS SELECT id, id FROM t", InvalidObjectError, "two columns id"),
        ("CREATE VIEW x (a, b) AS SELECT id FROM t", InvalidObjectError, "lists 2 columns, and its query returns 1"),
        ("CREATE VIEW x (a, a) AS SELECT id, v FROM t", StatementSyntaxError, "named twice"),
        ("CREATE VIEW x AS SELECT nothing FROM t", AnalysisError, "nothing"),
        ("CREATE VIEW x AS SELECT * FROM nowhere", NoSuchTableError, "nowhere"),
        ("CREATE GLOBAL TEMPORARY VIEW x AS SELECT 1 AS one", UnsupportedStatementError, "TEMPORARY VIEW"),
        ("ALTER VIEW x AS SELECT 1 AS one", NoSuchTableError, "x"),
        ("DROP VIEW t", InvalidOperationError, "DROP TABLE drops it"),
        ("DROP TABLE w", InvalidOperationError, "DROP VIEW drops it"),
        ("DROP VIEW x", NoSuchTableError, "x"),
        ("INSERT INTO w VALUES (1)", InvalidOperationError, "it is a view"),
        ("DELETE FROM w", InvalidOperationError, "it is a view"),
        ("UPDATE w SET id = 1", InvalidOperationError, "it is a view"),
        ("TRUNCATE TABLE w", InvalidOperationError, "it is a view"),
        ("ALTER TABLE w ADD COLUMNS (x int)", InvalidOperationError, "it is a view"),
    ],
)
def test_what_cannot_be_is_refused(t: Session, statement: str, error: type[Exception], reason: str) -> None:
    t.sql("CREATE VIEW w AS SELECT id FROM t")
    with pytest.raises(error, match=reason):
        t.sql(statement)
    assert rows(t, "SELECT * FROM w ORDER BY id") == [(1,), (2,), (3,)]
    assert rows(t, "SHOW TABLES") == [("t",), ("w",)]


def test_links_are_read_in_views_and_changes_of_rows(session: Session) -> None:
    for text in (
        "CREATE DATABASE b",
        "CREATE TABLE b.t (id int, v string) PARTITIONED BY (ds int)",
        "INSERT INTO b.t VALUES (1, 'one', 1)",
        "CREATE DATABASE a WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')",
        "USE a",
        "CREATE LINK TO t@b",
        "CREATE VIEW v AS SELECT t@b.id, upper(v) AS v FROM t@b WHERE ds > 0",
        "CREATE TABLE own (id int, v string)",
        "USE b",
        "INSERT INTO t VALUES (2, 'two', 2), (3, 'three', 3)",
        "DELETE FROM t WHERE id = 3",
        "USE a",
        "MERGE INTO own USING t@b AS s ON own.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    ):
        session.sql(text)
    assert session.sql("SELECT * FROM v").rows == [(2, "TWO")]
    assert session.sql("SELECT own.v, x.ds FROM own JOIN t@b x USING (id)").rows == [("two", 2)]
    session.sql("ALTER LINK t@b ADD PARTITION (ds = 1)")
    assert session.sql("SELECT id FROM v ORDER BY id").rows == [(1,), (2,)]
    session.sql("USE default")
    assert session.sql("SELECT count(*) FROM a.v JOIN a.t@b USING (id)").rows == [(2,)]
