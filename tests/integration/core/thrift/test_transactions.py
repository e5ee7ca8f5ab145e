from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from hive_metastore import ttypes
from sqlalchemy import create_engine, select, text

from airflow_hivex.core.metastore import Metastore
from airflow_hivex.core.model.write_ids import ValidTxnList
from airflow_hivex.core.store.schema import counters
from tests import evidence
from tests.hive_endpoint import Serving, hive_client, serving, table


@pytest.fixture(autouse=True)
def acid(hive: Any) -> None:
    hive.create_table(table("default", "acid", parameters={"transactional": "true"}))


def open_txns(hive: Any, count: int = 1) -> list[int]:
    return list(hive.open_txns(ttypes.OpenTxnRequest(count, "ann", "host")).txn_ids)


def component(type: int = 1, operation: int = 1, **given: Any) -> Any:
    described = {"type": type, "level": 2, "dbname": "default", "tablename": "acid", "operationType": operation}
    return ttypes.LockComponent(**{**described, "isTransactional": True, **given})


def lock(hive: Any, txn_id: int, *components: Any) -> Any:
    return hive.lock(ttypes.LockRequest(list(components), txn_id, "ann", "host"))


def test_transactions_end_as_in_hive(hive: Any) -> None:
    first, second, third = open_txns(hive, 3)
    assert (second, third) == (first + 1, first + 2)
    hive.commit_txn(ttypes.CommitTxnRequest(first))
    hive.commit_txn(ttypes.CommitTxnRequest(first))
    hive.abort_txn(ttypes.AbortTxnRequest(second))
    with pytest.raises(ttypes.TxnAbortedException):
        hive.commit_txn(ttypes.CommitTxnRequest(second))
    with pytest.raises(ttypes.NoSuchTxnException):
        hive.commit_txn(ttypes.CommitTxnRequest(999_999))
    with pytest.raises(ttypes.NoSuchTxnException):
        hive.abort_txn(ttypes.AbortTxnRequest(999_999))
    with pytest.raises(ttypes.NoSuchTxnException):
        hive.heartbeat(ttypes.HeartbeatRequest(txnid=999_999))
    with pytest.raises(ttypes.NoSuchLockException):
        hive.heartbeat(ttypes.HeartbeatRequest(lockid=999_999))
    with pytest.raises(ttypes.TxnAbortedException):
        hive.heartbeat(ttypes.HeartbeatRequest(txnid=second))
    hive.heartbeat(ttypes.HeartbeatRequest(txnid=third))
    beaten = hive.heartbeat_txn_range(ttypes.HeartbeatTxnRangeRequest(first, third))
    assert (beaten.nosuch, beaten.aborted) == ({first}, {second})
    hive.abort_txns(ttypes.AbortTxnsRequest([third]))
    found = hive.get_open_txns()
    assert found.txn_high_water_mark == third
    assert list(found.open_txns)[-2:] == [second, third]
    assert found.abortedBits == bytes([(1 << len(found.open_txns)) - 1])
    infos = {each.id: each.state for each in hive.get_open_txns_info().open_txns}
    assert infos[second] == infos[third] == ttypes.TxnState.ABORTED


def test_locks_wait_and_are_granted_as_in_hive(hive: Any) -> None:
    reader, writer, other = open_txns(hive, 3)
    held = lock(hive, reader, component())
    assert held.state == ttypes.LockState.ACQUIRED
    waiting = lock(hive, writer, component(type=3, operation=6))
    assert waiting.state == ttypes.LockState.WAITING
    check = ttypes.CheckLockRequest(waiting.lockid)
    assert hive.check_lock(check).state == ttypes.LockState.WAITING
    shown = {each.lockid: each for each in hive.show_locks(ttypes.ShowLocksRequest()).locks}
    assert shown[waiting.lockid].blockedByExtId == held.lockid
    assert (shown[held.lockid].txnid, shown[held.lockid].tablename) == (reader, "acid")
    with pytest.raises(ttypes.TxnOpenException):
        hive.unlock(ttypes.UnlockRequest(held.lockid))
    hive.commit_txn(ttypes.CommitTxnRequest(reader))
    assert hive.check_lock(check).state == ttypes.LockState.ACQUIRED
    hive.abort_txn(ttypes.AbortTxnRequest(writer))
    with pytest.raises(ttypes.NoSuchLockException):
        hive.check_lock(check)
    with pytest.raises(ttypes.NoSuchTxnException):
        lock(hive, 999_999, component())
    with pytest.raises(ttypes.TxnAbortedException):
        lock(hive, writer, component())
    without = hive.lock(ttypes.LockRequest([component()], None, "ann", "host"))
    hive.unlock(ttypes.UnlockRequest(without.lockid))
    assert lock(hive, other, component(type=3, operation=6)).state == ttypes.LockState.ACQUIRED


def test_client_changes_what_it_has_locked_and_waits_for_others_a_short_time(metastore: Metastore) -> None:
    with (
        serving(metastore, lock_patience_s=0.3) as running,
        hive_client(running.port) as hive,
        hive_client(running.port, "bob") as other,
    ):
        (txn_id,) = open_txns(hive)
        assert lock(hive, txn_id, component(type=3, operation=6)).state == ttypes.LockState.ACQUIRED
        with pytest.raises(ttypes.MetaException, match=r"could not be locked within .* ann on host"):
            other.drop_table("default", "acid", True)
        assert other.get_all_tables("default") == ["acid"]
        hive.drop_table("default", "acid", True)
        assert other.get_all_tables("default") == []
        hive.commit_txn(ttypes.CommitTxnRequest(txn_id))


def test_lock_of_a_name_without_a_table_is_granted_and_holds_for_the_table_that_gets_it(metastore: Metastore) -> None:
    with (
        serving(metastore, lock_patience_s=0.2) as running,
        hive_client(running.port) as iceberg,
        hive_client(running.port, "bob") as other,
    ):
        wanted = [
            component(type=3, operation=6, tablename="new"),
            component(tablename="t", dbname="nowhere"),
            component(type=2, level=1, operation=6, dbname="nowhere", tablename=None),
        ]
        for txn_id in (None, *open_txns(iceberg)):
            held = iceberg.lock(ttypes.LockRequest(wanted, txn_id, "ann", "host"))
            assert held.state == ttypes.LockState.ACQUIRED
            waiting = other.lock(ttypes.LockRequest(wanted[:1], None, "bob", "host"))
            assert waiting.state == ttypes.LockState.WAITING
            iceberg.create_table(table("default", "new", parameters={"transactional": "true"}))
            with pytest.raises(ttypes.MetaException, match=r"could not be locked within .* ann on host"):
                other.drop_table("default", "new", True)
            iceberg.drop_table("default", "new", True)
            iceberg.create_table(table("default", "new"))
            iceberg.alter_table("default", "new", table("default", "old"))
            iceberg.drop_table("default", "old", True)
            # The lock stays with the name.
            named = {each.tablename for each in other.show_locks(ttypes.ShowLocksRequest("default")).locks}
            assert named == {"new"}
            assert other.check_lock(ttypes.CheckLockRequest(waiting.lockid)).state == ttypes.LockState.WAITING
            if txn_id is None:
                iceberg.unlock(ttypes.UnlockRequest(held.lockid))
            else:
                iceberg.abort_txn(ttypes.AbortTxnRequest(txn_id))
            assert other.check_lock(ttypes.CheckLockRequest(waiting.lockid)).state == ttypes.LockState.ACQUIRED
            other.unlock(ttypes.UnlockRequest(waiting.lockid))


def test_write_that_was_locked_before_its_table_existed_conflicts_with_others(hive: Any) -> None:
    first, second = open_txns(hive, 2)
    for txn_id in (first, second):
        assert lock(hive, txn_id, component(type=2, operation=3, tablename="new")).state == ttypes.LockState.ACQUIRED
    hive.create_table(table("default", "new", parameters={"transactional": "true"}))
    for txn_id in (first, second):
        hive.allocate_table_write_ids(ttypes.AllocateTableWriteIdsRequest("default", "new", [txn_id]))
    hive.commit_txn(ttypes.CommitTxnRequest(first))
    with pytest.raises(ttypes.TxnAbortedException, match="default/new"):
        hive.commit_txn(ttypes.CommitTxnRequest(second))


def test_write_ids_are_allocated_and_seen(hive: Any) -> None:
    first, second = open_txns(hive, 2)
    request = ttypes.AllocateTableWriteIdsRequest("default", "acid", [first, second])
    given = {each.txnId: each.writeId for each in hive.allocate_table_write_ids(request).txnToWriteIds}
    assert given[second] == given[first] + 1
    hive.abort_txn(ttypes.AbortTxnRequest(first))
    snapshot = hive.get_open_txns()
    valid = ValidTxnList.of(snapshot.txn_high_water_mark, [second], [first])
    wanted = ttypes.GetValidWriteIdsRequest(["default.acid"], str(valid))
    (seen,) = hive.get_valid_write_ids(wanted).tblValidWriteIds
    assert list(seen.invalidWriteIds) == [given[first], given[second]]
    assert seen.abortedBits == b"\x01"
    assert seen.minOpenWriteId == given[second]
    highest = hive.get_max_allocated_table_write_id(ttypes.MaxAllocatedTableWriteIdRequest("default", "acid"))
    assert highest.maxWriteId == given[second]
    with pytest.raises(ttypes.MetaException):
        hive.get_valid_write_ids(ttypes.GetValidWriteIdsRequest(["default.missing"]))
    with pytest.raises(ttypes.MetaException, match="not a valid name"):
        hive.get_valid_write_ids(ttypes.GetValidWriteIdsRequest(["acid"]))
    hive.add_dynamic_partitions(ttypes.AddDynamicPartitions(second, given[second], "default", "acid", [], 2))
    hive.commit_txn(ttypes.CommitTxnRequest(second))


def test_compactions_are_requested_and_shown(hive: Any) -> None:
    first = hive.compact2(ttypes.CompactionRequest("default", "acid", None, ttypes.CompactionType.MAJOR))
    assert (first.accepted, first.state) == (True, "initiated")
    again = hive.compact2(ttypes.CompactionRequest("default", "acid", None, ttypes.CompactionType.MAJOR))
    assert (again.accepted, again.id) == (False, first.id)
    (shown,) = hive.show_compact(ttypes.ShowCompactRequest()).compacts
    assert (shown.dbname, shown.tablename, shown.type, shown.state) == ("default", "acid", 2, "initiated")


def test_notifications_are_read_in_order(hive: Any) -> None:
    last = hive.get_current_notificationEventId().eventId
    hive.create_table(table("default", "t"))
    hive.drop_table("default", "t", True)
    found = hive.get_next_notification(ttypes.NotificationEventRequest(last, 10)).events
    assert [each.eventType for each in found if each.tableName == "t"] == ["CREATE_TABLE", "DROP_TABLE"]
    assert [each.eventId for each in found] == list(range(last + 1, last + 1 + len(found)))
    counted = hive.get_notification_events_count(ttypes.NotificationEventsCountRequest(last, "default"))
    assert counted.eventsCount == len([each for each in found if each.dbName == "default"])


@pytest.mark.evidence
def test_two_servers_over_one_database_answer_for_the_same_lists(
    endpoint: Serving, metastore_url: str, properties: dict[str, Any], counts: Any
) -> None:
    """Seed 004: metastore 1 commits, metastore 2 never serves what is older than the client's list."""
    with (
        Metastore.open(metastore_url, clusters=properties, default_cluster="c1") as second,
        serving(second) as other,
        hive_client(endpoint.port) as one,
        hive_client(other.port) as two,
    ):

        def valid(hive: Any) -> str:
            (ids,) = hive.get_valid_write_ids(ttypes.GetValidWriteIdsRequest(["default.acid"])).tblValidWriteIds
            assert not ids.invalidWriteIds
            return f"default.acid:{ids.writeIdHighWaterMark}:{ids.minOpenWriteId}::"

        def read(hive: Any, ids: str) -> Any:
            request = ttypes.GetTableRequest("default", "acid", validWriteIdList=ids)
            return hive.get_table_req(request).table.parameters.get("step")

        commits = evidence.amount("HIVEX_COMMITS_OF_TWO_ENDPOINTS", 5, 2_000)
        for step in range(commits):
            before = valid(two)
            read(two, before)
            described = one.get_table_req(ttypes.GetTableRequest("default", "acid", validWriteIdList=before)).table
            described.parameters["step"] = str(step)
            one.alter_table_req(
                ttypes.AlterTableRequest(dbName="default", tableName="acid", table=described, validWriteIdList=before)
            )
            after = valid(two)
            assert after != before
            assert read(two, after) == str(step)
            assert read(one, after) == str(step)
    counts["commits by one of two endpoints, read through both"] = {"commits": commits, "reads": 2 * commits}


CLIENTS = 6


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_calls_that_come_while_others_are_served_share_a_transaction_of_the_database(
    endpoint: Serving, postgresql_url: str
) -> None:
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    engine = create_engine(postgresql_url)
    with ExitStack() as stack:
        clients = [stack.enter_context(hive_client(endpoint.port)) for _ in range(CLIENTS)]
        threads = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        watching = stack.enter_context(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        with engine.begin() as connection:
            connection.execute(select(counters).where(counters.c.name == "txn").with_for_update())
            first = threads.submit(open_txns, clients[0])
            wait_for(lambda: watching.execute(waiting).scalar_one() == 1)
            others = [threads.submit(open_txns, client) for client in clients[1:]]
            wait_for(lambda: sum(each.is_busy for each in list(endpoint.server.connections)) == CLIENTS)
            assert watching.execute(waiting).scalar_one() == 1
        ids = [txn_id for answer in (first, *others) for txn_id in answer.result(30)]
        made_by = watching.execute(
            text("SELECT count(DISTINCT xmin::text) FROM txns WHERE id = ANY(:ids)"), {"ids": ids}
        )
        # That of the first call, and one for the others.
        assert made_by.scalar_one() == 2
    assert sorted(ids) == list(range(ids[0], ids[0] + CLIENTS))
    engine.dispose()


def test_clients_at_the_same_time_get_their_own_answers(endpoint: Serving, hive: Any, metastore: Metastore) -> None:
    def work(number: int) -> list[int]:
        done = []
        with hive_client(endpoint.port, f"user{number}") as client:
            for turn in range(9):
                (txn_id,) = open_txns(client)
                operation = 3 if turn % 3 == 1 else 2
                response = lock(client, txn_id, component(2, operation, partitionname=None))
                assert response.state in (ttypes.LockState.ACQUIRED, ttypes.LockState.WAITING)
                with pytest.raises(ttypes.NoSuchTxnException):
                    lock(client, 999_999, component())
                if turn % 3 == 2:
                    client.abort_txn(ttypes.AbortTxnRequest(txn_id))
                    with pytest.raises(ttypes.TxnAbortedException):
                        client.commit_txn(ttypes.CommitTxnRequest(txn_id))
                    continue
                try:
                    client.commit_txn(ttypes.CommitTxnRequest(txn_id))
                except ttypes.TxnAbortedException:
                    # Another client has updated the table first.
                    assert operation == 3
                    continue
                done.append(txn_id)
        return done

    with ThreadPoolExecutor(CLIENTS) as threads:
        committed = {txn_id for done in threads.map(work, range(CLIENTS)) for txn_id in done}
    highest = hive.get_open_txns().txn_high_water_mark
    found = set(range(highest - CLIENTS * 9 + 1, highest + 1))
    aborted = set(hive.get_open_txns().open_txns)
    assert found - aborted == committed
    assert metastore.locks.show() == []
