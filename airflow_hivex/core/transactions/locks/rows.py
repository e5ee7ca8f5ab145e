"""The rows of locks: their conversion to values, their removal, and notifications about removed locks.

The functions run in the caller's database transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    Text,
    bindparam,
    cast,
    delete,
    distinct,
    func,
    literal_column,
    or_,
    select,
)

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockInfo, LockState, LockType
from airflow_hivex.core.store.batches import MOST_IDS, PreparedForIds, batches
from airflow_hivex.core.store.exchange import Call, Prepared, Rows, later
from airflow_hivex.core.store.schema import locks, txns
from airflow_hivex.core.store.schema.base import partition_from_column

CHANNEL = "hivex_locks"
"""The PostgreSQL channel on which removed lock requests are announced.

A notification has the ids of the removed requests, separated by commas. If the text would be too long, the notification
is empty.
"""

# PostgreSQL takes payloads up to 8,000 bytes.
_LONGEST_PAYLOAD = 7900

_NOTIFY = select(func.pg_notify(literal_column(f"'{CHANNEL}'"), bindparam("payload", type_=String)))
_BLOCKED = locks.alias("blocked")
_IS_WAITED_FOR = (
    select(_BLOCKED.c.lock_id).where(_BLOCKED.c.blocked_by_lock_id == bindparam("lock_id", type_=BigInteger)).exists()
)
_TELL = Prepared(_NOTIFY, skipped_on_sqlite=True)
_TELL_WAITING = PreparedForIds(
    lambda ids: _NOTIFY.where(select(_BLOCKED.c.lock_id).where(_BLOCKED.c.blocked_by_lock_id.in_(ids)).exists()),
    skipped_on_sqlite=True,
)

_OF_REQUEST = locks.c.lock_id == bindparam("lock_id", type_=BigInteger)
_IS_WAITING = locks.c.state == literal_column("'w'")
_IS_FREE = or_(locks.c.txn_id == literal_column("0"), _IS_WAITING)
_FIND_REQUEST = Prepared(select(locks.c.txn_id, locks.c.state).where(_OF_REQUEST).with_for_update())
_TELL_FREED = Prepared(
    _NOTIFY.where(
        select(locks.c.lock_id).where(_OF_REQUEST, _IS_FREE).exists(),
        or_(
            select(locks.c.lock_id).where(_OF_REQUEST, locks.c.state == literal_column("'w'")).exists(), _IS_WAITED_FOR
        ),
    ),
    skipped_on_sqlite=True,
)
_FREE = Prepared(delete(locks).where(_OF_REQUEST, _IS_FREE))

HELD_BY_TXNS = PreparedForIds(
    lambda ids: select(locks.c.txn_id, locks.c.lock_id, locks.c.state).where(locks.c.txn_id.in_(ids)).with_for_update()
)
"""The query for the transaction id, request id and state of each lock of transactions. It also locks these rows."""
_DELETE_OF_TXNS = PreparedForIds(lambda ids: delete(locks).where(locks.c.txn_id.in_(ids)))


_OF_TXN = locks.c.txn_id == bindparam("txn_id", type_=BigInteger)
_TXN_HAS_COMMITTED = (
    select(txns.c.id)
    .where(txns.c.id == bindparam("txn_id", type_=BigInteger), txns.c.state == literal_column("'c'"))
    .exists()
)
_TELL_OF_TXN = Prepared(
    select(func.pg_notify(CHANNEL, func.string_agg(distinct(cast(locks.c.lock_id, Text)), literal_column("','"))))
    .where(
        _OF_TXN,
        _TXN_HAS_COMMITTED,
        select(_BLOCKED.c.lock_id).where(_BLOCKED.c.blocked_by_lock_id == locks.c.lock_id).exists(),
    )
    .having(func.count() > literal_column("0")),
    skipped_on_sqlite=True,
)
_DELETE_OF_TXN = Prepared(delete(locks).where(_OF_TXN, _TXN_HAS_COMMITTED))

HAS_WAITING = select(locks.c.lock_id).where(_OF_TXN, _IS_WAITING).exists()
"""The condition that transaction ``txn_id`` waits for a lock."""


def releasing_if_committed(txn_id: int) -> list[Call]:
    """Return the calls that release the locks of a transaction if the transaction has committed.

    The transaction must not wait for a lock.
    """
    return [_TELL_OF_TXN(txn_id=txn_id), _DELETE_OF_TXN(txn_id=txn_id)]


def select_locks() -> Select[Any]:
    """Return the query for all columns of locks, and for the last heartbeat of each lock or of its transaction."""
    alive = select(txns.c.heartbeat_ms).where(txns.c.id == locks.c.txn_id).scalar_subquery()
    return select(locks, func.coalesce(alive, locks.c.heartbeat_ms).label("alive_ms"))


def lock_from_row(row: Row[Any]) -> LockInfo:
    """Return the lock in a row of :func:`select_locks` or of the table ``locks``."""
    blocked_by = None
    if row.blocked_by_lock_id is not None:
        blocked_by = (row.blocked_by_lock_id, row.blocked_by_internal_id)
    return LockInfo(
        lock_id=row.lock_id,
        internal_id=row.internal_id,
        txn_id=row.txn_id or None,
        component=replace(component_from_row(row), operation=DataOperation(row.operation)),
        state=LockState(row.state),
        requested_at=to_datetime(row.requested_ms),
        heartbeat_at=to_datetime(getattr(row, "alive_ms", row.heartbeat_ms)),
        acquired_at=None if row.acquired_ms is None else to_datetime(row.acquired_ms),
        user=row.user,
        host=row.host,
        agent_info=row.agent_info,
        blocked_by=blocked_by,
    )


def component_from_row(row: Row[Any]) -> LockComponent:
    """Return the component of a lock's row: the locked object and the type of the lock."""
    partition = partition_from_column(row.partition)
    return LockComponent(row.database, row.table or None, partition, LockType(row.type))


def release(connection: Connection, *conditions: ColumnElement[bool]) -> frozenset[int]:
    """Delete the locks that satisfy the conditions, and return the ids of their requests.

    The commit of the caller's database transaction notifies waiting requests. One round trip, and one more on
    PostgreSQL if a lock was deleted.
    """
    rows = connection.execute(delete(locks).where(*conditions).returning(locks.c.lock_id, locks.c.state)).all()
    deleted = frozenset(row.lock_id for row in rows)
    if deleted:
        _announce(connection, deleted, to_themselves=any(row.state == LockState.WAITING.value for row in rows))
    return deleted


def releasing(held: Rows) -> list[Call]:
    """Return the calls that delete the locks in the rows of :data:`HELD_BY_TXNS`, and notify waiting requests."""
    txn_ids = list(dict.fromkeys(txn_id for txn_id, _, _ in held))
    lock_ids = list(dict.fromkeys(lock_id for _, lock_id, _ in held))
    waiting = {lock_id for _, lock_id, state in held if state == LockState.WAITING.value}
    acquired = [lock_id for lock_id in lock_ids if lock_id not in waiting]
    return [
        *(_TELL(payload=str(lock_id)) for lock_id in waiting),
        *(_TELL_WAITING(batch, payload=",".join(map(str, batch))) for batch in batches(acquired, MOST_IDS)),
        *_DELETE_OF_TXNS.batched(txn_ids),
    ]


def unlocking(lock_id: int) -> tuple[Call, ...]:
    """Return the calls that delete the locks of a request if the request has no transaction or still waits.

    The answer to the first call has the transaction id and state that each lock had before the deletion.
    """
    return (
        _FIND_REQUEST(lock_id=lock_id),
        _TELL_FREED(lock_id=lock_id, payload=str(lock_id)),
        _FREE(lock_id=lock_id),
    )


def _announce(connection: Connection, lock_ids: Collection[int], *, to_themselves: bool) -> None:
    if connection.dialect.name != "postgresql":
        return
    payload = ",".join(map(str, lock_ids))
    if len(payload) > _LONGEST_PAYLOAD:
        connection.execute(select(func.pg_notify(CHANNEL, "")))
        return
    # Notifications pass through one lock of the whole database server, so only waiting requests are notified.
    # A request that was not visible here finds that the rows are deleted; see ``LockWaiter._is_there``.
    news = select(func.pg_notify(CHANNEL, payload))
    if not to_themselves:
        news = news.where(select(locks.c.lock_id).where(locks.c.blocked_by_lock_id.in_(lock_ids)).exists())
    later(connection, news)
