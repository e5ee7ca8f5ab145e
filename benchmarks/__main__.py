"""``python -m benchmarks [NAME ...] [--scale SCALE]``: run the named benchmarks, or all."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path

from benchmarks.harness import report
from benchmarks.lineitem import SCALE

BENCHMARKS = {
    "routing": "Route and plan",
    "planning": "Planning",
    "inserts": "Inserts",
    "scans": "Scans",
    "deltas": "Scans of deltas",
    "row_changes": "Row changes",
    "merges": "Merges of DataFrames",
    "wide": "Wide tables",
    "history": "Earlier versions",
    "statement_history": "History of statements",
    "arrow_reads": "Reads without Spark",
    "transactions": "Transactions",
    "deadlocks": "Deadlocks",
    "round_trips": "Round trips",
    "initiator": "Initiator",
    "compaction": "Compaction",
    "hive_import": "Import from Hive",
    "cache": "Cache of metadata",
    "endpoint": "Hive Metastore endpoint",
    "replication": "Replication",
    "namespaces": "Namespaces",
    "tasks": "Tasks",
}
OF_LINEITEM = ("inserts", "scans", "deltas", "row_changes", "merges", "history", "arrow_reads", "compaction")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all without")
    parser.add_argument(
        "--scale", type=float, default=SCALE, help="TPC-H scale of lineitem, by default 10 million rows"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in arguments.names or BENCHMARKS:
        with tempfile.TemporaryDirectory(prefix="hivex-bench-") as folder:
            further = (arguments.scale,) if name in OF_LINEITEM else ()
            figures = importlib.import_module(f"benchmarks.{name}").run(Path(folder), *further)
        report(BENCHMARKS[name], figures)


if __name__ == "__main__":
    main()
