"""Values of every type, in rows and as partition keys, are what Spark itself makes of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.errors import HivexError, InvalidObjectError
from tests import evidence

pytestmark = pytest.mark.spark

on_sqlite = pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)

COLUMNS = {
    "boolean": ("true", "false", "NULL"),
    "tinyint": ("1Y", "-128", "127"),
    "smallint": ("1S", "-32768", "32767"),
    "int": ("1", "-2147483648", "2147483647"),
    "bigint": ("1L", "-9223372036854775808", "9223372036854775807"),
    "float": ("1.1", "CAST('NaN' AS float)", "3.4028235E38D"),
    "double": ("0.1D", "CAST('-Infinity' AS double)", "4.9E-324D"),
    "decimal(5,2)": ("1.005", "-999.99", "0"),
    "decimal(38,18)": ("12345678901234567890.123456789012345678", "-0.000000000000000001", "7"),
    "string": ("'it''s'", "''", "'Straße 数 \\U0001F600 \\\\n\\n\\0'"),
    "varchar(5)": ("'abc'", "'abcde   '", "'数数数数数'"),
    "char(5)": ("'abc'", "'abcde'", "''"),
    "binary": ("X'00FF10'", "X''", "CAST('é' AS binary)"),
    "date": ("DATE'2013-01-31'", "DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp": (
        "TIMESTAMP'2013-01-31 12:30:00.123456'",
        "TIMESTAMP'1883-11-18 00:00:00.000001'",
        "TIMESTAMP'2013-07-01 00:00:00+05:30'",
    ),
    "timestamp_ntz": (
        "TIMESTAMP_NTZ'2013-03-31 02:30:00'",
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
    ),
    "array<int>": ("array(1, NULL, 3)", "CAST(array() AS array<int>)", "array(1)"),
    "map<string,decimal(4,1)>": ("map('a', 1.5)", "map('a', NULL, 'b', 2.0)", "map('', 0.1)"),
    "struct<a:int,b:struct<c:timestamp_ntz,d:char(2)>>": (
        "named_struct('a', 1, 'b', named_struct('c', TIMESTAMP_NTZ'2013-01-01 00:00:00', 'd', 'xx'))",
        "named_struct('a', NULL, 'b', NULL)",
        "named_struct('x', 2, 'y', named_struct('z', NULL, 'w', 'yz'))",
    ),
    "array<struct<k:string,v:map<int,array<date>>>>": (
        "array(named_struct('k', 'x', 'v', map(1, array(DATE'2020-02-29'))))",
        "array(NULL, named_struct('k', NULL, 'v', map(1, NULL)))",
        "array(named_struct('k', '', 'v', map(2, array(NULL))))",
    ),
    "struct<`1a`:int,`b,c:d`:string,`<e> f`:array<struct<`g.h`:int>>>": (
        "named_struct('1a', 1, 'b,c:d', 'x', '<e> f', array(named_struct('g.h', 1)))",
        "named_struct('1a', NULL, 'b,c:d', NULL, '<e> f', NULL)",
        "named_struct('x', 2, 'y', '', 'z', array(NULL))",
    ),
}
ATOMIC = 16
"""The types without parts come first."""


def literals(row: int) -> list[str]:
    """The constants of one row; after the last one, a row of NULLs."""
    return [values[row] if row < len(values) else "NULL" for values in COLUMNS.values()]


def stored(row: tuple[object, ...]) -> list[str]:
    """The values of a row of casts as a table keeps them: CHAR padded, VARCHAR cut where only spaces are lost."""
    fits = {"char(5)": lambda text: text[:5].ljust(5), "varchar(5)": lambda text: text[:5]}
    return [
        repr(fits[declared](value) if declared in fits and value is not None else value)
        for declared, value in zip(COLUMNS, row, strict=True)
    ]


@pytest.mark.evidence
@on_sqlite
def test_every_type_comes_back_as_spark_makes_it(session: Session) -> None:
    definition = ", ".join(f"c{i} {declared}" for i, declared in enumerate(COLUMNS))
    for table in ("one_by_one", "by_values", "by_select"):
        session.sql(f"CREATE TABLE {table} (n int, {definition})")
    for n in range(4):
        session.sql(f"INSERT INTO by_values VALUES ({n}, {', '.join(literals(n))})")
    sets = evidence.drawn("sets of constants", range(3), 1)
    for n in sets:
        for i, literal in enumerate(literals(n)[:ATOMIC]):
            # Alone, a plain constant is written without Spark, whatever its neighbours need.
            session.sql(f"INSERT INTO one_by_one (n, c{i}) VALUES ({n}, {literal})")
    session.sql("INSERT INTO by_select SELECT * FROM by_values")
    makes = [
        ", ".join(f"CAST({x} AS {declared})" for x, declared in zip(literals(n), COLUMNS, strict=True))
        for n in range(4)
    ]
    made = session.sql(" UNION ALL ".join(f"SELECT {n} AS n, {casts}" for n, casts in enumerate(makes)) + " ORDER BY n")
    expected = [stored(row[1:]) for row in made.rows]
    for table in ("by_values", "by_select"):
        rows = session.sql(f"SELECT * FROM {table} ORDER BY n").rows
        for found, wanted in zip(rows, expected, strict=True):
            assert [table, *map(repr, found[1:])] == [table, *wanted]
    char = list(COLUMNS).index("char(5)")
    assert session.sql(f"SELECT n FROM by_values WHERE c{char} = 'abc'").rows == [(0,)]
    alone = session.sql("SELECT * FROM one_by_one").rows
    for n in sets:
        for i in range(ATOMIC):
            values = {repr(row[i + 1]) for row in alone if row[0] == n} - {"None"}
            assert (n, i, values) == (n, i, {expected[n][i]} - {"None"})


@on_sqlite
def test_a_value_too_wide_for_its_column_is_refused(session: Session) -> None:
    session.sql("CREATE TABLE t (v varchar(3), c char(2), d decimal(3,1), b tinyint)")
    for column, literal in (("v", "'abcd'"), ("c", "'abc'"), ("d", "100.0"), ("b", "128")):
        for source in (f"VALUES ({literal})", f"SELECT {literal}"):
            with pytest.raises(HivexError):
                session.sql(f"INSERT INTO t ({column}) {source}")
    assert session.sql("SELECT * FROM t").rows == []


# -- partition values --------------------------------------------------------------------

ODD = [
    "a/b",
    "a=b",
    "100%",
    "%41",
    "x y",
    " ",
    "数é😀",
    "'q\"",
    "a\nb",
    ".",
    "..",
    "{[*]}?",
    "\\",
    "#:;,&+~^",
    "A",
    "a",
    "null",
]


def test_partition_values_may_hold_any_text(metastore: Metastore, session: Session) -> None:
    session.sql("CREATE TABLE p (way string) PARTITIONED BY (ds string)")
    for i, text in enumerate([*ODD, None, ""]):
        session.sql(f"INSERT INTO p PARTITION (ds = {quoted(text)}) VALUES ('static')")
        session.sql("INSERT INTO p VALUES ('values', :ds)", {"ds": text})
        session.sql("ALTER TABLE p ADD IF NOT EXISTS PARTITION (ds = :ds)", {"ds": text})
        assert len(metastore.catalog.list_partition_names("default", "p")) == min(i, len(ODD)) + 1
    session.sql("INSERT INTO p SELECT 'select', ds FROM p WHERE way = 'static'")
    found = session.sql("SELECT ds, count(*) FROM p GROUP BY ds").rows
    assert sorted(found, key=repr) == sorted([(text, 3) for text in ODD] + [(None, 6)], key=repr)
    where = " UNION ALL ".join(
        f"SELECT {i} AS i, count(*) AS n FROM p WHERE ds = {quoted(x)}" for i, x in enumerate(ODD)
    )
    assert sorted(session.sql(where).rows) == [(i, 3) for i in range(len(ODD))]
    for text in ODD:
        session.sql("ALTER TABLE p DROP PARTITION (ds = :ds)", {"ds": text})
    assert session.sql("SELECT DISTINCT ds FROM p").rows == [(None,)]


def quoted(text: str | None) -> str:
    """The text as a constant of SQL."""
    if text is None:
        return "NULL"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


PROGRAM = """
import sys
from airflow_hivex.core import Metastore
with Metastore.open(sys.argv[1]) as metastore, metastore.session() as session:
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (ds string)")
    session.sql("INSERT INTO p VALUES (1, :ds)", {"ds": sys.argv[2]})
    session.sql("INSERT INTO p SELECT 2, ds FROM p")
    print(session.sql("SELECT sum(a) FROM p WHERE ds = :ds", {"ds": sys.argv[2]}).rows)
"""


def test_partition_values_do_not_depend_on_the_locale(sqlite_url: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    found = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", PROGRAM, sqlite_url, "数é"],
        env={**environment, "LC_ALL": "POSIX"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "[(3,)]\n", found.stderr


KEYS = {
    "boolean": ["true", "false"],
    "tinyint": ["-128", "7"],
    "bigint": ["9223372036854775807"],
    "decimal(5,2)": ["1.5", "-0.05", "0"],
    "double": ["1.5D", "1e10", "0.0001D", "100D"],
    "char(4)": ["'ab'", "'abcd'"],
    "varchar(3)": ["'ab'", "'abc'"],
    "date": ["DATE'2020-02-02'", "DATE'1500-01-01'"],
    "timestamp": ["TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-01-01 10:11:12.5'"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'2020-01-01 10:00:00'"],
}


@on_sqlite
def test_a_key_has_one_partition_for_each_value_however_it_is_written(session: Session) -> None:
    for i, (declared, values) in enumerate(KEYS.items()):
        session.sql(f"CREATE TABLE k{i} (way string) PARTITIONED BY (k {declared})")
        for value in values:
            session.sql(f"INSERT INTO k{i} PARTITION (k = {value}) VALUES ('static')")
        session.sql(f"INSERT INTO k{i} VALUES " + ", ".join(f"('values', {value})" for value in values))
        session.sql(f"INSERT INTO k{i} " + " UNION ALL ".join(f"SELECT 'select', {value}" for value in values))
        assert (declared, len(session.sql(f"SHOW PARTITIONS k{i}").rows)) == (declared, len(values))
        counts = " UNION ALL ".join(
            f"SELECT {n} AS n, count(*) AS c FROM k{i} WHERE k = {x}" for n, x in enumerate(values)
        )
        assert (declared, sorted(session.sql(counts).rows)) == (declared, [(n, 3) for n in range(len(values))])


def test_static_partition_values_must_fit_their_keys(session: Session) -> None:
    session.sql("CREATE TABLE p (a int) PARTITIONED BY (v varchar(3), c char(2), n decimal(3,1), b tinyint)")
    good = {"v": "'abc '", "c": "'a'", "n": "1", "b": "1"}
    for key, bad in (("v", "'abcd'"), ("c", "'abc'"), ("n", "100.0"), ("n", "1.25"), ("b", "128"), ("b", "'x'")):
        values = ", ".join(f"{name} = {value}" for name, value in {**good, key: bad}.items())
        with pytest.raises(InvalidObjectError, match=f"{key}="):
            session.sql(f"INSERT INTO p PARTITION ({values}) VALUES (1)")
    assert session.sql("SHOW PARTITIONS p").rows == []


# -- pruning -----------------------------------------------------------------------------

OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
CONSTANTS = {
    "i": ["-1", "0", "3", "3L", "'7'", "2.5", "10"],
    "d": ["DATE'2020-01-01'", "'2020-02-01'", "DATE'1999-12-31'", "TIMESTAMP'2020-01-01 12:00:00'"],
    "b": ["true", "false", "'true'"],
    "n": ["0", "1.5", "1.50", "-0.25", "'1.5'", "2D"],
    "s": ["'a'", "'B'", "'10'", "9", "''", "'a%'", "'x y'"],
}


def predicate(chance: random.Random, depth: int = 2) -> str:
    """A condition on the keys, of any shape that a user may write."""
    if depth and chance.random() < 0.5:
        joined = chance.choice([" AND ", " OR "]).join(predicate(chance, depth - 1) for _ in range(2))
        return f"NOT ({joined})" if chance.random() < 0.3 else f"({joined})"
    key = chance.choice(list(CONSTANTS))
    constants = [x for x in CONSTANTS[key] if key != "s" or x != "9"] if chance.random() < 0.9 else CONSTANTS[key][:3]
    one, two = chance.choice(constants), chance.choice(constants)
    return chance.choice(
        [
            f"{key} {chance.choice(OPERATORS)} {one}",
            f"{one} {chance.choice(OPERATORS)} {key}",
            f"{key} IN ({one}, {two})",
            f"{key} NOT IN ({one}, NULL)",
            f"{key} BETWEEN {one} AND {two}",
            f"{key} IS {chance.choice(['', 'NOT '])}NULL",
            f"s {chance.choice(['', 'NOT '])}LIKE {chance.choice([chr(39) + x + chr(39) for x in ('a%', '_', '%')])}",
            f"(i, s) IN ((3, 'a'), (0, {chance.choice(CONSTANTS['s'][:3])}))",
            f"coalesce(i, 3) = {chance.choice(['3', '0'])}",
            f"id % 2 = 0 AND {key} = {one}",
        ]
    )


@pytest.mark.evidence
@on_sqlite
def test_pruned_partitions_change_no_answer(session: Session) -> None:
    chance = random.Random(20130101)
    session.sql("CREATE TABLE parts (id int) PARTITIONED BY (i int, d date, b boolean, n decimal(4,2), s string)")
    session.sql("CREATE TABLE plain (id int, i int, d date, b boolean, n decimal(4,2), s string)")
    values = {
        "i": ["-1", "0", "3", "7", "10", "NULL"], "d": ["DATE'2020-01-01'", "DATE'2020-02-01'", "NULL"],
        "b": ["true", "false", "NULL"], "n": ["0", "1.5", "-0.25", "2", "NULL"],
        "s": ["'a'", "'B'", "'10'", "'x y'", "NULL"],
    }  # fmt: skip
    rows = [f"({n}, {', '.join(chance.choice(choices) for choices in values.values())})" for n in range(60)]
    for table in ("parts", "plain"):
        session.sql(f"INSERT INTO {table} VALUES {', '.join(rows)}")
    asked = [[predicate(chance) for _ in range(12)] for _ in range(4)]
    for conditions in evidence.drawn("conditions", asked, 1):
        pruned = session.sql(
            " UNION ALL ".join(
                f"SELECT {n} AS q, count(*) AS c, sum(id) AS s FROM parts WHERE {condition}"
                for n, condition in enumerate(conditions)
            )
        )
        answers = {row[0]: row[1:] for row in pruned.rows}
        (plain,) = session.sql(
            f"SELECT {', '.join(f'count_if({each}), sum(id) FILTER (WHERE {each})' for each in conditions)} FROM plain"
        ).rows
        differing = [each for n, each in enumerate(conditions) if answers[n] != plain[2 * n : 2 * n + 2]]
        assert differing == []


@on_sqlite
def test_conditions_find_days_that_python_does_not_know(session: Session) -> None:
    session.sql("CREATE TABLE days (id INT) PARTITIONED BY (d DATE, n TIMESTAMP_NTZ)")
    years = ["-0044", "0000", "2020", "+10000"]
    rows = ", ".join(f"({at}, DATE'{y}-03-15', TIMESTAMP_NTZ'{y}-03-15 10:00:00')" for at, y in enumerate(years))
    session.sql(f"INSERT INTO days SELECT * FROM VALUES {rows}")
    expected = {
        "d > DATE'2020-01-01'": [2, 3],
        "d <= '2020-03-15'": [0, 1, 2],
        "d <> DATE'2020-03-15'": [0, 1, 3],
        "d IS NOT NULL": [0, 1, 2, 3],
        "d = DATE'0000-03-15'": [1],
        "year(d) < 2020": [0, 1],
        "d BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'": [2],
        "date_add(d, 1) > date(n)": [0, 1, 2, 3],
        "n > TIMESTAMP_NTZ'2020-01-01 00:00:00'": [2, 3],
        "n IS NOT NULL AND n < '2020-01-01'": [0, 1],
        "d IS NULL": [],
    }
    found = session.sql(
        " UNION ALL ".join(f"SELECT {n} AS q, id FROM days WHERE {each}" for n, each in enumerate(expected))
    ).rows
    for n, (condition, ids) in enumerate(expected.items()):
        assert sorted(row for query, row in found if query == n) == ids, condition


@on_sqlite
def test_conditions_on_times_find_rows_by_their_microseconds(session: Session) -> None:
    time, earlier = "2013-01-31 12:30:00.123456", "2013-01-31 12:30:00.1231"
    session.sql("CREATE TABLE t (id int, c timestamp, n timestamp_ntz, s struct<t:timestamp>)")
    for number, text in enumerate((time, earlier, "2013-01-31 12:30:00.123")):
        row = f"{number} AS id, TIMESTAMP'{text}' AS c, TIMESTAMP_NTZ'{text}' AS n"
        session.sql(f"INSERT INTO t SELECT *, named_struct('t', c) FROM (SELECT {row})")
    for column, kind in (("c", "TIMESTAMP"), ("n", "TIMESTAMP_NTZ"), ("s.t", "TIMESTAMP")):
        for condition, expected in {
            "=": [0],
            "<=>": [0],
            "<=": [0, 1, 2],
            "<": [1, 2],
            "<>": [1, 2],
            ">=": [0],
        }.items():
            found = session.sql(f"SELECT id FROM t WHERE {column} {condition} {kind}'{time}' ORDER BY id").rows
            assert [number for (number,) in found] == expected, (column, condition)
    session.sql(f"DELETE FROM t WHERE c = TIMESTAMP'{time}'")
    assert session.sql("SELECT id FROM t ORDER BY id").rows == [(1,), (2,)]


@pytest.mark.evidence(cases=1)
@on_sqlite
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_times_of_both_kinds_are_read_whatever_is_pruned(session: Session, layout: str) -> None:
    moments = {"c": "TIMESTAMP'2013-01-31 12:30:00Z'", "n": "TIMESTAMP_NTZ'0001-01-31 12:30:00.000001'", "s": "'x'"}
    kinds = {"c": "timestamp", "n": "timestamp_ntz", "s": "string"}
    # Whatever a query leaves, one kind comes to stand where a file has the other.
    orders = ["cns", "ncs"]
    structs = {f"s{at}": f"struct<{','.join(f'{f}:{kinds[f]}' for f in fields)}>" for at, fields in enumerate(orders)}
    pairs = [", ".join(f"'{name}', {moments[name]}" for name in fields) for fields in orders]
    values = ", ".join(f"named_struct({pair})" for pair in pairs)
    for at, fields in enumerate(orders):
        columns = {**{name: kinds[name] for name in fields}, **structs}
        declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        session.sql(f"CREATE TABLE t{at} ({declared}) TBLPROPERTIES ('hivex.row.layout' = '{layout}')")
        session.sql(f"INSERT INTO t{at} SELECT {', '.join(moments[name] for name in fields)}, {values}")
    expected = {name: session.sql(f"SELECT {moments[name]}").rows[0][0] for name in moments}
    queries = [
        (f"t{at}", wanted, condition)
        for at in range(len(orders))
        for wanted in ["c", "n"]
        for condition in ["s IS NOT NULL", *(f"s{at}.{wanted} IS NOT NULL" for at in range(len(orders)))]
    ]
    answers = session.sql(
        " UNION ALL ".join(
            f"SELECT {n} AS q, {'c, NULL AS n' if wanted == 'c' else 'NULL AS c, n'} FROM {table} WHERE {condition}"
            for n, (table, wanted, condition) in enumerate(queries)
        )
    )
    found = {query: c if c is not None else n for query, c, n in answers.rows}
    assert {n: found.get(n) for n in range(len(queries))} == {n: expected[each[1]] for n, each in enumerate(queries)}
    session.sql("UPDATE t0 SET s = 'y', s0 = NULL WHERE s1.n IS NOT NULL")
    session.sql("ALTER TABLE t0 DROP COLUMN c")
    assert session.sql("SELECT s, n, s0, s0.n, s1.n FROM t0").rows == [("y", expected["n"], None, None, expected["n"])]


@on_sqlite
def test_texts_are_compared_as_spark_does_whatever_orc_knows_of_them(session: Session) -> None:
    # ORC has the two characters in another order in its statistics than in its comparisons.
    session.sql("CREATE TABLE texts (id INT, s STRING)")
    session.sql(r"INSERT INTO texts SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, '\U0001F600'), (3, '\uFF5E')")
    for condition, parameters in [
        (r"s = '\uFF5E'", {}),
        ("s = :tilde", {"tilde": "\uff5e"}),
        ("s = decode(unhex('EFBD9E'), 'UTF-8')", {}),
        ("s = (SELECT max(s) FROM texts WHERE id = 3)", {}),
    ]:
        rows = session.sql(f"SELECT id FROM texts WHERE {condition}", parameters).rows
        assert rows == [(3,)], condition
    assert session.sql("DELETE FROM texts WHERE s >= '\uff5e'").rows_deleted == 2


@on_sqlite
@pytest.mark.parametrize(
    "clauses",
    [
        "TBLPROPERTIES ('orc.bloom.filter.columns' = 'd,f')",
        "USING parquet TBLPROPERTIES ('transactional' = 'true', 'transactional_properties' = 'insert_only')",
    ],
    ids=["orc", "parquet"],
)
def test_both_zeros_are_one_number_whatever_files_know_of_them(session: Session, clauses: str) -> None:
    # A file each, so that the least and the greatest number of one are one of the zeros alone.
    session.sql(f"CREATE TABLE zeros (id INT, d DOUBLE, f FLOAT) {clauses}")
    session.sql("INSERT INTO zeros VALUES (1, 0.0D, 0.0F)")
    # Parquet has a dictionary of values that come twice.
    session.sql("INSERT INTO zeros SELECT /*+ COALESCE(1) */ * FROM VALUES (2, -0.0D, -0.0F), (2, -0.0D, -0.0F)")
    session.sql("INSERT INTO zeros SELECT 3, double('NaN'), float('NaN')")
    conditions = {
        f"{column} {operator} {zero}": expected
        for column in "df"
        for zero in ("0.0D", "-0.0D", "0")
        for operator, expected in (("=", [1, 2, 2]), ("<=", [1, 2, 2]), (">=", [1, 2, 2, 3]), (">", [3]), ("<", []))
    }
    found = session.sql(
        " UNION ALL ".join(f"SELECT {n} AS q, id FROM zeros WHERE {each}" for n, each in enumerate(conditions))
    ).rows
    for n, (condition, expected) in enumerate(conditions.items()):
        assert sorted(row for query, row in found if query == n) == expected, condition
    assert [str(value) for value in session.sql("SELECT d, f FROM zeros WHERE id = 2").rows[0]] == ["-0.0", "-0.0"]


COMPARED = {
    "INT": (["1", "-1", "0", "10"], ["1", "1.0", "1.5", "'1'", "10L", "1e0"]),
    "BIGINT": (
        ["1", "9007199254740993", "9007199254740992"],
        ["9007199254740993", "9007199254740992.0D", "1.5", "'1'"],
    ),
    "DOUBLE": (
        ["0.0D", "1.5D", "double('NaN')", "double('Infinity')"],
        ["0", "-0.0D", "1.5", "double('NaN')", "'1.5'"],
    ),
    "DECIMAL(5,2)": (["1", "1.5", "-1.25", "999.99"], ["1", "1.50", "1.5D", "'1.5'", "1.505", "1000"]),
    "BOOLEAN": (["true", "false"], ["true", "'true'", "false"]),
    "STRING": (
        ["'a'", "'A'", "'1'", "'01'", "'1 '", "'é'", r"'\U0001F600'", r"'\uFF5E'"],
        ["'a'", "'é'", r"'\uFF5E'", "'1'"],
    ),
    "DATE": (
        ["DATE'2020-01-01'", "DATE'1969-12-31'", "DATE'0001-01-01'"],
        ["DATE'2020-01-01'", "'2020-01-01'", "TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-01-01 12:00:00'"],
    ),
    "TIMESTAMP": (
        ["TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-01-01 00:00:00.000001'", "TIMESTAMP'1900-01-01 00:00:00'"],
        ["TIMESTAMP'2020-01-01 00:00:00'", "'2020-01-01'", "DATE'2020-01-01'", "TIMESTAMP_NTZ'2020-01-01 00:00:00'"],
    ),
    "TIMESTAMP_NTZ": (
        ["TIMESTAMP_NTZ'2020-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-01-01 00:00:00.000001'"],
        ["TIMESTAMP'2020-01-01 00:00:00'", "'2020-01-01'", "DATE'2020-01-01'"],
    ),
}
STORED = {
    "a key": "(id INT) PARTITIONED BY (k {})",
    "ORC": "(id INT, k {})",
    "Parquet": "(id INT, k {}) USING parquet "
    "TBLPROPERTIES ('transactional' = 'true', 'transactional_properties' = 'insert_only')",
}


@on_sqlite
@pytest.mark.evidence(cases=2)
@pytest.mark.parametrize("kind", COMPARED)
def test_conditions_leave_the_rows_that_spark_leaves_whatever_is_pruned(session: Session, kind: str) -> None:
    values, literals = COMPARED[kind]
    rows = ", ".join(f"({at}, CAST({value} AS {kind}))" for at, value in enumerate([*values, "NULL"]))
    conditions = [f"k {operator} {literal}" for literal in literals for operator in ("=", "<=>", "<", ">=", "<>")]
    conditions += [f"{literal} >= k" for literal in literals] + [f"k IN ({', '.join(literals[:2])}, NULL)"]
    conditions += [f"k IN ({literals[0]}, CASE WHEN false THEN {literals[0]} END)"]

    def answers(table: str) -> list[tuple[object, ...]]:
        queries = (f"SELECT {n} AS q, id FROM {table} WHERE {each}" for n, each in enumerate(conditions))
        return sorted(session.sql(" UNION ALL ".join(queries)).rows)

    # Without a table nothing can be pruned.
    expected = answers(f"VALUES {rows} AS t(id, k)")
    for at, (stored, columns) in enumerate(STORED.items()):
        session.sql(f"CREATE TABLE t{at} {columns.format(kind)}")
        session.sql(f"INSERT INTO t{at} SELECT * FROM VALUES {rows}")
        found = answers(f"t{at}")
        assert found == expected, (stored, {conditions[int(str(n))] for n, _ in set(found) ^ set(expected)})


@on_sqlite
def test_a_partition_clause_covers_its_own_numbers_and_texts_alone(session: Session) -> None:
    session.sql("CREATE TABLE numbers (id INT) PARTITIONED BY (k DOUBLE)")
    session.sql(
        "INSERT INTO numbers VALUES (1, 1.0D), (2, 2.0D), (3, double('NaN')), (4, double('Infinity')), (5, NULL)"
    )
    for clause, left in (("k = 1.0", [2, 3, 4, 5]), ("k < 3", [3, 4, 5]), ("k > 10", [5])):
        session.sql(f"ALTER TABLE numbers DROP PARTITION ({clause})")
        assert sorted(session.to_arrow("numbers")["id"].to_pylist()) == left, clause
    session.sql("INSERT INTO numbers VALUES (6, 0.0D), (7, double('NaN'))")
    session.sql("ALTER TABLE numbers DROP PARTITION (k = 'NaN')")
    assert sorted(session.to_arrow("numbers")["id"].to_pylist()) == [5, 6]
    session.sql("CREATE TABLE texts (id INT) PARTITIONED BY (k CHAR(3))")
    session.sql(r"INSERT INTO texts VALUES (1, 'a'), (2, 'a\t'), (3, 'ab')")
    session.sql("ALTER TABLE texts DROP PARTITION (k < 'a')")
    assert sorted(session.to_arrow("texts")["id"].to_pylist()) == [1, 3]


@on_sqlite
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_each_writer_gives_small_decimals_the_same_partition(session: Session, ansi: str) -> None:
    session.sql(f"SET spark.sql.ansi.enabled = {ansi}")
    session.sql("CREATE TABLE small (id INT) PARTITIONED BY (k DECIMAL(38,10))")
    session.sql("INSERT INTO small VALUES (1, 0), (2, 0.0000001), (3, -1234567.5)")
    session.sql(
        "INSERT INTO small SELECT id + 10, k FROM VALUES (1, 0BD), (2, 0.0000001BD), (3, -1234567.5BD) AS v(id, k)"
    )
    session.sql("INSERT INTO small PARTITION (k = 0) VALUES (21)")
    session.sql("INSERT INTO small PARTITION (k = 1e-7) SELECT 22")
    names = ["k=-1234567.5000000000", "k=0.0000000000", "k=0.0000001000"]
    assert [row[0] for row in session.sql("SHOW PARTITIONS small").rows] == names
    assert sorted(session.to_arrow("small", filter="k = 0")["id"].to_pylist()) == [1, 11, 21]
    session.sql("UPDATE small SET id = id + 100 WHERE k = 0.0000001")
    assert sorted(row[0] for row in session.sql("SELECT id FROM small WHERE k < 1 AND k > 0").rows) == [102, 112, 122]
    session.sql("ALTER TABLE small ADD PARTITION (k = 0.00000002)")
    session.sql("ALTER TABLE small DROP PARTITION (k = 0), PARTITION (k = 0.0000001)")
    assert sorted(session.to_arrow("small")["id"].to_pylist()) == [3, 13]
