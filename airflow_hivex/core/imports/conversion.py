"""The conversion of a Hive metastore's databases, tables, partitions and functions to objects of the catalog.

If an object cannot be converted, the error has the reason. Notes describe how a converted object differs from Hive's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.commands.table_definitions import (
    EXTERNAL_FORMATS,
    check_columns,
    check_text,
    managed_properties,
)
from airflow_hivex.core.errors import InvalidObjectError, LocationOutsideClusterError, SqlError
from airflow_hivex.core.imports import spark_tables
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.column_types import BUCKET_TYPES, is_bucket_type, is_partition_type
from airflow_hivex.core.model.objects import (
    BUCKETING_VERSION,
    EXTERNAL,
    MOVING_FOLDER,
    OTHER_ENGINE,
    PARTITION_ROW_IDS,
    PURGE,
    TEMPORARY_NAMESPACE,
    TRANSACTIONAL,
    ClusterStorageDescriptor,
    Column,
    Database,
    OwnerType,
    Partition,
    SerDe,
    Skew,
    SortColumn,
    StorageDescriptor,
    Table,
    TableType,
)
from airflow_hivex.core.model.partitions import partition_name
from airflow_hivex.core.model.permanent_functions import FunctionResource, PermanentFunction, ResourceType
from airflow_hivex.core.model.table_properties import normalised
from airflow_hivex.core.parser.grammar.serdes import SERDES, format_of_input, serde_of
from airflow_hivex.core.parser.grammar.views import quoted
from airflow_hivex.core.parser.lexer.types import type_of
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select

_COMMENT = "comment"
_FORMAT_OF_OTHERS = ("table_type", "storage_handler")
STATISTICS = (
    "numRows",
    "totalSize",
    "numFiles",
    "rawDataSize",
    "COLUMN_STATS_ACCURATE",
    "STATS_GENERATED_VIA_STATS_TASK",
)
"""Parameters in which Hive stores statistics. The import converts them to statistics of the catalog."""
SPARK_STATISTICS = "spark.sql.statistics."
"""The prefix of the parameters in which Spark stores statistics."""

AS_EXTERNAL = "it is managed without transactions in Hive, and becomes an external table"


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted table. ``notes`` describe the differences from Hive."""

    table: Table
    notes: tuple[str, ...] = ()


def convert_database(hive: Any, cluster: Cluster) -> tuple[Database, tuple[str, ...]]:
    """Return a pair: a database with a location relative to the cluster's root, and notes about the differences.

    If the location is outside of the root, the database gets the default location. The locations of tables stay.
    """
    location, notes = "", []
    if hive.locationUri:
        try:
            location = cluster.relative(hive.locationUri)
        except LocationOutsideClusterError:
            notes.append(f"its location {hive.locationUri} is outside of the cluster; new tables get another one")
    database = Database(
        name=hive.name,
        location=location,
        description=hive.description,
        owner=hive.ownerName,
        parameters=dict(hive.parameters or {}),
    )
    return database, tuple(notes)


def convert_table(hive: Any, cluster: Cluster, *, keeps_others: bool = False) -> Converted:
    """Return a table or view whose primary copy is on ``cluster``.

    With ``keeps_others`` a table or view that only another engine can read gets the format ``OTHER_ENGINE``.

    Raises:
        InvalidObjectError: the table cannot be converted.
        LocationOutsideClusterError: the table lies outside of the root of the cluster.
    """
    name = f"{hive.dbName}.{hive.tableName}"
    _check_type(name, hive)
    if hive.tableType == TableType.VIRTUAL_VIEW.value:
        return _converted_view(name, hive, cluster, keeps_others=keeps_others)
    parameters = normalised(hive.parameters or {})
    data_source = spark_tables.provider(parameters)
    if keeps_others and _is_of_other_engine(hive):
        data_source, storage = None, _other_storage(name, hive.sd, cluster)
    else:
        _refuse_others(name, hive)
        storage = (
            _data_source_storage(name, data_source, hive, parameters, cluster)
            if data_source is not None
            else convert_storage(name, hive.sd, parameters, cluster)
        )
    keys = tuple(_column(name, each) for each in hive.partitionKeys or ())
    notes = []
    if data_source is not None and keys:
        # The storage descriptor has types of Hive, or a stand-in.
        by_name = {column.name: column for column in spark_tables.columns(name, parameters)}
        keys = tuple(by_name.get(key.name, key) for key in keys)
        if spark_tables.lists_no_partitions(parameters):
            notes.append("Spark does not keep its partitions in the metastore; add them by ALTER TABLE ADD PARTITION")
    table = Table(
        database=hive.dbName.lower(),
        name=hive.tableName.lower(),
        storage=storage,
        partition_keys=keys,
        type=TableType(hive.tableType),
        parameters=own_parameters(parameters),
        owner=hive.owner,
        comment=parameters.get(_COMMENT),
        created_at=to_datetime(hive.createTime * 1000) if hive.createTime else None,
        owner_type=_OWNER_TYPES.get(hive.ownerType or 1, OwnerType.USER),
        last_accessed_at=to_datetime(hive.lastAccessTime * 1000) if hive.lastAccessTime else None,
        retention=hive.retention or 0,
    )
    if table.is_transactional and not table.is_external:
        return _transactional(table, notes)
    if not table.is_external:
        # As Hive's own upgrade to strictly transactional managed tables does.
        # Source: Hive HiveStrictManagedMigration.
        notes.append(AS_EXTERNAL)
        made = {**table.parameters, EXTERNAL: "TRUE", PURGE: table.parameters.get(PURGE, "true")}
        table = replace(table, type=TableType.EXTERNAL_TABLE, parameters=made)
    return Converted(_checked(table), tuple(notes))


_OWNER_TYPES = {1: OwnerType.USER, 2: OwnerType.ROLE, 3: OwnerType.GROUP}
"""Hive's PrincipalType."""


def _check_type(name: str, hive: Any) -> None:
    """Refuse an object that is neither a table nor a view.

    Raises:
        InvalidObjectError: the object is a materialized view, or an index.
    """
    if hive.tableType not in {each.value for each in TableType}:
        raise InvalidObjectError("table", name, f"objects of Hive's type {hive.tableType} do not exist here")


def _refuse_others(name: str, hive: Any) -> None:
    """Refuse a table whose rows are in another system, and not in files of the table's folder.

    Raises:
        InvalidObjectError: a parameter of the table says that its rows are in another system.
    """
    parameters = {key.lower(): value for key, value in (hive.parameters or {}).items()}
    for key in _FORMAT_OF_OTHERS:
        if key in parameters:
            reason = f"its rows are not those of files in its folder ({key} = {parameters[key]})"
            raise InvalidObjectError("table", name, reason)


def _is_of_other_engine(hive: Any) -> bool:
    """Return whether only another engine can read the rows of a table."""
    parameters = {key.lower(): value for key, value in (hive.parameters or {}).items()}
    if any(key in parameters for key in _FORMAT_OF_OTHERS):
        return True
    data_source = spark_tables.provider(hive.parameters or {})
    if data_source is not None:
        return data_source not in EXTERNAL_FORMATS
    serde = hive.sd.serdeInfo
    known = serde_of(serde.serializationLib or "", dict(serde.parameters or {}))
    return known is None or format_of_input(hive.sd.inputFormat or "") not in known.stored_as


def _other_storage(table: str, sd: Any, cluster: Cluster) -> StorageDescriptor:
    given = dict(sd.serdeInfo.parameters or {})
    columns = tuple(Column(each.name.lower(), _type_of_others(each.type), each.comment) for each in sd.cols or ())
    return _storage(table, sd, cluster, OTHER_ENGINE, given, columns, sd.location)


def _type_of_others(text: str) -> str:
    """Return the text of a column's type in a table of another engine. An unknown type stays unchanged."""
    try:
        return _type(text)
    except SqlError:
        return text


def _converted_view(name: str, hive: Any, cluster: Cluster, *, keeps_others: bool) -> Converted:
    parameters = normalised(hive.parameters or {})
    columns = tuple(_column(name, each) for each in hive.sd.cols or ())
    storage = StorageDescriptor(columns, ClusterStorageDescriptor(cluster.name, ""))
    try:
        expanded = view_text(name, hive, [column.name for column in columns])
    except InvalidObjectError:
        if not keeps_others or not hive.viewOriginalText:
            raise
        storage, expanded = replace(storage, format=OTHER_ENGINE), hive.viewExpandedText
    view = Table(
        database=hive.dbName.lower(),
        name=hive.tableName.lower(),
        storage=storage,
        type=TableType.VIRTUAL_VIEW,
        parameters=own_parameters(parameters),
        owner=hive.owner,
        comment=parameters.get(_COMMENT),
        created_at=to_datetime(hive.createTime * 1000) if hive.createTime else None,
        owner_type=_OWNER_TYPES.get(hive.ownerType or 1, OwnerType.USER),
        view_original_text=hive.viewOriginalText,
        view_expanded_text=expanded,
        last_accessed_at=to_datetime(hive.lastAccessTime * 1000) if hive.lastAccessTime else None,
        retention=hive.retention or 0,
    )
    return Converted(view)


def own_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a converted object keeps. Statistics, comments and reserved names are excluded."""
    own = (PARTITION_ROW_IDS, MOVING_FOLDER, TEMPORARY_NAMESPACE)
    gone = {each.lower() for each in (*STATISTICS, _COMMENT, *own)}
    return {
        name: value
        for name, value in parameters.items()
        if name.lower() not in gone and not name.startswith(SPARK_STATISTICS)
    }


def _transactional(table: Table, notes: list[str]) -> Converted:
    storage = table.storage
    given = dict(table.parameters)
    parameters = managed_properties(table.full_name, storage.format, given)
    if storage.num_buckets > 0:
        types = {column.name: column.parsed_type for column in table.columns}
        for name in storage.bucket_columns:
            if name not in types or not is_bucket_type(types[name]):
                reason = f"CLUSTERED BY {name}: it is not a column of one of the types {', '.join(BUCKET_TYPES)}"
                raise InvalidObjectError("table", table.full_name, reason)
        if given.get(BUCKETING_VERSION, "1") != "2":
            notes.append("its rows lie in buckets of version 1; rows that are written here go into those of version 2")
    return Converted(_checked(replace(table, parameters=parameters)), tuple(notes))


def _checked(table: Table) -> Table:
    """Check a table by the rules of CREATE TABLE, and return it.

    Raises:
        InvalidObjectError: the table breaks a rule.
    """
    name = table.full_name
    columns = table.columns
    if table.is_of_other_engine:
        # Their types are those of the other engine.
        columns = tuple(replace(column, type="string") for column in columns)
    check_columns(name, (*columns, *table.partition_keys))
    for key in table.partition_keys:
        if not is_partition_type(key.parsed_type):
            raise InvalidObjectError("table", name, f"partition key {key.name} cannot have type {key.type}")
    if not table.columns:
        raise InvalidObjectError("table", name, "it has no columns besides its partition keys")
    if table.storage.format not in EXTERNAL_FORMATS and not (table.is_external and table.is_of_other_engine):
        known = ", ".join(EXTERNAL_FORMATS)
        raise InvalidObjectError("table", name, f"files of format {table.storage.format} are not read, but {known}")
    if table.is_external and table.parameters.get(TRANSACTIONAL, "false").lower() == "true":
        raise InvalidObjectError("table", name, "an external table cannot be transactional")
    check_text(table)
    return table


# -- storage -----------------------------------------------------------------------------


def convert_storage(table: str, sd: Any, parameters: Mapping[str, str], cluster: Cluster) -> StorageDescriptor:
    """Return the storage descriptor of a table or partition that Hive can read. ``parameters`` are those of the table.

    Raises:
        InvalidObjectError: the SerDe, the input format or a type is unknown.
        LocationOutsideClusterError: the location is outside of the root of the cluster.
    """
    serde, given = sd.serdeInfo, dict(sd.serdeInfo.parameters or {})
    known = serde_of(serde.serializationLib or "", given)
    stored_as = format_of_input(sd.inputFormat or "")
    if known is None:
        reason = f"SerDe {serde.serializationLib} is not read here, but {', '.join(SERDES)}"
        raise InvalidObjectError("table", table, reason)
    if stored_as not in known.stored_as:
        raise InvalidObjectError("table", table, f"files of input format {sd.inputFormat} with that SerDe are not read")
    options = {**given, **known.options}
    if known.format == "csv" and parameters.get("skip.header.line.count") == "1":
        options.setdefault("header", "true")
    return _storage(table, sd, cluster, known.format, options, _columns(table, sd), sd.location)


def _data_source_storage(
    table: str, format: str, hive: Any, parameters: Mapping[str, str], cluster: Cluster
) -> StorageDescriptor:
    given = dict(hive.sd.serdeInfo.parameters or {})
    keys = {each.name.lower() for each in hive.partitionKeys or ()}
    columns = tuple(each for each in spark_tables.columns(table, parameters) if each.name not in keys)
    location = spark_tables.path(given) or hive.sd.location
    return _storage(table, hive.sd, cluster, format, spark_tables.options(given), columns, location)


def _storage(
    table: str,
    sd: Any,
    cluster: Cluster,
    format: str,
    options: Mapping[str, str],
    columns: tuple[Column, ...],
    location: str | None,
) -> StorageDescriptor:
    relative = cluster.relative(location or "")
    if not relative:
        raise InvalidObjectError("table", table, f"location {location!r} names no folder of its own")
    serde = sd.serdeInfo
    return StorageDescriptor(
        columns=columns,
        primary=ClusterStorageDescriptor(cluster.name, relative),
        format=format,
        serde_parameters=options,
        num_buckets=sd.numBuckets if sd.numBuckets and sd.numBuckets > 0 else -1,
        bucket_columns=tuple(each.lower() for each in sd.bucketCols or ()),
        sort_columns=tuple(SortColumn(each.col.lower(), each.order == 1) for each in sd.sortCols or ()),
        input_format=sd.inputFormat,
        output_format=sd.outputFormat,
        serde=SerDe(
            library=serde.serializationLib,
            name=serde.name,
            description=serde.description,
            serializer_class=serde.serializerClass,
            deserializer_class=serde.deserializerClass,
            type=None if serde.serdeType is None else str(serde.serdeType),
        ),
        parameters=dict(sd.parameters or {}),
        compressed=bool(sd.compressed),
        skew=_skew(sd.skewedInfo),
        stored_as_sub_directories=bool(sd.storedAsSubDirectories),
    )


def _skew(hive: Any) -> Skew | None:
    if hive is None or not hive.skewedColNames:
        return None
    return Skew(
        tuple(hive.skewedColNames),
        tuple(map(tuple, hive.skewedColValues or ())),
        {tuple(values): location for values, location in (hive.skewedColValueLocationMaps or {}).items()},
    )


def _columns(table: str, sd: Any) -> tuple[Column, ...]:
    return tuple(_column(table, each) for each in sd.cols or ())


def _column(table: str, hive: Any) -> Column:
    try:
        return Column(hive.name.lower(), _type(hive.type), hive.comment)
    except SqlError as error:
        reason = f"column {hive.name} has type {hive.type}, which does not exist here"
        raise InvalidObjectError("table", table, reason) from error


@lru_cache(maxsize=4096)
def _type(text: str) -> str:
    return type_of(text)


# -- partitions --------------------------------------------------------------------------


class PartitionConverter:
    """A converter of the partitions of one table."""

    def __init__(self, hive: Any, table: Table, cluster: Cluster) -> None:
        self._parameters = normalised(hive.parameters or {})
        is_other = table.is_of_other_engine
        self._is_data_source = spark_tables.provider(self._parameters) is not None and not is_other
        self._like = _without_location(hive.sd)
        self._table = table
        self._cluster = cluster

    def convert(self, hive: Any, new: Partition) -> Partition:
        """Return a converted partition. ``new`` has the name of the partition, and its values in stored form.

        If the location of the result is empty, the partition is at the default location, below the table's folder.

        Raises:
            InvalidObjectError: the table cannot have the partition.
            LocationOutsideClusterError: the partition lies outside of the root of the cluster.
        """
        table = self._table
        name = f"{table.full_name} {new.name}"
        location = self._cluster.relative(hive.sd.location) if hive.sd.location else ""
        if hive.sd.location and not location:
            reason = f"location {hive.sd.location!r} names no folder of its own"
            raise InvalidObjectError("partition", name, reason)
        default = f"{table.storage.primary.location}/{new.name}"
        if not table.is_external and location not in ("", default):
            reason = f"it lies in {location}; partitions of a transactional table lie below it, this one in {default}"
            raise InvalidObjectError("partition", name, reason)
        return replace(
            new,
            location="" if location == default else location,
            parameters=own_parameters(hive.parameters or {}),
            created_at=to_datetime(hive.createTime * 1000) if hive.createTime else None,
            last_accessed_at=to_datetime(hive.lastAccessTime * 1000) if hive.lastAccessTime else None,
            storage=self._own_storage(hive, location or default),
        )

    def _own_storage(self, hive: Any, location: str) -> StorageDescriptor | None:
        # Most partitions are stored as their table; a comparison of the Thrift structures shows this quickly.
        if self._is_data_source or _without_location(hive.sd) == self._like:
            return None
        table = self._table
        if table.is_of_other_engine:
            storage = _other_storage(table.full_name, hive.sd, self._cluster)
        else:
            storage = convert_storage(table.full_name, hive.sd, self._parameters, self._cluster)
        if replace(storage, primary=table.storage.primary) == table.storage:
            return None
        if not table.is_external and storage.format != table.storage.format:
            reason = f"it is stored as {storage.format}, and its table as {table.storage.format}"
            raise InvalidObjectError("partition", f"{table.full_name} {'/'.join(hive.values)}", reason)
        return replace(storage, primary=ClusterStorageDescriptor(self._cluster.name, location))


def _without_location(sd: Any) -> dict[str, object]:
    return {name: value for name, value in vars(sd).items() if name != "location"}


def hive_partition_name(hive_table: Any, hive: Any) -> str:
    """Return the name of a partition, made from its values in Hive's spelling."""
    return partition_name([key.name for key in hive_table.partitionKeys], hive.values)


_NAMESPACE = "view.catalogAndNamespace.part."
"""The prefix of the parameters in which Spark stores the current catalog (0) and database (1) of a view's creator."""


def view_text(name: str, hive: Any, columns: Sequence[str]) -> str:
    """Return the query of a view as text. It names the view's columns, and each table with its database.

    The query is parsed, but not analysed. The use of the view shows if a table or column is missing.

    Raises:
        InvalidObjectError: the text cannot be read as a query.
    """
    text = hive.viewExpandedText or hive.viewOriginalText
    if not text:
        raise InvalidObjectError("view", name, "Hive has no text of its query")
    database = ((hive.parameters or {}).get(f"{_NAMESPACE}1") or hive.dbName).lower()
    try:
        statement = read(text, database=database)
    except SqlError as error:
        reason = f"its query cannot be read: {str(error).splitlines()[0].rstrip('.')}"
        raise InvalidObjectError("view", name, reason) from error
    if not isinstance(statement, Select):
        raise InvalidObjectError("view", name, "its text is not a query")
    query = statement.query
    if query.parameters:
        raise InvalidObjectError("view", name, f"its query has the marker :{min(query.parameters)}")
    tables = [
        f"{quoted(reference.table.database or database)}.{quoted(reference.table.name)}"
        for reference in query.references
    ]
    listed = ", ".join(map(quoted, columns))
    # The query may end with a comment.
    return f"SELECT * FROM ({query.render(tables)}\n) AS {quoted(hive.tableName.lower())} ({listed})"  # noqa: S608 - a view is SQL of its user


JAVA = 1
"""The only type of functions in Hive. Source: Hive FunctionType."""

_RESOURCE_TYPES = {1: ResourceType.JAR, 2: ResourceType.FILE, 3: ResourceType.ARCHIVE}
OWNER_NUMBERS = {kind: number for number, kind in _OWNER_TYPES.items()}
RESOURCE_NUMBERS = {kind: number for number, kind in _RESOURCE_TYPES.items()}


def convert_function(hive: Any, database: str) -> PermanentFunction:
    """Return a function of Hive; ``database`` is the name of its database in this metastore.

    Raises:
        InvalidObjectError: the type of the function, or of one of its resources, is unknown.
    """
    full_name = f"{database}.{hive.functionName}"
    if hive.functionType not in (None, JAVA):
        raise InvalidObjectError("function", full_name, f"{hive.functionType} is not a valid type of a function")
    resources = []
    for each in hive.resourceUris or ():
        if each.resourceType not in _RESOURCE_TYPES:
            reason = f"{each.resourceType} is not a valid type of a resource"
            raise InvalidObjectError("function", full_name, reason)
        resources.append(FunctionResource(_RESOURCE_TYPES[each.resourceType], each.uri or ""))
    return PermanentFunction(
        database=database,
        name=hive.functionName or "",
        class_name=hive.className or "",
        resources=tuple(resources),
        owner=hive.ownerName or None,
        owner_type=_OWNER_TYPES.get(hive.ownerType, OwnerType.USER),
    )
