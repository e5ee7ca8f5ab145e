"""``hivex compaction``: commands that request, run, list and explain compactions."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import add_options_to_command, open_metastore, whole_number
from airflow_hivex.cli.output import add_output_option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.model.cleaning import CleaningTask

_TYPES = ("major", "minor", "rebalance")


def add_actions(parser: argparse.ArgumentParser) -> None:
    """Add the actions to the command's parser."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")

    request = actions.add_parser("request", help="request a compaction of a table or partition")
    _add_resource(request)
    request.add_argument("--type", choices=_TYPES, default="major", help="(default: major)")
    request.add_argument("--pool", metavar="NAME", help="the pool of the queue (default: the pool of the table)")
    request.add_argument(
        "--property",
        metavar="NAME=VALUE",
        type=_property,
        action="append",
        default=[],
        help="a property that overrides the table's in this compaction; may be repeated",
    )
    request.add_argument("--buckets", metavar="N", type=whole_number, help="the number of files of a rebalance")
    request.add_argument(
        "--order-by",
        metavar="COLUMN",
        action="append",
        default=[],
        help="the order of a rebalance: 'column' or 'column DESC'; may be repeated",
    )
    request.add_argument(
        "--wait", action="store_true", help="wait until the compaction is done, at most hive.compactor.wait.timeout"
    )
    _run_by(request, _request)

    initiate = actions.add_parser(
        "initiate", help="queue a compaction of each table and partition that has passed a threshold"
    )
    _run_by(initiate, _initiate)

    work = actions.add_parser("work", help="run the oldest waiting compaction and print its result")
    work.add_argument("--pool", metavar="NAME", help="the pool of the queue (default: compactions without a pool)")
    which = work.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="continue until no compaction waits")
    which.add_argument(
        "--id", metavar="ID", type=whole_number, help="run this compaction, whatever its pool, if it waits"
    )
    _run_by(work, _work)

    show = actions.add_parser("show", help="list the queue and the history")
    show.add_argument("--database", metavar="NAME", help="list only this database")
    show.add_argument("--table", metavar="TABLE", help="list only this table: table or database.table")
    show.add_argument("--partition", metavar="KEY=VALUE/...", help="list only this partition")
    show.add_argument("--pool", metavar="NAME", help="list only this pool")
    show.add_argument("--type", metavar="TYPE", help="list only this type: major, minor or rebalance")
    show.add_argument("--status", metavar="STATUS", help="list only this state, such as 'ready for cleaning'")
    show.add_argument("--limit", metavar="N", type=whole_number, help="list only the newest N")
    add_output_option(show)
    _run_by(show, _show)

    clean = actions.add_parser(
        "clean", help="delete the files that compactions have replaced and that aborted transactions have left"
    )
    add_output_option(clean)
    _run_by(clean, _clean)

    plan = actions.add_parser(
        "plan-clean", help="list the files that clean would delete now, and the transactions that still need some"
    )
    plan.add_argument("table", metavar="TABLE", nargs="?", help="table or database.table (default: all)")
    plan.add_argument("partition", metavar="PARTITION", nargs="?", help="key=value/...")
    add_output_option(plan)
    _run_by(plan, _plan_clean)

    housekeeping = actions.add_parser(
        "housekeep", help="requeue the compactions of lost workers and delete old records"
    )
    _run_by(housekeeping, housekeep)

    explain = actions.add_parser("explain", help="explain whether and why a table or partition is or is not compacted")
    _add_resource(explain)
    add_output_option(explain)
    _run_by(explain, _explain)

    abort = actions.add_parser("abort", help="withdraw compactions from the queue that no worker has started")
    abort.add_argument("ids", metavar="ID", type=whole_number, nargs="+")
    _run_by(abort, _abort)


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="table or database.table")
    parser.add_argument("partition", metavar="PARTITION", nargs="?", help="key=value/...")


def _run_by(
    parser: argparse.ArgumentParser,
    work: Callable[[Metastore, argparse.Namespace], int],
) -> None:
    def run(options: argparse.Namespace) -> int:
        with open_metastore(options) as metastore:
            return work(metastore, options)

    add_options_to_command(parser)
    parser.set_defaults(command=run)


def _request(metastore: Metastore, options: argparse.Namespace) -> int:
    from airflow_hivex.core.model.objects import SortColumn

    database, table = _names(options.table)
    response = metastore.compactor.request(
        database,
        table,
        options.partition,
        options.type,
        pool=options.pool,
        properties=dict(options.property),
        buckets=options.buckets,
        order_by=[SortColumn.read(each) for each in options.order_by],
    )
    if options.wait and response.is_accepted:
        response = metastore.compactor.wait(response.id)
    if response.is_accepted:
        because = f": {response.message}" if response.message else ""
        sys.stdout.write(f"Compaction {response.id} is {response.state.shown}{because}\n")
        return 0
    sys.stdout.write(f"refused: {response.message}\n")
    return 1


def _initiate(metastore: Metastore, options: argparse.Namespace) -> int:  # noqa: ARG001 - as all actions
    result = metastore.compactor.initiate()
    for name, value in (
        ("candidates", result.candidates),
        ("initiated", _listed(result.initiated)),
        ("did not initiate", _listed(result.did_not_initiate)),
        ("requeued", _listed(result.requeued)),
        ("complete", "yes" if result.is_complete else "no; run it again"),
    ):
        sys.stdout.write(f"{name}: {value}\n")
    return 0


def _work(metastore: Metastore, options: argparse.Namespace) -> int:
    from airflow_hivex.core.model.compaction import CompactionState

    failed = done = 0
    while (entry := metastore.compactor.work(pool=options.pool, compaction_id=options.id)) is not None:
        because = f": {entry.error_message}" if entry.error_message else ""
        what = f"{entry.type.name.lower()} of {entry.name}"
        sys.stdout.write(f"Compaction {entry.id}, {what}, is {entry.state.shown}{because}\n")
        done += 1
        failed += entry.state is CompactionState.FAILED
        if not options.all:
            break
    if not done and options.id is not None:
        found = metastore.compactor.history.get(options.id)
        sys.stdout.write(f"compaction {found.id} does not wait: it is {found.state.shown}\n")
    elif not done:
        sys.stdout.write("no compaction waits\n")
    return 1 if failed else 0


def _show(metastore: Metastore, options: argparse.Namespace) -> int:
    from airflow_hivex.core.compaction.history import CompactionFilter
    from airflow_hivex.core.model.compaction import SHOW_COLUMNS, CompactionState, CompactionType, show_row

    database, table = (options.database, None) if options.table is None else _names(options.table)
    wanted = CompactionFilter(
        database=database,
        table=table,
        partition=options.partition,
        pool=options.pool,
        type=None if options.type is None else CompactionType.read(options.type),
        state=None if options.status is None else CompactionState.read(options.status),
        limit=options.limit,
    )
    return _print(options, SHOW_COLUMNS, [show_row(each) for each in metastore.compactor.show(wanted)])


def _explain(metastore: Metastore, options: argparse.Namespace) -> int:
    explanation = metastore.compactor.explain(*_names(options.table), options.partition)
    rows: list[Sequence[object]] = [(each.name, each.value, each.threshold, each.result) for each in explanation.checks]
    rows += [(f"partitions: {answer}", str(count), "", "") for answer, count in explanation.partitions]
    rows.append(("answer", explanation.answer, "", ""))
    return _print(options, ("check", "value", "threshold", "result"), rows)


def _clean(metastore: Metastore, options: argparse.Namespace) -> int:
    return _print_cleaning(options, metastore.compactor.clean())


def _plan_clean(metastore: Metastore, options: argparse.Namespace) -> int:
    database, table = (None, None) if options.table is None else _names(options.table)
    return _print_cleaning(options, metastore.compactor.plan_clean(database, table, options.partition))


def _print_cleaning(options: argparse.Namespace, tasks: Sequence[CleaningTask]) -> int:
    from airflow_hivex.core.model.cleaning import CleaningOutcome

    rows: list[Sequence[object]] = []
    for task in tasks:
        of = ("" if task.compaction_id is None else str(task.compaction_id), f"{task.database}.{task.table}")
        place = (*of, task.partition or "")
        rows.append((*place, task.outcome.value, task.message or ""))
        rows += [(*place, f"delete, {each.why}", f"{each.uri} on {each.cluster}") for each in task.deleted]
        rows += [(*place, "stays", name) for name in task.waiting]
        rows += [(*place, "in the way", str(each)) for each in task.blockers]
    _print(options, ("compaction", "table", "partition", "what", "detail"), rows)
    return 1 if any(task.outcome is CleaningOutcome.FAILED for task in tasks) else 0


def housekeep(metastore: Metastore, options: argparse.Namespace) -> int:  # noqa: ARG001 - as all actions
    """Run one round of the housekeeper, and print its result."""
    from dataclasses import asdict

    for name, value in asdict(metastore.housekeeper.run()).items():
        shown = ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else value
        sys.stdout.write(f"{name}: {shown}\n")
    return 0


def _abort(metastore: Metastore, options: argparse.Namespace) -> int:
    answers = metastore.compactor.abort(options.ids)
    for compaction_id, why in answers.items():
        sys.stdout.write(f"{compaction_id}: {'aborted' if why is None else why}\n")
    return 1 if any(answers.values()) else 0


def _print(options: argparse.Namespace, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    from airflow_hivex.cli.output import printer
    from airflow_hivex.core.session import Result

    printer(options.format)(Result(list(columns), [tuple(row) for row in rows]))
    return 0


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids)) or "none"


def _names(text: str) -> tuple[str, str]:
    from airflow_hivex.core.errors import InvalidOperationError
    from airflow_hivex.core.model.identifiers import DEFAULT_DATABASE
    from airflow_hivex.core.parser.reader import read_table_name

    name = read_table_name(text)
    if name.namespace is not None:
        raise InvalidOperationError("A compaction of", text, "it is a link; compact the table that it links to")
    return name.database or DEFAULT_DATABASE, name.name


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
