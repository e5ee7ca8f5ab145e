"""``hivex metastore serve``: a Hive Metastore endpoint for existing clients."""

from __future__ import annotations

import gc
import ipaddress
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hivex.cli.connection import UsageError, add_options_to_command, open_metastore

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from airflow_hivex.core.thrift.serving import Listening

DEFAULT_PORT = 9083
"""The port of Hive's own metastore."""


def add_serve(actions: argparse._SubParsersAction[argparse.ArgumentParser], report: Callable[[str], None]) -> None:
    """Add the action ``serve`` to the actions of ``hivex metastore``."""
    serve = actions.add_parser(
        "serve",
        help="serve the metastore to Spark SQL and other clients of Hive",
        description=(
            "Serve the metastore to clients of Hive, which name it by hive.metastore.uris. SIGTERM and Ctrl+C stop it "
            "after the calls that run. Several servers may run over one database."
        ),
    )
    serve.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="listen here (default: 127.0.0.1)")
    serve.add_argument("--port", metavar="PORT", type=_port, default=DEFAULT_PORT, help="default: 9083; 0: a free port")
    serve.add_argument(
        "--cluster",
        metavar="NAME",
        help="the cluster of clients that name none, as after USE CLUSTER "
        "(default: the default cluster's location of a table, else the primary's)",
    )
    serve.add_argument(
        "--http-port", metavar="PORT", type=_port, help="answer /health, /ready and /metrics (Prometheus) there"
    )
    serve.add_argument("--tls-certificate", metavar="FILE", help="serve TLS with this certificate (PEM)")
    serve.add_argument("--tls-key", metavar="FILE", help="its private key (default: in the same file)")
    serve.add_argument(
        "--credentials",
        metavar="FILE",
        help='ask clients for SASL PLAIN: a JSON file with the password or token of each user, {"alice": "..."}',
    )
    serve.add_argument(
        "--trust-network",
        action="store_true",
        help="listen on another address than the loopback without TLS or without credentials",
    )
    serve.add_argument("--max-connections", metavar="N", type=int, default=10_000, help="default: 10000")
    serve.add_argument(
        "--max-message-size", metavar="BYTES", type=int, default=100 << 20, help="default: 104857600 (100 MiB)"
    )
    serve.add_argument(
        "--idle-timeout", metavar="SECONDS", type=float, default=3600, help="close connections after it (default: 3600)"
    )
    serve.add_argument("--access-log", action="store_true", help="write a line for each call to standard error")
    add_options_to_command(serve)
    serve.set_defaults(command=lambda options: _serve(options, report))


def _port(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) >= 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid port")
    return int(text)


def _serve(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    _check(options)
    # Imported modules stay until the end of the process, and the search for garbage in them takes an eighth of the
    # time of the start.
    gc.disable()
    try:
        return _serve_until_stopped(options, report)
    finally:
        gc.enable()


def _serve_until_stopped(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    try:
        from airflow_hivex.core.thrift.endpoint import Endpoint
        from airflow_hivex.core.thrift.serving import serve
    except ImportError as error:
        from airflow_hivex.core.errors import HiveClientMissingError

        raise HiveClientMissingError(error.name or "pyiceberg") from error
    listening = _listening(options)

    def ready(port: int, http_port: int | None) -> None:
        gc.freeze()
        gc.enable()
        pages = "" if http_port is None else f"; health and metrics on http://{options.host}:{http_port}"
        report(f"serving thrift://{options.host}:{port}{pages}")

    with _logged(options), open_metastore(options) as metastore:
        try:
            serve(Endpoint(metastore, options.cluster), listening, ready)
        except OSError as error:
            raise UsageError(f"cannot listen on {options.host}:{options.port}: {error.strerror or error}") from error
    report("stopped")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise an error if the options are invalid, or if other machines could connect without TLS and credentials.

    ``--trust-network`` allows such connections.
    """
    if options.max_connections < 1 or options.max_message_size < 1024 or not options.idle_timeout > 0:
        raise UsageError("--max-connections, --max-message-size (1024 or more) and --idle-timeout must be positive")
    if options.credentials and not options.tls_certificate and not options.trust_network:
        raise UsageError("--credentials needs --tls-certificate, as PLAIN sends passwords as they are")
    if options.trust_network or (options.tls_certificate and options.credentials):
        return
    try:
        is_loopback = options.host == "localhost" or ipaddress.ip_address(options.host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise UsageError(
            f"{options.host} is not a loopback address: give --tls-certificate and --credentials, or --trust-network"
        )


def _listening(options: argparse.Namespace) -> Listening:
    from airflow_hivex.core.thrift.clients import Credentials
    from airflow_hivex.core.thrift.server import Limits
    from airflow_hivex.core.thrift.serving import Listening

    return Listening(
        host=options.host,
        port=options.port,
        http_port=options.http_port,
        certificate=options.tls_certificate,
        key=options.tls_key,
        credentials=Credentials.from_file(options.credentials) if options.credentials else None,
        limits=Limits(
            message_bytes=options.max_message_size,
            connections=options.max_connections,
            idle_s=options.idle_timeout,
        ),
    )


@contextmanager
def _logged(options: argparse.Namespace) -> Iterator[None]:
    """Write the log to standard error during the block, and reset the loggers of the process afterwards."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger("airflow_hivex")
    access = logging.getLogger("airflow_hivex.metastore.access")
    levels = root.level, access.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    access.setLevel(logging.INFO if options.access_log else logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        access.setLevel(levels[1])
