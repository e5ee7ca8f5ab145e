"""The constraints of a table: they are checked when they are added, and adapted when columns are renamed or dropped."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.errors import (
    ConstraintViolationError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
)
from airflow_hivex.core.execution.called_functions import check_constraint_functions
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.constraints import Constraints, KeyKind, with_constraints
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.parser.grammar.constraints import constant_of, expression_columns
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeConstraints, Select


def with_checked_constraints(table: Table, constraints: Constraints) -> Table:
    """Return the table with constraints, after a check that they fit its columns.

    Raises:
        NoSuchColumnError: a constraint names a column that the table does not have.
        InvalidObjectError: a constraint of an external table would be enforced, or a default value is not valid.
        TypeMismatchError: a default value does not have the type of its column.
    """
    if not constraints:
        return replace(table, parameters=with_constraints(table.parameters, constraints))
    if table.is_external and constraints.are_enforced:
        raise InvalidObjectError(
            "table", table.full_name, "rows of an external table are not compared with constraints; DISABLE keeps one"
        )
    columns = {column.name.lower(): column for column in (*table.columns, *table.partition_keys)}
    named = [*constraints.defaults, *constraints.not_null]
    for text in constraints.checks.values():
        named += expression_columns(text)
    for key in constraints.keys.values():
        named += key.columns
    for name in named:
        if name not in columns:
            raise NoSuchColumnError(table.full_name, name, list(columns))
    for name, text in constraints.defaults.items():
        _check_default(table, columns[name], text)
    return replace(table, parameters=with_constraints(table.parameters, constraints))


def with_added_constraints(table: Table, kept: Constraints, added: Constraints) -> Table:
    """Return the table with the ``kept`` and ``added`` constraints, after a check that they fit its columns.

    Raises:
        InvalidObjectError: two constraints have the same name, or the table would have two primary keys; or as
            :func:`with_checked_constraints`.
        NoSuchColumnError, TypeMismatchError: as :func:`with_checked_constraints`.
    """
    taken = next((name for name in added.names if name in kept.names), None)
    if taken is not None:
        reason = f"{table.full_name} has a constraint of this name; drop it first"
        raise InvalidObjectError("constraint", taken, reason)
    primary = next((name for name, key in kept.keys.items() if key.kind is KeyKind.PRIMARY_KEY), None)
    if primary is not None and any(key.kind is KeyKind.PRIMARY_KEY for key in added.keys.values()):
        raise InvalidObjectError("constraint", primary, f"it is the primary key of {table.full_name}; drop it first")
    return with_checked_constraints(table, kept.with_others(added))


def _check_default(table: Table, column: Column, text: str) -> None:
    """Refuse a constant default that its column cannot store. Spark computes other defaults at each INSERT."""
    literal = constant_of(text)
    if literal is None or literal.value is None:
        return
    from airflow_hivex.core.job.conversions import stored_column

    stored = stored_column([literal], column, table.full_name)
    declared = column.parsed_type
    is_whole = isinstance(declared, Primitive) and declared.family is Family.WHOLE
    if stored is None and is_whole:
        reason = f"DEFAULT {text} is not a valid value of column {column.name}, which has type {column.type}"
        raise InvalidObjectError("table", table.full_name, reason)


def with_renamed_column(table: Table, column: str, name: str) -> Table:
    """Return the table with the new ``name`` of ``column`` in its constraints.

    Raises:
        InvalidOperationError: a CHECK names the column.
    """
    constraints = Constraints.of(table.parameters)
    if column == name or not constraints:
        return table
    _refuse_checked(table, constraints, {column}, "renamed")
    return replace(table, parameters=with_constraints(table.parameters, constraints.renamed(column, name)))


def without_constraints_of(table: Table, columns: Collection[str]) -> Table:
    """Return the table without the constraints of dropped columns.

    Raises:
        InvalidOperationError: a CHECK names a dropped column.
    """
    constraints = Constraints.of(table.parameters)
    if not columns or not constraints:
        return table
    _refuse_checked(table, constraints, columns, "dropped")
    return replace(table, parameters=with_constraints(table.parameters, constraints.without_columns(columns)))


def _refuse_checked(table: Table, constraints: Constraints, columns: Collection[str], what: str) -> None:
    for name, text in constraints.checks.items():
        found = next((column for column in expression_columns(text) if column in columns), None)
        if found is not None:
            reason = f"column {found} cannot be {what}, as CHECK {name} ({text}) names it; drop that constraint first"
            raise InvalidOperationError("ALTER TABLE", table.full_name, reason)


def change_constraints(context: StatementContext, statement: ChangeConstraints) -> Result:
    """Run ALTER TABLE for constraints. Existing rows are checked against new constraints under an exclusive lock.

    Raises:
        ConstraintViolationError: a row violates the new constraint.
        InvalidObjectError, NoSuchColumnError: the table cannot have the added constraint, or has no such constraint to
            drop.
        InvalidOperationError: the object is a view.
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

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(
            database, name, lambda current: _changed(current, statement), write_ids, txn_id
        )

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
    """Check the existing rows against new constraints, by one query for each constraint."""
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
