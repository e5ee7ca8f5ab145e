"""ALTER TABLE SET LOCATION, SET FILEFORMAT, SET SERDE and SERDEPROPERTIES, for external tables only.

Managed tables are refused, since commits have written their files in one folder and format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.commands.partitions import partition_name_of
from airflow_hivex.core.commands.table_definitions import check_external_format, check_text, spark_format
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, NoSuchPartitionError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.metadata_changes import change_metadata, check_location
from airflow_hivex.core.model.file_properties import LAZY_SIMPLE_SERDE, TEXTFILE
from airflow_hivex.core.model.objects import PATH_OPTIONS, SerDe, StorageDescriptor, StoredTable, Table
from airflow_hivex.core.parser.grammar.serdes import serde_options
from airflow_hivex.core.parser.statements import SetFormat, SetLocation, SetSerdeProperties, Statement, TableName


def set_location(context: StatementContext, statement: SetLocation) -> Result:
    """Run ALTER TABLE SET LOCATION: change the location of a table or partition, without moving files.

    As in Hive, the partitions of the table keep their locations.

    Raises:
        InvalidOperationError: the table is managed.
        InvalidObjectError: the location is not a folder, or overlaps the folder of a managed table.
        LocationOutsideClusterError: the location is outside of the cluster's root.
        NoSuchPartitionError: the table does not have the partition.
    """
    table = _external(context, statement, statement.table, "CREATE TABLE ... LOCATION '...' AS SELECT copies it")
    database, name = table.database, table.name
    cluster = context.services.clusters.get(table.storage.primary.cluster)
    catalog = context.services.catalog
    partition = None
    if statement.partition is not None:
        partition = partition_name_of(statement.kind, table, statement.partition)
        if not catalog.get_partitions_by_names(database, name, [partition]):
            raise NoSuchPartitionError(database, name, partition)
    kind = "table" if partition is None else "partition"
    full_name = table.full_name if partition is None else f"{table.full_name} {partition}"
    check_location(context, kind, full_name, statement.location, database, cluster, is_external=True)
    location = cluster.relative(statement.location)

    def change(connection: Connection, _write_ids: GivenList, _txn_id: int | None) -> None:
        catalog.joining(connection).set_location(database, name, location, partition)

    # A statement that writes the table holds a lock, and would register files in the old place.
    return change_metadata(context, table, context.services.statement_locks.convert_table(table), change)


def set_format(context: StatementContext, statement: SetFormat) -> Result:
    """Run ALTER TABLE SET FILEFORMAT and SET SERDE: read the table's files in another format from now on.

    Raises:
        InvalidOperationError: the table is managed.
        InvalidObjectError: files of the format cannot be read, or have other columns.
    """
    data_source = spark_format(statement.format)

    def changed(storage: StorageDescriptor) -> StorageDescriptor:
        kept = storage.serde_parameters if data_source == storage.format and statement.serde_library else {}
        library = statement.serde_library or (LAZY_SIMPLE_SERDE if data_source == TEXTFILE else None)
        return replace(
            storage,
            format=data_source,
            serde_parameters={**kept, **statement.options},
            serde=SerDe(library=library),
            input_format=statement.input_format,
            output_format=statement.output_format,
        )

    return _change_storage(context, statement, statement.table, changed)


def set_serde_properties(context: StatementContext, statement: SetSerdeProperties) -> Result:
    """Run ALTER TABLE SET and UNSET SERDEPROPERTIES: change the options with which the files of a table are read.

    Raises:
        InvalidOperationError: the table is managed.
        InvalidObjectError: a property is not valid, or UNSET names a property that the table does not have.
    """

    def changed(storage: StorageDescriptor) -> StorageDescriptor:
        unset = serde_options(storage.format, dict.fromkeys(statement.unset, ""))
        missing = next((key for key in unset if key not in storage.serde_parameters), None)
        if missing is not None and not statement.if_exists:
            raise InvalidObjectError("table", str(statement.table), f"it has no property {missing} to unset")
        kept = {key: value for key, value in storage.serde_parameters.items() if key not in unset}
        return replace(storage, serde_parameters={**kept, **serde_options(storage.format, statement.set)})

    return _change_storage(context, statement, statement.table, changed)


def _change_storage(
    context: StatementContext,
    statement: Statement,
    name: TableName,
    changed: Callable[[StorageDescriptor], StorageDescriptor],
) -> Result:
    table = _external(context, statement, name, "CREATE OR REPLACE TABLE ... USING ... AS SELECT rewrites it")
    path = next((key for key in changed(table.storage).serde_parameters if key.lower() in PATH_OPTIONS), None)
    if path is not None and path not in table.storage.serde_parameters:
        reason = f"option {path} names the files of a table; SET LOCATION changes them"
        raise InvalidObjectError("table", table.full_name, reason)
    catalog = context.services.catalog
    _checked(replace(table, storage=changed(table.storage)))

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        catalog.joining(connection).alter_table(
            table.database,
            table.name,
            lambda current: _checked(replace(current, storage=changed(current.storage))),
            write_ids,
            txn_id,
        )

    return change_metadata(context, table, context.services.statement_locks.convert_table(table), change)


def _checked(table: Table) -> Table:
    check_external_format(table)
    check_text(table)
    return table


def _external(context: StatementContext, statement: Statement, name: TableName, instead: str) -> StoredTable:
    """Return the table of a statement, which must be external.

    Raises:
        InvalidOperationError: the object is a view, or a managed table.
    """
    table = context.services.catalog.get_table(*context.session.qualify(name))
    if table.is_view:
        raise InvalidOperationError(statement.kind, table.full_name, "it is a view; it has no files")
    if table.not_read:
        raise InvalidOperationError(statement.kind, table.full_name, table.not_read)
    if not table.is_external:
        reason = f"it is a managed table, whose files are as its commits have written them; {instead}"
        raise InvalidOperationError(statement.kind, table.full_name, reason)
    return table
