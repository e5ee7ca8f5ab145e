"""Conditions that restrict a table are found, and only those: pruning must not change a result."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hivex.core.model.expressions import Call, Constant
from airflow_hivex.core.model.predicates import (
    And,
    ColumnReference,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
    evaluate,
)
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select, TableReference

DS = ColumnReference("ds")
ONE = Constant(1, "int")


def references(text: str, parameters: Mapping[str, object] | None = None) -> dict[str, TableReference]:
    statement = read(text, parameters)
    assert isinstance(statement, Select)
    return {reference.table.name: reference for reference in statement.query.references}


def filters(condition: str, parameters: Mapping[str, object] | None = None) -> tuple[Predicate, ...]:
    return references(f"SELECT * FROM p WHERE {condition}", parameters)["p"].filters


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("ds = '1'", Comparison(DS, "=", "1")),
        ("ds == 1", Comparison(DS, "=", 1)),
        ("ds <> 1", Comparison(DS, "<>", 1)),
        ("ds != 1", Comparison(DS, "<>", 1)),
        ("ds <=> NULL", Comparison(DS, "<=>", None)),
        ("ds IS DISTINCT FROM 1", Not(Comparison(DS, "<=>", 1))),
        ("5 > ds", Comparison(DS, "<", 5)),
        ("5 <= ds", Comparison(DS, ">=", 5)),
        ("(ds) = (1)", Comparison(DS, "=", 1)),
        ("`DS` = -3", Comparison(DS, "=", -3)),
        ("ds = -3L", Comparison(DS, "=", -3)),
        ("ds = 2S", Comparison(DS, "=", 2)),
        ("ds = 1.50", Comparison(DS, "=", Decimal("1.50"))),
        ("ds = 1e3", Comparison(DS, "=", 1000.0)),
        ("ds = 1.5D", Comparison(DS, "=", 1.5)),
        ("ds = true", Comparison(DS, "=", True)),
        ("ds = DATE '2013-01-31'", Comparison(DS, "=", date(2013, 1, 31))),
        ("ds < TIMESTAMP '2013-01-31 01:02:03.5'", Comparison(DS, "<", datetime(2013, 1, 31, 1, 2, 3, 500000))),  # noqa: DTZ001
        ("ds = 'it''s'", Comparison(DS, "=", "it's")),
        (r"ds = 'a\tb'", Comparison(DS, "=", "a\tb")),
        (r"ds = r'a\tb'", Comparison(DS, "=", r"a\tb")),
        (r"ds = '\u0041'", Comparison(DS, "=", "A")),
        ("ds BETWEEN 1 AND 3", And((Comparison(DS, ">=", 1), Comparison(DS, "<=", 3)))),
        ("ds BETWEEN 1 AND f(x)", And((Comparison(DS, ">=", 1), Unknown()))),
        ("ds NOT BETWEEN 1 AND 3", Not(And((Comparison(DS, ">=", 1), Comparison(DS, "<=", 3))))),
        ("ds IN (1, -2, NULL)", In(DS, (1, -2, None))),
        ("ds NOT IN ('a')", Not(In(DS, ("a",)))),
        (r"ds LIKE 'a\_%'", Like(DS, r"a\_%")),
        ("ds NOT LIKE 'a%'", Not(Like(DS, "a%"))),
        ("ds IS NULL", IsNull(DS)),
        ("ds IS NOT NULL", Not(IsNull(DS))),
        ("NOT ds = 1", Not(Comparison(DS, "=", 1))),
        ("! ds = 1", Not(Comparison(DS, "=", 1))),
        ("ds = 1 OR ds = 2 OR ds IS NULL", Or((Comparison(DS, "=", 1), Comparison(DS, "=", 2), IsNull(DS)))),
        (
            "(ds = 1 AND f(x)) OR (ds = 2 AND f(x) = 3)",
            Or((And((Comparison(DS, "=", 1), Unknown())), And((Comparison(DS, "=", 2), Unknown())))),
        ),
        ("ds", Comparison(DS, "=", True)),
        ("ds + 1 = 2", Comparison(Call("+", (DS, ONE)), "=", 2)),
        ("'A' = upper(ds)", Comparison(Call("upper", (DS,)), "=", "A")),
        ("ds = upper('a')", Comparison(DS, "=", "A")),
        ("ds = 1 + 1", Comparison(DS, "=", 2)),
        ("ds = 'a' || 'b'", Comparison(DS, "=", "ab")),
        ("ds = CAST('1' AS INT)", Comparison(DS, "=", 1)),
        ("ds >= date_sub('2013-01-05', 3)", Comparison(DS, ">=", date(2013, 1, 2))),
        ("ds LIKE 'a!%!!%' ESCAPE '!'", Like(DS, r"a\%!%")),
        (r"ds NOT LIKE 'a\\/_' ESCAPE '/'", Not(Like(DS, r"a\\\_"))),
        ("ds ILIKE 'A%'", Like(Call("lower", (DS,)), "a%")),
        ("year(ds) IN (1, 2)", In(Call("year", (DS,)), (1, 2))),
        ("Year(p.ds) IS NULL", IsNull(Call("year", (ColumnReference("ds", "p"),)))),
        ("`year`(ds) = 1", Comparison(Call("year", (DS,)), "=", 1)),
        ("substr(ds, 1, 7) = 'a'", Comparison(Call("substring", (DS, ONE, Constant(7, "int"))), "=", "a")),
        ("substring(ds FROM 1 FOR 7) = 'a'", Comparison(Call("substring", (DS, ONE, Constant(7, "int"))), "=", "a")),
        ("trim(ds) = 'a'", Comparison(Call("trim", (DS,)), "=", "a")),
        ("ds::date > '2013'", Comparison(Call("cast date", (DS,)), ">", "2013")),
        ("try_cast(ds AS BIGINT) = 1", Comparison(Call("cast bigint", (DS,)), "=", 1)),
        ("string(ds) = '1'", Comparison(Call("cast string", (DS,)), "=", "1")),
        ("extract(MONTH FROM ds) = 1", Comparison(Call("month", (DS,)), "=", 1)),
        ("startswith(ds, '1')", Comparison(Call("startswith", (DS, Constant("1", "string"))), "=", True)),
        ("concat(ds, hr) < 'a'", Comparison(Call("concat", (DS, ColumnReference("hr"))), "<", "a")),
        ("-ds % 2 = 1", Comparison(Call("mod", (Call("negative", (DS,)), Constant(2, "int"))), "=", 1)),
        ("ds = DATE '2013-1-31'", Comparison(DS, "=", date(2013, 1, 31))),
        ("p.ds = 1", Comparison(ColumnReference("ds", "p"), "=", 1)),
        ("P.Ds = 1", Comparison(ColumnReference("ds", "p"), "=", 1)),
    ],
)
def test_condition_is_read_exactly(condition: str, expected: Predicate) -> None:
    assert filters(condition) == (expected,)


@pytest.mark.parametrize(
    "condition",
    [
        "true",
        "1 = 1",
        "ds = hr",
        "ds = 'a' 'b'",
        "ds = CAST(1.5 AS INT)",
        "ds = 1F",
        "ds = X'00'",
        "ds = DATE '2013-1'",
        "ds = DATE '٢٠١٣-1-1'",
        "ds = DATE '2013-02-30'",
        "ds = TIMESTAMP '2013-01-01 00:00:00 UTC'",
        "ds = 300Y",
        "ds LIKE ANY ('a', 'b')",
        "ds RLIKE 'a'",
        "ds IN (1, f(x))",
        "year(DISTINCT ds) = 1",
        "ds || 1 + 2 = 'a'",
        "CAST(ds AS STRING COLLATE UTF8_LCASE) = 'a'",
        "CAST(ds AS CHAR(3)) = 'a'",
        "db.year(ds) = 1",
        "trim(BOTH 'x' FROM ds) = 'a'",
        "ds LIKE 'a!b' ESCAPE '!'",
        "ds LIKE 'a!' ESCAPE '!'",
        "CAST(ds AS DECIMAL(3,1)) = 1",
        "CAST(ds AS VARCHAR(3)) = 'a'",
        "year(s.ds) = 1",
        "ds / 2 = 1",
        "rand() < 1",
        "ds >= current_date()",
        "ds = 1 div 0",
        "year(current_timestamp()) = 2013",
        "ds IN (SELECT 1)",
        "(ds, hr) IN ((1, 2))",
        "ds = (SELECT max(1))",
        "ds COLLATE UTF8_LCASE = 'a'",
        "s.ds = 1",
        "p.s.ds = 1",
        "ds = 1 OR f(x)",
        "NOT (ds = 1 AND f(x))",
        "if(ds = 1, true, false)",
        "EXISTS (SELECT 1 WHERE 1 = 1)",
    ],
)
def test_condition_that_cannot_rule_a_row_out_is_left_to_spark(condition: str) -> None:
    assert filters(condition) == ()


def test_conjuncts_are_apart_and_parameters_have_their_values() -> None:
    assert filters("ds = :d AND (hr > :h AND f(x) = :x)", {"d": "1", "h": 2, "x": 3}) == (
        Comparison(DS, "=", "1"),
        Comparison(ColumnReference("hr"), ">", 2),
    )


@pytest.mark.parametrize("value", [float("nan"), b"x", datetime.fromisoformat("2013-01-01T00:00:00+00:00")])
def test_parameters_that_python_compares_in_another_way_are_not_used(value: object) -> None:
    assert filters("ds = :d", {"d": value}) == ()


def test_filters_stand_at_their_own_table() -> None:
    found = references("SELECT * FROM db.p JOIN q AS x ON p.id = x.id AND x.ds = 1 WHERE db.p.ds = 2 AND hr = 3")
    loose = Comparison(ColumnReference("hr"), "=", 3)
    assert found["p"].filters == (Comparison(ColumnReference("ds", "p"), "=", 2), loose)
    assert found["q"].filters == (Comparison(ColumnReference("ds", "x"), "=", 1), loose)


def count_filters(text: str) -> dict[str, int]:
    return {name: len(reference.filters) for name, reference in references(text).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM p LEFT JOIN q ON p.ds = 1 AND q.ds = 1", {"p": 0, "q": 1}),
        ("SELECT * FROM p RIGHT JOIN q ON p.ds = 1 AND q.ds = 1", {"p": 1, "q": 0}),
        ("SELECT * FROM p FULL JOIN q ON p.ds = 1 AND q.ds = 1", {"p": 0, "q": 0}),
        ("SELECT * FROM p CROSS JOIN q WHERE p.ds = 1 AND q.ds = 1", {"p": 1, "q": 1}),
        ("SELECT * FROM p, q WHERE p.ds = 1 AND q.ds = 1", {"p": 1, "q": 1}),
        ("SELECT * FROM p LEFT JOIN q ON true WHERE q.ds = 1", {"p": 0, "q": 1}),
        ("SELECT * FROM p LEFT JOIN q ON true WHERE q.ds IS NULL", {"p": 0, "q": 0}),
        ("SELECT * FROM p LEFT JOIN q ON true WHERE (q.ds IS NULL AND x = 1) OR q.ds = 1", {"p": 0, "q": 0}),
        ("SELECT * FROM p LEFT JOIN q ON true WHERE p.ds IS NULL", {"p": 1, "q": 0}),
        ("SELECT * FROM p SEMI JOIN q ON p.id = q.id AND p.ds = 1 AND q.ds = 1", {"p": 1, "q": 1}),
        ("SELECT * FROM p LEFT ANTI JOIN q ON p.id = q.id AND p.ds = 1 AND q.ds = 1", {"p": 0, "q": 1}),
        ("SELECT * FROM p LEFT SEMI JOIN q ON p.id = q.id WHERE ds = 1", {"p": 1, "q": 0}),
        ("SELECT * FROM p ANTI JOIN q ON p.id = q.id WHERE ds = 1", {"p": 1, "q": 0}),
        ("SELECT * FROM p LEFT JOIN q USING (ds) WHERE ds = 1", {"p": 1, "q": 0}),
        ("SELECT * FROM p NATURAL LEFT JOIN q WHERE ds = 1", {"p": 1, "q": 0}),
        ("SELECT * FROM p WHERE ds = 1 AND NOT EXISTS (SELECT 1 FROM q WHERE q.ds = 1 AND p.hr = 2)", {"p": 1, "q": 1}),
        ("SELECT * FROM p WHERE ds IN (SELECT ds FROM q WHERE hr = 1)", {"p": 0, "q": 1}),
        ("SELECT * FROM (SELECT * FROM p) x WHERE x.ds = 1", {"p": 1}),
        ("SELECT * FROM (SELECT * FROM p WHERE ds = 1) x", {"p": 1}),
        ("SELECT sum(x) FILTER (WHERE ds = 1) FROM p", {"p": 0}),
        ("SELECT ds FROM p GROUP BY ds HAVING ds = 1", {"p": 0}),
        ("SELECT * FROM p AS x(ds, hr) WHERE ds = 1", {"p": 0}),
        ("SELECT * FROM p TABLESAMPLE (5 ROWS) WHERE ds = 1", {"p": 0}),
        ("SELECT * FROM p PIVOT (sum(x) AS ds FOR y IN (1, 2)) WHERE ds = 1", {"p": 0}),
        ("SELECT * FROM p LATERAL VIEW explode(x) v AS c WHERE p.ds = 1", {"p": 1}),
        ("SELECT ds FROM p WHERE ds = 1 UNION ALL SELECT ds FROM q WHERE ds = 2", {"p": 1, "q": 1}),
        ("SELECT * FROM (p JOIN q ON p.id = q.id AND q.ds = 1) g WHERE g.ds = 1 AND ds = 2", {"p": 0, "q": 1}),
        ("SELECT * FROM p LEFT JOIN (q JOIN r ON q.ds = 1) ON r.ds = 2 AND p.ds = 3", {"p": 0, "q": 1, "r": 1}),
    ],
)
def test_only_what_a_condition_restricts_is_restricted(text: str, expected: dict[str, int]) -> None:
    assert count_filters(text) == expected


# -- pruning by the filters leaves every result as it is, checked with SQLite ------------------

COLUMNS = {"p": ("ds", "hr", "a"), "q": ("ds", "hr", "b"), "r": ("ds", "k")}
LOOSE = {"p": "a", "q": "b", "r": "k"}
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
Rows = Mapping[str, Sequence[Sequence[int | None]]]

cells = st.one_of(st.none(), st.integers(0, 2))
tables = st.fixed_dictionaries(
    {name: st.lists(st.tuples(*[cells] * len(columns)), max_size=5) for name, columns in COLUMNS.items()}
)


def columns_of(names: str, merged: bool) -> st.SearchStrategy[str]:
    qualified = [f"{name}.{column}" for name in names for column in COLUMNS[name]]
    return st.sampled_from([*qualified, *(LOOSE[name] for name in names), *(["ds"] if merged else [])])


def conditions(names: str, merged: bool = False) -> st.SearchStrategy[str]:
    column, value = columns_of(names, merged), st.integers(0, 2)
    operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    atom = st.one_of(
        st.builds("{} {} {}".format, column, operator, value),
        st.builds("{} {} {}".format, value, operator, column),
        st.builds("{} = {}".format, column, column),
        st.builds("{} IS NULL".format, column),
        st.builds("{} IS NOT NULL".format, column),
        st.builds("{} IN ({}, {})".format, column, value, st.sampled_from(["NULL", "1", "2"])),
        st.builds("{} BETWEEN {} AND {}".format, column, value, value),
    )
    return st.recursive(
        atom,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
        ),
        max_leaves=5,
    )


@st.composite
def queries(draw: st.DrawFn) -> str:
    first, second = draw(st.sampled_from(JOINS)), draw(st.sampled_from(JOINS))
    merged = False
    match draw(st.sampled_from(["chain", "group", "using"])):
        case "chain":
            source = f"p {first} q ON {draw(conditions('pq'))} {second} r ON {draw(conditions('pqr'))}"
        case "group":
            source = f"p {first} (q {second} r ON {draw(conditions('qr'))}) ON {draw(conditions('pqr'))}"
        case _:
            source, merged = f"p {first} q USING (ds) {second} r USING (ds)", True
    where = draw(st.one_of(st.just(""), conditions("pqr", merged).map(" WHERE {}".format)))
    columns = ", ".join(f"{name}.{column}" for name, columns in COLUMNS.items() for column in columns)
    return f"SELECT {columns} FROM {source}{where}"


def run(text: str, rows: Rows) -> list[str]:
    database = sqlite3.connect(":memory:")
    try:
        for name, columns in COLUMNS.items():
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows[name])
        return sorted(map(repr, database.execute(text)))
    finally:
        database.close()


@settings(max_examples=200, deadline=None)
@given(text=queries(), rows=tables)
def test_pruning_by_the_filters_changes_no_result(text: str, rows: Rows) -> None:
    pruned = {
        name: [
            row
            for row in rows[name]
            if all(
                evaluate(predicate, dict(zip(COLUMNS[name], row, strict=True))) is not Truth.NO
                for predicate in reference.filters
            )
        ]
        for name, reference in references(text).items()
    }
    assert run(text, pruned) == run(text, rows)
