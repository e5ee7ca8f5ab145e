"""Queries over the temporary views of a job, and over nothing else.

The reader puts a view in the place of each table that it finds in a text. Should Spark find another relation there,
such as a table of the session's own catalog, the query is refused before any of it runs: no snapshot and no lock
would hold for it. The JVM returns the relations that a plan reads; with Spark Connect only the settings of
``text_conf`` protect against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import InvalidOperationError

_OF_THE_TEXT = frozenset(
    ("OneRowRelation", "LocalRelation", "ResolvedInlineTable", "Range", "CTERelationRef", "UnionLoopRef")
)
"""Leaves of a plan whose rows stand in the text itself, or that stand for another part of it.

A ``ResolvedInlineTable`` is ``VALUES`` with an expression such as ``current_timestamp()``, which Spark evaluates later.
"""


def query(spark: SparkSession, sql: str, arguments: Mapping[str, Any], views: Sequence[str]) -> DataFrame:
    """Return the rows of a query that reads none but these temporary views.

    Raises:
        InvalidOperationError: Spark would read another relation.
        AnalysisException: Spark refuses the query.
    """
    rows = spark.sql(sql, args=dict(arguments) or None)
    leaves = _leaves(rows)
    if leaves is not None:
        for view in views:
            leaves = leaves.diff(_leaves_of_view(spark, view))
        for leaf in _each(leaves.toSeq()):
            if leaf.getClass().getSimpleName().rstrip("$") not in _OF_THE_TEXT:
                name = str(leaf.toString()).strip()
                raise InvalidOperationError(
                    "A query of", name, "Spark reads it, and it is not a table of the warehouse"
                )
    return rows


def _leaves(rows: DataFrame) -> Any:
    """Return the leaves of a plan, with those of sub-queries, as a set in the JVM; None where there is no JVM to ask.

    In their canonical form, which is the same wherever a view is used.
    """
    classic = getattr(rows, "_jdf", None)
    if classic is None:
        return None
    return _leaves_of_plan(classic.queryExecution().analyzed())


def _leaves_of_view(spark: SparkSession, view: str) -> Any:
    """Return the leaves of a temporary view's plan, as :func:`_leaves`."""
    session: Any = spark
    found = session._jsparkSession.sessionState().catalog().getTempView(view)
    plan = found.get().child() if found.isDefined() else None
    # The view of a DataFrame keeps its plan, so that there is nothing to analyse again.
    return _leaves(spark.table(view)) if plan is None or not plan.resolved() else _leaves_of_plan(plan)


def _leaves_of_plan(analyzed: Any) -> Any:
    plan = analyzed.canonicalized()
    leaves = plan.collectLeaves()
    for subquery in _each(plan.subqueriesAll()):
        leaves = leaves.concat(subquery.collectLeaves())
    return leaves.toSet()


def _each(found: Any) -> Iterator[Any]:
    """Return the items of a sequence of Scala's."""
    return (found.apply(index) for index in range(found.size()))
