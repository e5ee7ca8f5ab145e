"""Random conditions on random tables: the rows of ``to_arrow`` are those of SELECT, in every time zone.

Spark decides a batch of conditions in one query, as columns of its result, so that neither partitions nor stripes are
left out there. Some of them are also conditions of a SELECT. ``make evidence`` compares 20,000 conditions;
``HIVEX_ARROW_COMPARISONS`` sets another number.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from airflow_hivex.core import Session
from airflow_hivex.core.errors import (
    HivexError,
    InvalidOperationError,
    InvalidParametersError,
    UnsupportedStatementError,
)
from tests import evidence
from tests.conftest import Counts

pytestmark = [
    pytest.mark.spark,
    pytest.mark.evidence,
    pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True),
]

BATCH = 60
TABLES = 7
"""How many tables a seed has: one of each kind."""
PER_SEED = TABLES * BATCH
_ALL = evidence.amount("HIVEX_ARROW_COMPARISONS", share=PER_SEED, whole=20_000)
SEEDS = range(evidence.SEED, evidence.SEED + max(1, -(-_ALL // PER_SEED)))

ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Europe/Berlin", "+05:30", "America/Sao_Paulo", "PST", "UTC-3"]

COLUMNS = {
    "ti": "TINYINT",
    "i": "INT",
    "big": "BIGINT",
    "d": "DECIMAL(10,2)",
    "wide": "DECIMAL(38,10)",
    "f": "FLOAT",
    "g": "DOUBLE",
    "s": "STRING",
    "v": "VARCHAR(5)",
    "c": "CHAR(4)",
    "b": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
}
KEYS = {
    "k_int": "INT",
    "k_text": "STRING",
    "k_char": "CHAR(4)",
    "k_varchar": "VARCHAR(5)",
    "k_day": "DATE",
    "k_at": "TIMESTAMP",
    "k_local": "TIMESTAMP_NTZ",
    "k_d": "DECIMAL(6,2)",
    "k_g": "DOUBLE",
    "k_b": "BOOLEAN",
}
KINDS = {
    "flat": "",
    "nested": "TBLPROPERTIES ('hivex.row.layout' = 'hive')",
    "insert-only": "STORED AS PARQUET TBLPROPERTIES ('transactional_properties' = 'insert_only')",
    "external by Spark": "STORED AS ORC",
    "external ORC": "STORED AS ORC",
    "external Parquet": "STORED AS PARQUET",
    "original": "STORED AS ORC",
}
assert len(KINDS) == TABLES
BY_PYARROW = ("external ORC", "external Parquet", "original")

TEXTS = ["", "a", "ab", "abc", "b", "a b", "ü", "1", "12", "x%", "A"]
MOMENTS = [
    dt.datetime.fromisoformat(text)
    for text in (
        "2020-01-01 00:00:00",
        "2020-01-01 10:00:00",
        "2019-12-31 15:00:00",
        "2020-01-01 05:30:00",
        "2020-03-08 02:30:00",
        "2020-03-29 02:30:00",
        "2020-10-25 02:30:00",
        "2020-11-01 01:30:00.250000",
        "1999-07-01 23:59:59.999999",
    )
]
VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, -1, 0, 1, 2, 12, 127],
    "INT": [-(2**31), -1, 0, 1, 2, 12, 300, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 1, 2, 300, 2**53, 2**53 + 1, 2**63 - 1],
    "DECIMAL(10,2)": [Decimal(n) for n in ("-1.50", "0.00", "0.10", "1.00", "1.50", "2.25", "99999999.99")],
    "DECIMAL(6,2)": [Decimal(n) for n in ("-1.50", "0.00", "0.10", "1.00", "1.50", "2.25")],
    "DECIMAL(38,10)": [Decimal(n) for n in ("-1.5", "0.0", "0.1", "1.0", "2.25", "1234567890123456789012345678.5")],
    "FLOAT": [float("nan"), float("inf"), -1.5, -0.0, 0.0, 0.5, 1.0, 2.0, 0.10000000149011612],
    "DOUBLE": [float("nan"), float("-inf"), -1.5, -0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 1e300],
    "STRING": TEXTS,
    "VARCHAR(5)": TEXTS,
    "CHAR(4)": TEXTS,
    "BOOLEAN": [True, False],
    "DATE": [dt.date(1999, 7, 1), dt.date(2019, 12, 31), dt.date(2020, 1, 1), dt.date(2020, 3, 8)],
    "TIMESTAMP": MOMENTS,
    "TIMESTAMP_NTZ": MOMENTS,
}
ARROW = {
    "TINYINT": pa.int8(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DECIMAL(10,2)": pa.decimal128(10, 2),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}


def is_text(type: str) -> bool:
    return type == "STRING" or "CHAR" in type


def literal(value: Any, type: str) -> str:
    """Return a value as a constant of its type in SQL."""
    match value:
        case None:
            return "NULL"
        case str():
            return f"'{value}'"
        case bool():
            return str(value).lower()
        case dt.datetime():
            word = "TIMESTAMP_NTZ" if type == "TIMESTAMP_NTZ" else "TIMESTAMP"
            return f"{word} '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value}'"
        case float():
            return f"{type}('{value}')"
        case int():
            return f"({value})" if value > -(2**63) else "(-9223372036854775807 - 1)"
    return f"{value}BD"


class Generated:
    """Rows, and conditions on them, that one seed draws."""

    def __init__(self, draw: random.Random, kind: str) -> None:
        self.draw = draw
        # Spark does not read a TIMESTAMP_NTZ in files of ORC that say nothing of Spark's types.
        is_lacking = kind in ("external ORC", "original")
        lacking = "TIMESTAMP_NTZ" if is_lacking else ""
        self.columns = {name: declared for name, declared in COLUMNS.items() if declared != lacking}
        keys = draw.sample(list(KEYS), draw.choice([0, 1, 1, 2]))
        self.keys = {name: KEYS[name] for name in keys}
        self.types = {**self.columns, **self.keys}

    def rows(self, count: int) -> list[dict[str, Any]]:
        draw = self.draw
        places = [
            {name: draw.choice([None, *(v for v in VALUES[t] if v != "")]) for name, t in self.keys.items()}
            for _ in range(4)
        ]
        return [
            {
                "id": number,
                **{name: draw.choice([None, *VALUES[t]]) for name, t in self.columns.items()},
                **draw.choice(places),
            }
            for number in range(count)
        ]

    def condition(self, depth: int = 0) -> str:
        draw = self.draw
        if depth < 3 and draw.random() < 0.35:
            first, second = self.condition(depth + 1), self.condition(depth + 1)
            return draw.choice([f"({first} AND {second})", f"({first} OR {second})", f"NOT ({first})"])
        name = draw.choice([*self.types, *self.keys, *self.keys])
        match draw.randrange(12):
            case 0:
                return f"{name} IS {draw.choice(['', 'NOT '])}NULL"
            case 1:
                return f"{name} <=> {draw.choice(['NULL', self.constant(name)])}"
            case 2 | 3:
                values = [self.constant(name) for _ in range(draw.randint(1, 4))]
                return (
                    f"{name} {draw.choice(['', 'NOT '])}IN ({', '.join([*values, *draw.choice([[], [], ['NULL']])])})"
                )
            case 4:
                return f"{name} {draw.choice(['', 'NOT '])}BETWEEN {self.constant(name)} AND {self.constant(name)}"
            case 5 if is_text(self.types[name]):
                pattern = draw.choice(["a%", "%b", "_", "a_", "%", "", "a b%", "x\\\\%", "a   ", "A%", "%ü%"])
                return f"{name} {draw.choice(['', 'NOT '])}LIKE '{pattern}'"
            case 6:
                return f"{self.constant(name)} {draw.choice(['<', '<=', '>', '>=', '='])} {name}"
        return f"{name} {draw.choice(['=', '=', '<>', '<', '<=', '>', '>='])} {self.constant(name)}"

    def constant(self, name: str) -> str:
        draw, declared = self.draw, self.types[name]
        if is_text(declared):
            return f"'{draw.choice(TEXTS) + ' ' * draw.choice([0, 0, 0, 1, 3, 5])}'"
        if declared == "BOOLEAN":
            return draw.choice(["true", "false"])
        if declared in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            value: dt.date = draw.choice([*MOMENTS, *VALUES["DATE"]])
            if draw.random() < 0.4:
                text = value.isoformat(sep=draw.choice(" T")) if isinstance(value, dt.datetime) else str(value)
                return f"'{text}{draw.choice(['', '', '', 'Z', '+09:00']) if len(text) > 10 else ''}'"
            return literal(value, draw.choice(["TIMESTAMP", "TIMESTAMP_NTZ"]))
        every = ["TINYINT", "INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(38,10)", "DOUBLE"]
        found = draw.choice(VALUES[draw.choice([declared, *every])])
        if draw.random() < 0.2:
            return f"'{found}'"
        if isinstance(found, float):
            return f"{found!r}D" if abs(found) < 1e15 else "1e300"
        return str(found)


def create(session: Session, kind: str, generated: Generated, where: Path) -> None:
    rows = generated.rows(40)
    columns = ", ".join(f"{name} {declared}" for name, declared in {"id": "INT", **generated.columns}.items())
    keys = ", ".join(f"{name} {declared}" for name, declared in generated.keys.items())
    partitioned = f"PARTITIONED BY ({keys})" if keys else ""
    session.sql("DROP TABLE IF EXISTS t")
    external, location = (
        ("EXTERNAL ", f"LOCATION '{where.name}'") if kind in BY_PYARROW or "Spark" in kind else ("", "")
    )
    properties = KINDS[kind]
    before, _, after = properties.partition("TBLPROPERTIES")
    after = f"TBLPROPERTIES {after}" if after else ""
    session.sql(f"CREATE {external}TABLE t ({columns}) {partitioned} {before} {location} {after}")
    if kind not in BY_PYARROW:
        types = {"id": "INT", **generated.types}
        for part in (rows[:25], rows[25:]):
            values = ", ".join(
                "(" + ", ".join(f"CAST({literal(row[n], t)} AS {t})" for n, t in types.items()) + ")" for row in part
            )
            session.sql(f"INSERT INTO t VALUES {values}")
        return
    by_place: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        by_place.setdefault(tuple(row[name] for name in generated.keys), []).append(row)
    for number, (place, part) in enumerate(by_place.items()):
        folder = where / f"part{number}" if place else where
        folder.mkdir(parents=True, exist_ok=True)
        if place:
            named = ", ".join(
                f"{n} = {'NULL' if v is None else repr(spelled(v))}"
                for (n, _), v in zip(generated.keys.items(), place, strict=True)
            )
            session.sql(f"ALTER TABLE t ADD IF NOT EXISTS PARTITION ({named}) LOCATION '{where.name}/part{number}'")
        data = pa.table(
            {
                "id": pa.array([row["id"] for row in part], pa.int32()),
                **{
                    name: pa.array([row[name] for row in part], stored_type(declared, kind))
                    for name, declared in generated.columns.items()
                },
            }
        )
        if kind == "external Parquet":
            parquet.write_table(data, folder / "000000_0", row_group_size=5)
        else:
            orc.write_table(data, folder / "000000_0", stripe_size=1, batch_size=5)
    if kind == "original" and not generated.keys:
        session.sql("ALTER TABLE t SET TBLPROPERTIES ('EXTERNAL' = 'FALSE', 'transactional' = 'true')")
        session.sql("DELETE FROM t WHERE id = 3")


def stored_type(declared: str, kind: str) -> pa.DataType:
    if declared == "TIMESTAMP" and kind == "external Parquet":
        return pa.timestamp("us", tz="UTC")
    return ARROW.get(declared, pa.string())


def spelled(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_to_arrow_has_the_rows_of_select(session: Session, tmp_path: Path, seed: int, counts: Counts) -> None:
    draw = random.Random(f"arrow {seed}")
    counted: Counter[str] = Counter()
    different: list[str] = []
    for number, kind in enumerate(KINDS):
        generated = Generated(draw, kind)
        where = tmp_path / "c1" / f"files{number}"
        where.mkdir(parents=True)
        session.sql("SET TIME ZONE 'UTC'")
        create(session, kind, generated, where)
        zone = draw.choice(ZONES)
        session.sql(f"SET TIME ZONE '{zone}'")
        about = f"seed {seed}, {kind}, keys {generated.keys}, {zone}"
        different += [f"{about}: {each}" for each in compared_values(session, generated)]
        answered: dict[str, list[int]] = {}
        while len(answered) < BATCH:
            condition = generated.condition()
            try:
                answered[condition] = sorted(session.to_arrow("t", columns=["id"], filter=condition)["id"].to_pylist())
            except (InvalidParametersError, UnsupportedStatementError, InvalidOperationError):
                counted["conditions refused"] += 1
        different += [f"{about}: {each}" for each in compared_conditions(session, answered)]
        counted["comparisons"] += len(answered)
    assert not different, "\n".join(different)
    counts["`to_arrow` and SELECT"] = dict(counted)


def _plain(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return a row in which both zeros are one, as they are equal to Spark."""
    return tuple(0.0 if isinstance(value, float) and value == 0 else value for value in row)


def compared_values(session: Session, generated: Generated) -> Iterator[str]:
    """Yield the rows that are different where all of them are read."""
    names = ["id", *generated.types]
    shown = [f"unix_micros({n})" if generated.types.get(n) == "TIMESTAMP" else n for n in names]
    expected = {row[0]: repr(_plain(row)) for row in session.sql(f"SELECT {', '.join(shown)} FROM t").rows}
    found = session.to_arrow("t", columns=names)
    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) and column.type.tz else column).to_pylist()
        for column in found.columns
    ]
    actual = {row[0]: repr(_plain(row)) for row in zip(*columns, strict=True)}
    for each in expected.keys() | actual.keys():
        if expected.get(each) != actual.get(each):
            yield f"row {expected.get(each)} is {actual.get(each)}"


def compared_conditions(session: Session, answered: dict[str, list[int]]) -> Iterator[str]:
    """Yield the conditions that SELECT decides in another way."""
    try:
        texts = list(answered)
        rows = session.sql(f"SELECT id, {', '.join(f'({each}) AS b{n}' for n, each in enumerate(texts))} FROM t").rows
        asked = {each: sorted(row[0] for row in rows if row[n + 1]) for n, each in enumerate(texts)}
        # Also as conditions by which Spark leaves out partitions and stripes.
        some = texts[:4]
        asked_again = [(each, f"SELECT id FROM t WHERE {each}") for each in some]
        where = [(each, sorted(row[0] for row in session.sql(text).rows)) for each, text in asked_again]
    except HivexError as error:
        if len(answered) == 1:
            yield f"{next(iter(answered))}: {json.dumps(str(error)[:300])}"
            return
        half = len(answered) // 2
        yield from compared_conditions(session, dict(list(answered.items())[:half]))
        yield from compared_conditions(session, dict(list(answered.items())[half:]))
        return
    for each, ids in [*asked.items(), *where]:
        if ids != answered[each]:
            yield f"{each}: SELECT has {ids}, to_arrow {answered[each]}"
