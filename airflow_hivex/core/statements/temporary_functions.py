"""CREATE and DROP of temporary functions, which go to Spark with each job that names them."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.errors import AlreadyExistsError, InvalidOperationError, NoSuchTemporaryFunctionError
from airflow_hivex.core.model.statements import CreateTemporaryFunction, DropTemporaryFunction
from airflow_hivex.core.statements.context import Result, Running, StatementContext
from airflow_hivex.core.statements.planning import plan_job
from airflow_hivex.core.statements.routing import chosen_cluster, route
from airflow_hivex.core.statements.transactions import in_transaction


def create_temporary_function(context: StatementContext, statement: CreateTemporaryFunction) -> Result:
    """CREATE TEMPORARY FUNCTION: Spark makes it once, and so says what is wrong with it.

    Raises:
        AlreadyExistsError: the session, or Spark itself, has a function of that name.
        InvalidOperationError: its body calls a permanent function.
        AnalysisError: Spark refuses its body, or its types.
    """
    functions, name = context.session.objects.functions, statement.name
    if name in functions and not statement.or_replace:
        if statement.if_not_exists:
            return Result()
        raise AlreadyExistsError("temporary function", name, "use OR REPLACE to replace it")

    def work(running: Running) -> Result:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        if running.functions:
            reason = f"it calls the permanent function {next(reversed(running.functions))}; make a permanent one of it"
            raise InvalidOperationError(statement.kind, name, reason)
        plan = plan_job(context, running, cluster, ())
        if context.run(cluster, replace(plan, command=f"SHOW SYSTEM FUNCTIONS LIKE '{name}'")).rows:
            raise AlreadyExistsError("function", name, "it is one of Spark's; choose another name")
        # The functions and variables that its body names come first.
        others = context.session.objects.prelude([statement.text])
        made = f"CREATE OR REPLACE TEMPORARY FUNCTION `{name.replace('`', '``')}` {statement.text}"
        context.run(cluster, replace(plan, sql="SELECT 1", prelude=(*others, made), max_rows=0))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        functions.pop(name, None)
        functions[name] = statement.text
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


def drop_temporary_function(context: StatementContext, statement: DropTemporaryFunction) -> Result:
    """DROP TEMPORARY FUNCTION.

    Raises:
        NoSuchTemporaryFunctionError: the session has none of that name.
    """
    functions = context.session.objects.functions
    if statement.name not in functions and not statement.if_exists:
        raise NoSuchTemporaryFunctionError(statement.name)
    functions.pop(statement.name, None)
    return Result()
