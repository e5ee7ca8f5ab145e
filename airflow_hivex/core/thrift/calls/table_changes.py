"""Calls that create, alter, drop and truncate tables and views."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.partition_rows import stored_values
from airflow_hivex.core.catalog.statistics import store_statistics
from airflow_hivex.core.catalog.table_rows import select_tables
from airflow_hivex.core.commands import tables, views
from airflow_hivex.core.commands.constraints import with_checked_constraints
from airflow_hivex.core.commands.following_folders import following_folder, rename_with_folder, without_note
from airflow_hivex.core.commands.rows import run_truncate
from airflow_hivex.core.commands.table_definitions import check_kept_constraints, check_no_constraint, check_properties
from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    NoSuchDatabaseError,
    TableChangedError,
)
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.execution.metadata_changes import check_location
from airflow_hivex.core.imports import spark_tables
from airflow_hivex.core.imports.conversion import SPARK_STATISTICS, STATISTICS, convert_table
from airflow_hivex.core.imports.hive_statistics import convert_statistics
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.compaction import check_spark_options
from airflow_hivex.core.model.objects import (
    CLUSTER,
    EXTERNAL,
    PURGE,
    TRANSLATED,
    ClusterStorageDescriptor,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.model.partitions import nullable_values, partition_name
from airflow_hivex.core.parser.statements import DropTable, DropView, TableName, Truncate
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.constraints import Given, described_constraints
from airflow_hivex.core.thrift.calls.registry import call
from airflow_hivex.core.thrift.calls.tables import check_writer
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.files import delete_directory, make_directories, owns_files
from airflow_hivex.core.thrift.hive_objects import OF_CLUSTERS

_DDL_TIME = "transient_lastDdlTime"
_EXPECTED_KEY = "expected_parameter_key"
_EXPECTED_VALUE = "expected_parameter_value"
_NO_CONSTRAINTS = Given()


def kept_statistics(parameters: Mapping[str, str] | None) -> dict[str, str]:
    """Return the parameters among ``parameters`` in which Hive and Spark store statistics."""
    return {
        name: value
        for name, value in (parameters or {}).items()
        if name in STATISTICS or name.startswith(SPARK_STATISTICS)
    }


def properties_of(context: Any) -> Mapping[str, str]:
    """Return the properties of an EnvironmentContext."""
    return {} if context is None else context.properties or {}


def with_time(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters with the time of the last change. As in Hive, the default is the current time."""
    return {**parameters, _DDL_TIME: parameters.get(_DDL_TIME) or str(int(time.time()))}


def without_ours(hive: Any) -> None:
    """Remove the parameters that this endpoint itself has added to the storage descriptor of a client's table."""
    sd = hive.sd
    if sd is not None and sd.parameters:
        sd.parameters = {key: value for key, value in sd.parameters.items() if not key.startswith(OF_CLUSTERS)}


# -- create ------------------------------------------------------------------------------


@call("create_table")
def create_table(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Create a table or view."""
    _create(endpoint, client, args.tbl, {})


@call("create_table_with_constraints")
def create_table_with_constraints(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Create a table with constraints."""
    _create(endpoint, client, args.tbl, {}, _given(args))


@call("create_table_with_environment_context")
def create_table_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Create a table or view. The context can name the cluster of the table."""
    _create(endpoint, client, args.tbl, properties_of(args.environment_context))


@call("create_table_req")
def create_table_req(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Create a table or view. The request can name the cluster of the table."""
    request = args.request
    _create(endpoint, client, request.table, properties_of(request.envContext), _given(request))


def _given(request: Any) -> Given:
    return Given(
        request.primaryKeys,
        request.foreignKeys,
        request.uniqueConstraints,
        request.notNullConstraints,
        request.defaultConstraints,
        request.checkConstraints,
    )


def _create(
    endpoint: Endpoint, client: Client, hive: Any, properties: Mapping[str, str], given: Given = _NO_CONSTRAINTS
) -> None:
    name = read_database(hive.dbName, hive.catName)
    context = endpoint.context(client, name, properties, hive.owner or None)
    clusters = endpoint.services.clusters
    chosen = (hive.parameters or {}).get(CLUSTER)
    if hive.tableName is None:
        raise ttypes.MetaException(f"A table of {name.name} has no name")
    try:
        database = endpoint.catalog.get_database(name.name)
    except NoSuchDatabaseError as error:
        raise InvalidObjectError("table", f"{name.name}.{hive.tableName}", "its database does not exist") from error
    home = database.parameters.get(CLUSTER) or clusters.default
    cluster = clusters.get(client.cluster(name, properties) or chosen or home)
    table = _converted(name, hive, cluster, default=f"{database.location}/{(hive.tableName or '').lower()}")
    check_spark_options(endpoint.services.settings, table.full_name, table.parameters)
    table = _with_constraints(table, given)
    is_placed = bool(hive.sd is not None and hive.sd.location)
    if table.is_transactional:
        _check_empty(endpoint, table, hive.sd, cluster)
    if table.is_view:
        endpoint.services.namespaces.check_view(table)
    else:
        parameters = {key: value for key, value in table.parameters.items() if key != CLUSTER}
        table = replace(table, parameters=parameters)
        if is_placed:
            check_location(
                context,
                "table",
                table.full_name,
                table.storage.primary.location,
                table.database,
                cluster,
                is_external=table.is_external,
            )
        else:
            # The catalog finds a free location.
            primary = ClusterStorageDescriptor(cluster.name, "")
            table = replace(table, storage=replace(table.storage, primary=primary))
    created: list[StoredTable] = []

    def also(connection: Connection, stored: StoredTable) -> None:
        created.append(stored)
        _store_statistics(endpoint, connection, stored, hive)

    tables.store_table(context, table, also)
    if not table.is_view:
        # The last attempt's table: a commit may be repeated.
        make_directories(endpoint, cluster, [created[-1].storage.primary.location])


def _check_empty(endpoint: Endpoint, table: Table, sd: Any, cluster: Cluster) -> None:
    """Refuse to create a transactional table in a folder that has files, because readers would not see these files.

    For CREATE TABLE ... USING ... AS SELECT, Spark writes files before it creates the table. The folder that Spark
    names in a parameter of the SerDe is checked, too.

    Raises:
        InvalidObjectError: the folder has files.
        LocationOutsideClusterError: the folder is outside the cluster's root.
    """
    for location in {sd.location, spark_tables.path(sd.serdeInfo.parameters or {})} - {None, ""}:
        if endpoint.services.files(cluster).list_entries(cluster.relative(location)):
            reason = (
                f"its folder {location} has files, which no transaction of the table has written; delete them, and "
            )
            advice = "leave 'transactional' out, or let `hivex sql` create the table and write its rows"
            raise InvalidObjectError("table", table.full_name, reason + advice)


def _converted(name: DatabaseName, hive: Any, cluster: Cluster, default: str) -> Table:
    """Return the table in a client's structure, checked by the rules of CREATE TABLE."""
    hive.dbName = name.name
    hive.tableType = hive.tableType or TableType.MANAGED_TABLE.value
    hive.parameters = dict(hive.parameters or {})
    hive.retention = hive.retention or 0
    without_ours(hive)
    is_managed = hive.tableType == TableType.MANAGED_TABLE.value and hive.parameters.get(EXTERNAL, "").upper() != "TRUE"
    if hive.tableType == TableType.MANAGED_TABLE.value and not is_managed:
        hive.tableType = TableType.EXTERNAL_TABLE.value
    if hive.sd is None:
        raise ttypes.InvalidObjectException(f"Table {name.name}.{hive.tableName} has no storage descriptor")
    if hive.sd.serdeInfo is None:
        hive.sd.serdeInfo = ttypes.SerDeInfo(parameters={})
    given = hive.sd.location
    if not given and hive.tableType != TableType.VIRTUAL_VIEW.value:
        hive.sd.location = cluster.uri(default)
    try:
        table = convert_table(hive, cluster, keeps_others=True).table
    finally:
        hive.sd.location = given
    parameters = {**table.parameters, **kept_statistics(hive.parameters)}
    if is_managed and table.is_external:
        parameters |= {EXTERNAL: "TRUE", PURGE: "true", TRANSLATED: "TRUE"}
    return replace(table, parameters=with_time(parameters))


def _with_constraints(table: Table, given: Given) -> Table:
    """Return a table with the constraints of a call, checked by the rules of CREATE TABLE.

    Raises:
        InvalidObjectError: the constraints cannot be stored, or the client's table properties have constraints.
        NoSuchColumnError: a constraint names a column that the table does not have.
    """
    check_no_constraint(table.full_name, table.parameters)
    constraints = described_constraints(table.full_name, given)
    if constraints and table.is_view:
        raise InvalidObjectError("view", table.full_name, "a view has no constraints; give them to its tables")
    return with_checked_constraints(table, constraints) if constraints else table


def _store_statistics(endpoint: Endpoint, connection: Connection, stored: StoredTable, hive: Any) -> None:
    """Store the statistics in the parameters of a client's table, as ANALYZE does."""
    if stored.is_view or stored.is_transactional or not kept_statistics(hive.parameters):
        return
    found = convert_statistics(hive.parameters, stored.columns, (), endpoint.services.clock())
    if found is not None:
        store_statistics(connection, stored, {None: found})


# -- alter -------------------------------------------------------------------------------


@call("alter_table", "alter_table_with_cascade")
def alter_table(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store a changed table."""
    name = read_database(args.dbname)
    _alter(endpoint, client, name, args.tbl_name, args.new_tbl, {}, None)


@call("alter_table_with_environment_context")
def alter_table_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store a changed table."""
    name, properties = read_database(args.dbname), properties_of(args.environment_context)
    _alter(endpoint, client, name, args.tbl_name, args.new_tbl, properties, None)


@call("alter_table_req")
def alter_table_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Store a changed table. For a transactional table the request has a write id list."""
    request = args.req
    name = read_database(request.dbName, request.catName)
    properties = properties_of(request.environmentContext)
    _alter(endpoint, client, name, request.tableName, request.table, properties, request.validWriteIdList)
    return ttypes.AlterTableResponse()


def _alter(
    endpoint: Endpoint,
    client: Client,
    name: DatabaseName,
    old_name: str,
    hive: Any,
    properties: Mapping[str, str],
    ids: str | None,
) -> None:
    catalog = endpoint.services.catalog
    stored = catalog.get_table(name.name, old_name)
    check_writer(endpoint, stored, ids)
    if hive.tableName is None or (hive.sd is None and not stored.is_view):
        lacking = "name" if hive.tableName is None else "storage descriptor"
        raise ttypes.MetaException(f"The new description of table {stored.full_name} has no {lacking}")
    cluster = endpoint.services.clusters.get(stored.storage.primary.cluster)
    seen = catalog.get_table(name.name, old_name, cluster=client.cluster(name, properties))
    new_name = read_database(hive.dbName, hive.catName)
    is_renamed = (new_name.name, (hive.tableName or "").lower()) != (stored.database, stored.name)
    context = endpoint.context(client, name, properties)
    location = None
    if not stored.is_view:
        # A rename decides the place of the files itself, and ignores a given location.
        location = None if is_renamed else _new_location(context, stored, seen, hive, cluster)
        hive.sd.location = cluster.uri(stored.storage.primary.location)
        if hive.sd.serdeInfo is not None and hive.sd.serdeInfo.parameters and not stored.is_of_other_engine:
            paths = {key: value for key, value in hive.sd.serdeInfo.parameters.items() if key.lower() != "path"}
            hive.sd.serdeInfo.parameters = paths
    table = _converted(new_name, hive, cluster, stored.storage.primary.location)
    check_kept_constraints(table.full_name, stored.parameters, {**_fixed(stored), **table.parameters})
    check_spark_options(endpoint.services.settings, table.full_name, table.parameters)
    if stored.is_view:
        endpoint.services.namespaces.check_view(table)
    else:
        _check_keys(catalog, stored, table)
        if stored.is_transactional or table.is_transactional:
            _check_transactional(stored, table)
    table = without_note(_with_stored_names(stored, table))
    folder = following_folder(context, stored, table.database, table.name) if is_renamed else None

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        if _EXPECTED_KEY in properties:
            _check_expected(connection, stored, properties)
        joining = catalog.joining(connection)
        if _described(joining.get_table(name.name, old_name)) != _described(stored):
            reason = "another client has changed it meanwhile; read it again, and repeat the change"
            raise InvalidOperationError("ALTER TABLE", stored.full_name, reason)
        joining.alter_table(name.name, old_name, table, write_ids, txn_id)
        if location is not None:
            joining.set_location(stored.database, stored.name, location)
        _store_statistics(endpoint, connection, stored, hive)

    locks = endpoint.services.statement_locks
    moves_files = location is not None or folder is not None or table.database != stored.database
    wanted = locks.convert_table(stored) if moves_files else locks.alter_table(stored)
    if table.database != stored.database:
        wanted = [*locks.create_table(table.database), *wanted]
    rename_with_folder(context, stored, wanted, change, folder)


def _described(stored: StoredTable) -> Table:
    """Return a table's definition without its copies. A replication does not change this definition."""
    return without_note(replace(stored.definition, storage=replace(stored.storage, secondaries=())))


def _check_keys(catalog: ObjectStore, stored: StoredTable, table: Table) -> None:
    """Refuse changed names of partition keys, and changed types that do not fit existing partitions, as Hive does.

    Raises:
        InvalidOperationError: the partitions would not fit the table.
    """
    before, after = stored.partition_keys, table.partition_keys
    if [key.name for key in before] != [key.name for key in after]:
        reason = "partition keys can not be changed; create another table"
        raise InvalidOperationError("ALTER TABLE", stored.full_name, reason)
    if [key.parsed_type for key in before] == [key.parsed_type for key in after]:
        return
    for batch in catalog.get_partitions(stored.database, stored.name):
        for each in batch:
            try:
                values = stored_values(stored.full_name, after, list(nullable_values(each.name)))
            except InvalidObjectError as error:
                reason = f"partition {each.name} does not allow the new type of its key: {error.reason}"
                raise InvalidOperationError("ALTER TABLE", stored.full_name, reason) from error
            if partition_name([key.name for key in after], values) != each.name:
                reason = f"partition {each.name} would have another name with the new type of its key"
                raise InvalidOperationError("ALTER TABLE", stored.full_name, reason)


def _check_expected(connection: Connection, stored: StoredTable, properties: Mapping[str, str]) -> None:
    """Refuse a change if another client has changed the table since the client of the call read the table.

    Iceberg relies on this check if its commits do not use locks.

    Raises:
        TableChangedError: a parameter does not have the value that the client expects.
    """
    key, expected = properties[_EXPECTED_KEY], properties.get(_EXPECTED_VALUE)
    found = select_tables(connection, [(stored.database, stored.name)])
    current = found[0].parameters.get(key) if found else None
    if current != expected:
        raise TableChangedError(stored.full_name, key, current, expected)


def _new_location(
    context: StatementContext, stored: StoredTable, seen: StoredTable, hive: Any, cluster: Cluster
) -> str | None:
    """Return the new location of an external table, or None if the location does not change.

    The new location is relative to the root of ``cluster``. ``seen`` is the table with the location that the client
    sees, for example the location of a copy.

    Raises:
        InvalidOperationError: the table is transactional.
        InvalidObjectError, LocationOutsideClusterError: a table cannot have the new location.
    """
    given = hive.sd.location
    if not given or same_place(given, seen.location):
        return None
    relative = cluster.relative(given)
    if relative == stored.storage.primary.location:
        return None
    if not seen.is_external:
        reason = "the files of a transactional table are as its commits have written them"
        raise InvalidOperationError("ALTER TABLE SET LOCATION", seen.full_name, reason)
    check_location(context, "table", seen.full_name, given, seen.database, cluster, is_external=True)
    return relative


def same_place(location: str, other: str) -> bool:
    """Return whether two locations are equal, except for repeated and trailing slashes."""
    return _path(location) == _path(other)


def _path(location: str) -> str:
    """Return a location without its repeated, leading and trailing slashes."""
    scheme, colon, path = location.partition(":")
    names = "/".join(part for part in path.split("/") if part)
    return f"{scheme}{colon}{names}" if colon else "/".join(part for part in location.split("/") if part)


def _check_transactional(stored: StoredTable, table: Table) -> None:
    """Refuse changes of a transactional table that do not fit its files.

    Raises:
        InvalidOperationError: columns, keys or storage would change.
        InvalidObjectError: a property cannot be changed.
    """
    check_properties(stored.full_name, stored.parameters, {**_fixed(stored), **table.parameters})
    before = [(each.name, each.parsed_type) for each in (*stored.columns, *stored.partition_keys)]
    after = [(each.name, each.parsed_type) for each in (*table.columns, *table.partition_keys)]
    if before != after or stored.storage.format != table.storage.format or stored.type is not table.type:
        reason = "columns and storage of a transactional table change by its own statements; use `hivex sql`"
        raise InvalidOperationError("ALTER TABLE", stored.full_name, reason)


def _fixed(stored: StoredTable) -> dict[str, str]:
    """Return the stored ``hivex.*`` properties of a table. A client of Hive does not send all of them."""
    return {name: value for name, value in stored.parameters.items() if name.startswith("hivex.")}


def _with_stored_names(stored: StoredTable, table: Table) -> Table:
    """Return a client's table, completed with stored values that Hive's structures cannot carry, such as the copies."""
    names = {each.name: each.stored_name for each in stored.columns}
    columns = tuple(
        replace(each, stored_name=each.stored_name or names.get(each.name)) for each in table.storage.columns
    )
    parameters = {**_fixed(stored), **table.parameters}
    return replace(
        table,
        parameters=parameters,
        created_at=stored.created_at,
        storage=replace(
            table.storage,
            columns=columns,
            primary=stored.storage.primary,
            secondaries=stored.storage.secondaries,
            format=table.storage.format,
        ),
    )


# -- drop --------------------------------------------------------------------------------


@call("drop_table")
def drop_table(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Drop a table or view."""
    _drop(endpoint, client, read_database(args.dbname), args.name, delete_data=bool(args.deleteData))


@call("drop_table_with_environment_context")
def drop_table_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Drop a table or view."""
    _drop(endpoint, client, read_database(args.dbname), args.name, delete_data=bool(args.deleteData))


def _drop(endpoint: Endpoint, client: Client, name: DatabaseName, table: str, *, delete_data: bool) -> None:
    context = endpoint.context(client, name)
    if "@" in table:
        link, at, namespace = table.partition("@")
        tables.drop_table(context, DropTable(TableName(link, name.name, namespace if at else None)))
        return
    stored = endpoint.catalog.get_table(name.name, table)
    named = TableName(stored.name, stored.database)
    if stored.is_view:
        views.drop_view(context, DropView(named))
        return
    tables.drop_table(context, DropTable(named))
    if delete_data and owns_files(stored):
        delete_directory(endpoint, stored, stored.storage.primary.location)


# -- truncate ----------------------------------------------------------------------------


@call("truncate_table")
def truncate_table(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Remove all rows of a transactional table."""
    _truncate(endpoint, client, read_database(args.dbName), args.tableName, args.partNames)


@call("truncate_table_req")
def truncate_table_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Remove all rows of a transactional table."""
    request = args.req
    _truncate(endpoint, client, read_database(request.dbName), request.tableName, request.partNames)
    return ttypes.TruncateTableResponse()


def _truncate(endpoint: Endpoint, client: Client, name: DatabaseName, table: str, partitions: Any) -> None:
    if partitions:
        reason = "single partitions are not truncated by this call; use TRUNCATE TABLE ... PARTITION of `hivex sql`"
        raise InvalidOperationError("truncate_table", f"{name.name}.{table}", reason)
    run_truncate(endpoint.context(client, name), Truncate(TableName(table.lower(), name.name)))
