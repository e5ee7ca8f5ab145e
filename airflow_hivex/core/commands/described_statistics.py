"""The rows of DESCRIBE for statistics, for one partition and for one column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from airflow_hivex.core.catalog.statistics import select_statistics
from airflow_hivex.core.commands.described_storage import storage_facts
from airflow_hivex.core.errors import NoSuchColumnError
from airflow_hivex.core.execution.context import StatementContext
from airflow_hivex.core.model.objects import Column, StoredPartition, StoredTable, Table
from airflow_hivex.core.model.secrets import hide_in_uri
from airflow_hivex.core.model.statistics import Statistics, is_exact
from airflow_hivex.core.model.write_ids import ValidWriteIdList

Rows = list[tuple[object, ...]]

_NOTHING = "NULL"


def statistics_facts(
    context: StatementContext, table: StoredTable, partition: StoredPartition | None = None
) -> dict[str, str]:
    """Return the results of ANALYZE for a table or partition: Spark's line, then Hive's parameters.

    Empty without statistics.

    ``COLUMN_STATS_ACCURATE`` names the statistics that are still true for the current rows, in Hive's form.
    """
    found, current = _statistics(context, table, partition)
    if found is None:
        return {}
    rows = "" if found.num_rows is None else f", {found.num_rows} rows"
    facts = {
        "Statistics" if partition is None else "Partition Statistics": f"{found.total_size} bytes{rows}",
        "numFiles": str(found.num_files),
        "totalSize": str(found.total_size),
    }
    if found.num_rows is not None:
        facts["numRows"] = str(found.num_rows)
    accurate: dict[str, object] = {}
    if found.num_rows is not None and is_exact(found.valid_write_ids, current):
        accurate["BASIC_STATS"] = "true"
    names = [column.name for column in table.columns if _is_exact(found, column, current)]
    if names:
        accurate["COLUMN_STATS"] = dict.fromkeys(names, "true")
    if accurate:
        facts["COLUMN_STATS_ACCURATE"] = json.dumps(accurate, separators=(",", ":"))
    return facts


def statistics_of(
    context: StatementContext, table: StoredTable, partition: StoredPartition | None = None
) -> Statistics | None:
    """Return the results of ANALYZE for a table or partition, None without any."""
    return _statistics(context, table, partition)[0]


def partition_rows(
    context: StatementContext, table: StoredTable, partition: StoredPartition, named: Table | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the facts of a partition, by the names of Spark; ``named`` has those of a link to the table."""
    named = named or table
    keys = (key.name for key in table.partition_keys)
    values = ", ".join(f"{key}={value}" for key, value in zip(keys, partition.values, strict=True))
    yield "Database", named.database
    yield "Table", named.name
    yield "Partition Values", f"[{values}]"
    yield "Location", hide_in_uri(partition.location)
    yield "Created Time", "" if partition.created_at is None else partition.created_at.isoformat()
    yield "Secondary Clusters", ", ".join(copy.cluster for copy in partition.secondaries)
    if partition.storage is not None:
        yield "Provider", partition.storage.format
        yield from storage_facts(partition.storage).items()
    yield from statistics_facts(context, table, partition).items()


def column_rows(
    context: StatementContext,
    table: StoredTable,
    name: str,
    partition: StoredPartition | None,
    *,
    extended: bool,
    named: Table | None = None,
    is_known: bool = True,
) -> Rows:
    """Return the facts of a column; an unknown one is the text NULL, as in Spark.

    ``named`` has the names of a link to the table. All statistics are unknown where they are not ``is_known``.

    Raises:
        NoSuchColumnError: the table has no column of that name.
    """
    column = _column((*table.columns, *table.partition_keys), named or table, name)
    rows: Rows = [("col_name", column.name), ("data_type", column.type), ("comment", column.comment or _NOTHING)]
    if not extended:
        return rows
    statistics, current = _statistics(context, table, partition) if is_known else (None, None)
    found = None if statistics is None else statistics.columns.get(column.in_files)
    facts: dict[str, object] = (
        {}
        if found is None
        else {
            "min": found.low,
            "max": found.high,
            "num_nulls": found.num_nulls,
            "distinct_count": found.num_distinct,
            "avg_col_len": found.average_length,
            "max_col_len": found.longest,
            "num_trues": found.num_true,
            "num_falses": found.num_false,
        }
    )
    for fact in ("min", "max", "num_nulls", "distinct_count", "avg_col_len", "max_col_len", "num_trues", "num_falses"):
        value = facts.get(fact)
        rows.append((fact, _NOTHING if value is None else str(value)))
    if statistics is not None and found is not None:
        rows.append(("COLUMN_STATS_ACCURATE", str(_is_exact(statistics, column, current)).lower()))
    return rows


def _is_exact(statistics: Statistics, column: Column, current: ValidWriteIdList | None) -> bool:
    found = statistics.columns.get(column.in_files)
    return found is not None and is_exact(found.valid_write_ids, current)


def _column(columns: Sequence[Column], table: Table, name: str) -> Column:
    for column in columns:
        if column.name.lower() == name:
            return column
    raise NoSuchColumnError(table.full_name, name, [column.name for column in columns])


def _statistics(
    context: StatementContext, table: StoredTable, partition: StoredPartition | None
) -> tuple[Statistics | None, ValidWriteIdList | None]:
    """Return the statistics of the partition or table, and the current snapshot."""
    key = None if partition is None else partition.id
    with context.services.store.read() as connection:
        found = select_statistics(connection, table, [] if key is None else [key]).get(key)
    snapshot = context.services.catalog.snapshot([(table.database, table.name)])
    return found, snapshot.list_of(table)
