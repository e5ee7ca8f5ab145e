"""Time limits of connections: a client that vanishes, or keeps rows locked, does not stop the others for long."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, func, select, text, update
from sqlalchemy.engine import make_url

from airflow_hivex.core.errors import StoreLockedError
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.store.exchange import Exchange, Prepared, joined
from airflow_hivex.core.store.schema import counters
from tests.postgresql_proxy import PostgresqlProxy

OF_SESSION = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "30000",
    "client_connection_check_interval": "10s",
}
OF_TRANSACTION = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "30s"}
NAME = "txn"
ADD = update(counters).where(counters.c.name == NAME).values(value=counters.c.value + 1)
_ADD = Prepared(ADD)
_NONE = Prepared(select(func.pg_backend_pid()))


@contextmanager
def opened(url: str, **settings: int) -> Iterator[Store]:
    names = {"timeout": "hivex.database.timeout", "lock_timeout": "hivex.database.lock.timeout"}
    store = Store(url, settings=Settings({names[name]: value for name, value in settings.items()}))
    try:
        yield store
    finally:
        store.close()


def limits_of(connection: Connection) -> dict[str, str]:
    return {name: connection.scalar(text(f"SHOW {name}")) or "" for name in OF_SESSION | OF_TRANSACTION}


def add_by_core(store: Store) -> None:
    store.write(lambda connection: connection.execute(ADD))


def add_by_exchange(store: Store) -> None:
    def work(exchange: Exchange) -> None:
        exchange.send(_ADD())
        exchange.finish(_NONE())

    store.exchange(work)


def value_of(store: Store) -> int:
    with store.read() as connection:
        return connection.execute(select(counters.c.value).where(counters.c.name == NAME)).scalar_one()


@contextmanager
def locked_rows(url: str, application: str) -> Iterator[int]:
    """Keep all counters locked, as a person with an editor may; yield the number of the server process."""
    raw = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(raw, application_name=application) as connection:
        connection.execute("SELECT * FROM counters FOR UPDATE")
        yield connection.info.backend_pid


def test_sessions_and_writing_transactions_have_time_limits(postgresql_url: str) -> None:
    with opened(postgresql_url) as store:
        migrating.prepare(store)
        without = {"lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}
        with store.read() as connection:
            assert limits_of(connection) == OF_SESSION | without
        assert store.write(limits_of) == OF_SESSION | OF_TRANSACTION
        joins = store.write(lambda connection: (joined(connection).send(_NONE()), limits_of(connection)))
        assert joins[1] == OF_SESSION | OF_TRANSACTION
        with store.read() as connection:
            # They end with each transaction: pgbouncer may give the connection to another program then.
            assert limits_of(connection) == OF_SESSION | without
        with store.connect_apart() as apart:
            assert apart.execute("SHOW tcp_keepalives_idle").fetchone() == ("10",)


def test_time_limits_come_from_the_settings(postgresql_url: str) -> None:
    with opened(postgresql_url, timeout=6, lock_timeout=3) as store:
        found = store.write(limits_of)
    assert (found["tcp_user_timeout"], found["idle_in_transaction_session_timeout"]) == ("6000", "6s")
    assert found["lock_timeout"] == "3s"
    assert (found["tcp_keepalives_idle"], found["tcp_keepalives_interval"]) == ("2", "1")


def test_limits_of_the_url_and_of_the_database_hold(postgresql_url: str) -> None:
    options = "-c tcp_keepalives_idle=7 -c lock_timeout=4s"
    url = make_url(postgresql_url).update_query_dict({"options": options}).render_as_string(hide_password=False)
    with opened(url) as store, store.read() as connection:
        name = connection.scalar(text("SELECT current_database()"))
        connection.execute(text(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '8s'"))
    try:
        with opened(url) as store:
            found = store.write(limits_of)
    finally:
        with opened(url) as store, store.read() as connection:
            connection.execute(text(f"ALTER DATABASE {name} RESET idle_in_transaction_session_timeout"))
    own = {"tcp_keepalives_idle": "7", "lock_timeout": "4s", "idle_in_transaction_session_timeout": "8s"}
    assert found == OF_SESSION | own


@pytest.mark.parametrize("add", [add_by_core, add_by_exchange])
def test_wait_for_a_locked_row_ends_and_names_the_client_that_has_locked_it(
    postgresql_url: str, add: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(postgresql_url, lock_timeout=2) as store:
        migrating.prepare(store)
        with locked_rows(postgresql_url, "an editor") as process, ThreadPoolExecutor(2) as threads:
            began = time.monotonic()
            errors = [each.exception() for each in [threads.submit(add, store) for _ in range(2)]]
            took_s = time.monotonic() - began
        for error in errors:
            # One of them has the lock of the row's queue; the other one waits for it, and names the editor, too.
            assert isinstance(error, StoreLockedError), error
            assert f"server process {process} (application 'an editor', " in str(error)
            assert "idle in transaction, for" in str(error)
            assert error.retryable
        assert 2 < took_s < 30
        logged = [each.message for each in caplog.records if each.levelno == logging.WARNING]
        assert len(logged) == 2, logged
        assert all("'an editor'" in each for each in logged)
        add(store)


def test_row_that_is_unlocked_in_time_is_changed(postgresql_url: str) -> None:
    with opened(postgresql_url, lock_timeout=30) as store, ThreadPoolExecutor(1) as threads:
        migrating.prepare(store)
        with locked_rows(postgresql_url, "an editor"):
            change = threads.submit(add_by_core, store)
            with pytest.raises(TimeoutError):
                change.result(2)
        change.result(30)


@pytest.mark.parametrize("add", [add_by_core, add_by_exchange])
def test_client_that_vanishes_before_its_commit_keeps_no_rows_locked(postgresql_url: str, add: Any) -> None:
    with ThreadPoolExecutor(1) as threads, opened(postgresql_url, timeout=3) as other:
        migrating.prepare(other)
        with PostgresqlProxy(postgresql_url) as proxy, opened(proxy.url, timeout=3) as vanishing:
            before = value_of(other)
            proxy.vanish_before_commit()
            lost = threads.submit(add, vanishing)
            assert proxy.vanished.wait(30)
            began = time.monotonic()
            add(other)
            took_s = time.monotonic() - began
            assert value_of(other) == before + 1
            assert 1 < took_s < 15
        assert isinstance(lost.exception(30), OutcomeUnknownError)
