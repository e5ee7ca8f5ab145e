"""The example DAG runs as it is, on the embedded warehouse."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from airflow_hivex.dags.transaction import transaction_dag
from airflow_hivex.hooks.hivex import HivexHook, close_metastores
from tests.airflow.runs import states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DAG]:
    # Only the warehouse is looked for there: Airflow has its own home by now.
    monkeypatch.setitem(os.environ, "AIRFLOW_HOME", str(tmp_path))
    yield transaction_dag()
    close_metastores()


def test_example_commits_all_three_tables_or_none(example: DAG, run_dag: Callable[..., DagRun]) -> None:
    def rows() -> list[int]:
        with HivexHook().session(database="shop") as session:
            return [
                session.sql(f"SELECT count(*) FROM {table}").rows[0][0]
                for table in ("orders", "order_lines", "journal")
            ]

    run = run_dag(example)
    assert set(states(run).values()) == {"success"}, states(run)
    assert rows() == [1, 2, 1]
    failed = run_dag(example, run_conf={"fail": True})
    assert failed.state == "failed"
    assert states(failed)["report"] == "upstream_failed"
    assert rows() == [1, 2, 1]
    assert HivexHook().get_metastore().transactions.valid_txns().open_ids == ()
