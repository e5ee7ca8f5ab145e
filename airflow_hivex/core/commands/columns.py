"""ALTER TABLE for columns: only the definition changes, and existing files stay as they are.

Files keep the column names that were current when they were written. So a renamed column keeps its name in files. A new
column never gets the name in files of a dropped column, since queries would then return the dropped values. In an
external table, whose files other programs write, columns have the names and types of the statement, as in Hive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.commands.constraints import (
    with_added_constraints,
    with_renamed_column,
    without_constraints_of,
)
from airflow_hivex.core.commands.table_definitions import (
    check_columns,
    check_external_format,
    check_text,
)
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.execution.called_functions import check_constraint_functions
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.model.column_types import is_widening, parse_type, with_fields
from airflow_hivex.core.model.constraints import Constraints
from airflow_hivex.core.model.objects import DROPPED_COLUMNS, Column, StoredTable, Table
from airflow_hivex.core.parser.statements import AddColumns, ChangeColumn, DropColumns, ReplaceColumns, TableName

_BY_NAME = ("orc", "parquet")
"""Formats whose files name their columns."""

_NAME_FIELDS = ("orc", "parquet", "json", "avro")
"""Formats whose files name the fields of structs."""

Edit = Callable[[Table], Table]


def add_columns(context: StatementContext, statement: AddColumns) -> Result:
    """Run ALTER TABLE ADD COLUMNS: existing rows have NULL in the new columns."""

    def edit(table: Table) -> Table:
        if statement.places and not table.is_external and table.storage.format not in _BY_NAME:
            reason = f"files of format {table.storage.format} do not name their columns, and new ones stand behind them"
            raise InvalidOperationError("ALTER TABLE ADD COLUMNS", table.full_name, reason)
        columns = list(table.columns)
        for column in _new(table, statement.columns):
            place = statement.places.get(column.name)
            if place is None:
                columns.append(column)
                continue
            behind = _find(_with_columns(table, columns), place) if place else None
            columns.insert(0 if behind is None else columns.index(behind) + 1, column)
        return _with_columns(table, columns)

    return _alter(context, statement.table, "ADD COLUMNS", edit)


def replace_columns(context: StatementContext, statement: ReplaceColumns) -> Result:
    """Run ALTER TABLE REPLACE COLUMNS: a column that the table already has keeps its values."""

    def edit(table: Table) -> Table:
        if table.is_external:
            return _with_columns(table, [replace(column, name=column.name.lower()) for column in statement.columns])
        there = {column.name.lower(): column for column in table.columns}
        gone = [name for name in there if name not in {column.name.lower() for column in statement.columns}]
        table = _without(table, gone, "REPLACE COLUMNS")
        fresh = iter(_new(table, [column for column in statement.columns if column.name.lower() not in there]))
        columns = [
            _retyped(table, there[column.name.lower()], column.type, column.comment)
            if column.name.lower() in there
            else next(fresh)
            for column in statement.columns
        ]
        return _with_columns(table, columns)

    return _alter(context, statement.table, "REPLACE COLUMNS", edit)


def drop_columns(context: StatementContext, statement: DropColumns) -> Result:
    """Run ALTER TABLE DROP COLUMNS: the values stay in the files, and no query reads them any more."""

    def edit(table: Table) -> Table:
        names = [
            _find(table, name).name.lower()
            for name in statement.columns
            if not statement.if_exists or _has(table, name)
        ]
        if table.is_external and any(column.name.lower() not in names for column in table.columns):
            return _with_columns(table, [column for column in table.columns if column.name.lower() not in names])
        return _without(table, names, "DROP COLUMNS")

    return _alter(context, statement.table, "DROP COLUMNS", edit)


def change_column(context: StatementContext, statement: ChangeColumn) -> Result:
    """Run ALTER TABLE CHANGE, ALTER and RENAME COLUMN: change the column's name, type, comment or place."""

    def edit(table: Table) -> Table:
        if _is_comment_of_key(table, statement):
            keys = (
                replace(key, comment=statement.comment) if key.name.lower() == statement.column.lower() else key
                for key in table.partition_keys
            )
            return replace(table, partition_keys=tuple(keys))
        column = _find(table, statement.column)
        name = (statement.name or column.name).lower()
        changed = replace(
            _retyped(table, column, statement.type or column.type, statement.comment),
            name=name,
            stored_name=None if column.in_files == name or table.is_external else column.in_files,
        )
        columns = [changed if each is column else each for each in table.columns]
        if statement.after is not None:
            before = _find(table, statement.after) if statement.after else None
            columns.remove(changed)
            columns.insert(0 if before is None else columns.index(before) + 1, changed)
        renamed = with_renamed_column(_with_buckets_by(table, column.name, name), column.name.lower(), name)
        changed_table = _with_columns(renamed, columns)
        if not added:
            return changed_table
        return with_added_constraints(changed_table, Constraints.of(changed_table.parameters), added)

    added = statement.added.with_parents_in(context.session.database)
    check_constraint_functions(context, str(statement.table), added)
    return _alter(context, statement.table, "CHANGE COLUMN", edit)


def with_merged_columns(table: Table, given: Sequence[Column]) -> Table:
    """Return the table with the columns and struct fields of ``given`` that it lacks, each added at the end.

    Raises:
        InvalidObjectError: the table cannot have such columns, or its files do not name fields of structs.
    """
    by_name = {column.name.lower(): column for column in given}
    columns = []
    for column in table.columns:
        other = by_name.get(column.name.lower())
        before = column.parsed_type
        after = before if other is None else with_fields(before, other.parsed_type)
        if after != before and table.storage.format not in _NAME_FIELDS:
            reason = f"column {column.name} gets no new fields: files of format {table.storage.format} do not name them"
            raise InvalidObjectError("table", table.full_name, reason)
        columns.append(column if after == before else replace(column, type=str(after)))
    known = {column.name.lower() for column in (*table.columns, *table.partition_keys)}
    new = [replace(column, name=column.name.lower()) for column in given if column.name.lower() not in known]
    changed = _with_columns(table, (*columns, *_new(table, new)))
    if changed.is_external:
        check_external_format(changed)
    check_text(changed)
    return changed


def _alter(context: StatementContext, table_name: TableName, operation: str, edit: Edit) -> Result:
    database, name = context.session.qualify(table_name)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    if table.is_view:
        raise InvalidOperationError(f"ALTER TABLE {operation}", table.full_name, "it is a view; use ALTER VIEW ... AS")
    if table.not_read:
        raise InvalidOperationError(f"ALTER TABLE {operation}", table.full_name, table.not_read)
    if table.is_insert_only and table.storage.format not in _BY_NAME and operation != "ADD COLUMNS":
        reason = f"files of format {table.storage.format} do not name their columns; use CREATE TABLE AS"
        raise InvalidOperationError(f"ALTER TABLE {operation}", table.full_name, reason)

    def checked(current: StoredTable) -> Table:
        changed = edit(current)
        if changed.is_external:
            check_external_format(changed)
            check_text(changed)
        return changed

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(database, name, checked, write_ids, txn_id)

    locks = context.services.statement_locks
    # A statement that writes an external table relies on its columns.
    wanted = locks.convert_table(table) if table.is_external else locks.alter_table(table)
    return change_metadata(context, table, wanted, change)


def _is_comment_of_key(table: Table, statement: ChangeColumn) -> bool:
    """Return whether a statement changes nothing except the comment of a partition key."""
    key = next((key for key in table.partition_keys if key.name.lower() == statement.column.lower()), None)
    if key is None or statement.comment is None or statement.after is not None:
        return False
    same_type = statement.type is None or parse_type(statement.type) == key.parsed_type
    return same_type and (statement.name or key.name).lower() == key.name.lower()


def _with_columns(table: Table, columns: Sequence[Column]) -> Table:
    check_columns(table.full_name, (*columns, *table.partition_keys))
    return replace(table, storage=replace(table.storage, columns=tuple(columns)))


def _with_buckets_by(table: Table, old: str, new: str) -> Table:
    """Return the table with the new name of a renamed column in its lists of bucket, sort and skewed columns."""
    storage = table.storage
    buckets = tuple(new if each.lower() == old.lower() else each for each in storage.bucket_columns)
    order = tuple(
        replace(each, name=new) if each.name.lower() == old.lower() else each for each in storage.sort_columns
    )
    skew = storage.skew
    if skew is not None:
        skew = replace(skew, columns=tuple(new if each.lower() == old.lower() else each for each in skew.columns))
    return replace(table, storage=replace(storage, bucket_columns=buckets, sort_columns=order, skew=skew))


def _new(table: Table, columns: Sequence[Column]) -> list[Column]:
    """Return new columns with names in files that no present or former column of the table has."""
    taken = {column.in_files.lower() for column in table.columns} | set(_dropped(table))
    found = []
    for column in columns:
        stored, number = column.name.lower(), 1
        while stored in taken:
            number += 1
            stored = f"{column.name.lower()}_{number}"
        taken.add(stored)
        found.append(replace(column, stored_name=None if stored == column.name.lower() else stored))
    return found


def _without(table: Table, names: Sequence[str], operation: str) -> Table:
    """Return the table without the named columns. Their names in files are recorded, so that no new column gets them.

    Raises:
        InvalidOperationError: rows are bucketed, sorted or skewed by a named column, a CHECK names such a column, or
            the table would have no column left.
    """
    storage = table.storage
    for name in names:
        fixed = [*storage.bucket_columns, *(column.name for column in storage.sort_columns)]
        fixed += storage.skew.columns if storage.skew is not None else ()
        if name in [each.lower() for each in fixed]:
            raise InvalidOperationError(
                f"ALTER TABLE {operation}", table.full_name, f"its rows are bucketed, sorted or skewed by column {name}"
            )
    table = without_constraints_of(table, names)
    kept = tuple(column for column in table.columns if column.name.lower() not in names)
    gone = [column.in_files.lower() for column in table.columns if column.name.lower() in names]
    if not kept and operation == "DROP COLUMNS":
        raise InvalidOperationError(f"ALTER TABLE {operation}", table.full_name, "it would have no column left")
    parameters = dict(table.parameters)
    if gone:
        parameters[DROPPED_COLUMNS] = ",".join(sorted({*_dropped(table), *gone}))
    return replace(table, parameters=parameters, storage=replace(storage, columns=kept))


def _dropped(table: Table) -> list[str]:
    return [name for name in table.parameters.get(DROPPED_COLUMNS, "").split(",") if name]


def _retyped(table: Table, column: Column, type: str, comment: str | None) -> Column:
    before, after = column.parsed_type, parse_type(type)
    is_wider = table.storage.format == "orc" and is_widening(before, after)
    has_more_fields = table.storage.format in _NAME_FIELDS and with_fields(before, after) == after
    if after != before and not (table.is_external or is_wider or has_more_fields):
        reason = (
            f"column {column.name} cannot change from {column.type} to {type}: its files could not be read as that; "
            "CREATE OR REPLACE TABLE ... AS SELECT with a CAST writes them again"
        )
        raise InvalidObjectError("table", table.full_name, reason)
    return replace(column, type=type, comment=column.comment if comment is None else comment)


def _has(table: Table, name: str) -> bool:
    return any(column.name.lower() == name.lower() for column in table.columns)


def _find(table: Table, name: str) -> Column:
    for column in table.columns:
        if column.name.lower() == name.lower():
            return column
    if name.lower() in [key.name.lower() for key in table.partition_keys]:
        raise InvalidOperationError("ALTER TABLE", table.full_name, f"{name} is a partition key, and those stay")
    raise NoSuchColumnError(table.full_name, name, [column.name for column in table.columns])
