"""Files that belong to no table: the results of INSERT OVERWRITE DIRECTORY, and copies of tables for Hive itself."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_hivex.core.catalog import database_rows, table_rows
from airflow_hivex.core.catalog.table_rows import owner_at
from airflow_hivex.core.commands.show import hive_create_statement
from airflow_hivex.core.commands.table_definitions import check_columns, describe_table
from airflow_hivex.core.errors import (
    HivexError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
)
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.folder_owners import places_of, real_path
from airflow_hivex.core.execution.insert_targets import InsertedRows
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import commit_own, in_transaction, own_transaction
from airflow_hivex.core.files import external_files
from airflow_hivex.core.files.external_files import NewFiles
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.column_types import primitives
from airflow_hivex.core.model.file_properties import TEXTFILE
from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
from airflow_hivex.core.model.objects import HIVE_LAYOUT, Column, Table
from airflow_hivex.core.model.partitions import nullable_values, partition_values
from airflow_hivex.core.model.plans import Write, WrittenDirectory
from airflow_hivex.core.model.texts import quoted_text
from airflow_hivex.core.model.writes import TableWrite
from airflow_hivex.core.parser.statements import CreateTable, InsertDirectory, Select, TableName

log = logging.getLogger(__name__)

_WRITE_ID = 1


@dataclass(frozen=True, slots=True)
class Export:
    """The result of an export: the written directories, and a CREATE TABLE statement for Hive.

    All exported rows have the write id ``write_id``. ``valid_write_ids`` is the snapshot that was copied, or None for a
    table without transactions.
    """

    table: str
    cluster: str
    write_id: int
    create_statement: str
    directories: tuple[WrittenDirectory, ...]
    valid_write_ids: str | None

    @property
    def rows(self) -> int:
        """Return the number of copied rows."""
        return sum(directory.rows for directory in self.directories)


def query_of(table: Table, partitions: Sequence[str]) -> str:
    """Return the SQL text of a query of all columns of a table.

    With ``partitions``, the query reads only these partitions.

    Raises:
        InvalidObjectError: a name is not a valid partition name.
        NoSuchColumnError: a partition name contains a column that is not a partition key.
    """
    columns = ", ".join(_name(column.name) for column in (*table.columns, *table.partition_keys))
    text = f"SELECT {columns} FROM {_name(table.database)}.{_name(table.name)}"  # noqa: S608 - quoted as names
    chosen = " OR ".join(f"({_condition(table, name)})" for name in partitions)
    return f"{text} WHERE {chosen}" if chosen else text


def _condition(table: Table, partition: str) -> str:
    names = [part.partition("=")[0] for part in partition.split("/")]
    keys = {key.name: key.type for key in table.partition_keys}
    tests = []
    for name, value in zip(names, nullable_values(partition), strict=True):
        if name.lower() not in keys:
            raise NoSuchColumnError(table.full_name, f"{name} among its partition keys", list(keys))
        tests.append(f"{_name(name.lower())} {'IS NULL' if value is None else f'= {quoted_text(value)}'}")
    return " AND ".join(tests)


def _name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


def _check_owner(context: StatementContext, table: str, target: Path) -> None:
    """Refuse a directory that overlaps the folder of a table.

    Raises:
        InvalidOperationError: the directory overlaps the folder of a table.
    """
    with context.services.store.read() as connection:
        for cluster, place in dict.fromkeys(places_of(context.services, target.as_uri(), target)):
            owner = owner_at(connection, cluster, place)
            if owner is not None:
                reason = f"{target} is not apart from the folder of {owner}; name another directory"
                raise InvalidOperationError("An export for Hive of", table, reason)


def export_for_hive(
    context: StatementContext, statement: Select, table: Table, partitions: Sequence[str], target: Path
) -> Export:
    """Write the rows of a query on all columns of ``table`` into full ACID files below ``target``.

    ``partitions`` are the partitions that the query names.

    Raises:
        NoSuchPartitionError: a partition does not exist.
        InvalidOperationError: the target is not empty or overlaps the folder of a table, or Hive lacks a column type.
    """
    for column in table.columns:
        if not all(each.kind.in_hive for each in primitives(column.parsed_type)):
            reason = f"Hive has no type for column {column.name} {column.type}; CAST it in a CREATE TABLE AS SELECT"
            raise InvalidOperationError("An export for Hive of", table.full_name, reason)
    target = target.resolve()
    _check_owner(context, table.full_name, target)
    _check_empty(table.full_name, target)
    write = Write(
        path=f"file://{target}",
        table=table.full_name,
        # The exported files have the current names of the columns.
        columns=tuple(replace(column, stored_name=None) for column in table.columns),
        partition_columns=table.partition_keys,
        write_id=_WRITE_ID,
        layout=HIVE_LAYOUT,
        options=table.file_options,
        bucket_columns=table.storage.bucket_columns,
        sort_columns=table.storage.sort_columns,
        num_buckets=table.storage.num_buckets,
    )

    def work(running: Running) -> Export:
        routed = route(context, statement, running)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        (bound,) = routed.bound
        _check_found(table, partitions, bound.partition_names)
        written = context.run(
            cluster, replace(plan_query(context, running, statement.query, routed, cluster), write=write)
        )
        commit_own(context, running)
        return Export(
            table.full_name,
            cluster.name,
            _WRITE_ID,
            hive_create_statement(table, f"file://{target}"),
            written.directories,
            None if bound.write_ids is None else str(bound.write_ids),
        )

    return in_transaction(context, work, read_only=True)


def _check_found(table: Table, partitions: Sequence[str], found: Sequence[str]) -> None:
    """Refuse an export if one of the named partitions does not exist.

    Raises:
        NoSuchPartitionError: a named partition does not exist.
    """
    there = [_parts(name) for name in found]
    for name in partitions:
        if not any(_parts(name) <= each for each in there):
            raise NoSuchPartitionError(table.database, table.name, name)


def _parts(partition: str) -> frozenset[tuple[str, str]]:
    keys = (part.partition("=")[0].lower() for part in partition.split("/"))
    return frozenset(zip(keys, partition_values(partition), strict=True))


def _check_empty(table: str, target: Path) -> None:
    """Refuse a target with files that the export could overwrite, or mix with its rows.

    Raises:
        InvalidOperationError: the target is a file, or a directory that is not empty.
    """
    try:
        holds = next(target.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidOperationError("An export for Hive of", table, f"{target} cannot be listed: {error}") from error
    if holds is not None:
        reason = f"{target} is not empty, it holds {holds.name}; name a new directory"
        raise InvalidOperationError("An export for Hive of", table, reason)


_SCHEME = "file"


def run_insert_directory(context: StatementContext, statement: InsertDirectory) -> Result:
    """Write the rows of a query into a folder of the cluster that runs the query; return the number of rows.

    The new files are first written into a hidden folder. Then the earlier files are hidden, and the new files get their
    final names, one after the other. After the commit of the transaction the earlier files are deleted. An error before
    the commit makes the earlier files visible again.

    Raises:
        InvalidOperationError: the folder cannot be written, or overlaps the folder of a table or database.
        InvalidObjectError: the query has two columns of the same name.
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
        _check_apart(context, statement, files, cluster, location)
        token = f"{running.tag.removeprefix('hivex_')}_0"
        facts = TableWrite(running.txn_id, 1, cluster.name, overwrite=True, statement=context.kind, token=token)
        staging = f"{location}/{facts.staging_name}"
        _undo_later(running, files, location, staging, token)
        write = planning.write(folder, cluster, facts, InsertedRows(columns=tuple(column.name for column in given)))
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
    """Return an external table that describes the folder. It is never stored in the metastore.

    Raises:
        InvalidOperationError: the path is not a valid folder, symbolic links lead out of the root, or the format cannot
            be written.
        InvalidObjectError: the query has two columns of the same name.
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
    """Return the name of the lock on a folder. It depends only on the URI, so that all sessions use the same name."""
    return f"directory_{hashlib.sha256(uri.encode()).hexdigest()[:24]}"


def _check_local(statement: InsertDirectory, cluster: Cluster) -> None:
    if statement.is_local and cluster.root.scheme != _SCHEME:
        reason = f"cluster {cluster.name} has no files of this machine; leave LOCAL out, and copy the files"
        raise InvalidOperationError(statement.kind, statement.path, reason)


def _check_apart(
    context: StatementContext, statement: InsertDirectory, files: ClusterFiles, cluster: Cluster, location: str
) -> None:
    """Refuse a folder that overlaps the folder of a table or database, also through symbolic links."""
    services = context.services
    real = real_path(files, location)
    with services.store.read() as connection:
        for name, place in dict.fromkeys(places_of(services, cluster.uri(location), real)):
            owner = table_rows.owner_at(connection, name, place)
            database = database_rows.database_at(connection, place)
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
