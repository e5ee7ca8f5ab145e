"""The target of an INSERT, compared with the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_hivex.core.catalog.partitions import name_of, stored_values
from airflow_hivex.core.catalog.specifications import check_partitioned
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
)
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, check_folder_name, partition_name
from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.parser.statements import Insert, Query, TextEdit


def check_insert(statement: Insert, target: Table) -> dict[str, str | None]:
    """Return the static partition values as stored (None for NULL), after a comparison with the table.

    A partition key without a value there is dynamic, whether the PARTITION clause names it or not, and NULL where a
    column list leaves it out.
    """
    if target.not_inserted:
        raise InvalidOperationError("INSERT", target.full_name, target.not_inserted)
    keys = {key.name.lower(): key for key in target.partition_keys}
    if statement.partition:
        check_partitioned("INSERT with PARTITION", target)
    for name in statement.partition:
        if name not in keys:
            raise NoSuchColumnError(target.full_name, f"{name} among its partition keys", list(keys))
    static_names = [name for name in keys if name in statement.static]
    if statement.if_not_exists and len(static_names) < len(keys):
        missing = ", ".join(name for name in keys if name not in statement.static)
        reason = f"IF NOT EXISTS asks for one partition, and the PARTITION clause lacks {missing}"
        raise InvalidObjectError("partition", f"of {target.full_name}", reason)
    dynamic = [name for name in keys if name not in statement.static]
    static_keys = [keys[name] for name in static_names]
    values = stored_values(target.full_name, static_keys, [statement.static[name].value for name in static_names])  # type: ignore[misc]
    check_folder_name(partition_name(static_names, values))
    _check_column_list(statement, target, dynamic)
    return {
        name: None if value == DEFAULT_PARTITION else value for name, value in zip(static_names, values, strict=True)
    }


def _check_column_list(statement: Insert, target: Table, dynamic: list[str]) -> None:
    if statement.columns is None:
        return
    given = [name.lower() for name in statement.columns]
    takes = [column.name.lower() for column in target.columns] + dynamic
    for name in given:
        if name not in takes:
            raise NoSuchColumnError(target.full_name, name, takes)
        if given.count(name) > 1:
            raise ColumnCountMismatchError(target.full_name, len(set(given)), len(given), given)


def static_partition(target: Table, static: Mapping[str, str | None]) -> str | None:
    """Return the name of the one partition that is written, if the statement names it wholly."""
    if not target.is_partitioned or len(static) != len(target.partition_keys):
        return None
    return name_of(target, [static[key.name.lower()] for key in target.partition_keys])


def with_default_values(statement: Insert, query: Query, write: Write) -> Query:
    """Return the query of an INSERT with the values of its columns for each DEFAULT.

    Raises:
        ColumnCountMismatchError: a row has more values than are taken.
    """
    if not statement.defaults:
        return query
    static = {name.lower() for name in write.static}
    takes = [each.name for each in (*write.columns, *write.partition_columns) if each.name.lower() not in static]
    names = list(statement.columns or takes)
    edits = []
    for each in statement.defaults:
        if each.position >= len(names):
            raise ColumnCountMismatchError(write.table, len(names), each.position + 1, names)
        text = write.defaults.get(names[each.position].lower())
        edits.append(TextEdit(each.start, each.end, "NULL" if text is None else f"({text})"))
    values = query.values and query.values.with_expressions({edit.start for edit in edits})
    return replace(query, qualifiers=(*query.qualifiers, *edits), values=values)
