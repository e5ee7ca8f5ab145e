"""Queries of an earlier version of TPC-H's lineitem compared with those of a table that still has these rows."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import AGGREGATE, lineitem

GOAL = 1.1
COMMITS = 20
_CHANGE = "DELETE FROM lineitem WHERE l_orderkey = {number}"


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for a full scan, a sum and a look-up, of a version with twenty later deletes and a compaction."""
    with lineitem(folder, scale) as rows:
        for table in ("lineitem", "unchanged"):
            rows.create(table)
            rows.insert(table)
        (version,) = (row[0] for row in rows.session.sql("DESCRIBE HISTORY lineitem LIMIT 1").rows)
        for number in range(1, COMMITS + 1):
            rows.session.sql(_CHANGE.format(number=number))
        rows.metastore.compactor.request("default", "lineitem", None, "major")
        rows.metastore.compactor.work()
        rows.metastore.compactor.clean()
        earlier = f"lineitem VERSION AS OF {version}"
        queries = {"full scan": rows.full_scan, "sum of two columns": AGGREGATE, "look-up": rows.point_lookup}
        figures = []
        for name, query in queries.items():
            cases = {
                "version": lambda query=query: rows.ask(query, earlier),
                "present": lambda query=query: rows.ask(query, "unchanged"),
            }
            seconds = interleave(cases, rounds=15, warm_up=3, at_least_s=30, swap=True)
            figures.append(compare(f"{name} of an earlier version", seconds, "version", "present", goal=GOAL))
        return figures
