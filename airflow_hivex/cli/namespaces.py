"""``hivex namespace``: show what a namespace depends on, move it, record which metastore has it, or import it."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import UsageError, add_options_to_command, open_metastore
from airflow_hivex.cli.output import add_output_option, printer
from airflow_hivex.core.errors import InvalidParametersError, UnknownClusterError
from airflow_hivex.core.model.replication import MOVE_COLUMNS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.replication import CopyProgress, MovedNamespace, MoveProgress


_KINDS = {"refused": "route", "unknown": "unknown route"}

COLUMNS = ("kind", "object", "name", "reason", "create_link", "line", "column")
PLAN_COLUMNS = ("kind", "object", "cluster", "files", "bytes", "note")


def add_arguments(namespace: argparse.ArgumentParser, report: Callable[[str], None]) -> None:
    """Add the arguments of the command; ``report`` shows its progress."""
    actions = namespace.add_subparsers(title="actions", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="list what a namespace depends on outside of it; exit with 1 if anything")
    check.add_argument("namespace", metavar="NAMESPACE", nargs="?", help="the namespace to check")
    check.add_argument(
        "--all",
        action="store_true",
        help="show a matrix of all namespaces: how many links and other dependencies each one has on each other one",
    )
    check.add_argument(
        "--sql", metavar="FILE", type=Path, action="append", default=[], help="check the statements of a file, too"
    )
    check.add_argument(
        "--dag",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="run a DAG file, and check the statements of its HivexQueryOperators and their routes, too",
    )
    add_output_option(check)
    add_options_to_command(check)
    check.set_defaults(command=_check)
    add_home_arguments(actions.add_parser("home", help="show, note or forget the metastore of a namespace"))
    add_import_arguments(actions.add_parser("import", help="import a namespace of another metastore"), report)
    _add_move(actions.add_parser("move", help="move a namespace to another cluster, or cancel its move"), report)


def _add_move(move: argparse.ArgumentParser, report: Callable[[str], None]) -> None:
    move.description = (
        "Make a cluster the primary one of all tables of a namespace, all at once. The tables are copied while others "
        "read and write them. A move that was interrupted is continued by the same command."
    )
    move.add_argument("namespace", metavar="NAMESPACE", help="the namespace to move")
    step = move.add_mutually_exclusive_group(required=True)
    step.add_argument("--to", metavar="CLUSTER", help="the cluster that is to have the namespace")
    step.add_argument("--cancel", action="store_true", help="cancel the move, and withdraw the copies that it has made")
    move.add_argument(
        "--dry-run",
        action="store_true",
        help="list tables, bytes, and the objects in the way; change nothing, and exit with 1 if any is in the way",
    )
    move.add_argument(
        "--with-linked-tables", action="store_true", help="copy tables of other namespaces as far as links show them"
    )
    move.add_argument(
        "--keep-copies",
        action="store_true",
        help="keep the copies on the previous clusters; with --cancel, the new copies",
    )
    move.add_argument("--threads", metavar="N", type=int, default=8, help="copy N files at once (default: 8)")
    move.add_argument("--bytes-per-second", metavar="N", type=int, help="copy at most N bytes per second")
    move.add_argument(
        "--copy-on", metavar="CLUSTER", help="copy by a job on the Spark of CLUSTER (default: by the number of bytes)"
    )
    add_output_option(move)
    add_options_to_command(move)
    move.set_defaults(command=lambda options: _move(options, report))


def _move(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    from airflow_hivex.core.session import Result

    def show(progress: MoveProgress) -> None:
        done = f"{progress.tables_done} of {progress.tables} tables"
        now = f"{progress.table}: {progress.bytes_done} of {progress.size_bytes} bytes"
        report(f"round {progress.round}: {done}, {progress.bytes_copied} bytes; {now}")

    with open_metastore(options) as metastore:
        if options.cancel:
            if options.dry_run or options.with_linked_tables:
                raise InvalidParametersError("--dry-run and --with-linked-tables belong to --to.")
            cancelled = metastore.moves.cancel(options.namespace, keep_copies=options.keep_copies)
            report(f"the move of namespace {cancelled.namespace} to cluster {cancelled.cluster} is cancelled")
            return 0
        found = metastore.moves.move(
            options.namespace,
            options.to,
            copy_linked=options.with_linked_tables,
            keep_copies=options.keep_copies,
            dry_run=options.dry_run,
            threads=options.threads,
            bytes_per_second=options.bytes_per_second,
            copy_cluster=options.copy_on,
            progress=show,
            agent_info="hivex namespace move",
        )
    if options.dry_run:
        return _print_plan(found, options, report)
    printer(options.format)(Result(list(MOVE_COLUMNS), [found.row]))
    return 0


def _print_plan(found: MovedNamespace, options: argparse.Namespace, report: Callable[[str], None]) -> int:
    from airflow_hivex.core.session import Result

    plan = found.plan
    assert plan is not None
    rows: list[tuple[object, ...]] = [
        ("linked table" if each.is_linked else "table", each.table, each.before, each.files, each.size_bytes, None)
        for each in plan.tables
    ]
    rows += [("notice", None, None, None, None, each) for each in plan.notices]
    rows += [("blocker", each.object, None, None, None, f"{each.problem}; {each.remedy}") for each in plan.blockers]
    printer(options.format)(Result(list(PLAN_COLUMNS), rows))
    speed = f"{plan.bytes_per_second} bytes per second"
    report(f"{plan.size_bytes} bytes to copy, about {plan.estimated_s:.0f} s at {speed}")
    return 1 if plan.blockers else 0


def _check(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.dag_statements import UnreadableStatement, statements_of
    from airflow_hivex.core.namespaces.closure import NamedStatement
    from airflow_hivex.core.preflight import Outlook
    from airflow_hivex.core.session import Result

    if options.all:
        return _check_all(options)
    if options.namespace is None:
        raise InvalidParametersError("namespace check needs the name of a NAMESPACE, or --all.")
    statements = [NamedStatement(str(file), _text_of(file)) for file in options.sql]
    unreadable = []
    for file in options.dag:
        for found in statements_of(file):
            if isinstance(found, UnreadableStatement):
                unreadable.append(found)
            else:
                statements.append(found)
    with open_metastore(options) as metastore:
        closure = metastore.namespaces.check(options.namespace, statements)
        routes = metastore.preflight(statements, namespace=options.namespace)
    # A text with a syntax error is reported once.
    unread = {each.object for each in closure.dependencies if not each.name}
    routes = [each for each in routes if each.kind or each.object not in unread]
    rows: list[tuple[object, ...]] = [
        (each.kind, each.object, each.name, each.reason, each.create_link, each.line, each.column)
        for each in closure.dependencies
    ]
    rows += [("statement", each.name, "", each.reason, None, None, None) for each in unreadable]
    rows += [
        (_KINDS[each.outlook], each.object, each.kind, each.reason, None, each.line, each.column)
        for each in routes
        if each.outlook is not Outlook.RUNS
    ]
    rows += [
        ("link", each.link, each.source, f"it is imported ({each.type})", None, None, None) for each in closure.imports
    ]
    printer(options.format)(Result(list(COLUMNS), rows))
    is_refused = any(each.outlook is Outlook.REFUSED for each in routes)
    return 0 if closure.is_closed and not unreadable and not is_refused else 1


def _check_all(options: argparse.Namespace) -> int:
    """Print a matrix with a row and a column for each namespace.

    A cell has the number of dependencies of the row's namespace on the column's namespace.
    """
    from airflow_hivex.core.session import Result

    if options.namespace is not None or options.sql or options.dag:
        raise InvalidParametersError("--all stands alone; check a NAMESPACE for --sql and --dag.")
    with open_metastore(options) as metastore:
        found = metastore.namespaces.check_all()
        modes = {each.namespace: metastore.namespaces.is_closed(each.namespace) for each in found}
    names = [each.namespace for each in found]
    rows: list[tuple[object, ...]] = []
    for closure in found:
        links = Counter(each.source.split(".")[0] for each in closure.imports)
        others = Counter(each.namespace for each in closure.dependencies)
        cells = (_cell(links[name], others[name]) for name in names)
        rows.append((closure.namespace, modes[closure.namespace], len(closure.dependencies), *cells))
    printer(options.format)(Result(["namespace", "closed_mode", "dependencies", *names], rows))
    return 0 if all(each.is_closed for each in found) else 1


def _cell(links: int, others: int) -> str:
    """Return the text of a cell: the numbers of links and of other dependencies, or an empty text if both are 0."""
    counted = ((links, "link", "links"), (others, "dependency", "dependencies"))
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counted if count)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error


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
        # The source is opened first, so that a wrong source does not create a metastore here.
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
    """Yield the metastore at the URL ``where``, or of the Airflow connection ``where``.

    Only a metastore at a URL is closed afterwards.
    """
    if "://" in where:
        from airflow_hivex.core.metastore import Metastore

        # A URL with a typing error must not create an empty metastore.
        Metastore.check_exists(where)
        clusters, default = options.from_clusters, options.from_default_cluster
        with Metastore.open(where, clusters=clusters, default_cluster=default) as metastore:
            yield metastore
        return
    from airflow_hivex.hooks.hivex import HivexHook

    yield HivexHook(where).get_existing_metastore()
