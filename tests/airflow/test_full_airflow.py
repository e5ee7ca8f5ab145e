"""The example DAG of commits under a full Airflow: api-server, scheduler, dag-processor, triggerer, LocalExecutor."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from airflow_hivex.core import Metastore
from tests import evidence
from tests.airflow.committing_process import commit
from tests.airflow_trial.installation import Installation, wait_for
from tests.connect_server import running_server
from tests.processes import ClientProcess

pytestmark = pytest.mark.airflow
DAG_ID = "hivex_on_commit"
DAGS = Path(__file__).parents[2] / "dags"
TABLES = "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT); CREATE TABLE shop.journal (id INT)"


class WatchedTable:
    """The table that commits are made to, and the answers of Airflow's API about its events and the runs."""

    def __init__(self, airflow: Installation, clusters: dict[str, Any], folder: Path) -> None:
        self._airflow = airflow
        self._clusters = clusters
        self._folder = folder
        self._journal = folder / "journal"
        self._journal.touch()
        (asset,) = airflow.get("/api/v2/assets?uri_pattern=shop/orders")["assets"]
        self._asset_id = asset["id"]

    def is_watched(self) -> bool:
        """Whether the watcher has noted the event that it begins behind."""
        return bool(self._airflow.get(f"/api/v2/assets/{self._asset_id}/state-store")["total_entries"])

    def commit(self, count: int) -> ClientProcess:
        """Start a process that makes this number of commits."""
        arguments = (self._airflow.metastore_url, self._clusters, len(self.txn_ids()), count, self._journal)
        return ClientProcess(commit, *arguments, log=self._folder / "commit.log")

    def txn_ids(self) -> list[int]:
        """The transactions that have committed, in their order."""
        return [int(line) for line in self._journal.read_text().splitlines()]

    def event_count(self) -> int:
        """How many events Airflow has stored."""
        return int(self._airflow.get(f"/api/v2/assets/events?asset_id={self._asset_id}&limit=1")["total_entries"])

    def payloads(self) -> list[dict[str, Any]]:
        """The payloads of the stored events, in their order."""
        path = f"/api/v2/assets/events?asset_id={self._asset_id}&order_by=timestamp"
        return [each["extra"]["payload"] for each in self._all(path, "asset_events")]

    def runs(self) -> list[dict[str, Any]]:
        """The runs of the DAG."""
        return self._all(f"/api/v2/dags/{DAG_ID}/dagRuns?order_by=run_after", "dag_runs")

    def commits_seen_by(self, run: dict[str, Any]) -> list[dict[str, Any]]:
        """The commits that have started a run, as its task has seen them."""
        path = f"/api/v2/dags/{DAG_ID}/dagRuns/{run['dag_run_id']}/taskInstances/log_commits/xcomEntries/return_value"
        received: list[dict[str, Any]] = self._airflow.get(path)["value"]
        return received

    def _all(self, path: str, key: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = self._airflow.get(f"{path}&limit=100&offset={len(found)}")
            found += answer[key]
            if len(found) >= answer["total_entries"]:
                return found


@pytest.mark.evidence
@pytest.mark.timeout(3600)
@pytest.mark.skipif(
    not evidence.does_all("HIVEX_FULL_AIRFLOW"), reason="a full Airflow takes a minute to start; make evidence"
)
def test_each_commit_of_another_process_reaches_one_run_though_the_triggerer_is_killed(
    metastore_url: str, tmp_path: Path, counts: Any
) -> None:
    commits = evidence.amount("HIVEX_FULL_AIRFLOW_COMMITS", 40, 200)
    kills = evidence.amount("HIVEX_FULL_AIRFLOW_KILLS", 1, 4)
    with running_server(tmp_path / "state") as server:
        clusters = {"c1": {"filesystem": (tmp_path / "c1").as_uri(), "jobtracker": server.url}}
        airflow = Installation(
            tmp_path,
            clusters,
            dags=DAGS,
            dag_count=len(list(DAGS.glob("*.py"))),
            metastore_url=metastore_url,
            AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="True",
            AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD="15",
            XDG_STATE_HOME=str(tmp_path / "state"),
        )
        try:
            airflow.start()
            with (
                Metastore.open(metastore_url, clusters=clusters, default_cluster="c1") as metastore,
                metastore.session() as session,
            ):
                for statement in TABLES.split(";"):
                    session.sql(statement)
                orders = WatchedTable(airflow, clusters, tmp_path)
                airflow.send("PATCH", f"/api/v2/dags/{DAG_ID}", {"is_paused": False})
                wait_for("the table is watched", orders.is_watched)
                commit_and_kill(airflow, orders, commits, kills)
                txn_ids = orders.txn_ids()
                written: dict[int, dict[str, int]] = {}
                for each in metastore.commits.of_transactions(txn_ids):
                    written.setdefault(each.txn_id, {})[each.table] = each.write_id
            wait_for("an event of each commit", lambda: orders.event_count() >= commits)
            received: list[dict[str, Any]] = []

            def each_run_has_ended() -> bool:
                runs = orders.runs()
                if any(run["state"] not in ("success", "failed") for run in runs):
                    return False
                received[:] = [payload for run in runs for payload in orders.commits_seen_by(run)]
                return len(received) >= commits

            wait_for("a run for each commit", each_run_has_ended)
            runs = orders.runs()
            assert {run["state"] for run in runs} == {"success"}
            assert [each["txn_id"] for each in received] == txn_ids
            assert orders.payloads() == received
            assert {each["txn_id"]: each["write_ids"] for each in received} == written
        finally:
            airflow.stop()
    counts["commits of another process, each reported to one run of dags/hivex_on_commit.py"] = {
        "commits": commits,
        "kills of the triggerer": kills,
        "runs": len(runs),
    }


def commit_and_kill(airflow: Installation, orders: WatchedTable, commits: int, kills: int) -> None:
    """Make commits; kill the triggerer while it stores their events, and start it again after some more."""
    rng = random.Random(evidence.SEED)
    ends = sorted(rng.sample(range(5, commits), 2 * kills))
    for killed, started in zip(ends[::2], ends[1::2], strict=True):
        before = orders.event_count()
        with orders.commit(killed - len(orders.txn_ids())) as client:
            wait_for("an event of these commits", lambda before=before: orders.event_count() > before)
            airflow.kill_component("triggerer")
            assert client.wait(120) == 0, client.error()
        with orders.commit(started - len(orders.txn_ids())) as client:
            assert client.wait(120) == 0, client.error()
        airflow.start_component("triggerer")
    with orders.commit(commits - len(orders.txn_ids())) as client:
        assert client.wait(120) == 0, client.error()
