"""Partitions are left out by functions of their keys, exactly where Spark would find no row in them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.catalog.pruning import find_partitions, partition_predicate
from airflow_hivex.core.model.column_types import parse_type
from airflow_hivex.core.model.expressions import Call, ColumnReference, UndecidedError, Value
from airflow_hivex.core.model.functions import FUNCTIONS, compute
from airflow_hivex.core.model.predicates import Comparison
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Select
from airflow_hivex.core.store.batches import batches
from tests import evidence

EMPTY_AND_EDGES: dict[str, list[Value]] = {
    "s": [
        *(None, "", " ", "a", "A-b", "aaa", " 7 ", "07", "7", "-7", "+7", "7.5", "1e3", "x7", "äÖß", "ıİ", "😀b"),
        *("2013-01-31", "2012-02-29", "2013-02-29", "2013-1-5", "2013-01-05 10:00:00", "2013", "20130105", "2013-01"),
        *("0001-01-01", "1582-10-10", "1899-12-31", "2011-12-30", "9999-12-31", "0000-01-01", "-2013-01-01"),
        *("99999999999", "9223372036854775808", "2147483648", "127", "128", "a.b.c", "2013/01/05", "a--b-"),
    ],
    "d": [
        *(None, date(1, 1, 1), date(1582, 10, 15), date(1899, 12, 31), date(1900, 1, 1), date(1970, 1, 1)),
        *(date(2011, 12, 30), date(2012, 2, 29), date(2013, 1, 1), date(2013, 3, 31), date(2018, 12, 31)),
        *(date(2021, 1, 3), date(2013, 11, 3), date(9999, 12, 31)),
    ],
    "i": [None, 0, 1, -1, 7, -7, 12, 100, 2**31 - 1, -(2**31)],
    "t": [None, 0, 1, -1, 7, 100, 127, -128],
    "b": [None, 0, 1, -7, 2**63 - 1, -(2**63)],
    "f": [None, True, False],
}
TYPES = {"s": "string", "d": "date", "i": "int", "t": "tinyint", "b": "bigint", "f": "boolean"}
PARSED = {name: parse_type(text) for name, text in TYPES.items()}
EXPRESSIONS = """
upper(s) lower(s) ucase(s) lcase(s) trim(s) ltrim(s) rtrim(s) length(s) char_length(s)
substr(s,1,4) substr(s,0,2) substr(s,-2) substr(s,-2,1) substr(s,-9,8) substr(s,3,0) substr(s,2,-1) substring(s,6,2)
substr(s,2147483647,2147483647) substr(s,-2147483648,5) substr(i,1,1) substr(d,1,7) left(s,2) left(s,0) left(s,-1)
right(s,2) right(s,-1) right(s,99) replace(s,'-','') replace(s,'aa','b') replace(s,'','x') replace(s,'-')
lpad(i,2,'0') lpad(s,3,'xy') lpad(s,2) lpad(s,-1,'0') lpad(s,5,'') rpad(s,3,'xy') rpad(s,0,'a') rpad(i,12,'\u00a0')
concat(s,'x') concat(s,i) concat(d,s) concat(f,t) concat(i,'-',t) s||i||'-' concat_ws('-',s,i) concat_ws(s,'a','b')
concat_ws('-',s,NULL) instr(s,'-') instr(s,'') split_part(s,'-',1) split_part(s,'-',-1) split_part(s,'-',9)
substring_index(s,'-',1) substring_index(s,'-',-1) substring_index(s,'-',0) startswith(s,'2013') endswith(s,'1')
contains(s,'-') startswith(s,'') year(d) quarter(d) month(d) weekofyear(d) dayofyear(d) day(d) dayofmonth(d)
dayofweek(d) weekday(d) year(s) quarter(s) month(s) weekofyear(s) dayofyear(s) day(s) dayofweek(s) weekday(s)
extract(YEAR\u00a0FROM\u00a0d) extract(WEEK\u00a0FROM\u00a0s) extract(DOW\u00a0FROM\u00a0d)
extract(DOY\u00a0FROM\u00a0d) to_date(s) to_date(d)
to_date(s,'yyyy-MM-dd') to_date(s,'yyyyMMdd') to_date(s,'yyyy-MM') to_date(s,'yyyy')
to_date(s,'yyyy/MM/dd') date(s) date(d) date_format(d,'yyyy-MM') date_format(s,'yyyyMMdd') date_format(d,'M/d')
date_format(s,'yyyy') date_add(d,1) date_add(s,-1) date_add(d,t) date_sub(d,31) date_sub(s,1) date_add(d,i) d+1 d-1
datediff(d,'2013-01-01') datediff(s,d) date_diff(d,d) add_months(d,1) add_months(s,-1) add_months(d,i) last_day(d)
last_day(s) trunc(d,'MM') trunc(s,'month') trunc(d,'YEAR') trunc(d,'Q') trunc(d,'quarter') trunc(d,'week')
make_date(i,1,1) make_date(2013,i,1) make_date(2013,2,t) i+1 i-1 i*2 i%3 -i abs(i) t+t t+1 t*t -t abs(t) b+1 b-i b*b
i%t t%t mod(i,-3) pmod(i,3) pmod(i,-3) pmod(-7,i) i\u00a0div\u00a02 b\u00a0div\u00a0-1 i\u00a0div\u00a0i
t\u00a0div\u00a02 coalesce(s,'x') nvl(i,0) ifnull(d,DATE'2013-01-01') coalesce(t,i) coalesce(upper(s),'x')
coalesce(i,s) int(s) bigint(s) smallint(s) tinyint(s) int(i) tinyint(i) smallint(i) int(b) bigint(i) int(f) string(i)
string(d) string(f) string(s) cast(s\u00a0AS\u00a0DATE) cast(s\u00a0AS\u00a0INT) s::bigint cast(d\u00a0AS\u00a0STRING)
int(substr(s,1,4)) year(to_date(s,'yyyyMMdd')) lpad(month(d),2,'0') year(d)*100+month(d) concat(year(d),'-',i)
upper(concat(s,d)) date_add(to_date(concat(i,'-01-01')),t) make_date(year(d),month(d),1)
""".replace("\n", " ")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
        .newSession()
    )


def expression_of(text: str) -> Call:
    statement = read(f"SELECT * FROM p WHERE {text} = 'value'")
    assert isinstance(statement, Select)
    (found,) = statement.query.references[0].filters
    assert isinstance(found, Comparison)
    assert isinstance(found.operand, Call)
    return found.operand


def columns_of(expression: object) -> set[str]:
    if isinstance(expression, ColumnReference):
        return {expression.name}
    return set().union(*(columns_of(each) for each in getattr(expression, "arguments", ())))


def test_every_function_gives_what_spark_gives_or_is_left_to_it(spark: SparkSession) -> None:
    texts = [text.replace("\u00a0", " ") for text in EXPRESSIONS.split(" ") if text]
    parsed = {text: expression_of(text) for text in texts}
    used = {name for each in parsed.values() for name in functions_of(each)}
    assert used >= set(FUNCTIONS) | {"coalesce", "concat_ws"}
    # All pairs of what two columns hold, and NULL in all others, so that nothing is asked twice.
    rows: list[dict[str, Value]] = [
        {**dict.fromkeys(TYPES), one: a, other: b}
        for one, other in (("s", "i"), ("s", "d"), ("d", "i"), ("d", "t"), ("i", "t"), ("i", "b"), ("f", "t"))
        for a in EMPTY_AND_EDGES[one]
        for b in EMPTY_AND_EDGES[other]
    ]
    asked: dict[str, dict[int, Value]] = {text: {} for text in texts}
    for text, expression in parsed.items():
        seen = set()
        for number, row in enumerate(rows):
            own = tuple(row[name] for name in sorted(columns_of(expression)))
            if (key := tuple((type(value), value) for value in own)) in seen:
                continue
            seen.add(key)
            try:
                asked[text][number] = compute(expression, row, PARSED).value
            except UndecidedError:
                continue
    assert {text for text, values in asked.items() if not values} == {"coalesce(t,i)", "coalesce(i,s)"}
    schema = ", ".join(["number int", *(f"{name} {of}" for name, of in TYPES.items())])
    spark.createDataFrame([(n, *row.values()) for n, row in enumerate(rows)], schema).createOrReplaceTempView("edges")
    wrong = []
    for ansi, zone in (("true", "Pacific/Apia"), ("false", "America/Sao_Paulo")):
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        spark.conf.set("spark.sql.session.timeZone", zone)
        # In a few queries, as each has a price of its own; an expression is computed for the rows that are decided.
        for some in batches([text for text in texts if asked[text]], 30):
            columns = [f"CASE WHEN number IN ({', '.join(map(str, asked[text]))}) THEN {text} END" for text in some]
            found = spark.sql(f"SELECT number, {', '.join(columns)} FROM edges").collect()
            for position, text in enumerate(some, 1):
                values = {row[0]: row[position] for row in found}
                wrong += [
                    f"{text} of {rows[number]} ({ansi}, {zone}): {value!r}, in Spark {values[number]!r}"
                    for number, value in asked[text].items()
                    if values[number] != value or type(values[number]) is not type(value)
                ]
    assert wrong == []


def functions_of(expression: object) -> set[str]:
    if not isinstance(expression, Call):
        return set()
    return {expression.function}.union(*(functions_of(each) for each in expression.arguments))


@pytest.mark.evidence
def test_nothing_is_lost_and_little_is_read(metastore: Metastore, session: Session) -> None:
    """The same queries on a partitioned table and on one that has the keys as columns."""
    columns = "id INT, s STRING, d DATE, i INT"
    values = [
        (number, s, d, i)
        for number, (s, d, i) in enumerate(
            [
                ("2013-01-31", "DATE'2013-01-31'", "1"),
                ("2013-02-01", "DATE'2013-02-01'", "2"),
                ("__x_%", "DATE'2013-12-31'", "12"),
                ("Ab", "DATE'2014-01-01'", "1"),
                ("äb", "DATE'0101-01-01'", "-7"),
                ("07", "NULL", "7"),
                (None, "DATE'2013-06-15'", "NULL"),
            ]
        )
    ]
    rows = ", ".join(f"({n}, {'NULL' if s is None else repr(s)}, {d}, {i})" for n, s, d, i in values)
    session.sql(f"CREATE TABLE plain ({columns})")
    session.sql("CREATE TABLE p (id INT) PARTITIONED BY (s STRING, d DATE, i INT)")
    session.sql(f"INSERT INTO plain VALUES {rows}")
    session.sql(f"INSERT INTO p VALUES {rows}")
    expected = {
        "year(d) = 2013 AND month(d) <= 2": 2,
        "substr(s, 1, 7) = '2013-01'": 1,
        "cast(d AS STRING) LIKE '2013-1%'": 1,
        "upper(s) = 'AB'": 2,
        "lpad(i, 2, '0') = '12'": 1,
        "s LIKE '2013-0%'": 2,
        "s LIKE '\\\\_\\\\_x%'": 1,
        "s LIKE 'ä%'": 1,
        "s >= 'a'": 1,
        "s < 'A' AND s > '1'": 2,
        "s BETWEEN '2013-01-31' AND '2013-02-01'": 2,
        "d > '2013-12-30'": 2,
        "d <= DATE'2013-01-31'": 2,
        "d BETWEEN DATE'2013-02-01' AND date_add('2013-02-01', 400)": 4,
        "NOT (s > '3')": 3,
        "(i = 1 AND id > 0) OR (i = 2 AND id > 0)": 4,
        "i + 1 = 2 OR s IS NULL": 3,
        "s ILIKE 'AB'": 2,
        "coalesce(i, 0) = 0": 1,
        "s LIKE 'a!%' ESCAPE '!'": 0,
        "startswith(s, '2013') AND NOT endswith(s, '1')": 0,
        "d = last_day(d)": 7,
        "trunc(d, 'MM') = DATE'2013-02-01'": 1,
        "weekofyear(d) = 1": 2,
        "d IS NULL": 1,
        "i IN (7, -7)": 2,
    }
    # Which conditions hold for a row, in one query.
    holds = ", ".join(f"{condition} AS c{n}" for n, condition in enumerate(expected))
    plain = session.sql(f"SELECT id, {holds} FROM plain ORDER BY id").rows
    asked = evidence.drawn("conditions on partitions", list(expected), 8)
    for n, (condition, most) in enumerate(expected.items(), 1):
        query = f"SELECT id FROM p WHERE {condition} ORDER BY id"
        if condition in asked:
            assert session.sql(query).rows == [row[:1] for row in plain if row[n]], condition
        assert session.explain(query).cluster == "c1"
        assert partitions_read(metastore, condition) == most, condition


def partitions_read(metastore: Metastore, condition: str) -> int:
    statement = read(f"SELECT id FROM p WHERE {condition}")
    assert isinstance(statement, Select)
    table = metastore.catalog.get_table("default", "p")
    predicate = partition_predicate(statement.query.references[0].filters, table.partition_keys)
    with metastore.services.store.read() as connection:
        return len(find_partitions(connection, table, predicate))


def test_a_join_prunes_partitions_while_it_runs(metastore: Metastore, session: Session, spark: SparkSession) -> None:
    warehouse = session.warehouse(spark, "c1")
    session.sql("CREATE TABLE facts (id INT, amount DECIMAL(10,2)) PARTITIONED BY (ds STRING)")
    session.sql("CREATE TABLE days (ds STRING, label STRING)")
    rows = ", ".join(f"({n}, {Decimal(n)}, 'd{n % 5}')" for n in range(50))
    session.sql(f"INSERT INTO facts VALUES {rows}")
    session.sql("INSERT INTO days VALUES ('d1', 'holiday'), ('d2', 'workday'), ('d3', 'workday')")
    session.sql("DELETE FROM facts WHERE id < 5")
    query = "SELECT f.id FROM facts f JOIN days ON f.ds = days.ds WHERE days.label = 'holiday' ORDER BY f.id"
    joined = warehouse.sql(query)
    assert [row.id for row in joined.collect()] == list(range(6, 50, 5))
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "dynamicpruning" in plan
    facts, days = warehouse.table("facts"), warehouse.table("days")
    by_frames = facts.join(days.where("label = 'holiday'"), "ds")
    assert by_frames.count() == 9
    assert "dynamicpruning" in by_frames._jdf.queryExecution().executedPlan().toString()
