"""The DAG files of ``dags/``, as Airflow's DAG processor reads them; warnings are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow
DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture(scope="module")
def bag(airflow_database: None) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(DAGS))


def test_each_file_is_imported_without_an_error_or_a_warning(bag: Any) -> None:
    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    files = {Path(dag.fileloc).name for dag in bag.dags.values()}
    assert files == {each.name for each in DAGS.glob("*.py")}


def test_each_dag_survives_serialization_and_says_its_purpose(bag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in bag.dags.values():
        stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        assert sorted(stored.task_ids) == sorted(dag.task_ids)
        assert dag.doc_md, dag.dag_id
        assert "hivex" in dag.tags, dag.dag_id
        assert {task.owner for task in dag.tasks} == {"hivex"}, dag.dag_id
