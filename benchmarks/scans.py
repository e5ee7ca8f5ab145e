"""Scans of TPC-H's lineitem, clean and with deleted rows, against plain Spark ORC and deltalake with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_hivex.core import Session
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import StatementContext, new_tag
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.model.plans import Plan
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select
from benchmarks.harness import Figure
from benchmarks.lineitem import AGGREGATE, HIVE, Lineitem, lineitem

DELETED = (
    ("1% deleted", "l_orderkey % 100 = 7", 1.25, 2.0),
    # Nine more of a hundred.
    ("10% deleted", "l_orderkey % 100 BETWEEN 20 AND 28", 1.4, 2.4),
)


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for a full scan, a sum of two columns and a point lookup; then with 1% and 10% of the rows deleted."""
    with lineitem(folder, scale) as rows:
        rows.create()
        rows.insert()
        rows.write_plain()
        rows.write_delta()
        return [*_clean(rows), *_with_deletes(rows)]


def _clean(rows: Lineitem) -> list[Figure]:
    figures = []
    queries = {"full scan": rows.full_scan, "sum of two columns": AGGREGATE, "point lookup": rows.point_lookup}
    for title, query in queries.items():
        job = _timed_job(rows.session, query.format(table="lineitem"))
        figures += rows.scan(f"{title}, clean", query, 1.05, its_job_alone=job)
    rows.create("lineitem_hive", HIVE)
    rows.insert("lineitem_hive")
    return [*figures, *rows.scan("full scan, clean, layout hive", rows.full_scan, 1.35, "lineitem_hive")]


def _with_deletes(rows: Lineitem) -> list[Figure]:
    figures = []
    for name, condition, full_goal, sum_goal in DELETED:
        rows.session.sql(f"DELETE FROM lineitem WHERE {condition}")
        rows.delete_plain(condition)
        rows.delete_delta(condition)
        figures += rows.scan(f"full scan, {name}", rows.full_scan, full_goal)
        figures += rows.scan(f"sum of two columns, {name}", AGGREGATE, sum_goal)
    return figures


def _timed_job(session: Session, query: str) -> Callable[[], object]:
    """The job of a SELECT alone: its plan is made once, then run again and again."""
    services = session._services
    context = StatementContext(services, session._state)
    statement = read(query)
    assert isinstance(statement, Select)
    routed = route(context, statement)
    cluster = chosen_cluster(context, routed)
    tag = new_tag(0)
    scans = tuple(planning.scan(bound, cluster, f"{tag}_{i}") for i, bound in enumerate(routed.bound))
    sql = statement.query.render([scan.view for scan in scans])
    runner = services.runner(cluster)
    return lambda: runner.run(Plan(tag, "benchmark", sql, scans), cluster.name)
