"""SHOW PARTITIONS: the partitions of a table or link, perhaps with a condition and an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_hivex.core.catalog.specifications import typed_specification
from airflow_hivex.core.commands.links import as_link, linked
from airflow_hivex.core.commands.partition_definitions import covered_partitions
from airflow_hivex.core.errors import InvalidOperationError, NoSuchColumnError
from airflow_hivex.core.execution.context import Result, StatementContext
from airflow_hivex.core.model.objects import SortColumn, Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, partition_values
from airflow_hivex.core.model.predicates import PaddedText, Predicate, Truth, Value, columns_in, evaluate, typed
from airflow_hivex.core.parser.statements import ShowPartitions

_SHOW = "SHOW PARTITIONS"


def show_partitions(context: StatementContext, statement: ShowPartitions) -> Result:
    """SHOW PARTITIONS: one name a row.

    Raises:
        InvalidOperationError: the table has no partition keys, or a condition is undecidable from partition keys.
        NoSuchColumnError: a column is not a partition key.
    """
    table, names = _all(context, statement)
    if statement.condition is not None:
        _check_keys(table, [column.name for column in columns_in(statement.condition)])
        names = _of_condition(table, names, statement.condition)
    if statement.order_by:
        _check_keys(table, [column.name for column in statement.order_by])
        names = _ordered(table, names, statement.order_by)
    return Result(["partition"], [(each,) for each in names[: statement.limit]])


def _all(context: StatementContext, statement: ShowPartitions) -> tuple[Table, Sequence[str]]:
    """Return the table, and the names of its partitions that the PARTITION clause covers."""
    if statement.table.namespace is not None:
        link, source = linked(context, statement.table)
        exact = None
        if statement.specification is not None:
            exact = typed_specification(_SHOW, as_link(source, link), statement.specification)
        shown = context.services.links.partitions(link.name.database, link.name.in_database, exact)
        return as_link(source, link), shown
    catalog = context.services.catalog
    table = catalog.get_table(*context.session.qualify(statement.table))
    if statement.specification is not None:
        return table, covered_partitions(context, _SHOW, table, statement.specification)
    return table, catalog.list_partition_names(table.database, table.name)


def _check_keys(table: Table, columns: Sequence[str]) -> None:
    keys = [key.name.lower() for key in table.partition_keys]
    for column in columns:
        if column.lower() not in keys:
            raise NoSuchColumnError(table.full_name, f"{column} among its partition keys", keys)


def _of_condition(table: Table, names: Sequence[str], condition: Predicate) -> list[str]:
    types = {key.name.lower(): key.parsed_type for key in table.partition_keys}
    found = []
    for name in names:
        answer = evaluate(condition, _values(table, name), types)
        if answer is Truth.MAYBE:
            reason = f"its condition cannot be decided for partition {name}; compare keys with constants of their types"
            raise InvalidOperationError(_SHOW, table.full_name, reason)
        if answer is Truth.YES:
            found.append(name)
    return found


def _ordered(table: Table, names: Sequence[str], order_by: Sequence[SortColumn]) -> list[str]:
    """Return names in the order of their values; NULL comes before all other values, as in Spark."""
    values = {name: _values(table, name) for name in names}
    ordered = list(names)
    # The last column is sorted first: each later sort keeps the order of equal values.
    for column in reversed(order_by):
        ordered.sort(key=lambda name: _place(values[name].get(column.name)), reverse=not column.ascending)
    return ordered


def _place(value: Value) -> tuple[bool, object]:
    if value is None:
        return False, 0
    return True, value.rstrip(" ") if isinstance(value, PaddedText) else value


def _values(table: Table, name: str) -> Mapping[str, Value]:
    """Return the values of a partition by key, without values that are not of their key's type."""
    found: dict[str, Value] = {}
    for key, text in zip(table.partition_keys, partition_values(name), strict=True):
        try:
            found[key.name.lower()] = typed(None if text == DEFAULT_PARTITION else text, key.parsed_type)
        except ValueError:
            continue
    return found
