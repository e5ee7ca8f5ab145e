"""Random interleavings of writers, readers and followers of several caches, and what each answer must have."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from airflow_hivex.core.cache.table_cache import TableCache
from airflow_hivex.core.catalog.bound_tables import bind_table
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.catalog.registration import Registration
from airflow_hivex.core.model.objects import StoredPartition, StoredTable, Table
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.predicates import ColumnReference, Comparison, In, Predicate
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.model.write_ids import ValidWriteIdList
from tests.integration.core.cache.conftest import STORAGE, E, P, Process, Writer

MakeProcess = Callable[[], Process]


class StaleAnswerError(AssertionError):
    """A cache has answered what the database would not have answered for that list."""


@dataclass
class OpenTransaction:
    """A transaction that changes the table: its write id, its list, and the partitions that it adds and drops."""

    txn_id: int
    write_id: int
    ids: ValidWriteIdList
    added: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    properties: list[str] = field(default_factory=list)


@dataclass
class Interleaving:
    """Steps over one table with partitions and one external table.

    Definitions are changed by one transaction at a time, as their locks have it, in several calls; others insert.
    """

    random: random.Random
    writer: Writer
    processes: list[Process]
    new_process: MakeProcess
    changing: OpenTransaction | None = None
    committed: list[OpenTransaction] = field(default_factory=list)
    lists: list[ValidWriteIdList] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    number: int = 0
    gives_texts: bool = True
    """Lists are given as texts, too. These do not know a table from an earlier one of its name."""

    def run(self, steps: int) -> None:
        """Take steps; at the end all followers catch up, and each cache has what the database has.

        Raises:
            StaleAnswerError: an answer lacks something that its list sees.
        """
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self.read_by_list),
            (4, self.read_by_snapshot),
            (2, self.take_list),
            (4, self.change),
            (3, self.end_change),
            (2, self.insert),
            (1, self.change_without_write_id),
            (1, self.change_external),
            (0 if self.gives_texts else 1, self.recreate),
            (6, self.follow),
            (1, self.disturb_follower),
        ]
        weights = [weight for weight, _ in actions]
        self.take_list()
        for _ in range(steps):
            ((_, action),) = self.random.choices(actions, weights)
            self.steps.append(action.__name__)
            action()
        if self.changing is not None:
            self.end_change()
        for process in self.processes:
            process.follower.catch_up()
            self.check_equal(process)

    # -- writers

    def change(self) -> None:
        """Do one of several calls of a transaction that changes the definition or the partitions."""
        if self.changing is None:
            txn_id, write_id, ids = self.writer.begin(P)
            self.changing = OpenTransaction(txn_id, write_id, ids)
        work, catalog = self.changing, self.writer.catalog
        self.number += 1
        existing = [name for name in catalog.list_partition_names(*P) if name not in work.added]
        match self.random.choice(("alter", "add", "drop")):
            case "alter":
                self.writer.alter(P, work.txn_id, work.ids, **{f"p{self.number}": "v"})
                work.properties.append(f"p{self.number}")
            case "drop" if existing:
                name = self.random.choice(existing)
                catalog.drop_partitions(*P, [name], work.ids, txn_id=work.txn_id)
                work.dropped.append(name)
            case _:
                table = catalog.get_table(*P)
                new = [catalog.new_partition(table, [f"n{self.number}"])]
                work.added += catalog.add_partitions(*P, new, work.ids, txn_id=work.txn_id)

    def end_change(self) -> None:
        """Commit the transaction, or abort one that has not called anything yet."""
        work, self.changing = self.changing, None
        if work is None:
            return
        self.writer.transactions.commit(work.txn_id)
        self.committed.append(work)

    def insert(self) -> None:
        """Commit rows to a new or an existing partition, or begin to and abort."""
        if self.random.random() < 0.3:
            txn_id, _, _ = self.writer.begin(P)
            self.writer.transactions.abort(txn_id)
            return
        self.number += 1
        names = self.writer.catalog.list_partition_names(*P)
        name = self.random.choice(names) if names and self.random.random() < 0.5 else f"d=i{self.number}"
        txn_id, write_id, ids = self.writer.begin(P)
        table = self.writer.catalog.get_table(*P)
        made = WrittenDirectory(name, (name.partition("=")[2],), f"delta_{write_id:07d}_{write_id:07d}_0000", 1, 1, 1)
        self._commit(txn_id, lambda: registration_of(table, made, txn_id, write_id))
        self.committed.append(OpenTransaction(txn_id, write_id, ids, added=[name]))

    def change_without_write_id(self) -> None:
        """Compact, copy, or add a partition outside of a transaction."""
        catalog = self.writer.catalog
        table = catalog.snapshot([P]).tables[P]
        match self.random.choice(("copy", "withdraw", "compact")):
            case "copy":
                catalog.add_copies(table, "c2", [], partitions=catalog.list_partition_names(*P))
            case "withdraw":
                catalog.unregister_copy(*P, "c2")
            case _:
                names = catalog.list_partition_names(*P)
                ids = self.writer.list_of(P)
                highest = ids.high_watermark if ids.min_open is None else ids.min_open - 1
                if not names or highest < 1:
                    return
                (txn_id,) = self.writer.transactions.open(type=TxnType.COMPACTION)
                made = WrittenDirectory(names[0], (), f"base_{highest:07d}_v{txn_id:07d}", 1, 1, 1)
                self._commit(txn_id, lambda: Registration.of_compaction(table, names[0], [made], txn_id, "c1"))

    def change_external(self) -> None:
        """Change a table without write ids."""
        self.number += 1
        catalog = self.writer.catalog
        if self.random.random() < 0.5:
            self.writer.alter(E, 0, None, k=str(self.number))
        else:
            catalog.add_partitions(*E, [catalog.new_partition(catalog.get_table(*E), [f"e{self.number}"])])

    def recreate(self) -> None:
        """Drop the table and create another one of its name, whose write ids begin at 1."""
        if self.changing is not None or self.random.random() < 0.5:
            return
        txn_id, _, ids = self.writer.begin(P)
        table = self.writer.catalog.get_table(*P)
        self.writer.catalog.drop_table(*P, ids, txn_id)
        self.writer.transactions.commit(txn_id)
        self.writer.catalog.create_table(
            Table(*P, STORAGE, partition_keys=table.partition_keys, parameters={"transactional": "true"})
        )
        self.committed.clear()
        self.lists.clear()
        self.take_list()

    def _commit(self, txn_id: int, made: Callable[[], Registration]) -> None:
        def changes(connection: Connection) -> None:
            self.writer.catalog.joining(connection).register(made())

        self.writer.transactions.commit(txn_id, changes)

    # -- followers

    def follow(self) -> None:
        """Let one follower apply a few events, or all."""
        self.random.choice(self.processes).follower.catch_up(self.random.choice((1, 2, 3, None)))

    def disturb_follower(self) -> None:
        """Deliver events twice, lose the follower's position, or replace a process."""
        at = self.random.randrange(len(self.processes))
        follower = self.processes[at].follower
        match self.random.choice(("repeat", "restart", "replace")):
            case "repeat" if follower.position:
                follower.position = max(0, follower.position - self.random.randint(1, 5))
            case "restart":
                follower.position = None
            case _:
                self.processes[at] = self.new_process()

    # -- readers

    def take_list(self) -> None:
        """Take the current list, for reads now and later."""
        self.lists.append(self.writer.list_of(P))

    def read_by_list(self) -> None:
        """Read with the newest list or an older one, and check that nothing that it sees is missing."""
        process = self.random.choice(self.processes)
        if self.random.random() < 0.7:
            self.take_list()
        ids = self.random.choice(self.lists[-3:])
        given = str(ids) if self.gives_texts and self.random.random() < 0.5 else ids
        catalog = process.catalog
        expected = [work for work in self.committed if ids.is_valid(work.write_id)]
        match self.random.choice(("table", "names", "all", "expr", "one")):
            case "table":
                self.check_properties(expected, catalog.get_table(*P, given).parameters)
            case "names":
                self.check_partitions(ids, expected, catalog.list_partition_names(*P, None, given))
            case "all":
                found = [each.name for batch in catalog.get_partitions(*P, given) for each in batch]
                self.check_partitions(ids, expected, found)
            case "expr":
                found = [each.name for each in catalog.get_partitions_by_expr(*P, None, given)]
                self.check_partitions(ids, expected, found)
            case _:
                added = [name for work in expected for name in work.added]
                if added and not self._dropped(added[-1]):
                    assert catalog.get_partition(*P, [added[-1].partition("=")[2]], given).name == added[-1]

    def check_properties(self, expected: Sequence[OpenTransaction], found: Mapping[str, str]) -> None:
        """Compare the properties of a table with the changes that a list sees."""
        missing = [name for work in expected for name in work.properties if name not in found]
        if missing:
            raise StaleAnswerError(f"property {missing[0]} is missing")

    def check_partitions(
        self, ids: ValidWriteIdList, expected: Sequence[OpenTransaction], found: Sequence[str]
    ) -> None:
        """Compare the partitions of a table with the changes that a list sees."""
        for work in expected:
            for name in work.added:
                if name not in found and not self._dropped(name):
                    raise StaleAnswerError(f"partition {name} of write id {work.write_id} is missing in {ids}")
            for name in work.dropped:
                if name in found and not self._added_later(name, work):
                    raise StaleAnswerError(f"partition {name} was dropped by write id {work.write_id}, seen by {ids}")

    def _dropped(self, name: str) -> bool:
        every = [*self.committed, *([self.changing] if self.changing else [])]
        return any(name in work.dropped for work in every)

    def _added_later(self, name: str, dropper: OpenTransaction) -> bool:
        return any(name in work.added and work.txn_id > dropper.txn_id for work in self.committed)

    def read_by_snapshot(self) -> None:
        """Read what a statement reads: it is what the database has, to the letter."""
        process = self.random.choice(self.processes)
        name = self.random.choice((P, P, P, E))
        names = self.writer.catalog.list_partition_names(*name)
        column = ColumnReference("d")
        predicates: list[Predicate | None] = [None]
        if names:
            values = [name.partition("=")[2] for name in names]
            predicates += [Comparison(column, "=", self.random.choice(values)), In(column, tuple(values[:3]))]
        predicate = self.random.choice(predicates)
        (txn_id,) = self.writer.transactions.open()
        answers = [self._bound(catalog, name, predicate, txn_id) for catalog in (process.catalog, self.writer.catalog)]
        self.writer.transactions.commit(txn_id)
        if answers[0] != answers[1]:
            raise StaleAnswerError(f"a statement reads {answers[0]} instead of {answers[1]}")

    @staticmethod
    def _bound(catalog: ObjectStore, name: tuple[str, str], predicate: Predicate | None, txn_id: int) -> object:
        snapshot = catalog.snapshot([name], txn_id)
        table = snapshot.tables[name]
        contents = catalog.contents(snapshot, table, predicate, ["c1", "c2"])
        bound = bind_table(table, contents, predicate, snapshot, ["c1", "c2"])
        # Without a stale partition it makes no difference whether the cluster is named.
        return replace(bound, stale={cluster: names for cluster, names in bound.stale.items() if names})

    def check_equal(self, process: Process) -> None:
        """Compare all answers of a cache whose follower has caught up with those of the database."""
        catalog = self.writer.catalog
        for name, ids in ((P, str(self.writer.list_of(P))), (E, None)):
            answers: list[tuple[StoredTable, list[str], list[StoredPartition]]] = [
                (
                    one.get_table(*name, *given),
                    one.list_partition_names(*name, None, *given),
                    one.get_partitions_by_expr(*name, None, *given),
                )
                for one, given in ((process.catalog, (ids,)), (catalog, ()))
            ]
            if answers[0] != answers[1]:
                raise StaleAnswerError(f"after catching up: {answers[0]} instead of {answers[1]}")


def registration_of(table: StoredTable, made: WrittenDirectory, txn_id: int, write_id: int) -> Registration:
    """Return the registration of an INSERT."""
    from airflow_hivex.core.model.writes import TableWrite

    return Registration.of_write(table, TableWrite(txn_id, write_id, "c1"), [made])


class WithoutCommittedFlag(TableCache):
    """A cache that ignores that a transaction has announced a change."""

    def announce(self, *_: object) -> None:
        """Do nothing."""


class WithoutListCheck(TableCache):
    """A cache that answers whatever it has, whatever the reader's list."""

    def is_equivalent(self, *_: object) -> bool:
        """Return True."""
        return True
