from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, func, insert, select

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.errors import EventsPurgedError
from airflow_hivex.core.events import notification_log
from airflow_hivex.core.events.notification_log import EventType, NotificationLog
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, Database, StorageDescriptor, Table
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import recorded_events
from airflow_hivex.core.transactions.housekeeper import Housekeeper
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.conftest import Clock

DAY_S = 86_400


@pytest.fixture
def log(store: Store) -> NotificationLog:
    return NotificationLog(store)


def table(name: str = "t", keys: tuple[Column, ...] = ()) -> Table:
    storage = StorageDescriptor((Column("id", "int"),), ClusterStorageDescriptor("c1", ""))
    return Table("default", name, storage, keys, parameters={"transactional": "true"})


def record(store: Store, name: str) -> None:
    store.write(lambda connection: notification_log.record(connection, 1, EventType.ALTER_DATABASE, database=name))


@pytest.mark.parametrize("metastore_url", ["postgresql"], indirect=True)
def test_writers_do_not_wait_for_each_other_and_ids_have_no_gaps(store: Store, log: NotificationLog) -> None:
    with store.engine.connect() as slow:
        notification_log.record(slow, 1, EventType.ALTER_DATABASE, database="slow")
        for name in ("a", "b"):
            record(store, name)
        assert [(event.id, event.database) for event in log.events()] == [(1, "a"), (2, "b")]
        assert log.current_event_id() == 2
        slow.commit()
    record(store, "c")
    assert [(event.id, event.database) for event in log.events(2)] == [(3, "slow"), (4, "c")]


def test_readers_at_once_give_each_event_one_id(store: Store, log: NotificationLog) -> None:
    names = [f"d{number}" for number in range(30)]
    with ThreadPoolExecutor(6) as pool:
        writing = [pool.submit(record, store, name) for name in names]
        reading = [pool.submit(log.current_event_id) for _ in range(10)]
        for each in (*writing, *reading):
            each.result()
    events = log.events()
    assert [event.id for event in events] == list(range(1, len(names) + 1))
    assert sorted(str(event.database) for event in events) == sorted(names)


def test_many_events_are_numbered_in_the_order_in_which_they_were_recorded(store: Store, log: NotificationLog) -> None:
    count = 20_001
    rows = [{"event_ms": 1, "type": "ALTER_DATABASE", "database": f"d{n}", "message": {}} for n in range(count)]
    store.write(lambda connection: connection.execute(insert(recorded_events), rows))
    events = log.events(0, count)
    assert [event.id for event in events] == list(range(1, count + 1))
    assert [event.database for event in events] == [row["database"] for row in rows]


def test_reader_below_the_floor_learns_that_events_are_gone(
    log: NotificationLog, catalog: ObjectStore, clock: Clock, housekeeper: Housekeeper
) -> None:
    catalog.create_database(Database("old"))
    clock.advance(2 * DAY_S)
    assert housekeeper.run().events == 1
    catalog.create_database(Database("new"))
    with pytest.raises(EventsPurgedError, match=r"after 0 .* up to 1 "):
        log.events(0)
    assert [event.database for event in log.events(1)] == [event.database for event in log.events()] == ["new"]
    assert log.current_event_id() == 2
    clock.advance(DAY_S - 1)
    assert housekeeper.run().events == 0
    clock.advance(2)
    assert housekeeper.run().events == 1
    # All are gone: who has read them goes on, and others know that they are late.
    assert log.events(2) == []
    with pytest.raises(EventsPurgedError):
        log.events(1)


def test_unread_events_are_purged_too(
    store: Store, catalog: ObjectStore, clock: Clock, housekeeper: Housekeeper
) -> None:
    for number in range(3):
        catalog.create_database(Database(f"d{number}"))
    clock.advance(2 * DAY_S)
    assert housekeeper.run().events == 3
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(recorded_events)).scalar_one() == 0


def test_events_have_the_objects_and_the_write_ids_of_their_transaction(
    log: NotificationLog, catalog: ObjectStore, transactions: TransactionManager
) -> None:
    created = catalog.create_table(table(keys=(Column("p", "int"),)))
    txn_id, other_id = transactions.open(2)
    transactions.allocate_write_ids([txn_id, other_id], "default", "t")
    partition = catalog.new_partition(created, [1])
    catalog.add_partitions("default", "t", [partition], txn_id=txn_id)
    transactions.commit(txn_id)
    creation, _, addition, commit = log.events()
    assert creation.message["object"]["storage"]["columns"][0]["name"] == "id"
    assert creation.message["valid_write_ids"] == "default.t:1:9223372036854775807::"
    assert addition.message["partitions"] == ["p=1"]
    assert addition.message["objects"][0]["location"] == "default.db/t/p=1"
    # Its own write id counts, that of a transaction that is still open does not.
    assert addition.message["valid_write_ids"] == "default.t:2:9223372036854775807::"
    assert commit.message["write_ids"] == {"default.t": 2}


def test_list_of_a_new_table_has_the_write_id_that_its_creation_takes(
    log: NotificationLog, catalog: ObjectStore, transactions: TransactionManager
) -> None:
    def create(connection: Connection) -> None:
        catalog.joining(connection).create_table(table(), txn_id=txn_id)

    (txn_id,) = transactions.open()
    transactions.commit(txn_id, create)
    creation, commit = log.events()
    assert creation.message["valid_write_ids"] == "default.t:1:9223372036854775807::"
    assert commit.message["write_ids"] == {"default.t": 1}
