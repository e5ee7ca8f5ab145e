"""Histories of tables of each kind, and reads of several processes, compared with the catalog without a cache."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.catalog.statistics import store_statistics
from airflow_hivex.core.catalog.table_events import record_statistics_event
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.directories import base_name
from airflow_hivex.core.model.objects import Column, StoredTable, Table, TableType
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.statistics import Statistics
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.store.engine import Store
from tests import evidence
from tests.conftest import Counts
from tests.integration.core.cache.compared_reads import Compared, Name, compare
from tests.integration.core.cache.conftest import STORAGE, Writer
from tests.integration.core.cache.driven_process import Peer, driven_processes
from tests.restoring import Backup, back_up, restore

READS = evidence.amount("HIVEX_COMPARED_READS", 480, 60_000)
PROCESSES = 3
AT_ONCE = 20
NAMES = [("default", name) for name in ("a", "b", "c")]
MANAGED = {"transactional": "true"}


class Changes:
    """Random changes of the tables of a few names, whatever kind of table has the name."""

    def __init__(self, writer: Writer, store: Store, drawn: random.Random) -> None:
        self.writer = writer
        self.store = store
        self.drawn = drawn
        self.done: Counter[str] = Counter()
        self.backup: Backup | None = None
        self.number = 0
        self.is_half_done = False
        """Whether a change was aborted, which a reader by text learns from the events."""

    def step(self) -> None:
        """Make one change; one that the catalog refuses changes nothing."""
        steps: list[Callable[[ObjectStore, Name], None]] = [
            self.create,
            self.create,
            self.create,
            self.create,
            self.drop,
            self.replace_table,
            self.alter,
            self.alter,
            self.alter_and_abort,
            self.change_kind,
            self.change_kind,
            self.rename,
            self.swap,
            self.add_partition,
            self.add_partition,
            self.drop_partition,
            self.rename_partition,
            self.insert,
            self.insert,
            self.compact,
            self.statistics,
        ]
        step = self.drawn.choice(steps)
        self.number += 1
        try:
            step(self.writer.catalog, self.drawn.choice(NAMES))
        except HivexError:
            self.done["refused"] += 1
        else:
            self.done[step.__name__.strip("_").replace("_", " ")] += 1

    def definition(self, name: Name) -> Table:
        """A table of any kind."""
        keys = (Column("d", "string"),) if self.drawn.random() < 0.7 else ()
        if self.drawn.random() < 0.5:
            return Table(*name, STORAGE, keys, TableType.EXTERNAL_TABLE, {"n": str(self.number)})
        return Table(*name, STORAGE, keys, parameters={**MANAGED, "n": str(self.number)})

    def create(self, catalog: ObjectStore, name: Name) -> None:
        catalog.create_table(self.definition(name))

    def drop(self, catalog: ObjectStore, name: Name) -> None:
        catalog.drop_table(*name)

    def replace_table(self, catalog: ObjectStore, name: Name) -> None:
        catalog.drop_table(*name)
        catalog.create_table(self.definition(name))

    def alter(self, catalog: ObjectStore, name: Name) -> None:
        if catalog.get_table(*name).is_transactional and self.drawn.random() < 0.5:
            self.writer.altered(name, n=str(self.number))
        else:
            table = catalog.get_table(*name)
            catalog.alter_table(*name, _with(table, {**table.parameters, "n": str(self.number)}))

    def alter_and_abort(self, catalog: ObjectStore, name: Name) -> None:
        catalog.get_table(*name)
        txn_id, _, ids = self.writer.begin(name)
        self.writer.alter(name, txn_id, ids, n=str(self.number))
        self.writer.transactions.abort(txn_id)
        # The change stays in the database, though the list of a reader does not show it.
        self.is_half_done = True

    def change_kind(self, catalog: ObjectStore, name: Name) -> None:
        """An external table becomes managed, or the other way round, under the same id."""
        table = catalog.get_table(*name)
        kind = TableType.EXTERNAL_TABLE if table.is_transactional else TableType.MANAGED_TABLE
        parameters = {"n": str(self.number)} if table.is_transactional else {**MANAGED, "n": str(self.number)}
        catalog.alter_table(*name, replace(_with(table, parameters), type=kind))

    def rename(self, catalog: ObjectStore, name: Name) -> None:
        catalog.alter_table(*name, replace(catalog.get_table(*name).definition, name=self.drawn.choice(NAMES)[1]))

    def swap(self, catalog: ObjectStore, name: Name) -> None:
        other = self.drawn.choice([each for each in NAMES if each != name])
        one, two = catalog.get_table(*name).definition, catalog.get_table(*other).definition
        catalog.alter_table(*name, replace(one, name="away"))
        catalog.alter_table(*other, replace(two, name=name[1]))
        catalog.alter_table("default", "away", replace(one, name=other[1]))

    def add_partition(self, catalog: ObjectStore, name: Name) -> None:
        table = catalog.get_table(*name)
        catalog.add_partitions(*name, [catalog.new_partition(table, [str(self.drawn.randint(1, 4))])])

    def drop_partition(self, catalog: ObjectStore, name: Name) -> None:
        catalog.drop_partitions(*name, [f"d={self.drawn.randint(1, 4)}"])

    def rename_partition(self, catalog: ObjectStore, name: Name) -> None:
        catalog.rename_partition(*name, f"d={self.drawn.randint(1, 4)}", f"d={self.drawn.randint(1, 4)}")

    def insert(self, catalog: ObjectStore, name: Name) -> None:
        table = catalog.get_table(*name)
        if table.is_transactional:
            self.writer.insert(name, f"d={self.drawn.randint(1, 4)}" if table.is_partitioned else None)

    def compact(self, catalog: ObjectStore, name: Name) -> None:
        """A major compaction of a table without partitions, which raises the version and takes no write id."""
        table = catalog.get_table(*name)
        if table.is_partitioned or not table.is_transactional:
            return
        (txn_id,) = self.writer.transactions.open(type=TxnType.COMPACTION)
        last = self.writer.list_of(name).high_watermark
        made = WrittenDirectory(None, (), base_name(last, txn_id), 1, 1, 1)
        change = Registration.of_compaction(table, None, [made], txn_id, "c1")
        self.writer.transactions.commit(txn_id, lambda connection: catalog.joining(connection).register(change))

    def statistics(self, catalog: ObjectStore, name: Name) -> None:
        """Statistics of a table, which take no write id."""
        table, made = catalog.get_table(*name), Statistics(self.number, 1, 1)

        def change(connection: Connection) -> None:
            store_statistics(connection, table, {None: made})
            record_statistics_event(connection, self.number, table, None)

        self.store.write(change, name="statistics")

    def back_up(self) -> None:
        self.backup = back_up(self.store)

    def restore(self) -> None:
        if self.backup is not None:
            restore(self.store, self.backup)
            self.done["restored"] += 1


def _with(table: StoredTable, parameters: Mapping[str, str]) -> Table:
    return replace(table.definition, parameters=parameters)


@pytest.mark.evidence
@pytest.mark.every_backend
def test_reads_of_several_caches_are_those_of_the_database(
    writer: Writer,
    store: Store,
    metastore_url: str,
    tmp_path: Path,
    counts: Counts,
) -> None:
    drawn = random.Random(evidence.SEED)
    changes = Changes(writer, store, drawn)
    reads = hits = 0
    clusters = {name: {"filesystem": (tmp_path / name).as_uri(), "jobtracker": "local[2]"} for name in ("c1", "c2")}
    with driven_processes(PROCESSES, metastore_url, clusters, tmp_path) as processes:
        for name in NAMES:
            changes.create(writer.catalog, name)
        while reads < READS // 2:
            if drawn.random() < 0.05:
                changes.back_up()
            is_restored = changes.backup is not None and drawn.random() < 0.05
            if is_restored:
                changes.restore()
            for _ in range(drawn.randint(0, 6) if is_restored else drawn.randint(1, 3)):
                changes.step()
            all_catch_up, changes.is_half_done = is_restored or changes.is_half_done, False
            for process in processes:
                catches_up = all_catch_up or drawn.random() < 0.6
                process.begin(_compare, drawn.randrange(2**40), catches_up, clusters)
            for process in processes:
                found = process.answer()
                assert found.difference is None, f"{found.difference} after {changes.done}"
                reads, hits = reads + found.reads, hits + found.hits
    assert hits > 0
    counts["reads of several caches"] = {"reads": reads, "without a call": hits, "changes": sum(changes.done.values())}


def _compare(peer: Peer, seed: int, catches_up: bool, clusters: dict[str, dict[str, str]]) -> Compared:
    return compare(peer, NAMES, seed, AT_ONCE, catches_up=catches_up, clusters=clusters)
