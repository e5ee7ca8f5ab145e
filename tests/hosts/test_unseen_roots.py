"""Workers that do not see the folder of their cluster: every statement is an error that names the host and the cluster.

The workers are hosts with mounts of their own, where another folder lies over that of a cluster: an empty one, as where
nothing is mounted, or one of another file system with files of the same names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError, RootUnseenError, WrittenRowsMissingError
from airflow_hivex.core.runners import driver_process
from tests.hosts import notebook
from tests.hosts.hidden_roots import (
    MARKER,
    READS,
    WRITES,
    Hosts,
    check_refused,
    fill,
    host,
    run_all,
    skip_without_mounts,
)
from tests.ports import free_ports
from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASES = ("all", "part", "foreign")
"""Clusters whose root is out of sight of both workers, of one of two, or is another file system for one of two."""
SEEING = ("seeing", "127.0.0.2")
BLIND = ("blind", "127.0.0.3")
"""The names of the hosts: the JVM says an address, and Python the name of the host."""
LONG = pytest.mark.evidence(cases=6, among="statements on hosts without the root of their cluster")


def blind_hosts(case: str) -> tuple[str, ...]:
    return (*SEEING, *BLIND) if case == "all" else BLIND


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    skip_without_mounts()
    folder = tmp_path_factory.mktemp("hosts")
    for name in (*CASES, "seen", "other"):
        (folder / name).mkdir()
    (folder / "seen" / "outside").mkdir()
    first, *ports = free_ports(6)
    seeing = StandaloneCluster("seeing", folder / "w1", [first, *ports[:3]], cores=2, memory="2g")
    blind = StandaloneCluster("blind", folder / "w2", [first, ports[0], *ports[3:]], cores=2, memory="2g")
    seeing.worker_host, blind.worker_host = SEEING[1], BLIND[1]
    names = "127.0.0.1 localhost", f"{SEEING[1]} {SEEING[0]}", f"{BLIND[1]} {BLIND[0]}"
    (folder / "names").write_text("\n".join((*names, "")))
    over = f"mount --bind {folder}/names /etc/hosts; mount -t tmpfs none {folder}/all"
    outside = f"mount -t tmpfs none {folder}/seen/outside"
    seeing.worker_command = host(SEEING[0], f"{over}; {outside}")
    hidden = f"mount -t tmpfs none {folder}/part; mount --bind {folder}/other {folder}/foreign"
    blind.worker_command = host(BLIND[0], f"{over}; {outside}; {hidden}")
    conf = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.executor.cores": "1"}
    clusters = {name: seeing.properties(folder / name, **conf) for name in (*CASES, "seen")}
    try:
        seeing.start()
        blind.start_worker()
        seeing.wait_for_workers(2)
        with Metastore.open(f"sqlite:///{folder}/m.db", clusters=clusters, default_cluster="seen") as metastore:
            found = Hosts(metastore, folder, clusters)
            for case in (*CASES, "seen"):
                fill(found, case)
            shutil.copytree(folder / "foreign", folder / "other", dirs_exist_ok=True)
            (folder / "other" / MARKER).write_text(json.dumps({"root": "another", "cluster": "foreign"}))
            yield found
    finally:
        driver_process.close_all()
        blind.stop()
        seeing.stop()


@pytest.fixture(scope="module")
def running_notebook(hosts: Hosts) -> Iterator[subprocess.Popen[str]]:
    """A process whose own Spark has an executor on each host."""
    properties = hosts.clusters["seen"]
    arguments = json.dumps(hosts.clusters), properties["jobtracker"], json.dumps(properties["spark_conf"])
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    with (
        (hosts.folder / "notebook.log").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", notebook.__name__, f"sqlite:///{hosts.folder}/m.db", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        ) as process,
    ):
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()


def answer_of(process: subprocess.Popen[str], hosts: Hosts, case: str, operation: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([case, operation]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, (hosts.folder / "notebook.log").read_text()[-3000:]
    answer: dict[str, Any] = json.loads(line)
    return answer


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", WRITES)
def test_statement_that_writes_is_refused_and_changes_nothing(hosts: Hosts, case: str, statement: str) -> None:
    text = WRITES[statement].format(f"on_{case}", hosts.root(case).as_uri(), case)
    check_refused(hosts, case, blind_hosts(case), lambda session: session.sql(text))


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", READS)
def test_statement_that_reads_is_refused(hosts: Hosts, case: str, statement: str) -> None:
    check_refused(
        hosts, case, blind_hosts(case), lambda session: run_all(session, READS[statement].format(f"on_{case}"))
    )


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["major", "minor", "rebalance"])
def test_compaction_fails_and_changes_nothing(hosts: Hosts, case: str, kind: str) -> None:
    before = hosts.contents(case)
    assert hosts.metastore.compactor.request(f"on_{case}", "t", None, kind).is_accepted
    done = hosts.metastore.compactor.work("host-1")
    assert done is not None
    assert "does not see the root" in str(done.error_message), done
    assert hosts.contents(case) == before


@LONG
@pytest.mark.parametrize("case", CASES)
def test_copying_job_is_refused_and_registers_no_copy(hosts: Hosts, case: str) -> None:
    with pytest.raises(RootUnseenError):
        hosts.metastore.replicator.replicate("on_seen.t", case, copy_cluster="seen")
    with pytest.raises(RootUnseenError):
        hosts.metastore.replicator.replicate(f"on_{case}.t", "seen", copy_cluster="seen")


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("operation", notebook.OPERATIONS)
def test_dataframes_of_a_notebook_are_refused(
    hosts: Hosts, running_notebook: subprocess.Popen[str], case: str, operation: str
) -> None:
    before = hosts.contents(case)
    answer = answer_of(running_notebook, hosts, case, operation)
    assert answer.get("error") == "RootUnseenError", answer
    assert answer["cluster"] == case
    assert answer["host"] in blind_hosts(case)
    assert hosts.contents(case) == before


@LONG
@pytest.mark.parametrize("case", CASES)
def test_export_for_hive_is_refused_and_leaves_no_files(hosts: Hosts, case: str) -> None:
    folder = hosts.root(case) / "exported"
    check_refused(hosts, case, blind_hosts(case), lambda session: session.export_for_hive(f"on_{case}.t", folder))


@LONG
@pytest.mark.parametrize("case", CASES)
def test_statement_of_a_transaction_is_refused_and_its_commit_changes_nothing(hosts: Hosts, case: str) -> None:
    before = hosts.contents(case)
    with hosts.session(case) as session:
        session.sql("START TRANSACTION")
        with pytest.raises(RootUnseenError):
            session.sql(WRITES["overwrite"].format(f"on_{case}"))
        session.sql("COMMIT")
    assert hosts.contents(case) == before


def test_rows_that_tasks_wrote_out_of_sight_are_missed(hosts: Hosts) -> None:
    """The root is seen, and a folder below it lies on a file system that the workers do not share."""
    before = hosts.contents("seen")
    for text in (WRITES["external"], WRITES["external-overwrite"]):
        with hosts.session("seen") as session, pytest.raises(WrittenRowsMissingError, match="1000 rows") as raised:
            session.sql(text.format("on_seen", ""))
        assert raised.value.cluster == "seen"
        assert SEEING[1] in raised.value.hosts
        assert BLIND[1] in raised.value.hosts
    with hosts.session("seen") as session, pytest.raises(HivexError):
        session.sql(WRITES["text"].format("on_seen"))
    assert hosts.contents("seen") == before


def test_workers_that_see_the_root_write_and_read(hosts: Hosts) -> None:
    with hosts.session("seen") as session:
        assert session.sql(WRITES["insert"].format("on_seen")).rows_written == 1000
        session.sql(WRITES["update"].format("on_seen"))
        assert session.sql(READS["select"].format("on_seen")).rows == [(1040,)]
