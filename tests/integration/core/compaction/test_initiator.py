"""What the initiator puts into the queue, by rows alone. Source: docs/reference/compaction.md."""

from __future__ import annotations

import pytest

from airflow_hivex.core.compaction.compactor import Compactor
from airflow_hivex.core.compaction.history import CompactionFilter
from airflow_hivex.core.model.compaction import Compaction, CompactionState, CompactionType
from airflow_hivex.core.model.transactions import Operation
from tests.integration.core.compaction.conftest import DAY_S, MakeCompactor, Warehouse
from tests.integration.core.conftest import Clock

MAJOR, MINOR = CompactionType.MAJOR, CompactionType.MINOR
NO_CLEANER = {"metastore.compactor.clean.aborts.using.cleaner": False}


def initiated(compactor: Compactor) -> list[tuple[str, CompactionType]]:
    """What a round has put into the queue: names and types."""
    new = compactor.initiate().initiated
    return [(entry.name, entry.type) for entry in compactor.show() if entry.id in new][::-1]


def test_nothing_was_written(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("t")
    result = compactor.initiate()
    assert (result.candidates, result.initiated, result.did_not_initiate) == (0, (), ())
    assert result.is_complete


def test_more_than_ten_deltas_without_base_are_a_major_compaction(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("t")
    for _ in range(10):
        warehouse.write("t")
    assert initiated(compactor) == []
    warehouse.write("t")
    assert initiated(compactor) == [("default.t", MAJOR)]
    (entry,) = compactor.show()
    assert (entry.state, entry.run_as, entry.pool, entry.partition) == (CompactionState.INITIATED, "owner", None, None)
    # It waits already.
    assert initiated(compactor) == []


def test_more_than_ten_small_deltas_on_a_base_are_a_minor_compaction(
    compactor: Compactor, warehouse: Warehouse
) -> None:
    warehouse.table("t")
    warehouse.write("t", base=True, size=10_000)
    for number in range(10):
        warehouse.write("t", size=10, delete=number == 3)
    assert initiated(compactor) == []
    warehouse.write("t", size=10)
    assert initiated(compactor) == [("default.t", MINOR)]


@pytest.mark.parametrize(("size", "expected"), [(1000, []), (1001, [("default.t", MAJOR)])])
def test_share_of_deltas_must_be_larger_than_a_tenth(
    compactor: Compactor, warehouse: Warehouse, size: int, expected: list[object]
) -> None:
    warehouse.table("t")
    warehouse.write("t", base=True, size=10_000)
    warehouse.write("t", size=size)
    assert initiated(compactor) == expected


def test_base_that_another_base_has_replaced_is_compacted_away(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("t")
    warehouse.write("t", base=True)
    assert initiated(compactor) == []
    warehouse.write("t", base=True)
    assert initiated(compactor) == [("default.t", MAJOR)]


def test_thresholds_of_a_table_take_the_place_of_the_settings(
    make_compactor: MakeCompactor, warehouse: Warehouse
) -> None:
    compactor = make_compactor(settings={"hive.compactor.delta.num.threshold": 3})
    warehouse.table("own", {"compactorthreshold.hive.compactor.delta.num.threshold": "1"})
    warehouse.table("common")
    warehouse.table("pct", {"compactorthreshold.hive.compactor.delta.pct.threshold": "0.5"})
    for name in ("own", "common"):
        warehouse.write(name)
        warehouse.write(name)
    warehouse.write("pct", base=True, size=100)
    warehouse.write("pct", size=50)
    assert initiated(compactor) == [("default.own", MAJOR)]
    warehouse.write("pct", size=1)
    assert initiated(compactor) == [("default.pct", MAJOR)]


def test_threshold_that_is_no_number_is_recorded_in_the_history_once(
    compactor: Compactor, warehouse: Warehouse
) -> None:
    warehouse.table("t", {"compactorthreshold.hive.compactor.delta.num.threshold": "many"})
    warehouse.write("t")
    result = compactor.initiate()
    assert (result.initiated, len(result.did_not_initiate)) == ((), 1)
    (entry,) = compactor.show()
    assert entry.state is CompactionState.DID_NOT_INITIATE
    assert "compactorthreshold.hive.compactor.delta.num.threshold" in str(entry.error_message)
    assert compactor.initiate().did_not_initiate == ()


def test_partitions_are_decided_on_one_by_one(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("p", keys=["ds"])
    warehouse.partitions("p", "ds=1", "ds=2", "ds=3")
    for _ in range(11):
        warehouse.write("p", "ds=1")
    warehouse.write("p", "ds=2", base=True, size=100)
    warehouse.write("p", "ds=2", size=90)
    warehouse.write("p", "ds=3")
    result = compactor.initiate()
    assert result.candidates == 3
    assert {(entry.partition, entry.type) for entry in compactor.show()} == {("ds=1", MAJOR), ("ds=2", MAJOR)}


def test_table_and_partition_that_are_gone_are_left_alone(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("t")
    warehouse.table("p", keys=["ds"])
    warehouse.partitions("p", "ds=1")
    for _ in range(11):
        warehouse.write("t")
        warehouse.write("p", "ds=1")
    warehouse.catalog.drop_table("default", "t")
    warehouse.catalog.drop_partitions("default", "p", ["ds=1"])
    assert compactor.initiate().initiated == ()
    assert compactor.show() == []


def test_renamed_partition_is_still_a_candidate(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("p", keys=["ds"])
    warehouse.partitions("p", "ds=1")
    for _ in range(11):
        warehouse.write("p", "ds=1")
    warehouse.catalog.rename_partition("default", "p", "ds=1", "ds=2")
    assert initiated(compactor) == [("default.p ds=2", MAJOR)]
    warehouse.catalog.rename_partition("default", "p", "ds=2", "ds=3")
    (entry,) = compactor.show()
    assert entry.partition == "ds=3"


@pytest.mark.parametrize(
    ("of_database", "of_table", "compacts"),
    [
        (None, None, True),
        (None, "true", False),
        (None, "false", True),
        ("true", None, False),
        ("true", "false", False),
        ("false", "true", True),
        ("TRUE", None, False),
    ],
)
@pytest.mark.parametrize("name", ["no_auto_compaction", "NO_AUTO_COMPACTION"])
def test_database_decides_on_no_auto_compaction_before_the_table(
    make_compactor: MakeCompactor,
    warehouse: Warehouse,
    name: str,
    of_database: str | None,
    of_table: str | None,
    compacts: bool,
) -> None:
    warehouse.table("t", {} if of_table is None else {name: of_table})
    warehouse.set_database("default", {} if of_database is None else {name: of_database})
    warehouse.write("t")
    compactor = make_compactor(settings={"hive.compactor.delta.num.threshold": 0})
    assert bool(compactor.initiate().initiated) is compacts
    assert compactor.request("default", "t").is_accepted is not compacts


def test_database_under_replication_waits(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("t")
    warehouse.set_database("default", {"hive.repl.first.inc.pending": "true"})
    for _ in range(11):
        warehouse.write("t")
    assert compactor.initiate().initiated == ()
    warehouse.set_database("default", {})
    assert initiated(compactor) == [("default.t", MAJOR)]


def test_insert_only_tables_can_be_left_out(make_compactor: MakeCompactor, warehouse: Warehouse) -> None:
    warehouse.table("t", {"transactional_properties": "insert_only"})
    for _ in range(11):
        warehouse.write("t")
    assert make_compactor(settings={"hive.compactor.compact.insert.only": False}).initiate().initiated == ()
    assert initiated(make_compactor()) == [("default.t", MAJOR)]


def test_open_write_holds_back_only_what_is_above_it(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.table("t")
    for _ in range(8):
        warehouse.write("t")
    slow = warehouse.begin("t")
    for _ in range(8):
        warehouse.write("t")
    assert initiated(compactor) == []
    # Nothing is written after that; the table is not forgotten.
    warehouse.transactions.abort(slow)
    assert initiated(compactor) == [("default.t", MAJOR)]


def test_too_many_aborts_are_a_major_compaction_if_the_cleaner_leaves_them(
    make_compactor: MakeCompactor, warehouse: Warehouse
) -> None:
    compactor = make_compactor(settings={**NO_CLEANER, "hive.compactor.abortedtxn.threshold": 3})
    warehouse.table("t")
    ids = [warehouse.begin("t") for _ in range(4)]
    warehouse.transactions.abort_many(ids[:3])
    assert initiated(compactor) == []
    warehouse.transactions.abort_many(ids[3:])
    assert make_compactor(settings={"hive.compactor.abortedtxn.threshold": 3}).initiate().initiated == ()
    assert initiated(compactor) == [("default.t", MAJOR)]


@pytest.mark.parametrize(("hours", "threshold", "expected"), [(13, 12, [MINOR]), (11, 12, []), (900, -1, [])])
def test_old_abort_is_a_minor_compaction(
    make_compactor: MakeCompactor,
    warehouse: Warehouse,
    clock: Clock,
    hours: int,
    threshold: int,
    expected: list[CompactionType],
) -> None:
    compactor = make_compactor(settings={**NO_CLEANER, "hive.compactor.aborted.txn.time.threshold": threshold})
    warehouse.table("p", keys=["ds"])
    warehouse.transactions.abort(warehouse.begin("p"))
    clock.advance(hours * 3600)
    # Which partition was written is not known.
    assert [kind for _, kind in initiated(compactor)] == expected


def test_aborted_compactions_do_not_count_as_aborts(make_compactor: MakeCompactor, warehouse: Warehouse) -> None:
    compactor = make_compactor(settings={**NO_CLEANER, "hive.compactor.abortedtxn.threshold": 0})
    warehouse.table("t")
    warehouse.transactions.abort(warehouse.begin("t", operation=Operation.COMPACT))
    assert compactor.initiate().initiated == ()


def fail(compactor: Compactor, table: str = "t") -> None:
    assert compactor.request("default", table).is_accepted
    entry = compactor.queue.next_entry("host-1")
    assert entry is not None
    compactor.queue.mark_failed(entry, "disk full")


def succeed(compactor: Compactor, table: str = "t") -> Compaction:
    assert compactor.request("default", table).is_accepted
    entry = compactor.queue.next_entry("host-1")
    assert entry is not None
    entry = compactor.queue.mark_ready_for_cleaning(entry)
    compactor.cleaning.mark_cleaned(entry)
    return entry


def test_table_whose_last_compactions_failed_waits_for_a_week(
    compactor: Compactor, warehouse: Warehouse, clock: Clock
) -> None:
    warehouse.table("t")
    for _ in range(11):
        warehouse.write("t")
    fail(compactor)
    succeed(compactor)
    fail(compactor)
    assert len(compactor.initiate().initiated) == 1
    compactor.abort([compactor.show()[0].id])
    fail(compactor)
    result = compactor.initiate()
    assert result.initiated == ()
    (recorded,) = compactor.show(CompactionFilter(state=CompactionState.DID_NOT_INITIATE))
    assert result.did_not_initiate == (recorded.id,)
    assert "last 2 compactions have failed" in str(recorded.error_message)
    clock.advance(7 * DAY_S - 1)
    assert compactor.initiate().initiated == ()
    clock.advance(1)
    assert len(compactor.initiate().initiated) == 1


def test_failed_table_is_never_tried_again_without_retry_time(
    make_compactor: MakeCompactor, warehouse: Warehouse, clock: Clock
) -> None:
    compactor = make_compactor(settings={"metastore.compactor.initiator.failed.retry.time": 0})
    warehouse.table("t")
    for _ in range(11):
        warehouse.write("t")
    fail(compactor)
    fail(compactor)
    clock.advance(1000 * DAY_S)
    assert compactor.initiate().initiated == ()


def test_round_stops_at_its_size_and_the_next_goes_on(make_compactor: MakeCompactor, warehouse: Warehouse) -> None:
    compactor = make_compactor(
        settings={"metastore.compactor.fetch.size": 100, "hive.compactor.delta.num.threshold": 0}
    )
    warehouse.table("p", keys=["ds"])
    names = [f"ds={number}" for number in range(150)]
    warehouse.partitions("p", *names)
    txn_id = warehouse.begin("p")
    warehouse.transactions.add_dynamic_partitions(txn_id, "default", "p", names, Operation.INSERT)
    warehouse.register_each("p", names, {"delta_0000001_0000001_0000": 10}, txn_id=txn_id)
    warehouse.transactions.commit(txn_id)
    first = compactor.initiate()
    assert (len(first.initiated), first.is_complete) == (100, False)
    second = compactor.initiate()
    assert (len(second.initiated), second.is_complete) == (50, True)
    assert {entry.partition for entry in compactor.show()} == set(names)


def test_pool_comes_from_the_table_then_from_the_database(compactor: Compactor, warehouse: Warehouse) -> None:
    warehouse.set_database("default", {"hive.compactor.worker.pool": "etl"})
    warehouse.table("own", {"hive.compactor.worker.pool": "urgent"})
    warehouse.table("common")
    for name in ("own", "common"):
        for _ in range(11):
            warehouse.write(name)
    compactor.initiate()
    assert {(entry.table, entry.pool) for entry in compactor.show()} == {("own", "urgent"), ("common", "etl")}
