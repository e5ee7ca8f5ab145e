"""kill -9 of a process in the middle of an INSERT, at ten different moments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.model.transactions import TxnState

ROWS = 50_000
Moment = Callable[[set[str]], bool]
"""Whether it has come, by the files, folders and transactions that the writer has made so far."""


def _made(pattern: str) -> Moment:
    return lambda new: any(fnmatch(name, pattern) for name in new)


def _after_begin(delay_s: float) -> Moment:
    """The moment ``delay_s`` after the statement began: where a timer, not a condition, decides."""
    started: list[float] = []

    def reached(_new: set[str]) -> bool:
        started.append(time.monotonic())
        return started[-1] - started[0] >= delay_s

    return reached


MOMENTS: dict[str, Moment] = {
    "at once": lambda _new: True,
    "transaction open": _made("transaction *"),
    "staging made": _made("*/_staging*"),
    "first part file": _made("*/part-*.orc"),
    "first task done": _made("*/_staging*/part=*/part-*"),
    "delta made": _made("*/delta_*"),
    "first bucket file": _made("*/delta_*/bucket_*"),
    "last bucket file": _made("*part=2/delta_*/bucket_*"),
    "0.1 s": _after_begin(0.1),
    "0.3 s": _after_begin(0.3),
}


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]"}}


@pytest.fixture
def metastore(sqlite_url: str, properties: dict[str, dict[str, str]]) -> Iterator[Metastore]:
    with Metastore.open(sqlite_url, clusters=properties) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (id bigint) PARTITIONED BY (part string)")
            session.sql("INSERT INTO t VALUES (-1, 'first')")
        yield metastore


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_row_count_stays_a_committed_one(
    metastore: Metastore, sqlite_url: str, properties: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    expected = 1
    unfinished = 0
    for name, moment in MOMENTS.items():
        finished = _insert_and_kill(moment, metastore, sqlite_url, properties, tmp_path)
        with metastore.session() as session:
            (count,) = session.sql("SELECT count(*) FROM t").rows[0]
        assert count in {expected, expected + ROWS}, name
        if finished:
            assert count == expected + ROWS, f"{name}: an acknowledged INSERT was lost"
        unfinished += count == expected
        expected = count
    assert unfinished, "every INSERT was done before its writer was killed"
    abandoned = metastore.transactions.valid_txns().open_ids
    assert abandoned, "no kill hit an open transaction"
    hours_later = Metastore.open(sqlite_url, clusters=properties, clock=lambda: system_clock() + 3_600_000)
    with hours_later:
        assert hours_later.housekeeper.run().aborted == abandoned
        assert {hours_later.transactions.get(txn_id).state for txn_id in abandoned} == {TxnState.ABORTED}
        with hours_later.session() as session:
            assert session.sql("SELECT count(*), count(DISTINCT part) FROM t").rows[0][0] == expected


@pytest.mark.spark
def test_sigterm_stops_the_job_and_aborts_its_transaction(
    metastore: Metastore, sqlite_url: str, properties: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    with _writer(sqlite_url, properties, tmp_path) as writer:
        # More rows than could be written before the test's time is over.
        _begin(writer, 10**12)
        _wait_for(_made("*/_staging*/_temporary/*"), metastore, set(), tmp_path, writer)
        (txn_id,) = metastore.transactions.valid_txns().open_ids
        writer.send_signal(signal.SIGTERM)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "cancelled\n", (tmp_path / "writer.log").read_text()
        assert metastore.transactions.get(txn_id).state is TxnState.ABORTED
        # The process goes on, and so does its Spark.
        _begin(writer, 10)
        assert writer.stdout.readline() == "done\n"
    with metastore.session() as session:
        assert session.sql("SELECT count(*) FROM t").rows == [(11,)]
    assert not list((tmp_path / "c1" / "default.db" / "t").glob("_staging*"))


def _insert_and_kill(
    moment: Moment, metastore: Metastore, url: str, properties: dict[str, dict[str, str]], folder: Path
) -> bool:
    """Start a writer, kill it at the moment, and tell whether it had acknowledged its INSERT."""
    with _writer(url, properties, folder) as writer:
        before = _names(folder, metastore)
        _begin(writer, ROWS)
        _wait_for(moment, metastore, before, folder, writer)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert writer.stdout is not None
        return "done" in writer.stdout.read()


@contextmanager
def _writer(url: str, properties: dict[str, dict[str, str]], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process whose Spark is up and that waits for the number of rows to insert."""
    program = Path(__file__).with_name("inserting_process.py")
    with (
        (folder / "writer.log").open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(program), url, json.dumps(properties)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as writer,
    ):
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n", (folder / "writer.log").read_text()
            yield writer
        finally:
            writer.kill()


def _begin(writer: subprocess.Popen[str], rows: int) -> None:
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(f"{rows}\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "begin\n"


def _wait_for(
    moment: Moment, metastore: Metastore, before: set[str], folder: Path, writer: subprocess.Popen[str]
) -> None:
    deadline = time.monotonic() + 60
    while not moment(_names(folder, metastore) - before):
        assert time.monotonic() < deadline, "the moment never came"
        with suppress(subprocess.TimeoutExpired):
            writer.wait(0.002)
            return


def _names(folder: Path, metastore: Metastore) -> set[str]:
    transactions = {f"transaction {txn_id}" for txn_id in metastore.transactions.valid_txns().open_ids}
    # Unlike a glob, a walk does not mind folders that go away under it.
    walk = os.walk(folder / "c1" / "default.db" / "t")
    return transactions | {f"{at}/{name}" for at, folders, files in walk for name in (*folders, *files)}
