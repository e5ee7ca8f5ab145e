"""The notification log of all changes of the metastore, and the marks that partitions are loaded.

Each event is written in the database transaction of its change.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    FromClause,
    Insert,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    literal_column,
    select,
    update,
)

from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import EventsPurgedError, EventsReplacedError, InvalidObjectError
from airflow_hivex.core.model.partitions import check_partition_name
from airflow_hivex.core.snapshots import valid_lists
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import Call, Prepared, Rows, joined, later, together
from airflow_hivex.core.store.schema import caches, counters, notification_log, partition_events, recorded_events
from airflow_hivex.core.store.upserts import insert_into

_DEFERRED = "hivex_deferred_events"
_LAST_RECORDED = select(func.max(recorded_events.c.sequence).label("last"))
_MOVED_AT_ONCE = 10_000
_OF_EVENTS = counters.c.name == "event"
_OF_PURGED = counters.c.name == "purged_event"
_GAP = 1_000_000
"""The number of event ids that are skipped after a restore, so that the ids of lost events are not used again."""
_MOST_RECENT = 4
"""The largest number of events in a bookmark."""
CHANNEL = "hivex_events"
"""The channel of PostgreSQL on which writers announce new events, while a process waits for them."""
_ANNOUNCE = Prepared(
    select(func.pg_notify(literal_column(f"'{CHANNEL}'"), literal_column("''"))).where(
        select(caches.c.id).where(caches.c.armed_until_ms > bindparam("now_ms", type_=BigInteger)).exists()
    ),
    skipped_on_sqlite=True,
)
_RECORD = Prepared(
    insert(recorded_events)
    .values(
        {
            column: bindparam(column.name, type_=column.type)
            for column in recorded_events.c
            if column is not recorded_events.c.sequence
        }
    )
    .inline()
)


class EventType(enum.Enum):
    """The type of an event. Source: Hive EventMessage.EventType.

    Hive has no types for copies, removed directories, links and changed functions.
    """

    CREATE_DATABASE = "CREATE_DATABASE"
    """A database was created. Message: ``object``, the database."""
    ALTER_DATABASE = "ALTER_DATABASE"
    """A database or its quota was changed. Message: ``object``, the changed database, or ``quota``, the changed quota.

    ``quota`` has ``cluster``, ``size_bytes`` and ``warning_percent``.
    """
    DROP_DATABASE = "DROP_DATABASE"
    """A database was dropped. Message: ``object``, the database."""
    CREATE_TABLE = "CREATE_TABLE"
    """A table or view was created. Message: ``object``, the table or view."""
    ALTER_TABLE = "ALTER_TABLE"
    """A table or view was changed. Message: ``object``, the table or view, and ``was``, its earlier name.

    If the database has changed, ``was_database`` is the earlier database. If the primary cluster has changed,
    ``primary_was`` is the earlier primary cluster.
    """
    DROP_TABLE = "DROP_TABLE"
    """A table or view was dropped. Message: ``object``, the table or view."""
    CREATE_FUNCTION = "CREATE_FUNCTION"
    """A function was created. Message: ``object``, the function."""
    ALTER_FUNCTION = "ALTER_FUNCTION"
    """A function was changed. Message: ``object``, the function, and ``was``, its earlier database and name."""
    DROP_FUNCTION = "DROP_FUNCTION"
    """A function was dropped. Message: ``object``, the function."""
    ADD_PARTITION = "ADD_PARTITION"
    """Partitions were added. Message: ``partitions``, their names, and ``objects``, the partitions."""
    DROP_PARTITION = "DROP_PARTITION"
    """Partitions were dropped. Message: ``partitions``, their names, and ``objects``, the partitions."""
    ALTER_PARTITION = "ALTER_PARTITION"
    """Partitions were changed. Message: ``partitions``, their names, and ``objects``, the partitions.

    ``was`` is the earlier name of a renamed partition.
    """
    REGISTER_COPY = "REGISTER_COPY"
    """Copies were registered. Message: ``cluster``, ``partitions`` (null: the table) and ``directories``."""
    UNREGISTER_COPY = "UNREGISTER_COPY"
    """Copies were withdrawn. Message: ``cluster`` and ``partitions`` (null: the table, or all of its partitions)."""
    CREATE_LINK = "CREATE_LINK"
    """A link was created. Message: ``object``, the link, ``added_partitions`` and ``removed_partitions``."""
    ALTER_LINK = "ALTER_LINK"
    """The partitions or properties of a link were changed. Message: the fields of CREATE_LINK."""
    DROP_LINK = "DROP_LINK"
    """A link was dropped. Message: the fields of CREATE_LINK."""
    COMMIT_TXN = "COMMIT_TXN"
    """A transaction with write ids has committed. Message: dicts from the full name of a table.

    The dicts are ``write_ids``, ``table_ids``, ``partitions`` and ``valid_write_ids``. ``valid_write_ids`` has the
    write id list of the table after the commit.
    """
    ABORT_TXN = "ABORT_TXN"
    """A transaction with write ids was aborted. Message: ``write_ids`` and ``table_ids``, dicts from a table's name."""
    COMMIT_COMPACTION = "COMMIT_COMPACTION"
    """A compaction has committed. Message: ``partition`` (null: the table) and the written ``directories``."""
    REMOVE_DIRECTORIES = "REMOVE_DIRECTORIES"
    """The cleaner has removed directories. Message: ``directories`` and their ``partition`` (null: the table)."""
    UPDATE_TABLE_COLUMN_STAT = "UPDATE_TABLE_COLUMN_STAT"
    """Statistics of columns of a table have changed. Message: ``columns``, and ``partitions``, which is null."""
    UPDATE_PARTITION_COLUMN_STAT = "UPDATE_PARTITION_COLUMN_STAT"
    """Statistics of columns in partitions have changed. Message: ``columns`` and ``partitions``."""
    UNKNOWN = "UNKNOWN"
    """An unknown type: a newer release has recorded the event."""

    @classmethod
    def _missing_(cls, value: object) -> EventType:  # noqa: ARG003 - given by Python
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the log. The ids are consecutive. If an event depends on an earlier event, its id is higher."""

    id: int
    time: datetime
    type: EventType
    database: str | None = None
    table: str | None = None
    txn_id: int | None = None
    message: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The position of a reader in the log: the id of the last event that the reader has seen.

    ``recent`` has the last events that the reader has seen. If their ids now belong to other events, the log was
    restored from a backup.
    """

    position: int
    recent: tuple[Event, ...] = ()

    def after(self, events: Sequence[Event]) -> Bookmark:
        """Return the bookmark of a reader who has also seen ``events``, the next events after this bookmark."""
        if not events:
            return self
        return Bookmark(events[-1].id, (*self.recent, *events)[-_MOST_RECENT:])


@dataclass(frozen=True, slots=True)
class AskedMessage:
    """A query, and the function ``read`` that returns the message of an event from the rows of the answer."""

    query: Call
    read: Callable[[Sequence[Any]], Mapping[str, Any]]


class DeferredEvents:
    """The events of a block of :func:`deferred`.

    The caller must send ``queries`` after the block, and then the calls of :meth:`recording`.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Call | None, Callable[[Rows], Call]]] = []

    def add(self, query: Call | None, made: Callable[[Rows], Call]) -> None:
        """Add an event. ``made`` gets the answer to ``query``, and returns the call that records the event."""
        self._waiting.append((query, made))

    @property
    def queries(self) -> list[Call]:
        """Return the queries that the messages of the events need."""
        return [query for query, _ in self._waiting if query is not None]

    def recording(self, answers: Iterable[Rows]) -> list[Call]:
        """Return the calls that record the events. ``answers`` are the answers to the queries."""
        found = iter(answers)
        return [made([] if query is None else next(found)) for query, made in self._waiting]


def record(
    connection: Connection,
    now_ms: int,
    type: EventType,
    *,
    database: str | None = None,
    table: str | None = None,
    txn_id: int | None = None,
    message: Mapping[str, Any] | AskedMessage | None = None,
) -> None:
    """Write an event in the caller's database transaction. Other writers do not wait for this transaction.

    Call this function last, after the database transaction has acquired all its locks, or in a block of
    :func:`deferred`. The query of an :class:`AskedMessage` is sent after the block. Without a block it is sent now, in
    one round trip.
    """
    query = message.query if isinstance(message, AskedMessage) else None

    def made(rows: Rows) -> Call:
        content = message.read(message.query.statement.named(rows)) if isinstance(message, AskedMessage) else message
        return recording(now_ms, type, database=database, table=table, txn_id=txn_id, message=content)

    waiting: DeferredEvents | None = connection.info.get(_DEFERRED)
    if waiting is not None:
        waiting.add(query, made)
        return
    exchange = joined(connection)
    rows = [] if query is None else exchange.send(query)[0]
    exchange.later(made(rows), announcing(now_ms))


@contextmanager
def deferred(connection: Connection) -> Iterator[DeferredEvents]:
    """Yield the events of the block. The caller must record these events by the last calls of its transaction."""
    events = DeferredEvents()
    # If the connection is lost in the block, it cannot be asked afterwards.
    info = connection.info
    info[_DEFERRED] = events
    try:
        yield events
    finally:
        info.pop(_DEFERRED, None)


@contextmanager
def at_once(connection: Connection) -> Iterator[None]:
    """Send each event of the block at once, also within :func:`deferred`."""
    waiting = connection.info.pop(_DEFERRED, None)
    try:
        yield
    finally:
        if waiting is not None:
            connection.info[_DEFERRED] = waiting


def recording(
    now_ms: int,
    type: EventType,
    *,
    database: str | None = None,
    table: str | None = None,
    txn_id: int | None = None,
    message: Mapping[str, Any] | None = None,
) -> Call:
    """Return the call that writes an event. Send it at the end of the database transaction."""
    return _RECORD(
        event_ms=now_ms,
        type=type.value,
        database=database,
        table=table,
        txn_id=txn_id,
        message=json.dumps(message or {}),
    )


def announcing(now_ms: int) -> Call:
    """Return the call that, at the commit, wakes processes that wait for events. Send it after the last event."""
    return _ANNOUNCE(now_ms=now_ms)


class NotificationLog:
    """The notification log, for readers.

    Events are recorded without ids, so that commits do not wait for each other. Before a read, the reader gives ids to
    the committed events that have no id, in the order in which they were recorded.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def current_event_id(self) -> int:
        """Return the id of the newest event, or 0 if the log is empty.

        Two round trips, and more if there are new events.
        """
        self._number()
        with self._store.read() as connection:
            return int(connection.execute(select(counters.c.value).where(_OF_EVENTS)).scalar_one())

    def lag(self, after: int) -> int:
        """Return the number of events after the id ``after``, including events without an id. One round trip."""
        numbered = select(counters.c.value).where(_OF_EVENTS).scalar_subquery()
        recorded = select(func.count()).select_from(recorded_events).scalar_subquery()
        with self._store.read() as connection:
            return int(connection.execute(select(numbered + recorded)).scalar_one()) - after

    def events(self, after: int | None = None, limit: int = 1000) -> list[Event]:
        """Return up to ``limit`` events with ids above ``after``, oldest first; by default from the oldest event.

        Three round trips, and more if there are new events.

        Raises:
            EventsPurgedError: events above ``after`` were purged, so the reader has missed changes. The reader must
                read the catalog again, and continue after :meth:`current_event_id`.
        """
        self._number()
        log = notification_log.c
        query = select(notification_log).where(log.event_id > (after or 0)).order_by(log.event_id).limit(limit)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
            # Read afterwards, so that an event that is purged between the two reads is noticed.
            purged = int(connection.execute(select(counters.c.value).where(_OF_PURGED)).scalar_one())
        if after is not None and after < purged:
            raise EventsPurgedError(after, purged)
        return [_event(row) for row in rows]

    def bookmark(self) -> Bookmark:
        """Return the position after the newest event. Three round trips, and more if there are new events."""
        position = self.current_event_id()
        with self._store.read() as connection:
            rows = connection.execute(_between(position - _MOST_RECENT, position)).all()
        return Bookmark(position, tuple(map(_event, rows)))

    def read(self, bookmark: Bookmark, limit: int = 1000) -> tuple[list[Event], Bookmark]:
        """Return a pair: up to ``limit`` events after a bookmark, and the bookmark after these events.

        Four round trips, and more if there are new events.

        Raises:
            EventsPurgedError: events after the bookmark were purged.
            EventsReplacedError: the database was restored from a backup since the bookmark was taken. The next events
                get ids above the ids of lost events, so that other readers notice the restore, too.
        """
        self._number()
        first = bookmark.recent[0].id if bookmark.recent else bookmark.position + 1
        with self._store.read() as connection:
            rows = connection.execute(_between(first - 1, None).limit(limit + len(bookmark.recent))).all()
            purged, current = (
                int(connection.execute(select(counters.c.value).where(name)).scalar_one())
                for name in (_OF_PURGED, _OF_EVENTS)
            )
        found = [_event(row) for row in rows]
        kept = {each.id: each for each in found}
        lost = [each.id for each in bookmark.recent if each.id > purged and kept.get(each.id) != each]
        if bookmark.position > current or lost:
            self._store.write(lambda connection: _skip_lost(connection, current, bookmark.position), name="restore")
            raise EventsReplacedError(bookmark.position)
        if bookmark.position < purged:
            raise EventsPurgedError(bookmark.position, purged)
        new = [each for each in found if each.id > bookmark.position][:limit]
        return new, bookmark.after(new)

    def note_restore(self) -> None:
        """Record that the database was restored from a backup, so that processes discard their caches.

        The next events get ids above the ids of lost events. Readers of the log get ``EventsPurgedError``.
        """
        self._number()
        self._store.write(lambda connection: _skip_lost(connection, None, 0), name="restore")

    def purge(self, recorded_before_ms: int) -> int:
        """Remove all events before the first event that was recorded at or after a time; return their number.

        Safe to repeat.
        """
        log = notification_log.c
        older = select(log.event_id).where(log.event_ms < recorded_before_ms).limit(1)
        with self._store.read() as connection:
            (recorded,), old = together(connection, _LAST_RECORDED, older)
        if recorded.last is None and not old:
            return 0
        self._number()
        return self._store.write(lambda connection: _purge(connection, recorded_before_ms), name="purge")

    def _number(self) -> None:
        """Give ids to all events that were committed before this call."""
        with self._store.read() as connection:
            last = connection.execute(_LAST_RECORDED).scalar_one()
        while last is not None and self._store.write(lambda connection: _give_ids(connection, last), name="events"):
            pass


def _event(row: Row[Any]) -> Event:
    return Event(
        id=row.event_id,
        time=to_datetime(row.event_ms),
        type=EventType(row.type),
        database=row.database,
        table=row.table,
        txn_id=row.txn_id,
        message=row.message,
    )


def _between(above: int, to: int | None) -> Select[Any]:
    log = notification_log.c
    query = select(notification_log).where(log.event_id > above).order_by(log.event_id)
    return query if to is None else query.where(log.event_id <= to)


def _skip_lost(connection: Connection, seen: int | None, at_least: int) -> None:
    """Skip the ids of lost events, and change the metastore's incarnation id, so that processes discard their caches.

    Nothing is changed if another reader has already noticed the restore.
    """
    number = connection.execute(select(counters.c.value).where(_OF_EVENTS).with_for_update()).scalar_one()
    if seen is not None and number > max(seen, at_least):
        # Another reader has noticed the restore, too.
        return
    following = max(number, at_least) + _GAP
    later(connection, update(counters).where(_OF_EVENTS | _OF_PURGED).values(value=following))
    valid_lists.begin_incarnation(connection)


def _give_ids(connection: Connection, last: int) -> bool:
    """Give ids to a batch of events and move them to the log; return whether events are possibly left.

    Events after the sequence number ``last`` stay.
    """
    # One reader at a time does this; the events that it sees are committed.
    number = connection.execute(select(counters.c.value).where(_OF_EVENTS).with_for_update()).scalar_one()
    move = _move_on_postgresql if connection.dialect.name == "postgresql" else _move_on_sqlite
    moved = move(connection, number, last)
    if moved:
        later(connection, update(counters).where(_OF_EVENTS).values(value=number + moved))
    return moved == _MOVED_AT_ONCE


def _move_on_postgresql(connection: Connection, number: int, last: int) -> int:
    """Move the oldest events to the log, and return their number.

    One query moves the events, since other events can become visible between two queries.
    """
    sequence = recorded_events.c.sequence
    oldest = select(sequence).where(sequence <= last).order_by(sequence).limit(_MOVED_AT_ONCE)
    gone = delete(recorded_events).where(sequence.in_(oldest)).returning(recorded_events).cte("gone")
    statement = _numbered(number, gone).add_cte(gone)
    return connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount


def _move_on_sqlite(connection: Connection, number: int, last: int) -> int:
    """Move the oldest events to the log, and return their number.

    Several queries are safe, since SQLite has one writer at a time.
    """
    sequence = recorded_events.c.sequence
    oldest = select(sequence).where(sequence <= last).order_by(sequence).limit(_MOVED_AT_ONCE).subquery()
    highest = connection.execute(select(func.max(oldest.c.sequence))).scalar_one()
    if highest is None:
        return 0
    moved = select(recorded_events).where(sequence <= highest).subquery()
    later(connection, _numbered(number, moved))
    return connection.execute(delete(recorded_events).where(sequence <= highest)).rowcount


def _numbered(number: int, moved: FromClause) -> Insert:
    """Return the INSERT that writes the ``moved`` events to the log, with ids from ``number`` + 1 on."""
    columns = [column.name for column in recorded_events.c if column is not recorded_events.c.sequence]
    event_id = literal(number, BigInteger) + func.row_number().over(order_by=moved.c.sequence)
    copied = select(event_id, *(moved.c[name] for name in columns))
    return insert(notification_log).from_select(["event_id", *columns], copied)


def _purge(connection: Connection, recorded_before_ms: int) -> int:
    log = notification_log.c
    number = connection.execute(select(counters.c.value).where(_OF_EVENTS).with_for_update()).scalar_one()
    kept = select(log.event_id).where(log.event_ms >= recorded_before_ms).order_by(log.event_id).limit(1)
    first_kept = connection.execute(kept).scalar_one_or_none()
    purged = number if first_kept is None else first_kept - 1
    later(connection, update(counters).where(_OF_PURGED, counters.c.value < purged).values(value=purged))
    return connection.execute(delete(notification_log).where(log.event_id <= purged)).rowcount


_E = partition_events.c


class PartitionEventType(enum.IntEnum):
    """A kind of mark that a partition can have, with Hive's number for it."""

    LOAD_DONE = 1


class PartitionEvents:
    """The marks of partitions: a client marks a partition as loaded, and other clients check the mark.

    As in Hive, a mark belongs to the names of a table and a partition. When the table or the partition is dropped or
    renamed, the mark stays, and is valid for the next object with the name. Only the housekeeper removes marks.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def mark(self, database: str, table: str, partition: str, event: PartitionEventType) -> None:
        """Mark a partition, which need not exist. Safe to repeat.

        Raises:
            InvalidObjectError: the name of the partition is too long, or has a character that cannot be stored.
        """
        row = {
            "database": database,
            "table": table,
            "partition": check_partition_name(partition),
            "type": event.value,
            "event_ms": self._clock(),
        }
        key = ["database", "table", "partition", "type"]

        def mark(connection: Connection) -> None:
            new = insert_into(connection, partition_events).values(row)
            connection.execute(new.on_conflict_do_update(index_elements=key, set_={"event_ms": new.excluded.event_ms}))

        self._store.write(mark)

    def is_marked(self, database: str, table: str, partition: str, event: PartitionEventType) -> bool:
        """Return whether a partition has the mark ``event``."""
        try:
            name = check_partition_name(partition)
        except InvalidObjectError:
            # Such a partition cannot have a mark.
            return False
        is_it = and_(_E.database == database, _E.table == table, _E.partition == name, _E.type == event.value)
        with self._store.read() as connection:
            return connection.execute(select(_E.event_ms).where(is_it)).first() is not None

    def purge(self, marked_before_ms: int) -> int:
        """Remove the marks before a time, and return their number. Safe to repeat."""
        removal = delete(partition_events).where(_E.event_ms < marked_before_ms)
        return self._store.write_one(lambda connection: connection.execute(removal).rowcount, name="purge")
