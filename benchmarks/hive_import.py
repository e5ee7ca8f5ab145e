"""The import of a table with 10,000 partitions from a real Hive Metastore 2.3, into SQLite and PostgreSQL.

The metastore runs on Derby in memory, in a process of its own. Each round imports into an empty database.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from airflow_hivex.core import Metastore
from airflow_hivex.core.imports.report import ImportOutcome
from benchmarks.harness import Figure, interleave, within
from tests.acceptance.hive_objects import HiveObjects
from tests.hive_metastore import HiveServer, hive_client, hive_metastore
from tests.postgresql import start_durable_postgresql

PARTITIONS = 10_000
ROUNDS = 3
LIMIT_S = 60.0
COLUMNS = [(f"c{number}", "string") for number in range(20)]
KEYS = [("ds", "string"), ("hr", "int")]
_HOURS = 24
_BATCH = 500


def run(folder: Path) -> list[Figure]:
    """Seconds of the import, against a minute; per second are partitions."""
    with ExitStack() as stack:
        server = stack.enter_context(hive_metastore(folder / "warehouse"))
        _fill(server, folder)
        postgresql = start_durable_postgresql()
        stack.callback(postgresql.stop)
        numbers = iter(range(1000))
        urls = {
            "SQLite": lambda: f"sqlite:///{folder / f'{next(numbers)}.db'}",
            "PostgreSQL": postgresql.create_database,
        }
        cases = {name: lambda url=url: _import(server, url(), folder) for name, url in urls.items()}
        seconds = interleave(cases, rounds=ROUNDS, warm_up=1)
    found = [within(f"import of {PARTITIONS:,} partitions, {name}", seconds[name], LIMIT_S) for name in urls]
    return [replace(each, count=PARTITIONS) for each in found]


def _fill(server: HiveServer, folder: Path) -> None:
    with hive_client(server) as client:
        hive = HiveObjects(client, folder)
        hive.database("d")
        hive.table("d", "t", COLUMNS, keys=KEYS)
        values = [(f"2024-{number // _HOURS:04d}", str(number % _HOURS)) for number in range(PARTITIONS)]
        for start in range(0, PARTITIONS, _BATCH):
            hive.partitions("d", "t", values[start : start + _BATCH], {"numRows": "10", "totalSize": "1000"})


def _import(server: HiveServer, url: str, folder: Path) -> None:
    clusters = {"c1": {"filesystem": folder.as_uri(), "jobtracker": "local[2]"}}
    with Metastore.open(url, clusters=clusters) as metastore:
        found = {each.name: each for each in metastore.import_from_hive(server.address)}
    assert (found["d.t"].outcome, found["d.t"].partitions) == (ImportOutcome.IMPORTED, PARTITIONS)
