"""ALTER TABLE ... UPDATE STATISTICS: numbers that a user gives in place of those that ANALYZE finds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.statistics import select_statistics, store_statistics
from airflow_hivex.core.catalog.table_events import record_statistics_event
from airflow_hivex.core.commands.partition_definitions import partition_name_of
from airflow_hivex.core.commands.statistics import run_analyze
from airflow_hivex.core.errors import InvalidOperationError, NoSuchColumnError, NoSuchPartitionError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.objects import Column, StoredTable
from airflow_hivex.core.model.statistics import ColumnStatistics, Statistics, StatisticsKind, statistics_kind
from airflow_hivex.core.parser.statements import Analyze, UpdateStatistics

_OF_TABLE = {"numrows": "num_rows", "numfiles": "num_files", "totalsize": "total_size"}
# Hive keeps it, and nothing here has it.
_LEFT_OUT = "rawdatasize"
_OF_COLUMN = {
    "numnulls": "num_nulls",
    "numdvs": "num_distinct",
    "lowvalue": "low",
    "highvalue": "high",
    "avgcollen": "average_length",
    "maxcollen": "longest",
    "numtrues": "num_true",
    "numfalses": "num_false",
}
_ALLOWED = {
    StatisticsKind.BOOLEAN: {"num_nulls", "num_true", "num_false"},
    StatisticsKind.ORDERED: {"num_nulls", "num_distinct", "low", "high"},
    StatisticsKind.TEXT: {"num_nulls", "num_distinct", "average_length", "longest"},
    StatisticsKind.BINARY: {"num_nulls", "average_length", "longest"},
}
_MOST = 2**63 - 1


def run_update_statistics(context: StatementContext, statement: UpdateStatistics) -> Result:
    """Store the numbers. DESCRIBE shows them, and never as the exact statistics of the current rows.

    Sizes that are not known yet are found as by ANALYZE ... NOSCAN.

    Raises:
        InvalidOperationError: it is a view, or a number is not a valid one of the table or column.
        NoSuchColumnError: the column does not exist.
        NoSuchPartitionError: the partition does not exist.
    """
    services = context.services
    database, name = context.session.qualify(statement.table)
    table = services.catalog.get_table(database, name)
    if table.is_view:
        raise InvalidOperationError(statement.kind, table.full_name, "it is a view; it has no statistics of its own")
    partition, partition_id = None, None
    if statement.partition is not None:
        partition = partition_name_of(statement.kind, table, statement.partition)
        there = services.catalog.get_partitions_by_names(database, name, [partition])
        if not there:
            raise NoSuchPartitionError(database, name, partition)
        partition_id = there[0].id
    column = None if statement.column is None else _column(statement, table)
    numbers = _numbers(statement, table, column)

    def known() -> Statistics | None:
        ids = [] if partition_id is None else [partition_id]
        with services.store.read() as connection:
            return select_statistics(connection, table, ids).get(partition_id)

    earlier = known()
    if earlier is None:
        run_analyze(context, Analyze(statement.table, statement.partition, noscan=True))
        earlier = known()
    if earlier is None:
        raise InvalidOperationError(statement.kind, table.full_name, "it was dropped or changed meanwhile; try again")
    now = services.clock()
    if column is None:
        changed = replace(earlier, **numbers, valid_write_ids=None, computed_ms=now)
    else:
        given = replace(
            earlier.columns.get(column.in_files, ColumnStatistics(0)), **numbers, valid_write_ids=None, computed_ms=now
        )
        changed = replace(earlier, columns={**earlier.columns, column.in_files: given})

    def change(connection: Connection) -> None:
        store_statistics(connection, table, {partition: changed})
        partitions = None if partition is None else [partition]
        record_statistics_event(connection, now, table, partitions, [] if column is None else [column.in_files])

    services.store.write(change, name="statistics")
    return Result()


def _column(statement: UpdateStatistics, table: StoredTable) -> Column:
    found = next((each for each in table.columns if each.name.lower() == statement.column), None)
    if found is None:
        raise NoSuchColumnError(table.full_name, str(statement.column), [each.name for each in table.columns])
    if statistics_kind(found.parsed_type) is None:
        reason = f"there are no statistics of columns of type {found.type}"
        raise InvalidOperationError(statement.kind, f"{table.full_name}.{found.name}", reason)
    return found


def _numbers(statement: UpdateStatistics, table: StoredTable, column: Column | None) -> Mapping[str, Any]:
    """Return the given numbers by their fields.

    Raises:
        InvalidOperationError: a name is not one of a statistic of this table or column, or a value not one of it.
    """
    known = _OF_TABLE if column is None else _OF_COLUMN
    kind = None if column is None else statistics_kind(column.parsed_type)
    allowed = set(_OF_TABLE.values()) if kind is None else _ALLOWED[kind]
    whose = table.full_name if column is None else f"{table.full_name}.{column.name}"
    found: dict[str, Any] = {}
    for name, text in statement.values.items():
        if column is None and name.lower() == _LEFT_OUT:
            continue
        field = known.get(name.lower())
        if field not in allowed:
            names = ", ".join(each for each, of in known.items() if of in allowed)
            raise InvalidOperationError(statement.kind, whose, f"{name} is not one of its statistics: {names}")
        value = _value(field, text.strip(), column)
        if value is None:
            raise InvalidOperationError(statement.kind, whose, f"{text!r} is not a valid value of {name}")
        found[field] = value
    return found


def _value(field: str, text: str, column: Column | None) -> int | float | str | None:
    """Return a number in the form in which ANALYZE stores it, None if the text is not one."""
    try:
        if field in ("low", "high"):
            assert column is not None
            assert isinstance(column.parsed_type, Primitive)
            return _bound(text, column.parsed_type)
        if field == "average_length":
            length = float(text)
            return length if math.isfinite(length) and length >= 0 else None
        return int(text) if text.isascii() and text.isdigit() and int(text) <= _MOST else None
    except (ValueError, InvalidOperation):
        return None


def _bound(text: str, type: Primitive) -> str | None:
    match type.family:
        case Family.WHOLE:
            value = int(text)
            return str(value) if -(1 << type.kind.bits) <= value < 1 << type.kind.bits else None
        case Family.DECIMAL:
            exact = Decimal(text)
            return format(exact, "f") if exact.is_finite() else None
        case Family.FLOATING:
            return str(float(text))
    if type.name == "date":
        return date.fromisoformat(text).isoformat()
    datetime.fromisoformat(text)
    return text
