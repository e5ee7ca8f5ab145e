"""The transaction manager: opens, commits and aborts transactions, and hands out write ids."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from airflow_hivex.core.catalog import notification_log
from airflow_hivex.core.catalog.notification_log import EventType
from airflow_hivex.core.catalog.tables import select_table
from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    NoSuchObjectError,
    NoSuchTransactionError,
    TooManyOpenTransactionsError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
)
from airflow_hivex.core.model.transactions import Operation, Transaction, TxnState, TxnType
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.schema import (
    counters,
    databases,
    next_write_ids,
    tables,
    txn_components,
    txn_to_write_id,
    txns,
)
from airflow_hivex.core.transactions.snapshots import read_valid_txns, read_valid_write_ids

_AGENT_INFO_LENGTH = 4096


class TransactionManager:
    """Transactions in the metastore database (Source: Hive TxnHandler; ``hive-semantics`` 2).

    Every change of state is one conditional update, so that whoever was aborted by a time-out
    can never commit. Methods that take a ``connection`` join the caller's database transaction.
    """

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    # -- life -----------------------------------------------------------------------

    def open(
        self,
        count: int = 1,
        *,
        user: str = "",
        host: str | None = None,
        agent_info: str | None = None,
        timeout: int | None = None,
        type: TxnType = TxnType.DEFAULT,
    ) -> list[int]:
        """The consecutive ids of ``count`` new transactions, at most ``hive.txn.max.open.batch``.

        ``timeout`` is in seconds, ``hive.txn.timeout`` by default. Three round trips.

        Raises:
            TransactionNotOpenError: ``count`` or ``timeout`` is not positive.
            TooManyOpenTransactionsError: ``hive.max.open.txns`` are open.
        """
        if count < 1:
            raise TransactionNotOpenError([], f"{count} transactions cannot be opened")
        timeout_s = int(self._settings["hive.txn.timeout"] if timeout is None else timeout)
        if timeout_s < 1:
            raise TransactionNotOpenError([], f"a time-out of {timeout_s} s is not possible")
        count = min(count, int(self._settings["hive.txn.max.open.batch"]))
        limit = int(self._settings["hive.max.open.txns"])

        def work(connection: Connection) -> list[int]:
            # The counter's row is locked until the end: ids become visible in their order.
            last, open_count = connection.execute(
                update(counters)
                .where(counters.c.name == "txn")
                .values(value=counters.c.value + count)
                .returning(
                    counters.c.value,
                    select(func.count()).where(txns.c.state == TxnState.OPEN.value).scalar_subquery(),
                )
            ).one()
            if open_count >= limit:
                raise TooManyOpenTransactionsError(open_count, limit)
            now = self._clock()
            ids = list(range(last - count + 1, last + 1))
            row = {
                "state": TxnState.OPEN.value,
                "type": type.value,
                "started_ms": now,
                "heartbeat_ms": now,
                "timeout_s": timeout_s,
                "user": user[:128],
                "host": (host or socket.gethostname())[:255],
                "agent_info": None if agent_info is None else agent_info[:_AGENT_INFO_LENGTH],
            }
            connection.execute(insert(txns), [{"id": txn_id, **row} for txn_id in ids])
            return ids

        return self._store.write(work)

    def get(self, txn_id: int) -> Transaction:
        """What is known of a transaction.

        Raises:
            NoSuchTransactionError: there is none of that id.
        """
        with self._store.read() as connection:
            row = connection.execute(select(txns).where(txns.c.id == txn_id)).one_or_none()
        if row is None:
            raise NoSuchTransactionError(txn_id)
        return Transaction(
            id=row.id,
            state=TxnState(row.state),
            type=TxnType(row.type),
            started_at=to_datetime(row.started_ms),
            heartbeat_at=to_datetime(row.heartbeat_ms),
            timeout_s=row.timeout_s,
            user=row.user,
            host=row.host,
            agent_info=row.agent_info,
            reason=row.reason,
        )

    def commit(self, txn_id: int, changes: Callable[[Connection], None] | None = None) -> None:
        """Make all that the transaction wrote visible, together with ``changes``, by one row change.

        ``changes`` (registering directories, a new table) is applied in the same database
        transaction while this transaction is still open, and is undone if the commit is refused.
        Committing twice is a no-op.

        Raises:
            TransactionAbortedError: it was aborted; nothing of it is or becomes visible.
            NoSuchTransactionError: there is none of that id.
            CommitOutcomeUnknownError: the database was lost and could not be asked; look the
                transaction up by its id, do not delete its files.
        """

        def work(connection: Connection) -> None:
            if changes is not None and self._state(connection, txn_id, lock=True)[0] is TxnState.OPEN:
                changes(connection)
            if not self._settle(connection, txn_id, TxnState.COMMITTED):
                state, reason = self._state(connection, txn_id)
                if state is TxnState.ABORTED:
                    raise TransactionAbortedError(txn_id, reason)
                return
            self._forget_components(connection, txn_id)
            self._record(connection, EventType.COMMIT_TXN, txn_id)

        try:
            self._store.write(work)
        except OutcomeUnknownError as error:
            try:
                state = self.get(txn_id).state
            except HivexError as lookup_error:
                raise CommitOutcomeUnknownError(txn_id) from lookup_error
            if state is TxnState.OPEN:
                # The server had lost it before applying it.
                self._store.write(work)
            elif state is TxnState.ABORTED:
                raise TransactionAbortedError(txn_id) from error

    def abort(self, txn_id: int, reason: str | None = None) -> None:
        """Make sure that nothing the transaction wrote is ever visible. Aborting twice is a no-op.

        Raises:
            TransactionCommittedError: it has committed.
            NoSuchTransactionError: there is none of that id.
        """

        def work(connection: Connection) -> None:
            if self._settle(connection, txn_id, TxnState.ABORTED, reason):
                self._record(connection, EventType.ABORT_TXN, txn_id)
            elif self._state(connection, txn_id)[0] is TxnState.COMMITTED:
                raise TransactionCommittedError(txn_id)

        self._store.write(work)

    def heartbeat(self, txn_id: int) -> None:
        """Note that the transaction's owner is alive. One round trip.

        Raises:
            TransactionAbortedError: it was aborted.
            NoSuchTransactionError: there is none of that id, or it has committed.
        """

        def work(connection: Connection) -> None:
            alive = connection.execute(
                update(txns)
                .where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value)
                .values(heartbeat_ms=self._clock())
            )
            if alive.rowcount:
                return
            state, reason = self._state(connection, txn_id)
            if state is TxnState.ABORTED:
                raise TransactionAbortedError(txn_id, reason)
            raise NoSuchTransactionError(txn_id)

        self._store.write(work)

    def abort_timed_out(self) -> list[int]:
        """Abort every open transaction whose last heartbeat is older than its time-out; return their ids."""

        def work(connection: Connection) -> list[int]:
            now = self._clock()
            late = connection.execute(
                update(txns)
                .where(txns.c.state == TxnState.OPEN.value, txns.c.heartbeat_ms + txns.c.timeout_s * 1000 < now)
                .values(state=TxnState.ABORTED.value, reason="its heartbeat timed out")
                .returning(txns.c.id)
            ).scalars()
            ids = sorted(late)
            for txn_id in ids:
                self._record(connection, EventType.ABORT_TXN, txn_id)
            return ids

        return self._store.write(work)

    # -- write ids ------------------------------------------------------------------

    def allocate_write_ids(
        self,
        txn_ids: Sequence[int],
        database: str,
        table: str,
        *,
        operation: Operation | None = None,
        partition: str | None = None,
    ) -> dict[int, int]:
        """The write id of each transaction for the table, in transaction id order from 1 upwards.

        Safe to repeat: a transaction that has one gets the same again. ``operation`` also notes
        that data of that kind is about to be written (``partition`` None: anywhere in the table),
        so that an abort or a kill leaves a trace for the cleaner.

        Raises:
            TransactionNotOpenError: one of them is not open, or is read-only.
            NoSuchTableError: the table does not exist.
        """

        def work(connection: Connection) -> dict[int, int]:
            table_id = int(select_table(connection, database, table).id or 0)
            return self.allocate_in(connection, txn_ids, table_id, operation=operation, partition=partition)

        return self._store.write(work)

    def allocate_in(
        self,
        connection: Connection,
        txn_ids: Sequence[int],
        table_id: int,
        *,
        operation: Operation | None = None,
        partition: str | None = None,
    ) -> dict[int, int]:
        """:meth:`allocate_write_ids` in the caller's database transaction, by table id.

        Raises:
            NoSuchObjectError: the table was dropped, and its files are gone.
        """
        wanted = sorted(set(txn_ids))
        self._check_writable(connection, wanted)
        mapping = txn_to_write_id.c
        allocated = {
            row.txn_id: row.write_id
            for batch in batches(wanted)
            for row in connection.execute(
                select(mapping.txn_id, mapping.write_id).where(mapping.table_id == table_id, mapping.txn_id.in_(batch))
            )
        }
        new = [txn_id for txn_id in wanted if txn_id not in allocated]
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
            components = [
                {
                    "txn_id": txn_id,
                    "table_id": table_id,
                    "partition": partition,
                    "operation": operation.value,
                    "write_id": allocated[txn_id],
                }
                for txn_id in wanted
            ]
            connection.execute(insert(txn_components), components)
        return {txn_id: allocated[txn_id] for txn_id in wanted}

    # -- snapshots ------------------------------------------------------------------

    def valid_txns(self, txn_id: int | None = None) -> ValidTxnList:
        """The snapshot of now, or the one that transaction ``txn_id`` has of it. One round trip."""
        with self._store.read() as connection:
            return read_valid_txns(connection, txn_id)

    def valid_write_ids(self, names: Sequence[str], valid_txns: ValidTxnList) -> dict[str, ValidWriteIdList]:
        """The write id lists of tables (``database.table``) in a snapshot.

        Raises:
            NoSuchTableError: one of them does not exist.
        """
        with self._store.read() as connection:
            found = {}
            for name in names:
                database, _, table = name.rpartition(".")
                found[int(select_table(connection, database or "default", table).id or 0)] = name
            lists = read_valid_write_ids(connection, found, valid_txns)
        return {found[table_id]: write_ids for table_id, write_ids in lists.items()}

    # -- parts ----------------------------------------------------------------------

    def _settle(self, connection: Connection, txn_id: int, state: TxnState, reason: str | None = None) -> bool:
        """Turn an open transaction into ``state``; false when it was not open."""
        changed = connection.execute(
            update(txns)
            .where(txns.c.id == txn_id, txns.c.state == TxnState.OPEN.value)
            .values(state=state.value, reason=reason)
        )
        return changed.rowcount == 1

    def _state(self, connection: Connection, txn_id: int, *, lock: bool = False) -> tuple[TxnState, str | None]:
        query = select(txns.c.state, txns.c.reason).where(txns.c.id == txn_id)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            raise NoSuchTransactionError(txn_id)
        return TxnState(row.state), row.reason

    def _check_writable(self, connection: Connection, txn_ids: Sequence[int]) -> None:
        writable: set[int] = set()
        for batch in batches(txn_ids):
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

    def _forget_components(self, connection: Connection, txn_id: int) -> None:
        connection.execute(delete(txn_components).where(txn_components.c.txn_id == txn_id))

    def _record(self, connection: Connection, type: EventType, txn_id: int) -> None:
        """Write the event of a settled transaction, if it had taken write ids."""
        mapping = txn_to_write_id.c
        written = connection.execute(
            select(databases.c.name, tables.c.name, mapping.write_id)
            .select_from(txn_to_write_id)
            .join(tables, tables.c.id == mapping.table_id)
            .join(databases, databases.c.id == tables.c.database_id)
            .where(mapping.txn_id == txn_id)
        ).all()
        if not written:
            return
        write_ids: Mapping[str, int] = {f"{database}.{table}": write_id for database, table, write_id in written}
        notification_log.record(connection, self._clock(), type, txn_id=txn_id, message={"write_ids": dict(write_ids)})
