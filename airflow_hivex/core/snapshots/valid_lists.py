"""Snapshots: the transactions, and the write ids of tables, that a reader sees as committed.

The functions of this module take part in the caller's database transaction. Source: docs/reference/snapshots.md,
"Making a snapshot" (Hive TxnHandler.getOpenTxns, createValidReadTxnList, getValidWriteIdsForTable).
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Connection,
    Integer,
    ScalarSelect,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    union_all,
    update,
)

from airflow_hivex.core.model.snapshots import Moment
from airflow_hivex.core.model.write_ids import TableMark, ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.batches import PreparedForIds
from airflow_hivex.core.store.exchange import Rows, later
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    copied_moments,
    counters,
    next_write_ids,
    txn_to_write_id,
    txns,
)

# Written out, so that both databases use the index of unsettled transactions. PostgreSQL derives the second half from
# the first; SQLite uses a partial index only for a query with its condition.
_IS_UNSETTLED = txns.c.state != literal_column("'c'")
IS_OPEN = and_(txns.c.state == literal_column("'o'"), _IS_UNSETTLED)
IS_ABORTED = and_(txns.c.state == literal_column("'a'"), _IS_UNSETTLED)


# More exceptions are looked up as a range of transaction ids instead of one by one.
_MOST_EXCEPTIONS = 1000


_MAPPING = txn_to_write_id.c
_OF_TABLES = _MAPPING.table_id.in_(bindparam("ids", expanding=True))


def as_text(ids: ColumnElement[int]) -> ColumnElement[str]:
    """Return the SQL expression that joins ids into one text, which is read faster than many rows."""
    # SQLite cannot prepare a statement with a bound separator.
    separator: Any = literal_column("','")
    return func.aggregate_strings(cast(ids, Text), separator)


def ids_where(condition: ColumnElement[bool]) -> ScalarSelect[str]:
    """Return the subquery for the ids of the transactions that satisfy a condition, joined into one text."""
    return select(as_text(txns.c.id)).where(condition).scalar_subquery()


VALID_TXNS = select(counters.c.value, ids_where(IS_OPEN), ids_where(IS_ABORTED)).where(
    counters.c.name == literal_column("'txn'")
)
"""The query for the last allocated id, and the ids of open and of aborted transactions, for :func:`valid_txns_of`."""
_HIGH_WATERMARK = bindparam("high_watermark", type_=BigInteger)
# Per table, by kind: the last write id handed out; the highest one of a transaction up to the snapshot's
# own mark, since write ids are handed out in the order of demand; and those that may be invalid, with their
# transactions. Where all mappings were purged, nothing above the last id is open.
LAST, HIGHEST, MAPPED = range(3)
_LAST, _HIGHEST, _MAPPED = (literal_column(str(kind), Integer).label("kind") for kind in (LAST, HIGHEST, MAPPED))
_NO_TXNS = literal_column("''", Text)
_MARKS = [
    select(_LAST, next_write_ids.c.table_id, _NO_TXNS, cast(next_write_ids.c.next - 1, Text)).where(
        next_write_ids.c.table_id.in_(bindparam("ids", expanding=True))
    ),
    select(_HIGHEST, _MAPPING.table_id, _NO_TXNS, cast(func.max(_MAPPING.write_id), Text))
    .where(_OF_TABLES, _MAPPING.txn_id <= _HIGH_WATERMARK)
    .group_by(_MAPPING.table_id),
]
# Two aggregates of one query take its rows in the same order.
_ALL_MAPPED = (
    select(_MAPPED, _MAPPING.table_id, as_text(_MAPPING.txn_id), as_text(_MAPPING.write_id))
    .where(_OF_TABLES)
    .group_by(_MAPPING.table_id)
)
_ABOVE = _ALL_MAPPED.where(_MAPPING.txn_id > bindparam("bound", type_=BigInteger))
_OF_TXNS = _ALL_MAPPED.where(_MAPPING.txn_id.in_(bindparam("txn_ids", expanding=True)))
_WRITE_IDS = union_all(*_MARKS, _ABOVE)
_WRITE_IDS_WITH_EXCEPTIONS = union_all(*_MARKS, _ABOVE, _OF_TXNS)


_OPEN, _ABORTED = 1, 2


def _lists_of(ids: Sequence[BindParameter[int]]) -> CompoundSelect[Any]:
    def mapped(kind: int, state: ColumnElement[bool]) -> Select[Any]:
        # Found by the few rows of the tables, for any number of transactions.
        is_unsettled = select(txns.c.id).where(txns.c.id == _MAPPING.txn_id, state).exists()
        own = select(_MAPPING.table_id).where(_MAPPING.txn_id.in_(ids))
        return (
            select(literal_column(str(kind), Integer), _MAPPING.table_id, as_text(_MAPPING.write_id))
            .where(_MAPPING.table_id.in_(own), _MAPPING.txn_id.not_in(ids), is_unsettled)
            .group_by(_MAPPING.table_id)
        )

    own = select(_MAPPING.table_id).where(_MAPPING.txn_id.in_(ids))
    last = select(_LAST, next_write_ids.c.table_id, cast(next_write_ids.c.next - 1, Text)).where(
        next_write_ids.c.table_id.in_(own)
    )
    return union_all(last, mapped(_OPEN, IS_OPEN), mapped(_ABORTED, IS_ABORTED))


LISTS = PreparedForIds(_lists_of)
"""The query whose rows :func:`lists_of_commit` reads: the write ids of the tables to which transactions write."""


def lists_of_commit(rows: Rows, tables: Mapping[int, str]) -> dict[int, ValidWriteIdList]:
    """Return a dict from table id to the table's write id list after a commit.

    ``rows`` are the answer to :data:`LISTS` for the transactions that commit. The write ids of these transactions count
    as committed. ``tables`` is a dict from table id to full name.
    """
    found: dict[tuple[int, int], set[int]] = {(kind, table_id): set(_read_ids(text)) for kind, table_id, text in rows}
    return {
        table_id: _write_id_list(
            name,
            max(found.get((LAST, table_id), {0})),
            found.get((_OPEN, table_id), set()),
            found.get((_ABORTED, table_id), set()),
            None,
        )
        for table_id, name in tables.items()
    }


def read_valid_txns(connection: Connection, txn_id: int | None = None) -> ValidTxnList:
    """Return the current snapshot, or the snapshot of the transaction ``txn_id``.

    A transaction sees its own writes, but no transactions with higher ids.
    """
    last, open_text, aborted_text = connection.execute(VALID_TXNS).one()
    return valid_txns_of(last, open_text, aborted_text, txn_id)


def valid_txns_of(last: int, open_text: str | None, aborted_text: str | None, txn_id: int | None) -> ValidTxnList:
    """Return the snapshot of the transaction ``txn_id``, or the current snapshot if ``txn_id`` is None.

    ``last`` is the last allocated id. ``open_text`` and ``aborted_text`` are the ids of open and of aborted
    transactions, separated by commas.
    """
    high_watermark = last if txn_id is None else min(txn_id, last)
    open_ids, aborted_ids = (
        _without(sorted(_read_ids(text)), high_watermark, txn_id) for text in (open_text, aborted_text)
    )
    # A transaction has one state, so the checks of ValidTxnList.of are not needed.
    return ValidTxnList(high_watermark, open_ids, aborted_ids, open_ids[0] if open_ids else None)


def _read_ids(text: str | None) -> Iterator[int]:
    return map(int, text.split(",") if text else ())


def _without(ids: list[int], high_watermark: int, txn_id: int | None) -> tuple[int, ...]:
    """Return the ids up to the high watermark, without the id ``txn_id``. ``ids`` are sorted."""
    seen = ids[: bisect_right(ids, high_watermark)]
    # Only the newest id can be the reader's own.
    return tuple(seen[:-1] if seen and seen[-1] == txn_id else seen)


def read_valid_write_ids(
    connection: Connection,
    tables: Mapping[int, str],
    valid_txns: ValidTxnList,
    marks: Mapping[int, TableMark] = MappingProxyType({}),
) -> dict[int, ValidWriteIdList]:
    """Return a dict from table id to the table's write id list in a snapshot. The call takes one round trip.

    ``tables`` is a dict from table id to full name. ``marks`` is a dict from table id to the mark (id and version of
    the table) of the table's list.
    """
    if not tables:
        return {}
    rows = connection.execute(write_ids_query(list(tables), valid_txns))
    return write_id_lists(tables, [tuple(row) for row in rows], valid_txns, marks)


def write_ids_query(table_ids: Sequence[int], valid_txns: ValidTxnList) -> CompoundSelect[Any]:
    """Return the query whose rows :func:`write_id_lists` reads."""
    exceptions = valid_txns.exceptions
    values = {"ids": table_ids, "high_watermark": valid_txns.high_watermark, "bound": valid_txns.high_watermark}
    if not exceptions:
        return _WRITE_IDS.params(values)
    if len(exceptions) <= _MOST_EXCEPTIONS:
        return _WRITE_IDS_WITH_EXCEPTIONS.params({**values, "txn_ids": exceptions})
    return _WRITE_IDS.params({**values, "bound": exceptions[0] - 1})


def write_id_lists(
    tables: Mapping[int, str],
    rows: Iterable[tuple[int, int, str, str]],
    valid_txns: ValidTxnList,
    marks: Mapping[int, TableMark] = MappingProxyType({}),
) -> dict[int, ValidWriteIdList]:
    """Return a dict from table id to the table's write id list, made of the rows of :func:`write_ids_query`."""
    last: dict[int, int] = {}
    highest: dict[int, int] = {}
    open_ids: dict[int, set[int]] = defaultdict(set)
    aborted_ids: dict[int, set[int]] = defaultdict(set)
    is_aborted = frozenset(valid_txns.aborted_ids).__contains__
    is_open = frozenset(valid_txns.open_ids).__contains__
    for kind, table_id, txn_ids, write_ids in rows:
        match kind:
            case 0:
                last[table_id] = int(write_ids)
            case 1:
                highest[table_id] = int(write_ids)
            case _:
                mapped = list(zip(_read_ids(txn_ids), _read_ids(write_ids), strict=True))
                aborted = {write_id for txn_id, write_id in mapped if is_aborted(txn_id)}
                aborted_ids[table_id] |= aborted
                if len(aborted) < len(mapped):
                    open_ids[table_id].update(
                        write_id for txn_id, write_id in mapped if txn_id > valid_txns.high_watermark or is_open(txn_id)
                    )
    return {
        table_id: _write_id_list(
            name,
            highest.get(table_id, last.get(table_id, 0)),
            open_ids[table_id],
            aborted_ids[table_id],
            marks.get(table_id),
        )
        for table_id, name in tables.items()
    }


def with_later(rows: Iterable[tuple[int, int, str, str]]) -> Iterator[tuple[int, int, str, str]]:
    """Yield ``rows`` of a transaction's snapshot, and then, for each table, a row with the high watermark to use.

    This high watermark is the highest write id in the rows, also of transactions that began after the snapshot.
    """
    highest: dict[int, int] = {}
    for row in rows:
        yield row
        kind, table_id, _, write_ids = row
        if kind == HIGHEST:
            highest[table_id] = max(highest.get(table_id, 0), int(write_ids))
        elif kind == MAPPED:
            highest[table_id] = max(highest.get(table_id, 0), *_read_ids(write_ids))
    # The last row of a kind counts.
    for table_id, write_id in highest.items():
        yield HIGHEST, table_id, "", str(write_id)


def _write_id_list(
    name: str, high_watermark: int, open_ids: set[int], aborted_ids: set[int], mark: TableMark | None
) -> ValidWriteIdList:
    opened, aborted = (_without(sorted(ids), high_watermark, None) for ids in (open_ids, aborted_ids))
    return ValidWriteIdList(high_watermark, opened, aborted, opened[0] if opened else None, name, mark)


_IS_OURS = counters.c.name == literal_column("'incarnation'")


def incarnation() -> ScalarSelect[int]:
    """Return the subquery for the metastore's incarnation, a number that each restore from a backup changes.

    The incarnation is NULL before the first restore. After a restore, the ids of lost changes are used again, so a
    cache is valid only in the incarnation in which it was filled.
    """
    return select(cast(counters.c.value, BigInteger)).where(_IS_OURS).scalar_subquery()


def begin_incarnation(connection: Connection) -> None:
    """Give the metastore another incarnation, in the caller's database transaction."""
    number = secrets.randbits(62) + 1
    if not connection.execute(update(counters).where(_IS_OURS).values(value=number)).rowcount:
        later(connection, insert(counters).values(name="incarnation", value=number))


def keep_moment(connection: Connection, moment: Moment) -> int:
    """Store the moment of a replication, and return its id."""
    values = {"taken_ms": moment.taken_ms, "valid_txns": str(moment.valid_txns)}
    return int(connection.execute(insert(copied_moments).values(**values).returning(copied_moments.c.id)).scalar_one())


def purge_moments(connection: Connection) -> int:
    """Remove the moments to which no copy refers, and return their number."""
    used = select(cluster_storage_descriptors.c.moment_id).where(cluster_storage_descriptors.c.moment_id.is_not(None))
    return connection.execute(delete(copied_moments).where(copied_moments.c.id.not_in(used))).rowcount
