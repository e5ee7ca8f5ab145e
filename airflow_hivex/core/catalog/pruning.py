"""The search for the partitions that can match a predicate. The database decides as much of the predicate as it can."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive
from airflow_hivex.core.model.objects import Column, Table
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION, partition_values
from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    In,
    Like,
    Predicate,
    Truth,
    Value,
    columns_in,
    evaluate,
    fixed_beginning,
    known_by,
    restricts,
    typed,
)
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import partition_key_values, partitions, storage_descriptors

_STRING, _DATE, _BOOLEAN = Primitive("string"), Primitive("date"), Primitive("boolean")
# An IN list with more values is decided by this module instead of the database.
_MOST_VALUES = 1000
# More conditions are decided by this module, too: SQLite takes expressions up to a depth of 1000.
_MOST_CONDITIONS = 100


class FoundPartition(NamedTuple):
    """A partition that a query has found, with the columns that a read of its files needs."""

    id: int
    name: str
    location: str
    storage_descriptor_id: int | None = None


def find_partitions(
    connection: Connection, table: Table, predicate: Predicate | None = None
) -> Sequence[FoundPartition]:
    """Return the partitions whose rows can satisfy ``predicate``, sorted by id. One round trip.

    The database decides equality and IN by index look-ups. It also decides ranges of texts and dates, and LIKE with a
    fixed beginning. Python then checks the other conditions, by the names of the partitions that the database has
    found.
    """
    conditions, residual = database_conditions(connection, table, predicate)
    query = (
        select(partitions.c.id, partitions.c.name, partitions.c.location, partitions.c.storage_descriptor_id)
        .where(partitions.c.table_id == table.id, ~partitions.c.dropped, *conditions)
        .order_by(partitions.c.id)
    )
    rows = [FoundPartition(*row) for row in connection.execute(query).all()]
    if not residual:
        return rows
    return matching(rows, table.partition_keys, And(tuple(residual)))


def database_conditions(
    connection: Connection, table: Table, predicate: Predicate | None
) -> tuple[list[ColumnElement[bool]], list[Predicate]]:
    """Return the SQL conditions that the database can decide, and the other conditions, which Python must check."""
    conditions: list[ColumnElement[bool]] = []
    residual: list[Predicate] = []
    for conjunct in _conjuncts(predicate):
        if len(conditions) >= _MOST_CONDITIONS:
            residual.append(conjunct)
            continue
        looked_up = _condition(table, conjunct)
        if looked_up is not None:
            conditions.append(looked_up)
            continue
        residual.append(conjunct)
        bounded = _bounds(table, conjunct, "C" if connection.dialect.name == "postgresql" else "BINARY")
        if bounded is not None:
            conditions.append(bounded)
    return conditions, residual


def check_stored_alike(
    connection: Connection, table: Table, found: Iterable[FoundPartition], operation: str = "SELECT"
) -> None:
    """Refuse partitions whose own storage descriptor has another format than their table.

    The check takes one round trip if partitions have their own storage descriptors, otherwise none.

    Raises:
        InvalidOperationError: a partition has another format. A scan cannot read it, and a write would mix formats.
    """
    names = {each.storage_descriptor_id: each.name for each in found if each.storage_descriptor_id is not None}
    storage = storage_descriptors.c
    wanted = (table.storage.format, _reading_options(table.storage.serde_parameters))
    for batch in batches(list(names)):
        query = select(storage.id, storage.format, storage.serde_parameters).where(storage.id.in_(batch))
        for row in connection.execute(query):
            if (row.format, _reading_options(row.serde_parameters)) != wanted:
                reason = (
                    f"partition {names[row.id]} is stored as {row.format} with options of its own, and the table as "
                    f"{table.storage.format}"
                    + ("; exclude the partition by a condition" if operation == "SELECT" else "")
                )
                raise InvalidOperationError(operation, table.full_name, reason)


def _reading_options(parameters: Mapping[str, str]) -> dict[str, str]:
    # Hive writes this parameter to every table, and it has a meaning only for some text files.
    return {name: value for name, value in parameters.items() if name != "serialization.format"}


def partition_predicate(filters: Iterable[Predicate], keys: Sequence[Column]) -> Predicate | None:
    """Return the conditions on partition keys in a query's filters, as one predicate.

    Conditions on other columns are left out. If no condition remains, the result is None.
    """
    names = {key.name.lower() for key in keys}
    usable = [known for known in (known_by(conjunct, names) for conjunct in filters) if restricts(known)]
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
    found = _looked_up(table, predicate)
    if found is None:
        return None
    position, texts = found
    return _with_value(table, position, partition_key_values.c.value.in_(texts))


def _looked_up(table: Table, predicate: Predicate) -> tuple[int, list[str]] | None:
    """Return the position of the key and the matching stored values for an equality or IN.

    Return None for other predicates, or if the stored values cannot be computed from the constants.
    """
    match predicate:
        case Comparison(ColumnReference() as column, "=", value):
            values: tuple[Value, ...] = (value,)
        case In(ColumnReference() as column, values):
            pass
        case _:
            return None
    key = _key(table, column)
    if key is None or len(values) > _MOST_VALUES:
        return None
    texts = [_stored_text(value, table.partition_keys[key].parsed_type) for value in values if value is not None]
    known = [text for text in texts if text is not None]
    return (key, known) if len(known) == len(texts) else None


def _bounds(table: Table, predicate: Predicate, collation: str) -> ColumnElement[bool] | None:
    """Return an SQL condition for a range or LIKE, or None for other predicates.

    The condition is true for every partition whose rows can satisfy the predicate, and false for NULL.
    """
    low: str | None = None
    high: str | None = None
    match predicate:
        case Comparison(ColumnReference() as column, ">" | ">=", value):
            low = _ordered_text(table, column, value)
        case Comparison(ColumnReference() as column, "<" | "<=", value):
            high = _ordered_text(table, column, value)
        case Like(ColumnReference() as column, pattern):
            low = _ordered_text(table, column, fixed_beginning(pattern), of_dates=False) or None
            high = None if low is None else _after(low)
        case _:
            return None
    position = _key(table, column)
    if position is None or (low is None and high is None):
        return None
    is_date = table.partition_keys[position].parsed_type == _DATE
    # Compared by code points, as Spark compares texts; the database's own order may be that of a language.
    stored = partition_key_values.c.value.collate(collation)
    # Days after the year 9999 begin with a sign.
    conditions = [] if low is None else [or_(stored >= low, stored < "0") if is_date else stored >= low]
    conditions += [] if high is None else [stored <= high]
    return _with_value(table, position, and_(*conditions))


def _ordered_text(table: Table, column: ColumnReference, value: Value, *, of_dates: bool = True) -> str | None:
    """Return ``value`` as stored text, or None if the stored texts of this key have another order than its values."""
    position = _key(table, column)
    key_type = None if position is None else table.partition_keys[position].parsed_type
    if key_type == _STRING and isinstance(value, str):
        return value if _is_storable(value) else None
    if key_type == _DATE and of_dates:
        try:
            day = date.fromisoformat(value) if isinstance(value, str) and len(value) == len("2013-01-01") else value
        except ValueError:
            return None
        return day.isoformat() if type(day) is date else None
    return None


def _after(beginning: str) -> str | None:
    """Return the smallest text that sorts after every text with this prefix, or None if there is no such text."""
    code = ord(beginning[-1]) + 1
    if code > sys.maxunicode:
        return None
    # Half of a surrogate pair is not a character.
    return beginning[:-1] + chr(0xE000 if 0xD800 <= code < 0xE000 else code)


def _is_storable(text: str) -> bool:
    """Return whether SQLite and PostgreSQL can store a text. If not, no partition has this value."""
    return "\0" not in text and not any("\ud800" <= character < "\ue000" for character in text)


def _with_value(table: Table, position: int, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    lookup = partition_key_values.c
    return partitions.c.id.in_(
        select(lookup.partition_id).where(lookup.table_id == table.id, lookup.position == position, condition)
    )


def _key(table: Table, column: ColumnReference) -> int | None:
    """Return the position of a column among the partition keys, or None if the column is not a partition key."""
    names = [key.name.lower() for key in table.partition_keys]
    return names.index(column.name.lower()) if column.name.lower() in names else None


def _stored_text(value: Value, type: ColumnType) -> str | None:
    """Return the text under which ``value`` is stored in a key of ``type``, or None if several texts are possible."""
    if isinstance(value, bool):
        return str(value).lower() if type == _BOOLEAN else None
    if isinstance(value, int):
        return str(value) if isinstance(type, Primitive) and type.family is Family.WHOLE else None
    if isinstance(value, str):
        # NULL and the empty string share one stored value.
        held = type == _STRING and value not in ("", DEFAULT_PARTITION) and _is_storable(value)
        return value if held else None
    # Python's ``datetime`` is also a ``date``.
    if type == _DATE and isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return None


class _Named(Protocol):
    """An object with the name of a partition."""

    @property
    def name(self) -> str:
        """Return the name of the partition."""
        ...


_N = TypeVar("_N", bound=_Named)


def _values_of(row: _Named) -> Sequence[str]:
    return partition_values(row.name)


def matching(
    rows: Sequence[_N],
    keys: Sequence[Column],
    predicate: Predicate | None,
    values_of: Callable[[_N], Sequence[str]] = _values_of,
) -> Sequence[_N]:
    """Return the partitions whose rows can satisfy ``predicate``, judged by their partition values.

    ``values_of`` returns the stored values of a partition. By default the values are taken from the partition's name.
    """
    if predicate is None:
        return rows
    names = [key.name.lower() for key in keys]
    alone: list[list[Predicate]] = [[] for _ in keys]
    together: list[Predicate] = []
    for conjunct in _conjuncts(predicate):
        read = {column.name.lower() for column in columns_in(conjunct)}
        own = [position for position, name in enumerate(names) if read == {name}]
        (alone[own[0]] if own else together).append(conjunct)
    # Many partitions share a key's value; conditions on this key alone are evaluated once for each value.
    tests = [_KeyTest(key, And(tuple(conjuncts))) for key, conjuncts in zip(keys, alone, strict=True)]
    types = {key.name.lower(): key.parsed_type for key in keys}
    rest = And(tuple(together))
    kept = []
    for row in rows:
        found = [test.of(text) for test, text in zip(tests, values_of(row), strict=True)]
        if not all(may_fit for may_fit, _ in found):
            continue
        if not together or _may_hold(evaluate(rest, dict(chain.from_iterable(known for _, known in found)), types)):
            kept.append(row)
    return kept


def allowed_values(
    table: Table, predicate: Predicate | None, distinct: Sequence[Collection[str]]
) -> list[set[str] | None]:
    """Return for each partition key the set of stored values that the conditions on this key allow.

    A key without such a condition has None in place of a set. Only conditions on a single key are used;
    :func:`matching` checks the other conditions. ``distinct`` has the existing values of each key.
    """
    names = [key.name.lower() for key in table.partition_keys]
    allowed: list[set[str] | None] = [None] * len(names)
    for conjunct in _conjuncts(predicate):
        read = {column.name.lower() for column in columns_in(conjunct)}
        for position, key in enumerate(table.partition_keys):
            if read != {names[position]}:
                continue
            known = distinct[position]
            texts = _exact_texts(table, conjunct)
            if texts is None:
                test = _KeyTest(key, And((conjunct,)))
                found = {text for text in known if test.of(text)[0]}
            else:
                found = {text for text in texts if text in known}
            before = allowed[position]
            allowed[position] = found if before is None else before & found
    return allowed


def _exact_texts(table: Table, predicate: Predicate) -> list[str] | None:
    """Return the stored values that match an equality or IN, or None if they cannot be computed from the constants."""
    found = _looked_up(table, predicate)
    return None if found is None else found[1]


class _KeyTest:
    """A check of stored values of one partition key by the conditions that use only this key."""

    def __init__(self, key: Column, predicate: And) -> None:
        self._name = key.name.lower()
        self._type = key.parsed_type
        self._predicate = predicate
        self._known: dict[str, tuple[bool, Sequence[tuple[str, Value]]]] = {}

    def of(self, text: str) -> tuple[bool, Sequence[tuple[str, Value]]]:
        """Return a pair: whether the conditions allow a stored value, and a list with (name of the key, typed value).

        The list is empty if Python cannot represent the value, for example a day after the year 9999.
        """
        known = self._known.get(text)
        if known is None:
            try:
                values = [(self._name, typed(None if text == DEFAULT_PARTITION else text, self._type))]
            except ValueError:
                values = []
            answer = evaluate(self._predicate, dict(values), {self._name: self._type})
            known = self._known[text] = _may_hold(answer), values
        return known


def _may_hold(answer: Truth) -> bool:
    return answer in (Truth.YES, Truth.MAYBE)
