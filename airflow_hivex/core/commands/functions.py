"""SHOW FUNCTIONS and DESCRIBE FUNCTION: the functions of the Spark of a cluster, of the session and of databases."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.catalog.databases import matching
from airflow_hivex.core.errors import NoSuchFunctionError
from airflow_hivex.core.execution.called_functions import declare_called
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.planning import plan_job
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.stored_functions import find_function
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.model.sql_functions import sql_function
from airflow_hivex.core.parser.queries.spark_functions import SPARK_FUNCTIONS
from airflow_hivex.core.parser.statements import DescribeFunction, ShowFunctions


def show_functions(context: StatementContext, statement: ShowFunctions) -> Result:
    """SHOW FUNCTIONS: one name a row, operators and temporary functions among them.

    Raises:
        NoSuchDatabaseError: the database does not exist.
    """
    found = Result() if statement.scope == "USER" else _run(context, statement, "SHOW SYSTEM FUNCTIONS")
    names = matching([str(name) for (name,) in found.rows], statement.pattern)
    if statement.scope != "SYSTEM":
        database = statement.database or context.session.database
        names += matching(list(context.session.objects.functions), statement.pattern)
        permanent = context.services.catalog.list_functions(database, statement.pattern)
        names += [f"{database}.{name}" for name in permanent]
    return replace(found, columns=["function"], rows=[(name,) for name in sorted(names)])


def describe_function(context: StatementContext, statement: DescribeFunction) -> Result:
    """DESCRIBE FUNCTION: Spark's lines about it, or those about a permanent function.

    Raises:
        NoSuchFunctionError: the database does not have it.
        AnalysisError: Spark does not know the function.
    """
    name = statement.name.lower()
    if statement.database is not None:
        stored = find_function(context.services, statement.database, name)
        if stored is None:
            raise NoSuchFunctionError(statement.database, name)
        return _described(stored, extended=statement.extended)
    if name not in SPARK_FUNCTIONS and name not in context.session.objects.functions and name.isidentifier():
        stored = find_function(context.services, context.session.database, name)
        if stored is not None:
            return _described(stored, extended=statement.extended)
    quoted = f"`{statement.name.replace('`', '``')}`"
    found = _run(context, statement, f"DESCRIBE FUNCTION {'EXTENDED ' if statement.extended else ''}{quoted}")
    return replace(found, columns=["function_desc"])


def _described(function: PermanentFunction, *, extended: bool) -> Result:
    """Return the lines about a permanent function."""
    lines = [f"Function: {function.full_name}"]
    definition = sql_function(function)
    if definition is None:
        lines.append(f"Class: {function.class_name}")
        lines += [f"{each.type.value}: {each.uri}" for each in function.resources]
    else:
        lines += [f"Type: {'TABLE' if definition.is_table else 'SCALAR'}", f"Input: ({definition.parameters})"]
        lines.append(f"Returns: {definition.returns}")
        if definition.comment is not None:
            lines.append(f"Comment: {definition.comment}")
        if extended:
            lines += [f"Deterministic: {str(definition.is_deterministic).lower()}", f"Body: {definition.body}"]
    if extended:
        lines.append(f"Owner: {function.owner}")
    return Result(columns=["function_desc"], rows=[(line,) for line in lines])


def _run(context: StatementContext, statement: ShowFunctions | DescribeFunction, command: str) -> Result:
    """Return the rows of a command of Spark's on the cluster of a query without tables."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        plan = replace(plan_job(context, running, cluster, ()), command=command)
        declare_called(context, running.functions, [command])
        prelude = (*running.functions.values(), *context.session.objects.prelude([command]))
        found = context.run(cluster, replace(plan, prelude=prelude))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        return Result(rows=list(found.rows), cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)
