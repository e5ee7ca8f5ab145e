"""The follower: a thread that updates the cache of a process from the notification log, and registers the cache."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from airflow_hivex.core.cache.table_cache import TableCache
from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.errors import EventsPurgedError, EventsReplacedError, HivexError, InvalidWriteIdListError
from airflow_hivex.core.events.notification_log import CHANNEL, Bookmark, Event, EventType, NotificationLog
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.listening import Listener, watching
from airflow_hivex.core.store.outages import Outage
from airflow_hivex.core.store.schema import caches

log = logging.getLogger(__name__)

_BATCH = 5000
_BUSY_S = 0.2
"""The pause between two reads of the log while events arrive. Without events the follower waits for announcements."""
_LONGEST_WAIT_S = 0.5
"""The longest single wait in seconds. :meth:`Follower.stop` cannot interrupt it."""
_ARMED_S = 300
"""The pause between two reports of the state of an idle cache."""
_LATE_COMMIT_S = 2.0
"""The longest time until the commit of a writer that began before the follower asked for announcements."""
_LONGEST_STEP_S = 5.0
"""The longest time that ``os.fork`` waits until the follower has finished its step."""
# A fork while this thread has a transaction of SQLite open copies its lock, but not the thread that releases it: the
# database would stay locked for each write of the child.
_step = threading.Lock()
_is_forking = threading.local()


def _begin_fork() -> None:
    _is_forking.has_step = _step.acquire(timeout=_LONGEST_STEP_S)


def _end_fork() -> None:
    if _is_forking.has_step:
        _step.release()


def _begin_child() -> None:
    global _step
    _step = threading.Lock()


os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_begin_child)


class Follower:
    """A thread that applies the events of all processes, in their order, to the cache of this process.

    :meth:`start` begins at the newest event. An entry from before the start answers only readers with a snapshot,
    because a snapshot shows whether the entry is current. For other readers the table is read again. All entries are
    treated in this way if events were purged before they were applied. After a restore of the database from a backup,
    the cache is emptied. Answers are correct even if the follower lags.
    """

    def __init__(
        self,
        store: Store,
        cache: TableCache,
        clock: Clock,
        refresh: Callable[[Sequence[QualifiedName]], None],
        frequency_s: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._cache = cache
        self._refresh = refresh
        self._frequency_s = frequency_s
        self._log = NotificationLog(store)
        self._registration = self._register()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process_id: int | None = None
        self._bookmark: Bookmark | None = None

    @property
    def position(self) -> int | None:
        """Return the id of the last applied event, or None before the start."""
        return None if self._bookmark is None else self._bookmark.position

    @position.setter
    def position(self, event_id: int | None) -> None:
        self._bookmark = None if event_id is None else Bookmark(event_id)

    @property
    def is_running(self) -> bool:
        """Return whether the follower runs in this process."""
        return self._process_id == os.getpid() and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Follow the log from its newest event, in a thread. A second call does nothing.

        The first call takes some round trips. If the database cannot be reached, the call fails, and the next call
        tries again.
        """
        if self.is_running:
            return
        if self._process_id is not None and self._process_id != os.getpid():
            # This is a forked process: the thread of the follower, and perhaps the owner of the lock, exist only in
            # the parent.
            self._lock, self._stop, self._thread, self._bookmark = threading.RLock(), threading.Event(), None, None
            self._registration = self._register()
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._process_id = os.getpid()
            self._begin()
            self._thread = threading.Thread(target=self._run, name="hivex-cache-follower", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread. From now on entries answer only readers with a snapshot."""
        thread, self._thread = self._thread, None
        self._stop.set()
        self._cache.followed_until = 0.0
        if thread is not None and self._process_id == os.getpid():
            thread.join(_LONGEST_WAIT_S * 4)
            with suppress(HivexError):
                self._registration.withdraw()
        self._stop = threading.Event()
        self._cache.untag()

    def catch_up(self, limit: int | None = None) -> int:
        """Apply the events that are in the log now, at most ``limit``, and return the number of applied events.

        Raises:
            StoreUnavailableError: the database cannot be reached; the next call applies the events.
        """
        with self._lock:
            return self._catch_up(limit)

    def _register(self) -> CacheRegistration:
        return CacheRegistration(self._store, self._clock, socket.gethostname(), os.getpid())

    def begin(self) -> None:
        """Begin at the newest event, unless the follower has begun already.

        Call it before the first :meth:`catch_up`.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        with self._lock:
            if self._bookmark is None:
                self._begin()

    def _begin(self) -> None:
        self._bookmark = self._log.bookmark()
        self._cache.untag()
        self._confirm()

    def _catch_up(self, limit: int | None) -> int:
        if self._bookmark is None:
            self._begin()
            return 0
        applied = 0
        while limit is None or applied < limit:
            size = _BATCH if limit is None else min(_BATCH, limit - applied)
            try:
                found, following = self._log.read(self._bookmark, size)
            except EventsPurgedError:
                self._resynchronize("events were purged before they were applied")
                return applied
            except EventsReplacedError as error:
                self._cache.drop_named(None)
                self._resynchronize(str(error))
                return applied
            if found and found[0].id != self._bookmark.position + 1:
                self._resynchronize(f"the log continues with event {found[0].id} after {self._bookmark.position}")
                return applied
            changed = apply(self._cache, found)
            applied += len(found)
            self._bookmark = following
            if changed:
                self._refresh(sorted(changed))
            if len(found) < size:
                break
        self._confirm()
        return applied

    def _confirm(self) -> None:
        # Twice the time between two reads, because each read takes some time.
        self._cache.followed_until = time.monotonic() + 2 * self._frequency_s

    def _resynchronize(self, reason: str) -> None:
        log.warning("The cache of metadata is read again: %s.", reason)
        self._cache.counting.resynchronizations += 1
        self._begin()

    def _run(self) -> None:
        stop, armed_at, outage = self._stop, 0.0, Outage("The following of the notification log")
        with watching(self._store, CHANNEL) as listener:
            while not stop.is_set():
                try:
                    with _step:
                        armed_at = self._step(armed_at)
                    outage.note_success()
                except Exception as error:
                    # Any error is caught: without this thread, each read would query the database.
                    armed_at = 0.0
                    outage.note_failure(error, with_traceback=not isinstance(error, HivexError))
                    stop.wait(min(1.0, self._frequency_s))
                    continue
                self._wait(listener, stop, self._pause(armed_at))

    def _step(self, armed_at: float) -> float:
        """Apply new events. Return the time at which the wait for announcements began, or 0 while events arrive."""
        applied = self.catch_up()
        if applied and armed_at:
            self._registration.disarm()
            return 0.0
        if not applied and (not armed_at or time.monotonic() - armed_at > _ARMED_S):
            self._registration.arm(self.position or 0, self._cache.document())
            return time.monotonic()
        return armed_at

    def _pause(self, armed_at: float) -> float:
        """Return the longest time to wait for an announcement, in seconds."""
        if not armed_at:
            return _BUSY_S
        # A writer that has not seen the registration may still record an event.
        just_armed = time.monotonic() - armed_at < _LATE_COMMIT_S
        return min(_LATE_COMMIT_S, self._frequency_s) if just_armed else self._frequency_s

    @staticmethod
    def _wait(listener: Listener, stop: threading.Event, seconds: float) -> None:
        """Wait for an announcement, without a round trip."""
        end = time.monotonic() + seconds
        while not stop.is_set() and (rest := end - time.monotonic()) > 0:
            if listener.wait(min(rest, _LONGEST_WAIT_S)) != []:
                return


_WITHOUT_EFFECT = frozenset(
    {
        # Databases, functions and statistics are not cached.
        EventType.CREATE_DATABASE,
        EventType.ALTER_DATABASE,
        EventType.CREATE_FUNCTION,
        EventType.ALTER_FUNCTION,
        EventType.DROP_FUNCTION,
        EventType.UPDATE_TABLE_COLUMN_STAT,
        EventType.UPDATE_PARTITION_COLUMN_STAT,
    }
)
_OF_TRANSACTIONS = frozenset(
    {
        EventType.CREATE_TABLE,
        EventType.ALTER_TABLE,
        EventType.DROP_TABLE,
        EventType.ADD_PARTITION,
        EventType.DROP_PARTITION,
        EventType.ALTER_PARTITION,
    }
)
"""Changes that a transaction announces, and that take effect with its commit."""
_AT_ONCE = frozenset(
    {
        EventType.REGISTER_COPY,
        EventType.UNREGISTER_COPY,
        EventType.COMMIT_COMPACTION,
        EventType.REMOVE_DIRECTORIES,
    }
)
"""Changes without a write id, which take effect at once."""


def apply(cache: TableCache, events: Iterable[Event]) -> set[QualifiedName]:
    """Apply events to a cache in their order. Return the tables that must be read again. Safe to repeat."""
    changed: set[QualifiedName] = set()
    for event in events:
        changed |= _apply(cache, event)
        cache.counting.events += 1
    return changed


def _apply(cache: TableCache, event: Event) -> set[QualifiedName]:
    if event.type in _WITHOUT_EFFECT:
        return set()
    if event.type is EventType.COMMIT_TXN and event.txn_id is not None:
        return _apply_commit(cache, event.txn_id, event.message)
    if event.type is EventType.ABORT_TXN and event.txn_id is not None:
        cache.note_abort(event.txn_id)
        return set()
    table_id = event.message.get("table_id")
    is_known = event.type in _OF_TRANSACTIONS or event.type in _AT_ONCE
    if not is_known or event.database is None or event.table is None or not isinstance(table_id, int):
        # It may be an event of a later release: the objects that it may have changed are read again.
        cache.drop_named(event.database, event.table)
        return set()
    name = (event.database, event.table)
    if not cache.has(table_id) and not cache.known([name]):
        # A thread may read the table at this moment.
        cache.note_change(table_id, name, None, None)
        return set()
    txn_id = event.txn_id if event.type in _OF_TRANSACTIONS else None
    return {name} if cache.note_change(table_id, name, txn_id, _list_of(event.message)) else set()


def _list_of(message: Mapping[str, Any]) -> ValidWriteIdList | None:
    text = message.get("valid_write_ids")
    try:
        return ValidWriteIdList.parse(text) if isinstance(text, str) and text else None
    except InvalidWriteIdListError:
        return None


def _apply_commit(cache: TableCache, txn_id: int, message: Mapping[str, Any]) -> set[QualifiedName]:
    write_ids, table_ids = message.get("write_ids", {}), message.get("table_ids")
    if table_ids is None:
        # An earlier release has recorded the event.
        for name in write_ids:
            cache.drop_named(*name.split(".", 1))
        table_ids = {}
    return cache.note_commit(txn_id, {table_ids[name]: write_ids[name] for name in write_ids if name in table_ids})


_ARMED_MS = 10 * 60_000
"""The time after which writers no longer announce events for a process that was killed."""
_FORGOTTEN_MS = 24 * 3600_000


@dataclass(frozen=True, slots=True)
class RegisteredCache:
    """The cache of a process that follows the notification log. ``seen_at`` is the time of its last report."""

    host: str
    process_id: int
    started_at: datetime
    seen_at: datetime
    event_id: int
    counts: Mapping[str, Any]


def registered_caches(store: Store) -> list[RegisteredCache]:
    """Return the caches of all processes, the one with the latest report first. One round trip."""
    with store.read() as connection:
        rows = connection.execute(select(caches).order_by(caches.c.seen_ms.desc())).all()
    return [
        RegisteredCache(
            row.host, row.process_id, to_datetime(row.started_ms), to_datetime(row.seen_ms), row.event_id, row.counts
        )
        for row in rows
    ]


class CacheRegistration:
    """The registration of the cache of this process. Each method is one database transaction."""

    def __init__(self, store: Store, clock: Clock, host: str, process_id: int) -> None:
        self._store = store
        self._clock = clock
        self._host = host[:255]
        self._process_id = process_id
        self._id: int | None = None

    def arm(self, event_id: int, counts: Mapping[str, Any]) -> None:
        """Ask writers to announce new events from now on, and publish the state of the cache."""
        now = self._clock()
        values = {"seen_ms": now, "armed_until_ms": now + _ARMED_MS, "event_id": event_id, "counts": dict(counts)}

        def work(connection: Connection) -> int | None:
            if self._id is not None:
                own = update(caches).where(caches.c.id == self._id).values(**values)
                if connection.execute(own).rowcount:
                    return self._id
            connection.execute(delete(caches).where(caches.c.seen_ms < now - _FORGOTTEN_MS))
            new = insert(caches).values(host=self._host, process_id=self._process_id, started_ms=now, **values)
            return int(connection.execute(new.returning(caches.c.id)).scalar_one())

        self._id = self._store.write(work, name="arm a cache")

    def disarm(self) -> None:
        """Stop the announcements of events for this process, because it now reads the log in short intervals."""
        own = update(caches).where(caches.c.id == self._id).values(armed_until_ms=0)
        self._store.write(lambda connection: connection.execute(own), name="disarm a cache")

    def withdraw(self) -> None:
        """Delete the registration."""
        own = delete(caches).where(caches.c.id == self._id)
        self._store.write(lambda connection: connection.execute(own), name="withdraw a cache")
