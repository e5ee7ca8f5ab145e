"""The cache of metadata of an open metastore, and of several processes."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.cache.counting import Kind, Miss
from airflow_hivex.core.errors import InvalidSettingError
from tests.acceptance.cache_process import read_while_others_write
from tests.processes import ClientProcess
from tests.round_trips import counted
from tests.waiting import wait_until

CREATE = "CREATE TABLE p (a int) PARTITIONED BY (d string)"
P = ("default", "p")
Clusters = dict[str, dict[str, str]]


@pytest.fixture(autouse=True)
def with_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about the cache, whatever the others of the run do."""
    monkeypatch.delenv("HIVEX_RAWSTORE_IMPL", raising=False)


def change(metastore: Metastore) -> None:
    """Change property and partitions in one transaction, in two calls."""
    catalog, transactions = metastore.catalog, metastore.transactions
    (txn_id,) = transactions.open()
    write_id = transactions.allocate_write_ids([txn_id], *P)[txn_id]
    ids = transactions.valid_write_ids(["default.p"], transactions.valid_txns(txn_id))["default.p"]
    table = catalog.get_table(*P, ids)
    changed = replace(table.definition, parameters={**table.parameters, "w": str(write_id)})
    catalog.alter_table(*P, changed, ids, txn_id)
    catalog.add_partitions(*P, [catalog.new_partition(table, [f"w{write_id}"])], ids, txn_id=txn_id)
    transactions.commit(txn_id)


@pytest.mark.every_backend
def test_no_process_answers_what_others_have_changed(
    metastore: Metastore, session: Session, metastore_url: str, clusters: Clusters, tmp_path: Path
) -> None:
    session.sql(CREATE)
    folders = [tmp_path / name for name in ("near", "far")]
    for folder in folders:
        folder.mkdir()
    readers = [
        ClientProcess(read_while_others_write, metastore_url, clusters, "default.p", folder, log=folder / "log")
        for folder in folders
    ]
    with readers[0], readers[1]:
        wait_until(lambda: all((folder / "ready").exists() or (folder / "log").exists() for folder in folders))
        for number in range(30):
            change(metastore)
            if number % 5 == 0:
                (aborted,) = metastore.transactions.open()
                metastore.transactions.allocate_write_ids([aborted], *P)
                metastore.transactions.abort(aborted)
        for folder in folders:
            (folder / "stop").touch()
        codes = [reader.wait() for reader in readers]
    assert codes == [0, 0], [folder.joinpath("log").read_text() for folder in folders if (folder / "log").exists()]
    assert all(json.loads((folder / "counts").read_text())["hits"] > 0 for folder in folders)


@pytest.mark.every_backend
def test_prewarmed_tables_are_answered_from_memory_while_others_change_them(
    metastore: Metastore, session: Session, metastore_url: str, clusters: Clusters
) -> None:
    session.sql(CREATE)
    for number in range(8):
        session.sql(f"CREATE TABLE t{number} (a int)")
    session.sql("INSERT INTO t3 VALUES (1)")
    session.sql("CREATE VIEW v AS SELECT a FROM t1")
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            change(metastore)

    writer = threading.Thread(target=write)
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as other:
        assert other.cache is not None
        writer.start()
        try:
            found = other.cache.prewarm()
        finally:
            stop.set()
            writer.join()
        assert (found.tables, found.is_complete) == (10, True)
        names = [f"default.t{number}" for number in range(8)]
        lists = other.transactions.valid_write_ids([*names, "default.p"], other.transactions.valid_txns())
        with counted(other.services.store) as trips:
            for name in names:
                other.catalog.get_table(*name.split("."), lists[name])
        assert not trips
        assert other.catalog.get_table(*P, lists["default.p"]) == metastore.catalog.get_table(*P)
        assert other.catalog.list_partition_names(
            *P, None, lists["default.p"]
        ) == metastore.catalog.list_partition_names(*P)


def test_prewarm_ends_with_the_memory_and_when_it_is_cancelled(
    session: Session, metastore_url: str, clusters: Clusters
) -> None:
    for number in range(8):
        session.sql(f"CREATE TABLE t{number} (a int)")
    settings = {"metastore.cached.rawstore.max.cache.memory": "8kb"}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as other:
        assert other.cache is not None
        found = other.cache.prewarm()
        assert 0 < found.tables < 8
        assert not found.is_complete
        assert found.used_bytes <= 2**13
        assert other.catalog.get_table("default", "t0").name == "t0"


def test_caches_of_all_processes_are_listed(
    metastore: Metastore,
    session: Session,
    metastore_url: str,
    clusters: Clusters,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session.sql(CREATE)
    settings = {"metastore.cache.can.use.event": True, "hivex.cache.prewarm": True}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as other:
        wait_until(lambda: bool(metastore.registered_caches()))
        options = ["--metastore", metastore_url, "--clusters", json.dumps(clusters), "--default-cluster", "c1"]
        assert main([*options, "metastore", "cache", "--output", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["columns"][:4] == ["host", "process", "started", "seen"]
        assert len(shown["rows"]) == 1
        assert other.cache is not None
        assert other.cache.state().lag == 0
    assert metastore.registered_caches() == []


def test_counts_name_the_reason_of_each_question(metastore: Metastore, session: Session) -> None:
    session.sql(CREATE)
    assert metastore.cache is not None
    session.sql("INSERT INTO p PARTITION (d = 'x') VALUES (1)")
    session.snapshot_files("p")
    session.sql("INSERT INTO p PARTITION (d = 'x') VALUES (1)")
    session.snapshot_files("p")
    session.snapshot_files("p")
    state = metastore.cache.state()
    assert state.misses[Kind.CONTENTS, Miss.STALE] >= 1
    assert state.hits[Kind.CONTENTS] >= 1
    assert any(miss.detail.startswith("write id") for miss in state.recent_misses)
    assert 0 < state.used_bytes < state.most_bytes


def test_metastore_without_a_cache(
    session: Session, metastore_url: str, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql(CREATE)
    monkeypatch.setenv("HIVEX_RAWSTORE_IMPL", "ObjectStore")
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as other:
        assert other.cache is None
        assert other.catalog.get_table(*P).name == "p"
    settings = {"metastore.rawstore.impl": "org.apache.hadoop.hive.metastore.cache.CachedStore"}
    with Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as other:
        assert other.cache is not None
    monkeypatch.setenv("HIVEX_RAWSTORE_IMPL", "Memory")
    with pytest.raises(InvalidSettingError):
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1")


def test_pattern_that_is_not_a_regular_expression_is_refused(metastore_url: str, clusters: Clusters) -> None:
    settings = {"metastore.cached.rawstore.cached.object.blacklist": "hive[.](sales"}
    with pytest.raises(InvalidSettingError):
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings)
