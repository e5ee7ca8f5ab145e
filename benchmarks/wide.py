"""Reads and changes of a few rows of a table with 500 columns, compared with plain Spark ORC.

Such a statement is all plan and hardly any rows: Spark analyzes, optimizes and compiles each column several times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_hivex.core import Metastore
from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import PLAIN, spark

COLUMNS = 500
ROWS = 1000
_TYPES = ("int", "bigint", "double", "string", "decimal(12,2)")
_COLUMNS = {"id": "bigint"} | {f"c{number}": _TYPES[number % len(_TYPES)] for number in range(COLUMNS - 1)}
_MERGE = (
    "MERGE INTO wide t USING (SELECT * FROM source WHERE id < 10) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def run(folder: Path) -> list[Figure]:
    """Figures for a SELECT of ten rows, an UPDATE of one and a MERGE of ten; the peer of changes rewrites the table."""
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    with (
        Metastore.open(f"sqlite:///{folder / 'wide.db'}", clusters=clusters) as metastore,
        metastore.session() as session,
    ):
        session.sql("SELECT 1")
        source, plain, rewritten = (str(folder / "c1" / name) for name in ("source", "plain", "rewritten"))
        values = (f"CAST(id % 50 AS {kind}) AS {name}" for name, kind in _COLUMNS.items() if name != "id")
        rows = spark().range(ROWS).selectExpr("id", *values).coalesce(1)
        rows.write.parquet(source)
        rows.write.orc(plain)
        declared = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        session.sql(f"CREATE EXTERNAL TABLE source ({declared}) USING parquet LOCATION 'source'")
        session.sql(f"CREATE TABLE wide ({declared})")
        session.sql("INSERT INTO wide SELECT * FROM source")

        def update() -> None:
            changed = ("IF(id = 8, 'x', c3) AS c3" if name == "c3" else name for name in _COLUMNS)
            spark().read.orc(plain).selectExpr(*changed).write.mode("overwrite").orc(rewritten)

        def merge() -> None:
            changes = spark().read.parquet(source).where("id < 10").alias("s")
            both = spark().read.orc(plain).alias("t").join(changes, "id", "full")
            merged = (f"coalesce(s.{name}, t.{name}) AS {name}" for name in _COLUMNS if name != "id")
            both.selectExpr("id", *merged).write.mode("overwrite").orc(rewritten)

        peers: dict[str, tuple[str, Callable[[], object]]] = {
            "SELECT of ten rows": (
                "SELECT * FROM wide WHERE id < 10",
                lambda: spark().read.orc(plain).where("id < 10").toArrow(),
            ),
            "UPDATE of one row": ("UPDATE wide SET c3 = 'x' WHERE id = 8", update),
            "MERGE of ten rows": (_MERGE, merge),
        }
        figures = []
        for name, (statement, peer) in peers.items():
            cases = {name: lambda statement=statement: session.sql(statement), PLAIN: peer}
            seconds = interleave(cases, rounds=3, warm_up=1)
            figures.append(compare(f"{name}, {len(_COLUMNS)} columns", seconds, name, PLAIN, goal=3.0))
        return figures
