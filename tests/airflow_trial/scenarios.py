"""What is done to Airflow and its tasks, and what has to be true afterwards."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from airflow_hivex.core import Metastore
from airflow_hivex.core.runners.connect_server import Server
from tests.airflow_trial.installation import Installation, NotHappenedError, wait_for

_TABLES = """
CREATE DATABASE trial;
CREATE TABLE trial.long (run STRING, n INT);
CREATE TABLE trial.parts (run STRING, part INT);
CREATE TABLE trial.signal (id INT);
CREATE TABLE trial.seen (run STRING);
USE CLUSTER c2;
CREATE TABLE trial.deferred (run STRING, n INT)
"""
# A statement that is killed while it runs; one that is let run ends soon.
_SHORT = 2_000
_LASTING = 400_000
# The time of a processor that Spark takes to start.
_SPARKS_START_S = 15.0


class Trial:
    """The installation under trial, the metastore that its tasks work on, and the server of its cluster c2."""

    def __init__(self, airflow: Installation, metastore: Metastore, server: Server) -> None:
        self.airflow = airflow
        self.metastore = metastore
        self.server = server

    def prepare(self) -> None:
        """Make the tables."""
        with self.metastore.session(user="trial") as session:
            for statement in _TABLES.split(";"):
                session.sql(statement)

    def rows(self, table: str, run_id: str) -> int:
        """How many rows of a run count."""
        with self.metastore.session(user="trial") as session:
            text = f"SELECT count(*) FROM trial.{table} WHERE run = :run"
            return int(session.sql(text, {"run": run_id}).rows[0][0])

    def expect_rows(self, table: str, run_id: str, count: int) -> None:
        """See to it that a run has written this number of rows.

        Raises:
            NotHappenedError: it has others.
        """
        found = self.rows(table, run_id)
        if found != count:
            raise NotHappenedError(f"trial.{table} has {found} rows of {run_id}, {count} were expected")

    def expect_end(self, dag_id: str, run_id: str, state: str) -> None:
        """See to it that a run ends in a state.

        Raises:
            NotHappenedError: it ends in another.
        """
        found = self.airflow.wait_for_end(dag_id, run_id)
        if found != state:
            raise NotHappenedError(f"{dag_id} {run_id} has ended as {found}, {state} was expected")

    def statement_runs(self, dag_id: str, run_id: str) -> psutil.Process:
        """The Java process of a task whose statement is at work."""

        def at_work() -> psutil.Process | None:
            with self.metastore.session(user="trial") as session:
                rows = session.sql("SHOW TRANSACTIONS").rows
            mine = any("OPEN" in map(str, row) and run_id in " ".join(map(str, row)) for row in rows)
            # It has started, and its job has begun.
            return self.airflow.java_process(busy_s=_SPARKS_START_S) if mine else None

        process: psutil.Process = wait_for(f"the statement of {dag_id} runs", at_work)
        return process

    def check_settled(self) -> None:
        """See to it that nothing is left open, locked or unaccounted for.

        Raises:
            NotHappenedError: something is.
        """

        def open_transactions() -> list[tuple[object, ...]]:
            self.metastore.housekeeper.run()
            with self.metastore.session(user="trial") as session:
                return [row for row in session.sql("SHOW TRANSACTIONS").rows if "OPEN" in map(str, row)]

        wait_for("all transactions have ended", lambda: not open_transactions(), 120)
        with self.metastore.session(user="trial") as session:
            if locks := session.sql("SHOW LOCKS").rows:
                raise NotHappenedError(f"locks are left: {locks}")
        self.metastore.compactor.work()
        self.metastore.compactor.clean()
        if failed := [row for row in self.metastore.compactor.show() if row.state.shown == "failed"]:
            raise NotHappenedError(f"compactions have failed: {failed}")
        if lost := [each for each in self.metastore.doctor.examine() if each.is_error]:
            raise NotHappenedError(f"the doctor has found: {lost}")


def _undisturbed(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_group")
    trial.expect_end("trial_group", run, "success")
    trial.expect_rows("parts", run, 3)
    return "a group of three tasks has committed 3 rows"


def _killed_task(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_long", size=_LASTING)
    java = trial.statement_runs("trial_long", run)
    task = next(each for each in java.parents() if "python" in each.name() or "airflow" in each.name())
    task.kill()
    java.kill()
    _let_end_soon(trial, "trial_long", run)
    return "killed while its statement ran; the next try has written its row once"


def _killed_jvm(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_long", size=_LASTING)
    trial.statement_runs("trial_long", run).kill()
    _let_end_soon(trial, "trial_long", run)
    return "its Java process was killed; the next try has written its row once"


def _let_end_soon(trial: Trial, dag_id: str, run_id: str) -> None:
    """See that a run whose task was killed is tried again, and that the first try counts for nothing."""
    wait_for(
        "the task is tried again",
        lambda: trial.airflow.task(dag_id, run_id, "write")["try_number"] >= 2,
    )
    trial.expect_rows("long", run_id, 0)
    # The second try would last as long: it is ended as people do, and a run with a short statement follows.
    trial.airflow.send("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", {"state": "failed"})
    trial.expect_end(dag_id, run_id, "failed")
    trial.expect_rows("long", run_id, 0)
    again = trial.airflow.trigger(dag_id, size=_SHORT)
    trial.expect_end(dag_id, again, "success")
    trial.expect_rows("long", again, 1)


def _killed_scheduler(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_group")
    wait_for("the group has begun", lambda: trial.airflow.task("trial_group", run, "load.begin")["state"] == "success")
    trial.airflow.kill_component("scheduler")
    trial.airflow.start_component("scheduler")
    trial.expect_end("trial_group", run, "success")
    trial.expect_rows("parts", run, 3)
    return "killed with its tasks in the middle of a group; another one has finished it, each row once"


def _killed_triggerer(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_sensor")
    wait_for("the sensor waits", lambda: trial.airflow.task("trial_sensor", run, "wait")["state"] == "deferred")
    trial.airflow.kill_component("triggerer")
    with trial.metastore.session(user="trial") as session:
        session.sql("INSERT INTO trial.signal VALUES (1)")
    trial.airflow.start_component("triggerer")
    trial.expect_end("trial_sensor", run, "success")
    trial.expect_rows("seen", run, 1)
    return "killed while a sensor waited; another one has seen the commit of the time between"


def _killed_triggerer_of_a_query(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_deferred")
    wait_for("the query is deferred", lambda: trial.airflow.task("trial_deferred", run, "write")["state"] == "deferred")
    process = trial.server.process
    assert process is not None
    before = process.cpu_times().user
    wait_for("its job runs on the server", lambda: process.cpu_times().user > before + 8)
    trial.airflow.kill_component("triggerer")
    trial.airflow.start_component("triggerer")
    trial.expect_end("trial_deferred", run, "success")
    trial.expect_rows("deferred", run, 1)
    attempts = trial.airflow.task("trial_deferred", run, "write")["try_number"]
    logs = (trial.airflow.folder / "airflow" / "logs").rglob("*")
    is_found = any("is waited for" in path.read_text(errors="replace") for path in logs if path.is_file())
    how = "has found its job again" if is_found else "has run it again"
    return f"killed while a query was deferred; another one {how}: one row, after {attempts} tries"


def _killed_api_server(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_group")
    wait_for("the group has begun", lambda: trial.airflow.task("trial_group", run, "load.begin")["state"] == "success")
    trial.airflow.kill_component("api-server")
    trial.airflow.start_component("api-server")
    state = trial.airflow.wait_for_end("trial_group", run)
    trial.expect_rows("parts", run, 3 if state == "success" else 0)
    return f"killed in the middle of a group, which has ended as {state}: all of its rows or none"


def _marked_failed(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_group_long", size=_LASTING)
    trial.statement_runs("trial_group_long", run)
    path = f"/api/v2/dags/trial_group_long/dagRuns/{run}/taskInstances/load.last"
    trial.airflow.send("PATCH", path, {"new_state": "failed"})
    trial.expect_end("trial_group_long", run, "failed")
    trial.expect_rows("parts", run, 0)
    return "a task of a group that ran was marked failed: the run has failed, none of its rows count"


def _cleared(trial: Trial) -> str:
    run = trial.airflow.trigger("trial_group")
    trial.expect_end("trial_group", run, "success")
    body = {"dry_run": False, "dag_run_id": run, "only_failed": False, "reset_dag_runs": True}
    trial.airflow.send("POST", "/api/v2/dags/trial_group/clearTaskInstances", body)
    wait_for("the run goes on", lambda: trial.airflow.state("trial_group", run) in ("queued", "running"), 60)
    trial.expect_end("trial_group", run, "success")
    trial.expect_rows("parts", run, 6)
    return "a cleared run has worked again, in a transaction of its own"


def _parallel_runs(trial: Trial) -> str:
    runs = [trial.airflow.trigger("trial_group") for _ in range(3)]
    compaction = trial.airflow.trigger("trial_compaction")
    for run in runs:
        trial.expect_end("trial_group", run, "success")
        trial.expect_rows("parts", run, 3)
    trial.expect_end("trial_compaction", compaction, "success")
    return "three runs of a group during a compaction: 3 rows each"


SCENARIOS: dict[str, Callable[[Trial], str]] = {
    "undisturbed": _undisturbed,
    "killed-task": _killed_task,
    "killed-jvm": _killed_jvm,
    "killed-scheduler": _killed_scheduler,
    "killed-triggerer": _killed_triggerer,
    "killed-triggerer-of-a-query": _killed_triggerer_of_a_query,
    "killed-api-server": _killed_api_server,
    "marked-failed": _marked_failed,
    "cleared": _cleared,
    "parallel-runs": _parallel_runs,
}
