"""kill -9 of replications at random moments, with other statements meanwhile: the secondary is complete or refused."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import (
    DeadlockError,
    JobError,
    NoSuchPartitionError,
    RoutingError,
    StorageError,
    TransactionAbortedError,
)
from airflow_hivex.core.runners import connect_server, driver_process
from tests import evidence
from tests.acceptance.replicating_process import replicate, replicate_by_job
from tests.conftest import Counts
from tests.connect_server import running_server
from tests.processes import ClientProcess
from tests.standalone_clusters import StandaloneCluster

KILLS = evidence.amount("HIVEX_REPLICATION_KILLS", share=6, whole=300)
SETTINGS = {
    # Statements that wait for a dead replication find out soon, and the cleaner deletes files that no query reads now.
    "metastore.acid.housekeeper.interval": 1,
    "hivex.dataframe.retention.time": 0,
}
_SHORTEST_S, _LONGEST_S = 0.2, 4.0
_STATEMENTS = {"insert": 5, "overwrite": 1, "truncate": 1, "drop": 1, "delete": 1, "compact": 2}


def _files(session: Session) -> list[tuple[str, str]]:
    """Return names and checksums of the files that a query of the session would read now."""
    paths = [Path(each.uri.removeprefix("file://")) for each in session.snapshot_files("t").files]
    return sorted(("/".join(each.parts[-3:]), hashlib.sha256(each.read_bytes()).hexdigest()) for each in paths)


def _look(metastore: Metastore, target: str = "c2") -> str:
    """Compare both clusters in one snapshot; a copy that is not current has to be refused."""
    (txn_id,) = metastore.transactions.open(user="reader")
    try:
        with (
            metastore.session(cluster="c1", txn_id=txn_id) as primary,
            metastore.session(cluster=target, txn_id=txn_id) as secondary,
        ):
            expected = _files(primary)
            assert _files(secondary) == expected
            return "complete"
    except RoutingError:
        return "refused"
    except (DeadlockError, TransactionAbortedError):
        # It was the youngest of those that wait for each other, such as with a partition that is dropped.
        return "not done"
    finally:
        metastore.abort(txn_id)


@contextmanager
def _watched(metastore: Metastore, seen: Counter[str], target: str = "c2") -> Iterator[None]:
    """Look at the secondary all the while."""
    failures: list[BaseException] = []
    ended = threading.Event()

    def watch() -> None:
        try:
            while not ended.is_set():
                seen[_look(metastore, target)] += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]


def _change(metastore: Metastore, session: Session, kind: str, number: int) -> None:
    ds = f"ds = '{number % 3}'"
    statements = {
        "insert": f"INSERT INTO t PARTITION ({ds}) VALUES ({number}), ({-number})",
        "overwrite": f"INSERT OVERWRITE t PARTITION ({ds}) VALUES ({number})",
        "delete": f"DELETE FROM t WHERE {ds} AND id % 2 = 0",
        "truncate": f"TRUNCATE TABLE t PARTITION ({ds})",
        "drop": f"ALTER TABLE t DROP PARTITION ({ds})",
    }
    # An earlier one may have dropped the partition.
    with suppress(NoSuchPartitionError):
        if kind == "compact":
            metastore.compactor.request("default", "t", f"ds={number % 3}", "major" if number % 2 else "minor")
            metastore.compactor.work("host-1")
            metastore.compactor.clean()
        else:
            session.sql(statements[kind])


@pytest.mark.evidence
@pytest.mark.spark
@pytest.mark.timeout(4 * 3600)
def test_killed_replications_leave_a_complete_copy_or_none(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, counts: Counts
) -> None:
    rng = random.Random(evidence.SEED)
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": SETTINGS}
    seen: Counter[str] = Counter()
    done: Counter[str] = Counter()
    with Metastore.open(metastore_url, **options) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
        kinds, weights = list(_STATEMENTS), list(_STATEMENTS.values())
        for number in range(KILLS):
            for ds in range(3):
                session.sql(f"INSERT INTO t PARTITION (ds = '{ds}') VALUES ({number})")
            arguments = (metastore_url, options, rng.choice((20_000, 200_000, None)))
            with (
                _watched(metastore, seen),
                ClientProcess(replicate, *arguments, log=tmp_path / "log") as client,
            ):
                kill_after_s = rng.uniform(_SHORTEST_S, _LONGEST_S)
                killer = threading.Timer(kill_after_s, client.kill)
                killer.start()
                for kind in rng.choices(kinds, weights, k=rng.randrange(4)):
                    _change(metastore, session, kind, rng.randrange(1, 1000))
                    done[kind] += 1
                done["killed" if client.wait() < 0 else "finished before"] += 1
                killer.cancel()
            seen[_look(metastore)] += 1
        metastore.replicator.replicate("t", "c2")
        assert _look(metastore) == "complete"
        assert {each.is_current for each in metastore.replicator.copies("default.t")} == {True}
    counts["replications with a kill"] = {
        "replications": KILLS,
        **dict(sorted(done.items())),
        **{f"looks: {name}": number for name, number in sorted(seen.items())},
    }


class _Cluster:
    """A cluster whose Spark copies, and a part of it that is killed."""

    target = ""

    def __init__(self, options: dict[str, Any], url: str, log: Path) -> None:
        self.options = options
        self.url = url
        self.log = log

    def replicate(self, bytes_per_second: int | None, kill_after_s: float) -> str:
        """Replicate, and kill a part of it meanwhile; return the end of the replication."""
        with Metastore.open(self.url, **self.options) as metastore:
            killer = threading.Timer(kill_after_s, self.kill)
            killer.start()
            try:
                metastore.replicator.replicate(
                    "t", self.target, copy_cluster=self.target, threads=2, bytes_per_second=bytes_per_second
                )
            except (JobError, StorageError, RoutingError) as error:
                ended = type(error).__name__
            else:
                ended = "finished"
            killer.join()
        self.mend()
        return ended

    def kill(self) -> None:
        """Kill what this kind is about; each kind says what."""
        raise NotImplementedError

    def mend(self) -> None:
        """Start again what was killed."""


class _Client(_Cluster):
    target = "connect"

    def replicate(self, bytes_per_second: int | None, kill_after_s: float) -> str:
        with ClientProcess(
            replicate_by_job, self.url, self.options, "t", self.target, bytes_per_second, log=self.log
        ) as client:
            killer = threading.Timer(kill_after_s, client.kill)
            killer.start()
            code = client.wait(120)
            killer.cancel()
            assert code <= 0, client.error()
            return "killed" if code < 0 else "finished"


class _Server(_Cluster):
    target = "connect"
    server: connect_server.Server

    def kill(self) -> None:
        process = self.server.process
        assert process is not None
        process.kill()
        process.wait(30)

    def mend(self) -> None:
        type(self).server = connect_server.start(self.server.port, "local[2]")[0]


class _Executor(_Cluster):
    target = "standalone"
    cluster: StandaloneCluster

    def kill(self) -> None:
        for each in self.cluster.executors()[:1]:
            with suppress(psutil.NoSuchProcess):
                each.kill()


class _Driver(_Executor):
    def kill(self) -> None:
        for each in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                if "hivex_driver.py" in " ".join(each.cmdline()):
                    each.kill()


@pytest.fixture
def spark_of(
    request: pytest.FixtureRequest, clusters: dict[str, dict[str, str]], tmp_path: Path
) -> Iterator[dict[str, Any]]:
    """The clusters c1, whose Spark is in this process, and those of the parts that are to be killed."""
    kinds = {part.target for part in JOB_PARTS}
    found: dict[str, Any] = {"c1": clusters["c1"]}
    with ExitStack() as stack:
        if "connect" in kinds:
            _Server.server = stack.enter_context(running_server(tmp_path / "state"))
            found["connect"] = {"filesystem": (tmp_path / "connect").as_uri(), "jobtracker": _Server.server.url}
        if "standalone" in kinds:
            _Executor.cluster = request.getfixturevalue("spark_clusters")[0]
            found["standalone"] = _Executor.cluster.properties(tmp_path / "standalone")
            stack.callback(driver_process.close_all)
        yield found


JOB_KILLS = evidence.amount("HIVEX_COPY_JOB_KILLS", share=1, whole=60)
JOB_PARTS = random.Random(f"{evidence.SEED} jobs").choices((_Client, _Server, _Executor, _Driver), k=JOB_KILLS)


@pytest.mark.evidence
@pytest.mark.spark
@pytest.mark.timeout(4 * 3600)
def test_killed_jobs_that_copy_leave_a_complete_copy_or_none(
    sqlite_url: str, spark_of: dict[str, Any], tmp_path: Path, counts: Counts
) -> None:
    rng = random.Random(evidence.SEED)
    options: dict[str, Any] = {"clusters": spark_of, "default_cluster": "c1", "settings": SETTINGS}
    done: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    with Metastore.open(sqlite_url, **options) as metastore, metastore.session() as session:
        session.sql("CREATE TABLE t (id int) PARTITIONED BY (ds string)")
        for number, part in enumerate(JOB_PARTS):
            for ds in range(3):
                session.sql(f"INSERT INTO t PARTITION (ds = '{ds}') VALUES ({number})")
            copying = part(options, sqlite_url, tmp_path / "log")
            with _watched(metastore, seen, part.target):
                ended = copying.replicate(rng.choice((400, 2000, None)), rng.uniform(_SHORTEST_S, _LONGEST_S))
            done[f"{part.__name__.strip('_').lower()} killed: {ended}"] += 1
            seen[_look(metastore, part.target)] += 1
        for target in {part.target for part in JOB_PARTS}:
            metastore.replicator.replicate("t", target)
            assert _look(metastore, target) == "complete"
    counts["replications by jobs with a kill"] = {
        "replications": JOB_KILLS,
        **dict(sorted(done.items())),
        **{f"looks: {name}": number for name, number in sorted(seen.items())},
    }
