"""ALTER TABLE ... PARTITION ... RENAME: the rows keep their history under another name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    CompactionLostError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
    StorageError,
    TransactionAbortedError,
)
from airflow_hivex.core.model.compaction import CompactionState
from tests.acceptance.conftest import CopyTable
from tests.acceptance.faults import install
from tests.acceptance.registered_directories import check_accounted
from tests.acceptance.test_row_changes import directories

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]


def rows(session: Session, sql: str = "SELECT p, q, id FROM t ORDER BY ALL") -> list[tuple[object, ...]]:
    return session.sql(sql).rows


def arrow_rows(session: Session) -> list[tuple[object, ...]]:
    """The same without Spark."""
    return sorted((row["p"], row["q"], row["id"]) for row in session.to_arrow("t").to_pylist())


@pytest.fixture
def t(session: Session) -> Session:
    """``t`` with rows in two partitions, one of them changed later."""
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int, q string)")
    session.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'a'), (3, 2, 'b')")
    session.sql("DELETE FROM t WHERE id = 2")
    return session


def test_rows_are_found_under_the_new_name(t: Session, tmp_path: Path) -> None:
    t.sql("ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 9, q = 'x/y')")
    assert rows(t) == [(2, "b", 3), (9, "x/y", 1)]
    assert rows(t, "SELECT id FROM t WHERE p = 9") == [(1,)]
    assert rows(t, "SELECT id FROM t WHERE p = 1") == []
    assert rows(t, "SHOW PARTITIONS t") == [("p=2/q=b",), ("p=9/q=x%2Fy",)]
    assert not (tmp_path / "c1" / "default.db" / "t" / "p=1").exists()
    t.sql("INSERT INTO t VALUES (4, 1, 'a'), (5, 9, 'x/y')")
    t.sql("UPDATE t SET id = id * 10 WHERE p = 9")
    assert rows(t) == [(1, "a", 4), (2, "b", 3), (9, "x/y", 10), (9, "x/y", 50)]
    t.sql("ALTER TABLE t DROP PARTITION (p = 9)")
    assert [name for name in directories(tmp_path) if name.startswith("p=9")] == []
    assert rows(t) == [(1, "a", 4), (2, "b", 3)]


def test_a_partition_may_become_that_of_null(t: Session) -> None:
    t.sql("ALTER TABLE t PARTITION (p = 2, q = 'b') RENAME TO PARTITION (p = NULL, q = 'b')")
    assert rows(t, "SELECT id FROM t WHERE p IS NULL") == [(3,)]


def test_copies_on_other_clusters_are_renamed_too(t: Session, copy_table: CopyTable) -> None:
    copy_table("t", "c2", ["p=1/q=a", "p=2/q=b"])
    t.sql("ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 1, q = 'c')")
    t.sql("USE CLUSTER c2")
    found = t.sql("SELECT q, id FROM t WHERE p = 1")
    assert (found.cluster, found.rows) == ("c2", [("c", 1)])


def test_files_of_external_tables_stay(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "c1" / "ext" / "p=1"
    folder.mkdir(parents=True)
    (folder / "f.csv").write_text("7\n")
    session.sql(f"CREATE EXTERNAL TABLE e (id int) USING csv PARTITIONED BY (p int) LOCATION '{tmp_path}/c1/ext'")
    session.sql("ALTER TABLE e ADD PARTITION (p = 1)")
    session.sql("ALTER TABLE e PARTITION (p = 1) RENAME TO PARTITION (p = 2)")
    assert rows(session, "SELECT p, id FROM e") == [(2, 7)]
    assert (folder / "f.csv").exists()


def test_nothing_changes_when_a_copy_fails(t: Session, tmp_path: Path) -> None:
    before = directories(tmp_path)
    (tmp_path / "c1" / "default.db" / "t" / "p=9").write_text("in the way")
    with pytest.raises(StorageError, match="p=9"):
        t.sql("ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 9, q = 'z')")
    assert directories(tmp_path) == before
    assert rows(t) == [(1, "a", 1), (2, "b", 3)]
    assert rows(t, "SHOW LOCKS") == []


@pytest.mark.parametrize(
    ("statement", "error", "reason"),
    [
        ("PARTITION (p = 5, q = 'a') RENAME TO PARTITION (p = 6, q = 'a')", NoSuchPartitionError, "p=5/q=a"),
        ("PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 2, q = 'b')", AlreadyExistsError, "p=2/q=b"),
        ("PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 01, q = 'a')", AlreadyExistsError, "p=1/q=a"),
        ("PARTITION (p = 1) RENAME TO PARTITION (p = 3, q = 'a')", InvalidObjectError, "no value for key q"),
        ("PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 'x', q = 'a')", InvalidObjectError, "type int"),
        ("PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 1, z = 'a')", NoSuchColumnError, "z"),
        ("PARTITION (p = 1, q = 'a') SET LOCATION 'x'", InvalidOperationError, "it is a managed table"),
    ],
)
def test_what_cannot_be_is_refused(t: Session, statement: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        t.sql(f"ALTER TABLE t {statement}")
    assert rows(t) == [(1, "a", 1), (2, "b", 3)]


def test_a_table_without_partitions_has_none_to_rename(session: Session, metastore: Metastore) -> None:
    session.sql("CREATE TABLE plain (id int)")
    with pytest.raises(InvalidOperationError, match="plain"):
        session.sql("ALTER TABLE plain PARTITION (p = 1) RENAME TO PARTITION (p = 2)")
    assert metastore.catalog.get_table("default", "plain").partition_keys == ()


def test_an_interrupt_after_the_commit_does_not_take_the_files_back(
    metastore_url: str, clusters: dict[str, dict[str, str]]
) -> None:
    points: list[str] = []

    def fault(point: str) -> None:
        if point in points:
            points.clear()
            raise KeyboardInterrupt

    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int, q string)")
        session.sql("INSERT INTO t VALUES (1, 1, 'a'), (2, 3, 'a')")
        points.append("after commit")
        with pytest.raises(KeyboardInterrupt):
            session.sql("ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 2, q = 'a')")
        points.append("after commit")
        with pytest.raises(KeyboardInterrupt):
            session.sql("ALTER TABLE t DROP PARTITION (p = 3)")
        assert metastore.housekeeper.run().dropped_objects == 0
        clock = lambda: system_clock() + 3_600_000  # noqa: E731 - as short as the clock is
        with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=clock) as later:
            assert later.housekeeper.run().dropped_objects == 2
            assert later.housekeeper.run().dropped_objects == 0
        assert metastore.doctor.examine() == []
        session.sql("ALTER TABLE t PARTITION (p = 2, q = 'a') RENAME TO PARTITION (p = 1, q = 'a')")
        assert arrow_rows(session) == [(1, "a", 1)]


@pytest.mark.parametrize(
    ("first", "back", "expected", "last"),
    [
        ("PARTITION (p = 1) RENAME TO PARTITION (p = 9)", "p = 9", [(2, 3), (9, 1)], [(1, 1), (2, 3)]),
        ("DROP PARTITION (p = 1)", "p = 2", [(2, 3)], [(1, 3)]),
    ],
    ids=["rename", "drop"],
)
def test_no_partition_gets_a_name_whose_files_are_being_deleted(
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
    first: str,
    back: str,
    expected: list[tuple[int, int]],
    last: list[tuple[int, int]],
) -> None:
    # The directories of both partitions have the same names.
    rename = f"ALTER TABLE s PARTITION ({back}) RENAME TO PARTITION (p = 1)"
    points: list[str] = []
    opened: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1"}

    def fault(point: str) -> None:
        if point in points:
            points.clear()
            with (
                Metastore.open(metastore_url, **opened) as metastore,
                metastore.session() as other,
                pytest.raises(InvalidOperationError, match="files of an earlier partition p=1 are still being deleted"),
            ):
                other.sql(rename)

    def found() -> list[tuple[int, int]]:
        return sorted((row["p"], row["id"]) for row in session.to_arrow("s").to_pylist())

    with Metastore.open(metastore_url, **opened, fault=fault) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE s (id int) PARTITIONED BY (p int)")
        session.sql("INSERT INTO s VALUES (1, 1), (3, 2)")
        points.append("after commit")
        session.sql(f"ALTER TABLE s {first}")
        assert not points
        assert found() == expected
        session.sql(rename)
        assert found() == last
        assert metastore.doctor.examine() == []


def test_a_rename_that_stood_still_past_its_time_out_deletes_nothing_of_the_next_one(
    t: Session, metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = "ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 9, q = 'a')"
    actions: list[Callable[[], object]] = []

    def meanwhile() -> None:
        (txn_id,) = metastore.transactions.valid_txns().open_ids
        metastore.transactions.abort(txn_id, reason="it stands still")
        with metastore.session() as other:
            other.sql(rename)

    def copied(step: str) -> None:
        if actions and step == "LocalFileSystem.cp_file, done":
            actions.pop()()

    install(monkeypatch).on_file = copied
    actions.append(meanwhile)
    with pytest.raises(TransactionAbortedError):
        t.sql(rename)
    assert not actions
    assert arrow_rows(t) == [(2, "b", 3), (9, "a", 1)]
    assert metastore.doctor.examine() == []


@pytest.mark.parametrize("settings", [{}, {"hive.acid.lockless.reads.enabled": True}], ids=["locks", "lockless"])
def test_compactions_and_cleanings_in_the_middle_of_a_rename_lose_nothing(
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, object],
) -> None:
    settings = {**settings, "hive.lock.numretries": 0}
    actions: list[Callable[[], object]] = []
    target = tmp_path / "c1" / "default.db" / "t" / "p=2"

    def copied(step: str) -> None:
        # All that is copied is there.
        if actions and step == "LocalFileSystem.cp_file, done" and len(list(target.iterdir())) == count:
            actions.pop()()

    install(monkeypatch).on_file = copied
    opened: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": settings}
    with Metastore.open(metastore_url, **opened) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int)")
        for each in range(3):
            session.sql(f"INSERT INTO t VALUES ({each}, 1)")
        expected = [(0,), (1,), (2,)]
        metastore.compactor.request("default", "t", "p=1", "major")
        count = 3
        actions.append(metastore.compactor.work)
        session.sql("ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 2)")
        assert not actions
        assert rows(session, "SELECT id FROM t ORDER BY id") == expected
        (failed,) = metastore.compactor.show()
        assert "could not be locked" in str(failed.error_message)
        session.sql("ALTER TABLE t PARTITION (p = 2) RENAME TO PARTITION (p = 1)")
        metastore.compactor.request("default", "t", "p=1", "major")
        done = metastore.compactor.work()
        assert done is not None
        assert done.state is CompactionState.READY_FOR_CLEANING
        count = 4
        actions.append(metastore.compactor.clean)
        session.sql("ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 2)")
        assert not actions
        while metastore.compactor.clean():
            pass
        assert rows(session, "SELECT id FROM t ORDER BY id") == expected
        check_accounted(metastore, tmp_path)


@pytest.mark.parametrize("is_at_work", [False, True])
def test_a_dropped_partitions_compaction_is_in_nobodys_way(
    t: Session, metastore: Metastore, *, is_at_work: bool
) -> None:
    waiting = metastore.compactor.request("default", "t", "p=2/q=b", "major").id
    taken = metastore.compactor.queue.next_entry("host-1") if is_at_work else None
    t.sql("ALTER TABLE t DROP PARTITION (p = 2)")
    metastore.compactor.request("default", "t", "p=1/q=a", "major")
    t.sql("ALTER TABLE t PARTITION (p = 1, q = 'a') RENAME TO PARTITION (p = 2, q = 'b')")
    ended = metastore.compactor.history.get(waiting)
    assert ended.state is (CompactionState.REFUSED if is_at_work else CompactionState.ABORTED)
    assert ended.error_message == "the table or partition was dropped"
    if taken is not None:
        with pytest.raises(CompactionLostError):
            metastore.compactor.queue.mark_failed(taken, "too late")
    done = metastore.compactor.work("host-2")
    assert done is not None
    assert (done.partition, done.state) == ("p=2/q=b", CompactionState.READY_FOR_CLEANING)
    assert rows(t) == [(2, "b", 1)]
