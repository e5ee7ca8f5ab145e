"""Executors that are killed in the middle of each statement that writes, and of a compaction: each row counts once.

Tasks run in processes of their own, as on a cluster, and are tried twice. ``test_faults.py`` lets the driver's steps
fail, ``test_killed_writer.py`` kills the driver; here the driver goes on, and whatever runs its tasks does not.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest

from airflow_hivex.core import Metastore
from tests.acceptance.middle_of_writes import (
    LAYOUTS,
    TRIED,
    Rows,
    create,
    has_attempts,
    in_other,
    stopped_while_writing,
)
from tests.postgresql import PostgresqlServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@dataclass
class Cluster:
    """Spark with two executors, each a process that can be killed, and a warehouse on it."""

    driver: subprocess.Popen[str]
    jvm: int
    log: Path
    metastore: Metastore
    root: Path
    _others: set[int] = field(default_factory=set)

    def run(self, statement: str, *, loses: int = 0, table: str = "") -> dict[str, Any]:
        """The answer to a statement; a number of executors is killed, each in the middle of a write to the table."""
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(f"{statement}\n")
        self.driver.stdin.flush()
        lost: set[int] = set()
        folder = self.root / "default.db" / table
        while loses and not select.select([self.driver.stdout], [], [], 0.001)[0]:
            for executor in self._executors() - lost if has_attempts(folder) else ():
                with stopped_while_writing(executor, folder) as is_writing:
                    if is_writing and len(lost) < loses:
                        os.kill(executor, signal.SIGKILL)
                        lost.add(executor)
        line = self.driver.stdout.readline()
        assert line, self.log.read_text()[-3000:]
        answer: dict[str, Any] = json.loads(line)
        return {**answer, "lost": len(lost)} if loses else answer

    def _executors(self) -> set[int]:
        """The children of the driver's JVM."""
        found = set()
        for process in {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()} - self._others:
            with suppress(OSError):
                stat = Path(f"/proc/{process}/stat").read_text()
                (found if int(stat.rpartition(")")[2].split()[1]) == self.jvm else self._others).add(process)
        return found

    def rows(self, table: str) -> Rows:
        return sorted(tuple(row) for row in self.run(f"SELECT id, v, k FROM {table}")["rows"])


@pytest.fixture(scope="module")
def cluster(
    postgresql_server: PostgresqlServer, postgresql_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    url = postgresql_server.create_database(postgresql_template)
    (folder / "spark").mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        # Spark's workers write below its home.
        if each.name in ("bin", "jars", "python"):
            (folder / "spark" / each.name).symlink_to(each)
    properties = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    home = {"SPARK_HOME": str(folder / "spark"), "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    log = folder / "driver.log"
    with (
        Metastore.open(url, clusters=properties) as metastore,
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("cluster_process.py")), url, json.dumps(properties)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **home},
        ) as driver,
    ):
        try:
            assert driver.stdout is not None
            jvm = driver.stdout.readline()
            assert jvm, log.read_text()[-3000:]
            yield Cluster(driver, int(jvm), log, metastore, folder / "c1")
            assert driver.stdin is not None
            driver.stdin.close()
            driver.wait(30)
        finally:
            driver.kill()
    postgresql_server.drop_database(url)


@pytest.mark.evidence(cases=2, among="writers that die")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_count_once_when_an_executor_is_lost_in_the_middle_of_a_write(cluster: Cluster, layout: str) -> None:
    rows: Rows = []
    table, other = f"t_{layout}", f"other_{layout}"
    for name in (table, other):
        cluster.run(create(name, layout))
    for name, (text, change) in TRIED.items():
        answer = cluster.run(text.format(t=table, other=other), loses=1, table=table)
        assert "error" not in answer, f"{name}: {answer}"
        assert answer["lost"] == 1, name
        rows = sorted(change(rows))
        assert cluster.rows(table) == rows, name
    assert cluster.rows(other) == in_other(rows)
    cluster.run(f"DELETE FROM {table} WHERE id % 7 = 0")
    rows = [row for row in rows if row[0] % 7]
    # Into the other layout Spark writes all rows.
    other_layout = "hive" if layout == "flat" else "flat"
    properties = {"tblprops.hivex.row.layout": other_layout}
    response = cluster.metastore.compactor.request("default", table, "k=1", properties=properties)
    assert response.is_accepted
    answer = cluster.run("WORK", loses=1, table=f"{table}/k=1")
    assert answer == {"state": "ready for cleaning", "message": None, "lost": 1}
    assert cluster.rows(table) == rows
    assert cluster.metastore.locks.show() == []
    assert not list(cluster.root.rglob("_staging*"))
