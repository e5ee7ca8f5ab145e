"""kill -9 of workers and cleaners at random moments: no row is lost or doubled, and nothing is left on disk.

``make evidence`` kills fifty of each; ``HIVEX_COMPACTION_KILLS`` sets another number.
``test_random_compactions.py`` ends both at each of their steps; here whole processes die, with their Spark.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.model.cleaning import CleaningOutcome
from airflow_hivex.core.model.compaction import CompactionState
from airflow_hivex.core.model.transactions import TxnState, TxnType
from tests import evidence
from tests.acceptance import compacting_process, registered_directories
from tests.processes import ClientProcess

if TYPE_CHECKING:
    from tests.conftest import Counts

KILLS = evidence.amount("HIVEX_COMPACTION_KILLS", share=1, whole=50)
SEED = evidence.SEED

HOURS_MS = 3_600_000
WORKER_S, CLEANER_S = 2.5, 0.2
"""The longest that one of them may go on; mostly it has done all by then."""
TABLES = {
    "f": "(id int, v string) CLUSTERED BY (id) INTO 2 BUCKETS",
    "h": "(id int, v string) PARTITIONED BY (p int) TBLPROPERTIES ('hivex.row.layout' = 'hive')",
    "i": "(id int, v string) TBLPROPERTIES ('transactional_properties' = 'insert_only')",
}
OF_WORKERS = (TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION)
Rows = dict[str, dict[int, str]]


class Worker:
    """A process with its Spark that compacts on command."""

    def __init__(self, url: str, clusters: dict[str, dict[str, str]], log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, compacting_process.__file__, url, json.dumps(clusters)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def begin(self) -> None:
        """Wait for its Spark, and let it go."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", self._log.read_text()
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self, *, with_spark: bool) -> list[str]:
        """kill -9; return its output until then. Spark's own process ends by itself if it is not killed, too."""
        if with_spark:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        # Until Spark's process has ended: it has the pipe as well.
        reported, _ = self._process.communicate()
        return reported.splitlines()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill(with_spark=True)


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}


@pytest.fixture
def metastore(sqlite_url: str, properties: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    with Metastore.open(sqlite_url, clusters=properties) as metastore:
        yield metastore


@pytest.fixture
def later(sqlite_url: str, properties: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    """The same, hours later: dead processes have timed out."""
    clock = lambda: system_clock() + HOURS_MS  # noqa: E731 - as short as the clock is
    with Metastore.open(sqlite_url, clusters=properties, clock=clock) as metastore:
        yield metastore


@pytest.mark.spark
@pytest.mark.evidence
@pytest.mark.timeout(3600)
def test_killed_workers_and_cleaners_lose_nothing(
    metastore: Metastore,
    later: Metastore,
    sqlite_url: str,
    properties: dict[str, dict[str, str]],
    tmp_path: Path,
    counts: Counts,
) -> None:
    chance = random.Random(SEED)
    hit = Counter[str]()
    rows: Rows = {name: {} for name in TABLES}
    worker = Worker(sqlite_url, properties, tmp_path / "worker.log")
    reader: tuple[Session, Rows] | None = None
    with metastore.session() as session:
        try:
            for name, text in TABLES.items():
                session.sql(f"CREATE TABLE {name} {text}")
            for number in range(KILLS):
                change(session, rows, number, chance)
                ask(metastore, chance)
                if reader is None:
                    reader = metastore.session(), {name: dict(each) for name, each in rows.items()}
                    reader[0].sql("START TRANSACTION")
                    assert contents(reader[0]) == rows
                worker.begin()
                ready = tmp_path / f"cleaner{number}"
                with ClientProcess(
                    compacting_process.clean_until_killed, sqlite_url, properties, ready, log=tmp_path / "cleaner.log"
                ) as cleaner:
                    kill_both(worker, cleaner, ready, chance, hit)
                worker = Worker(sqlite_url, properties, tmp_path / "worker.log")
                hit["compactions at work"] += sum(
                    each.state is CompactionState.WORKING for each in metastore.compactor.show()
                )
                bury(metastore, later)
                assert contents(session) == rows
                assert contents(reader[0]) == reader[1]
                if chance.random() < 0.5:
                    reader[0].close()
                    reader = None
        finally:
            worker.close()
            if reader is not None:
                reader[0].close()
        # The last worker may have been killed while it began.
        later.housekeeper.run()
        while metastore.compactor.work() is not None:
            pass
        while tasks := later.compactor.clean():
            assert {task.outcome for task in tasks} == {CleaningOutcome.CLEANED}, tasks
        assert contents(session) == rows
    registered_directories.check_accounted(metastore, tmp_path)
    assert {each.state for each in metastore.compactor.show()} <= {CompactionState.SUCCEEDED, CompactionState.REFUSED}
    assert metastore.transactions.valid_txns().open_ids == ()
    assert metastore.locks.show() == []
    counts["kills of workers and cleaners"] = {"of each": KILLS, **dict(sorted(hit.items()))}


def change(session: Session, rows: Rows, number: int, chance: random.Random) -> None:
    """Some statements on each table, one of which does not count."""
    first = number * 10
    for name, there in rows.items():
        key = ", 1" if name == "h" else ""
        for start in (first, first + 5):
            new = range(start, start + 5)
            session.sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({each}, 'v{each}'{key})" for each in new))
            there |= {each: f"v{each}" for each in new}
    name = chance.choice(("f", "h"))
    modulus = chance.randint(2, 6)
    if chance.random() < 0.5:
        session.sql(f"UPDATE {name} SET v = 'u{number}' WHERE id % {modulus} = 1")
        rows[name] |= {each: f"u{number}" for each in rows[name] if each % modulus == 1}
    else:
        session.sql(f"DELETE FROM {name} WHERE id % {modulus} = 1")
        rows[name] = {each: v for each, v in rows[name].items() if each % modulus != 1}
    session.sql("START TRANSACTION")
    session.sql(f"INSERT INTO {name} VALUES (-1, 'never'{', 1' if name == 'h' else ''})")
    session.sql("ROLLBACK")


def ask(metastore: Metastore, chance: random.Random) -> None:
    for name in TABLES:
        kinds = ("minor", "major", "rebalance") if name == "h" else ("minor", "major")
        metastore.compactor.request("default", name, "p=1" if name == "h" else None, chance.choice(kinds))


def kill_both(worker: Worker, cleaner: ClientProcess, ready: Path, chance: random.Random, hit: Counter[str]) -> None:
    """Kill both, each at a moment of its own."""
    worker_s, cleaner_s = chance.uniform(0, WORKER_S), chance.uniform(0, CLEANER_S)
    with_spark = chance.random() < 0.5
    began = time.monotonic()
    while not ready.exists():
        assert cleaner.is_alive, cleaner.error()
    # The cleaner repeats its round, so that it may meet what the worker has just put into place.
    moments = sorted([(began + worker_s, "worker"), (time.monotonic() + cleaner_s, "cleaner")])
    for moment, who in moments:
        # A random moment is what is tried: nothing is waited for but its time.
        time.sleep(max(0.0, moment - time.monotonic()))
        if who == "cleaner":
            assert cleaner.is_alive, cleaner.error()
            cleaner.kill()
        else:
            reported = worker.kill(with_spark=with_spark)
            hit["workers were done"] += "idle" in reported
            hit["compactions done"] += sum(line != "idle" for line in reported)


def bury(metastore: Metastore, later: Metastore) -> None:
    """Let the housekeeper come when the time-outs of the dead are over, and none of the living."""
    for each in metastore.transactions.show():
        if each.state is TxnState.OPEN and each.type not in OF_WORKERS:
            later.transactions.heartbeat(each.id)
    later.housekeeper.run()


def contents(session: Session) -> Rows:
    """The rows of all tables; twice the same is an error."""
    query = " UNION ALL ".join(f"SELECT '{name}' AS name, id, v FROM {name}" for name in TABLES)
    found: Rows = {name: {} for name in TABLES}
    for name, key, value in session.sql(query).rows:
        assert key not in found[name], f"row {key} of {name} is there twice"
        found[name][key] = value
    return found
