"""The notification log: every change, in commit order, written in the transaction of the change."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Connection, String, bindparam, insert, literal_column, select, update

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import Call, Prepared
from airflow_hivex.core.store.schema import counters, notification_log

_DEFERRED = "hivex_deferred_events"
_OF_EVENTS = counters.c.name == literal_column("'event'")
_TAKE_ID = Prepared(update(counters).where(_OF_EVENTS).values(value=counters.c.value + literal_column("1")))
_INSERT = Prepared(
    insert(notification_log).from_select(
        ["event_id", "event_ms", "type", "database", "table", "txn_id", "message"],
        select(
            counters.c.value,
            bindparam("event_ms", type_=BigInteger),
            bindparam("type", type_=String),
            bindparam("database", type_=String),
            bindparam("table", type_=String),
            bindparam("txn_id", type_=BigInteger),
            bindparam("message", type_=JSON),
        ).where(_OF_EVENTS),
    )
)


class EventType(enum.Enum):
    """What happened. Source: Hive EventMessage.EventType."""

    CREATE_DATABASE = "CREATE_DATABASE"
    ALTER_DATABASE = "ALTER_DATABASE"
    DROP_DATABASE = "DROP_DATABASE"
    CREATE_TABLE = "CREATE_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    DROP_TABLE = "DROP_TABLE"
    ADD_PARTITION = "ADD_PARTITION"
    DROP_PARTITION = "DROP_PARTITION"
    ALTER_PARTITION = "ALTER_PARTITION"
    REGISTER_COPY = "REGISTER_COPY"
    COMMIT_TXN = "COMMIT_TXN"
    ABORT_TXN = "ABORT_TXN"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the log; ids rise by one in commit order."""

    id: int
    time: datetime
    type: EventType
    database: str | None = None
    table: str | None = None
    txn_id: int | None = None
    message: Mapping[str, Any] = field(default_factory=dict)


def record(
    connection: Connection,
    now_ms: int,
    type: EventType,
    *,
    database: str | None = None,
    table: str | None = None,
    txn_id: int | None = None,
    message: Mapping[str, Any] | None = None,
) -> None:
    """Write an event in the caller's transaction. Two round trips.

    Call it last, or in a block of :func:`deferred`: the counter's row stays locked until the transaction
    ends, which is what makes the ids rise in commit order without gaps.
    """
    events: list[Call] | None = connection.info.get(_DEFERRED)
    if events is not None:
        events += recording(now_ms, type, database=database, table=table, txn_id=txn_id, message=message)
        return
    event_id = connection.execute(
        update(counters)
        .where(counters.c.name == "event")
        .values(value=counters.c.value + 1)
        .returning(counters.c.value)
    ).scalar_one()
    connection.execute(
        insert(notification_log).values(
            event_id=event_id,
            event_ms=now_ms,
            type=type.value,
            database=database,
            table=table,
            txn_id=txn_id,
            message=dict(message or {}),
        )
    )


@contextmanager
def deferred(connection: Connection) -> Iterator[list[Call]]:
    """Collect what is recorded in the block, for the caller to send as the last calls of its transaction.

    Whoever took the counter's row in the middle would keep all others waiting for what he does after
    that, and might wait for a row that one of them has.
    """
    events: list[Call] = []
    # Of a connection that is lost in the block, nothing can be asked afterwards.
    info = connection.info
    info[_DEFERRED] = events
    try:
        yield events
    finally:
        info.pop(_DEFERRED, None)


def recording(
    now_ms: int,
    type: EventType,
    *,
    database: str | None = None,
    table: str | None = None,
    txn_id: int | None = None,
    message: Mapping[str, Any] | None = None,
) -> tuple[Call, Call]:
    """:func:`record` as the last calls of an exchange."""
    event = _INSERT(
        event_ms=now_ms,
        type=type.value,
        database=database,
        table=table,
        txn_id=txn_id,
        message=json.dumps(message or {}),
    )
    return _TAKE_ID(), event


class NotificationLog:
    """Reads the log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def current_event_id(self) -> int:
        """The id of the newest event, 0 when there is none."""
        with self._store.read() as connection:
            return int(connection.execute(select(counters.c.value).where(counters.c.name == "event")).scalar_one())

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Up to ``limit`` events with ids above ``after``, oldest first. One round trip."""
        log = notification_log.c
        query = select(notification_log).where(log.event_id > after).order_by(log.event_id).limit(limit)
        with self._store.read() as connection:
            return [
                Event(
                    id=row.event_id,
                    time=to_datetime(row.event_ms),
                    type=EventType(row.type),
                    database=row.database,
                    table=row.table,
                    txn_id=row.txn_id,
                    message=row.message,
                )
                for row in connection.execute(query)
            ]
