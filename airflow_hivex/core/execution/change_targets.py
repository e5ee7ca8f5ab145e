"""The target of an UPDATE, DELETE or MERGE, compared with the table."""

from __future__ import annotations

from airflow_hivex.core.errors import ColumnCountMismatchError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.model.locks import DataOperation
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.parser.statements import ChangeAction, ChangeClause, ChangeRows

_OPERATIONS = {
    ChangeAction.UPDATE: DataOperation.UPDATE,
    ChangeAction.DELETE: DataOperation.DELETE,
    ChangeAction.INSERT: DataOperation.INSERT,
}


def change_operations(context: StatementContext, statement: ChangeRows) -> frozenset[DataOperation]:
    """Return the operations of the statement's clauses on the target's rows.

    With ``hive.txn.xlock.mergeinsert`` the INSERT of a MERGE counts as an update, too: two of them cannot insert the
    same key.
    """
    found = frozenset(_OPERATIONS[clause.action] for clause in statement.clauses)
    if DataOperation.INSERT in found and context.services.settings["hive.txn.xlock.mergeinsert"]:
        return found | {DataOperation.UPDATE}
    return found


def check_change(statement: ChangeRows, target: Table) -> None:
    """Compare the statement's clauses with the table, which has the columns that the statement adds.

    Raises:
        InvalidOperationError: the table's rows cannot be changed, or a column that decides where a row
            is stored is assigned.
        NoSuchColumnError: a column is assigned that the table does not have.
        ColumnCountMismatchError: an INSERT gives more or fewer values than the table has columns.
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
        InvalidOperationError: it is one.
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
