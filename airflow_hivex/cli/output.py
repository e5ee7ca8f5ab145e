"""The output of results as a table, JSON lines or CSV, and of the progress of a statement on standard error."""

from __future__ import annotations

import csv
import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hivex.core.model.json_values import json_value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from rich.console import Console
    from rich.status import Status

    from airflow_hivex.core.model.progress import Progress
    from airflow_hivex.core.session import Result


# A narrower column of a table is hard to read.
_NARROWEST_COLUMN = 10


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the form of the results. Its value is ``options.format``."""
    parser.add_argument(
        "--output",
        "--format",
        dest="format",
        choices=("table", "json", "csv"),
        default="table",
        help="the form of the results (default: table)",
    )


def printer(format: str) -> Callable[[Result], None]:
    """Return the function that prints one result in ``format``: ``table``, ``json`` or ``csv``."""
    return {"table": print_table, "json": print_json, "csv": print_csv}[format]


def print_table(result: Result) -> None:
    """Print a table of the rows, if the result has columns, and then a line about the result.

    On a narrow terminal cells are wrapped, or each row is printed with one line for each column.
    """
    from rich.console import Console

    # Without a terminal the table must not be limited to eighty characters.
    console = Console(highlight=False) if sys.stdout.isatty() else Console(width=10_000, soft_wrap=True)
    if result.columns:
        cells = [[_cell(value) for value in row] for row in result.rows]
        if sys.stdout.isatty() and _column_width(result.columns, cells, console.width) < _NARROWEST_COLUMN:
            _print_upright(console, result.columns, cells)
        else:
            _print_grid(console, result.columns, cells)
    console.print(_summary(result), highlight=False, markup=False)


def _column_width(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> float:
    """Return the width in characters of each column that must be wrapped, or infinity if no column must be wrapped."""
    longest = [
        max((len(line) for cell in (name, *row) for line in cell.splitlines()), default=0)
        for name, row in zip(columns, zip(*cells, strict=True) if cells else [()] * len(columns), strict=True)
    ]
    left = width - 3 * len(columns) - 1
    while longest and sum(longest) > left:
        share = left / len(longest)
        wide = [each for each in longest if each > share]
        if len(wide) == len(longest):
            return share
        left -= sum(each for each in longest if each <= share)
        longest = wide
    return math.inf


def _print_grid(console: Console, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ASCII2)
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _print_upright(console: Console, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    for number, row in enumerate(cells, start=1):
        console.print(Text(f"-[ row {number} ]".ljust(console.width, "-")))
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for name, cell in zip(columns, row, strict=True):
            table.add_row(Text(name), Text(f"| {cell}"))
        console.print(table)


def print_json(result: Result) -> None:
    """Print one line with a JSON object, in the form of the result of HivexQueryOperator."""
    sys.stdout.write(json.dumps(result.to_json(), ensure_ascii=False) + "\n")


def print_csv(result: Result) -> None:
    """Print a header and the rows, in which NULL is an empty field. For a statement without columns, print nothing."""
    if not result.columns:
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([_field(value) for value in row] for row in result.rows)


def _field(value: object) -> str:
    converted = json_value(value)
    if converted is None:
        return ""
    return converted if isinstance(converted, str) else json.dumps(converted, ensure_ascii=False)


def _cell(value: object) -> str:
    return "NULL" if value is None else _field(value)


def _summary(result: Result) -> str:
    facts = []
    if result.columns:
        facts.append(f"{len(result.rows)} row{'' if len(result.rows) == 1 else 's'}")
        if result.truncated:
            facts.append("more were left out")
    if result.rows_written is not None and (result.rows_written or not result.rows_deleted):
        facts.append(f"{result.rows_written} row{'' if result.rows_written == 1 else 's'} written")
    if result.rows_deleted:
        facts.append(f"{result.rows_deleted} row{'' if result.rows_deleted == 1 else 's'} deleted")
    if result.cluster is not None:
        facts.append(f"cluster {result.cluster}")
    if result.txn_id is not None:
        facts.append(f"transaction {result.txn_id}")
    if result.as_of is not None:
        facts.append(result.as_of.describe())
    return f"({', '.join(facts)})" if facts else "OK"


_BAR_WIDTH = 20


class StatementProgress:
    """The display of the running step of a statement and of its job's progress. It is shown only on a terminal."""

    def __init__(self) -> None:
        self._status: Status | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress of the statement that runs in the block."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status("Running") as status:
            handler = _StatusHandler(status)
            logger = logging.getLogger("airflow_hivex")
            level = logger.level
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
            self._status = status
            try:
                yield
            finally:
                self._status = None
                logger.removeHandler(handler)
                logger.setLevel(level)

    def report(self, progress: Progress) -> None:
        """Show the progress of the statement's job, as a bar of its tasks. The session calls this method."""
        status = self._status
        if status is None:
            return
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(progress.tasks, 1), completed=progress.tasks_done, width=_BAR_WIDTH)
        line.add_row(bar, Text(progress.describe(), no_wrap=True, overflow="ellipsis"))
        status.update(line)


class _StatusHandler(logging.Handler):
    """A log handler that shows the last message as the status, and warnings as lines that stay."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    def emit(self, record: logging.LogRecord) -> None:
        from rich.markup import escape

        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._status.console.print(f"hivex: {escape(message)}", highlight=False)
        else:
            self._status.update(escape(message.partition("\n")[0]))
