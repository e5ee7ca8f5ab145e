"""Who runs the jobs of a cluster, by its job tracker."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from airflow_hivex.core.errors import UnsupportedJobTrackerError
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.spark.local import LocalRunner, is_local


class Runner(Protocol):
    """Runs plans on one cluster; many threads may use it at once."""

    def run(self, plan: Plan, cluster: str) -> JobResult:
        """The result of a plan.

        Raises:
            HivexError: the job failed; AnalysisError and its kin when the statement is at fault,
                JobCancelledError when it was stopped, JobError for all else.
        """

    def cancel(self, tag: str) -> None:
        """Stop the job that runs under a plan's tag, if it does; safe to repeat."""


def runner_for(cluster: str, jobtracker: str) -> Runner:
    """The runner of a cluster. Starts nothing.

    Raises:
        UnsupportedJobTrackerError: this release has none for its job tracker.
    """
    if not is_local(jobtracker):
        raise UnsupportedJobTrackerError(cluster, jobtracker)
    return _local(jobtracker)


@cache
def _local(master: str) -> LocalRunner:
    return LocalRunner(master)
