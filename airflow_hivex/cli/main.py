"""``hivex``: the warehouse on the command line, without Airflow.

A command imports its modules when it runs, so that ``hivex --help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_hivex import __version__
from airflow_hivex.cli.connection import (
    GivenMetastore,
    UsageError,
    add_options,
    add_options_to_command,
    metastore_url,
    open_metastore,
    whole_number,
)
from airflow_hivex.cli.output import add_output_option
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.model.configuration import HIVECONF, HIVEVAR

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, given: GivenMetastore | None = None) -> int:
    """Run one command and return its exit code: 0 for success, 1 for an error of the warehouse, 2 for wrong usage.

    ``given`` is a metastore that the caller passes. With ``given``, the options must not name a metastore, and the
    environment is ignored.
    """
    parser = _parser(given)
    options = parser.parse_args(arguments)
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except UsageError as error:
        parser.error(str(error))
    except HivexError as error:
        _complain(f"{error} [{error.code}]")
        return EXIT_ERROR
    except KeyboardInterrupt:
        _complain("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has ended, as with `| head`; Python would report that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR


def _complain(sentence: str) -> None:
    sys.stderr.write(f"hivex: {sentence}\n")


def _parser(given: GivenMetastore | None) -> argparse.ArgumentParser:
    name = "hivex" if given is None else "airflow hivex"
    parser = argparse.ArgumentParser(prog=name, description="A transactional Hive warehouse over Spark clusters.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_options(parser, given)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_sql(commands, "default" if given is None else given.database)
    _add_export(commands)
    _add_replicate(commands)
    _add_namespace(commands)
    _add_metastore(commands)
    _add_compaction(commands)
    _add_spark(commands)
    _add_demo(commands)
    return parser


def _add_sql(commands: argparse._SubParsersAction[argparse.ArgumentParser], database: str) -> None:
    sql = commands.add_parser("sql", help="run statements and print their results")
    sql.description = (
        "Run statements and print their results. Without -e and -f, statements are read from a prompt, or from "
        "standard input if that is not a terminal."
    )
    text = sql.add_mutually_exclusive_group()
    text.add_argument("-e", "--execute", metavar="SQL", help="statements, separated by semicolons")
    text.add_argument("-f", "--file", metavar="FILE", help="a file of statements; - is standard input")
    sql.add_argument("--database", metavar="NAME", default=database, help="the current database (default: %(default)s)")
    sql.add_argument("--cluster", metavar="NAME", help="run on this cluster, as USE CLUSTER does")
    sql.add_argument(
        "--max-lag",
        metavar="TIME",
        help="read copies that lag by at most TIME (10min), as SET hivex.replica.max.lag does",
    )
    for names, scope in ((("-d", "--define", "--hivevar"), HIVEVAR), (("--hiveconf",), HIVECONF)):
        sql.add_argument(
            *names,
            metavar="NAME=VALUE",
            dest="variables",
            action="append",
            default=[],
            type=partial(_variable, scope),
            help=f"give ${{{scope}NAME}} in statements a value, as SET {scope}NAME = VALUE does; may be repeated",
        )
    add_output_option(sql)
    sql.add_argument(
        "--max-rows", metavar="N", type=whole_number, help="print at most N rows of each result (default: all)"
    )
    add_options_to_command(sql)
    sql.set_defaults(command=_run_sql)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = commands.add_parser("export", help="copy the rows of a table to files that Hive reads")
    export.add_argument(
        "--hive", action="store_true", required=True, help="write full ACID files in the row layout of Hive"
    )
    export.add_argument("table", metavar="TABLE", help="the table to copy, as database.table")
    export.add_argument("directory", metavar="DIRECTORY", type=Path, help="a new or empty directory on this machine")
    export.add_argument(
        "--partition",
        metavar="NAME",
        action="append",
        default=[],
        help="copy only this partition, as SHOW PARTITIONS prints it (year=2013/month=1); may be repeated",
    )
    export.add_argument("--cluster", metavar="NAME", help="read on this cluster, as USE CLUSTER does")
    add_options_to_command(export)
    export.set_defaults(command=_run_export)


def _add_replicate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from airflow_hivex.cli.replication import add_arguments

    add_arguments(commands.add_parser("replicate", help="copy tables to another cluster"), _report)


def _add_namespace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from airflow_hivex.cli.namespaces import add_arguments

    add_arguments(commands.add_parser("namespace", help="check, move, import or find a namespace"), _report)


def _add_metastore(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from airflow_hivex.cli.metastore_server import add_serve

    metastore = commands.add_parser("metastore", help="upgrade, check, clean up and serve the metastore")
    actions = metastore.add_subparsers(title="actions", required=True, metavar="ACTION")
    upgrade = actions.add_parser("upgrade", help="upgrade the schema of the database to this release")
    add_options_to_command(upgrade)
    upgrade.set_defaults(command=_upgrade_metastore)
    status = actions.add_parser(
        "status", help="show the schema revision of the database and the one that this release needs"
    )
    add_options_to_command(status)
    status.set_defaults(command=_show_metastore_status)
    restored = actions.add_parser(
        "restored",
        help="note that the database was restored from a backup, so that no process answers from before",
        description=(
            "Note that the metastore's database was restored from a backup. The caches of all processes are emptied, "
            "and readers of the notification log learn that they have missed events. Run it once after a restore, "
            "before tasks run again."
        ),
    )
    add_options_to_command(restored)
    restored.set_defaults(command=_note_restore)
    housekeep = actions.add_parser(
        "housekeep", help="abort transactions without a heartbeat, release their locks, delete old records"
    )
    add_options_to_command(housekeep)
    housekeep.set_defaults(command=_housekeep_metastore)
    cache = actions.add_parser(
        "cache",
        help="show the caches of metadata of all processes that follow the notification log",
        description=(
            "Show the caches of metadata of all processes that follow the notification log: how many events each "
            "is behind, the memory that it uses, its hits, and its misses by reason. A row is as old as `seen` says: "
            "a process writes it when the log becomes quiet, and every five minutes after that."
        ),
    )
    add_output_option(cache)
    add_options_to_command(cache)
    cache.set_defaults(command=_show_caches)
    _add_import(actions)
    _add_rebuild(actions)
    add_serve(actions, _report)
    accept = actions.add_parser(
        "accept-root",
        help="accept the root of a cluster's file system as it is now",
        description=(
            "Accept the root of a cluster's file system as it is now, after its files were lost or were restored from "
            "a backup without the marker file. The command writes a new marker and changes nothing else."
        ),
    )
    accept.add_argument("cluster", metavar="CLUSTER", help="the name of the cluster in hive.cluster.properties")
    add_options_to_command(accept)
    accept.set_defaults(command=_accept_root)
    doctor = actions.add_parser(
        "doctor",
        help="compare the registered directories with the disks of the clusters",
        description=(
            "Compare the registered directories with the disks of the clusters. The command changes nothing. The exit "
            "code is 1 if rows are lost, statements will fail or a cluster cannot be read, and 0 if files only take "
            "space."
        ),
    )
    doctor.add_argument("--database", metavar="NAME", help="check only this database")
    doctor.add_argument("--table", metavar="TABLE", help="check only this table: table or database.table")
    doctor.add_argument("--cluster", metavar="NAME", help="check only this cluster")
    add_output_option(doctor)
    add_options_to_command(doctor)
    doctor.set_defaults(command=_examine_metastore)


def _add_import(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    imported = actions.add_parser(
        "import",
        help="import the databases, tables and views of a Hive metastore",
        description=(
            "Import the databases, tables and views of a Hive metastore. Files stay where they are. The command may be "
            "repeated: what is there already is compared and left as it is. The exit code is 1 if an object differs or "
            "cannot be taken over."
        ),
    )
    imported.add_argument("address", metavar="ADDRESS", help="thrift://host:port; several with commas between them")
    imported.add_argument("--cluster", metavar="NAME", help="the cluster with the files (default: the default cluster)")
    imported.add_argument("--database", metavar="PATTERN", help="import only these databases, such as 'sales*|stock'")
    imported.add_argument("--table", metavar="PATTERN", help="import only these tables and views")
    imported.add_argument("--dry-run", action="store_true", help="show what would be imported, and write nothing")
    imported.add_argument("--user", metavar="NAME", help="the user name that is sent to Hive (default: yours)")
    imported.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=60, help="how long to wait for an answer (default: 60)"
    )
    imported.add_argument("--tls", action="store_true", help="connect by TLS (hive.metastore.use.SSL)")
    imported.add_argument(
        "--ca-file", metavar="FILE", help="certificates that verify the server's (default: the system's)"
    )
    imported.add_argument(
        "--framed",
        action="store_true",
        help="use framed transport (hive.metastore.thrift.framed.transport.enabled)",
    )
    add_output_option(imported)
    add_options_to_command(imported)
    imported.set_defaults(command=_import_metastore)


def _add_rebuild(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rebuild = actions.add_parser(
        "rebuild",
        help="create the managed tables whose files are on a cluster, after the metastore was lost",
        description=(
            "Create the managed tables whose folders are on a cluster, after the database of the metastore was lost "
            "and has no backup. Files stay as they are. The command may be repeated: tables with rows stay as they "
            "are. It lists what does not come back. The exit code is 1 if a table cannot be rebuilt."
        ),
    )
    rebuild.add_argument("--cluster", metavar="NAME", help="the cluster with the files (default: the default cluster)")
    rebuild.add_argument("--database", metavar="PATTERN", help="rebuild only these databases, such as 'sales*|stock'")
    rebuild.add_argument("--table", metavar="PATTERN", help="rebuild only these tables")
    rebuild.add_argument("--dry-run", action="store_true", help="show what would be rebuilt, and write nothing")
    add_output_option(rebuild)
    add_options_to_command(rebuild)
    rebuild.set_defaults(command=_rebuild_metastore)


def _add_compaction(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from airflow_hivex.cli.compaction import add_actions

    compaction = commands.add_parser("compaction", help="request, run, list and explain compactions")
    add_actions(compaction)


def _add_spark(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from airflow_hivex.cli.spark import add_actions

    add_actions(commands.add_parser("spark", help="start and stop a Spark Connect server; start Spark faster"), _report)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser("demo", help="run the quickstart and the compaction DAG on real data")
    demo.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        default=Path(".demo"),
        help="where Airflow's home, the metastore and the two clusters go (default: .demo)",
    )
    demo.set_defaults(command=_run_demo)


def _variable(scope: str, text: str) -> tuple[str, str]:
    name, is_given, value = text.partition("=")
    if not is_given or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return f"{scope}{name.strip()}", value


def _seconds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 1 or more")
    return int(text)


def _run_sql(options: argparse.Namespace) -> int:
    metastore_url(options)
    text = _read_statements(options)

    from airflow_hivex.cli.output import StatementProgress, printer
    from airflow_hivex.cli.sql import StatementRunner, run_prompt, run_script

    progress = StatementProgress()
    with (
        open_metastore(options) as metastore,
        metastore.session(
            database=options.database,
            cluster=options.cluster,
            agent_info="hivex sql",
            progress=progress.report,
            max_lag=options.max_lag,
        ) as session,
        closing(StatementRunner(session, printer(options.format), options.max_rows, progress)) as runner,
    ):
        for name, value in options.variables:
            session.set_variable(name, value)
        if text is None:
            run_prompt(session, runner, _complain)
        else:
            run_script(text, session, runner, _complain)
    return 0


def _read_statements(options: argparse.Namespace) -> str | None:
    """Return the script of the command line, a file or standard input, or None if a prompt is to be shown."""
    if options.execute is not None:
        return str(options.execute)
    if options.file is None and sys.stdin.isatty():
        return None
    is_input = options.file in (None, "-")
    try:
        return sys.stdin.read() if is_input else Path(options.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {'standard input' if is_input else options.file}: {error}") from error


def _run_export(options: argparse.Namespace) -> int:
    with (
        open_metastore(options) as metastore,
        metastore.session(cluster=options.cluster, agent_info="hivex export") as session,
    ):
        _report(f"exporting {options.table} to {options.directory}")
        try:
            found = session.export_for_hive(options.table, options.directory, options.partition)
        except KeyboardInterrupt:
            session.cancel()
            raise
        for directory in found.directories:
            place = f"{directory.partition}/{directory.name}" if directory.partition else directory.name
            _report(f"{place}: {directory.rows} rows in {directory.files} files, {directory.size_bytes} bytes")
        _report(f"{found.rows} rows of {found.table} from cluster {found.cluster}")
        if found.valid_write_ids is not None:
            _report(f"snapshot {found.valid_write_ids}")
        sys.stdout.write(f"{found.create_statement};\n-- write id: {found.write_id}\n")
    return 0


def _report(sentence: str) -> None:
    """Print a sentence about the progress on standard error."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def _upgrade_metastore(options: argparse.Namespace) -> int:
    from airflow_hivex.core.metastore import Metastore

    Metastore.upgrade(metastore_url(options))
    return _show_metastore_status(options)


def _show_metastore_status(options: argparse.Namespace) -> int:
    from airflow_hivex.core.metastore import Metastore

    for name, value in Metastore.status(metastore_url(options)).items():
        sys.stdout.write(f"{name}: {value}\n")
    return 0


def _note_restore(options: argparse.Namespace) -> int:
    with open_metastore(options) as metastore:
        metastore.note_restore()
        _report(f"restore noted; the newest event is {metastore.notification_log.current_event_id()}\n")
    return 0


def _housekeep_metastore(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.compaction import housekeep

    with open_metastore(options) as metastore:
        return housekeep(metastore, options)


def _show_caches(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.metastore import show_caches

    with open_metastore(options) as metastore:
        return show_caches(metastore, options, _report)


def _accept_root(options: argparse.Namespace) -> int:
    with open_metastore(options) as metastore:
        registered = metastore.accept_root(options.cluster)
        filesystem = metastore.clusters.get(options.cluster).shown_filesystem
    sys.stdout.write(
        f"{filesystem} is now the root of cluster {options.cluster}. {registered} directories are registered "
        "there; `hivex metastore doctor` reports the missing ones.\n"
    )
    return 0


def _import_metastore(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.metastore import import_metastore

    with open_metastore(options) as metastore:
        return import_metastore(metastore, options, _report)


def _rebuild_metastore(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.metastore import rebuild_metastore

    with open_metastore(options) as metastore:
        return rebuild_metastore(metastore, options, _report)


def _examine_metastore(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.metastore import examine

    with open_metastore(options) as metastore:
        return examine(metastore, options, _report)


def _run_demo(options: argparse.Namespace) -> int:
    from airflow_hivex.cli.demo import run

    return run(options.directory)


if __name__ == "__main__":
    sys.exit(main())
