"""Scans of TPC-H's lineitem that came by 10, 50 and 500 INSERTs, vs. plain Spark ORC, and deltalake with as many."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import Figure
from benchmarks.lineitem import AGGREGATE, lineitem

GOALS = {10: (1.1, 1.2), 50: (1.2, 1.6), 500: (1.6, None)}
"""Of a full scan, and of a sum of two columns."""


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for a full scan and a sum of two columns."""
    figures = []
    with lineitem(folder, scale) as rows:
        rows.write_plain()
        rows.slice()
        for count, (full_goal, sum_goal) in GOALS.items():
            rows.create()
            rows.insert_slices(count)
            rows.append_delta_slices(count)
            figures += rows.scan(f"full scan, {count} deltas", rows.full_scan, full_goal)
            if sum_goal is not None:
                figures += rows.scan(f"sum of two columns, {count} deltas", AGGREGATE, sum_goal)
    return figures
