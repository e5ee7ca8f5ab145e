"""The demo's second part: a day of small writes to ``flights``, before and after the compaction DAG."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hivex.core.session import Result, Session

DATABASE = "nycflights"
PARTITION = "month=12"
# What left in three hours at a time; the first flight is one of 5:15. These are more deltas than the threshold is.
HOURS = 3
FIRST_HOURS = range(3, 24, HOURS)
QUERY = "SELECT dest, count(*) AS flights, avg(arr_delay) AS mean_delay FROM flights WHERE month = 12 GROUP BY dest"
COMPACTIONS = "SHOW COMPACTIONS flights"
SHOWN_OF_COMPACTIONS = ("compactionid", "partname", "type", "state", "duration", "txnid")
READS = 3


@dataclass(frozen=True, slots=True)
class Look:
    """The state of December at some time; ``seconds`` is the duration of a query."""

    flights: int
    directories: int
    seconds: float
    compactions: int


def write_a_day(session: Session, report: Callable[[str], None]) -> int:
    """Delete and insert again what left on 31 December, bit by bit; how many transactions that were.

    The rows are the same afterwards.
    """
    session.sql("DROP TABLE IF EXISTS last_day")
    session.sql(
        "CREATE TABLE last_day TBLPROPERTIES ('transactional' = 'true') AS "
        "SELECT * FROM flights WHERE month = 12 AND day = 31"
    )
    for first in FIRST_HOURS:
        report(f"31 December from {first}:00")
        hours = {"first": first, "last": first + HOURS - 1}
        session.sql("DELETE FROM flights WHERE month = 12 AND day = 31 AND hour BETWEEN :first AND :last", hours)
        session.sql(
            "INSERT INTO flights PARTITION (month) SELECT * FROM last_day WHERE hour BETWEEN :first AND :last", hours
        )
    session.sql("DROP TABLE last_day")
    return 2 * len(FIRST_HOURS)


def look(session: Session, cluster: Path, location: str) -> Look:
    """Look at December; of several times the shortest, since a demo is not alone on its machine."""
    ((flights,),) = session.sql("SELECT count(*) FROM flights WHERE month = 12").rows
    assert isinstance(flights, int)
    directories = sum(path.is_dir() for path in (cluster / location / PARTITION).iterdir())
    seconds = min(_seconds(session) for _ in range(READS))
    return Look(flights, directories, seconds, len(session.sql(COMPACTIONS).rows))


def table_of_looks(looks: dict[str, Look]) -> Table:
    """Return a table of December at several times."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("flights, month=12")
    for column in looks:
        table.add_column(column, justify="right")
    table.add_row("rows", *(f"{each.flights:,}" for each in looks.values()))
    table.add_row("directories", *(str(each.directories) for each in looks.values()))
    table.add_row("seconds of a query", *(f"{each.seconds:.2f}" for each in looks.values()))
    table.add_row("compactions", *(str(each.compactions) for each in looks.values()))
    return table


def table_of_compactions(shown: Result) -> Table:
    """Return the columns of SHOW COMPACTIONS that a terminal has room for."""
    table = Table(box=box.SIMPLE_HEAD)
    for column in SHOWN_OF_COMPACTIONS:
        table.add_column(column, justify="left" if column in ("partname", "type", "state") else "right")
    for row in shown.rows:
        values = dict(zip(shown.columns, row, strict=True))
        table.add_row(*(str(values[column] or "") for column in SHOWN_OF_COMPACTIONS))
    return table


def _seconds(session: Session) -> float:
    began = time.perf_counter()
    session.sql(QUERY)
    return time.perf_counter() - began
