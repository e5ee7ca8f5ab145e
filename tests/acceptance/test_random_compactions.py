"""Random histories of statements, compactions and cleanings, each step compared with a plain model.

Minor, major and rebalance compactions of all kinds of tables, cleanings and housekeeping come in any order between the
statements of ``test_random_statements.py`` and in the middle of them; and statements, cleanings and other workers in
the middle of compactions and cleanings. Transactions read in their snapshots all the while, tables that they have read
before and others, and DataFrames that were made in them are computed again and again. Compactions and cleanings fail,
or their processes die, at one step after the other, and workers are given up for dead that are not.

``HIVEX_RANDOM_COMPACTIONS=500`` runs as many steps instead of the few of the gate, and ``HIVEX_RANDOM_SEED`` begins
with another seed. A failure prints the seed and the steps.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core import Metastore
from airflow_hivex.core.clock import system_clock
from airflow_hivex.core.commands.snapshot_files import SnapshotFiles
from airflow_hivex.core.errors import HivexError, LockNotAcquiredError, LockTimeoutError
from airflow_hivex.core.model.cleaning import CleaningOutcome
from airflow_hivex.core.model.compaction import Compaction, CompactionResponse, CompactionState, CompactionType
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.plans import JobResult
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.runners.local import LocalRunner
from airflow_hivex.core.streaming import TransactionBatch
from tests import evidence
from tests.acceptance import registered_directories
from tests.acceptance.faults import Dead, Faults, install
from tests.acceptance.hive_reading import HiveReader
from tests.acceptance.test_random_statements import LOCKS, Play, reporting
from tests.acceptance.warehouse_model import (
    Column,
    Rows,
    Table,
    Transaction,
    Value,
    columns_sql,
    frozen,
    new_column,
    row_of,
)

if TYPE_CHECKING:
    from tests.conftest import Counts

pytestmark = [
    pytest.mark.spark,
    pytest.mark.evidence,
    pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True),
]

STEPS = 12
"""Of one history."""
_ALL = evidence.amount("HIVEX_RANDOM_COMPACTIONS", share=STEPS, whole=500)
SEEDS = range(evidence.SEED, evidence.SEED + max(1, _ALL // STEPS))

HOURS_MS = 3_600_000
_SETTINGS = {
    "hive.lock.numretries": 0,
    # What the cleaner could not delete it tries again in the next round, as often as it takes.
    "hive.compactor.cleaner.retry.retention.time": 0,
    "hive.compactor.cleaner.retry.maxattempts": 0,
    "hive.compactor.max.num.delta": 4,
}
_WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_FEW_STEPS = 4
"""Of what finds nothing to do."""
_FIRST_STEPS = 30
"""A history begins to fail at one of these."""
_TURNING_POINTS = {
    ("work", "database"): ("before commit", "after commit"),
    ("work", "death"): ("compaction written", "before commit", "after commit"),
    ("clean", "database"): ("before cleaned", "after cleaned"),
    ("clean", "death"): ("before cleaned", "after cleaned"),
}
"""Where faults are worth more than elsewhere: just before something counts, and just after."""
_HOW = ("whole",) * 4 + ("between",) * 2 + ("files", "database", "death")
_LOCKED = "could not be locked"
"""Why a compaction may fail while others are at work on its table."""
_CHANGING = ("no other statement changes its rows", "is settled", "write conflict")
"""Why a rebalance may fail then."""
_OF_WORKERS = (TxnType.COMPACTION, TxnType.REBALANCE_COMPACTION)
_PLANNED = "a job is planned"
_HELD = "reader"
"""The session whose transactions are kept open, and make DataFrames."""


@dataclass(frozen=True)
class _Shown:
    """A DataFrame that was made in a transaction, and the rows that it shows as long as that is open."""

    transaction: Transaction
    table_key: int
    rows: DataFrame
    expected: Counter[tuple[Value, ...]]


class _HiveLater(HiveReader):
    """Looks at tables only when all is over: Hive 2.3 does not know that not everybody sees a compaction's result."""

    is_over = False

    def compare(self, table: Table, rows: Rows, planned: SnapshotFiles | None = None) -> None:
        if self.is_over:
            super().compare(table, rows, None)


class CompactedPlay(Play):
    """The random statements, and what compacts and cleans their tables."""

    sorts_buckets = False
    most_key_values = 2

    def __init__(self, faults: Faults, later: Metastore, *given: Any) -> None:
        self.faults = faults
        self.later = later
        self.doing = ""
        self.between: tuple[str, Callable[[], object]] | None = None
        self.is_between = False
        self.was_buried = False
        self.points: dict[str, dict[str, None]] = {"look": {_PLANNED: None}}
        self.next_steps: dict[str, int] = {}
        self.done = Counter[str]()
        self.batches: list[tuple[TransactionBatch, Table]] = []
        self.frames: list[_Shown] = []
        self.spark: SparkSession | None = None
        super().__init__(*given)
        self.onlooker = self.stack.enter_context(self.metastore.session(user="onlooker"))
        self.hive: _HiveLater = _HiveLater(self.metastore, self.folder / "shown to hive")
        self._create_insert_only("a")
        for table in self.model.tables * 3:
            self._insert_into(table)

    # -- what is done -------------------------------------------------------------------

    def step(self) -> None:
        which = self.chance.random()
        if which < 0.27:
            self.ask()
        elif which < 0.5:
            self.clean()
        elif which < 0.52:
            self.bury()
        elif which < 0.6:
            self.stream()
        elif which < 0.68:
            self.hold()
        elif which < 0.78:
            self.overtake()
        elif which < 0.82:
            self.look_on()
        else:
            if self.chance.random() < 0.3:
                self.interrupt("statement", self.chance.choice((self.ask, self.clean)))
            self.statement()

    def statement(self) -> None:
        with self.as_part("statement"):
            super().step()

    def compare(self, table: Table) -> None:
        # What statements do is looked at elsewhere after each.
        if self.doing != "statement" or self.chance.random() < 0.2:
            super().compare(table)
            self._compute_frames(table)

    def source(self, table: Table, columns: Sequence[Column], fixed: dict[int, Value], most: int) -> tuple[str, Rows]:
        query, rows = super().source(table, columns, fixed, most)
        # Mostly without Spark, to have more directories in less time.
        return query.removeprefix("SELECT * FROM ") if self.chance.random() < 0.8 else query, rows

    def choices(self) -> list[Callable[[str], Table | None]]:
        choices: list[Callable[[str], Table | None]] = [self.insert, *(self.update, self.delete) * 2, self.merge] * 2
        choices += [self.overwrite, self.truncate, self.load, self.multi_insert, self.insert_from_table]
        choices += [self.end_or_begin]
        # Those that change what a compaction looks at, or where it lies.
        changes = [self.add_column, self.drop_column, self.rename_column, self.replace_columns, self.widen]
        changes += [self.rename_table, self.change_layout, self.drop_partition, self.rename_partition]
        choices += self.chance.sample(changes, 4)
        return choices

    def _insert_into(self, table: Table, session: str = "") -> None:
        """Insert some rows without Spark, which takes little time."""
        clause, fixed = self.partition(table)
        query, rows = Play.source(self, table, [each for each in table.all_columns if each.key not in fixed], fixed, 4)
        query = query.removeprefix("SELECT * FROM ")
        name = session or self.outside("a")
        if name is not None and self.run(name, f"INSERT INTO {table.name}{clause} {query}", table):
            self.model.change(name, table, [], rows)

    def _delete_from(self, table: Table) -> None:
        """Delete about half of the rows, unless all sessions are in transactions."""
        name, key, rest = self.outside("a"), table.id.key, self.chance.randrange(2)
        if name is None:
            return
        gone = [row for row in self.model.rows(name, table) if dict(row).get(key, -1) % 2 == rest and key in dict(row)]
        if self.run(name, f"DELETE FROM {table.name} WHERE id % 2 = {rest}", table):
            self.model.change(name, table, gone, Counter())

    # -- who reads meanwhile ------------------------------------------------------------------

    def hold(self) -> None:
        """Begin a transaction, which reads some tables and may go on to others much later; now and then end it."""
        name = self.chance.choice((_HELD, _HELD, *"ab"))
        with self.as_part("statement"):
            if name not in self.model.open or self.chance.random() < 0.3:
                self.end_or_begin("a", name=name)
        if name in self.model.open and name != _HELD:
            for _ in range(2):
                self._insert_into(self.table(), name)
        if _HELD in self.model.open:
            self._make_frame()

    def overtake(self) -> None:
        """Compact and clean at once what an open transaction has read, or written, together with what came later."""
        name = self.chance.choice((_HELD, _HELD, "a"))
        if name not in self.model.open:
            with self.as_part("statement"):
                self.end_or_begin("a", name=name)
        table = self.table()
        if name != _HELD and name in self.model.open:
            self._insert_into(table, name)
        for _ in range(2):
            self._insert_into(table)
        if not table.is_insert_only and self.chance.random() < 0.6:
            self._delete_from(table)
        places = self._partitions(table)
        if not places:
            return
        partition = max(places, key=lambda each: self._directories(table, each))
        response = self._request(self.chance.choice(("minor", "major")), table, partition)
        self.log.append(f"compaction of {table.name} {partition or ''}: {response}")
        for _ in range(2):
            self.work("whole")
        self.clean("whole")
        self.compare(table)

    def first_read(self) -> Sequence[Table]:
        return self.chance.sample(self.model.tables, self.chance.randint(1, len(self.model.tables)))

    def _make_frame(self) -> None:
        """Make a DataFrame of a table in the transaction that is kept open."""
        if self.spark is None:
            # That which the metastore has started, as it needs it.
            self.onlooker.sql("SELECT 1")
            self.spark = SparkSession.builder.getOrCreate().newSession()
            for name, value in _WITHOUT_CODE.items():
                self.spark.conf.set(name, value)
        table = self.chance.choice(self.model.tables)
        try:
            rows = self.sessions[_HELD].warehouse(self.spark).table(table.name)
        except (LockTimeoutError, LockNotAcquiredError) as error:
            self.claim(self.locks == "default", "a reader has waited for a lock", error)
            return
        assert isinstance(rows, DataFrame)
        self.log.append(f"{_HELD} makes a DataFrame of {table.name}")
        # Later changes of its columns do not change the DataFrame.
        expected = table.shown(self.model.rows(_HELD, table))
        self.frames.append(_Shown(self.model.open[_HELD], table.key, rows, expected))

    def _compute_frames(self, table: Table) -> None:
        self.frames = [each for each in self.frames if each.transaction is self.model.open.get(_HELD)]
        for each in self.frames:
            if each.table_key == table.key:
                found = Counter(tuple(map(frozen, row.values())) for row in each.rows.toArrow().to_pylist())
                self.same(f"a DataFrame of {table.name}", found, each.expected)

    def look_on(self) -> None:
        """Read a table, in the middle of which it is compacted and cleaned."""
        table = self.table()
        self.interrupt("look", self.chance.choice((self.ask, self.clean)))
        expected = self.model.committed.get(table.key, Counter())
        with self.as_part("look"):
            try:
                rows = self.onlooker.sql(f"SELECT * FROM {table.name}").rows
            except (LockTimeoutError, LockNotAcquiredError) as error:
                self.claim(self.locks == "default", "a reader has waited for a lock", error)
                return
        self.same(f"an onlooker at {table.name}", Counter(map(frozen, rows)), table.shown(expected))

    # -- compactions and cleanings -----------------------------------------------------------

    def ask(self) -> None:
        """Ask for a compaction, mostly of a place that needs one, and let a worker do the oldest that waits."""
        places = [(table, partition) for table in self.model.tables for partition in self._partitions(table)]
        counts = [self._directories(table, partition) for table, partition in places]
        if max(counts, default=0) < 3:
            if self.is_between:
                # Who is interrupted has not reckoned with other rows.
                return
            for _ in range(4):
                self._insert_into(self.table())
            return
        ((table, partition),) = self.chance.choices(places, [1 + 20 * max(0, count - 1) for count in counts])
        is_spread = not table.buckets and not table.is_insert_only
        kind = self.chance.choice(("minor", "major", "rebalance" if is_spread else "major"))
        response = self._request(kind, table, partition)
        self.log.append(f"{kind} compaction of {table.name} {partition or ''}: {response}")
        if not response.is_accepted:
            # Another one is in the way.
            self.chance.choice((self.work, self.clean))()
        elif self.chance.random() < 0.85:
            self.work()
            if self.chance.random() < 0.5:
                self.clean()

    def _request(self, kind: str, table: Table, partition: str | None) -> CompactionResponse:
        more: dict[str, Any] = {}
        if kind == "rebalance":
            order = self.chance.choice(((), [SortColumn("id", self.chance.random() < 0.5)]))
            more = {"buckets": self.chance.choice((None, 1, 3)), "order_by": order}
        return self.metastore.compactor.request("default", table.name, partition, kind, **more)

    def _partitions(self, table: Table) -> Sequence[str | None]:
        return self.metastore.catalog.list_partition_names("default", table.name) if table.keys else [None]

    def _directories(self, table: Table, partition: str | None) -> int:
        """How many a table or partition has."""
        stored = self.metastore.catalog.get_table("default", table.name)
        folder = self.folder / "c1" / stored.storage.primary.location / (partition or "")
        return sum(parse_directory(path.name) is not None for path in folder.iterdir()) if folder.exists() else 0

    def work(self, how: str | None = None) -> None:
        how = how or self.chance.choice(_HOW)
        if how == "between":
            self.interrupt("work", self.chance.choice((self.statement, self.statement, self.clean, self.bury)))
        before = len(self.log)
        waiting = [each for each in self.metastore.compactor.show() if each.state is CompactionState.INITIATED]
        tables = {each.table for each in waiting}
        if any(each.type is CompactionType.REBALANCE for each in waiting):
            # It counts as a change of rows, also where its worker does not live to report it.
            self.model.commits.append({table.key for table in self.model.tables})
        # Another one, if it is in the middle of something.
        worker_id = "host-3" if self.is_between else "host-1"
        with self.as_part("work"), self.failing("work", how):
            done = self.metastore.compactor.work(worker_id)
            self.log.append(f"   {_state_of(done)}")
            self.done[f"{done.type.shown.lower()}, {done.state.shown}" if done else "nothing to do"] += 1
            if done is not None and done.state is CompactionState.FAILED and not self._is_excused:
                self._check_in_the_way(done, "\n".join(self.log[before:]))
            tables = set() if done is None or done.state is CompactionState.REFUSED else {done.table}
        self._compare(tables)

    def _check_in_the_way(self, done: Compaction, meanwhile: str) -> None:
        message = str(done.error_message)
        is_gone = any(word in meanwhile for word in (" DROP ", " RENAME TO "))
        is_locked = bool(self.model.open) or self.is_between
        is_changed = is_locked or bool(self.batches) or "in the middle" in meanwhile
        is_rebalance = done.type is CompactionType.REBALANCE
        if is_rebalance and is_changed and any(why in message for why in _CHANGING):
            return
        assert (is_locked and _LOCKED in message) or is_gone, done

    @property
    def _is_excused(self) -> bool:
        """Whether what is at work may fail: by a fault, or as it was given up for dead."""
        return self.faults.is_done or self.was_buried

    def clean(self, how: str | None = None) -> None:
        how = how or self.chance.choice(_HOW)
        if how == "between":
            self.interrupt("clean", self.chance.choice((self.statement, self.statement, self.work)))
        tables = {table.name for table in self.model.tables}
        with self.as_part("clean"), self.failing("clean", how):
            tasks = self.metastore.compactor.clean()
            self.log += [f"   {task}" for task in tasks]
            self.done.update(f"cleaning {task.outcome.value}" for task in tasks)
            self.done["directories deleted"] += sum(len(task.deleted) for task in tasks)
            assert self.faults.is_done or all(task.outcome is not CleaningOutcome.FAILED for task in tasks)
            tables = {task.table for task in tasks if task.deleted}
        self._compare(tables)

    @contextmanager
    def failing(self, what: str, how: str) -> Iterator[None]:
        """Do it with a fault of this kind at the next step without one; afterwards all is as if no fault had been."""
        kind = f"{what}, {how}"
        points = _TURNING_POINTS.get((what, how), ())
        named = self.chance.choice(points) if points and self.chance.random() < 0.5 else None
        if how in ("files", "database", "death"):
            self.faults.begin(
                self.next_steps.setdefault(kind, self.chance.randrange(_FIRST_STEPS)),
                named=named,
                lasts=self.chance.random() < 0.5,
                of_database=how == "database",
                of_deletions=True,
                dies=how == "death",
            )
        self.log.append(f"{kind}{'' if self.faults.at is None else f', {named or self.faults.at}'}")
        if not self.is_between:
            self.was_buried = False
        failed = True
        try:
            yield
            failed = self.faults.is_done
        except (Dead, HivexError) as error:
            if not self._is_excused:
                raise
            self.log.append(f"   {type(error).__name__}: {error}")
        finally:
            if self.faults.at is not None:
                self.done[f"{kind} {'hit' if self.faults.is_done else 'not reached'}"] += 1
                hit = self.faults.seen[self.faults.at] if self.faults.is_done else None
                self.log.append(f"   fault at {hit}")
                # One after the other, and again from the first one.
                if named is not None:
                    pass
                elif self.faults.is_done:
                    self.next_steps[kind] = self.faults.at + 1
                elif len(self.faults.seen) > _FEW_STEPS:
                    self.next_steps[kind] = 0
            self.faults.begin(None)
        if failed:
            self.bury()

    def bury(self) -> None:
        """Let the housekeeper come when all time-outs of the dead are over, and none of the living."""
        self.log.append("housekeeping")
        self.was_buried = True
        for each in self.metastore.transactions.show():
            if each.state is TxnState.OPEN and each.type not in _OF_WORKERS:
                self.later.transactions.heartbeat(each.id)
        self.later.housekeeper.run()

    # -- one in the middle of the other ---------------------------------------------------

    def interrupt(self, what: str, action: Callable[[], object]) -> None:
        """Do something else at one of the points that such work has come by before."""
        known = list(self.points.get(what, ()))
        if known and not self.is_between:
            self.between = self.chance.choice(known), action

    @contextmanager
    def as_part(self, what: str) -> Iterator[None]:
        before, self.doing = self.doing, what
        try:
            yield
        finally:
            self.doing = before
            if not self.is_between:
                self.between = None

    def reached(self, point: str) -> None:
        # What comes before a change is in the middle of the database's transaction.
        if threading.current_thread() is not threading.main_thread() or point.startswith(("before ", "while ")):
            return
        if not self.is_between:
            self.points.setdefault(self.doing, {})[point] = None
        if self.between is None or self.between[0] != point or self.is_between:
            return
        _, action = self.between
        self.between, self.is_between = None, True
        self.log.append(f"--- in the middle, at {point}")
        self.done[f"in the middle of {self.doing}"] += 1
        try:
            with self.faults.paused():
                action()
        finally:
            self.is_between = False
            self.log.append("--- goes on")

    def claim(self, holds: bool, otherwise: str, error: HivexError) -> None:
        # Who was interrupted may hold locks.
        super().claim(holds or self.is_between, otherwise, error)

    # -- statements -------------------------------------------------------------------------

    def _create_insert_only(self, session: str) -> None:
        keys = [new_column("k0", "string", self.most_key_values)] if self.chance.random() < 0.5 else []
        columns = [new_column("id", "int"), new_column("c0", "decimal(6,2)"), new_column("c1", "string")]
        table = Table(self.new_name("t"), columns, keys, is_insert_only=True)
        stored_as = self.chance.choice(("orc", "parquet", "json"))
        clause = f" PARTITIONED BY ({columns_sql(keys)})" if keys else ""
        self.run(
            session,
            f"CREATE TABLE {table.name} ({columns_sql(columns)}){clause} STORED AS {stored_as} "
            "TBLPROPERTIES ('transactional_properties' = 'insert_only')",
        )
        self.model.tables.append(table)

    def stream(self) -> None:
        """Write to a streaming batch, or open or close one; now and then a transaction of it is lost."""
        session = self.outside("a")
        if session is None:
            return
        if not self.batches:
            table = self.chance.choice([each for each in self.model.tables if not each.is_insert_only])
            self.log.append(f"{session} opens a batch on {table.name}")
            self.batches.append((self.sessions[session].transaction_batch(table.name, 4), table))
        batch, table = self.batches[0]
        for _ in range(self.chance.randint(1, 3)):
            if not batch.remaining or self.chance.random() < 0.1:
                self.close_batches()
                break
            self._write_to(batch, table)
        self.compare(table)

    def _write_to(self, batch: TransactionBatch, table: Table) -> None:
        columns = [table.id, *table.keys]
        texts, row = self.constants(table)
        values = {each: value for each, value in row if each in {column.key for column in columns}}
        if self.chance.random() < 0.3:
            self.metastore.transactions.abort(batch.txn_ids[0], "it was lost")
        self.log.append(f"batch writes {texts}")
        try:
            batch.write([{column.name: values.get(column.key) for column in columns}])
        except HivexError as error:
            self.log.append(f"   {type(error).__name__}: {error}")
        else:
            self.model.change("", table, [], Counter({row_of(values): 1}))

    def close_batches(self) -> None:
        while self.batches:
            self.batches.pop()[0].close()
            self.log.append("the batch is closed")

    # -- what is found ----------------------------------------------------------------------

    def _compare(self, names: Collection[str]) -> None:
        for table in self.model.tables:
            if table.name in names:
                self.compare(table)

    def finish(self) -> None:
        """End all; what is left then must be what is registered, and the same rows after major compactions."""
        self.between = None
        for name in list(self.model.open):
            self.lose(name)
        self.end_or_begin("a", name="a")
        self._insert_into(self.table(), "a")
        self.update("a")
        # It may have got no lock, or have ended with a conflict.
        if "a" in self.model.open:
            self.lose("a")
        self.close_batches()
        self._end_all()
        for table in self.model.tables:
            if not table.is_insert_only:
                self.alter("a", table, "SET TBLPROPERTIES ('hivex.row.layout' = 'hive')")
            partitions = self._partitions(table)
            is_spread = not table.buckets and not table.is_insert_only
            if partitions:
                kind = "rebalance" if is_spread and self.chance.random() < 0.3 else "major"
                self._request(kind, table, self.chance.choice(partitions))
        self._end_all()

    def _end_all(self) -> None:
        """Let workers, the housekeeper and the cleaner do all that is to be done."""
        self.later.housekeeper.run()
        while (done := self.later.compactor.work("host-2")) is not None:
            assert done.state in (CompactionState.READY_FOR_CLEANING, CompactionState.REFUSED), done
        while tasks := self.later.compactor.clean():
            assert {task.outcome for task in tasks} <= {CleaningOutcome.CLEANED}, tasks
        registered_directories.check_accounted(self.metastore, self.folder)
        left = [entry for entry in self.metastore.compactor.show() if not entry.state.is_over]
        assert not left, left
        self.hive.is_over = True
        for table in self.model.tables:
            files = self.sessions["a"].snapshot_files(table.name).files
            table.for_hive = all(each.row_layout == "hive" and not _is_of_batch(each.uri) for each in files)
            self.compare(table)


def _is_of_batch(uri: str) -> bool:
    """Whether it is a file of one of a batch's transactions, whose name Hive 2.3 cannot read."""
    directory = parse_directory(uri.split("/")[-2])
    return directory is not None and directory.is_batch


def _state_of(done: Compaction | None) -> str:
    return (
        "nothing waits" if done is None else f"{done.id} of {done.name}: {done.state.shown} {done.error_message or ''}"
    )


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    found, run = install(monkeypatch), LocalRunner.run

    def run_planned(*given: Any) -> JobResult:
        # What is to be read is known, and nothing of it is read.
        found.on_file(_PLANNED)
        return run(*given)

    monkeypatch.setattr(LocalRunner, "run", run_planned)
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_compaction_or_cleaning_is_seen(
    metastore_url: str,
    clusters: dict[str, dict[str, object]],
    tmp_path: Path,
    faults: Faults,
    seed: int,
    counts: Counts,
) -> None:
    locks = list(LOCKS)[seed % len(LOCKS)]
    settings = {**LOCKS[locks], **_SETTINGS}
    clusters = {name: {**each, "spark_conf": _WITHOUT_CODE} for name, each in clusters.items()}
    plays: list[CompactedPlay] = []

    def fault(point: str) -> None:
        faults.database(point)
        for play in plays:
            play.reached(point)

    opened = {"clusters": clusters, "default_cluster": "c1", "settings": settings}
    clock = lambda: system_clock() + HOURS_MS  # noqa: E731 - as short as the clock is
    with (
        Metastore.open(metastore_url, fault=fault, **opened) as metastore,
        Metastore.open(metastore_url, clock=clock, **opened) as later,
        ExitStack() as stack,
    ):
        play = CompactedPlay(faults, later, metastore, seed, locks, tmp_path, stack)
        plays.append(play)
        faults.on_file = play.reached
        with reporting(play, seed):
            for _ in range(STEPS):
                play.step()
            play.finish()
            assert metastore.locks.show() == []
            assert metastore.transactions.valid_txns().open_ids == ()
        counts["random compactions"] = {"steps": STEPS, **dict(sorted(play.done.items()))}
