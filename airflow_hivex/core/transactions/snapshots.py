"""Snapshots: which transactions and which write ids of a table are committed for a reader.

Functions here read in the caller's connection. Source: ``hive-semantics`` 1.5
(Hive TxnHandler.getOpenTxns, createValidReadTxnList, getValidWriteIdsForTable).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, bindparam, func, literal_column, select

from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import counters, next_write_ids, txn_to_write_id, txns

# More exceptions than this are looked up as a range of transaction ids instead of one by one.
_MOST_EXCEPTIONS = 1000


_MAPPING = txn_to_write_id.c
_OF_TABLES = _MAPPING.table_id.in_(bindparam("ids", expanding=True))
_UNSETTLED = select(txns.c.id, txns.c.state).where(txns.c.state != literal_column("'c'")).subquery()
_VALID_TXNS = (
    select(counters.c.value, _UNSETTLED.c.id, _UNSETTLED.c.state)
    .select_from(counters.outerjoin(_UNSETTLED, _UNSETTLED.c.id > 0))
    .where(counters.c.name == literal_column("'txn'"))
)
_NEXT = select(next_write_ids.c.table_id, next_write_ids.c.next).where(
    next_write_ids.c.table_id.in_(bindparam("ids", expanding=True))
)
_HIGHEST = (
    select(_MAPPING.table_id, func.max(_MAPPING.write_id))
    .where(_OF_TABLES, _MAPPING.txn_id <= bindparam("high_watermark", type_=BigInteger))
    .group_by(_MAPPING.table_id)
)
_MAPPED = select(_MAPPING.table_id, _MAPPING.txn_id, _MAPPING.write_id).where(_OF_TABLES)
_ABOVE = _MAPPED.where(_MAPPING.txn_id > bindparam("bound", type_=BigInteger))
_OF_TXNS = _MAPPED.where(_MAPPING.txn_id.in_(bindparam("txn_ids", expanding=True)))


def read_valid_txns(connection: Connection, txn_id: int | None = None) -> ValidTxnList:
    """The snapshot of now; with ``txn_id`` that transaction's own: later ids are invisible, its own is valid.

    One statement, so that both databases answer it from one consistent state: an id is handed
    out and its row written in the same database transaction, so none is ever missing between.
    """
    rows = connection.execute(_VALID_TXNS).all()
    high_watermark = int(rows[0].value)
    if txn_id is not None:
        high_watermark = min(txn_id, high_watermark)
    seen = [row for row in rows if row.id is not None and row.id <= high_watermark and row.id != txn_id]
    return ValidTxnList.of(
        high_watermark,
        open_ids=[row.id for row in seen if row.state == TxnState.OPEN.value],
        aborted_ids=[row.id for row in seen if row.state == TxnState.ABORTED.value],
    )


def read_valid_write_ids(
    connection: Connection, tables: Mapping[int, str], valid_txns: ValidTxnList
) -> dict[int, ValidWriteIdList]:
    """The write id lists of tables (id to full name), by table id. Three round trips, whatever the number."""
    ids = list(tables)
    if not ids:
        return {}
    next_ids = {row.table_id: row.next for row in connection.execute(_NEXT, {"ids": ids})}
    marks = _high_watermarks(connection, ids, valid_txns)
    invalid: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for query, values in _invalid_queries(valid_txns):
        for table_id, txn_id, write_id in connection.execute(query, {"ids": ids, **values}):
            if not valid_txns.is_valid(txn_id):
                invalid[table_id].append((txn_id, write_id))
    return {
        table_id: _write_id_list(
            name, marks.get(table_id, next_ids.get(table_id, 1) - 1), invalid[table_id], valid_txns
        )
        for table_id, name in tables.items()
    }


def _high_watermarks(connection: Connection, ids: list[int], valid_txns: ValidTxnList) -> dict[int, int]:
    """Per table, the highest write id of a transaction up to the snapshot's own mark.

    Write ids are handed out in the order of demand, so the highest one need not belong to the
    latest transaction; and where all mappings were purged, nothing above the last id is open.
    """
    rows = connection.execute(_HIGHEST, {"ids": ids, "high_watermark": valid_txns.high_watermark})
    return {table_id: int(write_id) for table_id, write_id in rows}


def _invalid_queries(valid_txns: ValidTxnList) -> list[tuple[Select[Any], dict[str, Any]]]:
    exceptions = valid_txns.exceptions
    if len(exceptions) > _MOST_EXCEPTIONS:
        return [(_ABOVE, {"bound": exceptions[0] - 1})]
    above = (_ABOVE, {"bound": valid_txns.high_watermark})
    return [above, *((_OF_TXNS, {"txn_ids": batch}) for batch in batches(exceptions))]


def _write_id_list(
    name: str, high_watermark: int, invalid: list[tuple[int, int]], valid_txns: ValidTxnList
) -> ValidWriteIdList:
    seen = [(txn_id, write_id) for txn_id, write_id in invalid if write_id <= high_watermark]
    return ValidWriteIdList.of(
        name,
        high_watermark,
        open_ids=[write_id for txn_id, write_id in seen if not valid_txns.is_aborted(txn_id)],
        aborted_ids=[write_id for txn_id, write_id in seen if valid_txns.is_aborted(txn_id)],
    )
