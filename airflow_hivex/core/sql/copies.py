"""REPLICATE TABLE, and ALTER TABLE ... DROP COPY and SET PRIMARY CLUSTER."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements import DropCopy, Literal, ReplicateTable, SetPrimaryCluster, TableName
from airflow_hivex.core.sql.clauses import read_partition_predicate
from airflow_hivex.core.sql.databases import read_cluster
from airflow_hivex.core.sql.literals import read_string
from airflow_hivex.core.sql.markers import Markers
from airflow_hivex.core.sql.tokens import Cursor, tokenize


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


def read_set_primary(cursor: Cursor, table: TableName) -> SetPrimaryCluster:
    """Return the statement whose words up to PRIMARY CLUSTER are read."""
    cluster = read_cluster(cursor)
    if not cursor.accept("FORCE"):
        return SetPrimaryCluster(table, cluster)
    confirm = read_string(cursor, "the confirmation") if cursor.accept("CONFIRM") else None
    return SetPrimaryCluster(table, cluster, force=True, confirm=confirm)


def read_partition_filter(text: str) -> Predicate:
    """Return the conditions on partition keys of a text, written as in a PARTITION clause: ``year = 2013, month < 3``.

    Raises:
        StatementSyntaxError: the text is something else.
    """
    clause = f"({text})"
    cursor = Cursor(clause, tokenize(clause), Markers(None))
    found = read_partition_predicate(cursor)
    if not cursor.at_end:
        raise cursor.expected("the end of the conditions")
    return found
