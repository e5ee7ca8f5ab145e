"""The lock manager. Requests wait in the order of their ids, and all locks of a request are granted together.

A request takes the next id. It waits for locks with lower ids that conflict with its own locks. A request with a lower
id cannot appear afterwards, because ids become visible in their order. So a grant need not block all other requests.
Source: docs/reference/locks.md.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, select, update

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import (
    InvalidLockRequestError,
    LockOfOpenTransactionError,
    LockTimeoutError,
    NoSuchLockError,
)
from airflow_hivex.core.model.locks import (
    MATRICES,
    LockComponent,
    LockInfo,
    LockResponse,
    LockState,
    LockType,
    show_order,
)
from airflow_hivex.core.model.texts import check_text, shortened
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import Call, Exchange, later
from airflow_hivex.core.store.schema import counters, locks
from airflow_hivex.core.store.schema.base import partition_to_column
from airflow_hivex.core.transactions.allocation import is_id
from airflow_hivex.core.transactions.beginning import Begun, begin
from airflow_hivex.core.transactions.commit_and_abort import Companion
from airflow_hivex.core.transactions.locks.grants import LockRequest, are_simple, checks_at_once, grant_at_once
from airflow_hivex.core.transactions.locks.queue import blocker_of
from airflow_hivex.core.transactions.locks.requests import check_components, check_request, note_components
from airflow_hivex.core.transactions.locks.rows import (
    component_from_row,
    lock_from_row,
    release,
    select_locks,
    unlocking,
)
from airflow_hivex.core.transactions.locks.waiting import LockWaiter, WaitingRequest
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.single_changes import commit_at_once

log = logging.getLogger(__name__)


class LockManager:
    """The service for locks on databases, tables and partitions (Source: Hive TxnHandler, DbLockManager).

    The locks of a transaction are held until the transaction ends. Locks without a transaction need heartbeats, and end
    ``hive.txn.timeout`` after the last heartbeat. ``monotonic`` is the clock of a waiting request.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        transactions: TransactionManager,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._transactions = transactions
        self._matrix = MATRICES[settings["hivex.lock.matrix"]]
        self.waiter = LockWaiter(store, settings, transactions, self._matrix, monotonic)

    def acquire(
        self,
        components: Sequence[LockComponent],
        txn_id: int | None = None,
        *,
        user: str = "",
        host: str | None = None,
        agent_info: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        zero_wait_read: bool = False,
        exclusive_ctas: bool = False,
        may_be_missing: bool = False,
        waiting: Callable[[int], object] | None = None,
    ) -> LockResponse:
        """Request locks on all ``components`` together, and by default wait until the locks are granted.

        The tables and partitions that the transaction will write are recorded, too. The commit of the transaction needs
        this record to find write conflicts.

        Args:
            components: the locks; locks of one transaction never block each other.
            txn_id: the transaction that owns the locks, or None.
            user: the user of the request, shown to clients that wait for the locks.
            host: the user's machine; by default this machine.
            agent_info: the work that needs the locks, such as a DAG run and task.
            wait: whether to wait. If False, the response can be WAITING. The caller must then repeat :meth:`check`.
            timeout: the longest wait in seconds. The default follows from ``hive.lock.numretries`` and
                ``hive.lock.sleep.between.retries`` (about 91 minutes).
            zero_wait_read: whether the response is NOT_ACQUIRED at once if a SHARED_READ lock would have to wait.
            exclusive_ctas: whether the response is NOT_ACQUIRED at once if any lock would have to wait. The locked
                table need not exist.
            may_be_missing: whether a lock on a name without an object can be granted, as in Hive. The lock is then
                valid for the object that gets the name.
            waiting: a function that is called with the id of the request if the request has to wait. :meth:`unlock`
                with this id ends the wait.

        Raises:
            LockTimeoutError: the time limit is reached, and the request is withdrawn. The error names the blocking
                lock.
            DeadlockError: the transaction was the youngest in a circle of waiting transactions, and was aborted.
            TransactionAbortedError, TransactionCommittedError, NoSuchTransactionError: the transaction is not open.
            NoSuchDatabaseError, NoSuchTableError: the object does not exist.
            InvalidLockRequestError: there are no components, the time-out is negative, or a component of a
                transaction has no operation.
        """
        if timeout is not None and not timeout >= 0:
            raise InvalidLockRequestError(f"a time-out of {timeout} s is not possible")
        asked = self.described(components, txn_id, user=user, host=host, agent_info=agent_info)
        wanted = asked.components

        def work(connection: Connection) -> LockResponse:
            checked = check_request(
                connection, wanted, txn_id, new_tables=exclusive_ctas, may_be_missing=may_be_missing
            )
            if txn_id is not None:
                note_components(connection, wanted, txn_id, checked)
            return self._enqueue(connection, asked, zero_wait_read, exclusive_ctas)

        response = None
        if asked.is_simple:
            (response,) = self._grant_at_once([asked])
        if response is None:
            try:
                response = self._store.write(work, name="lock")
            except _NotGrantedError as refused:
                return refused.response
        if response.state is LockState.WAITING:
            request = WaitingRequest(response.lock_id, txn_id, ", ".join(component.resource for component in wanted))
            with self.waiter.released_on_error(request):
                if waiting is not None:
                    waiting(request.lock_id)
                self.waiter.break_deadlock(txn_id)
                if wait:
                    response = self._wait(request, self.waiter.patience_s() if timeout is None else timeout)
        if response.is_acquired:
            self._store.reach("while holding")
        return response

    def begin(
        self,
        components: Sequence[LockComponent],
        begun: Callable[[Begun], object],
        *,
        write_ids_of: Sequence[int] = (),
        also: Sequence[Call] = (),
        user: str = "",
        agent_info: str | None = None,
        timeout: int | None = None,
        type: TxnType = TxnType.DEFAULT,
        statement: str | None = None,
    ) -> Begun:
        """Open a transaction, if possible with locks on all ``components`` and write ids, and return it.

        If a lock would have to wait, or there are many locks, the transaction has no locks and no write ids. The caller
        must then call :meth:`acquire` and allocate write ids. The queries ``also`` run after the locks are granted, in
        the same database transaction. ``begun`` is called with the transaction. One round trip, or two if the number of
        open transactions is perhaps near the limit.

        Raises:
            TooManyOpenTransactionsError: the limit ``hive.max.open.txns`` is reached; see ``OpenTransactionLimit``.
            InvalidLockRequestError: there are no components, or a component has no operation.
            StoreUnavailableError: no transaction was opened.
        """
        wanted = check_components(components, has_txn=True)
        new = self._transactions.described(
            user=user, agent_info=agent_info, timeout=timeout, type=type, statement=statement
        )
        request = LockRequest(wanted, None, new.user, new.host, new.agent_info)
        services = (self._store, self._transactions, self._clock, self._matrix)
        found = begin(*services, new, request, write_ids_of, also, begun)
        if found.lock is not None:
            self._store.reach("while holding")
        return found

    def described(
        self,
        components: Sequence[LockComponent],
        txn_id: int | None,
        *,
        user: str = "",
        host: str | None = None,
        agent_info: str | None = None,
    ) -> LockRequest:
        """Return a lock request for :meth:`acquire_together`.

        See :meth:`acquire` for the arguments. Nothing is locked.

        Raises:
            InvalidLockRequestError: there are no components, or a transaction's component has no operation.
        """
        return LockRequest(
            check_components(components, has_txn=txn_id is not None),
            txn_id,
            user=check_text("The name of a user", user)[:128],
            host=shortened(host or socket.gethostname(), 255),
            agent_info=None if agent_info is None else shortened(agent_info, 4096),
        )

    def acquire_together(self, requests: Sequence[LockRequest]) -> list[LockResponse | None]:
        """Grant the locks of requests that are not blocked, and return one response for each request. One round trip.

        Requests are granted in their order. The response to a blocked request is None. Call :meth:`acquire` for this
        request.
        """
        simple = [request for request in requests if request.is_simple]
        responses = iter(self._grant_at_once(simple) if simple else ())
        answers = [next(responses) if request.is_simple else None for request in requests]
        if any(answers):
            self._store.reach("while holding")
        return answers

    def commit_at_once(
        self,
        components: Sequence[LockComponent],
        changes: Callable[[Connection], None],
        *,
        user: str = "",
        agent_info: str | None = None,
        also: Companion | None = None,
    ) -> int | None:
        """Commit ``changes`` without locks, and return the id of the transaction, or None if a lock would have to wait.

        The changes are committed if locks on ``components`` could be granted at once. Otherwise the changes are rolled
        back, and the result is None. The caller must then open a transaction and call :meth:`acquire`. The calls of
        ``also`` are sent along with the commit.

        Raises:
            StoreUnavailableError: nothing was applied. If the connection is lost, the outcome is looked up first.
        """
        if not are_simple(components):
            return None
        checks = checks_at_once(self._matrix, list(dict.fromkeys(components)))
        return commit_at_once(
            self._store, self._transactions, self._clock, changes, checks, user=user, agent_info=agent_info, also=also
        )

    def check(self, lock_id: int) -> LockResponse:
        """Check whether a waiting request can be granted now, and return the response.

        The request and its transaction get a heartbeat.

        Raises:
            NoSuchLockError: the request was removed, for example by an abort of its transaction.
        """
        if not is_id(lock_id):
            raise NoSuchLockError(lock_id)
        return self._store.write(lambda connection: self._check(connection, lock_id), name="check lock")

    def unlock(self, lock_id: int) -> None:
        """Release the locks of a request that has no transaction or still waits.

        Nothing happens if the request was removed before.

        Raises:
            LockOfOpenTransactionError: the locks are held until their transaction ends.
            NoSuchLockError: no lock can have this id.
        """
        if not is_id(lock_id):
            raise NoSuchLockError(lock_id)

        def work(exchange: Exchange) -> None:
            found, *_ = exchange.finish(*unlocking(lock_id))
            for txn_id, state in found:
                if txn_id and state == LockState.ACQUIRED.value:
                    raise LockOfOpenTransactionError(lock_id, txn_id)

        self._store.exchange(work, name="unlock")

    def heartbeat(self, lock_id: int) -> None:
        """Record that the owner of a lock without a transaction is alive.

        Raises:
            NoSuchLockError: the lock was removed.
        """
        if not is_id(lock_id):
            raise NoSuchLockError(lock_id)
        self._transactions.heartbeat(lock_id=lock_id)

    def show(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        *,
        txn_id: int | None = None,
        lock_id: int | None = None,
    ) -> list[LockInfo]:
        """Return the locks of a database, table, partition, transaction or request, or all locks. One round trip.

        Acquired locks come before waiting locks. Each group is sorted by strictness and id.
        """
        query = select_locks()
        if database is not None:
            named = LockComponent(database, table, partition)
            query = query.where(locks.c.database == named.database)
            if named.table is not None:
                query = query.where(locks.c.table == named.table)
            if named.partition is not None:
                query = query.where(locks.c.partition == named.partition)
        elif table is not None or partition is not None:
            raise InvalidLockRequestError("a filter on a table needs its database")
        for column, number in ((locks.c.txn_id, txn_id), (locks.c.lock_id, lock_id)):
            if number is not None:
                query = query.where(column == (number if is_id(number) else -1))
        with self._store.read() as connection:
            return sorted(map(lock_from_row, connection.execute(query)), key=show_order)

    def drop_timed_out(self) -> list[int]:
        """Remove timed-out locks without a transaction, and return the ids of their requests.

        A lock has timed out if its last heartbeat is older than ``hive.txn.timeout``.
        """
        oldest_ms = self._clock() - int(self._settings["hive.txn.timeout"]) * 1000

        is_late = (locks.c.txn_id == 0, locks.c.heartbeat_ms < oldest_ms)
        with self._store.read() as connection:
            if connection.execute(select(locks.c.lock_id).where(*is_late).limit(1)).first() is None:
                return []

        def work(connection: Connection) -> list[int]:
            return sorted(release(connection, *is_late))

        return self._store.write(work, name="drop locks")

    # -- parts ----------------------------------------------------------------------

    def _grant_at_once(self, requests: Sequence[LockRequest]) -> list[LockResponse | None]:
        return self._store.exchange(
            lambda exchange: grant_at_once(exchange, self._matrix, requests, self._clock()), name="lock"
        )

    def _enqueue(
        self, connection: Connection, request: LockRequest, zero_wait_read: bool, exclusive_ctas: bool
    ) -> LockResponse:
        wanted, txn_id = request.components, request.txn_id
        lock_id = connection.execute(
            update(counters)
            .where(counters.c.name == "lock")
            .values(value=counters.c.value + 1)
            .returning(counters.c.value)
        ).scalar_one()
        # Reads come first: a read that must not wait is refused, whatever else blocks the request.
        found = blocker_of(
            connection, self._matrix, sorted(wanted, key=lambda each: each.type.strictness), txn_id, before=None
        )
        blocked, blocker = found or (None, None)
        if blocked is not None and blocker is not None:
            if exclusive_ctas:
                message = f"A table {blocked.resource} is being made by another transaction: {blocker.describe()}"
                raise _NotGrantedError(LockResponse(0, LockState.NOT_ACQUIRED, blocker, message))
            if zero_wait_read and blocked.type is LockType.SHARED_READ:
                message = f"Unable to acquire a read lock due to an existing exclusive lock: {blocker.describe()}"
                raise _NotGrantedError(LockResponse(0, LockState.NOT_ACQUIRED, blocker, message))
        state = LockState.ACQUIRED if blocker is None else LockState.WAITING
        now = self._clock()
        rows = [
            {
                "lock_id": lock_id,
                "internal_id": number,
                "txn_id": txn_id or 0,
                "database": component.database,
                "table": component.table or "",
                "partition": partition_to_column(component.partition),
                "full_table": component.full_table,
                "resource": component.resource,
                "type": component.type.value,
                "strictness": component.type.strictness,
                "operation": component.operation.value,
                "state": state.value,
                "requested_ms": now,
                "heartbeat_ms": now,
                "acquired_ms": now if blocker is None else None,
                "blocked_by_lock_id": blocker.lock_id if blocker and component == blocked else None,
                "blocked_by_internal_id": blocker.internal_id if blocker and component == blocked else None,
                "user": request.user,
                "host": request.host,
                "agent_info": request.agent_info,
            }
            for number, component in enumerate(wanted, 1)
        ]
        for batch in batches(rows):
            later(connection, insert(locks), batch)
        return LockResponse(lock_id, state, blocker)

    def _check(self, connection: Connection, lock_id: int) -> LockResponse:
        own = connection.execute(select(locks).where(locks.c.lock_id == lock_id).order_by(locks.c.internal_id)).all()
        if not own:
            raise NoSuchLockError(lock_id)
        txn_id = own[0].txn_id or None
        of_request = locks.c.lock_id == lock_id
        if txn_id is None:
            later(connection, update(locks).where(of_request).values(heartbeat_ms=self._clock()))
        else:
            self._transactions.heartbeat_in(connection, txn_id)
        if own[0].state == LockState.ACQUIRED.value:
            return LockResponse(lock_id, LockState.ACQUIRED)
        components = [component_from_row(row) for row in own]
        found = blocker_of(connection, self._matrix, components, txn_id, before=lock_id)
        if found is None:
            granted = connection.execute(
                update(locks)
                .where(of_request)
                .values(
                    state=LockState.ACQUIRED.value,
                    acquired_ms=self._clock(),
                    blocked_by_lock_id=None,
                    blocked_by_internal_id=None,
                )
            )
            if granted.rowcount != len(own):
                raise NoSuchLockError(lock_id)
            return LockResponse(lock_id, LockState.ACQUIRED)
        blocked, blocker = found
        waiting = own[components.index(blocked)]
        blocked_by = (blocker.lock_id, blocker.internal_id)
        if (waiting.blocked_by_lock_id, waiting.blocked_by_internal_id) != blocked_by:
            later(
                connection, update(locks).where(of_request).values(blocked_by_lock_id=None, blocked_by_internal_id=None)
            )
            later(
                connection,
                update(locks)
                .where(of_request, locks.c.internal_id == waiting.internal_id)
                .values(blocked_by_lock_id=blocked_by[0], blocked_by_internal_id=blocked_by[1]),
            )
        return LockResponse(lock_id, LockState.WAITING, blocker)

    def _wait(self, request: WaitingRequest, timeout_s: float) -> LockResponse:
        try:
            return self.waiter.wait(request, self.check, timeout_s)
        except LockTimeoutError:
            self._dump()
            raise

    def _dump(self) -> None:
        if self._settings["hive.txn.manager.dump.lock.state.on.acquire.timeout"]:
            log.warning("The locks: %s", "; ".join(lock.describe() for lock in self.show()))


class _NotGrantedError(Exception):
    """Error: a request that must not wait would have to wait. Its database transaction is rolled back."""

    def __init__(self, response: LockResponse) -> None:
        super().__init__(response.message)
        self.response = response
