"""kill -9 of a process in the middle of an INSERT, at ten different moments."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.model.transactions import TxnState

ROWS = 200_000
Moment = Callable[[Path, Metastore], bool]


def _files(root: Path, pattern: str) -> bool:
    return any(root.glob(pattern))


def _after_begin(delay_s: float) -> Moment:
    """The moment ``delay_s`` after the statement began: where a timer, not a condition, decides."""
    started: list[float] = []

    def reached(_root: Path, _metastore: Metastore) -> bool:
        started.append(time.monotonic())
        return started[-1] - started[0] >= delay_s

    return reached


MOMENTS: dict[str, Moment] = {
    "at once": lambda _root, _metastore: True,
    "transaction open": lambda _root, metastore: metastore.transactions.valid_txns().min_open is not None,
    "staging made": lambda root, _metastore: _files(root, "default.db/t/_staging*"),
    "first part file": lambda root, _metastore: _files(root, "default.db/t/_staging*/**/part-*"),
    "delta made": lambda root, _metastore: _files(root, "default.db/t/**/delta_*"),
    "bucket file": lambda root, _metastore: _files(root, "default.db/t/**/delta_*/bucket_*"),
    "0.05 s": _after_begin(0.05),
    "0.1 s": _after_begin(0.1),
    "0.2 s": _after_begin(0.2),
    "0.4 s": _after_begin(0.4),
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
    for name, moment in MOMENTS.items():
        finished = _insert_and_kill(moment, metastore, sqlite_url, properties, tmp_path / "c1")
        with metastore.session() as session:
            (count,) = session.sql("SELECT count(*) FROM t").rows[0]
        assert count in {expected, expected + ROWS}, name
        if finished:
            assert count == expected + ROWS, f"{name}: an acknowledged INSERT was lost"
        expected = count
    abandoned = metastore.transactions.valid_txns().open_ids
    assert abandoned, "no kill hit an open transaction"
    hours_later = Metastore.open(sqlite_url, clusters=properties, clock=lambda: system_clock() + 3_600_000)
    with hours_later:
        assert hours_later.housekeeper.run().aborted == abandoned
        assert {hours_later.transactions.get(txn_id).state for txn_id in abandoned} == {TxnState.ABORTED}
        with hours_later.session() as session:
            assert session.sql("SELECT count(*), count(DISTINCT part) FROM t").rows[0][0] == expected


def _insert_and_kill(
    moment: Moment, metastore: Metastore, url: str, properties: dict[str, dict[str, str]], root: Path
) -> bool:
    """Start a writer, kill it at the moment, and tell whether it had acknowledged its INSERT."""
    program = Path(__file__).with_name("inserting_process.py")
    before = set(root.rglob("*"))
    with subprocess.Popen(
        [sys.executable, str(program), url, json.dumps(properties)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        _remove_leftovers(root, before)
        writer.stdin.write("go\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "begin\n"
        deadline = time.monotonic() + 60
        while not moment(root, metastore):
            assert time.monotonic() < deadline, "the moment never came"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        return "done" in writer.stdout.read()


def _remove_leftovers(root: Path, paths: set[Path]) -> None:
    """Staging of killed writers would make a later writer's moment come too early."""
    import shutil

    for path in paths:
        if path.name.startswith("_staging"):
            shutil.rmtree(path, ignore_errors=True)
