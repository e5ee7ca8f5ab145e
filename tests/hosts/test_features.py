"""Features on hosts of their own: each gives what it gives with Spark in this process.

PostgreSQL, the master, two workers and the Spark Connect server have a host each, with an address, a name, a /tmp and a
home. The workers, the server and this process, whose address is another one, share the folders of the clusters. With
S3 no folder is shared, and only this process has the keys; it passes them on.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import JobError
from airflow_hivex.core.runners import driver_process
from tests import evidence
from tests.acceptance.hive_spark_process import as_json
from tests.conftest import Counts
from tests.connect_server import server_on
from tests.hive_endpoint import serving
from tests.hosts import notebook
from tests.hosts.faulty_warehouse import WRITERS, rows_of
from tests.hosts.hidden_roots import READS, Hosts, fill, run_all
from tests.hosts.networks import CHECKOUT, Host, Network
from tests.object_store import CONNECTOR, ObjectStore, needs_connector, start_object_store
from tests.postgresql import start_durable_postgresql
from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SUBMIT, CONNECT, FRAMES = "spark-submit", "Spark Connect", "a SparkSession of a notebook"
ON_S3 = " on S3"
VARIANTS = [SUBMIT, CONNECT, *(pytest.param(f"{each}{ON_S3}", marks=needs_connector) for each in (SUBMIT, CONNECT))]
LONG = "a Spark of its own takes half a minute; make evidence"
Feature = Callable[[Hosts, str], object]
HEX = "org.apache.hadoop.hive.ql.udf.UDFHex"


def _read(text: str) -> Feature:
    def read(hosts: Hosts, case: str) -> object:
        with hosts.session(case) as session:
            run_all(session, text.format(f"on_{case}"))
            return sorted(session.sql(text.format(f"on_{case}").split("; ")[-1]).rows, key=repr)

    return read


def _call_function(hosts: Hosts, case: str) -> object:
    with hosts.session(case) as session:
        session.sql(f"CREATE FUNCTION on_{case}.marked(v STRING) RETURNS STRING RETURN concat(v, '*')")
        session.sql(f"UPDATE on_{case}.t SET v = on_{case}.marked(v) WHERE id > 3")
        return sorted(session.sql(f"SELECT on_{case}.marked(v), count(*) FROM on_{case}.t GROUP BY v").rows)


def _call_class(hosts: Hosts, case: str) -> object:
    with hosts.session(case) as session:
        session.sql(f"CREATE FUNCTION on_{case}.hexed AS '{HEX}'")
        return sorted(session.sql(f"SELECT on_{case}.hexed(v), count(*) FROM on_{case}.t GROUP BY v").rows)


def _transaction(hosts: Hosts, case: str) -> object:
    with hosts.session(case) as session:
        session.sql("START TRANSACTION")
        session.sql(f"INSERT INTO on_{case}.t SELECT id, 'lost' FROM range(100)")
        session.sql(f"DELETE FROM on_{case}.t WHERE id > 50")
        found = session.sql(f"SELECT count(*) FROM on_{case}.t").rows
        session.sql("COMMIT")
        return found


def _streaming_batch(hosts: Hosts, case: str) -> object:
    with hosts.session(case) as session, session.transaction_batch(f"on_{case}.t", 2) as batch:
        batch.write([(100, "a"), (101, "b")])
        batch.write([(102, "c")])
        return session.sql(f"SELECT count(*), max(id) FROM on_{case}.t").rows


def _replicate_by_job(hosts: Hosts, case: str) -> object:
    hosts.metastore.replicator.replicate(f"on_{case}.p", f"{case}_copy", copy_cluster=case)
    with hosts.session(f"{case}_copy") as session:
        return sorted(session.sql(f"SELECT id, k FROM on_{case}.p").rows)


def _change_primary(hosts: Hosts, case: str) -> object:
    hosts.metastore.primaries.change(f"on_{case}.t", f"{case}_copy")
    with hosts.session(f"{case}_copy") as session:
        session.sql(f"UPDATE on_{case}.t SET v = 'moved' WHERE id < 5")
        return sorted(session.sql(f"SELECT v, count(*) FROM on_{case}.t GROUP BY v").rows)


def _move_namespace(hosts: Hosts, case: str) -> object:
    for name in "cegox":
        # Files of other programs do not move.
        with hosts.session(case) as session:
            session.sql(f"DROP TABLE on_{case}.{name}")
    hosts.metastore.moves.move(f"on_{case}", f"{case}_copy")
    with hosts.session(f"{case}_copy") as session:
        return sorted(session.sql(f"SELECT k, count(*) FROM on_{case}.p GROUP BY k").rows)


def _export_for_hive(hosts: Hosts, case: str) -> object:
    with hosts.session(case) as session:
        session.export_for_hive(f"on_{case}.t", hosts.root(case) / "for-hive")
    return sorted(path.name for path in (hosts.root(case) / "for-hive").rglob("bucket*"))


FEATURES: dict[str, Feature] = {
    **{f"write: {name}": each for name, each in WRITERS.items()},
    **{f"read: {name}": _read(text) for name, text in READS.items()},
    "function of SQL": _call_function,
    "function of a class": _call_class,
    "transaction of several statements": _transaction,
    "streaming batch": _streaming_batch,
    "replication by a job": _replicate_by_job,
    "change of the primary cluster": _change_primary,
    "move of a namespace": _move_namespace,
    "export for Hive": _export_for_hive,
}


class Sparks:
    """The hosts with their servers, each of which is started for the first test that needs it."""

    def __init__(self, network: Network, folder: Path, stack: ExitStack) -> None:
        self.network = network
        self.folder = folder
        self._stack = stack
        self._numbers = itertools.count()
        self.postgresql = start_durable_postgresql(host=network.add("database"))
        stack.callback(self.postgresql.stop)

    @cached_property
    def cluster(self) -> StandaloneCluster:
        return self._cluster("", [self.folder])

    @cached_property
    def cluster_on_s3(self) -> StandaloneCluster:
        return self._cluster("-s3")

    def _cluster(self, suffix: str, shared: Sequence[Path] = ()) -> StandaloneCluster:
        workers = [self.network.add(f"{name}{suffix}", shared) for name in ("worker1", "worker2")]
        cluster = StandaloneCluster("c1", self.network.add(f"master{suffix}"), workers)
        self._stack.callback(cluster.stop)
        self._stack.callback(driver_process.close_all)
        cluster.start()
        return cluster

    @cached_property
    def connect(self) -> str:
        return self._connect(self.network.add("connect", [self.folder]), self.cluster)

    @cached_property
    def connect_on_s3(self) -> str:
        return self._connect(self.network.add("connect-s3"), self.cluster_on_s3, **CONNECTOR)

    def _connect(self, host: Host, cluster: StandaloneCluster, **conf: str) -> str:
        own = {"spark.pyspark.python": sys.executable, "spark.sql.catalogImplementation": "hive"}
        return self._stack.enter_context(server_on(host, cluster.jobtracker, **own, **conf))

    @cached_property
    def store(self) -> ObjectStore:
        store = start_object_store(self.folder / "s3.log", self.network.add("s3"))
        self._stack.callback(store.stop)
        return store

    @cached_property
    def client(self) -> Host:
        """A host for other clients than this process."""
        return self.network.add("client", [self.folder])

    @cached_property
    def notebook(self) -> subprocess.Popen[str]:
        return self._notebook(self.cluster, self.client)

    @cached_property
    def notebook_on_s3(self) -> subprocess.Popen[str]:
        return self._notebook(self.cluster_on_s3, self.network.add("client-s3"), **CONNECTOR)

    def _notebook(self, cluster: StandaloneCluster, host: Host, **conf: str) -> subprocess.Popen[str]:
        return self._stack.enter_context(notebook.running(cluster.properties(self.folder, host.address, **conf), host))

    def properties(self, variant: str, root: Path) -> dict[str, Any]:
        client = self.network.gateway
        own = {"spark.executor.cores": "1", "spark.sql.catalogImplementation": "hive"}
        match variant.removesuffix(ON_S3), variant.endswith(ON_S3):
            case (kind, False) if kind == CONNECT:
                return {"filesystem": root.as_uri(), "jobtracker": self.connect}
            case (kind, False) if kind == FRAMES:
                return self.cluster.properties(root, self.client.address)
            case (kind, False):
                return self.cluster.properties(root, client, **own)
            case (kind, True) if kind == CONNECT:
                return self.store.properties(self.connect_on_s3, "/warehouse")
            case _:
                return self.store.properties(self.cluster_on_s3.jobtracker, **self.cluster_on_s3.conf(client), **own)

    @contextmanager
    def warehouse(self, variant: str) -> Iterator[Hosts]:
        """Yield a warehouse with the same tables on a cluster here, and on one of the variant there."""
        folder = self.folder / str(next(self._numbers))
        clusters: dict[str, Any] = {}
        for name in ("here", "here_copy", "there", "there_copy"):
            (folder / name).mkdir(parents=True)
            local = {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]"}
            clusters[name] = local if name.startswith("here") else self.properties(variant, folder / name)
        url, settings = self.postgresql.create_database(), {"hivex.allow.code.execution": True}
        with Metastore.open(url, clusters=clusters, default_cluster="here", settings=settings) as metastore:
            found = Hosts(metastore, folder, clusters, url)
            for case in ("here", "there"):
                fill(found, case)
            yield found


@pytest.fixture(scope="module")
def sparks(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sparks]:
    with ExitStack() as stack:
        yield Sparks(network, tmp_path_factory.mktemp("shared"), stack)


@pytest.mark.evidence(cases=1, among="features on hosts")
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("variant", evidence.drawn("variants of hosts", VARIANTS, 1))
def test_feature_gives_on_hosts_what_it_gives_here(sparks: Sparks, variant: str, feature: str, counts: Counts) -> None:
    with sparks.warehouse(variant) as hosts:
        expected = FEATURES[feature](hosts, "here"), rows_of(hosts, "here")
        assert (FEATURES[feature](hosts, "there"), rows_of(hosts, "there")) == expected
    counts[f"features on hosts of their own, by {variant}"] = {feature: 1}


@pytest.mark.evidence(cases=1, among="DataFrames on hosts")
@pytest.mark.skipif(not evidence.does_all("HIVEX_HOSTS"), reason=LONG)
@pytest.mark.parametrize("operation", notebook.OPERATIONS)
@pytest.mark.parametrize("variant", [FRAMES, pytest.param(f"{FRAMES}{ON_S3}", marks=needs_connector)])
def test_dataframe_gives_on_hosts_what_it_gives_here(
    sparks: Sparks, variant: str, operation: str, counts: Counts
) -> None:
    with sparks.warehouse(variant) as hosts:
        with hosts.session("here") as session:
            session.sql("SELECT 1")
            spark = SparkSession.builder.getOrCreate().newSession()
            expected = notebook.OPERATIONS[operation](session.warehouse(spark, "here"), session, spark, "on_here")
        book = sparks.notebook_on_s3 if variant.endswith(ON_S3) else sparks.notebook
        answer = notebook.answer_of(book, hosts, "there", operation)
        assert "error" not in answer, answer
        if operation.startswith("read"):
            assert answer["result"] == str(expected)
        assert rows_of(hosts, "there") == rows_of(hosts, "here")
    counts[f"features on hosts of their own, by {variant}"] = {operation: 1}


@pytest.mark.evidence
@pytest.mark.skipif(not evidence.does_all("HIVEX_HOSTS"), reason=LONG)
@pytest.mark.parametrize("variant", [SUBMIT, CONNECT])
def test_spark_of_another_host_writes_by_the_hive_endpoint(sparks: Sparks, variant: str, counts: Counts) -> None:
    with (
        sparks.warehouse(variant) as hosts,
        serving(hosts.metastore, "there", address=sparks.network.gateway) as server,
    ):
        program = CHECKOUT / "tests" / "acceptance" / "hive_spark_process.py"
        address = f"thrift://{sparks.network.gateway}:{server.port}"
        folder = hosts.root("there") / "of-spark"
        done = subprocess.run(
            [*sparks.client.command, sys.executable, str(program), address, str(folder)],
            stdout=subprocess.PIPE,
            check=True,
        )
        made = json.loads(done.stdout)
        with hosts.session("there") as session:
            session.sql("USE made_by_spark")
            for name, rows in made["rows"].items():
                found = session.sql(as_json(name, made["columns"][name])).rows
                assert sorted(str(row[0]) for row in found) == rows, name
    counts[f"features on hosts of their own, by {variant}"] = {"tables of a Spark through the Hive endpoint": 1}


@pytest.mark.evidence
@pytest.mark.skipif(not evidence.does_all("HIVEX_HOSTS"), reason=LONG)
def test_python_of_executors_without_packages_is_one_sentence(sparks: Sparks) -> None:
    python = sparks.folder / "python-without-packages"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    (root := sparks.folder / "bare").mkdir()
    conf = {"spark.pyspark.python": str(python)}
    clusters = {"there": sparks.cluster.properties(root, sparks.network.gateway, **conf)}
    with (
        Metastore.open(sparks.postgresql.create_database(), clusters=clusters) as metastore,
        metastore.session() as session,
    ):
        session.sql("CREATE TABLE t (v string) CLUSTERED BY (v) INTO 2 BUCKETS")
        with pytest.raises(JobError, match=r"No module named 'pyarrow'\. They need Python") as raised:
            session.sql("INSERT INTO t SELECT concat('v', id) FROM range(10)")
        assert str(raised.value).endswith("Nothing was written to default.t.")
        assert session.sql("SELECT count(*) FROM t").rows == [(0,)]
