"""ALTER TABLE that makes a table of plain files transactional: no file is rewritten or moved.

The existing files become original files, whose rows every snapshot sees until a base hides them. The rules for tables
that can be converted are those of Hive's TransactionalValidationListener.

Source: docs/reference/directories.md, "Original files".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.pruning import FoundPartition
from airflow_hivex.core.catalog.registration import OriginalFile, Registration
from airflow_hivex.core.catalog.snapshot_rows import read_lists
from airflow_hivex.core.catalog.table_rows import check_apart, has_secondaries, hold_for_change
from airflow_hivex.core.commands.table_definitions import check_columns, check_text, managed_properties
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.execution.insert_targets import InsertedRows
from airflow_hivex.core.execution.locking import acquire
from airflow_hivex.core.execution.routing import chosen_cluster, route, writing_cluster
from airflow_hivex.core.execution.select_and_insert import plan_query
from airflow_hivex.core.execution.statement_transactions import own_transaction
from airflow_hivex.core.execution.writing import begin_write, end_writes, with_empty_bases
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.file_properties import check_file_options
from airflow_hivex.core.model.objects import (
    CHOOSING_OPTIONS,
    INSERT_ONLY,
    ORIGINAL_LAYOUT,
    PLAIN_LAYOUT,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert

_FULL_ACID_OPERATION = "A conversion to full ACID of"


def is_upgrade(table: StoredTable, properties: Mapping[str, str]) -> bool:
    """Return whether ALTER TABLE SET with ``properties`` makes an insert-only table full ACID."""
    return table.is_insert_only and properties.get(TRANSACTIONAL_PROPERTIES, "").lower() == "default"


def upgrade_table(context: StatementContext, table: StoredTable, properties: Mapping[str, str]) -> Result:
    """Run ALTER TABLE SET TBLPROPERTIES ('transactional_properties' = 'default', ...) for an insert-only table.

    Under the table's exclusive lock, a job writes all rows of each partition into a new base. Earlier versions stay
    readable.

    Raises:
        InvalidObjectError: the table is not stored as ORC.
        InvalidOperationError: the table was changed while the statement waited for its locks.
    """
    services = context.services
    parameters = managed_properties(table.full_name, table.storage.format, {**table.parameters, **properties})
    insert = _overwrite(table)
    with own_transaction(context) as running:
        routed = route(context, insert, running, locks=services.statement_locks.convert_table(table))
        found = routed.target
        if _described(found) != _described(table):
            raise InvalidOperationError(_FULL_ACID_OPERATION, table.full_name, "it was changed meanwhile; try again")
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        converted = replace(table, parameters=parameters)
        write = begin_write(context, running, converted, cluster, InsertedRows(overwrite=True))
        plan = replace(plan_query(context, running, routed.statement.query, routed, cluster), write=write.write)
        written = context.run(cluster, plan)
        names = services.catalog.list_partition_names(table.database, table.name) if table.is_partitioned else ()
        emptied = with_empty_bases(context, running, write, written, names)

        def change(connection: Connection) -> None:
            _, write_ids = read_lists(connection, table.full_name, table.id, running.txn_id)
            catalog = services.catalog.joining(connection)
            catalog.alter_table(table.database, table.name, converted, write_ids, running.txn_id)

        end_writes(context, running, [(write, emptied.directories)], also=change)
        return Result(
            cluster=cluster.name, txn_id=running.txn_id, rows_written=written.rows_written, route=routed.route
        )


def _described(table: StoredTable) -> tuple[object, ...]:
    """Return the parts of a table that a conversion stores again.

    The conversion compares these parts to notice changes by other statements.
    """
    return table.id, table.storage, table.parameters, table.partition_keys, table.comment, table.owner


def _overwrite(table: StoredTable) -> Insert:
    columns = ", ".join(quoted(column.name) for column in (*table.columns, *table.partition_keys))
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    text = f"INSERT OVERWRITE TABLE {name} SELECT {columns} FROM {name}"  # noqa: S608 - quoted names
    insert = read(text, database=table.database)
    assert isinstance(insert, Insert)
    return insert


log = logging.getLogger(__name__)

_OPERATION = "A conversion to a transactional table of"
_EXTERNAL = "external"
_LONGEST_NAME = 128


def is_conversion(table: Table, properties: Mapping[str, str]) -> bool:
    """Return whether ALTER TABLE SET with ``properties`` makes a plain table transactional."""
    return not table.is_transactional and _value(properties, TRANSACTIONAL) == "true"


def convert_table(context: StatementContext, table: StoredTable, properties: Mapping[str, str]) -> Result:
    """Run ALTER TABLE SET TBLPROPERTIES ('transactional' = 'true', ...) for a plain table.

    Under the lock of the table, the conversion lists the folder once and reads the footer of each ORC or Parquet file.

    Raises:
        InvalidOperationError: the table, its files or the folders of its files do not allow the conversion.
        InvalidObjectError: a transactional table cannot have the properties, the folder overlaps that of another table,
            or a file cannot be read.
        RoutingError: the session is pinned to another cluster than the table's primary one.
    """
    converted = _converted(table, properties)
    cluster = writing_cluster(context, table)
    services = context.services
    with own_transaction(context) as running:
        acquire(context, running, services.statement_locks.convert_table(table))
        with services.store.read() as connection:
            partitions = _check_stored(services.catalog, connection, table)
        originals = _originals(context, converted, cluster, partitions)

        def changes(connection: Connection) -> None:
            hold_for_change(connection, [table.id])
            catalog = services.catalog.joining(connection)
            if _check_stored(catalog, connection, table) != partitions:
                raise InvalidOperationError(_OPERATION, table.full_name, "its partitions changed meanwhile; try again")
            stored = catalog.alter_table(table.database, table.name, converted, None, running.txn_id)
            row_layout = PLAIN_LAYOUT if converted.is_insert_only else ORIGINAL_LAYOUT
            catalog.register(Registration.of_originals(stored, originals, row_layout, running.txn_id, cluster.name))

        services.transactions.commit(running.txn_id, changes)
        log.info("%s is transactional now, with %s original files", table.full_name, len(originals))
        return Result(cluster=cluster.name, txn_id=running.txn_id)


def _converted(table: StoredTable, properties: Mapping[str, str]) -> StoredTable:
    """Return the definition of the converted table, after all checks that do not need its files."""
    name = table.full_name
    if table.is_view:
        raise InvalidOperationError(_OPERATION, name, "it is a view; convert the tables that it reads")
    if table.not_read:
        raise InvalidOperationError(_OPERATION, table.full_name, table.not_read)
    if _value(properties, _EXTERNAL) != "false":
        reason = (
            "it is external; add 'EXTERNAL' = 'FALSE' to the statement, by which its files become the warehouse's: "
            "DROP TABLE deletes them then"
        )
        raise InvalidOperationError(_OPERATION, name, reason)
    storage = table.storage
    given = {
        lower if (lower := key.lower()) in (TRANSACTIONAL, TRANSACTIONAL_PROPERTIES) else key: value
        for key, value in properties.items()
        if key.lower() != _EXTERNAL
    }
    if storage.format != "orc" and _value(given, TRANSACTIONAL_PROPERTIES) != INSERT_ONLY:
        reason = (
            f"full ACID tables are stored as ORC, and its files are {storage.format}; with 'transactional_properties' "
            f"= '{INSERT_ONLY}' they can stay as they are"
        )
        raise InvalidOperationError(_OPERATION, name, reason)
    check_columns(name, (*table.columns, *table.partition_keys))
    if storage.num_buckets > 0:
        reason = f"its files were put into {storage.num_buckets} buckets by other rules than those here"
        raise InvalidOperationError(_OPERATION, name, reason)
    choosing = next((key for key in storage.serde_parameters if key.lower() in CHOOSING_OPTIONS), None)
    if choosing is not None:
        reason = f"its option {choosing} leaves files out; move those away and create the table without it"
        raise InvalidOperationError(_OPERATION, name, reason)
    parameters = managed_properties(name, storage.format, {**table.parameters, **given})
    converted = replace(table, type=TableType.MANAGED_TABLE, parameters=parameters)
    check_file_options(name, storage.format, converted.file_options)
    check_text(converted)
    return converted


def _check_stored(catalog: ObjectStore, connection: Connection, table: StoredTable) -> Sequence[FoundPartition]:
    """Check the rules of a conversion that concern the catalog, and return the table's partitions.

    Raises:
        NoSuchTableError: the table was dropped.
        InvalidOperationError: the table was changed, has copies, or has a partition outside of its folder.
        InvalidObjectError: the folder overlaps that of another table.
    """
    named = (table.database, table.name)
    snapshot = catalog.snapshot([named])
    stored = snapshot.tables[named]
    if _described(stored) != _described(table):
        raise InvalidOperationError(_OPERATION, table.full_name, "it was changed meanwhile; try again")
    if has_secondaries(connection, stored):
        reason = "copies of it are registered on other clusters; unregister them first, and again after it"
        raise InvalidOperationError(_OPERATION, table.full_name, reason)
    check_apart(connection, replace(stored, type=TableType.MANAGED_TABLE))
    partitions = catalog.contents(snapshot, stored, None, ()).partitions
    root = table.storage.primary.location
    for partition in partitions:
        if partition.location != f"{root}/{partition.name}":
            reason = (
                f"its partition {partition.name} lies in {partition.location}; those of a managed table lie below it, "
                f"this one in {root}/{partition.name}"
            )
            raise InvalidOperationError(_OPERATION, table.full_name, reason)
    return partitions


def _originals(
    context: StatementContext, table: Table, cluster: Cluster, partitions: Sequence[FoundPartition]
) -> list[OriginalFile]:
    """Return the existing files of the table, with their partitions and row counts.

    Raises:
        InvalidOperationError: a file lies in a folder where the table cannot have files.
        InvalidObjectError: a file cannot be read.
    """
    root = table.storage.primary.location
    found = context.services.files_to_change(cluster).list_files(root)
    log.info("%s has %s files in %s partitions", table.full_name, len(found), len(partitions))
    known = {partition.name for partition in partitions}
    depth = len(table.partition_keys)
    placed = []
    for path, size in found.items():
        names = path.split("/")
        partition, name = "/".join(names[:depth]), "/".join(names[depth:])
        if table.is_partitioned and (not name or partition not in known):
            reason = f"{path} lies in none of its partitions; add the partition, or move the file away"
            raise InvalidOperationError(_OPERATION, table.full_name, reason)
        _check_place(table, path, name)
        placed.append((partition if table.is_partitioned else None, name, path, size))
    from airflow_hivex.core.job.original_files import row_counts

    uris = [(cluster.uri(f"{root}/{path}"), size) for _, _, path, size in placed]
    counts = row_counts(table.storage.format, uris)
    return [
        OriginalFile(partition, name, rows, size)
        for (partition, name, _, size), rows in zip(placed, counts, strict=True)
    ]


def _check_place(table: Table, path: str, name: str) -> None:
    """Refuse a file in a folder that looks like a transactional directory or a partition, or with too long a name."""
    folders = name.split("/")[:-1]
    reason = ""
    if any(parse_directory(folder) is not None for folder in folders):
        reason = f"{path} lies in a directory of a transactional table; its rows would count whether committed or not"
    elif any("=" in folder for folder in folders):
        reason = (
            f"{path} lies in what looks like a partition, and the table has no such key; create the table again with it"
        )
    elif len(name) > _LONGEST_NAME:
        reason = f"the name of {path} is longer than {_LONGEST_NAME} characters below its partition; rename it"
    if reason:
        raise InvalidOperationError(_OPERATION, table.full_name, reason)


def _value(properties: Mapping[str, str], name: str) -> str:
    """Return the value of a property in lower case, or an empty text. Case does not matter in the property's name."""
    return next((value.lower() for key, value in properties.items() if key.lower() == name), "")
