"""A cluster whose files lie in an object store: all that needs no Spark, through a server of S3."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import StorageError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.files.object_stores import open_object_store
from tests.object_store import ObjectStore

ROOT = "warehouse"


@pytest.fixture
def bucket(object_store: ObjectStore) -> str:
    return object_store.create_bucket()


@pytest.fixture
def metastore(sqlite_url: str, object_store: ObjectStore, bucket: str, tmp_path: Path) -> Iterator[Metastore]:
    clusters = {
        "cloud": {
            "filesystem": f"s3a://{bucket}/{ROOT}",
            "jobtracker": "local[2]",
            "storage_options": object_store.options,
        },
        "disk": {"filesystem": (tmp_path / "disk").as_uri(), "jobtracker": "local[2]"},
    }
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="cloud") as metastore:
        yield metastore


@pytest.fixture
def files(object_store: ObjectStore, bucket: str) -> ClusterFiles:
    return ClusterFiles(f"s3a://{bucket}/{ROOT}", object_store.options)


def test_rows_are_written_where_the_table_lies(
    metastore: Metastore, files: ClusterFiles, object_store: ObjectStore, bucket: str
) -> None:
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id int, v string) PARTITIONED BY (k string)")
        session.sql("INSERT INTO t VALUES (1, 'a', 'x/y'), (2, 'b', 'Zürich'), (3, 'c', NULL)")
        session.sql("INSERT INTO t VALUES (4, 'd', 'x/y')")
        assert session.sql("SHOW PARTITIONS t").rows == [
            ("k=Zürich",),
            ("k=__HIVE_DEFAULT_PARTITION__",),
            ("k=x%2Fy",),
        ]
        assert sorted(session.to_arrow("t", filter="k = 'x/y'")["id"].to_pylist()) == [1, 4]
    there = files.list_files("default.db/t")
    assert sorted(there) == [
        "k=Zürich/delta_0000002_0000002_0000/bucket_00000",
        "k=__HIVE_DEFAULT_PARTITION__/delta_0000002_0000002_0000/bucket_00000",
        "k=x%2Fy/delta_0000002_0000002_0000/bucket_00000",
        "k=x%2Fy/delta_0000003_0000003_0000/bucket_00000",
    ]
    store = open_object_store(f"s3a://{bucket}", object_store.options)
    path = f"{bucket}/{ROOT}/default.db/t/k=x%2Fy/delta_0000003_0000003_0000/bucket_00000"
    with store.open_input_file(path) as file:
        assert orc.ORCFile(file).read(["id", "v"]).to_pylist() == [{"id": 4, "v": "d"}]


@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_what_is_rolled_back_truncated_or_dropped_goes(metastore: Metastore, files: ClusterFiles, layout: str) -> None:
    with metastore.session() as session:
        session.sql(f"CREATE TABLE t (id int) PARTITIONED BY (k int) TBLPROPERTIES ('hivex.row.layout' = '{layout}')")
        session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        before = files.list_files("")
        session.sql("START TRANSACTION")
        session.sql("INSERT INTO t VALUES (3, 3)")
        session.sql("ROLLBACK")
        assert files.list_files("") == before
        session.sql("ALTER TABLE t PARTITION (k = 1) RENAME TO PARTITION (k = 9)")
        assert {name.split("/")[2] for name in files.list_files("")} == {"k=2", "k=9"}
        session.sql("ALTER TABLE t DROP PARTITION (k = 9)")
        session.sql("TRUNCATE TABLE t")
        assert list(metastore.doctor.examine()) == []
        session.sql("DROP TABLE t")
    assert files.list_entries("default.db") == []


@pytest.mark.spark
def test_tasks_of_a_copy_job_have_the_keys_of_the_client(metastore: Metastore) -> None:
    with metastore.session() as session:
        session.sql("USE CLUSTER disk")
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        metastore.replicator.replicate("default.t", "cloud", copy_cluster="disk")
        metastore.primaries.change("default.t", "cloud")
        session.sql("USE CLUSTER")
        session.sql("INSERT INTO t VALUES (2)")
        metastore.replicator.replicate("default.t", "disk", copy_cluster="disk")
        session.sql("USE CLUSTER cloud")
        assert sorted(session.to_arrow("t")["id"].to_pylist()) == [1, 2]
        session.sql("USE CLUSTER disk")
        assert session.sql("SELECT sum(id) FROM t").rows == [(3,)]


def test_a_copy_from_a_disk_is_compared_and_registered(
    metastore: Metastore, object_store: ObjectStore, bucket: str, tmp_path: Path
) -> None:
    store = open_object_store(f"s3a://{bucket}", object_store.options)
    with metastore.session() as session:
        session.sql("USE CLUSTER disk")
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
        session.sql("USE CLUSTER")
        for file in (tmp_path / "disk" / "default.db" / "t").rglob("*"):
            if file.is_file():
                name = str(file.relative_to(tmp_path / "disk"))
                with store.open_output_stream(f"{bucket}/{ROOT}/{name}") as target:
                    target.write(file.read_bytes())
        metastore.catalog.register_copy("default", "t", "cloud")
        assert metastore.catalog.get_table("default", "t").storage.secondaries[0].cluster == "cloud"
        for cluster in ("cloud", "disk"):
            session.sql(f"USE CLUSTER {cluster}")
            assert session.to_arrow("t").to_pydict() == {"id": [1]}


def test_the_keys_of_a_store_are_not_shown(metastore: Metastore, object_store: ObjectStore) -> None:
    with metastore.session() as session:
        shown = [session.sql("SHOW CLUSTERS").rows, metastore.clusters, object_store.options["secret"]]
    assert object_store.options["secret"] not in str(shown[:2])


def test_a_store_that_hangs_is_a_cluster_that_is_not_there(
    sqlite_url: str, object_store: ObjectStore, bucket: str, tmp_path: Path
) -> None:
    clusters = {
        "cloud": {
            "filesystem": f"s3a://{bucket}/{ROOT}",
            "jobtracker": "local[2]",
            "storage_options": object_store.options,
        },
        "disk": {"filesystem": (tmp_path / "disk").as_uri(), "jobtracker": "local[2]"},
    }
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="cloud") as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (id int)")
        session.sql("INSERT INTO t VALUES (1)")
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        asked: list[int] = []
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        clusters["cloud"]["storage_options"] = {**object_store.options, "endpoint_url": silent_url}
        with (
            Metastore.open(sqlite_url, clusters=clusters, default_cluster="cloud") as metastore,
            metastore.session() as session,
        ):
            for _ in range(3):
                with pytest.raises(
                    StorageError, match=f"object store at {silent_url} has not answered for 5 seconds. Check"
                ):
                    session.sql("SELECT * FROM t")
                asked.append(accepted(silent))
        # The first one has waited, and the others know.
        assert asked[0] > 0
        # The client of S3 may repeat the first request meanwhile.
        assert sum(asked[1:]) < 2


def accepted(listening: socket.socket) -> int:
    """The number of clients that have come since the last call."""
    listening.setblocking(False)
    for count in itertools.count():
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return count
    raise AssertionError
