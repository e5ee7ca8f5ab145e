"""A runner that keeps what it is asked to run, for clusters whose job tracker is ``sc://...``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.model.clusters import Health, JobTrackerKind
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.runners.registry import register_runner


class Recorder:
    """Refuses each plan, after it was kept. Of each cluster in ``problems`` it says that it cannot be used."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.problems: dict[str, JobError] = {}
        self.asked: list[str] = []

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        self.plans.append(plan)
        raise JobError(cluster, "only recorded")

    def cancel(self, tag: str) -> None:
        pass

    def health(self, cluster: str) -> Health:
        self.asked.append(cluster)
        return Health(self.problems.get(cluster))


@contextmanager
def recording() -> Iterator[Recorder]:
    recorder = Recorder()
    before = register_runner(JobTrackerKind.CONNECT, lambda _: recorder)
    try:
        yield recorder
    finally:
        register_runner(JobTrackerKind.CONNECT, before)
