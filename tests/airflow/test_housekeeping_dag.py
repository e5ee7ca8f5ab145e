from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.hooks.hivex import HivexHook

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

DAGS = Path(__file__).parents[2] / "dags"

pytestmark = pytest.mark.airflow


def test_housekeeping_frees_what_a_dead_client_held(
    run_dag: Callable[..., DagRun], warehouse: dict[str, Any], tmp_path: Path
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        session.sql("CREATE TABLE t (a int)")
    (txn_id,) = metastore.transactions.open(timeout=1)
    metastore.locks.acquire([LockComponent("default", "t")], txn_id)
    deadline = time.monotonic() + 60
    while metastore.transactions.get(txn_id).state is TxnState.OPEN:
        assert time.monotonic() < deadline
        run = run_dag(DagBag(str(DAGS)).dags["hivex_housekeeping"])
        assert str(run.state) == "success"
    assert "heartbeat" in str(metastore.transactions.get(txn_id).reason)
    assert metastore.locks.show() == []
