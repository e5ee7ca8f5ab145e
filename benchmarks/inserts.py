"""INSERT of lineitem vs. plain Spark ORC and deltalake; of ten rows vs. a Spark job, twenty times vs. deltalake."""

from __future__ import annotations

import itertools
import shutil
import time
from pathlib import Path

from airflow_hivex.core.job.values import write_rows
from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.parser.statements import Literal
from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import DELTA, HIVE, PLAIN, Lineitem, lineitem, spark

APPENDS = 20


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for INSERT of many and of ten rows, and for twenty small ones."""
    with lineitem(folder, scale) as rows:
        return [*_many(rows), *_ten(rows), _twenty(rows)]


def _many(rows: Lineitem) -> list[Figure]:
    def insert(properties: str = "") -> None:
        rows.create(properties=properties)
        rows.insert()

    cases = {"insert": insert, "layout hive": lambda: insert(HIVE), PLAIN: rows.write_plain, DELTA: rows.write_delta}
    seconds = interleave(cases, rounds=5, warm_up=1)
    name = f"INSERT of {rows.rows:,} rows"
    return [
        compare(name, seconds, "insert", PLAIN, goal=1.15),
        compare(name, seconds, "insert", DELTA, goal=1.0),
        compare(f"{name}, layout hive", seconds, "layout hive", PLAIN, goal=1.2),
    ]


def _ten(rows: Lineitem) -> list[Figure]:
    session, folder = rows.session, rows.folder
    session.sql("CREATE TABLE small (id bigint, name string)")
    table = rows.metastore.catalog.get_table("default", "small")
    values = [(Literal(n, "int"), Literal(f"name {n}", "string")) for n in range(10)]
    write_ids = itertools.count(1)
    text = ", ".join(f"({n}, 'name {n}')" for n in range(10))

    # Beside the table, whose own write ids the whole statements take.
    aside = (folder / "c1" / "aside").as_uri()

    def ours() -> None:
        assert write_rows(Write(aside, "small", table.columns, (), next(write_ids)), values)

    def spark_job() -> None:
        spark().sql(f"SELECT * FROM VALUES {text} AS v (id, name)").write.mode("overwrite").orc(str(folder / "ten"))

    def statement() -> None:
        session.sql(f"INSERT INTO small VALUES {text}")

    cases = {"ours": ours, "Spark job": spark_job, "statement": statement}
    seconds = interleave(cases, rounds=20, warm_up=5)
    return [
        compare("INSERT of ten rows, without its commit", seconds, "ours", "Spark job", goal=0.1),
        compare("INSERT of ten rows, the whole statement", seconds, "statement", "Spark job", goal=1.0),
    ]


def _twenty(rows: Lineitem) -> Figure:
    import pyarrow as pa
    from deltalake import write_deltalake

    rows.session.sql("CREATE TABLE appended (id bigint, name string)")
    small = [(number, f"name {number}") for number in range(10)]
    batch = pa.table({"id": [each[0] for each in small], "name": [each[1] for each in small]})
    delta = rows.folder / "appended"

    def ours() -> float:
        rows.session.sql("TRUNCATE TABLE appended")
        started = time.perf_counter()
        for _ in range(APPENDS):
            rows.session.insert_rows("appended", small)
        return time.perf_counter() - started

    def peer() -> float:
        shutil.rmtree(delta, ignore_errors=True)
        started = time.perf_counter()
        for _ in range(APPENDS):
            write_deltalake(str(delta), batch, mode="append")
        return time.perf_counter() - started

    seconds = interleave({"appends": ours, DELTA: peer}, rounds=15, warm_up=3, swap=True)
    return compare(f"{APPENDS} INSERTs of ten rows", seconds, "appends", DELTA, goal=0.6)
