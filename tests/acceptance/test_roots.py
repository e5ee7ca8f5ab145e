"""The root of a cluster's file system is known by its marker: a missing mount is not an empty root. No Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlalchemy import delete, update

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.clusters.roots import MARKER, Roots
from airflow_hivex.core.errors import ForeignRootError, InvalidObjectError, InvalidOperationError, RootMissingError
from airflow_hivex.core.model.cleaning import CleaningOutcome
from airflow_hivex.core.model.findings import FindingKind
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.store.schema import cluster_roots

Clusters = dict[str, dict[str, str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "c1"


@pytest.fixture
def t(session: Session) -> Session:
    session.sql("CREATE TABLE t (id int) PARTITIONED BY (p int)")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    return session


def unmount(root: Path) -> None:
    """What is left is the folder on which nothing is mounted."""
    root.rename(root.with_suffix(".disk"))
    root.mkdir()


def mount(root: Path) -> None:
    root.rmdir()
    root.with_suffix(".disk").rename(root)


def insert(metastore: Metastore) -> str:
    with metastore.session() as session, pytest.raises(RootMissingError) as caught:
        session.sql("INSERT INTO t VALUES (3, 3)")
    return str(caught.value)


def rename(metastore: Metastore) -> str:
    with metastore.session() as session, pytest.raises(RootMissingError) as caught:
        session.sql("ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 7)")
    return str(caught.value)


def clean(metastore: Metastore) -> str:
    (task,) = metastore.compactor.plan_clean()
    assert task.outcome is CleaningOutcome.FAILED
    return str(task.message)


def compact(metastore: Metastore) -> str:
    metastore.compactor.request("default", "t", "p=1", "major")
    done = metastore.compactor.work("host-1")
    assert done is not None
    return str(done.error_message)


@pytest.mark.parametrize("change", [insert, rename, clean, compact])
@pytest.mark.parametrize("is_upgraded", [False, True])
def test_root_that_is_not_mounted_is_not_changed(
    metastore: Metastore, t: Session, root: Path, change: Callable[[Metastore], str], *, is_upgraded: bool
) -> None:
    (txn_id,) = metastore.transactions.open()
    metastore.transactions.allocate_write_ids([txn_id], "default", "t", operation=Operation.INSERT, partition="p=1")
    metastore.transactions.abort(txn_id)
    if is_upgraded:
        # By a release without markers.
        (root / MARKER).unlink()
        metastore.services.store.write(lambda connection: connection.execute(delete(cluster_roots)))
    unmount(root)
    assert "Is it not mounted?" in change(metastore)
    assert list(root.iterdir()) == []
    found = {each.kind for each in metastore.doctor.examine(cluster="c1")}
    assert found == {FindingKind.MISSING if is_upgraded else FindingKind.UNREACHABLE}
    mount(root)
    t.sql("INSERT INTO t VALUES (4, 4)")
    assert (root / MARKER).exists()
    assert metastore.doctor.examine() == []


def test_partitions_are_not_dropped_because_the_root_is_not_mounted(t: Session, root: Path) -> None:
    t.sql("CREATE EXTERNAL TABLE e (id int) PARTITIONED BY (p int) STORED AS ORC LOCATION 'e'")
    t.sql("INSERT INTO e VALUES (1, 1), (2, 2)")
    unmount(root)
    for statement in ("MSCK REPAIR TABLE e SYNC PARTITIONS", "MSCK REPAIR TABLE e DROP PARTITIONS"):
        with pytest.raises(RootMissingError):
            t.sql(statement)
    assert t.sql("SHOW PARTITIONS e").rows == [("p=1",), ("p=2",)]
    mount(root)
    assert t.sql("SELECT * FROM e ORDER BY id").rows == [(1, 1), (2, 2)]


@pytest.mark.parametrize(
    "read",
    [
        lambda session: session.to_arrow("x"),
        lambda session: session.to_batches("x").read_all(),
        lambda session: session.snapshot_files("x"),
        lambda session: session.sql("ANALYZE TABLE x COMPUTE STATISTICS NOSCAN"),
        lambda session: session.sql("LOAD DATA INPATH 'landing' INTO TABLE t"),
    ],
    ids=["to_arrow", "to_batches", "snapshot_files", "ANALYZE", "LOAD"],
)
def test_an_external_table_is_not_empty_because_the_root_is_not_mounted(
    t: Session, root: Path, read: Callable[[Session], object]
) -> None:
    t.sql("CREATE EXTERNAL TABLE x (id bigint) STORED AS PARQUET LOCATION 'files'")
    (root / "files").mkdir()
    parquet.write_table(pa.table({"id": [1, 2]}), root / "files" / "f")
    # The health of the cluster is remembered for some seconds.
    assert t.to_arrow("x").num_rows == 2
    unmount(root)
    with pytest.raises(RootMissingError):
        read(t)
    mount(root)
    assert t.to_arrow("x").num_rows == 2


def test_files_of_what_is_dropped_go_once_the_root_is_back(metastore: Metastore, t: Session, root: Path) -> None:
    unmount(root)
    t.sql("ALTER TABLE t DROP PARTITION (p = 1)")
    mount(root)
    (finding,) = metastore.doctor.examine()
    assert finding.kind is FindingKind.DROPPED


def test_two_metastores_do_not_share_a_root(
    metastore: Metastore,
    t: Session,
    root: Path,
    tmp_path: Path,
    clusters: Clusters,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with Metastore.open(url, clusters=clusters, default_cluster="c1") as other, other.session() as session:
        session.sql("CREATE TABLE mine (id int)")
        with pytest.raises(ForeignRootError, match="hivex metastore accept-root c1"):
            session.sql("INSERT INTO mine VALUES (1)")
        assert not list(root.glob("**/mine/delta*"))
        options = ["--metastore", url, "--clusters", json.dumps(clusters), "--default-cluster", "c1"]
        assert main([*options, "metastore", "accept-root", "c1"]) == 0
        assert "is now the root of cluster c1" in capsys.readouterr().out
        session.sql("INSERT INTO mine VALUES (1)")
    with pytest.raises(ForeignRootError):
        t.sql("INSERT INTO t VALUES (3, 3)")
    assert "ForeignRoot" not in str(metastore.doctor.examine(cluster="c1")[0].message)
    assert metastore.accept_root("c1") == 2
    t.sql("INSERT INTO t VALUES (3, 3)")


def test_a_lost_root_is_accepted_by_hand(metastore: Metastore, t: Session, root: Path) -> None:
    shutil.rmtree(root)
    insert(metastore)
    assert not root.exists()
    metastore.accept_root("c1")
    t.sql("INSERT INTO t VALUES (3, 3)")
    assert {each.kind for each in metastore.doctor.examine()} == {FindingKind.MISSING}


def test_many_who_use_a_root_first_agree_on_its_marker(metastore: Metastore, clusters: Clusters, root: Path) -> None:
    store = metastore.services.store
    for _ in range(20):
        shutil.rmtree(root, ignore_errors=True)
        store.write(lambda connection: connection.execute(delete(cluster_roots)))
        users = [Roots(store, metastore.clusters, system_clock) for _ in range(8)]
        with ThreadPoolExecutor(len(users)) as pool:
            for done in [pool.submit(user.check, "c1") for user in users]:
                done.result()
        assert [path.name for path in root.iterdir()] == [MARKER]
        for user in users:
            user.check("c1")


@pytest.mark.parametrize("left", [None, "", "whole"])
def test_a_marker_that_its_writer_did_not_finish_is_finished(
    metastore: Metastore, metastore_url: str, clusters: Clusters, t: Session, root: Path, left: str | None
) -> None:
    whole = (root / MARKER).read_text()
    metastore.services.store.write(lambda connection: connection.execute(update(cluster_roots).values(is_marked=False)))
    if left is None:
        (root / MARKER).unlink()
    else:
        (root / MARKER).write_text(whole if left else "")
    # The first one has seen the marker, and does not look again.
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as other, other.session() as session:
        session.sql("INSERT INTO t VALUES (3, 3)")
    assert (root / MARKER).read_text() == whole


# -- locations ---------------------------------------------------------------------------


@pytest.fixture
def places(metastore: Metastore, session: Session, root: Path, tmp_path: Path) -> Session:
    """A managed table ``m``, external ones ``e`` and ``f`` with a partition apart, a file, and links that lead away."""
    session.sql("CREATE TABLE m (id int) PARTITIONED BY (p int)")
    session.sql("INSERT INTO m VALUES (1, 1)")
    session.sql("CREATE TABLE copied (id int) LOCATION 'copied'")
    session.sql("CREATE EXTERNAL TABLE e (id int) USING csv PARTITIONED BY (p int) LOCATION 'e'")
    session.sql("ALTER TABLE e ADD PARTITION (p = 1) LOCATION 'apart/1'")
    (root / "e").mkdir()
    (root / "e" / "x.csv").write_text("1\n")
    (root / "a[1]").mkdir()
    (tmp_path / "outside").mkdir()
    (root / "away").symlink_to(tmp_path / "outside")
    (root / "inside").symlink_to(root / "e")
    (root / "managed").symlink_to(root / "default.db" / "m")
    return session


LOCATIONS = [
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'default.db/m'", "apart from that of table default.m"),
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'default.db/m/p=1'", "apart from that of table default.m"),
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'default.db'", "apart from that of table default.m"),
    ("CREATE TABLE n (id int) LOCATION 'apart'", "apart from that of a partition of table default.e"),
    ("CREATE TABLE n (id int) LOCATION 'apart/1/below'", "apart from that of a partition of table default.e"),
    ("LOAD DATA INPATH 'apart/1' INTO TABLE m PARTITION (p = 1)", "belongs to a partition of table default.e"),
    ("CREATE EXTERNAL TABLE n (id int) USING csv LOCATION 'e/*.csv'", "is a pattern"),
    ("CREATE EXTERNAL TABLE n (id int) USING csv LOCATION 'e/{x,y}.csv'", "is a pattern"),
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'e/p=[12]'", "is a pattern"),
    ("CREATE EXTERNAL TABLE n (id int) USING csv LOCATION 'e/x.csv'", "is a file"),
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'e/x.csv'", "is a file"),
    ("CREATE EXTERNAL TABLE n (id int) USING csv LOCATION 'away'", "symbolic links to .*outside"),
    ("CREATE TABLE n (id int) LOCATION 'away/below'", "symbolic links to .*outside/below"),
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'away'", "symbolic links to .*outside"),
    ("CREATE EXTERNAL TABLE n (id int) LOCATION 'managed'", "symbolic links to the files of table default.m"),
    ("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'managed/p=1'", "symbolic links to the files of table default.m"),
    ("ALTER TABLE e SET LOCATION 'managed'", "symbolic links to the files of table default.m"),
    ("CREATE TABLE n (id int) LOCATION 'inside'", "symbolic links to the files of table default.e"),
    ("CREATE DATABASE d LOCATION 'away/d'", "symbolic links to .*outside/d"),
    ("ALTER DATABASE default SET LOCATION 'away/d'", "symbolic links to .*outside/d"),
    ("LOAD DATA INPATH 'away' INTO TABLE m PARTITION (p = 1)", "symbolic links to .*outside"),
]


def test_location_that_is_no_folder_of_its_own_is_refused(places: Session) -> None:
    for statement, reason in LOCATIONS:
        with pytest.raises((InvalidObjectError, InvalidOperationError), match=reason):
            places.sql(statement)
    assert places.sql("SHOW TABLES").rows == [("copied",), ("e",), ("m",)]
    places.sql("CREATE EXTERNAL TABLE n (id int) USING csv LOCATION 'a[1]'")
    places.sql("ALTER TABLE e ADD PARTITION (p = 2) LOCATION 'inside'")
    places.sql("ALTER TABLE e ADD PARTITION (p = 3) LOCATION 'not there yet'")


def test_copies_of_managed_tables_are_apart_too(
    metastore: Metastore, places: Session, root: Path, tmp_path: Path
) -> None:
    places.sql("INSERT INTO copied VALUES (1)")
    shutil.copytree(root / "copied", tmp_path / "c2" / "copied")
    metastore.catalog.register_copy("default", "copied", "c2")
    places.sql("USE CLUSTER c2")
    with pytest.raises(InvalidObjectError, match=r"apart from that of the copy of table default\.copied"):
        places.sql("CREATE EXTERNAL TABLE n (id int) USING csv LOCATION 'copied'")
