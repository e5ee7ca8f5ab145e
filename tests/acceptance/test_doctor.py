"""The doctor reports where registered directories and disks differ, and nothing of what is merely under way."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow import orc
from sqlalchemy import event

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.catalog import table_rows
from airflow_hivex.core.doctor import doctor
from airflow_hivex.core.errors import NoSuchDatabaseError, NoSuchTableError, UnknownClusterError
from airflow_hivex.core.model.findings import Finding, FindingKind
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table
from tests.acceptance.conftest import CopyTable
from tests.acceptance.faults import install

Clusters = dict[str, dict[str, str]]

# These take long, and do little that is the database's own.
on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process deletes files here while the doctor looks, unless a test does."""
    monkeypatch.setattr(doctor, "PAUSE_S", 0)


@pytest.fixture
def t(session: Session) -> Session:
    """A session with a table of two partitions, which two statements have written to."""
    session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    session.sql("INSERT INTO t VALUES (3, 'c', 1), (4, 'd', 2)")
    return session


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The folder of the database on its cluster."""
    return tmp_path / "c1" / "default.db"


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")


def places_of(found: Sequence[Finding], root: Path) -> list[tuple[str, str]]:
    """Each finding's kind, and its path below the folder of all clusters."""
    return [(each.kind.value, each.path.removeprefix(f"{root.as_uri()}/")) for each in found]


def begin(
    metastore: Metastore,
) -> tuple[int, int]:
    """An open transaction with the lock of an INSERT into a partition, and its write id."""
    (txn_id,) = metastore.transactions.open(user="writer")
    place = LockComponent("default", "t", "p=1", type=LockType.SHARED_WRITE, operation=DataOperation.INSERT)
    metastore.locks.acquire([place], txn_id)
    return txn_id, metastore.transactions.allocate_write_ids([txn_id], "default", "t")[txn_id]


# -- nothing to find ----------------------------------------------------------------------


def test_a_warehouse_in_use_has_no_differences(
    metastore: Metastore, t: Session, copy_table: CopyTable, tmp_path: Path, database: Path
) -> None:
    t.sql("CREATE TABLE plain (id int) TBLPROPERTIES ('hivex.row.layout' = 'hive')")
    t.sql("INSERT INTO plain VALUES (1), (2)")
    t.sql("CREATE TABLE emptied (id int)")
    t.sql("INSERT INTO emptied VALUES (1)")
    t.sql("TRUNCATE TABLE emptied")
    t.sql("CREATE DATABASE shop LOCATION 'somewhere/shop'")
    t.sql("CREATE TABLE shop.t (id int)")
    t.sql("INSERT INTO shop.t VALUES (1)")
    t.sql("CREATE TABLE far (id int) LOCATION 'far/away'")
    t.sql("INSERT INTO far VALUES (1)")
    t.sql("CREATE TABLE deep (id int) LOCATION 'default.db/deep/er'")
    t.sql("INSERT INTO deep VALUES (1)")
    put(database / "files" / "a.csv", tmp_path / "c1" / "others" / "x")
    t.sql("CREATE EXTERNAL TABLE files (line string) STORED AS TEXTFILE LOCATION 'default.db/files'")
    t.sql("CREATE VIEW w AS SELECT * FROM plain")
    t.sql("CREATE TABLE gone (id int)")
    t.sql("INSERT INTO gone VALUES (1)")
    t.sql("DROP TABLE gone")
    t.sql("ALTER TABLE t PARTITION (p = 2) RENAME TO PARTITION (p = 3)")
    t.sql("ALTER TABLE t ADD PARTITION (p = 4)")
    t.sql("ALTER TABLE plain RENAME TO renamed")
    copy_table("t", "c2", ["p=1"])
    copy_table("far", "c3")
    # What says nothing but that others are complete, and folders without files.
    put(database / "t" / "p=1" / "_SUCCESS", database / "t" / ".a.orc.crc")
    (database / "t" / "p=9" / "delta_0000009_0000009_0000").mkdir(parents=True)
    (database / "empty" / "folder").mkdir(parents=True)
    lines_so_far: list[str] = []
    assert metastore.doctor.examine(progress=lines_so_far.append) == []
    assert lines_so_far == [
        "tables to compare: 7, on c1, c2, c3",
        "tables compared: 7 of 7, findings: 0",
    ]


def test_what_does_not_exist_cannot_be_examined(metastore: Metastore, t: Session) -> None:
    with pytest.raises(NoSuchDatabaseError):
        metastore.doctor.examine("nosuch")
    with pytest.raises(NoSuchTableError):
        metastore.doctor.examine(table="nosuch")
    with pytest.raises(UnknownClusterError):
        metastore.doctor.examine(cluster="nosuch")


# -- what is registered and not there -------------------------------------------------------


def test_lost_and_changed_files_are_errors(metastore: Metastore, t: Session, tmp_path: Path, database: Path) -> None:
    shutil.rmtree(database / "t" / "p=1" / "delta_0000002_0000002_0000")
    (database / "t" / "p=1" / "delta_0000003_0000003_0000" / "bucket_00000").write_bytes(b"1")
    put(database / "t" / "p=2" / "delta_0000003_0000003_0000" / "bucket_00001")
    (database / "t" / "p=2" / "delta_0000002_0000002_0000" / "bucket_00000").unlink()
    found = metastore.doctor.examine()
    assert places_of(found, tmp_path) == [
        ("missing", "c1/default.db/t/p=1/delta_0000002_0000002_0000"),
        ("different", "c1/default.db/t/p=1/delta_0000003_0000003_0000"),
        ("missing", "c1/default.db/t/p=2/delta_0000002_0000002_0000"),
        ("different", "c1/default.db/t/p=2/delta_0000003_0000003_0000"),
    ]
    assert all(each.is_error for each in found)
    assert {(each.cluster, each.database, each.table) for each in found} == {("c1", "default", "t")}
    assert [each.partition for each in found] == ["p=1", "p=1", "p=2", "p=2"]
    assert [each.files for each in found] == [0, 1, 0, 2]
    assert found[0].message.startswith("registered are 1 file of ")
    assert " with 1 row, and found nothing; " in found[0].message
    assert found[0].message.endswith("Bring the files back from a backup")
    # Each filter leaves the others out.
    assert metastore.doctor.examine("default", "t", "c1") == found
    assert metastore.doctor.examine(cluster="c2") == []
    t.sql("CREATE DATABASE shop")
    assert metastore.doctor.examine("shop") == []
    t.sql("CREATE TABLE other (id int)")
    assert metastore.doctor.examine(table="other") == []


def test_copies_are_held_against_what_is_registered_on_their_cluster(
    metastore: Metastore, t: Session, copy_table: CopyTable, tmp_path: Path, database: Path
) -> None:
    copy_table("t", "c2")
    shutil.rmtree(tmp_path / "c2" / "default.db" / "t" / "p=1" / "delta_0000002_0000002_0000")
    (lost,) = metastore.doctor.examine()
    assert places_of([lost], tmp_path) == [("missing", "c2/default.db/t/p=1/delta_0000002_0000002_0000")]
    assert "Copy it again from cluster c1" in lost.message
    shutil.rmtree(database / "t" / "p=2" / "delta_0000002_0000002_0000")
    (of_primary,) = metastore.doctor.examine(cluster="c1")
    assert of_primary.message.endswith("from a backup or from the copy on cluster c2")
    (of_copy,) = metastore.doctor.examine(cluster="c2")
    assert of_copy == lost
    # Written since, copied, and not registered there.
    t.sql("INSERT INTO t VALUES (5, 'e', 1)")
    new = Path("default.db", "t", "p=1", "delta_0000004_0000004_0000")
    shutil.copytree(tmp_path / "c1" / new, tmp_path / "c2" / new)
    assert places_of(metastore.doctor.examine(cluster="c2"), tmp_path)[1:] == [("unregistered copy", f"c2/{new}")]


def test_a_copy_elsewhere_is_found_there(metastore: Metastore, t: Session, tmp_path: Path, database: Path) -> None:
    shutil.copytree(database / "t", tmp_path / "c3" / "copies" / "of_t")
    metastore.catalog.register_copy("default", "t", "c3", ["p=1"], location="copies/of_t")
    shutil.copytree(database / "t", tmp_path / "c3" / "later")
    metastore.catalog.register_copy("default", "t", "c3", ["p=2"], location="later")
    assert places_of(metastore.doctor.examine(), tmp_path) == [
        ("unregistered copy", f"c3/later/p=1/delta_000000{each}_000000{each}_0000") for each in (2, 3)
    ]
    metastore.catalog.unregister_copy("default", "t", "c3", ["p=1"])
    shutil.rmtree(tmp_path / "c3" / "later" / "p=1")
    shutil.rmtree(tmp_path / "c3" / "later" / "p=2" / "delta_0000003_0000003_0000")
    assert places_of(metastore.doctor.examine(), tmp_path) == [("missing", "c3/later/p=2/delta_0000003_0000003_0000")]


def test_original_files_count_one_by_one(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "c1" / "old"
    for name in ("a.orc", "sub/b.orc", "sub/c.orc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        orc.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), str(folder / name))
    put(folder / "_SUCCESS")
    session.sql("CREATE EXTERNAL TABLE old (id int) STORED AS ORC LOCATION 'old'")
    session.sql("ALTER TABLE old SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')")
    assert metastore.doctor.examine() == []
    (folder / "sub" / "b.orc").unlink()
    put(folder / "a.orc", folder / "sub" / "d.orc", folder / "e.orc")
    assert places_of(metastore.doctor.examine(), tmp_path) == [
        ("different", "c1/old/a.orc"),
        ("missing", "c1/old/sub/b.orc"),
        ("unknown", "c1/old/e.orc"),
        ("unknown", "c1/old/sub/d.orc"),
    ]


# -- what is there and not registered ---------------------------------------------------------


def test_what_is_being_written_is_no_finding_until_it_is_left(
    metastore: Metastore, t: Session, tmp_path: Path, database: Path
) -> None:
    txn_id, number = begin(metastore)
    name = f"delta_{number:07d}_{number:07d}_0000"
    put(database / "t" / "p=1" / name / "bucket_00000", database / "t" / f"_staging_{number}_0" / "part-0")
    assert metastore.doctor.examine() == []
    metastore.transactions.abort(txn_id)
    found = metastore.doctor.examine()
    assert places_of(found, tmp_path) == [
        ("left", f"c1/default.db/t/_staging_{number}_0"),
        ("left", f"c1/default.db/t/p=1/{name}"),
    ]
    assert not any(each.is_error for each in found)
    assert "hivex compaction clean" in found[0].message
    assert [(each.files, each.size_bytes) for each in found] == [(1, 5)] * 2
    metastore.compactor.clean()
    assert metastore.doctor.examine() == []


def test_what_a_compaction_writes_is_its_own(metastore: Metastore, t: Session, tmp_path: Path, database: Path) -> None:
    metastore.compactor.request("default", "t", "p=1", "major")
    txn_id, _ = begin(metastore)
    put(database / "t" / "p=1" / f"base_0000003_v{txn_id:07d}" / "bucket_00000")
    put(database / "t" / "p=1" / f"_staging_v{txn_id}" / "part-0")
    assert metastore.doctor.examine() == []
    metastore.transactions.commit(txn_id)
    assert places_of(metastore.doctor.examine(), tmp_path) == [
        ("unknown", f"c1/default.db/t/p=1/_staging_v{txn_id}"),
        ("unknown", f"c1/default.db/t/p=1/base_0000003_v{txn_id:07d}"),
    ]


def test_what_is_nobodys_only_takes_space(metastore: Metastore, t: Session, tmp_path: Path, database: Path) -> None:
    table = database / "t"
    put(
        table / "loose",
        table / "p=1" / "a.orc",
        table / "p=1" / "delta_0000002_0000002_0001" / "bucket_00000",
        table / "p=2" / "base_0000001" / "bucket_00000",
        table / "p=7" / "delta_0000002_0000002" / "bucket_00000",
        table / "_temporary" / "0" / "x",
        table / "_staging_2_0" / "part-0",
        table / "delta_0000001_0000001_0000" / "bucket_00000",
    )
    found = metastore.doctor.examine()
    assert places_of(found, tmp_path) == [
        ("unknown", f"c1/default.db/t/{each}")
        for each in (
            "_staging_2_0",
            "_temporary",
            "delta_0000001_0000001_0000",
            "loose",
            "p=1/a.orc",
            "p=1/delta_0000002_0000002_0001",
            "p=2/base_0000001",
            "p=7/delta_0000002_0000002",
        )
    ]
    assert [each.partition for each in found[4:]] == ["p=1", "p=1", "p=2", "p=7"]
    assert not any(each.is_error for each in found)


def test_what_comes_from_the_future_is_an_error(
    metastore: Metastore, t: Session, copy_table: CopyTable, tmp_path: Path, database: Path
) -> None:
    copy_table("t", "c2")
    # No statement writes to a copy.
    copied = "default.db/t/p=1/delta_0000009_0000009_0000"
    put(tmp_path / "c2" / copied / "bucket_00000")
    put(
        database / "t" / "p=1" / "delta_0000004_0000004_0000" / "bucket_00000",
        database / "t" / "p=1" / "base_0000002_v0000900" / "bucket_00000",
    )
    found = metastore.doctor.examine()
    assert places_of(found, tmp_path) == [
        ("ahead", "c1/default.db/t/p=1/base_0000002_v0000900"),
        ("ahead", "c1/default.db/t/p=1/delta_0000004_0000004_0000"),
        ("unknown", f"c2/{copied}"),
    ]
    assert [each.is_error for each in found] == [True, True, False]
    assert "write id 4 has yet to be handed out for default.t" in found[1].message


def test_files_of_a_streaming_batch_are_counted_by_transaction(
    metastore: Metastore, session: Session, tmp_path: Path, database: Path
) -> None:
    session.sql("CREATE TABLE b (id int)")
    delta = database / "b" / "delta_0000002_0000005"
    with session.transaction_batch("b", 4) as batch:
        put(delta / "bucket_00000_0")
        assert metastore.doctor.examine() == []
        (delta / "bucket_00000_0").unlink()
        for at in range(2):
            batch.write([(at,)])
            assert metastore.doctor.examine() == []
        put(delta / "bucket_00000_2")
        assert metastore.doctor.examine() == []
    # The last two transactions are aborted.
    assert places_of(metastore.doctor.examine(), tmp_path) == [
        ("unknown", "c1/default.db/b/delta_0000002_0000005/bucket_00000_2")
    ]
    (delta / "bucket_00000_2").unlink()
    (delta / "bucket_00000_1").unlink()
    assert places_of(metastore.doctor.examine(), tmp_path) == [("different", "c1/default.db/b/delta_0000002_0000005")]


def test_folders_that_are_no_tables_are_reported(
    metastore: Metastore, t: Session, tmp_path: Path, database: Path
) -> None:
    t.sql("CREATE TABLE deep (id int) LOCATION 'default.db/deep/er'")
    t.sql("CREATE DATABASE shop LOCATION 'default.db/shop'")
    put(
        database / "copied" / "p=1" / "a",
        database / "copied" / "b",
        database / "deep" / "beside" / "a",
        database / "shop" / "a",
        database / "file",
        tmp_path / "c2" / "default.db" / "t" / "p=1" / "a",
    )
    found = metastore.doctor.examine()
    assert places_of(found, tmp_path) == [
        ("unknown", "c1/default.db/copied"),
        ("unknown", "c1/default.db/deep/beside"),
        ("unknown", "c1/default.db/file"),
        ("unknown", "c1/default.db/shop/a"),
        ("unregistered copy", "c2/default.db/t"),
    ]
    assert [(each.database, each.files) for each in found] == [
        ("default", 2),
        ("default", 1),
        ("default", 1),
        ("shop", 1),
        ("default", 1),
    ]
    assert places_of(metastore.doctor.examine("shop"), tmp_path) == [("unknown", "c1/default.db/shop/a")]
    assert metastore.doctor.examine(table="t") == []


def test_dropped_files_that_are_still_there_are_reported(
    metastore: Metastore, t: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_named: object) -> None:
        raise OSError("not now")

    t.sql("CREATE TABLE u (id int)")
    t.sql("INSERT INTO u VALUES (1)")
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "rm", refuse)
        t.sql("ALTER TABLE t DROP PARTITION (p = 2)")
        t.sql("DROP TABLE u")
    found = metastore.doctor.examine()
    assert places_of(found, tmp_path) == [
        ("dropped", "c1/default.db/t/p=2/delta_0000002_0000002_0000"),
        ("dropped", "c1/default.db/t/p=2/delta_0000003_0000003_0000"),
        ("dropped", "c1/default.db/u"),
    ]
    assert [each.table for each in found] == ["t", "t", "u"]
    assert not any(each.is_error for each in found)
    # A partition of that name has the same folder.
    t.sql("INSERT INTO t VALUES (9, 'z', 2)")
    assert metastore.doctor.examine() == found


def test_a_table_that_a_query_is_making_is_no_finding(
    metastore: Metastore, session: Session, tmp_path: Path, database: Path
) -> None:
    (txn_id,) = metastore.transactions.open(user="writer")
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
    made = Table("default", "made", storage, parameters={"transactional": "true"})
    services = metastore.services

    def hide(connection: object) -> None:
        hidden = table_rows.insert_table(connection, made, 0, hidden=True)  # type: ignore[arg-type]
        services.transactions.allocate_in(connection, [txn_id], int(hidden.id or 0))  # type: ignore[arg-type]

    services.store.write(hide)
    put(database / "made" / "delta_0000001_0000001_0000" / "bucket_00000")
    assert metastore.doctor.examine() == []
    metastore.transactions.abort(txn_id)
    assert places_of(metastore.doctor.examine(), tmp_path) == [("dropped", "c1/default.db/made")]


# -- what the cleaner is about to remove ---------------------------------------------------------


def test_a_directory_in_cleaning_is_no_loss_unless_a_transaction_reads_it(
    lockless: Metastore, tmp_path: Path, database: Path
) -> None:
    delta = "default.db/t/p=1/delta_0000002_0000002_0000"
    with lockless.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int)")
        session.sql("INSERT INTO t VALUES (1, 1)")
        (reader,) = lockless.transactions.open(user="reader")
        session.sql("TRUNCATE TABLE t")
    shutil.rmtree(tmp_path / "c1" / delta)
    assert places_of(lockless.doctor.examine(), tmp_path) == [("missing", f"c1/{delta}")]
    lockless.transactions.commit(reader)
    # No query reads it, and no cleaning is about to remove its row.
    (obsolete,) = lockless.doctor.examine()
    assert places_of([obsolete], tmp_path) == [("obsolete", f"c1/{delta}")]
    assert not obsolete.is_error
    lockless.compactor.request("default", "t", "p=1", "major")
    assert lockless.compactor.work() is not None
    # A cleaner deletes the files first, and may have been killed then.
    assert lockless.doctor.examine() == []
    lockless.compactor.clean()
    assert lockless.doctor.examine() == []


# -- clusters that do not answer --------------------------------------------------------------


def test_clusters_that_cannot_be_looked_at_are_errors_and_the_others_are_examined(
    metastore_url: str, metastore: Metastore, t: Session, clusters: Clusters, tmp_path: Path, copy_table: CopyTable
) -> None:
    t.sql("USE CLUSTER c2")
    t.sql("CREATE TABLE u (id int)")
    t.sql("INSERT INTO u VALUES (1)")
    t.sql("USE CLUSTER c3")
    t.sql("CREATE TABLE w (id int)")
    put(tmp_path / "c1" / "default.db" / "t" / "x")
    shutil.rmtree(tmp_path / "c2")
    (absent, other) = metastore.doctor.examine()
    assert (absent.kind, absent.cluster, absent.database) == (FindingKind.UNREACHABLE, "c2", None)
    assert "Is it not mounted?" in absent.message
    assert places_of([other], tmp_path) == [("unknown", "c1/default.db/t/x")]
    assert metastore.doctor.examine(cluster="c3") == []
    changed = {"c1": clusters["c1"], "c2": {**clusters["c2"], "filesystem": "nosuch://bucket/c2"}}
    with Metastore.open(metastore_url, clusters=changed, default_cluster="c1") as later:
        found = later.doctor.examine()
    assert [(each.kind.value, each.cluster) for each in found] == [
        ("unreachable", "c2"),
        ("unreachable", "c3"),
        ("unknown", "c1"),
    ]
    assert "hive.cluster.properties" in found[1].message
    assert "Protocol not known: nosuch" in found[0].message


def test_a_folder_that_cannot_be_read_is_not_taken_for_empty(
    metastore: Metastore, t: Session, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t.sql("CREATE TABLE u (id int)")
    put(database / "u" / "x")
    list_folder = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("t/p=2"):
            raise PermissionError(13, "Permission denied", path)
        return list_folder(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (unreadable, other) = metastore.doctor.examine()
    assert (unreadable.kind, unreadable.table) == (FindingKind.UNREACHABLE, "t")
    assert "Permission denied" in unreadable.message
    assert places_of([other], tmp_path) == [("unknown", "c1/default.db/u/x")]


def test_what_a_transaction_could_not_delete_goes_with_the_housekeeping(
    metastore: Metastore, t: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_named: object) -> None:
        raise OSError("not now")

    t.sql("START TRANSACTION")
    t.sql("INSERT INTO t VALUES (5, 'e', 1)")
    assert metastore.doctor.examine() == []
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "rm", refuse)
        t.sql("ROLLBACK")
    (left,) = metastore.doctor.examine()
    assert left.kind is FindingKind.LEFT
    metastore.housekeeper.run()
    assert metastore.doctor.examine() == []


def test_what_a_later_try_has_taken_back_is_left_once_its_transaction_has_ended(
    metastore: Metastore, t: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: object, **_named: object) -> None:
        raise OSError("not now")

    (txn_id,) = metastore.transactions.open(user="task")
    with metastore.session(txn_id=txn_id, writer="task") as first:
        first.sql("INSERT OVERWRITE t PARTITION (p = 1) VALUES (9, 'z')")
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "rm", refuse)
        metastore.session(txn_id=txn_id, writer="task").close()
        assert metastore.doctor.examine() == []
        metastore.commit(txn_id)
    (left,) = metastore.doctor.examine()
    assert places_of([left], tmp_path) == [("left", "c1/default.db/t/p=1/base_0000004")]
    assert "hivex metastore housekeep" in left.message
    metastore.housekeeper.run()
    assert metastore.doctor.examine() == []


# -- races --------------------------------------------------------------------------------------


@pytest.fixture
def between(metastore_url: str, clusters: Clusters) -> Iterator[tuple[Metastore, Callable[..., None]]]:
    """A metastore, and a function that says what others do in the middle of its next looks."""
    actions: list[Callable[[], object]] = []

    def fault(point: str) -> None:
        if point.startswith("doctor") and actions:
            actions.pop(0)()

    def then(*given: Callable[[], object]) -> None:
        actions[:] = given

    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=fault) as metastore:
        yield metastore, then


@on_sqlite
@pytest.mark.parametrize("point", range(5))
def test_what_changes_between_the_looks_is_no_finding(
    between: tuple[Metastore, Callable[..., None]], t: Session, tmp_path: Path, database: Path, point: int
) -> None:
    metastore, then = between
    # It is looked at again for this one.
    put(database / "t" / "stray")
    expected = [("unknown", "c1/default.db/t/stray")]
    batch = t.transaction_batch("t", 20)
    batch.write([(0, "a", 1)])
    changes: list[Callable[[], object]] = [
        lambda: t.sql("INSERT INTO t VALUES (5, 'e', 1), (6, 'f', 3)"),
        lambda: batch.write([(1, "b", 1), (2, "c", 4)]),
        lambda: t.sql("ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 9)"),
        lambda: t.sql("ALTER TABLE t PARTITION (p = 9) RENAME TO PARTITION (p = 1)"),
        lambda: batch.write([(1, "b", 1), (2, "c", 4)]),
        lambda: t.sql("ALTER TABLE t DROP PARTITION (p = 2)"),
        lambda: t.sql("CREATE TABLE u (id int)"),
        lambda: t.sql("INSERT INTO u VALUES (1)"),
        lambda: t.sql("TRUNCATE TABLE u"),
        lambda: t.sql("DROP TABLE u"),
    ]
    for change in changes:
        done: list[object] = []
        then(*[lambda: None] * point, lambda change=change, done=done: done.append(change()))
        assert places_of(metastore.doctor.examine(), tmp_path) == expected
        assert done
    batch.close()
    then(*[lambda: None] * point, lambda: t.sql("DROP TABLE t"))
    assert places_of(metastore.doctor.examine(), tmp_path) in ([], expected)


def test_what_goes_away_while_it_is_looked_at_again_is_no_finding(
    between: tuple[Metastore, Callable[..., None]], t: Session, tmp_path: Path, database: Path
) -> None:
    metastore, then = between
    left = [database / "t" / "p=5" / f"delta_0000002_0000002_000{each}" for each in range(4)]
    put(*(each / "bucket_00000" for each in left), database / "stray" / "a", database / "stray" / "b")
    # Another process deletes one after the other.
    deletions: list[Callable[[], object]] = [lambda each=each: shutil.rmtree(each) for each in left]
    deletions += [(database / "stray" / each).unlink for each in ("a", "b")]
    then(*(each for deletion in deletions for each in (lambda: None, deletion)))
    assert metastore.doctor.examine() == []
    assert not (database / "stray" / "b").exists()


@on_sqlite
def test_a_statement_in_the_middle_of_its_files_is_no_finding(
    metastore: Metastore, t: Session, copy_table: CopyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    t.sql("CREATE TABLE b (id int)")
    copy_table("t", "c2")
    looks: list[str] = []
    is_looking = False

    def look(step: str) -> None:
        nonlocal is_looking
        if is_looking or not step.startswith(("Place.", "LocalFileSystem.cp_file", "LocalFileSystem.makedirs")):
            return
        is_looking = True
        try:
            assert metastore.doctor.examine() == []
        finally:
            is_looking = False
        looks.append(step)

    install(monkeypatch).on_file = look
    with t.transaction_batch("b", 5) as batch:
        for statement in (
            "ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 3)",
            "INSERT INTO t VALUES (5, 'e', 3), (6, 'f', 8)",
            "START TRANSACTION",
            "INSERT OVERWRITE t PARTITION (p = 2) VALUES (7, 'g')",
            "INSERT INTO t VALUES (7, 'g', 3)",
            "COMMIT",
            "TRUNCATE TABLE t",
        ):
            t.sql(statement)
            assert looks or statement in ("START TRANSACTION", "COMMIT"), statement
            looks.clear()
            if t.txn_id is None:
                batch.write([(1,)])
                assert looks
                looks.clear()


@pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)
def test_writers_at_work_all_the_time_are_no_findings(
    metastore: Metastore, t: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    done = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            with metastore.session() as session:
                number = 0
                while not done.is_set():
                    number += 1
                    session.sql(f"INSERT INTO t VALUES ({number}, 'x', {number % 3})")
                    if number % 4 == 0:
                        session.sql("ALTER TABLE t PARTITION (p = 0) RENAME TO PARTITION (p = 7)")
                        session.sql("ALTER TABLE t DROP PARTITION (p = 7)")
                    if number % 5 == 0:
                        session.sql("CREATE TABLE u (id int)")
                        session.sql("INSERT INTO u VALUES (1)")
                        session.sql("DROP TABLE u")
        except BaseException as error:
            errors.append(error)

    def stream() -> None:
        try:
            with metastore.session() as session:
                session.sql("CREATE TABLE b (id int)")
                while not done.is_set():
                    with session.transaction_batch("b", 5) as batch:
                        for each in range(4):
                            batch.write([(each,)])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=each) for each in (write, stream)]
    for thread in threads:
        thread.start()
    try:
        looks = [metastore.doctor.examine() for _ in range(40)]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert [each for each in looks if each] == []
    assert metastore.doctor.examine() == []


@on_sqlite
def test_partitions_and_tables_cost_no_more_statements(metastore: Metastore, session: Session) -> None:
    counted: list[int] = []
    for count in (1, 30):
        for each in range(count):
            session.sql(f"CREATE TABLE IF NOT EXISTS t{each} (id int) PARTITIONED BY (p int)")
            session.sql(f"INSERT INTO t{each} VALUES " + ", ".join(f"({p}, {p})" for p in range(count)))
        statements: list[str] = []

        def count_statement(*given: object, statements: list[str] = statements) -> None:
            statements.append(str(given[2]))

        engine = metastore.services.store.engine
        event.listen(engine, "before_cursor_execute", count_statement)
        assert metastore.doctor.examine() == []
        event.remove(engine, "before_cursor_execute", count_statement)
        counted.append(len(statements))
    assert counted[0] == counted[1]
