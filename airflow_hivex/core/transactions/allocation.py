"""Write ids: handed out, seeded, and what is noted of the data written under them.

Functions here take part in the caller's transaction. Source: ``hive-semantics`` 2.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, insert, select, update

from airflow_hivex.core.errors import InvalidTransactionRequestError, NoSuchObjectError, TransactionNotOpenError
from airflow_hivex.core.model.transactions import Operation, TxnState, TxnType
from airflow_hivex.core.model.write_ids import MAX_ID
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import counters, next_write_ids, txn_components, txn_to_write_id, txns


def check_writable(connection: Connection, txn_ids: Sequence[int]) -> None:
    """See to it that transactions are open and not read-only, and stay so until the caller's transaction ends.

    Raises:
        TransactionNotOpenError: one of them is not, or there is none at all.
    """
    writable: set[int] = set()
    for batch in batches([txn_id for txn_id in txn_ids if is_id(txn_id)]):
        # The row lock keeps a reaper from aborting the transaction between this and the allocation.
        writable |= set(
            connection.execute(
                select(txns.c.id)
                .where(
                    txns.c.id.in_(batch),
                    txns.c.state == TxnState.OPEN.value,
                    txns.c.type != TxnType.READ_ONLY.value,
                )
                .order_by(txns.c.id)
                .with_for_update(read=True)
            ).scalars()
        )
    refused = [txn_id for txn_id in txn_ids if txn_id not in writable]
    if refused or not txn_ids:
        raise TransactionNotOpenError(refused, "write ids need transactions that are open and not read-only")


def allocate(
    connection: Connection,
    txn_ids: Sequence[int],
    table_id: int,
    *,
    operation: Operation | None = None,
    partition: str | None = None,
    reallocate: bool = False,
) -> dict[int, int]:
    """The write id of each of these distinct, sorted transactions for a table; see ``TransactionManager``."""
    mapping = txn_to_write_id.c
    allocated: dict[int, int] = {}
    for batch in batches(txn_ids):
        of_batch = (mapping.table_id == table_id, mapping.txn_id.in_(batch))
        if reallocate:
            connection.execute(delete(txn_to_write_id).where(*of_batch))
            continue
        found = connection.execute(select(mapping.txn_id, mapping.write_id).where(*of_batch))
        allocated |= {row.txn_id: row.write_id for row in found}
    new = [txn_id for txn_id in txn_ids if txn_id not in allocated]
    if new:
        following = connection.execute(
            update(next_write_ids)
            .where(next_write_ids.c.table_id == table_id)
            .values(next=next_write_ids.c.next + len(new))
            .returning(next_write_ids.c.next)
        ).scalar_one_or_none()
        if following is None:
            raise NoSuchObjectError(f"The table with id {table_id} was dropped; it gives no write ids any more.")
        first = following - len(new)
        rows = [{"table_id": table_id, "txn_id": txn_id, "write_id": first + i} for i, txn_id in enumerate(new)]
        connection.execute(insert(txn_to_write_id), rows)
        allocated |= {row["txn_id"]: row["write_id"] for row in rows}
    if operation is not None:
        rows_of_components = [
            {
                "txn_id": txn_id,
                "table_id": table_id,
                "partition": partition,
                "operation": operation.value,
                "write_id": allocated[txn_id],
            }
            for txn_id in txn_ids
        ]
        connection.execute(insert(txn_components), rows_of_components)
    return {txn_id: allocated[txn_id] for txn_id in txn_ids}


def add_dynamic_partitions(
    connection: Connection, txn_id: int, table_id: int, partitions: Sequence[str], operation: Operation
) -> None:
    """Note the partitions that were written, in place of the note that some would be. Two round trips."""
    components = txn_components.c
    connection.execute(
        delete(txn_components).where(
            components.txn_id == txn_id, components.table_id == table_id, components.partition.is_(None)
        )
    )
    write_id = connection.execute(
        select(txn_to_write_id.c.write_id).where(
            txn_to_write_id.c.table_id == table_id, txn_to_write_id.c.txn_id == txn_id
        )
    ).scalar_one_or_none()
    rows = [
        {
            "txn_id": txn_id,
            "table_id": table_id,
            "partition": partition,
            "operation": operation.value,
            "write_id": write_id,
        }
        for partition in dict.fromkeys(partitions)
    ]
    for batch in batches(rows):
        connection.execute(insert(txn_components), batch)


def replace_components(
    connection: Connection, txn_id: int, written: Collection[tuple[int, str | None, Operation]]
) -> None:
    """Let a transaction's components be exactly these: table id, partition (None: the whole table), operation."""
    connection.execute(delete(txn_components).where(txn_components.c.txn_id == txn_id))
    rows = [
        {"txn_id": txn_id, "table_id": table_id, "partition": partition, "operation": operation.value}
        for table_id, partition, operation in sorted(written, key=str)
    ]
    for batch in batches(rows):
        connection.execute(insert(txn_components), batch)


def seed_write_ids(connection: Connection, table_id: int, name: str, next_write_id: int) -> None:
    """Let the write ids of a table go on from ``next_write_id``.

    Raises:
        InvalidTransactionRequestError: that id, or a higher one, was handed out already.
    """
    raised = is_id(next_write_id) and connection.execute(
        update(next_write_ids)
        .where(next_write_ids.c.table_id == table_id, next_write_ids.c.next <= next_write_id)
        .values(next=next_write_id)
    )
    if not raised or not raised.rowcount:
        raise InvalidTransactionRequestError(
            f"Write ids of {name} cannot go on from {next_write_id}: that id, or a higher one, is taken."
        )


def seed_txn_ids(connection: Connection, next_txn_id: int) -> None:
    """Let transaction ids go on from ``next_txn_id``.

    Raises:
        InvalidTransactionRequestError: that id, or a higher one, was handed out already.
    """
    raised = is_id(next_txn_id) and connection.execute(
        update(counters).where(counters.c.name == "txn", counters.c.value < next_txn_id).values(value=next_txn_id - 1)
    )
    if not raised or not raised.rowcount:
        raise InvalidTransactionRequestError(
            f"Transaction ids cannot go on from {next_txn_id}: that id, or a higher one, is taken."
        )


def is_id(value: object) -> bool:
    """Whether a value is a number that an id can have: the database takes no others."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_ID
