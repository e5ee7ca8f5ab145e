"""The DAGs of the README, the start page and the tutorial, and what the tutorial does before its DAG."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_hivex.hooks.hivex import close_metastores
from tests.integration.test_documentation import ROOT, blocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.models.dagrun import DagRun

pytestmark = [pytest.mark.spark, pytest.mark.evidence(cases=1, among="documented DAGs")]


def dag_of(page: Path) -> DAG:
    (block,) = (block for block in blocks(page, "python") if "with DAG(" in block)
    names: dict[str, Any] = {}
    exec(block, names)
    dag = names["dag"]
    assert isinstance(dag, DAG)
    return dag


def result_of(run: DagRun, task_id: str) -> dict[str, Any]:
    ti = run.get_task_instance(task_id)
    assert ti is not None
    result = ti.xcom_pull(task_ids=task_id)
    assert isinstance(result, dict)
    return result


def test_dag_of_the_readme_loads_own_files(
    warehouse: dict[str, Any], run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    folder = tmp_path / "c1" / "raw" / "orders"
    folder.mkdir(parents=True)
    (folder / "orders-1.csv").write_text("id,amount,day\n1,9.50,2024-01-05\n2,20.00,2024-02-05\n")
    run = run_dag(dag_of(ROOT / "README.md"))
    assert result_of(run, "load")["rows_written"] == 2


def test_dag_of_the_start_page_loads_own_files(
    warehouse: dict[str, Any], run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    folder = tmp_path / "c1" / "raw" / "orders"
    folder.mkdir(parents=True)
    (folder / "orders-1.csv").write_text(
        'id,ordered_at,amount,note\n1,2024-01-05 10:00:00,9.50,"a ""good"", old one"\n2,2024-02-05 10:00:00,20.00,\n'
    )
    run = run_dag(dag_of(ROOT / "docs" / "index.md"))
    assert result_of(run, "total")["rows"] == [["2024-01", 1, "9.50"], ["2024-02", 1, "20.00"]]


def test_tutorial_runs_as_it_stands(
    run_dag: Callable[..., DagRun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from airflow_hivex.cli.main import main
    from airflow_hivex.cli.output import print_table
    from airflow_hivex.core import Metastore
    from airflow_hivex.core.parser.reader import split

    page = ROOT / "docs" / "tutorial.md"
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("west", "east")}
    monkeypatch.setenv("HIVEX_METASTORE_URL", url)
    monkeypatch.setenv("HIVEX_CLUSTER_PROPERTIES", json.dumps(clusters))
    monkeypatch.setenv("HIVEX_DEFAULT_CLUSTER", "west")
    with (
        Metastore.open(url, clusters=clusters, default_cluster="west") as metastore,
        metastore.session() as session,
    ):
        for language, block in re.findall(r"^```(sql|text|console)\n(.*?)^```$", page.read_text(), re.DOTALL | re.M):
            if language == "sql":
                result = [session.sql(statement) for statement in split(block)][-1]
            elif language == "text":
                capsys.readouterr()
                print_table(result)
                assert capsys.readouterr().out == block
            else:
                for command in re.findall(r"^\$ hivex (.*)$", block, re.M):
                    capsys.readouterr()
                    main(command.split())
                    if expected := re.search(rf"^\$ hivex {command}\n([^$].*)$", block, re.M):
                        assert capsys.readouterr().out.strip() == expected[1]
    extra = {"metastore_url": url, "cluster_properties": clusters, "default_cluster": "west"}
    monkeypatch.setenv("AIRFLOW_CONN_HIVEX_DEFAULT", json.dumps({"conn_type": "hivex", "extra": extra}))
    run = run_dag(dag_of(page))
    assert result_of(run, "totals")["rows"] == [["Ada", "15.50"], ["Edsger", "7.00"]]
    close_metastores()
