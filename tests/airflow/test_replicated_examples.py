"""The examples E1 to E26 through HivexQueryOperator, over real replication between two real clusters.

Source: docs/reference/clusters.md, "Examples".
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.replication import HivexReplicateOperator
from tests.airflow.runs import context
from tests.connect_server import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.standalone_clusters import StandaloneCluster

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

JOIN = "SELECT t11.id FROM t11 JOIN t21 ON t11.id = t21.id"
P1_T21 = "SELECT p1.id FROM p1 JOIN t21 ON p1.id = t21.id"
ERROR = None


@dataclass(frozen=True)
class Example:
    """A statement, the pinned cluster, the cluster that runs it or a part of the error, and the rows if it has any."""

    name: str
    sql: str
    expected: str | None
    pinned: str | None = None
    error: str = ""
    rows: int | None = 2


SETUP_A = (
    Example("E1", "SELECT * FROM t11", "c1"),
    Example("E2", "SELECT * FROM t11 JOIN t12 ON t11.id = t12.id", "c1"),
    Example("E3", "SELECT * FROM t21", "c2"),
    Example("E4", JOIN, ERROR, error=r"t21.*is not there"),
    Example("E5", "SELECT * FROM t11 JOIN t31 ON t11.id = t31.id", ERROR, error="is not there"),
    Example("E6", "CREATE TABLE t13a AS SELECT * FROM t11", "c1"),
    Example("E7", "INSERT INTO t21 SELECT * FROM t11", ERROR, error="t11"),
    Example("E9", "FROM t12 INSERT INTO t11 SELECT id, name INSERT INTO t21 SELECT id, name", ERROR, error="t21"),
    Example("E14", "SELECT 1", ERROR, pinned="c9", error="no cluster 'c9'"),
)
SETUP_B = (
    Example("E1", "SELECT * FROM t11", "c1"),
    Example("E2", "SELECT * FROM t11 JOIN t12 ON t11.id = t12.id", "c1"),
    Example("E3", "SELECT * FROM t21", "c2"),
    Example("E4", JOIN, "c2"),
    Example("E5", "SELECT * FROM t11 JOIN t31 ON t11.id = t31.id", ERROR, error="is not there"),
    Example("E6", "CREATE TABLE t13b AS SELECT * FROM t11", "c1"),
    Example("E8", "SELECT t21.id FROM t21 JOIN t11 ON t11.id = t21.id", "c2"),
    Example("E10", "INSERT INTO t11 SELECT * FROM t21", ERROR, error="t21"),
    Example("E11", "SELECT * FROM t11", "c2", pinned="c2"),
    Example("E12", "INSERT INTO t11 SELECT * FROM t21", ERROR, pinned="c2", error="its primary c1 only"),
    Example("E13", JOIN, ERROR, pinned="c1", error="t21"),
    Example("E15", "CREATE TABLE t13c AS SELECT * FROM t11", "c2", pinned="c2"),
    Example("E16", f"CREATE TABLE t13d AS {JOIN}", "c2"),
    Example("E7", "INSERT INTO t21 SELECT * FROM t11", "c2"),
)
SETUP_P = (
    Example("E17", f"{P1_T21} WHERE p1.ds = '1'", "c2", rows=1),
    Example("E18", f"{P1_T21} WHERE ds = '3'", ERROR, error="ds=3"),
    Example("E19", P1_T21, ERROR, error="p1"),
    Example("E20", "SELECT * FROM p1 WHERE ds = '1'", "c1"),
    Example("E21", "SELECT * FROM p1 WHERE ds IN ('1', '2')", "c2", pinned="c2", rows=4),
    Example("E22", "SELECT * FROM p1 WHERE ds = '3'", ERROR, pinned="c2", error="ds=3"),
    Example("E23", "INSERT INTO p1 PARTITION (ds = '4') SELECT id FROM t21", ERROR, error="t21"),
    Example("E24", "INSERT INTO p1 PARTITION (ds = '1') VALUES (1)", ERROR, pinned="c2", error="primary c1 only"),
    Example("E25", f"{P1_T21} WHERE ds = '9'", "c2", rows=0),
)
E26 = Example("E26", f"{P1_T21} WHERE ds = '1'", "c2", rows=1)


@contextmanager
def on_connect_servers(_: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the properties of two clusters, each with a Spark Connect server of its own."""
    with ExitStack() as stack:
        servers = [stack.enter_context(running_server(tmp_path / "servers")) for _ in range(2)]
        yield [{"jobtracker": server.url} for server in servers]


@contextmanager
def on_standalone_clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the properties of two Spark standalone clusters, each with a master and a worker."""
    from airflow_hivex.core.runners import driver_process

    found: list[StandaloneCluster] = request.getfixturevalue("spark_clusters")
    yield [each.properties(tmp_path) for each in found]
    driver_process.close_all()


@pytest.fixture(params=[on_connect_servers, on_standalone_clusters], ids=["connect", "standalone"])
def clusters(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """Three clusters with file systems of their own; the Spark of c3 is that of c1."""
    from airflow_hivex.hooks.hivex import close_metastores

    with request.param(request, tmp_path) as (first, second):
        spark = {"c1": first, "c2": second, "c3": first}
        extra = {
            "metastore_url": f"sqlite:///{tmp_path / 'metastore.db'}",
            "cluster_properties": {
                name: {**properties, "filesystem": (tmp_path / name).as_uri()} for name, properties in spark.items()
            },
            "default_cluster": "c1",
        }
        monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
        yield extra
        close_metastores()


def run(sql: str | list[str], cluster: str | None = None) -> dict[str, Any]:
    with DAG("examples"):
        return HivexQueryOperator(task_id="query", sql=sql, cluster=cluster).execute(context())


def replicate(table: str, partitions: list[str] | None = None) -> None:
    with DAG("examples"):
        operator = HivexReplicateOperator(task_id="copy", tables=table, cluster="c2", partitions=partitions)
        assert operator.execute(context())["files_copied"] > 0


def check(example: Example) -> None:
    """An example has the result that the design gives, by running it."""
    if example.expected is ERROR:
        with pytest.raises(AirflowFailException, match=f"(?s){example.error}"):
            run(example.sql, example.pinned)
        return
    result = run(example.sql, example.pinned)
    count = len(result["rows"]) or result["rows_written"] or 0
    assert (example.name, result["cluster"], count) == (example.name, example.expected, example.rows)


@pytest.mark.evidence(cases=1, among="long scenarios")
def test_examples_hold_with_real_replication(clusters: dict[str, Any]) -> None:
    for table, cluster in (("t11", "c1"), ("t12", "c1"), ("t21", "c2"), ("t31", "c3")):
        properties = f"TBLPROPERTIES ('hivex.cluster' = '{cluster}')"
        run(
            [
                f"CREATE TABLE {table} (id int, name string) {properties}",
                f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')",
            ]
        )
    for example in SETUP_A:
        check(example)
    replicate("default.t11")
    for example in SETUP_B:
        check(example)
    run("CREATE TABLE p1 (id int) PARTITIONED BY (ds string) TBLPROPERTIES ('hivex.cluster' = 'c1')")
    for ds in "123":
        run(f"INSERT INTO p1 PARTITION (ds = '{ds}') VALUES ({ds}), (10{ds})")
    # E7 has written each row of t21 a second time.
    run("INSERT OVERWRITE t21 VALUES (1, 'a'), (2, 'b')")
    replicate("default.p1", ["ds=1", "ds=2"])
    for example in SETUP_P:
        check(example)
    for number, statement in enumerate(("INSERT OVERWRITE", "INSERT INTO")):
        run(f"{statement} p1 PARTITION (ds = '1') VALUES (1)")
        check(Example("E26", E26.sql, ERROR, error="ds=1"))
        assert run(f"{P1_T21} WHERE ds = '2'")["cluster"] == "c2"
        replicate("default.p1", ["ds=1"])
        result = run(E26.sql)
        assert (result["cluster"], result["rows"]) == ("c2", [[1]] * (number + 1))
