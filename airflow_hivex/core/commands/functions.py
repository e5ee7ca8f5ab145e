"""SHOW, DESCRIBE, CREATE and DROP of functions: Spark's functions, temporary functions and permanent functions."""

from __future__ import annotations

from dataclasses import replace

from airflow_hivex.core.catalog.database_rows import matching
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    InvalidObjectError,
    NoSuchFunctionError,
    NoSuchTemporaryFunctionError,
    StatementSyntaxError,
)
from airflow_hivex.core.execution.called_functions import declare, declare_called, with_full_names
from airflow_hivex.core.execution.closed_names import find_function
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.planning import plan_job
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction
from airflow_hivex.core.model.permanent_functions import PermanentFunction, sql_function
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.lexer.markers import Markers
from airflow_hivex.core.parser.lexer.tokens import Cursor, tokenize
from airflow_hivex.core.parser.lexer.types import read_type
from airflow_hivex.core.parser.queries.function_calls import SPARK_FUNCTIONS
from airflow_hivex.core.parser.statements import (
    CreateFunction,
    CreateTemporaryFunction,
    DescribeFunction,
    DropFunction,
    DropTemporaryFunction,
    Select,
    ShowFunctions,
)


def show_functions(context: StatementContext, statement: ShowFunctions) -> Result:
    """Run SHOW FUNCTIONS: return one name per row. Operators and temporary functions are included.

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
    """Run DESCRIBE FUNCTION: return lines of text, from Spark or, for a permanent function, from its stored definition.

    Raises:
        NoSuchFunctionError: the database does not have the function.
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
    """Return the definition of a permanent function as lines of text."""
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
    """Run a command in Spark and return its rows. The cluster is the one for queries without tables."""

    def work(running: Running) -> Result:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        plan = replace(plan_job(context, running, cluster, ()), command=command)
        declare_called(context, running.functions, [command])
        prelude = (*running.functions.values(), *context.session.objects.prelude([command]))
        found = context.run(cluster, replace(plan, prelude=prelude))
        commit_own(context, running)
        return Result(rows=list(found.rows), cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


_RETURNS = "Returns:"
"""The text that precedes the type in Spark's description of a function."""


def create_function(context: StatementContext, statement: CreateFunction) -> Result:
    """Run CREATE FUNCTION: store a permanent function.

    An SQL function is first created once in Spark, to find errors. The class of a Java function is not loaded.

    Raises:
        NoSuchDatabaseError: the function's database does not exist.
        AlreadyExistsError: the database has a function of that name.
        AnalysisError: Spark refuses the function's body or types.
        InvalidObjectError: the return type cannot be stored.
        InvalidOperationError: the function's body calls a function that runs code, and this is not allowed.
        ForeignNameError: a function of a closed namespace calls a function of another namespace.
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
    function = _function_of(context, statement, database, name)
    function.check()
    result = Result()
    if statement.sql is not None:
        result, returns = _analysed(context, statement, function)
        function = _function_of(
            context, replace(statement, sql=replace(statement.sql, returns=returns)), database, name
        )
    if stored is None:
        catalog.create_function(function)
    else:
        catalog.alter_function(database, name, replace(function, owner=stored.owner, owner_type=stored.owner_type))
    return result


def _function_of(context: StatementContext, statement: CreateFunction, database: str, name: str) -> PermanentFunction:
    owner = context.session.user
    if statement.sql is None:
        return PermanentFunction(database, name, statement.class_name or "", statement.resources, owner)
    definition = replace(statement.sql, database=context.session.database)
    return definition.as_function(database, name, owner, context.services.clock())


def _analysed(context: StatementContext, statement: CreateFunction, function: PermanentFunction) -> tuple[Result, str]:
    """Create an SQL function once in Spark. Return the result of this job, and the return type that Spark has found."""
    assert statement.query is not None
    assert statement.sql is not None
    query, given = statement.query, statement.sql.returns

    def work(running: Running) -> tuple[Result, str]:
        routed = route(context, Select(query), running)
        cluster = chosen_cluster(context, routed)
        # The route has declared the functions that it calls, perhaps including the function that it replaces.
        running.functions.clear()
        declare(context, running.functions, function)
        plan = replace(plan_job(context, running, cluster, (), sql="SELECT 1"), max_rows=0)
        if not given:
            described = f"DESCRIBE FUNCTION EXTENDED {quoted(function.full_name)}"
            plan = replace(plan_job(context, running, cluster, ()), command=described)
        rows = context.run(cluster, plan).rows
        commit_own(context, running)
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
    """Return whether a return type from Spark's description can be stored and read again by later statements.

    Spark also has types that no column can have, such as the type of NULL.
    """
    try:
        read_type(Cursor(text, tokenize(text), Markers({})))
    except StatementSyntaxError:
        return False
    return True


def drop_function(context: StatementContext, statement: DropFunction) -> Result:
    """Run DROP FUNCTION: remove a permanent function. The files of its class stay.

    Raises:
        NoSuchFunctionError: the function does not exist.
    """
    database, name = context.session.qualify(statement.name)
    try:
        context.services.catalog.drop_function(database, name)
    except NoSuchFunctionError:
        if not statement.if_exists:
            raise
    return Result()


def create_temporary_function(context: StatementContext, statement: CreateTemporaryFunction) -> Result:
    """Run CREATE TEMPORARY FUNCTION: store a function in the session.

    Spark first creates the function once, to find errors.

    Raises:
        AlreadyExistsError: the session, or Spark itself, has a function of that name.
        InvalidOperationError: the function's body calls a permanent function that runs code, and this is not allowed.
        AnalysisError: Spark refuses the function's body or types.
    """
    functions, name = context.session.objects.functions, statement.name
    if name in functions and not statement.or_replace:
        if statement.if_not_exists:
            return Result()
        raise AlreadyExistsError("temporary function", name, "use OR REPLACE to replace it")

    def work(running: Running) -> Result:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        # Routing has found whether the body calls any. ``edits`` turn Hive's SQL into Spark's.
        is_edited = running.functions or statement.query.qualifiers
        text, permanent = with_full_names(context, statement.text) if is_edited else (statement.text, ())
        declare_called(context, running.functions, [text])
        plan = plan_job(context, running, cluster, ())
        if context.run(cluster, replace(plan, command=f"SHOW SYSTEM FUNCTIONS LIKE '{name}'")).rows:
            raise AlreadyExistsError("function", name, "it is one of Spark's; choose another name")
        # The functions and variables that its body names come first.
        others = (*running.functions.values(), *context.session.objects.prelude([text]))
        made = f"CREATE OR REPLACE TEMPORARY FUNCTION `{name.replace('`', '``')}` {text}"
        context.run(cluster, replace(plan, sql="SELECT 1", prelude=(*others, made), max_rows=0))
        commit_own(context, running)
        functions.pop(name, None)
        functions[name] = text
        context.session.objects.permanent[name] = permanent
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


def drop_temporary_function(context: StatementContext, statement: DropTemporaryFunction) -> Result:
    """Run DROP TEMPORARY FUNCTION: remove a function from the session.

    Raises:
        NoSuchTemporaryFunctionError: the session has no temporary function of that name.
    """
    functions = context.session.objects.functions
    if statement.name not in functions and not statement.if_exists:
        raise NoSuchTemporaryFunctionError(statement.name)
    functions.pop(statement.name, None)
    context.session.objects.permanent.pop(statement.name, None)
    return Result()
