"""INSERT of TPC-H's lineitem compared with plain Spark ORC and deltalake, and of ten rows with a Spark job."""

from __future__ import annotations

import itertools
from pathlib import Path

from airflow_hivex.core.model.plans import Write
from airflow_hivex.core.model.statements import Literal
from airflow_hivex.core.spark.values import write_rows
from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import DELTA, HIVE, PLAIN, Lineitem, lineitem, spark


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for INSERT of many and of ten rows."""
    with lineitem(folder, scale) as rows:
        return [*_many(rows), *_ten(rows)]


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
