"""``hivex sql`` at a terminal, as a person uses it."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from tests.terminal import CTRL_C, CTRL_D, UP, Terminal


def prompt(url: str, folder: Path, columns: int = 100, **variables: str) -> Terminal:
    environment = os.environ | {"HIVEX_METASTORE_URL": url, "XDG_STATE_HOME": str(folder)} | variables
    return Terminal(
        sys.executable, "-m", "airflow_hivex.cli.main", "sql", environment=environment, columns=columns
    )  # fmt: skip


def test_prompt_outlives_errors_and_interrupts(sqlite_url: str, tmp_path: Path) -> None:
    with prompt(sqlite_url, tmp_path, columns=60, PYTHONIOENCODING="utf-8:strict") as terminal:
        terminal.wait_for("hivex> ")
        for line in ("", "  ", ";", "-- nothing"):
            terminal.type(f"{line}\r")
            terminal.wait_for("-> " if line.startswith("--") else "hivex> ")
        terminal.interrupt()
        terminal.wait_for("hivex> ")
        terminal.interrupt()
        terminal.wait_for("hivex> ")

        terminal.type("CREATE DATABASE shop; USE shop; CREATE TABLE t\r")
        terminal.wait_for("-> ")
        terminal.type("(id INT, note STRING COMMENT ';\r")
        terminal.wait_for("-> ")
        terminal.type("'); -- ;\r")
        terminal.wait_for("(transaction 1)")
        terminal.wait_for("hivex> ")

        terminal.type("SELEC 1;\r")
        terminal.wait_for("[SYNTAX]")
        terminal.wait_for("hivex> ")
        terminal.type(b"SELECT '\xff';\r")
        terminal.wait_for("is not utf-8")
        terminal.wait_for("hivex> ")

        terminal.type("forgotten 'quote\r")
        terminal.wait_for("-> ")
        terminal.interrupt()
        terminal.wait_for("hivex> ")
        terminal.type("SHOW DATABASES LIKE 's*';\r")
        assert "| shop" in terminal.wait_for("(1 row)")
        terminal.wait_for("hivex> ")

        terminal.type("START TRANSACTION;\r")
        terminal.wait_for("hivex> ")
        terminal.type(CTRL_D)
        code, shown = terminal.wait_for_end()
    assert code == 0
    # The shell's own prompt begins on a line of its own.
    assert shown.startswith("\r\n")
    assert "has no COMMIT; it is rolled back" in shown


def test_interrupt_cancels_a_statement_that_waits(sqlite_url: str, tmp_path: Path) -> None:
    with Metastore.open(sqlite_url) as metastore, prompt(sqlite_url, tmp_path, columns=60) as terminal:
        with metastore.session() as session:
            session.sql("CREATE TABLE t (id INT)")
        held = LockComponent("default", "t", None, LockType.EXCLUSIVE, DataOperation.NO_TXN)
        lock = metastore.locks.acquire([held], user="ann", agent_info="daily.load scheduled__2026-01-01 1")
        terminal.wait_for("hivex> ")
        terminal.type("INSERT INTO t VALUES (1); SHOW TABLES;\r")
        terminal.wait_for("Waiting for locks on")
        terminal.type(CTRL_C)
        terminal.wait_for("hivex: cancelled")
        assert "| t" not in terminal.wait_for("hivex> ")
        assert metastore.transactions.valid_txns().open_ids == ()
        metastore.locks.unlock(lock.lock_id)
        # Of many columns no terminal is wide enough.
        terminal.type("SHOW TRANSACTIONS;\r")
        terminal.wait_for("-[ row 1 ]---")
        assert "ABORTED" in terminal.wait_for("(1 row)")


def test_lines_are_found_again_by_later_prompts_of_the_user_only(sqlite_url: str, tmp_path: Path) -> None:
    with prompt(sqlite_url, tmp_path) as terminal:
        terminal.wait_for("hivex> ")
        terminal.type("SHOW DATABASES;\r")
        terminal.wait_for("hivex> ")
        terminal.type("exit\r")
        assert terminal.wait_for_end()[0] == 0
    (file,) = (tmp_path / "hivex").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with prompt(sqlite_url, tmp_path) as terminal:
        terminal.wait_for("hivex> ")
        terminal.type(f"{UP}{UP}\r")
        terminal.wait_for("| default")
        terminal.wait_for("hivex> ")
        terminal.type("QUIT;\r")
        assert terminal.wait_for_end()[0] == 0


def wait_for_event(folder: Path, name: str, text: str = "") -> str:
    """The first event of that name with a text in the log that Spark writes, once it is there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for file in folder.glob("*/events_*"):
            for line in file.read_text().splitlines():
                if f'"SparkListener{name}"' in line and text in line:
                    return line
        threading.Event().wait(0.02)
    raise AssertionError(f"there is no event {name} {text}")


@pytest.mark.spark
def test_interrupt_stops_the_job_and_leaves_spark(sqlite_url: str, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    cluster = {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": "local[2]", "spark_conf": logged}
    with prompt(sqlite_url, tmp_path, HIVEX_CLUSTER_PROPERTIES=json.dumps({"c1": cluster})) as terminal:
        terminal.wait_for("hivex> ")
        terminal.type(
            "SELECT sum(a.id % 7 + b.id) FROM range(4000000) a JOIN range(4000000) b ON a.id % 9 = b.id % 9;\r"
        )
        terminal.wait_for("Starting Spark")
        wait_for_event(events, "JobStart")
        terminal.wait_for("tasks are done, ")
        terminal.type(CTRL_C)
        terminal.wait_for("hivex: cancelled")
        # One query has several jobs where Spark plans again behind a shuffle: those before had ended.
        wait_for_event(events, "JobEnd", "SPARK_JOB_CANCELLED")
        terminal.wait_for("hivex> ")
        terminal.type("SELECT id + 41 AS answer FROM range(1, 2);\r")
        assert "Starting Spark" not in terminal.wait_for("(1 row,")
        # Before the prompt the terminal would take Ctrl-D for the end of a line.
        terminal.wait_for("hivex> ")
        terminal.type(CTRL_D)
        assert terminal.wait_for_end()[0] == 0
