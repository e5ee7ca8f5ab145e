"""A small INSERT with the history of statements, compared with the same INSERT without it, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from airflow_hivex.core import Metastore, Session
from benchmarks.harness import Figure, compare, interleave
from tests.postgresql import start_durable_postgresql

GOAL = 1.03
ROUNDS = 400
OFF = {"hivex.statements.retention": 0}
_INSERT = "INSERT INTO small VALUES " + ", ".join(f"({n}, 'name {n}')" for n in range(10))


def run(folder: Path) -> list[Figure]:
    """Figures for an INSERT of ten rows, with SQLite and with PostgreSQL."""
    server = start_durable_postgresql()
    try:
        return [
            *_figures("SQLite", f"sqlite:///{folder / 'metastore.db'}", folder),
            *_figures("PostgreSQL", server.create_database(), folder),
        ]
    finally:
        server.stop()


def _figures(database: str, url: str, folder: Path) -> list[Figure]:
    with ExitStack() as stack:
        kept = stack.enter_context(_session(url, folder / database, {}))
        off = stack.enter_context(_session(url, folder / database, OFF))
        kept.sql("CREATE TABLE small (id bigint, name string)")
        cases = {"kept": lambda: kept.sql(_INSERT), "off": lambda: off.sql(_INSERT)}
        seconds = interleave(cases, rounds=ROUNDS, warm_up=20, swap=True)
        return [compare(f"INSERT of ten rows, {database}", seconds, "kept", "off", goal=GOAL)]


@contextmanager
def _session(url: str, root: Path, settings: dict[str, object]) -> Iterator[Session]:
    root.mkdir(exist_ok=True)
    clusters = {"c1": {"filesystem": root.as_uri(), "jobtracker": "local[1]"}}
    with (
        Metastore.open(url, clusters=clusters, default_cluster="c1", settings=settings) as metastore,
        metastore.session(user="bench") as session,
    ):
        yield session
