"""``hivex metastore import``, ``doctor`` and ``cache``: import from Hive, check files against metadata, show caches."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_hivex.cli.output import printer
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.parser.reader import read_table_name
from airflow_hivex.core.session import Result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

    from airflow_hivex.core.imports.importer import Progress
    from airflow_hivex.core.imports.writing import ImportedObject
    from airflow_hivex.core.metastore import Metastore


_OBJECTS = ("outcome", "kind", "name", "partitions", "directories", "notes")


def import_metastore(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Import objects of a Hive metastore, and print a result for each object.

    Return 1 if an object was refused, or if its name belongs to a different object here. Otherwise return 0.

    If the Hive metastore stops during the import, the results until then are printed before the error.
    """
    from airflow_hivex.core.imports.hive_client import HiveTransport

    found: list[ImportedObject] = []
    # A file of certificates implies TLS.
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


def rebuild_metastore(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Rebuild the tables of a cluster, and print a result for each object, and what does not come back.

    Return 1 if a table cannot be rebuilt. Otherwise return 0.
    """
    from airflow_hivex.core.imports.rebuilding import LOST

    found: list[ImportedObject] = []
    try:
        with _progress() as progress:
            results = metastore.rebuild(
                cluster=options.cluster,
                databases=options.database,
                tables=options.table,
                dry_run=options.dry_run,
                progress=progress,
            )
            found.extend(results)
    finally:
        if found:
            _print(found, options)
            report(_summary(found))
    report("These do not come back:")
    for each in LOST:
        report(f"- {each}")
    return 1 if any(each.is_missing for each in found) else 0


def _print(found: list[ImportedObject], options: argparse.Namespace) -> None:
    rows: list[tuple[object, ...]] = [
        (each.outcome.value, each.kind, each.name, each.partitions, each.directories, "; ".join(each.notes))
        for each in found
    ]
    printer(options.format)(Result(list(_OBJECTS), rows))


def _summary(found: list[ImportedObject]) -> str:
    counted = Counter(each.outcome.value for each in found)
    partitions = sum(each.partitions for each in found)
    objects = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counted.items()))
    return f"{objects}; {partitions} partitions"


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Yield a function that shows the current object and the count of partitions. Without a terminal, yield None."""
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


_FINDINGS = ("finding", "cluster", "database", "table", "partition", "path", "files", "bytes", "message")


def examine(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Compare metadata and files, and print what differs; return 1 if a finding is an error, otherwise 0.

    A finding is an error if rows are lost, statements will fail, or a cluster cannot be read.
    """
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
    printer(options.format)(Result(list(_FINDINGS), rows))
    errors = sum(each.is_error for each in found)
    others = len(found) - errors
    report(f"{_count(errors, 'error')}, {_count(others, 'finding')} without harm")
    return 1 if errors else 0


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_CACHES = ("host", "process", "started", "seen", "lag", "tables", "used_bytes", "max_bytes", "hits", "misses")


def show_caches(metastore: Metastore, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    """Print one row for each process: its lag in events, its memory, its hits, and its misses by reason."""
    current = metastore.notification_log.current_event_id()
    rows: list[tuple[object, ...]] = [
        (
            each.host,
            each.process_id,
            each.started_at,
            each.seen_at,
            max(0, current - each.event_id),
            each.counts.get("tables"),
            each.counts.get("used_bytes"),
            each.counts.get("most_bytes"),
            _hits(each.counts),
            _misses(each.counts),
        )
        for each in metastore.registered_caches()
    ]
    printer(options.format)(Result(list(_CACHES), rows))
    report(f"the newest event of the notification log is {current}")
    return 0


def _hits(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(counts.get("hits", {}).items()))


def _misses(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['kind']} {each['reason']}: {each['count']}" for each in counts.get("misses", ()))
