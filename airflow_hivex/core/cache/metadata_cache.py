"""The cache of an open metastore, as its users see it."""

from __future__ import annotations

import threading

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.counting import CacheState
from airflow_hivex.core.cache.follower import Follower
from airflow_hivex.core.cache.prewarming import Prewarm, Prewarmed
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.events.notification_log import NotificationLog
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store


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
        """Return the counts, the memory, and how far the follower is behind. One round trip with a follower."""
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
        """Apply the events that are there now, up to ``limit``, as the follower does; return their number.

        Raises:
            StoreUnavailableError: the database cannot be reached; nothing is lost.
        """
        return self.follower.catch_up(limit)

    def prewarm(self) -> Prewarmed:
        """Read tables into the cache, those with the latest commits first, as long as there is memory.

        Raises:
            StoreUnavailableError: the database cannot be reached.
        """
        self._follow()
        return self._prewarm.run()

    def cancel_prewarm(self) -> None:
        """End a prewarm that runs, also the one of ``hivex.cache.prewarm``."""
        self._prewarm.cancel()

    def close(self) -> None:
        """Stop following and prewarming."""
        self._prewarm.cancel()
        if self._prewarming is not None:
            self._prewarming.join(5)
        self.follower.stop()

    def _follow(self) -> None:
        try:
            self.follower.start()
        except HivexError:
            # The next call that asks the database raises the error; the next fill tries again.
            return
