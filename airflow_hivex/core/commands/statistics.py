"""ANALYZE: what there is of a table, its partitions and columns, counted in one snapshot."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog.binding import BoundPartition, BoundTable
from airflow_hivex.core.catalog.partitions import name_of
from airflow_hivex.core.catalog.specifications import clause_condition, covered
from airflow_hivex.core.catalog.statistics import store_statistics
from airflow_hivex.core.catalog.table_events import record_statistics_event
from airflow_hivex.core.errors import (
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchPartitionError,
    NoSuchTableError,
)
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statistics import ColumnStatistics, Statistics, StatisticsKind, statistics_kind
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Analyze, AnalyzeTables, Select, TableName

log = logging.getLogger(__name__)

_OPERATION = "ANALYZE TABLE"
# Of one column, after how many values there are.
_QUESTIONS = {
    StatisticsKind.BOOLEAN: "count_if({0}), count_if(NOT {0})",
    StatisticsKind.ORDERED: "approx_count_distinct({0}), CAST(min({0}) AS STRING), CAST(max({0}) AS STRING)",
    StatisticsKind.TEXT: "approx_count_distinct({0}), avg(length({0})), max(length({0}))",
    StatisticsKind.BINARY: "avg(length({0})), max(length({0}))",
}


def run_analyze(context: StatementContext, statement: Analyze) -> Result:
    """ANALYZE TABLE: store the statistics, which DESCRIBE EXTENDED shows; return only the cluster.

    Raises:
        InvalidOperationError: it is a view, has no partitions to name, or a column has no statistics.
        NoSuchColumnError: a column or partition key does not exist.
        NoSuchPartitionError: the PARTITION clause covers none.
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
    """ANALYZE TABLES: each in a transaction of its own; views and tables that are dropped meanwhile are skipped."""
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
    """Return the query that reads what is analyzed, as far as locks, snapshot and routing go."""
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
    """Return the columns that are asked about."""
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
    """One table in one snapshot on one cluster."""

    context: StatementContext
    running: Running
    bound: BoundTable
    cluster: Cluster

    def run(self, columns: Sequence[Column], *, whole: bool, noscan: bool) -> dict[str | None, Statistics]:
        """Return the statistics by partition, and with ``whole`` of the table (None). At most one job."""
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
        """Return the rows of a partition, where they follow from what was written."""
        if not self.bound.table.is_transactional or self.bound.partly_visible:
            return None
        if any(directory.is_delete_delta for directory in partition.directories):
            return None
        # Not every format says in its files how many rows these have.
        if self.bound.table.is_insert_only and any(directory.is_original for directory in partition.directories):
            return None
        return sum(directory.rows for directory in partition.directories)

    def _sizes(self) -> dict[str | None, tuple[int, int]]:
        """Return the number of files, and of their bytes, by partition."""
        if self.bound.table.is_transactional:
            return {
                partition.name: (
                    sum(directory.files for directory in partition.directories),
                    sum(directory.size_bytes for directory in partition.directories),
                )
                for partition in self.bound.partitions
            }
        return self._listed_sizes()

    def _listed_sizes(self) -> dict[str | None, tuple[int, int]]:
        table = self.bound.table
        files = self.context.services.files(self.cluster)
        copy = table.storage.on(self.cluster.name) or table.storage.primary
        on_primary = self.cluster.name == table.storage.primary.cluster
        copies = self.bound.copies.get(self.cluster.name, {})
        found: dict[str | None, tuple[int, int]] = {}
        below: dict[str, list[int]] | None = None
        for partition in self.bound.partitions:
            location = partition.location if on_primary else copies[partition.name]
            if partition.name is not None and location == f"{copy.location}/{partition.name}":
                if below is None:
                    # One listing for all that lie below the table.
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
        """Return counts of rows and columns by partition (None: all of the table), from one job over the partitions."""
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
        # What has no rows at all is not among the groups.
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
    """Return one row for each partition that has rows, and with ``total`` one for the table.

    Whether it is that one, the partition's values as text, the number of rows, the answers of each column.
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
    """Return the number of answers to a column's questions, besides the number of its values."""
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
    # An estimate may be above what there is.
    return min(int(str(estimate)), count)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
