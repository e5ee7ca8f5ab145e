"""The constraints of a table: compared with its columns when it gets them, and kept when its columns change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.job.conversions import stored_column
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.constraints import Constraints, KeyKind, with_constraints
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.parser.grammar.constraints import constant_of, expression_columns


def with_checked_constraints(table: Table, constraints: Constraints) -> Table:
    """Return a table with constraints, after a comparison with its columns.

    Raises:
        NoSuchColumnError: a constraint names a column that the table does not have.
        InvalidObjectError: others write the rows of the table.
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
    """Return a table with more constraints than those that it keeps, after a comparison with its columns.

    Raises:
        InvalidObjectError: one has the name of another, or is a second primary key; or as below.
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
    """Refuse a constant that is not a value of its column. Spark computes other expressions with each INSERT."""
    literal = constant_of(text)
    if literal is None or literal.value is None:
        return
    stored = stored_column([literal], column, table.full_name)
    declared = column.parsed_type
    is_whole = isinstance(declared, Primitive) and declared.family is Family.WHOLE
    if stored is None and is_whole:
        reason = f"DEFAULT {text} is not a valid value of column {column.name}, which has type {column.type}"
        raise InvalidObjectError("table", table.full_name, reason)


def with_renamed_column(table: Table, column: str, name: str) -> Table:
    """Return a table whose constraints call a column by its new name.

    Raises:
        InvalidOperationError: a CHECK names the column.
    """
    constraints = Constraints.of(table.parameters)
    if column == name or not constraints:
        return table
    _refuse_checked(table, constraints, {column}, "renamed")
    return replace(table, parameters=with_constraints(table.parameters, constraints.renamed(column, name)))


def without_constraints_of(table: Table, columns: Collection[str]) -> Table:
    """Return a table without the constraints of columns that are dropped.

    Raises:
        InvalidOperationError: a CHECK names one of them.
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
