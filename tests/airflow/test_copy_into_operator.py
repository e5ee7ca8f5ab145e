from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task

from airflow_hivex.operators.copy_into import HivexCopyIntoOperator
from airflow_hivex.operators.query import HivexQueryOperator
from tests.airflow.runs import events_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.models.dagrun import DagRun

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


def test_a_task_loads_the_new_files_of_its_pattern(
    warehouse: dict[str, Any], run_dag: Callable[..., DagRun], tmp_path: Path
) -> None:
    folder = tmp_path / "c1" / "raw" / "it's"
    folder.mkdir(parents=True)
    for name in ("a.csv", "b.csv", "c.txt"):
        (folder / name).write_text("id;note\n1;x\n")
    seen: list[dict[str, Any]] = []
    with DAG("hivex_copy_into", schedule=None) as dag:
        create = HivexQueryOperator(task_id="create", sql="CREATE TABLE orders (id INT, note STRING)")
        loads = [
            HivexCopyIntoOperator(
                task_id=task_id,
                table="default.orders",
                source="raw/{{ params.folder }}",
                params={"folder": "it's"},
                file_format="csv",
                patterns=["{{ params.folder[:0] }}*.csv"],
                format_options={"header": True, "sep": ";"},
            )
            for task_id in ("load", "again")
        ]

        @task
        def keep(*results: dict[str, Any]) -> None:
            seen.extend({name: value for name, value in each.items() if name != "txn_id"} for each in results)

        create >> loads[0] >> loads[1] >> keep(*(each.output for each in loads))
    run_dag(dag)
    numbers = ("files_loaded", "files_skipped", "files_changed", "bytes_loaded", "rows_loaded", "rows_rejected")
    expected = ((2, 0, 0, 24, 2, 0), (0, 2, 0, 0, 0, 0))
    assert seen == [{**dict(zip(numbers, each, strict=True)), "cluster": "c1"} for each in expected]
    # A task that has loaded no file sends no event.
    assert [extra["write_ids"] for _, extra in events_of("default.orders")] == [[2]]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"patterns": "*.csv", "files": ["a"]}, "do not go together"),
        ({"where": "x > 1"}, "where needs select"),
        ({"sql": "SELECT 1"}, "sql is not an argument"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        HivexCopyIntoOperator(task_id="t", table="t", source="s", file_format="csv", **arguments)
