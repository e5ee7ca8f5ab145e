"""The allocation of write ids, and the components of transactions.

A component is a table or partition that a transaction writes.

The functions run in the database transaction of the caller. Source: docs/reference/transactions.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    String,
    Text,
    bindparam,
    delete,
    insert,
    literal_column,
    select,
    update,
)

from airflow_hivex.core.errors import (
    InvalidTransactionRequestError,
    NoSuchObjectError,
    NoSuchTransactionError,
    TransactionNotOpenError,
)
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.transactions import Operation, TxnState, TxnType
from airflow_hivex.core.model.write_ids import MAX_ID
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import Call, Exchange, Prepared, Rows, Value, joined, later
from airflow_hivex.core.store.schema import (
    counters,
    databases,
    locks,
    next_write_ids,
    tables,
    txn_components,
    txn_to_write_id,
    txns,
)
from airflow_hivex.core.transactions.opening import NEW_TXN_ID
from airflow_hivex.core.transactions.table_names import read_table_id
from airflow_hivex.core.transactions.txn_rows import SELECT_ROW, TxnRow, check_open


class _Statements:
    """The queries that allocate a write id of a table to a transaction."""

    def __init__(
        self,
        table_id: ColumnElement[int],
        txn_id: ColumnElement[int],
        is_writable: ColumnElement[bool],
        *,
        waits: bool = True,
    ) -> None:
        mapping, following = txn_to_write_id.c, next_write_ids.c
        own = (mapping.table_id == table_id, mapping.txn_id == txn_id)
        # With the row lock the statement reads the latest allocated id.
        self.take = Prepared(
            insert(txn_to_write_id).from_select(
                ["table_id", "txn_id", "write_id"],
                select(following.table_id, txn_id, following.next)
                .where(following.table_id == table_id, is_writable, ~select(mapping.write_id).where(*own).exists())
                .with_for_update(key_share=True, of=next_write_ids, skip_locked=not waits),
            )
        )
        self.advance = Prepared(
            update(next_write_ids)
            .where(
                following.table_id == table_id,
                following.next == select(mapping.write_id).where(*own).scalar_subquery(),
            )
            .values(next=following.next + literal_column("1"))
        )
        self.note = Prepared(
            insert(txn_components).from_select(
                ["txn_id", "table_id", "partition", "operation", "write_id"],
                select(
                    mapping.txn_id,
                    mapping.table_id,
                    bindparam("partition", type_=Text),
                    bindparam("operation", type_=String),
                    mapping.write_id,
                ).where(*own, is_writable),
            )
        )
        self.find = Prepared(select(mapping.write_id).where(*own))


_TXN_ID = bindparam("txn_id", type_=BigInteger)
_IS_WRITABLE = (
    select(txns.c.id)
    .where(txns.c.id == _TXN_ID, IS_OPEN, txns.c.type != literal_column(str(TxnType.READ_ONLY.value)))
    .exists()
)
# With this lock two allocations of one transaction run one after the other.
_LOCK = Prepared(SELECT_ROW.where(txns.c.id == _TXN_ID).with_for_update(key_share=True))
_TABLE_ID = bindparam("table_id", type_=BigInteger)
_BY_ID = _Statements(_TABLE_ID, _TXN_ID, _IS_WRITABLE)
_BY_NAME = _Statements(
    select(tables.c.id)
    .join(databases, databases.c.id == tables.c.database_id)
    .where(
        databases.c.name == bindparam("database", type_=String),
        tables.c.name == bindparam("table", type_=String),
        ~tables.c.dropped,
    )
    .scalar_subquery(),
    _TXN_ID,
    _IS_WRITABLE,
)
# Every client that opens a transaction waits for this caller, so that this caller must not wait for others.
_OF_NEW = _Statements(
    _TABLE_ID, NEW_TXN_ID, select(locks.c.lock_id).where(locks.c.txn_id == NEW_TXN_ID).exists(), waits=False
)


def allocating_to_new(table_ids: Sequence[int]) -> list[Call]:
    """Return the calls that allocate write ids to a new transaction.

    Send the calls in the exchange that opens the transaction.

    No write id is allocated if the new transaction has no locks. A table is skipped if another client has locked the
    next write id of the table. :func:`allocated_to_new` reads the answers.
    """
    return [
        statement(table_id=table_id)
        for table_id in table_ids
        for statement in (_OF_NEW.take, _OF_NEW.advance, _OF_NEW.find)
    ]


def allocated_to_new(table_ids: Sequence[int], answers: Sequence[Rows]) -> dict[int, int]:
    """Return a dict from table id to write id, from the answers to the calls of :func:`allocating_to_new`."""
    return {table_id: int(mapped[0][0]) for table_id, mapped in zip(table_ids, answers[2::3], strict=True) if mapped}


def allocate_one(
    exchange: Exchange,
    txn_id: int,
    table: int | tuple[str, str],
    *,
    operation: Operation | None = None,
    partition: str | None = None,
) -> int | None:
    """Return the write id of a transaction for a table, or None if the table does not exist.

    ``table`` is the id of the table, or (database, name). The exchange is finished afterwards. One round trip.

    Raises:
        TransactionNotOpenError: the transaction is not open, or is read-only; the database is unchanged.
    """
    statements = _BY_ID if isinstance(table, int) else _BY_NAME
    named: dict[str, Value] = (
        {"table_id": table} if isinstance(table, int) else {"database": table[0], "table": table[1]}
    )
    values = {"txn_id": txn_id, **named}
    calls = [_LOCK(txn_id=txn_id), statements.take(**values), statements.advance(**values)]
    if operation is not None:
        calls.append(statements.note(partition=partition, operation=operation.value, **values))
    found, *_, mapped = exchange.finish(*calls, statements.find(**values))
    _check_writable(txn_id, found)
    return int(mapped[0][0]) if mapped else None


def finding(txn_id: int, table_id: int) -> Call:
    """Return the call that reads the write id of a transaction for a table. Without a write id, the answer is empty."""
    return _BY_ID.find(txn_id=txn_id, table_id=table_id)


def allocate_later(connection: Connection, txn_id: int, table_id: int) -> None:
    """Allocate a write id of a table to a transaction that has no write id, in the caller's database transaction.

    On PostgreSQL the queries are sent together with the caller's next query or commit. This query or commit raises the
    errors.

    Raises:
        TransactionNotOpenError: the transaction is not open, or is read-only.
        NoSuchObjectError: the table was dropped, and its files are deleted.
    """

    def check(found: Rows) -> None:
        if not found:
            raise dropped(table_id)

    values: dict[str, Value] = {"txn_id": txn_id, "table_id": table_id}
    exchange = joined(connection)
    exchange.later(_LOCK(txn_id=txn_id), check=lambda found: _check_writable(txn_id, found))
    exchange.later(_BY_ID.take(**values), _BY_ID.advance(**values))
    exchange.later(_BY_ID.find(**values), check=check)


def _check_writable(txn_id: int, found: Rows) -> None:
    row = TxnRow(*found[0]) if found else None
    if row is None or row.state != TxnState.OPEN.value or row.type == TxnType.READ_ONLY.value:
        raise _not_writable([txn_id])


def dropped(table_id: int) -> NoSuchObjectError:
    """Return the error to raise if a write id of a dropped table is requested."""
    return NoSuchObjectError(f"The table with id {table_id} was dropped; it gives no write ids any more.")


def _not_writable(txn_ids: Sequence[int]) -> TransactionNotOpenError:
    return TransactionNotOpenError(txn_ids, "write ids need transactions that are open and not read-only")


def check_writable(connection: Connection, txn_ids: Sequence[int]) -> None:
    """Check that transactions are open and not read-only, and keep them open until the database transaction ends.

    Raises:
        TransactionNotOpenError: a transaction is not open or is read-only, or ``txn_ids`` is empty.
    """
    writable: set[int] = set()
    for batch in batches([txn_id for txn_id in txn_ids if is_id(txn_id)]):
        # The row lock prevents an abort by the housekeeper before the allocation.
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
        raise _not_writable(refused)


def allocate(
    connection: Connection,
    txn_ids: Sequence[int],
    table_id: int,
    *,
    operation: Operation | None = None,
    partition: str | None = None,
    reallocate: bool = False,
) -> dict[int, int]:
    """Return a dict from transaction id to write id, for one table. Transactions without a write id get a new write id.

    ``txn_ids`` must be distinct and sorted. See :meth:`WriteIdAllocator.allocate_write_ids` for the other arguments.
    """
    mapping = txn_to_write_id.c
    allocated: dict[int, int] = {}
    for batch in batches(txn_ids):
        of_batch = (mapping.table_id == table_id, mapping.txn_id.in_(batch))
        if reallocate:
            later(connection, delete(txn_to_write_id).where(*of_batch))
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
            raise dropped(table_id)
        first = following - len(new)
        rows = [{"table_id": table_id, "txn_id": txn_id, "write_id": first + i} for i, txn_id in enumerate(new)]
        later(connection, insert(txn_to_write_id), rows)
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
        later(connection, insert(txn_components), rows_of_components)
    return {txn_id: allocated[txn_id] for txn_id in txn_ids}


def add_dynamic_partitions(
    connection: Connection,
    txn_id: int,
    table_id: int,
    partitions: Sequence[str],
    operation: Operation,
    write_id: int | None,
) -> None:
    """Replace a transaction's component for the whole table by one component for each partition in ``partitions``."""
    components = txn_components.c
    later(
        connection,
        delete(txn_components).where(
            components.txn_id == txn_id, components.table_id == table_id, components.partition.is_(None)
        ),
    )
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
        later(connection, insert(txn_components), batch)


def replace_components(
    connection: Connection, txn_id: int, written: Collection[tuple[int, str | None, Operation]]
) -> None:
    """Replace the components of a transaction by ``written``: triples of table id, partition and operation.

    The partition None stands for the whole table.
    """
    later(connection, delete(txn_components).where(txn_components.c.txn_id == txn_id))
    rows = [
        {"txn_id": txn_id, "table_id": table_id, "partition": partition, "operation": operation.value}
        for table_id, partition, operation in sorted(written, key=str)
    ]
    for batch in batches(rows):
        later(connection, insert(txn_components), batch)


def forget_unwritten(connection: Connection, txn_id: int) -> None:
    """Remove the components of a transaction if no statement of the transaction has begun to write."""
    wrote = select(txns.c.id).where(txns.c.id == txn_id, txns.c.statements > 0).exists()
    later(connection, delete(txn_components).where(txn_components.c.txn_id == txn_id, ~wrote))


def has_components(connection: Connection, txn_id: int, table_id: int) -> bool:
    """Return whether a transaction has a component for a table or one of its partitions. One round trip."""
    components = txn_components.c
    query = select(components.txn_id).where(components.txn_id == txn_id, components.table_id == table_id).limit(1)
    return connection.execute(query).first() is not None


def raise_write_ids(connection: Connection, table_id: int, next_write_id: int) -> None:
    """Set the next write id of a table to ``next_write_id``, unless the current number is higher. One round trip."""
    following = next_write_ids.c
    lower = (following.table_id == table_id, following.next < next_write_id)
    later(connection, update(next_write_ids).where(*lower).values(next=next_write_id))


def seed_write_ids(connection: Connection, table_id: int, name: str, next_write_id: int) -> None:
    """Set the next write id of a table to ``next_write_id``.

    Raises:
        InvalidTransactionRequestError: this id or a higher id was allocated already.
    """
    raised = is_id(next_write_id) and connection.execute(
        update(next_write_ids)
        .where(next_write_ids.c.table_id == table_id, next_write_ids.c.next <= next_write_id)
        .values(next=next_write_id)
    )
    if not raised or not raised.rowcount:
        raise InvalidTransactionRequestError(
            f"Write ids of {name} cannot continue from {next_write_id}: that id, or a higher one, is taken."
        )


def seed_txn_ids(connection: Connection, next_txn_id: int) -> None:
    """Set the next transaction id to ``next_txn_id``.

    Raises:
        InvalidTransactionRequestError: this id or a higher id was used already.
    """
    raised = is_id(next_txn_id) and connection.execute(
        update(counters).where(counters.c.name == "txn", counters.c.value < next_txn_id).values(value=next_txn_id - 1)
    )
    if not raised or not raised.rowcount:
        raise InvalidTransactionRequestError(
            f"Transaction ids cannot continue from {next_txn_id}: that id, or a higher one, is taken."
        )


def is_id(value: object) -> bool:
    """Return whether a value can be an id in the database: an integer from 1 to ``MAX_ID``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_ID


def check_id(txn_id: int) -> None:
    """Refuse a number that cannot be the id of a transaction.

    Raises:
        NoSuchTransactionError: the number is not a valid id.
    """
    if not is_id(txn_id):
        raise NoSuchTransactionError(txn_id)


class WriteIdAllocator:
    """The service that allocates write ids to transactions, and records the tables that each transaction writes.

    Methods with a ``connection`` run in the caller's database transaction.
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
        """Return a dict from transaction id to write id, for one table.

        A higher transaction id gets a higher new write id.

        A transaction that already has a write id keeps the write id, unless ``reallocate`` is set. With ``operation`` a
        component is recorded: the transaction is about to write to ``partition``, or to any partition if ``partition``
        is None. Components show the cleaner where to search for files of an aborted or killed transaction.

        Raises:
            TransactionNotOpenError: a transaction is not open, or is read-only.
            NoSuchTableError: the table does not exist.
        """
        if len(txn_ids) == 1 and is_id(txn_ids[0]) and not reallocate:
            named = (normalise(database), normalise(table))
            write_id = self._store.exchange(
                lambda exchange: allocate_one(exchange, txn_ids[0], named, operation=operation, partition=partition),
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

    def allocate_one(self, txn_id: int, table_id: int) -> int:
        """Return the write id of a transaction for a table. One round trip.

        Raises:
            TransactionNotOpenError: the transaction is not open, or is read-only.
            NoSuchObjectError: the table was dropped, and its files are deleted.
        """
        write_id = self._store.exchange(lambda exchange: allocate_one(exchange, txn_id, table_id), name="allocate")
        if write_id is None:
            raise dropped(table_id)
        return write_id

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
        """Do the same as :meth:`allocate_write_ids` for the id of a table, in the caller's database transaction.

        Raises:
            NoSuchObjectError: the table was dropped, and its files are deleted.
        """
        wanted = sorted(set(txn_ids))
        if len(wanted) == 1 and is_id(wanted[0]) and not reallocate:
            write_id = allocate_one(joined(connection), wanted[0], table_id, operation=operation, partition=partition)
            if write_id is None:
                raise dropped(table_id)
            return {wanted[0]: write_id}
        check_writable(connection, wanted)
        return allocate(connection, wanted, table_id, operation=operation, partition=partition, reallocate=reallocate)

    def add_dynamic_partitions(
        self, txn_id: int, database: str, table: str, partitions: Sequence[str], operation: Operation
    ) -> None:
        """Record the partitions that a transaction has written with dynamic partitions.

        The components of the partitions replace the transaction's component for the whole table.

        Raises:
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: the transaction is not open.
            NoSuchTableError: the table does not exist.
        """
        check_id(txn_id)

        def work(connection: Connection) -> None:
            table_id = read_table_id(connection, database, table)
            check_open(connection, txn_id)
            mapping = txn_to_write_id.c
            query = select(mapping.write_id).where(mapping.table_id == table_id, mapping.txn_id == txn_id)
            write_id = connection.execute(query).scalar_one_or_none()
            add_dynamic_partitions(connection, txn_id, table_id, partitions, operation, write_id)

        self._store.write(work, name="add partitions")

    def seed_write_ids(self, database: str, table: str, next_write_id: int) -> None:
        """Set the next write id of a table to ``next_write_id``, for an import.

        Raises:
            InvalidTransactionRequestError: this id or a higher id was allocated already.
            NoSuchTableError: the table does not exist.
        """

        def work(connection: Connection) -> None:
            table_id = read_table_id(connection, database, table)
            seed_write_ids(connection, table_id, f"{database}.{table}", next_write_id)

        self._store.write(work, name="seed")

    def seed_txn_ids(self, next_txn_id: int) -> None:
        """Set the next transaction id to ``next_txn_id``, for an import.

        Raises:
            InvalidTransactionRequestError: this id or a higher id was used already.
        """
        self._store.write(lambda connection: seed_txn_ids(connection, next_txn_id), name="seed")
