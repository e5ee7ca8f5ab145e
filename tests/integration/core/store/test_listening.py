"""Hearing of what other clients announce, also after the connection was lost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.listening import Listener, listening

_LISTENERS = """
SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
WHERE query LIKE 'LISTEN%' AND datname = current_database()
"""


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    store = Store(postgresql_url)
    yield store
    store.close()


def announce(store: Store, payload: str) -> None:
    store.write(lambda connection: connection.execute(text(f"SELECT pg_notify('news', '{payload}')")))


def heard_in_time(listener: Listener) -> list[str] | None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        heard = listener.wait(30)
        if heard:
            return heard
    return None


def test_listener_that_lost_its_connection_looks_soon_and_hears_again(store: Store) -> None:
    with listening(store, "news") as listener:
        announce(store, "first")
        assert listener.wait(30) == ["first"]
        store.write(lambda connection: connection.execute(text(_LISTENERS)))
        began = time.monotonic()
        # The announcements made meanwhile are lost, so the waiter looks for itself, and not after ten minutes.
        assert listener.wait(600) is None
        assert listener.wait(600) is None
        assert time.monotonic() - began < 60
        announce(store, "second")
        assert heard_in_time(listener) == ["second"]
