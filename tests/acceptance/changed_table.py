"""Random histories of a table, whose changes between any two versions are applied to the earlier one.

The earlier version, without the rows that are deleted and with those that are inserted, is the later version. Versions
are bags of rows: several rows may be alike.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import VersionExpiredError
from airflow_hivex.core.model.compaction import CompactionState

Row = tuple[object, ...]
Rows = Counter[Row]

STEPS = 5
"""Of one history."""
_VALUES: tuple[Sequence[object], ...] = (("a", "b c/d", "ü=1", None), (1, 2, None))
_PAIRS = 1
_KINDS = ("minor", "major", "major", "rebalance")


def keys_of(number: int) -> str:
    """The first partition keys, as SQL."""
    return ", ".join(("ds string", "hr int")[:number])


class ChangedTable:
    """A full ACID table ``(id int, name string)`` with some partition keys, and the rows of its versions by a model."""

    def __init__(
        self, metastore: Metastore, session: Session, table: str, keys: int, rows: Rows, chance: random.Random
    ):
        self.metastore, self.session, self.table, self.chance = metastore, session, table, chance
        self.keys = ("ds", "hr")[:keys]
        self.rows = rows
        self.log: list[str] = []
        self.counts = Counter[str]()
        self._names = 0
        self._run(f"ALTER TABLE {table} SET TBLPROPERTIES ('hivex.history.retention' = '1d')")
        self.versions: list[tuple[int, Rows]] = []
        self._note()
        self.steps: list[Callable[[], None]] = [self.insert, self.update, self.delete, self.merge] * 3
        self.steps += [self.overwrite, self.truncate, self.compact, self.compact, self.compact, self.restore]
        self.steps += [self.several, self.several, self.out_of_order, self.out_of_order, self.rename]
        if keys:
            self.steps += [self.drop_partition, self.rename_partition]

    def play(self, steps: int = STEPS) -> Counter[str]:
        """Take random steps and compare; what was done."""
        try:
            for _ in range(steps):
                self.chance.choice(self.steps)()
                self._note()
            self.check()
        except Exception as error:
            error.add_note("\n".join(self.log))
            raise
        self.counts["histories"] += 1
        return self.counts

    def check(self) -> None:
        """Compare the versions, and the changes between some pairs of them, with the model."""
        for write_id, rows in self.versions:
            read = self.session.to_arrow(self.table, version=write_id)
            columns = (column.to_pylist() for column in read.columns)
            self._same(f"version {write_id}", Counter(zip(*columns, strict=True)), rows)
        pairs = list(combinations(range(len(self.versions)), 2))
        for old, new in self.chance.sample(pairs, min(_PAIRS, len(pairs))):
            deleted, inserted = self._changes(self._id(old), self._id(new))
            self._check_changes(old, new, deleted, inserted)
        self._same("the present", Counter(self._read(f"SELECT * FROM {self.table}")), self.rows)
        self.counts["versions"] += len(self.versions)
        self.counts["changes applied to versions"] += min(_PAIRS, len(pairs))

    def _changes(self, since: int, until: int) -> tuple[Rows, Rows]:
        """The rows that are deleted and inserted, by the method or by the clause of SQL."""
        if self.chance.random() < 0.5:
            found = self.session.changes(self.table, since=since, until=until).rows
        else:
            found = self._read(f"SELECT * FROM {self.table} CHANGES FROM VERSION {since} EXCLUSIVE TO VERSION {until}")
        changes: dict[object, Rows] = {"delete": Counter(), "insert": Counter()}
        for *row, kind, _ in found:
            changes[kind][tuple(row)] += 1
        return changes["delete"], changes["insert"]

    def _check_changes(self, old: int, new: int, deleted: Rows, inserted: Rows) -> None:
        before = self.versions[old][1]
        what = f"changes from {self._id(old)} to {self._id(new)}"
        assert deleted <= before, f"{what} delete rows that were not there: {deleted - before}"
        self._same(what, before - deleted + inserted, self.versions[new][1])

    def _same(self, what: str, found: Rows, expected: Rows) -> None:
        message = f"{what} of {self.table}\n  too many: {found - expected}\n  missing: {expected - found}"
        assert found == expected, message

    def _id(self, place: int) -> int:
        return self.versions[place][0]

    def _note(self) -> None:
        """Note the newest version; what has written nothing has made none."""
        newest = int(str(self.session.sql(f"DESCRIBE HISTORY {self.table} LIMIT 1").rows[0][0]))
        if self.versions and newest == self.versions[-1][0]:
            self._same("the version", self.rows, self.versions[-1][1])
        else:
            self.versions.append((newest, self.rows))

    def _read(self, sql: str) -> list[Row]:
        return self.session.sql(sql).rows

    def _run(self, sql: str, session: Session | None = None) -> None:
        self.log.append(sql if session is None else f"other: {sql}")
        (session or self.session).sql(sql)
        self.counts["statements"] += 1

    # -- statements --------------------------------------------------------------------

    def insert(self, session: Session | None = None) -> Rows:
        """INSERT INTO; the new rows."""
        new = self._new_rows(4)
        self._run(f"INSERT INTO {self.table} {self._query(new)}", session)
        if session is None:
            self.rows = self.rows + new
        return new

    def update(self) -> None:
        """UPDATE of some ids, in one partition or in all."""
        where, holds = self._condition()
        self._run(f"UPDATE {self.table} SET name = concat(name, '+') WHERE {where}")
        changed = Counter[Row]()
        for row, number in self.rows.items():
            changed[(row[0], f"{row[1]}+", *row[2:]) if holds(row) else row] += number
        self.rows = changed

    def delete(self) -> None:
        """DELETE of such rows."""
        where, holds = self._condition()
        self._run(f"DELETE FROM {self.table} WHERE {where}")
        self.rows = Counter({row: number for row, number in self.rows.items() if not holds(row)})

    def merge(self) -> None:
        """MERGE that updates, deletes and inserts."""
        ids = self.chance.sample(range(12), 5)
        limit = self.chance.randrange(12)
        partition = self._partition()
        source = ", ".join(f"({each})" for each in ids)
        values = ", ".join(("s.id", "'merged'", *map(_text, partition)))
        self._run(
            f"MERGE INTO {self.table} AS t USING (SELECT * FROM VALUES {source} AS v(id)) AS s ON t.id = s.id "
            f"WHEN MATCHED AND t.id < {limit} THEN DELETE WHEN MATCHED THEN UPDATE SET name = concat(t.name, '*') "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({values})"
        )
        there = {row[0] for row in self.rows}
        merged = Counter((each, "merged", *partition) for each in ids if each not in there)
        for row, number in self.rows.items():
            if row[0] not in ids:
                merged[row] += number
            elif row[0] >= limit:  # type: ignore[operator]
                merged[(row[0], f"{row[1]}*", *row[2:])] += number
        self.rows = Counter(merged)

    def overwrite(self) -> None:
        """INSERT OVERWRITE of constants, or of some rows of the table itself."""
        if self.chance.random() < 0.5:
            new = self._new_rows(4)
            query = self._query(new)
        else:
            where, holds = self._condition()
            new = Counter({row: number for row, number in self.rows.items() if holds(row)})
            query = f"SELECT * FROM {self.table} WHERE {where}"
        self._run(f"INSERT OVERWRITE {self.table} {query}")
        replaced = {row[2:] for row in new}
        kept = {row: number for row, number in self.rows.items() if self.keys and row[2:] not in replaced}
        self.rows = Counter(kept) + new

    def truncate(self) -> None:
        """TRUNCATE TABLE of a partition, or of all."""
        partition = self._present_partition()
        if partition is None or self.chance.random() < 0.2:
            self._run(f"TRUNCATE TABLE {self.table}")
            self.rows = Counter()
        else:
            self._run(f"TRUNCATE TABLE {self.table} PARTITION ({self._spec(partition)})")
            self.rows = Counter({row: number for row, number in self.rows.items() if row[2:] != partition})

    def several(self) -> None:
        """Several statements in one transaction."""
        self._run("START TRANSACTION")
        for _ in range(self.chance.randint(2, 3)):
            self.chance.choice((self.insert, self.update, self.delete, self.merge))()
        self._run("COMMIT")

    def out_of_order(self) -> None:
        """Commit an INSERT that has a lower write id than a later statement."""
        with self.metastore.session(user="other") as other:
            self._run("START TRANSACTION", other)
            new = self.insert(other)
            for _ in range(self.chance.randint(1, 2)):
                self.chance.choice((self.insert, self.update, self.delete, self.compact))()
                self._note()
            self._run("COMMIT", other)
        self.rows = self.rows + new

    def restore(self) -> None:
        """RESTORE TABLE to one of the versions."""
        write_id, rows = self.chance.choice(self.versions)
        self._run(f"RESTORE TABLE {self.table} TO VERSION AS OF {write_id}")
        self.rows = rows

    def rename(self) -> None:
        """Give the table another name."""
        self._names += 1
        name = f"{self.table.split('_renamed')[0]}_renamed{self._names}"
        self._run(f"ALTER TABLE {self.table} RENAME TO {name}")
        self.table = name

    def drop_partition(self) -> None:
        """Drop a partition; earlier versions cannot be read any more."""
        partition = self._present_partition()
        if partition is not None:
            self.check()
            self._run(f"ALTER TABLE {self.table} DROP PARTITION ({self._spec(partition)})")
            self.rows = Counter({row: number for row, number in self.rows.items() if row[2:] != partition})
            self._forget()

    def rename_partition(self) -> None:
        """Give a partition other values; earlier versions cannot be read any more."""
        partition = self._present_partition()
        if partition is None:
            return
        self.check()
        self._names += 1
        to = (f"new {self._names}", *partition[1:])
        spec = f"PARTITION ({self._spec(partition)})"
        self._run(f"ALTER TABLE {self.table} {spec} RENAME TO PARTITION ({self._spec(to)})")
        renamed = Counter[Row]()
        for row, number in self.rows.items():
            renamed[(*row[:2], *to) if row[2:] == partition else row] += number
        self.rows = renamed
        self._forget()

    def compact(self) -> None:
        """Compact the table, or a partition of it, and clean up what is old."""
        kind = self.chance.choice(_KINDS)
        places: list[str | None] = [None]
        database, _, table = self.table.rpartition(".")
        if self.keys:
            shown = [str(row[0]) for row in self._read(f"SHOW PARTITIONS {self.table}")]
            places = list(self.chance.sample(shown, min(1, len(shown))))
        for place in places:
            self.log.append(f"{kind} compaction of {place or self.table}")
            answer = self.metastore.compactor.request(database or "default", table, place, kind)
            done = self.metastore.compactor.work("host-1") if answer.is_accepted else None
            assert done is None or done.state is not CompactionState.FAILED or kind == "rebalance", done
            self.metastore.compactor.clean()
            self.counts["compactions"] += 1

    # -- parts of statements -----------------------------------------------------------

    def _new_rows(self, most: int) -> Rows:
        partitions = [self._partition() for _ in range(2)]
        numbers = [self.chance.randrange(12) for _ in range(self.chance.randint(1, most))]
        return Counter((number, self.chance.choice("xyz"), *self.chance.choice(partitions)) for number in numbers)

    def _query(self, rows: Rows) -> str:
        values = ", ".join(f"({', '.join(map(_text, row))})" for row in rows.elements())
        return f"VALUES {values}" if self.chance.random() < 0.6 else f"SELECT * FROM VALUES {values}"

    def _condition(self) -> tuple[str, Callable[[Row], bool]]:
        modulus = self.chance.choice([2, 3, 5])
        rest = self.chance.randrange(modulus)
        partition = self._present_partition()
        text = f"id % {modulus} = {rest}"
        if partition is None or self.chance.random() < 0.4:
            return text, lambda row: row[0] % modulus == rest  # type: ignore[operator]
        keys = " AND ".join(f"{key} <=> {_text(value)}" for key, value in zip(self.keys, partition, strict=True))
        return f"{text} AND {keys}", lambda row: row[0] % modulus == rest and row[2:] == partition  # type: ignore[operator]

    def _partition(self) -> Row:
        return tuple(self.chance.choice(values) for values, _ in zip(_VALUES, self.keys, strict=False))

    def _present_partition(self) -> Row | None:
        """The values of a partition with rows, without NULLs."""
        found = sorted({row[2:] for row in self.rows if None not in row[2:]}, key=str)
        return self.chance.choice(found) if found and self.keys else None

    def _spec(self, partition: Row) -> str:
        return ", ".join(f"{key} = {_text(value)}" for key, value in zip(self.keys, partition, strict=True))

    def _forget(self) -> None:
        self._note()
        (expired, _), *_, now = self.versions
        try:
            self._read(f"SELECT 1 FROM {self.table} VERSION AS OF {expired}")
        except VersionExpiredError:
            self.versions = [now]
            return
        raise AssertionError(f"version {expired} is from before a partition was dropped or renamed")


def _text(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
