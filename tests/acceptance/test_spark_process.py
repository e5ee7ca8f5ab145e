"""Spark's Java process: what users see of its start and its end. Each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.evidence(cases=1, among="the process of Spark")]

OPENED = """
import logging, os, signal, sys, threading, time
# As Airflow does for its tasks.
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="log: %(levelname)s %(name)s %(message)s")
from airflow_hivex.core import Metastore
from airflow_hivex.core.errors import HivexError

url, root = sys.argv[1:]
conf = {"spark.hadoop.fs.s3a.secret.key": "K7MDENGwJalrXUt"}
clusters = {"c1": {"filesystem": root, "jobtracker": "local[2]", "spark_conf": conf}}
metastore = Metastore.open(url, clusters=clusters)
session = metastore.session()

def fails(statement):
    try:
        session.sql(statement)
    except HivexError as error:
        print(type(error).__name__, error.retryable, error)
"""


def run(program: str, url: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    found = subprocess.run(
        [sys.executable, "-c", OPENED + program, url, (folder / "c1").as_uri()],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found


def test_process_that_is_killed_is_reported_and_replaced(sqlite_url: str, tmp_path: Path) -> None:
    program = """
def cancel():
    while not metastore.transactions.valid_txns().open_ids:
        # Until then the statement is read; no event reports its transaction.
        time.sleep(0.01)
    threading.Timer(0.1, session.cancel).start()
threading.Thread(target=cancel).start()
fails("SELECT 1")
from pyspark import SparkContext
print("cancelled while Spark started:", SparkContext._active_spark_context is None)

session.sql("CREATE TABLE t (id INT)")
print(session.sql("SELECT 1").rows)
with open(f"/proc/{SparkContext._gateway.proc.pid}/cmdline") as arguments:
    # Everybody on the machine can read them.
    print("in its arguments:", "K7MDENG" in arguments.read())
print("given to Spark:", SparkContext.getOrCreate()._jsc.hadoopConfiguration().get("fs.s3a.secret.key"))
tracker = SparkContext.getOrCreate().statusTracker()
def kill():
    while not tracker.getActiveJobsIds():
        # Between two looks at whether Spark has begun the job: no event reports it.
        time.sleep(0.01)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
killer = threading.Thread(target=kill)
killer.start()
fails(
    "INSERT INTO t SELECT CAST(count(*) AS INT) FROM range(1000000000000) a, range(1000) b WHERE hash(a.id, b.id) = 3"
)
killer.join()
print(metastore.transactions.valid_txns().open_ids, metastore.locks.show())
session.sql("INSERT INTO t VALUES (1)")
print(session.sql("SELECT id FROM t").rows)
"""
    found = run(program, sqlite_url, tmp_path)
    lines = [line for line in found.stdout.splitlines() if not line.startswith(("log: INFO airflow_hivex", "  c1 ("))]
    assert lines == [
        "JobCancelledError False The job on cluster c1 failed: it was cancelled",
        "cancelled while Spark started: True",
        "[(1,)]",
        "in its arguments: False",
        "given to Spark: K7MDENGwJalrXUt",
        "SparkProcessError True The job on cluster c1 failed: Spark's process was killed by signal 9. "
        "The next statement starts a new one.",
        "() []",
        "[(1,)]",
    ]
    # Airflow shows every line of standard error in red, as an error.
    assert found.stderr == ""


def test_process_that_does_not_start_may_start_at_the_next_try(sqlite_url: str, tmp_path: Path) -> None:
    found = run("fails('SELECT 1')", sqlite_url, tmp_path, SPARK_SUBMIT_OPTS="-Xms9000g")
    assert "SparkProcessError True The job on cluster c1 failed: Spark's process did not start: " in found.stdout
    assert "heap" in found.stdout
    assert found.stderr == ""


def test_session_that_spark_refuses_is_an_error_of_ours(sqlite_url: str, tmp_path: Path) -> None:
    program = """
clusters["c1"]["spark_conf"] = {"spark.driver.bindAddress": "192.0.2.77"}
session = Metastore.open(url, clusters=clusters).session()
fails("SELECT 1")
"""
    found = run(program, sqlite_url, tmp_path)
    assert "JobError False The job on cluster c1 failed: Spark did not start: " in found.stdout
