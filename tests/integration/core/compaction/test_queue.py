"""Every state of a compaction has an owner, a time-out and an exit. Source: docs/reference/compaction.md."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, select

from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.compaction.compactor import Compactor
from airflow_hivex.core.compaction.history import CompactionFilter
from airflow_hivex.core.errors import (
    CompactionLostError,
    InvalidObjectError,
    InvalidOperationError,
    NoSuchColumnError,
    NoSuchCompactionError,
    NoSuchPartitionError,
    NoSuchTableError,
    TransactionAbortedError,
)
from airflow_hivex.core.model.compaction import (
    SHOW_COLUMNS,
    Compaction,
    CompactionRequest,
    CompactionState,
    CompactionType,
    show_row,
)
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import completed_compactions, completed_txn_components, txn_components
from tests.integration.core.compaction.conftest import DAY_S, MakeCompactor, Warehouse
from tests.integration.core.conftest import Clock

S = CompactionState


def take(compactor: Compactor, worker: str = "host-1", pool: str | None = None) -> Compaction:
    entry = compactor.queue.next_entry(worker, pool)
    assert entry is not None
    return entry


def state(compactor: Compactor, compaction_id: int) -> CompactionState:
    return compactor.history.get(compaction_id).state


@pytest.fixture
def table(warehouse: Warehouse) -> str:
    warehouse.table("t")
    warehouse.write("t")
    return "t"


# -- requests ----------------------------------------------------------------------


def test_second_request_is_refused_while_the_first_waits_or_is_at_work(compactor: Compactor, table: str) -> None:
    first = compactor.request("default", table, type="MINOR")
    assert (first.id, first.state, first.message) == (1, S.INITIATED, None)
    for shown in ("initiated", "working"):
        second = compactor.request("default", table)
        assert (second.id, second.state, second.is_accepted) == (-1, S.REFUSED, False)
        assert f"{shown} already: compaction 1" in str(second.message)
        assert second.in_the_way == 1
        if shown == "initiated":
            take(compactor)
    assert [entry.id for entry in compactor.show()] == [1]


def test_request_is_refused_when_one_that_waits_for_the_cleaner_has_done_it_all(
    compactor: Compactor, warehouse: Warehouse, table: str
) -> None:
    compactor.request("default", table)
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
    entry = compactor.queue.mark_started(take(compactor), txn_id, 1)
    compactor.queue.mark_ready_for_cleaning(entry)
    refused = compactor.request("default", table)
    assert "ready for cleaning" in str(refused.message)
    assert "compaction 1" in str(refused.message)
    assert refused.in_the_way == 1
    warehouse.write("t")
    assert compactor.request("default", table).id == 2


def test_request_keeps_all_that_was_asked_for(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("p", {"hive.compactor.worker.pool": "own"}, keys=["ds", "hr"])
    warehouse.partitions("p", "ds=1/hr=2", "ds=1/hr=3")
    compactor.request(
        "default",
        "P",
        "HR=2/ds=1",
        "rebalance",
        pool="etl",
        properties={"compactor.hive.compactor.job.queue": "night"},
        buckets=4,
        order_by=[SortColumn("a", ascending=False)],
    )
    entry = take(compactor, pool="etl")
    assert (entry.table, entry.partition, entry.type) == ("p", "ds=1/hr=2", CompactionType.REBALANCE)
    assert (entry.buckets, entry.order_by, entry.pool) == (4, "`a` DESC", "etl")
    assert entry.properties == {"compactor.hive.compactor.job.queue": "night"}
    assert (entry.worker_id, entry.run_as) == ("host-1", "owner")
    assert str(entry.initiator_id).endswith("-manual")
    compactor.request("default", "p", "ds=1/hr=3")
    assert take(compactor, pool="own").partition == "ds=1/hr=3"


def test_bad_requests_change_nothing(compactor: Compactor, warehouse: Warehouse, table: str) -> None:
    warehouse.table("ext", external=True)
    warehouse.table("p", keys=["ds"])
    warehouse.partitions("p", "ds=1")
    ask = compactor.request
    with pytest.raises(NoSuchTableError):
        ask("default", "nothing")
    with pytest.raises(InvalidOperationError, match="external table"):
        ask("default", "ext")
    with pytest.raises(InvalidOperationError, match=r"no partition keys"):
        ask("default", table, "ds=1")
    with pytest.raises(InvalidOperationError, match=r"add PARTITION \(ds = \.\.\.\)"):
        ask("default", "p")
    with pytest.raises(NoSuchPartitionError):
        ask("default", "p", "ds=2")
    with pytest.raises(InvalidObjectError, match=r"partition keys of default\.p are ds"):
        ask("default", "p", "hr=2")
    with pytest.raises(InvalidObjectError, match="'major', 'minor', 'rebalance'"):
        ask("default", table, type="full")
    with pytest.raises(InvalidObjectError, match="major, minor, rebalance"):
        ask("default", table, type="abort_cleanup")
    with pytest.raises(InvalidObjectError, match="for 'rebalance' only"):
        ask("default", table, type="minor", buckets=2)
    with pytest.raises(InvalidObjectError, match="Number of buckets 0"):
        ask("default", table, type="rebalance", buckets=0)
    with pytest.raises(NoSuchColumnError):
        ask("default", table, type="rebalance", order_by=[SortColumn("b")])
    assert compactor.show() == []


def test_of_many_requests_at_once_one_is_accepted(compactor: Compactor, table: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: compactor.request("default", table), range(16)))
    assert sorted(answer.id for answer in answers) == [-1] * 15 + [1]


def test_of_several_initiators_at_once_each_table_is_initiated_once(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("p", {"compactorthreshold.hive.compactor.delta.num.threshold": "0"}, keys=["ds"])
    names = [f"ds={number}" for number in range(5)]
    warehouse.partitions("p", *names)
    for name in names:
        warehouse.write("p", name)
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: compactor.initiate(), range(4)))
    assert sorted(each for result in results for each in result.initiated) == [1, 2, 3, 4, 5]
    assert {entry.partition for entry in compactor.show()} == set(names)


# -- workers -----------------------------------------------------------------------


def test_oldest_comes_first_and_is_taken_once(compactor: Compactor, warehouse: Warehouse) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in names:
        warehouse.table(name)
        compactor.request("default", name)
    assert take(compactor).table == "t0"
    with ThreadPoolExecutor(6) as threads:
        taken = list(threads.map(lambda number: compactor.queue.next_entry(f"host-{number}"), range(16)))
    assert sorted(entry.id for entry in taken if entry is not None) == list(range(2, 13))
    assert compactor.queue.next_entry("host-1") is None


def test_named_entry_is_taken_whatever_its_age_and_pool_if_it_waits(compactor: Compactor, warehouse: Warehouse) -> None:
    for name, pool in (("t1", None), ("t2", "etl")):
        warehouse.table(name)
        compactor.request("default", name, pool=pool)
    second = compactor.queue.next_entry("host-1", compaction_id=2)
    assert second is not None
    assert (second.table, second.state) == ("t2", S.WORKING)
    for not_there in (2, 3, -1, 2**63):
        assert compactor.queue.next_entry("host-2", "etl", compaction_id=not_there) is None
    assert take(compactor).table == "t1"


def test_entry_that_its_worker_gives_back_waits_again(compactor: Compactor, warehouse: Warehouse, table: str) -> None:
    compactor.request("default", table)
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
    entry = compactor.queue.mark_started(take(compactor), txn_id, 1)
    given_back = compactor.queue.give_back(entry)
    assert (given_back.state, given_back.worker_id, given_back.txn_id) == (S.INITIATED, None, None)
    with pytest.raises(CompactionLostError):
        compactor.queue.give_back(entry)
    assert take(compactor, "host-2").id == entry.id


def test_worker_of_the_default_pool_takes_those_of_others_that_have_waited_long(
    compactor: Compactor, warehouse: Warehouse, clock: Clock
) -> None:
    for name, pool in (("t1", "etl"), ("t2", None), ("t3", "default")):
        warehouse.table(name)
        compactor.request("default", name, pool=pool)
    assert compactor.queue.next_entry("host-1", "other") is None
    assert [entry.table for entry in compactor.queue.waiting("etl")] == ["t1"]
    assert [entry.table for entry in compactor.queue.waiting()] == ["t2", "t3"]
    assert [entry.table for entry in compactor.queue.waiting(limit=1)] == ["t2"]
    assert [take(compactor).table for _ in range(2)] == ["t2", "t3"]
    assert compactor.queue.next_entry("host-1", "DEFAULT") is None
    clock.advance(12 * 3600 + 1)
    assert [entry.table for entry in compactor.queue.waiting()] == ["t1"]
    assert take(compactor).table == "t1"
    assert compactor.queue.waiting() == []


def test_compaction_and_its_transaction_count_together(
    compactor: Compactor, warehouse: Warehouse, table: str, store: Store
) -> None:
    compactor.request("default", table)
    entry = take(compactor)
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
    entry = compactor.queue.mark_started(entry, txn_id, 1)
    entry = compactor.queue.note_job(entry, "job_1")
    with store.read() as connection:
        component = connection.execute(select(txn_components)).one()
    assert (component.txn_id, component.operation, component.write_id) == (txn_id, "c", 1)
    later = warehouse.transactions.open(3)
    warehouse.transactions.commit(
        txn_id, lambda connection: void(compactor.queue.joining(connection).mark_ready_for_cleaning(entry))
    )
    found = compactor.history.get(entry.id)
    assert (found.state, found.txn_id, found.next_txn_id) == (S.READY_FOR_CLEANING, txn_id, later[-1])
    assert (found.highest_write_id, found.job_id, found.committed_at) == (1, "job_1", to_datetime(warehouse.clock()))


def void(_: object) -> None:
    """A commit's changes return nothing."""


def test_aborted_transaction_leaves_no_compaction_that_counts(
    compactor: Compactor, warehouse: Warehouse, table: str
) -> None:
    compactor.request("default", table)
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
    entry = compactor.queue.mark_started(take(compactor), txn_id, 1)
    warehouse.transactions.abort(txn_id)
    with pytest.raises(TransactionAbortedError):
        warehouse.transactions.commit(
            txn_id, lambda connection: void(compactor.queue.joining(connection).mark_ready_for_cleaning(entry))
        )
    assert state(compactor, entry.id) is S.WORKING
    assert compactor.queue.requeue_lost() == [entry.id]
    assert state(compactor, entry.id) is S.INITIATED


def test_failed_and_refused_ones_are_in_the_history_with_their_reason(compactor: Compactor, table: str) -> None:
    compactor.request("default", table)
    compactor.queue.mark_failed(take(compactor), "disk full")
    compactor.request("default", table)
    compactor.queue.mark_refused(take(compactor), "no threshold met")
    assert [(entry.state, entry.error_message) for entry in compactor.show()] == [
        (S.REFUSED, "no threshold met"),
        (S.FAILED, "disk full"),
    ]


# -- lost owners -------------------------------------------------------------------


def test_worker_that_takes_too_long_loses_its_entry(
    compactor: Compactor, warehouse: Warehouse, clock: Clock, table: str
) -> None:
    compactor.request("default", table)
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION, timeout=10 * DAY_S)
    slow = compactor.queue.mark_started(take(compactor, "slow-1"), txn_id, 1)
    clock.advance(DAY_S)
    assert compactor.queue.requeue_lost() == []
    clock.advance(0.001)
    assert compactor.queue.requeue_lost() == [slow.id]
    fast = take(compactor, "fast-1")
    assert (fast.id, fast.txn_id, fast.highest_write_id) == (slow.id, None, None)
    for change in (
        lambda: compactor.queue.mark_failed(slow, "late"),
        lambda: compactor.queue.mark_refused(slow, "late"),
        lambda: compactor.queue.mark_ready_for_cleaning(slow),
        lambda: compactor.queue.note_job(slow, "late"),
    ):
        with pytest.raises(CompactionLostError, match=r"Compaction 1 of default\.t is not with worker slow-1") as lost:
            change()
        assert lost.value.compaction_id == slow.id
    assert state(compactor, slow.id) is S.WORKING
    compactor.queue.mark_failed(fast, "no")


def test_worker_that_dies_before_its_transaction_is_known_is_found_after_the_transactions_time_out(
    compactor: Compactor, clock: Clock, table: str
) -> None:
    compactor.request("default", table)
    entry = take(compactor)
    clock.advance(300)
    assert compactor.queue.requeue_lost() == []
    clock.advance(1)
    assert compactor.initiate().requeued == (entry.id,)


def test_worker_that_dies_is_found_by_its_transaction(
    compactor: Compactor, warehouse: Warehouse, clock: Clock, table: str
) -> None:
    compactor.request("default", table)
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
    entry = compactor.queue.mark_started(take(compactor), txn_id, 1)
    clock.advance(301)
    assert compactor.queue.requeue_lost() == []
    assert warehouse.transactions.abort_timed_out() == [txn_id]
    assert compactor.housekeep() == (1, 0)
    assert state(compactor, entry.id) is S.INITIATED


def test_compaction_whose_commit_failed_blocks_no_later_one(
    compactor: Compactor, warehouse: Warehouse, table: str
) -> None:
    """A worker that does not report it within the commit (HIVE-29572)."""
    ids = []
    for _ in range(2):
        assert compactor.request("default", table).is_accepted
        (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
        entry = compactor.queue.mark_ready_for_cleaning(compactor.queue.mark_started(take(compactor), txn_id, 1))
        warehouse.transactions.abort(txn_id)
        warehouse.write("t")
        ids.append(entry.id)
    assert compactor.queue.requeue_lost() == []
    assert [state(compactor, each) for each in ids] == [S.FAILED, S.FAILED]
    assert compactor.cleaning.entries_to_clean() == []


# -- ABORT COMPACTIONS ---------------------------------------------------------------


def test_only_initiated_ones_can_be_aborted(compactor: Compactor, warehouse: Warehouse) -> None:
    for name in ("t1", "t2", "t3"):
        warehouse.table(name)
        compactor.request("default", name)
    take(compactor)
    compactor.queue.mark_failed(take(compactor), "no")
    answers = compactor.abort([3, 1, 2, 9, 3, 2**70, 0])
    assert answers == {
        3: None,
        1: "it is working; only an initiated one can be aborted",
        2: "it is over: failed",
        9: "there is no such compaction",
        2**70: "there is no such compaction",
        0: "there is no such compaction",
    }
    assert state(compactor, 3) is S.ABORTED
    assert compactor.queue.next_entry("host-1") is None
    assert compactor.request("default", "t3").is_accepted
    assert compactor.abort([]) == {}


def test_waiting_ends_with_the_state_that_was_reached(make_compactor: MakeCompactor, table: str) -> None:
    compactor = make_compactor()
    asked = compactor.request("default", table)
    still = compactor.wait(asked.id, timeout_s=0.1)
    assert (still.state, "still initiated" in str(still.message)) == (S.INITIATED, True)
    entry = take(compactor)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(compactor.wait, asked.id)
        compactor.queue.mark_failed(entry, "disk full")
        answer = waiting.result(timeout=30)
    assert (answer.id, answer.state, answer.message) == (asked.id, S.FAILED, "disk full")
    with pytest.raises(NoSuchCompactionError):
        compactor.wait(99)


# -- cleaning ----------------------------------------------------------------------


def ready(compactor: Compactor, warehouse: Warehouse, table: str, highest: int) -> Compaction:
    """A compaction that is ready for cleaning."""
    assert compactor.request("default", table).is_accepted
    (txn_id,) = warehouse.transactions.open(type=TxnType.COMPACTION)
    entry = compactor.queue.mark_started(take(compactor), txn_id, highest)
    done: list[Compaction] = []
    warehouse.transactions.commit(
        txn_id,
        lambda connection: done.append(compactor.queue.joining(connection).mark_ready_for_cleaning(entry)),
    )
    return done[0]


def test_cleaner_gets_the_one_that_covers_least_of_each_table(
    compactor: Compactor, warehouse: Warehouse, table: str
) -> None:
    warehouse.table("other")
    first = ready(compactor, warehouse, table, 1)
    warehouse.write("t")
    second = ready(compactor, warehouse, table, 2)
    other = ready(compactor, warehouse, "other", 0)
    assert [entry.id for entry in compactor.cleaning.entries_to_clean()] == [first.id, other.id]
    compactor.cleaning.mark_cleaned(compactor.cleaning.mark_cleaning_started(first))
    assert [entry.id for entry in compactor.cleaning.entries_to_clean()] == [second.id, other.id]
    found = compactor.history.get(first.id)
    assert (found.state, found.ended_at) == (S.SUCCEEDED, to_datetime(warehouse.clock()))
    with pytest.raises(CompactionLostError, match="is not with the cleaner"):
        compactor.cleaning.mark_cleaned(first)


def test_cleaner_pauses_twice_as_long_after_each_failure_and_gives_up(
    compactor: Compactor, warehouse: Warehouse, clock: Clock, table: str
) -> None:
    entry: Compaction | None = ready(compactor, warehouse, table, 1)
    for attempt in range(5):
        assert entry is not None
        assert [each.id for each in compactor.cleaning.entries_to_clean()] == [entry.id]
        entry = compactor.cleaning.mark_cleaning_failed(entry, f"failure {attempt}")
        assert entry is not None
        assert entry.retry_retention_ms == 300_000 * 2**attempt
        assert entry.committed_at is not None
        since_commit_s = clock.now_ms / 1000 - entry.committed_at.timestamp()
        clock.now_ms += entry.retry_retention_ms - round(since_commit_s * 1000) - 1
        assert compactor.cleaning.entries_to_clean() == []
        clock.now_ms += 1
    assert entry is not None
    assert compactor.cleaning.mark_cleaning_failed(entry, "the last") is None
    found = compactor.history.get(entry.id)
    assert (found.state, found.error_message) == (S.FAILED, "the last")


def test_cleaning_can_be_delayed_and_never_given_up(
    make_compactor: MakeCompactor, warehouse: Warehouse, clock: Clock, table: str
) -> None:
    compactor = make_compactor(
        settings={"hive.compactor.delayed.cleanup.enabled": True, "hive.compactor.cleaner.retry.maxattempts": 0}
    )
    entry = ready(compactor, warehouse, table, 1)
    assert compactor.cleaning.entries_to_clean() == []
    clock.advance(300)
    assert len(compactor.cleaning.entries_to_clean()) == 1
    for _ in range(30):
        failed = compactor.cleaning.mark_cleaning_failed(entry, "again")
        assert failed is not None
        entry = failed


def test_no_cleanup_refuses_what_is_ready(compactor: Compactor, warehouse: Warehouse, table: str) -> None:
    entry = ready(compactor, warehouse, table, 1)
    compactor.cleaning.mark_refused(entry, "NO_CLEANUP is set")
    assert state(compactor, entry.id) is S.REFUSED


def test_records_that_only_the_compaction_needed_go_with_it(
    compactor: Compactor, warehouse: Warehouse, table: str, store: Store
) -> None:
    aborted = [warehouse.begin("t") for _ in range(2)]
    warehouse.transactions.abort_many(aborted)
    for _ in range(3):
        warehouse.write("t")
    open_one = warehouse.begin("t")
    later = warehouse.begin("t")
    warehouse.transactions.abort(later)
    entry = ready(compactor, warehouse, table, 6)
    compactor.cleaning.mark_cleaned(entry)
    with store.read() as connection:
        components = connection.execute(select(txn_components.c.txn_id)).scalars().all()
        completed = connection.execute(select(completed_txn_components.c.write_id)).scalars().all()
    assert sorted(components) == [open_one, later]
    # Who waits for commits asks for the last one.
    assert completed == [6]


def test_cleanup_of_aborts_can_fail_and_be_tried_again(
    compactor: Compactor, warehouse: Warehouse, table: str, clock: Clock
) -> None:
    found = warehouse.catalog.get_table("default", table)
    request = CompactionRequest(int(found.id or 0), "default", table, None, CompactionType.MAJOR)
    first = compactor.cleaning.note_abort_cleanup(request, "no answer")
    assert (first.type, first.state) == (CompactionType.ABORT_CLEANUP, S.READY_FOR_CLEANING)
    assert compactor.cleaning.entries_to_clean() == []
    assert not compactor.cleaning.is_due(first)
    clock.advance(300)
    assert compactor.cleaning.is_due(first)
    again = compactor.cleaning.note_abort_cleanup(request, "no answer again")
    assert (again.id, again.retry_retention_ms, again.error_message) == (first.id, 600_000, "no answer again")
    # It blocks no other entry, and goes when the table is cleaned.
    entry = ready(compactor, warehouse, table, 1)
    compactor.cleaning.mark_cleaned(entry)
    assert compactor.cleaning.ready()[1] == []


# -- history -----------------------------------------------------------------------


def add_history(store: Store, warehouse: Warehouse, *entries: tuple[str, str, float]) -> None:
    """Entries of table t: state, type and age in days, the oldest first."""
    now = warehouse.clock()
    rows = [
        {
            "id": number,
            "table_id": 1,
            "database": "default",
            "table": "t",
            "partition": "",
            "state": letter,
            "type": kind,
            "properties": {},
            "enqueued_ms": now,
            "ended_ms": now - int(age * DAY_S * 1000),
        }
        for number, (letter, kind, age) in enumerate(entries, 1)
    ]
    store.write(lambda connection: connection.execute(insert(completed_compactions), rows))


def kept(compactor: Compactor) -> list[int]:
    return sorted(entry.id for entry in compactor.show())


def test_newest_of_each_state_are_kept(compactor: Compactor, warehouse: Warehouse, store: Store) -> None:
    add_history(store, warehouse, *[(letter, "a", 0) for letter in "sfacx" for _ in range(5)])
    assert compactor.history.purge() == 11
    assert kept(compactor) == [3, 4, 5, 8, 9, 10, 14, 15, 18, 19, 20, 23, 24, 25]
    assert compactor.history.purge() == 0


def test_so_many_failures_are_kept_as_the_initiator_counts(
    make_compactor: MakeCompactor, warehouse: Warehouse, store: Store
) -> None:
    add_history(store, warehouse, *[("f", "a", 0)] * 6)
    compactor = make_compactor(settings={"metastore.compactor.initiator.failed.compacts.threshold": 5})
    assert compactor.history.purge() == 1
    assert kept(compactor) == [2, 3, 4, 5, 6]


def test_old_failures_go_when_a_later_compaction_has_done_as_much(
    compactor: Compactor, warehouse: Warehouse, store: Store
) -> None:
    add_history(
        store,
        warehouse,
        ("f", "a", 9),
        ("f", "i", 9),
        ("c", "i", 8),
        ("a", "a", 6),
        ("s", "i", 1),
        ("f", "i", 9),
    )
    assert compactor.history.purge() == 2
    assert kept(compactor) == [1, 4, 5, 6]


# -- SHOW COMPACTIONS ----------------------------------------------------------------


def test_filters_and_order(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.database("other")
    for name in ("t1", "t2"):
        warehouse.table(name)
        compactor.request("default", name, type="minor", pool="etl" if name == "t1" else None)
    warehouse.table("t3", database="other")
    compactor.request("other", "t3")
    compactor.queue.mark_failed(take(compactor, pool="etl"), "no")

    def ids(**wanted: object) -> list[int]:
        return [entry.id for entry in compactor.show(CompactionFilter(**wanted))]  # type: ignore[arg-type]

    assert ids() == [3, 2, 1]
    assert ids(database="other") == [3]
    assert ids(database="default", table="t2") == [2]
    assert ids(pool="default") == [3, 2]
    assert ids(pool="etl") == ids(state=S.FAILED) == [1]
    assert ids(type=CompactionType.MINOR) == [2, 1]
    assert ids(order_by=(("tabname", True),)) == [1, 2, 3]
    assert ids(order_by=(("state", True), ("compactionid", False))) == [1, 3, 2]
    assert ids(order_by=(("type", True), ("TABNAME", False))) == [3, 2, 1]
    assert ids(order_by=(("starttime", False),))[0] == 1
    assert ids(limit=2) == [3, 2]
    assert ids(id=2) == [2]
    assert ids(limit=0) == []
    for column in SHOW_COLUMNS:
        assert sorted(ids(order_by=((column, True),))) == [1, 2, 3]
    with pytest.raises(InvalidObjectError, match="SHOW COMPACTIONS has compactionid"):
        ids(order_by=(("cc_id", True),))


def test_line_of_show_compactions(compactor: Compactor, warehouse: Warehouse, clock: Clock) -> None:
    warehouse.table("p", keys=["ds"])
    warehouse.partitions("p", "ds=1")
    compactor.request("default", "p", "ds=1")
    enqueued = str(clock.now_ms)
    clock.advance(1)
    started = str(clock.now_ms)
    entry = take(compactor, "some-host-7")
    clock.advance(2)
    compactor.queue.mark_failed(entry, "disk full")
    (entry,) = compactor.show()
    line = dict(zip(SHOW_COLUMNS, show_row(entry), strict=True))
    assert line.pop("initiatorhost")
    assert line == {
        "compactionid": "1",
        "dbname": "default",
        "tabname": "p",
        "partname": "ds=1",
        "type": "MAJOR",
        "state": "failed",
        "workerhost": "some-host",
        "workerid": "7",
        "enqueuetime": enqueued,
        "starttime": started,
        "duration": "2000",
        "hadoopjobid": None,
        "errormessage": "disk full",
        "initiatorid": "manual",
        "poolname": "default",
        "txnid": None,
        "nexttxnid": None,
        "committime": None,
        "hightestwriteid": None,
    }


def test_renamed_table_is_shown_by_its_new_name(compactor: Compactor, warehouse: Warehouse, table: str) -> None:
    compactor.request("default", table)
    found = warehouse.catalog.get_table("default", table)
    warehouse.catalog.alter_table("default", table, replace(found, name="renamed"))
    assert [entry.table for entry in compactor.show()] == ["renamed"]


# -- explain -----------------------------------------------------------------------


def test_explanation_has_every_filter_and_threshold_with_its_value(
    make_compactor: MakeCompactor, warehouse: Warehouse, clock: Clock
) -> None:
    compactor = make_compactor()
    warehouse.table("t", {"compactorthreshold.hive.compactor.delta.num.threshold": "4"})
    warehouse.write("t", base=True, size=1000)
    for _ in range(4):
        warehouse.write("t", size=10)
    warehouse.transactions.abort(warehouse.begin("t"))
    clock.advance(3600)
    open_one = warehouse.begin("t")
    warehouse.write("t", size=500)
    found = compactor.explain("default", "t")
    assert (found.name, found.type) == ("default.t", None)
    assert "4 delta directories are not more than 4" in found.answer
    checks = {check.name.partition(" (")[0]: check for check in found.checks}
    assert [name for name in checks if name.startswith("filter: ")] == [
        "filter: under replication",
        "filter: in the queue",
        "filter: failed too often",
        "filter: table dropped",
        "filter: NO_AUTO_COMPACTION",
        "filter: insert-only",
        "filter: without partition",
        "filter: partition dropped",
    ]
    assert checks["snapshot of a compaction"].value == "up to write id 6 of 8"
    assert (checks["share of deltas to base"].value, checks["share of deltas to base"].threshold) == (
        "0.04 (40 bytes of deltas)",
        "> 0.1",
    )
    assert (checks["delta directories"].value, checks["delta directories"].threshold) == ("4", "> 4")
    assert (checks["aborted transactions"].value, checks["aborted transactions"].threshold) == ("1", "> 1000")
    assert "cleaner" in checks["aborted transactions"].result
    assert checks["age of the oldest of them"].value == "1.0 h"
    warehouse.transactions.commit(open_one)
    assert compactor.explain("default", "t").answer.startswith("major: deltas are 0.54 of the base")
    compactor.request("default", "t")
    assert "a compaction of it is already initiated (compaction 1)" in compactor.explain("default", "t").answer


def test_explanation_agrees_with_the_initiator(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("p", keys=["ds"])
    names = [f"ds={number}" for number in range(6)]
    warehouse.partitions("p", *names)
    for number, name in enumerate(names):
        warehouse.write("p", name, base=number % 2 == 0, size=1000)
        for _ in range(number * 3):
            warehouse.write("p", name, size=1)
    answers = {name: compactor.explain("default", "p", name).type for name in names}
    whole = compactor.explain("default", "p")
    assert sum(count for _, count in whole.partitions) == 6
    assert whole.type is None
    worthwhile = {name: kind for name, kind in answers.items() if kind is not None}
    assert dict(whole.worthwhile) == worthwhile
    compactor.initiate()
    assert {entry.partition: entry.type for entry in compactor.show()} == worthwhile
    assert len(set(answers.values())) == 3
    # They are in the queue, so that the initiator would do nothing; their thresholds are passed nevertheless.
    whole = compactor.explain("default", "p")
    assert all(answer.startswith("nothing: ") for answer, _ in whole.partitions)
    assert dict(whole.worthwhile) == worthwhile
    assert [compactor.explain("default", "p", name).worthwhile for name in worthwhile] == [
        (each,) for each in worthwhile.items()
    ]


def test_nothing_is_changed_by_looking(compactor: Compactor, warehouse: Warehouse, table: str, store: Store) -> None:
    compactor.explain("default", table)
    compactor.show()
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(completed_compactions)).scalar_one() == 0
    with pytest.raises(NoSuchTableError):
        compactor.explain("default", "nothing")
