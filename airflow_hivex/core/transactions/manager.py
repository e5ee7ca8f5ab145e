"""The transaction manager: opens, commits and aborts transactions, and hands out write ids."""

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
from airflow_hivex.core.store.exchange import Exchange, joined
from airflow_hivex.core.store.schema import locks, txns
from airflow_hivex.core.transactions import aborting, conflicts, txn_rows
from airflow_hivex.core.transactions.allocation import WriteIdAllocator, check_id, is_id
from airflow_hivex.core.transactions.committing import Committer, RegisterWrites
from airflow_hivex.core.transactions.opening import KeyTakenError, NewTransaction, check_key, open_transactions
from airflow_hivex.core.transactions.snapshots import SnapshotReader
from airflow_hivex.core.transactions.txn_rows import TxnRow, raise_if_settled, read_row, transaction_from

log = logging.getLogger(__name__)

_AGENT_INFO_LENGTH = 4096
_LONGEST_TIMEOUT_S = 10 * 365 * 86_400
_ABORT_BATCH = 50_000

_OF_KEY = select(txns).where(txns.c.key == bindparam("key"))


class TransactionManager(SnapshotReader, WriteIdAllocator):
    """Transactions in the metastore database (Source: docs/reference/transactions.md; Hive TxnHandler).

    Every change of state is one conditional update, so that a transaction that a time-out has aborted can never commit.
    Methods that take a ``connection`` join the caller's database transaction.
    """

    def __init__(
        self, store: Store, settings: Settings, clock: Clock, register_writes: RegisterWrites | None = None
    ) -> None:
        """``register_writes`` brings the writes of a transaction's statements into the catalog, in its commit."""
        super().__init__(store)
        self._settings = settings
        self._clock = clock
        self._committer = Committer(clock, register_writes)
        self.when_committed: Callable[[int], None] | None = None
        """A function that gets the id of each transaction that this process has committed."""
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
        new = self.described(user=user, host=host, agent_info=agent_info, timeout=timeout, type=type, key=key)
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
    ) -> NewTransaction:
        """Return the values of a new transaction, for :meth:`open`.

        Raises:
            TransactionNotOpenError: ``timeout`` is not positive, or ten years are exceeded.
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
        )

    def open_together(self, new: Sequence[NewTransaction]) -> list[int]:
        """Return the ids of several new transactions of :meth:`described`, without keys, in their order.

        Two round trips, as for one of them.

        Raises:
            TooManyOpenTransactionsError: all of them are too many; none is opened.
        """
        return self._open(new)

    def _open(self, new: Sequence[NewTransaction]) -> list[int]:
        opened: list[int] = []
        has_key = new[0].key is not None

        def work(exchange: Exchange) -> list[int]:
            now = self._clock()
            check = (lambda found: self.limit.check(found, now)) if self.limit.must_count(len(new), now) else None
            # It has committed then.
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
            NoSuchTransactionError: no transaction has that id, or it has ended and its record is gone.
        """
        check_id(txn_id)
        with self._store.read() as connection:
            row = connection.execute(select(txns).where(txns.c.id == txn_id)).one_or_none()
        if row is None:
            raise NoSuchTransactionError(txn_id)
        return transaction_from(row)

    def find(self, key: str) -> Transaction | None:
        """Return the transaction that was opened with the key, or None if no transaction was, or its record is gone."""
        check_key(key)
        found = self._of_key(key)
        return None if found is None else transaction_from(found)

    def show(self) -> list[Transaction]:
        """Return the open and aborted transactions, by their ids, as SHOW TRANSACTIONS lists them. One round trip."""
        query = select(txns).where(txns.c.state != TxnState.COMMITTED.value).order_by(txns.c.id)
        with self._store.read() as connection:
            return [transaction_from(row) for row in connection.execute(query)]

    def commit(
        self,
        txn_id: int,
        changes: Callable[[Connection], None] | None = None,
        *,
        exclusive_write_locks: bool = False,
    ) -> bool:
        """Make all that the transaction wrote visible, together with ``changes``, by one row change.

        Returns whether statements may have noted writes in it that are to be cleaned up now.

        ``changes`` (registering directories, a new table) is applied in the same database
        transaction while this transaction is still open, and is undone if the commit is refused.
        Committing twice is a no-op. The transaction's locks are released. Of transactions that
        overlap and update or delete in the same partition or table, only the first can commit;
        with ``exclusive_write_locks`` the caller says that its locks have kept others out, and
        nothing is looked for. An update of no certain partition is one of all of them.

        Raises:
            WriteConflictError: another transaction was first; this one is aborted.
            TransactionAbortedError: it was aborted; nothing of it is or becomes visible.
            NoSuchTransactionError: no transaction has that id.
            CommitOutcomeUnknownError: the database was lost and could not be asked; look the
                transaction up by its id, do not delete its files.
        """
        check_id(txn_id)

        row: TxnRow | None = None
        try:
            if changes is None:
                row = self._store.exchange(
                    lambda exchange: self._committer.commit_alone(exchange, txn_id, exclusive_write_locks),
                    name="commit",
                )
            if row is None:
                row = self._store.write(
                    lambda connection: self._committer.commit(connection, txn_id, changes, exclusive_write_locks),
                    name="commit",
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
                return self.commit(txn_id, changes, exclusive_write_locks=exclusive_write_locks)
            if found.state is TxnState.ABORTED:
                raise TransactionAbortedError(txn_id, found.reason) from error
        if self.when_committed is not None:
            self.when_committed(txn_id)
        return row is None or row.statements > 0

    def commit_together(self, txn_ids: Sequence[int]) -> set[int]:
        """Commit the ones of several transactions that need not wait, and return their ids.

        With the others nothing is done: use :meth:`commit`. Two round trips for 16 transactions.

        Raises:
            OutcomeUnknownError: the connection was lost while committing; :meth:`commit` looks each of them up.
        """
        committed: set[int] = set()
        for batch in batches(sorted({txn_id for txn_id in txn_ids if is_id(txn_id)}), MOST_IDS):
            committed |= self._store.exchange(partial(self._committer.commit_together, txn_ids=batch), name="commit")
        if self.when_committed is not None:
            for txn_id in committed:
                self.when_committed(txn_id)
        return committed

    def abort(self, txn_id: int, reason: str | None = None, code: AbortReason = AbortReason.NONE) -> None:
        """Make sure that nothing the transaction wrote is ever visible. Aborting twice is a no-op.

        Its locks are released; later uses of it raise an error with ``reason``.

        Raises:
            TransactionCommittedError: it has committed.
            NoSuchTransactionError: no transaction has that id.
        """
        check_id(txn_id)

        def work(connection: Connection) -> None:
            if not self.abort_in(connection, [txn_id], reason, code):
                row = read_row(connection, txn_id)
                if TxnState(row.state) is TxnState.COMMITTED:
                    raise TransactionCommittedError(txn_id)

        self._store.write(work, name="abort")

    def begin_again(self, txn_id: int, reason: str) -> int:
        """Abort a transaction, open one like it that takes over its locks at once, and return the new id.

        So a statement that was outrun while it waited for a lock need not queue up for it again.

        Raises:
            TransactionAbortedError, TransactionCommittedError: so has it ended meanwhile.
            NoSuchTransactionError: no transaction has that id.
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
            )
            opened[:] = open_transactions(joined(connection), [new], self._clock(), None)
            (successor,) = opened
            held = (locks.c.txn_id == txn_id, locks.c.state == LockState.ACQUIRED.value)
            connection.execute(update(locks).where(*held).values(txn_id=successor))
            if not self.abort_in(connection, [txn_id], reason, AbortReason.WRITE_CONFLICT):
                raise_if_settled(txn_id, read_row(connection, txn_id))
            return successor

        try:
            return self._store.write(work, name="abort")
        except BaseException:
            self._abort_unknown_successor(txn_id, opened, reason)
            raise

    def _abort_unknown_successor(self, txn_id: int, opened: Sequence[int], reason: str) -> None:
        """Abort a successor whose id no caller has received, if it exists: an interrupt may come after the commit.

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
        """Abort the open ones of the transactions, and return their ids; the others are ignored."""
        wanted = sorted({txn_id for txn_id in txn_ids if is_id(txn_id)})

        def work(connection: Connection) -> list[int]:
            return self.abort_in(connection, wanted, reason, code)

        return self._store.write(work, name="abort") if wanted else []

    def abort_in(
        self, connection: Connection, txn_ids: Sequence[int], reason: str | None, code: AbortReason
    ) -> list[int]:
        """:meth:`abort_many` in the caller's database transaction; ``txn_ids`` are sorted."""
        return aborting.abort_in(connection, self._clock, txn_ids, reason, code)

    def heartbeat(self, txn_id: int | None = None, lock_id: int | None = None) -> None:
        """Note that the owner of a transaction, of a lock, or of both is alive; None and 0 stand for none.

        One round trip each.

        Raises:
            TransactionAbortedError: it was aborted.
            NoSuchTransactionError: no transaction has that id, or it has committed.
            NoSuchLockError: there is no such lock.
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

        self._store.write(work, name="heartbeat")

    def heartbeat_range(self, lo: int, hi: int) -> HeartbeatRange:
        """Note that the owner of all transactions from ``lo`` to ``hi`` is alive; return which have ended.

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
            return aborting.abort_timed_out_in(connection, self._clock, _ABORT_BATCH)

        while batch := self._store.write(work, name="abort"):
            aborted += batch
            if len(batch) < _ABORT_BATCH:
                break
        return aborted

    # -- parts ----------------------------------------------------------------------

    def check_open(self, connection: Connection, txn_id: int) -> None:
        """See to it that a transaction is open, and stays so until the caller's database transaction ends.

        Raises:
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: it is not.
        """
        txn_rows.check_open(connection, txn_id)

    def _abort_conflicting(self, txn_id: int, sentence: str) -> None:
        def work(connection: Connection) -> None:
            self.abort_in(connection, [txn_id], sentence, AbortReason.WRITE_CONFLICT)

        self._store.write(work, name="abort")
        raise WriteConflictError(txn_id, sentence)

    def heartbeat_in(self, connection: Connection, txn_id: int) -> None:
        """Send the transaction's half of :meth:`heartbeat` in the caller's database transaction."""
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
    """Says when open transactions must be counted, and whether there are too many.

    Once the limit was reached, nothing is opened until the count is below 90 % of it.
    """

    def __init__(self, limit: int, interval_s: int) -> None:
        self._limit = limit
        self._interval_ms = interval_s * 1000
        self._counted: int | None = None
        self._counted_ms = 0
        self._opened_since = 0
        self._refusing = False

    def must_count(self, count: int, now_ms: int) -> bool:
        """Return whether ``count`` more cannot be opened on what is known from before."""
        if self._refusing or self._counted is None or now_ms - self._counted_ms >= self._interval_ms:
            return True
        return self._counted + self._opened_since + count > self._limit * _FREE_AGAIN

    def check(self, open_count: int, now_ms: int) -> None:
        """Take note of a count.

        Raises:
            TooManyOpenTransactionsError: there are too many.
        """
        self._counted, self._counted_ms, self._opened_since = open_count, now_ms, 0
        self._refusing = open_count >= (self._limit * _FREE_AGAIN if self._refusing else self._limit)
        if self._refusing:
            raise TooManyOpenTransactionsError(open_count, self._limit)

    def opened(self, count: int) -> None:
        """Take note of what was opened here."""
        self._opened_since += count
