"""Verified copies of tables to another cluster, against cp and sha256sum.

The files are longer than those that an INSERT of one row writes: random bytes follow. No replication reads rows.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from airflow_hivex.core import Metastore, Session
from benchmarks.harness import Figure, compare, interleave

LARGE = (64, 1, 64 << 20)
SMALL = (50, 100, 16 << 10)
DELTAS = (500, 1, 8 << 20)
"""Directories, files in each of them, and bytes of each file."""
SMALLER = 100 << 20
"""The size in bytes below which a round takes a moment, so that there are more rounds."""
SMALL_ROUNDS = 7
CLUSTERS = tuple(f"c{number}" for number in range(2, 3 + SMALL_ROUNDS))
"""The clusters to copy to, enough for a new one in each round with small files.

A file system without a journal skips inodes of files that were deleted in the last minutes, one by one. Looking for a
free one would take longer than all else, so no files are deleted between these rounds.
"""


def run(folder: Path) -> list[Figure]:
    names = ("c1", *CLUSTERS)
    clusters = {name: {"filesystem": (folder / name).as_uri(), "jobtracker": "local[2]"} for name in names}
    url = f"sqlite:///{folder / 'metastore.db'}"
    with Metastore.open(url, clusters=clusters, default_cluster="c1") as metastore, metastore.session() as session:
        figures = [
            *_against_cp(metastore, session, folder, "4 GB in 64 directories", "large", *LARGE),
            *_against_cp(metastore, session, folder, "5,000 files of 16 KB", "small", *SMALL),
        ]
        _drop(session, folder, "large")
        return [*figures, _incremental(metastore, session, folder)]


def _make(session: Session, folder: Path, table: str, directories: int, files: int, size_bytes: int) -> None:
    session.sql(f"CREATE TABLE {table} (id int)")
    for number in range(directories):
        _add(session, folder, table, number, files, size_bytes)


def _add(session: Session, folder: Path, table: str, number: int, files: int, size_bytes: int) -> None:
    """Insert a row, and make its directory as large as those of a real table."""
    session.sql(f"INSERT INTO {table} VALUES ({number})")
    directory = max((folder / "c1" / "default.db" / table).glob("delta_*"))
    (first,) = directory.glob("bucket_*")
    for bucket in range(files):
        file = directory / f"{first.name}_{bucket}" if bucket else first
        with file.open("ab") as opened:
            opened.write(os.urandom(max(0, size_bytes - opened.tell())))


def _drop(session: Session, folder: Path, table: str) -> None:
    session.sql(f"DROP TABLE {table}")
    for cluster in ("c1", *CLUSTERS):
        shutil.rmtree(folder / cluster / "default.db" / table, ignore_errors=True)


def _against_cp(
    metastore: Metastore, session: Session, folder: Path, what: str, table: str, *amount: int
) -> list[Figure]:
    _make(session, folder, table, *amount)
    source = folder / "c1" / "default.db" / table
    is_small = amount[0] * amount[1] * amount[2] < SMALLER
    rounds = SMALL_ROUNDS if is_small else 3
    clusters, places = iter(CLUSTERS), (folder / f"plain{number}" for number in itertools.count())

    def copied() -> float:
        if is_small:
            cluster = next(clusters)
        else:
            cluster = "c2"
            metastore.replicator.drop_copy(table, cluster)
        return _timed(lambda: metastore.replicator.replicate(table, cluster))

    def plain(work: Callable[[Path, Path], object]) -> float:
        place = next(places)
        took_s = _timed(lambda: work(source, place))
        if not is_small:
            shutil.rmtree(place)
        return took_s

    cases = {
        "ours": copied,
        "cp -r and sha256sum": lambda: plain(_cp_and_sums),
        "cp -r": lambda: plain(_cp),
    }
    seconds = interleave(cases, rounds=rounds)
    count = amount[0] * amount[1]
    return [
        compare(f"verified copy of {what}", seconds, "ours", "cp -r and sha256sum", 0.5, count),
        # No goal: nothing is verified there.
        compare(f"verified copy of {what}, and a bare copy", seconds, "ours", "cp -r", 99, count),
    ]


def _incremental(metastore: Metastore, session: Session, folder: Path) -> Figure:
    directories, files, size_bytes = DELTAS
    _make(session, folder, "deltas", directories, files, size_bytes)
    metastore.replicator.replicate("deltas", "c2")

    def full() -> float:
        metastore.replicator.drop_copy("deltas", "c3")
        return _timed(lambda: metastore.replicator.replicate("deltas", "c3"))

    def increment() -> float:
        _add(session, folder, "deltas", 0, files, size_bytes)
        return _timed(lambda: metastore.replicator.replicate("deltas", "c2"))

    seconds = interleave({"one delta": increment, "500 deltas": full}, rounds=3)
    return compare("copy of 1 new delta of 8 MB", seconds, "one delta", "500 deltas", 0.03)


def _cp(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", source, target], check=True)


def _cp_and_sums(source: Path, target: Path) -> None:
    _cp(source, target)
    for folder in (source, target):
        command = "find . -type f -print0 | sort -z | xargs -0 sha256sum"
        subprocess.run(["sh", "-c", command], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _timed(work: Callable[[], object]) -> float:
    # What others have written before must not be on its way to the disk meanwhile.
    os.sync()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
