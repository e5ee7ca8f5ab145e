"""ALTER TABLE for where a table lies and how its files are read: LOCATION, FILEFORMAT, SERDE and SERDEPROPERTIES."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from airflow_hivex.core.model.statements import (
    ExchangePartition,
    Literal,
    SetFormat,
    SetLocation,
    SetSerdeProperties,
    TableName,
)
from airflow_hivex.core.sql.clauses import read_properties, read_property_keys, read_static_partition
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.serdes import SERDES, SerDe, format_of_input, serde_of
from airflow_hivex.core.sql.tokens import Cursor

ChangeOfStorage: TypeAlias = SetLocation | SetFormat | SetSerdeProperties | ExchangePartition

_OF_PARTITION = (
    "all partitions of a table are read in one format; ALTER TABLE without PARTITION changes that of an external table"
)


def read_change_of_storage(
    cursor: Cursor, table: TableName, partition: Mapping[str, Literal] | None
) -> ChangeOfStorage | None:
    """Return the statement whose words up to the next one are read; None, with nothing read, if it is another.

    Raises:
        StatementSyntaxError: it is not SQL.
        UnsupportedStatementError: files of that SerDe or input format are not read, or a partition would be read
            otherwise than its table.
    """
    token = cursor.peek()
    if partition is None and cursor.accept("EXCHANGE"):
        return _read_exchange(cursor, table)
    if cursor.accept("SET", "LOCATION"):
        return SetLocation(table, read_string(cursor, "a location"), partition)
    words = (("SET", "FILEFORMAT"), ("SET", "SERDE"), ("SET", "SERDEPROPERTIES"), ("UNSET", "SERDEPROPERTIES"))
    if partition is not None and any(cursor.at(*each) for each in words):
        raise cursor.unsupported(_OF_PARTITION, token)
    if cursor.accept("SET", "SERDEPROPERTIES"):
        return SetSerdeProperties(table, set=read_properties(cursor))
    if cursor.accept("UNSET", "SERDEPROPERTIES"):
        if_exists = cursor.accept("IF", "EXISTS")
        return SetSerdeProperties(table, unset=read_property_keys(cursor), if_exists=if_exists)
    if cursor.accept("SET", "SERDE"):
        library, serde = _read_serde(cursor)
        return SetFormat(table, serde.format, serde.options, library)
    return _read_file_format(cursor, table) if cursor.accept("SET", "FILEFORMAT") else None


def _read_exchange(cursor: Cursor, table: TableName) -> ExchangePartition:
    """Return the statement whose words up to EXCHANGE are read."""
    cursor.expect("PARTITION")
    partition = read_static_partition(cursor)
    cursor.expect("WITH", "TABLE")
    return ExchangePartition(table, cursor.table_name(), partition)


def _read_file_format(cursor: Cursor, table: TableName) -> SetFormat:
    if not cursor.accept("INPUTFORMAT"):
        return SetFormat(table, cursor.name("a format").lower())
    token = cursor.peek()
    input_format = read_string(cursor, "the class of an input format")
    cursor.expect("OUTPUTFORMAT")
    output_format = read_string(cursor, "the class of an output format")
    name = format_of_input(input_format)
    if name is None:
        raise cursor.unsupported("files of that input format are not read; name a format, such as ORC", token)
    if not cursor.accept("SERDE"):
        return SetFormat(table, name, {}, None, input_format, output_format)
    library, serde = _read_serde(cursor)
    if name not in serde.stored_as:
        known = " or ".join(each.upper() for each in serde.stored_as)
        raise cursor.error(f"that SerDe goes with files of {known} only", token)
    return SetFormat(table, serde.format, serde.options, library, input_format, output_format)


def _read_serde(cursor: Cursor) -> tuple[str, SerDe]:
    token = cursor.peek()
    name = read_string(cursor, "the class of a SerDe")
    properties = read_properties(cursor) if cursor.accept("WITH", "SERDEPROPERTIES") else {}
    found = serde_of(name, properties)
    if found is None:
        raise cursor.unsupported(f"{name} is not one of the SerDes that are read here: {', '.join(SERDES)}", token)
    return name, found
