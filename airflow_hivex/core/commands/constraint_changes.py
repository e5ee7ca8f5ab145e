"""ALTER TABLE for constraints: new ones are compared with the rows that are there."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.commands.constraints import with_added_constraints
from airflow_hivex.core.errors import (
    ConstraintViolationError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
)
from airflow_hivex.core.execution.called_functions import check_constraint_functions
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.parser.grammar.constraints import expression_columns
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeConstraints, Select


def change_constraints(context: StatementContext, statement: ChangeConstraints) -> Result:
    """Return ALTER TABLE for constraints. The rows of the table are compared with new ones under an exclusive lock.

    Raises:
        ConstraintViolationError: a row violates the new constraint.
        InvalidObjectError, NoSuchColumnError: the constraint is not one of the table.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    if table.is_view:
        raise InvalidOperationError(statement.kind, table.full_name, "it is a view; alter the tables that it reads")
    statement = replace(statement, added=statement.added.with_parents_in(context.session.database))
    check_constraint_functions(context, table.full_name, statement.added)
    _changed(table, statement)

    def before(running: Running) -> None:
        _check_rows(context, running, table, statement)

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        current = catalog.joining(connection).get_table(database, name)
        catalog.joining(connection).alter_table(database, name, _changed(current, statement), write_ids, txn_id)

    return change_metadata(context, table, context.services.statement_locks.alter_table(table), change, before)


def _changed(table: Table, statement: ChangeConstraints) -> Table:
    now = Constraints.of(table.parameters)
    name = statement.dropped_name
    if name is not None and name not in now.names and not statement.if_exists:
        known = f"its constraints are {', '.join(now.names)}" if now.names else "it has no constraints"
        raise InvalidObjectError("constraint", name, f"{table.full_name} does not have it; {known}")
    columns = [column.name.lower() for column in (*table.columns, *table.partition_keys)]
    for column in (statement.dropped_default, statement.dropped_not_null):
        if column is not None and column not in columns:
            raise NoSuchColumnError(table.full_name, column, columns)
    kept = Constraints(
        {column: text for column, text in now.defaults.items() if column != statement.dropped_default},
        tuple(column for column in now.not_null if column != statement.dropped_not_null),
        {each: text for each, text in now.checks.items() if each != statement.dropped_name},
        {each: key for each, key in now.keys.items() if each != statement.dropped_name},
    )
    return with_added_constraints(table, kept, statement.added)


def _check_rows(context: StatementContext, running: Running, table: Table, statement: ChangeConstraints) -> None:
    """Compare the rows that are there with new constraints, by one query for each."""
    conditions = {f"CHECK {name} ({text})": text for name, text in statement.added.checks.items()}
    conditions |= {f"NOT NULL of column {name}": f"`{name}` IS NOT NULL" for name in statement.added.not_null}
    for constraint, condition in conditions.items():
        columns = expression_columns(condition)
        names = ", ".join(f"`{column}`" for column in columns)
        source = f"`{table.database}`.`{table.name}`"
        query = read(f"SELECT {names} FROM {source} WHERE NOT coalesce(({condition}\n), true)")  # noqa: S608 - read here
        assert isinstance(query, Select)
        routed = route(context, query, running)
        cluster = chosen_cluster(context, routed)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        found = context.run(cluster, replace(plan, max_rows=1))
        if found.rows:
            values = zip(columns, found.rows[0], strict=True)
            sample = ", ".join(
                f"{column} = {'NULL' if value is None else str(value)[:100]}" for column, value in values
            )
            raise ConstraintViolationError(table.full_name, constraint, sample)
