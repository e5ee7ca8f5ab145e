"""Clusters that cannot be used, as statements find them: one without its file system, one without its Spark. No Spark.

Table ``a`` is on cluster c1 with a copy on c2, ``b`` on c2 with a copy on c1, ``w`` on c1 alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.errors import (
    HivexError,
    JobError,
    NoUsableClusterError,
    RootMissingError,
    UnsupportedJobTrackerError,
)
from airflow_hivex.core.store.engine import Store
from tests.integration.core.execution.recorder import Recorder
from tests.round_trips import counted

Opened = Callable[[], AbstractContextManager[Session]]
JOIN = "SELECT a.id FROM a JOIN b ON a.id = b.id"


@pytest.fixture
def clusters(tmp_path: Path) -> dict[str, dict[str, str]]:
    return {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": f"sc://{name}:1"} for name in ("c1", "c2")}


@pytest.fixture
def opened(sqlite_url: str, tmp_path: Path, clusters: dict[str, dict[str, str]], recorder: Recorder) -> Opened:
    """Opens a session of a metastore of its own, which remembers nothing yet."""

    @contextmanager
    def open_session() -> Iterator[Session]:
        with (
            Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore,
            metastore.session() as session,
        ):
            yield session

    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore:
        with metastore.session() as session:
            for table, cluster in (("a", "c1"), ("w", "c1"), ("b", "c2")):
                session.sql(f"CREATE TABLE {table} (id int) TBLPROPERTIES ('hivex.cluster' = '{cluster}')")
                session.sql(f"INSERT INTO {table} VALUES (1)")
        for table, source, target in (("a", "c1", "c2"), ("b", "c2", "c1")):
            location = metastore.catalog.get_table("default", table).storage.primary.location
            shutil.copytree(tmp_path / source / location, tmp_path / target / location)
            metastore.catalog.register_copy("default", table, target)
    return open_session


def unmount(root: Path) -> None:
    root.rename(root.with_suffix(".disk"))
    root.mkdir()


def mount(root: Path) -> None:
    root.rmdir()
    root.with_suffix(".disk").rename(root)


def test_a_query_moves_to_a_copy_where_the_primary_is_not_mounted(opened: Opened, tmp_path: Path) -> None:
    with opened() as session:
        assert session.explain(JOIN).cluster == "c1"
    unmount(tmp_path / "c1")
    with opened() as session:
        assert session.explain(JOIN).cluster == "c2"
        (first, second) = session.sql(f"EXPLAIN ROUTE {JOIN}").rows
        assert (first[:2], second[:2], second[3]) == (("c1", False), ("c2", True), "")
        assert "it cannot be used now: The root" in str(first[3])
        assert "Is it not mounted?" in str(first[3])
        # These have one candidate, whose own error says most.
        for statement in ("SELECT * FROM a", "SELECT * FROM w", "INSERT INTO w VALUES (2)", "DELETE FROM w"):
            with pytest.raises(RootMissingError, match="Is it not mounted"):
                session.sql(statement)
        unmount(tmp_path / "c2")
    with opened() as session:
        with pytest.raises(NoUsableClusterError, match=r"(?s)c1 \(primary of default.a\): it cannot .* c2 ") as refused:
            session.sql(JOIN)
        assert refused.value.retryable
        mount(tmp_path / "c1")
        assert session.explain(JOIN).cluster == "c1"
        assert session.snapshot_files("a").cluster == "c1"


def test_a_cluster_that_runs_no_jobs_is_left_to_what_needs_none(opened: Opened, recorder: Recorder) -> None:
    recorder.problems["c1"] = JobError("c1", "the gate is closed")
    with opened() as session:
        assert session.explain(JOIN).cluster == "c2"
        assert session.sql("INSERT INTO w VALUES (2)").rows_written == 1
        assert len(session.snapshot_files("w").files) == 2
        session.sql("ANALYZE TABLE w COMPUTE STATISTICS NOSCAN")
        for statement in ("SELECT * FROM w", "INSERT INTO w SELECT * FROM a", "UPDATE w SET id = 7"):
            with pytest.raises(JobError, match="the gate is closed"):
                session.sql(statement)
        with pytest.raises(JobError, match="the gate is closed"):
            session.sql("CREATE TABLE v AS SELECT * FROM w")
        assert session.sql("SHOW TABLES").rows == [("a",), ("b",), ("w",)]
    assert recorder.plans == []


def test_a_job_tracker_without_a_runner_is_known_before_anything_is_written(
    opened: Opened, clusters: dict[str, dict[str, str]]
) -> None:
    clusters["c1"]["jobtracker"] = "spark_default"
    with opened() as session:
        assert session.explain(JOIN).cluster == "c2"
        with pytest.raises(UnsupportedJobTrackerError, match="spark_default"):
            session.sql("INSERT INTO w SELECT * FROM a")


def test_health_is_asked_once_in_a_while(opened: Opened, recorder: Recorder, tmp_path: Path) -> None:
    with opened() as session:
        for _ in range(5):
            session.explain(JOIN)
        assert recorder.asked == ["c1"]
        session.explain("SELECT * FROM b")
        assert recorder.asked == ["c1", "c2"]


def test_answers_are_forgotten_in_time(
    opened: Opened, sqlite_url: str, clusters: dict[str, dict[str, str]], recorder: Recorder, tmp_path: Path
) -> None:
    now = [0.0]
    with Metastore.open(sqlite_url, clusters=clusters, default_cluster="c1") as metastore:
        store = Store(sqlite_url)
        roots = Roots(store, metastore.clusters, system_clock)
        health = ClusterHealth(metastore.clusters, roots, timer=lambda: now[0])
        assert health.of_runner("c1").problem is None
        assert health.of_root("c1").problem is None
        with counted(store) as trips:
            health.of_root("c1")
        assert trips == []
        recorder.problems["c1"] = JobError("c1", "the gate is closed")
        unmount(tmp_path / "c1")
        assert (health.of_runner("c1").problem, health.of_root("c1").problem) == (None, None)
        now[0] += 60
        problems: list[HivexError | None] = [health.of_runner("c1").problem, health.of_root("c1").problem]
        assert [type(problem) for problem in problems] == [JobError, RootMissingError]
        # Mounts are seen at once; a runner may take long to find out.
        del recorder.problems["c1"]
        mount(tmp_path / "c1")
        assert type(health.of_runner("c1").problem) is JobError
        assert health.of_root("c1").problem is None
        now[0] += 60
        assert health.of_runner("c1").problem is None
        store.close()


def test_a_file_system_that_only_spark_can_read_is_no_problem(
    opened: Opened, clusters: dict[str, dict[str, str]]
) -> None:
    clusters["c1"]["filesystem"] = "nosuch://host/c1"
    with opened() as session:
        assert session.explain(JOIN).cluster == "c1"
