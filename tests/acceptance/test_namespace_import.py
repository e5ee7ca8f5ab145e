"""The import of a namespace from another metastore: of one snapshot, verified, all or nothing, and repeatable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    CopyAlteredError,
    ForeignNameError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchDatabaseError,
    NoSuchHomeError,
    QuotaExceededError,
)
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from airflow_hivex.core.model.replication import CopyProgress
from tests.acceptance.linked_rows import rows_of

pytestmark = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Metastore]:
    clusters = {"far": {"filesystem": (tmp_path / "far").as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(f"sqlite:///{tmp_path / 'far.db'}", clusters=clusters) as metastore:
        with metastore.session() as session:
            session.sql("CREATE DATABASE a COMMENT 'of the first team'")
            session.sql("USE a")
            session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (ds int)")
            session.sql("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
            session.sql("INSERT INTO t VALUES (3, 'three', 1)")
            session.sql("CREATE TABLE u (id int) TBLPROPERTIES ('transactional_properties' = 'insert_only')")
            session.sql("INSERT INTO u VALUES (7)")
            session.sql("CREATE VIEW w AS SELECT id FROM t")
        yield metastore


def outcomes(found: list[object]) -> dict[str, str]:
    return {each.name: each.outcome.value for each in found}  # type: ignore[attr-defined]


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".crc"
    }


def test_tables_are_imported_with_their_directories_and_write_ids(
    metastore: Metastore, session: Session, source: Metastore, tmp_path: Path
) -> None:
    planned = metastore.import_namespace(source, "a", cluster="c2", dry_run=True)
    assert outcomes(planned) == dict.fromkeys(["a", "a.t", "a.u", "a.w"], "planned")
    assert "a" not in metastore.catalog.list_databases()
    assert not (tmp_path / "c2" / "a.db").exists()
    found = metastore.import_namespace(source, "a", cluster="c2")
    assert outcomes(found) == dict.fromkeys(["a", "a.t", "a.u", "a.w"], "imported")
    (table,) = (each for each in found if each.name == "a.t")
    assert (table.kind, table.partitions, table.directories) == ("transactional table", 2, 3)
    assert files(tmp_path / "c2" / "a.db") == files(tmp_path / "far" / "a.db")
    assert metastore.catalog.get_database("a").description == "of the first team"
    session.sql("USE a")
    assert rows_of(session, "t") == [(1, "one", "1"), (2, "two", "2"), (3, "three", "1")]
    assert rows_of(session, "u") == [(7,)]
    # Both go on for themselves, and a write id of the source is not used again.
    (before,) = metastore.transactions.valid_write_ids(["a.t"], metastore.transactions.valid_txns()).values()
    session.sql("INSERT INTO t VALUES (4, 'four', 3)")
    (after,) = metastore.transactions.valid_write_ids(["a.t"], metastore.transactions.valid_txns()).values()
    assert after.high_watermark == before.high_watermark + 1
    assert rows_of(session, "t") == [(1, "one", "1"), (2, "two", "2"), (3, "three", "1"), (4, "four", "3")]
    with source.session(database="a") as far:
        far.sql("INSERT INTO t VALUES (5, 'five', 3)")
        assert (5, "five", "3") in rows_of(far, "t")
    # What is here already stays as it is.
    again = metastore.import_namespace(source, "a")
    assert outcomes(again) == dict.fromkeys(["a.t", "a.u", "a.w"], "differs")
    renamed = metastore.import_namespace(source, "a", into="b", tables="u|w")
    assert outcomes(renamed) == {"b": "imported", "b.u": "imported", "b.w": "refused"}
    assert metastore.catalog.list_tables("b") == ["u"]
    assert metastore.doctor.examine() == []


def test_files_that_are_altered_after_the_import_are_not_copied(
    metastore: Metastore, source: Metastore, tmp_path: Path
) -> None:
    metastore.import_namespace(source, "a")
    bucket = next((tmp_path / "c1" / "a.db" / "t").rglob("bucket_*"))
    bucket.write_bytes(b"?" * bucket.stat().st_size)
    assert metastore.replicator.replicate("a.u", "c2").files_copied > 0
    with pytest.raises(CopyAlteredError, match="checksum"):
        metastore.replicator.replicate("a.t", "c2")


def test_new_tables_of_an_imported_namespace_are_made_where_it_is(
    metastore: Metastore, session: Session, source: Metastore
) -> None:
    with source.session() as far:
        far.sql("ALTER DATABASE a SET DBPROPERTIES ('hivex.cluster' = 'far')")
    metastore.import_namespace(source, "a", cluster="c2", tables="u")
    session.sql("CREATE TABLE a.new (id int)")
    assert metastore.catalog.get_table("a", "new").storage.primary.cluster == "c2"


@pytest.mark.spark
def test_deleted_compacted_and_open_rows_are_those_of_the_snapshot(
    metastore: Metastore, session: Session, source: Metastore
) -> None:
    with source.session(database="a") as far, source.session(database="a") as other:
        far.sql("DELETE FROM t WHERE id = 1")
        far.sql("UPDATE t SET v = 'zwei' WHERE id = 2")
        far.sql("ALTER TABLE t PARTITION (ds=1) COMPACT 'minor'")
        far.sql("ALTER TABLE t PARTITION (ds=2) COMPACT 'major'")
        while source.compactor.work() is not None:
            pass
        other.sql("START TRANSACTION")
        other.sql("INSERT INTO t VALUES (9, 'open', 1)")
        far.sql("INSERT INTO t VALUES (4, 'four', 2)")
        # Transactions here have reached other ids than those of the source's compactions.
        metastore.import_namespace(source, "a")
        other.sql("COMMIT")
        expected = [(2, "zwei", 2), (3, "three", 1), (4, "four", 2)]
        assert session.sql("SELECT * FROM a.t ORDER BY id").rows == expected
        assert session.sql("SELECT * FROM a.w ORDER BY id").rows == [(2,), (3,), (4,)]
        session.sql("UPDATE a.t SET v = 'drei' WHERE id = 3")
        session.sql("DELETE FROM a.t WHERE id = 4")
        assert session.sql("SELECT * FROM a.t ORDER BY id").rows == [(2, "zwei", 2), (3, "drei", 1)]
        assert len(far.sql("SELECT * FROM t").rows) == 4


def test_killed_import_leaves_no_table_and_is_continued(
    metastore: Metastore, source: Metastore, tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    def kill(_: CopyProgress) -> None:
        raise Killed

    with pytest.raises(Killed):
        metastore.import_namespace(source, "a", progress=kill)
    assert metastore.catalog.list_tables("a") == []
    there = [path for path in (tmp_path / "c1" / "a.db").rglob("delta*/*") if path.is_file()]
    copied = {path: path.stat().st_mtime_ns for path in there if path.suffix != ".crc"}
    assert len(copied) > 4
    damaged = next(path for path in copied if path.name.startswith("bucket_"))
    kept = copied.keys() - {damaged}
    damaged.write_bytes(b"half")
    metastore.import_namespace(source, "a")
    assert files(tmp_path / "c1" / "a.db") == files(tmp_path / "far" / "a.db")
    assert {path.stat().st_mtime_ns == copied[path] for path in kept} == {True}


def test_import_that_cannot_be_whole_is_refused_before_anything_is_changed(
    metastore: Metastore, session: Session, source: Metastore, tmp_path: Path
) -> None:
    def refused(error: type[Exception], match: str, prepare: Callable[[], object]) -> None:
        prepare()
        with pytest.raises(error, match=match):
            metastore.import_namespace(source, "a")
        assert metastore.catalog.list_tables("a") == []

    with pytest.raises(NoSuchDatabaseError):
        metastore.import_namespace(source, "nothing")
    session.sql("CREATE DATABASE a")
    refused(QuotaExceededError, "namespace a|Namespace a", lambda: metastore.capacity.set_quota("a", 1))
    metastore.capacity.drop_quota("a")
    stranger = tmp_path / "c1" / "a.db" / "u" / "notes.txt"
    (tmp_path / "c1" / "a.db" / "u" / "_hivex_import").unlink(missing_ok=True)

    def write() -> None:
        stranger.parent.mkdir(parents=True, exist_ok=True)
        stranger.write_text("mine")

    refused(InvalidOperationError, "has files that this import has not written", write)
    assert stranger.read_text() == "mine"
    stranger.unlink()
    bucket = next((tmp_path / "far" / "a.db" / "t").rglob("bucket_*"))
    refused(CopyAlteredError, "are registered", lambda: bucket.write_bytes(b""))


def test_closed_namespace_takes_no_view_that_reads_another_one(metastore: Metastore, source: Metastore) -> None:
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("far", ""))
    text = "SELECT `id` FROM `other`.`t`"
    view = Table("a", "foreign", storage, type=TableType.VIRTUAL_VIEW, view_original_text=text, view_expanded_text=text)
    source.catalog.create_table(view)
    with metastore.session() as session:
        session.sql("CREATE DATABASE a WITH DBPROPERTIES ('hivex.namespace.mode' = 'true')")
    for dry_run in (True, False):
        with pytest.raises(ForeignNameError, match=r"other\.t"):
            metastore.import_namespace(source, "a", dry_run=dry_run)
    assert metastore.catalog.list_tables("a") == []


def test_refused_import_leaves_no_database(
    metastore: Metastore, session: Session, source: Metastore, tmp_path: Path
) -> None:
    def refused(match: str, **options: str) -> None:
        with pytest.raises(InvalidOperationError, match=match):
            metastore.import_namespace(source, "a", **options)
        assert metastore.catalog.list_databases() == ["default"]

    stranger = tmp_path / "c1" / "a.db" / "u" / "notes.txt"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("mine")
    refused("has files that this import has not written")
    refused("has no table, view or link that matches 'x|y'", tables="x|y")
    with source.session() as far:
        far.sql("CREATE EXTERNAL TABLE a.raw (s string) USING csv LOCATION 'raw'")
    assert outcomes(metastore.import_namespace(source, "a", tables="raw")) == {"a.raw": "refused"}
    assert metastore.catalog.list_databases() == ["default"]
    stranger.unlink()

    def use(progress: CopyProgress) -> None:
        # Others have found the database, and use it.
        if progress.files_done == progress.files:
            session.sql("CREATE TABLE a.mine (id int)")
            raise InvalidOperationError("The test", "a", "it is refused")

    with pytest.raises(InvalidOperationError, match="it is refused"):
        metastore.import_namespace(source, "a", progress=use)
    assert metastore.catalog.list_tables("a") == ["mine"]
    found = outcomes(metastore.import_namespace(source, "a"))
    assert found == {"a.t": "imported", "a.u": "imported", "a.w": "imported", "a.raw": "refused"}
    assert metastore.catalog.list_tables("a") == ["mine", "t", "u", "w"]


def test_homes_are_noted_without_secrets(metastore: Metastore) -> None:
    homes = metastore.homes
    assert homes.note("A", "hivex_far").namespace == "a"
    assert homes.note("a", "hivex_far").metastore == "hivex_far"
    homes.note("b", "postgresql://reader@db.example.com/hivex")
    with pytest.raises(AlreadyExistsError, match="it is hivex_far"):
        homes.note("a", "hivex_near")
    homes.note("a", "hivex_near", replace=True)
    assert [(each.namespace, each.metastore, each.is_url) for each in homes.show()] == [
        ("a", "hivex_near", False),
        ("b", "postgresql://reader@db.example.com/hivex", True),
    ]
    assert homes.find("B").is_url
    homes.forget("b")
    for action in (homes.find, homes.forget):
        with pytest.raises(NoSuchHomeError, match="hivex namespace home b"):
            action("b")
    for wrong in (
        "postgresql://reader:secret@db/hivex",
        "postgresql://db/hivex?password=secret",
        "ftp://db/hivex",
        "",
        "two words",
        "a\nb",
    ):
        with pytest.raises(InvalidObjectError) as error:
            homes.note("c", wrong)
        assert "secret@" not in str(error.value)
    assert [each.namespace for each in homes.show("*")] == ["a"]
