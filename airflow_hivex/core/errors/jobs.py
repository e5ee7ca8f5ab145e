"""Errors of jobs and of the processes that run them."""

from __future__ import annotations

from airflow_hivex.core.errors import pep249
from airflow_hivex.core.errors.root import HivexError


class JobError(HivexError, pep249.OperationalError):
    """A job failed on its cluster."""

    code = "JOB_FAILED"
    cluster: str
    message: str

    def _describe(self) -> str:
        place = f" on cluster {self.cluster}" if self.cluster else ""
        return f"The job{place} failed: {self.message}"


class JobCause(HivexError):  # noqa: N818 - it is the cause of an error, and never raised by itself
    """The message of Spark for a failed job; the ``__cause__`` of the job's error."""

    code = "JOB_CAUSE"


class JobCancelledError(JobError):
    """A job was stopped on request."""

    code = "JOB_CANCELLED"
    message: str = "it was cancelled"


class ExecutorsLostError(JobError):
    """A job failed because processes of its cluster went away, as often as Spark tries its tasks."""

    code = "EXECUTORS_LOST"
    retryable = True


class ClusterUnreachableError(JobError):
    """The server that runs the jobs of a cluster does not answer, or was restarted while a job ran."""

    code = "CLUSTER_UNREACHABLE"
    retryable = True


class SparkProcessError(JobError):
    """The process that runs Spark did not start, has ended, or ran out of memory. A new one may fare better."""

    code = "SPARK_PROCESS"
    retryable = True


class SparkServerError(HivexError, pep249.OperationalError):
    """A Spark Connect server on this machine cannot be started or stopped."""

    code = "SPARK_SERVER"


class InProcessJobError(HivexError, pep249.NotSupportedError):
    """A cluster runs jobs in the process of the statement, where a server has to run them."""

    code = "IN_PROCESS_JOB"
    sentence = (
        "A job on cluster {cluster} cannot be left to a server, because its jobtracker is {jobtracker}. Run it with "
        "deferrable=False, or give the cluster a Spark Connect server (sc://host:port)."
    )
    cluster: str
    jobtracker: str
