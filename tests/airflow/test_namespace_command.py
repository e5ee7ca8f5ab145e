"""``hivex namespace``: what a namespace depends on, with the statements of scripts and DAG files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_hivex.cli.main import main
from airflow_hivex.core import Metastore

DAG_FILE = """
from airflow.sdk import DAG
from airflow_hivex.operators.query import HivexQueryOperator

with DAG("nightly"):
    HivexQueryOperator(task_id="load", sql="INSERT INTO own SELECT * FROM b.t", database="a")
    HivexQueryOperator(task_id="fine", sql=["SELECT * FROM t@b", "SELECT * FROM own"])
    HivexQueryOperator(task_id="elsewhere", sql="SELECT 1", database="b")
"""


def check(url: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, object]]]:
    code = main(["--metastore", url, "namespace", "check", "a", "--format", "json", *arguments])
    found = json.loads(capsys.readouterr().out)
    return code, [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


@pytest.mark.airflow
def test_check_reads_scripts_and_dag_files(sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Metastore.open(sqlite_url) as metastore, metastore.session() as session:
        for text in (
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE b.t (id int)",
            "CREATE TABLE a.own (id int)",
        ):
            session.sql(text)
        metastore.links.create("a", "t@b")
    code, rows = check(sqlite_url, capsys)
    assert (code, [row["kind"] for row in rows]) == (0, ["link"])
    script, dag = tmp_path / "nightly.sql", tmp_path / "nightly.py"
    script.write_text("SELECT 1;\nSELECT * FROM b.u")
    dag.write_text(DAG_FILE)
    code, rows = check(sqlite_url, capsys, "--sql", str(script), "--dag", str(dag))
    assert code == 1
    told = [(row["object"], row["name"], row["create_link"], row["line"]) for row in rows if row["kind"] == "statement"]
    assert told == [
        (str(script), "b.u", "CREATE LINK TO u@b", 2),
        ("nightly.load", "b.t", "CREATE LINK TO t@b", 1),
        ("nightly.elsewhere", "b", None, None),
    ]
