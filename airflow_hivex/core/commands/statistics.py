"""ANALYZE: the statistics of a table, its partitions and columns, counted in one snapshot."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.catalog.bound_tables import BoundPartition, BoundTable
from airflow_hivex.core.catalog.partition_rows import name_of
from airflow_hivex.core.catalog.specifications import clause_condition, covered
from airflow_hivex.core.catalog.statistics import select_statistics, store_statistics
from airflow_hivex.core.catalog.table_events import record_statistics_event
from airflow_hivex.core.commands.partitions import partition_name_of
from airflow_hivex.core.errors import (
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.statement_transactions import in_transaction
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.column_types import Family, Primitive
from airflow_hivex.core.model.objects import Column, StoredTable, Table
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statistics import ColumnStatistics, Statistics, StatisticsKind, statistics_kind
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Analyze, AnalyzeTables, Select, TableName, UpdateStatistics

log = logging.getLogger(__name__)

_OPERATION = "ANALYZE TABLE"
# The answers about one column, after the number of its values.
_QUESTIONS = {
    StatisticsKind.BOOLEAN: "count_if({0}), count_if(NOT {0})",
    StatisticsKind.ORDERED: "approx_count_distinct({0}), CAST(min({0}) AS STRING), CAST(max({0}) AS STRING)",
    StatisticsKind.TEXT: "approx_count_distinct({0}), avg(length({0})), max(length({0}))",
    StatisticsKind.BINARY: "avg(length({0})), max(length({0}))",
}


def run_analyze(context: StatementContext, statement: Analyze) -> Result:
    """Run ANALYZE TABLE: compute and store statistics, which DESCRIBE EXTENDED shows.

    Raises:
        InvalidOperationError: the object is a view, or the statement names a partition of a table without partitions,
            or a column of a type without statistics.
        NoSuchColumnError: a column or partition key does not exist.
        NoSuchPartitionError: the PARTITION clause covers no partition.
    """

    def work(running: Running) -> Result:
        database, name = context.session.qualify(statement.table)
        table = context.services.catalog.get_table(database, name, cluster=None)
        if table.is_view:
            raise InvalidOperationError(_OPERATION, table.full_name, "it is a view; analyze the tables that it reads")
        specification = None
        if statement.partition is not None:
            specification = clause_condition(f"{_OPERATION} ... PARTITION", table, statement.partition)
        routed = route(context, _reading(table, specification), running, runs_job=not statement.noscan)
        (bound,) = routed.bound
        columns = _columns(bound.table, statement.columns)
        cluster = chosen_cluster(context, routed)
        log.info("Transaction %s: %s", running.txn_id, routed.route.describe())
        bound = _covered(bound, specification)
        whole = statement.partition is None
        found = _Analysis(context, running, bound, cluster).run(columns, whole=whole, noscan=statement.noscan)

        def changes(connection: Connection) -> None:
            store_statistics(connection, bound.table, found)
            columns = {column for each in found.values() for column in each.columns}
            names = sorted(name for name in found if name is not None)
            for changed in (*((None,) if None in found else ()), *((names,) if names else ())):
                now = context.services.clock()
                record_statistics_event(connection, now, bound.table, changed, sorted(columns), running.txn_id)

        context.services.transactions.commit(running.txn_id, changes)
        return Result(cluster=cluster.name, txn_id=running.txn_id, route=routed.route)

    return in_transaction(context, work, read_only=True)


def run_analyze_tables(context: StatementContext, statement: AnalyzeTables) -> Result:
    """Run ANALYZE TABLES: analyze each table in a transaction of its own. Views and dropped tables are skipped."""
    database = statement.database or context.session.database
    catalog = context.services.catalog
    for name in catalog.list_tables(database):
        try:
            found = catalog.get_table(database, name, cluster=None)
            if not (found.is_view or found.not_read):
                run_analyze(context, Analyze(TableName(name, database), noscan=statement.noscan))
        except NoSuchTableError as error:
            log.info("%s", error)
    return Result()


def _reading(table: Table, specification: Predicate | None) -> Select:
    """Return a query of the analyzed rows, by which the statement is locked, bound to a snapshot, and routed."""
    select = read(f"SELECT * FROM `{table.database}`.`{table.name}`")  # noqa: S608 - names are letters and digits
    assert isinstance(select, Select)
    (reference,) = select.query.references
    filters = () if specification is None else (specification,)
    return Select(replace(select.query, references=(replace(reference, filters=filters),)))


def _covered(bound: BoundTable, specification: Predicate | None) -> BoundTable:
    if specification is None:
        return bound
    table = bound.table
    names = set(covered(bound.partition_names, specification, table.partition_keys))
    if not names:
        raise NoSuchPartitionError(table.database, table.name, "that the PARTITION clause covers")
    return replace(bound, partitions=tuple(each for each in bound.partitions if each.name in names))


def _columns(table: Table, wanted: Sequence[str] | None) -> list[Column]:
    """Return the columns to analyze. ``wanted`` is None for no columns, and empty for all columns."""
    if wanted is None:
        return []
    if not wanted:
        return [column for column in table.columns if statistics_kind(column.parsed_type) is not None]
    by_name = {column.name.lower(): column for column in table.columns}
    found = []
    for name in wanted:
        if name in {key.name.lower() for key in table.partition_keys}:
            raise InvalidOperationError(_OPERATION, f"{table.full_name}.{name}", "it is a partition key")
        if name not in by_name:
            raise NoSuchColumnError(table.full_name, name, list(by_name))
        column = by_name[name]
        if statistics_kind(column.parsed_type) is None:
            reason = f"there are no statistics of columns of type {column.type}"
            raise InvalidOperationError(_OPERATION, f"{table.full_name}.{name}", reason)
        found.append(column)
    return found


@dataclass(frozen=True, slots=True)
class _Analysis:
    """The analysis of one table, in one snapshot on one cluster."""

    context: StatementContext
    running: Running
    bound: BoundTable
    cluster: Cluster

    def run(self, columns: Sequence[Column], *, whole: bool, noscan: bool) -> dict[str | None, Statistics]:
        """Return a dict from partition to statistics. At most one job is run.

        If ``whole`` is true, the key None has the statistics of the whole table.
        """
        table = self.bound.table
        sizes = self._sizes()
        found: dict[str | None, Statistics] = {}
        if columns:
            counted = self._counted(self.bound.partitions, columns, total=whole)
        elif noscan:
            counted = {}
        else:
            unknown = [each for each in self.bound.partitions if self._known_rows(each) is None]
            counted = self._counted(unknown, (), total=False) if unknown else {}
        for partition in self.bound.partitions:
            num_rows, of_columns = counted.get(partition.name, (self._known_rows(partition), {}))
            found[partition.name] = self._statistics(None if noscan else num_rows, sizes[partition.name], of_columns)
        if whole and table.is_partitioned:
            parts = [each.num_rows for each in found.values()]
            total = (sum(size[0] for size in sizes.values()), sum(size[1] for size in sizes.values()))
            num_rows = None if noscan else sum(rows for rows in parts if rows is not None)
            num_rows, of_columns = counted.get(None, (num_rows, {}))
            found[None] = self._statistics(num_rows, total, of_columns)
        return found

    def _statistics(
        self, num_rows: int | None, size: tuple[int, int], columns: Mapping[str, ColumnStatistics]
    ) -> Statistics:
        return Statistics(num_rows, *size, self._snapshot(), self.context.services.clock(), columns)

    def _snapshot(self) -> str | None:
        return None if self.bound.write_ids is None else str(self.bound.write_ids)

    def _known_rows(self, partition: BoundPartition) -> int | None:
        """Return the number of rows of a partition, or None if the registered directories do not determine it."""
        if not self.bound.table.is_transactional or self.bound.partly_visible:
            return None
        if any(directory.is_delete_delta for directory in partition.directories):
            return None
        # Not every format records the number of rows in its files.
        if self.bound.table.is_insert_only and any(directory.is_original for directory in partition.directories):
            return None
        return sum(directory.rows for directory in partition.directories)

    def _sizes(self) -> dict[str | None, tuple[int, int]]:
        """Return a dict from partition to a pair (number of files, number of bytes)."""
        if self.bound.table.is_transactional:
            return {
                partition.name: (
                    sum(directory.files for directory in partition.directories),
                    sum(directory.size_bytes for directory in partition.directories),
                )
                for partition in self.bound.partitions
            }
        with self.context.services.files_of_root(self.cluster) as files:
            return self._listed_sizes(files)

    def _listed_sizes(self, files: ClusterFiles) -> dict[str | None, tuple[int, int]]:
        table = self.bound.table
        copy = table.storage.on(self.cluster.name) or table.storage.primary
        on_primary = self.cluster.name == table.storage.primary.cluster
        copies = self.bound.copies.get(self.cluster.name, {})
        found: dict[str | None, tuple[int, int]] = {}
        below: dict[str, list[int]] | None = None
        for partition in self.bound.partitions:
            location = partition.location if on_primary else copies[partition.name]
            if partition.name is not None and location == f"{copy.location}/{partition.name}":
                if below is None:
                    # One listing for all directories below the table.
                    below = defaultdict(list)
                    depth = len(table.partition_keys)
                    for name, size in files.list_files(copy.location).items():
                        below["/".join(name.split("/")[:depth])].append(size)
                sizes = below.get(partition.name, [])
            else:
                sizes = list(files.list_files(location).values())
            found[partition.name] = (len(sizes), sum(sizes))
        return found

    def _counted(
        self, partitions: Sequence[BoundPartition], columns: Sequence[Column], *, total: bool
    ) -> dict[str | None, tuple[int, Mapping[str, ColumnStatistics]]]:
        """Run one job. Return a dict from partition (None: the table) to its row count and column statistics."""
        table = self.bound.table
        bound = replace(self.bound, partitions=tuple(partitions))
        view = f"{self.running.tag}_0"
        plan = planning.plan_job(
            self.context,
            self.running,
            self.cluster,
            [planning.scan(bound, self.cluster, view)],
            sql=_query(table, columns, view, total=total),
        )
        keys = len(table.partition_keys)
        # A partition without rows is not among the groups.
        nothing: list[object] = [0] * sum(1 + _answers(column) for column in columns)
        found = {each.name if table.is_partitioned else None: self._answer(columns, 0, nothing) for each in partitions}
        if total:
            found[None] = self._answer(columns, 0, nothing)
        for row in self.context.run(self.cluster, plan).rows:
            of_table, values, rest = row[0], row[1 : keys + 1], row[keys + 1 :]
            name = None if of_table else name_of(table, values)  # type: ignore[arg-type]
            found[name] = self._answer(columns, int(str(rest[0])), rest[1:])
        return found

    def _answer(
        self, columns: Sequence[Column], rows: int, values: Sequence[object]
    ) -> tuple[int, Mapping[str, ColumnStatistics]]:
        found = {}
        for column in columns:
            count, answers, values = values[0], values[1 : 1 + _answers(column)], values[1 + _answers(column) :]
            found[column.in_files] = replace(
                _column_statistics(column, rows, int(str(count)), answers),
                valid_write_ids=self._snapshot(),
                computed_ms=self.context.services.clock(),
            )
        return rows, found


def _query(table: Table, columns: Sequence[Column], view: str, *, total: bool) -> str:
    """Return a query with one result row for each partition that has rows. ``total`` adds a row for the whole table.

    The columns of the result are: whether this is the row of the table; the values of the partition as texts; the
    number of rows; the statistics of each column.
    """
    keys = [_quoted(key.name) for key in table.partition_keys]
    answers = ["count(*)"]
    for column in columns:
        kind = statistics_kind(column.parsed_type)
        assert kind is not None
        name = _quoted(column.name)
        answers += [f"count({name})", _QUESTIONS[kind].format(name)]
    if not keys:
        return f"SELECT true, {', '.join(answers)} FROM {view}"  # noqa: S608 - names are quoted
    of_table = "grouping_id() <> 0" if total else "false"
    texts = [f"CAST({key} AS STRING)" for key in keys]
    groups = f"GROUPING SETS (({', '.join(keys)}), ())" if total else ", ".join(keys)
    return f"SELECT {', '.join([of_table, *texts, *answers])} FROM {view} GROUP BY {groups}"  # noqa: S608


def _answers(column: Column) -> int:
    """Return how many result columns the statistics of a column take. The count of its values is not included."""
    kind = statistics_kind(column.parsed_type)
    return 3 if kind in (StatisticsKind.ORDERED, StatisticsKind.TEXT) else 2


def _column_statistics(column: Column, rows: int, count: int, answers: Sequence[object]) -> ColumnStatistics:
    nulls = rows - count
    numbers = [0 if answer is None else answer for answer in answers]
    match statistics_kind(column.parsed_type):
        case StatisticsKind.BOOLEAN:
            return ColumnStatistics(nulls, num_true=int(str(numbers[0])), num_false=int(str(numbers[1])))
        case StatisticsKind.ORDERED:
            low, high = (None if answer is None or not count else str(answer) for answer in answers[1:])
            return ColumnStatistics(nulls, _distinct(answers[0], count), low, high)
        case StatisticsKind.TEXT:
            average, longest = numbers[1:]
            return ColumnStatistics(
                nulls, _distinct(answers[0], count), average_length=float(str(average)), longest=int(str(longest))
            )
    return ColumnStatistics(nulls, average_length=float(str(numbers[0])), longest=int(str(numbers[1])))


def _distinct(estimate: object, count: int) -> int:
    # An estimate may exceed the number of values.
    return min(int(str(estimate)), count)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_OF_TABLE = {"numrows": "num_rows", "numfiles": "num_files", "totalsize": "total_size"}
# Hive stores this number; we have no such statistic.
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
    """Store statistics that the statement gives. DESCRIBE shows them, but never as exact for the current rows.

    If the table or partition has no statistics yet, its size is first counted, as by ANALYZE ... NOSCAN.

    Raises:
        InvalidOperationError: the object is a view, or a number is not valid for the table or column.
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
    """Return a dict from field name to value for the given statistics.

    Raises:
        InvalidOperationError: a name is not a statistic of this table or column, or its value is not valid.
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
    """Return a given statistic in the form in which ANALYZE stores it, or None if the text is not a valid value."""
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
