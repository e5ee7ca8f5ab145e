"""Finding the partitions that a predicate leaves, in the database where it can say so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select

from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, partition_values
from airflow_hivex.core.model.predicates import (
    And,
    Comparison,
    In,
    Predicate,
    Truth,
    Value,
    columns_of,
    evaluate,
    typed,
)
from airflow_hivex.core.store.schema import partition_key_values, partitions

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
# More values than this in one IN list are filtered here instead.
_MOST_VALUES = 1000


class FoundPartition(NamedTuple):
    """A row of ``partitions``, without what a query does not need."""

    id: int
    name: str
    location: str


def find_partitions(
    connection: Connection, table: Table, predicate: Predicate | None = None
) -> Sequence[FoundPartition]:
    """The partitions whose rows may satisfy ``predicate``, by id. One round trip.

    Equality and IN on any key are index look-ups; all other predicates are decided here over
    the names that are left.
    """
    conditions: list[ColumnElement[bool]] = []
    residual: list[Predicate] = []
    for conjunct in _conjuncts(predicate):
        condition = _condition(table, conjunct)
        if condition is None:
            residual.append(conjunct)
        else:
            conditions.append(condition)
    query = (
        select(partitions.c.id, partitions.c.name, partitions.c.location)
        .where(partitions.c.table_id == table.id, ~partitions.c.dropped, *conditions)
        .order_by(partitions.c.id)
    )
    rows = [FoundPartition(*row) for row in connection.execute(query)]
    if not residual:
        return rows
    return matching(rows, table.partition_keys, And(tuple(residual)))


def partition_predicate(filters: Iterable[Predicate], keys: Sequence[Column]) -> Predicate | None:
    """Those of a table reference's filters that read nothing but partition keys, as one predicate."""
    names = {key.name.lower() for key in keys}
    usable = []
    for conjunct in filters:
        columns = columns_of(conjunct)
        if columns and all(column.name.lower() in names for column in columns):
            usable.append(conjunct)
    return And(tuple(usable)) if usable else None


def _conjuncts(predicate: Predicate | None) -> Iterable[Predicate]:
    if predicate is None:
        return
    if isinstance(predicate, And):
        for operand in predicate.operands:
            yield from _conjuncts(operand)
    else:
        yield predicate


def _condition(table: Table, predicate: Predicate) -> ColumnElement[bool] | None:
    match predicate:
        case Comparison(column, "=", value):
            values: tuple[Value, ...] = (value,)
        case In(column, values):
            pass
        case _:
            return None
    found = [(i, key) for i, key in enumerate(table.partition_keys) if key.name.lower() == column.name.lower()]
    if not found or len(values) > _MOST_VALUES:
        return None
    position, key = found[0]
    texts = [_stored_text(value, key.type) for value in values if value is not None]
    if not all(text is not None for text in texts):
        return None
    lookup = partition_key_values.c
    return partitions.c.id.in_(
        select(lookup.partition_id).where(
            lookup.table_id == table.id, lookup.position == position, lookup.value.in_(texts)
        )
    )


def _stored_text(value: Value, type: str) -> str | None:
    """The one text under which ``value`` is stored in a key of ``type``, or None if there may be others."""
    if isinstance(value, bool):
        return str(value).lower() if type == "boolean" else None
    if isinstance(value, int):
        return str(value) if type in _INTEGERS else None
    if isinstance(value, str):
        # NULL and the empty string share one stored value.
        return value if type == "string" and value not in ("", DEFAULT_PARTITION) else None
    if type == "date" and isinstance(value, date):
        return value.isoformat()
    return None


def matching(
    rows: Sequence[FoundPartition], keys: Sequence[Column], predicate: Predicate | None
) -> Sequence[FoundPartition]:
    """Those of the partitions whose rows may satisfy ``predicate``, decided by their names."""
    if predicate is None:
        return rows
    known: list[dict[str, Value | None]] = [{} for _ in keys]
    kept = []
    for row in rows:
        values: dict[str, Value] = {}
        for key, text, cache in zip(keys, partition_values(row.name), known, strict=True):
            if text not in cache:
                try:
                    cache[text] = typed(None if text == DEFAULT_PARTITION else text, key.type)
                except ValueError:
                    continue
            values[key.name.lower()] = cache[text]
        if evaluate(predicate, values) in (Truth.YES, Truth.MAYBE):
            kept.append(row)
    return kept
