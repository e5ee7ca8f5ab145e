"""Functions that open and check the clusters and the catalog of a metastore.

The settings of the metastore and environment variables decide what is opened.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.table_cache import ObjectLists, TableCache
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import answer_of
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.queue_entries import end_of_dropped
from airflow_hivex.core.errors import HivexError, InvalidClusterPropertiesError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.files.object_stores import endpoint_of, is_object_store, open_object_store
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.sizes import shown_size
from airflow_hivex.core.runners.registry import runner_for
from airflow_hivex.core.settings import HISTORY_RETENTION, Settings
from airflow_hivex.core.store import migrating
from airflow_hivex.core.store.engine import Store

log = logging.getLogger(__name__)

RAWSTORE_VARIABLE = "HIVEX_RAWSTORE_IMPL"
"""The environment variable that sets ``metastore.rawstore.impl``, unless the settings have a value."""

RETENTION_VARIABLE = "HIVEX_HISTORY_RETENTION"
"""The environment variable that sets ``hivex.history.retention``, unless the settings have a value."""

ClusterProperties = Mapping[str, Any] | str | Path

_LOCAL_JOBTRACKER = "hivex.local.jobtracker"
_IN_PROCESS = "local[*]"
_AUTO = "auto"


def with_environment(settings: Settings) -> Settings:
    """Return the settings. If they lack ``hivex.history.retention``, it is taken from the environment variable.

    Raises:
        InvalidSettingError: the value of the environment variable is not valid.
    """
    value = os.environ.get(RETENTION_VARIABLE)
    if not value or settings.is_given(HISTORY_RETENTION):
        return settings
    return settings.with_overrides({HISTORY_RETENTION: value})


def open_catalog(store: Store, settings: Settings, clusters: Clusters, clock: Clock) -> ObjectStore:
    """Return the catalog, with a cache unless ``metastore.rawstore.impl`` is ``ObjectStore``."""
    name = "metastore.rawstore.impl"
    impl = settings[name] if settings.is_given(name) else os.environ.get(RAWSTORE_VARIABLE) or settings[name]
    if Settings({name: impl})[name].endswith("ObjectStore"):
        return ObjectStore(store, clusters, clock, end_of_dropped)
    cache = TableCache(ObjectLists(settings), settings["metastore.cached.rawstore.max.cache.memory"])
    return CachedStore(store, clusters, clock, end_of_dropped, cache)


def open_clusters(
    store: Store, settings: Settings, clusters: ClusterProperties | None, default_cluster: str | None
) -> Clusters:
    """Return the clusters of a metastore, and register their object stores in this process.

    Raises:
        SettingsError: a cluster's description is not valid, or PostgreSQL is used without any cluster.
    """
    described = clusters if clusters is not None else settings["hive.cluster.properties"]
    if described is None or described == "":
        described = _local_cluster_properties(store, settings)
        if described is None:
            raise InvalidClusterPropertiesError(
                "no cluster is configured, and PostgreSQL has no default location for data"
            )
    default = default_cluster or settings["hive.default.cluster.name"] or None
    found = Clusters.from_properties(
        described, default, settings["hive.use.default.cluster"], settings["hivex.cluster.answer.timeout"]
    )
    for cluster in map(found.get, found):
        if is_object_store(cluster.filesystem):
            # It loads pyarrow.
            from airflow_hivex.core.job import storage

            opens = partial(open_object_store, cluster.filesystem, cluster.storage_options)
            storage.use_for(cluster.uri(""), opens, endpoint_of(cluster.storage_options))
    return found


def _local_cluster_properties(store: Store, settings: Settings) -> Mapping[str, Any] | None:
    """Return the properties of the cluster ``local`` in the folder of SQLite's file, or None for PostgreSQL."""
    if store.is_postgresql:
        return None
    folder = store.file.parent / "warehouse"
    jobtracker = str(settings[_LOCAL_JOBTRACKER])
    if jobtracker == _AUTO:
        jobtracker = _running_server() or _IN_PROCESS
    return {"local": {"filesystem": folder.as_uri(), "jobtracker": jobtracker}}


def _running_server() -> str | None:
    """Return the URL of the Spark Connect server of this user on this machine, or None if no server answers."""
    from airflow_hivex.core.runners import connect_server

    try:
        server = connect_server.known_server(connect_server.DEFAULT_PORT)
    except HivexError as error:
        log.warning("A Spark Connect server of this user is not looked for: %s", error)
        return None
    return server.url if server is not None and server.answers() else None


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: whether it passed, and a sentence for people."""

    passed: bool
    sentence: str


def check_database(store: Store) -> Check:
    """Check that the database is a metastore, or that a metastore can be created in it. The check only reads."""
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
    """Check that each cluster can run jobs of this release, and that files on it can be read and written."""
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
    """Return a pair: whether all checks passed, and the sentences of all checks, those of failed checks first."""
    ordered = sorted(checks, key=lambda check: check.passed)
    return all(check.passed for check in checks), " ".join(check.sentence for check in ordered)
