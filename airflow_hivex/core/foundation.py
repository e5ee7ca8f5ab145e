"""The objects that every service of a metastore uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager


@dataclass(frozen=True)
class Foundation:
    """The objects of one open metastore: database, settings, clock, clusters, catalog, transactions and locks."""

    store: Store
    settings: Settings
    clock: Clock
    clusters: Clusters
    roots: Roots
    health: ClusterHealth
    catalog: ObjectStore
    transactions: TransactionManager
    locks: LockManager

    def files(self, cluster: Cluster | str) -> ClusterFiles:
        """Return the file system of a cluster, for reading.

        Raises:
            UnknownClusterError: the cluster is not configured.
            StorageError: the kind of file system is unknown, or a package for it is not installed.
        """
        return ClusterFiles.of(self.clusters.get(cluster) if isinstance(cluster, str) else cluster)

    @contextmanager
    def files_of_root(self, cluster: Cluster) -> Iterator[ClusterFiles]:
        """Yield the file system of a cluster, and check the root marker after the block.

        Use this method for a block that lists folders. If the root is not mounted, all folders look empty to the block,
        and the check raises an error.

        Raises:
            RootMissingError, ForeignRootError: the root marker is missing, or belongs to another root.
        """
        yield self.files(cluster)
        self.roots.examine(cluster.name)

    def files_to_change(self, cluster: Cluster) -> ClusterFiles:
        """Return the file system of a cluster, for writing and deleting, after a check of its root marker.

        Raises:
            RootMissingError, ForeignRootError: the root marker is missing, or belongs to another root.
        """
        self.roots.check(cluster.name)
        return self.files(cluster)
