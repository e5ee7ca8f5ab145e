"""Calls that add, alter, rename and drop partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.given_lists import GivenList, StateOf
from airflow_hivex.core.catalog.statistics import store_statistics
from airflow_hivex.core.commands import partitions
from airflow_hivex.core.errors import (
    InvalidOperationError,
    NoSuchPartitionError,
)
from airflow_hivex.core.execution.metadata_changes import change_metadata, check_location
from airflow_hivex.core.imports.conversion import PartitionConverter
from airflow_hivex.core.imports.hive_statistics import convert_statistics
from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import Partition, StoredPartition, StoredTable
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, nullable_values
from airflow_hivex.core.model.predicates import And, Comparison, IsNull
from airflow_hivex.core.parser.statements import DropPartitions, Literal, RenamePartition, TableName
from airflow_hivex.core.thrift.bindings import ttypes
from airflow_hivex.core.thrift.calls.partitions import Wanted, possible_names, values_of_name
from airflow_hivex.core.thrift.calls.registry import Raw, call
from airflow_hivex.core.thrift.calls.table_changes import (
    kept_statistics,
    properties_of,
    same_place,
    with_time,
    without_ours,
)
from airflow_hivex.core.thrift.calls.tables import check_writer
from airflow_hivex.core.thrift.clients import Client, DatabaseName, read_database
from airflow_hivex.core.thrift.endpoint import Endpoint
from airflow_hivex.core.thrift.files import delete_directory, make_directories, owns_files
from airflow_hivex.core.thrift.hive_objects import hive_partition
from airflow_hivex.core.thrift.messages import STRUCT_RESULT

_Change = Callable[[Connection, GivenList, int | None], None]


class _Changed:
    """The table whose partitions a call changes. Methods convert partitions from and to Hive's structures."""

    def __init__(
        self,
        endpoint: Endpoint,
        client: Client,
        name: DatabaseName,
        table: str,
        ids: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if "@" in table:
            reason = "partitions of a link change by ALTER LINK of `hivex sql`"
            raise InvalidOperationError("A change of partitions", f"{name.name}.{table}", reason)
        self.endpoint = endpoint
        self.name = name
        self.cluster = client.cluster(name, properties)
        self.context = endpoint.context(client, name, properties)
        self.table: StoredTable = endpoint.services.catalog.get_table(name.name, table)
        check_writer(endpoint, self.table, ids)
        if not self.table.is_partitioned:
            raise ttypes.MetaException(f"Table {self.table.full_name} has no partition keys")
        clusters = endpoint.services.clusters
        self.primary = clusters.get(self.table.storage.primary.cluster)
        at_home = self.table.with_location(self.primary.uri(self.table.storage.primary.location))
        # Clients send back the structure that they received, with a location on their cluster.
        self.like = endpoint.hive_table(at_home, name.given, None)
        without_ours(self.like)
        self._converter = PartitionConverter(self.like, self.table, self.primary)

    def values(self, given: Sequence[str] | None) -> list[str | None]:
        """Return the values of a partition from texts that a client sent. Hive's text for NULL becomes None.

        Raises:
            MetaException: the number of values differs from the number of partition keys.
        """
        if len(given or ()) != len(self.table.partition_keys):
            keys = ", ".join(key.name for key in self.table.partition_keys)
            count = f"{len(given or ())} values were given"
            raise ttypes.MetaException(
                f"A partition of {self.table.full_name} has one value for each of {keys}; {count}"
            )
        return list(nullable(given or ()))

    def name_of(self, hive: Any) -> str:
        """Return the name of the partition in a client's structure."""
        return self.endpoint.services.catalog.new_partition(self.table, self.values(hive.values)).name

    def absolute(self, location: str) -> str:
        """Return the absolute location of a partition. A relative ``location`` is relative to the table's location."""
        is_relative = not location.startswith("/") and ":" not in location
        return f"{self.like.sd.location}/{location}" if is_relative else location

    def converted(self, hive: Any) -> Partition:
        """Return the partition in a client's structure. A missing format or SerDe is copied from the table."""
        catalog = self.endpoint.services.catalog
        new = catalog.new_partition(self.table, self.values(hive.values))
        if hive.sd is None:
            hive.sd = ttypes.StorageDescriptor(**vars(self.like.sd))
            hive.sd.location = None
        without_ours(hive)
        location = hive.sd.location
        if location:
            hive.sd.location = self.absolute(location)
        else:
            hive.sd.location = self.primary.uri(f"{self.table.storage.primary.location}/{new.name}")
        if hive.sd.serdeInfo is None:
            hive.sd.serdeInfo = self.like.sd.serdeInfo
        if hive.sd.cols is None:
            hive.sd.cols = self.like.sd.cols
        partition = self._converter.convert(hive, new)
        own = {**partition.parameters, **kept_statistics(hive.parameters)}
        return replace(partition, parameters=with_time(own))

    def change(self, locks: Sequence[LockComponent], change: _Change) -> None:
        """Acquire the locks of a change, and apply the change."""
        change_metadata(self.context, self.table, locks, change)

    def bytes_of(self, found: Sequence[StoredPartition]) -> list[bytes]:
        """Return the encoded structures of partitions, with the locations that the client sees."""
        seen = self.endpoint.services.catalog.get_table(self.table.database, self.table.name, cluster=self.cluster)
        return self.endpoint.partition_bytes(found, seen, self.name.given, self.cluster)

    def read(self, names: Sequence[str], cluster: str | None = None) -> list[StoredPartition]:
        """Return the current partitions with these names, with locations on ``cluster`` or on the client's cluster."""
        catalog = self.endpoint.services.catalog
        seen_on = cluster or self.cluster
        return catalog.get_partitions_by_names(self.table.database, self.table.name, names, cluster=seen_on)


def nullable(values: Sequence[str]) -> tuple[str | None, ...]:
    """Return the values of a partition. None replaces Hive's text for NULL and an empty text."""
    return tuple(None if value in (DEFAULT_PARTITION, "") else value for value in values)


# -- add ---------------------------------------------------------------------------------


def _add(of: _Changed, parts: Sequence[Any], *, if_not_exists: bool) -> list[str]:
    """Add partitions, all or none, and return the names of the added partitions.

    For an external table make directories.
    """
    table, catalog = of.table, of.endpoint.services.catalog
    new = [of.converted(each) for each in parts]
    if len({each.name for each in new}) < len(new):
        raise ttypes.MetaException(f"A partition of {table.full_name} is given twice")
    for each in new:
        if each.location:
            check_location(
                of.context,
                "partition",
                f"of {table.full_name}",
                each.location,
                table.database,
                of.primary,
                is_external=True,
            )
    added: list[str] = []

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        added[:] = catalog.joining(connection).add_partitions(
            table.database, table.name, new, write_ids, if_not_exists=if_not_exists, txn_id=txn_id
        )
        names = set(added)
        _store_statistics(of, connection, {each.name: each for each in new if each.name in names})

    if new:
        names = [each.name for each in new]
        locks = of.endpoint.services.statement_locks
        of.change(locks.add_partitions(table, names, if_not_exists=if_not_exists), change)
    if table.is_external:
        places = {each.name: each.location or f"{table.storage.primary.location}/{each.name}" for each in new}
        make_directories(of.endpoint, of.primary, [places[name] for name in added])
    return added


def _store_statistics(of: _Changed, connection: Connection, found: Mapping[str, Partition]) -> None:
    if of.table.is_transactional:
        return
    now = of.endpoint.services.clock()
    converted = {
        name: convert_statistics(each.parameters, of.table.columns, (), now)
        for name, each in found.items()
        if kept_statistics(each.parameters)
    }
    known: dict[str | None, Any] = {name: each for name, each in converted.items() if each is not None}
    if known:
        store_statistics(connection, of.table, known)


@call("add_partition")
def add_partition(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Add a partition."""
    return _add_one(endpoint, client, args.new_part, {})


@call("add_partition_with_environment_context")
def add_partition_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Add a partition."""
    return _add_one(endpoint, client, args.new_part, properties_of(args.environment_context))


def _add_one(endpoint: Endpoint, client: Client, hive: Any, properties: Mapping[str, str]) -> Raw:
    name = read_database(hive.dbName, hive.catName)
    of = _Changed(endpoint, client, name, hive.tableName or "", None, properties)
    added = _add(of, [hive], if_not_exists=False)
    return Raw(STRUCT_RESULT + of.bytes_of(of.read(added))[0])


@call("add_partitions")
def add_partitions(endpoint: Endpoint, client: Client, args: Any) -> int:
    """Add partitions of one table, all or none, and return the number of partitions."""
    parts = args.new_parts or []
    if not parts:
        return 0
    name = read_database(parts[0].dbName, parts[0].catName)
    of = _Changed(endpoint, client, name, parts[0].tableName or "")
    _check_same_table(of, parts)
    return len(_add(of, parts, if_not_exists=False))


@call("add_partitions_req")
def add_partitions_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Add partitions, all or none. With ``ifNotExists`` existing partitions are skipped."""
    request = args.request
    name = read_database(request.dbName, request.catName)
    of = _Changed(endpoint, client, name, request.tblName or "", request.validWriteIdList)
    _check_same_table(of, request.parts or ())
    added = _add(of, request.parts or (), if_not_exists=bool(request.ifNotExists))
    if not request.needResult:
        return ttypes.AddPartitionsResult()
    found = of.read(added)
    return ttypes.AddPartitionsResult(partitions=_structures(of, found))


def _structures(of: _Changed, found: Sequence[StoredPartition]) -> list[Any]:
    seen = of.endpoint.services.catalog.get_table(of.table.database, of.table.name, cluster=of.cluster)
    like = of.endpoint.hive_table(seen, of.name.given, of.cluster)
    return [hive_partition(each, of.name.given, like) for each in found]


def _check_same_table(of: _Changed, parts: Sequence[Any]) -> None:
    for each in parts:
        named = (read_database(each.dbName, each.catName).name, (each.tableName or "").lower())
        if named != (of.table.database, of.table.name):
            raise ttypes.MetaException(
                f"Partition does not belong to target table {of.table.full_name}: {'.'.join(named)}"
            )


@call("append_partition")
def append_partition(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Add a partition with the format and SerDe of its table."""
    return _append(endpoint, client, args.db_name, args.tbl_name, args.part_vals or ())


@call("append_partition_with_environment_context")
def append_partition_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Add a partition with the format and SerDe of its table."""
    return _append(endpoint, client, args.db_name, args.tbl_name, args.part_vals or ())


@call("append_partition_by_name")
def append_partition_by_name(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Add a partition with the format and SerDe of its table."""
    return _append(endpoint, client, args.db_name, args.tbl_name, args.part_name or "")


@call("append_partition_by_name_with_environment_context")
def append_partition_by_name_with_context(endpoint: Endpoint, client: Client, args: Any) -> Raw:
    """Add a partition with the format and SerDe of its table."""
    return _append(endpoint, client, args.db_name, args.tbl_name, args.part_name or "")


def _append(endpoint: Endpoint, client: Client, database: str, table: str, given: Sequence[str] | str) -> Raw:
    of = _Changed(endpoint, client, read_database(database), table or "")
    values = values_of_name(of.table, given) if isinstance(given, str) else given
    added = _add(of, [ttypes.Partition(values=list(values), parameters={})], if_not_exists=False)
    return Raw(STRUCT_RESULT + of.bytes_of(of.read(added))[0])


# -- alter -------------------------------------------------------------------------------


@call("alter_partition")
def alter_partition(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store a changed partition."""
    _alter(_Changed(endpoint, client, read_database(args.db_name), args.tbl_name or ""), [args.new_part])


@call("alter_partition_with_environment_context")
def alter_partition_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store a changed partition."""
    properties = properties_of(args.environment_context)
    name = read_database(args.db_name)
    _alter(_Changed(endpoint, client, name, args.tbl_name or "", None, properties), [args.new_part])


@call("alter_partitions")
def alter_partitions(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store changed partitions, all or none."""
    _alter(_Changed(endpoint, client, read_database(args.db_name), args.tbl_name or ""), args.new_parts or ())


@call("alter_partitions_with_environment_context")
def alter_partitions_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Store changed partitions, all or none."""
    properties = properties_of(args.environment_context)
    name = read_database(args.db_name)
    _alter(_Changed(endpoint, client, name, args.tbl_name or "", None, properties), args.new_parts or ())


@call("alter_partitions_req")
def alter_partitions_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Store changed partitions, all or none."""
    request = args.req
    name = read_database(request.dbName, request.catName)
    properties = properties_of(request.environmentContext)
    of = _Changed(endpoint, client, name, request.tableName or "", request.validWriteIdList, properties)
    _alter(of, request.partitions or ())
    return ttypes.AlterPartitionsResponse()


def _alter(of: _Changed, parts: Sequence[Any]) -> None:
    table, catalog = of.table, of.endpoint.services.catalog
    if not parts:
        return
    names = [of.name_of(each) for each in parts]
    at_home = {each.name: each for each in of.read(names, of.primary.name)}
    missing = next((name for name in names if name not in at_home), None)
    if missing is not None:
        raise NoSuchPartitionError(table.database, table.name, missing)
    moved = _new_locations(of, dict(zip(names, parts, strict=True)), at_home)
    for name, each in zip(names, parts, strict=True):
        if each.sd is not None:
            each.sd.location = at_home[name].location
    changed = [of.converted(each) for each in parts]

    def change(connection: Connection, write_ids: GivenList, txn_id: int | None) -> None:
        joining = catalog.joining(connection)
        joining.alter_partitions(table.database, table.name, changed, write_ids, txn_id=txn_id)
        for name, location in moved.items():
            joining.set_location(table.database, table.name, location, name)
        _store_statistics(of, connection, {each.name: each for each in changed})

    locks = of.endpoint.services.statement_locks
    of.change(locks.convert_table(table) if moved else locks.alter_table(table), change)


def _new_locations(of: _Changed, parts: Mapping[str, Any], at_home: Mapping[str, StoredPartition]) -> dict[str, str]:
    """Return a dict from partition name to new location, for the partitions whose location changes.

    A new location is relative to the root of the table's primary cluster. A client also sends locations that it does
    not change. The location of a copy on the client's cluster counts as unchanged.

    Raises:
        InvalidOperationError: the table is transactional.
        InvalidObjectError, LocationOutsideClusterError: a partition cannot have the new location.
    """
    given = {name: each.sd.location for name, each in parts.items() if each.sd is not None and each.sd.location}
    others = [name for name, location in given.items() if not same_place(location, at_home[name].location)]
    seen = {each.name: each for each in of.read(others)} if others else {}
    found = {}
    for name in others:
        location = of.absolute(given[name])
        if same_place(location, seen[name].location):
            continue
        relative = of.primary.relative(location)
        if relative == of.primary.relative(at_home[name].location):
            continue
        full_name = f"{of.table.full_name} {name}"
        if not of.table.is_external:
            reason = "the files of a transactional table are as its commits have written them"
            raise InvalidOperationError("ALTER PARTITION SET LOCATION", full_name, reason)
        check_location(of.context, "partition", full_name, location, of.table.database, of.primary, is_external=True)
        found[name] = relative
    return found


# -- rename and drop ---------------------------------------------------------------------


@call("rename_partition")
def rename_partition(endpoint: Endpoint, client: Client, args: Any) -> None:
    """Rename a partition: store new values of its partition keys."""
    of = _Changed(endpoint, client, read_database(args.db_name), args.tbl_name or "")
    _rename(of, args.part_vals or (), args.new_part)


@call("rename_partition_req")
def rename_partition_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Rename a partition: store new values of its partition keys."""
    request = args.req
    name = read_database(request.dbName, request.catName)
    of = _Changed(endpoint, client, name, request.tableName or "", request.validWriteIdList)
    _rename(of, request.partVals or (), request.newPart)
    return ttypes.RenamePartitionResponse()


def _rename(of: _Changed, values: Sequence[str], new: Any) -> None:
    named = TableName(of.table.name, of.table.database)
    old_clause, new_clause = (_clause(of, each) for each in (values, new.values))
    if old_clause == new_clause:
        _alter(of, [new])
        return
    partitions.rename_partition(of.context, RenamePartition(named, old_clause, new_clause))


def _clause(of: _Changed, values: Sequence[str] | None) -> dict[str, Literal]:
    return {
        key.name: Literal(value, "void" if value is None else "string")
        for key, value in zip(of.table.partition_keys, of.values(values), strict=True)
    }


@call("drop_partition")
def drop_partition(endpoint: Endpoint, client: Client, args: Any) -> bool:
    """Drop a partition."""
    return _drop_one(endpoint, client, args, args.part_vals or ())


@call("drop_partition_with_environment_context")
def drop_partition_with_environment_context(endpoint: Endpoint, client: Client, args: Any) -> bool:
    """Drop a partition."""
    return _drop_one(endpoint, client, args, args.part_vals or ())


@call("drop_partition_by_name", "drop_partition_by_name_with_environment_context")
def drop_partition_by_name(endpoint: Endpoint, client: Client, args: Any) -> bool:
    """Drop a partition by its name."""
    return _drop_one(endpoint, client, args, args.part_name or "")


def _drop_one(endpoint: Endpoint, client: Client, args: Any, given: Sequence[str] | str) -> bool:
    name = read_database(args.db_name)
    of = Wanted(endpoint, name, args.tbl_name or "", StateOf.NOW, None)
    found = of.by_name(given) if isinstance(given, str) else of.by_values(given)
    _drop(endpoint, client, name, args.tbl_name or "", [found], delete_data=bool(args.deleteData))
    return True


@call("drop_partitions_req")
def drop_partitions_req(endpoint: Endpoint, client: Client, args: Any) -> Any:
    """Drop the named partitions. A request with expressions, which are Java objects, is refused."""
    request = args.req
    name = read_database(request.dbName, request.catName)
    table = endpoint.services.catalog.get_table(name.name, request.tblName)
    if request.parts is None or request.parts.names is None:
        reason = "the partitions are given by expressions of Java, which are not read here; give their names"
        raise ttypes.MetaException(f"drop_partitions_req on {table.full_name} is refused: {reason}")
    names = possible_names(table, request.parts.names)
    if request.ifExists is False and len(names) < len(request.parts.names):
        raise NoSuchPartitionError(table.database, table.name, ", ".join(request.parts.names))
    of = Wanted(endpoint, name, table.name, StateOf.NOW, None)
    found = of.by_names(names) if names else []
    missing = set(names) - {each.name for each in found}
    if missing and request.ifExists is False:
        raise NoSuchPartitionError(table.database, table.name, min(missing))
    dropped = of.hive(found) if request.needResult is not False else None
    _drop(endpoint, client, name, table.name, found, delete_data=bool(request.deleteData))
    return ttypes.DropPartitionsResult(partitions=dropped)


def _drop(
    endpoint: Endpoint,
    client: Client,
    name: DatabaseName,
    table: str,
    found: Sequence[StoredPartition],
    *,
    delete_data: bool,
) -> None:
    stored = endpoint.services.catalog.get_table(name.name, table)
    specifications = []
    for each in found:
        conditions = []
        for key, value in zip(stored.partition_keys, nullable_values(each.name), strict=True):
            column = ColumnReference(key.name)
            conditions.append(IsNull(column) if value is None else Comparison(column, "=", value))
        specifications.append(And(tuple(conditions)))
    if not specifications:
        return
    named = TableName(stored.name, stored.database)
    partitions.drop_partitions(endpoint.context(client, name), DropPartitions(named, tuple(specifications)))
    if delete_data and owns_files(stored):
        for each in found:
            delete_directory(endpoint, stored, each.location, is_partition=True)
