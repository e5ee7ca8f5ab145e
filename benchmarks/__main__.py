"""``python -m benchmarks [routing] [data_plane] [row_changes] [transactions]``: run the named ones, or all."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import report

BENCHMARKS = {
    "routing": "Route and plan",
    "data_plane": "Data plane",
    "row_changes": "Row changes",
    "transactions": "Transactions",
}


def main(names: list[str]) -> None:
    for name in names or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="hivex-bench-") as folder:
            figures = importlib.import_module(f"benchmarks.{name}").run(Path(folder))
        report(BENCHMARKS[name], figures)


if __name__ == "__main__":
    main(sys.argv[1:])
