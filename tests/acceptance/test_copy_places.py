"""The places of copies: files of others are never touched, and unused files are deleted."""

from __future__ import annotations

import hashlib
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    RootMissingError,
    StorageError,
)
from airflow_hivex.core.model.replication import CopyProgress
from airflow_hivex.core.model.transactions import TxnState
from tests.acceptance.replicating_process import replicate
from tests.processes import ClientProcess

SETTINGS = {"hivex.replication.retention": 0, "hivex.dataframe.retention.time": 0}


@pytest.fixture
def metastore(metastore_url: str, clusters: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    """A metastore whose housekeeping deletes unused files at once."""
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=SETTINGS) as metastore:
        yield metastore


@pytest.fixture
def raw(session: Session, tmp_path: Path) -> Path:
    """The folder of a plain table of two files."""
    session.sql("CREATE EXTERNAL TABLE raw (a string) USING csv LOCATION 'raw'")
    folder = tmp_path / "c1" / "raw"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text(f"{name}\n")
    return folder


@pytest.fixture
def t(session: Session) -> Session:
    """A transactional table of three rows in three deltas."""
    session.sql("CREATE TABLE t (id int)")
    for number in range(3):
        session.sql(f"INSERT INTO t VALUES ({number})")
    return session


def contents(folder: Path) -> dict[str, str]:
    """Return the checksums of all files below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(("_hivex", "."))
    }


def place(metastore: Metastore, table: str, cluster: str = "c2", partition: str | None = None) -> str:
    copies = metastore.replicator.copies(f"default.{table}")
    return next(each.location for each in copies if (each.cluster, each.partition) == (cluster, partition))


def usable_on(metastore: Metastore, cluster: str, table: str) -> bool:
    with metastore.session(cluster=cluster) as session:
        return session.explain(f"SELECT * FROM {table}").cluster == cluster


def fails(metastore: Metastore, table: str, error: type[HivexError], match: str, **options: Any) -> None:
    """A replication fails, and no copy is visible."""
    with pytest.raises(error, match=match):
        metastore.replicator.replicate(table, "c2", **options)
    assert not usable_on(metastore, "c2", table)


def stop(progress: CopyProgress) -> None:
    raise ZeroDivisionError


@contextmanager
def while_copying(metastore: Metastore, folder: Path, action: Callable[[], object]) -> Iterator[None]:
    """Do something as soon as the first file of a copy is there."""

    def act() -> None:
        while not any(path.is_file() for path in folder.rglob("*bucket_*")):
            assert not ended.wait(0.002)
        action()

    ended = threading.Event()
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# -- files of others ---------------------------------------------------------------


def test_a_file_of_others_is_not_overwritten(metastore: Metastore, raw: Path, tmp_path: Path) -> None:
    there = tmp_path / "c2" / "raw"
    there.mkdir(parents=True)
    for content in ("longer than ours\n", "ONE\n"):
        (there / "one.csv").write_text(content)
        fails(metastore, "raw", InvalidOperationError, "move it away")
        assert (there / "one.csv").read_text() == content
    # The same file, brought by other means, need not travel, and is not ours to delete.
    (there / "one.csv").write_text("one\n")
    assert metastore.replicator.replicate("raw", "c2").files_kept >= 1
    assert contents(there) == contents(raw)
    metastore.replicator.drop_copy("raw", "c2")
    for _ in range(2):
        metastore.housekeeper.run()
    assert list(contents(there)) == ["one.csv"]


def test_the_place_of_another_table_is_refused(metastore: Metastore, session: Session, raw: Path) -> None:
    session.sql("USE CLUSTER c2")
    for name, location in (("at_it", "raw"), ("below_it", "raw/below"), ("above_it", "whole")):
        session.sql(f"CREATE EXTERNAL TABLE {name} (a string) USING csv LOCATION '{location}'")
    fails(metastore, "raw", InvalidOperationError, r"belongs to table default\.(at_it|below_it)")
    session.sql("DROP TABLE at_it")
    fails(metastore, "raw", InvalidOperationError, r"belongs to table default\.below_it")
    session.sql("DROP TABLE below_it")
    session.sql("USE CLUSTER c1")
    session.sql("CREATE EXTERNAL TABLE inside (a string) USING csv LOCATION 'whole/inside'")
    fails(metastore, "inside", InvalidOperationError, r"belongs to table default\.above_it")
    assert metastore.replicator.replicate("raw", "c2").files_copied == 2


def test_a_file_in_the_folder_of_a_table_is_not_read_as_part_of_a_copy(
    metastore: Metastore, t: Session, tmp_path: Path
) -> None:
    delta = next((tmp_path / "c1").rglob("delta_*"))
    other = tmp_path / "c2" / delta.relative_to(tmp_path / "c1") / "bucket_00007"
    other.parent.mkdir(parents=True)
    other.write_text("of another program")
    fails(metastore, "t", InvalidOperationError, "bucket_00007 on cluster c2 is in the place of the copy")
    assert other.read_text() == "of another program"
    other.unlink()
    metastore.replicator.replicate("t", "c2")


# -- what is left ------------------------------------------------------------------


def test_files_of_a_replication_that_never_ends_are_deleted(
    metastore_url: str, metastore: Metastore, t: Session, tmp_path: Path, clusters: dict[str, dict[str, str]]
) -> None:
    with pytest.raises(ZeroDivisionError):
        metastore.replicator.replicate("t", "c2", progress=stop)
    assert contents(tmp_path / "c2")
    other = next((tmp_path / "c2").rglob("delta_*")) / "not_ours"
    other.write_text("of another program")
    assert metastore.housekeeper.run().unused_copies == 3
    assert list((tmp_path / "c2").rglob("delta_*")) == [other.parent]
    assert list(contents(tmp_path / "c2").values()) == [hashlib.sha256(b"of another program").hexdigest()]
    other.unlink()
    with pytest.raises(ZeroDivisionError):
        metastore.replicator.replicate("t", "c2", progress=stop)
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as patient:
        assert patient.housekeeper.run().unused_copies == 0
    assert metastore.replicator.replicate("t", "c2").files_kept > 0
    assert metastore.housekeeper.run().unused_copies == 0
    assert usable_on(metastore, "c2", "t")


def test_the_next_one_does_not_wait_for_a_killed_process(
    metastore_url: str, metastore: Metastore, t: Session, tmp_path: Path, clusters: dict[str, dict[str, str]]
) -> None:
    options = {"clusters": clusters, "default_cluster": "c1"}
    with (
        ClientProcess(replicate, metastore_url, options, 300, log=tmp_path / "log") as client,
        while_copying(metastore, tmp_path / "c2", client.kill),
    ):
        client.wait()
    (killed,) = [each for each in metastore.transactions.show() if each.state is TxnState.OPEN]
    assert metastore.replicator.replicate("t", "c2").files_copied > 0
    assert usable_on(metastore, "c2", "t")
    assert "has died" in str(metastore.transactions.get(killed.id).reason)


def test_a_living_replication_is_waited_for(
    metastore_url: str, metastore: Metastore, t: Session, tmp_path: Path, clusters: dict[str, dict[str, str]]
) -> None:
    options = {"clusters": clusters, "default_cluster": "c1"}
    with ClientProcess(replicate, metastore_url, options, 20_000, log=tmp_path / "log") as client:
        found: list[int] = []
        second = lambda: found.append(metastore.replicator.replicate("t", "c2").files_copied)  # noqa: E731
        with while_copying(metastore, tmp_path / "c2", second):
            assert client.wait() == 0
    assert found == [0]


def test_readers_keep_the_old_copy_of_a_plain_table(metastore: Metastore, raw: Path, tmp_path: Path) -> None:
    metastore.replicator.replicate("raw", "c2")
    old = tmp_path / "c2" / place(metastore, "raw")
    before = contents(old)
    (old / "not_ours.csv").write_text("of another program\n")
    (reader,) = metastore.transactions.open(user="reader")
    (raw / "one.csv").write_text("changed\n")
    (raw / "three.csv").write_text("three\n")
    done = metastore.replicator.replicate("raw", "c2")
    new = tmp_path / "c2" / place(metastore, "raw")
    assert (done.files_copied, done.files_kept, contents(new)) == (2, 1, contents(raw))
    assert contents(old).items() >= before.items()
    for _ in range(2):
        assert metastore.housekeeper.run().unused_copies == 0
    metastore.transactions.commit(reader)
    assert metastore.housekeeper.run().unused_copies == 1
    assert list(contents(old)) == ["not_ours.csv"]
    assert contents(new) == contents(raw)
    assert metastore.replicator.replicate("raw", "c2").files_copied == 0


def test_partitions_of_a_plain_table_are_replaced_one_by_one(
    metastore: Metastore, session: Session, tmp_path: Path
) -> None:
    session.sql("CREATE EXTERNAL TABLE days (a string) PARTITIONED BY (ds string) STORED AS TEXTFILE LOCATION 'days'")
    for ds in "12":
        folder = tmp_path / "c1" / "days" / f"ds={ds}"
        folder.mkdir(parents=True)
        (folder / "f").write_text(f"{ds}\n")
        session.sql(f"ALTER TABLE days ADD PARTITION (ds = '{ds}')")
    metastore.replicator.replicate("days", "c2")
    (tmp_path / "c1" / "days" / "ds=2" / "f").write_text("two\n")
    with pytest.raises(ZeroDivisionError):
        metastore.replicator.replicate("days", "c2", progress=stop)
    assert usable_on(metastore, "c2", "days")
    # What the one before has copied is taken.
    assert metastore.replicator.replicate("days", "c2").files_kept == 1
    places = [place(metastore, "days", partition=f"ds={ds}") for ds in "12"]
    assert places[0] == "days/ds=1"
    assert places[1].startswith("days_copy_")
    assert (tmp_path / "c2" / places[1] / "f").read_text() == "two\n"
    for _ in range(2):
        metastore.housekeeper.run()
    assert not (tmp_path / "c2" / "days" / "ds=2").exists()
    assert (tmp_path / "c2" / "days" / "ds=1" / "f").exists()
    session.sql("ALTER TABLE days DROP PARTITION (ds = '1')")
    for _ in range(2):
        metastore.housekeeper.run()
    assert list(contents(tmp_path / "c2").values()) == [hashlib.sha256(b"two\n").hexdigest()]
    assert (tmp_path / "c1" / "days" / "ds=1" / "f").exists()


# -- what goes wrong on the way ------------------------------------------------------


def test_a_target_that_is_lost_on_the_way_registers_nothing(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    root = tmp_path / "c2"
    with (
        while_copying(metastore, root, lambda: root.rename(tmp_path / "unmounted")),
        pytest.raises((StorageError, RootMissingError)),
    ):
        metastore.replicator.replicate("t", "c2", threads=1, bytes_per_second=1_000)
    assert not usable_on(metastore, "c2", "t")
    if root.exists():
        # A write into a folder without its disk makes the folder.
        root.rename(tmp_path / "without_disk")
    (tmp_path / "unmounted").rename(root)
    metastore.replicator.replicate("t", "c2")
    assert contents(root) == contents(tmp_path / "c1")


def test_a_source_that_is_lost_on_the_way_is_reported(metastore: Metastore, t: Session, tmp_path: Path) -> None:
    root = tmp_path / "c1"
    with while_copying(metastore, tmp_path / "c2", lambda: root.rename(tmp_path / "unmounted")):
        fails(metastore, "t", StorageError, "c1", threads=1, bytes_per_second=1_000)
    (tmp_path / "unmounted").rename(root)
    metastore.replicator.replicate("t", "c2")
    assert contents(tmp_path / "c2") == contents(root)


def test_a_target_without_room_leaves_no_part(metastore: Metastore, raw: Path, tmp_path: Path) -> None:
    (raw / "large.csv").write_bytes(b"x" * (6 << 20))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A limit on the length of files is as real an error as a full disk, and asks for no rights.
    resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, before[1]))
    try:
        fails(metastore, "raw", StorageError, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "c2" / "raw" / "large.csv").exists()
    metastore.replicator.replicate("raw", "c2")
    assert contents(tmp_path / "c2" / "raw") == contents(raw)


# -- kinds of tables -----------------------------------------------------------------


def test_streaming_deltas_that_grow_are_copied_again(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE events (id int, name string)")
    with session.transaction_batch("events", 4) as batch:
        batch.write([(1, "a")])
        first = metastore.replicator.replicate("events", "c2")
        batch.write([(2, "b")])
        assert not usable_on(metastore, "c2", "events")
        second = metastore.replicator.replicate("events", "c2")
    assert first.files_copied >= 1
    assert second.files_kept >= 1
    assert contents(tmp_path / "c2") == contents(tmp_path / "c1")
    assert usable_on(metastore, "c2", "events")


@pytest.mark.parametrize("more", ["", ", 'transactional_properties'='insert_only'"])
def test_original_files_and_those_of_insert_only_tables_are_copied(
    metastore: Metastore, session: Session, tmp_path: Path, more: str
) -> None:
    session.sql("CREATE EXTERNAL TABLE old (id int) STORED AS ORC LOCATION 'old'")
    for name in ("000000_0", "HIVE_UNION_SUBDIR_1/000001_0"):
        path = tmp_path / "c1" / "old" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        orc.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), str(path))
    session.sql(f"ALTER TABLE old SET TBLPROPERTIES ('EXTERNAL'='FALSE', 'transactional'='true'{more})")
    session.sql("INSERT INTO old VALUES (3)")
    metastore.replicator.replicate("old", "c2")
    assert contents(tmp_path / "c2") == contents(tmp_path / "c1")
    assert usable_on(metastore, "c2", "old")
    with pytest.raises(ZeroDivisionError):
        metastore.replicator.replicate("old", "c3", progress=stop)
    metastore.housekeeper.run()
    assert not contents(tmp_path / "c3")


def test_a_process_is_known_to_be_dead_only_on_its_own_machine() -> None:
    from airflow_hivex.core.replication.running import is_dead, shown, this_process

    facts = this_process().split(" ")
    assert not is_dead(" ".join(facts))
    assert shown(" ".join(facts)) == f"process {os.getpid()} on {facts[0]}"
    assert is_dead(" ".join((*facts[:4], "1")))
    for elsewhere in ((facts[0], "another start", *facts[2:]), (facts[0], "other", *facts[2:4], "1"), ("",), ()):
        assert not is_dead(" ".join(elsewhere))
