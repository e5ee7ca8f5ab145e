"""Links of task instances to the page Hivex."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.models.taskinstancekey import TaskInstanceKey

from airflow_hivex.operators.compaction import HivexCleanOperator, HivexCompactOperator
from airflow_hivex.operators.query import HivexQueryOperator
from airflow_hivex.operators.transaction import HivexAbortOperator, HivexBeginOperator, HivexCommitOperator

pytestmark = pytest.mark.airflow


def links_of(operator: Any) -> dict[str, str]:
    return {each.name: each.get_link(operator, ti_key=None) for each in operator.operator_extra_links}


def test_task_links_to_its_place_in_the_page() -> None:
    query = HivexQueryOperator(task_id="q", sql="SELECT 1", hivex_conn_id="other")
    assert links_of(query)["Hivex: transactions"].endswith("/plugin/hivex?connection=other&tab=transactions")
    assert links_of(query)["Hivex: statements"].endswith("/plugin/hivex?connection=other&tab=history")
    compact = links_of(HivexCompactOperator(task_id="c", table="t", partition="p=<a>&b"))
    assert compact["Hivex: compactions"].endswith(
        "/plugin/hivex?connection=hivex_default&tab=compactions&table=default.t&partition=p%3D%3Ca%3E%26b"
    )
    assert compact["Hivex: table"].endswith("/plugin/hivex?connection=hivex_default&tab=tables&table=default.t")
    assert links_of(HivexCleanOperator(task_id="x"))["Hivex: compactions"].endswith("&tab=compactions")


def test_transactions_of_a_task_are_named_by_task_and_id() -> None:
    ti_key = TaskInstanceKey("dag.with.dots", "group.load", "manual__1", 2, -1)

    def place(operator: Any) -> dict[str, list[str]]:
        (link,) = (each for each in operator.operator_extra_links if each.name == "Hivex: transactions")
        return parse_qs(urlsplit(link.get_link(operator, ti_key=ti_key)).query)

    agent = ["dag.with.dots.group.load manual__1 2"]
    query = HivexQueryOperator(task_id="q", sql="SELECT 1", transaction="7")
    query.txn_ids = [8, 9]
    assert place(query)["txns"] == ["7,8,9"]
    (statements,) = (each for each in query.operator_extra_links if each.name == "Hivex: statements")
    assert parse_qs(urlsplit(statements.get_link(query, ti_key=ti_key)).query)["agent"] == agent
    assert place(query)["agent"] == agent
    for operator in (HivexCommitOperator(task_id="c", txn_id="12"), HivexAbortOperator(task_id="a", txn_id=12)):
        assert (place(operator)["txns"], place(operator)["agent"]) == (["12"], agent)
    begin = HivexBeginOperator(task_id="b", timeout=timedelta(hours=1))
    begin.txn_ids = [12]
    assert place(begin)["txns"] == ["12"]


def test_airflow_knows_the_links() -> None:
    from airflow.providers_manager import ProvidersManager

    known = ProvidersManager().extra_links_class_names
    for operator in (HivexQueryOperator, HivexCompactOperator):
        for link in operator.operator_extra_links:
            assert f"{type(link).__module__}.{type(link).__name__}" in known
