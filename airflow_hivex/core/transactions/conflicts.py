"""Write conflicts between transactions, and the commits since a snapshot.

If two transactions that overlap in time update the same data, only the first commit succeeds.

The functions run in the database transaction of the caller. Source: docs/reference/transactions.md, "Write conflicts".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    String,
    Text,
    bindparam,
    cast,
    delete,
    insert,
    literal_column,
    null,
    or_,
    select,
    union_all,
)

from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.store.batches import PreparedForIds, batches
from airflow_hivex.core.store.exchange import Call, Prepared, Rows, joined
from airflow_hivex.core.store.schema import (
    completed_txn_components,
    counters,
    databases,
    next_write_ids,
    tables,
    txn_components,
    txn_to_write_id,
    txns,
    write_set,
)

_UPDATES = (Operation.UPDATE.value, Operation.DELETE.value)
_WRITES = (Operation.INSERT.value, *_UPDATES)


_TXN_ID = bindparam("txn_id", type_=BigInteger)
_TABLE_ID = bindparam("table_id", type_=BigInteger)
_WRITE_IDS = select(next_write_ids.c.table_id).where(next_write_ids.c.table_id == _TABLE_ID)
_LOCK_WRITE_IDS = Prepared(_WRITE_IDS.with_for_update(), skipped_on_sqlite=True)
_SHARE_WRITE_IDS = Prepared(_WRITE_IDS.with_for_update(read=True), skipped_on_sqlite=True)
_HOLD_TABLE = Prepared(
    select(tables.c.id).where(tables.c.id == _TABLE_ID, ~tables.c.dropped).with_for_update(read=True),
    skipped_on_sqlite=True,
)
_OF_TXN_IDS = counters.c.name == literal_column("'txn'")
_IS_UPDATE = txn_components.c.operation.in_([literal_column(f"'{letter}'") for letter in _UPDATES])
_UPDATED = select(txn_components.c.table_id).where(txn_components.c.txn_id == _TXN_ID, _IS_UPDATE)
_LOCK_UPDATED = Prepared(
    select(next_write_ids.c.table_id)
    .where(next_write_ids.c.table_id.in_(_UPDATED))
    .order_by(next_write_ids.c.table_id)
    .with_for_update(),
    skipped_on_sqlite=True,
)
_OTHERS = Prepared(
    select(
        write_set.c.table_id,
        write_set.c.partition,
        write_set.c.txn_id,
        write_set.c.commit_id,
        write_set.c.operation,
        select(counters.c.value).where(_OF_TXN_IDS).scalar_subquery(),
    )
    .where(write_set.c.table_id.in_(_UPDATED), write_set.c.commit_id >= _TXN_ID, write_set.c.txn_id != _TXN_ID)
    .order_by(write_set.c.table_id, write_set.c.commit_id, write_set.c.id)
)
_RECORD = Prepared(
    insert(write_set).from_select(
        ["table_id", "partition", "txn_id", "commit_id", "operation"],
        select(
            _TABLE_ID,
            bindparam("partition", type_=Text),
            _TXN_ID,
            counters.c.value,
            bindparam("operation", type_=String),
        )
        .where(_OF_TXN_IDS)
        .with_for_update(read=True),
    )
)
_COMPLETE = Prepared(
    insert(completed_txn_components)
    .values(
        {
            column: bindparam(column.name, type_=column.type)
            for column in completed_txn_components.c
            if column.name != "id"
        }
    )
    .inline()
)
_DELETE_COMPONENTS = PreparedForIds(lambda ids: delete(txn_components).where(txn_components.c.txn_id.in_(ids)))


class ConflictFoundError(Exception):
    """Error: a commit has found a write conflict, and is rolled back.

    The caller then aborts the transaction with ``sentence`` as the reason.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a transaction to a table or partition.

    ``operation`` is None if the transaction has a write id of the table, but no component for the table.
    """

    table_id: int
    database: str
    table: str
    partition: str | None
    operation: str | None
    write_id: int | None

    @property
    def full_name(self) -> str:
        """Return ``database.table``."""
        return f"{self.database}.{self.table}"

    @property
    def updates(self) -> bool:
        """Return whether the write updates or deletes rows."""
        return self.operation in _UPDATES

    @property
    def resource(self) -> str:
        """Return ``database/table/partition`` or ``database/table``, as in Hive's messages."""
        return "/".join(part for part in (self.database, self.table, self.partition) if part is not None)


def _writes_of(txn_ids: Sequence[BindParameter[int]]) -> Select[Any]:
    parts = union_all(
        select(
            txn_components.c.txn_id,
            txn_components.c.table_id,
            txn_components.c.partition,
            txn_components.c.operation,
            cast(null(), BigInteger).label("write_id"),
        ).where(txn_components.c.txn_id.in_(txn_ids)),
        select(
            txn_to_write_id.c.txn_id,
            txn_to_write_id.c.table_id,
            cast(null(), Text),
            cast(null(), String),
            txn_to_write_id.c.write_id,
        ).where(txn_to_write_id.c.txn_id.in_(txn_ids)),
    ).subquery()
    return (
        select(
            parts.c.txn_id,
            parts.c.table_id,
            databases.c.name,
            tables.c.name,
            parts.c.partition,
            parts.c.operation,
            parts.c.write_id,
        )
        .select_from(parts)
        .join(tables, tables.c.id == parts.c.table_id)
        .join(databases, databases.c.id == tables.c.database_id)
    )


WRITES = PreparedForIds(_writes_of)
"""The query for the components and write ids of transactions. :func:`writes_from` reads its rows."""


def writes_from(rows: Rows) -> dict[int, list[Write]]:
    """Return a dict from transaction id to the distinct writes of the transaction, read from rows of :data:`WRITES`."""
    write_ids = {
        (txn_id, table_id): write_id for txn_id, table_id, _, _, _, operation, write_id in rows if not operation
    }
    found: dict[int, dict[Write, None]] = defaultdict(dict)
    for txn_id, table_id, database, table, partition, operation, _ in rows:
        write = Write(table_id, database, table, partition, operation, write_ids.get((txn_id, table_id)))
        found[txn_id][write] = None
    return {txn_id: list(writes) for txn_id, writes in found.items()}


def finding_conflicts(txn_id: int) -> tuple[Call, Call]:
    """Return the calls that look for conflicts of a transaction; :func:`conflict_from` reads the second answer.

    Until the caller's database transaction ends, no other transaction that updates the same tables can commit.
    """
    return _LOCK_UPDATED(txn_id=txn_id), _OTHERS(txn_id=txn_id)


def conflict_from(others: Rows, txn_id: int, written: Sequence[Write]) -> str | None:
    """Return Hive's message about the first conflict with another transaction, or None without a conflict.

    ``others`` are the rows of :func:`finding_conflicts`.
    """
    own: dict[int, dict[str | None, Write]] = defaultdict(dict)
    for write in written:
        if write.updates:
            own[write.table_id][write.partition] = write
    for table_id, partition, other_id, commit_id, operation, highest in others:
        mine = _overlapping(own[table_id], partition)
        if mine is not None:
            return (
                f"Aborting [txnid:{txn_id},{highest}] due to a write conflict on {mine.resource} "
                f"committed by [txnid:{other_id},{commit_id}] {mine.operation}/{operation}"
            )
    return None


def one_after_the_other(connection: Connection, tables: Mapping[int, bool]) -> None:
    """Block commits of other transactions to tables until the caller's database transaction ends.

    ``tables`` is a dict from table id to a bool: whether the caller updates or deletes rows of the table. True blocks
    the commits of all writers of the table. False blocks only commits that update or delete rows of the table. Changes
    and drops of the tables are blocked, too.
    """
    calls: list[Call] = []
    for table_id in sorted(tables):
        # The row of the table is locked before its write ids, as in every change or drop of a table.
        calls.append(_HOLD_TABLE(table_id=table_id))
        # The rows that :func:`finding_conflicts` locks, in its order.
        calls.append((_LOCK_WRITE_IDS if tables[table_id] else _SHARE_WRITE_IDS)(table_id=table_id))
    if calls:
        joined(connection).later(*calls)


def would_conflict(connection: Connection, txn_id: int, resources: Collection[tuple[int, str | None]]) -> bool:
    """Return whether a commit would find a conflict if the transaction had updated the ``resources``.

    A resource is (table id, partition). The partition None stands for the whole table.
    """
    own: dict[int, set[str | None]] = defaultdict(set)
    for table_id, partition in resources:
        own[table_id].add(partition)
    sets = write_set.c
    return any(
        row.partition is None or None in own[row.table_id] or row.partition in own[row.table_id]
        for batch in batches(sorted(own))
        for row in connection.execute(
            select(sets.table_id, sets.partition)
            .where(sets.table_id.in_(batch), sets.commit_id >= txn_id, sets.txn_id != txn_id)
            .distinct()
        )
    )


def _overlapping(own: Mapping[str | None, Write], partition: str | None) -> Write | None:
    """Return the write in ``own`` that conflicts with a write to ``partition``, or None without a conflict.

    The partition None means that the written partitions are unknown. So None conflicts with every partition. In Hive,
    None conflicts only with None.
    """
    if partition is None:
        return next(iter(own.values()), None)
    return own.get(partition) or own.get(None)


def recording_write_set(txn_id: int, written: Iterable[Write]) -> list[Call]:
    """Return the calls that record the updates and deletes of a committing transaction in the table of write sets.

    The calls block the opening of transactions until the caller's database transaction ends. So each transaction with
    an id above the commit id sees the commit. Source: Hive's TXN_LOCK_TBL.
    """
    return [
        _RECORD(table_id=write.table_id, partition=write.partition, txn_id=txn_id, operation=write.operation)
        for write in written
        if write.updates
    ]


def completing(txn_id: int, written: Iterable[Write], now_ms: int) -> list[Call]:
    """Return the calls that record the writes of a committing transaction, one row for each table or partition."""
    updates: dict[tuple[int, str | None, int | None], bool] = {}
    for write in written:
        if write.operation in _WRITES:
            resource = (write.table_id, write.partition, write.write_id)
            updates[resource] = updates.get(resource, False) or write.updates
    return [
        _COMPLETE(
            txn_id=txn_id,
            table_id=table_id,
            partition=partition,
            write_id=write_id,
            updates=updated,
            committed_ms=now_ms,
        )
        for (table_id, partition, write_id), updated in updates.items()
    ]


def forgetting_components(txn_ids: Sequence[int]) -> Iterator[Call]:
    """Yield the calls that remove the components of transactions."""
    return _DELETE_COMPONENTS.batched(txn_ids)


def written_since(
    connection: Connection, table_ids: Mapping[int, str], valid_txns: ValidTxnList, *, updates_only: bool
) -> frozenset[str]:
    """Return the names of the tables with commits that the snapshot does not see.

    ``table_ids`` is a dict from table id to name. With ``updates_only`` commits that only insert rows do not count.
    """
    mapping = txn_to_write_id.c
    query = (
        select(mapping.table_id, mapping.txn_id)
        .outerjoin(txns, txns.c.id == mapping.txn_id)
        # The row of a committed transaction may be purged already, that of any other transaction never is.
        .where(or_(txns.c.state.is_(None), txns.c.state == TxnState.COMMITTED.value))
        .where(mapping.table_id.in_(list(table_ids)), _unseen(valid_txns))
    )
    if updates_only:
        completed = completed_txn_components.c
        query = query.where(
            select(completed.id)
            .where(completed.table_id == mapping.table_id, completed.txn_id == mapping.txn_id, completed.updates)
            .exists()
        )
    return frozenset(
        table_ids[table_id]
        for table_id, txn_id in connection.execute(query)
        if not valid_txns.is_valid(txn_id) and not valid_txns.is_aborted(txn_id)
    )


def _unseen(valid_txns: ValidTxnList) -> ColumnElement[bool]:
    """Return a condition that is true for all write ids of transactions that had not ended in the snapshot.

    The condition can also be true for other write ids.
    """
    lowest = valid_txns.min_open
    txn_id = txn_to_write_id.c.txn_id
    if lowest is None:
        return txn_id > valid_txns.high_watermark
    return txn_id >= lowest
