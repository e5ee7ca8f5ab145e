"""The options of ``hivex`` that name a metastore, and the opening of this metastore."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hivex.core.metastore import Metastore

METASTORE_VARIABLE = "HIVEX_METASTORE_URL"
CLUSTERS_VARIABLE = "HIVEX_CLUSTER_PROPERTIES"
DEFAULT_CLUSTER_VARIABLE = "HIVEX_DEFAULT_CLUSTER"
LOCAL_JOBTRACKER_VARIABLE = "HIVEX_LOCAL_JOBTRACKER"


class UsageError(Exception):
    """A wrong command line: an argument is missing, or two arguments contradict each other."""


@dataclass(frozen=True, slots=True)
class GivenMetastore:
    """A metastore that the caller of ``hivex`` passes.

    With such a metastore, the options must not name one, and the environment is ignored.
    """

    url: str = field(repr=False)
    clusters: Mapping[str, Any] | str | None = field(default=None, repr=False)
    default_cluster: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    database: str = "default"


def add_options(parser: argparse.ArgumentParser, given: GivenMetastore | None = None) -> None:
    """Add the options to the parser of ``hivex``. Their defaults are environment variables."""
    variables = (METASTORE_VARIABLE, CLUSTERS_VARIABLE, DEFAULT_CLUSTER_VARIABLE)
    _add(parser, *(os.environ.get(name) if given is None else None for name in variables))
    parser.set_defaults(given=given)


def add_options_to_command(command: argparse.ArgumentParser) -> None:
    """Add the options to the parser of a command, so that users can also write them after the name of the command."""
    _add(command, argparse.SUPPRESS, argparse.SUPPRESS, argparse.SUPPRESS)


def _add(parser: argparse.ArgumentParser, metastore: str | None, clusters: str | None, default: str | None) -> None:
    group = parser.add_argument_group("metastore and clusters")
    group.add_argument(
        "--metastore",
        metavar="URL",
        default=metastore,
        help=f"SQLAlchemy URL of the metastore database (default: ${METASTORE_VARIABLE})",
    )
    group.add_argument(
        "--clusters",
        metavar="JSON|FILE",
        default=clusters,
        help=(
            f"hive.cluster.properties as JSON text or the path of a file (default: ${CLUSTERS_VARIABLE}, "
            "or with SQLite one local cluster next to its file)"
        ),
    )
    group.add_argument(
        "--default-cluster",
        metavar="NAME",
        default=default,
        help=f"hive.default.cluster.name (default: ${DEFAULT_CLUSTER_VARIABLE}, or the only cluster)",
    )


def metastore_url(options: argparse.Namespace) -> str:
    """Return the URL of the metastore.

    Raises:
        UsageError: the command line and the environment do not name a metastore, or the command line names a metastore
            although the caller has passed one.
    """
    if options.given is not None:
        if options.metastore or options.clusters or options.default_cluster:
            raise UsageError(
                "--metastore, --clusters and --default-cluster are those of the connection; leave them out"
            )
        return str(options.given.url)
    if not options.metastore:
        raise UsageError(
            f"no metastore is given. Use --metastore URL or set {METASTORE_VARIABLE}, "
            "for example to sqlite:////data/metastore.db"
        )
    return str(options.metastore)


def open_metastore(options: argparse.Namespace) -> Metastore:
    """Open the metastore that the command line names.

    Raises:
        UsageError: the command line and the environment do not name a metastore, or do not name its clusters.
        HivexError: the metastore cannot be opened.
    """
    from airflow_hivex.core.metastore import Metastore

    url = metastore_url(options)
    given: GivenMetastore | None = options.given
    if given is not None:
        return Metastore.open(
            url, clusters=given.clusters, default_cluster=given.default_cluster, settings=given.settings
        )
    if not options.clusters and url.startswith("postgresql"):
        raise UsageError(
            f"no clusters are given. Use --clusters JSON|FILE or set {CLUSTERS_VARIABLE}, "
            """for example to '{"c1": {"filesystem": "file:///data/c1", "jobtracker": "local[2]"}}'"""
        )
    jobtracker = os.environ.get(LOCAL_JOBTRACKER_VARIABLE)
    return Metastore.open(
        url,
        clusters=options.clusters or None,
        default_cluster=options.default_cluster,
        settings={"hivex.local.jobtracker": jobtracker} if jobtracker else None,
    )


def whole_number(text: str) -> int:
    """Return the value of an option that is a whole number, 0 or more.

    Raises:
        ArgumentTypeError: the text is not a whole number.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)
