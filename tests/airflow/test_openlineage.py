"""OpenLineage's own events, as its listener sends them to a file."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.sdk import DAG

from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import HivexCommitOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.models.dagrun import DagRun
    from airflow.providers.openlineage.extractors import OperatorLineage

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.evidence(cases=3, among="lineage of tasks")]

NAMESPACE = "hivex://hivex_default"


@pytest.fixture
def shop(warehouse: dict[str, Any]) -> HivexHook:
    hook = HivexHook()
    hook.run(
        "CREATE DATABASE shop; USE shop; CREATE TABLE sales (id INT, amount DECIMAL(10,2)) PARTITIONED BY (ds STRING); "
        "CREATE TABLE totals (ds STRING, total DECIMAL(20,2)); "
        "INSERT INTO sales VALUES (1, 1.5, 'x'), (2, 2.5, 'x'), (3, 4, 'y')"
    )
    return hook


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that OpenLineage's listener of tasks sends its events to."""
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener
    from airflow.sdk.listener import get_listener_manager

    file = tmp_path / "lineage.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    listener = OpenLineageListener()
    listeners = get_listener_manager()
    listeners.add_listener(listener)
    yield file
    listeners.pm.unregister(listener)


def context() -> Any:
    fields = {"dag_id": "d", "task_id": "t", "run_id": "r", "try_number": 1, "map_index": -1}
    return {"ti": SimpleNamespace(**fields)}


def extracted(operator: Any, state: str) -> OperatorLineage:
    """What OpenLineage's extractor of a task in a state returns."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    extractor = DefaultExtractor(operator)
    found = {
        "start": extractor.extract,
        "complete": lambda: extractor.extract_on_complete(None),
        "failure": lambda: extractor.extract_on_failure(None),
    }[state]()
    assert found is not None
    return found


def test_facets_of_a_query_have_tables_columns_cluster_rows_and_bytes(shop: HivexHook) -> None:
    sql = "USE shop; INSERT INTO totals SELECT ds, SUM(amount) FROM sales GROUP BY ds"
    operator = HivexQueryOperator(task_id="t", sql=sql)
    for state in ("start", "failure"):
        before = extracted(operator, state)
        assert [(each.namespace, each.name) for each in before.inputs] == [(NAMESPACE, "shop.sales")]
        assert [each.name for each in before.outputs] == ["shop.totals"]
        assert "outputStatistics" not in before.outputs[0].outputFacets
    result = operator.execute(context())
    after = extracted(operator, "complete")
    (read,), (written,) = after.inputs, after.outputs
    assert [(field.name, field.type) for field in read.facets["schema"].fields] == [
        ("id", "int"),
        ("amount", "decimal(10,2)"),
        ("ds", "string"),
    ]
    assert read.facets["hivexCluster"].cluster == "c1"
    assert read.facets["symlinks"].identifiers[0].name.startswith("file://")
    statistics = written.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.size > 0) == (2, True)
    fields = written.facets["columnLineage"].fields
    assert {name: [(each.name, each.field) for each in field.inputFields] for name, field in fields.items()} == {
        "ds": [("shop.sales", "ds")],
        "total": [("shop.sales", "amount")],
    }
    assert after.run_facets["externalQuery"].externalQueryId == str(result["txn_id"])
    assert after.job_facets["sql"].query.startswith("USE shop")


def test_listener_sends_the_datasets_when_a_task_starts_completes_and_fails(
    shop: HivexHook, sent: Path, run_dag: Callable[..., DagRun]
) -> None:
    with DAG("lineage", schedule=None) as dag:
        HivexQueryOperator(
            task_id="fill",
            sql="INSERT INTO shop.totals SELECT ds, SUM(amount) FROM shop.sales GROUP BY ds",
        ) >> HivexQueryOperator(task_id="broken", sql="INSERT INTO shop.totals SELECT ds, nothing FROM shop.sales")
    run_dag(dag)
    events = [json.loads(line) for line in sent.read_text().splitlines()]
    assert [(each["job"]["name"], each["eventType"]) for each in events] == [
        ("lineage.fill", "START"),
        ("lineage.fill", "COMPLETE"),
        ("lineage.broken", "START"),
        ("lineage.broken", "FAIL"),
    ]
    for event in events:
        (read,), (written,) = event["inputs"], event["outputs"]
        assert (read["namespace"], read["name"], written["name"]) == (NAMESPACE, "shop.sales", "shop.totals")
        assert [field["name"] for field in read["facets"]["schema"]["fields"]] == ["id", "amount", "ds"]
        assert read["facets"]["hivexCluster"]["cluster"] == "c1"
        assert event["job"]["facets"]["sql"]["query"].startswith("INSERT INTO shop.totals")
        statistics = written.get("outputFacets", {}).get("outputStatistics", {})
        assert statistics.get("rowCount") == (2 if event["eventType"] == "COMPLETE" else None)
    completed, failed = events[1], events[3]
    assert completed["outputs"][0]["facets"]["columnLineage"]["fields"]["total"]["inputFields"][0]["field"] == "amount"
    assert completed["run"]["facets"]["externalQuery"]["source"] == NAMESPACE
    assert "nothing" in failed["run"]["facets"]["errorMessage"]["message"]


def test_facets_of_a_new_table_are_those_that_are_known(shop: HivexHook) -> None:
    operator = HivexQueryOperator(task_id="t", sql="SELECT id FROM shop.sales", output_table="shop.ids")
    before = extracted(operator, "start")
    assert [each.name for each in before.outputs] == ["shop.ids"]
    assert list(before.outputs[0].facets) == ["columnLineage"]


def test_facets_of_the_operators_of_common_sql_come_from_the_hook(shop: HivexHook) -> None:
    operator = SQLExecuteQueryOperator(
        task_id="t", conn_id="hivex_default", database="shop", sql="INSERT INTO totals SELECT ds, 1 FROM sales"
    )
    operator.execute(context())
    after = extracted(operator, "complete")
    assert [each.name for each in after.inputs] == ["shop.sales"]
    assert after.outputs[0].outputFacets["outputStatistics"].rowCount == 3


def test_commit_of_a_group_reports_the_tables_of_the_transaction(shop: HivexHook) -> None:
    metastore = shop.get_metastore()
    (txn_id,) = metastore.transactions.open()
    with shop.session(txn_id=txn_id) as session:
        session.sql("INSERT INTO shop.totals VALUES ('z', 1), ('z', 2)")
    operator = HivexCommitOperator(task_id="t", txn_id=txn_id)
    operator.execute(context())
    (written,) = extracted(operator, "complete").outputs
    assert (written.name, written.outputFacets["outputStatistics"].rowCount) == ("shop.totals", 2)
