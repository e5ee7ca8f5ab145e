"""The clusters and the catalog of a metastore, as its settings and the environment describe them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from airflow_hivex.core.cache.cached_store import CachedStore
from airflow_hivex.core.cache.table_cache import ObjectLists, TableCache
from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.compaction.entries import end_of_dropped
from airflow_hivex.core.errors import HivexError, InvalidClusterPropertiesError
from airflow_hivex.core.files.object_stores import is_object_store, open_object_store
from airflow_hivex.core.job import storage
from airflow_hivex.core.settings import HISTORY_RETENTION, Settings
from airflow_hivex.core.store.engine import Store

log = logging.getLogger(__name__)

RAWSTORE_VARIABLE = "HIVEX_RAWSTORE_IMPL"
"""The environment variable with ``metastore.rawstore.impl`` of a process whose settings do not have it."""

RETENTION_VARIABLE = "HIVEX_HISTORY_RETENTION"
"""The environment variable with ``hivex.history.retention`` of a process whose settings do not have it."""

ClusterProperties = Mapping[str, Any] | str | Path

_LOCAL_JOBTRACKER = "hivex.local.jobtracker"
_IN_PROCESS = "local[*]"
_AUTO = "auto"


def with_environment(settings: Settings) -> Settings:
    """Return the settings, with the retention of earlier versions from the environment where they do not have it.

    Raises:
        InvalidSettingError: its value is not usable.
    """
    value = os.environ.get(RETENTION_VARIABLE)
    if not value or settings.is_given(HISTORY_RETENTION):
        return settings
    return settings.with_overrides({HISTORY_RETENTION: value})


def open_catalog(store: Store, settings: Settings, clusters: Clusters, clock: Clock) -> ObjectStore:
    """Return the catalog: with a cache, unless a setting or the environment says otherwise."""
    name = "metastore.rawstore.impl"
    impl = settings[name] if settings.is_given(name) else os.environ.get(RAWSTORE_VARIABLE) or settings[name]
    if Settings({name: impl})[name].endswith("ObjectStore"):
        return ObjectStore(store, clusters, clock, end_of_dropped)
    cache = TableCache(ObjectLists(settings), settings["metastore.cached.rawstore.max.cache.memory"])
    return CachedStore(store, clusters, clock, end_of_dropped, cache)


def open_clusters(
    store: Store, settings: Settings, clusters: ClusterProperties | None, default_cluster: str | None
) -> Clusters:
    """Return the clusters of a metastore, whose object stores can be used from now on.

    Raises:
        SettingsError: a cluster's description is not valid, or there are no clusters and no default.
    """
    described = clusters if clusters is not None else settings["hive.cluster.properties"]
    if described is None or described == "":
        described = _local_cluster_properties(store, settings)
        if described is None:
            raise InvalidClusterPropertiesError(
                "no cluster is configured, and PostgreSQL has no default location for data"
            )
    default = default_cluster or settings["hive.default.cluster.name"] or None
    found = Clusters.from_properties(described, default, settings["hive.use.default.cluster"])
    for cluster in map(found.get, found):
        if is_object_store(cluster.filesystem):
            storage.use_for(cluster.uri(""), partial(open_object_store, cluster.filesystem, cluster.storage_options))
    return found


def _local_cluster_properties(store: Store, settings: Settings) -> Mapping[str, Any] | None:
    """Return the description of the one cluster of users who configure none: next to SQLite's file."""
    if store.is_postgresql:
        return None
    folder = store.file.parent / "warehouse"
    jobtracker = str(settings[_LOCAL_JOBTRACKER])
    if jobtracker == _AUTO:
        jobtracker = _running_server() or _IN_PROCESS
    return {"local": {"filesystem": folder.as_uri(), "jobtracker": jobtracker}}


def _running_server() -> str | None:
    """Return the job tracker of the Spark Connect server that this user has started here, None if none answers."""
    from airflow_hivex.core.runners import connect_server

    try:
        server = connect_server.known_server(connect_server.DEFAULT_PORT)
    except HivexError as error:
        log.warning("A Spark Connect server of this user is not looked for: %s", error)
        return None
    return server.url if server is not None and server.answers() else None
