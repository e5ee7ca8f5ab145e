"""Compactions that spread rows evenly over files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import InvalidObjectError, WriteConflictError
from airflow_hivex.core.model.compaction import Compaction, CompactionState
from tests.acceptance.test_compaction_worker import COLUMNS, seen_by_hive
from tests.acceptance.test_hive_layout import HIVE, seen_by_us

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rebalanced(metastore: Metastore, session: Session, more: str = "", table: str = "t") -> Compaction:
    session.sql(f"ALTER TABLE {table} COMPACT 'rebalance' {more}")
    entry = metastore.compactor.work()
    assert entry is not None
    return entry


def lengths(root: Path, table: str = "t") -> list[int]:
    """The rows of each file of the highest base, by bucket."""
    base = max((root / "c1" / "default.db" / table).glob("base_*_v*"))
    return [orc.ORCFile(path).nrows for path in sorted(base.glob("bucket_*"))]


def delete_and_commit(session: Session) -> None:
    session.sql("DELETE FROM t WHERE id = 1")
    session.sql("COMMIT")


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("layout", ["", HIVE])
def test_rows_are_spread_evenly_and_change_as_before(
    metastore: Metastore, session: Session, tmp_path: Path, layout: str
) -> None:
    session.sql(f"CREATE TABLE t (id int, v string, n struct<a:int,b:array<int>>) {layout}")
    session.sql("INSERT INTO t (id, v) SELECT id, 'first' FROM range(0, 20, 1, 1)")
    session.sql("INSERT INTO t (id, v) VALUES (100, 'second'), (101, NULL)")
    session.sql("DELETE FROM t WHERE id IN (3, 4, 100)")
    session.sql("UPDATE t SET v = 'third' WHERE id = 0")
    before = session.sql("SELECT id, v FROM t ORDER BY id").rows
    order = session.sql("SELECT id FROM t ORDER BY row__id").rows
    entry = rebalanced(metastore, session, "CLUSTERED INTO 4 BUCKETS")
    assert entry.state is CompactionState.READY_FOR_CLEANING, entry.error_message
    assert lengths(tmp_path) == [5, 5, 5, 4]
    assert session.sql("SELECT id, v FROM t ORDER BY id").rows == before
    assert session.sql("SELECT id FROM t ORDER BY row__id").rows == order
    numbers = session.sql("SELECT row__id.rowid AS n FROM t ORDER BY n").rows
    first = numbers[0][0]
    assert isinstance(first, int)
    # Above the ids of all writes.
    assert first >= 1 << 33
    assert numbers == [(first + number,) for number in range(19)]
    # What deletes rows later knows them by their new ids.
    session.sql("DELETE FROM t WHERE id % 2 = 0")
    session.sql("UPDATE t SET v = 'fourth' WHERE id = 1")
    session.sql("INSERT INTO t (id, v) VALUES (200, 'fifth')")
    expected = [(1, "fourth"), *((number, v) for number, v in before if number % 2 and number != 1), (200, "fifth")]
    assert session.sql("SELECT id, v FROM t ORDER BY id").rows == expected
    if layout:
        assert seen_by_hive(tmp_path, tmp_path / "copy") == seen_by_us(session, COLUMNS)
    assert rebalanced(metastore, session, "CLUSTERED INTO 2 BUCKETS ORDER BY id DESC").error_message is None
    assert session.sql("SELECT id, v FROM t ORDER BY id").rows == expected
    half = -(-len(expected) // 2)
    assert lengths(tmp_path) == [half, len(expected) - half]
    by_id = session.sql("SELECT id FROM t ORDER BY row__id").rows
    assert by_id == sorted(((number,) for number, _ in expected), reverse=True)
    if layout:
        assert seen_by_hive(tmp_path, tmp_path / "copy") == seen_by_us(session, COLUMNS)
    metastore.compactor.clean()
    session.sql("DELETE FROM t WHERE id = 200")
    assert session.sql("SELECT id, v FROM t ORDER BY id").rows == expected[:-1]


def test_changes_across_a_rebalance_have_each_row_that_it_has_numbered(metastore: Metastore, session: Session) -> None:
    for table, more in (("t", ""), ("u", "CLUSTERED INTO 2 BUCKETS ORDER BY id DESC")):
        session.sql(f"CREATE TABLE {table} (id int) TBLPROPERTIES ('hivex.history.retention' = '1h')")
        session.sql(f"INSERT INTO {table} VALUES (1), (2), (3), (4), (5)")
        old = int(str(session.sql(f"DESCRIBE HISTORY {table} LIMIT 1").rows[0][0]))
        session.sql(f"DELETE FROM {table} WHERE id = 1")
        assert rebalanced(metastore, session, more, table).error_message is None
        found = sorted((row[1], row[0]) for row in session.changes(table, since=old).rows)
        inserted = [("insert", number) for number in range(2, 6)]
        assert found == [*(("delete", number) for number in range(1, 6)), *inserted]


def test_no_statement_deletes_rows_by_ids_that_they_do_not_have_any_more(
    metastore: Metastore, session: Session
) -> None:
    session.sql("CREATE TABLE t (id int)")
    session.sql("INSERT INTO t VALUES (1), (2)")
    session.sql("INSERT INTO t VALUES (3), (4)")
    with metastore.session() as other:
        other.sql("START TRANSACTION")
        other.sql("SELECT * FROM t")
        entry = rebalanced(metastore, session, "CLUSTERED INTO 1 BUCKETS ORDER BY id DESC")
        assert entry.state is CompactionState.READY_FOR_CLEANING, entry.error_message
        assert other.sql("SELECT * FROM t ORDER BY id").rows == [(1,), (2,), (3,), (4,)]
        with pytest.raises(WriteConflictError):
            delete_and_commit(other)
    assert session.sql("SELECT * FROM t ORDER BY id").rows == [(1,), (2,), (3,), (4,)]
    metastore.compactor.clean()
    # Who is changing rows now is in the way.
    with metastore.session() as other:
        other.sql("START TRANSACTION")
        other.sql("DELETE FROM t WHERE id = 2")
        entry = rebalanced(metastore, session)
        assert entry.state is CompactionState.FAILED
        assert "no other statement changes its rows" in str(entry.error_message)
        other.sql("COMMIT")
    # A deletion that stands behind a write which is still open cannot be merged.
    with metastore.session() as other:
        other.sql("START TRANSACTION")
        other.sql("INSERT INTO t VALUES (5)")
        session.sql("DELETE FROM t WHERE id = 3")
        entry = rebalanced(metastore, session)
        assert entry.state is CompactionState.FAILED
        assert "is settled" in str(entry.error_message)
        other.sql("COMMIT")
    assert rebalanced(metastore, session).state is CompactionState.READY_FOR_CLEANING
    assert session.sql("SELECT * FROM t ORDER BY id").rows == [(1,), (4,), (5,)]


def test_rows_of_other_partitions_are_not_taken_for_those_of_a_rebalanced_one(
    metastore: Metastore, session: Session
) -> None:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 1)")
    # One write, whose rows in both partitions are numbered one after the other.
    session.sql("INSERT INTO t VALUES (2, 1), (3, 1), (4, 2), (5, 2)")
    for more in ("", "CLUSTERED INTO 1 BUCKETS ORDER BY id DESC"):
        session.sql(f"ALTER TABLE t PARTITION (p = 1) COMPACT 'rebalance' {more}")
        entry = metastore.compactor.work()
        assert entry is not None
        assert entry.state is CompactionState.READY_FOR_CLEANING, entry.error_message
        metastore.compactor.clean()
        ids = session.sql("SELECT row__id FROM t").rows
        assert len(set(map(str, ids))) == len(ids), ids
    session.sql("DELETE FROM t WHERE p = 1 AND id > 1")
    assert session.sql("SELECT * FROM t ORDER BY id").rows == [(1, 1), (4, 2), (5, 2)]
    session.sql("UPDATE t SET id = id + 10 WHERE p = 2")
    assert session.sql("SELECT * FROM t ORDER BY id").rows == [(1, 1), (14, 2), (15, 2)]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("CLUSTERED BY (id) INTO 2 BUCKETS", "bucketed"),
        ("TBLPROPERTIES ('transactional' = 'true', 'transactional_properties' = 'insert_only')", "insert-only"),
        ("", "nothing in it"),
    ],
)
def test_tables_without_rows_to_spread_are_refused(
    metastore: Metastore, session: Session, more: str, reason: str
) -> None:
    session.sql(f"CREATE TABLE t (id int) {more}")
    if more:
        session.sql("INSERT INTO t VALUES (1)")
    entry = rebalanced(metastore, session)
    assert entry.state is CompactionState.REFUSED
    assert reason in str(entry.error_message)


def test_so_many_files_cannot_be(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE t (id int)")
    with pytest.raises(InvalidObjectError, match="1 to 4096"):
        metastore.compactor.request("default", "t", type="rebalance", buckets=4097)
