"""The conversion of objects of the catalog to Hive's structures. Pure.

The inverse is ``core/imports/conversion.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.column_types import Array, ColumnType, Map, Primitive, Struct
from airflow_hivex.core.model.links import Link
from airflow_hivex.core.model.objects import (
    EXTERNAL,
    MOVING_FOLDER,
    OTHER_ENGINE,
    PURGE,
    TRANSLATED,
    Column,
    Database,
    OwnerType,
    Partition,
    StorageDescriptor,
    StoredTable,
    Table,
    TableType,
)
from airflow_hivex.core.thrift.bindings import ttypes

OF_CLUSTERS = "hivex.cluster"
"""The prefix of the parameters of a storage descriptor that name clusters. Clients cannot change these parameters."""
LINK = "hivex.link"
_PROVIDER = "spark.sql.sources.provider"
_SCHEMA = "spark.sql.sources.schema"
_PART = 4000

_OWNERS = {OwnerType.USER: 1, OwnerType.ROLE: 2, OwnerType.GROUP: 3}

_ORC = "org.apache.hadoop.hive.ql.io.orc"
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_CLASSES = {
    "orc": (f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat", f"{_ORC}.OrcSerde"),
    "parquet": (
        f"{_PARQUET}.MapredParquetInputFormat",
        f"{_PARQUET}.MapredParquetOutputFormat",
        f"{_PARQUET}.serde.ParquetHiveSerDe",
    ),
    "textfile": (_TEXT_INPUT, _TEXT_OUTPUT, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
    "avro": (
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat",
        "org.apache.hadoop.hive.ql.io.avro.AvroContainerOutputFormat",
        "org.apache.hadoop.hive.serde2.avro.AvroSerDe",
    ),
}
"""A dict from format, as in CREATE TABLE STORED AS, to Hive's input format, output format and SerDe class."""
_OF_DATA_SOURCES = (
    "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
"""The classes that Spark stores for a table whose data source Hive cannot read."""


def hive_database(database: Database, given: str, location: str) -> Any:
    """Return Hive's structure of a database. ``given`` is the name to show, and ``location`` is its full URI."""
    return ttypes.Database(
        name=given,
        description=database.description,
        locationUri=location,
        parameters=dict(database.parameters),
        ownerName=database.owner,
        ownerType=1,
        catalogName="hive",
        createTime=None if database.created_at is None else int(database.created_at.timestamp()),
    )


def hive_table(table: StoredTable, given: str, cluster: Cluster | None, *, as_created: bool = True) -> Any:
    """Return Hive's structure of a table or view. ``given`` is the name to show for the database of the table.

    ``cluster`` is the cluster whose copy the client sees, or None for the primary copy. With ``as_created``, an
    external table that a client has created as managed is shown as managed. Clients before Hive 3 expect this.
    """
    parameters = {key: value for key, value in table.parameters.items() if key != MOVING_FOLDER}
    kind = table.type
    if kind is TableType.EXTERNAL_TABLE:
        if as_created and table.is_managed_by_clients:
            kind = TableType.MANAGED_TABLE
            for name in (EXTERNAL, PURGE, TRANSLATED):
                parameters.pop(name, None)
        else:
            parameters[EXTERNAL] = "TRUE"
    if table.comment is not None:
        parameters["comment"] = table.comment
    if table.is_view:
        sd = _view_descriptor(table)
    else:
        if table.storage.format not in (*_CLASSES, OTHER_ENGINE) and _PROVIDER not in parameters:
            parameters |= _data_source_parameters(table)
        sd = hive_descriptor(table.storage, table.location, parameters)
        sd.parameters |= cluster_parameters(table, cluster)
    return ttypes.Table(
        tableName=table.name,
        dbName=given,
        owner=table.owner,
        createTime=0 if table.created_at is None else int(table.created_at.timestamp()),
        lastAccessTime=0 if table.last_accessed_at is None else int(table.last_accessed_at.timestamp()),
        retention=table.retention,
        sd=sd,
        partitionKeys=[_field(each) for each in table.partition_keys],
        parameters=parameters,
        viewOriginalText=table.view_original_text,
        viewExpandedText=_expanded_text(table),
        tableType=kind.value,
        temporary=False,
        rewriteEnabled=False,
        catName="hive",
        ownerType=_OWNERS[table.owner_type],
        id=table.id,
    )


def linked_table(link: Link, source: StoredTable, given: str, cluster: Cluster | None) -> Any:
    """Return Hive's structure of a link: its source table with the name and namespace of the link."""
    table = hive_table(source, given, cluster)
    table.tableName = link.name.in_database
    table.owner = link.owner
    table.parameters |= {LINK: ".".join(link.source), f"{LINK}.type": link.type.value, **link.properties}
    return table


def hive_partition(partition: Partition, given: str, like: Any) -> Any:
    """Return Hive's structure of a partition.

    ``like`` is the structure of the table. A partition without a storage descriptor gets the table's descriptor.
    """
    if partition.storage is None:
        sd = ttypes.StorageDescriptor(**vars(like.sd))
        sd.location = partition.location
    else:
        sd = hive_descriptor(partition.storage, partition.location, like.parameters)
    return ttypes.Partition(
        values=list(partition.values),
        dbName=given,
        tableName=like.tableName,
        createTime=0 if partition.created_at is None else int(partition.created_at.timestamp()),
        lastAccessTime=0 if partition.last_accessed_at is None else int(partition.last_accessed_at.timestamp()),
        sd=sd,
        parameters=dict(partition.parameters),
        catName="hive",
    )


def hive_descriptor(storage: StorageDescriptor, location: str, parameters: Mapping[str, str]) -> Any:
    """Return Hive's structure of a storage descriptor. ``parameters`` are the parameters of the table."""
    serde_parameters = dict(storage.serde_parameters)
    input_format, output_format, library = None, None, None
    if storage.format != OTHER_ENGINE:
        input_format, output_format, library = _CLASSES.get(storage.format, _OF_DATA_SOURCES)
        if _PROVIDER in parameters:
            serde_parameters.setdefault("path", location)
        serde_parameters.setdefault("serialization.format", "1")
    skew = storage.skew
    serde = storage.serde
    return ttypes.StorageDescriptor(
        cols=[_field(each) for each in storage.columns],
        location=location,
        inputFormat=storage.input_format or input_format,
        outputFormat=storage.output_format or output_format,
        compressed=storage.compressed,
        numBuckets=storage.num_buckets,
        serdeInfo=ttypes.SerDeInfo(
            name=serde.name,
            serializationLib=serde.library or library,
            parameters=serde_parameters,
            description=serde.description,
            serializerClass=serde.serializer_class,
            deserializerClass=serde.deserializer_class,
        ),
        bucketCols=list(storage.bucket_columns),
        sortCols=[ttypes.Order(col=each.name, order=int(each.ascending)) for each in storage.sort_columns],
        parameters=dict(storage.parameters),
        skewedInfo=ttypes.SkewedInfo(
            skewedColNames=[] if skew is None else list(skew.columns),
            skewedColValues=[] if skew is None else [list(values) for values in skew.values],
            skewedColValueLocationMaps={} if skew is None else dict(skew.locations),
        ),
        storedAsSubDirectories=storage.stored_as_sub_directories,
    )


def cluster_parameters(table: Table, cluster: Cluster | None) -> dict[str, str]:
    """Return parameters that show the clusters of a table: the cluster whose copy the client sees, and all clusters."""
    storage = table.storage
    shown = storage.primary if cluster is None else (storage.on(cluster.name) or storage.primary)
    copies = [storage.primary, *storage.secondaries]
    return {
        OF_CLUSTERS: shown.cluster,
        f"{OF_CLUSTERS}.is.primary": "true" if shown is storage.primary else "false",
        f"{OF_CLUSTERS}.copies": ",".join(each.cluster for each in copies),
    }


def _field(column: Column) -> Any:
    return ttypes.FieldSchema(name=column.name, type=column.type, comment=column.comment)


def _view_descriptor(table: Table) -> Any:
    return ttypes.StorageDescriptor(
        cols=[_field(each) for each in table.columns],
        location=None,
        inputFormat=_OF_DATA_SOURCES[0],
        outputFormat=_OF_DATA_SOURCES[1],
        compressed=False,
        numBuckets=-1,
        serdeInfo=ttypes.SerDeInfo(
            serializationLib=_OF_DATA_SOURCES[2] if _is_view_of_spark(table) else None,
            parameters={"serialization.format": "1"},
        ),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _expanded_text(table: Table) -> str | None:
    """Return the query of a view with qualified names. For a view of Spark, return the text that Spark has sent.

    Spark itself qualifies the names in its views, by parameters of the view.
    """
    return table.view_original_text if _is_view_of_spark(table) else table.view_expanded_text


def _is_view_of_spark(table: Table) -> bool:
    return "view.catalogAndNamespace.numParts" in table.parameters


# -- data sources of Spark ---------------------------------------------------------------


def _data_source_parameters(table: Table) -> dict[str, str]:
    """Return the parameters by which Spark reads a table of a data source. Hive has no classes for such a format."""
    fields = [_spark_field(each) for each in (*table.columns, *table.partition_keys)]
    schema = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    parts = [schema[at : at + _PART] for at in range(0, len(schema), _PART)]
    found = {_PROVIDER: table.storage.format, f"{_SCHEMA}.numParts": str(len(parts))}
    found |= {f"{_SCHEMA}.part.{number}": part for number, part in enumerate(parts)}
    if table.partition_keys:
        found |= {f"{_SCHEMA}.numPartCols": str(len(table.partition_keys)), "spark.sql.partitionProvider": "catalog"}
        found |= {f"{_SCHEMA}.partCol.{number}": key.name for number, key in enumerate(table.partition_keys)}
    return found


def _spark_field(column: Column) -> dict[str, Any]:
    metadata = {} if column.comment is None else {"comment": column.comment}
    found = {"name": column.in_files, "type": _spark_type(column.parsed_type), "nullable": True, "metadata": metadata}
    if column.type.lower().startswith(("char", "varchar")):
        metadata["__CHAR_VARCHAR_TYPE_STRING"] = column.type.lower()
    return found


_SPARK_NAMES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "char": "string"}
_SPARK_NAMES |= {"varchar": "string"}


def _spark_type(type: ColumnType) -> Any:
    """Return a type as it is in the JSON of a Spark schema."""
    match type:
        case Array():
            return {"type": "array", "elementType": _spark_type(type.element), "containsNull": True}
        case Map():
            key, value = _spark_type(type.key), _spark_type(type.value)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case Struct():
            fields = [
                {"name": each.name, "type": _spark_type(each.type), "nullable": True, "metadata": {}}
                for each in type.fields
            ]
            return {"type": "struct", "fields": fields}
        case Primitive():
            return _SPARK_NAMES.get(type.name, str(type))
    return str(type)
