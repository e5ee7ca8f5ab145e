"""The duration of a round of the initiator, by the number of partitions, on SQLite and on PostgreSQL.

A warehouse has one table. Every partition has an overwritten base, the base in its place, and three small
deltas. In the first kind of round nothing is left but the sums of directories: every partition was compacted
already, so that one base is there. In the second one, each partition's directories are looked at one by one. In
the third one, a tenth of them is compacted: the round puts into the queue as many as it may.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert, text

from airflow_hivex.core import Metastore
from airflow_hivex.core.model.directories import base_name, delta_name
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.schema import completed_txn_components, directories, partitions
from benchmarks.harness import Figure, compare, interleave
from tests.postgresql import start_postgresql

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 5
KINDS = {"nothing to do": 0, "all directories looked at": 1, "1,000 initiated": 2}
BASE_BYTES = 1_000_000
SMALL_BYTES = 1_000
LARGE_BYTES = 200_000


def run(folder: Path) -> list[Figure]:
    """Figures for 10,000 partitions against 1,000, and for 100,000 against 10,000: ten times as many."""
    figures = []
    with ExitStack() as stack:
        server = start_postgresql()
        stack.callback(server.stop)
        for database in ("SQLite", "PostgreSQL"):
            for kind, number in KINDS.items():
                with ExitStack() as opened:
                    cases = {}
                    for size in SIZES:
                        url = (
                            f"sqlite:///{folder / f'{number}_{size}.db'}"
                            if database == "SQLite"
                            else server.create_database()
                        )
                        metastore = opened.enter_context(_warehouse(url, folder, size, number))
                        cases[str(size)] = lambda metastore=metastore: _round(metastore)
                    seconds = interleave(cases, rounds=ROUNDS)
                for smaller, size in pairwise(SIZES):
                    name = f"{database}, {kind}: {size} partitions"
                    figures.append(compare(name, seconds, str(size), str(smaller), goal=10.0, count=size))
    return figures


@contextmanager
def _warehouse(url: str, folder: Path, size: int, kind: int) -> Iterator[Metastore]:
    clusters = {"c1": {"filesystem": (folder / "c1").as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(url, clusters=clusters) as metastore:
        with metastore.session() as session:
            session.sql("CREATE TABLE p (id bigint) PARTITIONED BY (n int)")
        table_id = metastore.catalog.get_table("default", "p").id
        ids = metastore.transactions.open(5)
        metastore.transactions.allocate_write_ids(ids, "default", "p")
        for txn_id in ids:
            metastore.transactions.commit(txn_id)
        metastore.services.store.write(lambda connection: _fill(connection, int(table_id or 0), size, kind))
        yield metastore


def _fill(connection: Connection, table_id: int, size: int, kind: int) -> None:
    """The rows that five writes to every partition leave behind."""
    of_table = {"table_id": table_id}
    _insert(
        connection,
        partitions,
        [
            {**of_table, "id": n + 1, "name": f"n={n}", "location": f"p/n={n}", "parameters": {}, "created_ms": 1}
            for n in range(size)
        ],
    )
    bases = [base_name(2)] if kind == 0 else [base_name(1), base_name(2)]
    names = [*bases, *(delta_name(write_id, write_id, 0) for write_id in (3, 4, 5))]
    rows = []
    for n in range(size):
        large = kind == 2 and n % 10 == 0
        for name in names:
            is_base = name.startswith("base")
            rows.append(
                {
                    **of_table,
                    "partition_id": n + 1,
                    "name": name,
                    "kind": "base" if is_base else "delta",
                    "min_write_id": 0 if is_base else int(name[6:13]),
                    "max_write_id": int(name[5:12]) if is_base else int(name[6:13]),
                    "statement_id": None if is_base else 0,
                    "visibility_txn_id": 0,
                    "row_layout": "flat",
                    "files": 1,
                    "rows": 100,
                    "size_bytes": BASE_BYTES if is_base else LARGE_BYTES if large else SMALL_BYTES,
                    "txn_id": 1,
                }
            )
    _insert(connection, directories, rows)
    written = [
        {**of_table, "txn_id": 5, "partition": f"n={n}", "write_id": 5, "updates": False, "committed_ms": 1}
        for n in range(size)
    ]
    _insert(connection, completed_txn_components, written)
    connection.execute(text("ANALYZE"))


def _insert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    for batch in batches(rows):
        connection.execute(insert(table), batch)


def _round(metastore: Metastore) -> float:
    started = time.perf_counter()
    result = metastore.compactor.initiate()
    seconds = time.perf_counter() - started
    metastore.compactor.abort(result.initiated)
    metastore.compactor.history.purge()
    return seconds
