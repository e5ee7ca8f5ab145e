"""``hivex replicate``: copies of tables on another cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import add_options_to_command, open_metastore
from airflow_hivex.cli.output import add_output_option, printer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from airflow_hivex.core.model.replication import CopyProgress

COLUMNS = ("table", "partition", "directory", "source", "location", "files", "bytes")


def add_arguments(replicate: argparse.ArgumentParser, report: Callable[[str], None]) -> None:
    """Add the arguments of the command; ``report`` shows its progress."""
    replicate.description = (
        "Copy to a cluster what it lacks of tables, as of one snapshot. Nothing is visible there before all of it is "
        "copied and verified. The command may be repeated: it keeps files that are there already."
    )
    replicate.add_argument("tables", metavar="TABLE", nargs="+", help="a table, as database.table")
    replicate.add_argument("--to", metavar="CLUSTER", required=True, help="the cluster that is to have the copies")
    replicate.add_argument(
        "--partition",
        metavar="NAME",
        action="append",
        help="copy only this partition of one table (year=2013/month=1), or those below it; may be repeated",
    )
    replicate.add_argument(
        "--where",
        metavar="CONDITIONS",
        help="copy only these partitions of one table, as in a PARTITION clause: 'year = 2013, month < 3'",
    )
    replicate.add_argument("--dry-run", action="store_true", help="list the directories to copy, and copy nothing")
    replicate.add_argument("--verify", action="store_true", help="read registered copies too, and repair damaged ones")
    replicate.add_argument("--threads", metavar="N", type=int, default=8, help="copy N files at once (default: 8)")
    replicate.add_argument("--bytes-per-second", metavar="N", type=int, help="copy at most N bytes per second")
    replicate.add_argument(
        "--copy-on", metavar="CLUSTER", help="copy by a job on the Spark of CLUSTER (default: by the number of bytes)"
    )
    add_output_option(replicate)
    add_options_to_command(replicate)
    replicate.set_defaults(command=lambda options: _replicate(options, report))


def _replicate(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    from airflow_hivex.core.session import Result

    def show(progress: CopyProgress) -> None:
        done = f"{progress.files_done} of {progress.files} files"
        report(f"{done}, {progress.bytes_done} of {progress.size_bytes} bytes")

    with open_metastore(options) as metastore:
        found = metastore.replicator.replicate(
            options.tables,
            options.to,
            options.partition,
            partition_filter=options.where,
            dry_run=options.dry_run,
            verify=options.verify,
            threads=options.threads,
            bytes_per_second=options.bytes_per_second,
            copy_cluster=options.copy_on,
            progress=show,
            agent_info="hivex replicate",
        )
    rows: list[tuple[object, ...]] = [
        (table.table, each.partition, each.name, each.source, each.location, each.files, each.size_bytes)
        for table in found.tables
        for each in table.directories
    ]
    printer(options.format)(Result(list(COLUMNS), rows))
    if not options.dry_run:
        report(f"{found.files_copied} files copied, {found.bytes_copied} bytes; {found.files_kept} were there already")
    return 0
