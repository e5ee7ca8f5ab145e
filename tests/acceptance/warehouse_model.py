"""A plain model of tables and transactions, which random statements are compared with. Not a test itself.

A row is a set of (column's key, value) without the NULLs, so that a change of columns leaves rows as they are:
what a table shows of them is what its current columns ask for.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import Any

Value = Any
Row = frozenset[tuple[int, Value]]
Rows = Counter[Row]
_KEYS = count(1)

_ODD_TEXTS = (
    "a",
    "A",
    "b/c=d %",
    "ü",
    "数 据",
    "it's",
    " x ",
    "_x",
    ".y",
    "a*{b}?[c]",
    "x:y#z",
    "%2F",
    "1",
    "..",
    "a\\b",
)
VALUES: dict[str, tuple[tuple[str, Value], ...]] = {
    "int": tuple((str(number), number) for number in (0, 1, -7, 2**31 - 1)),
    "bigint": tuple((f"{number}L", number) for number in (0, 1, -7, 2**40)),
    "smallint": tuple((f"{number}S", number) for number in (0, 1, -7, 300)),
    "string": tuple((f"'{text}'", text) for text in ("", "x", "yé", "z" * 40, "  ")),
    "varchar(10)": tuple((f"'{text}'", text) for text in ("", "x", "数数数")),
    "decimal(6,2)": tuple((text, Decimal(text)) for text in ("0.00", "-1234.56", "9.90")),
    "decimal(20,2)": tuple((text, Decimal(text)) for text in ("0.00", "123456789012345678.25")),
    "float": (("CAST(0.5 AS FLOAT)", 0.5), ("CAST(-2 AS FLOAT)", -2.0)),
    "double": (("0.5D", 0.5), ("-1e300D", -1e300)),
    "boolean": (("true", True), ("false", False)),
    "date": (("DATE'2013-01-31'", dt.date(2013, 1, 31)), ("DATE'1969-02-28'", dt.date(1969, 2, 28))),
    "timestamp": (
        ("TIMESTAMP'2013-01-31 12:30:00.123456'", dt.datetime.fromisoformat("2013-01-31 12:30:00.123456")),
        ("TIMESTAMP'1969-12-31 23:59:59'", dt.datetime.fromisoformat("1969-12-31 23:59:59")),
    ),
    "struct<a:int,b:array<int>>": (
        ("named_struct('a', 1, 'b', array(NULL, 1))", (("a", 1), ("b", (None, 1)))),
        ("named_struct('a', CAST(NULL AS INT), 'b', CAST(NULL AS ARRAY<INT>))", (("a", None), ("b", None))),
    ),
    "array<string>": (("array('x', NULL)", ("x", None)), ("CAST(array() AS ARRAY<STRING>)", ())),
    "map<string,int>": (("map('k', 1, 'l', NULL)", (("k", 1), ("l", None))), ("map('', 5)", (("", 5),))),
    "array<struct<d:date,n:decimal(20,2)>>": (
        (
            "array(named_struct('d', DATE'2013-01-31', 'n', CAST(9.90 AS DECIMAL(20,2))), NULL)",
            ((("d", dt.date(2013, 1, 31)), ("n", Decimal("9.90"))), None),
        ),
        (
            "array(named_struct('d', CAST(NULL AS DATE), 'n', CAST(123456789012345678.25 AS DECIMAL(20,2))))",
            ((("d", None), ("n", Decimal("123456789012345678.25"))),),
        ),
    ),
    "struct<s:struct<t:timestamp,b:boolean>,m:map<string,array<double>>>": (
        (
            "named_struct('s', named_struct('t', TIMESTAMP'2013-01-31 12:30:00.123456', 'b', CAST(NULL AS BOOLEAN)), "
            "'m', map('k \"', array(0.5D, NULL), 'l', CAST(NULL AS ARRAY<DOUBLE>)))",
            (
                ("s", (("t", dt.datetime.fromisoformat("2013-01-31 12:30:00.123456")), ("b", None))),
                ("m", (('k "', (0.5, None)), ("l", None))),
            ),
        ),
        (
            "named_struct('s', CAST(NULL AS STRUCT<t:TIMESTAMP,b:BOOLEAN>), "
            "'m', CAST(map() AS MAP<STRING,ARRAY<DOUBLE>>))",
            (("s", None), ("m", ())),
        ),
    ),
}
"""Some constants of each type: as SQL, and as rows have them."""

NESTED = tuple(each for each in VALUES if each.startswith(("struct", "array", "map")))

KEY_VALUES: dict[str, tuple[tuple[str, Value], ...]] = {
    "string": tuple(("'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'", text) for text in _ODD_TEXTS),
    "int": (("1", 1), ("-5", -5)),
    "date": (("DATE'2013-01-31'", dt.date(2013, 1, 31)),),
}
WIDER = {
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "varchar(10)": ("varchar(20)", "string"),
    "float": ("double",),
    "decimal(6,2)": ("decimal(20,2)",),
}
_PARTS = {"struct<a:int,b:array<int>>": (".a = 1", "a", 1), "map<string,int>": ("['k'] = 1", "k", 1)}
"""Conditions on parts of values: as SQL, the part's name and the value that it should have."""
_SAME_VALUES = {"varchar(20)": "varchar(10)"}


@dataclass(frozen=True)
class Column:
    """A column; ``key`` stays when it is renamed."""

    key: int
    name: str
    type: str
    most: int | None = None
    """The number of used values of a partition key; None is all of them."""

    def constant(self, chance: random.Random, *, is_key: bool = False, nulls: bool = True) -> tuple[str, Value]:
        """A value, NULL among them, as SQL and as rows have it."""
        if nulls and chance.random() < 0.2:
            return "NULL", None
        values = KEY_VALUES[self.type][: self.most] if is_key else VALUES[_SAME_VALUES.get(self.type, self.type)]
        return chance.choice(values)


def new_column(name: str, type: str, most: int | None = None) -> Column:
    return Column(next(_KEYS), name, type, most)


def typed(key: Column, text: str | None) -> Value:
    """The value of a partition key that a partition's name has as text."""
    if text is None or key.type == "string":
        return text
    return int(text) if key.type == "int" else dt.date.fromisoformat(text)


@dataclass
class Table:
    """What the catalog says of a table: no transaction has a say in it."""

    name: str
    columns: list[Column]
    keys: list[Column] = field(default_factory=list)
    buckets: int = 0
    key: int = field(default_factory=lambda: next(_KEYS))
    for_hive: bool = False
    """Whether all its files are of row layout ``hive``."""
    is_insert_only: bool = False

    @property
    def all_columns(self) -> list[Column]:
        return [*self.columns, *self.keys]

    @property
    def id(self) -> Column:
        """The first column, which every table has."""
        return next(column for column in self.columns if column.name == "id")

    def shown(self, rows: Rows) -> Counter[tuple[Value, ...]]:
        found: Counter[tuple[Value, ...]] = Counter()
        for row, number in rows.items():
            values = dict(row)
            found[tuple(values.get(column.key) for column in self.all_columns)] += number
        return found

    def partition(self, row: Row) -> tuple[Value, ...]:
        values = dict(row)
        return tuple(values.get(key.key) for key in self.keys)


def row_of(values: Mapping[int, Value]) -> Row:
    return frozenset((key, value) for key, value in values.items() if value is not None)


def changed(row: Row, values: Mapping[int, Value]) -> Row:
    return row_of({**dict(row), **values})


def frozen(value: object) -> Value:
    """A value as a query brings it, in the form that rows of the model have."""
    if isinstance(value, dict):
        return tuple((key, frozen(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return value


@dataclass(frozen=True)
class Condition:
    """A question to Spark and to the model; None is SQL's unknown. ``{}`` stands for what qualifies columns."""

    sql: str
    holds: Callable[[Row], bool | None]

    def named(self, qualifier: str) -> str:
        return self.sql.replace("{}", qualifier)


def condition(table: Table, chance: random.Random, depth: int = 1) -> Condition:
    """A random condition on a table's columns."""
    if depth and chance.random() < 0.3:
        first, second = condition(table, chance, depth - 1), condition(table, chance, depth - 1)
        if chance.random() < 0.5:
            return Condition(f"({first.sql} AND {second.sql})", lambda row: _and(first.holds(row), second.holds(row)))
        return Condition(f"({first.sql} OR {second.sql})", lambda row: _or(first.holds(row), second.holds(row)))
    if depth and chance.random() < 0.15:
        inner = condition(table, chance, 0)
        return Condition(f"NOT ({inner.sql})", lambda row: _not(inner.holds(row)))
    which = chance.random()
    if which < 0.3:
        number, rest = chance.randrange(2, 5), chance.randrange(2)
        key = table.id.key
        return Condition(f"{{}}id % {number} = {rest}", lambda row: _same(_part(row, key, number), rest))
    is_key = bool(table.keys) and chance.random() < 0.6
    column = chance.choice(table.keys if is_key else table.columns)
    if which < 0.5:
        return Condition(f"{{}}`{column.name}` IS NULL", lambda row: dict(row).get(column.key) is None)
    if which < 0.6 and is_key:
        several = [column.constant(chance, is_key=True, nulls=False) for _ in range(2)]
        texts, values = [sql for sql, _ in several], [value for _, value in several]
        return Condition(
            f"{{}}`{column.name}` IN ({', '.join(texts)})",
            lambda row: None if dict(row).get(column.key) is None else dict(row)[column.key] in values,
        )
    sql, value = column.constant(chance, is_key=is_key, nulls=False)
    if column.type in _PARTS and which < 0.7:
        part, name, wanted = _PARTS[column.type]
        return Condition(
            f"{{}}`{column.name}`{part}", lambda row: _same(dict(dict(row).get(column.key) or ()).get(name), wanted)
        )
    if "map" in column.type:
        # Maps cannot be compared.
        return Condition(f"{{}}`{column.name}` IS NOT NULL", lambda row: dict(row).get(column.key) is not None)
    if which < 0.8:
        return Condition(f"{{}}`{column.name}` = {sql}", lambda row: _same(dict(row).get(column.key), value))
    return Condition(f"{{}}`{column.name}` <=> {sql}", lambda row: dict(row).get(column.key) == value)


def _part(row: Row, key: int, number: int) -> int | None:
    value = dict(row).get(key)
    return None if value is None else int(value - number * int(value / number))


def _same(found: Value, value: Value) -> bool | None:
    return None if found is None else found == value


def _and(first: bool | None, second: bool | None) -> bool | None:
    return False if first is False or second is False else None if first is None or second is None else True


def _or(first: bool | None, second: bool | None) -> bool | None:
    return True if first or second else None if first is None or second is None else False


def _not(found: bool | None) -> bool | None:
    return None if found is None else not found


State = dict[int, Rows]


@dataclass
class Transaction:
    """What a transaction of several statements reads, and has done to it."""

    snapshot: State
    began: int
    read_only: bool = False
    added: State = field(default_factory=dict)
    removed: State = field(default_factory=dict)
    overwrote: set[int] = field(default_factory=set)
    wrote: set[int] = field(default_factory=set)

    def rows(self, table: Table) -> Rows:
        nothing: Rows = Counter()
        left = self.snapshot.get(table.key, nothing) - self.removed.get(table.key, nothing)
        return left + self.added.get(table.key, nothing)


class Model:
    """The committed rows of all tables, and the transactions of sessions, by their names."""

    def __init__(self) -> None:
        self.committed: State = {}
        self.open: dict[str, Transaction] = {}
        self.tables: list[Table] = []
        self.commits: list[set[int]] = []
        """The tables that each commit has written to."""

    def rows(self, session: str, table: Table) -> Rows:
        transaction = self.open.get(session)
        return self.committed.get(table.key, Counter()) if transaction is None else transaction.rows(table)

    def change(self, session: str, table: Table, removed: Iterable[Row], added: Rows) -> None:
        """Take all copies of some rows away, and add others."""
        removed = set(removed)
        transaction = self.open.get(session)
        if transaction is None:
            rows = self.committed.get(table.key, Counter())
            self.committed = {
                **self.committed,
                table.key: Counter({row: n for row, n in rows.items() if row not in removed}) + added,
            }
            self.commits.append({table.key})
            return
        snapshot = transaction.snapshot.get(table.key, Counter())
        own = transaction.added.get(table.key, Counter())
        transaction.added[table.key] = Counter({row: n for row, n in own.items() if row not in removed}) + added
        gone = transaction.removed.setdefault(table.key, Counter())
        gone.update({row: snapshot[row] - gone[row] for row in removed if snapshot[row]})
        transaction.wrote.add(table.key)

    def begin(self, session: str, *, read_only: bool = False) -> None:
        self.open[session] = Transaction(dict(self.committed), len(self.commits), read_only)

    def commit(self, session: str) -> str | None:
        """End it; what it has lost of others' writes, if it should not have been able to commit."""
        transaction = self.open.pop(session)
        lost = None
        committed = dict(self.committed)
        for key in transaction.wrote:
            before: Rows = committed.get(key, Counter())
            gone: Rows = transaction.removed.get(key, Counter())
            if gone - before:
                lost = f"it removed rows that another transaction had removed before: {gone - before}"
            committed[key] = (before - gone) + transaction.added.get(key, Counter())
        self.committed = committed
        if transaction.wrote:
            self.commits.append(transaction.wrote)
        return lost

    def roll_back(self, session: str) -> None:
        del self.open[session]

    def others_wrote_since(self, session: str, tables: Iterable[Table]) -> bool:
        """Whether another transaction has written to one of the tables since this one began."""
        keys = {table.key for table in tables}
        return any(keys & written for written in self.commits[self.open[session].began :])


def columns_sql(columns: Sequence[Column]) -> str:
    return ", ".join(f"`{column.name}` {column.type}" for column in columns)


def retyped(column: Column, type: str) -> Column:
    return replace(column, type=type)
