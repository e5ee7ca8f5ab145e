"""``hivex namespace``: the objects and statements of a namespace that depend on others."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import add_options_to_command, open_metastore
from airflow_hivex.cli.output import add_output_option, printer
from airflow_hivex.core.errors import InvalidParametersError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_hivex.core.namespaces.closure import NamedStatement

COLUMNS = ("kind", "object", "name", "reason", "create_link", "line", "column")


def add_arguments(namespace: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = namespace.add_subparsers(title="actions", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="list what a namespace depends on outside of it; exit with 1 if anything")
    check.add_argument("namespace", metavar="NAMESPACE", help="the namespace to check")
    check.add_argument(
        "--sql", metavar="FILE", type=Path, action="append", default=[], help="check the statements of a file, too"
    )
    check.add_argument(
        "--dag",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="run a DAG file, and check the statements of its HivexQueryOperators, too",
    )
    add_output_option(check)
    add_options_to_command(check)
    check.set_defaults(command=_check)


def _check(options: argparse.Namespace) -> int:
    from airflow_hivex.core.namespaces.closure import NamedStatement
    from airflow_hivex.core.session import Result

    statements = [NamedStatement(str(file), file.read_text()) for file in options.sql]
    for file in options.dag:
        statements += _of_dag_file(file)
    with open_metastore(options) as metastore:
        found = metastore.namespaces.check(options.namespace, statements)
    rows: list[tuple[object, ...]] = [
        (each.kind, each.object, each.name, each.reason, each.create_link, each.line, each.column)
        for each in found.dependencies
    ]
    rows += [
        ("link", each.link, each.source, f"it is imported ({each.type})", None, None, None) for each in found.imports
    ]
    printer(options.format)(Result(list(COLUMNS), rows))
    return 0 if found.is_closed else 1


def _of_dag_file(file: Path) -> Iterator[NamedStatement]:
    """Yield the statements of a DAG file, which is run as Airflow runs it when it parses it."""
    from airflow.dag_processing.dagbag import DagBag

    from airflow_hivex.core.namespaces.closure import NamedStatement
    from airflow_hivex.operators.query import HivexQueryOperator

    # Airflow logs to the standard output, which has the answer.
    with redirect_stdout(sys.stderr):
        bag = DagBag(str(file))
    for path, error in bag.import_errors.items():
        raise InvalidParametersError(f"The DAG file {path} cannot be read: {error}")
    for dag in bag.dags.values():
        for task in dag.tasks:
            if isinstance(task, HivexQueryOperator):
                for text in [task.sql] if isinstance(task.sql, str) else task.sql:
                    yield NamedStatement(f"{dag.dag_id}.{task.task_id}", text, task.database)
