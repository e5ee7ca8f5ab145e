"""kill -9 of a process in the middle of a statement that writes, once for each kind of statement.

``test_faults.py`` ends statements at each of their steps without starting Spark again; here whole processes die, with
their Spark in the middle of its work.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.model.transactions import TxnState
from tests import evidence

ROWS = 50_000
INSERT = f"INSERT INTO t SELECT id, cast(id % 3 AS string) FROM range({ROWS})"
Moment = Callable[[set[str]], bool]
"""Whether it has come, by the files and folders that the writer has made so far."""

AFTER = {
    INSERT: f"SELECT id FROM t UNION ALL SELECT id FROM range({ROWS})",
    "UPDATE t SET id = id + 1 WHERE id % 3 = 0": "SELECT if(id % 3 = 0, id + 1, id) AS id FROM t",
    "DELETE FROM t WHERE id % 7 = 0": "SELECT id FROM t WHERE id % 7 <> 0",
    "MERGE INTO t USING range(30000, 70000) s ON t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET id = -t.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'merged')": (
        "SELECT if(s.id IS NULL, t.id, if(t.id IS NULL, s.id, -t.id)) AS id "
        "FROM t FULL JOIN range(30000, 70000) s ON t.id = s.id WHERE t.id IS NULL OR s.id IS NULL OR s.id % 2 = 1"
    ),
    "INSERT OVERWRITE t PARTITION (part) SELECT id * 2, part FROM t": "SELECT id * 2 AS id FROM t",
}
"""Statements, each with a query for the ids that are there once it counts."""
_UPDATE, _DELETE, _MERGE, _OVERWRITE = list(AFTER)[1:]


def _made(pattern: str) -> Moment:
    return lambda new: any(fnmatch(name, pattern) for name in new)


def _after_begin(delay_s: float) -> Moment:
    """The moment ``delay_s`` after the statement began: where a timer, not a condition, decides."""
    started: list[float] = []

    def reached(_new: set[str]) -> bool:
        started.append(time.monotonic())
        return started[-1] - started[0] >= delay_s

    return reached


MOMENTS: dict[str, tuple[Moment, str]] = {
    "first task done": (_made("*/_staging*/part=*/part-*"), INSERT),
    "delta made": (_made("*/delta_*"), _MERGE),
    "first bucket file": (_made("*delta_*/bucket_*"), _UPDATE),
    "first part file": (_made("*/part-*.orc"), _DELETE),
    "0.3 s": (_after_begin(0.3), _OVERWRITE),
}


class Writers:
    """Processes that write to a warehouse, of which one is taken after the other."""

    def __init__(self, url: str, properties: dict[str, dict[str, str]], folder: Path) -> None:
        self.folder = folder
        self._arguments = [str(Path(__file__).with_name("writing_process.py")), url, json.dumps(properties)]
        self._last: subprocess.Popen[str] | None = None

    def take(self) -> subprocess.Popen[str]:
        """The last one if it lives, else a new one: its Spark is up, and it waits for a statement."""
        if self._last is None or self._last.poll() is not None:
            self.stop()
            with (self.folder / "writer.log").open("w") as errors:
                self._last = subprocess.Popen(
                    [sys.executable, *self._arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
            assert _answer(self._last) == "ready", self.log()
        return self._last

    def log(self) -> str:
        """What the last one had to say."""
        return (self.folder / "writer.log").read_text()

    def stop(self) -> None:
        """Let the last one be gone."""
        if self._last is not None:
            self._last.kill()
            # It closes the pipes, and waits.
            self._last.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def url(folder: Path, sqlite_template: Path) -> str:
    return f"sqlite:///{shutil.copy(sqlite_template, folder / 'metastore.db')}"


@pytest.fixture(scope="module")
def properties(folder: Path) -> dict[str, dict[str, str]]:
    return {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}


@pytest.fixture(scope="module")
def metastore(url: str, properties: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    with Metastore.open(url, clusters=properties) as metastore:
        with metastore.session() as session:
            for table in ("t", "stopped", "retried"):
                session.sql(f"CREATE TABLE {table} (id bigint) PARTITIONED BY (part string)")
                session.sql(f"INSERT INTO {table} VALUES (-1, 'first')")
        yield metastore


@pytest.fixture(scope="module")
def writers(url: str, properties: dict[str, dict[str, str]], folder: Path) -> Iterator[Writers]:
    writers = Writers(url, properties, folder)
    yield writers
    writers.stop()


@pytest.mark.spark
@pytest.mark.evidence(cases=2, among="writers that die")
def test_sigterm_stops_the_job_and_aborts_its_transaction(metastore: Metastore, writers: Writers) -> None:
    statement = INSERT.replace("INTO t ", "INTO stopped ")
    writer = writers.take()
    # More rows than could be written before the test's time is over.
    _begin(writer, statement.replace(str(ROWS), str(10**12)))
    _wait_for(_made("*/_staging*/_temporary/*"), set(), writers.folder, writer, "stopped")
    (txn_id,) = metastore.transactions.valid_txns().open_ids
    writer.send_signal(signal.SIGTERM)
    assert _answer(writer) == "cancelled", writers.log()
    assert metastore.transactions.get(txn_id).state is TxnState.ABORTED
    # The process goes on, and so does its Spark.
    _begin(writer, statement.replace(str(ROWS), "10"))
    assert _answer(writer) == "done"
    with metastore.session() as session:
        assert session.sql("SELECT count(*) FROM stopped").rows == [(11,)]
    assert not list((writers.folder / "c1" / "default.db" / "stopped").glob("_staging*"))


@pytest.mark.spark
@pytest.mark.evidence(cases=2, among="writers that die")
@pytest.mark.timeout(600)
def test_rows_are_those_before_the_statement_or_after_it(
    metastore: Metastore, url: str, properties: dict[str, dict[str, str]], writers: Writers
) -> None:
    with metastore.session() as session:
        session.sql(INSERT)
    undone = 0
    abandoned: set[int] = set()
    before = _contents(metastore, "SELECT id FROM t")
    # The first one always comes before the commit.
    first, *others = MOMENTS
    for name in (first, *evidence.drawn("moments of a write", others, 2)):
        moment, statement = MOMENTS[name]
        after = _contents(metastore, AFTER[statement])
        assert before != after, f"{name}: the statement would change nothing"
        finished = _run_and_kill(statement, moment, writers)
        # What the dead one has locked is free once its time-out is over.
        with Metastore.open(url, clusters=properties, clock=lambda: system_clock() + 3_600_000) as hours_later:
            left_open = set(metastore.transactions.valid_txns().open_ids)
            assert set(hours_later.housekeeper.run().aborted) == left_open
            assert {hours_later.transactions.get(txn_id).state for txn_id in left_open} <= {TxnState.ABORTED}
        abandoned |= left_open
        found = _contents(metastore, "SELECT id FROM t")
        assert found in (before, after), name
        if finished:
            assert found == after, f"{name}: an acknowledged statement was lost"
        undone += found == before
        before = found
    assert undone, "every statement was done before its writer was killed"
    assert abandoned, "no kill hit an open transaction"


def _contents(metastore: Metastore, ids: str) -> tuple[object, ...]:
    """Count, sum and a sum of hashes of the ids that a query brings: equal for equal rows in any order."""
    with metastore.session() as session:
        (row,) = session.sql(f"SELECT count(*), sum(id), sum(CAST(xxhash64(id) AS DECIMAL(38))) FROM ({ids})").rows
    return row


def _run_and_kill(statement: str, moment: Moment, writers: Writers) -> bool:
    """Give a statement to a writer, kill it at the moment, and return whether it had acknowledged the statement."""
    writer = writers.take()
    before = _names(writers.folder)
    _begin(writer, statement)
    _wait_for(moment, before, writers.folder, writer)
    writer.send_signal(signal.SIGKILL)
    output, _ = writer.communicate()
    return "done" in output


def _answer(writer: subprocess.Popen[str]) -> str:
    assert writer.stdout is not None
    return writer.stdout.readline().strip()


def _begin(writer: subprocess.Popen[str], statement: str) -> None:
    assert writer.stdin is not None
    writer.stdin.write(f"{statement}\n")
    writer.stdin.flush()
    assert _answer(writer) == "begin"


def _wait_for(moment: Moment, before: set[str], folder: Path, writer: subprocess.Popen[str], table: str = "t") -> None:
    deadline = time.monotonic() + 60
    while not moment(_names(folder, table) - before):
        assert time.monotonic() < deadline, "the moment never came"
        with suppress(subprocess.TimeoutExpired):
            # Looking takes the writer's time: long enough to leave it most of that, and shorter than any moment.
            writer.wait(0.01)
            return


def _names(folder: Path, table: str = "t") -> set[str]:
    # Unlike a glob, a walk does not mind folders that go away under it.
    walk = os.walk(folder / "c1" / "default.db" / table)
    return {f"{at}/{name}" for at, folders, files in walk for name in (*folders, *files)}


_RETRYING = """
import json, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from airflow_hivex.core import Metastore

def lost_once(batches):
    for batch in batches:
        yield batch
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("this task is lost after its first rows")

def lost(value):
    if TaskContext.get().attemptNumber() == 0 and value % 1000 == 999:
        raise RuntimeError("this task is lost in the middle")
    return value + 1

builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
spark = builder.config("spark.log.level", "FATAL").getOrCreate()
spark.udf.register("lost", lost, "bigint")
with Metastore.open(sys.argv[1], clusters=json.loads(sys.argv[2])) as metastore, metastore.session() as session:
    warehouse = session.warehouse(spark)
    rows = spark.range(20000).selectExpr("id", "string(id % 3) AS part").mapInArrow(lost_once, "id bigint, part string")
    print(warehouse.write(rows, "retried").rows_written)
    print(warehouse.sql("UPDATE retried SET id = lost(id) WHERE id >= 0 AND part = '1'").rows_written)
"""


@pytest.mark.spark
@pytest.mark.evidence(cases=2, among="writers that die")
def test_tasks_that_are_tried_again_double_nothing(
    metastore: Metastore, url: str, properties: dict[str, dict[str, str]], folder: Path
) -> None:
    command = [sys.executable, "-c", _RETRYING, url, json.dumps(properties)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["20000", "6667"], done.stderr
    with metastore.session() as session:
        found = session.sql(
            "SELECT part, count(*), count(DISTINCT id), sum(id) FROM retried GROUP BY part ORDER BY part"
        ).rows
    ids = {part: range(part, 20000, 3) for part in range(3)}
    assert found == [
        ("0", len(ids[0]), len(ids[0]), sum(ids[0])),
        ("1", len(ids[1]), len(ids[1]), sum(ids[1]) + len(ids[1])),
        ("2", len(ids[2]), len(ids[2]), sum(ids[2])),
        ("first", 1, 1, -1),
    ]
    assert not list((folder / "c1" / "default.db" / "retried").glob("_staging*"))
