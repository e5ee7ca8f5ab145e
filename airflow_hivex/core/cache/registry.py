"""The rows of the caches of all processes: who waits for events, how far each one has come, and its counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from airflow_hivex.core.clock import Clock, to_datetime
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import caches

_ARMED_MS = 10 * 60_000
"""For this time after a process was killed, writers may still announce events for it."""
_FORGOTTEN_MS = 24 * 3600_000


@dataclass(frozen=True, slots=True)
class RegisteredCache:
    """The cache of a process that follows the notification log, as it was at ``seen_at``."""

    host: str
    process_id: int
    started_at: datetime
    seen_at: datetime
    event_id: int
    counts: Mapping[str, Any]


def registered_caches(store: Store) -> list[RegisteredCache]:
    """Return the caches of all processes, the latest seen first. One round trip."""
    with store.read() as connection:
        rows = connection.execute(select(caches).order_by(caches.c.seen_ms.desc())).all()
    return [
        RegisteredCache(
            row.host, row.process_id, to_datetime(row.started_ms), to_datetime(row.seen_ms), row.event_id, row.counts
        )
        for row in rows
    ]


class CacheRegistration:
    """The row of the cache of this process. Each method is one database transaction."""

    def __init__(self, store: Store, clock: Clock, host: str, process_id: int) -> None:
        self._store = store
        self._clock = clock
        self._host = host[:255]
        self._process_id = process_id
        self._id: int | None = None

    def arm(self, event_id: int, counts: Mapping[str, Any]) -> None:
        """Have new events announced from now on, and publish the state of the cache."""
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
        """Stop the announcements of events for this process, which reads them in short intervals."""
        own = update(caches).where(caches.c.id == self._id).values(armed_until_ms=0)
        self._store.write(lambda connection: connection.execute(own), name="disarm a cache")

    def withdraw(self) -> None:
        """Delete the row."""
        own = delete(caches).where(caches.c.id == self._id)
        self._store.write(lambda connection: connection.execute(own), name="withdraw a cache")
