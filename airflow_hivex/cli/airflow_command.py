"""``airflow hivex ...``: the commands of ``hivex`` on the connections of Airflow."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

if TYPE_CHECKING:
    from airflow.cli.cli_config import CLICommand

_DEFAULT = "hivex_default"


def get_commands() -> list[CLICommand]:
    """Return the command ``hivex`` for the parser of ``airflow``."""
    return [
        ActionCommand(
            name="hivex",
            help="Run a command of hivex on a connection of Airflow",
            description=(
                "The commands are those of hivex: sql, compaction, metastore, namespace, replicate, export and others. "
                "'airflow hivex sql --help' shows the options of one."
            ),
            func=lazy_load_command("airflow_hivex.cli.airflow_command.run"),
            args=(
                Arg(
                    ("--conn-id",),
                    metavar="ID",
                    default=_DEFAULT,
                    help=f"the connection of type hivex (default: {_DEFAULT}, or the embedded warehouse)",
                ),
                Arg(
                    ("arguments",),
                    metavar="COMMAND",
                    nargs=argparse.REMAINDER,
                    help="the command of hivex with its arguments",
                ),
            ),
        )
    ]


def run(options: argparse.Namespace) -> None:
    """Run a command of ``hivex``; exit with its code."""
    # Without this, Airflow looks for connections in the environment and in secrets backends only.
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
    from airflow.sdk.exceptions import AirflowNotFoundException

    from airflow_hivex.cli.connection import GivenMetastore
    from airflow_hivex.cli.main import EXIT_ERROR, main
    from airflow_hivex.core.errors import HivexError
    from airflow_hivex.hooks import spark_connections
    from airflow_hivex.hooks.warehouse import WarehouseHook

    try:
        found = WarehouseHook(options.conn_id).get_configuration()
    except (HivexError, AirflowNotFoundException) as error:
        sys.stderr.write(f"airflow hivex: {error}\n")
        sys.exit(EXIT_ERROR)
    spark_connections.register()
    given = GivenMetastore(found.url, found.clusters, found.default_cluster, found.settings, found.database)
    sys.exit(main(options.arguments or ["--help"], given))
