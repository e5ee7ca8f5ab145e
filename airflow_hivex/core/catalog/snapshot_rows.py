"""Snapshots of named tables: transactions, write id lists, versions and tables, all read at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    ScalarSelect,
    String,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    null,
    select,
    union_all,
)

from airflow_hivex.core.catalog.table_rows import SELECT_SECONDARIES, SELECT_TABLES
from airflow_hivex.core.model.snapshots import History, QualifiedName
from airflow_hivex.core.model.write_ids import MAX_ID, TableMark, ValidTxnList, ValidWriteIdList
from airflow_hivex.core.snapshots import valid_lists
from airflow_hivex.core.snapshots.valid_lists import (
    HIGHEST,
    IS_ABORTED,
    IS_OPEN,
    LAST,
    MAPPED,
    as_text,
    ids_where,
    valid_txns_of,
    with_later,
    write_id_lists,
)
from airflow_hivex.core.store.exchange import Call, Prepared, Value, together
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    counters,
    databases,
    next_write_ids,
    tables,
    txn_to_write_id,
    txns,
)

# Kinds of rows, next to those of write_id_lists.
_TXNS, _TABLE = 3, 4
_HIGH_WATERMARK = bindparam("high_watermark", type_=BigInteger)
_IsWanted: TypeAlias = Callable[[ColumnElement[int]], ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """A snapshot from the rows of :func:`snapshot_call`, as one transaction sees it.

    ``committed`` has the write id lists of a reader without a transaction. ``history`` shows whether the database was
    restored from a backup.
    """

    valid_txns: ValidTxnList
    marks: Mapping[QualifiedName, TableMark]
    write_ids: Mapping[int, ValidWriteIdList]
    committed: Mapping[int, ValidWriteIdList]
    history: History


def snapshot_call(names: Collection[QualifiedName], txn_id: int | None) -> Call:
    """Return the query that takes a snapshot. :func:`read_snapshot` reads its rows.

    The query reads transactions and write ids as of one moment.
    """
    # The statement sees no transaction above the one that was opened last.
    return _snapshot(_size(names))(**_values(names), high_watermark=MAX_ID if txn_id is None else txn_id)


def read_lists(
    connection: Connection, full_name: str, table_id: int, txn_id: int | None
) -> tuple[ValidTxnList, ValidWriteIdList]:
    """Return the snapshot of a transaction, or the current one, and a table's write id list in it. One round trip."""
    (rows,) = together(connection, lists_call(table_id, txn_id))
    return lists_from(rows, full_name, table_id, txn_id)


def lists_call(table_id: int, txn_id: int | None) -> Call:
    """Return the query whose rows :func:`lists_from` reads. The query works for a dropped table, too."""
    return _LISTS(table_id=table_id, high_watermark=MAX_ID if txn_id is None else txn_id)


def lists_from(
    rows: Sequence[Any], full_name: str, table_id: int, txn_id: int | None
) -> tuple[ValidTxnList, ValidWriteIdList]:
    """Return the result of :func:`read_lists` from the rows of :func:`lists_call`."""
    (last,) = (row for row in rows if row.kind == _TXNS)
    write_ids = [(row.kind, row.table_id, row.first, row.second) for row in rows if row.kind != _TXNS]
    valid_txns = valid_txns_of(last.number, last.first, last.second, txn_id)
    return valid_txns, write_id_lists({table_id: full_name}, write_ids, valid_txns)[table_id]


def table_calls(names: Collection[QualifiedName]) -> tuple[Call, Call]:
    """Return the query for the named tables, and the query for their secondary copies."""
    found, secondaries = _tables(_size(names))
    values = _values(names)
    return found(**values), secondaries(**values)


def read_snapshot(rows: Sequence[Any], txn_id: int | None) -> SnapshotRows:
    """Return a transaction's snapshot, or the current one if ``txn_id`` is None, from rows of :func:`snapshot_call`."""
    marks: dict[QualifiedName, TableMark] = {}
    write_ids: list[tuple[int, int, str, str]] = []
    (last,) = (row for row in rows if row.kind == _TXNS)
    for row in rows:
        if row.kind == _TABLE:
            marks[row.first, row.second] = TableMark(row.table_id, row.number)
        elif row.kind != _TXNS:
            write_ids.append((row.kind, row.table_id, row.first, row.second))
    valid_txns = valid_txns_of(last.number, last.first, last.second, txn_id)
    names = {mark.id: ".".join(name) for name, mark in marks.items()}
    by_id = {mark.id: mark for mark in marks.values()}
    lists = write_id_lists(names, write_ids, valid_txns, by_id)
    history = History(last.table_id or 0, last.number)
    if txn_id is None or not any(kind == MAPPED for kind, *_ in write_ids):
        return SnapshotRows(valid_txns, marks, lists, lists, history)
    of_now = valid_txns_of(last.number, last.first, last.second, None)
    later = write_id_lists(names, with_later(write_ids), of_now, by_id)
    return SnapshotRows(valid_txns, marks, lists, later, history)


def _size(names: Collection[QualifiedName]) -> int:
    """Return the number of name parameters in the query: the next power of two, so that few different queries exist."""
    return 0 if not names else 1 << (len(names) - 1).bit_length()


def _values(names: Collection[QualifiedName]) -> dict[str, Value]:
    """Return the parameters of the query. The last name is repeated to fill all name parameters."""
    given = list(names)
    padded = given + given[-1:] * (_size(names) - len(given))
    values: dict[str, Value] = {}
    for number, (database, name) in enumerate(padded):
        values |= {f"database_{number}": database, f"name_{number}": name}
    return values


def _wanted_of(size: int) -> _IsWanted:
    """Return the SQL condition that a table has one of the names. Each name is an index look-up."""
    return lambda column: column.in_([_id_of(number) for number in range(size)])


def _id_of(number: int) -> ScalarSelect[int]:
    named, holding = tables.alias(f"named_{number}"), databases.alias(f"holding_{number}")
    return (
        select(named.c.id)
        .join(holding, holding.c.id == named.c.database_id)
        .where(
            holding.c.name == bindparam(f"database_{number}", type_=String),
            named.c.name == bindparam(f"name_{number}", type_=String),
            ~named.c.dropped,
        )
        .scalar_subquery()
    )


@cache
def _snapshot(size: int) -> Prepared:
    if not size:
        return Prepared(_transactions())
    is_wanted = _wanted_of(size)
    marks: Any = (
        select(_kind(_TABLE), tables.c.id, tables.c.version, databases.c.name, tables.c.name)
        .join(databases, databases.c.id == tables.c.database_id)
        .where(is_wanted(tables.c.id))
    )
    whole: CompoundSelect[Any] = union_all(_transactions(), marks, *_lists_where(is_wanted))
    return Prepared(whole)


def _transactions() -> Any:
    return select(
        _kind(_TXNS).label("kind"),
        valid_lists.incarnation().label("table_id"),
        counters.c.value.label("number"),
        ids_where(IS_OPEN).label("first"),
        ids_where(IS_ABORTED).label("second"),
    ).where(counters.c.name == literal_column("'txn'"))


def _lists_where(is_wanted: _IsWanted) -> list[Any]:
    """Return the queries for the write ids of the tables that satisfy a condition on their ids."""
    no_id, no_text = cast(null(), BigInteger), literal_column("''", Text)
    mapping = txn_to_write_id.c
    of_tables = is_wanted(mapping.table_id)
    mapped = select(_kind(MAPPED), mapping.table_id, no_id, as_text(mapping.txn_id), as_text(mapping.write_id))
    unsettled = mapped.join(txns, txns.c.id == mapping.txn_id).group_by(mapping.table_id)
    return [
        select(_kind(LAST), next_write_ids.c.table_id, no_id, no_text, cast(next_write_ids.c.next - 1, Text)).where(
            is_wanted(next_write_ids.c.table_id)
        ),
        select(_kind(HIGHEST), mapping.table_id, no_id, no_text, cast(func.max(mapping.write_id), Text))
        .where(of_tables, mapping.txn_id <= _HIGH_WATERMARK)
        .group_by(mapping.table_id),
        mapped.where(of_tables, mapping.txn_id > _HIGH_WATERMARK).group_by(mapping.table_id),
        *(unsettled.where(of_tables, state) for state in (IS_OPEN, IS_ABORTED)),
    ]


def _kind(number: int) -> ColumnElement[int]:
    return literal_column(str(number), Integer)


@cache
def _tables(size: int) -> tuple[Prepared, Prepared]:
    return (
        Prepared(SELECT_TABLES.where(_wanted_of(size)(tables.c.id))),
        Prepared(SELECT_SECONDARIES.where(_wanted_of(size)(cluster_storage_descriptors.c.table_id))),
    )


_LISTS = Prepared(
    union_all(_transactions(), *_lists_where(lambda column: column == bindparam("table_id", type_=BigInteger)))
)
