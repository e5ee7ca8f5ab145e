"""Replication as Airflow runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_hivex.dags.replication import replication_dag
from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.replication import HivexReplicateOperator
from tests.airflow.runs import context, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.models.dagrun import DagRun

pytestmark = pytest.mark.airflow


def test_operator_copies_and_tells_what(warehouse: dict[str, Any]) -> None:
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        session.sql("CREATE TABLE t (id INT)")
        session.sql("INSERT INTO t VALUES (1)")
    with DAG("replication"):
        replicate = HivexReplicateOperator(task_id="replicate", tables="default.t", cluster="c2")
        wrong = HivexReplicateOperator(task_id="wrong", tables="default.t", cluster="c1")
    result = replicate.execute(context())
    assert result["tables"] == ["default.t"]
    assert result["files_copied"] > 0
    assert replicate.execute(context())["files_copied"] == 0
    assert {each.is_current for each in metastore.replicator.copies("default.t")} == {True}
    with pytest.raises(AirflowFailException, match="primary"):
        wrong.execute(context())


def test_dag_has_a_task_for_each_table_of_its_run(run_dag: Callable[..., DagRun], warehouse: dict[str, Any]) -> None:
    metastore = HivexHook().get_metastore()
    with metastore.session() as session:
        for table in "ab":
            session.sql(f"CREATE TABLE {table} (id INT)")
            session.sql(f"INSERT INTO {table} VALUES (1)")
    run = run_dag(replication_dag("replication_of_two"), run_conf={"tables": ["default.a", "default.b"]})
    assert states(run) == {"choose_tables": "success", "replicate[0]": "success", "replicate[1]": "success"}
    for table in "ab":
        assert [each.is_current for each in metastore.replicator.copies(f"default.{table}")] == [True, True]
