"""First committer wins: write sets, and what was committed since a snapshot. Source: ``hive-semantics`` 2.4.

Functions here take part in the caller's transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, insert, null, or_, select, union_all

from airflow_hivex.core.model.transactions import Operation, TxnState
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.store.batches import batches
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


@dataclass(frozen=True, slots=True)
class Write:
    """What a transaction did to a table or partition; without an operation, only that it has a write id."""

    table_id: int
    database: str
    table: str
    partition: str | None
    operation: str | None
    write_id: int | None

    @property
    def updates(self) -> bool:
        """Whether rows were updated or deleted."""
        return self.operation in _UPDATES

    @property
    def resource(self) -> str:
        """``database/table/partition`` as Hive's messages have it."""
        return "/".join(part for part in (self.database, self.table, self.partition) if part is not None)


def writes_of(connection: Connection, txn_id: int) -> list[Write]:
    """The components and write ids of a transaction, without repetitions. One round trip."""
    components, mapping = txn_components.c, txn_to_write_id.c
    parts = union_all(
        select(components.table_id, components.partition, components.operation, null().label("write_id")).where(
            components.txn_id == txn_id
        ),
        select(mapping.table_id, null(), null(), mapping.write_id).where(mapping.txn_id == txn_id),
    ).subquery()
    rows = connection.execute(
        select(parts, databases.c.name.label("database_name"), tables.c.name.label("table_name"))
        .join(tables, tables.c.id == parts.c.table_id)
        .join(databases, databases.c.id == tables.c.database_id)
    ).all()
    write_ids = {row.table_id: row.write_id for row in rows if row.operation is None}
    found = (
        Write(
            row.table_id,
            row.database_name,
            row.table_name,
            row.partition,
            row.operation,
            write_ids.get(row.table_id),
        )
        for row in rows
    )
    return list(dict.fromkeys(found))


def find_conflict(connection: Connection, txn_id: int, written: Sequence[Write]) -> str | None:
    """Hive's sentence on the first transaction that has won against this one, or None. Two round trips.

    The rows of the tables' write ids are locked until the caller's transaction ends, in the order
    of their ids: of two transactions that commit at once, the second sees the write set of the first.
    """
    updates = [write for write in written if write.updates]
    table_ids = sorted({write.table_id for write in updates})
    for batch in batches(table_ids):
        connection.execute(
            select(next_write_ids.c.table_id)
            .where(next_write_ids.c.table_id.in_(batch))
            .order_by(next_write_ids.c.table_id)
            .with_for_update()
        ).all()
    own: dict[int, dict[str | None, Write]] = defaultdict(dict)
    for write in updates:
        own[write.table_id][write.partition] = write
    sets = write_set.c
    highest = select(counters.c.value).where(counters.c.name == "txn").scalar_subquery()
    for batch in batches(table_ids):
        for row in connection.execute(
            select(write_set, highest.label("highest"))
            .where(sets.table_id.in_(batch), sets.commit_id >= txn_id, sets.txn_id != txn_id)
            .order_by(sets.commit_id, sets.id)
        ):
            mine = _overlapping(own[row.table_id], row.partition)
            if mine is not None:
                return (
                    f"Aborting [txnid:{txn_id},{row.highest}] due to a write conflict on {mine.resource} "
                    f"committed by [txnid:{row.txn_id},{row.commit_id}] {mine.operation}/{row.operation}"
                )
    return None


def would_conflict(connection: Connection, txn_id: int, resources: Collection[tuple[int, str | None]]) -> bool:
    """Whether :func:`find_conflict` would find one for updates of these tables and partitions."""
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
    """The own write that may have changed the same rows.

    No partition stands for the whole table, as long as nobody has said which ones were written;
    Hive takes it for another partition then.
    """
    if partition is None:
        return next(iter(own.values()), None)
    return own.get(partition) or own.get(None)


def record_write_set(connection: Connection, txn_id: int, written: Iterable[Write]) -> None:
    """Note the updates of a transaction that commits. Two round trips.

    No transaction is opened from here until the caller's transaction ends: whoever has an id above
    the commit id sees the commit. Source: Hive's TXN_LOCK_TBL.
    """
    commit_id = connection.execute(
        select(counters.c.value).where(counters.c.name == "txn").with_for_update(read=True)
    ).scalar_one()
    rows = [
        {
            "table_id": write.table_id,
            "partition": write.partition,
            "txn_id": txn_id,
            "commit_id": commit_id,
            "operation": write.operation,
        }
        for write in written
        if write.updates
    ]
    connection.execute(insert(write_set), rows)


def complete(connection: Connection, txn_id: int, written: Iterable[Write], now_ms: int) -> None:
    """Note what a transaction that commits has written, one row a resource. One round trip."""
    resources: dict[tuple[int, str | None], dict[str, object]] = {}
    for write in written:
        if write.operation not in _WRITES:
            continue
        row = resources.setdefault(
            (write.table_id, write.partition),
            {
                "txn_id": txn_id,
                "table_id": write.table_id,
                "partition": write.partition,
                "write_id": write.write_id,
                "updates": False,
                "committed_ms": now_ms,
            },
        )
        row["updates"] = bool(row["updates"]) or write.updates
    if resources:
        connection.execute(insert(completed_txn_components), list(resources.values()))


def written_since(
    connection: Connection, table_ids: Mapping[int, str], valid_txns: ValidTxnList, *, updates_only: bool
) -> frozenset[str]:
    """The names of those tables to which something was committed that the snapshot does not see."""
    mapping = txn_to_write_id.c
    query = (
        select(mapping.table_id, mapping.txn_id)
        .outerjoin(txns, txns.c.id == mapping.txn_id)
        # The rows of committed transactions may be gone already, those of others never are.
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
    """A condition that holds for every transaction that the snapshot had not seen settled, and for some others."""
    lowest = valid_txns.min_open
    txn_id = txn_to_write_id.c.txn_id
    if lowest is None:
        return txn_id > valid_txns.high_watermark
    return txn_id >= lowest
