"""A database that is away: one line in the log when it begins, one when it ends, and errors that name the server."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import text

from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.errors import StoreUnavailableError
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import OutcomeUnknownError, Store
from airflow_hivex.core.transactions.heartbeats import batch_heartbeats
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.ports import free_port
from tests.postgresql_proxy import COMMITTED, PostgresqlProxy
from tests.waiting import wait_until


def test_heartbeats_log_an_outage_when_it_begins_and_when_it_ends(
    postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        transactions = TransactionManager(store, Settings({}), system_clock)
        (txn_id,) = transactions.open()
        name = f"The heartbeat of transactions {txn_id} to {txn_id}"
        with batch_heartbeats(transactions, txn_id, txn_id, 1):
            refused = proxy.refused
            proxy.cut()
            # Each heartbeat tries once or twice.
            wait_until(lambda: proxy.refused - refused > 4, limit_s=30)
            proxy.mend()
            wait_until(lambda: any(f"{name} succeeds again" in each for each in caplog.messages), limit_s=30)
        store.close()
    logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(logged) == 2, logged
    assert logged[0].startswith(f"{name} fails, and is repeated: Metastore database ")
    assert f"127.0.0.1:{proxy.port}" in logged[0]
    failures = int(logged[1].rpartition(" and ")[2].removesuffix(" failures"))
    assert failures > 1


@pytest.mark.parametrize("login", ["someone:Xq7Zw@", ""])
def test_error_names_the_server_that_is_away_the_time_and_the_next_step(login: str) -> None:
    port = free_port()
    store = Store(f"postgresql://{login}127.0.0.1:{port}/nothing")
    with pytest.raises(StoreUnavailableError) as raised, store.read():
        pass
    found = str(raised.value)
    assert f"no server listens at 127.0.0.1:{port}; it was tried for 0." in found
    assert "Check that PostgreSQL runs there" in found
    assert "Xq7Zw" not in found


def test_server_that_refuses_is_not_called_away(postgresql_url: str) -> None:
    store = Store(postgresql_url.rpartition("/")[0] + "/no_such_database")
    with pytest.raises(StoreUnavailableError, match=r'refuses the connection .*"no_such_database" does not exist'):
        migrating.status(store)


def test_lost_connection_is_named(postgresql_url: str) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{proxy.port} closed the connection"):
            read_while_cut(store, proxy)
        proxy.mend()
        proxy.cut_before(COMMITTED)
        with pytest.raises(OutcomeUnknownError, match="the connection was lost during a commit"):
            store.write(lambda connection: connection.execute(text("SELECT 1")))
        store.close()


def read_while_cut(store: Store, proxy: PostgresqlProxy) -> None:
    with store.read() as connection:
        connection.execute(text("SELECT 1"))
        proxy.cut()
        connection.execute(text("SELECT 1"))
