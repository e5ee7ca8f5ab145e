"""The cache of an open metastore, for its users, and the prewarm that fills it in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.counting import CacheState
from airflow_hivex.core.cache.follower import Follower
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import HivexError, NoSuchObjectError
from airflow_hivex.core.events.notification_log import NotificationLog
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import completed_txn_components, databases, tables


class MetadataCache:
    """The cache of this process, and the follower that keeps it up to date. Safe to share between threads."""

    def __init__(self, store: Store, settings: Settings, clock: Clock, catalog: CachedStore) -> None:
        self._store = store
        self._catalog = catalog
        frequency_s = settings["metastore.cached.rawstore.cache.update.frequency"]
        self.follower = Follower(store, catalog.cache, clock, catalog.refresh, frequency_s)
        self._prewarm = Prewarm(store, catalog)
        self._prewarming: threading.Thread | None = None
        catalog.follow = self._follow
        if settings["metastore.cache.can.use.event"] or settings["hivex.cache.prewarm"]:
            self._follow()
        if settings["hivex.cache.prewarm"]:
            self._prewarming = self._prewarm.start()

    def state(self) -> CacheState:
        """Return the counts, the used memory, and the lag of the follower. The lag takes one round trip."""
        cache, counting = self._catalog.cache, self._catalog.cache.counting
        position = self.follower.position
        return CacheState(
            tables=len(cache),
            used_bytes=cache.used_bytes,
            most_bytes=cache.most_bytes,
            hits=dict(counting.hits),
            misses=dict(counting.misses),
            recent_misses=tuple(counting.recent),
            events=counting.events,
            resynchronizations=counting.resynchronizations,
            event_id=position,
            lag=None if position is None else NotificationLog(self._store).lag(position),
        )

    def catch_up(self, limit: int | None = None) -> int:
        """Apply the events that are in the log now, at most ``limit``. Return the number of applied events.

        Raises:
            StoreUnavailableError: the database cannot be reached; the next call applies the events.
        """
        return self.follower.catch_up(limit)

    def prewarm(self) -> Prewarmed:
        """Read tables into the cache until its memory is full; tables with the latest commits come first.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        self._follow()
        return self._prewarm.run()

    def cancel_prewarm(self) -> None:
        """Stop a running prewarm, also the prewarm of ``hivex.cache.prewarm``."""
        self._prewarm.cancel()

    def close(self) -> None:
        """Stop the follower and the prewarm."""
        self._prewarm.cancel()
        if self._prewarming is not None:
            self._prewarming.join(5)
        self.follower.stop()

    def _follow(self) -> None:
        try:
            self.follower.start()
        except HivexError:
            # The next call that queries the database raises the error; the next fill tries again.
            return


log = logging.getLogger(__name__)

_BATCH = 50


@dataclass(frozen=True, slots=True)
class Prewarmed:
    """The result of a prewarm: the number of tables, whether all tables were read, the time, and the used memory."""

    tables: int
    is_complete: bool
    seconds: float
    used_bytes: int


class Prewarm:
    """A prewarm, which reads definitions, partitions and directories of tables until the memory of the cache is full.

    Tables with the latest commits come first. If a table changes while it is read, the next reader reads it again.
    Requests do not wait for the prewarm.
    """

    def __init__(self, store: Store, catalog: CachedStore) -> None:
        self._store = store
        self._catalog = catalog
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Stop a running prewarm after its current table."""
        self._cancelled.set()

    def run(self, progress: Callable[[int], object] | None = None) -> Prewarmed:
        """Read the tables, and return the result. ``progress`` is called with the number of tables read so far.

        Raises:
            StoreUnavailableError: the database cannot be reached; the tables that were read before stay cached.
        """
        self._cancelled.clear()
        began, read, evicted = time.monotonic(), 0, self._catalog.cache.evictions
        names = self._names()
        for at in range(0, len(names), _BATCH):
            batch = names[at : at + _BATCH]
            for name in batch:
                if self._cancelled.is_set() or self._catalog.cache.evictions > evicted:
                    # Further tables would displace tables that are more likely to be used.
                    return self._result(began, read, is_complete=False)
                read += self._read(name)
            if progress is not None:
                progress(read)
        return self._result(began, read, is_complete=self._catalog.cache.evictions == evicted)

    def start(self) -> threading.Thread:
        """Run the prewarm in a new thread, and return the thread. Errors go to the log."""

        def run() -> None:
            try:
                found = self.run()
                log.info("The cache of metadata has %d tables after %.1f s.", found.tables, found.seconds)
            except HivexError as error:
                log.warning("The cache of metadata was not prewarmed: %s", error)

        thread = threading.Thread(target=run, name="hivex-cache-prewarm", daemon=True)
        thread.start()
        return thread

    def _read(self, name: QualifiedName) -> int:
        try:
            self._catalog.prewarm_table(name)
        except NoSuchObjectError:
            # The table was dropped meanwhile.
            return 0
        return 1

    def _result(self, began: float, read: int, *, is_complete: bool) -> Prewarmed:
        return Prewarmed(read, is_complete, time.monotonic() - began, self._catalog.cache.used_bytes)

    def _names(self) -> Sequence[QualifiedName]:
        """Return the names of all tables; tables with the latest commits come first. One round trip."""
        completed = completed_txn_components.c
        last = select(completed.table_id, func.max(completed.id).label("last")).group_by(completed.table_id).subquery()
        query = (
            select(databases.c.name, tables.c.name)
            .join(databases, databases.c.id == tables.c.database_id)
            .outerjoin(last, last.c.table_id == tables.c.id)
            .where(~tables.c.dropped)
            .order_by(func.coalesce(last.c.last, 0).desc(), tables.c.id.desc())
        )
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        return [(database, name) for database, name in rows if self._catalog.cache.lists.include(database, name)]
