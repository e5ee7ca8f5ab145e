"""Results as a table, as JSON lines or as CSV on standard output."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING

from airflow_hivex.core.model.json_values import json_rows, json_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hivex.core.session import Result


def printer(format: str) -> Callable[[Result], None]:
    """What prints one result in ``format``: ``table``, ``json`` or ``csv``."""
    return {"table": print_table, "json": print_json, "csv": print_csv}[format]


def print_table(result: Result) -> None:
    """A table for people, or a line that tells what was done."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Without a terminal nobody wants cells cut to eighty columns.
    console = Console(width=None if sys.stdout.isatty() else 10_000, soft_wrap=True)
    if result.columns:
        table = Table(box=box.ASCII2)
        for column in result.columns:
            table.add_column(Text(column), overflow="fold")
        for row in result.rows:
            table.add_row(*(Text(_cell(value)) for value in row))
        console.print(table)
    console.print(_summary(result), highlight=False, markup=False)


def print_json(result: Result) -> None:
    """One line with one JSON object, in the form that HivexQueryOperator returns."""
    document = {
        "columns": list(result.columns),
        "rows": json_rows(result.rows),
        "truncated": result.truncated,
        "cluster": result.cluster,
        "txn_id": result.txn_id,
        "rows_written": result.rows_written,
    }
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def print_csv(result: Result) -> None:
    """A header and the rows; nothing for a statement without rows. NULL is an empty field."""
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
    if result.rows_written is not None:
        facts.append(f"{result.rows_written} row{'' if result.rows_written == 1 else 's'} written")
    if result.cluster is not None:
        facts.append(f"cluster {result.cluster}")
    if result.txn_id is not None:
        facts.append(f"transaction {result.txn_id}")
    return f"({', '.join(facts)})" if facts else "OK"
