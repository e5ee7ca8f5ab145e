"""Spark on files in S3: each kind of statement gives what it gives on a disk, for each kind of job tracker.

Keys and endpoint are in the storage options of the cluster alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_hivex.core import Metastore
from airflow_hivex.core.files.object_stores import open_object_store
from airflow_hivex.core.runners import driver_process
from tests.acceptance.each_statement import as_set, results
from tests.connect_server import running_server
from tests.object_store import CONNECTOR, ObjectStore, needs_connector
from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), needs_connector]

IN_PROCESS, SUBMIT, CONNECT = "in process", "spark-submit", "Spark Connect"


@pytest.fixture
def clouds(
    spark_clusters: list[StandaloneCluster], object_store: ObjectStore, tmp_path: Path
) -> Iterator[dict[str, dict[str, object]]]:
    """The properties of a cluster for each kind of job tracker, each with a bucket."""
    with ExitStack() as stack:
        stack.callback(driver_process.close_all)
        server = stack.enter_context(running_server(tmp_path / "connect", **CONNECTOR))
        submitted = spark_clusters[0]
        yield {
            IN_PROCESS: object_store.properties("local[2]", "/warehouse"),
            SUBMIT: object_store.properties(submitted.jobtracker, **submitted.conf("127.0.0.1")),
            CONNECT: object_store.properties(server.url, "/a/b"),
        }


@pytest.mark.evidence(cases=1, among="statements on S3")
@pytest.mark.parametrize("layout", ["flat", "hive"])
@pytest.mark.parametrize("tracker", [IN_PROCESS, SUBMIT, CONNECT])
def test_each_kind_of_statement_gives_on_s3_what_it_gives_on_a_disk(
    clouds: dict[str, dict[str, object]], sqlite_url: str, tmp_path: Path, tracker: str, layout: str
) -> None:
    disk = {"filesystem": (tmp_path / "disk").as_uri(), "jobtracker": "local[2]"}
    clusters = {"disk": disk, "cloud": clouds[tracker]}
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="disk") as metastore:
        # Spark starts for the cluster without settings of S3.
        expected = as_set(results(metastore, "disk", layout))
        assert as_set(results(metastore, "cloud", layout)) == expected


@pytest.mark.evidence(cases=1)
@pytest.mark.parametrize("tracker", [IN_PROCESS, SUBMIT, CONNECT])
def test_files_of_the_bucket_of_another_cluster_are_loaded(
    clouds: dict[str, dict[str, object]], object_store: ObjectStore, sqlite_url: str, tracker: str
) -> None:
    other = object_store.properties("local[2]")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    store = open_object_store(other["filesystem"], other["storage_options"])
    parquet.write_table(rows, f"{other['filesystem'].removeprefix('s3://')}/sent/rows.parquet", filesystem=store)
    clusters = {"cloud": clouds[tracker], "other": other}
    with (
        Metastore.open(sqlite_url, clusters=clusters, default_cluster="cloud") as metastore,
        metastore.session() as session,
    ):
        session.sql(
            "CREATE TABLE t (id bigint) STORED AS PARQUET TBLPROPERTIES ('transactional_properties'='insert_only')"
        )
        session.sql(f"LOAD DATA INPATH '{other['filesystem']}/sent' INTO TABLE t")
        assert session.sql("SELECT sum(id) FROM t").rows == [(3,)]
