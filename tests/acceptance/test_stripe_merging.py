"""Compactions that copy stripes and rewrite others: every value, id and order stays, for us and for Hive."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import orc

from airflow_hivex.core import Metastore, Session
from airflow_hivex.core.job import stripe_merging
from airflow_hivex.core.model.compaction import CompactionState
from tests.acceptance.test_compaction_worker import compact, names
from tests.acceptance.test_hive_layout import read_by_hive
from tests.acceptance.test_types import ATOMIC
from tests.acceptance.test_types import COLUMNS as EVERY_TYPE

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("metastore_url", ["sqlite"], indirect=True)]

# Spark has to write earlier moments.
VALUES = dict(list(EVERY_TYPE.items())[:ATOMIC]) | {
    "timestamp": (
        "TIMESTAMP'2013-01-31 12:30:00.123456'",
        "TIMESTAMP'1970-01-03 00:00:00.000001'",
        "TIMESTAMP'2262-01-01 00:00:00'",
    )
}
# What cannot be compared by Hive's JSON, or that it does not know.
NOT_FOR_HIVE = ("float", "double", "binary", "timestamp", "timestamp_ntz")


def columns_of(layout: str) -> dict[str, str]:
    """Names and types."""
    return {f"c{at}": kind for at, kind in enumerate(VALUES) if layout == "flat" or kind not in NOT_FOR_HIVE}


def create(session: Session, layout: str, clustered: str = "") -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in columns_of(layout).items())
    session.sql(f"CREATE TABLE t (id int, {columns}) {clustered} TBLPROPERTIES ('hivex.row.layout' = '{layout}')")


def insert(session: Session, layout: str, first: int, end: int) -> None:
    """Rows with every value of each column, among others, and NULL."""
    columns = ", ".join(
        "CAST(CASE (id + {}) % 4 WHEN 0 THEN {} WHEN 1 THEN {} WHEN 2 THEN {} END AS {})".format(
            name[1:], *VALUES[kind], kind
        )
        for name, kind in columns_of(layout).items()
    )
    session.sql(f"INSERT INTO t SELECT CAST(id AS INT), {columns} FROM range({first}, {end})")


def contents(session: Session, layout: str) -> list[tuple[Any, ...]]:
    """All rows with their ids, in the order of those; doubles as text, where NaN is NaN."""
    values = ", ".join(
        f"hex({name})" if kind == "binary" else f"CAST({name} AS STRING)" for name, kind in columns_of(layout).items()
    )
    return session.sql(f"SELECT ROW__ID, id, {values} FROM t ORDER BY ROW__ID").rows


def seen_by_hive(base: Path, scratch: Path) -> Counter[str]:
    """What Hive 2.3 reads, which knows no visibility suffixes, of a base's copy without one."""
    shutil.copytree(base, scratch / base.name.partition("_v")[0])
    columns = {"id": "int", **columns_of("hive")}
    return Counter(shown([row[name] for name in columns]) for row in read_by_hive(scratch, columns))


def shown(row: Iterable[Any]) -> str:
    """A row as text, without zeros and spaces that say nothing."""
    return repr([f"{value.normalize():f}" if isinstance(value, Decimal) else str(value).rstrip() for value in row])


def files(root: Path, directory: str) -> dict[str, orc.ORCFile]:
    folder = root / "c1" / "default.db" / "t" / directory
    return {path.name: orc.ORCFile(path) for path in sorted(folder.glob("bucket_*"))}


def in_order(file: orc.ORCFile) -> bool:
    rows = file.read()
    keys = list(zip(*(rows.column(at).to_pylist() for at in (1, 2, 3)), strict=True))
    return keys == sorted(set(keys))


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are enough for Spark's tasks, and for stripes that are copied."""
    monkeypatch.setattr(stripe_merging, "FEW_ROWS", 0)
    monkeypatch.setattr(stripe_merging, "SMALL_STRIPE", 2)


def whys(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why compactions had to read, sort and write all rows in one pass."""
    return [record.getMessage() for record in caplog.records if "not put together" in record.getMessage()]


@pytest.mark.evidence(cases=1, among="merged stripes")
@pytest.mark.parametrize(("layout", "clustered"), [("flat", ""), ("hive", "CLUSTERED BY (id) INTO 3 BUCKETS")])
@pytest.mark.usefixtures("in_tasks")
def test_values_ids_and_order_stay(
    metastore: Metastore,
    session: Session,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    layout: str,
    clustered: str,
) -> None:
    caplog.set_level(logging.INFO, stripe_merging.__name__)
    create(session, layout, clustered)
    insert(session, layout, 0, 200)
    insert(session, layout, 200, 300)
    session.sql("INSERT INTO t (id, c9) VALUES (300, 'one'), (301, NULL)")
    session.sql("UPDATE t SET c9 = 'changed' WHERE id % 50 = 3")
    # Rows of one file only.
    session.sql("DELETE FROM t WHERE id BETWEEN 210 AND 215")
    before = contents(session, layout)
    assert len(before) == 302 - 6
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert contents(session, layout) == before
    (base,) = (name for name in names(tmp_path) if name.startswith("base_"))
    assert all(in_order(file) for file in files(tmp_path, base).values())
    if layout == "hive":
        ours = Counter(map(shown, session.sql("SELECT * FROM t").rows))
        assert seen_by_hive(tmp_path / "c1" / "default.db" / "t" / base, tmp_path / "copy") == ours
    # What is written from here on names rows by the ids that they had before.
    session.sql("UPDATE t SET c9 = 'again' WHERE id % 60 = 3")
    session.sql("DELETE FROM t WHERE id % 10 = 7")
    insert(session, layout, 400, 410)
    after = contents(session, layout)
    assert compact(metastore, "minor").state is CompactionState.READY_FOR_CLEANING
    assert contents(session, layout) == after
    session.sql("DELETE FROM t WHERE id > 400")
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert contents(session, layout) == [row for row in after if row[1] <= 400]
    # All of it.
    session.sql("DELETE FROM t")
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert contents(session, layout) == []
    assert whys(caplog) == []


@pytest.mark.evidence(cases=1, among="merged stripes")
@pytest.mark.usefixtures("in_tasks")
def test_filters_find_what_they_found_before(
    metastore: Metastore, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark skips stripes and groups of rows by what their writer says of the values."""
    caplog.set_level(logging.INFO, stripe_merging.__name__)
    create(session, "flat")
    insert(session, "flat", 0, 40_000)
    session.sql("DELETE FROM t WHERE id % 100 = 7")
    conditions = [f"c{at} = {values[0]}" for at, values in enumerate(VALUES.values())]
    conditions += ["id = 12345", "id = 12307", "c9 = 'nowhere'", "c0 IS NULL", "id > 39990 AND c1 = 127"]
    counted = ", ".join(f"count_if({condition})" for condition in conditions)
    (expected,) = session.sql(f"SELECT {counted} FROM t").rows
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert whys(caplog) == []
    for condition, count in zip(conditions, expected, strict=True):
        assert session.sql(f"SELECT count(*) FROM t WHERE {condition}").rows == [(count,)], condition


def test_moments_that_spark_has_to_write_go_the_other_way(
    metastore: Metastore, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, stripe_merging.__name__)
    session.sql("CREATE TABLE t (id int, at timestamp)")
    session.sql("INSERT INTO t VALUES (1, TIMESTAMP'1883-11-18 00:00:00.000001'), (2, TIMESTAMP'9999-12-31 23:59:59')")
    session.sql("INSERT INTO t VALUES (3, TIMESTAMP'0001-01-01 00:00:00'), (4, NULL)")
    session.sql("DELETE FROM t WHERE id = 4")
    query = "SELECT ROW__ID, id, CAST(at AS STRING) FROM t ORDER BY ALL"
    before = session.sql(query).rows
    assert len(before) == 3
    assert compact(metastore, "major").state is CompactionState.READY_FOR_CLEANING
    assert session.sql(query).rows == before
    assert len(whys(caplog)) == 1
