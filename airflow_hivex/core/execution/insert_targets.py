"""Checks of an INSERT, UPDATE, DELETE or MERGE against its target table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_hivex.core.catalog.partition_rows import stored_values
from airflow_hivex.core.catalog.specifications import check_partitioned
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
)
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.locks import DataOperation
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.partitions import (
    DEFAULT_PARTITION,
    check_folder_name,
    check_partition_name,
    partition_name,
)
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.parser.statements import (
    ChangeAction,
    ChangeClause,
    ChangeRows,
    Insert,
    MultiInsert,
    Query,
    RoutedStatement,
    TextEdit,
)


@dataclass(frozen=True, slots=True)
class InsertedRows:
    """The partition for the rows of an INSERT, as the statement names it, and the columns of these rows.

    ``static`` has the values of partition keys as stored, with None for NULL. ``partition`` is the name of the
    partition if each partition key has a value. ``columns`` are the columns that the statement lists. If it lists no
    columns, the rows have all columns in their order or, with ``by_name``, the columns that the query names.
    """

    overwrite: bool = False
    static: Mapping[str, str | None] = field(default_factory=dict)
    partition: str | None = None
    columns: tuple[str, ...] = ()
    by_name: bool = False


AS_GIVEN = InsertedRows()
"""The value for a statement that names neither a partition nor columns for the rows that it adds."""


def inserts_of(statement: RoutedStatement) -> tuple[Insert, ...]:
    """Return the INSERTs of a statement, one for each of its targets."""
    match statement:
        case Insert():
            return (statement,)
        case MultiInsert():
            return statement.inserts
        case _:
            return ()


def check_insert(statement: Insert, target: Table) -> InsertedRows:
    """Return the partition and the columns of the rows of an INSERT, after they were checked against the table.

    A partition key without a static value is dynamic, whether the PARTITION clause names it or not. If a column list
    omits a dynamic key, the value of the key is NULL.
    """
    if target.not_inserted:
        raise InvalidOperationError("INSERT", target.full_name, target.not_inserted)
    keys = {key.name.lower(): key for key in target.partition_keys}
    if statement.partition:
        check_partitioned("INSERT with PARTITION", target)
    for name in statement.partition:
        if name not in keys:
            raise NoSuchColumnError(target.full_name, f"{name} among its partition keys", list(keys))
    static = {name: key for name, key in keys.items() if name in statement.static}
    if statement.if_not_exists and len(static) < len(keys):
        missing = ", ".join(name for name in keys if name not in static)
        reason = f"IF NOT EXISTS asks for one partition, and the PARTITION clause lacks {missing}"
        raise InvalidObjectError("partition", f"of {target.full_name}", reason)
    _check_column_list(statement, target, [name for name in keys if name not in static])
    given = [statement.static[name].value for name in static]
    values = stored_values(target.full_name, list(static.values()), given)  # type: ignore[arg-type]
    name = check_folder_name(partition_name(static, values))
    return InsertedRows(
        statement.overwrite,
        {key: None if value == DEFAULT_PARTITION else value for key, value in zip(static, values, strict=True)},
        check_partition_name(name) if static and len(static) == len(keys) else None,
        tuple(statement.columns or ()),
        statement.by_name,
    )


def _check_column_list(statement: Insert, target: Table, dynamic: list[str]) -> None:
    if statement.columns is None:
        return
    given = [name.lower() for name in statement.columns]
    takes = [column.name.lower() for column in target.columns] + dynamic
    for name in given:
        if name not in takes:
            raise NoSuchColumnError(target.full_name, name, takes)
        if given.count(name) > 1:
            raise ColumnCountMismatchError(target.full_name, len(set(given)), len(given), given)


def with_default_values(statement: Insert, target: Table, rows: InsertedRows) -> Query:
    """Return the query of an INSERT in which each DEFAULT is replaced by the default value of its column.

    Raises:
        ColumnCountMismatchError: a row has more values than the statement has columns.
    """
    query = statement.query
    if not statement.defaults:
        return query
    static = {name.lower() for name in rows.static}
    takes = [each.name for each in (*target.columns, *target.partition_keys) if each.name.lower() not in static]
    names = list(rows.columns or takes)
    defaults = Constraints.of(target.parameters).defaults
    edits = []
    for each in statement.defaults:
        if each.position >= len(names):
            raise ColumnCountMismatchError(target.full_name, len(names), each.position + 1, names)
        text = defaults.get(names[each.position].lower())
        edits.append(TextEdit(each.start, each.end, "NULL" if text is None else f"({text})"))
    values = query.values and query.values.with_expressions({edit.start for edit in edits})
    return replace(query, qualifiers=(*query.qualifiers, *edits), values=values)


_OPERATIONS = {
    ChangeAction.UPDATE: DataOperation.UPDATE,
    ChangeAction.DELETE: DataOperation.DELETE,
    ChangeAction.INSERT: DataOperation.INSERT,
}


def change_operations(context: StatementContext, statement: ChangeRows) -> frozenset[DataOperation]:
    """Return the operations of the statement's clauses: insert, update or delete.

    With ``hive.txn.xlock.mergeinsert`` the INSERT of a MERGE counts as an update, too. So two concurrent MERGEs cannot
    insert the same key.
    """
    found = frozenset(_OPERATIONS[clause.action] for clause in statement.clauses)
    if DataOperation.INSERT in found and context.services.settings["hive.txn.xlock.mergeinsert"]:
        return found | {DataOperation.UPDATE}
    return found


def change_operation(context: StatementContext, statement: ChangeRows) -> Operation:
    """Return update if a clause of the statement updates, else delete if a clause deletes, else insert.

    With ``hive.txn.xlock.mergeinsert`` an INSERT counts as an update, as in :func:`change_operations`.
    """
    found = change_operations(context, statement)
    if DataOperation.UPDATE in found:
        return Operation.UPDATE
    return Operation.DELETE if DataOperation.DELETE in found else Operation.INSERT


def check_change(statement: ChangeRows, target: Table) -> None:
    """Check the statement's clauses against the table, which already has the columns that the statement adds.

    Raises:
        InvalidOperationError: the table's rows cannot be changed, or an assigned column decides the place of a row.
        NoSuchColumnError: the table does not have an assigned column.
        ColumnCountMismatchError: an INSERT has more or fewer values than the table has columns.
    """
    check_changeable(statement, target)
    for clause in statement.clauses:
        if clause.action is ChangeAction.INSERT:
            _check_insert(clause, target)
        elif clause.action is ChangeAction.UPDATE:
            _check_update(statement, clause, target)


def check_changeable(statement: ChangeRows, target: Table) -> None:
    """Refuse a table whose rows cannot be changed.

    Raises:
        InvalidOperationError: the table's rows cannot be changed.
    """
    if target.not_written:
        raise InvalidOperationError(statement.operation, target.full_name, target.not_written)
    if target.is_insert_only:
        reason = (
            "it is insert-only: its rows have no ids, and are added and overwritten as a whole. CREATE OR REPLACE "
            "TABLE ... AS SELECT without a format makes a full ACID table of its rows"
        )
        raise InvalidOperationError(statement.operation, target.full_name, reason)


def _check_update(statement: ChangeRows, clause: ChangeClause, target: Table) -> None:
    names = [column.name for column in target.columns]
    keys = {column.name.lower() for column in target.partition_keys}
    bucketed = {name.lower() for name in target.storage.bucket_columns}
    for name in clause.columns or ():
        if name.lower() in keys:
            raise InvalidOperationError(
                statement.operation,
                target.full_name,
                f"partition column {name} cannot be updated; INSERT the new rows and DELETE them where they were",
            )
        if name.lower() not in {each.lower() for each in names}:
            raise NoSuchColumnError(target.full_name, name, names)
        if name.lower() in bucketed:
            raise InvalidOperationError(
                statement.operation,
                target.full_name,
                f"bucketing column {name} cannot be updated; INSERT the new rows and DELETE them where they were",
            )


def _check_insert(clause: ChangeClause, target: Table) -> None:
    names = [column.name for column in (*target.columns, *target.partition_keys)]
    if clause.columns is None:
        if not clause.by_name and clause.values != len(names):
            raise ColumnCountMismatchError(target.full_name, len(names), clause.values, names)
        return
    for name in clause.columns:
        if name.lower() not in {each.lower() for each in names}:
            raise NoSuchColumnError(target.full_name, name, names)
