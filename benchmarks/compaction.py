"""Compactions of TPC-H's lineitem compared with Spark, ``cat`` and deltalake, and what they do for readers.

A minor compaction merges 50 deltas that only INSERTs have made; its fixed cost is that of 50 deltas with hardly any
data. A major one merges ten deltas of which no, 1% or 10% of the rows are deleted, here and there.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from benchmarks.harness import Figure, compare, interleave
from benchmarks.lineitem import AGGREGATE, DELTA, PLAIN, Lineitem, lineitem, spark

DELTAS = 50
ROUNDS = 3
SMALL_DELTA = 50_000
"""Rows of a column of numbers: enough for stripes that are worth keeping, and next to no data."""
CAT = "cat with fsync"
MAJOR_GOALS = {0: 0.1, 1: 0.4, 10: 0.55}
"""By percent of deleted rows."""
COUNTED = "SELECT count(*), sum(l_quantity), sum(l_extendedprice) FROM {table}"


def run(folder: Path, scale: float) -> list[Figure]:
    """Figures for minor and major compactions, and for readers before and after a minor one."""
    with lineitem(folder, scale) as rows:
        rows.write_plain()
        rows.slice()
        return [*_minor(rows), *_reads(rows), *_major(rows)]


def compacted(rows: Lineitem, table: str, type: CompactionType) -> float:
    """Seconds of a compaction, with all that belongs to it."""
    # What the round before has left would be in the way.
    rows.metastore.compactor.clean()
    response = rows.metastore.compactor.request("default", table, type=type)
    assert response.is_accepted, response.message
    started = time.perf_counter()
    entry = rows.metastore.compactor.work()
    elapsed = time.perf_counter() - started
    assert entry is not None
    assert entry.state is CompactionState.READY_FOR_CLEANING, entry.error_message
    return elapsed


def deltas(rows: Lineitem, table: str) -> list[Path]:
    """The table's deltas that a compaction has not made."""
    return sorted(path for path in (rows.folder / "c1").glob(f"**/{table}/delta_*") if "_v" not in path.name)


# -- minor -------------------------------------------------------------------------------------


def _minor(rows: Lineitem) -> list[Figure]:
    rows.session.sql("CREATE TABLE fixed (id bigint)")

    def fixed() -> float:
        rows.session.sql("TRUNCATE TABLE fixed")
        for number in range(DELTAS):
            first = number * SMALL_DELTA
            rows.session.sql(f"INSERT INTO fixed SELECT id FROM range({first}, {first + SMALL_DELTA}, 1, 1)")
        return compacted(rows, "fixed", CompactionType.MINOR)

    def minor() -> float:
        rows.create("compacted")
        rows.insert_slices(DELTAS, "compacted")
        return compacted(rows, "compacted", CompactionType.MINOR)

    def rewrite() -> None:
        files = [str(path) for path in deltas(rows, "compacted")]
        target = rows.folder / "rewritten"
        spark().read.orc(files).write.mode("overwrite").option("compression", "zstd").orc(str(target))

    def cat() -> float:
        files = sorted(str(file) for path in deltas(rows, "compacted") for file in path.glob("bucket_*"))
        with (rows.folder / "cat").open("wb") as target:
            started = time.perf_counter()
            subprocess.run(["cat", *files], stdout=target, check=True)
            os.fsync(target.fileno())
            return time.perf_counter() - started

    def delta() -> float:
        from deltalake import DeltaTable

        rows.append_delta_slices(DELTAS)
        started = time.perf_counter()
        DeltaTable(str(rows.delta)).optimize.compact()
        return time.perf_counter() - started

    name = f"minor of {DELTAS} deltas, {rows.rows:,} rows"
    cases: dict[str, Callable[[], object]] = {
        "fixed": fixed,
        name: minor,
        PLAIN: rewrite,
        CAT: cat,
        DELTA: delta,
    }
    seconds = interleave(cases, rounds=ROUNDS)
    assert rows.ask(COUNTED, "compacted") == rows.ask_plain(COUNTED)
    cost = statistics.median(seconds["fixed"])
    data = f"{name}, the data alone"
    seconds[data] = [each - cost for each in seconds[name]]
    return [
        compare(name, seconds, name, PLAIN, goal=0.03),
        compare(data, seconds, data, PLAIN, goal=0.03),
        compare(name, seconds, name, CAT, goal=1.5),
        compare(data, seconds, data, CAT, goal=1.5),
        compare(name, seconds, name, DELTA, goal=0.2),
        compare(f"minor of {DELTAS} deltas without much data", seconds, "fixed", PLAIN, goal=1.0),
    ]


# -- readers -----------------------------------------------------------------------------------


def _reads(rows: Lineitem) -> list[Figure]:
    """Of the table that is compacted now, and of one with as many deltas that is not."""
    rows.create("loose")
    rows.insert_slices(DELTAS, "loose")
    figures = []
    for title, query in {"full scan": rows.full_scan, "sum of two columns": AGGREGATE}.items():
        before, after = f"{title}, {DELTAS} deltas", f"{title}, compacted"
        cases: dict[str, Callable[[], object]] = {
            before: lambda query=query: rows.ask(query, "loose"),
            after: lambda query=query: rows.ask(query, "compacted"),
            PLAIN: lambda query=query: rows.ask_plain(query),
        }
        seconds = interleave(cases, rounds=ROUNDS)
        figures += [compare(case, seconds, case, PLAIN, goal=1.1) for case in (before, after)]
    return figures


# -- major -------------------------------------------------------------------------------------


def _major(rows: Lineitem) -> list[Figure]:
    figures = []
    for percent, goal in MAJOR_GOALS.items():
        condition = f"pmod(hash(l_orderkey), 100) < {percent}"

        def major(condition: str = condition, percent: int = percent) -> float:
            rows.create("changed")
            rows.insert_slices(10, "changed")
            if percent:
                rows.session.sql(f"DELETE FROM changed WHERE {condition}")
            return compacted(rows, "changed", CompactionType.MAJOR)

        rewrite = rows.copy_on_write(lambda there, condition=condition: there.where(f"NOT ({condition})"))
        name = f"major, {percent}% deleted"
        seconds = interleave({name: major, PLAIN: rewrite}, rounds=ROUNDS)
        assert rows.ask(COUNTED, "changed") == rows.ask_plain(f"{COUNTED} WHERE NOT ({condition})")
        figures.append(compare(name, seconds, name, PLAIN, goal=goal))
    return figures
