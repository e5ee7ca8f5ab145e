"""The wait for locks: pauses, notifications of released locks, and deadlocks.

Source: docs/reference/locks.md, "Queue".
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, literal_column, select, union_all

from airflow_hivex.core.errors import DeadlockError, HivexError, LockTimeoutError, NoSuchLockError
from airflow_hivex.core.model.locks import (
    HeldLocks,
    LockAction,
    LockComponent,
    LockInfo,
    LockLevel,
    LockMatrix,
    LockResponse,
    LockState,
    find_circle,
)
from airflow_hivex.core.model.transactions import AbortReason
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.listening import Listener, listening
from airflow_hivex.core.store.schema import locks
from airflow_hivex.core.transactions.locks.queue import BRANCHES, Reach, conditions_ahead
from airflow_hivex.core.transactions.locks.rows import CHANNEL, component_from_row, release
from airflow_hivex.core.transactions.manager import TransactionManager

log = logging.getLogger(__name__)

# Source: docs/reference/locks.md, "Queue" (Hive DbLockManager).
_FIRST_PAUSE_S = 0.1
_SHORTEST_LIMIT_S = 15
# The seconds after which a waiter logs its blocker again.
_LOG_EVERY_S = 60
_LONGEST_SHOWN = 500
# The seconds between two checks of the blocker without announcements.
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request that waits for its locks. ``wanted`` names the requested objects in messages."""

    lock_id: int
    txn_id: int | None
    wanted: str


class LockWaiter:
    """The service that waits until a request is granted. ``monotonic`` is its clock."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        transactions: TransactionManager,
        matrix: LockMatrix,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._settings = settings
        self._transactions = transactions
        self._matrix = matrix
        self._monotonic = monotonic
        self.while_waiting: Callable[[], object] | None = None
        """A function that removes locks of dead clients. It is called repeatedly while a request waits."""

    def wait(self, request: WaitingRequest, check: Callable[[int], LockResponse], timeout_s: float) -> LockResponse:
        """Wait until a request is granted, and return the response. ``check`` tries to grant the request.

        Raises:
            LockTimeoutError: the time limit is reached.
            DeadlockError: the transaction was the youngest in a circle of waiting transactions, and was aborted.
            TransactionAbortedError, NoSuchLockError: the transaction, or the request, has ended.
        """
        began = self._monotonic()
        logged_at: float | None = None
        longest_pause_s = self._longest_pause_s(request.txn_id)
        pause_s = min(_FIRST_PAUSE_S, longest_pause_s)
        with listening(self._store, CHANNEL) as listener:
            while True:
                response = self._check(request, check)
                blocker = response.blocked_by
                if blocker is None:
                    return response
                if self.break_deadlock(request.txn_id) or not self._is_there(blocker):
                    continue
                now = self._monotonic()
                left_s = timeout_s - (now - began)
                if left_s <= 0:
                    raise LockTimeoutError(request.wanted, timeout_s, blocker)
                if logged_at is None or now - logged_at >= _LOG_EVERY_S:
                    logged_at = now
                    log.info(
                        "Waiting for locks on %s, for %d s so far and %d s at most: %s",
                        _shortened(request.wanted),
                        now - began,
                        timeout_s,
                        blocker.describe(),
                    )
                self._store.reach("while waiting")
                if self.while_waiting is not None:
                    self.while_waiting()
                self._rest(listener, request, blocker, min(pause_s, left_s, logged_at + _LOG_EVERY_S - now))
                pause_s = min(pause_s * 2, longest_pause_s)

    @contextmanager
    def released_on_error(self, request: WaitingRequest) -> Iterator[None]:
        """Remove the request from the queue if the block raises an error."""
        try:
            yield
        except BaseException:
            try:
                self._store.write(
                    lambda connection: release(
                        connection, locks.c.lock_id == request.lock_id, locks.c.state == LockState.WAITING.value
                    )
                )
            except HivexError as failure:
                # The caller gets the first error; the housekeeper removes the request.
                log.warning("Request %s stays in the queue until it times out: %s", request.lock_id, failure)
            raise

    def break_deadlock(self, txn_id: int | None) -> bool:
        """Abort the youngest transaction of a circle of waiting transactions with ``txn_id``.

        Return whether a circle existed.

        Raises:
            DeadlockError: ``txn_id`` was the youngest transaction, and is aborted.
        """
        if txn_id is None:
            return False
        with self._store.read() as connection:
            circle = deadlock_of(connection, self._matrix, txn_id)
        if not circle:
            return False
        victim = max(circle)
        way = " -> ".join(map(str, (*circle, circle[0])))
        reason = f"deadlock: transactions {way} wait for each other's locks, and {victim} is the youngest"
        aborted = self._transactions.abort_many([victim], reason, AbortReason.DEADLOCK)
        log.warning("Transaction %s is aborted: %s", victim, reason)
        if victim == txn_id and aborted:
            raise DeadlockError(txn_id, reason)
        return True

    def patience_s(self) -> float:
        """Return the default limit in seconds for the wait of a request, from the settings ``hive.lock.*``."""
        left, longest_s = int(self._settings["hive.lock.numretries"]), self._longest_setting_s()
        pauses_s, pause_s = 0.0, _FIRST_PAUSE_S
        while left and pause_s < longest_s:
            pauses_s += pause_s
            pause_s *= 2
            left -= 1
        return pauses_s + left * longest_s

    def _check(self, request: WaitingRequest, check: Callable[[int], LockResponse]) -> LockResponse:
        try:
            return check(request.lock_id)
        except NoSuchLockError:
            if request.txn_id is not None:
                txn_id = request.txn_id
                # An abort of the transaction has removed the lock. This raises its reason.
                self._store.write(lambda connection: self._transactions.check_open(connection, txn_id))
            raise

    def _is_there(self, blocker: LockInfo) -> bool:
        """Return whether a lock still exists, so that listeners will get a notification of its deletion.

        If a commit is just deleting the lock, the method waits for the end of the commit, and returns False.
        """
        query = (
            select(locks.c.lock_id)
            .where(locks.c.lock_id == blocker.lock_id, locks.c.internal_id == blocker.internal_id)
            .with_for_update(read=True, key_share=True)
        )
        if not self._store.is_postgresql:
            return True
        return self._store.write(lambda connection: connection.execute(query).one_or_none() is not None)

    def _rest(self, listener: Listener, request: WaitingRequest, blocker: LockInfo, pause_s: float) -> None:
        """Wait until the blocking lock or the request itself is removed, but at most ``pause_s`` seconds."""
        interesting = {blocker.lock_id, request.lock_id}
        end = self._monotonic() + pause_s
        while (left_s := end - self._monotonic()) > 0:
            heard = listener.wait(left_s if self._store.is_postgresql else min(left_s, _POLL_S))
            if heard is None:
                with self._store.read() as connection:
                    present = set(
                        connection.execute(select(locks.c.lock_id).where(locks.c.lock_id.in_(interesting))).scalars()
                    )
                if present != interesting:
                    return
                continue
            released = {number for payload in heard for number in payload.split(",")}
            if "" in released or not interesting.isdisjoint(int(number) for number in released):
                return

    def _longest_setting_s(self) -> float:
        return max(_SHORTEST_LIMIT_S, float(self._settings["hive.lock.sleep.between.retries"]))

    def _longest_pause_s(self, txn_id: int | None) -> float:
        # A pause is also the time between two heartbeats.
        shared_s = int(self._settings["hive.txn.timeout"])
        timeout_s = shared_s if txn_id is None else self._transactions.get(txn_id).timeout_s
        return min(self._longest_setting_s(), timeout_s / 3)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


_OTHERS = locks.alias("others")
_WAITS_ITSELF = (
    select(_OTHERS.c.lock_id)
    .where(_OTHERS.c.txn_id == locks.c.txn_id, _OTHERS.c.state == LockState.WAITING.value)
    .exists()
)


def deadlock_of(connection: Connection, matrix: LockMatrix, txn_id: int) -> tuple[int, ...]:
    """Return a shortest circle of waiting transactions that contains ``txn_id``, or an empty tuple without a circle.

    A request waits for each acquired or waiting lock with a lower id and a conflicting type. It does not wait if its
    transaction already holds a lock that is at least as strict. One round trip if no request with a higher id waits.
    Otherwise each step of the search takes two more round trips.
    """
    own = select(locks.c.lock_id).where(locks.c.txn_id == txn_id).order_by(locks.c.lock_id).limit(1).scalar_subquery()
    behind = select(_OTHERS.c.lock_id).where(
        _OTHERS.c.state == LockState.WAITING.value,
        _OTHERS.c.txn_id > 0,
        _OTHERS.c.txn_id != txn_id,
        _OTHERS.c.lock_id > own,
    )
    if connection.execute(behind.limit(1)).first() is None:
        return ()
    return find_circle(txn_id, lambda txn_ids: waits_for(connection, matrix, txn_ids))


def waits_for(connection: Connection, matrix: LockMatrix, txn_ids: Collection[int]) -> Mapping[int, set[int]]:
    """Return a dict from transaction id to the waiting transactions that block the transaction. Two round trips."""
    queue = _Queue(connection, txn_ids)
    queries = [
        select(
            literal_column(str(reach.value)).label("reach"),
            locks.c.txn_id,
            locks.c.lock_id,
            locks.c.type,
            locks.c.state,
            locks.c.database,
            locks.c.table,
            (locks.c.partition if reach is Reach.AT_OR_ABOVE else literal_column("''")).label("partition"),
        )
        .where(condition, locks.c.lock_id < queue.last_lock_id, locks.c.txn_id > 0, _WAITS_ITSELF)
        .distinct()
        for reach, condition in conditions_ahead(matrix, queue.components)
    ]
    found: dict[int, set[int]] = defaultdict(set)
    for batch in batches(queries, BRANCHES):
        for row in connection.execute(batch[0] if len(batch) == 1 else union_all(*batch)):
            ahead = component_from_row(row)
            state = LockState(row.state)
            for waiting in queue.that_meet(Reach(row.reach), ahead):
                if (
                    row.lock_id < waiting.lock_id
                    and row.txn_id != waiting.txn_id
                    and matrix.actions[waiting.component.type, ahead.type, state] is LockAction.WAIT
                    and not matrix.is_harmless(waiting.component, ahead)
                ):
                    found[waiting.txn_id].add(row.txn_id)
    return found


class _Waiting(NamedTuple):
    """A component of a waiting request, without the partition. All partitions of a table need only one check."""

    txn_id: int
    lock_id: int
    component: LockComponent


class _Queue:
    """The requests of waiting transactions, grouped by locked object, by table and by database."""

    def __init__(self, connection: Connection, txn_ids: Iterable[int]) -> None:
        held: dict[int, HeldLocks] = defaultdict(HeldLocks)
        waiting = []
        narrow = ("txn_id", "lock_id", "database", "table", "partition", "type", "state")
        query: Select[Any] = select(*(locks.c[name] for name in narrow))
        for batch in batches(sorted(txn_ids)):
            for row in connection.execute(query.where(locks.c.txn_id.in_(batch))):
                if row.state == LockState.WAITING.value:
                    waiting.append(row)
                else:
                    held[row.txn_id].add(component_from_row(row))
        self.components: set[LockComponent] = set()
        self.last_lock_id = max((row.lock_id for row in waiting), default=0)
        self._at: dict[tuple[str, str | None, str | None], set[_Waiting]] = defaultdict(set)
        self._in_table: dict[tuple[str, str | None], set[_Waiting]] = defaultdict(set)
        self._in_database: dict[str, set[_Waiting]] = defaultdict(set)
        for row in waiting:
            component = component_from_row(row)
            if held[row.txn_id].cover(component):
                continue
            self.components.add(component)
            in_table = LockComponent(component.database, component.table, type=component.type)
            each = _Waiting(row.txn_id, row.lock_id, in_table)
            self._at[component.place].add(each)
            self._in_table[component.database, component.table].add(each)
            self._in_database[component.database].add(each)

    def that_meet(self, reach: Reach, ahead: LockComponent) -> Iterable[_Waiting]:
        """Return the waiting requests that overlap the lock ``ahead``.

        The condition for ``reach`` has found this lock.
        """
        if reach is Reach.IN_TABLE:
            return self._at[ahead.database, ahead.table, None]
        if reach is Reach.IN_DATABASE:
            return self._at[ahead.database, None, None]
        if ahead.level is LockLevel.DB:
            return self._in_database[ahead.database]
        if ahead.level is LockLevel.TABLE:
            return self._in_table[ahead.database, ahead.table]
        return self._at[ahead.place]
