"""CREATE FUNCTION and DROP FUNCTION. The catalog keeps the functions; clients of Hive see them, too."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.errors import AlreadyExistsError, InvalidObjectError, NoSuchFunctionError, StatementSyntaxError
from airflow_hivex.core.execution.called_functions import declare
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.planning import plan_job
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.stored_functions import find_function
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.model.permanent_functions import PermanentFunction
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, tokenize
from airflow_hivex.core.parser.lexer.types import read_type
from airflow_hivex.core.parser.statements import CreateFunction, DropFunction, Select

_RETURNS = "Returns:"
"""Before the type, in Spark's description of a function."""


def create_function(context: StatementContext, statement: CreateFunction) -> Result:
    """CREATE FUNCTION: Spark makes one of SQL once, and so says what is wrong with it. No class is loaded.

    Raises:
        NoSuchDatabaseError: its database does not exist.
        AlreadyExistsError: the database has a function of that name.
        AnalysisError: Spark refuses its body, or its types.
        InvalidObjectError: its values have no type that is kept.
        InvalidOperationError: its body calls a function that runs code, and this is not allowed.
        ForeignNameError: it calls a function of another namespace in a closed one.
    """
    database, name = context.session.qualify(statement.name)
    catalog = context.services.catalog
    catalog.get_database(database)
    stored = find_function(context.services, database, name)
    if stored is not None and statement.if_not_exists:
        return Result()
    if stored is not None and not statement.or_replace:
        advice = "use OR REPLACE to replace it, or IF NOT EXISTS to accept it"
        raise AlreadyExistsError("function", stored.full_name, advice)
    function = _described(context, statement, database, name)
    function.check()
    result = Result()
    if statement.sql is not None:
        result, returns = _analysed(context, statement, function)
        function = _described(context, replace(statement, sql=replace(statement.sql, returns=returns)), database, name)
    if stored is None:
        catalog.create_function(function)
    else:
        catalog.alter_function(database, name, replace(function, owner=stored.owner, owner_type=stored.owner_type))
    return result


def _described(context: StatementContext, statement: CreateFunction, database: str, name: str) -> PermanentFunction:
    owner = context.session.user
    if statement.sql is None:
        return PermanentFunction(database, name, statement.class_name or "", statement.resources, owner)
    definition = replace(statement.sql, database=context.session.database)
    return definition.as_function(database, name, owner, context.services.clock())


def _analysed(context: StatementContext, statement: CreateFunction, function: PermanentFunction) -> tuple[Result, str]:
    """Let Spark make a function of SQL, on the cluster of a query without tables, and return the type of its values."""
    assert statement.body is not None
    assert statement.sql is not None
    query, given = statement.body, statement.sql.returns

    def work(running: Running) -> tuple[Result, str]:
        routed = route(context, Select(query), running)
        cluster = chosen_cluster(context, routed)
        # The route has declared those that it calls, perhaps the one that it replaces among them.
        running.functions.clear()
        declare(context, running.functions, function)
        plan = replace(plan_job(context, running, cluster, (), sql="SELECT 1"), max_rows=0)
        if not given:
            described = f"DESCRIBE FUNCTION EXTENDED {quoted(function.full_name)}"
            plan = replace(plan_job(context, running, cluster, ()), command=described)
        rows = context.run(cluster, plan).rows
        if running.joined is None:
            context.services.transactions.commit(running.txn_id)
        lines = (str(row[0]) for row in rows)
        returns = given or next(
            (line.removeprefix(_RETURNS).strip() for line in lines if line.startswith(_RETURNS)), ""
        )
        if not given and not _is_type(returns):
            reason = f"its values have the type {returns or 'VOID'}, which is not kept; name another one by RETURNS"
            raise InvalidObjectError("function", function.full_name, reason)
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route), returns

    return in_transaction(context, work, read_only=True)


def _is_type(text: str) -> bool:
    """Return whether later statements read a text of Spark's as a type: it also has types of no values."""
    try:
        read_type(Cursor(text, tokenize(text), Markers({})))
    except StatementSyntaxError:
        return False
    return True


def drop_function(context: StatementContext, statement: DropFunction) -> Result:
    """DROP FUNCTION. The files of its class stay.

    Raises:
        NoSuchFunctionError: it does not exist.
    """
    database, name = context.session.qualify(statement.name)
    try:
        context.services.catalog.drop_function(database, name)
    except NoSuchFunctionError:
        if not statement.if_exists:
            raise
    return Result()
