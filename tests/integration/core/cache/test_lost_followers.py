"""Followers whose database, process or log is not as it was."""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest
from sqlalchemy import event, insert

from airflow_hivex.core.cache.follower import registered_caches
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.model.objects import Column, Table, TableType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import recorded_events
from airflow_hivex.core.transactions.manager import TransactionManager
from tests.integration.core.cache.conftest import STORAGE, E, Process, T, Writer
from tests.integration.core.cache.test_follower import wait_until
from tests.integration.core.conftest import Clock
from tests.postgresql import TemporaryPostgresqlServer, start_durable_postgresql


@pytest.fixture
def server() -> Iterator[TemporaryPostgresqlServer]:
    """A server that this test alone has, and may stop."""
    server = start_durable_postgresql()
    yield server
    server.stop()


def test_follower_goes_on_after_a_restart_of_the_server(
    server: TemporaryPostgresqlServer, clusters: Clusters, clock: Clock
) -> None:
    url = server.create_database()
    stores = [Store(url), Store(url)]
    migrating.prepare(stores[0])
    catalog = ObjectStore(stores[0], clusters, clock, end_of_dropped)
    catalog.create_table(Table(*T, STORAGE, parameters={"transactional": "true"}))
    catalog.create_table(Table(*E, STORAGE, partition_keys=(Column("d", "string"),), type=TableType.EXTERNAL_TABLE))
    writer = Writer(catalog, TransactionManager(stores[0], Settings({}), clock))
    far = Process(stores[1], clusters, clock)
    far.catalog.follow = far.follower.start
    try:
        ids = writer.list_of(T)
        for _ in range(2):
            far.catalog.get_table(*T, ids)
            far.catalog.get_table(*E, None)
        server.crash()
        # Memory answers what cannot have changed.
        assert far.hits(lambda: far.catalog.get_table(*T, ids))
        server.restart()
        writer.alter(E, 0, None, k="v")
        writer.altered(T, k="v")
        after = str(writer.list_of(T))
        wait_until(lambda: far.hits(lambda: far.catalog.get_table(*T, after)))
        assert far.catalog.get_table(*T, after).parameters["k"] == "v"
        wait_until(lambda: far.catalog.get_table(*E, None).parameters == {"k": "v"})
        assert far.follower.is_running
    finally:
        far.follower.stop()
        for store in stores:
            store.close()


def test_unexpected_exception_does_not_end_the_following(
    far: Process, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    thrown: list[str] = []

    def throw(*_: object) -> None:
        name = threading.current_thread().name
        if name == "hivex-cache-follower" and len(thrown) < 2:
            thrown.append(name)
            raise TimeoutError("it took too long")

    event.listen(far.store.engine, "checkout", throw)
    far.catalog.follow = far.follower.start
    try:
        far.catalog.get_table(*E, None)
        wait_until(lambda: len(thrown) == 2)
        writer.alter(E, 0, None, k="v")
        wait_until(lambda: far.catalog.get_table(*E, None).parameters == {"k": "v"})
        assert far.follower.is_running
        assert "it took too long" in caplog.text
    finally:
        far.follower.stop()


def in_a_fork(work: Callable[[], Mapping[str, object]]) -> dict[str, object]:
    """Return what ``work`` returns in a forked process, in JSON's types."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.write(writing, json.dumps(work()).encode())
            code = 0
        except BaseException:
            os.write(writing, json.dumps({"error": traceback.format_exc()}).encode())
        finally:
            # Nothing of the test run may end here, too.
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as answer:
        found: dict[str, object] = json.loads(answer.read() or "{}")
    _, status = os.waitpid(child, 0)
    assert status == 0, found.get("error")
    return found


def test_forked_process_follows_by_itself(far: Process, writer: Writer) -> None:
    far.catalog.follow = far.follower.start
    before = writer.text_of(T)
    for _ in range(2):
        far.catalog.get_table(*T, before)
        far.catalog.get_table(*E, None)

    def work() -> dict[str, object]:
        # The thread of the parent is not here, and events may have passed meanwhile.
        is_hit = far.hits(lambda: far.catalog.get_table(*T, before))
        external_is_hit = far.hits(lambda: far.catalog.get_table(*E, None))
        was_started = far.follower.is_running
        writer.altered(T, k="of the child")
        writer.alter(E, 0, None, k="of the child")
        seen = far.catalog.get_table(*T, writer.text_of(T)).parameters["k"]
        wait_until(lambda: far.catalog.get_table(*E, None).parameters == {"k": "of the child"})
        far.follower.stop()
        return {"hits": [is_hit, external_is_hit], "started": was_started, "seen": seen}

    try:
        assert in_a_fork(work) == {"hits": [False, False], "started": True, "seen": "of the child"}
        # The parent's thread and connections are as they were.
        assert far.follower.is_running
        wait_until(lambda: far.catalog.get_table(*E, None).parameters == {"k": "of the child"})
        after = writer.text_of(T)
        wait_until(lambda: far.hits(lambda: far.catalog.get_table(*T, after)))
        assert far.catalog.get_table(*T, after).parameters["k"] == "of the child"
        assert {each.process_id for each in registered_caches(far.store)} <= {os.getpid()}
    finally:
        far.follower.stop()


def test_fork_in_the_middle_of_a_step_leaves_no_lock_behind(far: Process, writer: Writer) -> None:
    try:
        for number in range(20):
            far.follower.stop()
            far.follower.start()
            # Moments of the first step, which writes.
            time.sleep(number * 0.0003)
            writer_of_child = partial(writer.altered, T, k=str(number))
            assert in_a_fork(lambda write=writer_of_child: {"done": write() is None}) == {"done": True}
    finally:
        far.follower.stop()


@pytest.mark.parametrize(
    "given",
    [None, "", "nonsense", 5, "default.t", "default.p:9:9223372036854775807::", "default.t:x:y::", [1]],
    ids=str,
)
@pytest.mark.evidence(cases=3)
def test_event_with_a_list_that_is_not_one_never_lets_an_entry_be_stale(
    far: Process, writer: Writer, store: Store, given: object
) -> None:
    far.catalog.get_table(*T, writer.list_of(T))
    txn_id, _, ids = writer.begin(T)
    writer.alter(T, txn_id, ids, k="v")
    table_id = writer.catalog.get_table(*T).id
    message = {"table_id": table_id, "valid_write_ids": given, "object": None}
    values = {"event_ms": 0, "type": "ALTER_TABLE", "database": T[0], "table": T[1], "txn_id": txn_id}
    store.write(lambda connection: connection.execute(insert(recorded_events).values(**values, message=message)))
    for _ in range(4):
        far.follower.catch_up(1)
        assert far.catalog.get_table(*T, str(writer.list_of(T))) == writer.catalog.get_table(*T)
    writer.transactions.commit(txn_id)
    for _ in range(3):
        after = writer.text_of(T)
        assert far.catalog.get_table(*T, after).parameters["k"] == "v"
        far.follower.catch_up(1)
