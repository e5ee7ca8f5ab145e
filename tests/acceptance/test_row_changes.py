"""UPDATE, DELETE and MERGE through sessions: what readers see, what lies on disk, who is in whose way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc
from pyspark import SparkContext

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, JobError, WriteConflictError
from airflow_hivex.core.model.row_ids import decode_bucket
from tests.acceptance.conftest import CopyTable

pytestmark = pytest.mark.spark

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)


def rows(session: Session, sql: str = "SELECT * FROM t ORDER BY ALL") -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def directories(root: Path, table: str = "t") -> list[str]:
    """Base, delta and delete delta directories of a table on c1, below its folder."""
    folder = root / "c1" / "default.db" / table
    return sorted(str(path.parent.relative_to(folder)) for path in folder.glob("**/_orc_acid_version"))


@pytest.fixture
def t(session: Session) -> Session:
    """``t`` with three rows in the partitions 1, 2 and NULL."""
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)")
    return session


@on_sqlite
def test_rows_are_deleted_updated_and_merged(t: Session) -> None:
    deleted = t.sql("DELETE FROM t WHERE id = 2")
    assert (deleted.rows_written, deleted.rows_deleted, deleted.cluster) == (0, 1, "c1")
    assert rows(t) == [(1, "a", 1), (3, None, None)]
    updated = t.sql(
        "UPDATE t x SET v = concat('new ', coalesce(x.v, 'null')), id = x.id * 10 WHERE id >= :low", {"low": 0}
    )
    assert (updated.rows_written, updated.rows_deleted) == (2, 2)
    assert rows(t) == [(10, "new a", 1), (30, "new null", None)]
    t.sql("CREATE TABLE s (k int, w string)")
    t.sql("INSERT INTO s VALUES (10, 'merged'), (30, NULL), (40, 'fresh'), (NULL, 'no key')")
    merged = t.sql(
        "MERGE INTO t USING s ON t.id = s.k WHEN MATCHED AND w IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET v = w WHEN NOT MATCHED AND k IS NOT NULL THEN INSERT VALUES (k, w, 9)"
    )
    assert (merged.rows_written, merged.rows_deleted) == (2, 2)
    assert rows(t) == [(10, "merged", 1), (40, "fresh", 9)]
    assert t.sql("DELETE FROM t").rows_deleted == 2
    assert rows(t) == []
    assert t.sql("UPDATE t SET v = 'absent'").rows_written == 0


@on_sqlite
def test_a_merge_compares_each_row_with_the_clauses_in_their_order(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, v string, n int)")
    session.sql("INSERT INTO t SELECT id, 'old', 0 FROM range(6)")
    session.sql("CREATE TABLE s (id int, v string, n int)")
    session.sql("INSERT INTO s VALUES (0, 'x', 1), (1, 'x', 2), (2, 'x', 3), (7, 'x', 1), (8, 'x', 2), (9, 'x', 3)")
    session.sql(
        "MERGE INTO t USING s ON t.id = s.id "
        "WHEN MATCHED AND s.n = 1 THEN UPDATE SET v = 'first' "
        "WHEN MATCHED AND s.n <= 2 THEN UPDATE SET * "
        "WHEN NOT MATCHED AND s.n = 1 THEN INSERT (v, id) VALUES ('some', s.id) "
        "WHEN NOT MATCHED AND 10 / (s.n - 1) = 10 THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 3 THEN UPDATE SET v = 'rest', n = t.id"
    )
    assert rows(session) == [
        (0, "first", 0),
        (1, "x", 2),
        (2, "old", 0),
        (4, "rest", 4),
        (5, "rest", 5),
        (7, "some", None),
        (8, "x", 2),
    ]


@on_sqlite
def test_a_source_may_be_the_target_itself_and_conditions_may_read_it(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, v int)")
    session.sql("INSERT INTO t SELECT id, id FROM range(10)")
    session.sql("DELETE FROM t WHERE id IN (SELECT max(id) FROM t) OR EXISTS (SELECT 1 FROM t u WHERE u.v + 8 = t.id)")
    session.sql("UPDATE t SET v = (SELECT sum(v) FROM t u WHERE u.id <= t.id) WHERE id < 3")
    assert rows(session)[:4] == [(0, 0), (1, 1), (2, 3), (3, 3)]
    session.sql("MERGE INTO t USING (SELECT id + 100 AS id, v FROM t) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert rows(session, "SELECT count(*), max(id) FROM t") == [(16, 107)]
    with pytest.raises(InvalidObjectError, match="__clause: the source of a MERGE"):
        session.sql(
            "MERGE INTO t USING (SELECT 0 AS id, 7 AS __Clause) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 8"
        )


@on_sqlite
def test_tables_of_one_name_are_distinguished_by_their_databases(session: Session) -> None:
    session.sql("CREATE DATABASE a")
    session.sql("CREATE DATABASE b")
    for database in "ab":
        session.sql(f"CREATE TABLE {database}.t (id int, v string)")
    session.sql("INSERT INTO a.t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    session.sql("INSERT INTO b.t VALUES (1, 'eins'), (4, 'vier')")
    session.sql("USE a")
    session.sql("CREATE LINK TO t@b")
    same = "EXISTS (SELECT 1 FROM b.t WHERE a.t.id = b.t.id)"
    assert rows(session, f"SELECT id FROM a.t WHERE {same}") == [(1,)]
    assert rows(session, "SELECT t.v, t@b.v, a.t@b.id FROM t JOIN a.t@b ON t.id = t@b.id") == [("one", "eins", 1)]
    assert rows(session, "SELECT id FROM t WHERE id IN (SELECT t@b.id FROM t@b WHERE a.t@b.v <> a.t.v)") == [(1,)]
    session.sql("CREATE VIEW joined AS SELECT a.t@b.id, t.v FROM t, t@b WHERE a.t.id = a.t@b.id")
    assert rows(session, "SELECT * FROM joined") == [(1, "one")]
    update = "UPDATE a.t SET a.t.v = (SELECT max(v) FROM b.t WHERE a.t.id = b.t.id) WHERE id < 3"
    assert session.sql(update).rows_written == 2
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "eins"), (2, None), (3, "three")]
    session.sql(
        "MERGE INTO t USING t@b ON t.id = t@b.id WHEN MATCHED THEN UPDATE SET v = concat(t.v, t@b.v) "
        "WHEN NOT MATCHED THEN INSERT VALUES (a.t@b.id, t@b.v)"
    )
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "einseins"), (2, None), (3, "three"), (4, "vier")]
    session.sql(
        "MERGE INTO a.t USING b.t ON a.t.id = b.t.id WHEN MATCHED AND b.t.id = 4 THEN UPDATE SET v = b.t.v || '!'"
    )
    session.sql(f"DELETE FROM a.t WHERE NOT {same}")
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "einseins"), (4, "vier!")]
    session.sql("DELETE FROM t WHERE EXISTS (SELECT 1 FROM t@b WHERE a.t.id = t@b.id AND a.t@b.v = 'vier')")
    assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, "einseins")]


def test_fields_of_structs_are_assigned_by_their_names_where_these_are_the_same(session: Session) -> None:
    session.sql("CREATE TABLE t (id int, s struct<a:int,b:int,c:array<struct<d:int,e:int>>>)")
    session.sql("INSERT INTO t SELECT 1, NULL")
    fields = "named_struct('B', 2L, 'a', 1, 'c', array(named_struct('e', 4, 'd', 3)))"
    session.sql(
        f"MERGE INTO t USING (SELECT id + 1 AS id, {fields} AS s FROM range(2)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = {"a": 1, "b": 2, "c": [{"d": 3, "e": 4}]}
    assert rows(session) == [(1, expected), (2, expected)]
    session.sql("UPDATE t SET s = struct(s.b, s.a, s.c) WHERE id = 1")
    session.sql("UPDATE t SET s = struct(s.a AS x, s.b AS a, s.c AS b) WHERE id = 2")
    assert rows(session) == [(1, expected), (2, {**expected, "a": 1, "b": 2})]


@on_sqlite
def test_the_tree_is_hives(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id int, v string) CLUSTERED BY (id) INTO 2 BUCKETS")
    session.sql("INSERT INTO t SELECT id, 'v' FROM range(20)")
    session.sql("UPDATE t SET v = 'w' WHERE id < 10")
    session.sql("DELETE FROM t WHERE id % 2 = 0")
    assert directories(tmp_path) == [
        "delete_delta_0000003_0000003_0000",
        "delete_delta_0000004_0000004_0000",
        "delta_0000002_0000002_0000",
        "delta_0000003_0000003_0000",
    ]
    seen = set()
    for file in sorted((tmp_path / "c1/default.db/t").glob("del*/bucket_*")):
        read = orc.ORCFile(file).read().to_pydict()
        keys = list(zip(read["__original_write_id"], read["__bucket"], read["__row_id"], strict=True))
        assert keys == sorted(keys), f"{file} is not sorted"
        assert {decode_bucket(bucket).bucket_id for bucket in read["__bucket"]} == {int(file.name[-5:])}
        deletes = file.parent.name.startswith("delete")
        assert set(read["__operation"]) == {2 if deletes else 0}
        if deletes:
            assert read["v"] == [None] * len(keys)
        else:
            assert not seen & set(keys)
            seen |= set(keys)
    assert rows(session, "SELECT count(*), count_if(v = 'w'), min(id) FROM t") == [(10, 5, 1)]
    # New rows go to the bucket of their key, where bucketed joins look for them.
    session.sql("MERGE INTO t USING range(20, 60) s (n) ON t.id = s.n WHEN NOT MATCHED THEN INSERT VALUES (s.n, 'n')")
    session.sql("CREATE TABLE inserted (id int, v string) CLUSTERED BY (id) INTO 2 BUCKETS")
    session.sql("INSERT INTO inserted SELECT id, 'n' FROM range(20, 60)")
    merged = ids_by_file(tmp_path / "c1/default.db/t/delta_0000005_0000005_0000")
    assert merged == ids_by_file(tmp_path / "c1/default.db/inserted/delta_0000002_0000002_0000")
    assert len(merged) == 2


def ids_by_file(directory: Path) -> dict[str, list[int]]:
    return {file.name: sorted(orc.ORCFile(file).read()["id"].to_pylist()) for file in directory.glob("bucket_*")}


@on_sqlite
def test_a_transaction_alone_sees_its_own_changes(t: Session, metastore: Metastore) -> None:
    t.sql("START TRANSACTION")
    t.sql("UPDATE t SET v = 'one' WHERE id = 1")
    t.sql("UPDATE t SET v = concat(v, ' two') WHERE id = 1")
    t.sql("INSERT INTO t VALUES (4, 'd', 1), (5, 'e', 2)")
    t.sql("DELETE FROM t WHERE id IN (2, 4)")
    t.sql("MERGE INTO t USING (SELECT 5 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'merged'")
    own = [(1, "one two", 1), (3, None, None), (5, "merged", 2)]
    assert rows(t) == own
    with metastore.session() as other:
        assert rows(other) == [(1, "a", 1), (2, "b", 2), (3, None, None)]
        t.sql("COMMIT")
        assert rows(other) == own


@on_sqlite
def test_a_rollback_leaves_no_directory(t: Session, tmp_path: Path) -> None:
    before = directories(tmp_path)
    t.sql("START TRANSACTION")
    t.sql("UPDATE t SET v = 'x'")
    t.sql("DELETE FROM t WHERE id = 1")
    assert len(directories(tmp_path)) > len(before)
    t.sql("ROLLBACK")
    assert directories(tmp_path) == before
    assert rows(t) == [(1, "a", 1), (2, "b", 2), (3, None, None)]


@on_sqlite
def test_a_failed_change_leaves_everything_as_it_was(t: Session, tmp_path: Path) -> None:
    before = directories(tmp_path)
    with pytest.raises(JobError, match=r"(?i)division by zero"):
        t.sql("UPDATE t SET id = 1 / (id - 2)")
    assert directories(tmp_path) == before
    assert list(tmp_path.glob("c1/**/_staging*")) == []
    assert rows(t) == [(1, "a", 1), (2, "b", 2), (3, None, None)]


def test_changes_of_other_partitions_do_not_conflict_and_those_of_one_do(t: Session, metastore: Metastore) -> None:
    with metastore.session() as other:
        t.sql("START TRANSACTION")
        assert len(rows(t)) == 3
        # Its lock is on partition 2 alone.
        t.sql("UPDATE t SET v = 'mine' WHERE p = 2")
        other.sql("DELETE FROM t WHERE p = 1")
        t.sql("COMMIT")
        assert rows(t) == [(2, "mine", 2), (3, None, None)]

        t.sql("START TRANSACTION")
        assert len(rows(t)) == 2
        other.sql("UPDATE t SET v = 'theirs' WHERE p = 2")
        with pytest.raises(WriteConflictError):
            t.sql("UPDATE t SET v = 'lost' WHERE p = 2")
        t.sql("ROLLBACK")
    assert rows(t) == [(2, "theirs", 2), (3, None, None)]


@on_postgresql
def test_concurrent_updates_of_one_row_all_count(metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id int, n int)")
        session.sql("INSERT INTO t VALUES (1, 0)")

    def add(_: int) -> None:
        with metastore.session() as session:
            session.sql("UPDATE t SET n = n + 1 WHERE id = 1")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(8)))
    with metastore.session() as session:
        assert rows(session) == [(1, 8)]


@on_sqlite
def test_an_older_snapshot_reads_what_was_deleted_and_overwritten_since(lockless: Metastore) -> None:
    with lockless.session() as t, lockless.session() as reader:
        t.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
        t.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)")
        reader.sql("START TRANSACTION READ ONLY")
        assert len(rows(reader)) == 3
        t.sql("DELETE FROM t WHERE id = 1")
        t.sql("UPDATE t SET v = 'x'")
        t.sql("INSERT OVERWRITE t PARTITION (p = 2) SELECT 7, 'over'")
        t.sql("TRUNCATE TABLE t PARTITION (p = 1)")
        assert rows(reader) == [(1, "a", 1), (2, "b", 2), (3, None, None)]
        reader.sql("COMMIT")
        assert rows(reader) == [(3, "x", None), (7, "over", 2)]


@on_sqlite
def test_a_copy_is_stale_until_it_has_the_deletes_too(t: Session, copy_table: CopyTable) -> None:
    t.sql("INSERT INTO t VALUES (4, 'd', 1)")
    copy_table("t", "c2", ["p=1"])
    t.sql("USE CLUSTER c2")
    assert rows(t, "SELECT id FROM t WHERE p = 1 ORDER BY id") == [(1,), (4,)]
    t.sql("USE CLUSTER c1")
    t.sql("DELETE FROM t WHERE id = 4")
    t.sql("USE CLUSTER")
    assert t.explain("SELECT id FROM t WHERE p = 1").cluster == "c1"
    copy_table("t", "c2", ["p=1"])
    t.sql("USE CLUSTER c2")
    assert rows(t, "SELECT id FROM t WHERE p = 1") == [(1,)]


@on_sqlite
def test_partition_values_of_any_form_stay_where_they_are(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (s string, d date, x decimal(5,2), b boolean)")
    session.sql(
        "INSERT INTO t VALUES (1, 'a/b=c %é ', DATE'2020-02-29', 1.50, true), (2, '', NULL, NULL, NULL), "
        "(3, 'Zürich', DATE'0001-01-01', -0.01, false)"
    )
    places = sorted(str(path.parent) for path in (tmp_path / "c1/default.db/t").glob("**/delta_*"))
    before = rows(session, "SELECT s, d, x, b FROM t ORDER BY ALL")
    session.sql("UPDATE t SET id = id + 10")
    after = sorted({str(path.parent) for path in (tmp_path / "c1/default.db/t").glob("**/del*_*_*_*")})
    assert after == places
    assert rows(session, "SELECT s, d, x, b FROM t ORDER BY ALL") == before
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(11,), (12,), (13,)]


@on_sqlite
def test_a_read_only_transaction_changes_nothing(t: Session) -> None:
    t.sql("START TRANSACTION READ ONLY")
    with pytest.raises(InvalidOperationError, match="READ ONLY"):
        t.sql("DELETE FROM t")
    t.sql("ROLLBACK")


@on_sqlite
def test_a_change_after_an_overwrite_in_one_transaction_is_refused(t: Session) -> None:
    t.sql("START TRANSACTION")
    t.sql("INSERT OVERWRITE t PARTITION (p = 1) SELECT 8, 'o'")
    with pytest.raises(InvalidOperationError, match="has overwritten it"):
        t.sql("UPDATE t SET v = 'x' WHERE p = 1")
    t.sql("UPDATE t SET v = 'y' WHERE p = 2")
    t.sql("COMMIT")
    assert rows(t) == [(2, "y", 2), (3, None, None), (8, "o", 1)]


@on_sqlite
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT id + 10, v, p FROM t WHERE id < 3",
        "UPDATE t SET v = 'changed' WHERE id > 2",
        "DELETE FROM t WHERE id > 2",
    ],
)
def test_statements_that_are_alike_share_the_code_that_spark_generates(t: Session, statement: str) -> None:
    def run() -> None:
        t.sql("START TRANSACTION")
        t.sql(statement)
        t.sql("ROLLBACK")

    run()
    compiled = _compiled()
    run()
    assert _compiled() == compiled


def _compiled() -> int:
    """How many pieces of generated code Spark has compiled in this process."""
    metrics: Any = getattr(SparkContext.getOrCreate()._jvm, "org.apache.spark.metrics.source.CodegenMetrics")
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


@on_sqlite
def test_merges_that_only_insert_do_not_insert_one_key_twice(
    metastore_url: str, clusters: dict[str, dict[str, str]]
) -> None:
    settings = {"hive.txn.xlock.mergeinsert": True}
    merge = "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, :who)"
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session(user="first") as first,
        metastore.session(user="second") as second,
    ):
        first.sql("CREATE TABLE t (id int, v string)")
        # The one that waits has begun before the other has committed.
        with ThreadPoolExecutor(2) as pool:
            merged = [pool.submit(each.sql, merge, {"who": who}) for each, who in ((first, "a"), (second, "b"))]
            assert sorted(each.result().rows_written or 0 for each in merged) == [0, 1]
        assert rows(first, "SELECT count(*) FROM t") == [(1,)]
