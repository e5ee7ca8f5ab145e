"""Counting the round trips that a thread makes to the metastore database."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.exchange import OBSERVER

_TABLES = re.compile(r'\b(?:FROM|JOIN|INTO|UPDATE)\s+"?([a-z_]+)"?')
_CHANGES = re.compile(r"^\s*(?:INSERT|UPDATE|DELETE)\b")
METADATA = frozenset(
    {
        "databases",
        "tables",
        "partitions",
        "directories",
        "directory_copies",
        "cluster_storage_descriptors",
        "txn_to_write_id",
        "next_write_ids",
    }
)
"""The tables of the schema that decide what a statement reads: names, partitions, directories, write id lists."""

_STATES = frozenset({"locks", "txn_components", "completed_txn_components", "pending_writes"})


class RoundTrips(list[tuple[str, ...]]):
    """The statements of each round trip of a thread, in their order."""

    @property
    def for_metadata(self) -> list[tuple[str, ...]]:
        """Those that read metadata or take a snapshot, before the statement takes its write ids."""
        before = itertools.takewhile(lambda trip: not any("INTO txn_to_write_id" in text for text in trip), self)
        return [trip for trip in before if _is_for_metadata(trip)]

    def described(self) -> str:
        """One line for each, for a failing test."""
        return "\n".join(
            f"{'* ' if trip in self.for_metadata else '  '}{' + '.join(' '.join(text.split())[:160] for text in trip)}"
            for trip in self
        )


def _is_for_metadata(trip: tuple[str, ...]) -> bool:
    named = {name for text in trip for name in _TABLES.findall(text)}
    changes = any(_CHANGES.match(text) for text in trip)
    return not changes and not named & _STATES and (bool(named & METADATA) or "counters" in named)


_observers: dict[Engine, Callable[[Sequence[str]], None]] = {}


def _observer_of(pool: Pool) -> Callable[[Sequence[str]], None] | None:
    return next((observe for engine, observe in list(_observers.items()) if engine.pool is pool), None)


# They listen to all engines, always: one that gets a listener while another thread asks it for a connection may fail.
@event.listens_for(Pool, "checkout")
def _on_checkout(_connection: Any, record: Any, proxy: Any) -> None:
    observe = _observer_of(proxy._pool)  # noqa: SLF001 - the event does not give the pool in another way
    if observe is None:
        record.info.pop(OBSERVER, None)
    else:
        record.info[OBSERVER] = observe


@event.listens_for(Engine, "before_cursor_execute")
def _on_execute(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    observe = _observer_of(connection.engine.pool)
    # A postponed statement goes with another round trip.
    is_postponed = getattr(connection.connection.dbapi_connection, "is_postponing", False)
    if observe is not None and statement != "BEGIN" and not is_postponed:
        observe([statement])


@contextmanager
def counted(store: Store) -> Iterator[RoundTrips]:
    """Count what the calling thread asks of the database within the block.

    A statement that SQLAlchemy executes is a round trip; of an exchange, all that is sent at once.
    """
    trips = RoundTrips()
    own = threading.get_ident()

    def observe(texts: Sequence[str]) -> None:
        if threading.get_ident() == own:
            trips.append(tuple(texts))

    before = _observers.get(store.engine)
    _observers[store.engine] = observe
    try:
        yield trips
    finally:
        if before is None:
            del _observers[store.engine]
        else:
            _observers[store.engine] = before
