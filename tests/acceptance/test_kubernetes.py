"""Clusters of Kubernetes and YARN by spark-submit: what Spark sends to their managers.

Jobs run on Kubernetes' side, on pods that are processes. There is no YARN here: its resource manager takes the first
call of Spark, and hangs up.
"""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import JobError
from airflow_hivex.core.runners import driver_process
from tests import spark_options
from tests.kubernetes_api import ADDRESS, KubernetesApi, running_kubernetes
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SECRET = "K7MDENGwJalrXUt"
IMAGE = "registry.example/spark:4.2"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_kubernetes(tmp_path_factory.mktemp("pods")) as api:
        yield api


@pytest.fixture(autouse=True)
def _drivers_end() -> Iterator[None]:
    yield
    driver_process.close_all()


def opened(url: str, folder: Path, jobtracker: str, **conf: str) -> Metastore:
    remote: dict[str, Any] = {
        "filesystem": (folder / "remote").as_uri(),
        "jobtracker": jobtracker,
        "spark_conf": {
            "spark.driver.host": ADDRESS,
            "spark.driver.bindAddress": ADDRESS,
            "spark.driver.memory": "1g",
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": spark_options.java_options().replace("-XX:NewSize=512m", ""),
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.pyspark.python": sys.executable,
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            **conf,
        },
    }
    local = {"filesystem": (folder / "local").as_uri(), "jobtracker": "local[2]"}
    return Metastore.open(url, clusters={"remote": remote, "local": local}, default_cluster="remote")


@pytest.mark.evidence(cases=1, among="statements on clusters and in this process")
def test_statements_run_on_pods_that_end_with_the_driver(
    kubernetes: KubernetesApi, sqlite_url: str, tmp_path: Path
) -> None:
    conf = {"spark.kubernetes.container.image": IMAGE, "spark.kubernetes.namespace": "etl"}
    with opened(sqlite_url, tmp_path, f"k8s://{kubernetes.url}", **conf) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id bigint, v string)")
        session.sql("INSERT INTO t SELECT id, concat('v', id) FROM range(1000)")
        session.sql("UPDATE t SET v = 'zürich' WHERE id % 10 = 0")
        assert metastore.compactor.request("default", "t", None, "major").is_accepted
        done = metastore.compactor.work("host-1")
        assert done is not None
        assert done.error_message is None
        assert session.sql("SELECT v, count(*) FROM t WHERE v NOT LIKE 'v%' GROUP BY v").rows == [("zürich", 100)]
    assert kubernetes.running
    (pod, *_) = kubernetes.pods.values()
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["args"]) == (IMAGE, ["executor"])
    assert {"name": "LC_ALL", "value": "C.UTF-8"} in container["env"]
    assert "-Duser.timezone=UTC" in [each.get("value") for each in container["env"]]
    assert SECRET not in json.dumps([kubernetes.pods, kubernetes.maps])
    assert {path.split("/")[4] for _, path in kubernetes.calls} == {"etl"}
    driver_process.close_all()
    wait_until(lambda: not kubernetes.running, limit_s=30)


class _ResourceManager(socketserver.BaseRequestHandler):
    """Keeps what a client says first, and hangs up."""

    heard: list[bytes]

    def handle(self) -> None:
        """Read until the client has named the protocol that it wants to speak."""
        said = b""
        while b"ProtocolPB" not in said and (more := self.request.recv(4096)):
            said += more
        self.heard.append(said)


def test_driver_calls_the_resource_manager_of_hadoops_configuration(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    with socketserver.ThreadingTCPServer(
        (ADDRESS, 0), type("Handler", (_ResourceManager,), {"heard": heard})
    ) as manager:
        threading.Thread(target=manager.serve_forever, daemon=True).start()
        address = f"{ADDRESS}:{manager.server_address[1]}"
        waits = {
            "yarn.resourcemanager.connect.max-wait.ms": 1000,
            "yarn.resourcemanager.connect.retry-interval.ms": 500,
        }
        properties = {"yarn.resourcemanager.address": address, **waits}
        lines = (
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
        )
        (tmp_path / "yarn-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        with (
            opened(sqlite_url, tmp_path, "yarn") as metastore,
            metastore.session() as session,
            pytest.raises(JobError, match="Spark did not start") as raised,
        ):
            session.sql("SELECT count(*) FROM range(3)")
        manager.shutdown()
    # The statement itself only looks whether a manager takes connections.
    said = max(heard, key=len)
    assert said.startswith(b"hrpc")
    assert b"org.apache.hadoop.yarn.api.ApplicationClientProtocolPB" in said
    assert SECRET not in f"{heard}{raised.value}"
