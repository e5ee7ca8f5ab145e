"""``hivex metastore import``: the objects of a Hive metastore, and what became of each."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hivex.cli.output import printer
from airflow_hivex.core.session import Result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from airflow_hivex.core.imports.importer import Progress
    from airflow_hivex.core.imports.writing import ImportedObject
    from airflow_hivex.core.metastore import Metastore

COLUMNS = ("outcome", "kind", "name", "partitions", "directories", "notes")


def import_metastore(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Import and print the result for each object; 1 if one differs or was refused, else 0.

    If the Hive metastore stops half-way, the results until then are printed before the error.
    """
    from airflow_hivex.core.imports.hive_client import HiveTransport

    found: list[ImportedObject] = []
    # A file of certificates is for TLS alone.
    transport = HiveTransport(options.tls or options.ca_file is not None, options.ca_file, options.framed)
    try:
        with _progress() as progress:
            results = metastore.import_from_hive(
                options.address,
                cluster=options.cluster,
                databases=options.database,
                tables=options.table,
                dry_run=options.dry_run,
                user=options.user,
                timeout_s=options.timeout,
                transport=transport,
                progress=progress,
            )
            found.extend(results)
    finally:
        if found:
            _print(found, options)
            report(_summary(found))
    return 1 if any(each.is_missing for each in found) else 0


def _print(found: list[ImportedObject], options: argparse.Namespace) -> None:
    rows: list[tuple[object, ...]] = [
        (each.outcome.value, each.kind, each.name, each.partitions, each.directories, "; ".join(each.notes))
        for each in found
    ]
    printer(options.format)(Result(list(COLUMNS), rows))


def _summary(found: list[ImportedObject]) -> str:
    counted = Counter(each.outcome.value for each in found)
    partitions = sum(each.partitions for each in found)
    objects = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counted.items()))
    return f"{objects}; {partitions} partitions"


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Yield a function that shows the object that is read and the number of partitions; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed} objects, {task.fields[partitions]} partitions"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, partitions=0)

        def show(name: str, partitions: int) -> None:
            total = bar.tasks[0].fields["partitions"] + partitions
            bar.update(task, description=name, advance=0 if partitions else 1, partitions=total)

        yield show
