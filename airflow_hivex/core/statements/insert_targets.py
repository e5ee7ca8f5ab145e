"""The target of an INSERT, compared with the table."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_hivex.core.catalog.partitions import name_of, stored_values
from airflow_hivex.core.catalog.specifications import check_partitioned
from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
)
from airflow_hivex.core.model.objects import Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION
from airflow_hivex.core.model.statements import Insert


def check_insert(statement: Insert, target: Table) -> dict[str, str | None]:
    """Return the static partition values as stored (None for NULL), after the statement was held against the table."""
    if target.not_written:
        raise InvalidOperationError("INSERT", target.full_name, target.not_written)
    keys = {key.name.lower(): key for key in target.partition_keys}
    if statement.partition:
        check_partitioned("INSERT with PARTITION", target)
    for name in statement.partition:
        if name not in keys:
            raise NoSuchColumnError(target.full_name, f"{name} among its partition keys", list(keys))
    if statement.partition and set(statement.partition) != set(keys):
        missing = ", ".join(key for key in keys if key not in statement.partition)
        raise InvalidObjectError("partition", f"of {target.full_name}", f"the PARTITION clause lacks {missing}")
    dynamic = [name for name in keys if name not in statement.static]
    static_names = list(keys)[: len(statement.static)]
    if set(static_names) != set(statement.static):
        raise InvalidObjectError(
            "partition",
            f"of {target.full_name}",
            f"dynamic key {dynamic[0]} stands before a static one; give values to the leading keys",
        )
    static_keys = [keys[name] for name in static_names]
    values = stored_values(target.full_name, static_keys, [statement.static[name].value for name in static_names])  # type: ignore[misc]
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
    missing = [name for name in dynamic if name not in given]
    if missing:
        raise InvalidOperationError(
            "INSERT with a column list", target.full_name, f"the list lacks partition key {missing[0]}"
        )


def static_partition(target: Table, static: Mapping[str, str | None]) -> str | None:
    """Return the name of the one partition that is written, if the statement names it wholly."""
    if not target.is_partitioned or len(static) != len(target.partition_keys):
        return None
    return name_of(target, [static[key.name.lower()] for key in target.partition_keys])
