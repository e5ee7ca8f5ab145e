"""Five million rows of TPC-H's lineitem in pyarrow, without Spark, vs. Spark's toPandas and deltalake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import DELTA, Lineitem, lineitem, spark

GOAL = 1.2
"""Against deltalake."""
_SPARK = "Spark's toPandas"
_SOME = ["l_orderkey", "l_quantity", "l_extendedprice", "l_shipdate"]
_DELETED = "l_orderkey % 100 = 7"


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for all columns, four columns, and all columns with 1% of the rows deleted, of half of the rows."""
    with lineitem(folder, scale / 2) as rows:
        rows.write_plain()
        rows.write_delta()
        rows.create()
        rows.insert()
        figures = [
            _against_delta(rows, "to_arrow, all columns", None),
            _against_delta(rows, "to_arrow, four columns", _SOME),
            _against_spark(rows, "to_pandas, four columns", _SOME),
        ]
        rows.session.sql(f"DELETE FROM lineitem WHERE {_DELETED}")
        rows.delete_delta(_DELETED)
        return [*figures, _against_delta(rows, "to_arrow, 1% deleted", None)]


def _against_delta(rows: Lineitem, name: str, columns: list[str] | None) -> Figure:
    from deltalake import DeltaTable

    def ours() -> Any:
        return rows.session.to_arrow("lineitem", columns=columns)

    def delta() -> Any:
        return DeltaTable(str(rows.delta)).to_pyarrow_table(columns=columns)

    assert ours().num_rows == delta().num_rows, f"{name}: the tables have different rows"
    return compare(name, interleave({name: ours, DELTA: delta}, rounds=9, swap=True), name, DELTA, goal=GOAL)


def _against_spark(rows: Lineitem, name: str, columns: list[str]) -> Figure:
    spark().conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    cases = {
        name: lambda: rows.session.to_pandas("lineitem", columns=columns),
        _SPARK: lambda: rows.read_plain().select(*columns).toPandas(),
    }
    return compare(name, interleave(cases, rounds=3), name, _SPARK, goal=1.0)
