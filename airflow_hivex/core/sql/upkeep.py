"""MSCK REPAIR TABLE, REFRESH and ALTER TABLE ... TOUCH."""

from __future__ import annotations

from airflow_hivex.core.model.statements import RefreshTable, RepairPartitions, TableName, TouchTable
from airflow_hivex.core.sql.clauses import read_static_partition, unsupported_statement
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


def read_upkeep(cursor: Cursor, table: TableName) -> TouchTable | RepairPartitions | None:
    """Return the statement whose words up to the table's name are read; None, with nothing read, if it is another."""
    if cursor.accept("RECOVER", "PARTITIONS"):
        return RepairPartitions(table)
    if not cursor.accept("TOUCH"):
        return None
    return TouchTable(table, read_static_partition(cursor) if cursor.accept("PARTITION") else None)
