from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import orc

from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    InvalidOperationError,
    JobError,
    NoSuchColumnError,
    TypeMismatchError,
)
from airflow_hivex.core.job import layout
from airflow_hivex.core.model.partitions import partition_name
from airflow_hivex.core.model.plans import ScanPart
from airflow_hivex.core.model.row_ids import decode_bucket
from airflow_hivex.core.runners.given import GivenRunner
from tests.integration.core.job.conftest import TableOnDisk, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
layouts = pytest.mark.parametrize("layout", ["flat", "hive"])

MANY_TYPES = (
    "bo boolean; ti tinyint; sm smallint; i int; bi bigint; f float; d double; de decimal(10,2); big decimal(38,5); "
    "s string; v varchar(5); c char(4); bin binary; da date; ts timestamp; ntz timestamp_ntz; a array<int>; "
    "m map<string,array<int>>; st struct<x:int,y:struct<z:string>>"
)
ROW = """SELECT true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 12345678.91BD, 123456789012345678901234567890123.12345BD,
    'text é', 'abc', 'ab', X'00FF', DATE'2020-02-29', TIMESTAMP'1969-12-31 23:59:58.123456',
    TIMESTAMP_NTZ'1500-01-01 00:00:00', array(1, NULL), map('k', array(1, NULL)),
    named_struct('x', 1, 'y', named_struct('z', 'deep'))"""


@layouts
def test_every_type_comes_back_as_it_was_written(table: Any, layout: str) -> None:
    t = table(MANY_TYPES, layout=layout)
    nulls = ", ".join("NULL" for _ in t.columns)
    t.insert(f"{ROW} UNION ALL SELECT {nulls}")
    t.insert(f"SELECT {nulls}")
    [expected] = t.runner.run(
        t_plan(f"SELECT * FROM ({ROW}) AS t(" + ", ".join(c.name for c in t.columns) + ")"), "c1"
    ).rows
    found = t.rows("SELECT * FROM t WHERE i IS NOT NULL")
    [row] = found
    by_name = dict(zip([c.name for c in t.columns], row, strict=True))
    assert by_name.pop("c") == "ab  "
    wanted = dict(zip([c.name for c in t.columns], expected, strict=True))
    wanted.pop("c")
    wanted["v"] = "abc"
    assert by_name == wanted
    assert t.rows("SELECT * FROM t WHERE i IS NULL") == [(None,) * len(t.columns)] * 2
    columns = t.select("SELECT * FROM t").columns
    assert [c.type for c in columns if c.name in ("de", "ts", "ntz", "st")] == [
        "decimal(10,2)",
        "timestamp",
        "timestamp_ntz",
        "struct<x:int,y:struct<z:string>>",
    ]


def t_plan(sql: str) -> Any:
    from airflow_hivex.core.model.plans import Plan

    return Plan(f"plan{abs(hash(sql))}", "plan", sql)


def test_rows_carry_hives_identity_in_file_order(table: Any) -> None:
    t = table("id bigint", statement_id=3)
    [written] = t.insert("SELECT id FROM range(0, 1000, 1, 2)")
    assert written.name == "delta_0000001_0000001_0003"
    assert (written.partition, written.values, written.files, written.rows) == (None, (), 2, 1000)
    for bucket in range(2):
        path = t.root / written.name / f"bucket_{bucket:05d}"
        rows = orc.ORCFile(path).read().to_pydict()
        decoded = decode_bucket(rows["__bucket"][0])
        assert set(rows["__bucket"]) == {rows["__bucket"][0]}
        assert (decoded.bucket_id, decoded.statement_id) == (bucket, 3)
        assert rows["__row_id"] == list(range(500))
        assert set(rows["__original_write_id"]) == set(rows["__write_id"]) == {1}
        assert set(rows["__operation"]) == {0}
    assert t.files() == [
        f"{written.name}/_orc_acid_version",
        f"{written.name}/bucket_00000",
        f"{written.name}/bucket_00001",
    ]
    assert (t.root / written.name / "_orc_acid_version").read_text() == "2"
    assert written.size_bytes == sum((t.root / name).stat().st_size for name in t.files() if "bucket" in name)


SPECIAL = [
    "a/b",
    "a=b",
    "x y",
    "100%",
    "%2F",
    "é€",
    "'q'",
    '"',
    "{[*?]}",
    "back\\slash",
    "new\nline",
    "007",
    ":",
    "#",
    ".",
]


@layouts
def test_special_partition_values_round_trip(table: Any, layout: str) -> None:
    t = table("id int", "p string", layout=layout)
    values = ", ".join(f"({i}, :p{i})" for i in range(len(SPECIAL)))
    parameters = {f"p{i}": value for i, value in enumerate(SPECIAL)}
    written = t.insert(f"SELECT * FROM VALUES {values}", parameters=parameters)
    assert {directory.values[0] for directory in written} == set(SPECIAL)
    assert {directory.partition for directory in written} == {partition_name(["p"], [value]) for value in SPECIAL}
    assert t.rows("SELECT id, p FROM t ORDER BY id") == list(enumerate(SPECIAL))


def test_null_and_empty_text_share_the_default_partition(table: Any) -> None:
    t = table("id int", "p string; q int")
    written = t.insert("SELECT * FROM VALUES (1, NULL, 5), (2, '', 5), (3, 'x', NULL)")
    assert [(d.partition, d.values, d.rows) for d in written] == [
        ("p=__HIVE_DEFAULT_PARTITION__/q=5", (None, "5"), 2),
        ("p=x/q=__HIVE_DEFAULT_PARTITION__", ("x", None), 1),
    ]
    assert t.rows("SELECT * FROM t ORDER BY id") == [(1, None, 5), (2, None, 5), (3, "x", None)]


@layouts
def test_typed_partition_columns_come_back_typed(table: Any, layout: str) -> None:
    t = table("id int", "d date; n bigint; b boolean; de decimal(5,2); s string; ts timestamp", layout=layout)
    t.insert("SELECT 1, DATE'2013-01-05', 7, true, 1.5BD, '007', TIMESTAMP'2020-01-01 10:00:00.5'")
    [directory] = t.directories
    assert directory.values == ("2013-01-05", "7", "true", "1.50", "007", "2020-01-01 10:00:00.5")
    found = t.rows(
        "SELECT string(d), n + 1, b, string(de), s, string(ts) FROM t WHERE d = DATE'2013-01-05' AND s = '007'"
    )
    assert found == [("2013-01-05", 8, True, "1.50", "007", "2020-01-01 10:00:00.5")]


def test_row_ids_rise_within_each_file_of_a_dynamic_write(table: Any) -> None:
    t = table("id bigint", "p int; q string")
    t.insert("SELECT id, id % 5, CASE WHEN id % 3 = 0 THEN NULL ELSE string(id % 3) END FROM range(0, 3000, 1, 3)")
    seen: set[tuple[int, int]] = set()
    for name in t.files():
        if "bucket_" not in name:
            continue
        rows = orc.ORCFile(t.root / name).read(columns=["__bucket", "__row_id"]).to_pydict()
        assert rows["__row_id"] == sorted(rows["__row_id"])
        assert decode_bucket(rows["__bucket"][0]).bucket_id == int(name[-5:])
        keys = list(zip(rows["__bucket"], rows["__row_id"], strict=True))
        assert not seen & set(keys)
        seen.update(keys)
    assert len(seen) == 3000


def test_static_and_dynamic_partitions_mix(table: Any) -> None:
    t = table("id int", "a string; b int")
    t.insert("SELECT * FROM VALUES (1, 5), (2, 6)", static={"a": "x/y"})
    t.insert("SELECT 3", static={"a": None, "b": "9"})
    assert [d.partition for d in t.directories] == [
        "a=x%2Fy/b=5",
        "a=x%2Fy/b=6",
        "a=__HIVE_DEFAULT_PARTITION__/b=9",
    ]
    assert t.rows("SELECT * FROM t ORDER BY id") == [(1, "x/y", 5), (2, "x/y", 6), (3, None, 9)]


def test_an_insert_without_rows_makes_no_directory(table: Any) -> None:
    t = table("id int")
    assert t.insert("SELECT 1 WHERE false") == ()
    assert table("id int", "p int").insert("SELECT 1, 2 WHERE false", overwrite=True) == ()
    assert t.rows() == []


def test_an_overwrite_without_rows_makes_an_empty_base(table: Any) -> None:
    t = table("id int")
    [written] = t.insert("SELECT 1 WHERE false", overwrite=True)
    assert (written.name, written.rows, written.files) == ("base_0000001", 0, 0)
    assert t.files() == ["base_0000001/_orc_acid_version"]
    assert t.rows() == []
    p = table("id int", "p string")
    [written] = p.insert("SELECT 1 WHERE false", overwrite=True, static={"p": "x"})
    assert (written.partition, written.values, written.name) == ("p=x", ("x",), "base_0000001")


def test_an_overwrite_makes_bases(table: Any) -> None:
    t = table("id int", "p int")
    t.insert("SELECT id, id % 2 FROM range(4)", overwrite=True)
    assert [(d.partition, d.name, d.rows) for d in t.directories] == [
        ("p=0", "base_0000001", 2),
        ("p=1", "base_0000001", 2),
    ]


def test_a_scan_reads_a_partition_that_lies_elsewhere(table: Any, tmp_path: Path) -> None:
    t = table("id int", "p string")
    [written] = t.insert("SELECT 1, 'a'")
    there = next(tmp_path.rglob(f"p=a/{written.name}"))
    elsewhere = tmp_path / "else=where" / "x"
    elsewhere.mkdir(parents=True)
    there.rename(elsewhere / written.name)
    part = ScanPart((f"file://{elsewhere}/{written.name}",), f"file://{elsewhere}", "flat", ("a",))
    assert t.rows(scans=(t.scan(parts=(part,)),)) == [(1, "a")]


def test_a_column_list_chooses_columns_by_name(table: Any) -> None:
    t = table("a int; b string; c array<int>; d char(3)", "p string")
    t.insert("SELECT 'x', 'part', 1", input_columns=("B", "p", "a"))
    t.insert("SELECT 2", input_columns=("a",))
    assert t.rows("SELECT * FROM t ORDER BY a") == [(1, "x", None, None, "part"), (2, None, None, None, None)]


def test_a_wrong_number_of_columns_is_refused(table: Any) -> None:
    t = table("a int; b string", "p string")
    for sql, changes in (
        ("SELECT 1, 'x'", {}),
        ("SELECT 1, 'x', 'p', 4", {}),
        ("SELECT 1, 'x', 'p'", {"static": {"p": "1"}}),
        ("SELECT 1, 2", {"input_columns": ("a",)}),
    ):
        with pytest.raises(ColumnCountMismatchError):
            t.insert(sql, **changes)
    with pytest.raises(NoSuchColumnError, match="no column z"):
        t.insert("SELECT 1", input_columns=("z",))
    assert t.files() == []


def test_a_failed_write_leaves_nothing(table: Any) -> None:
    t = table("a tinyint", "p int")
    with pytest.raises(JobError, match="CAST_OVERFLOW"):
        t.insert("SELECT id, id % 3 FROM range(0, 1000, 1, 4)")
    assert t.files() == []
    assert not [path for path in t.root.rglob("*") if "_staging" in path.name]


def test_a_directory_of_the_same_name_is_never_mixed_into(table: Any) -> None:
    t = table("a int")
    t.insert("SELECT 1")
    with pytest.raises(InvalidOperationError, match="exists already"):
        t.insert("SELECT 2", write_id=1)
    assert t.rows() == [(1,)]


def test_more_tasks_than_bucket_ids_are_made_fewer(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_WRITERS", 3)
    t = table("a bigint", "p bigint")
    t.insert("SELECT id, id % 2 FROM range(0, 100, 1, 7)")
    assert {name[-5:] for name in t.files() if "bucket_" in name} <= {"00000", "00001", "00002"}
    assert len(t.rows()) == 100


def test_a_layout_that_is_not_known_is_refused(table: Any) -> None:
    with pytest.raises(InvalidOperationError, match="layout 'other'"):
        table("a int", layout="other").insert("SELECT 1")


# -- store assignment ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "expression", "stored"),
    [
        ("int", "1L", 1),
        ("tinyint", "1.9D", 1),
        ("int", "1.9BD", 1),
        ("bigint", "2Y", 2),
        ("double", "1.1BD", 1.1),
        ("float", "0.1D", pytest.approx(0.1)),
        ("string", "1", "1"),
        ("string", "true", "true"),
        ("string", "DATE'2020-01-01'", "2020-01-01"),
        ("string", "X'6162'", "ab"),
        ("string", "INTERVAL '1' DAY", "INTERVAL '1' DAY"),
        ("decimal(5,1)", "1.25BD", None),
        ("varchar(3)", "'abc   '", "abc"),
        ("varchar(3)", "'ab '", "ab "),
        ("char(3)", "'a'", "a  "),
        ("char(2)", "'ab  '", "ab"),
        ("array<bigint>", "array(1, 2)", [1, 2]),
        ("array<string>", "array(1, NULL)", ["1", None]),
        ("map<string,double>", "map('k', 1)", {"k": 1.0}),
        ("struct<a:bigint,b:string>", "named_struct('x', 1, 'y', 2)", {"a": 1, "b": "2"}),
        ("array<struct<a:bigint>>", "array(named_struct('x', 1))", [{"a": 1}]),
        ("array<varchar(2)>", "array('ab ', NULL)", ["ab", None]),
        ("map<char(2),int>", "map('a', 1)", {"a ": 1}),
        ("struct<v:varchar(2),n:int>", "named_struct('v', 'a', 'n', 1)", {"v": "a", "n": 1}),
        ("array<int>", "NULL", None),
    ],
)
def test_values_are_stored_as_sparks_insert_does(table: Any, type: str, expression: str, stored: object) -> None:
    t = table(f"x {type}")
    t.insert(f"SELECT {expression}")
    [(found,)] = t.rows("SELECT * FROM t")
    assert str(found) == "1.3" if type == "decimal(5,1)" else found == stored


def test_dates_and_times_are_stored_in_each_other(table: Any) -> None:
    t = table("d date; ts timestamp; n timestamp_ntz")
    t.insert("SELECT TIMESTAMP'2020-01-02 03:04:05', DATE'2020-01-02', DATE'2020-01-02'")
    assert t.rows("SELECT string(d), string(ts), string(n) FROM t") == [
        ("2020-01-02", "2020-01-02 00:00:00", "2020-01-02 00:00:00")
    ]


@pytest.mark.parametrize(
    ("type", "expression"),
    [
        ("int", "'1'"),
        ("date", "'2020-01-01'"),
        ("boolean", "1"),
        ("int", "true"),
        ("double", "DATE'2020-01-01'"),
        ("binary", "'ab'"),
        ("array<int>", "array('1')"),
        ("struct<a:int>", "named_struct('a', 1, 'b', 2)"),
        ("string", "array('a')"),
        ("map<int,int>", "map('1', 1)"),
        ("array<int>", "1"),
    ],
)
def test_types_that_need_a_cast_are_refused(table: Any, type: str, expression: str) -> None:
    t = table(f"a int; x {type}")
    with pytest.raises(TypeMismatchError, match=r"Column x of db\.t"):
        t.insert(f"SELECT 1, {expression}")
    assert t.files() == []


@pytest.mark.parametrize(
    ("type", "expression", "problem"),
    [
        ("int", "5000000000", "CAST_OVERFLOW"),
        ("tinyint", "300D", "CAST_OVERFLOW"),
        ("decimal(3,1)", "100", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ("array<tinyint>", "array(300)", "CAST_OVERFLOW"),
        ("varchar(2)", "'abc'", "length limitation: 2"),
        ("char(2)", "'abc'", "length limitation: 2"),
        ("array<varchar(2)>", "array('abc')", "length limitation: 2"),
    ],
)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_out_of_range_fail(table: Any, type: str, expression: str, problem: str, ansi: str) -> None:
    t: TableOnDisk = table(f"x {type}")
    with pytest.raises(JobError, match=problem):
        t.insert(f"SELECT {expression}", spark_conf={"spark.sql.ansi.enabled": ansi})
    assert t.files() == []


@layouts
def test_columns_of_files_are_found_by_their_names(table: Any, spark: SparkSession, layout: str) -> None:
    own = spark.newSession()
    # A setting of ORC that some users of Hive have: columns are those at the same places.
    own.conf.set("orc.force.positional.evolution", "true")
    t = replace(table("a int; b string", layout=layout), runner=GivenRunner(own))
    t.insert("SELECT 1, 'x'")
    t.columns = parse("b string; a int")
    assert t.rows() == [("x", 1)]
    assert t.rows("SELECT a FROM t") == [(1,)]


def test_rows_that_are_counted_are_sorted_once(table: Any, spark: SparkSession) -> None:
    """Files of CSV do not say how many rows they have. Behind a count, Spark would sort them once more."""
    t = table("a int; b string", partitioned="p string", layout="plain", format="csv")
    t.insert("SELECT CAST(id AS INT), 'x', CAST(id % 3 AS STRING) FROM range(10)")
    executions: Any = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [str(executions.apply(number).physicalPlanDescription()) for number in range(executions.size())]
    [write] = [plan for plan in plans if f"{t.root}/" in plan and "InsertIntoHadoopFsRelationCommand" in plan]
    assert "CollectMetrics" in write
    assert len(re.findall(r"^\(\d+\) Sort\b", write, re.MULTILINE)) == 1, write
