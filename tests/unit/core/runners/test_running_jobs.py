"""The jobs of a runner, whose work is a function of the test's own. No Spark."""

from __future__ import annotations

import logging
import threading

import pytest

from airflow_hivex.core.errors import JobCancelledError, JobError
from airflow_hivex.core.model.plans import JobResult
from airflow_hivex.core.model.progress import Progress
from airflow_hivex.core.runners.running_jobs import ProgressLog, RunningJob, RunningJobs

PATIENCE_S = 30


def test_progress_is_reported_until_the_job_ends_whatever_fails_in_between() -> None:
    reported: list[Progress] = []
    enough = threading.Event()
    looks = iter([OSError("the driver is busy"), None, Progress(tasks=4), Progress(tasks=4, tasks_done=3)])

    def look() -> Progress | None:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    def work(job: RunningJob) -> JobResult:
        job.look = look
        assert enough.wait(PATIENCE_S)
        return JobResult(truncated=True)

    def report(progress: Progress) -> None:
        reported.append(progress)
        if progress.tasks_done:
            enough.set()
        raise OSError("the terminal is gone")

    assert RunningJobs(quiet_s=0, interval_s=0.01).run("t", "c1", work, report).truncated
    assert [progress.tasks_done for progress in reported] == [0, 3]
    assert reported[1].elapsed_s > reported[0].elapsed_s > 0


def test_a_short_job_is_never_looked_at() -> None:
    def work(job: RunningJob) -> JobResult:
        job.look = pytest.fail
        return JobResult()

    threads = threading.active_count()
    RunningJobs(quiet_s=PATIENCE_S).run("t", "c1", work, pytest.fail)
    assert threading.active_count() <= threads + 1


def test_an_error_of_the_job_is_raised_while_its_progress_is_reported() -> None:
    reported = threading.Event()

    def work(job: RunningJob) -> JobResult:
        job.look = Progress
        assert reported.wait(PATIENCE_S)
        raise JobError("c1", "a division by zero")

    with pytest.raises(JobError, match="division"):
        RunningJobs(quiet_s=0, interval_s=0.01).run("t", "c1", work, lambda _: reported.set())


def test_a_job_that_was_cancelled_before_it_began_never_begins() -> None:
    jobs = RunningJobs()
    jobs.cancel("t")
    with pytest.raises(JobCancelledError):
        jobs.run("t", "c1", lambda _: pytest.fail("it began"))


def test_the_log_has_a_line_every_few_seconds_while_something_changes(caplog: pytest.LogCaptureFixture) -> None:
    report = ProgressLog("Transaction 7")
    with caplog.at_level(logging.INFO, "airflow_hivex"):
        for second in range(3, 150):
            report(Progress(tasks=100, tasks_done=min(second, 20), elapsed_s=second))
    seconds = [record.getMessage().partition(": ")[2].partition(" ")[0] for record in caplog.records]
    assert seconds == ["3", "8", "13", "18", "23", "83", "143"]
    assert caplog.records[0].getMessage().startswith("Transaction 7: 3 s: 0 of 0 stages and 3 of 100 tasks are done")
