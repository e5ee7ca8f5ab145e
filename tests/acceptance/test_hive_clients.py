"""Clients of Hive get from the endpoint what a real Hive Metastore 2.3 gives them, call by call.

``make evidence`` runs them: pyiceberg, and in an environment of their own Spark 3.5, Iceberg's library for it,
Airflow's provider of Hive, and hive-metastore-client.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.hive import HiveCatalog

from airflow_hivex.core.metastore import Metastore
from tests import evidence
from tests.acceptance import pyiceberg_calls
from tests.acceptance.test_hive_endpoint import shown
from tests.hive_endpoint import serving
from tests.hive_metastore import hive_metastore
from tests.relocated_classes import relocate_jars

ENVIRONMENT = Path(sys.prefix) / "hive-clients"
PROGRAMS = Path(__file__).parent
_JACKSON = "com.fasterxml.jackson"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not evidence.IS_WHOLE, reason="make evidence compares these clients with a real Hive Metastore"),
    pytest.mark.timeout(1800),
]


@pytest.fixture
def metastores(sqlite_url: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of the endpoint and of a real Hive Metastore."""
    for name in ("hive", "ours"):
        (tmp_path / name).mkdir()
    cluster = {"c1": {"filesystem": (tmp_path / "ours").as_uri(), "jobtracker": "local[1]"}}
    with ExitStack() as stack:
        metastore = stack.enter_context(Metastore.open(sqlite_url, clusters=cluster))
        running = stack.enter_context(serving(metastore))
        hive = stack.enter_context(hive_metastore(tmp_path / "hive" / "warehouse"))
        yield {"ours": f"thrift://127.0.0.1:{running.port}", "hive": hive.address}


def site_packages() -> Path:
    """The packages of the environment of the clients."""
    (found,) = ENVIRONMENT.glob("lib/python3*/site-packages")
    return found


def run(program: str, *arguments: str, **environment: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run a program with the clients, and return its answers from the endpoint and from Hive."""
    made = subprocess.run(
        [str(ENVIRONMENT / "bin" / "python"), str(PROGRAMS / program), *arguments],
        capture_output=True,
        text=True,
        # Airflow there lists the providers of the tests' environment, this one among them.
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(PROGRAMS.parents[1]), **environment},
        check=False,
    )
    assert made.returncode == 0, made.stderr[-5000:]
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "hive": []}
    for line in made.stdout.splitlines():
        if line.startswith("{"):
            answer = json.loads(line)
            found[answer.pop("metastore")].append(answer)
    assert len(found["ours"]) == len(found["hive"]) > 0
    return found["ours"], found["hive"]


def differing(ours: list[dict[str, Any]], hive: list[dict[str, Any]], text_of: Callable[[dict[str, Any]], str]) -> str:
    """The answers that are not the same, a line each."""
    pairs = [(text_of(mine), text_of(theirs)) for mine, theirs in zip(ours, hive, strict=True)]
    found = "\n".join(f"{mine}, Hive: {theirs}" for mine, theirs in pairs if mine != theirs)
    sys.stdout.write(found)
    return found


def addresses(metastores: dict[str, str]) -> list[str]:
    """The arguments of a program that name the metastores."""
    return [f"{name}={address}" for name, address in metastores.items()]


@pytest.mark.evidence(cases=1, among="clients of Hive")
def test_spark_3_5_gets_the_results_of_a_real_hive_metastore(
    metastores: dict[str, str], tmp_path: Path, counts: Any
) -> None:
    ours, hive = run("hive_statements_process.py", str(tmp_path), "all", *addresses(metastores))
    folders = {id(each): tmp_path / name for name, found in (("ours", ours), ("hive", hive)) for each in found}
    assert differing(ours, hive, lambda each: f"{each['statement']}: {shown(each, folders[id(each)])}") == ""
    counts["statements of Spark 3.5 on the Hive Metastore endpoint"] = {"statements": len(ours)}


@pytest.mark.evidence(cases=1, among="clients of Hive")
def test_iceberg_of_java_with_its_locks_gets_the_results_of_a_real_hive_metastore(
    metastores: dict[str, str], tmp_path: Path, counts: Any
) -> None:
    packages = site_packages()
    iceberg = packages / "snowpark_connect_deps_iceberg" / "jars"
    jackson = tmp_path / "jackson.jar"
    parts = [
        found
        for part in ("annotations", "core", "databind")
        for found in packages.glob(f"pyspark/jars/jackson-{part}-2*.jar")
    ]
    relocate_jars(parts, jackson, _JACKSON, f"org.apache.iceberg.shaded.{_JACKSON}")
    jars = ",".join(map(str, [*iceberg.glob("iceberg-spark-*-3.5_2.12-*.jar"), *iceberg.glob("scala-*.jar"), jackson]))
    ours, hive = run("iceberg_statements_process.py", str(tmp_path), jars, *addresses(metastores))
    assert differing(ours, hive, _of_iceberg) == ""
    done = [each for each in ours if "rows" in each]
    assert len(done) > 45
    counts["statements of Spark 3.5 with Iceberg's HiveCatalog and its locks on the Hive Metastore endpoint"] = {
        "statements": len(ours),
        "with rows": len(done),
    }


def _of_iceberg(found: dict[str, Any]) -> str:
    """The result of a statement without ids that each run draws, and with one spelling of folders."""
    rows = found.get("rows")
    if rows is not None and found["statement"].startswith("show"):
        rows = sorted(rows)
    text = json.dumps([found["statement"], rows, found.get("error")])
    text = re.sub(r"file:/+", "file:/", text).replace("/hive/warehouse", "/ours/warehouse")
    return re.sub(r"(current-snapshot-id\W+)\d+", r"\1", text)


@pytest.mark.evidence(cases=1, among="clients of Hive")
def test_pyiceberg_s_catalog_with_its_locks_gets_the_results_of_a_real_hive_metastore(
    metastores: dict[str, str], tmp_path: Path, counts: Any
) -> None:
    ours, hive = (
        pyiceberg_calls.run(HiveCatalog(name, uri=metastores[name]), str(tmp_path / name / folder))
        for name, folder in (("ours", ""), ("hive", "warehouse"))
    )
    differing = [(mine, theirs) for mine, theirs in zip(ours, hive, strict=True) if mine != theirs]
    assert differing == []
    assert dict(ours)["append to a table that another client locks"] == "CommitFailedException"
    assert dict(ours)["create, fill and drop a table in a transaction"] == "[{'id': 1, 'ds': 'a'}]"
    counts["calls of pyiceberg's HiveCatalog and its locks on the Hive Metastore endpoint"] = {
        "calls": len(ours),
        "with a result": sum(not answer.endswith(("Error", "Exception")) for _, answer in ours),
    }


_OF_HIVE_3 = (
    # Hive 2.3 does not know the key hive.metastore.disallow.incompatible.col.type.changes that the client sets.
    *("drop_columns_from_table", "columns that are left", "drop_columns_from_table of a missing one"),
    # Its database has found the second column of the name there: a MetaException.
    "add_columns_to_table again",
)


def _without(found: list[dict[str, Any]], calls: tuple[str, ...]) -> list[dict[str, Any]]:
    return [each for each in found if each["call"] not in calls]


@pytest.mark.evidence(cases=1, among="clients of Hive")
def test_airflow_s_hook_and_sensors_get_the_answers_of_a_real_hive_metastore(
    metastores: dict[str, str], tmp_path: Path, counts: Any
) -> None:
    database = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db"}
    ours, hive = run("hive_hook_process.py", *addresses(metastores), AIRFLOW_HOME=str(tmp_path), **database)
    assert differing(*(_without(found, _OF_HIVE_3) for found in (ours, hive)), json.dumps) == ""
    assert next(each["result"] for each in ours if each["call"] == "columns that are left") == ["id", "last"]
    counts["calls of Airflow's HiveMetastoreHook, its sensors and hive-metastore-client"] = {
        "calls": len(ours),
        "with a result": sum("result" in each for each in ours),
    }
