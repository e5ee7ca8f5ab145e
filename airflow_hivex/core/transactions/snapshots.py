"""Snapshots: which transactions and which write ids of a table are committed for a reader.

Functions here read in the caller's connection. Source: docs/reference/snapshots.md, "Making a snapshot"
(Hive TxnHandler.getOpenTxns, createValidReadTxnList, getValidWriteIdsForTable).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    union_all,
)

from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.schema import counters, next_write_ids, txn_to_write_id, txns
from airflow_hivex.core.transactions.txn_rows import IS_ABORTED, IS_OPEN

# More exceptions than this are looked up as a range of transaction ids instead of one by one.
_MOST_EXCEPTIONS = 1000


_MAPPING = txn_to_write_id.c
_OF_TABLES = _MAPPING.table_id.in_(bindparam("ids", expanding=True))


def _ids_where(condition: ColumnElement[bool]) -> ScalarSelect[str]:
    """The ids of transactions as one text: a row for each would take several times as long to read."""
    return select(func.aggregate_strings(cast(txns.c.id, Text), ",")).where(condition).scalar_subquery()


_VALID_TXNS = select(counters.c.value, _ids_where(IS_OPEN), _ids_where(IS_ABORTED)).where(
    counters.c.name == literal_column("'txn'")
)
_HIGH_WATERMARK = bindparam("high_watermark", type_=BigInteger)
# Per table, by kind: the last write id handed out; the highest one of a transaction up to the snapshot's
# own mark, since write ids are handed out in the order of demand; and those that may be invalid. Where all
# mappings were purged, nothing above the last id is open.
_LAST = literal_column("0", Integer).label("kind")
_HIGHEST = literal_column("1", Integer).label("kind")
_MAPPED = literal_column("2", Integer).label("kind")
_MARKS = [
    select(_LAST, next_write_ids.c.table_id, literal_column("0").label("txn_id"), next_write_ids.c.next - 1).where(
        next_write_ids.c.table_id.in_(bindparam("ids", expanding=True))
    ),
    select(_HIGHEST, _MAPPING.table_id, literal_column("0"), func.max(_MAPPING.write_id))
    .where(_OF_TABLES, _MAPPING.txn_id <= _HIGH_WATERMARK)
    .group_by(_MAPPING.table_id),
]
_ALL_MAPPED = select(_MAPPED, _MAPPING.table_id, _MAPPING.txn_id, _MAPPING.write_id).where(_OF_TABLES)
_ABOVE = _ALL_MAPPED.where(_MAPPING.txn_id > bindparam("bound", type_=BigInteger))
_OF_TXNS = _ALL_MAPPED.where(_MAPPING.txn_id.in_(bindparam("txn_ids", expanding=True)))
_WRITE_IDS = union_all(*_MARKS, _ABOVE)
_WRITE_IDS_WITH_EXCEPTIONS = union_all(*_MARKS, _ABOVE, _OF_TXNS)


def read_valid_txns(connection: Connection, txn_id: int | None = None) -> ValidTxnList:
    """The snapshot of now; with ``txn_id`` that transaction's own: later ids are invisible, its own is valid.

    One statement, so that both databases answer it from one consistent state: an id is handed
    out and its row written in the same database transaction, so none is ever missing between.
    """
    last, *texts = connection.execute(_VALID_TXNS).one()
    high_watermark = last if txn_id is None else min(txn_id, last)
    open_ids, aborted_ids = (
        [seen for seen in map(int, text.split(",") if text else ()) if seen <= high_watermark and seen != txn_id]
        for text in texts
    )
    return ValidTxnList.of(high_watermark, open_ids, aborted_ids)


def read_valid_write_ids(
    connection: Connection, tables: Mapping[int, str], valid_txns: ValidTxnList
) -> dict[int, ValidWriteIdList]:
    """The write id lists of tables (id to full name), by table id. One round trip, whatever the number."""
    ids = list(tables)
    if not ids:
        return {}
    exceptions = valid_txns.exceptions
    values = {"ids": ids, "high_watermark": valid_txns.high_watermark, "bound": valid_txns.high_watermark}
    if not exceptions:
        rows = connection.execute(_WRITE_IDS, values)
    elif len(exceptions) <= _MOST_EXCEPTIONS:
        rows = connection.execute(_WRITE_IDS_WITH_EXCEPTIONS, {**values, "txn_ids": exceptions})
    else:
        rows = connection.execute(_WRITE_IDS, {**values, "bound": exceptions[0] - 1})
    aborted = frozenset(valid_txns.aborted_ids)
    unseen = aborted.union(valid_txns.open_ids)
    last: dict[int, int] = {}
    highest: dict[int, int] = {}
    invalid: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for kind, table_id, txn_id, write_id in rows:
        match kind:
            case 0:
                last[table_id] = int(write_id)
            case 1:
                highest[table_id] = int(write_id)
            case _ if txn_id in unseen or txn_id > valid_txns.high_watermark:
                invalid[table_id].append((txn_id, write_id))
    return {
        table_id: _write_id_list(name, highest.get(table_id, last.get(table_id, 0)), invalid[table_id], aborted)
        for table_id, name in tables.items()
    }


def _write_id_list(
    name: str, high_watermark: int, invalid: list[tuple[int, int]], aborted: Container[int]
) -> ValidWriteIdList:
    seen = [(txn_id, write_id) for txn_id, write_id in invalid if write_id <= high_watermark]
    return ValidWriteIdList.of(
        name,
        high_watermark,
        open_ids=[write_id for txn_id, write_id in seen if txn_id not in aborted],
        aborted_ids=[write_id for txn_id, write_id in seen if txn_id in aborted],
    )
