"""CREATE OR REPLACE TABLE and REPLACE TABLE: a new table takes the place of another one in one commit.

Readers see the earlier table or the new one. The new one has an id, a folder and write ids of its own.
"""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from airflow_hivex.core.commands.definitions import delete_tables, store_table
from airflow_hivex.core.commands.table_definitions import describe_table
from airflow_hivex.core.errors import AlreadyExistsError, InvalidOperationError, NoSuchTableError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.parser.statements import CreateTable

log = logging.getLogger(__name__)

_MOST_TRIES = 20


def replaced_table(context: StatementContext, statement: CreateTable) -> StoredTable | None:
    """Return the table in whose place a new one comes, or None if no table has its name.

    Raises:
        NoSuchTableError: REPLACE TABLE names a table that does not exist.
        InvalidOperationError: the name is that of a view, or links show the table.
    """
    database, name = context.session.qualify(statement.table)
    try:
        table = context.services.catalog.get_table(database, name)
    except NoSuchTableError:
        if statement.must_exist:
            raise
        return None
    if table.is_view:
        raise InvalidOperationError(statement.kind, table.full_name, "it is a view; CREATE OR REPLACE VIEW replaces it")
    links = context.services.links.of_table(database, name)
    if links:
        reason = f"links show it, such as {links[0].name}; drop them first"
        raise InvalidOperationError(statement.kind, table.full_name, reason)
    return table


def run_replace(context: StatementContext, statement: CreateTable) -> Result:
    """Make an empty table of the definition, which replaces the table of its name if there is one.

    If other sessions have replaced, dropped or created that table meanwhile, the new table replaces theirs.
    """
    for attempt in range(1, _MOST_TRIES + 1):
        earlier = replaced_table(context, statement)
        try:
            if earlier is None:
                return store_table(context, describe_table(context, statement))
            return _replace(context, statement, earlier)
        except (AlreadyExistsError, NoSuchTableError) as error:
            if attempt == _MOST_TRIES:
                raise
            log.info("%s is retried: %s", statement.kind, error)
    raise AssertionError("the loop returns or raises")


def _replace(context: StatementContext, statement: CreateTable, earlier: StoredTable) -> Result:
    table = describe_table(context, statement, earlier.storage.primary.cluster)
    dropped: list[StoredTable] = []

    def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
        catalog = context.services.catalog.joining(connection)
        dropped.append(catalog.drop_table(earlier.database, earlier.name, write_ids, txn_id))
        catalog.create_table(table, txn_id=txn_id if table.is_transactional else None)

    result = change_metadata(context, earlier, context.services.statement_locks.replace_table(earlier), change)
    delete_tables(context, dropped[-1:])
    return result
