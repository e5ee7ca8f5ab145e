"""The transaction manager, which opens, commits and aborts transactions and sends their heartbeats."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    bindparam,
    select,
    update,
)

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    InvalidTransactionRequestError,
    NoSuchLockError,
    NoSuchTransactionError,
    StoreUnavailableError,
    TooManyOpenTransactionsError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
    WriteConflictError,
)
from airflow_hivex.core.model.locks import LockState
from airflow_hivex.core.model.texts import check_text, shortened
from airflow_hivex.core.model.transactions import (
    AbortReason,
    HeartbeatRange,
    Transaction,
    TxnState,
    TxnType,
)
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.snapshots.valid_lists import IS_OPEN
from airflow_hivex.core.store.batches import MOST_IDS, batches
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Exchange, joined, later
from airflow_hivex.core.store.schema import locks, txns
from airflow_hivex.core.transactions import commit_and_abort, conflicts, txn_rows
from airflow_hivex.core.transactions.allocation import WriteIdAllocator, check_id, is_id
from airflow_hivex.core.transactions.commit_and_abort import Committer, RegisterWrites
from airflow_hivex.core.transactions.opening import KeyTakenError, NewTransaction, check_key, open_transactions
from airflow_hivex.core.transactions.snapshots import SnapshotReader
from airflow_hivex.core.transactions.txn_rows import TxnRow, raise_if_settled, read_row, transaction_from

log = logging.getLogger(__name__)

_AGENT_INFO_LENGTH = 4096
_LONGEST_TIMEOUT_S = 10 * 365 * 86_400
_ABORT_BATCH = 50_000

_OF_KEY = select(txns).where(txns.c.key == bindparam("key"))


class TransactionManager(SnapshotReader, WriteIdAllocator):
    """The service for transactions in the metastore database (Source: docs/reference/transactions.md; Hive TxnHandler).

    Methods with a ``connection`` run in the caller's database transaction.
    """

    def __init__(
        self, store: Store, settings: Settings, clock: Clock, register_writes: RegisterWrites | None = None
    ) -> None:
        """Create the manager. Commits call ``register_writes`` to register pending writes with the catalog."""
        super().__init__(store)
        self._settings = settings
        self._clock = clock
        self._committer = Committer(clock, register_writes)
        self.companions = self._committer.companions
        """A dict from transaction id to a function whose calls are sent along with the transaction's commit."""
        self.when_committed: Callable[[int], None] | None = None
        """A function that this process calls with the id of each transaction that it has committed."""
        self.limit = OpenTransactionLimit(
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
        is_shared: bool = False,
        statement: str | None = None,
    ) -> list[int]:
        """Open ``count`` transactions, and return their consecutive ids.

        At most ``hive.txn.max.open.batch`` transactions are opened.

        ``timeout`` is in seconds. Its default is ``hive.txn.timeout``, or ``hive.repl.txn.timeout`` for a transaction
        of replication. ``key`` is a name of up to 1,024 characters that the caller chooses. While the transaction with
        the key is open, a call of any process with the same key returns the id of this transaction. The key can be used
        again after the record of the ended transaction was purged. ``is_shared`` says that several statements will run
        in the transaction. ``statement`` is a document about the opening statement (``StatementRecord``).

        One round trip, two if open transactions must be counted, and three with a key.

        Raises:
            TransactionNotOpenError: ``count`` or ``timeout`` is not positive, or ``timeout`` exceeds ten years.
            InvalidTextError: ``user`` has a character that cannot be stored.
            TooManyOpenTransactionsError: the limit ``hive.max.open.txns`` is reached; see
                :class:`OpenTransactionLimit`.
            TransactionAbortedError, TransactionCommittedError: the transaction with the key has ended.
            InvalidTransactionRequestError: the key is not valid, or ``count`` is not 1.
        """
        if count < 1:
            raise TransactionNotOpenError([], f"{count} transactions cannot be opened")
        new = self.described(
            user=user,
            host=host,
            agent_info=agent_info,
            timeout=timeout,
            type=type,
            key=key,
            is_shared=is_shared,
            statement=statement,
        )
        if key is None:
            return self._open([new] * min(count, int(self._settings["hive.txn.max.open.batch"])))
        if count != 1:
            raise InvalidTransactionRequestError(f"A key is for one transaction, not for {count}.")
        check_key(key)
        return [self._open_once(new, key)]

    def described(
        self,
        *,
        user: str = "",
        host: str | None = None,
        agent_info: str | None = None,
        timeout: int | None = None,
        type: TxnType = TxnType.DEFAULT,
        key: str | None = None,
        is_shared: bool = False,
        statement: str | None = None,
    ) -> NewTransaction:
        """Return the values of a new transaction, for example for :meth:`open_together`. No transaction is opened.

        Raises:
            TransactionNotOpenError: ``timeout`` is not positive, or exceeds ten years.
            InvalidTextError: ``user`` has a character that cannot be stored.
        """
        timeout_s = self._default_timeout_s(type) if timeout is None else int(timeout)
        if not 1 <= timeout_s <= _LONGEST_TIMEOUT_S:
            raise TransactionNotOpenError([], f"a time-out of {timeout_s} s is not possible")
        return NewTransaction(
            type=type,
            timeout_s=timeout_s,
            user=check_text("The name of a user", user)[:128],
            host=shortened(host or socket.gethostname(), 255),
            agent_info=None if agent_info is None else shortened(agent_info, _AGENT_INFO_LENGTH),
            key=key,
            is_shared=is_shared,
            statement=statement,
        )

    def open_together(self, new: Sequence[NewTransaction]) -> list[int]:
        """Open a transaction for each item of ``new``, and return their ids in the same order. Two round trips.

        The items of ``new`` are results of :meth:`described`, without keys.

        Raises:
            TooManyOpenTransactionsError: the transactions would exceed ``hive.max.open.txns``; no transaction is
                opened.
        """
        return self._open(new)

    def _open(self, new: Sequence[NewTransaction]) -> list[int]:
        opened: list[int] = []
        has_key = new[0].key is not None

        def work(exchange: Exchange) -> list[int]:
            now = self._clock()
            check = (lambda found: self.limit.check(found, now)) if self.limit.must_count(len(new), now) else None
            # The database transaction has committed when the call returns.
            opened[:] = open_transactions(exchange, new, now, check)
            return opened

        try:
            ids = self._store.exchange(work, name="open")
        except OutcomeUnknownError as error:
            if has_key:
                raise
            # No caller receives the ids: the transactions time out.
            raise StoreUnavailableError(*error.facts) from error
        except BaseException:
            if not has_key:
                # No caller has received the ids.
                self._abort_quietly(opened, "its owner was interrupted when it was opened")
            raise
        self.limit.opened(len(ids))
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
                return self._open([new])[0]
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
            NoSuchTransactionError: no transaction has the id, or its record is purged.
        """
        check_id(txn_id)
        with self._store.read() as connection:
            row = connection.execute(select(txns).where(txns.c.id == txn_id)).one_or_none()
        if row is None:
            raise NoSuchTransactionError(txn_id)
        return transaction_from(row)

    def find(self, key: str) -> Transaction | None:
        """Return the transaction that was opened with the key, or None if no transaction has the key."""
        check_key(key)
        found = self._of_key(key)
        return None if found is None else transaction_from(found)

    def show(self) -> list[Transaction]:
        """Return the open and aborted transactions, sorted by id, as SHOW TRANSACTIONS does. One round trip."""
        query = select(txns).where(txns.c.state != TxnState.COMMITTED.value).order_by(txns.c.id)
        with self._store.read() as connection:
            return [transaction_from(row) for row in connection.execute(query)]

    def commit(
        self,
        txn_id: int,
        changes: Callable[[Connection], None] | None = None,
        *,
        exclusive_write_locks: bool = False,
        has_statements: bool = False,
        only_reads: bool = False,
    ) -> bool:
        """Commit a transaction: make its writes and ``changes`` visible, and release its locks.

        Return whether the caller must clean up pending writes of killed statements. ``changes``, such as the creation
        of a table, runs in the database transaction of the commit, and is rolled back if the commit is refused. A
        second commit changes nothing.

        If two transactions that overlap in time update or delete rows of the same partition or table, only the first
        commit succeeds. An update of unknown partitions conflicts with an update of any partition. A caller whose locks
        exclude other writers sets ``exclusive_write_locks``. Then the commit does not look for conflicts. Two arguments
        save round trips: set ``has_statements`` if the transaction probably has pending writes, and ``only_reads`` if
        it has only read.

        Raises:
            WriteConflictError: a conflicting transaction has committed first; the transaction is aborted.
            TransactionAbortedError: the transaction was aborted; its writes never become visible.
            NoSuchTransactionError: no transaction has the id.
            CommitOutcomeUnknownError: the connection was lost, and the outcome could not be read. Look up the
                transaction by its id, and do not delete the files of the transaction.
        """
        check_id(txn_id)

        row: TxnRow | None = None
        try:
            if only_reads and self._store.exchange(
                lambda exchange: self._committer.commit_reader(exchange, txn_id), name="commit"
            ):
                # No cache keeps anything for a transaction without writes.
                return False
            if changes is None:
                row = self._store.exchange(
                    lambda exchange: self._committer.commit_alone(exchange, txn_id, exclusive_write_locks),
                    name="commit",
                )
            if row is None:
                row = self._commit_with(txn_id, changes, exclusive_write_locks, has_statements)
        except conflicts.ConflictFoundError as conflict:
            self._abort_conflicting(txn_id, conflict.sentence)
        except OutcomeUnknownError as error:
            try:
                found = self.get(txn_id)
            except HivexError as lookup_error:
                raise CommitOutcomeUnknownError(txn_id, self._store.name) from lookup_error
            if found.state is TxnState.OPEN:
                # The server has not applied the commit.
                return self.commit(
                    txn_id, changes, exclusive_write_locks=exclusive_write_locks, has_statements=has_statements
                )
            if found.state is TxnState.ABORTED:
                raise TransactionAbortedError(txn_id, found.reason) from error
        if self.when_committed is not None:
            self.when_committed(txn_id)
        return row is None or row.statements > 0

    def _commit_with(
        self,
        txn_id: int,
        changes: Callable[[Connection], None] | None,
        exclusive_write_locks: bool,
        has_statements: bool,
    ) -> TxnRow:
        def work(connection: Connection, *, is_plain: bool) -> TxnRow:
            return self._committer.commit(connection, txn_id, changes, exclusive_write_locks, is_plain=is_plain)

        for is_plain in (True, False) if changes is not None and not has_statements else (False,):
            try:
                return self._store.write(partial(work, is_plain=is_plain), name="commit")
            except commit_and_abort.OtherRowError as other:
                row = other.row
                if row.state == TxnState.COMMITTED.value:
                    break
        return row

    def commit_together(self, txn_ids: Sequence[int]) -> set[int]:
        """Commit the transactions that need no check for conflicts, and return their ids.

        The other transactions in ``txn_ids`` stay unchanged. Call :meth:`commit` for each of these. Two round trips per
        16 transactions.

        Raises:
            OutcomeUnknownError: the connection was lost during the commit. Call :meth:`commit` for each transaction.
        """
        committed: set[int] = set()
        for batch in batches(sorted({txn_id for txn_id in txn_ids if is_id(txn_id)}), MOST_IDS):
            committed |= self._store.exchange(partial(self._committer.commit_together, txn_ids=batch), name="commit")
        if self.when_committed is not None:
            for txn_id in committed:
                self.when_committed(txn_id)
        return committed

    def abort(self, txn_id: int, reason: str | None = None, code: AbortReason = AbortReason.NONE) -> None:
        """Abort a transaction: its writes never become visible, and its locks are released.

        A further use of the transaction raises an error with ``reason``. A second abort changes nothing.

        Raises:
            TransactionCommittedError: the transaction has committed.
            NoSuchTransactionError: no transaction has the id.
        """
        check_id(txn_id)

        def work(connection: Connection) -> None:
            if not self.abort_in(connection, [txn_id], reason, code):
                row = read_row(connection, txn_id)
                if TxnState(row.state) is TxnState.COMMITTED:
                    raise TransactionCommittedError(txn_id)

        self._store.write(work, name="abort")

    def begin_again(self, txn_id: int, reason: str) -> int:
        """Abort a transaction, open another transaction with the same user and settings, and return its id.

        The opened transaction gets the acquired locks of the aborted transaction. A statement calls this method if
        other transactions have committed while the statement waited for a lock.

        Raises:
            TransactionAbortedError, TransactionCommittedError: the transaction has ended meanwhile.
            NoSuchTransactionError: no transaction has the id.
        """
        check_id(txn_id)
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
                statement=stored.statement,
            )
            opened[:] = open_transactions(joined(connection), [new], self._clock(), None)
            (successor,) = opened
            held = (locks.c.txn_id == txn_id, locks.c.state == LockState.ACQUIRED.value)
            later(connection, update(locks).where(*held).values(txn_id=successor))
            if not self.abort_in(connection, [txn_id], reason, AbortReason.WRITE_CONFLICT):
                raise_if_settled(txn_id, read_row(connection, txn_id))
            return successor

        try:
            return self._store.write(work, name="abort")
        except BaseException:
            self._abort_unknown_successor(txn_id, opened, reason)
            raise

    def _abort_unknown_successor(self, txn_id: int, opened: Sequence[int], reason: str) -> None:
        """Abort the successor of a transaction, because no caller has received the successor's id.

        Nothing is aborted if the successor was not opened. Another client can then have a transaction with the same id.
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
        """Abort the open transactions among ``txn_ids``, and return the ids of the aborted transactions."""
        wanted = sorted({txn_id for txn_id in txn_ids if is_id(txn_id)})

        def work(connection: Connection) -> list[int]:
            return self.abort_in(connection, wanted, reason, code)

        return self._store.write(work, name="abort") if wanted else []

    def abort_in(
        self, connection: Connection, txn_ids: Sequence[int], reason: str | None, code: AbortReason
    ) -> list[int]:
        """Abort the open transactions among ``txn_ids`` in the caller's database transaction, and return their ids.

        ``txn_ids`` must be sorted.
        """
        return commit_and_abort.abort_in(connection, self._clock, txn_ids, reason, code)

    def heartbeat(self, txn_id: int | None = None, lock_id: int | None = None) -> None:
        """Send a heartbeat for a transaction, for a lock, or for both. One round trip for each.

        An id of None or 0 is ignored, but one id must be given.

        Raises:
            TransactionAbortedError: the transaction was aborted.
            NoSuchTransactionError: no transaction has the id, or the transaction has committed.
            NoSuchLockError: the lock does not exist.
        """
        if lock_id and not is_id(lock_id):
            raise NoSuchLockError(lock_id)
        if txn_id is not None and txn_id != 0:
            check_id(txn_id)
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

        if lock_id:
            self._store.write(work, name="heartbeat")
        else:
            self._store.write_one(work, name="heartbeat")

    def heartbeat_range(self, lo: int, hi: int) -> HeartbeatRange:
        """Send heartbeats for the open transactions from ``lo`` to ``hi``, and return the ids that are not open.

        Ids of unknown, committed or aborted transactions cause no error. One round trip if all transactions are open.

        Raises:
            InvalidTransactionRequestError: the ids are not a range, or the range exceeds ``hive.max.open.txns``.
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
        """Abort all timed-out transactions, and return their ids.

        A transaction has timed out if it is open, and its last heartbeat is older than its time-out. Each batch of
        transactions is aborted in its own database transaction.
        """
        with self._store.read() as connection:
            if not commit_and_abort.has_timed_out(connection, self._clock):
                return []
        aborted: list[int] = []

        def work(connection: Connection) -> list[int]:
            return commit_and_abort.abort_timed_out_in(connection, self._clock, _ABORT_BATCH)

        while batch := self._store.write(work, name="abort"):
            aborted += batch
            if len(batch) < _ABORT_BATCH:
                break
        return aborted

    # -- parts ----------------------------------------------------------------------

    def check_open(self, connection: Connection, txn_id: int) -> None:
        """Check that a transaction is open, and keep it open until the caller's database transaction ends.

        Raises:
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: the transaction is not open.
        """
        txn_rows.check_open(connection, txn_id)

    def _abort_conflicting(self, txn_id: int, sentence: str) -> None:
        def work(connection: Connection) -> None:
            self.abort_in(connection, [txn_id], sentence, AbortReason.WRITE_CONFLICT)

        self._store.write(work, name="abort")
        raise WriteConflictError(txn_id, sentence)

    def heartbeat_in(self, connection: Connection, txn_id: int) -> None:
        """Send a heartbeat for a transaction in the caller's database transaction; see :meth:`heartbeat`."""
        alive = connection.execute(update(txns).where(txns.c.id == txn_id, IS_OPEN).values(heartbeat_ms=self._clock()))
        if alive.rowcount:
            return
        row = read_row(connection, txn_id)
        if row.state == TxnState.COMMITTED.value:
            raise NoSuchTransactionError(txn_id)
        raise_if_settled(txn_id, row)

    def _default_timeout_s(self, type: TxnType) -> int:
        if type is TxnType.REPL_CREATED:
            return max(1, int(self._settings["hive.repl.txn.timeout"] * 86_400))
        return int(self._settings["hive.txn.timeout"])


_FREE_AGAIN = 0.9


class OpenTransactionLimit:
    """The limit on the number of open transactions.

    Open transactions are counted at intervals, and whenever their number is perhaps near the limit. If the limit is
    reached, no transaction can be opened until the number is below 90 % of the limit.
    """

    def __init__(self, limit: int, interval_s: int) -> None:
        self._limit = limit
        self._interval_ms = interval_s * 1000
        self._counted: int | None = None
        self._counted_ms = 0
        self._opened_since = 0
        self._refusing = False

    def must_count(self, count: int, now_ms: int) -> bool:
        """Return whether open transactions must be counted when ``count`` new transactions are opened."""
        return self.is_near(count) or now_ms - self._counted_ms >= self._interval_ms

    def is_near(self, count: int) -> bool:
        """Return whether ``count`` new transactions can reach the limit, as far as this process knows."""
        if self._refusing or self._counted is None:
            return True
        return self._counted + self._opened_since + count > self._limit * _FREE_AGAIN

    def check(self, open_count: int, now_ms: int) -> None:
        """Compare the number of open transactions with the limit, and keep the number for the next calls.

        Raises:
            TooManyOpenTransactionsError: the number has reached the limit, or has not fallen below 90 % of the limit
                since then.
        """
        self._counted, self._counted_ms, self._opened_since = open_count, now_ms, 0
        self._refusing = open_count >= (self._limit * _FREE_AGAIN if self._refusing else self._limit)
        if self._refusing:
            raise TooManyOpenTransactionsError(open_count, self._limit)

    def opened(self, count: int) -> None:
        """Add ``count`` to the number of transactions that this process has opened since the last count."""
        self._opened_since += count
