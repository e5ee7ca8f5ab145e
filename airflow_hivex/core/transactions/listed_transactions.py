"""Lists of transactions and locks for user interfaces. The database sorts, filters and pages them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, cast, func, or_, select
from sqlalchemy import String as Text

from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.model.locks import LockInfo, LockState, shown_resource
from airflow_hivex.core.model.transactions import Transaction, TxnState
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.paging import Page, PageRequest, contains, read_page
from airflow_hivex.core.store.schema import locks, txns
from airflow_hivex.core.transactions.locks.rows import lock_from_row, select_locks
from airflow_hivex.core.transactions.txn_rows import transaction_from

_T, _L = txns.c, locks.c
_TXN_ORDERS: dict[str, ColumnElement[Any]] = {
    "id": _T.id,
    "started": _T.started_ms,
    "heartbeat": _T.heartbeat_ms,
    "user": _T.user,
    "state": _T.state,
}
_LOCK_ORDERS: dict[str, ColumnElement[Any]] = {
    "id": _L.lock_id,
    "requested": _L.requested_ms,
    "resource": _L.resource,
    "state": _L.state,
    "user": _L.user,
    "transaction": _L.txn_id,
}


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transaction, and the numbers of its acquired and waiting locks."""

    transaction: Transaction
    locks_acquired: int
    locks_waiting: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A lock request that waits for a lock of another request.

    If the request has no transaction, its transaction id is None.
    """

    lock_id: int
    txn_id: int | None
    resource: str
    since: datetime
    for_lock_id: int
    for_txn_id: int | None
    user: str
    for_user: str
    agent_info: str | None = None
    for_agent_info: str | None = None

    @property
    def name(self) -> str:
        """Return the locked object: ``database``, ``database.table`` or ``database.table partition``."""
        return shown_resource(self.resource)


@dataclass(frozen=True, slots=True)
class TransactionCounts:
    """The numbers of open transactions and waiting lock requests, with the oldest transaction and the oldest request.

    ``now`` is the time of the count.
    """

    now: datetime
    open: int
    oldest: Transaction | None
    waiting: int
    oldest_request_at: datetime | None


class TransactionListing:
    """Lists of transactions and locks. The methods only read the database."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def transactions(self, wanted: PageRequest, state: TxnState | None = TxnState.OPEN) -> Page[ListedTransaction]:
        """Return a page of the transactions in ``state``, or in any state for None. Three queries.

        The search text is compared with ids, users, hosts and agents.

        Raises:
            InvalidObjectError: the list cannot be sorted by the column.
        """
        query = select(txns)
        if state is not None:
            query = query.where(_T.state == state.value)
        if wanted.search:
            query = query.where(contains(wanted.search, cast(_T.id, Text), _T.user, _T.host, _T.agent_info))
        with self._store.read() as connection:
            found = read_page(connection, query, wanted, _TXN_ORDERS, _T.id, transaction_from)
            return Page(_with_locks(connection, found.rows), found.total)

    def of_agents(self, agents: Sequence[str], txn_ids: Sequence[int] = ()) -> list[ListedTransaction]:
        """Return transactions whose agent or id is given, sorted by id, at most the 200 newest. Two queries."""
        query = select(txns).where(or_(_T.agent_info.in_(agents), _T.id.in_(txn_ids)))
        with self._store.read() as connection:
            found = connection.execute(query.order_by(_T.id.desc()).limit(200)).all()
            return _with_locks(connection, [transaction_from(row) for row in reversed(found)])

    def locks(self, wanted: PageRequest, txn_id: int | None = None, state: LockState | None = None) -> Page[LockInfo]:
        """Return a page of the locks of a transaction, or of all locks. The search covers names, users and agents.

        Raises:
            InvalidObjectError: the list cannot be sorted by the column.
        """
        query = select_locks()
        if txn_id is not None:
            query = query.where(_L.txn_id == txn_id)
        if state is not None:
            query = query.where(_L.state == state.value)
        if wanted.search:
            query = query.where(contains(wanted.search, _L.resource, _L.user, _L.agent_info))
        # The numbers of a request's locks are far below a million.
        key = _L.lock_id * 1_000_000 + _L.internal_id
        with self._store.read() as connection:
            return read_page(connection, query, wanted, _LOCK_ORDERS, key, lock_from_row)

    def waits(self, limit: int = 200) -> list[Wait]:
        """Return the waiting requests, the oldest first, each with the lock that blocks it. One query."""
        ahead = locks.alias("ahead")
        query = (
            select(
                _L.lock_id,
                _L.txn_id,
                _L.resource,
                _L.requested_ms,
                _L.user,
                _L.agent_info,
                ahead.c.lock_id.label("for_lock_id"),
                ahead.c.txn_id.label("for_txn_id"),
                ahead.c.user.label("for_user"),
                ahead.c.agent_info.label("for_agent_info"),
            )
            .join(
                ahead,
                (ahead.c.lock_id == _L.blocked_by_lock_id) & (ahead.c.internal_id == _L.blocked_by_internal_id),
            )
            .where(_L.state == LockState.WAITING.value)
            .order_by(_L.requested_ms, _L.lock_id, _L.internal_id)
            .limit(limit)
        )
        with self._store.read() as connection:
            return [
                Wait(
                    row.lock_id,
                    row.txn_id or None,
                    row.resource,
                    to_datetime(row.requested_ms),
                    row.for_lock_id,
                    row.for_txn_id or None,
                    row.user,
                    row.for_user,
                    row.agent_info,
                    row.for_agent_info,
                )
                for row in connection.execute(query)
            ]

    def counts(self) -> TransactionCounts:
        """Return the numbers of open transactions and waiting requests, with the oldest of both. Three queries."""
        is_open = _T.state == TxnState.OPEN.value
        waiting = select(func.count(_L.lock_id.distinct()), func.min(_L.requested_ms)).where(
            _L.state == LockState.WAITING.value
        )
        with self._store.read() as connection:
            number = connection.execute(select(func.count()).select_from(txns).where(is_open)).scalar_one()
            oldest = connection.execute(select(txns).where(is_open).order_by(_T.id).limit(1)).first()
            waits, since_ms = connection.execute(waiting).one()
        return TransactionCounts(
            to_datetime(self._clock()),
            number,
            None if oldest is None else transaction_from(oldest),
            waits,
            None if since_ms is None else to_datetime(since_ms),
        )


def _with_locks(connection: Connection, found: Sequence[Transaction]) -> list[ListedTransaction]:
    """Return the transactions, each with the numbers of its acquired and waiting locks. One query."""
    counted = (
        select(_L.txn_id, _L.state, func.count())
        .where(_L.txn_id.in_([each.id for each in found]))
        .group_by(_L.txn_id, _L.state)
    )
    numbers = {(row[0], LockState(row[1])): row[2] for row in connection.execute(counted)}
    return [
        ListedTransaction(
            each, numbers.get((each.id, LockState.ACQUIRED), 0), numbers.get((each.id, LockState.WAITING), 0)
        )
        for each in found
    ]
