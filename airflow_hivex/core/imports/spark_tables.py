"""Tables of Spark's data sources. Spark stores them in a Hive metastore by parameters that Hive does not read.

``spark.sql.sources.provider`` names the format. ``spark.sql.sources.schema`` is the schema in JSON, in parts if it has
more than 4,000 characters. The parameter ``path`` of the SerDe is the location. Columns and formats of the storage
descriptor can be placeholders. Source: Spark's HiveExternalCatalog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.lexer.types import type_of

_PROVIDER = "spark.sql.sources.provider"
_SCHEMA = "spark.sql.sources.schema"
_PARTITION_PROVIDER = "spark.sql.partitionProvider"
_CHAR_OR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
_NOT_OPTIONS = ("path", "serialization.format")
_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "null": "void"}


def provider(parameters: Mapping[str, str]) -> str | None:
    """Return the data source of a table in lower case, or None for a table that Hive can read."""
    name = parameters.get(_PROVIDER, "hive").lower()
    return None if name == "hive" else name.removeprefix("org.apache.spark.sql.execution.datasources.")


def lists_no_partitions(parameters: Mapping[str, str]) -> bool:
    """Return whether Spark finds the partitions of a table in its folder rather than in the metastore."""
    return parameters.get(_PARTITION_PROVIDER, "").lower() != "catalog"


def options(serde_parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the data source."""
    return {name: value for name, value in serde_parameters.items() if name.lower() not in _NOT_OPTIONS}


def path(serde_parameters: Mapping[str, str]) -> str | None:
    """Return the location of a table, or None if the storage descriptor has the location."""
    return next((value for name, value in serde_parameters.items() if name.lower() == "path"), None)


def columns(table: str, parameters: Mapping[str, str]) -> list[Column]:
    """Return the columns of a table, including its partition keys. Their names are in lower case.

    If Spark's name of a column has capitals, this name is kept as the column's name in files.

    Raises:
        InvalidObjectError: the schema is missing, or has types that cannot be stored.
    """
    try:
        return [_column(field) for field in json.loads(_schema_text(parameters))["fields"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"Spark's schema of it, {_SCHEMA}, cannot be read ({type(error).__name__}: {error})"
        raise InvalidObjectError("table", table, reason) from error


def _schema_text(parameters: Mapping[str, str]) -> str:
    if _SCHEMA in parameters:
        return parameters[_SCHEMA]
    count = int(parameters[f"{_SCHEMA}.numParts"])
    return "".join(parameters[f"{_SCHEMA}.part.{number}"] for number in range(count))


def _column(field: Mapping[str, Any]) -> Column:
    metadata = field.get("metadata") or {}
    name = str(field["name"])
    declared = type_of(str(metadata.get(_CHAR_OR_VARCHAR) or _simple(field["type"])))
    return Column(name.lower(), declared, metadata.get("comment"), None if name == name.lower() else name)


def _simple(type: str | Mapping[str, Any]) -> str:
    """Return Spark's simple string, such as ``array<int>``, of a type in JSON."""
    if isinstance(type, str):
        return _NAMES.get(type, type)
    match type["type"]:
        case "array":
            return f"array<{_simple(type['elementType'])}>"
        case "map":
            return f"map<{_simple(type['keyType'])},{_simple(type['valueType'])}>"
        case "struct":
            fields = ((str(field["name"]), _simple(field["type"])) for field in type["fields"])
            return f"struct<{','.join(f'{name}:{simple}' for name, simple in fields)}>"
    raise ValueError(f"type {type['type']} is not known")
