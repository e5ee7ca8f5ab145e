"""MERGE WITH SCHEMA EVOLUTION: columns of the source that its clauses name come to the table."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core import Metastore, Result, Session
from airflow_hivex.core.errors import HivexError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockState, LockType
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

MERGE = "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id"
ALL = "SELECT * FROM t ORDER BY id"


@pytest.fixture(autouse=True)
def tables(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (id int, v string DEFAULT 'new', at struct<x:int>) PARTITIONED BY (p int) "
        "TBLPROPERTIES ('hivex.history.retention' = '1h')"
    )
    session.sql("INSERT INTO t SELECT id, 'old', named_struct('x', id), id FROM range(1, 4)")
    session.sql("CREATE TABLE s (id int, p int, at struct<y:string,x:int>, n double, m int)")
    session.sql("INSERT INTO s SELECT id, id, named_struct('y', 'y', 'x', 9), 0.5, id FROM range(2, 5)")


def columns(session: Session) -> list[object]:
    return [row[0] for row in session.sql("SHOW COLUMNS IN t").rows]


def test_a_star_takes_all_columns_and_fields_of_the_source(metastore: Metastore, session: Session) -> None:
    done = session.sql(
        f"{MERGE} WHEN MATCHED AND n > 0 AND m = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone'"
    )
    assert (done.rows_written, done.rows_deleted) == (3, 3)
    assert columns(session) == ["id", "v", "at", "n", "m", "p"]
    expected = [
        (1, "gone", {"x": 1, "y": None}, None, None, 1),
        (3, "old", {"x": 9, "y": "y"}, 0.5, 3, 3),
        (4, "new", {"x": 9, "y": "y"}, 0.5, 4, 4),
    ]
    assert session.sql(ALL).rows == expected
    assert [tuple(row.values()) for row in session.to_arrow("t").sort_by("id").to_pylist()] == expected
    assert session.sql(f"{ALL.replace('t O', 't VERSION AS OF 2 O')}").rows[0] == (1, "old", {"x": 1}, 1)
    metastore.compactor.request("default", "t", "p=3", type="major")
    assert metastore.compactor.work() is not None
    assert session.sql(ALL).rows == expected
    # There is nothing to add any more, so that it may share a transaction.
    session.sql("START TRANSACTION")
    assert session.sql(f"{MERGE} WHEN MATCHED THEN UPDATE SET *").rows_written == 2
    session.sql("COMMIT")


def test_a_clause_takes_the_columns_that_it_names(session: Session) -> None:
    session.sql(
        f"{MERGE} WHEN MATCHED AND s.id = 2 THEN UPDATE SET n = s.n + 1 WHEN MATCHED THEN UPDATE SET v = 'seen' "
        "WHEN NOT MATCHED THEN INSERT (id, at, p) VALUES (s.id, s.at, 4)"
    )
    assert session.sql(ALL).rows == [
        (1, "old", {"x": 1, "y": None}, None, 1),
        (2, "old", {"x": 2, "y": None}, 1.5, 2),
        (3, "seen", {"x": 3, "y": None}, None, 3),
        (4, "new", {"x": 9, "y": "y"}, None, 4),
    ]


def test_a_merge_that_fails_adds_no_column(session: Session) -> None:
    before = columns(session), session.sql(ALL).rows
    assert "Join" in str(session.sql(f"EXPLAIN {MERGE} WHEN MATCHED THEN UPDATE SET *").rows[0][0])
    for clause, error, reason in (
        ("WHEN MATCHED THEN UPDATE SET m = 1, nothing = 2", NoSuchColumnError, "nothing"),
        ("WHEN MATCHED AND raise_error('broken') IS NULL THEN UPDATE SET *", HivexError, "broken"),
    ):
        with pytest.raises(error, match=reason):
            session.sql(f"{MERGE} {clause}")
    session.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="write outside of it"):
        session.sql(f"{MERGE} WHEN MATCHED THEN UPDATE SET *")
    session.sql("ROLLBACK")
    assert (columns(session), session.sql(ALL).rows) == before


def test_a_frame_brings_its_columns(session: Session, spark: SparkSession) -> None:
    rows = spark.sql("SELECT 3 AS id, 3 AS p, 'text' AS note UNION ALL SELECT 5, 5, 'new'")
    merge = session.warehouse(spark).merge(rows, "t", ["id"]).when_matched_update({"note": "source.note"})
    with pytest.raises(NoSuchColumnError, match="note"):
        merge.execute()
    merge.when_not_matched_insert_all().with_schema_evolution().execute()
    assert session.sql("SELECT id, v, at.x, note, p FROM t WHERE id > 1 ORDER BY id").rows == [
        (2, "old", 2, None, 2),
        (3, "old", 3, "text", 3),
        (5, "new", None, "new", 5),
    ]


def test_statements_request_all_of_their_locks_at_once(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE e LIKE t")
    session.sql("ALTER TABLE e ADD PARTITION (p = 9)")
    session.sql("CREATE VIEW v AS SELECT id FROM t")
    for table, statement in (
        ("e", "ALTER TABLE t EXCHANGE PARTITION (p = 9) WITH TABLE e"),
        ("t", f"{MERGE} WHEN MATCHED THEN UPDATE SET *"),
        ("t", "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT id, p, 1 AS k FROM s"),
        ("v", "ALTER VIEW v AS SELECT id FROM s"),
        ("t", "CREATE OR REPLACE TABLE t AS SELECT id FROM s"),
    ):
        before, later = metastore.transactions.open(2, user="others")
        metastore.locks.acquire([exclusive(table)], before)
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(session.sql, statement)
            wait_until(partial(waits_or_is_done, metastore, done))
            # The next one in the queue wants all tables that the statement names. It is older, so that of a circle of
            # waiting the statement would be aborted.
            wanted = [exclusive(each) for each in ("e", "s", "t", "v")]
            lock = metastore.locks.acquire(wanted, later, wait=False)
            metastore.transactions.abort(before)
            done.result(timeout=120)
        assert metastore.locks.check(lock.lock_id).is_acquired
        metastore.transactions.abort(later)


def exclusive(table: str) -> LockComponent:
    return LockComponent("default", table, type=LockType.EXCLUSIVE, operation=DataOperation.NO_TXN)


def waits_or_is_done(metastore: Metastore, done: Future[Result]) -> bool:
    return done.done() or any(each.state is LockState.WAITING for each in metastore.locks.show())
