"""``hivex namespace home`` and ``import``: namespaces of other metastores."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import UsageError, add_options_to_command, open_metastore
from airflow_hivex.cli.output import add_output_option, printer
from airflow_hivex.core.errors import UnknownClusterError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.replication import CopyProgress

HOME_COLUMNS = ("namespace", "metastore", "noted_at")
IMPORT_COLUMNS = ("outcome", "kind", "name", "partitions", "directories", "notes")


def add_home_arguments(home: argparse.ArgumentParser) -> None:
    """Add the arguments of ``home``."""
    home.description = (
        "Without arguments list the metastore of each namespace. With NAMESPACE show its metastore, with METASTORE "
        "note it."
    )
    home.add_argument("namespace", metavar="NAMESPACE", nargs="?", help="the namespace")
    home.add_argument(
        "home", metavar="METASTORE", nargs="?", help="the id of an Airflow connection, or a URL without a password"
    )
    home.add_argument("--replace", action="store_true", help="the namespace has moved from another metastore")
    home.add_argument("--forget", action="store_true", help="remove what is noted")
    add_output_option(home)
    add_options_to_command(home)
    home.set_defaults(command=_home)


def _home(options: argparse.Namespace) -> int:
    from airflow_hivex.core.session import Result

    if options.forget and (options.namespace is None or options.home is not None):
        raise UsageError("--forget takes a namespace, and no metastore")
    with open_metastore(options) as metastore:
        homes = metastore.homes
        if options.forget:
            homes.forget(options.namespace)
            return 0
        if options.namespace is None:
            found = homes.show()
        elif options.home is None:
            found = [homes.find(options.namespace)]
        else:
            found = [homes.note(options.namespace, options.home, replace=options.replace)]
    rows: list[tuple[object, ...]] = [(each.namespace, each.metastore, each.noted_at) for each in found]
    printer(options.format)(Result(list(HOME_COLUMNS), rows))
    return 0


def add_import_arguments(command: argparse.ArgumentParser, report: Callable[[str], None]) -> None:
    """Add the arguments of ``import``; ``report`` shows its progress."""
    command.description = (
        "Copy the tables and views of a namespace of another metastore, as of one snapshot. All appear at once; an "
        "import that was killed is continued by the same command."
    )
    command.add_argument("namespace", metavar="NAMESPACE", help="the namespace in the other metastore")
    command.add_argument(
        "--from",
        dest="source",
        metavar="METASTORE",
        help="the id of an Airflow connection, or a URL (default: the home of the namespace)",
    )
    command.add_argument(
        "--from-clusters", metavar="JSON|FILE", help="the clusters of the other metastore, where --from is a URL"
    )
    command.add_argument("--from-default-cluster", metavar="NAME", help="the default cluster of the other metastore")
    command.add_argument("--table", metavar="PATTERN", help="import these tables only, such as 'flights|air*'")
    command.add_argument("--into", metavar="NAME", help="the name of the namespace here (default: the same)")
    command.add_argument("--cluster", metavar="CLUSTER", help="the cluster that gets the files (default: the default)")
    command.add_argument(
        "--dry-run", action="store_true", help="list the objects that would be imported; change nothing"
    )
    command.add_argument("--threads", metavar="N", type=int, default=8, help="copy N files at once (default: 8)")
    add_output_option(command)
    add_options_to_command(command)
    command.set_defaults(command=lambda options: _import(options, report))


def _import(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    from airflow_hivex.core.session import Result

    def show(progress: CopyProgress) -> None:
        report(f"{progress.files_done} of {progress.files} files, {progress.bytes_done} of {progress.size_bytes} bytes")

    with ExitStack() as opened:
        # A given source comes first: where it is missing, no metastore is created here, either.
        where = options.source
        source = opened.enter_context(_other(where, options)) if where else None
        metastore = opened.enter_context(open_metastore(options))
        if source is None:
            where = metastore.homes.find(options.namespace).metastore
            source = opened.enter_context(_other(where, options))
        try:
            found = metastore.import_namespace(
                source,
                options.namespace,
                tables=options.table,
                into=options.into,
                cluster=options.cluster,
                dry_run=options.dry_run,
                threads=options.threads,
                progress=show,
            )
        except UnknownClusterError as error:
            if "://" not in where or error.cluster == options.cluster:
                raise
            raise UsageError(f"{error} Name the clusters of the other metastore by --from-clusters.") from error
    rows: list[tuple[object, ...]] = [
        (each.outcome.value, each.kind, each.name, each.partitions, each.directories, "; ".join(each.notes))
        for each in found
    ]
    printer(options.format)(Result(list(IMPORT_COLUMNS), rows))
    return 1 if any(each.is_missing for each in found) else 0


@contextmanager
def _other(where: str, options: argparse.Namespace) -> Iterator[Metastore]:
    """Yield the metastore at a URL, or that of an Airflow connection, which others of this process may use, too."""
    if "://" in where:
        from airflow_hivex.core.metastore import Metastore

        # A URL with a typing error must not make an empty metastore.
        Metastore.check_exists(where)
        clusters, default = options.from_clusters, options.from_default_cluster
        with Metastore.open(where, clusters=clusters, default_cluster=default) as metastore:
            yield metastore
        return
    from airflow_hivex.hooks.hivex import HivexHook

    yield HivexHook(where).get_existing_metastore()
