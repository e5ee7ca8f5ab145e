"""The services that a replication uses: the metastore's, and the file systems of its clusters."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hivex.core.catalog.object_store import ObjectStore
from airflow_hivex.core.clock import Clock
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.clusters.properties import Clusters
from airflow_hivex.core.clusters.roots import Roots
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.transactions.locks.manager import LockManager
from airflow_hivex.core.transactions.manager import TransactionManager


@dataclass(frozen=True, slots=True)
class ReplicationServices:
    """The parts of a metastore that replications and changes of primary clusters use."""

    store: Store
    settings: Settings
    clusters: Clusters
    catalog: ObjectStore
    transactions: TransactionManager
    locks: LockManager
    roots: Roots
    health: ClusterHealth
    clock: Clock

    def files(self, cluster: str) -> ClusterFiles:
        """Return the file system of a cluster.

        Raises:
            UnknownClusterError: the cluster is not configured.
            StorageError: there is no such file system, or what it needs is not installed.
        """
        found = self.clusters.get(cluster)
        return ClusterFiles(found.filesystem, found.storage_options)
