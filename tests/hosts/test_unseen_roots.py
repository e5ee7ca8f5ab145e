"""Workers that do not see the folder of their cluster: every statement is an error that names the host and the cluster.

The workers are hosts with mounts of their own, where another folder lies over that of a cluster: an empty one, as where
nothing is mounted, or one of another file system with files of the same names.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

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
    run_all,
)
from tests.hosts.networks import Host, Network
from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASES = ("all", "part", "foreign")
"""Clusters whose root is out of sight of both workers, of one of two, or is another file system for one of two."""
LONG = pytest.mark.evidence(cases=3, among="statements on hosts without the root of their cluster")


def blind_hosts(network: Network, case: str) -> list[str]:
    """The names and addresses of hosts without the root: the JVM says an address, and Python the name of the host."""
    found = [network.hosts[name] for name in (("seeing", "blind") if case == "all" else ("blind",))]
    return [text for host in found for text in (host.name, host.address)]


@pytest.fixture(scope="module")
def hosts(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("hosts")
    for name in (*CASES, "seen", "other"):
        (folder / name).mkdir()
    (folder / "seen" / "outside").mkdir()
    both = [f"mount -t tmpfs none {folder}/{name}" for name in ("all", "seen/outside")]
    hidden = [f"mount -t tmpfs none {folder}/part", f"mount --bind {folder}/other {folder}/foreign"]
    seeing, blind = network.add("seeing", [folder], both), network.add("blind", [folder], [*both, *hidden])
    cluster = StandaloneCluster("c1", seeing, [seeing, blind], cores=2)
    conf = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.executor.cores": "1"}
    clusters = {name: cluster.properties(folder / name, network.gateway, **conf) for name in (*CASES, "seen")}
    try:
        cluster.start()
        url = f"sqlite:///{folder}/m.db"
        with Metastore.open(url, clusters=clusters, default_cluster="seen") as metastore:
            found = Hosts(metastore, folder, clusters, url)
            for case in (*CASES, "seen"):
                fill(found, case)
            shutil.copytree(folder / "foreign", folder / "other", dirs_exist_ok=True)
            (folder / "other" / MARKER).write_text(json.dumps({"root": "another", "cluster": "foreign"}))
            yield found
    finally:
        driver_process.close_all()
        cluster.stop()


@pytest.fixture(scope="module")
def running_notebook(hosts: Hosts) -> Iterator[subprocess.Popen[str]]:
    """A process whose own Spark has an executor on each host."""
    with notebook.running(hosts.clusters["seen"], Host("gateway", "", hosts.folder)) as process:
        yield process


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", WRITES)
def test_statement_that_writes_is_refused_and_changes_nothing(
    network: Network, hosts: Hosts, case: str, statement: str
) -> None:
    text = WRITES[statement].format(f"on_{case}", hosts.root(case).as_uri(), case)
    check_refused(hosts, case, blind_hosts(network, case), lambda session: session.sql(text))


@LONG
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", READS)
def test_statement_that_reads_is_refused(network: Network, hosts: Hosts, case: str, statement: str) -> None:
    check_refused(
        hosts, case, blind_hosts(network, case), lambda session: run_all(session, READS[statement].format(f"on_{case}"))
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
    network: Network, hosts: Hosts, running_notebook: subprocess.Popen[str], case: str, operation: str
) -> None:
    before = hosts.contents(case)
    answer = notebook.answer_of(running_notebook, hosts, case, operation)
    assert answer.get("error") == "RootUnseenError", answer
    assert answer["cluster"] == case
    assert answer["host"] in blind_hosts(network, case)
    assert hosts.contents(case) == before


@LONG
@pytest.mark.parametrize("case", CASES)
def test_export_for_hive_is_refused_and_leaves_no_files(network: Network, hosts: Hosts, case: str) -> None:
    folder = hosts.root(case) / "exported"
    check_refused(
        hosts, case, blind_hosts(network, case), lambda session: session.export_for_hive(f"on_{case}.t", folder)
    )


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


def test_rows_that_tasks_wrote_out_of_sight_are_missed(network: Network, hosts: Hosts) -> None:
    """The root is seen, and a folder below it lies on a file system that the workers do not share."""
    before = hosts.contents("seen")
    for text in (WRITES["external"], WRITES["external-overwrite"]):
        with hosts.session("seen") as session, pytest.raises(WrittenRowsMissingError, match="1000 rows") as raised:
            session.sql(text.format("on_seen", ""))
        assert raised.value.cluster == "seen"
        assert all(each.address in raised.value.hosts for each in network.hosts.values())
    with hosts.session("seen") as session, pytest.raises(HivexError):
        session.sql(WRITES["text"].format("on_seen"))
    assert hosts.contents("seen") == before


def test_workers_that_see_the_root_write_and_read(hosts: Hosts) -> None:
    with hosts.session("seen") as session:
        assert session.sql(WRITES["insert"].format("on_seen")).rows_written == 1000
        session.sql(WRITES["update"].format("on_seen"))
        assert session.sql(READS["select"].format("on_seen")).rows == [(1040,)]
