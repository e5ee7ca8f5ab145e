"""DROP TABLE and TRUNCATE TABLE, and ALTER TABLE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from airflow_hivex.core.model.statements import (
    AddPartitions,
    Compact,
    DropCopy,
    DropPartitions,
    DropTable,
    Literal,
    RenamePartition,
    RenameTable,
    RepairPartitions,
    SetPrimaryCluster,
    SetTableProperties,
    TableName,
    TouchTable,
    Truncate,
    UpdateStatistics,
)
from airflow_hivex.core.sql.advice import instead_of_change
from airflow_hivex.core.sql.alter_columns import ChangeOfColumns, read_change_of_columns
from airflow_hivex.core.sql.clauses import (
    read_partition_predicate,
    read_properties,
    read_property_keys,
    read_static_partition,
)
from airflow_hivex.core.sql.compactions import read_compact
from airflow_hivex.core.sql.copies import read_drop_copy, read_set_primary
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.storage_changes import ChangeOfStorage, read_change_of_storage
from airflow_hivex.core.sql.tokens import Cursor, Token
from airflow_hivex.core.sql.upkeep import read_update_statistics, read_upkeep


def read_drop_table(cursor: Cursor) -> DropTable:
    """Return the statement whose words up to TABLE are read."""
    if_exists = cursor.accept("IF", "EXISTS")
    table = cursor.table_name()
    cursor.accept("PURGE")
    return DropTable(table, if_exists, cursor.accept_one("RESTRICT", "CASCADE") == "CASCADE")


def read_truncate(cursor: Cursor) -> Truncate:
    """Return the statement whose word TRUNCATE is read."""
    # As in Hive the word TABLE may be left out.
    cursor.accept("TABLE")
    table = cursor.table_name()
    predicate = read_partition_predicate(cursor, any_value=True) if cursor.accept("PARTITION") else None
    if cursor.at("COLUMNS"):
        raise cursor.unsupported("TRUNCATE empties whole partitions; UPDATE ... SET column = NULL empties a column")
    return Truncate(table, predicate)


AlterTable: TypeAlias = (
    AddPartitions
    | DropPartitions
    | RenamePartition
    | SetTableProperties
    | RenameTable
    | Compact
    | DropCopy
    | SetPrimaryCluster
    | RepairPartitions
    | TouchTable
    | UpdateStatistics
    | ChangeOfColumns
    | ChangeOfStorage
)


def read_alter_table(cursor: Cursor, first: Token) -> AlterTable:
    """Return the statement whose words up to TABLE are read."""
    table = cursor.table_name()
    operation = cursor.peek()
    if operation is None:
        raise cursor.expected("ADD, COMPACT, DROP, RENAME, SET or UNSET")
    if cursor.accept("RENAME", "TO"):
        return RenameTable(table, cursor.table_name())
    if cursor.accept("DROP", "COPY"):
        return read_drop_copy(cursor, table, None)
    if cursor.accept("SET", "PRIMARY", "CLUSTER"):
        return read_set_primary(cursor, table)
    found = (
        read_upkeep(cursor, table)
        or read_change_of_columns(cursor, table)
        or read_change_of_storage(cursor, table, None)
    )
    if found is not None:
        return found
    if cursor.accept("PARTITION"):
        return _change_partition(cursor, table, first)
    if cursor.accept("COMPACT"):
        return read_compact(cursor, table, None)
    if cursor.at("SET", "TBLPROPERTIES") or cursor.at("UNSET", "TBLPROPERTIES"):
        return read_set_properties(cursor, table)
    if cursor.at("ADD", "PARTITION") or cursor.at("ADD", "IF"):
        return _add_partitions(cursor, table)
    if cursor.at("DROP", "PARTITION") or cursor.at("DROP", "IF"):
        return _drop_partitions(cursor, table)
    if not operation.word:
        raise cursor.expected("ADD, COMPACT, DROP, RENAME, SET or UNSET")
    following = cursor.peek(1)
    rest = f" {following.word}" if following is not None and following.word else ""
    reason = f"ALTER TABLE ... {operation.word}{rest} is not a statement of this release"
    raise cursor.unsupported(f"{reason}{instead_of_change(f'{operation.word}{rest}')}", first)


def read_set_properties(cursor: Cursor, table: TableName) -> SetTableProperties:
    """``SET TBLPROPERTIES (...)`` or ``UNSET TBLPROPERTIES [IF EXISTS] (...)`` of a table or view."""
    if cursor.accept("SET"):
        cursor.expect("TBLPROPERTIES")
        return SetTableProperties(table, set=read_properties(cursor))
    cursor.expect("UNSET", "TBLPROPERTIES")
    if_exists = cursor.accept("IF", "EXISTS")
    return SetTableProperties(table, unset=read_property_keys(cursor), if_exists=if_exists)


def _change_partition(
    cursor: Cursor, table: TableName, first: Token
) -> RenamePartition | Compact | DropCopy | ChangeOfStorage | UpdateStatistics:
    if cursor.at("COLUMN"):
        words = "PARTITION COLUMN"
        reason = f"ALTER TABLE ... {words} is not a statement of this release{instead_of_change(words)}"
        raise cursor.unsupported(reason, first)
    specification = read_static_partition(cursor)
    operation = cursor.peek()
    if cursor.accept("COMPACT"):
        return read_compact(cursor, table, specification)
    if cursor.accept("DROP", "COPY"):
        return read_drop_copy(cursor, table, specification)
    if cursor.at("UPDATE", "STATISTICS"):
        return read_update_statistics(cursor, table, specification)
    storage = read_change_of_storage(cursor, table, specification)
    if storage is not None:
        return storage
    if operation is not None and operation.word and not cursor.at("RENAME"):
        following = cursor.peek(1)
        words = f"{operation.word} {following.word if following is not None else ''}"
        advice = instead_of_change(f"PARTITION {words}") or instead_of_change(words)
        reason = f"ALTER TABLE ... PARTITION ... {operation.word} is not a statement of this release{advice}"
        raise cursor.unsupported(reason, first)
    cursor.expect("RENAME", "TO", "PARTITION")
    return RenamePartition(table, specification, read_static_partition(cursor))


def _add_partitions(cursor: Cursor, table: TableName) -> AddPartitions:
    cursor.expect("ADD")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    cursor.expect("PARTITION")
    found: list[tuple[Mapping[str, Literal], str | None]] = []
    while True:
        specification = read_static_partition(cursor)
        found.append((specification, read_string(cursor, "a location") if cursor.accept("LOCATION") else None))
        if cursor.accept_symbol(","):
            cursor.expect("PARTITION")
        elif not cursor.accept("PARTITION"):
            break
    return AddPartitions(table, tuple(found), if_not_exists)


def _drop_partitions(cursor: Cursor, table: TableName) -> DropPartitions:
    cursor.expect("DROP")
    if_exists = cursor.accept("IF", "EXISTS")
    cursor.expect("PARTITION")
    found = [read_partition_predicate(cursor)]
    while cursor.accept_symbol(","):
        cursor.expect("PARTITION")
        found.append(read_partition_predicate(cursor))
    cursor.accept("PURGE")
    return DropPartitions(table, tuple(found), if_exists)
