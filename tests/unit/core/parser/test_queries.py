"""Every table that a query reads is found at its place, and nothing else is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import pytest

from airflow_hivex.core.errors import InvalidParametersError, StatementSyntaxError, UnsupportedStatementError
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Query, Select, TableName


def query(text: str, parameters: Mapping[str, object] | None = None, database: str | None = None) -> Query:
    statement = read(text, parameters, database=database)
    assert isinstance(statement, Select)
    return statement.query


def tables(text: str) -> list[str]:
    return [str(reference.table) for reference in query(text).references]


def render(text: str, database: str | None = None) -> str:
    found = query(text, database=database)
    return found.render([f"v{position}" for position in range(len(found.references))])


READS = [
    ("SELECT 1", []),
    ("VALUES (1), (2)", []),
    ("SELECT * FROM t", ["t"]),
    ("SELECT * FROM Db.T", ["db.t"]),
    ("SELECT * FROM `db` . `t`", ["db.t"]),
    ("TABLE t", ["t"]),
    ("(TABLE t) UNION TABLE db.u", ["t", "db.u"]),
    ("WITH c AS (SELECT 1) TABLE u", ["u"]),
    ("FROM t SELECT x WHERE y = 1", ["t"]),
    ("SELECT table FROM t", ["t"]),
    ("SELECT * FROM a, b JOIN c ON a.x = c.x LEFT SEMI JOIN d ON d.x = a.x", ["a", "b", "c", "d"]),
    ("SELECT * FROM (a JOIN b ON a.x = b.x) g, ((c)), ((SELECT 1) s CROSS JOIN d)", ["a", "b", "c", "d"]),
    ("SELECT * FROM (SELECT * FROM (SELECT * FROM t) a) b", ["t"]),
    ("SELECT (SELECT max(x) FROM u) FROM t WHERE y IN (SELECT y FROM v) AND EXISTS (SELECT 1 FROM w)", "utvw"),
    ("SELECT x FROM t GROUP BY x HAVING count(*) > (SELECT 1 FROM u) ORDER BY (SELECT 2 FROM v)", ["t", "u", "v"]),
    ("SELECT CASE WHEN EXISTS (SELECT 1 FROM u) THEN 1 ELSE 2 END FROM t", ["u", "t"]),
    ("SELECT * FROM a UNION SELECT * FROM b EXCEPT SELECT * FROM c INTERSECT SELECT * FROM d MINUS TABLE e", "abcde"),
    ("SELECT * FROM t JOIN u ON t.x = u.x AND u.y IN (SELECT y FROM v)", ["t", "u", "v"]),
    ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.x = t.x) l", ["t", "u"]),
    ("SELECT * FROM t LATERAL VIEW OUTER explode(x) v AS c", ["t"]),
    ("SELECT * FROM range(10) r JOIN explode(array(1)) e JOIN VALUES (1) AS v(a)", []),
    ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", ["t"]),
    ("SELECT * FROM t UNPIVOT (a FOR b IN (x, y)) u", ["t"]),
    ("SELECT /*+ BROADCAST(x), MERGE(a.b) */ * FROM t x", ["t"]),
    ("SELECT 'FROM a', \"FROM b\", `FROM c` /* FROM d */ FROM t -- FROM e", ["t"]),
    ("SELECT * FROM t -- FROM a \\\n JOIN b\n JOIN u", ["t", "u"]),
    ("SELECT 'it''s' FROM t /* a /* FROM b */ FROM c */ WHERE x = 'y'''", ["t"]),
    ("SELECT trim(BOTH FROM x), extract(YEAR FROM d), x IS DISTINCT FROM y FROM t", ["t"]),
    ("SELECT count(x) OVER w FROM t WINDOW w AS (PARTITION BY a ORDER BY b)", ["t"]),
    ("SELECT transform(x, y -> y + 1) FROM t", ["t"]),
    ("SELECT struct(t.a x, (SELECT max(b) FROM u) m, *), first(a IGNORE NULLS) FROM t", ["u", "t"]),
    ("SELECT CAST(x AS STRUCT<a: INT, b: ARRAY<STRING>>), y :: INT FROM t", ["t"]),
    # names of WITH
    ("WITH c AS (SELECT * FROM t) SELECT * FROM c", ["t"]),
    ("WITH c AS (SELECT * FROM t), d AS (SELECT * FROM C) SELECT * FROM d, c", ["t"]),
    ("WITH d AS (SELECT * FROM c), c AS (SELECT 1) SELECT * FROM d", ["c"]),
    ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
    ("WITH t AS (SELECT * FROM t) SELECT * FROM db.t", ["t", "db.t"]),
    ("WITH c AS (SELECT 1) SELECT * FROM (WITH c AS (SELECT * FROM t) SELECT * FROM c) x, c", ["t"]),
    ("SELECT * FROM (WITH c AS (SELECT * FROM t) SELECT * FROM c) x, c", ["t", "c"]),
    ("WITH c AS (SELECT 1) SELECT * FROM t WHERE x IN (SELECT * FROM c)", ["t"]),
    ("WITH c AS (SELECT 1) SELECT * FROM c UNION ALL SELECT * FROM c JOIN t", ["t"]),
    ("WITH c(a) AS (SELECT 1) (SELECT * FROM c)", []),
    ("(WITH c AS (SELECT 1) SELECT * FROM c) UNION SELECT * FROM c", ["c"]),
    ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r JOIN t) SELECT * FROM r", ["t"]),
    ("SELECT * FROM (SELECT 1) AS t JOIN t", ["t"]),
    # links
    ("SELECT * FROM T@Y", ["t@y"]),
    ("SELECT x.a FROM db.t@`y` AS x, `T` @ z", ["db.t@y", "t@z"]),
    ("SELECT 'a@b' FROM t@y -- c@d", ["t@y"]),
    ("WITH t AS (SELECT 1) SELECT * FROM t, t@y", ["t@y"]),
]


@pytest.mark.parametrize(("text", "expected"), READS)
def test_tables_are_found_in_order(text: str, expected: list[str] | str) -> None:
    assert tables(text) == list(expected)


@pytest.mark.parametrize("text", [text for text, _ in READS])
def test_references_stand_where_their_names_are(text: str) -> None:
    for reference in query(text).references:
        written = text[reference.start : reference.end].replace("`", "").replace(" ", "").lower()
        assert written == str(reference.table)


@pytest.mark.parametrize("text", [text for text, _ in READS if "TABLE" not in text and "@" not in text])
def test_query_rendered_with_its_own_names_reads_the_same_tables(text: str) -> None:
    found = query(text)
    again = query(found.render([f"`x_{reference.table}`" for reference in found.references]))
    assert [f"x_{reference.table}" for reference in found.references] == [str(ref.table) for ref in again.references]
    assert all(reference.has_alias for reference in again.references)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT t.x FROM db.t", "SELECT t.x FROM v0 AS `t`"),
        ("SELECT a.x FROM db.t AS a", "SELECT a.x FROM v0 AS a"),
        ("  SELECT x FROM t ; ", "SELECT x FROM v0 AS `t`"),
        ("SELECT db.t.x, DB.`T`.*, db.t.s.f FROM db.t", "SELECT `t`.x, `t`.*, `t`.s.f FROM v0 AS `t`"),
        (
            "SELECT * FROM db.t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = db.t.x)",
            "SELECT * FROM v0 AS `t` WHERE EXISTS (SELECT 1 FROM v1 AS `u` WHERE u.x = `t`.x)",
        ),
        ("SELECT db.t.x FROM db.t AS a", "SELECT db.t.x FROM v0 AS a"),
        ("SELECT t.s.f FROM db.t", "SELECT t.s.f FROM v0 AS `t`"),
        (
            "SELECT a.t.x, b.t.x FROM a.t JOIN b.t ON a.t.id = b.t.id",
            "SELECT `a__t`.x, `b__t`.x FROM v0 AS `a__t` JOIN v1 AS `b__t` ON `a__t`.id = `b__t`.id",
        ),
        ("SELECT * FROM a.t JOIN b.t USING (id)", "SELECT * FROM v0 AS `t` JOIN v1 AS `t` USING (id)"),
        (
            "WITH t AS (SELECT 1 AS y) SELECT y, db.t.x FROM t, db.t",
            "WITH t AS (SELECT 1 AS y) SELECT y, `db__t`.x FROM t, v0 AS `db__t`",
        ),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "SELECT * FROM v0 TABLESAMPLE (10 PERCENT) AS `t`"),
        (
            "SELECT * FROM t TABLESAMPLE ((5 + 5) PERCENT) REPEATABLE (3) JOIN u",
            "SELECT * FROM v0 TABLESAMPLE ((5 + 5) PERCENT) REPEATABLE (3) AS `t` JOIN v1 AS `u`",
        ),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) x", "SELECT * FROM v0 TABLESAMPLE (5 ROWS) x"),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1))", "SELECT * FROM v0 AS `t` PIVOT (sum(a) FOR b IN (1))"),
        ("TABLE db.t", "TABLE v0"),
        ("SELECT t@y.a FROM T@Y", "SELECT `t`.a FROM v0 AS `t`"),
        ("SELECT t@y.a, db.t.b FROM t@y, db.t", "SELECT `y__t`.a, `db__t`.b FROM v0 AS `y__t`, v1 AS `db__t`"),
        ("SELECT A.`t`@y.a.f, a.t@y.* FROM a.T@Y", "SELECT `t`.a.f, `t`.* FROM v0 AS `t`"),
        ("SELECT t@y.a FROM a.t@y ORDER BY a.t@y.a", "SELECT `t`.a FROM v0 AS `t` ORDER BY `t`.a"),
        (
            "SELECT t.x, t@y.x FROM t JOIN t@y ON t.id = t@y.id",
            "SELECT `__t`.x, `y__t`.x FROM v0 AS `__t` JOIN v1 AS `y__t` ON `__t`.id = `y__t`.id",
        ),
        (
            "SELECT a.t@y.x, c.t@y.x FROM a.t@y, c.t@y",
            "SELECT `a__t`.x, `c__t`.x FROM v0 AS `a__t`, v1 AS `c__t`",
        ),
        (
            "SELECT a.t@y.INPUT__FILE__NAME, a.t.INPUT__FILE__NAME FROM a.t@y, a.t",
            "SELECT input_file_name() AS `INPUT__FILE__NAME`, input_file_name() AS `INPUT__FILE__NAME` "
            "FROM v0 AS `a__t`, v1 AS `a__t_`",
        ),
        # A table is called by another name where a nearer one has its own.
        (
            "SELECT t.x FROM a.t WHERE EXISTS (SELECT 1 FROM b.t WHERE a.t.id = b.t.id AND t.y = 1)",
            "SELECT `a__t`.x FROM v0 AS `a__t` "
            "WHERE EXISTS (SELECT 1 FROM v1 AS `t` WHERE `a__t`.id = `t`.id AND t.y = 1)",
        ),
        (
            "SELECT * FROM a.t@y WHERE id IN (SELECT t.id FROM (SELECT 1 AS id) t WHERE a.t@y.k = t.id)",
            "SELECT * FROM v0 AS `a__t` WHERE id IN (SELECT t.id FROM (SELECT 1 AS id) t WHERE `a__t`.k = t.id)",
        ),
    ],
)
def test_only_table_names_are_replaced(text: str, expected: str) -> None:
    assert render(text) == expected


def test_current_database_explains_qualified_columns() -> None:
    assert render("SELECT db.t.x FROM t", database="DB") == "SELECT `t`.x FROM v0 AS `t`"
    assert render("SELECT db.t.x FROM t", database="other") == "SELECT db.t.x FROM v0 AS `t`"
    assert render("SELECT db.t@y.x FROM t@y", database="DB") == "SELECT `t`.x FROM v0 AS `t`"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t@y.x FROM t",
        "SELECT t@y.x FROM t@y AS a",
        "SELECT a.t@y.x FROM b.t@y",
        "SELECT a.t@y.x FROM t@y",
        "SELECT a.t@y.x FROM t@y AS a",
        "SELECT t@y FROM t@y",
    ],
)
def test_link_that_is_not_read_qualifies_no_column(text: str) -> None:
    with pytest.raises(StatementSyntaxError, match="t@y is not a table that is read here"):
        read(text, database="other")


@pytest.mark.parametrize("name", ["db.t", "db.t@y", "t@y", "t"])
def test_conditions_are_found_by_every_name_of_a_table(name: str) -> None:
    for text in (
        f"SELECT * FROM {name} WHERE {name}.ds = 1",
        f"SELECT id FROM (SELECT {name}.* FROM {name}) WHERE ds = 1",
        f"SELECT n FROM (SELECT {name}.ds, count(*) AS n FROM {name} GROUP BY {name}.ds) WHERE ds = 1",
        f"SELECT * FROM o JOIN {name} ON {name}.id = o.id AND {name}.ds = 1",
    ):
        assert len(query(text).references[-1].filters) == 1, text


def test_columns_of_two_links_are_two() -> None:
    text = "SELECT n FROM (SELECT t@y.ds, count(*) OVER (PARTITION BY u@y.ds) AS n FROM t@y, u@y) WHERE ds = 3"
    assert not any(reference.filters for reference in query(text).references)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.x FROM a.t JOIN b.t ON true",
        "SELECT a.t.x FROM a.t JOIN a.t ON true",
        "WITH t AS (SELECT 1) SELECT t.x FROM t JOIN db.t",
        "SELECT * FROM a.t, b.t WHERE EXISTS (SELECT 1 WHERE t.x = 1)",
        "SELECT t@y.x FROM a.t@y, b.t@y",
        "SELECT * FROM t WHERE id IN (SELECT t@y.id FROM t@y WHERE t.v = t@y.v)",
        "SELECT * FROM u AS t WHERE id IN (SELECT t.id FROM t@y)",
    ],
)
def test_name_that_may_be_two_tables_is_refused(text: str) -> None:
    with pytest.raises(StatementSyntaxError, match="give each an alias"):
        read(text)


def test_two_aliases_of_one_name_are_left_to_spark() -> None:
    assert render("SELECT x.a FROM t x JOIN u x") == "SELECT x.a FROM v0 x JOIN v1 x"


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("SELECT * FROM other_catalog.db.t", 15, "the only catalog"),
        ("SELECT * FROM a.b.c.d", 15, "catalogs|database.table"),
        ("SELECT * FROM parquet.`/data/x`", 15, "path"),
        ("SELECT * FROM csv.`a.csv`", 15, "path"),
        ("SELECT * FROM t WITH (nolock)", 15, "behind the table"),
        ("SELECT * FROM IDENTIFIER(lower('t'))", 15, "IDENTIFIER"),
        ("SELECT * FROM f(TABLE t)", 17, "argument"),
        ("SELECT * FROM f(TABLE(SELECT 1))", 17, "argument"),
        ("SELECT * FROM t WHERE x = ?", 27, ":name"),
        ("SELECT 1 WHERE EXISTS (INSERT INTO t SELECT * FROM c)", 24, "INSERT"),
        ("WITH c AS (DELETE FROM t) SELECT 1", 1, "DELETE"),
        ("WITH c AS (UPDATE t SET a = 1) SELECT 1", 1, "UPDATE"),
        ("SELECT * INTO u FROM t", 1, "INTO"),
        ("SELECT TRANSFORM(a) USING 'cat' AS (b) FROM t", 1, "TRANSFORM"),
    ],
)
def test_query_of_what_is_no_table_is_refused(text: str, column: int, reason: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=reason) as error:
        read(text)
    assert (error.value.line, error.value.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT\n  * FRM t", 2, 9),
        ("SELECT (1", 1, 9),
        ("SELECT 1 FROM", 1, 10),
        ("SELECT * FROM t WHERE", 1, 17),
        ("/* c */ SELECT 1 +", 1, 18),
        ("SELECT * FROM :t", 1, 1),
        ("SELECT * FROM t WHERE a@b = 1", 1, 23),
        ("SELECT * FROM t WHERE a = @b", 1, 27),
        ("SELECT * FROM t JOIN (u", 1, 23),
        ("SELECT * FROM (SELECT 1", 1, 23),
        ("WITH c AS (SELECT 1)", 1, 20),
        ("SELECT FROM t", 1, 13),
        ("SELECT a, FROM t", 1, 9),
        ("SELECT * FROM SELECT t", 1, 22),
        ("SELECT * FROM LATERAL t", 1, 23),
    ],
)
def test_query_that_cannot_be_read_is_refused_at_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(StatementSyntaxError) as error:
        read(text, {"t": 1} if ":t" in text else None)
    assert (error.value.line, error.value.column) == (line, column)
    assert "sqlglot" not in str(error.value)
    assert "\x1b" not in str(error.value)


def test_query_nested_too_deeply_is_refused() -> None:
    with pytest.raises(StatementSyntaxError, match="nested too deeply"):
        read("SELECT " + "(" * 5000 + "1" + ")" * 5000)


def test_long_chains_are_read() -> None:
    assert len(query("SELECT * FROM t WHERE " + " AND ".join(["ds <> 1"] * 3000)).references[0].filters) == 3000
    assert len(tables(" UNION ALL ".join(["SELECT 1 FROM t"] * 1000))) == 1000


# -- parameters ------------------------------------------------------------------------------


def test_markers_are_found_and_strings_and_comments_are_not() -> None:
    found = query(
        "SELECT :a, ':x', \":y\", `:z` /* :u */ FROM t WHERE b = :end AND c IN (:date) LIMIT :n -- :v",
        {"a": 1, "end": 2, "date": 3, "n": 4},
    )
    assert found.parameters == {"a", "end", "date", "n"}


def test_markers_differ_from_the_parts_of_a_variant() -> None:
    text = (
        "SELECT v:a.b::int, :p:c, m[:k]:d, CASE WHEN v:e THEN :y ELSE :z END FROM t WHERE x BETWEEN :l AND :h LIMIT :n"
    )
    assert query(text, dict.fromkeys("pkyzlhn", 1)).parameters == set("pkyzlhn")


@pytest.mark.parametrize(
    ("text", "parameters", "reason"),
    [
        ("SELECT :a, :b", None, "the markers :[ab], :[ab]"),
        ("SELECT :a, :b", {"a": 1}, "no value for :b"),
        ("SELECT :a", {"a": 1, "c": 1, "d": 2}, "no marker uses c, d"),
        ("SELECT ':a'", {"a": 1}, "no marker uses a"),
        ("SHOW TABLES", {"a": 1}, "no marker uses a"),
        ("SELECT :A", {"a": 1}, "no value for :A; no marker uses a"),
        ("SELECT :a", {"a": [1]}, "a is a list"),
        ("SELECT :a", {"a": 2**63}, "bigint"),
        ("SELECT :a", {"a": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-2)))}, "1 to 9999 of UTC"),
        ("SELECT :a", {"a": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))}, "1 to 9999 of UTC"),
        ("SHOW PARTITIONS t PARTITION (ds = :a)", None, ":a"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(text: str, parameters: Mapping[str, object], reason: str) -> None:
    with pytest.raises(InvalidParametersError, match=reason):
        read(text, parameters)


def test_no_parameters_fit_a_statement_without_markers() -> None:
    assert query("SELECT 1", {}).parameters == frozenset()


def test_link_is_a_name_of_its_own() -> None:
    (reference,) = query("SELECT * FROM db.T@Y").references
    assert reference.table == TableName("t", "db", "y")
    assert (reference.alias, reference.has_alias) == ("t", False)


@pytest.mark.parametrize("sample", ["BUCKET 1 OUT OF 2", "bucket 3 out of 16 ON id", "BUCKET 1 OUT OF 4 ON rand()"])
def test_buckets_are_not_sampled_at_random(sample: str) -> None:
    with pytest.raises(UnsupportedStatementError, match="TABLESAMPLE \\(BUCKET"):
        read(f"SELECT * FROM t TABLESAMPLE ({sample}) AS s")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a + .5, 1., .5e2, .5BD FROM t WHERE a > .5",
        "SELECT count(*) FROM t GROUP BY window(ts, '5 minutes'), a",
        "SELECT a << 2, a >> 2, a >>> 2 FROM t",
        "SELECT first_value(a, false), corr(DISTINCT a, b), shuffle(c, 1), new_one(a => 1) FROM t",
        "WITH RECURSIVE r(n) MAX RECURSION LEVEL 200 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r, t",
        "SELECT X '1F', x'1f' FROM t",
        "SELECT * EXCEPT (all) FROM t",
        "WITH x AS (SELECT a FROM t) VALUES (1)",
        "WITH x AS (SELECT a FROM t) (VALUES ((SELECT max(a) FROM x)))",
        "SELECT end, table.key, 1 AS escape FROM t AS table WHERE asc = 1 AND fetch.x > 2",
        "SELECT 1a, 2b.c FROM t",
        "SELECT q, z FROM t LATERAL VIEW explode(x) e c LATERAL VIEW OUTER json_tuple(c, (1)) j q, `z` WHERE q > 1",
        "SELECT c FROM t LATERAL VIEW explode(x) e WHERE c > 1",
        "SELECT c FROM t LATERAL VIEW explode(x) AS c",
        "SELECT * FROM t PIVOT (ceil(sum(a)), avg(a) + 1 AS b FOR c IN ('x', 'y'))",
        "SELECT a FROM t WHERE `it``s` = 'it''s' AND b = r'\\' ORDER BY descr",
        "SELECT v:a, v:['b c'].d[0]::int, count(v:x.from) FROM t WHERE parse_json(w):[1]::string = 'z' GROUP BY v:a",
    ],
)
def test_what_spark_parses_is_read(text: str) -> None:
    assert tables(text) == ["t"]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("FROM t CHANGES FROM VERSION 1 |> WHERE a > 1", 8),
        ("SELECT * FROM t JOIN u APPROX NEAREST 5 BY DISTANCE t.a - u.a", 24),
        ("SELECT * FROM t WATERMARK ts DELAY OF INTERVAL 1 MINUTE", 17),
    ],
)
def test_what_only_spark_has_is_refused_by_name(text: str, column: int) -> None:
    with pytest.raises(UnsupportedStatementError, match="not support") as refused:
        read(text)
    assert refused.value.column == column


@pytest.mark.parametrize(
    ("text", "column"), [("SELECT * FROM t WHERE a = %(key)s", 27), ("INSERT INTO t VALUES (1, %(key)s)", 26)]
)
def test_marker_of_other_drivers_is_named_with_ours(text: str, column: int) -> None:
    with pytest.raises(StatementSyntaxError, match=r"%\(key\)s is a marker of other drivers; write :key") as refused:
        read(text)
    assert refused.value.column == column
    assert tables("SELECT 5 %(key)s FROM t") == ["t"]


def test_words_of_what_only_spark_has_are_names() -> None:
    assert tables("SELECT changes, nearest FROM watermark AS exact") == ["watermark"]
    assert tables("SELECT t.changes FROM version") == ["version"]
    assert tables("SELECT n changes FROM timestamp JOIN table_changes USING (n)") == ["timestamp", "table_changes"]


def test_a_keyword_that_is_no_name_here_is_named_with_a_way_out() -> None:
    with pytest.raises(StatementSyntaxError, match="a name that is a keyword, too, is written in backquotes"):
        read("SELECT qualify FROM t")
    assert tables("SELECT `qualify` FROM t") == ["t"]


def test_a_number_without_a_leading_zero_restricts() -> None:
    (short,), (long,) = (query(f"SELECT * FROM t WHERE a > {text}").references for text in (".5", "0.5"))
    assert short.filters == long.filters != ()
