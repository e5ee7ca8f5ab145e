"""The options of ``hivex`` that name a metastore, and the metastore that they name."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_hivex.core.metastore import Metastore

METASTORE_VARIABLE = "HIVEX_METASTORE_URL"
CLUSTERS_VARIABLE = "HIVEX_CLUSTER_PROPERTIES"
DEFAULT_CLUSTER_VARIABLE = "HIVEX_DEFAULT_CLUSTER"
LOCAL_JOBTRACKER_VARIABLE = "HIVEX_LOCAL_JOBTRACKER"


class UsageError(Exception):
    """The command line lacks something or contradicts itself."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser of ``hivex``. Their defaults are the environment's variables."""
    _add(parser, *map(os.environ.get, (METASTORE_VARIABLE, CLUSTERS_VARIABLE, DEFAULT_CLUSTER_VARIABLE)))


def add_options_to_command(command: argparse.ArgumentParser) -> None:
    """Add the options to the parser of a command, so that they may stand behind its name, too."""
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
        UsageError: the command line and the environment name none.
    """
    if not options.metastore:
        raise UsageError(
            f"no metastore is given. Use --metastore URL or set {METASTORE_VARIABLE}, "
            "for example to sqlite:////data/metastore.db"
        )
    return str(options.metastore)


def open_metastore(options: argparse.Namespace) -> Metastore:
    """Open the metastore that the command line names.

    Raises:
        UsageError: the command line and the environment do not name a metastore, or not its clusters.
        HivexError: the metastore cannot be opened.
    """
    from airflow_hivex.core.metastore import Metastore

    url = metastore_url(options)
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
