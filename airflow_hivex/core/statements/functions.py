"""SHOW FUNCTIONS and DESCRIBE FUNCTION: the functions of the Spark of a cluster."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.catalog.databases import matching
from airflow_hivex.core.model.statements import DescribeFunction, ShowFunctions
from airflow_hivex.core.statements.context import Result, Running, StatementContext
from airflow_hivex.core.statements.planning import plan_job
from airflow_hivex.core.statements.routing import chosen_cluster, route
from airflow_hivex.core.statements.transactions import in_transaction


def show_functions(context: StatementContext, statement: ShowFunctions) -> Result:
    """SHOW FUNCTIONS: one name a row, operators and temporary functions among them."""
    found = _run(context, statement, "SHOW SYSTEM FUNCTIONS")
    names = matching([*(str(name) for (name,) in found.rows), *context.session.objects.functions], statement.pattern)
    return replace(found, columns=["function"], rows=[(name,) for name in names])


def describe_function(context: StatementContext, statement: DescribeFunction) -> Result:
    """DESCRIBE FUNCTION: Spark's lines about it.

    Raises:
        AnalysisError: Spark does not know the function.
    """
    quoted = f"`{statement.name.replace('`', '``')}`"
    found = _run(context, statement, f"DESCRIBE FUNCTION {'EXTENDED ' if statement.extended else ''}{quoted}")
    return replace(found, columns=["function_desc"])


def _run(context: StatementContext, statement: ShowFunctions | DescribeFunction, command: str) -> Result:
    """Return the rows of a command of Spark's on the cluster of a query without tables."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        plan = replace(plan_job(context, running, cluster, ()), command=command)
        found = context.run(cluster, replace(plan, prelude=context.session.objects.prelude([command])))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        return Result(rows=list(found.rows), cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)
