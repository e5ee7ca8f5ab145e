"""INSERT OVERWRITE DIRECTORY: the rows of a query as files of a folder that belongs to no table.

The files are written into a hidden folder first. Then the earlier files are hidden and the new files renamed, one after
the other. The earlier files are deleted once the transaction has committed; after an error before that they are visible
again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace

from airflow_hivex.core.catalog import databases, tables
from airflow_hivex.core.commands.table_definitions import check_columns, describe_table
from airflow_hivex.core.errors import HivexError, InvalidObjectError, InvalidOperationError
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.linked_names import places_of, real_path
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.queries import plan_query
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import own_transaction
from airflow_hivex.core.files import external_files
from airflow_hivex.core.files.external_files import NewFiles
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.file_properties import TEXTFILE
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.statements import CreateTable, InsertDirectory, TableName

log = logging.getLogger(__name__)

_SCHEME = "file"


def run_insert_directory(context: StatementContext, statement: InsertDirectory) -> Result:
    """Write the rows of a query into a folder of the cluster that runs it; return their number.

    Raises:
        InvalidOperationError: the folder cannot be written, or overlaps the folder of a table or database.
        InvalidObjectError: the query has two columns of one name.
        LocationOutsideClusterError: the folder is outside of the cluster's root.
    """
    with own_transaction(context) as running:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        _check_local(statement, cluster)
        plan = plan_query(context, running, routed.statement.query, routed, cluster)
        given = context.run(cluster, replace(plan, max_rows=0)).columns
        if statement.format == TEXTFILE:
            # The files have no names of columns.
            given = tuple(replace(column, name=f"_c{number}") for number, column in enumerate(given))
        folder = _described(context, statement, given, cluster)
        location = folder.storage.primary.location
        # Statements write one after the other: else the files of two statements would be mixed.
        locks = context.services.statement_locks
        acquire(context, running, locks.create_table_as_select(DEFAULT_DATABASE, folder.name))
        files = context.services.files_to_change(cluster)
        _check_owner(context, statement, files, cluster, location)
        token = f"{running.tag.removeprefix('hivex_')}_0"
        facts = TableWrite(running.txn_id, 1, cluster.name, overwrite=True, statement=context.kind, token=token)
        staging = f"{location}/{facts.staging_name}"
        _undo_later(running, files, location, staging, token)
        write = planning.write(folder, cluster, facts, input_columns=[column.name for column in given])
        written = context.run(cluster, replace(plan, write=replace(write, table=statement.path)))
        staged = next((f"{staging}/{each.name}" for each in written.directories), None)
        new = NewFiles(location, staged, overwrite=True)
        external_files.publish(files, [new], token, folder.storage.format, running.check_not_cancelled)
        context.services.transactions.commit(running.txn_id)
    try:
        external_files.settle(files, [location], token)
        files.delete_directory(staging)
    except HivexError as error:
        log.warning("Files that transaction %s has replaced are left in %s: %s", running.txn_id, location, error)
    return Result(cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route)


def _described(
    context: StatementContext, statement: InsertDirectory, given: Sequence[Column], cluster: Cluster
) -> Table:
    """Return an external table that describes the folder; it is never stored.

    Raises:
        InvalidOperationError: the path is not a valid folder, links lead out of the root, or the format cannot be
            written.
        InvalidObjectError: the query has two columns of one name.
        LocationOutsideClusterError: the folder is outside of the cluster's root.
    """
    check_columns("the rows of the query", given)
    definition = CreateTable(
        TableName(_lock_name(cluster.uri(cluster.relative(statement.path)))),
        tuple(replace(column, type=str(column.parsed_type)) for column in given),
        external=True,
        format=statement.format,
        options=statement.options,
        location=statement.path,
        serde_library=statement.serde_library,
    )
    try:
        folder = describe_table(context, definition, cluster.name)
    except InvalidObjectError as error:
        raise InvalidOperationError(statement.kind, statement.path, error.reason) from error
    if folder.not_inserted:
        raise InvalidOperationError(statement.kind, statement.path, folder.not_inserted)
    return folder


def _lock_name(uri: str) -> str:
    """Return a name for the lock of a folder, the same for all sessions."""
    return f"directory_{hashlib.sha256(uri.encode()).hexdigest()[:24]}"


def _check_local(statement: InsertDirectory, cluster: Cluster) -> None:
    if statement.is_local and cluster.root.scheme != _SCHEME:
        reason = f"cluster {cluster.name} has no files of this machine; leave LOCAL out, and copy the files"
        raise InvalidOperationError(statement.kind, statement.path, reason)


def _check_owner(
    context: StatementContext, statement: InsertDirectory, files: ClusterFiles, cluster: Cluster, location: str
) -> None:
    """Refuse a folder that overlaps the folder of a table or database, by itself or through symbolic links."""
    services = context.services
    real = real_path(files, location)
    with services.store.read() as connection:
        for name, place in dict.fromkeys(places_of(services, cluster.uri(location), real)):
            owner = tables.owner_at(connection, name, place)
            database = databases.database_at(connection, place)
            if owner is None and database is not None:
                owner = f"database {database}"
            if owner is not None:
                reason = f"it is not apart from the folder of {owner}; name another one, or INSERT into a table"
                raise InvalidOperationError(statement.kind, statement.path, reason)


def _undo_later(running: Running, files: ClusterFiles, location: str, staging: str, token: str) -> None:
    depth = 0 if files.exists(location) else 1

    def undo() -> None:
        try:
            external_files.take_back(files, [location], token, 0)
            files.delete_directory(staging)
            files.delete_empty_directories(location, depth)
        except HivexError as error:
            log.warning("Files of transaction %s are left in %s: %s", running.txn_id, location, error)

    running.undo.append(undo)
