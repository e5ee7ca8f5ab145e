"""The transaction manager: opens, commits and aborts transactions, and hands out write ids."""

from __future__ import annotations

import logging
import socket
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    cast,
    literal_column,
    select,
    update,
)

from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    InvalidTransactionRequestError,
    NoSuchLockError,
    NoSuchTransactionError,
    StoreUnavailableError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
    WriteConflictError,
)
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.texts import check_text, is_storable, told
from airflow_hivex.core.model.transactions import (
    AbortReason,
    HeartbeatRange,
    Operation,
    Transaction,
    TxnState,
    TxnType,
)
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.snapshots.txn_states import IS_OPEN
from airflow_hivex.core.snapshots.valid_lists import read_valid_txns, read_valid_write_ids
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Call, Exchange, Prepared, Rows, joined
from airflow_hivex.core.store.schema import databases, locks, tables, txn_to_write_id, txns
from airflow_hivex.core.transactions import allocation, conflicts, txn_rows
from airflow_hivex.core.transactions.allocation import is_id
from airflow_hivex.core.transactions.lock_rows import HELD_BY_TXN, release, releasing
from airflow_hivex.core.transactions.open_limit import OpenTransactionLimit
from airflow_hivex.core.transactions.opening import KeyTakenError, NewTransaction, open_transactions
from airflow_hivex.core.transactions.table_names import read_table_id, read_table_ids, split_name
from airflow_hivex.core.transactions.txn_rows import TxnRow, raise_if_settled

log = logging.getLogger(__name__)

_AGENT_INFO_LENGTH = 4096
_REASON_LENGTH = 4096
_KEY_LENGTH = 1024
_LONGEST_TIMEOUT_S = 10 * 365 * 86_400
_ABORT_BATCH = 50_000
_WITHOUT_COMPLETED_COMPONENTS = (TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION, TxnType.SOFT_DELETE)

_COMMITTED = Prepared(
    update(txns)
    .where(txns.c.id == bindparam("txn_id", type_=BigInteger), IS_OPEN)
    .values(state=literal_column("'c'"), ended_ms=bindparam("now_ms", type_=BigInteger))
)
_OF_KEY = select(txns).where(txns.c.key == bindparam("key"))
# Seconds times a thousand do not fit the column's own type for long.
_TIMED_OUT_MS = txns.c.heartbeat_ms + cast(txns.c.timeout_s, BigInteger) * 1000


RegisterWrites: TypeAlias = Callable[[Connection, int], None]
"""Registers the pending writes of a transaction, within the database transaction that commits it."""


class TransactionManager:
    """Transactions in the metastore database (Source: docs/reference/transactions.md; Hive TxnHandler).

    Every change of state is one conditional update, so that whoever was aborted by a time-out
    can never commit. Methods that take a ``connection`` join the caller's database transaction.
    """

    def __init__(
        self, store: Store, settings: Settings, clock: Clock, register_writes: RegisterWrites | None = None
    ) -> None:
        """``register_writes`` brings the writes of a transaction's statements into the catalog, in its commit."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._register_writes = register_writes
        self._limit = OpenTransactionLimit(
            int(settings["hive.max.open.txns"]), int(settings["metastore.count.open.txns.interval"])
        )

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
        key: str | None = None,
    ) -> list[int]:
        """Return the consecutive ids of ``count`` new transactions, at most ``hive.txn.max.open.batch``.

        ``timeout`` is in seconds; by default it is ``hive.txn.timeout``, or that of replication.
        ``key`` is a name of the caller's, of up to 1,024 characters: as long as the transaction that
        was opened with it is open, opening with it again, from wherever, answers that one's id. The
        key is free again when the record of an ended transaction was purged.
        Two round trips, three with a key.

        Raises:
            TransactionNotOpenError: ``count`` or ``timeout`` is not positive, or ten years are exceeded.
            InvalidTextError: ``user`` has a character that cannot be stored.
            TooManyOpenTransactionsError: ``hive.max.open.txns`` are open, or were and no tenth has ended.
            TransactionAbortedError, TransactionCommittedError: so has the one of that key ended.
            InvalidTransactionRequestError: that can be no key, or it is given to several transactions.
        """
        if count < 1:
            raise TransactionNotOpenError([], f"{count} transactions cannot be opened")
        timeout_s = self._default_timeout_s(type) if timeout is None else int(timeout)
        if not 1 <= timeout_s <= _LONGEST_TIMEOUT_S:
            raise TransactionNotOpenError([], f"a time-out of {timeout_s} s is not possible")
        new = NewTransaction(
            type=type,
            timeout_s=timeout_s,
            user=check_text("The name of a user", user)[:128],
            host=told(host or socket.gethostname(), 255),
            agent_info=None if agent_info is None else told(agent_info, _AGENT_INFO_LENGTH),
            key=key,
        )
        if key is None:
            return self._open(new, min(count, int(self._settings["hive.txn.max.open.batch"])))
        if count != 1:
            raise InvalidTransactionRequestError(f"A key is for one transaction, not for {count}.")
        _check_key(key)
        return [self._open_once(new, key)]

    def _open(self, new: NewTransaction, count: int) -> list[int]:
        opened: list[int] = []

        def work(exchange: Exchange) -> list[int]:
            now = self._clock()
            check = (lambda found: self._limit.check(found, now)) if self._limit.must_count(count, now) else None
            # It has committed then.
            opened[:] = open_transactions(exchange, new, count, now, check)
            return opened

        try:
            ids = self._store.exchange(work, name="open")
        except OutcomeUnknownError as error:
            if new.key is not None:
                raise
            # Nobody learns the ids: they time out.
            raise StoreUnavailableError(*error.facts) from error
        except BaseException:
            if new.key is None:
                # Nobody has learned the ids.
                self._abort_quietly(opened, "its owner was interrupted when it was opened")
            raise
        self._limit.opened(len(ids))
        return ids

    def _abort_quietly(self, txn_ids: Sequence[int], reason: str) -> None:
        try:
            self.abort_many(txn_ids, reason)
        except HivexError as failure:
            log.warning("Transactions %s could not be aborted and will time out: %s", txn_ids, failure)

    def _open_once(self, new: NewTransaction, key: str) -> int:
        found: TxnRow | Row[Any] | None = self._of_key(key)
        if found is None:
            try:
                return self._open(new, 1)[0]
            except KeyTakenError as taken:
                found = taken.row
            except OutcomeUnknownError as error:
                found = self._of_key(key)
                if found is None:
                    raise StoreUnavailableError(self._store.name, "the connection was lost") from error
        raise_if_settled(found.id, found)
        return int(found.id)

    def _of_key(self, key: str) -> Row[Any] | None:
        with self._store.read() as connection:
            return connection.execute(_OF_KEY, {"key": key}).one_or_none()

    def get(self, txn_id: int) -> Transaction:
        """Return the record of a transaction. One round trip.

        Raises:
            NoSuchTransactionError: there is none of that id, or it has ended and its record is gone.
        """
        _check_id(txn_id)
        with self._store.read() as connection:
            row = connection.execute(select(txns).where(txns.c.id == txn_id)).one_or_none()
        if row is None:
            raise NoSuchTransactionError(txn_id)
        return _transaction(row)

    def find(self, key: str) -> Transaction | None:
        """Return the transaction that was opened with the key, or None if there is none or its record is gone."""
        _check_key(key)
        found = self._of_key(key)
        return None if found is None else _transaction(found)

    def show(self) -> list[Transaction]:
        """Return the open and aborted transactions, by their ids, as SHOW TRANSACTIONS lists them. One round trip."""
        query = select(txns).where(txns.c.state != TxnState.COMMITTED.value).order_by(txns.c.id)
        with self._store.read() as connection:
            return [_transaction(row) for row in connection.execute(query)]

    def commit(
        self,
        txn_id: int,
        changes: Callable[[Connection], None] | None = None,
        *,
        exclusive_write_locks: bool = False,
    ) -> None:
        """Make all that the transaction wrote visible, together with ``changes``, by one row change.

        ``changes`` (registering directories, a new table) is applied in the same database
        transaction while this transaction is still open, and is undone if the commit is refused.
        Committing twice is a no-op. The transaction's locks are released. Of transactions that
        overlap and update or delete in the same partition or table, only the first can commit;
        with ``exclusive_write_locks`` the caller says that its locks have kept others out, and
        nothing is looked for. An update of no certain partition is one of all of them.

        Raises:
            WriteConflictError: another transaction was first; this one is aborted.
            TransactionAbortedError: it was aborted; nothing of it is or becomes visible.
            NoSuchTransactionError: there is none of that id.
            CommitOutcomeUnknownError: the database was lost and could not be asked; look the
                transaction up by its id, do not delete its files.
        """
        _check_id(txn_id)

        try:
            if changes is not None or not self._store.exchange(
                lambda exchange: self._commit_alone(exchange, txn_id, exclusive_write_locks), name="commit"
            ):
                self._store.write(
                    lambda connection: self._commit(connection, txn_id, changes, exclusive_write_locks), name="commit"
                )
        except conflicts.ConflictFoundError as conflict:
            self._abort_conflicting(txn_id, conflict.sentence)
        except OutcomeUnknownError as error:
            try:
                found = self.get(txn_id)
            except HivexError as lookup_error:
                raise CommitOutcomeUnknownError(txn_id) from lookup_error
            if found.state is TxnState.OPEN:
                # The server had lost it before applying it.
                self.commit(txn_id, changes, exclusive_write_locks=exclusive_write_locks)
            elif found.state is TxnState.ABORTED:
                raise TransactionAbortedError(txn_id, found.reason) from error

    def abort(self, txn_id: int, reason: str | None = None, code: AbortReason = AbortReason.NONE) -> None:
        """Make sure that nothing the transaction wrote is ever visible. Aborting twice is a no-op.

        Its locks are released; ``reason`` is told to whoever goes on using it.

        Raises:
            TransactionCommittedError: it has committed.
            NoSuchTransactionError: there is none of that id.
        """
        _check_id(txn_id)

        def work(connection: Connection) -> None:
            if not self.abort_in(connection, [txn_id], reason, code):
                row = self._row(connection, txn_id)
                if TxnState(row.state) is TxnState.COMMITTED:
                    raise TransactionCommittedError(txn_id)

        self._store.write(work, name="abort")

    def begin_again(self, txn_id: int, reason: str) -> int:
        """Abort a transaction, and open one like it that has its locks: nobody comes in between. The new one's id.

        So a statement that was outrun while it waited for a lock need not queue up for it again.

        Raises:
            TransactionAbortedError, TransactionCommittedError: so has it ended meanwhile.
            NoSuchTransactionError: there is none of that id.
        """
        _check_id(txn_id)
        opened: list[int] = []

        def work(connection: Connection) -> int:
            stored = connection.execute(select(txns).where(txns.c.id == txn_id)).one_or_none()
            if stored is None:
                raise NoSuchTransactionError(txn_id)
            new = NewTransaction(
                type=TxnType(stored.type),
                timeout_s=stored.timeout_s,
                user=stored.user,
                host=stored.host,
                agent_info=stored.agent_info,
                key=None,
            )
            opened[:] = open_transactions(joined(connection), new, 1, self._clock(), None)
            (successor,) = opened
            held = (locks.c.txn_id == txn_id, locks.c.state == LockState.ACQUIRED.value)
            connection.execute(update(locks).where(*held).values(txn_id=successor))
            if not self.abort_in(connection, [txn_id], reason, AbortReason.WRITE_CONFLICT):
                raise_if_settled(txn_id, self._row(connection, txn_id))
            return successor

        try:
            return self._store.write(work, name="abort")
        except BaseException:
            self._abort_unknown_successor(txn_id, opened, reason)
            raise

    def _abort_unknown_successor(self, txn_id: int, opened: Sequence[int], reason: str) -> None:
        """Abort a successor that nobody has learned of, if it exists: an interrupt may come after the commit.

        Else its id may be another one's by now.
        """
        for successor in opened:
            try:
                found = self.get(txn_id)
                if (found.reason, found.reason_code) == (reason, AbortReason.WRITE_CONFLICT.number):
                    self.abort_many([successor], "its owner was interrupted when it was opened")
            except HivexError as failure:
                log.warning("Transaction %s could not be aborted and will time out: %s", successor, failure)

    def abort_many(
        self, txn_ids: Iterable[int], reason: str | None = None, code: AbortReason = AbortReason.ABORT_QUERY
    ) -> list[int]:
        """Abort those of the transactions that are open, and return their ids; the others are ignored."""
        wanted = sorted({txn_id for txn_id in txn_ids if is_id(txn_id)})

        def work(connection: Connection) -> list[int]:
            return self.abort_in(connection, wanted, reason, code)

        return self._store.write(work, name="abort") if wanted else []

    def abort_in(
        self, connection: Connection, txn_ids: Sequence[int], reason: str | None, code: AbortReason
    ) -> list[int]:
        """:meth:`abort_many` in the caller's database transaction; ``txn_ids`` are sorted."""
        return [
            txn_id
            for batch in batches(txn_ids)
            for txn_id in self._abort_where(connection, txns.c.id.in_(batch), reason=reason, code=code)
        ]

    def heartbeat(self, txn_id: int | None = None, lock_id: int | None = None) -> None:
        """Note that the owner of a transaction, of a lock, or of both is alive; None and 0 stand for none.

        One round trip each.

        Raises:
            TransactionAbortedError: it was aborted.
            NoSuchTransactionError: there is none of that id, or it has committed.
            NoSuchLockError: there is no such lock.
        """
        if lock_id and not is_id(lock_id):
            raise NoSuchLockError(lock_id)
        if txn_id is not None and txn_id != 0:
            _check_id(txn_id)
        elif not lock_id:
            raise NoSuchTransactionError(txn_id or 0)

        def work(connection: Connection) -> None:
            if lock_id:
                beaten = connection.execute(
                    update(locks).where(locks.c.lock_id == lock_id).values(heartbeat_ms=self._clock())
                )
                if not beaten.rowcount:
                    raise NoSuchLockError(lock_id)
            if txn_id:
                self.heartbeat_in(connection, txn_id)

        self._store.write(work, name="heartbeat")

    def heartbeat_range(self, lo: int, hi: int) -> HeartbeatRange:
        """Note that the owner of all transactions from ``lo`` to ``hi`` is alive; tell which cannot be.

        Ids that are unknown or committed, and aborted ones, cause no error. One round trip when all are open.

        Raises:
            InvalidTransactionRequestError: that is not a range, or it is wider than ``hive.max.open.txns``.
        """
        widest = int(self._settings["hive.max.open.txns"])
        if not (is_id(lo) and is_id(hi) and 0 <= hi - lo < widest):
            raise InvalidTransactionRequestError(
                f"Transactions {lo} to {hi} are not a range of at most {widest} ids, so none had a heartbeat."
            )
        within = txns.c.id.between(lo, hi)

        def work(connection: Connection) -> HeartbeatRange:
            alive = connection.execute(update(txns).where(within, IS_OPEN).values(heartbeat_ms=self._clock()))
            if alive.rowcount == hi - lo + 1:
                return HeartbeatRange()
            states: Mapping[int, str] = {
                row.id: row.state for row in connection.execute(select(txns.c.id, txns.c.state).where(within))
            }
            ended = {txn_id: states.get(txn_id) for txn_id in range(lo, hi + 1)}
            return HeartbeatRange(
                no_such=frozenset(txn for txn, state in ended.items() if state in (None, TxnState.COMMITTED.value)),
                aborted=frozenset(txn for txn, state in ended.items() if state == TxnState.ABORTED.value),
            )

        return self._store.write(work, name="heartbeat")

    def abort_timed_out(self) -> list[int]:
        """Abort every open transaction whose last heartbeat is older than its time-out; return their ids.

        In batches, each in a database transaction of its own.
        """
        aborted: list[int] = []

        def work(connection: Connection) -> list[int]:
            return self._abort_where(
                connection,
                self._clock() > _TIMED_OUT_MS,
                reason=AbortReason.TIMEOUT.words,
                code=AbortReason.TIMEOUT,
                limit=_ABORT_BATCH,
            )

        while batch := self._store.write(work, name="abort"):
            aborted += batch
            if len(batch) < _ABORT_BATCH:
                break
        return aborted

    # -- write ids ------------------------------------------------------------------

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
        _check_id(txn_id)

        def work(connection: Connection) -> None:
            table_id = read_table_id(connection, database, table)
            self.check_open(connection, txn_id)
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

    # -- snapshots ------------------------------------------------------------------

    def valid_txns(self, txn_id: int | None = None) -> ValidTxnList:
        """Return the snapshot of now, or the one that transaction ``txn_id`` has of it. One round trip.

        Raises:
            NoSuchTransactionError: no transaction can have this id.
        """
        if txn_id is not None:
            _check_id(txn_id)
        with self._store.read() as connection:
            return read_valid_txns(connection, txn_id)

    def valid_write_ids(self, names: Sequence[str], valid_txns: ValidTxnList) -> dict[str, ValidWriteIdList]:
        """Return the write id lists of tables (``database.table``) in a snapshot.

        Raises:
            NoSuchTableError: one of them does not exist.
        """
        with self._store.read() as connection:
            found = _by_id(connection, names)
            lists = read_valid_write_ids(connection, found, valid_txns)
        return {found[table_id]: write_ids for table_id, write_ids in lists.items()}

    def written_since(
        self, names: Sequence[str], valid_txns: ValidTxnList, *, updates_only: bool = False
    ) -> frozenset[str]:
        """Return the tables (``database.table``) to which something was committed after the snapshot.

        For whoever has waited for locks: if it is not empty, the snapshot is too old for a statement
        that keeps others from writing. ``updates_only`` leaves out inserts. The snapshot's
        transaction is still open, which keeps the records that are needed.

        Raises:
            NoSuchTableError: one of them does not exist.
        """
        with self._store.read() as connection:
            found = _by_id(connection, names)
            return conflicts.written_since(connection, found, valid_txns, updates_only=updates_only)

    def would_conflict(self, txn_id: int, resources: Collection[tuple[int, str | None]]) -> bool:
        """Return whether :meth:`commit` would lose now, had the transaction updated the ``resources``.

        Each is the id of a table and a partition, or None for all of the table. No row is locked: what
        is committed after this is not known. One round trip for up to 10,000 tables.

        Raises:
            NoSuchTransactionError: no transaction can have this id.
        """
        _check_id(txn_id)
        with self._store.read() as connection:
            return conflicts.would_conflict(connection, txn_id, resources)

    # -- parts ----------------------------------------------------------------------

    def check_open(self, connection: Connection, txn_id: int) -> None:
        """See to it that a transaction is open, and stays so until the caller's database transaction ends.

        Raises:
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: it is not.
        """
        raise_if_settled(txn_id, self._row(connection, txn_id, for_update=True, read=True))

    def _commit(
        self,
        connection: Connection,
        txn_id: int,
        changes: Callable[[Connection], None] | None,
        exclusive_write_locks: bool,
    ) -> None:
        exchange = joined(connection)
        (found,) = exchange.send(txn_rows.LOCK(txn_id=txn_id))
        row = _row_from(txn_id, found)
        if row.state == TxnState.COMMITTED.value:
            return
        raise_if_settled(txn_id, row)
        with notification_log.deferred(connection) as events:
            if row.statements and self._register_writes is not None:
                self._register_writes(connection, txn_id)
            if changes is not None:
                changes(connection)
        written, held = exchange.send(conflicts.WRITES(txn_id=txn_id), HELD_BY_TXN(txn_id=txn_id))
        self._settle(exchange, row, written, held, exclusive_write_locks, events)

    def _commit_alone(self, exchange: Exchange, txn_id: int, exclusive_write_locks: bool) -> bool:
        """Commit in two round trips, unless something is to be registered together with that."""
        found, written, held = exchange.send(
            txn_rows.LOCK(txn_id=txn_id), conflicts.WRITES(txn_id=txn_id), HELD_BY_TXN(txn_id=txn_id)
        )
        row = _row_from(txn_id, found)
        if row.state == TxnState.COMMITTED.value:
            return True
        raise_if_settled(txn_id, row)
        if row.statements and self._register_writes is not None:
            return False
        self._settle(exchange, row, written, held, exclusive_write_locks)
        return True

    def _settle(
        self,
        exchange: Exchange,
        row: TxnRow,
        written: Rows,
        held: Rows,
        exclusive_write_locks: bool,
        events: Sequence[Call] = (),
    ) -> None:
        """Commit a transaction whose row is locked. One round trip, and one more to look for conflicts."""
        kind = TxnType(row.type)
        writes = [] if kind is TxnType.READ_ONLY else conflicts.writes_from(written)
        updating = any(write.updates for write in writes)
        if updating and not exclusive_write_locks:
            sentence = conflicts.find_conflict(exchange, row.id, writes)
            if sentence is not None:
                raise conflicts.ConflictFoundError(sentence)
        now = self._clock()
        calls: list[Call] = []
        if kind not in _WITHOUT_COMPLETED_COMPONENTS:
            calls += conflicts.completing(row.id, writes, now)
        if any(write.operation for write in writes):
            calls.append(conflicts.forgetting_components(row.id))
        calls += releasing(row.id, [(lock_id, state) for lock_id, state in held])
        if updating:
            calls += conflicts.recording_write_set(row.id, writes)
        calls.append(_COMMITTED(txn_id=row.id, now_ms=now))
        calls += events
        write_ids = {write.full_name: write.write_id for write in writes if write.write_id}
        if write_ids:
            partitions: dict[str, list[str]] = defaultdict(list)
            for table, name in sorted({(write.full_name, write.partition) for write in writes if write.partition}):
                partitions[table].append(name)
            message = {"write_ids": write_ids, "partitions": partitions}
            calls.append(notification_log.recording(now, EventType.COMMIT_TXN, txn_id=row.id, message=message))
        exchange.finish(*calls)

    def _abort_conflicting(self, txn_id: int, sentence: str) -> None:
        def work(connection: Connection) -> None:
            self.abort_in(connection, [txn_id], sentence, AbortReason.WRITE_CONFLICT)

        self._store.write(work, name="abort")
        raise WriteConflictError(txn_id, sentence)

    def _abort_where(
        self,
        connection: Connection,
        condition: ColumnElement[bool],
        *,
        reason: str | None,
        code: AbortReason,
        limit: int | None = None,
    ) -> list[int]:
        """Abort the open transactions that meet the condition, with their locks and events; return their ids."""
        reason = None if reason is None else told(reason, _REASON_LENGTH)
        # In the order of ids, as everywhere; a reaper (with a limit) leaves alone who is just now
        # committing or sending a heartbeat.
        chosen = (
            select(txns.c.id)
            .where(IS_OPEN, condition)
            .order_by(txns.c.id)
            .limit(limit)
            .with_for_update(skip_locked=limit is not None)
        )
        ids = sorted(
            connection.execute(
                update(txns)
                .where(txns.c.id.in_(chosen), IS_OPEN)
                .values(state=TxnState.ABORTED.value, reason=reason, reason_code=code.number, ended_ms=self._clock())
                .returning(txns.c.id)
            ).scalars()
        )
        for batch in batches(ids):
            release(connection, locks.c.txn_id.in_(batch))
        for batch in batches(ids):
            self._record_aborts(connection, batch)
        return ids

    def _record_aborts(self, connection: Connection, txn_ids: Sequence[int]) -> None:
        """Write the events of those that had taken write ids."""
        mapping = txn_to_write_id.c
        written: dict[int, dict[str, int]] = defaultdict(dict)
        for txn_id, database, table, write_id in connection.execute(
            select(mapping.txn_id, databases.c.name, tables.c.name, mapping.write_id)
            .select_from(txn_to_write_id)
            .join(tables, tables.c.id == mapping.table_id)
            .join(databases, databases.c.id == tables.c.database_id)
            .where(mapping.txn_id.in_(txn_ids))
        ):
            written[txn_id][f"{database}.{table}"] = write_id
        for txn_id in sorted(written):
            notification_log.record(
                connection, self._clock(), EventType.ABORT_TXN, txn_id=txn_id, message={"write_ids": written[txn_id]}
            )

    def heartbeat_in(self, connection: Connection, txn_id: int) -> None:
        """Send the transaction's half of :meth:`heartbeat` in the caller's database transaction."""
        alive = connection.execute(update(txns).where(txns.c.id == txn_id, IS_OPEN).values(heartbeat_ms=self._clock()))
        if alive.rowcount:
            return
        row = self._row(connection, txn_id)
        if row.state == TxnState.COMMITTED.value:
            raise NoSuchTransactionError(txn_id)
        raise_if_settled(txn_id, row)

    def _row(self, connection: Connection, txn_id: int, *, for_update: bool = False, read: bool = False) -> Row[Any]:
        query: Select[Any] = select(
            txns.c.id, txns.c.state, txns.c.type, txns.c.reason, txns.c.reason_code, txns.c.statements
        )
        query = query.where(txns.c.id == txn_id)
        row = connection.execute(query.with_for_update(read=read) if for_update else query).one_or_none()
        if row is None:
            raise NoSuchTransactionError(txn_id)
        return row

    def _default_timeout_s(self, type: TxnType) -> int:
        if type is TxnType.REPL_CREATED:
            return max(1, int(self._settings["hive.repl.txn.timeout"] * 86_400))
        return int(self._settings["hive.txn.timeout"])


def _by_id(connection: Connection, names: Sequence[str]) -> dict[int, str]:
    """Return the ids of tables (``database.table``), with the names as they were given. One round trip."""
    wanted = {name: split_name(name) for name in names}
    found = read_table_ids(connection, wanted.values())
    return {found[normalise(database), normalise(table)]: name for name, (database, table) in wanted.items()}


def _row_from(txn_id: int, found: Rows) -> TxnRow:
    if not found:
        raise NoSuchTransactionError(txn_id)
    return TxnRow(*found[0])


def _check_id(txn_id: int) -> None:
    if not is_id(txn_id):
        raise NoSuchTransactionError(txn_id)


def _check_key(key: str) -> None:
    if not (isinstance(key, str) and 0 < len(key) <= _KEY_LENGTH and is_storable(key)):
        raise InvalidTransactionRequestError(
            f"{key!a:.100} cannot be the key of a transaction: it has 1 to {_KEY_LENGTH} characters, none of them NUL "
            "or half of a surrogate pair."
        )


def _transaction(row: Row[Any]) -> Transaction:
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
        reason_code=row.reason_code,
    )
