"""Random statements of all kinds, with the tables that they read and write: nested, quoted, commented, with aliases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple


class Named(NamedTuple):
    """A table as a statement names it: an output or an input, with the database and the namespace that are written."""

    is_output: bool
    database: str | None
    name: str
    namespace: str | None


@dataclass(slots=True)
class NamedStatement:
    """A text, and each table that it reads or writes."""

    text: str
    named: set[Named] = field(default_factory=set)


class Statements:
    """Makes statements of a namespace ``own``; ``foreign`` are other ones, whose tables some statements name."""

    def __init__(self, random: Random, own: str, foreign: list[str], foreign_share: float) -> None:
        self._random = random
        self._own = own
        self._foreign = foreign
        self._share = foreign_share
        self._named: set[Named] = set()
        self._number = 0

    def next(self) -> NamedStatement:
        """The next statement, with blanks and comments between some of its words."""
        self._named = set()
        text = self._random.choice(self._kinds())()
        return NamedStatement(text, self._named)

    # -- words -------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _fresh(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _gap(self) -> str:
        """Nothing, blanks or a comment with names in it, as they may stand between a name and a point."""
        return self._random.choice(["", "", "", " ", "/* b.t1 */", " /* t2@b */ ", "\n"])

    def _identifier(self, name: str) -> str:
        cased = self._random.choice([name, name.upper(), name.capitalize()])
        return f"`{cased}`" if self._chance(0.3) else cased

    def _table(self, *, output: bool = False, link: bool = True) -> str:
        name = f"t{self._random.randrange(1, 6)}"
        database = None
        if self._chance(self._share):
            database = self._random.choice(self._foreign)
        elif self._chance(0.2):
            database = self._own
        namespace = self._random.choice(self._foreign) if link and not output and self._chance(0.3) else None
        self._named.add(Named(output, database, name, namespace))
        text = self._identifier(name)
        if namespace is not None:
            text = f"{text}{self._gap()}@{self._gap()}{self._identifier(namespace)}"
        if database is not None:
            text = f"{self._identifier(database)}{self._gap()}.{self._gap()}{text}"
        return text

    def _comment(self) -> str:
        return self._random.choice(["", "", f" /* FROM {self._foreign[0]}.t1 */ ", f" -- {self._foreign[0]}.t1\n"])

    # -- queries -----------------------------------------------------------------

    def _query(self, depth: int = 3, ctes: tuple[str, ...] = ()) -> str:
        if depth > 1 and self._chance(0.25):
            name = self._fresh("c")
            inner = self._query(depth - 1, ctes)
            return f"WITH {name} AS ({inner}) {self._query(depth - 1, (*ctes, name))}"
        text = self._select(depth, ctes)
        if depth > 1 and self._chance(0.2):
            operator = self._random.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
            text = f"{text} {operator} {self._select(depth - 1, ctes)}"
        return text

    def _select(self, depth: int, ctes: tuple[str, ...]) -> str:
        if self._chance(0.05):
            return "SELECT 'b.t1' AS id, \"x@y.z\" AS v"
        alias = self._fresh("s")
        text = f"SELECT {alias}.id, 'from {self._foreign[0]}.t1@x' AS v FROM{self._comment()} "
        text += self._source(depth, ctes, alias)
        while self._chance(0.3):
            other = self._fresh("j")
            join = self._random.choice(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "FULL OUTER JOIN"])
            text += f" {join} {self._source(depth - 1, ctes, other)} ON {alias}.id = {other}.id"
        if depth > 0 and self._chance(0.3):
            where = self._random.choice(["{a}.id IN ({q})", "EXISTS ({q})", "{a}.id = (SELECT max(id) FROM ({q}) m)"])
            text += " WHERE " + where.format(a=alias, q=self._query(depth - 1, ctes))
        return text + self._comment()

    def _source(self, depth: int, ctes: tuple[str, ...], alias: str) -> str:
        if ctes and self._chance(0.4):
            return f"{self._random.choice(ctes)} AS {alias}"
        if depth > 0 and self._chance(0.25):
            return f"({self._query(depth - 1, ctes)}) {alias}"
        return f"{self._table()} {self._random.choice(['', 'AS '])}{alias}"

    # -- statements ----------------------------------------------------------------

    def _kinds(self) -> list[Callable[[], str]]:
        return [
            *[self._query] * 4,
            lambda: f"DESCRIBE QUERY {self._query()}",
            lambda: f"INSERT {self._random.choice(['INTO', 'OVERWRITE'])} {self._table(output=True)} {self._query()}",
            lambda: f"INSERT INTO TABLE {self._table(output=True)} VALUES (1, 'b.t1')",
            self._multi_insert,
            self._update,
            self._delete,
            self._merge,
            lambda: f"CREATE TABLE {self._table(output=True)} AS {self._query()}",
            lambda: f"CREATE OR REPLACE VIEW {self._table(output=True)} AS {self._query()}",
            lambda: f"CREATE TABLE {self._table(output=True)} (id int)",
            lambda: f"CREATE TABLE {self._table(output=True)} LIKE {self._table()} LOCATION 'b.t1'",
            lambda: f"DROP TABLE IF EXISTS {self._table(output=True)}",
            lambda: f"DROP VIEW {self._table(output=True)}",
            lambda: f"TRUNCATE TABLE {self._table(output=True)}",
            lambda: f"LOAD DATA INPATH '/b.t1' INTO TABLE {self._table(output=True)}",
            lambda: f"ALTER TABLE {self._table(output=True)} ADD PARTITION (ds = 'b.t1')",
            lambda: f"ALTER TABLE {self._table(output=True)} DROP PARTITION (ds < 'b.t1')",
            lambda: f"ALTER TABLE {self._table(output=True)} SET TBLPROPERTIES ('b.t1' = 'x@y')",
            lambda: f"ALTER TABLE {self._table(output=True)} ADD COLUMNS (x int)",
            lambda: f"ALTER TABLE {self._table(output=True)} RENAME TO {self._table(output=True)}",
            lambda: f"ALTER TABLE {self._table(output=True)} COMPACT 'major'",
            lambda: f"ANALYZE TABLE {self._table(output=True)} COMPUTE STATISTICS NOSCAN",
            lambda: f"DESCRIBE FORMATTED {self._table()}",
            lambda: f"SHOW PARTITIONS {self._table()}",
            lambda: f"SHOW COLUMNS IN {self._table()}",
            lambda: f"SHOW TBLPROPERTIES {self._table()} ('b.t1')",
            lambda: f"COMMENT ON TABLE {self._table(output=True)} IS 'b.t1'",
            lambda: f"SHOW CREATE TABLE {self._table()}",
            lambda: f"SHOW LOCKS {self._table(link=False)}",
            lambda: f"SHOW COPIES {self._table()}",
            lambda: f"REPLICATE TABLE {self._table(link=False)} TO CLUSTER c2",
            lambda: f"EXPLAIN EXTENDED {self._query()}",
            lambda: f"EXPLAIN ROUTE {self._query()}",
            lambda: f"ALTER TABLE {self._table(output=True)} SET PRIMARY CLUSTER c2",
            lambda: f"ALTER TABLE {self._table(output=True)} DROP COPY ON CLUSTER c2",
            lambda: f"ALTER TABLE {self._table(output=True)} PARTITION (ds = '1') DROP COPY ON CLUSTER c2",
            lambda: f"ALTER TABLE {self._table(output=True)} PARTITION (ds = '1') RENAME TO PARTITION (ds = 'b.t1')",
            lambda: f"ALTER TABLE {self._table(output=True)} CHANGE COLUMN id id bigint COMMENT 't2@b'",
            lambda: f"ALTER TABLE {self._table(output=True)} REPLACE COLUMNS (id int)",
            lambda: f"ALTER TABLE {self._table(output=True)} DROP COLUMN v",
            lambda: f"ALTER TABLE {self._table(output=True)} UNSET TBLPROPERTIES ('b.t1')",
            lambda: f"ALTER TABLE {self._table(output=True)} PARTITION (ds = '1') COMPACT 'minor'",
            lambda: f"ANALYZE TABLE {self._target()} PARTITION (ds) COMPUTE STATISTICS FOR ALL COLUMNS",
            lambda: f"OPTIMIZE {self._table(output=True)}",
            lambda: f"VACUUM {self._table(output=True)} DRY RUN",
            lambda: f"TRUNCATE TABLE {self._table(output=True)} PARTITION (ds = 'b.t1')",
            lambda: f"SHOW COMPACTIONS {self._table(link=False)}",
        ]

    def _multi_insert(self) -> str:
        source = self._table() if self._chance(0.5) else f"({self._query(2)})"
        text = f"FROM {source} x"
        for _ in range(self._random.randrange(2, 4)):
            text += f" INSERT INTO {self._table(output=True)} SELECT x.id"
            if self._chance(0.4):
                text += f" WHERE x.id IN ({self._query(1)})"
        return text

    def _target(self) -> str:
        """The target of a statement that changes rows, which reads it, too."""
        text = self._table(output=True)
        self._named |= {each._replace(is_output=False) for each in self._named}
        return text

    def _update(self) -> str:
        text = f"UPDATE {self._target()} AS u SET v = 'b.t1'"
        return f"{text} WHERE u.id IN ({self._query(2)})" if self._chance(0.6) else text

    def _delete(self) -> str:
        text = f"DELETE FROM {self._target()} AS u"
        return f"{text} WHERE EXISTS ({self._query(2)})" if self._chance(0.6) else text

    def _merge(self) -> str:
        target = self._target()
        source = self._table() if self._chance(0.5) else f"({self._query(2)})"
        text = f"MERGE INTO {target} AS u USING {source} AS s ON u.id = s.id"
        if self._chance(0.5):
            text += " WHEN MATCHED THEN UPDATE SET v = 'b.t1'"
        else:
            text += " WHEN MATCHED THEN DELETE"
        return text + self._random.choice(["", " WHEN NOT MATCHED THEN INSERT *"])
