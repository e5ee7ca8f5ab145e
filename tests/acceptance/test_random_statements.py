"""Random sequences of all statements that write, in three sessions at once, each compared with a plain model.

In every second sequence all files are of row layout ``hive``, in the others those of some tables; after each step
Hive's own classes read them, too.

``make evidence`` runs 2,000 statements; ``HIVEX_RANDOM_STATEMENTS`` sets another number. A failure prints the seed and
the statements.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore
from airflow_hivex.core.arrow import scanning
from airflow_hivex.core.errors import (
    AlreadyExistsError,
    HivexError,
    InvalidOperationError,
    LockNotAcquiredError,
    LockTimeoutError,
    MergeCardinalityError,
    NoSuchPartitionError,
    TransactionAbortedError,
    WriteConflictError,
)
from tests import evidence
from tests.acceptance import warehouse_model
from tests.acceptance.hive_reading import HiveReader
from tests.acceptance.warehouse_model import (
    KEY_VALUES,
    NESTED,
    VALUES,
    WIDER,
    Column,
    Model,
    Row,
    Rows,
    Table,
    Value,
    columns_sql,
    condition,
    new_column,
    retyped,
    row_of,
)

if TYPE_CHECKING:
    from tests.conftest import Counts

pytestmark = [
    pytest.mark.spark,
    pytest.mark.evidence,
    pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True),
]

STATEMENTS = 24
"""Of one sequence."""
_ALL = evidence.amount("HIVEX_RANDOM_STATEMENTS", share=STATEMENTS, whole=2000)
SEEDS = range(evidence.SEED, evidence.SEED + max(1, _ALL // STATEMENTS))

LOCKS: dict[str, dict[str, object]] = {
    "lockless": {"hive.acid.lockless.reads.enabled": True},
    "optimistic": {"hive.acid.lockless.reads.enabled": True, "hive.txn.xlock.write": False},
    "default": {},
}
"""Settings under which sessions are more or less in each other's way. No session waits: one thread runs them all."""

_WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a few rows, generating code takes longer than it saves; every third sequence does it nevertheless."""

SESSIONS = ("a", "b", "reader")
_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "string": pa.string(),
    "double": pa.float64(),
    "struct<a:int,b:array<int>>": pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int32()))]),
    "array<string>": pa.list_(pa.string()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
}
_LAYOUTS = ("flat", "hive")


def _as_arrow(value: Any, type: str) -> Any:
    """A value as pyarrow takes it. A struct of pairs it takes now for its fields' names and values, now for values."""
    return dict(value) if value is not None and type.startswith("struct") else value


class Play:
    """Tables, the sessions that work with them, and what the model knows of them."""

    sorts_buckets = True
    most_key_values: int | None = None

    def __init__(
        self,
        metastore: Metastore,
        seed: int,
        locks: str,
        folder: Path,
        stack: ExitStack,
        layouts: Sequence[str] = _LAYOUTS,
    ) -> None:
        self.chance = random.Random(seed)
        self.metastore = metastore
        self.locks = locks
        self.folder = folder
        self.stack = stack
        self.layouts = layouts
        self.hive = HiveReader(metastore, folder / "shown to hive")
        self.sessions = {name: stack.enter_context(metastore.session(user=name)) for name in SESSIONS}
        self.model = Model()
        self.log: list[str] = []
        self.names = 0
        self.views: dict[str, tuple[Table, list[Column], warehouse_model.Condition]] = {}
        for _ in range(2):
            self.create_table("a")

    # -- running and comparing ---------------------------------------------------------

    def run(self, session: str, sql: str, *tables: Table, may_fail: Sequence[type[HivexError]] = ()) -> bool:
        """Run a statement; False if it was refused as documented, and then nothing of it may be seen."""
        self.log.append(f"{session}: {sql}")
        transaction = self.model.open.get(session)
        error = self.attempt(session, sql)
        if error is None:
            return True
        if isinstance(error, (LockTimeoutError, LockNotAcquiredError)):
            others = [name for name in self.model.open if name != session]
            self.claim(bool(others), "no other session holds a lock", error)
        elif isinstance(error, WriteConflictError):
            self.claim(transaction is not None, "a statement of its own has no other to conflict with", error)
            self.claim(self.model.others_wrote_since(session, self.model.tables), "no other session has written", error)
            if self.sessions[session].txn_id is not None:
                self.sessions[session].sql("ROLLBACK")
            self.model.roll_back(session)
        elif isinstance(error, InvalidOperationError):
            overwrote = set() if transaction is None else transaction.overwrote
            self.claim(bool({table.key for table in tables} & overwrote), "nothing was overwritten before", error)
        else:
            self.claim(isinstance(error, tuple(may_fail)), "it should have worked", error)
        return False

    def attempt(self, session: str, sql: str) -> HivexError | None:
        """The error that a statement ends with, if it does."""
        try:
            self.sessions[session].sql(sql)
        except HivexError as error:
            self.log.append(f"   {type(error).__name__}: {error}")
            return error
        return None

    def claim(self, holds: bool, otherwise: str, error: HivexError) -> None:
        if not holds:
            raise AssertionError(otherwise) from error

    def compare(self, table: Table) -> None:
        # All that are in no transaction see the same.
        alone = [name for name in SESSIONS if name not in self.model.open]
        committed_was_read = False
        for name in (*self.model.open, *self.chance.sample(alone, min(1, len(alone)))):
            found = self.read(name, f"SELECT * FROM {table.name}")
            if found is not None:
                expected = table.shown(self.model.rows(name, table))
                self.same(f"{name} reads {table.name}", found, expected)
                if not self.is_for_spark_alone(table):
                    own = self.read_without_spark(name, table)
                    self.same(f"{name} reads {table.name} without Spark", own, expected)
                if table.for_hive:
                    planned = self.sessions[name].snapshot_files(table.name)
                    self.hive.compare(table, self.model.rows(name, table), planned)
                committed_was_read = committed_was_read or name in alone
        if table.for_hive and not committed_was_read:
            self.hive.compare(table, self.model.committed.get(table.key, Counter()))

    def read(self, session: str, sql: str) -> Counter[tuple[Value, ...]] | None:
        try:
            rows = self.sessions[session].sql(sql).rows
        except (LockTimeoutError, LockNotAcquiredError):
            assert self.locks == "default", "a reader has waited for a lock"
            return None
        return Counter(warehouse_model.frozen(row) for row in rows)

    def is_for_spark_alone(self, table: Table) -> bool:
        stored = self.metastore.catalog.get_table("default", table.name)
        return stored.storage.format not in ("orc", "parquet")

    def read_without_spark(self, session: str, table: Table) -> Counter[tuple[Value, ...]]:
        found = self.sessions[session].to_arrow(table.name)
        columns = [map(warehouse_model.frozen, column.to_pylist()) for column in found.columns]
        return Counter(zip(*columns, strict=True))

    def same(self, what: str, found: Counter[tuple[Value, ...]], expected: Counter[tuple[Value, ...]]) -> None:
        assert found == expected, f"{what}\n  too many: {found - expected}\n  missing: {expected - found}"

    def step(self) -> None:
        session = self.chance.choice("ab")
        table = self.chance.choice(self.choices())(session)
        if table is not None:
            self.compare(table)

    def choices(self) -> list[Callable[[str], Table | None]]:
        """What may come next, some of it several times."""
        choices: list[Callable[[str], Table | None]] = [self.insert] * 4 + [self.update, self.delete, self.merge] * 3
        choices += [self.overwrite, self.overwrite, self.truncate, self.load, self.multi_insert, self.multi_insert]
        choices += [self.insert_from_table] * 2 + [self.end_or_begin] * 5
        if not self.model.open or self.chance.random() < 0.3:
            choices += [self.add_column, self.drop_column, self.rename_column, self.replace_columns, self.widen]
            choices += [self.move_column, self.rename_table, self.create_as_select, self.view, self.change_layout]
            choices += [self.add_partition, self.drop_partition, self.rename_partition]
        return choices

    # -- parts of statements -----------------------------------------------------------

    def table(self) -> Table:
        return self.chance.choice(self.model.tables)

    def full_acid_table(self) -> Table:
        """One whose rows can be changed, and its columns in every way."""
        return self.chance.choice([table for table in self.model.tables if not table.is_insert_only])

    def new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constants(self, table: Table) -> tuple[dict[int, str], Row]:
        """The values of one row as SQL, by column, and the row."""
        texts: dict[int, str] = {}
        values: dict[int, Value] = {}
        for column in table.all_columns:
            if column.name == "id":
                number = None if self.chance.random() < 0.1 else self.chance.randrange(12)
                texts[column.key], values[column.key] = "NULL" if number is None else str(number), number
            else:
                texts[column.key], values[column.key] = column.constant(self.chance, is_key=column in table.keys)
        return texts, row_of(values)

    def partition(self, table: Table) -> tuple[str, dict[int, Value]]:
        """A PARTITION clause with all keys, some of the first ones, or none; the values that it gives."""
        number = self.chance.randint(0, len(table.keys))
        if not number:
            return "", {}
        parts, values = [], {}
        for position, key in enumerate(table.keys):
            if position >= number:
                parts.append(f"`{key.name}`")
                continue
            text, values[key.key] = key.constant(self.chance, is_key=True, nulls=False)
            parts.append(f"`{key.name}` = {text}")
        return f" PARTITION ({', '.join(parts)})", values

    def source(self, table: Table, columns: Sequence[Column], fixed: dict[int, Value], most: int) -> tuple[str, Rows]:
        """A query for some rows of constants; as VALUES alone it runs without Spark."""
        lines, rows = [], Counter[Row]()
        for _ in range(self.chance.randint(1, most)):
            texts, row = self.constants(table)
            lines.append(f"({', '.join(texts[column.key] for column in columns)})")
            kept = {key: value for key, value in row if key in {column.key for column in columns}}
            rows[row_of({**kept, **fixed})] += 1
        values = f"VALUES {', '.join(lines)}"
        return (values if self.chance.random() < 0.5 else f"SELECT * FROM {values}"), rows

    def mapped(self, target: Table, source: Table, fixed: dict[int, Value]) -> tuple[str, Callable[[Row], Row]]:
        """What a SELECT from ``source`` (s) gives to the columns of ``target`` that ``fixed`` has not."""
        texts: list[str] = []
        takes: list[tuple[int, int]] = []
        given: dict[int, Value] = dict(fixed)
        for column in target.all_columns:
            if column.key in fixed:
                continue
            alike = [each for each in source.all_columns if each.type == column.type and column not in target.keys]
            if column.name == "id":
                texts.append("s.id")
                takes.append((column.key, source.id.key))
            elif alike and self.chance.random() < 0.7:
                chosen = self.chance.choice(alike)
                texts.append(f"s.`{chosen.name}`")
                takes.append((column.key, chosen.key))
            else:
                text, given[column.key] = column.constant(self.chance, is_key=column in target.keys)
                texts.append(text)

        def take(row: Row) -> Row:
            values = dict(row)
            return row_of({**given, **{key: values.get(source_key) for key, source_key in takes}})

        return ", ".join(texts), take

    def hides(self, table: Table, rows: Rows, fixed: dict[int, Value], session: str) -> list[Row]:
        """The rows that an INSERT OVERWRITE of ``rows`` takes away."""
        there = self.model.rows(session, table)
        if not table.keys:
            return list(there)
        if len(fixed) == len(table.keys):
            return [row for row in there if all(dict(row).get(key) == value for key, value in fixed.items())]
        gone = {table.partition(row) for row in rows}
        return [row for row in there if table.partition(row) in gone]

    def note_overwrite(self, session: str, table: Table) -> None:
        transaction = self.model.open.get(session)
        if transaction is not None:
            transaction.overwrote.add(table.key)

    # -- statements that write rows ----------------------------------------------------

    def insert(self, session: str) -> Table:
        table = self.table()
        if self.chance.random() < 0.3:
            columns = [column for column in table.all_columns if column in table.keys or self.chance.random() < 0.6]
            columns = columns or [table.id]
            self.chance.shuffle(columns)
            query, rows = self.source(table, columns, {}, 4)
            names = ", ".join(f"`{column.name}`" for column in columns)
            done = self.run(session, f"INSERT INTO {table.name} ({names}) {query}", table)
        else:
            clause, fixed = self.partition(table)
            columns = [column for column in table.all_columns if column.key not in fixed]
            query, rows = self.source(table, columns, fixed, 6)
            done = self.run(session, f"INSERT INTO {table.name}{clause} {query}", table)
        if done:
            self.model.change(session, table, [], rows)
        return table

    def overwrite(self, session: str) -> Table:
        table = self.table()
        clause, fixed = self.partition(table)
        columns = [column for column in table.all_columns if column.key not in fixed]
        query, rows = self.source(table, columns, fixed, 3)
        if self.chance.random() < 0.2:
            query, rows = f"SELECT * FROM ({query}) WHERE 1 = 0", Counter()
        if self.run(session, f"INSERT OVERWRITE {table.name}{clause} {query}", table):
            self.model.change(session, table, self.hides(table, rows, fixed, session), rows)
            self.note_overwrite(session, table)
        return table

    def insert_from_table(self, session: str) -> Table:
        table, source = self.table(), self.table()
        overwrite = self.chance.random() < 0.4
        clause, fixed = self.partition(table)
        texts, take = self.mapped(table, source, fixed)
        asked = condition(source, self.chance)
        word = "OVERWRITE" if overwrite else "INTO"
        rows: Rows = Counter()
        for row, number in self.model.rows(session, source).items():
            if asked.holds(row):
                rows[take(row)] += number
        sql = f"INSERT {word} {table.name}{clause} SELECT {texts} FROM {source.name} AS s WHERE {asked.named('s.')}"
        if self.run(session, sql, table):
            self.model.change(session, table, self.hides(table, rows, fixed, session) if overwrite else [], rows)
            if overwrite:
                self.note_overwrite(session, table)
        return table

    def multi_insert(self, session: str) -> Table | None:
        targets = self.chance.sample(self.model.tables, 2)
        source = self.table()
        first = condition(source, self.chance)
        sql = f"FROM (SELECT * FROM {source.name} AS t WHERE {first.named('t.')}) s"
        there = [(row, number) for row, number in self.model.rows(session, source).items() if first.holds(row)]
        done = []
        for table in targets:
            overwrite = self.chance.random() < 0.3
            clause, fixed = self.partition(table)
            texts, take = self.mapped(table, source, fixed)
            asked = condition(source, self.chance, 0)
            rows: Rows = Counter()
            for row, number in there:
                if asked.holds(row):
                    rows[take(row)] += number
            word = "OVERWRITE TABLE" if overwrite else "INTO"
            sql += f" INSERT {word} {table.name}{clause} SELECT {texts} WHERE {asked.named('s.')}"
            done.append((table, self.hides(table, rows, fixed, session) if overwrite else [], rows, overwrite))
        if self.run(session, sql, *targets):
            for table, gone, rows, overwrite in done:
                self.model.change(session, table, gone, rows)
                if overwrite:
                    self.note_overwrite(session, table)
        self.compare(targets[0])
        return targets[1]

    def assignments(self, table: Table, qualifier: str) -> tuple[str, dict[int, Value]]:
        """What SET makes of some columns: constants, so that the model can, too."""
        columns = [column for column in table.columns if column.name != "id"]
        chosen = self.chance.sample(columns, self.chance.randint(1, len(columns))) if columns else []
        texts, values = [], {}
        for column in chosen:
            text, values[column.key] = column.constant(self.chance)
            texts.append(f"{qualifier}`{column.name}` = {text}")
        return ", ".join(texts), values

    def update(self, session: str) -> Table:
        table = self.full_acid_table()
        asked = condition(table, self.chance)
        texts, values = self.assignments(table, "")
        increase = not table.buckets and (not texts or self.chance.random() < 0.3)
        if increase:
            texts = ", ".join(filter(None, (texts, "id = id + 1")))
        if not texts:
            return table
        rows = self.model.rows(session, table)
        changed = {row: number for row, number in rows.items() if asked.holds(row)}
        added: Rows = Counter()
        for row, number in changed.items():
            new = dict(row) | values
            if increase and new.get(table.id.key) is not None:
                new[table.id.key] += 1
            added[row_of(new)] += number
        if self.run(session, f"UPDATE {table.name} SET {texts} WHERE {asked.named('')}", table):
            self.model.change(session, table, changed, added)
        return table

    def delete(self, session: str) -> Table:
        table = self.full_acid_table()
        asked = condition(table, self.chance)
        gone = [row for row in self.model.rows(session, table) if asked.holds(row)]
        if self.run(session, f"DELETE FROM {table.name} AS t WHERE {asked.named('t.')}", table):
            self.model.change(session, table, gone, Counter())
        return table

    def merge(self, session: str) -> Table:
        table = self.full_acid_table()
        ids = self.chance.sample(range(16), self.chance.randint(1, 6))
        twice = self.chance.random() < 0.1
        several = [*ids, ids[0]] if twice else ids
        source = " UNION ALL ".join(f"SELECT {each} AS id" for each in several)
        sql = f"MERGE INTO {table.name} AS t USING ({source}) s ON t.id = s.id"
        rules: dict[str, list[tuple[Callable[[Row], bool | None], Callable[[Row], Row | None]]]] = {
            "": [],
            " BY SOURCE": [],
        }
        for by in ("", " BY SOURCE"):
            for _ in range(self.chance.choice((0, 1, 2) if not by else (0, 0, 1))):
                asked = condition(table, self.chance, 0)
                words = "WHEN NOT MATCHED BY SOURCE" if by else "WHEN MATCHED"
                texts, values = self.assignments(table, "t." if self.chance.random() < 0.5 else "")
                if not texts or self.chance.random() < 0.5:
                    sql += f" {words} AND {asked.named('t.')} THEN DELETE"
                    rules[by].append((asked.holds, lambda _row: None))
                else:
                    sql += f" {words} AND {asked.named('t.')} THEN UPDATE SET {texts}"
                    rules[by].append((asked.holds, lambda row, values=values: warehouse_model.changed(row, values)))
        new: Rows = Counter()
        inserts = self.chance.random() < 0.7 or " WHEN " not in sql
        rows = self.model.rows(session, table)
        there = {dict(row).get(table.id.key) for row in rows}
        if inserts:
            limit = self.chance.randrange(16)
            texts_by, row = self.constants(table)
            others = [column for column in table.all_columns if column.name != "id"]
            names = ", ".join(f"`{column.name}`" for column in (table.id, *others))
            values_sql = ", ".join(["s.id", *(texts_by[column.key] for column in others)])
            sql += f" WHEN NOT MATCHED AND s.id <> {limit} THEN INSERT ({names}) VALUES ({values_sql})"
            for each in several:
                if each not in there and each != limit:
                    new[warehouse_model.changed(row, {table.id.key: each})] += 1
        changed: list[Row] = []
        for row, number in rows.items():
            by = "" if dict(row).get(table.id.key) in ids else " BY SOURCE"
            for holds, action in rules[by]:
                if holds(row):
                    changed.append(row)
                    made = action(row)
                    if made is not None:
                        new[made] += number
                    break
        several_match = twice and bool(rules[""]) and ids[0] in there
        done = self.run(session, sql, table, may_fail=[MergeCardinalityError] if several_match else [])
        if done:
            assert not several_match, "two rows of the source match one"
            self.model.change(session, table, changed, new)
        return table

    def truncate(self, session: str) -> Table:
        table = self.table()
        clause, fixed = "", {}
        if table.keys and self.chance.random() < 0.6:
            key = self.chance.choice(table.keys)
            text, value = key.constant(self.chance, is_key=True, nulls=False)
            clause, fixed = f" PARTITION (`{key.name}` = {text})", {key.key: value}
        gone = [
            row
            for row in self.model.rows(session, table)
            if all(dict(row).get(key) == value for key, value in fixed.items())
        ]
        may_fail = [NoSuchPartitionError] if fixed and not gone else []
        if self.run(session, f"TRUNCATE TABLE {table.name}{clause}", table, may_fail=may_fail):
            self.model.change(session, table, gone, Counter())
            self.note_overwrite(session, table)
        return table

    def load(self, session: str) -> Table | None:
        """LOAD DATA of a file that pyarrow has written."""
        table = self.full_acid_table()
        if any(column.type not in _ARROW for column in table.columns) or table.keys:
            return None
        rows = [self.constants(table)[1] for _ in range(3)]
        arrays = {
            column.name: pa.array(
                [_as_arrow(dict(row).get(column.key), column.type) for row in rows], _ARROW[column.type]
            )
            for column in table.columns
        }
        folder = self.folder / "c1" / self.new_name("load ü%")
        folder.mkdir(parents=True)
        orc.write_table(pa.table(arrays), str(folder / "file.orc"))
        overwrite = self.chance.random() < 0.4
        word = "OVERWRITE INTO" if overwrite else "INTO"
        if self.run(session, f"LOAD DATA INPATH '{folder}' {word} TABLE {table.name}", table):
            self.model.change(session, table, self.model.rows(session, table) if overwrite else [], Counter(rows))
            if overwrite:
                self.note_overwrite(session, table)
            assert (folder / "file.orc").exists() == (session in self.model.open)
        return table

    # -- transactions ------------------------------------------------------------------

    def end_or_begin(self, session: str, name: str | None = None) -> Table:
        name = name or self.chance.choice((session, session, session, "reader"))
        if name not in self.model.open:
            read_only = name == "reader"
            self.run(name, f"START TRANSACTION{' READ ONLY' if read_only else ''}")
            self.model.begin(name, read_only=read_only)
            # The first statement takes the snapshot.
            for table in self.first_read():
                if self.read(name, f"SELECT * FROM {table.name}") is None:
                    self.sessions[name].sql("ROLLBACK")
                    self.log.append(f"{name}: ROLLBACK")
                    self.model.roll_back(name)
                    break
        elif self.chance.random() < 0.6:
            if self.run(name, "COMMIT"):
                lost = self.model.commit(name)
                assert lost is None, lost
        elif self.chance.random() < 0.5:
            self.lose(name)
        elif self.chance.random() < 0.5:
            self.abort(name)
        else:
            self.run(name, "ROLLBACK")
            self.model.roll_back(name)
        self.compare(self.model.tables[0])
        return self.model.tables[1]

    def first_read(self) -> Sequence[Table]:
        """The tables that a transaction reads at once."""
        return self.model.tables

    def abort(self, name: str) -> None:
        """End a transaction by a statement of another session, if one may."""
        session, other = self.sessions[name], self.outside(name)
        if other is None:
            return
        assert self.run(other, f"ABORT TRANSACTIONS {session.txn_id}")
        error = self.attempt(name, f"SELECT * FROM {self.model.tables[0].name}")
        assert isinstance(error, TransactionAbortedError), error
        self.run(name, "ROLLBACK")
        self.model.roll_back(name)

    def lose(self, name: str) -> None:
        """End a transaction as if its process were dead: its files stay until the housekeeper comes."""
        self.log.append(f"{name} is lost")
        txn_id = self.sessions[name].txn_id
        assert txn_id is not None
        self.metastore.transactions.abort(txn_id, "it was lost")
        self.sessions[name] = self.stack.enter_context(self.metastore.session(user=name))
        self.model.roll_back(name)

    def finish(self) -> None:
        """Lose all transactions, and at last one that has written; others go on, and then the housekeeper comes."""
        for name in list(self.model.open):
            self.lose(name)
        self.end_or_begin("a", name="a")
        for write in (self.insert, self.update, self.delete, self.overwrite):
            self.compare(write("a"))
        # It may have got no lock, or have ended with a conflict.
        if "a" in self.model.open:
            self.lose("a")
        self.compare(self.insert("b"))
        for table in self.model.tables:
            self.compare(table)
        self.metastore.housekeeper.run()
        for table in self.model.tables:
            self.compare(table)

    # -- definitions -------------------------------------------------------------------

    def create_table(self, session: str) -> Table:
        kinds = [([], 0), (["string"], 0), (["string", "int"], 0), (["date", "string"], 0), ([], 3), (["string"], 2)]
        key_types, buckets = self.chance.choice(kinds)
        types = self.chance.sample(list(VALUES), self.chance.randint(0, 3))
        types.insert(self.chance.randint(0, len(types)), self.chance.choice(NESTED))
        columns = [new_column(f"c{number}", each) for number, each in enumerate(types)]
        columns.insert(self.chance.randint(0, len(columns)), new_column("id", "int"))
        keys = [new_column(f"k{number}", each, self.most_key_values) for number, each in enumerate(key_types)]
        table = Table(self.new_name("t"), columns, keys, buckets)
        sql = f"CREATE TABLE {table.name} ({columns_sql(columns)})"
        sql += f" PARTITIONED BY ({columns_sql(keys)})" if keys else ""
        ordered = " SORTED BY (id)" if self.sorts_buckets else ""
        sql += f" CLUSTERED BY (id){ordered} INTO {buckets} BUCKETS" if buckets else ""
        table.for_hive = self.chance.choice(self.layouts) == "hive"
        sql += " TBLPROPERTIES ('hivex.row.layout' = 'hive')" if table.for_hive else ""
        self.run(session, sql)
        self.model.tables.append(table)
        return table

    def outside(self, session: str) -> str | None:
        """A session that is in no transaction, as definitions are refused in one."""
        return next((name for name in (session, *"ab") if name not in self.model.open), None)

    def alter(self, session: str, table: Table, sql: str) -> bool:
        name = self.outside(session)
        return name is not None and self.run(name, f"ALTER TABLE {table.name} {sql}")

    def add_column(self, session: str) -> Table:
        table = self.full_acid_table()
        # Now and then one with the name of a column that was dropped.
        name = self.chance.choice(("c0", "c1", self.new_name("n")))
        column = new_column(name, self.chance.choice(list(VALUES)))
        free = all(each.name != name for each in table.all_columns)
        if free and len(table.columns) < 6 and self.alter(session, table, f"ADD COLUMNS ({columns_sql([column])})"):
            table.columns.append(column)
        return table

    def others_of(self, table: Table) -> list[Column]:
        return [column for column in table.columns if column.name != "id"]

    def drop_column(self, session: str) -> Table:
        table = self.full_acid_table()
        others = self.others_of(table)
        if len(others) > 1:
            gone = self.chance.choice(others)
            if self.alter(session, table, f"DROP COLUMN `{gone.name}`"):
                table.columns.remove(gone)
        return table

    def rename_column(self, session: str) -> Table:
        table = self.full_acid_table()
        others = self.others_of(table)
        if others:
            old = self.chance.choice(others)
            name = self.chance.choice(("c0", "c1", "c2", self.new_name("r")))
            if all(each.name != name for each in table.all_columns) and self.alter(
                session, table, f"RENAME COLUMN `{old.name}` TO `{name}`"
            ):
                table.columns[table.columns.index(old)] = Column(old.key, name, old.type)
        return table

    def replace_columns(self, session: str) -> Table:
        table = self.full_acid_table()
        kept = [column for column in table.columns if column.name == "id" or self.chance.random() < 0.6]
        self.chance.shuffle(kept)
        new = new_column(self.new_name("p"), self.chance.choice(list(VALUES)))
        if self.alter(session, table, f"REPLACE COLUMNS ({columns_sql([*kept, new])})"):
            table.columns[:] = [*kept, new]
        return table

    def widen(self, session: str) -> Table:
        table = self.full_acid_table()
        narrow = [column for column in table.columns if column.type in WIDER]
        if narrow:
            column = self.chance.choice(narrow)
            wide = retyped(column, self.chance.choice(WIDER[column.type]))
            if self.alter(session, table, f"CHANGE COLUMN `{column.name}` `{column.name}` {wide.type}"):
                table.columns[table.columns.index(column)] = wide
        return table

    def move_column(self, session: str) -> Table:
        table = self.full_acid_table()
        column, other = self.chance.choice(table.columns), self.chance.choice(table.columns)
        where = "FIRST" if column is other else f"AFTER `{other.name}`"
        if self.alter(session, table, f"ALTER COLUMN `{column.name}` {where}"):
            table.columns.remove(column)
            table.columns.insert(0 if column is other else table.columns.index(other) + 1, column)
        return table

    def change_layout(self, session: str) -> Table:
        table = self.full_acid_table()
        layout = self.chance.choice(self.layouts)
        if self.alter(session, table, f"SET TBLPROPERTIES ('hivex.row.layout' = '{layout}')"):
            table.for_hive = table.for_hive and layout == "hive"
        return table

    def rename_table(self, session: str) -> Table:
        table = self.table()
        name = self.new_name("t")
        if self.alter(session, table, f"RENAME TO {name}"):
            table.name = name
            self.views = {view: found for view, found in self.views.items() if found[0] is not table}
        return table

    def create_as_select(self, session: str) -> Table | None:
        source = self.table()
        name = self.outside(session)
        if name is None:
            return None
        asked = condition(source, self.chance)
        key = self.chance.choice(
            [None, *(column for column in source.all_columns if column.type in ("string", "date"))]
        )
        columns = [column for column in source.all_columns if column is not key]
        texts = ", ".join(f"`{column.name}`" for column in (*columns, *([key] if key else [])))
        new = Table(self.new_name("t"), columns, [key] if key else [])
        clause = f" PARTITIONED BY (`{key.name}`)" if key else ""
        sql = f"CREATE TABLE {new.name}{clause} AS SELECT {texts} FROM {source.name} WHERE {asked.named('')}"
        if self.run(name, sql):
            rows = Counter[Row]()
            for row, number in self.model.rows(name, source).items():
                if asked.holds(row):
                    values = {each: value for each, value in row if key is None or each != key.key or value != ""}
                    rows[row_of(values)] += number
            found = self.read(name, f"SELECT * FROM {new.name}")
            assert found is not None
            self.same(new.name, found, new.shown(rows))
            assert self.run(name, f"DROP TABLE {new.name}")
        return None

    def view(self, session: str) -> Table | None:
        table, name = self.table(), self.outside(session)
        if name is None:
            return None
        asked = condition(table, self.chance)
        view = self.new_name("v")
        texts = ", ".join(f"`{column.name}`" for column in table.all_columns)
        if self.run(name, f"CREATE VIEW {view} AS SELECT {texts} FROM {table.name} WHERE {asked.named('')}"):
            for session_name in SESSIONS:
                rows = Counter({r: n for r, n in self.model.rows(session_name, table).items() if asked.holds(r)})
                found = self.read(session_name, f"SELECT * FROM {view}")
                if found is not None:
                    self.same(f"{session_name} reads {view}", found, table.shown(rows))
        return table

    # -- partitions --------------------------------------------------------------------

    def whole_partition(self, table: Table) -> tuple[str, tuple[Value, ...]]:
        found = [key.constant(self.chance, is_key=True, nulls=False) for key in table.keys]
        parts = (f"`{key.name}` = {text}" for key, (text, _) in zip(table.keys, found, strict=True))
        return f"PARTITION ({', '.join(parts)})", tuple(value for _, value in found)

    def a_partition(self, table: Table) -> tuple[str, tuple[Value, ...]]:
        """One that has rows, if there is one."""
        there = [part for part in map(table.partition, self.model.committed.get(table.key, ())) if None not in part]
        if not there:
            return self.whole_partition(table)
        values = self.chance.choice(sorted(there, key=str))
        texts = [
            next(text for text, each in KEY_VALUES[key.type] if each == value)
            for key, value in zip(table.keys, values, strict=True)
        ]
        return f"PARTITION ({', '.join(f'`{k.name}` = {t}' for k, t in zip(table.keys, texts, strict=True))})", values

    def add_partition(self, session: str) -> Table | None:
        table = self.full_acid_table()
        if not table.keys:
            return None
        self.alter(session, table, f"ADD IF NOT EXISTS {self.whole_partition(table)[0]}")
        return table

    def drop_partition(self, session: str) -> Table | None:
        table = self.full_acid_table()
        if not table.keys or self.model.open:
            # Its files go at once, also from under those who have not locked them.
            return None
        clause, values = self.a_partition(table)
        if self.alter(session, table, f"DROP IF EXISTS {clause}"):
            gone = [row for row in self.model.rows("", table) if table.partition(row) == values]
            self.model.change("", table, gone, Counter())
        return table

    def rename_partition(self, session: str) -> Table | None:
        table = self.full_acid_table()
        if not table.keys or self.model.open:
            return None
        (old, before), (new, after) = self.a_partition(table), self.whole_partition(table)
        there = set(map(table.partition, self.model.rows("", table)))
        name = self.outside(session)
        assert name is not None
        # Partitions may be there without rows.
        may_fail = [AlreadyExistsError, *([] if before in there else [NoSuchPartitionError])]
        if self.run(name, f"ALTER TABLE {table.name} {old} RENAME TO {new}", may_fail=may_fail):
            moved = {
                row: number for row, number in self.model.rows("", table).items() if table.partition(row) == before
            }
            keys = {key.key: value for key, value in zip(table.keys, after, strict=True)}
            added = Counter({warehouse_model.changed(row, keys): number for row, number in moved.items()})
            self.model.change("", table, moved, added)
        return table


@contextmanager
def reporting(sequence: Play, seed: int) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}, locks {sequence.locks}:\n" + "\n".join(sequence.log))
        raise


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_statement_does_what_the_model_does(
    metastore_url: str,
    clusters: dict[str, dict[str, object]],
    tmp_path: Path,
    seed: int,
    counts: Counts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if seed % 4 > 1:
        # Reads without Spark are of a column at a time.
        monkeypatch.setattr(scanning, "VALUES", 1)
    locks = list(LOCKS)[seed // 2 % len(LOCKS)]
    settings = {**LOCKS[locks], "hive.lock.numretries": 0}
    if seed % 3:
        clusters = {name: {**each, "spark_conf": _WITHOUT_CODE} for name, each in clusters.items()}
    with (
        Metastore.open(metastore_url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        ExitStack() as stack,
    ):
        sequence = Play(metastore, seed, locks, tmp_path, stack, _LAYOUTS if seed % 2 else ("hive",))
        with reporting(sequence, seed):
            for _ in range(STATEMENTS):
                sequence.step()
            sequence.finish()
            counts["random statements"] = {"statements": len(sequence.log), **sequence.hive.counted()}
            assert metastore.locks.show() == []
            assert metastore.transactions.valid_txns().open_ids == ()
            assert not list(tmp_path.rglob("_staging*"))
