"""CREATE, DROP, RENAME and COMMENT of tables, their properties, and the files of dropped tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.database_rows import finding
from airflow_hivex.core.catalog.directories import forget_tables
from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.table_rows import read_dropped
from airflow_hivex.core.commands.conversions import convert_table, is_conversion, is_upgrade, upgrade_table
from airflow_hivex.core.commands.following_folders import following_folder, rename_with_folder, without_note
from airflow_hivex.core.commands.links import refuse_link
from airflow_hivex.core.commands.table_definitions import check_properties, check_text, definition_like, describe_table
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    LinkedTableError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchTableError,
)
from airflow_hivex.core.execution.context import Result, Services, StatementContext
from airflow_hivex.core.execution.locking import acquire, commit_at_once
from airflow_hivex.core.execution.metadata_changes import change_metadata, forget_dropped
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.model.compaction import check_spark_options
from airflow_hivex.core.model.file_properties import check_file_options
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.table_properties import check_spelling, normalised
from airflow_hivex.core.parser.statements import (
    CommentOn,
    CreateTable,
    CreateTableLike,
    DropTable,
    RenameTable,
    SetTableProperties,
)

log = logging.getLogger(__name__)

_COMMENT = "comment"
"""The property with the comment of a table, as in Hive and Spark."""
_MOST_AT_ONCE = 100
_KEPT_MS = 10 * 86_400_000
"""The time in milliseconds for which a dropped table's row stays, while the process of the DROP deletes the files."""


def create_table(context: StatementContext, statement: CreateTable) -> Result:
    """Run CREATE TABLE without a query: store the table, and allocate the first write id of a managed table."""
    try:
        return store_table(context, describe_table(context, statement))
    except AlreadyExistsError:
        if not statement.if_not_exists:
            raise
        return Result()


def create_table_like(context: StatementContext, statement: CreateTableLike) -> Result:
    """Run CREATE TABLE ... LIKE: create an empty table with the definition of another table."""
    like = definition_like(context, statement)
    try:
        return store_table(context, describe_table(context, like.definition, is_external=like.is_external))
    except AlreadyExistsError:
        if not statement.new.if_not_exists:
            raise
        return Result()


def store_table(
    context: StatementContext, table: Table, also: Callable[[Connection, StoredTable], None] | None = None
) -> Result:
    """Store a new table. The commit also allocates the first write id of a managed table.

    ``also`` is called as part of the commit, with the stored table.

    Raises:
        AlreadyExistsError: a table of that name exists.
    """
    services = context.services
    locks = services.statement_locks.create_table(table.database)

    def create(connection: Connection, txn_id: int | None = None, database: Any = None) -> None:
        created = services.catalog.joining(connection).create_table(table, txn_id=txn_id, database=database)
        if also is not None:
            also(connection, created)

    if not table.is_transactional:
        txn_id = commit_at_once(context, locks, create)
        if txn_id is not None:
            return Result(txn_id=txn_id)
    with own_transaction(context) as running:
        answers = acquire(context, running, locks, also=[finding(table.database)])
        # A commit that is repeated reads the database again, which may have been dropped.
        holders = iter(answers[0] if answers else ())
        writer = running.txn_id if table.is_transactional else None
        services.transactions.commit(running.txn_id, lambda connection: create(connection, writer, next(holders, None)))
        return Result(txn_id=running.txn_id)


def drop_table(context: StatementContext, statement: DropTable) -> Result:
    """Run DROP TABLE: remove the table in one commit, then delete the files of a managed table on every cluster."""
    if statement.table.namespace is not None:
        refuse_link(context, "DROP TABLE", statement.table, if_exists=statement.if_exists)
        return Result()
    database, name = context.session.qualify(statement.table)
    dropped: list[StoredTable] = []

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog = context.services.catalog.joining(connection)
        dropped.append(catalog.drop_table(database, name, write_ids, txn_id, cascade=statement.cascade))

    try:
        table = context.services.catalog.get_table(database, name)
        if table.is_view:
            raise InvalidOperationError("DROP TABLE", table.full_name, "it is a view; DROP VIEW drops it")
        found = () if statement.cascade else context.services.links.of_table(table)
        if found:
            # An early check, before the statement waits for locks; the change itself decides.
            raise LinkedTableError("DROP TABLE", table.full_name, [str(link.name) for link in found])
        result = change_metadata(context, table, context.services.statement_locks.drop_table(table), change)
    except (NoSuchTableError, NoSuchDatabaseError):
        if not statement.if_exists:
            raise
        return Result()
    delete_tables(context, dropped[-1:])
    return result


def set_table_properties(context: StatementContext, statement: SetTableProperties) -> Result:
    """Run ALTER TABLE SET and UNSET TBLPROPERTIES: change the properties of a table, or convert the table."""
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    given = normalised(statement.set)
    # As in Hive, a statement may set EXTERNAL to the value that it has already.
    if given.get("EXTERNAL", "").lower() == str(table.is_external).lower() and not is_conversion(table, given):
        given = {key: value for key, value in given.items() if key != "EXTERNAL"}
    comment = given.pop(_COMMENT, None)
    if is_conversion(table, given):
        return convert_table(context, table, given)
    if is_upgrade(table, given):
        return upgrade_table(context, table, given)
    check_spelling("table", table.full_name, statement.unset, table.parameters)
    missing = [key for key in statement.unset if key not in table.parameters and key != _COMMENT]
    if missing and not statement.if_exists:
        raise InvalidObjectError("table", table.full_name, f"it has no property {missing[0]} to unset")

    def changed_from(current: StoredTable) -> Table:
        kept = {key: value for key, value in current.parameters.items() if key not in statement.unset}
        after = {**kept, **given}
        check_properties(current.full_name, current.parameters, after)
        check_spark_options(context.services.settings, current.full_name, statement.set)
        changed = replace(current, parameters=after)
        if comment is not None or _COMMENT in statement.unset:
            changed = replace(changed, comment=comment or None)
        if changed.is_transactional and changed.read_options != current.read_options:
            reason = "its rows are stored by the properties of text files that it has; create it again with others"
            raise InvalidObjectError("table", changed.full_name, reason)
        check_text(changed)
        if changed.is_transactional:
            check_file_options(changed.full_name, changed.storage.format, changed.file_options)
        return changed

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(database, name, changed_from, write_ids, txn_id)

    return change_metadata(context, table, context.services.statement_locks.set_properties(table), change)


def rename_table(context: StatementContext, statement: RenameTable) -> Result:
    """Run ALTER TABLE RENAME TO, also into another database: the folder stays, or is renamed together with the table.

    Raises:
        AlreadyExistsError: another table or view has the new name.
        LinkedTableError: links show the table, and the new name is in another database.
        QuotaExceededError: the other database would have more bytes than its quota.
        ForeignNameError: the object is a view that reads tables of other namespaces, and the other database is closed.
    """
    database, name = context.session.qualify(statement.table)
    catalog = context.services.catalog
    table = catalog.get_table(database, name)
    # Without a database, the new name is in the database of the table.
    new_database, new_name = statement.name.database or database, statement.name.name
    if (new_database, new_name) == (database, name):
        raise AlreadyExistsError("table", f"{database}.{new_name}", "choose another name")
    catalog.get_database(new_database)
    if table.is_view and new_database != database:
        context.services.namespaces.check_view(replace(table, database=new_database, name=new_name))
    locks = context.services.statement_locks
    wanted = locks.alter_table(table)
    if new_database != database:
        # No statement drops the other database meanwhile, and none writes the table.
        wanted = [*locks.create_table(new_database), *locks.convert_table(table)]
    folder = following_folder(context, table, new_database, new_name)
    if folder is not None and new_database == database:
        wanted = locks.convert_table(table)

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(
            database,
            name,
            lambda current: without_note(replace(current, database=new_database, name=new_name)),
            write_ids,
            txn_id,
        )

    return rename_with_folder(context, table, wanted, change, folder)


def delete_tables(context: StatementContext, dropped: Sequence[StoredTable]) -> None:
    """Delete the files of dropped managed tables, and then the rows of the tables whose files are deleted."""
    gone = []
    for table in dropped:
        has_files = not (table.is_external or table.is_view)
        copies = (table.storage.primary, *table.storage.secondaries) if has_files else ()
        try:
            for copy in copies:
                context.services.files_to_change(context.services.clusters.get(copy.cluster)).delete_directory(
                    copy.location
                )
        except HivexError as error:
            log.warning("Files of the dropped table %s are still there: %s", table.full_name, error)
        else:
            gone.append(table)
    if gone:
        forget_dropped(gone[0].full_name, lambda: context.services.catalog.forget_tables(gone))


def comment_on(context: StatementContext, statement: CommentOn) -> Result:
    """Run COMMENT ON: change the comment of a database, table or column. NULL removes the comment.

    Raises:
        NoSuchDatabaseError, NoSuchTableError, NoSuchColumnError: the object does not exist.
    """
    catalog = context.services.catalog
    # As in Hive and Spark, an empty comment removes the comment.
    comment = statement.comment or None
    if statement.table is None:
        assert statement.database is not None
        catalog.change_database(statement.database, lambda database: replace(database, description=comment))
        return Result()
    database, name = context.session.qualify(statement.table)
    table = catalog.get_table(database, name)

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(
            database,
            name,
            lambda current: _commented(current.definition, statement.column, comment),
            write_ids,
            txn_id,
        )

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


def delete_dropped(services: Services) -> int:
    """Delete the folders of dropped tables on their primary clusters; return the number of folders that existed.

    The rows of tables that were dropped long ago are removed, too.
    """
    before_ms = services.clock() - _KEPT_MS
    count = after = 0
    while True:
        with services.store.read() as connection:
            found = read_dropped(connection, after, _MOST_AT_ONCE)
        if not found:
            return count
        old = []
        for table in found:
            try:
                files = services.files_to_change(services.clusters.get(table.cluster))
                count += files.exists(table.location)
                files.delete_directory(table.location)
            except HivexError as error:
                log.warning("Files of the dropped table %s are still there: %s", table.name, error)
            else:
                old += [table.id] if table.dropped_ms < before_ms else []
        if old:
            services.store.write(lambda connection, ids=old: forget_tables(connection, ids))  # type: ignore[misc]
        after = found[-1].id
