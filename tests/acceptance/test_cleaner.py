"""The cleaner deletes unused files, everywhere, and nothing else. No Spark is started."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from sqlalchemy import func, select

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.model.cleaning import CleaningOutcome, CleaningTask
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.store.schema import directories, directory_copies, txn_components
from tests.compacted_warehouse import CompactedWarehouse, Row

O = CleaningOutcome  # noqa: E741 - as the states elsewhere


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


class Dead(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metastore(metastore_url: str, clusters: dict[str, dict[str, str]], clock: Clock) -> Iterator[Metastore]:
    # Files that a test lists are not kept for it.
    settings = {"hivex.dataframe.retention.time": 0}
    with Metastore.open(
        metastore_url, clusters=clusters, default_cluster="c1", clock=clock, settings=settings
    ) as metastore:
        yield metastore


@pytest.fixture
def warehouse(metastore: Metastore, session: Session, tmp_path: Path) -> CompactedWarehouse:
    session.sql("CREATE TABLE t (a bigint)")
    session.sql("CREATE TABLE u (a bigint)")
    session.sql("CREATE TABLE p (a bigint) PARTITIONED BY (ds string)")
    return CompactedWarehouse(metastore, tmp_path)


def clean(metastore: Metastore) -> list[CleaningTask]:
    """One round, which does what the plan has said."""
    planned = metastore.compactor.plan_clean()
    done = metastore.compactor.clean()
    assert done == planned
    return done


def state(metastore: Metastore, compaction_id: int | None) -> CompactionState:
    assert compaction_id is not None
    return metastore.compactor.history.get(compaction_id).state


def count(warehouse: CompactedWarehouse, column: object) -> int:
    with warehouse.store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(column)).scalar_one())  # type: ignore[arg-type]


# -- readers ---------------------------------------------------------------------------


def test_reader_keeps_what_it_may_read_and_is_named(metastore: Metastore, warehouse: CompactedWarehouse) -> None:
    rows = [row for _ in range(3) for row in warehouse.write("t")]
    with metastore.session(user="ana", agent_info="dag=daily run=r1 task=report") as reader:
        txn_id = reader.sql("START TRANSACTION").txn_id
        assert warehouse.read(reader, "t") == rows
        compaction = warehouse.compact("t")
        before = warehouse.names("t")
        (task,) = clean(metastore)
        assert (task.outcome, len(task.waiting), task.deleted) == (O.WAITING, 3, ())
        (blocker,) = task.blockers
        assert (blocker.txn_id, blocker.user) == (txn_id, "ana")
        assert "dag=daily run=r1 task=report" in str(blocker)
        assert warehouse.names("t") == before
        assert warehouse.read(reader, "t") == rows
        assert state(metastore, compaction) is CompactionState.READY_FOR_CLEANING
        reader.sql("COMMIT")
    (task,) = clean(metastore)
    assert (task.outcome, len(task.deleted), task.blockers) == (O.CLEANED, 3, ())
    (base,) = warehouse.names("t")
    assert warehouse.registered("t") == [base]
    assert count(warehouse, directories) == count(warehouse, directory_copies) == 1
    assert state(metastore, compaction) is CompactionState.SUCCEEDED
    assert warehouse.now("t") == rows
    assert clean(metastore) == []


def test_reader_of_one_table_does_not_hold_up_another(metastore: Metastore, warehouse: CompactedWarehouse) -> None:
    warehouse.write("u")
    rows = [row for _ in range(2) for row in warehouse.write("t")]
    with metastore.session() as reader:
        reader.sql("START TRANSACTION")
        warehouse.read(reader, "u")
        warehouse.compact("t")
        (task,) = clean(metastore)
        assert (task.outcome, len(task.deleted)) == (O.CLEANED, 2)
        # It can still go on to that table, with the snapshot that it has.
        assert warehouse.read(reader, "t") == rows
    with metastore.session() as reader:
        reader.sql("START TRANSACTION")
        warehouse.read(reader, "u")
        later = rows + warehouse.write("t")
        warehouse.compact("t")
        # What the compaction merged is not all for this one to see.
        (task,) = clean(metastore)
        assert task.outcome is O.WAITING
        assert warehouse.read(reader, "t") == rows
    assert clean(metastore)[0].outcome is O.CLEANED
    assert warehouse.now("t") == later


def test_transaction_that_has_not_begun_to_read_may_read_anything(
    metastore: Metastore, warehouse: CompactedWarehouse
) -> None:
    (txn_id,) = metastore.transactions.open(user="early")
    rows = [row for _ in range(2) for row in warehouse.write("t")]
    warehouse.compact("t")
    assert clean(metastore)[0].blockers[0].user == "early"
    with metastore.session(txn_id=txn_id) as session:
        assert warehouse.read(session, "t") == []
    metastore.abort(txn_id)
    clean(metastore)
    assert warehouse.now("t") == rows


def test_without_read_locks_every_reader_counts(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    settings = {"hive.acid.lockless.reads.enabled": True}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
        warehouse = CompactedWarehouse(metastore, tmp_path)
        with metastore.session() as session:
            session.sql("CREATE TABLE t (a bigint)")
        rows = [row for _ in range(2) for row in warehouse.write("t")]
        with metastore.session() as reader:
            reader.sql("START TRANSACTION")
            assert warehouse.read(reader, "t") == rows
            warehouse.compact("t")
            assert clean(metastore)[0].outcome is O.WAITING
        assert clean(metastore)[0].outcome is O.CLEANED


def test_overwritten_directories_go_with_a_compaction_that_had_nothing_else_to_do(
    metastore: Metastore, warehouse: CompactedWarehouse
) -> None:
    warehouse.write("t")
    rows = warehouse.write("t", overwrite=True)
    assert warehouse.compact("t") is not None
    later = warehouse.write("t", overwrite=True)
    (task,) = clean(metastore)
    assert [Path(each.uri).name for each in task.deleted] == ["delta_0000002_0000002_0000"]
    # The base of the entry stays, though a later one hides it: the next compaction's cleaning takes it.
    assert warehouse.names("t") == {"base_0000003", "base_0000004"}
    assert rows != later == warehouse.now("t")


# -- aborted data ------------------------------------------------------------------------


def test_aborted_data_goes_and_is_forgotten(metastore: Metastore, warehouse: CompactedWarehouse, clock: Clock) -> None:
    rows = warehouse.write("t")
    warehouse.write("t", ends="abort")
    warehouse.write("t", overwrite=True, ends="abort")
    warehouse.write("t", ends="leave")
    (warehouse.folder("t") / "_staging_3_0").mkdir()
    (warehouse.folder("t") / "_staging_5_0").mkdir()
    warehouse.write("p", "ds=1")
    warehouse.write("p", "ds=1", ends="abort")
    warehouse.write("p", "ds=2", ends="abort")
    warehouse.write("t")
    warehouse.compact("t", type="major", until="abort")
    copied = warehouse.folder("p", cluster="c2") / "ds=1" / "delta_0000003_0000003_0000"
    warehouse.copy("p", "c2")
    assert copied.exists()
    tasks = clean(metastore)
    assert {(task.table, task.partition) for task in tasks} == {("t", None), ("p", "ds=1"), ("p", "ds=2")}
    assert {each.why for task in tasks for each in task.deleted} == {"aborted"}
    assert warehouse.names("t") == {
        "delta_0000002_0000002_0000",
        "delta_0000005_0000005_0000",
        "_staging_5_0",
        "delta_0000006_0000006_0000",
    }
    assert warehouse.names("p") == {"ds=1"}
    assert warehouse.names("p", "ds=1") == {"delta_0000002_0000002_0000"} == warehouse.names("p", "ds=1", "c2")
    assert warehouse.now("t")[:1] == rows
    assert clean(metastore) == []
    # Only the open transaction is left: records of aborted ones can go.
    assert count(warehouse, txn_components) == 1
    clock.advance(100)
    (open_id,) = [each.id for each in metastore.transactions.show() if each.state.value == "o"]
    for _ in range(8):
        clock.advance(100)
        metastore.transactions.heartbeat(open_id)
    metastore.housekeeper.run()
    assert [each.id for each in metastore.transactions.show()] == [open_id]


def test_aborted_write_to_unknown_partitions_is_looked_for_in_the_table(
    metastore: Metastore, warehouse: CompactedWarehouse
) -> None:
    rows = warehouse.write("p", "ds=1")
    (txn_id,) = metastore.transactions.open()
    metastore.transactions.allocate_write_ids([txn_id], "default", "p", operation=Operation.INSERT)
    for partition in ("ds=1", "ds=9"):
        warehouse._make("p", partition, "delta_0000003_0000003_0000", [(3, 99)])
    metastore.transactions.abort(txn_id)
    (task,) = clean(metastore)
    assert len(task.deleted) == 2
    assert warehouse.names("p", "ds=1") == {"delta_0000002_0000002_0000"}
    assert warehouse.names("p", "ds=9") == set()
    assert warehouse.now("p") == rows


def test_file_of_an_aborted_transaction_in_a_batchs_delta_goes(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session
) -> None:
    with session.transaction_batch("t", 3) as batch:
        batch.write([[1]])
        (folder,) = warehouse.folder("t").iterdir()
        first = {each.name for each in folder.iterdir()}
        # The second one is killed after it has written its file.
        second = min(each.id for each in metastore.transactions.show())
        metastore.transactions.allocate_write_ids([second], "default", "t", operation=Operation.INSERT)
        (folder / "bucket_00000_1").write_text("left")
        metastore.transactions.abort(second)
        (task,) = clean(metastore)
        assert [Path(each.uri).name for each in task.deleted] == ["bucket_00000_1"]
        assert {each.name for each in folder.iterdir()} == first
    assert count(warehouse, txn_components) == 0


def test_aborted_data_is_the_compactions_where_so_set(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    settings = {"metastore.compactor.clean.aborts.using.cleaner": False}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore:
        warehouse = CompactedWarehouse(metastore, tmp_path)
        with metastore.session() as session:
            session.sql("CREATE TABLE t (a bigint)")
        warehouse.write("t", ends="abort")
        rows = [row for _ in range(2) for row in warehouse.write("t")]
        assert clean(metastore) == []
        warehouse.compact("t")
        (task,) = clean(metastore)
        assert sorted(each.why for each in task.deleted) == ["aborted", "obsolete", "obsolete"]
        assert count(warehouse, txn_components) == 0
        assert warehouse.now("t") == rows


def test_aborted_data_alone_goes_by_way_of_a_compaction_where_so_set(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    settings = {
        "metastore.compactor.clean.aborts.using.cleaner": False,
        "hive.compactor.abortedtxn.threshold": 0,
        "hive.compactor.aborted.txn.time.threshold": 0.0,
    }
    clock = Clock()
    with Metastore.open(
        metastore_url, clusters=clusters, default_cluster="c1", settings=settings, clock=clock
    ) as metastore:
        warehouse = CompactedWarehouse(metastore, tmp_path)
        with metastore.session() as session:
            session.sql("CREATE TABLE t (a bigint)")
            session.sql("CREATE TABLE p (a bigint) PARTITIONED BY (ds string)")
        rows = warehouse.write("t")
        warehouse.write("t", ends="abort")
        warehouse.write("p", "ds=a", ends="abort")
        # A transaction that has not recorded its partitions.
        (txn_id,) = metastore.transactions.open()
        metastore.transactions.allocate_write_ids([txn_id], "default", "p", operation=Operation.INSERT)
        left = warehouse.folder("p", "ds=b") / "delta_0000003_0000003_0000"
        left.mkdir(parents=True)
        metastore.transactions.abort(txn_id)
        clock.advance(1)
        while metastore.compactor.initiate().initiated:
            while (done := metastore.compactor.work("host-1")) is not None:
                assert done.state is CompactionState.READY_FOR_CLEANING, done
            metastore.compactor.clean()
        assert {entry.state for entry in metastore.compactor.show()} == {CompactionState.SUCCEEDED}
        assert count(warehouse, txn_components) == 0
        assert not left.exists()
        assert len(warehouse.names("t")) == 1
        assert warehouse.now("t") == rows


@pytest.mark.parametrize("partition", [None, "ds=1"])
def test_what_a_writer_makes_after_its_transaction_has_ended_goes(
    metastore: Metastore, warehouse: CompactedWarehouse, partition: str | None
) -> None:
    table = "p" if partition else "t"
    rows = [row for _ in range(2) for row in warehouse.write(table, partition)]
    warehouse.write(table, partition, ends="abort")
    clean(metastore)
    (txn_id,) = metastore.transactions.open()
    of_open = metastore.transactions.allocate_write_ids([txn_id], "default", table)[txn_id]
    rows += warehouse.write(table, partition)
    late = {"delta_0000004_0000004_0001", "base_0000004", "delete_delta_0000004_0000004_0000", "_staging_4_0"}
    late |= {f"base_0000003_v{txn_id - 1:07d}", f"_staging_v{txn_id - 1}"}
    kept = {f"delta_{of_open:07d}_{of_open:07d}_0000", f"_staging_{of_open}_0", f"base_0000003_v{txn_id:07d}"}
    kept |= {
        "notes",
        f"delta_{of_open - 1:07d}_{of_open + 1:07d}",
        "delta_0000900_0000900_0000",
        "base_0000003_v0000900",
    }
    for name in late | kept:
        (warehouse.folder(table, partition) / name).mkdir()
    warehouse.compact(table, partition)
    # As long as something is missing, the metastore may be older than the files.
    lost = warehouse.folder(table, partition) / f"delta_{of_open + 1:07d}_{of_open + 1:07d}_0000"
    lost.rename(lost.with_name("elsewhere"))
    (task,) = metastore.compactor.plan_clean()
    assert not late & {Path(each.uri).name for each in task.deleted}
    lost.with_name("elsewhere").rename(lost)
    (task,) = clean(metastore)
    assert late <= {Path(each.uri).name for each in task.deleted}
    assert not late & warehouse.names(table, partition)
    assert kept <= warehouse.names(table, partition)
    metastore.transactions.abort(txn_id)
    assert warehouse.now(table) == rows


@pytest.mark.parametrize("lost", ["the directory", "its file", "a part of its file"])
@pytest.mark.parametrize("type", ["major", "minor"])
def test_last_copy_of_a_row_is_never_deleted(
    metastore: Metastore, warehouse: CompactedWarehouse, clock: Clock, tmp_path: Path, type: str, lost: str
) -> None:
    rows = [row for _ in range(3) for row in warehouse.write("t")]
    warehouse.copy("t", "c2")
    before = warehouse.names("t")
    compaction = warehouse.compact("t", type=type)
    (result,) = warehouse.names("t") - before
    folder, kept = warehouse.folder("t") / result, tmp_path / "kept"
    shutil.copytree(folder, kept)
    if lost == "the directory":
        shutil.rmtree(folder)
    elif lost == "its file":
        (folder / "bucket_00000").unlink()
    else:
        os.truncate(folder / "bucket_00000", 5)
    for run in (metastore.compactor.plan_clean, metastore.compactor.clean):
        (task,) = run()
        assert (task.outcome, task.deleted) == (O.FAILED, ())
        assert f"{result} has {0 if lost != 'a part of its file' else 1} files" in str(task.message)
    assert before <= warehouse.names("t")
    assert before == warehouse.names("t", cluster="c2")
    assert set(warehouse.registered("t")) == before | {result}
    clock.advance(301)
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    (task,) = clean(metastore)
    assert len(task.deleted) == 6
    assert state(metastore, compaction) is CompactionState.SUCCEEDED
    assert warehouse.now("t") == rows


# -- several clusters, failures ------------------------------------------------------------


def test_unreachable_cluster_is_tried_again_with_longer_pauses(
    metastore: Metastore, warehouse: CompactedWarehouse, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row for _ in range(2) for row in warehouse.write("t")]
    warehouse.copy("t", "c2")
    compaction = warehouse.compact("t")
    warehouse.write("u", ends="abort")
    with monkeypatch.context() as broken:

        def refuse(self: LocalFileSystem, path: str, *args: object, **kwargs: object) -> None:
            raise OSError(f"{path} is not reachable")

        broken.setattr(LocalFileSystem, "rm", refuse)
        # From the commit on, the first pause ends after 300 s, the second one after 600.
        for _ in range(2):
            done = metastore.compactor.clean()
            assert [task.outcome for task in done] == [O.FAILED, O.FAILED]
            assert all("not reachable" in (task.message or "") for task in done)
            assert [task.outcome for task in metastore.compactor.clean()] == [O.PAUSED, O.PAUSED]
            clock.advance(298)
            assert [task.outcome for task in clean(metastore)] == [O.PAUSED, O.PAUSED]
            clock.advance(3)
    assert len(warehouse.registered("t")) == 3
    assert warehouse.now("t") == rows
    tasks = clean(metastore)
    assert {each.cluster for task in tasks for each in task.deleted} == {"c1", "c2"}
    assert warehouse.names("t", cluster="c2") == set() == warehouse.names("u")
    assert len(warehouse.names("t")) == 1
    assert state(metastore, compaction) is CompactionState.SUCCEEDED
    assert {entry.state for entry in metastore.compactor.show()} == {CompactionState.SUCCEEDED}


def test_cluster_that_is_not_configured_any_more_is_an_error_until_given_up(
    metastore: Metastore,
    warehouse: CompactedWarehouse,
    clock: Clock,
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
) -> None:
    rows = [row for _ in range(2) for row in warehouse.write("t")]
    warehouse.copy("t", "c2")
    compaction = warehouse.compact("t")
    left = {name: each for name, each in clusters.items() if name != "c2"}
    with Metastore.open(metastore_url, clusters=left, default_cluster="c1", clock=clock) as other:
        assert other.compactor.plan_clean()[0].outcome is O.FAILED
        for _ in range(6):
            (task,) = other.compactor.clean()
            assert "c2" in (task.message or "")
            clock.advance(86_400)
        assert other.compactor.clean() == []
    assert state(metastore, compaction) is CompactionState.FAILED
    assert warehouse.now("t") == rows


def _steps(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], at: int | None) -> int:
    """Do the work; from the step ``at`` on nothing is done any more. How many steps there were."""
    seen = 0
    with monkeypatch.context() as patched:
        for name in ("ls", "rm", "rm_file", "rmdir", "exists", "find"):
            real = getattr(LocalFileSystem, name)

            def step(self: LocalFileSystem, *args: object, _real: object = real, **kwargs: object) -> object:
                nonlocal seen
                seen += 1
                if at is not None and seen > at:
                    raise Dead
                return _real(self, *args, **kwargs)  # type: ignore[operator]

            patched.setattr(LocalFileSystem, name, step)
        with suppress(Dead):
            work()
    return seen


def test_cleaner_killed_at_any_step_leaves_what_the_next_one_finishes(
    metastore: Metastore, warehouse: CompactedWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare() -> list[Row]:
        for _ in range(2):
            warehouse.write("p", "ds=1")
        warehouse.write("p", "ds=1", ends="abort")
        warehouse.write("p", "ds=2", ends="abort")
        warehouse.copy("p", "c2")
        warehouse.compact("p", "ds=1")
        return warehouse.now("p")

    expected = prepare()
    steps = _steps(monkeypatch, metastore.compactor.clean, None)
    assert steps > 10
    for at in range(steps):
        assert warehouse.now("p") == expected
        expected = prepare()
        _steps(monkeypatch, metastore.compactor.clean, at)
        assert warehouse.now("p") == expected
        metastore.compactor.clean()
        assert metastore.compactor.clean() == []
        (base,) = warehouse.names("p", "ds=1")
        assert warehouse.registered("p", "ds=1") == [base]
        assert warehouse.names("p", "ds=1", "c2") <= {base}
        assert warehouse.names("p", "ds=2") == set()
        assert count(warehouse, txn_components) == 0


def test_retry_of_aborted_data_ends_with_its_table(
    metastore: Metastore, warehouse: CompactedWarehouse, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.write("t", ends="abort")
    with monkeypatch.context() as broken:

        def refuse(path: str) -> None:
            raise OSError("not reachable")

        broken.setattr(os, "scandir", refuse)
        assert metastore.compactor.clean()[0].outcome is O.FAILED
    session.sql("DROP TABLE t")
    assert metastore.compactor.clean() == []
    assert {entry.state for entry in metastore.compactor.show()} == {CompactionState.SUCCEEDED}


# -- what is left alone ------------------------------------------------------------------


def test_no_cleanup_delayed_cleanup_and_what_was_dropped(
    metastore: Metastore,
    warehouse: CompactedWarehouse,
    session: Session,
    clock: Clock,
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
) -> None:
    for table, partition in (("t", None), ("u", None), ("p", "ds=1"), ("p", "ds=2")):
        for _ in range(2):
            warehouse.write(table, partition)
    kept, of_u, of_partition, last = (
        warehouse.compact(table, partition)
        for table, partition in (("t", None), ("u", None), ("p", "ds=1"), ("p", "ds=2"))
    )
    session.sql("ALTER TABLE t SET TBLPROPERTIES ('NO_CLEANUP' = 'true')")
    session.sql("DROP TABLE u")
    session.sql("ALTER TABLE p DROP PARTITION (ds = '1')")
    delayed = {"hive.compactor.delayed.cleanup.enabled": True, "hive.compactor.cleaner.retention.time.seconds": 60}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", clock=clock, settings=delayed) as other:
        assert {task.outcome for task in clean(other)} == {O.PAUSED}
        clock.advance(61)
        # Those of what was dropped have ended with it.
        assert len(clean(other)) == 2
    assert state(metastore, kept) is CompactionState.REFUSED
    assert {state(metastore, each) for each in (of_u, of_partition, last)} == {CompactionState.SUCCEEDED}
    assert len(warehouse.names("t")) == 3
    assert len(warehouse.names("p", "ds=2")) == 1


def test_vacuum_cleans_one_table_and_dry_run_shows_its_plan(
    metastore: Metastore, session: Session, warehouse: CompactedWarehouse
) -> None:
    for name in ("t", "u"):
        for _ in range(2):
            warehouse.write(name)
    with metastore.session() as reader:
        reader.sql("START TRANSACTION")
        warehouse.read(reader, "t")
        compaction = warehouse.compact("t")
        warehouse.compact("u")
        before = warehouse.names("t"), warehouse.names("u")
        answer = session.sql("VACUUM t")
        assert answer.columns == ["compactionid", "partition", "what", "detail"]
        assert [row[2] for row in answer.rows] == ["waiting", "stays", "stays", "in the way"]
        reader.sql("ROLLBACK")
    planned = session.sql("VACUUM t DRY RUN")
    assert (warehouse.names("t"), warehouse.names("u")) == before
    done = session.sql("VACUUM t").rows
    assert done == planned.rows
    assert done[0][:3] == (str(compaction), None, "cleaned")
    assert [row[2] for row in done[1:]] == ["delete, obsolete"] * 2
    assert len(warehouse.names("t")) == 1
    assert warehouse.names("u") == before[1]
    assert session.sql("VACUUM t").rows == []


def test_plan_is_for_one_table_or_partition_if_wanted(metastore: Metastore, warehouse: CompactedWarehouse) -> None:
    for partition in ("ds=1", "ds=2"):
        for _ in range(2):
            warehouse.write("p", partition)
        warehouse.compact("p", partition)
    warehouse.write("t", ends="abort")
    plan = metastore.compactor.plan_clean
    assert [task.partition for task in plan("default", "p")] == ["ds=1", "ds=2"]
    assert [task.partition for task in plan("default", "p", "DS=2")] == ["ds=2"]
    assert [task.table for task in plan("default", "t")] == ["t"]
    assert plan("default", "u") == []


def test_many_directories_on_two_clusters_take_few_listings(
    metastore: Metastore, warehouse: CompactedWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(60):
        warehouse.write("t")
    rows = warehouse.now("t")
    warehouse.copy("t", "c2")
    warehouse.compact("t")
    listings = []
    real = os.scandir

    def scandir(path: str | int) -> object:
        # Who deletes a folder has opened it.
        if isinstance(path, str):
            listings.append(path)
        return real(path)

    with monkeypatch.context() as counting:
        counting.setattr(os, "scandir", scandir)
        (task,) = metastore.compactor.clean()
    assert len(task.deleted) == 120
    # Of each folder one before, and one to see that they are gone; and one of the base, which has to be whole.
    assert len(listings) == 5
    assert warehouse.now("t") == rows


# -- any history ----------------------------------------------------------------------------


class _History:
    """Random steps compared with a plain model: what a new reader sees, and each open one in its snapshot."""

    steps = {"insert": 6, "overwrite": 1, "delete": 2, "abort": 2, "open": 2, "close": 2, "compact": 4, "lost": 1}  # noqa: RUF012

    def __init__(self, metastore: Metastore, warehouse: CompactedWarehouse, seed: int) -> None:
        self.metastore, self.warehouse, self.rng = metastore, warehouse, random.Random(seed)
        self.rows: dict[str, list[Row]] = {"t": [], "u": []}
        self.readers: list[tuple[Session, dict[str, list[Row]]]] = []

    def step(self) -> None:
        table = self.rng.choice(sorted(self.rows))
        (name,) = self.rng.choices([*self.steps, "clean"], [*self.steps.values(), 4])
        getattr(self, name)(table)

    def insert(self, table: str) -> None:
        self.rows[table] = self.rows[table] + self.warehouse.write(table)

    def overwrite(self, table: str) -> None:
        self.rows[table] = self.warehouse.write(table, overwrite=True)

    def delete(self, table: str) -> None:
        gone = self.rows[table][:1]
        self.warehouse.write(table, deletes=gone)
        self.rows[table] = self.rows[table][1:]

    def abort(self, table: str) -> None:
        self.warehouse.write(table, overwrite=self.rng.random() < 0.3, ends="abort")

    def open(self, table: str) -> None:
        session = self.metastore.session()
        session.sql("START TRANSACTION")
        assert self.warehouse.read(session, table) == sorted(self.rows[table])
        # Its snapshot holds for the other table, too, whenever it reads that.
        self.readers.append((session, dict(self.rows)))

    def close(self, table: str) -> None:
        if self.readers:
            self.readers.pop(self.rng.randrange(len(self.readers)))[0].close()

    def compact(self, table: str) -> None:
        self.warehouse.compact(table, type=self.rng.choice(("minor", "major")))

    def lost(self, table: str) -> None:
        self.warehouse.compact(table, until="abort")

    def clean(self, table: str) -> None:
        clean(self.metastore)
        self.check()

    def check(self) -> None:
        for table, rows in self.rows.items():
            assert self.warehouse.now(table) == sorted(rows)
        for session, seen in self.readers:
            for table, rows in seen.items():
                if self.rng.random() < 0.5:
                    assert self.warehouse.read(session, table) == sorted(rows)


@pytest.mark.parametrize("seed", range(6))
def test_cleaner_never_deletes_what_an_open_snapshot_needs(
    metastore: Metastore, warehouse: CompactedWarehouse, seed: int
) -> None:
    history = _History(metastore, warehouse, seed)
    try:
        for _ in range(60):
            history.step()
    finally:
        while history.readers:
            history.close("")
    while metastore.compactor.clean():
        pass
    history.check()
    for table in history.rows:
        # Every file on disk has its row, and the other way round.
        assert warehouse.names(table) == set(warehouse.registered(table))
    assert count(warehouse, txn_components) == 0
