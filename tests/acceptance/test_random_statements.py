"""Random sequences of all statements that write rows, each compared with a plain model of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from airflow_hivex.core import Metastore, Session

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

STATEMENTS = 12
TABLES = {
    "flat": "",
    "partitioned": "PARTITIONED BY (p string)",
    "bucketed": "PARTITIONED BY (p string) CLUSTERED BY (id) SORTED BY (v) INTO 3 BUCKETS",
}
PARTITIONS = ("a", "b/c=d %", "ü", None)


@dataclass(frozen=True)
class Row:
    """``n`` is a struct with an array in it, or nothing."""

    id: int
    v: str | None
    n: int | None
    p: str | None


Rows = Counter[Row]


@dataclass(frozen=True)
class Condition:
    """The same question to Spark and to the model."""

    sql: str
    holds: Callable[[Row], bool]


class Sequence:
    """One table, one session that writes, one that reads an old snapshot; the model beside them."""

    def __init__(self, metastore: Metastore, seed: int, kind: str) -> None:
        self.random = random.Random(seed)
        self.writer = metastore.session()
        self.reader = metastore.session()
        self.committed: Rows = Counter()
        self.own: Rows | None = None
        self.snapshot: Rows | None = None
        self.log: list[str] = []
        columns = "id int, v string, n struct<a:int,b:array<int>>"
        self.run(f"CREATE TABLE t ({columns}{'' if kind != 'flat' else ', p string'}) {TABLES[kind]}")

    @property
    def now(self) -> Rows:
        return self.committed if self.own is None else self.own

    def change(self, rows: Rows) -> None:
        rows = +rows
        if self.own is None:
            self.committed = rows
        else:
            self.own = rows

    def run(self, sql: str) -> None:
        self.log.append(sql)
        self.writer.sql(sql)

    # -- statements ------------------------------------------------------------------

    def step(self) -> None:
        choices = [self.insert] * 3 + [self.update, self.delete, self.merge] * 2 + [self.overwrite, self.truncate]
        choices += [self.begin] if self.own is None else [self.commit, self.roll_back]
        choices += [self.begin_snapshot] if self.snapshot is None else [self.end_snapshot]
        self.random.choice(choices)()

    def row(self) -> Row:
        value = self.random.choice([None, "", "x", "yé", "z" * 40])
        return Row(self.random.randrange(12), value, self.random.choice([None, 1, 2]), self.random.choice(PARTITIONS))

    def insert(self) -> None:
        rows = [self.row() for _ in range(self.random.randint(1, 6))]
        self.run(f"INSERT INTO t {query(rows)}")
        self.change(self.now + Counter(rows))

    def overwrite(self) -> None:
        if self.own is not None:
            # What comes after it in one transaction is refused.
            return
        rows = [self.row() for _ in range(self.random.randint(1, 3))]
        self.run(f"INSERT OVERWRITE t {query(rows)}")
        partitioned = self.writer.sql("SHOW CREATE TABLE t").rows[0][0]
        gone = {row.p for row in rows} if "PARTITIONED" in str(partitioned) else None
        kept = Counter({row: n for row, n in self.now.items() if gone is not None and row.p not in gone})
        self.change(kept + Counter(rows))

    def truncate(self) -> None:
        if self.own is None and self.random.random() < 0.5:
            self.run("TRUNCATE TABLE t")
            self.change(Counter())

    def condition(self, prefix: str = "") -> Condition:
        number = self.random.randrange(2, 5)
        partition = self.random.choice(PARTITIONS)
        return self.random.choice(
            [
                Condition(f"{prefix}id % {number} = 0", lambda row: row.id % number == 0),
                Condition(f"{prefix}v IS NULL", lambda row: row.v is None),
                Condition(f"{prefix}n.b[1] = 1", lambda row: row.n == 1),
                Condition(f"{prefix}p <=> {literal(partition)}", lambda row: row.p == partition),
                Condition(
                    f"{prefix}p = {literal(partition)} AND {prefix}id < 6",
                    lambda row: partition is not None and row.p == partition and row.id < 6,
                ),
            ]
        )

    def delete(self) -> None:
        condition = self.condition()
        self.run(f"DELETE FROM t WHERE {condition.sql}")
        self.change(Counter({row: n for row, n in self.now.items() if not condition.holds(row)}))

    def update(self) -> None:
        condition = self.condition("u.")
        self.run(f"UPDATE t AS u SET v = concat(coalesce(u.v, ''), '!'), n = NULL WHERE {condition.sql}")
        changed: Rows = Counter()
        for row, count in self.now.items():
            changed[replace(row, v=f"{row.v or ''}!", n=None) if condition.holds(row) else row] += count
        self.change(changed)

    def merge(self) -> None:
        ids = self.random.sample(range(16), self.random.randint(1, 6))
        gone = self.random.choice(ids)
        partition = self.random.choice(PARTITIONS)
        source = " UNION ALL ".join(f"SELECT {i} AS id, 's{i}' AS v" for i in ids)
        rest = self.random.random() < 0.3
        self.run(
            f"MERGE INTO t USING ({source}) s ON t.id = s.id WHEN MATCHED AND s.id = {gone} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED AND s.id <> {gone} "
            f"THEN INSERT (v, id, p) VALUES (s.v, s.id, {literal(partition)})"
            + (" WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN DELETE" if rest else "")
        )
        there = {row.id for row in self.now}
        merged: Rows = Counter()
        for row, count in self.now.items():
            if row.id in ids:
                if row.id != gone:
                    merged[replace(row, v=f"s{row.id}")] += count
            elif not (rest and row.id < 3):
                merged[row] += count
        merged.update(Row(i, f"s{i}", None, partition) for i in ids if i not in there and i != gone)
        self.change(merged)

    def begin(self) -> None:
        self.run("START TRANSACTION")
        self.own = Counter(self.committed)

    def commit(self) -> None:
        self.run("COMMIT")
        assert self.own is not None
        self.committed, self.own = self.own, None

    def roll_back(self) -> None:
        self.run("ROLLBACK")
        self.own = None

    def begin_snapshot(self) -> None:
        self.reader.sql("START TRANSACTION READ ONLY")
        self.snapshot = Counter(self.committed)
        assert read(self.reader) == self.snapshot

    def end_snapshot(self) -> None:
        assert read(self.reader) == self.snapshot, self.log
        self.reader.sql("COMMIT")
        self.snapshot = None


def literal(text: str | None) -> str:
    return "NULL" if text is None else f"'{text}'"


def query(rows: list[Row]) -> str:
    """The rows as a query; those that have all columns as constants come without Spark."""
    values = [
        f"({row.id}, {literal(row.v)}, "
        + ("NULL" if row.n is None else f"named_struct('a', {row.n}, 'b', array(NULL, {row.n}))")
        + f", {literal(row.p)})"
        for row in rows
    ]
    return f"VALUES {', '.join(values)}"


def read(session: Session) -> Rows:
    found: Rows = Counter()
    for number, v, n, p in session.sql("SELECT id, v, n, p FROM t").rows:
        assert n is None or (isinstance(n, dict) and n["b"] == [None, n["a"]])
        found[Row(number, v, None if n is None else n["a"], p)] += 1  # type: ignore[arg-type]
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("seed", [1])
def test_every_statement_does_what_the_model_does(lockless: Metastore, kind: str, seed: int) -> None:
    sequence = Sequence(lockless, seed, kind)
    with sequence.writer, sequence.reader:
        for _ in range(STATEMENTS):
            sequence.step()
            assert read(sequence.writer) == sequence.now, sequence.log
        if sequence.snapshot is not None:
            sequence.end_snapshot()
