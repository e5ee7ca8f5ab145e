"""The registry of runners: the job tracker of a cluster decides which runner runs its jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol, TypeAlias, runtime_checkable

from airflow_hivex.core.errors import UnsupportedJobTrackerError
from airflow_hivex.core.model.clusters import Cluster, Health, JobTrackerKind
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.writes import ResumableWrite, ServerOperation
from airflow_hivex.core.runners.local import LocalRunner


class Runner(Protocol):
    """A runner of plans on one cluster. Several threads are allowed to use a runner at the same time."""

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan.

        If the job takes longer than a few seconds, another thread calls ``report`` with the job's progress.

        Raises:
            HivexError: the job failed. The error is an AnalysisError or a similar error if the statement is wrong, a
                JobCancelledError if the job was stopped, and otherwise a JobError.
        """

    def cancel(self, tag: str) -> None:
        """Stop the running job with a plan's tag, if there is such a job. The call is safe to repeat."""

    def health(self, cluster: str) -> Health:
        """Return whether a job could run now. Spark is not started for this check."""


@runtime_checkable
class ResumingRunner(Runner, Protocol):
    """A runner whose jobs continue on a server after the end of this process, for another process to find."""

    def run_resumable(
        self, plan: Plan, cluster: str, write: ResumableWrite, report: ProgressReport | None = None
    ) -> JobResult:
        """Return the result of a plan.

        If ``write`` names the operation of an earlier process, wait for this operation. Otherwise begin an operation,
        and record it in ``write``.

        Raises:
            WriteTakenBackError: another process has taken over the write. The files of the write are unchanged.
            HivexError: the job failed, for the reasons of :meth:`run`.
        """

    def has_operation(self, operation: ServerOperation, cluster: str) -> bool:
        """Return whether the server runs an operation, or has just completed it."""


RunnerFactory: TypeAlias = Callable[[Cluster], Runner]
_FACTORIES: dict[JobTrackerKind, RunnerFactory] = {}


def register_runner(kind: JobTrackerKind, factory: RunnerFactory | None) -> RunnerFactory | None:
    """Set the factory of runners for a kind of job tracker, and return the previous factory.

    With None the kind has no factory.
    """
    before = _FACTORIES.pop(kind, None)
    if factory is not None:
        _FACTORIES[kind] = factory
    return before


def runner_for(cluster: Cluster) -> Runner:
    """Return the runner for a cluster, by the kind of the cluster's job tracker. Spark is not started.

    Raises:
        UnsupportedJobTrackerError: no factory is registered for the kind of the job tracker.
        InvalidConnectionError: the job tracker is the id of an Airflow connection that is not a Spark connection.
    """
    factory = _FACTORIES.get(cluster.kind)
    if factory is None:
        raise UnsupportedJobTrackerError(cluster.name, cluster.shown_jobtracker)
    return factory(cluster)


@cache
def _local(master: str) -> LocalRunner:
    return LocalRunner(master)


@cache
def _connect(url: str, answer_timeout_s: int) -> Runner:
    # The client of Spark Connect needs libraries of its own.
    from airflow_hivex.core.runners.connect import ConnectRunner

    return ConnectRunner(url, patience_s=answer_timeout_s)


@cache
def submit_runner(master: str, conf: tuple[tuple[str, str], ...] = ()) -> Runner:
    """Return the runner that uses spark-submit for a cluster manager. ``conf`` is the configuration of Spark."""
    # The runner needs pyarrow.
    from airflow_hivex.core.runners.driver_process import SubmitRunner

    return SubmitRunner(master, dict(conf))


register_runner(JobTrackerKind.CONNECT, lambda cluster: _connect(cluster.jobtracker, cluster.answer_timeout_s))
register_runner(JobTrackerKind.LOCAL, lambda cluster: _local(cluster.jobtracker))
register_runner(JobTrackerKind.SUBMIT, lambda cluster: submit_runner(cluster.jobtracker, ()))
