"""CREATE and DROP of temporary functions, which go to Spark with each job that names them."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.errors import AlreadyExistsError, NoSuchTemporaryFunctionError
from airflow_hivex.core.execution.called_functions import declare_called, with_full_names
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.planning import plan_job
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.parser.statements import CreateTemporaryFunction, DropTemporaryFunction


def create_temporary_function(context: StatementContext, statement: CreateTemporaryFunction) -> Result:
    """CREATE TEMPORARY FUNCTION: Spark makes it once, and so says what is wrong with it.

    Raises:
        AlreadyExistsError: the session, or Spark itself, has a function of that name.
        InvalidOperationError: a permanent function that its body calls runs code, which is not allowed.
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
        # Routing has found whether it calls any. Edits are what Spark reads in place of Hive's SQL.
        is_edited = running.functions or statement.body.qualifiers
        text, permanent = with_full_names(context, statement.text) if is_edited else (statement.text, ())
        declare_called(context, running.functions, [text])
        plan = plan_job(context, running, cluster, ())
        if context.run(cluster, replace(plan, command=f"SHOW SYSTEM FUNCTIONS LIKE '{name}'")).rows:
            raise AlreadyExistsError("function", name, "it is one of Spark's; choose another name")
        # The functions and variables that its body names come first.
        others = (*running.functions.values(), *context.session.objects.prelude([text]))
        made = f"CREATE OR REPLACE TEMPORARY FUNCTION `{name.replace('`', '``')}` {text}"
        context.run(cluster, replace(plan, sql="SELECT 1", prelude=(*others, made), max_rows=0))
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        functions.pop(name, None)
        functions[name] = text
        context.session.objects.permanent[name] = permanent
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


def drop_temporary_function(context: StatementContext, statement: DropTemporaryFunction) -> Result:
    """DROP TEMPORARY FUNCTION.

    Raises:
        NoSuchTemporaryFunctionError: the session has no temporary function of that name.
    """
    functions = context.session.objects.functions
    if statement.name not in functions and not statement.if_exists:
        raise NoSuchTemporaryFunctionError(statement.name)
    functions.pop(statement.name, None)
    context.session.objects.permanent.pop(statement.name, None)
    return Result()
