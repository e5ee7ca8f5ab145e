"""Each value of a list of VALUES is stored as in a statement of its own, by Spark and without it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hivex.core.errors import HivexError, TypeMismatchError, UnreadableTextError
from airflow_hivex.core.execution.select_and_insert import planned_values
from airflow_hivex.core.job.conversions import check_types, stored_column
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.parser.reader import read
from airflow_hivex.core.parser.statements import Insert
from tests.conftest import Counts
from tests.evidence import SEED, amount, drawn
from tests.integration.core.job.conftest import TableOnDisk

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.spark

LISTS = amount("HIVEX_VALUE_LISTS", 6, 500)
CONSTANTS = amount("HIVEX_CONSTANTS", 40, 400)
"""The number of constants of each type."""
ZONES = ("UTC", "Asia/Tokyo", "America/New_York", "Australia/Lord_Howe")

WHOLE = ("0", "-1", "7", "127", "128", "-32768", "2147483647", "2147483648", "9007199254740993L", "-5Y", "300S")
DECIMALS = (
    "1.5",
    "1.50",
    "-0.05",
    "2.5",
    "1.005",
    "123456.789",
    "0.0000001",
    "99999999999999999999.5",
    "7BD",
    "16777217.5",
)
DOUBLES = ("1.5D", "1e3", "0.1D", "1e300", "-0.0D", "-2.5D", "9007199254740992D", "1e-7D", "123456789.125D")
FLOATS = ("0.1F", "16777216F", "-1.5F")
NUMBERS = (*WHOLE, *DECIMALS, *DOUBLES, *FLOATS)
NUMBER_TEXTS = (
    "'1'",
    "' 2 '",
    "'1.5'",
    "'1.005'",
    "'+1'",
    "'1e3'",
    "'-0'",
    "'NaN'",
    "'1.'",
    "'.5'",
    "'x'",
    "''",
    "'1L'",
    "'1D'",
)
DATES = ("DATE'2020-02-29'", "DATE'1899-12-31'", "DATE'1969-12-31'", "DATE'2262-01-01'")
EARLY_DATES = ("DATE'1582-10-10'", "DATE'0001-01-01'", "DATE'9999-12-31'", "'1066-10-14'", "'+10000-01-01'")
TIMES = (
    *("TIMESTAMP'2020-02-29 12:30:00'", "TIMESTAMP'1960-01-01 00:00:00.123456'", "TIMESTAMP'2020-03-08 02:30:00'"),
    *("TIMESTAMP'2020-01-01 23:30:00+09:00'", "TIMESTAMP'1890-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-02-29 12:30:00.5'"),
    *("TIMESTAMP_NTZ'1960-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-03-08 02:30:00'", "TIMESTAMP_LTZ'2020-11-01 01:30:00'"),
)
TIME_TEXTS = (
    *(
        "'2020-02-29'",
        "'2020-2-9'",
        "'2020-01-01 10:00:00'",
        "'2020-01-01 10:00:00+09:00'",
        "'12:30:00'",
    ),
    *("'2020-01-01T10:00:00.123456Z'", "'now'", "'2020'", "'2020-03-08 02:30:00'", "'1890-01-01'"),
)
TEXTS = ("'x'", "'é𝄞'", "'ab   '", "'too long a text'", "'1'", "''", "' a'", r"'it\'s'")
BOOLEANS = ("true", "false")
BINARIES = ("X'00ff'", "X'C3A9'", "X''")
MOMENTS = (*DATES, *TIMES, *TIME_TEXTS)
NUMERIC = (*NUMBERS, *NUMBERS, *NUMBER_TEXTS)
SIMPLE = (*TEXTS, *NUMBERS, *DATES, *EARLY_DATES[:3], *TIMES, *BOOLEANS, *BINARIES)

CELLS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), NUMERIC),
    **dict.fromkeys(("decimal(10,2)", "decimal(38,10)", "decimal(3,0)"), NUMERIC),
    "boolean": (*BOOLEANS, "'true'", "'No'", "'x'", "'t'", "'1'", "' false '"),
    **dict.fromkeys(("string", "varchar(12)", "char(14)"), SIMPLE),
    "binary": (*BINARIES, *TEXTS),
    "date": (*MOMENTS, *EARLY_DATES),
    # pyarrow reads times of the years from 1677 to 2262.
    **dict.fromkeys(("timestamp", "timestamp_ntz"), MOMENTS),
    "array<string>": ("array(1)", "array('x', NULL)", "array(1.5, 2)", "array(DATE'2020-01-01')", "array(1D)"),
}
EXPRESSIONS = ("if(true, {}, NULL)", "coalesce({}, NULL)", "({})")


@dataclass(frozen=True)
class Case:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    zone: str
    casts: bool

    @classmethod
    def drawn(cls, draw: random.Random) -> Case:
        columns = tuple(draw.choice(list(CELLS)) for _ in range(draw.choice((1, 1, 2, 3))))
        # One value of another kind may be an error of the whole list.
        anything = draw.random() < 0.1
        rows = tuple(tuple(cls.cell(draw, column, anything) for column in columns) for _ in range(draw.randint(1, 4)))
        return cls(columns, rows, draw.choice(ZONES), draw.random() < 0.2)

    @staticmethod
    def cell(draw: random.Random, column: str, anything: bool) -> str:
        if draw.random() < 0.1:
            return "NULL"
        cell = draw.choice((*TEXTS, *NUMBERS, *DATES, *TIMES) if anything else CELLS[column])
        return draw.choice(EXPRESSIONS).format(cell) if draw.random() < 0.15 else cell

    @property
    def options(self) -> dict[str, Any]:
        return {"casts": self.casts, "spark_conf": {"spark.sql.session.timeZone": self.zone}}


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: numbers for days and times, which Python knows to the year 9999, bytes for texts.

    A text may hold bytes that are not UTF-8, from BINARY.
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    return column.to_pylist()


def stored(t: TableOnDisk) -> list[list[str]]:
    """Return the values in the files of a table by the first column, as texts that show each difference."""
    files = [t.root / name for name in t.files() if "bucket_" in name]
    rows = [row[5:] for file in files for row in zip(*map(values_of, orc.ORCFile(file).read().columns), strict=True)]
    return [[repr(value) for value in row[1:]] for row in sorted(rows, key=lambda row: int(row[0]))]


def made(table: Any, columns: Sequence[str]) -> TableOnDisk:
    t = table("n int; " + "; ".join(f"c{i} {declared}" for i, declared in enumerate(columns)))
    assert isinstance(t, TableOnDisk)
    return t


def by_spark(table: Any, case: Case) -> list[list[str]]:
    t, insert = made(table, case.columns), listed(case)
    t.insert(insert.query.text, values=planned_values(insert.query), **case.options)
    return stored(t)


def without_spark(table: Any, case: Case) -> list[list[str]] | None:
    t, rows = made(table, case.columns), listed(case).rows
    if rows is None or t.insert_values(*rows, casts=case.casts) is None:
        return None
    return stored(t)


def one_by_one(table: Any, case: Case) -> list[list[str]]:
    """Return what is stored for each value where it is alone: as a column of its own, of one row."""
    width = len(case.columns)
    t = made(table, case.columns * len(case.rows))
    insert = read(f"INSERT INTO t SELECT 0, {', '.join(cell for row in case.rows for cell in row)}")
    assert isinstance(insert, Insert)
    query = insert.query
    t.insert(query.text[query.start :], texts=query.texts, **case.options)
    ((*values,),) = stored(t)
    return [values[start : start + width] for start in range(0, len(values), width)]


def listed(case: Case) -> Insert:
    rows = (f"({n}, {', '.join(row)})" for n, row in enumerate(case.rows))
    insert = read(f"INSERT INTO t VALUES {', '.join(rows)}")
    assert isinstance(insert, Insert)
    return insert


def outcome(way: Any, table: Any, case: Case) -> Any:
    try:
        return way(table, case)
    except (TypeMismatchError, UnreadableTextError) as error:
        return str(error)
    except HivexError:
        return "an error of Spark"


@pytest.mark.evidence
def test_values_are_stored_as_each_by_itself(table: Any, counts: Counts) -> None:
    draw = random.Random(f"{SEED} value lists")
    seen = Counter[str]()
    for _ in range(LISTS):
        case = Case.drawn(draw)
        found, alone, own = (outcome(way, table, case) for way in (by_spark, one_by_one, without_spark))
        # Of several errors each way may report another one.
        if isinstance(found, list) or isinstance(alone, list):
            assert found == alone, case
        if own is not None and (isinstance(own, list) or isinstance(found, list)):
            assert own == found, case
        seen["lists stored" if isinstance(found, list) else "lists refused"] += 1
        seen["stored without Spark, too"] += isinstance(own, list)
    counts["Values of VALUES stored as each by itself"] = seen


def constant(draw: random.Random, kind: str) -> str:
    """Return a constant in Spark SQL: a number, a text of one, a day, a time or any text."""
    digits = str(draw.getrandbits(draw.choice((1, 7, 8, 15, 16, 31, 32, 63, 90))))
    point = draw.randint(0, len(digits))
    sign = draw.choice(("", "-"))
    year = draw.choice((draw.randint(1900, 2100), draw.randint(1900, 9999)))
    day = f"{year}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
    clock = f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}.{draw.randint(0, 999999):06}"
    match kind:
        case "whole":
            return f"{sign}{digits}{draw.choice(('', '', 'L', 'S', 'Y', 'BD'))}"
        case "decimal":
            return f"{sign}{digits[:point]}.{digits[point:] or '0'}"
        case "double":
            return f"{draw.choice((draw.gauss(0, 1), draw.uniform(-1e19, 1e19), 2.0 ** draw.randint(-160, 160)))!r}D"
        case "half":
            # Half way between two floats, or next to that.
            number = (2**24 + 2 * draw.randint(0, 2**20) + 1) * 2 ** draw.randint(0, 20)
            return f"{sign}{number}{draw.choice(('', '.0', '.000001', 'BD'))}"
        case "number text":
            zeros = draw.choice(("", "", "0", "000"))
            return f"'{sign}{zeros}{digits[:point] or '0'}{draw.choice(('', f'.{digits[point:] or 0}'))}'"
        case "day":
            return draw.choice((f"DATE'{day}'", f"'{day}'"))
        case "time":
            zone = draw.choice(("", "", "+09:00", "-03:30", "Z"))
            return draw.choice((f"TIMESTAMP_NTZ'{day} {clock}'", f"TIMESTAMP'{day} {clock}{zone}'"))
        case "boolean":
            return draw.choice(("true", "false", "'true'", "'false'", "'No'"))
        case "binary":
            return f"X'{draw.randbytes(draw.randint(0, 9)).hex()}'"
    text = "".join(
        chr(draw.choice((32, 39, 65, 92, 233, 0x1D11E, draw.randint(1, 0xD7FF)))) for _ in range(draw.randint(0, 9))
    )
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


NUMBER_KINDS = ("whole", "decimal", "double", "half", "number text")
KINDS: dict[str, Sequence[str]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), NUMBER_KINDS),
    **dict.fromkeys(("decimal(10,2)", "decimal(38,10)", "decimal(20,0)"), NUMBER_KINDS),
    **dict.fromkeys(("string", "varchar(6)", "char(6)"), (*NUMBER_KINDS, "day", "time", "boolean", "text")),
    # Spark alone stores times with a zone.
    **dict.fromkeys(("date", "timestamp_ntz"), ("day", "time")),
    "boolean": ("boolean",),
    "binary": ("binary", "text"),
}


def is_certain(cell: str, column: Column) -> bool:
    """Return whether a constant is stored without Spark."""
    insert = read(f"INSERT INTO t VALUES ({cell})")
    assert isinstance(insert, Insert)
    if insert.rows is None:
        return False
    (literals,) = insert.rows
    try:
        check_types(literals, column, "db.t")
        return stored_column(literals, column, "db.t") is not None
    except HivexError:
        return False


@pytest.mark.evidence
def test_constants_are_stored_as_spark_stores_them(table: Any, counts: Counts) -> None:
    draw = random.Random(f"{SEED} constants")
    seen = Counter[str]()
    for declared in drawn("types of constants", list(KINDS), 3):
        cells = (constant(draw, draw.choice(KINDS[declared])) for _ in range(CONSTANTS * 20))
        certain = (cell for cell in cells if is_certain(cell, Column("c0", declared)))
        case = Case((declared,), tuple((cell,) for cell in islice(certain, CONSTANTS)), draw.choice(ZONES), casts=False)
        own, found = without_spark(table, case), by_spark(table, case)
        assert own is not None
        different = [
            (cell, *values) for (cell,), *values in zip(case.rows, own, found, strict=True) if values[0] != values[1]
        ]
        assert not different, declared
        seen["constants"] += len(own)
    counts["Constants stored without Spark as Spark stores them"] = seen
