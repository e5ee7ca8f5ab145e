"""MSCK REPAIR TABLE, REFRESH and ALTER TABLE ... TOUCH."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.statements import (
    Literal,
    RefreshTable,
    RepairPartitions,
    TableName,
    TouchTable,
    UpdateStatistics,
)
from airflow_hivex.core.sql.clauses import read_properties, read_static_partition, unsupported_statement
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.tokens import Cursor, Kind


def read_msck(cursor: Cursor) -> RepairPartitions:
    """Return the statement whose word MSCK is read; without REPAIR it changes nothing, as in Hive."""
    is_repair = cursor.accept("REPAIR")
    return _read_repair(cursor, is_repair=is_repair)


def read_repair(cursor: Cursor) -> RepairPartitions:
    """Return the statement whose word REPAIR is read, as Spark has it."""
    return _read_repair(cursor, is_repair=True)


def _read_repair(cursor: Cursor, *, is_repair: bool) -> RepairPartitions:
    cursor.expect("TABLE")
    table = cursor.table_name()
    mode = cursor.accept_one("ADD", "DROP", "SYNC") or ("ADD" if is_repair else "SYNC")
    if not cursor.at_end:
        cursor.expect("PARTITIONS")
    if cursor.at_symbol("("):
        raise cursor.unsupported(
            "MSCK REPAIR TABLE looks for all partitions; ALTER TABLE ... ADD PARTITION adds single ones"
        )
    return RepairPartitions(table, adds=mode != "DROP", drops=mode != "ADD", is_repair=is_repair)


def read_refresh(cursor: Cursor) -> RefreshTable:
    """Return the statement whose word REFRESH is read.

    Raises:
        UnsupportedStatementError: it is about a function or a path.
    """
    if cursor.at_kind(Kind.STRING) or (cursor.at("FUNCTION") and cursor.peek(1) is not None):
        raise unsupported_statement(cursor, cursor.tokens[0])
    if cursor.peek(1) is not None:
        cursor.accept("TABLE")
    return RefreshTable(cursor.table_name())


def read_upkeep(cursor: Cursor, table: TableName) -> TouchTable | RepairPartitions | UpdateStatistics | None:
    """Return the statement whose words up to the table's name are read; None, with nothing read, if it is another."""
    if cursor.accept("RECOVER", "PARTITIONS"):
        return RepairPartitions(table)
    if cursor.at("UPDATE", "STATISTICS"):
        return read_update_statistics(cursor, table, None)
    if not cursor.accept("TOUCH"):
        return None
    return TouchTable(table, read_static_partition(cursor) if cursor.accept("PARTITION") else None)


def read_update_statistics(
    cursor: Cursor, table: TableName, partition: Mapping[str, Literal] | None
) -> UpdateStatistics:
    """Return the statement whose words up to UPDATE STATISTICS are read; a comment of a column is not kept."""
    cursor.expect("UPDATE", "STATISTICS")
    column = None
    if cursor.accept("FOR"):
        cursor.accept("COLUMN")
        column = normalise(cursor.name("the name of a column"))
    cursor.expect("SET")
    values = read_properties(cursor)
    if column is not None and cursor.accept("COMMENT"):
        read_string(cursor, "a comment")
    return UpdateStatistics(table, values, partition, column)
