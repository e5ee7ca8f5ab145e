"""Conditions on sub-queries, names of WITH and views: they leave out partitions, and never one that has rows."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

import pytest

from airflow_hivex.core.model.predicates import And, Truth, evaluate
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select
from tests import evidence
from tests.conftest import Counts

DAYS = ("1", "2", "3", None)


def kept(query: str) -> list[tuple[str, list[str | None]]]:
    """The values of ``ds`` that remain for each table of a query that is read."""
    statement = read(query, database="d")
    assert isinstance(statement, Select)
    found = []
    for reference in statement.query.references:
        days = [day for day in DAYS if evaluate(And(reference.filters), {"ds": day}) not in (Truth.NO, Truth.NULL)]
        found.append((reference.table.name, days))
    return found


def days_of_t(query: str) -> list[list[str | None]]:
    return [days for name, days in kept(query) if name == "t"]


ALL = list(DAYS)


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("SELECT * FROM (SELECT * FROM t) v JOIN u USING (k) WHERE v.ds = '1'", [["1"]]),
        ("SELECT * FROM (SELECT t.*, 1 AS n FROM t JOIN u ON t.k = u.k) v WHERE ds = '1'", [["1"]]),
        ("SELECT * FROM (SELECT ds AS d, k FROM t) WHERE d IN ('1', '2')", [["1", "2"]]),
        ("SELECT * FROM (SELECT ds, k FROM t) v (d, x) WHERE d = '1'", [["1"]]),
        ("SELECT * FROM (SELECT ds AS k, k AS ds FROM t) WHERE ds = '1'", [ALL]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE ds = '2'", [["2"]]),
        ("WITH c (d, x) AS (SELECT ds, k FROM t) SELECT * FROM c WHERE d = '1'", [["1"]]),
        ("WITH c AS (SELECT * FROM t), e AS (SELECT ds AS x FROM c) SELECT * FROM e WHERE x > '1'", [["2", "3"]]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c a JOIN c b ON a.k = b.k WHERE a.ds = '1' AND b.ds = '2'",
         [["1", "2"]]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c a JOIN c b ON a.k = b.k WHERE a.ds = '1'", [ALL]),
        ("WITH c AS (SELECT * FROM t) SELECT (SELECT max(k) FROM c) FROM c WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT * FROM t LIMIT 5) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT * FROM t WHERE ds < '3' ORDER BY k LIMIT 5) WHERE ds = '1'", [["1", "2"]]),
        ("SELECT * FROM (SELECT * FROM t) TABLESAMPLE (1 ROWS) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT DISTINCT ds FROM t) WHERE ds = '1'", [["1"]]),
        ("SELECT * FROM (SELECT ds, count(*) AS n FROM t GROUP BY ds) WHERE ds = '1' AND n > 1", [["1"]]),
        ("SELECT * FROM (SELECT ds AS d, count(*) AS n FROM t GROUP BY 1) WHERE d = '1'", [["1"]]),
        ("SELECT * FROM (SELECT ds, k, count(*) FROM t GROUP BY ds, k WITH CUBE) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT ds, count(*) FROM t GROUP BY ROLLUP (ds)) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT max(ds) AS ds FROM t) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT k, max(ds) AS ds FROM t GROUP BY k) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT *, rank() OVER (PARTITION BY ds ORDER BY k) AS r FROM t) WHERE ds = '1'", [["1"]]),
        ("SELECT * FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY ds) AS r FROM t) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT *, sum(k) OVER w AS r FROM t WINDOW w AS (PARTITION BY k)) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT ds, monotonically_increasing_id() AS i FROM t) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT upper(ds) AS ds FROM t) WHERE ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT * FROM t) v LEFT JOIN u ON v.ds = '1'", [ALL]),
        ("SELECT * FROM u LEFT JOIN (SELECT * FROM t) v ON v.ds = '1'", [["1"]]),
        ("SELECT * FROM u LEFT JOIN (SELECT * FROM t) v ON u.k = v.k WHERE v.ds = '1'", [["1"]]),
        ("SELECT * FROM u LEFT JOIN (SELECT * FROM t) v ON u.k = v.k WHERE v.ds IS NULL", [ALL]),
        ("SELECT * FROM (SELECT t.ds FROM u LEFT JOIN t ON u.k = t.k) v WHERE ds IS NULL", [ALL]),
        ("SELECT * FROM (SELECT t.ds FROM u LEFT JOIN t ON u.k = t.k) v WHERE ds = '1'", [["1"]]),
        ("SELECT * FROM (SELECT * FROM t) v FULL JOIN u ON v.k = u.k AND v.ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT * FROM t) v, w WHERE v.ds = w.ds OR v.ds = '1'", [ALL]),
        ("SELECT * FROM (SELECT * FROM t) v, w WHERE (v.ds = '1' AND w.k = 2) OR v.ds = '3'", [["1", "3", None]]),
        ("SELECT * FROM (SELECT a.ds, b.ds AS e FROM t a JOIN t b ON a.k = b.k) WHERE e = '1'", [ALL, ["1"]]),
        ("SELECT * FROM (SELECT a.* FROM t a JOIN t b ON a.k = b.k) WHERE ds = '1'", [["1"], ALL]),
        ("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM (SELECT * FROM t) v WHERE v.k = u.k AND v.ds = '1')", [["1"]]),
        ("SELECT * FROM (SELECT * FROM t UNION ALL SELECT * FROM t) WHERE ds = '1'", [ALL, ALL]),
        ("WITH RECURSIVE c AS (SELECT * FROM t UNION ALL SELECT * FROM c) SELECT * FROM c WHERE ds = '1'", [ALL]),
    ],
)  # fmt: skip
def test_conditions_on_a_query_hold_within_it_as_far_as_that_is_certain(
    query: str, days: list[list[str | None]]
) -> None:
    assert days_of_t(query) == days


class _Queries:
    """Random queries over t and u, both (k, ds, x), in SQL that SQLite runs, too."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.ctes: list[str] = []

    def relation(self, depth: int) -> str:
        """A table, or a query with the columns k, ds and x."""
        if depth == 0 or self.chance.random() < 0.15:
            return self.chance.choice(["t", "u"])
        if depth and self.ctes and self.chance.random() < 0.3:
            return self.chance.choice(self.ctes)
        return f"({self.query(depth)})"

    def query(self, depth: int) -> str:
        pick = self.chance.choice
        a, b = self.relation(depth - 1), self.relation(depth - 1)
        where = f"WHERE {self.condition('a')}" if self.chance.random() < 0.5 else ""
        both = f"WHERE {self.condition(pick('ab'))}" if self.chance.random() < 0.5 else ""
        join = pick(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = pick(["a.k = b.k", f"a.k = b.k AND {self.condition('a')}", f"a.k = b.k AND {self.condition('b')}"])
        side = pick("ab")
        return pick(
            [
                f"SELECT * FROM {a} a {where}",
                f"SELECT a.* FROM {a} a {where}",
                f"SELECT k, ds, x FROM {a} a {where}",
                f"SELECT x AS k, a.ds AS ds, k AS x FROM {a} a {where}",
                f"SELECT k, x AS ds, ds AS x FROM {a} a {where}",
                f"SELECT DISTINCT k, ds, x FROM {a} a {where}",
                f"SELECT max(k) AS k, ds, min(x) AS x FROM {a} a {where} GROUP BY ds",
                f"SELECT k, max(ds) AS ds, min(x) AS x FROM {a} a {where} GROUP BY k",
                f"SELECT max(k) AS k, min(ds) AS ds, x FROM {a} a {where} GROUP BY 3",
                f"SELECT count(*) AS k, min(ds) AS ds, max(x) AS x FROM {a} a {where}",
                f"SELECT rank() OVER (PARTITION BY ds ORDER BY k, x) AS k, ds, x FROM {a} a {where}",
                f"SELECT rank() OVER (ORDER BY k, x, ds) AS k, ds, x FROM {a} a {where}",
                f"SELECT * FROM {a} a {where} ORDER BY k, ds, x LIMIT 3",
                f"SELECT k, ds, x FROM {a} a {where} UNION ALL SELECT k, ds, x FROM {b} b",
                f"SELECT {side}.* FROM {a} a {join} {b} b ON {on} {both}",
                f"SELECT a.k, {side}.ds, b.x FROM {a} a {join} {b} b ON {on} {both}",
                f"SELECT k, {side}.ds, a.x FROM {a} a {join} {b} b USING (k) {both}",
                f"SELECT a.* FROM {a} a WHERE EXISTS (SELECT 1 FROM {b} b WHERE a.k = b.k AND {self.condition('b')})",
            ]
        )

    def condition(self, alias: str) -> str:
        pick = self.chance.choice
        column = f"{alias}.{pick(['ds', 'ds', 'x'])}"
        simple = [f"{column} = '{pick('123')}'", f"{column} > '{pick('123')}'", f"{column} IN ('1', '3')"]
        simple += [f"{column} IS NULL", f"{column} IS NOT NULL", f"NOT ({column} = '2')", f"{alias}.k < 3"]
        one = pick(simple)
        return pick([one, one, f"({one} OR {pick(simple)})", f"({one} AND {pick(simple)})"])

    def statement(self) -> str:
        self.ctes = []
        head = []
        for name in self.chance.sample(["c", "e"], self.chance.randint(0, 2)):
            head.append(f"{name} AS ({self.query(2)})")
            self.ctes.append(name)
        alias = "z"
        body = f"SELECT * FROM {self.relation(3)} z WHERE {self.condition(alias)}"
        return f"WITH {', '.join(head)} {body}" if head else body


def _rows(connection: sqlite3.Connection, query: str) -> list[Any]:
    return sorted(connection.execute(query).fetchall(), key=repr)


@pytest.mark.evidence
def test_no_partition_with_rows_is_left_out(counts: Counts) -> None:
    chance = random.Random(evidence.SEED)
    amount = evidence.amount("HIVEX_PUSHED_QUERIES", 1_000, 100_000)
    queries, pruned, refused = _Queries(chance), 0, 0
    connection = sqlite3.connect(":memory:")
    for name in ("t", "u"):
        connection.execute(f"CREATE TABLE all_{name} (k, ds, x)")
        rows = [(chance.randint(1, 4), chance.choice(DAYS), chance.choice(DAYS)) for _ in range(12)]
        connection.executemany(f"INSERT INTO all_{name} VALUES (?, ?, ?)", rows)
    for _ in range(amount):
        text = queries.statement()
        statement = read(text, database="d")
        assert isinstance(statement, Select)
        edited, edit_end = "", 0
        for reference in statement.query.references:
            filters = And(reference.filters)
            days = [day for day in DAYS if evaluate(filters, {"ds": day}) not in (Truth.NO, Truth.NULL)]
            pruned += len(days) < len(DAYS)
            listed = ", ".join(f"'{day}'" for day in days if day is not None) or "''"
            null = " OR ds IS NULL" if None in days else ""
            replaced = f"(SELECT * FROM all_{reference.table.name} WHERE ds IN ({listed}){null})"
            edited += text[edit_end : reference.start] + replaced
            edit_end = reference.end
        edited += text[edit_end:]
        whole = text
        for reference in reversed(statement.query.references):
            whole = f"{whole[: reference.start]}all_{reference.table.name}{whole[reference.end :]}"
        try:
            assert _rows(connection, edited) == _rows(connection, whole), text
        except sqlite3.OperationalError as error:
            # SQLite's planner refuses some nested RIGHT JOINs that it has flattened itself.
            if "ON clause references tables to its right" not in str(error):
                raise
            refused += 1
    assert refused < amount / 50
    counts["Conditions on queries"] = {"queries": amount, "tables with fewer partitions": pruned}
