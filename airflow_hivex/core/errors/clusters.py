"""Errors of clusters: files, roots, the choice of a cluster, and jobs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import Described, HivexError


class UnknownClusterError(HivexError, pep249.ProgrammingError):
    """The cluster is not in hive.cluster.properties."""

    cluster: str
    known: Sequence[str] = ()

    def _describe(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"There is no cluster {self.cluster!r} in hive.cluster.properties; known are: {known}."


class LocationOutsideClusterError(HivexError, pep249.ProgrammingError):
    """A location does not lie in the file system of the cluster that should hold it."""

    sentence = (
        "Location {location!r} lies outside cluster {cluster}, whose file system is {filesystem}. SQL reads and writes "
        "files below it only. Copy the files there and give the path relative to it, or configure a cluster whose file "
        "system has them."
    )
    location: str
    cluster: str
    filesystem: str


class RoutingError(HivexError, pep249.OperationalError):
    """No cluster can run the statement. ``route`` says which data each cluster lacks."""

    code = "NO_ROUTE"
    route: Described

    def _describe(self) -> str:
        return self.route.describe()


class NoUsableClusterError(RoutingError):
    """A cluster has all data that the statement needs, but cannot be used now."""

    retryable = True


class UnsupportedJobTrackerError(HivexError, pep249.NotSupportedError):
    """No runner exists for a cluster's job tracker."""

    code = "UNSUPPORTED_JOBTRACKER"
    sentence = (
        "Cluster {cluster} has jobtracker {jobtracker!r}, for which no runner is known here. local[...], "
        "sc://host:port, spark://host:port, yarn and k8s://url run jobs everywhere; any other word is the id of a "
        "Spark connection of Airflow, and known in Airflow's processes only."
    )
    cluster: str
    jobtracker: str


class StorageError(HivexError, pep249.OperationalError):
    """The storage of a cluster does not answer, or its files cannot be listed, read, written or deleted."""

    retryable = True
    sentence = "Storage at {location} cannot be used: {reason}."
    location: str
    reason: str


class FolderExpectedError(HivexError, pep249.OperationalError):
    """A file lies where the files of a table need a folder."""

    sentence = (
        "{location} is a file, and the place of rows is a folder. Move the file into a folder, and give the table or "
        "the partition the folder as its location."
    )
    location: str


class RootMissingError(HivexError, pep249.OperationalError):
    """The root of a cluster's file system lacks its root marker, which was written before."""

    retryable = True
    sentence = (
        "The root {filesystem} of cluster {cluster} is not the one that was written to: {missing}. Is it not mounted? "
        "Nothing was written or deleted. Mount it and try again. If its files are lost, first give tables that have "
        "copies elsewhere another primary cluster (ALTER TABLE ... SET PRIMARY CLUSTER ... FORCE); then `hivex "
        "metastore accept-root {cluster}` takes the root as it is now."
    )
    cluster: str
    filesystem: str
    missing: str


class RootUnseenError(HivexError, pep249.OperationalError):
    """A process of a cluster's Spark does not see the root of the cluster's file system at its path."""

    retryable = True
    sentence = (
        "Host {host} does not see the root {filesystem} of cluster {cluster}: {problem}. The statement has changed "
        "nothing. Mount the file system at that path on each host that runs Spark for the cluster, and run the "
        "statement again."
    )
    cluster: str
    filesystem: str
    host: str
    problem: str


class WrittenRowsMissingError(HivexError, pep249.OperationalError):
    """The files of a job do not have all rows that its tasks have written.

    Usually the hosts do not share the folder, or a network file system or object store answers late or wrong.
    """

    retryable = True
    sentence = (
        "The tasks on cluster {cluster} have written {written} to {folder} for {table}, and {found} were found there. "
        "Its store has lost something or does not show it yet, or {hosts} do not share this folder. The statement has "
        "changed nothing. Mount the same file system at that path on each host that runs Spark for the cluster, and on "
        "this one, and run the statement again."
    )
    cluster: str
    table: str
    folder: str
    written: str
    found: str
    hosts: str


class ForeignRootError(HivexError, pep249.OperationalError):
    """The root of a cluster's file system has the marker of another metastore, or of another cluster."""

    sentence = (
        "The root {filesystem} of cluster {cluster} has a marker, {marker}, that this metastore has not written for "
        "it. Two metastores, or two clusters, must not share a root: each would delete what the other one writes. Give "
        "the cluster another root; if no other metastore or cluster uses this one, `hivex metastore accept-root "
        "{cluster}` takes it."
    )
    cluster: str
    filesystem: str
    marker: str


class JobError(HivexError, pep249.OperationalError):
    """A job failed on its cluster."""

    code = "JOB_FAILED"
    cluster: str
    message: str

    def _describe(self) -> str:
        place = f" on cluster {self.cluster}" if self.cluster else ""
        return f"The job{place} failed: {self.message}"


class JobCause(HivexError):  # noqa: N818 - it is the cause of an error, and never raised by itself
    """The message of Spark for a failed job, as the ``__cause__`` of the job's error."""


class JobCancelledError(JobError):
    """A job was stopped on request."""

    message: str = "it was cancelled"


class ExecutorsLostError(JobError):
    """A job failed because processes of its cluster were lost at each of Spark's attempts."""

    retryable = True


class ClusterUnreachableError(JobError):
    """The server of a cluster's jobs does not answer, or was restarted while a job ran."""

    retryable = True


class SparkProcessError(JobError):
    """The process that runs Spark did not start, has ended, or ran out of memory. A retry starts another."""

    retryable = True


class SparkServerError(HivexError, pep249.OperationalError):
    """A Spark Connect server on this machine cannot be started or stopped."""


class InProcessJobError(HivexError, pep249.NotSupportedError):
    """A cluster runs jobs in the process of the statement, but a server is required."""

    sentence = (
        "A job on cluster {cluster} cannot be left to a server, because its jobtracker is {jobtracker}. Run it with "
        "deferrable=False, or give the cluster a Spark Connect server (sc://host:port)."
    )
    cluster: str
    jobtracker: str


# Source: Arrow's ErrorToStatus (s3_internal.h) and the codes of libcurl.
_AWS_ERROR = re.compile(r"AWS Error (\w+) during \w+ operation[^:]*: (.*)", re.DOTALL)
_CURL = {6: "has a name that this machine does not know", 7: "takes no connection", 28: "does not answer in time"}
_OVERLOADED = ("SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "THROTTLING")


def describe_failure(error: Exception, endpoint: str, tried_s: float) -> str:
    """Return the reason why a file system fails, as a text for people.

    ``endpoint`` is the address of an object store, empty if it is unknown.
    """
    message = str(error) or type(error).__name__
    found = _AWS_ERROR.search(message)
    if found is None:
        return message
    kind, detail = found[1], found[2].strip().rstrip(".")
    store = f"the object store at {endpoint}" if endpoint else "its object store"
    if kind == "NETWORK_CONNECTION":
        cause = next((text for code, text in _CURL.items() if f"curlCode: {code}," in detail), "cannot be reached")
        return (
            f"{store} {cause}; it was tried for {tried_s:.1f} s ({detail}). Check that it runs, "
            "that this machine reaches it, and endpoint_url in the cluster's storage_options, then repeat the call"
        )
    if kind in _OVERLOADED:
        return f"{store} is overloaded or fails ({kind}); it was tried for {tried_s:.1f} s. Repeat the call later"
    return message
