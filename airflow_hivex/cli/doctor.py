"""``hivex metastore doctor``: where the registered directories and the disks of the clusters differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.cli.output import printer
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.parser.reader import read_table_name
from airflow_hivex.core.session import Result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from airflow_hivex.core.metastore import Metastore

COLUMNS = ("finding", "cluster", "database", "table", "partition", "path", "files", "bytes", "message")


def examine(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Print the findings; return 1 if rows are lost or statements will fail, else 0."""
    database, table = options.database, None
    if options.table is not None:
        name = read_table_name(options.table)
        if name.namespace is not None:
            raise InvalidOperationError(
                "An examination of", options.table, "it is a link; examine the table that it links to"
            )
        if name.database is not None and database is not None and name.database != database.lower():
            raise InvalidOperationError("An examination of", options.table, f"it is not a table of database {database}")
        database, table = name.database or database, name.name
    found = metastore.doctor.examine(database, table, options.cluster, progress=report)
    rows: list[tuple[object, ...]] = [
        (
            each.kind.value,
            each.cluster,
            each.database,
            each.table,
            each.partition,
            each.path,
            each.files,
            each.size_bytes,
            each.message,
        )
        for each in found
    ]
    printer(options.format)(Result(list(COLUMNS), rows))
    errors = sum(each.is_error for each in found)
    others = len(found) - errors
    report(f"{_count(errors, 'error')}, {_count(others, 'finding')} without harm")
    return 1 if errors else 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
