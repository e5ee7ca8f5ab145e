"""COMMENT ON: the comment of a database, of a table or view, or of a column."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.errors import NoSuchColumnError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.parser.statements import CommentOn


def comment_on(context: StatementContext, statement: CommentOn) -> Result:
    """COMMENT ON; NULL takes the comment away.

    Raises:
        NoSuchDatabaseError, NoSuchTableError, NoSuchColumnError: it does not exist.
    """
    catalog = context.services.catalog
    # As in Hive and Spark, an empty comment removes the comment.
    comment = statement.comment or None
    if statement.table is None:
        assert statement.database is not None
        database_before = catalog.get_database(statement.database)
        catalog.alter_database(statement.database, replace(database_before, description=comment))
        return Result()
    database, name = context.session.qualify(statement.table)
    table = catalog.get_table(database, name)

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        current = catalog.joining(connection).get_table(database, name)
        changed = _commented(current.definition, statement.column, comment)
        catalog.joining(connection).alter_table(database, name, changed, write_ids, txn_id)

    return change_metadata(context, table, context.services.statement_locks.set_properties(table), change)


def _commented(table: Table, column: str | None, comment: str | None) -> Table:
    if column is None:
        return replace(table, comment=comment)
    found = [each.name for each in (*table.columns, *table.partition_keys)]
    if column not in [each.lower() for each in found]:
        raise NoSuchColumnError(table.full_name, column, found)

    def changed(each: Column) -> Column:
        return replace(each, comment=comment) if each.name.lower() == column else each

    keys = tuple(map(changed, table.partition_keys))
    return replace(
        table, storage=replace(table.storage, columns=tuple(map(changed, table.columns))), partition_keys=keys
    )
