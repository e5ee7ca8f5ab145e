"""Reads of tables by pyarrow in this process, without Spark. A read has a snapshot, locks and a route like a SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hivex.core.arrow.conditions import Condition
from airflow_hivex.core.arrow.scanning import ArrowScan
from airflow_hivex.core.arrow.typed_values import TypedValues
from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.execution import planning
from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.routing import chosen_cluster, route
from airflow_hivex.core.execution.statement_transactions import commit_kept, commit_own, in_transaction
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.expressions import ColumnReference
from airflow_hivex.core.model.predicates import And, Comparison, In, IsNull, Not, Or, Predicate
from airflow_hivex.core.parser.queries.conditions import read_condition
from airflow_hivex.core.parser.statements import Select

Filter: TypeAlias = "str | pc.Expression | Sequence[Any] | None"
"""A condition in SQL, a pyarrow expression, or a list of tests such as ``[("year", "=", 2013)]``.

A row must pass all tests of a list. For a list of lists, a row must pass all tests of at least one inner list.
"""

_SIGNS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def read_table(
    context: StatementContext, statement: Select, columns: Sequence[str] | None, filter: Filter, threads: int | None
) -> pa.Table:
    """Return the rows of a query on one table, as a table of pyarrow. Locks are held until all rows are read."""
    predicate, expression = _read_filter(filter, context.parameters)

    def work(running: Running) -> pa.Table:
        query = _filtered(statement, predicate)
        scan, cluster = _scan(context, running, query, columns, predicate, expression, threads)
        batches = []
        for batch in _batches(context, scan, cluster):
            running.check_not_cancelled()
            batches.append(batch)
        commit_own(context, running)
        return pa.Table.from_batches(batches, scan.schema)

    return in_transaction(context, work, read_only=True)


def read_batches(
    context: StatementContext, statement: Select, columns: Sequence[str] | None, filter: Filter, threads: int | None
) -> pa.RecordBatchReader:
    """Return the rows of a query on one table as a stream of batches.

    The stream can be read after the locks have ended, because the cleaner keeps the files until the snapshot expires.
    """
    predicate, expression = _read_filter(filter, context.parameters)

    def work(running: Running) -> tuple[ArrowScan, Cluster]:
        query = _filtered(statement, predicate)
        return _scan(context, running, query, columns, predicate, expression, threads, keep=True)

    scan, cluster = in_transaction(context, work, read_only=True)
    return pa.RecordBatchReader.from_batches(scan.schema, _batches(context, scan, cluster))


def _batches(context: StatementContext, scan: ArrowScan, cluster: Cluster) -> Iterator[pa.RecordBatch]:
    with context.services.files_of_root(cluster):
        yield from scan.batches()


def _scan(
    context: StatementContext,
    running: Running,
    statement: Select,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
    expression: pc.Expression | None,
    threads: int | None,
    *,
    keep: bool = False,
) -> tuple[ArrowScan, Cluster]:
    routed = route(context, statement, running, runs_job=False)
    cluster = chosen_cluster(context, routed)
    (bound,) = routed.bound
    by_name = {column.name.lower(): column for column in (*bound.table.columns, *bound.table.partition_keys)}
    table = bound.table.full_name
    values = TypedValues(planning.configuration_of(context, cluster), table)
    condition = None if predicate is None else Condition(predicate, by_name, table, values)
    # One name stands for a list with this name.
    columns = [columns] if isinstance(columns, str) else columns
    found = ArrowScan(planning.scan(bound, cluster, running.tag), values, columns, condition, expression, threads)
    if keep:
        commit_kept(context, running, [bound.table])
    return found, cluster


def _filtered(statement: Select, predicate: Predicate | None) -> Select:
    """Return the query with ``predicate`` as its filter, by which partitions are pruned.

    If ``predicate`` is None, the query is unchanged.
    """
    if predicate is None:
        return statement
    (reference,) = statement.query.references
    return replace(statement, query=replace(statement.query, references=(replace(reference, filters=(predicate,)),)))


def _read_filter(filter: Filter, parameters: Mapping[str, object]) -> tuple[Predicate | None, pc.Expression | None]:
    """Return a filter as a pair (predicate, pyarrow expression). At least one of the two is None.

    Raises:
        StatementSyntaxError, UnsupportedStatementError: the text is not a condition, or needs Spark.
        InvalidParametersError: the filter is not of a type that :data:`Filter` allows.
    """
    if filter is None:
        return None, None
    if isinstance(filter, str):
        return read_condition(filter, parameters or None), None
    if isinstance(filter, pc.Expression):
        return None, filter
    if isinstance(filter, Sequence) and filter:
        if all(isinstance(each, tuple) for each in filter):
            return And(tuple(_test(each) for each in filter)), None
        if all(isinstance(each, list) and each for each in filter):
            return Or(tuple(And(tuple(_test(test) for test in each)) for each in filter)), None
    raise InvalidParametersError(
        f"{filter!r} is not a valid filter; give a condition in SQL, an expression of pyarrow.compute, or a list of "
        "tuples such as [('year', '=', 2013)]."
    )


def _test(test: Any) -> Predicate:
    if isinstance(test, tuple) and len(test) == 3 and isinstance(test[0], str) and isinstance(test[1], str):
        column, sign, value = ColumnReference(test[0]), test[1].lower(), test[2]
        if sign in _SIGNS:
            return Comparison(column, _SIGNS[sign], value)
        if sign in ("in", "not in") and isinstance(value, (list, tuple, set, frozenset)):
            found = In(column, tuple(value))
            return found if sign == "in" else Not(found)
        if sign in ("is", "is not") and value is None:
            return IsNull(column) if sign == "is" else Not(IsNull(column))
    raise InvalidParametersError(
        f"{test!r} is not a valid test of a filter; give (column, sign, value) with one of the signs "
        f"{', '.join([*_SIGNS, 'in', 'not in'])}."
    )
