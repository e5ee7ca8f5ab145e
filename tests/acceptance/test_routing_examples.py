"""The examples E1 to E26 on both databases. Source: docs/reference/clusters.md, "Examples"."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import RoutingError, UnknownClusterError
from tests.acceptance.conftest import CopyTable

ERROR = None
JOIN_11_21 = "SELECT t11.id FROM t11 JOIN t21 ON t11.id = t21.id"


@pytest.fixture
def setup_a(session: Session) -> Session:
    """T11 and T12 in C1, T21 in C2, T31 in C3; no secondaries."""
    for table, cluster in (("t11", "c1"), ("t12", "c1"), ("t21", "c2"), ("t31", "c3")):
        session.sql(f"CREATE TABLE {table} (id int, name string) TBLPROPERTIES ('hivex.cluster' = '{cluster}')")
        session.sql(f"INSERT INTO {table} VALUES (1, '{table}'), (2, 'two')")
    return session


@pytest.fixture
def setup_b(setup_a: Session, copy_table: CopyTable) -> Session:
    """The same, and all of T11 is also in C2."""
    copy_table("t11", "c2")
    return setup_a


@pytest.fixture
def setup_p(setup_b: Session, copy_table: CopyTable) -> Session:
    """P1 with ds=1,2,3 in C1; ds=1 and 2 also in C2; T21 in C2."""
    setup_b.sql("CREATE TABLE p1 (id int) PARTITIONED BY (ds string) TBLPROPERTIES ('hivex.cluster' = 'c1')")
    for ds in "123":
        setup_b.sql(f"INSERT INTO p1 PARTITION (ds = '{ds}') VALUES ({ds}), (10{ds})")
    copy_table("p1", "c2", ["ds=1", "ds=2"])
    return setup_b


E1_TO_E7 = [
    ("E1", "SELECT * FROM t11", "c1", "c1"),
    ("E2", "SELECT * FROM t11 JOIN t12 ON t11.id = t12.id", "c1", "c1"),
    ("E3", "SELECT * FROM t21", "c2", "c2"),
    ("E4", "SELECT * FROM t11 JOIN t21 ON t11.id = t21.id", ERROR, "c2"),
    ("E5", "SELECT * FROM t11 JOIN t31 ON t11.id = t31.id", ERROR, ERROR),
    ("E6", "CREATE TABLE t13 AS SELECT * FROM t11", "c1", "c1"),
    ("E7", "INSERT INTO t21 SELECT * FROM t11", ERROR, "c2"),
]


@pytest.mark.parametrize(("name", "sql", "in_a", "in_b"), E1_TO_E7, ids=[each[0] for each in E1_TO_E7])
def test_e1_to_e7_explained(setup_a: Session, copy_table: CopyTable, name: str, sql: str, in_a: str, in_b: str) -> None:
    assert setup_a.explain(sql).cluster == in_a
    copy_table("t11", "c2")
    assert setup_a.explain(sql).cluster == in_b
    if name == "E4":
        assert [candidate.cluster for candidate in setup_a.explain(sql).candidates] == ["c1", "c2"]


@pytest.mark.spark
def test_e1_to_e7_run_for_real_without_copies(setup_a: Session) -> None:
    for name, sql, in_a, _ in E1_TO_E7:
        if in_a is ERROR:
            with pytest.raises(RoutingError):
                setup_a.sql(sql)
        else:
            result = setup_a.sql(sql)
            assert (name, result.cluster) == (name, in_a)
            assert len(result.rows) == 2 or result.rows_written == 2
    assert setup_a.sql("SELECT count(*) FROM t21").rows == [(2,)]
    assert setup_a.explain("SELECT * FROM t13").cluster == "c1"


@pytest.mark.spark
def test_e1_to_e7_run_for_real_with_t11_in_c2(setup_b: Session) -> None:
    for name, sql, _, in_b in E1_TO_E7:
        if in_b is ERROR:
            with pytest.raises(RoutingError):
                setup_b.sql(sql)
        else:
            result = setup_b.sql(sql)
            assert (name, result.cluster) == (name, in_b)
            assert len(result.rows) == 2 or result.rows_written == 2
    assert setup_b.sql("SELECT id, name FROM t21 ORDER BY id, name").rows == [
        (1, "t11"),
        (1, "t21"),
        (2, "two"),
        (2, "two"),
    ]
    assert setup_b.explain("SELECT * FROM t21").cluster == "c2"


def test_e8_the_first_input_is_tried_first(setup_b: Session) -> None:
    route = setup_b.explain("SELECT t21.id FROM t21 JOIN t11 ON t11.id = t21.id")
    assert [candidate.cluster for candidate in route.candidates] == ["c2"]


def test_e9_outputs_with_different_primaries_are_refused(setup_a: Session) -> None:
    sql = "FROM t12 INSERT INTO t11 SELECT id, name INSERT INTO t21 SELECT id, name WHERE id > 1"
    route = setup_a.explain(sql)
    assert route.cluster is ERROR
    assert "default.t11" in route.describe()
    assert "default.t21" in route.describe()
    with pytest.raises(RoutingError):
        setup_a.sql(sql)


def test_e10_existing_output_decides(setup_b: Session) -> None:
    route = setup_b.explain("INSERT INTO t11 SELECT * FROM t21")
    assert route.cluster is ERROR
    assert "default.t21" in route.describe()
    assert [candidate.cluster for candidate in route.candidates] == ["c1"]


def test_e11_to_e13_a_pinned_cluster_alone_is_tried(setup_b: Session) -> None:
    setup_b.sql("USE CLUSTER c2")
    assert setup_b.explain("SELECT * FROM t11").cluster == "c2"
    refused = setup_b.explain("INSERT INTO t11 SELECT * FROM t21")
    assert refused.cluster is ERROR
    assert "default.t11 may be written on its primary c1 only" in refused.describe()
    setup_b.sql("USE CLUSTER c1")
    assert setup_b.explain(JOIN_11_21).cluster is ERROR
    setup_b.sql("USE CLUSTER")
    assert setup_b.explain(JOIN_11_21).cluster == "c2"


def test_e14_unknown_cluster_is_refused_at_use(setup_a: Session) -> None:
    with pytest.raises(UnknownClusterError, match=r"'c9'.*c1, c2, c3"):
        setup_a.sql("USE CLUSTER c9")
    assert setup_a.cluster is None


def test_e15_new_table_goes_to_the_pinned_cluster(setup_b: Session) -> None:
    setup_b.sql("USE CLUSTER c2")
    assert setup_b.explain("CREATE TABLE t13 AS SELECT * FROM t11").cluster == "c2"


def test_e16_new_table_goes_to_the_cluster_that_has_all_inputs(setup_b: Session) -> None:
    assert setup_b.explain(f"CREATE TABLE t13 AS {JOIN_11_21}").cluster == "c2"


P1_T21 = "SELECT p1.id FROM p1 JOIN t21 ON p1.id = t21.id"


def test_e17_only_partitions_that_are_read_matter(setup_p: Session) -> None:
    assert setup_p.explain(f"{P1_T21} WHERE p1.ds = '1'").cluster == "c2"


def test_e18_missing_partition_is_named(setup_p: Session) -> None:
    route = setup_p.explain(f"{P1_T21} WHERE ds = '3'")
    assert route.cluster is ERROR
    assert "ds=3" in route.describe()
    lacks = {candidate.cluster: candidate.lacks for candidate in route.candidates}
    assert [(lack.table, lack.partitions, lack.count) for lack in lacks["c2"]] == [("default.p1", ("ds=3",), 1)]
    assert [lack.table for lack in lacks["c1"]] == ["default.t21"]


def test_e19_without_a_filter_all_partitions_are_needed(setup_p: Session) -> None:
    assert setup_p.explain(P1_T21).cluster is ERROR


def test_e20_primary_has_everything(setup_p: Session) -> None:
    assert setup_p.explain("SELECT * FROM p1 WHERE ds = '1'").cluster == "c1"


def test_e21_and_e22_pinned_cluster_needs_the_partitions(setup_p: Session) -> None:
    setup_p.sql("USE CLUSTER c2")
    assert setup_p.explain("SELECT * FROM p1 WHERE ds IN ('1', '2')").cluster == "c2"
    assert setup_p.explain("SELECT * FROM p1 WHERE ds = '3'").cluster is ERROR


def test_e23_new_partition_is_written_on_the_primary(setup_p: Session) -> None:
    assert setup_p.explain("INSERT INTO p1 PARTITION (ds = '4') SELECT id FROM t21").cluster is ERROR


def test_e24_only_the_primary_may_be_written(setup_p: Session) -> None:
    setup_p.sql("USE CLUSTER c2")
    route = setup_p.explain("INSERT INTO p1 PARTITION (ds = '1') VALUES (1)")
    assert route.cluster is ERROR
    assert "primary c1 only" in route.describe()


def test_pinned_cluster_holds_for_writes_without_a_query_and_not_for_definitions(
    setup_p: Session, metastore: Metastore, tmp_path: Path
) -> None:
    setup_p.sql("CREATE EXTERNAL TABLE plain (id int) PARTITIONED BY (ds string) STORED AS ORC LOCATION 'plain'")
    (tmp_path / "c1" / "plain" / "ds=1").mkdir(parents=True)
    convert = "ALTER TABLE plain SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')"
    setup_p.sql("USE CLUSTER c2")
    writes = ("TRUNCATE TABLE p1", "TRUNCATE TABLE p1 PARTITION (ds = '1')", "MSCK REPAIR TABLE plain", convert)
    for statement in writes:
        with pytest.raises(RoutingError, match=r"(?s)pinned to cluster c2.*may be written on its primary c1 only"):
            setup_p.sql(statement)
    assert metastore.transactions.valid_txns().open_ids == ()
    assert setup_p.explain("SELECT * FROM p1 WHERE ds = '1'").cluster == "c2"
    setup_p.sql("ALTER TABLE p1 ADD COLUMNS (v string)")
    setup_p.sql("ALTER TABLE p1 DROP PARTITION (ds = '3')")
    assert setup_p.sql("OPTIMIZE p1 PARTITION (ds = '1')").rows
    setup_p.sql("USE CLUSTER")
    for statement in writes:
        setup_p.sql(statement)
    assert setup_p.to_arrow("p1").num_rows == 0


def test_e25_partition_that_does_not_exist_is_no_hindrance(setup_p: Session) -> None:
    route = setup_p.explain(f"{P1_T21} WHERE ds = '9'")
    assert [candidate.cluster for candidate in route.candidates] == ["c1", "c2"]
    assert route.cluster == "c2"


@pytest.mark.parametrize("statement", ["INSERT OVERWRITE", "INSERT INTO"])
def test_e26_a_copy_that_lags_is_not_there(setup_p: Session, copy_table: CopyTable, statement: str) -> None:
    query = f"{P1_T21} WHERE ds = '1'"
    setup_p.sql(f"{statement} p1 PARTITION (ds = '1') VALUES (7)")
    route = setup_p.explain(query)
    assert route.cluster is ERROR
    assert "ds=1" in route.describe()
    assert {lack.reason for candidate in route.candidates for lack in candidate.lacks} == {"missing", "stale"}
    assert setup_p.explain(f"{P1_T21} WHERE ds = '2'").cluster == "c2"
    copy_table("p1", "c2", ["ds=1"])
    assert setup_p.explain(query).cluster == "c2"


@pytest.mark.parametrize(
    ("source", "condition"),
    [
        ("v", "v.ds = '1'"),
        ("(SELECT * FROM v WHERE id < 9) AS v", "v.ds IN ('1', '2')"),
        ("(SELECT id, ds AS day FROM p1) AS v", "day = '1'"),
        ("(SELECT max(id) AS id, ds FROM v GROUP BY ds) AS v", "ds = '1'"),
    ],
)
def test_r12_holds_for_conditions_on_views_and_queries(setup_p: Session, source: str, condition: str) -> None:
    setup_p.sql("CREATE VIEW v AS SELECT id, ds FROM p1")
    assert setup_p.explain(f"SELECT * FROM {source} JOIN t21 USING (id)").cluster is ERROR
    assert setup_p.explain(f"SELECT * FROM {source} JOIN t21 USING (id) WHERE {condition}").cluster == "c2"
    named = f"WITH w AS (SELECT * FROM {source}) SELECT * FROM w AS v JOIN t21 USING (id) WHERE {condition}"
    assert setup_p.explain(named).cluster == "c2"
    assert setup_p.explain(f"{named} UNION ALL SELECT *, 'x' FROM w JOIN t21 USING (id)").cluster is ERROR


def test_an_explained_route_is_that_of_the_open_transaction(setup_p: Session, metastore: Metastore) -> None:
    reads = "SELECT * FROM p1 JOIN t21 USING (id) WHERE ds = '{}'"

    def routes() -> list[str | None]:
        rows = setup_p.sql(f"EXPLAIN ROUTE {reads.format(1)}").rows
        chosen = next((str(row[0]) for row in rows if row[1]), None)
        assert chosen == setup_p.explain(reads.format(1)).cluster
        return [chosen, setup_p.explain(reads.format(2)).cluster]

    setup_p.sql("START TRANSACTION")
    setup_p.to_arrow("p1", ["id"])
    with metastore.session() as other:
        other.sql("INSERT INTO p1 PARTITION (ds = '1') VALUES (7)")
        assert other.explain(reads.format(1)).cluster is ERROR
    # The snapshot of the transaction is from before that.
    assert routes() == ["c2", "c2"]
    setup_p.sql("INSERT INTO p1 PARTITION (ds = '2') VALUES (8)")
    assert routes() == ["c2", ERROR]
    with metastore.session() as other:
        assert other.explain(reads.format(2)).cluster == "c2"
    setup_p.sql("ROLLBACK")
    assert routes() == [ERROR, "c2"]
