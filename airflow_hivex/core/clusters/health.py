"""The health of the clusters: whether their file systems are mounted, and whether their runners can run jobs.

The router checks each cluster that it tries. Results are kept for a short time, so that statements do not wait for
checks of clusters that answer slowly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from cachetools import TTLCache

from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.errors import (
    ForeignRootError,
    HivexError,
    RootMissingError,
    StorageError,
)
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.files.object_stores import endpoint_of, is_object_store
from airflow_hivex.core.model.clusters import USABLE, Cluster, Health
from airflow_hivex.core.runners.registry import runner_for

T = TypeVar("T")

_REMEMBERED_S = 10.0
_PATIENCE_S = 5.0
_MOST_CLUSTERS = 1000


class ClusterHealth:
    """The health of the clusters; safe to share between threads."""

    def __init__(self, clusters: Clusters, roots: Roots, timer: Callable[[], float] = time.monotonic) -> None:
        """Create the health checks. ``timer`` returns the current time in seconds."""
        self._clusters = clusters
        self._roots = roots
        self._lock = threading.Lock()
        self._of_roots: TTLCache[str, Health] = TTLCache(_MOST_CLUSTERS, _REMEMBERED_S, timer)
        self._of_runners: TTLCache[str, Health] = TTLCache(_MOST_CLUSTERS, _REMEMBERED_S, timer)

    def of_root(self, cluster: str) -> Health:
        """Return the health of the root of a cluster's file system: whether it is mounted and has its root marker.

        A missing or foreign root is not cached, because the right root can be mounted at any moment. A root that does
        not respond within five seconds counts as missing for a short time. If this process has no driver for the file
        system, the root counts as usable, since Spark has its own drivers.

        Raises:
            UnknownClusterError: the cluster is not configured.
        """
        return _remembered(self._of_roots, self._lock, cluster, self._examine, but=(RootMissingError, ForeignRootError))

    def of_runner(self, cluster: str) -> Health:
        """Return the health of the runner of a cluster: whether it can run jobs.

        Raises:
            UnknownClusterError: the cluster is not configured.
        """
        return _remembered(self._of_runners, self._lock, cluster, self._ask_runner)

    def free_bytes(self, cluster: str) -> int | None:
        """Return the free bytes of a cluster's file system, or None if it is unknown or the system is not usable.

        Raises:
            UnknownClusterError: the cluster is not configured.
        """
        configured = self._clusters.get(cluster)
        if self.of_root(cluster).problem is not None:
            return None
        try:
            return answer_of(configured, lambda: free_bytes(configured))
        except StorageError:
            return None

    def _examine(self, cluster: str) -> Health:
        """Check the root of a cluster, for at most five seconds, and return the result."""
        try:
            return answer_of(self._clusters.get(cluster), lambda: self._look(cluster))
        except StorageError as error:
            return Health(error)

    def _look(self, cluster: str) -> Health:
        try:
            self._roots.examine(cluster)
        except (RootMissingError, ForeignRootError) as error:
            return Health(error)
        except StorageError as error:
            # Spark has drivers of its own, so that it may read a file system which this process cannot read.
            return Health(error) if isinstance(error.__cause__, OSError) else USABLE
        return USABLE

    def _ask_runner(self, cluster: str) -> Health:
        configured = self._clusters.get(cluster)
        try:
            runner = runner_for(configured)
        except HivexError as error:
            return Health(error)
        return runner.health(cluster)


def answer_of(cluster: Cluster, ask: Callable[[], T]) -> T:
    """Return the result of ``ask``, which uses a cluster's file system. The caller waits five seconds at most.

    Raises:
        StorageError: the file system does not answer in time.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=f"hivex-health-{cluster.name}", daemon=True).start()
    # A time-out of the file system itself is an error of another kind.
    if not wait([answer], _PATIENCE_S).done:
        endpoint = endpoint_of(cluster.storage_options) if is_object_store(cluster.filesystem) else ""
        store = f"the object store at {endpoint}" if endpoint else "it"
        raise StorageError(
            cluster.shown_filesystem,
            f"{store} has not answered for {_PATIENCE_S:g} seconds. Check that it is there and that this machine "
            "reaches it, then repeat the call",
        )
    return answer.result()


def free_bytes(cluster: Cluster) -> int | None:
    """Return the free bytes of a cluster's file system, or None if the file system does not report them.

    Raises:
        StorageError: the file system cannot be read.
    """
    return ClusterFiles.of(cluster).free_bytes()


def _remembered(
    cache: TTLCache[str, Health],
    lock: threading.Lock,
    cluster: str,
    ask: Callable[[str], Health],
    *,
    but: tuple[type[HivexError], ...] = (),
) -> Health:
    """Return the cached health of a cluster, or else the health that ``ask`` returns, which is then cached.

    A result is not cached if its problem is an error of one of the types ``but``.
    """
    with lock:
        known = cache.get(cluster)
    if known is not None:
        return known
    # Without the lock: one cluster may take long to answer, and others must not wait for it.
    found = ask(cluster)
    if not isinstance(found.problem, but):
        with lock:
            cache[cluster] = found
    return found
