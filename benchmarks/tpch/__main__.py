"""``python -m benchmarks.tpch --scale 1``: run TPC-H over two clusters, in a temporary folder."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.tpch.report import report
from benchmarks.tpch.run import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpch", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor; 1 has six million lines")
    parser.add_argument("--streams", type=int, default=4, help="refresh streams; the last two run at once")
    parser.add_argument("--rounds", type=int, default=3, help="counted runs of each query")
    arguments = parser.parse_args()
    if arguments.scale <= 0 or arguments.streams < 2 or arguments.rounds < 1:
        parser.error("--scale must be above 0, --streams at least 2, --rounds at least 1")
    with tempfile.TemporaryDirectory(prefix="hivex-tpch-") as folder:
        report(run(Path(folder), arguments.scale, arguments.streams, arguments.rounds), arguments.scale)


if __name__ == "__main__":
    main()
