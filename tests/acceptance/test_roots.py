"""The root of a cluster's file system is known by its marker: a missing mount is no empty root. No Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clusters.roots import MARKER
from airflow_hivex.core.errors import ForeignRootError, RootMissingError
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
        metastore._services.store.write(lambda connection: connection.execute(delete(cluster_roots)))
    unmount(root)
    assert "Is it not mounted?" in change(metastore)
    assert list(root.iterdir()) == []
    found = {each.kind for each in metastore.doctor.examine(cluster="c1")}
    assert found == {FindingKind.MISSING if is_upgraded else FindingKind.UNREACHABLE}
    mount(root)
    t.sql("INSERT INTO t VALUES (4, 4)")
    assert (root / MARKER).exists()
    assert metastore.doctor.examine() == []


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
        assert "is the root of cluster c1" in capsys.readouterr().out
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


@pytest.mark.parametrize("left", [None, "", "whole"])
def test_a_marker_that_its_writer_did_not_finish_is_finished(
    metastore: Metastore, t: Session, root: Path, left: str | None
) -> None:
    whole = (root / MARKER).read_text()
    metastore._services.store.write(
        lambda connection: connection.execute(update(cluster_roots).values(is_marked=False))
    )
    metastore._services.roots._known.clear()
    if left is None:
        (root / MARKER).unlink()
    else:
        (root / MARKER).write_text(whole if left else "")
    t.sql("INSERT INTO t VALUES (3, 3)")
    assert (root / MARKER).read_text() == whole
