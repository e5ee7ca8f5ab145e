"""OpenLineage's own events, as its listener sends them to a file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator

from airflow_hivex.hooks.hivex import HivexHook
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import HivexCommitOperator

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

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


def test_facets_of_a_query_tell_tables_columns_cluster_rows_and_bytes(shop: HivexHook) -> None:
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


def test_commit_of_a_group_tells_the_tables_of_the_transaction(shop: HivexHook) -> None:
    metastore = shop.get_metastore()
    (txn_id,) = metastore.transactions.open()
    with shop.session(txn_id=txn_id) as session:
        session.sql("INSERT INTO shop.totals VALUES ('z', 1), ('z', 2)")
    operator = HivexCommitOperator(task_id="t", txn_id=txn_id)
    operator.execute(context())
    (written,) = extracted(operator, "complete").outputs
    assert (written.name, written.outputFacets["outputStatistics"].rowCount) == ("shop.totals", 2)
