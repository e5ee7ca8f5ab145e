"""Write ids, as transactions ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.transactions import Operation
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import joined
from airflow_hivex.core.transactions import allocation
from airflow_hivex.core.transactions.allocation import check_id, is_id
from airflow_hivex.core.transactions.table_names import read_table_id
from airflow_hivex.core.transactions.txn_rows import check_open


class WriteIdAllocator:
    """Allocates the write ids of transactions, and notes what they are about to write.

    Methods that take a ``connection`` join the caller's database transaction.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def allocate_write_ids(
        self,
        txn_ids: Sequence[int],
        database: str,
        table: str,
        *,
        operation: Operation | None = None,
        partition: str | None = None,
        reallocate: bool = False,
    ) -> dict[int, int]:
        """Return the write id of each transaction for the table, in transaction id order from 1 upwards.

        Safe to repeat: a transaction that has one gets the same again, unless ``reallocate`` asks
        for a new one, after which the old one stands for nothing. ``operation`` also notes
        that data of that kind is about to be written (``partition`` None: anywhere in the table),
        so that an abort or a kill leaves a trace for the cleaner.

        Raises:
            TransactionNotOpenError: one of them is not open, or is read-only.
            NoSuchTableError: the table does not exist.
        """
        if len(txn_ids) == 1 and is_id(txn_ids[0]) and not reallocate:
            named = (normalise(database), normalise(table))
            write_id = self._store.exchange(
                lambda exchange: allocation.allocate_one(
                    exchange, txn_ids[0], named, operation=operation, partition=partition
                ),
                name="allocate",
            )
            if write_id is not None:
                return {txn_ids[0]: write_id}

        def work(connection: Connection) -> dict[int, int]:
            table_id = read_table_id(connection, database, table)
            return self.allocate_in(
                connection, txn_ids, table_id, operation=operation, partition=partition, reallocate=reallocate
            )

        return self._store.write(work, name="allocate")

    def allocate_in(
        self,
        connection: Connection,
        txn_ids: Sequence[int],
        table_id: int,
        *,
        operation: Operation | None = None,
        partition: str | None = None,
        reallocate: bool = False,
    ) -> dict[int, int]:
        """:meth:`allocate_write_ids` in the caller's database transaction, by table id.

        Raises:
            NoSuchObjectError: the table was dropped, and its files are gone.
        """
        wanted = sorted(set(txn_ids))
        if len(wanted) == 1 and is_id(wanted[0]) and not reallocate:
            write_id = allocation.allocate_one(
                joined(connection), wanted[0], table_id, operation=operation, partition=partition
            )
            if write_id is None:
                raise allocation.dropped(table_id)
            return {wanted[0]: write_id}
        allocation.check_writable(connection, wanted)
        return allocation.allocate(
            connection, wanted, table_id, operation=operation, partition=partition, reallocate=reallocate
        )

    def add_dynamic_partitions(
        self, txn_id: int, database: str, table: str, partitions: Sequence[str], operation: Operation
    ) -> None:
        """Note which partitions a dynamic-partition write has written; until then it may have been any.

        Raises:
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: it is not open.
            NoSuchTableError: the table does not exist.
        """
        check_id(txn_id)

        def work(connection: Connection) -> None:
            table_id = read_table_id(connection, database, table)
            check_open(connection, txn_id)
            allocation.add_dynamic_partitions(connection, txn_id, table_id, partitions, operation)

        self._store.write(work, name="add partitions")

    def seed_write_ids(self, database: str, table: str, next_write_id: int) -> None:
        """Let the table's write ids go on from ``next_write_id``, as an import needs it.

        Raises:
            InvalidTransactionRequestError: that id, or a higher one, was handed out already.
            NoSuchTableError: the table does not exist.
        """

        def work(connection: Connection) -> None:
            table_id = read_table_id(connection, database, table)
            allocation.seed_write_ids(connection, table_id, f"{database}.{table}", next_write_id)

        self._store.write(work, name="seed")

    def seed_txn_ids(self, next_txn_id: int) -> None:
        """Let transaction ids go on from ``next_txn_id``, as an import needs it.

        Raises:
            InvalidTransactionRequestError: that id, or a higher one, was handed out already.
        """
        self._store.write(lambda connection: allocation.seed_txn_ids(connection, next_txn_id), name="seed")
