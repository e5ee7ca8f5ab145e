"""Workers that do not see the folder of their cluster: every statement is an error that names the host and the cluster.

The workers are processes in mount namespaces of their own, where another folder lies over that of a cluster: an empty
one, as where nothing is mounted, or one of another file system with files of the same names.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError, RootUnseenError, WrittenRowsMissingError
from airflow_hivex.core.runners import driver_process
from airflow_hivex.core.session import Session
from tests.ports import free_ports
from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CASES = ("all", "part", "foreign")
"""Clusters whose root is out of sight of both workers, of one of two, or is another file system for one of two."""
MARKER = "_hivex_root.json"
READS = {
    "select": "SELECT count(*) FROM {}.t",
    "external": "SELECT count(*) FROM {}.e",
}
WRITES = {
    "insert": "INSERT INTO {0}.t SELECT id, 'lost' FROM range(1000)",
    "overwrite": "INSERT OVERWRITE {0}.t SELECT id, 'lost' FROM range(1000)",
    "partitions": "INSERT INTO {0}.p SELECT id, id % 3 FROM range(1000)",
    "update": "UPDATE {0}.t SET v = 'lost' WHERE id < 10",
    "delete": "DELETE FROM {0}.t WHERE id < 10",
    "merge": "MERGE INTO {0}.t t USING (SELECT id FROM range(5000)) s ON t.id = s.id WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'lost')",
    "several": "FROM range(1000) INSERT INTO {0}.t SELECT id, 'lost' INSERT INTO {0}.p SELECT id, 1",
    "table": "CREATE TABLE {0}.made AS SELECT id FROM range(1000)",
    "insert-only": "INSERT INTO {0}.i SELECT id, 'lost' FROM range(1000)",
    "external": "INSERT INTO {0}.e SELECT id, 'lost' FROM range(1000)",
    "external-overwrite": "INSERT OVERWRITE {0}.e SELECT id, 'lost' FROM range(1000)",
    "text": "INSERT INTO {0}.c SELECT id, 'lost' FROM range(1000)",
    "directory": "INSERT OVERWRITE DIRECTORY '{1}/exported' STORED AS PARQUET SELECT id FROM range(1000)",
}


@dataclass
class Hosts:
    """A warehouse on a Spark with two workers, of which one sees less than the other."""

    metastore: Metastore
    folder: Path

    def session(self, case: str) -> Session:
        session = self.metastore.session()
        session.sql(f"USE CLUSTER {case}")
        return session

    def root(self, case: str) -> Path:
        return self.folder / case

    def contents(self, case: str) -> dict[str, list[tuple[object, ...]]]:
        """Return the rows of all tables of a case, which this process reads without Spark."""
        with self.metastore.session() as session:
            names = [row[0] for row in session.sql(f"SHOW TABLES IN on_{case}").rows]
            return {
                str(name): sorted(tuple(row.values()) for row in session.to_arrow(f"on_{case}.{name}").to_pylist())
                for name in names
                if name != "c"
            }


def mounts(lines: str) -> list[str]:
    return ["unshare", "-m", "bash", "-c", f'set -e; {lines}; exec "$@"', "bash"]


def can_mount() -> bool:
    """Return whether this process may make mount namespaces."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*mounts("mount -t tmpfs none /mnt"), "true"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if not can_mount():
        pytest.skip("this user may not make mount namespaces")
    folder = tmp_path_factory.mktemp("hosts")
    for name in (*CASES, "seen", "other"):
        (folder / name).mkdir()
    (folder / "seen" / "outside").mkdir()
    first, *ports = free_ports(6)
    seeing = StandaloneCluster("seeing", folder / "w1", [first, *ports[:3]], cores=1, memory="1g")
    blind = StandaloneCluster("blind", folder / "w2", [first, ports[0], *ports[3:]], cores=1, memory="1g")
    over = f"mount -t tmpfs none {folder}/all"
    outside = f"mount -t tmpfs none {folder}/seen/outside"
    seeing.worker_command = mounts(f"{over}; {outside}")
    blind.worker_command = mounts(
        f"{over}; {outside}; mount -t tmpfs none {folder}/part; mount --bind {folder}/other {folder}/foreign"
    )
    conf = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.executor.cores": "1"}
    clusters = {name: seeing.properties(folder / name, **conf) for name in (*CASES, "seen")}
    try:
        seeing.start()
        blind.start_worker()
        seeing.wait_for_workers(2)
        with Metastore.open(f"sqlite:///{folder}/m.db", clusters=clusters, default_cluster="seen") as metastore:
            found = Hosts(metastore, folder)
            for case in (*CASES, "seen"):
                fill(found, case)
            shutil.copytree(folder / "foreign", folder / "other", dirs_exist_ok=True)
            (folder / "other" / MARKER).write_text(json.dumps({"root": "another", "cluster": "foreign"}))
            yield found
    finally:
        driver_process.close_all()
        blind.stop()
        seeing.stop()


def fill(hosts: Hosts, case: str) -> None:
    """Make the tables of a case with rows that this process writes without Spark."""
    rows = ", ".join(f"({number}, 'kept')" for number in range(20))
    with hosts.metastore.session() as session:
        session.sql(f"CREATE DATABASE on_{case}")
        at = f"'hivex.cluster'='{case}'"
        session.sql(f"CREATE TABLE on_{case}.t (id bigint, v string) TBLPROPERTIES ({at})")
        session.sql(f"CREATE TABLE on_{case}.p (id bigint) PARTITIONED BY (k bigint) TBLPROPERTIES ({at})")
        only = f"{at}, 'transactional_properties'='insert_only'"
        session.sql(f"CREATE TABLE on_{case}.i (id bigint, v string) STORED AS PARQUET TBLPROPERTIES ({only})")
        for name, stored_as in (("e", "PARQUET"), ("c", "TEXTFILE")):
            place = hosts.root(case) / "outside" / name
            session.sql(
                f"CREATE EXTERNAL TABLE on_{case}.{name} (id bigint, v string) STORED AS {stored_as} "
                f"LOCATION '{place.as_uri()}' TBLPROPERTIES ({at})"
            )
        session.sql(f"INSERT INTO on_{case}.t VALUES {rows}")
        session.sql(f"INSERT INTO on_{case}.t VALUES {rows}")
    import pyarrow as pa
    from pyarrow import parquet

    (hosts.root(case) / "outside" / "e").mkdir(parents=True, exist_ok=True)
    kept = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["kept", "kept"]})
    parquet.write_table(kept, hosts.root(case) / "outside" / "e" / "kept.parquet")


def check_refused(hosts: Hosts, case: str, run: Callable[[Session], object]) -> None:
    before = hosts.contents(case)
    with hosts.session(case) as session, pytest.raises(RootUnseenError) as raised:
        run(session)
    assert raised.value.cluster == case
    assert raised.value.host == "127.0.0.1"
    assert str(hosts.root(case)) in str(raised.value)
    assert hosts.contents(case) == before
    assert not (hosts.root(case) / "exported").exists()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", WRITES)
def test_statement_that_writes_is_refused_and_changes_nothing(hosts: Hosts, case: str, statement: str) -> None:
    text = WRITES[statement].format(f"on_{case}", hosts.root(case).as_uri())
    check_refused(hosts, case, lambda session: session.sql(text))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("statement", READS)
def test_statement_that_reads_is_refused(hosts: Hosts, case: str, statement: str) -> None:
    check_refused(hosts, case, lambda session: session.sql(READS[statement].format(f"on_{case}")))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["major", "minor"])
def test_compaction_fails_and_changes_nothing(hosts: Hosts, case: str, kind: str) -> None:
    before = hosts.contents(case)
    assert hosts.metastore.compactor.request(f"on_{case}", "t", None, kind).is_accepted
    done = hosts.metastore.compactor.work("host-1")
    assert done is not None
    assert "does not see the root" in str(done.error_message), done
    assert hosts.contents(case) == before


@pytest.mark.parametrize("case", CASES)
def test_copying_job_is_refused_and_registers_no_copy(hosts: Hosts, case: str) -> None:
    with pytest.raises(RootUnseenError):
        hosts.metastore.replicator.replicate("on_seen.t", case, copy_cluster="seen")
    with pytest.raises(RootUnseenError):
        hosts.metastore.replicator.replicate(f"on_{case}.t", "seen", copy_cluster="seen")


def test_rows_that_tasks_wrote_out_of_sight_are_missed(hosts: Hosts) -> None:
    """The root is seen, and a folder below it lies on a file system that the workers do not share."""
    before = hosts.contents("seen")
    for text in (WRITES["external"], WRITES["external-overwrite"]):
        with hosts.session("seen") as session, pytest.raises(WrittenRowsMissingError, match="1000 rows") as raised:
            session.sql(text.format("on_seen", ""))
        assert raised.value.cluster == "seen"
        assert "127.0.0.1" in raised.value.hosts
    with hosts.session("seen") as session, pytest.raises(HivexError):
        session.sql(WRITES["text"].format("on_seen"))
    assert hosts.contents("seen") == before


def test_workers_that_see_the_root_write_and_read(hosts: Hosts) -> None:
    with hosts.session("seen") as session:
        assert session.sql(WRITES["insert"].format("on_seen")).rows_written == 1000
        session.sql(WRITES["update"].format("on_seen"))
        assert session.sql(READS["select"].format("on_seen")).rows == [(1040,)]
