"""``hivex spark``: a Spark Connect server on this machine, and the archive of classes with which Spark starts."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from airflow_hivex.core.runners.connect_server import Server

_PORT = 15002

# Statements of most kinds, so that Spark loads most classes.
_STATEMENTS = (
    "CREATE TABLE t (id bigint, v string) PARTITIONED BY (p string)",
    "INSERT INTO t VALUES (-1, 'a', 'x')",
    "INSERT INTO t SELECT id, concat('v', id), CAST(id % 3 AS string) FROM range(100)",
    "CREATE TABLE b CLUSTERED BY (id) INTO 2 BUCKETS AS SELECT id, v FROM t",
    "UPDATE t SET v = 'new' WHERE id % 7 = 0",
    "DELETE FROM b WHERE id % 5 = 0",
    "MERGE INTO t USING b ON t.id = b.id WHEN MATCHED AND t.id > 50 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = b.v WHEN NOT MATCHED THEN INSERT VALUES (b.id, b.v, 'm')",
    "INSERT OVERWRITE t PARTITION (p) SELECT id, v, p FROM t WHERE id > 3",
    "SELECT p, count(*), sum(id), max(t.v) FROM t JOIN b USING (id) GROUP BY p ORDER BY p",
)


def add_actions(spark: argparse.ArgumentParser, report: Callable[[str], None]) -> None:
    """Add the actions of ``hivex spark``."""
    actions = spark.add_subparsers(title="actions", required=True, metavar="ACTION")
    archive = actions.add_parser(
        "archive",
        help="make the archive of classes with which Spark starts faster",
        description=(
            "Run a few statements, and keep the classes that Spark loads for them. Each Spark that starts in a process "
            "of this user on this machine uses them from then on. Make it again after Java or Spark was upgraded; one "
            "that does not fit is not used. The variable HIVEX_SPARK_ARCHIVE names another file than that in ~/.cache."
        ),
    )
    archive.add_argument("--remove", action="store_true", help="remove the archive")
    archive.set_defaults(command=lambda options: _archive(options, report))
    start = actions.add_parser(
        "start",
        help="start a Spark Connect server on this machine, unless it runs",
        description=(
            "Start a Spark Connect server that only this user of this machine can use, and print the jobtracker of "
            "clusters whose jobs it runs. It runs until it is stopped. Its log, its process and its token are in a "
            "folder below ~/.local/state/hivex."
        ),
    )
    start.add_argument("--master", default="local[*]", help="where Spark runs the tasks (default: %(default)s)")
    start.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="configuration of Spark; may be repeated"
    )
    stop = actions.add_parser("stop", help="stop the Spark Connect server on a port")
    status = actions.add_parser("status", help="report whether a Spark Connect server of this user runs on a port")
    for action, command in ((start, _start), (stop, _stop), (status, _status)):
        action.add_argument("--port", type=int, default=_PORT, help="the port of the server (default: %(default)s)")
        action.set_defaults(command=command)


def _start(options: argparse.Namespace) -> int:
    from airflow_hivex.core.errors import SparkServerError
    from airflow_hivex.core.runners import connect_server

    for setting in options.conf:
        if "=" not in setting:
            raise SparkServerError(f"--conf {setting!r} is not of the form KEY=VALUE")
    conf = dict(setting.split("=", 1) for setting in options.conf)
    server, is_new = connect_server.start(options.port, options.master, conf)
    sys.stderr.write(f"{'started' if is_new else 'runs already'}: {_described(server)}\n")
    missing = connect_server.missing_library()
    if missing is not None:
        sys.stderr.write(
            f"hivex: statements cannot use the server from here: the client of Spark Connect lacks a library "
            f"({missing}). Install it: pip install airflow-provider-hivex\n"
        )
    sys.stdout.write(f"{server.url}\n")
    return 0


def _stop(options: argparse.Namespace) -> int:
    from airflow_hivex.core.runners import connect_server

    if connect_server.stop(options.port):
        sys.stdout.write(f"stopped the server on port {options.port}\n")
    else:
        sys.stdout.write(f"no server of this user runs on port {options.port}\n")
    return 0


def _status(options: argparse.Namespace) -> int:
    from airflow_hivex.core.runners import connect_server

    server = connect_server.known_server(options.port)
    if server is None:
        sys.stdout.write(f"no server of this user runs on port {options.port}\n")
        return 1
    state = "answers" if server.answers() else "does not answer"
    sys.stdout.write(f"{state}: {_described(server)}\n")
    return 0


def _described(server: Server) -> str:
    from airflow_hivex.core.runners import connect_server

    log = connect_server.log_file(server.port)
    return f"{server.url}, process {server.pid}, master {server.master}, log {log}"


def _archive(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    from airflow_hivex.core.runners.java import VARIABLE, archive_file

    file = archive_file()
    if file is None:
        report(f"hivex: there is no place for it: {VARIABLE} is empty, or pyspark is not installed")
        return 1
    if options.remove:
        file.unlink(missing_ok=True)
        sys.stdout.write(f"removed {file}\n")
        return 0
    report("running a few statements, which takes half a minute")
    began = time.monotonic()
    try:
        make_archive(file)
    except (OSError, ValueError) as error:
        report(f"hivex: {error}")
        return 1
    if not file.exists():
        report("hivex: this Java does not make such archives; Spark starts as ever")
        return 1
    report(f"made in {time.monotonic() - began:.0f} s")
    sys.stdout.write(f"{file}\n")
    return 0


def make_archive(file: Path) -> None:
    """Run a few statements in the Spark of this process, end this Spark, and archive the classes that it has loaded.

    Raises:
        ValueError: the name of the file cannot be part of an option of Java.
        OSError: the file cannot be written.
        JobError: Spark does not run.
    """
    from airflow_hivex.core import Metastore
    from airflow_hivex.core.runners import jvm
    from airflow_hivex.core.runners.java import options_to_make

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Other processes may read the old archive while the new one is made.
    new = file.with_suffix(f".{os.getpid()}")
    java = f"-Duser.timezone=UTC {options_to_make(new)}"
    with tempfile.TemporaryDirectory() as folder:
        cluster = {
            "filesystem": Path(folder).as_uri(),
            "jobtracker": "local[2]",
            "spark_conf": {"spark.driver.extraJavaOptions": java},
        }
        with (
            Metastore.open(f"sqlite:///{folder}/metastore.db", clusters={"c1": cluster}) as metastore,
            metastore.session() as session,
        ):
            for statement in _STATEMENTS:
                session.sql(statement)
        # Java writes the archive at its end.
        jvm.end()
    if new.exists():
        new.chmod(0o600)
        new.replace(file)
