"""``hivex namespace``: the dependencies of a namespace, refused statements, and its move to another cluster."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import UsageError, add_options_to_command, open_metastore
from airflow_hivex.cli.namespace_homes import add_home_arguments, add_import_arguments
from airflow_hivex.cli.output import add_output_option, printer
from airflow_hivex.core.errors import InvalidParametersError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from airflow_hivex.core.model.replication import MovedNamespace, MoveProgress

_KINDS = {"refused": "route", "unknown": "unknown route"}

COLUMNS = ("kind", "object", "name", "reason", "create_link", "line", "column")
PLAN_COLUMNS = ("kind", "object", "cluster", "files", "bytes", "note")
MOVE_COLUMNS = ("namespace", "cluster", "is_changed", "tables", "bytes_copied", "rounds", "locked_s")


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
    row = (
        found.namespace,
        found.cluster,
        found.is_changed,
        len(found.tables),
        found.bytes_copied,
        found.rounds,
        round(found.locked_s, 3),
    )
    printer(options.format)(Result(list(MOVE_COLUMNS), [row]))
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
    # A text that cannot be read is reported once.
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
    """Print a row for each namespace, with a column for each one that it depends on."""
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
    """Return the text of a cell: the numbers of links and of other dependencies, empty without any."""
    counted = ((links, "link", "links"), (others, "dependency", "dependencies"))
    return ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in counted if count)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
