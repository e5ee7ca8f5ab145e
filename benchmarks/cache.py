"""The cache of metadata: answers from memory next to a real Hive Metastore 2.3, catching up, and prewarming.

Hive's metastore runs on Derby in memory, in a process of its own, and answers over Thrift. The cache answers in the
process, with the write id list of the reader. Both have the same table of 10,000 partitions.
"""

from __future__ import annotations

import gc
import itertools
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, insert

from airflow_hivex.core import Metastore
from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.table_cache import ObjectLists, TableCache
from airflow_hivex.core.cache.valid_entries import size_of_partitions
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.model.objects import (
    ClusterStorageDescriptor,
    Column,
    Database,
    StorageDescriptor,
    StoredTable,
    Table,
)
from airflow_hivex.core.model.predicates import ColumnReference, Comparison
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.schema import recorded_events
from benchmarks.harness import Figure, compare, interleave, within
from benchmarks.hive_import import KEYS, PARTITIONS, fill
from tests.hive_metastore import hive_client, hive_metastore
from tests.postgresql import start_durable_postgresql

HIVE = "Hive Metastore 2.3"
COLUMNS = tuple(Column(f"c{number}", "string") for number in range(20))
TRANSACTIONAL = {"transactional": "true"}
ROUNDS = 7
FEW, MANY = 100, 100_000
EVENTS, EVENTS_A_SECOND = 50_000, 5_000
PREWARMED, PARTITIONS_EACH = 1_000, 100
T = ("d", "t")


def run(folder: Path) -> list[Figure]:
    """Figures of all questions of the issue; goals are ratios of time."""
    with ExitStack() as stack:
        postgresql = stack.enter_context(_postgresql())
        metastore = stack.enter_context(_open(postgresql(), folder))
        return [
            *_against_hive(stack, metastore, folder),
            _by_number_of_tables(metastore),
            _catching_up(metastore),
            _prewarming(stack, postgresql(), folder),
        ]


@contextmanager
def _postgresql() -> Iterator[Callable[[], str]]:
    server = start_durable_postgresql()
    try:
        yield server.create_database
    finally:
        server.stop()


def _open(url: str, folder: Path) -> Metastore:
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[1]"}}
    return Metastore.open(url, clusters=clusters, default_cluster="c1")


def _storage() -> StorageDescriptor:
    return StorageDescriptor(COLUMNS, ClusterStorageDescriptor("c1", ""))


def _table(metastore: Metastore, name: tuple[str, str], days: Iterable[str], hours: int) -> None:
    """Make a table with partitions of each hour of the days."""
    keys = tuple(Column(*key) for key in KEYS)
    catalog = metastore.catalog
    table = catalog.create_table(Table(*name, _storage(), partition_keys=keys, parameters=TRANSACTIONAL))
    new = [catalog.new_partition(table, [day, hour]) for day in days for hour in range(hours)]
    catalog.add_partitions(*name, new)


def _list(metastore: Metastore, name: tuple[str, str]) -> ValidWriteIdList:
    full = ".".join(name)
    return metastore.transactions.valid_write_ids([full], metastore.transactions.valid_txns())[full]


def _each(count: int, question: Callable[[], object]) -> Callable[[], float]:
    """Seconds of one of several calls."""

    def timed() -> float:
        began = time.perf_counter()
        for _ in range(count):
            question()
        return (time.perf_counter() - began) / count

    return timed


def _against_hive(stack: ExitStack, metastore: Metastore, folder: Path) -> list[Figure]:
    server = stack.enter_context(hive_metastore(folder / "warehouse"))
    fill(server, folder)
    client = stack.enter_context(hive_client(server))
    metastore.catalog.create_database(Database("d"))
    hours = 25
    days = [f"2024-{number:04d}" for number in range(PARTITIONS // hours)]
    _table(metastore, T, days, hours)
    ids, catalog = _list(metastore, T), metastore.catalog
    wanted = Comparison(ColumnReference("ds"), "=", "2024-0007")
    names = itertools.cycle(days)
    questions: dict[str, tuple[int, Callable[[], object], int, Callable[[], object], float]] = {
        "get_table": (2000, lambda: catalog.get_table(*T, ids), 50, lambda: client.get_table(*T), 1 / 50),
        "get_partition by name": (
            2000,
            lambda: catalog.get_partition(*T, (next(names), "7"), ids),
            50,
            lambda: client.get_partition_by_name(*T, f"ds={next(names)}/hr=7"),
            1 / 50,
        ),
        "get_partitions_by_filter, 25 of 10,000": (
            5,
            lambda: catalog.get_partitions_by_expr(*T, wanted, ids),
            5,
            lambda: client.get_partitions_by_filter(*T, "ds = '2024-0007'", -1),
            1 / 10,
        ),
    }
    catalog.list_partition_names(*T, None, ids)
    assert len(catalog.get_partitions_by_expr(*T, wanted, ids)) == 25
    assert len(client.get_partitions_by_filter(*T, "ds = '2024-0007'", -1)) == 25
    found = []
    for title, (ours, question, theirs, peer, goal) in questions.items():
        seconds = interleave(
            {"cache": _each(ours, question), HIVE: _each(theirs, peer)}, rounds=ROUNDS, warm_up=2, at_least_s=3
        )
        found.append(replace(compare(title, seconds, "cache", HIVE, goal), count=1))
    return found


def _by_number_of_tables(metastore: Metastore) -> Figure:
    """The time of a hit among 100 and among 100,000 tables; no database is asked."""
    services = metastore.services
    caches = {}
    for count in (FEW, MANY):
        cache = TableCache(ObjectLists(Settings({})), -1)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            table = _stored(number)
            view = table.with_location(f"file:///c1/{table.storage.primary.location}")
            cache.put_definition(cache.begin(), table, _of(number), {None: view}, is_used=True)
        each = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        if count == MANY:
            _print(f"memory: {each:,.0f} bytes a table of 20 columns; the estimate is {cache.used_bytes / count:,.0f}")
        caches[count] = CachedStore(services.store, services.clusters, services.clock, end_of_dropped, cache)
    _memory_of_partitions(metastore)
    # Spread over the memory, as many of each.
    chosen = {count: itertools.cycle([int(number * count / FEW) for number in range(FEW)]) for count in caches}
    lists = {number: _of(number) for count in caches for number in (int(each * count / FEW) for each in range(FEW))}

    def hit(count: int) -> Callable[[], object]:
        def ask() -> object:
            number = next(chosen[count])
            return caches[count].get_table("d", f"t{number}", lists[number])

        return ask

    cases = {f"{count:,} tables": _each(2000, hit(count)) for count in caches}
    seconds = interleave(cases, rounds=15, warm_up=3, at_least_s=3)
    few, many = cases
    return replace(compare("hit of get_table among 100,000 tables", seconds, many, few, 1.3), count=1)


def _stored(number: int) -> StoredTable:
    # Values of its own, as those of a database are.
    columns = tuple(Column(f"c{each}", "string") for each in range(20))
    storage = StorageDescriptor(columns, ClusterStorageDescriptor("c1", f"d.db/t{number}"))
    table = Table("d", f"t{number}", storage, parameters={"transactional": "true", "owner": f"o{number}"})
    return StoredTable.of(table, id=number + 1)


def _of(number: int) -> ValidWriteIdList:
    return ValidWriteIdList.of(f"d.t{number}", 12, [7], [8])


def _memory_of_partitions(metastore: Metastore) -> None:
    """Print the memory of the partitions of a table as the catalog gives them."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    found = [each for batch in metastore.catalog.get_partitions(*T) for each in batch]
    each = (tracemalloc.get_traced_memory()[0] - before) / len(found)
    tracemalloc.stop()
    estimate = size_of_partitions(found) / len(found)
    _print(f"memory: {each:,.0f} bytes a partition; the estimate is {estimate:,.0f}")


def _catching_up(metastore: Metastore) -> Figure:
    """The time for events of commits to 100 tables that the cache has."""
    cache, catalog = metastore.cache, metastore.catalog
    assert cache is not None
    assert isinstance(catalog, CachedStore)
    # Without its thread, which would be faster than the clock.
    cache.follower.stop()
    catalog.follow = cache.follower.begin
    names = [("d", f"c{number}") for number in range(100)]
    for name in names:
        catalog.create_table(Table(*name, _storage(), parameters=TRANSACTIONAL))
    cache.catch_up()
    ids = {name: catalog.get_table(*name, _list(metastore, name)).id for name in names}
    numbers = itertools.count(1)

    def record(connection: Connection) -> None:
        rows = []
        for _ in range(EVENTS):
            number = next(numbers)
            (name, table_id) = list(ids.items())[number % len(ids)]
            full = ".".join(name)
            message = {"write_ids": {full: number // len(ids) + 1}, "table_ids": {full: table_id}, "partitions": {}}
            rows.append({"event_ms": 1, "type": "COMMIT_TXN", "txn_id": number, "message": message})
        connection.execute(insert(recorded_events), rows)

    def apply() -> float:
        metastore.services.store.write(record)
        began = time.perf_counter()
        applied = cache.catch_up()
        elapsed = time.perf_counter() - began
        assert applied == EVENTS, applied
        return elapsed

    seconds = [apply() for _ in range(3)]
    return replace(within(f"catching up with {EVENTS:,} events", seconds, EVENTS / EVENTS_A_SECOND), count=EVENTS)


def _prewarming(stack: ExitStack, url: str, folder: Path) -> Figure:
    """Seconds for 1,000 tables with 100 partitions each; there is no goal, and the limit is a minute."""
    metastore = stack.enter_context(_open(url, folder))
    days = [f"2024-{number:04d}" for number in range(4)]
    for number in range(PREWARMED):
        _table(metastore, ("default", f"p{number}"), days, PARTITIONS_EACH // len(days))
    assert metastore.cache is not None
    found = metastore.cache.prewarm()
    assert (found.tables, found.is_complete) == (PREWARMED, True)
    _print(f"prewarm: {found.tables:,} tables in {found.seconds:.1f} s, {found.used_bytes / 2**20:,.0f} MiB estimated")
    return replace(within("prewarm of 1,000 tables with 100 partitions", [found.seconds], 60.0), count=PREWARMED)


def _print(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
