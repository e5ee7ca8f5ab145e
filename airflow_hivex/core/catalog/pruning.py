"""Finding the partitions that a predicate leaves, in the database where it can say so."""

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
# More values than this in one IN list are filtered here instead.
_MOST_VALUES = 1000
# More conditions than this are filtered here, too: SQLite takes expressions up to a depth of 1000.
_MOST_CONDITIONS = 100


class FoundPartition(NamedTuple):
    """A row of ``partitions``, without what a query does not need."""

    id: int
    name: str
    location: str
    storage_descriptor_id: int | None = None


def find_partitions(
    connection: Connection, table: Table, predicate: Predicate | None = None
) -> Sequence[FoundPartition]:
    """Return the partitions whose rows may satisfy ``predicate``, by id. One round trip.

    Equality and IN on any key are index look-ups. Ranges of texts and dates, and LIKE with a fixed
    beginning, are asked of the database, too; whatever it cannot decide for certain is decided here
    over the names that are left.
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
    """Return the conditions of a predicate that the database decides, and what is decided over the names it finds."""
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

    One round trip where there are storage descriptors of their own, else none.

    Raises:
        InvalidOperationError: a scan of the table cannot read one of them, and a write of it would have other files.
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
    # Hive writes it to every table, and it means something for some text files only.
    return {name: value for name, value in parameters.items() if name != "serialization.format"}


def partition_predicate(filters: Iterable[Predicate], keys: Sequence[Column]) -> Predicate | None:
    """Return the conditions on partition keys in a table reference's filters, without those on other columns.

    None for nothing.
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
    """Return the position of the key that an equality or IN is about, and the stored values that satisfy it."""
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
    """Return a condition that every partition meets whose rows may satisfy the predicate; NULL never does."""
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
    # By code points, as Spark compares texts; the database's own order may be that of a language.
    stored = partition_key_values.c.value.collate(collation)
    # Days after the year 9999 begin with a sign.
    conditions = [] if low is None else [or_(stored >= low, stored < "0") if is_date else stored >= low]
    conditions += [] if high is None else [stored <= high]
    return _with_value(table, position, and_(*conditions))


def _ordered_text(table: Table, column: ColumnReference, value: Value, *, of_dates: bool = True) -> str | None:
    """Return the text that is among the stored values of a key where ``value`` is among the values, None if none is."""
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
    """Return the smallest text that sorts after every text with this prefix, or None if no text does."""
    code = ord(beginning[-1]) + 1
    if code > sys.maxunicode:
        return None
    # Half of a surrogate pair is not a character.
    return beginning[:-1] + chr(0xE000 if 0xD800 <= code < 0xE000 else code)


def _is_storable(text: str) -> bool:
    """Return whether the databases can be asked for it; no partition has a value that they cannot hold."""
    return "\0" not in text and not any("\ud800" <= character < "\ue000" for character in text)


def _with_value(table: Table, position: int, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    lookup = partition_key_values.c
    return partitions.c.id.in_(
        select(lookup.partition_id).where(lookup.table_id == table.id, lookup.position == position, condition)
    )


def _key(table: Table, column: ColumnReference) -> int | None:
    """Return the position of a partition key."""
    names = [key.name.lower() for key in table.partition_keys]
    return names.index(column.name.lower()) if column.name.lower() in names else None


def _stored_text(value: Value, type: ColumnType) -> str | None:
    """Return the one text under which ``value`` is stored in a key of ``type``, or None if there may be others."""
    if isinstance(value, bool):
        return str(value).lower() if type == _BOOLEAN else None
    if isinstance(value, int):
        return str(value) if isinstance(type, Primitive) and type.family is Family.WHOLE else None
    if isinstance(value, str):
        # NULL and the empty string share one stored value.
        held = type == _STRING and value not in ("", DEFAULT_PARTITION) and _is_storable(value)
        return value if held else None
    # A time of a day is a date to Python.
    if type == _DATE and isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return None


class _Named(Protocol):
    """Something that has the name of a partition."""

    @property
    def name(self) -> str:
        """Return the name."""
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
    """Return the partitions whose rows may satisfy ``predicate``, decided by their values.

    ``values_of`` returns the values of one as they are stored; without it they are read from the name.
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
    # Many partitions share a key's value; whatever is asked of it alone is asked once.
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
    """Return, for each partition key, those of its ``distinct`` stored values that a predicate of it alone allows.

    None where the predicate asks nothing of the key alone. Partitions of these values are then :func:`matching`'s.
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
    """Return the stored values that an equality or IN is satisfied by, None for other predicates."""
    found = _looked_up(table, predicate)
    return None if found is None else found[1]


class _KeyTest:
    """Tests the values of one partition key against the conditions on that key alone, by the stored text of a value."""

    def __init__(self, key: Column, predicate: And) -> None:
        self._name = key.name.lower()
        self._type = key.parsed_type
        self._predicate = predicate
        self._known: dict[str, tuple[bool, Sequence[tuple[str, Value]]]] = {}

    def of(self, text: str) -> tuple[bool, Sequence[tuple[str, Value]]]:
        """Return the answer, and the key's name with its value; without them where Python has no such value.

        Spark has days before the year 1 and after the year 9999.
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
