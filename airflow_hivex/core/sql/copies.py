"""REPLICATE TABLE, and ALTER TABLE ... DROP COPY."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.model.statements import DropCopy, Literal, ReplicateTable, TableName
from airflow_hivex.core.sql.clauses import read_partition_predicate
from airflow_hivex.core.sql.databases import read_cluster
from airflow_hivex.core.sql.tokens import Cursor


def read_replicate(cursor: Cursor) -> ReplicateTable:
    """Return the statement whose word REPLICATE is read."""
    cursor.expect("TABLE")
    table = cursor.table_name()
    specification = read_partition_predicate(cursor) if cursor.accept("PARTITION") else None
    cursor.expect("TO", "CLUSTER")
    return ReplicateTable(table, read_cluster(cursor), specification)


def read_drop_copy(cursor: Cursor, table: TableName, partition: Mapping[str, Literal] | None) -> DropCopy:
    """Return the statement whose words up to DROP COPY are read."""
    cursor.expect("ON", "CLUSTER")
    return DropCopy(table, read_cluster(cursor), partition)
