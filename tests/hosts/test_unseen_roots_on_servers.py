"""A Spark Connect server that does not see the folder of its cluster: a statement is an error, and changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import FolderExpectedError, HivexError, RootUnseenError, WrittenRowsMissingError
from tests.connect_server import server_on
from tests.hosts.hidden_roots import (
    MARKER,
    READS,
    WRITES,
    Hosts,
    check_refused,
    fill,
    run_all,
)
from tests.hosts.networks import Network

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CASES = ("empty", "foreign")
"""Clusters whose root is an empty folder for the server, or another file system."""
BELOW = "below"
"""A cluster whose root the server sees, with an empty folder in place of one below it."""
STATEMENTS = {
    f"{kind}-{name}": text for kind, all_ in (("read", READS), ("write", WRITES)) for name, text in all_.items()
}
HIDDEN = {"missing": "k=a", "empty": "k=a/n=c d"}
"""Folders of a table there that are empty for the server: the parent of a partition's folder, and that itself."""
LONG = pytest.mark.evidence(cases=1, among="statements on servers without the root of their cluster")


@pytest.fixture(scope="module")
def hosts(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    apart = [f"{BELOW}/apart/{key}/{place}" for key, place in HIDDEN.items()]
    for name in (*CASES, "other", f"{BELOW}/outside", *apart):
        (folder / name).mkdir(parents=True)
    hidden = (
        f"mount -t tmpfs none {folder}/empty",
        f"mount -t tmpfs none {folder}/{BELOW}/outside",
        *(f"mount -t tmpfs none '{folder}/{name}'" for name in apart),
        f"mount --bind {folder}/other {folder}/foreign",
    )
    with server_on(network.add("server", [folder], hidden)) as server:
        clusters = {name: {"filesystem": (folder / name).as_uri(), "jobtracker": server} for name in (*CASES, BELOW)}
        url = f"sqlite:///{folder}/m.db"
        with Metastore.open(url, clusters=clusters, default_cluster=BELOW) as metastore:
            found = Hosts(metastore, folder, clusters, url)
            for case in (*CASES, BELOW):
                fill(found, case)
            shutil.copytree(folder / "foreign", folder / "other", dirs_exist_ok=True)
            (folder / "other" / MARKER).write_text(json.dumps({"root": "another", "cluster": "foreign"}))
            yield found


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_is_refused_and_changes_nothing(hosts: Hosts, case: str, statement: str) -> None:
    text = STATEMENTS[statement].format(f"on_{case}", hosts.root(case).as_uri(), case)
    check_refused(hosts, case, None, lambda session: run_all(session, text))


@LONG
@pytest.mark.parametrize("case", CASES)
def test_compaction_fails_and_changes_nothing(hosts: Hosts, case: str) -> None:
    before = hosts.contents(case)
    assert hosts.metastore.compactor.request(f"on_{case}", "t", None, "major").is_accepted
    done = hosts.metastore.compactor.work("host-1")
    assert done is not None
    assert "does not see the root" in str(done.error_message), done
    assert hosts.contents(case) == before


@LONG
@pytest.mark.parametrize("case", CASES)
def test_copying_job_is_refused_and_registers_no_copy(hosts: Hosts, case: str) -> None:
    for table, target, cluster in ((f"on_{BELOW}.t", case, BELOW), (f"on_{case}.t", BELOW, BELOW)):
        with pytest.raises(RootUnseenError):
            hosts.metastore.replicator.replicate(table, target, copy_cluster=cluster)


@LONG
@pytest.mark.parametrize("case", CASES)
def test_export_for_hive_is_refused_and_leaves_no_files(hosts: Hosts, case: str) -> None:
    folder = hosts.root(case) / "exported"
    check_refused(hosts, case, None, lambda session: session.export_for_hive(f"on_{case}.t", folder))


def test_rows_that_the_server_wrote_out_of_sight_are_missed(hosts: Hosts) -> None:
    before = hosts.contents(BELOW)
    for name in ("external", "external-overwrite"):
        with hosts.session(BELOW) as session, pytest.raises(WrittenRowsMissingError, match="1000 rows"):
            session.sql(WRITES[name].format(f"on_{BELOW}"))
    assert hosts.contents(BELOW) == before


def test_folder_that_is_empty_for_the_server_is_no_empty_table(hosts: Hosts) -> None:
    with hosts.session(BELOW) as session:
        with pytest.raises(RootUnseenError, match="outside/e"):
            session.sql(READS["external"].format(f"on_{BELOW}"))
        assert session.sql(READS["select"].format(f"on_{BELOW}")).rows == [(40,)]


@pytest.mark.parametrize("key", HIDDEN)
def test_partition_that_is_empty_for_the_server_is_no_empty_partition(hosts: Hosts, key: str) -> None:
    """The server sees the files of another partition."""
    table = f"on_{BELOW}.{key}"
    folder = hosts.root(BELOW) / "apart" / key
    with hosts.session(BELOW) as session:
        session.sql(
            f"CREATE EXTERNAL TABLE {table} (id bigint) PARTITIONED BY (k string, n string) STORED AS PARQUET "
            f"LOCATION '{folder.as_uri()}'"
        )
        for k in "ab":
            session.sql(f"ALTER TABLE {table} ADD PARTITION (k = '{k}', n = 'c d')")
            place = folder / f"k={k}" / "n=c d"
            place.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.table({"id": pa.array([1], pa.int64())}), place / "rows.parquet")
        assert session.sql(f"SELECT id FROM {table} WHERE k = 'b'").rows == [(1,)]
        with pytest.raises(RootUnseenError, match="k=a"):
            session.sql(f"SELECT count(*) FROM {table}")
        session.sql(f"DROP TABLE {table}")


def test_file_in_the_place_of_a_table_is_an_error_whether_the_server_sees_it_or_not(hosts: Hosts) -> None:
    with hosts.session(BELOW) as session:
        for name in ("outside/file", "file"):
            place = hosts.root(BELOW) / name
            session.sql(f"CREATE EXTERNAL TABLE on_{BELOW}.f (id bigint) STORED AS PARQUET LOCATION '{place.as_uri()}'")
            shutil.rmtree(place, ignore_errors=True)
            place.write_bytes(b"")
            with pytest.raises(FolderExpectedError, match=f"{name} is a file"):
                session.sql(f"SELECT * FROM on_{BELOW}.f")
            with pytest.raises(HivexError, match=name):
                session.sql(f"INSERT INTO on_{BELOW}.f SELECT id FROM range(10)")
            session.sql(f"DROP TABLE on_{BELOW}.f")
