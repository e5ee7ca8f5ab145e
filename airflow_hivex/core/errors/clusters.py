"""Errors of clusters: their files, their roots, and the choice among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hivex.core.errors.pep249 import NotSupportedError, OperationalError, ProgrammingError
from airflow_hivex.core.errors.root import HivexError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hivex.core.model.routes import Route


class UnknownClusterError(HivexError, ProgrammingError):
    """The cluster is not in hive.cluster.properties."""

    code = "UNKNOWN_CLUSTER"

    def __init__(self, cluster: str, known: Sequence[str] = ()) -> None:
        super().__init__(
            f"There is no cluster {cluster!r} in hive.cluster.properties; known are: {', '.join(known) or 'none'}.",
            cluster,
            tuple(known),
        )
        self.cluster = cluster
        self.known = tuple(known)


class LocationOutsideClusterError(HivexError, ProgrammingError):
    """A location does not lie in the file system of the cluster that should hold it."""

    code = "LOCATION_OUTSIDE_CLUSTER"

    def __init__(self, location: str, cluster: str, filesystem: str) -> None:
        super().__init__(
            f"Location {location!r} lies outside cluster {cluster}, whose file system is "
            f"{filesystem}. SQL reads and writes files below it only. Copy the files there and give the path relative "
            "to it, or configure a cluster whose file system has them.",
            location,
            cluster,
            filesystem,
        )
        self.location = location
        self.cluster = cluster


class RoutingError(HivexError, OperationalError):
    """No cluster can run the statement. ``route`` has what each candidate lacks."""

    code = "NO_ROUTE"

    def __init__(self, route: Route) -> None:
        super().__init__(route.describe(), route)
        self.route = route


class NoUsableClusterError(RoutingError):
    """A cluster has everything that the statement needs, and cannot be used now."""

    code = "NO_USABLE_CLUSTER"
    retryable = True


class UnsupportedJobTrackerError(HivexError, NotSupportedError):
    """No runner exists for a cluster's job tracker."""

    code = "UNSUPPORTED_JOBTRACKER"

    def __init__(self, cluster: str, jobtracker: str) -> None:
        super().__init__(
            f"Cluster {cluster} has jobtracker {jobtracker!r}, for which no runner is known here. local[...], "
            "sc://host:port, spark://host:port, yarn and k8s://url run jobs everywhere; any other word is the id of a "
            "Spark connection of Airflow, and known in Airflow's processes only.",
            cluster,
            jobtracker,
        )


class StorageError(HivexError, OperationalError):
    """Files of a cluster could not be listed, written or deleted."""

    code = "STORAGE"
    retryable = True

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(f"Storage at {location} cannot be used: {reason}.", location, reason)
        self.location = location


class FolderExpectedError(HivexError, OperationalError):
    """A file lies where the files of a table need a folder."""

    code = "FOLDER_EXPECTED"

    def __init__(self, location: str) -> None:
        super().__init__(
            f"{location} is a file, and the place of rows is a folder. Move the file into a folder, and give the table "
            "or the partition the folder as its location.",
            location,
        )
        self.location = location


class RootMissingError(HivexError, OperationalError):
    """The root of a cluster's file system lacks the marker that was written to it."""

    code = "ROOT_MISSING"
    retryable = True

    def __init__(self, cluster: str, filesystem: str, missing: str) -> None:
        super().__init__(
            f"The root {filesystem} of cluster {cluster} is not the one that was written to: {missing}. Is it not "
            "mounted? Nothing was written or deleted. Mount it and try again. If its files are lost, first give tables "
            "that have copies elsewhere another primary cluster (ALTER TABLE ... SET PRIMARY CLUSTER ... FORCE); then "
            f"`hivex metastore accept-root {cluster}` takes the root as it is now.",
            cluster,
            filesystem,
            missing,
        )
        self.cluster = cluster


class RootUnseenError(HivexError, OperationalError):
    """A process of a cluster's Spark does not see the root of the cluster's file system at its path."""

    code = "ROOT_UNSEEN"
    retryable = True

    def __init__(self, cluster: str, filesystem: str, host: str, problem: str) -> None:
        super().__init__(
            f"Host {host} does not see the root {filesystem} of cluster {cluster}: {problem}. The statement has "
            "changed nothing. Mount the file system at that path on each host that runs Spark for the cluster, and run "
            "the statement again.",
            cluster,
            filesystem,
            host,
            problem,
        )
        self.cluster = cluster
        self.filesystem = filesystem
        self.host = host


class WrittenRowsMissingError(HivexError, OperationalError):
    """The tasks of a job have written rows that are not in the files that were found."""

    code = "WRITTEN_ROWS_MISSING"
    retryable = True

    def __init__(self, cluster: str, table: str, folder: str, written: str, found: str, hosts: str) -> None:
        super().__init__(
            f"The tasks on cluster {cluster} have written {written} to {folder} for {table}, and {found} were found "
            f"there. The hosts of the cluster do not share this folder ({hosts}). The statement has changed nothing. "
            "Mount the file system at that path on each host that runs Spark for the cluster, and on this one, and run "
            "the statement again.",
            cluster,
            table,
            folder,
            written,
            found,
            hosts,
        )
        self.cluster = cluster
        self.table = table
        self.folder = folder
        self.hosts = hosts


class ForeignRootError(HivexError, OperationalError):
    """The root of a cluster's file system has the marker of another metastore, or of another cluster."""

    code = "FOREIGN_ROOT"

    def __init__(self, cluster: str, filesystem: str, marker: str) -> None:
        super().__init__(
            f"The root {filesystem} of cluster {cluster} has a marker, {marker}, that this metastore has not written "
            "for it. Two metastores, or two clusters, must not share a root: each would delete what the other one "
            "writes. Give the cluster another root; if no other metastore or cluster uses this one,  "
            f"`hivex metastore accept-root {cluster}` takes it.",
            cluster,
            filesystem,
            marker,
        )
        self.cluster = cluster
