"""Links of task instances to the page Hivex."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_hivex.operators.compaction import HivexCleanOperator, HivexCompactOperator
from airflow_hivex.operators.query import HivexQueryOperator

pytestmark = pytest.mark.airflow


def links_of(operator: Any) -> dict[str, str]:
    return {each.name: each.get_link(operator, ti_key=None) for each in operator.operator_extra_links}


def test_task_links_to_its_place_in_the_page() -> None:
    query = HivexQueryOperator(task_id="q", sql="SELECT 1", hivex_conn_id="other")
    (address,) = links_of(query).values()
    assert address.endswith("/plugin/hivex?connection=other&tab=transactions")
    compact = links_of(HivexCompactOperator(task_id="c", table="t", partition="p=<a>&b"))
    assert compact["Hivex: compactions"].endswith(
        "/plugin/hivex?connection=hivex_default&tab=compactions&table=default.t&partition=p%3D%3Ca%3E%26b"
    )
    assert compact["Hivex: table"].endswith("/plugin/hivex?connection=hivex_default&tab=tables&table=default.t")
    assert links_of(HivexCleanOperator(task_id="x"))["Hivex: compactions"].endswith("&tab=compactions")


def test_airflow_knows_the_links() -> None:
    from airflow.providers_manager import ProvidersManager

    known = ProvidersManager().extra_links_class_names
    for operator in (HivexQueryOperator, HivexCompactOperator):
        for link in operator.operator_extra_links:
            assert f"{type(link).__module__}.{type(link).__name__}" in known
