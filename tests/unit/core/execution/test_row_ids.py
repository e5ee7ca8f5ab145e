"""ROW__ID goes to the table that it is of, and no star shows it."""

from __future__ import annotations

import pytest

from airflow_hivex.core.errors import InvalidOperationError, UnsupportedStatementError
from airflow_hivex.core.execution.row_ids import with_row_ids
from airflow_hivex.core.model.objects import ClusterStorageDescriptor, Column, StorageDescriptor, Table, TableType
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import ChangeRows, MultiInsert, Query, Select, Statement, TableReference

_ACID = {"transactional": "true"}
_INSERT_ONLY = {**_ACID, "transactional_properties": "insert_only"}


def table_of(reference: TableReference) -> Table:
    """``e`` is an external table, ``own`` one with a column row__id, ``i`` insert-only, all others are full ACID."""
    name = reference.table.name
    columns = (Column("id", "int"), *([Column("Row__Id", "string")] if name == "own" else []))
    kind = TableType.EXTERNAL_TABLE if name in ("e", "own") else TableType.MANAGED_TABLE
    parameters = {"e": {}, "own": {}, "i": _INSERT_ONLY}.get(name, _ACID)
    storage = StorageDescriptor(columns, ClusterStorageDescriptor("c1", name))
    return Table("db", name, storage, type=kind, parameters=parameters)


def settled(text: str) -> Statement:
    statement = read(text, database="db")
    assert isinstance(statement, (Select, ChangeRows, MultiInsert))
    return with_row_ids(statement, table_of)


def query(text: str) -> Query:
    statement = settled(text)
    assert isinstance(statement, Select)
    return statement.query


def render(found: Query) -> str:
    """The query, each table under its own name, with the name of its additional column."""
    return found.render(
        [each.table.name + ("" if each.row_id is None else f"+{each.row_id}") for each in found.references]
    )


ONE_TABLE = [
    ("SELECT ROW__ID FROM t", "SELECT ROW__ID FROM t+ROW__ID AS `t`"),
    ("SELECT *, row__id FROM t x", "SELECT * EXCEPT (`ROW__ID`), row__id FROM t+ROW__ID x"),
    ("SELECT x.*, a*2 FROM t x WHERE x.`Row__Id`.rowid = 1", "SELECT x.* EXCEPT (`ROW__ID`), a*2 FROM t+ROW__ID x "),
    ("SELECT db.t.*, db.t.ROW__ID.writeid FROM db.t", "SELECT `t`.* EXCEPT (`ROW__ID`), `t`.ROW__ID.writeid FROM t+"),
    ("SELECT ROW__ID.* FROM t", "SELECT ROW__ID.* FROM t+ROW__ID"),
    ("SELECT t.ROW__ID.*, t.s.* FROM t", "SELECT t.ROW__ID.*, t.s.* FROM t+ROW__ID"),
    ("SELECT count(*), 2 * 3, max(ROW__ID) FROM t", "SELECT count(*), 2 * 3, max(ROW__ID) FROM t+ROW__ID"),
    (
        "SELECT count(DISTINCT *), count(t.*), struct( * ), ROW__ID FROM t",
        "SELECT count(DISTINCT * EXCEPT (`ROW__ID`)), count(t.* EXCEPT (`ROW__ID`)), struct( * EXCEPT (`ROW__ID`) ), ",
    ),
    (
        "SELECT * /* all */ EXCEPT -- but\n (a, s.b), 1 FROM t ORDER BY t.ROW__ID",
        "SELECT * /* all */ EXCEPT -- but\n (`ROW__ID`, a, s.b), 1 FROM t+ROW__ID AS `t` ORDER BY t.ROW__ID",
    ),
    ("TABLE t ORDER BY ROW__ID", "SELECT * EXCEPT (`ROW__ID`) FROM t+ROW__ID ORDER BY"),
    ("FROM t ORDER BY ROW__ID", "SELECT * EXCEPT (`ROW__ID`) FROM t+ROW__ID AS `t` ORDER BY"),
    (
        " TABLE e UNION (FROM ((t)) WHERE ROW__ID.rowid = 1)",
        "TABLE e UNION (SELECT * EXCEPT (`ROW__ID`) FROM ((t+ROW__ID AS `t`)) WHERE ROW__ID.rowid = 1",
    ),
    ("FROM t SELECT * WHERE ROW__ID.rowid > 1", "FROM t+ROW__ID AS `t` SELECT * EXCEPT (`ROW__ID`) WHERE"),
    ("SELECT ROW__ID FROM t GROUP BY ROW__ID ORDER BY ROW__ID.rowid", "SELECT ROW__ID FROM t+ROW__ID"),
    ("SELECT id FROM e JOIN t USING (id) WHERE ROW__ID.rowid = 1", "SELECT id FROM e AS `e` JOIN t+ROW__ID AS `t` US"),
    ("SELECT * FROM t TABLESAMPLE (5 ROWS) WHERE ROW__ID IS NOT NULL", "SELECT * EXCEPT (`ROW__ID`) FROM t+ROW__ID T"),
    (
        "SELECT * FROM e WHERE EXISTS (SELECT * FROM t WHERE t.id = e.id AND ROW__ID.rowid = 1)",
        "SELECT * FROM e AS `e` WHERE EXISTS (SELECT * EXCEPT (`ROW__ID`) FROM t+ROW__ID AS `t` WHERE ",
    ),
    (
        "SELECT * FROM t WHERE EXISTS (SELECT * FROM e WHERE e.id = ROW__ID.rowid)",
        "SELECT * EXCEPT (`ROW__ID`) FROM t+ROW__ID AS `t` WHERE EXISTS (SELECT * FROM e AS `e` WHERE e.id = ROW__ID",
    ),
    (
        "SELECT l.* FROM t, LATERAL (SELECT t.*, t.ROW__ID.rowid AS r) l",
        "SELECT l.* FROM t+ROW__ID AS `t`, LATERAL (SELECT t.* EXCEPT (`ROW__ID`), t.ROW__ID.rowid AS r) l",
    ),
    ("SELECT * FROM e LEFT SEMI JOIN t ON e.id = ROW__ID.rowid", "SELECT * FROM e AS `e` LEFT SEMI JOIN t+ROW__ID"),
    (
        "SELECT * FROM (t JOIN e ON ROW__ID.rowid = e.id) g",
        "SELECT * EXCEPT (`ROW__ID`) FROM (t+ROW__ID AS `t` JOIN e AS `e` ON ROW__ID.rowid = e.id) g",
    ),
]

SEVERAL = [
    (
        "SELECT a.ROW__ID, b.row__id AS x, max(b.ROW__ID.rowid) FROM t a JOIN t b ON a.id = b.id",
        "SELECT a.`__row_id_of_0` AS `ROW__ID`, b.`__row_id_of_1` AS x, max(b.`__row_id_of_1`.rowid) "
        "FROM t+__row_id_of_0 a JOIN t+__row_id_of_1 b ON a.id = b.id",
    ),
    (
        "SELECT *, a.*, a.ROW__ID = b.ROW__ID FROM t a NATURAL JOIN u b",
        "SELECT * EXCEPT (`__row_id_of_0`, `__row_id_of_1`), a.* EXCEPT (`__row_id_of_0`), "
        "a.`__row_id_of_0` = b.`__row_id_of_1` FROM t+__row_id_of_0 a NATURAL JOIN u+__row_id_of_1 b",
    ),
    (
        "SELECT * FROM t LEFT ANTI JOIN u ON t.ROW__ID = u.ROW__ID",
        "SELECT * EXCEPT (`__row_id_of_0`) FROM t+__row_id_of_0 AS `t` LEFT ANTI JOIN u+__row_id_of_1 AS `u` ON ",
    ),
    (
        "SELECT * FROM (SELECT ROW__ID, * FROM t) x WHERE ROW__ID.rowid > 0",
        "SELECT * FROM (SELECT ROW__ID, * EXCEPT (`ROW__ID`) FROM t+ROW__ID AS `t`) x WHERE ROW__ID.rowid > 0",
    ),
    (
        "SELECT * FROM db.t, db2.t WHERE db.t.`ROW__ID` = db2.t . row__id",
        "SELECT * EXCEPT (`__row_id_of_0`, `__row_id_of_1`) FROM t+__row_id_of_0 AS `db__t`, "
        "t+__row_id_of_1 AS `db2__t` WHERE `db__t`.`__row_id_of_0` = `db2__t` . `__row_id_of_1`",
    ),
    (
        "SELECT * FROM t, LATERAL (SELECT t.ROW__ID) l",
        "SELECT * EXCEPT (`__row_id_of_0`) FROM t+__row_id_of_0 AS `t`, LATERAL (SELECT t.`__row_id_of_0` AS `ROW__ID`",
    ),
    (
        "WITH c AS (SELECT row__id FROM t) SELECT c.ROW__ID, t.ROW__ID FROM c JOIN t ON c.ROW__ID = t.ROW__ID",
        "WITH c AS (SELECT `__row_id_of_0` AS `row__id` FROM t+__row_id_of_0 AS `t`) SELECT c.ROW__ID, "
        "t.`__row_id_of_1` AS `ROW__ID` FROM c JOIN t+__row_id_of_1 AS `t` ON c.ROW__ID = t.`__row_id_of_1`",
    ),
    (
        "SELECT ROW__ID FROM t UNION ALL SELECT ROW__ID FROM u ORDER BY ROW__ID",
        "SELECT `__row_id_of_0` AS `ROW__ID` FROM t+__row_id_of_0 AS `t` UNION ALL "
        "SELECT `__row_id_of_1` AS `ROW__ID` FROM u+__row_id_of_1 AS `u` ORDER BY ROW__ID",
    ),
    (
        "SELECT DISTINCT a.ROW__ID FROM t a, u b WHERE a.ROW__ID = b.ROW__ID ORDER BY ROW__ID",
        "SELECT DISTINCT a.`__row_id_of_0` AS `ROW__ID` FROM t+__row_id_of_0 a, u+__row_id_of_1 b WHERE "
        "a.`__row_id_of_0` = b.`__row_id_of_1` ORDER BY ROW__ID",
    ),
    # A column that is called so belongs to whom it belongs to.
    (
        "SELECT own.row__id, t.ROW__ID.rowid FROM own, t",
        "SELECT own.row__id, t.`__row_id_of_1`.rowid FROM own AS `own`,",
    ),
]

UNTOUCHED = [
    "SELECT row__id, * FROM own AS own",
    "SELECT row__id FROM own o JOIN t x ON o.id = x.id",
    "SELECT ROW__ID FROM (SELECT * FROM own o) x",
    "SELECT id AS row__id FROM t x ORDER BY row__id",
    "SELECT id AS row__id, row__id + 1 FROM e x",
    "SELECT s.row__id, m['a'].row__id, transform(xs, row__id -> row__id + 1) FROM t x",
    "SELECT row__id FROM e x LATERAL VIEW explode(xs) v AS row__id",
    "SELECT row__id FROM e x LATERAL VIEW inline(xs) v",
    "SELECT row__id FROM VALUES (1) AS v(row__id)",
    "WITH c(row__id) AS (SELECT id FROM t x) SELECT ROW__ID FROM c",
    "SELECT count(*), a * b FROM t x",
    "SELECT 'ROW__ID', `row__ids` FROM t x -- ROW__ID",
    "SELECT * EXCEPT (row__id) FROM own x",
    "SELECT t.a FROM t row__id JOIN t ON row__id.id = t.id",
]

REFUSED = [
    ("SELECT ROW__ID FROM e", "db.e", "external table"),
    ("SELECT x.ROW__ID.rowid FROM i x", "db.i", "insert-only table"),
    ("SELECT ROW__ID FROM t a JOIN u ON a.id = u.id", r"db.t \(a\) and db.u \(u\)", r"as in a\.ROW__ID"),
    (
        "SELECT id FROM t JOIN (SELECT ROW__ID, id FROM u) x USING (id) WHERE ROW__ID.rowid = 1",
        r"db.t \(t\) and x",
        "say",
    ),
    ("SELECT ROW__ID FROM (SELECT * FROM t) x", "of x", "view or sub-query"),
    ("SELECT x.ROW__ID FROM (SELECT id FROM t) x", "of x", "view or sub-query"),
    ("SELECT ROW__ID FROM t PIVOT (sum(a) FOR b IN (1, 2))", "db.t", "PIVOT"),
    ("DELETE FROM i WHERE ROW__ID.rowid = 1", "db.i", "insert-only"),
    ("MERGE INTO t USING u ON t.id = u.id AND ROW__ID.rowid = 1 WHEN MATCHED THEN DELETE", "db.t .* db.u", "say which"),
    ("MERGE INTO t USING e ON t.id = e.id AND e.ROW__ID = 1 WHEN MATCHED THEN DELETE", "db.e", "external"),
    ("FROM (SELECT id FROM t) x INSERT INTO u SELECT x.ROW__ID.rowid", "of x", "none of its columns"),
]


@pytest.mark.parametrize(("text", "rendered"), [*ONE_TABLE, *SEVERAL])
def test_each_use_reads_its_table_and_no_star_shows_it(text: str, rendered: str) -> None:
    assert render(query(text)).startswith(rendered)


@pytest.mark.parametrize("text", UNTOUCHED)
def test_what_is_no_row_id_stays_as_it_was(text: str) -> None:
    found = query(text)
    assert [each.row_id for each in found.references] == [None] * len(found.references)
    assert render(found) == render(read(text).query)  # type: ignore[union-attr]


@pytest.mark.parametrize(("text", "names", "reason"), REFUSED)
def test_the_table_without_a_row_id_of_its_own_is_named(text: str, names: str, reason: str) -> None:
    with pytest.raises(InvalidOperationError, match=f"{names}.*{reason}"):
        settled(text)


def test_a_query_that_begins_with_from_may_have_to_say_what_it_selects() -> None:
    with pytest.raises(UnsupportedStatementError, match=r"SELECT \*"):
        settled("FROM (SELECT 1 FROM u) a, t WHERE ROW__ID.rowid = 1")


def change(text: str) -> ChangeRows:
    statement = settled(text)
    assert isinstance(statement, ChangeRows)
    return statement


def test_a_change_reads_the_ids_of_its_target_where_it_finds_its_rows() -> None:
    statement = change("UPDATE t SET v = ROW__ID.rowid WHERE t.ROW__ID.rowid IN (SELECT max(ROW__ID.rowid) FROM u)")
    assert statement.target_reference.row_id == "__row_id_of_target"
    assert [each.row_id for each in statement.others] == ["__row_id_of_1"]
    text = render(statement.matched.query)
    assert text.startswith("SELECT `t`.* EXCEPT (`__row_id_of_target`), 0 AS")
    assert "(`__row_id_of_target`.rowid" in text


def test_the_parts_of_a_merge_read_the_ids_that_its_source_was_computed_with() -> None:
    statement = change(
        "MERGE INTO t USING u s ON t.id = s.id WHEN MATCHED AND s.ROW__ID.rowid > 0 THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.ROW__ID.writeid) "
        "WHEN NOT MATCHED BY SOURCE AND ROW__ID.rowid = 2 THEN DELETE"
    )
    assert statement.source is not None
    assert statement.unmatched is not None
    assert statement.unmatched_by_source is not None
    assert render(statement.source).startswith("SELECT *, ")
    assert statement.target_reference.row_id == "__row_id_of_target"
    assert "struct(`s`.* EXCEPT (`__row_id_of_source`))" in render(statement.matched.query)
    assert "s.`__row_id_of_source`.writeid" in render(statement.unmatched.query)
    assert "`__row_id_of_target`.rowid = 2" in render(statement.unmatched_by_source.query)
    assert [each.row_id for each in statement.others] == ["__row_id_of_source"]


def test_a_merge_source_or_a_shared_source_that_names_it_brings_it() -> None:
    merge = change(
        "MERGE INTO t USING (SELECT *, ROW__ID FROM u) s ON t.ROW__ID = s.ROW__ID WHEN MATCHED THEN UPDATE SET v = 1"
    )
    assert merge.source is not None
    assert [each.row_id for each in merge.source.references] == ["ROW__ID"]
    assert "ON (t.`__row_id_of_target` = s.ROW__ID" in render(merge.matched.query)
    several = settled("FROM (SELECT ROW__ID, id FROM t) x INSERT INTO a SELECT ROW__ID.rowid INSERT INTO b SELECT x.*")
    assert isinstance(several, MultiInsert)
    assert [each.row_id for each in several.references] == ["ROW__ID"]
    assert render(several.inserts[0].query).startswith("FROM source 0 x\nSELECT ROW__ID.rowid")
