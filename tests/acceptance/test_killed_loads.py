"""COPY INTO while files arrive, change and disappear, and while its process is killed with its Spark: each row once."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError
from tests import evidence
from tests.processes import end_with_parent

pytestmark = [pytest.mark.spark, pytest.mark.evidence(cases=1)]
RecordProperty = Callable[[str, object], None]

COPY = "COPY INTO t FROM 'raw' FILEFORMAT = CSV"


class Loader:
    """A process that runs the statement, with its own Spark. A killed one is replaced."""

    def __init__(self, url: str, clusters: dict[str, dict[str, str]], log: Path) -> None:
        self._log = log
        self._arguments = [str(Path(__file__).with_name("writing_process.py")), url, json.dumps(clusters)]
        self._process: subprocess.Popen[str] | None = None
        self.ended = Counter[str]()

    def begin(self) -> None:
        """Begin the statement, in a new process if the last one has ended."""
        if self._process is None:
            with self._log.open("a") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, *self._arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    preexec_fn=end_with_parent,
                )
            assert self._answer() == "ready", self._log.read_text()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{COPY}\n")
        self._process.stdin.flush()
        assert self._answer() == "begin"

    def end(self) -> None:
        """Wait for the end of the statement. An error of the statement ends its process, too."""
        self._count(self._answer())

    def kill(self) -> None:
        """End the process as a machine does that loses its power."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._count("killed")

    def _count(self, outcome: str) -> None:
        assert self._process is not None
        self.ended[outcome or "failed"] += 1
        if outcome != "done":
            self._process.communicate()
            self._process = None

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture
def loader(metastore_url: str, clusters: dict[str, dict[str, str]], tmp_path: Path) -> Iterator[Loader]:
    # A process without a default cluster takes the only one.
    found = Loader(metastore_url, {"c1": clusters["c1"]}, tmp_path / "loader.log")
    yield found
    found.kill()


def change_files(folder: Path, choose: random.Random, step: int) -> None:
    """Let some files arrive, change or disappear. A row has the name of its file."""
    for number in range(choose.randint(1, 3)):
        name = f"{step}_{number}.csv"
        folder.with_name(name).write_text(f"{name},0\n")
        folder.with_name(name).rename(folder / name)
    known = sorted(folder.iterdir())
    changed, gone = choose.choice(known), choose.choice(known)
    if choose.random() < 0.5:
        changed.write_text(f"{changed.name},{step}\n")
    if choose.random() < 0.3:
        gone.unlink()


def abort_all(session: Session) -> None:
    """Abort the transactions of killed clients, as the housekeeping does later."""
    for row in session.sql("SHOW TRANSACTIONS").rows:
        session.sql(f"ABORT TRANSACTIONS {row[0]}")


def check(session: Session, folder: Path) -> int:
    """Check that each file was loaded once, and that none was forgotten; return their number."""
    session.sql(COPY)
    assert session.sql(COPY).rows_written == 0
    loaded = Counter(row[0] for row in session.sql("SELECT name FROM t").rows)
    remembered = {str(row[0]).rpartition("/")[2] for row in session.sql("SHOW COPY HISTORY t").rows}
    assert set(loaded.values()) == {1}
    assert remembered == loaded.keys() >= {path.name for path in folder.iterdir()}
    return len(loaded)


@pytest.mark.skipif(not evidence.IS_WHOLE, reason="each killed process needs a Spark of its own")
@pytest.mark.timeout(3600)
def test_each_row_is_loaded_once_though_processes_die(
    metastore: Metastore, loader: Loader, tmp_path: Path, record_property: RecordProperty
) -> None:
    choose = random.Random(evidence.SEED)
    folder = tmp_path / "c1" / "raw"
    folder.mkdir(parents=True)
    steps = evidence.amount("HIVEX_COPY_KILLS", 3, 60)
    with metastore.session(user="tester") as session:
        session.sql("CREATE TABLE t (name string, version int)")
        for step in range(steps):
            change_files(folder, choose, step)
            loader.begin()
            if choose.random() < 0.5:
                change_files(folder, choose, step + steps)
            if step == 1 or choose.random() < 0.3:
                # No condition: the moment of a kill is random.
                time.sleep(choose.random())
                loader.kill()
                abort_all(session)
            else:
                loader.end()
        record_property(f"{evidence.COUNT}loads with kill -9", {"files": check(session, folder), **loader.ended})


class KilledError(BaseException):
    """Stands for the death of a process: nothing of the statement goes on."""


def test_each_row_is_loaded_once_whatever_step_is_the_last(
    metastore: Metastore,
    metastore_url: str,
    clusters: dict[str, dict[str, str]],
    tmp_path: Path,
    record_property: RecordProperty,
) -> None:
    choose = random.Random(evidence.SEED)
    folder = tmp_path / "c1" / "raw"
    folder.mkdir(parents=True)
    steps = evidence.amount("HIVEX_COPY_STEPS", 4, 200)
    ended = Counter[str]()

    def at(point: str) -> None:
        if point == "while writing" and choose.random() < 0.3:
            change_files(folder, choose, -len(list(folder.iterdir())))
        if choose.random() < 0.06:
            raise KilledError(point)

    with metastore.session(user="tester") as session:
        session.sql("CREATE TABLE t (name string, version int)")
        for step in range(steps):
            change_files(folder, choose, step)
            try:
                with (
                    Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", fault=at) as dying,
                    dying.session() as killed,
                ):
                    killed.sql(COPY)
                ended["done"] += 1
            except KilledError:
                ended["killed"] += 1
            except HivexError as error:
                if "while it was read" not in str(error) and "does not exist" not in str(error):
                    raise
                ended["refused"] += 1
            abort_all(session)
        record_property(f"{evidence.COUNT}loads with kills", {"files": check(session, folder), **ended})
