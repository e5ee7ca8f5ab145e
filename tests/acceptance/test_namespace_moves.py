"""Moves of namespaces to another cluster: all tables at once, without a lost row or a failed read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    InvalidOperationError,
    LockError,
    MoveEndedError,
    MoveRefusedError,
    MoveUnderWayError,
    NoSuchDatabaseError,
    RoutingError,
    UnknownClusterError,
)
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.replication import MoveProgress, MoveState
from tests.acceptance.linked_rows import rows_of

NOW = {"hivex.move.grace.time": 0, "hivex.dataframe.retention.time": 0, "hivex.replication.retention": 0}


def primaries(metastore: Metastore, namespace: str = "a") -> dict[str, str]:
    names = metastore.catalog.list_tables(namespace)
    found = {name: metastore.catalog.get_table(namespace, name) for name in names}
    return {name: each.storage.primary.cluster for name, each in found.items() if not each.is_view}


def copies(metastore: Metastore, table: str) -> set[str]:
    return {each.cluster for each in metastore.replicator.copies(table) if not each.is_primary}


def files_on(tmp_path: Path, cluster: str, namespace: str = "a") -> list[Path]:
    return [each for each in (tmp_path / cluster / f"{namespace}.db").rglob("*") if each.is_file()]


@pytest.fixture
def a(session: Session) -> Session:
    """Namespace ``a`` on c1: a table with partitions, one without, a view; namespace ``b`` has a link to it."""
    session.sql("CREATE DATABASE a")
    session.sql("CREATE TABLE a.days (id int) PARTITIONED BY (ds string)")
    session.sql("CREATE TABLE a.plain (id int)")
    session.sql("CREATE DATABASE b")
    with session_in(session, "b"):
        session.sql("CREATE LINK TO days@a")
    with session_in(session, "a"):
        for ds in "12":
            session.sql(f"INSERT INTO days PARTITION (ds = '{ds}') VALUES ({ds})")
        session.sql("INSERT INTO plain VALUES (1)")
        session.sql("CREATE VIEW v AS SELECT id FROM plain")
    return session


class session_in:  # noqa: N801 - reads as a statement
    """Uses a database for a while."""

    def __init__(self, session: Session, database: str) -> None:
        self.session, self.database = session, database

    def __enter__(self) -> Session:
        self.session.sql(f"USE {self.database}")
        return self.session

    def __exit__(self, *_: object) -> None:
        self.session.sql("USE default")


def test_all_tables_move_at_once_and_new_ones_are_made_there(metastore: Metastore, a: Session) -> None:
    result = a.sql("ALTER DATABASE a SET PRIMARY CLUSTER c2")
    assert result.rows[0][:4] == ("a", "c2", True, 2)
    assert primaries(metastore) == {"days": "c2", "plain": "c2"}
    assert a.sql("INSERT INTO a.plain VALUES (2)").cluster == "c2"
    a.sql("CREATE TABLE a.later (id int)")
    assert primaries(metastore)["later"] == "c2"
    assert rows_of(a, "a.plain") == [(1,), (2,)]
    assert rows_of(a, "a.days") == [(1, "1"), (2, "2")]
    with session_in(a, "b"):
        assert rows_of(a, "days@a") == [(1, "1"), (2, "2")]
    assert a.sql("ALTER DATABASE a SET PRIMARY CLUSTER c2").rows[0][2] is False
    assert [(each.cluster, each.state) for each in metastore.moves.show("a")] == [("c2", MoveState.SWITCHED)]
    assert metastore.doctor.examine() == []


def test_dry_run_lists_bytes_and_blockers_and_changes_nothing(metastore: Metastore, a: Session, tmp_path: Path) -> None:
    a.sql("CREATE TABLE b.own (id int)")
    with session_in(a, "a"):
        a.sql("CREATE LINK TO own@b")
        a.sql("CREATE VIEW crossing AS SELECT id FROM b.own")
    a.sql("ALTER DATABASE a SET QUOTA 10 ON CLUSTER c2")
    plan = metastore.moves.move("a", "c2", dry_run=True).plan
    assert plan is not None
    assert {each.table: each.before for each in plan.tables} == {"a.days": "c1", "a.plain": "c1"}
    assert plan.size_bytes > 0
    assert plan.estimated_s > 0
    assert sorted(each.object for each in plan.blockers) == [
        "link a.own@b",
        "quota of a on cluster c2",
        "view a.crossing",
    ]
    assert plan.notices == ("link b.days@a follows its source to cluster c2",)
    with pytest.raises(MoveRefusedError, match="CREATE LINK TO own@b") as refused:
        a.sql("ALTER DATABASE a SET PRIMARY CLUSTER c2")
    assert len(refused.value.blockers) == 3
    assert (set(primaries(metastore).values()), metastore.moves.show()) == ({"c1"}, [])
    assert files_on(tmp_path, "c2") == []


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_linked_tables_are_copied_on_request(metastore: Metastore, a: Session) -> None:
    with session_in(a, "b"):
        a.sql("ALTER LINK days@a DROP PARTITION (ds = '2')")
    with pytest.raises(MoveRefusedError, match=r"its source a.days stays on cluster c1"):
        metastore.moves.move("b", "c2")
    a.sql("CREATE TABLE b.own (id int)")
    a.sql("INSERT INTO b.own VALUES (7)")
    a.sql("ALTER DATABASE b SET PRIMARY CLUSTER c2 WITH LINKED TABLES")
    assert (primaries(metastore, "b"), primaries(metastore)["days"]) == ({"own": "c2"}, "c1")
    assert {each.partition for each in metastore.replicator.copies("a.days") if each.cluster == "c2"} == {"ds=1"}
    with metastore.session(database="b", cluster="c2") as there:
        assert rows_of(there, "days@a") == [(1, "1")]


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_tables_that_are_elsewhere_already_stay_or_come_along(metastore: Metastore, a: Session) -> None:
    a.sql("ALTER TABLE a.plain SET PRIMARY CLUSTER c2")
    a.sql("CREATE TABLE a.third (id int) TBLPROPERTIES ('hivex.cluster' = 'c3')")
    a.sql("CREATE EXTERNAL TABLE a.raw (s string) USING csv LOCATION 'raw'")
    a.sql("CREATE TABLE a.only (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')")
    a.sql("INSERT INTO a.only VALUES (5)")
    a.sql("REPLICATE TABLE a.days PARTITION (ds = '1') TO CLUSTER c2")
    metastore.moves.move("a", "c2")
    assert set(primaries(metastore).values()) == {"c2"}
    assert copies(metastore, "a.plain") == {"c1"}
    assert copies(metastore, "a.third") == {"c3"}
    assert rows_of(a, "a.days") == [(1, "1"), (2, "2")]


def test_old_copies_are_withdrawn_and_deleted_after_the_grace_time(
    metastore_url: str, clusters: dict[str, dict[str, str]], a: Session, tmp_path: Path
) -> None:
    a.sql("CREATE EXTERNAL TABLE a.raw (s string) USING csv LOCATION 'raw'")
    (tmp_path / "c1" / "raw").mkdir(parents=True)
    (tmp_path / "c1" / "raw" / "one.csv").write_text("x\n")
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": NOW}
    with Metastore.open(metastore_url, **options) as metastore, metastore.session(cluster="c1") as reader:
        reader.sql("START TRANSACTION")
        before = rows_of(reader, "a.plain")
        mover = threading.Thread(target=lambda: metastore.moves.move("a", "c2"))
        mover.start()
        while not [each for each in metastore.locks.show() if each.state.name == "WAITING"]:
            mover.join(0.05)
            assert mover.is_alive()
        reader.sql("ROLLBACK")
        mover.join(60)
        reader.sql("START TRANSACTION")
        assert rows_of(reader, "a.plain") == before
        metastore.housekeeper.run()
        assert copies(metastore, "a.plain") == copies(metastore, "a.days") == set()
        assert files_on(tmp_path, "c1") != []
        reader.sql("ROLLBACK")
        metastore.housekeeper.run()
        assert files_on(tmp_path, "c1") == []
        assert (tmp_path / "c1" / "raw" / "one.csv").exists()
        assert rows_of(a, "a.days") == [(1, "1"), (2, "2")]
        assert metastore.doctor.examine() == []
        metastore.moves.move("a", "c1")
        assert rows_of(a, "a.days") == [(1, "1"), (2, "2")]


class Interrupted(BaseException):
    pass


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_old_copies_are_deleted_together_also_after_an_interrupt_and_beside_a_replication(
    metastore_url: str, clusters: dict[str, dict[str, str]], a: Session, tmp_path: Path
) -> None:
    a.sql("INSERT INTO a.days VALUES (3, '3'), (4, '4'), (5, '5'), (6, '6')")

    def fault(point: str) -> None:
        if point == "before commit" and interrupted.is_set():
            raise Interrupted

    interrupted = threading.Event()
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": NOW, "fault": fault}
    with Metastore.open(metastore_url, **options) as metastore, metastore.session(cluster="c2") as reader:
        reader.sql("START TRANSACTION")
        metastore.moves.move("a", "c2")
        metastore.housekeeper.run()
        assert copies(metastore, "a.plain") == set()
        reader.sql("ROLLBACK")
        assert len(files_on(tmp_path, "c1")) >= 7
        interrupted.set()
        with pytest.raises(Interrupted):
            metastore.housekeeper.run()
        interrupted.clear()
        metastore.replicator.replicate("a.days", "c1", ["ds=2"])
        # A change of the copy of one table, which waits for a reader, keeps the others from nothing.
        reader.sql("START TRANSACTION")
        assert rows_of(reader, "a.plain") == [(1,)]
        dropping = threading.Thread(target=lambda: metastore.replicator.drop_copy("a.plain", "c1"))
        dropping.start()
        while not [each for each in metastore.locks.show() if each.state is LockState.WAITING]:
            dropping.join(0.05)
            assert dropping.is_alive()
        metastore.housekeeper.run()
        assert {each.parent.parent.name for each in files_on(tmp_path, "c1")} <= {"ds=2", "plain"}
        reader.sql("ROLLBACK")
        dropping.join(60)
        assert copies(metastore, "a.days") == {"c1"}
        metastore.replicator.drop_copy("a.days", "c1")
        metastore.housekeeper.run()
        assert files_on(tmp_path, "c1") == []
        assert sorted(rows_of(a, "a.days")) == [(number, str(number)) for number in range(1, 7)]
        assert metastore.doctor.examine() == []
        metastore.moves.move("a", "c1")
        metastore.moves.move("a", "c3")
        metastore.moves.clean()
        # One transaction for each cluster. A call without time leaves the rest to the next one.
        before = metastore.transactions.valid_txns().high_watermark
        assert metastore.replicator.clean(most_s=0) == 7
        assert sorted(map(bool, (files_on(tmp_path, "c1"), files_on(tmp_path, "c2")))) == [False, True]
        assert metastore.replicator.clean() == 7
        assert metastore.transactions.valid_txns().high_watermark == before + 2
        assert files_on(tmp_path, "c1") == files_on(tmp_path, "c2") == []
        assert sorted(rows_of(a, "a.days")) == [(number, str(number)) for number in range(1, 7)]


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_old_copies_are_kept_on_request_and_where_they_are_renewed(
    metastore_url: str, clusters: dict[str, dict[str, str]], a: Session
) -> None:
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": NOW}
    with Metastore.open(metastore_url, **options) as metastore, metastore.session() as session:
        session.sql("ALTER DATABASE a SET PRIMARY CLUSTER c2 KEEP COPIES")
        metastore.housekeeper.run()
        assert copies(metastore, "a.plain") == {"c1"}
        metastore.moves.move("a", "c3")
        session.sql("INSERT INTO a.days PARTITION (ds = '3') VALUES (3)")
        metastore.replicator.replicate("a.days", "c2")
        metastore.housekeeper.run()
        assert (copies(metastore, "a.plain"), copies(metastore, "a.days")) == ({"c1"}, {"c1", "c2"})


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_cancelled_move_leaves_the_tables_and_the_earlier_copies(
    metastore_url: str, clusters: dict[str, dict[str, str]], a: Session, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": NOW}
    a.sql("REPLICATE TABLE a.plain TO CLUSTER c2")

    def cancel(progress: MoveProgress) -> None:
        if progress.table == "a.plain" and progress.tables_done == 2:
            with pytest.raises(MoveUnderWayError):
                metastore.moves.move("a", "c3")
            a.sql("ALTER DATABASE a CANCEL MOVE")

    with Metastore.open(metastore_url, **options) as metastore:
        with pytest.raises(MoveEndedError, match="cancelled"):
            metastore.moves.move("a", "c2", progress=cancel)
        assert (set(primaries(metastore).values()), copies(metastore, "a.days")) == ({"c1"}, set())
        assert copies(metastore, "a.plain") == {"c2"}
        metastore.housekeeper.run()
        assert not [each for each in files_on(tmp_path, "c2") if "days" in each.parts]
        with pytest.raises(InvalidOperationError, match="not being moved"):
            metastore.moves.cancel("a")
        metastore.moves.move("a", "c2")
        assert set(primaries(metastore).values()) == {"c2"}


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_tables_that_come_and_go_meanwhile_are_taken_along_or_left_out(metastore: Metastore, a: Session) -> None:
    calls: list[int] = []

    def change(progress: MoveProgress) -> None:
        if not calls and progress.tables_done == 1:
            calls.append(1)
            a.sql("DROP TABLE a.plain")
            a.sql("CREATE TABLE a.new (id int)")
            a.sql("INSERT INTO a.new VALUES (9)")

    a.sql("DROP VIEW a.v")
    found = metastore.moves.move("a", "c2", progress=change)
    assert found.tables == ("a.days", "a.new")
    assert primaries(metastore) == {"days": "c2", "new": "c2"}
    assert rows_of(a, "a.new") == [(9,)]


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_open_writer_stops_the_switch_for_a_bounded_time(
    metastore_url: str, clusters: dict[str, dict[str, str]], a: Session
) -> None:
    settings = {"hivex.move.lock.timeout": 1, "hivex.move.lock.tries": 2}
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": settings}
    a.sql("START TRANSACTION")
    a.sql("INSERT INTO a.plain VALUES (2)")
    with Metastore.open(metastore_url, **options) as metastore:
        with pytest.raises(LockError, match="plain"):
            metastore.moves.move("a", "c2")
        assert set(primaries(metastore).values()) == {"c1"}
        assert metastore.moves.show()[0].state is MoveState.COPYING
        a.sql("INSERT INTO a.plain VALUES (3)")
        a.sql("COMMIT")
        assert metastore.moves.move("a", "c2").is_changed
        assert rows_of(a, "a.plain") == [(1,), (2,), (3,)]


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_second_caller_of_a_move_learns_that_the_first_has_finished_it(metastore: Metastore, a: Session) -> None:
    a.sql("START TRANSACTION")
    a.sql("INSERT INTO a.plain VALUES (2)")
    changed: list[bool] = []

    def move() -> None:
        changed.append(metastore.moves.move("a", "c2").is_changed)

    movers = [threading.Thread(target=move) for _ in range(2)]
    for each in movers:
        each.start()
    # Both have found the tables of the namespace on the cluster before, and wait for the writer.
    waiting: set[int | None] = set()
    while len(waiting) < 2 and any(each.is_alive() for each in movers):
        waiting = {each.txn_id for each in metastore.locks.show() if each.state is LockState.WAITING}
    assert len(waiting) == 2
    a.sql("COMMIT")
    for each in movers:
        each.join(60)
    assert sorted(changed) == [False, True]
    assert rows_of(a, "a.plain") == [(1,), (2,)]


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_queued_compaction_runs_after_the_move_on_the_new_cluster(metastore: Metastore, a: Session) -> None:
    a.sql("INSERT INTO a.plain VALUES (2)")
    metastore.compactor.request("a", "plain", None, "minor")
    metastore.moves.move("a", "c2")
    done = metastore.compactor.work("host-1")
    assert done is not None
    assert done.error_message is None
    metastore.compactor.clean()
    assert rows_of(a, "a.plain") == [(1,), (2,)]
    assert metastore.doctor.examine() == []


@pytest.mark.evidence(cases=3, among="moves of namespaces")
def test_session_that_accepts_a_lag_reads_the_old_copies(metastore: Metastore, a: Session) -> None:
    metastore.moves.move("a", "c2")
    a.sql("INSERT INTO a.plain VALUES (2)")
    with metastore.session(cluster="c1") as strict, pytest.raises(RoutingError):
        rows_of(strict, "a.plain")
    with metastore.session(cluster="c1", max_lag="1h") as lagging:
        assert lagging.explain("SELECT * FROM a.plain").cluster == "c1"


def test_wrong_moves_are_refused(metastore: Metastore, a: Session) -> None:
    with pytest.raises(UnknownClusterError):
        a.sql("ALTER DATABASE a SET PRIMARY CLUSTER c9")
    with pytest.raises(NoSuchDatabaseError):
        a.sql("ALTER DATABASE nothing SET PRIMARY CLUSTER c2")
    with pytest.raises(UnknownClusterError):
        a.sql("ALTER DATABASE a SET DBPROPERTIES ('hivex.cluster' = 'c9')")
    a.sql("START TRANSACTION")
    with pytest.raises(InvalidOperationError, match="transaction"):
        a.sql("ALTER DATABASE a SET PRIMARY CLUSTER c2")
    a.sql("ROLLBACK")
    assert set(primaries(metastore).values()) == {"c1"}
