"""The runners of jobs, by the job tracker of the cluster."""

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
    """Runs plans on one cluster; many threads may use it at once."""

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan.

        While it runs for longer than a few seconds, ``report`` is called with its progress, from another thread.

        Raises:
            HivexError: the job failed; AnalysisError and its kin when the statement is at fault,
                JobCancelledError when it was stopped, JobError for all else.
        """

    def cancel(self, tag: str) -> None:
        """Stop the job that runs under a plan's tag, if it does; safe to repeat."""

    def health(self, cluster: str) -> Health:
        """Return whether a job could run now, without starting anything. Asked before a statement is routed."""


@runtime_checkable
class ResumingRunner(Runner, Protocol):
    """A runner whose jobs go on at a server when their process ends, where a later process finds them again."""

    def run_resumable(
        self, plan: Plan, cluster: str, write: ResumableWrite, report: ProgressReport | None = None
    ) -> JobResult:
        """Return the result of a plan, whose ``write`` records its operation, or names the one to wait for.

        Raises:
            WriteTakenBackError: the write belongs to another process now; its files were left alone.
            HivexError: the job failed, as in :meth:`run`.
        """

    def has_operation(self, operation: ServerOperation, cluster: str) -> bool:
        """Return whether the server runs an operation, or has completed it a moment ago."""


RunnerFactory: TypeAlias = Callable[[Cluster], Runner]
_FACTORIES: dict[JobTrackerKind, RunnerFactory] = {}


def register_runner(kind: JobTrackerKind, factory: RunnerFactory | None) -> RunnerFactory | None:
    """Let ``factory`` make the runners of all clusters whose job tracker is of this kind; None: no factory does.

    Return the factory that did so before.
    """
    before = _FACTORIES.pop(kind, None)
    if factory is not None:
        _FACTORIES[kind] = factory
    return before


def runner_for(cluster: Cluster) -> Runner:
    """Return the runner of a cluster. Starts nothing.

    Raises:
        UnsupportedJobTrackerError: none is registered for the kind of its job tracker.
        InvalidConnectionError: its job tracker is a connection of Airflow that does not lead to a Spark.
    """
    factory = _FACTORIES.get(cluster.kind)
    if factory is None:
        raise UnsupportedJobTrackerError(cluster.name, cluster.shown_jobtracker)
    return factory(cluster)


@cache
def _local(master: str) -> LocalRunner:
    return LocalRunner(master)


@cache
def _connect(url: str) -> Runner:
    # Not at the top: it takes libraries of its own.
    from airflow_hivex.core.runners.connect import ConnectRunner

    return ConnectRunner(url)


@cache
def submit_runner(master: str, conf: tuple[tuple[str, str], ...] = ()) -> Runner:
    """Return the runner of a cluster manager that spark-submit talks to, with configuration of its own."""
    # Not at the top: it takes pyarrow.
    from airflow_hivex.core.runners.driver_process import SubmitRunner

    return SubmitRunner(master, dict(conf))


register_runner(JobTrackerKind.CONNECT, lambda cluster: _connect(cluster.jobtracker))
register_runner(JobTrackerKind.LOCAL, lambda cluster: _local(cluster.jobtracker))
register_runner(JobTrackerKind.SUBMIT, lambda cluster: submit_runner(cluster.jobtracker, ()))
