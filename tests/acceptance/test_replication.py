"""Replication between clusters: complete copies or none, whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    ClusterUnreachableError,
    CopyAlteredError,
    CopyMismatchError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchPartitionError,
    NoSuchTableError,
    RoutingError,
    StorageError,
    TransactionAbortedError,
    UnknownClusterError,
)
from airflow_hivex.core.model.replication import CopyProgress
from tests.acceptance.linked_rows import rows_of
from tests.ports import free_port

FULL = "TBLPROPERTIES ('hivex.row.layout' = '{}')"


def sums(root: Path, location: str) -> dict[str, str]:
    """Return the checksums of the files of a table on a cluster, by name."""
    folder = root / location
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def location_of(metastore: Metastore, table: str) -> str:
    return metastore.catalog.get_table("default", table).storage.primary.location


def place_on(metastore: Metastore, cluster: str, table: str, partition: str | None = None) -> str:
    """Return where the copy of a table or partition lies on a cluster."""
    copies = metastore.replicator.copies(f"default.{table}")
    return next(each.location for each in copies if (each.cluster, each.partition) == (cluster, partition))


def on(metastore: Metastore, cluster: str, sql: str) -> list[tuple[object, ...]]:
    with metastore.session(cluster=cluster) as session:
        return session.sql(sql).rows


@pytest.fixture
def days(session: Session) -> Session:
    """A table of two days, with one row each."""
    session.sql("CREATE TABLE days (id int) PARTITIONED BY (ds string)")
    for ds in "12":
        session.sql(f"INSERT INTO days PARTITION (ds = '{ds}') VALUES ({ds})")
    return session


@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_copy_is_the_same_and_only_new_directories_travel(
    metastore: Metastore, session: Session, tmp_path: Path, layout: str
) -> None:
    session.sql(f"CREATE TABLE t (id int, name string) {FULL.format(layout)}")
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    first = metastore.replicator.replicate("t", "c2")
    assert (first.files_copied, first.bytes_copied) == (first.tables[0].files, first.tables[0].size_bytes)
    assert sums(tmp_path / "c1", location_of(metastore, "t")) == sums(tmp_path / "c2", location_of(metastore, "t"))
    session.sql("INSERT INTO t VALUES (3, 'c')")
    with metastore.session(cluster="c2") as secondary, pytest.raises(RoutingError, match="behind its primary"):
        secondary.sql("SELECT * FROM t")
    second = metastore.replicator.replicate("t", "c2")
    assert [each.name for each in second.tables[0].directories] == ["delta_0000003_0000003_0000"]
    assert metastore.replicator.replicate("t", "c2").files_copied == 0
    assert sums(tmp_path / "c1", location_of(metastore, "t")) == sums(tmp_path / "c2", location_of(metastore, "t"))


def test_query_on_the_copy_sees_the_rows(metastore: Metastore, days: Session) -> None:
    days.sql("DELETE FROM days WHERE id = 1")
    days.sql("INSERT INTO days PARTITION (ds = '3') VALUES (3)")
    metastore.replicator.replicate("days", "c2")
    assert sorted(on(metastore, "c2", "SELECT id, ds FROM days")) == [(2, "2"), (3, "3")]


def test_partitions_are_replicated_one_by_one(metastore: Metastore, days: Session) -> None:
    metastore.replicator.replicate("default.days", "c2", ["ds=1"])
    assert days.explain("SELECT * FROM days").cluster == "c1"
    with metastore.session(cluster="c2") as secondary:
        assert secondary.explain("SELECT * FROM days WHERE ds = '1'").cluster == "c2"
        assert secondary.explain("SELECT * FROM days").cluster is None
        metastore.replicator.replicate("days", "c2")
        assert secondary.explain("SELECT * FROM days").cluster == "c2"


def test_dry_run_lists_and_changes_nothing(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    found = metastore.replicator.replicate("days", "c2", dry_run=True)
    (table,) = found.tables
    assert [each.partition for each in table.directories] == ["ds=1", "ds=2"]
    assert table.size_bytes > 0
    assert not (tmp_path / "c2").exists()


def test_tables_are_replicated_as_of_one_snapshot(metastore: Metastore, days: Session) -> None:
    days.sql("CREATE TABLE other (id int)")
    days.sql("INSERT INTO other VALUES (1)")
    days.sql("CREATE VIEW seen AS SELECT days.id FROM days JOIN other ON days.id = other.id")
    found = metastore.replicator.replicate(["days", "other", "seen"], "c3")
    assert [(each.table, each.is_view) for each in found.tables] == [
        ("default.days", False),
        ("default.other", False),
        ("default.seen", True),
    ]
    with metastore.session(cluster="c3") as secondary:
        assert secondary.explain("SELECT * FROM seen").cluster == "c3"


def test_external_table_is_compared_by_content(metastore: Metastore, session: Session, tmp_path: Path) -> None:
    session.sql("CREATE EXTERNAL TABLE raw (a string) USING csv LOCATION 'raw'")
    folder = tmp_path / "c1" / "raw"
    folder.mkdir(parents=True)
    (folder / "one.csv").write_text("x\n")
    (folder / "two.csv").write_text("y\n")
    of_others = tmp_path / "c2" / "raw" / "sub" / "three.csv"
    of_others.parent.mkdir(parents=True)
    of_others.write_text("of another table")
    with pytest.raises(InvalidOperationError, match="no replication has written it; move it away"):
        metastore.replicator.replicate("raw", "c2")
    assert of_others.read_text() == "of another table"
    of_others.unlink()
    assert metastore.replicator.replicate("raw", "c2").files_copied == 2
    assert metastore.replicator.replicate("raw", "c2").files_copied == 0
    (folder / "one.csv").write_text("z\n")
    (folder / "two.csv").unlink()
    metastore.replicator.replicate("raw", "c2")
    assert sums(tmp_path / "c2", place_on(metastore, "c2", "raw")) == sums(tmp_path / "c1", "raw")
    with metastore.session(cluster="c2") as secondary:
        assert secondary.explain("SELECT * FROM raw").cluster == "c2"


def test_rest_of_a_killed_copy_is_kept_and_finished(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    def fail(progress: CopyProgress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        metastore.replicator.replicate("days", "c2", progress=fail)
    target = tmp_path / "c2" / location_of(metastore, "days")
    one, two = sorted(target.rglob("bucket_*"))
    # As a process leaves them that is killed while it writes.
    one.write_bytes(b"x")
    two.with_name(f".{two.name}.1.copying").write_bytes(b"x")
    found = metastore.replicator.replicate("days", "c2")
    assert (found.files_copied, found.files_kept) == (1, found.tables[0].files - 1)
    assert sums(tmp_path / "c1", location_of(metastore, "days")) == sums(
        tmp_path / "c2", location_of(metastore, "days")
    )
    assert not list(target.rglob(".*copying"))


def test_damaged_source_is_refused(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    file = next((tmp_path / "c1" / location_of(metastore, "days")).rglob("bucket_*"))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(CopyAlteredError, match="are registered"):
        metastore.replicator.replicate("days", "c2")
    file.write_bytes(content)
    metastore.replicator.replicate("days", "c2")
    file.write_bytes(content[:-1] + b"?")
    with pytest.raises(CopyAlteredError, match="checksum"):
        metastore.replicator.replicate("days", "c3")
    with metastore.session(cluster="c3") as secondary:
        assert secondary.explain("SELECT * FROM days").cluster is None


def test_damaged_copy_is_found_and_replaced(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    metastore.replicator.replicate("days", "c2")
    file = next((tmp_path / "c2" / location_of(metastore, "days")).rglob("bucket_*"))
    file.write_bytes(b"?" * file.stat().st_size)
    assert metastore.replicator.replicate("days", "c2").files_copied == 0
    assert metastore.replicator.replicate("days", "c2", verify=True).files_copied == 1
    assert sums(tmp_path / "c1", location_of(metastore, "days")) == sums(
        tmp_path / "c2", location_of(metastore, "days")
    )


def test_compaction_during_the_copy_leaves_a_complete_copy(metastore: Metastore, days: Session) -> None:
    def compact_and_clean(progress: CopyProgress) -> None:
        if progress.files_done == progress.files:
            days.sql("INSERT INTO days PARTITION (ds = '1') VALUES (11)")
            days.sql("DELETE FROM days WHERE ds = '2'")
            metastore.compactor.request("default", "days", "ds=1", "major")
            assert metastore.compactor.work("host-1") is not None
            metastore.compactor.clean()

    metastore.replicator.replicate("days", "c2", progress=compact_and_clean)
    with metastore.session(cluster="c2") as secondary:
        assert secondary.explain("SELECT * FROM days").cluster is None
        metastore.replicator.replicate("days", "c2")
        assert secondary.explain("SELECT * FROM days").cluster == "c2"


def test_second_replication_waits_and_finds_nothing_to_do(metastore: Metastore, days: Session) -> None:
    copied: list[int] = []
    second = threading.Thread(target=lambda: copied.append(metastore.replicator.replicate("days", "c2").files_copied))

    def begin_second(progress: CopyProgress) -> None:
        if not second.is_alive() and progress.files_done == progress.files:
            second.start()

    assert metastore.replicator.replicate("days", "c2", progress=begin_second).files_copied > 0
    second.join(60)
    assert copied == [0]


def test_aborted_replication_registers_nothing(metastore: Metastore, days: Session) -> None:
    def abort(progress: CopyProgress) -> None:
        (running,) = metastore.transactions.show()
        metastore.transactions.abort(running.id, "an operator has stopped it")

    with pytest.raises(TransactionAbortedError, match="an operator"):
        metastore.replicator.replicate("days", "c2", progress=abort)
    with metastore.session(cluster="c2") as secondary:
        assert secondary.explain("SELECT * FROM days").cluster is None
    assert metastore.replicator.replicate("days", "c2").files_copied == 0
    with metastore.session(cluster="c2") as secondary:
        assert secondary.explain("SELECT * FROM days").cluster == "c2"


def test_target_that_is_full_is_reported(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    place = tmp_path / "c2" / location_of(metastore, "days")
    place.parent.mkdir(parents=True)
    place.write_text("a file where a folder has to be")
    with pytest.raises(StorageError, match="c2"):
        metastore.replicator.replicate("days", "c2")
    place.unlink()
    metastore.replicator.replicate("days", "c2")


def test_files_of_the_primary_itself_are_no_copy(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    place = location_of(metastore, "days")
    (tmp_path / "c2" / place).parent.mkdir(parents=True)
    (tmp_path / "c2" / place).symlink_to(tmp_path / "c1" / place)
    with pytest.raises(InvalidOperationError, match="is the file of cluster c1 itself"):
        metastore.replicator.replicate("days", "c2")
    with pytest.raises(CopyMismatchError, match="is the file of the primary itself"):
        metastore.catalog.register_copy("default", "days", "c2")
    days.sql("ALTER TABLE days DROP COPY ON CLUSTER c2")
    assert rows_of(days, "days") == [(1, "1"), (2, "2")]
    (tmp_path / "c2" / place).unlink()
    assert metastore.replicator.replicate("days", "c2").files_copied > 0
    days.sql("ALTER TABLE days DROP COPY ON CLUSTER c2")
    assert rows_of(days, "days") == [(1, "1"), (2, "2")]


def test_a_cluster_that_cannot_run_the_job_leaves_the_copying_to_the_process(
    sqlite_url: str, clusters: dict[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    unreachable = {**clusters, "c2": {**clusters["c2"], "jobtracker": f"sc://localhost:{free_port()}"}}
    options: dict[str, Any] = {"clusters": unreachable, "default_cluster": "c1"}
    settings = {"hivex.replication.job.min.size": 0}
    with Metastore.open(sqlite_url, **options, settings=settings) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        with pytest.raises(ClusterUnreachableError, match="no Spark Connect server answers"):
            metastore.replicator.replicate("t", "c2", copy_cluster="c2")
        assert metastore.replicator.replicate("t", "c2").files_copied > 0
        assert "so that this process copies" in caplog.text
    with Metastore.open(
        sqlite_url, **options, settings={**settings, "hivex.replication.job.cluster": "c9"}
    ) as metastore:
        with metastore.session() as session:
            session.sql("INSERT INTO t VALUES (2)")
        with pytest.raises(UnknownClusterError):
            metastore.replicator.replicate("t", "c2")
        with pytest.raises(UnknownClusterError):
            metastore.replicator.replicate("t", "c2", copy_cluster="c8")


def test_wrong_requests_are_refused(metastore: Metastore, days: Session) -> None:
    replicate = metastore.replicator.replicate
    with pytest.raises(UnknownClusterError):
        replicate("days", "c9")
    with pytest.raises(NoSuchTableError):
        replicate("nothing", "c2")
    with pytest.raises(NoSuchPartitionError):
        replicate("days", "c2", ["ds=7"])
    with pytest.raises(InvalidOperationError, match="primary"):
        replicate("days", "c1")
    with pytest.raises(InvalidParametersError):
        replicate("days", "c2", threads=0)
    assert metastore.transactions.show() == [] or all(each.reason is not None for each in metastore.transactions.show())


def test_command_copies_and_lists(
    metastore_url: str, metastore: Metastore, days: Session, clusters: object, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--metastore", metastore_url, "--clusters", json.dumps(clusters), "--default-cluster", "c1"]
    command = ["replicate", "default.days", "--to", "c2", "--output", "csv", *options]
    assert main([*command, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "default.days,ds=1,delta_0000002_0000002_0000,c1," in planned
    assert main(command) == 0
    assert capsys.readouterr().out == planned
    assert main([*command, "--verify"]) == 0
    assert "delta" not in capsys.readouterr().out


def test_replication_of_no_partition_says_so(metastore: Metastore, days: Session) -> None:
    result = days.sql("REPLICATE TABLE days PARTITION (ds > '2') TO CLUSTER c2")
    (row,) = (dict(zip(result.columns, row, strict=True)) for row in result.rows)
    assert (row["table"], row["files"], row["bytes"], row["note"]) == ("default.days", 0, 0, "no partition matches")
    with pytest.raises(NoSuchPartitionError, match="has no partition ds=9;"):
        days.sql("REPLICATE TABLE days PARTITION (ds = '9') TO CLUSTER c2")
    with pytest.raises(NoSuchPartitionError, match="has no partition ds=__HIVE_DEFAULT_PARTITION__;"):
        days.sql("REPLICATE TABLE days PARTITION (ds = NULL) TO CLUSTER c2")
    assert metastore.replicator.replicate("days", "c2", partition_filter="ds > 2").tables == ()
    with pytest.raises(InvalidOperationError, match="primary"):
        days.sql("REPLICATE TABLE days PARTITION (ds > '2') TO CLUSTER c1")
    with pytest.raises(InvalidOperationError, match="primary"):
        metastore.replicator.replicate("days", "c1", partition_filter="ds > '2'")
    with pytest.raises(UnknownClusterError):
        days.sql("REPLICATE TABLE days PARTITION (ds > '2') TO CLUSTER c9")


def test_statements_replicate_show_and_drop_copies(metastore: Metastore, days: Session, tmp_path: Path) -> None:
    days.sql("REPLICATE TABLE days PARTITION (ds < '2') TO CLUSTER c2")
    assert [row[:4] for row in days.sql("SHOW COPIES days").rows] == [
        ("ds=1", "c1", "primary", "current"),
        ("ds=1", "c2", "secondary", "current"),
        ("ds=2", "c1", "primary", "current"),
    ]
    result = days.sql("REPLICATE TABLE default.days TO CLUSTER c2")
    assert [row[1] for row in result.rows] == ["ds=2"]
    days.sql("INSERT INTO days PARTITION (ds = '1') VALUES (11)")
    copies = days.sql("SHOW COPIES days")
    shown = [dict(zip(copies.columns, row, strict=True)) for row in copies.rows]
    stale = next(each for each in shown if each["state"] == "stale")
    assert (stale["partition"], stale["cluster"], stale["lacking_directories"]) == ("ds=1", "c2", 1)
    assert isinstance(stale["lag_s"], int)
    assert (stale["lag_commits"], stale["write_id"]) == (1, 2)
    days.sql("ALTER TABLE days PARTITION (ds = '1') DROP COPY ON CLUSTER c2")
    place = tmp_path / "c2" / location_of(metastore, "days")
    assert [each.name for each in place.iterdir()] == ["ds=2"]
    assert not [row for row in days.sql("SHOW COPIES days").rows if row[:2] == ("ds=1", "c2")]
    days.sql("ALTER TABLE days DROP COPY ON CLUSTER c2")
    assert not list(place.rglob("bucket_*"))
    assert {row[1] for row in days.sql("SHOW COPIES days").rows} == {"c1"}
    with pytest.raises(InvalidOperationError, match="primary"):
        days.sql("ALTER TABLE days DROP COPY ON CLUSTER c1")
    days.sql("REPLICATE TABLE days TO CLUSTER c2")
    assert sums(tmp_path / "c1", location_of(metastore, "days")) == sums(
        tmp_path / "c2", location_of(metastore, "days")
    )
