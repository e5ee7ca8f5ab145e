"""Jobs by spark-submit, for clusters whose job tracker is ``spark://host:port``, ``yarn`` or ``k8s://url``.

The driver runs on this machine, in a process of its own (client mode), and its executors on the cluster. It gets the
files of this package from this process, and plans by messages. It serves all jobs of this process with the same
configuration, and ends a minute after the last one. The driver moves files into place, so the file system of the
cluster must be here under the same URI.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial

from airflow_hivex.core.errors import ClusterUnreachableError, HivexError, JobCancelledError
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.runners import masters, submission
from airflow_hivex.core.runners.driver_process import DriverProcess
from airflow_hivex.core.runners.java import check_java
from airflow_hivex.core.runners.running_jobs import RunningJob, RunningJobs

log = logging.getLogger(__name__)

_STOP_LIMIT_S = 10.0
"""The time that a job gets to stop before its driver is ended."""


class SubmitRunner:
    """Runs plans on one cluster manager, several at a time from several threads."""

    def __init__(self, master: str, conf: Mapping[str, str] | None = None) -> None:
        """``conf`` is configuration of Spark that a plan's own overrides."""
        self._master = master
        self._conf = dict(conf or {})
        self._jobs = RunningJobs()
        self._lock = threading.Lock()
        self._drivers: dict[str, DriverProcess] = {}
        self._process = os.getpid()

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan; see ``runners.Runner``.

        Raises:
            AnalysisError: Spark refuses the statement, or the like for an INSERT's columns.
            JobCancelledError: :meth:`cancel` was called for the plan's tag, also before it began.
            ClusterUnreachableError: the cluster manager does not answer, or the executors were lost; nothing was
                written.
            SparkProcessError: the driver has ended; nothing was written.
            JobError: anything else, such as an overflow, or a Spark that is not installed here.
        """
        from airflow_hivex.core.job import documents

        document = documents.plan_to_json(plan)
        return self._jobs.run(plan.tag, cluster, lambda running: self._run(document, plan, cluster, running), report)

    def _run(self, document: str, plan: Plan, cluster: str, running: RunningJob) -> JobResult:
        from airflow_hivex.core.job import documents

        driver = self._reserved({**self._conf, **plan.spark_conf}, cluster)
        try:
            driver.wait_until_started(running.cancelled, cluster)
            running.interrupt = _Interrupt(driver, plan.tag)
            running.look = partial(driver.progress, plan.tag)
            if running.cancelled.is_set():
                raise JobCancelledError(cluster)
            return documents.result_from_json(driver.run(plan.tag, document, _key(plan.session_key), cluster), cluster)
        finally:
            driver.release()

    def cancel(self, tag: str) -> None:
        """Stop the job with this tag, and wait until it ended, at most a minute; one that has not begun never will."""
        self._jobs.cancel(tag)

    def health(self, cluster: str) -> Health:
        """Return whether the cluster manager takes connections, or has given executors; and whether Java is here.

        Takes three seconds at most for each address of the job tracker.
        """
        try:
            home = submission.spark_home(cluster)
            check_java(cluster)
            # A driver that runs already needs its executors alone.
            if not any(driver.has_executors for driver in list(self._drivers.values())):
                masters.check(self._master, cluster)
        except HivexError as error:
            return Health(error)
        return Health(version=submission.release_of(home))

    def _reserved(self, conf: Mapping[str, str], cluster: str) -> DriverProcess:
        """Return a driver for this configuration, which is kept for a job.

        Raises:
            ClusterUnreachableError: the cluster manager does not answer.
            JobError: spark-submit or Java is missing, or the configuration asks for another deploy mode.
        """
        key = _key([(name, value) for name, value in conf.items() if submission.counts_at_start(name)])
        with self._lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                self._drivers.clear()
            driver = self._drivers.get(key)
            if driver is not None and driver.reserve():
                return driver
            submission.check_deploy_mode(conf, cluster)
            check_java(cluster)
            masters.check(self._master, cluster)
            driver = self._drivers[key] = DriverProcess(self._master, conf, cluster)
            if not driver.reserve():
                raise ClusterUnreachableError(cluster, "the driver of its jobs has ended as it started; run it again")
            return driver


class _Interrupt:
    """Stops a job of a driver, with the driver itself if it does not end."""

    def __init__(self, driver: DriverProcess, tag: str) -> None:
        self._driver = driver
        self._tag = tag
        self._until: float | None = None

    def __call__(self) -> None:
        self._until = self._until or time.monotonic() + _STOP_LIMIT_S
        if time.monotonic() < self._until:
            self._driver.cancel(self._tag)
        elif self._driver.is_alone(self._tag):
            log.warning("Job %s does not stop; its driver is ended", self._tag)
            self._driver.close()


def _key(conf: Iterable[tuple[str, str]]) -> str:
    """Return a name for a configuration, which may hold secrets."""
    return hashlib.sha256(json.dumps(sorted(conf)).encode()).hexdigest()
