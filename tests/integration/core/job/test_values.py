"""Constants written without Spark are what Spark writes."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc

from airflow_hivex.core.errors import (
    ColumnCountMismatchError,
    HivexError,
    InvalidOperationError,
    TypeMismatchError,
    UnreadableTextError,
)
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.plans import PlannedValues, WrittenDirectory
from airflow_hivex.core.parser.statements import Literal
from tests.integration.core.job.conftest import TableOnDisk

pytestmark = pytest.mark.spark


def decimal(text: str) -> Literal:
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return Literal(value, f"decimal({max(len(digits), scale)},{scale})")


def as_sql(literal: Literal) -> str:
    match literal.value:
        case None:
            return "NULL"
        case bool():
            return str(literal.value).lower()
        case str():
            return "'" + literal.value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes():
            return f"X'{literal.value.hex()}'"
        case Decimal():
            return f"{literal.value}BD"
        case float():
            return f"{literal.value!r}D" if math.isfinite(literal.value) else f"double('{literal.value}')"
        case datetime():
            word = "TIMESTAMP_NTZ" if literal.type == "timestamp_ntz" else "TIMESTAMP"
            return f"{word}'{literal.value.isoformat(' ')}'"
        case date():
            return f"DATE'{literal.value.isoformat()}'"
    return f"{literal.value}{'L' if literal.type == 'bigint' else ''}"


def as_query(rows: tuple[tuple[Literal, ...], ...]) -> str:
    return "SELECT * FROM VALUES " + ", ".join(f"({', '.join(map(as_sql, row))})" for row in rows)


def both(table: Any, columns: str, rows: tuple[tuple[Literal, ...], ...], partitioned: str = "", **options: Any) -> Any:
    """The same rows written both ways: the two tables, without Spark and with it."""
    one, other = table(columns, partitioned, **options), table(columns, partitioned, **options)
    assert one.insert_values(*rows) is not None
    other.insert(as_query(rows))
    return one, other


INT, BIGINT, STRING, DOUBLE, VOID = "int", "bigint", "string", "double", "void"

PAIRS = [
    ("boolean", Literal(True, "boolean")),
    ("tinyint", Literal(-128, INT)),
    ("smallint", Literal(32767, BIGINT)),
    ("int", Literal(-5, INT)),
    ("int", decimal("-1.99")),
    ("int", Literal(2.99, DOUBLE)),
    ("int", Literal(-2.99, DOUBLE)),
    ("bigint", Literal(2**63 - 1, BIGINT)),
    ("bigint", Literal(1, INT)),
    ("float", Literal(16777217, INT)),
    ("float", Literal(2**62 + 1, BIGINT)),
    ("float", Literal(0.1, DOUBLE)),
    ("float", Literal(1e300, DOUBLE)),
    ("float", decimal("0.1")),
    ("float", decimal("123456.789")),
    ("double", decimal("1.1")),
    ("double", Literal(2**53 + 1, BIGINT)),
    ("double", Literal(-0.0, DOUBLE)),
    ("double", decimal("12345678901234567890.123456789")),
    ("decimal(10,2)", decimal("1.005")),
    ("decimal(10,2)", decimal("-1.005")),
    ("decimal(10,2)", Literal(7, INT)),
    ("decimal(38,10)", decimal("1234567890123456789012345678.123")),
    ("string", Literal("é € 𝄞 'q' \\", STRING)),
    ("string", Literal("", STRING)),
    ("string", Literal(-12, INT)),
    ("string", Literal(False, "boolean")),
    ("string", Literal(date(2020, 2, 29), "date")),
    ("varchar(3)", Literal("abc  ", STRING)),
    ("varchar(3)", Literal("ab ", STRING)),
    ("varchar(10)", Literal(123, INT)),
    ("char(4)", Literal("ab", STRING)),
    ("char(2)", Literal("ab   ", STRING)),
    ("char(3)", Literal("é𝄞", STRING)),
    ("binary", Literal(b"\0\xff", "binary")),
    ("date", Literal(date(1969, 12, 31), "date")),
    ("date", Literal(date(9999, 12, 31), "date")),
    ("date", Literal(datetime(2020, 1, 1, 23, 59), "timestamp_ntz")),  # noqa: DTZ001
    ("timestamp", Literal(datetime(2020, 1, 1, 10, 0, 0, 123456, tzinfo=UTC), "timestamp")),
    ("timestamp_ntz", Literal(datetime(2020, 1, 1, 10, 0, 0, 123456), "timestamp_ntz")),  # noqa: DTZ001
    ("timestamp_ntz", Literal(date(2020, 1, 1), "date")),
]


def test_each_value_is_stored_as_spark_stores_it(table: Any) -> None:
    columns = "; ".join(f"c{i} {declared}" for i, (declared, _) in enumerate(PAIRS))
    row = tuple(literal for _, literal in PAIRS)
    nulls = tuple(Literal(None, VOID) for _ in PAIRS)
    one, other = both(table, columns, (row, nulls))
    assert one.rows("SELECT * FROM t WHERE c0") == other.rows("SELECT * FROM t WHERE c0")
    assert repr(one.rows("SELECT * FROM t WHERE c0 IS NULL")) == repr(other.rows("SELECT * FROM t WHERE c0 IS NULL"))
    assert one.rows("SELECT count(*) FROM t WHERE c0 IS NULL") == [(1,)]
    columns = ", ".join(f"c{i}" for i in range(len(PAIRS)))
    union = f"SELECT {columns} FROM one WHERE c0 EXCEPT SELECT {columns} FROM other WHERE c0"
    assert one.rows(union, scans=(one.scan("one"), other.scan("other"))) == []
    ours, theirs = (orc.ORCFile(t.root / data_file(t)).schema for t in (one, other))
    assert ours.remove_metadata().equals(theirs.remove_metadata(), check_metadata=True)


TEXTS = [
    *(("int", text) for text in ("7", "-0", "2147483647", "-2147483648")),
    ("tinyint", "-128"),
    ("bigint", "9223372036854775807"),
    *(("decimal(5,2)", text) for text in ("999.99", "-1.005", "1.239", "-0.0", "007")),
    *(("double", text) for text in ("-0", "0.1", "123456789012345678901234567890.5")),
    *(("float", text) for text in ("-0.0", "16777217", "0.1")),
    *(("boolean", text) for text in ("true", "false")),
    *(("date", text) for text in ("1900-01-01", "2020-02-29", "9999-12-31")),
]


def test_each_constant_text_is_stored_as_spark_reads_it(table: Any) -> None:
    columns = "; ".join(f"c{i} {declared}" for i, (declared, _) in enumerate(TEXTS))
    one, other = table(columns), table(columns)
    assert one.insert_values(tuple(Literal(text, STRING) for _, text in TEXTS)) is not None
    other.insert("SELECT " + ", ".join(f"CAST('{text}' AS {declared})" for declared, text in TEXTS))
    assert repr(one.rows()) == repr(other.rows())
    for declared, text in {"int": "+1", "date": "2020-1-1", "float": "NaN", "decimal(5,2)": "1000"}.items():
        assert table(f"a {declared}").insert_values((Literal(text, STRING),)) is None


def data_file(t: TableOnDisk) -> str:
    return next(name for name in t.files() if "bucket_" in name)


def test_both_ways_make_the_same_directories(table: Any) -> None:
    rows = tuple(
        (Literal(i, INT), Literal(text, STRING if text is not None else VOID), Literal(i % 2, INT))
        for i, text in enumerate(["a/b", "", None, "x=1 %", "__HIVE_DEFAULT_PARTITION__", "é"])
    )
    one, other = both(table, "id int", rows, "p string; q int", statement_id=2)
    assert one.rows("SELECT * FROM t ORDER BY id") == other.rows("SELECT * FROM t ORDER BY id")

    def facts(directory: WrittenDirectory) -> tuple[object, ...]:
        return (directory.partition, directory.values, directory.name, directory.rows)

    assert [facts(d) for d in one.directories] == [facts(d) for d in other.directories]
    row_ids: list[int] = []
    for directory in one.directories:
        folder = one.root / str(directory.partition) / directory.name
        assert sorted(path.name for path in folder.iterdir()) == ["_orc_acid_version", "bucket_00000"]
        stored = orc.ORCFile(folder / "bucket_00000").read().to_pydict()
        assert stored["__row_id"] == sorted(stored["__row_id"])
        row_ids += stored["__row_id"]
        assert set(stored["__bucket"]) == {536870914}
        assert directory.size_bytes == (folder / "bucket_00000").stat().st_size
    # A delete event names a row of the table, whatever its partition.
    assert sorted(row_ids) == list(range(len(rows)))


def test_typed_partition_columns_have_the_same_text(table: Any) -> None:
    row = (
        Literal(1, INT),
        Literal(date(2020, 1, 1), "date"),
        Literal(True, "boolean"),
        decimal("1.5"),
        Literal("ab", STRING),
    )
    one, other = both(table, "id int", (row,), "d date; b boolean; de decimal(5,2); c char(4)")
    assert [d.partition for d in one.directories] == [d.partition for d in other.directories]


def test_static_partitions_and_column_lists_work_alike(table: Any) -> None:
    one, other = (table("a int; b string", "p string; q string") for _ in range(2))
    row = (Literal("x", STRING), Literal("Q", STRING))
    changes: dict[str, Any] = {"static": {"p": "s/t"}, "input_columns": ("b", "q"), "overwrite": True}
    one.insert_values(row, **changes)
    other.insert(as_query((row,)), **changes)
    assert one.rows() == other.rows() == [(None, "x", "s/t", "Q")]
    assert [(d.partition, d.name) for d in one.directories] == [("p=s%2Ft/q=Q", "base_0000001")]
    assert [(d.partition, d.name) for d in other.directories] == [("p=s%2Ft/q=Q", "base_0000001")]


ERROR = "error"


@pytest.mark.parametrize(
    ("type", "literals", "stored"),
    [
        ("int", [Literal(2**40, BIGINT)], ERROR),
        ("tinyint", [Literal(200, INT)], ERROR),
        ("decimal(3,1)", [decimal("100.0")], ERROR),
        ("int", [Literal(float("nan"), DOUBLE)], ERROR),
        ("varchar(2)", [Literal("abc", STRING)], ERROR),
        ("string", [Literal(1.5, DOUBLE)], ["1.5"]),
        ("string", [decimal("1.5")], ["1.5"]),
        ("string", [Literal(1, INT), decimal("1.5"), decimal("1.50")], ["1", "1.5", "1.50"]),
        ("decimal(10,2)", [Literal(1.5, DOUBLE)], [Decimal("1.50")]),
        ("timestamp", [Literal(datetime(2020, 1, 1), "timestamp")], [datetime(2020, 1, 1, tzinfo=UTC)]),  # noqa: DTZ001
        ("timestamp", [Literal(datetime(1969, 1, 1, tzinfo=UTC), "timestamp")], [datetime(1969, 1, 1, tzinfo=UTC)]),
        ("date", [Literal(date(1582, 1, 1), "date")], [date(1582, 1, 1)]),
        ("array<int>", [Literal(None, VOID)], [None]),
    ],
)
def test_what_is_not_certain_is_left_to_spark(table: Any, type: str, literals: list[Literal], stored: Any) -> None:
    t = table(f"x {type}")
    assert t.insert_values(*((literal,) for literal in literals)) is None
    assert t.files() == []
    cells = tuple((as_sql(literal),) for literal in literals)
    types = tuple(
        (None if cell.startswith("double(") else literal.type,)
        for (cell,), literal in zip(cells, literals, strict=True)
    )
    if stored == ERROR:
        with pytest.raises(HivexError):
            t.insert("", values=PlannedValues(cells, types))
    else:
        t.insert("", values=PlannedValues(cells, types))
        assert t.rows() == [(value,) for value in stored]


@pytest.mark.parametrize(
    ("type", "literal"), [("interval day to second", Literal(None, VOID)), ("string", Literal("\ud800", STRING))]
)
def test_what_cannot_be_written_here_is_left_to_spark(table: Any, type: str, literal: Literal) -> None:
    t = table(f"x {type}")
    assert t.insert_values((literal,)) is None
    assert t.files() == []


def test_a_zero_of_a_decimal_has_no_sign(table: Any) -> None:
    t = table("x float; y double", "p decimal(5,2)")
    zeros = (decimal("-0.001"), decimal("-0.0"), Literal("-0", STRING))
    assert t.insert_values(*((zeros[1], zeros[1], zero) for zero in zeros)) is not None
    assert [directory.partition for directory in t.directories] == ["p=0.00"]
    assert [repr(row) for row in t.rows("SELECT x, y FROM t")] == ["(0.0, 0.0)"] * 3


def test_a_text_next_to_a_number_is_stored_as_it_is(table: Any) -> None:
    t = table("x string")
    assert t.insert_values((Literal(1, INT),), (Literal("x", STRING),)) is not None
    assert t.rows() == [("1",), ("x",)]


def test_mixed_exact_numbers_are_stored_as_spark_stores_them(table: Any) -> None:
    rows = tuple(
        (literal, literal, literal)
        for literal in (Literal(1, INT), decimal("2.25"), Literal(2**40, BIGINT), Literal(None, VOID))
    )
    one, other = both(table, "a bigint; b decimal(20,1); c double", rows)
    assert one.rows() == other.rows()


def test_definite_errors_need_no_spark(table: Any) -> None:
    t = table("a int; b string", "p int")
    with pytest.raises(ColumnCountMismatchError):
        t.insert_values((Literal(1, INT), Literal("x", STRING)))
    with pytest.raises(ColumnCountMismatchError):
        t.insert_values((Literal(1, INT), Literal("x", STRING), Literal(1, INT)), (Literal(1, INT),))
    with pytest.raises(TypeMismatchError, match=r"Column a of db\.t has type int"):
        t.insert_values((Literal(True, "boolean"), Literal("x", STRING), Literal(1, INT)))
    with pytest.raises(TypeMismatchError, match="Column p"):
        t.insert_values((Literal(2**40, BIGINT), Literal("x", STRING), Literal(True, "boolean")))
    with pytest.raises(UnreadableTextError, match=r"Column a .* 'one'"):
        t.insert_values((Literal("1", STRING), Literal("x", STRING), Literal(1, INT)), (Literal("one", STRING),) * 3)
    assert t.files() == []


def test_a_directory_of_the_same_name_is_never_mixed_into(table: Any) -> None:
    t = table("a int", "p int")
    t.insert_values((Literal(1, INT), Literal(2, INT)))
    with pytest.raises(InvalidOperationError, match="exists already"):
        t.insert_values((Literal(1, INT), Literal(1, INT)), (Literal(1, INT), Literal(2, INT)), write_id=1)
    assert [name for name in t.files() if "bucket_" in name] == ["p=2/delta_0000001_0000001_0000/bucket_00000"]


# -- bucketed tables ---------------------------------------------------------------------

BUCKETS: dict[str, Any] = {"num_buckets": 4}
KEYS = "k int; s string; de decimal(10,2); d date; c char(6); x double"


def key_rows() -> tuple[tuple[Literal, ...], ...]:
    rows = [
        (
            Literal(i * 7919, INT),
            Literal(f"né{i}" * (i % 3), STRING),
            Literal(Decimal(i).scaleb(-1), "decimal(10,1)"),
            Literal(date.fromordinal(720000 + i * 31), "date"),
            Literal(f"c{i}", STRING),
            Literal(i / 3, DOUBLE),
        )
        for i in range(40)
    ]
    return (*rows, tuple(Literal(None, VOID) for _ in range(6)))


def buckets(t: TableOnDisk) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    for name in t.files():
        if "bucket_" in name:
            rows = orc.ORCFile(t.root / name).read().to_pylist()
            assert [row["__row_id"] for row in rows] == sorted(row["__row_id"] for row in rows)
            assert {row["__bucket"] >> 16 & 0xFFF for row in rows} == {int(name[-5:])}
            found[Path(name).name] = sorted((tuple(list(row.values())[5:]) for row in rows), key=repr)
    return found


@pytest.mark.parametrize("by", [("k",), ("s",), ("de", "d"), ("c", "K"), ("x",)])
def test_spark_and_constants_agree_on_buckets(table: Any, by: tuple[str, ...]) -> None:
    one, other = both(table, KEYS, key_rows(), bucket_columns=by, **BUCKETS)
    assert buckets(one) == buckets(other)
    assert len(buckets(one)) > 1


@pytest.mark.parametrize("ascending", [True, False])
def test_rows_of_a_bucket_are_sorted_as_declared(table: Any, ascending: bool) -> None:
    order = (SortColumn("d", ascending), SortColumn("s", not ascending))
    one, other = both(table, KEYS, key_rows(), bucket_columns=("k",), sort_columns=order, **BUCKETS)
    for t in (one, other):
        for name in t.files():
            if "bucket_" in name:
                found = orc.ORCFile(t.root / name).read(columns=["d", "s"]).to_pylist()
                # Sorting is stable; NULL is less than any value.
                wanted = sorted(found, key=lambda row: (row["s"] is not None, row["s"] or ""), reverse=ascending)
                wanted.sort(key=lambda row: row["d"] or date.min, reverse=not ascending)
                assert [tuple(row.values()) for row in found] == [tuple(row.values()) for row in wanted]


def test_an_order_of_floating_point_is_left_to_spark(table: Any) -> None:
    assert (
        table(KEYS, bucket_columns=("k",), sort_columns=(SortColumn("x"),), **BUCKETS).insert_values(*key_rows())
        is None
    )


def test_buckets_and_partitions_go_together(table: Any) -> None:
    options: dict[str, Any] = {"bucket_columns": ("k",), "sort_columns": (SortColumn("k"),), **BUCKETS}
    t = table("k bigint", "p bigint", **options)
    t.insert("SELECT id, id % 2 FROM range(0, 200, 1, 3)")
    assert {d.partition: d.rows for d in t.directories} == {"p=0": 100, "p=1": 100}
    in_bucket: dict[str, set[int]] = {}
    for name in t.files():
        if "bucket_" in name:
            keys = orc.ORCFile(t.root / name).read(columns=["k"]).to_pydict()["k"]
            assert keys == sorted(keys)
            in_bucket.setdefault(name[-5:], set()).update(keys)
    assert sum(map(len, in_bucket.values())) == 200
