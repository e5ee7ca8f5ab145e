"""The DAGs of the README and the tutorial, and what the tutorial does before its DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

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
    (folder / "orders-1.csv").write_text(
        'id,ordered_at,amount,note\n1,2024-01-05 10:00:00,9.50,"a ""good"", old one"\n2,2024-02-05 10:00:00,20.00,\n'
    )
    run = run_dag(dag_of(ROOT / "README.md"))
    assert result_of(run, "total")["rows"] == [["2024-01", 1, "9.50"], ["2024-02", 1, "20.00"]]
