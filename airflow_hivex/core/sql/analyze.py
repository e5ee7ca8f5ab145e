"""ANALYZE TABLE and ANALYZE TABLES, in Hive's words and Spark's."""

from __future__ import annotations

from airflow_hivex.core.model.statements import Analyze, AnalyzeTables
from airflow_hivex.core.sql.clauses import read_partition
from airflow_hivex.core.sql.tokens import Cursor


def read_analyze(cursor: Cursor) -> Analyze | AnalyzeTables:
    """Return the statement whose word ANALYZE is read."""
    if cursor.accept("TABLES"):
        database = cursor.database_name() if cursor.accept_one("IN", "FROM") else None
        cursor.expect("COMPUTE", "STATISTICS")
        return AnalyzeTables(database, cursor.accept("NOSCAN"))
    cursor.expect("TABLE")
    table = cursor.table_name()
    partition = read_partition(cursor) if cursor.accept("PARTITION") else None
    cursor.expect("COMPUTE", "STATISTICS")
    if cursor.accept("NOSCAN"):
        return Analyze(table, partition, noscan=True)
    if cursor.accept("FOR", "ALL", "COLUMNS"):
        return Analyze(table, partition, columns=())
    if cursor.accept("FOR"):
        cursor.expect("COLUMNS")
        return Analyze(table, partition, columns=() if cursor.at_end else _names(cursor))
    return Analyze(table, partition)


def _names(cursor: Cursor) -> tuple[str, ...]:
    found: list[str] = []
    while True:
        token = cursor.peek()
        name = cursor.name("the name of a column")
        if name in found:
            raise cursor.error(f"{name} is named twice", token)
        found.append(name)
        if not cursor.accept_symbol(","):
            return tuple(found)
