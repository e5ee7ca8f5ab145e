"""Changes that are one database transaction: done if their locks could be granted now, else not done at all."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy import Connection, insert

from airflow_hivex.core.errors import AlreadyExistsError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock
from tests.integration.core.store.test_exchange import find
from tests.postgresql_proxy import COMMITTED, PostgresqlProxy

pytestmark = pytest.mark.usefixtures("warehouse")


def on(type: LockType, table: str | None = "tab1", partition: str | None = None) -> LockComponent:
    return LockComponent("default", table, partition, type, DataOperation.NO_TXN)


PLACES: tuple[tuple[str | None, str | None], ...] = ((None, None), ("tab1", None), ("tab1", "p=1"), ("tab2", None))


def note(connection: Connection) -> None:
    """A change."""
    connection.execute(insert(counters).values(name="noted", value=1))
    notification_log.record(connection, 1, EventType.ALTER_DATABASE, database="noted")


def test_change_is_committed_with_its_transaction_and_event(
    locks: LockManager, transactions: TransactionManager, store: Store
) -> None:
    txn_id = locks.commit_at_once([on(LockType.EXCLUSIVE)], note, user="ann", agent_info="a task")
    assert txn_id is not None
    transaction = transactions.get(txn_id)
    assert (transaction.state, transaction.user, transaction.agent_info) == (TxnState.COMMITTED, "ann", "a task")
    assert transactions.open() == [txn_id + 1]
    assert find(store, "noted") == [("noted", 1)]
    assert [event.database for event in NotificationLog(store).events(0) if event.database == "noted"] == ["noted"]
    assert locks.show() == []


def test_change_is_not_done_where_a_request_would_wait(locks: LockManager) -> None:
    done_beside = set()
    for held, wanted in product(product(LockType, PLACES), product(LockType, PLACES)):
        (held_type, held_place), (wanted_type, wanted_place) = held, wanted
        owner = locks.acquire([on(held_type, *held_place)], user="bob")
        asked = locks.acquire([on(wanted_type, *wanted_place)], user="ann", wait=False)
        locks.unlock(asked.lock_id)
        done = locks.commit_at_once([on(wanted_type, *wanted_place)], lambda connection: None)
        assert asked.is_acquired or done is None, (held, wanted)
        if done is not None:
            done_beside.add((held_type, wanted_type))
        locks.unlock(owner.lock_id)
    assert locks.show() == []
    # Those of a database or table that are compatible, and all of another table.
    assert done_beside == set(product(LockType, LockType))
    assert locks.commit_at_once([on(LockType.SHARED_READ, None)], note) is not None


def test_change_does_not_overtake_those_who_wait(locks: LockManager, store: Store) -> None:
    reader = locks.acquire([on(LockType.SHARED_READ)], user="reader")
    waiting = locks.acquire([on(LockType.EXCLUSIVE)], user="waiting", wait=False)
    assert locks.commit_at_once([on(LockType.SHARED_READ)], note) is None
    assert find(store, "noted") == []
    assert [event for event in NotificationLog(store).events(0) if event.database == "noted"] == []
    for request in (waiting, reader):
        locks.unlock(request.lock_id)
    assert locks.commit_at_once([on(LockType.SHARED_READ)], note) is not None


def test_change_that_fails_leaves_nothing(locks: LockManager, transactions: TransactionManager, store: Store) -> None:
    def fail(connection: Connection) -> None:
        note(connection)
        raise AlreadyExistsError("table", "default.t")

    (before,) = transactions.open()
    with pytest.raises(AlreadyExistsError):
        locks.commit_at_once([on(LockType.SHARED_READ)], fail)
    assert find(store, "noted") == []
    assert transactions.open() == [before + 1]


def test_lost_answer_to_the_commit_is_looked_up(postgresql_url: str, clock: Clock) -> None:
    with PostgresqlProxy(postgresql_url) as proxy:
        store = Store(proxy.url)
        migrating.prepare(store)
        transactions = TransactionManager(store, Settings({}), clock)
        locks = LockManager(store, Settings({}), clock, transactions)
        proxy.cut_before(COMMITTED)
        txn_id = locks.commit_at_once([], note)
        assert proxy.cuts == 1
        assert txn_id is not None
        assert transactions.get(txn_id).state is TxnState.COMMITTED
        assert find(store, "noted") == [("noted", 1)]
        store.close()
