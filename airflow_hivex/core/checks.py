"""Check the description of a metastore before anything relies on it, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_hivex.core.clusters.health import answer_of
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.errors import HivexError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.sizes import shown_size
from airflow_hivex.core.runners.registry import runner_for
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: whether it passed, and a sentence for people."""

    passed: bool
    sentence: str


def check_database(store: Store) -> Check:
    """Check that the database is a metastore, or that one may be made in it. Reads only."""
    try:
        found = migrating.status(store)
    except HivexError as error:
        return Check(False, str(error))
    match found.state:
        case "current":
            return Check(True, f"{store.name}: the metastore answers, schema revision {found.head}.")
        case "new":
            return Check(True, f"{store.name}: it is empty; the metastore is created when it is first used.")
        case "older":
            return Check(
                False,
                f"{store.name}: schema revision {found.found} is older than this release's {found.head}; "
                "run: hivex metastore upgrade",
            )
        case _:
            return Check(
                False,
                f"{store.name}: schema revision {found.found} is of a newer release; upgrade airflow-provider-hivex.",
            )


def check_clusters(clusters: Clusters) -> Iterator[Check]:
    """Check of each cluster that this release can run jobs there, and that its files can be read and written."""
    for name in clusters:
        yield _check_cluster(clusters.get(name))


def _check_cluster(cluster: Cluster) -> Check:
    try:
        health = runner_for(cluster).health(cluster.name)
        if health.problem is not None:
            raise health.problem
        files = ClusterFiles.of(cluster)
        exists = answer_of(cluster, files.check_access)
        free = answer_of(cluster, files.free_bytes)
    except HivexError as error:
        return Check(False, f"Cluster {cluster.name}: {error}")
    state = "reachable and writable" if exists else "not there yet; it is created by the first write"
    facts = [f"{cluster.shown_filesystem} is {state}", f"job tracker {cluster.shown_jobtracker}"]
    facts += [] if health.version is None else [f"Spark {health.version}"]
    facts += [] if free is None else [f"{shown_size(free)} free"]
    return Check(True, f"Cluster {cluster.name}: {', '.join(facts)}.")


def describe(checks: list[Check]) -> tuple[bool, str]:
    """Return whether all checks passed, and their sentences, those that failed first."""
    ordered = sorted(checks, key=lambda check: check.passed)
    return all(check.passed for check in checks), " ".join(check.sentence for check in ordered)
