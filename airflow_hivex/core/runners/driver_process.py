"""Jobs by spark-submit, for clusters whose job tracker is ``spark://host:port``, ``yarn`` or ``k8s://url``.

The driver runs on this machine, in a process of its own (client mode). The executors of the driver run on the cluster.
This process sends the files of this package, and the plans as messages, to the driver. One driver runs all jobs of this
process with the same configuration, and ends a minute after the last job. The driver moves written files to their
places, so this machine must have the file system of the cluster under the same URI.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from subprocess import TimeoutExpired
from typing import Any

from airflow_hivex.core.errors import (
    ClusterUnreachableError,
    HivexError,
    JobCancelledError,
    JobError,
    SparkProcessError,
)
from airflow_hivex.core.job import documents, storage
from airflow_hivex.core.job.channel import Channel
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import Progress, ProgressReport
from airflow_hivex.core.runners import masters, submission
from airflow_hivex.core.runners.java import ProcessOutput, check_java
from airflow_hivex.core.runners.running_jobs import RunningJob, RunningJobs
from airflow_hivex.core.runners.submission import EXECUTORS_TIMEOUT, IDLE_TIMEOUT, Submission, timeout

_LOOK_INTERVAL_S = 0.2
_REACH_INTERVAL_S = 5.0
_AWAY_LIMIT_S = 15.0
_END_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class _End:
    """The reason why a driver has ended, as the error of its jobs."""

    error: type[JobError]
    message: str


_CLOSED = _End(SparkProcessError, "this process has ended the driver of its jobs")


class DriverProcess:
    """One driver of spark-submit in client mode, which the constructor starts.

    The driver ends at the latest with this process.
    """

    def __init__(self, master: str, conf: Mapping[str, str], cluster: str) -> None:
        """Start the driver. ``cluster`` is the name of the cluster in errors.

        Raises:
            JobError: spark-submit is not installed, or a setting is not valid.
        """
        self._master = master
        self._idle_limit_s = timeout(conf, IDLE_TIMEOUT, cluster)
        self._executors_limit_s = timeout(conf, EXECUTORS_TIMEOUT, cluster)
        self._lock = threading.Lock()
        self._jobs: dict[str, Future[str]] = {}
        self._progress: dict[str, Progress] = {}
        self._users = 0
        self._timer: threading.Timer | None = None
        self._started: Future[dict[str, Any]] = Future()
        self._end: _End | None = None
        self._ended = threading.Event()
        self._executors = 0
        self._hosts: list[str] = []
        self._had_executors = False
        self._looked = self._reached = self._without_since = time.monotonic()
        self._channel: Channel | None = None
        self._submission = submission = Submission(master, conf, cluster)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(submission.socket))
        self._listener.listen(1)
        log.info("Starting Spark on %s for cluster %s", master, cluster)
        self._output = ProcessOutput(log)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a program of Spark's
                submission.command,
                env=submission.environment,
                cwd=submission.folder,
                stdin=subprocess.DEVNULL,
                stdout=self._output.write_end,
                stderr=subprocess.STDOUT,
                # An interrupt from the keyboard must reach this process only.
                start_new_session=True,
            )
        except OSError as error:
            submission.remove()
            raise JobError(cluster, f"spark-submit cannot be started: {error}") from error
        finally:
            self._output.close()
        _DRIVERS.add(self)
        threading.Thread(target=self._receive, name="hivex-driver", daemon=True).start()

    @property
    def has_executors(self) -> bool:
        """Return whether the driver has executors, with which it can run a job even without a cluster manager."""
        return self._end is None and self._executors > 0

    def reserve(self) -> bool:
        """Reserve the driver for a job until :meth:`release`, and return True. Return False if the driver is ending."""
        with self._lock:
            if self._end is not None:
                return False
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return True

    def release(self) -> None:
        """Release the driver after a job. A driver without jobs ends after some time, because it holds executors."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._end is None:
                self._timer = threading.Timer(self._idle_limit_s, self._end_idle)
                self._timer.daemon = True
                self._timer.start()

    def wait_until_started(self, cancelled: threading.Event, cluster: str) -> None:
        """Wait until Spark runs. The wait can be long if the cluster manager lets the application wait.

        Raises:
            JobCancelledError: ``cancelled`` was set during the wait.
            ClusterUnreachableError: no cluster manager answers.
            JobError: Spark did not start.
        """
        while not wait([self._started], _LOOK_INTERVAL_S).done:
            if cancelled.is_set():
                raise JobCancelledError(cluster)
            self._check_reach()
        self._raise_end(cluster)

    def run(self, tag: str, plan: str, session: str, cluster: str) -> str:
        """Run a plan in the driver's session with the key ``session``, and return the document of its result.

        Raises:
            ClusterUnreachableError: the cluster is lost, and the driver was ended.
            SparkProcessError: the driver has ended.
        """
        result: Future[str] = Future()
        with self._lock:
            self._raise_end(cluster)
            self._jobs[tag] = result
            self._without_since = time.monotonic()
        opened = storage.opened_in(plan)
        filesystems = {root: base64.b64encode(pickle.dumps(each)).decode("ascii") for root, each in opened.items()}
        try:
            self._send("run", tag=tag, plan=plan, session=session, filesystems=filesystems)
            while not wait([result], _LOOK_INTERVAL_S).done:
                self._check_executors()
            if result.exception() is not None:
                self._raise_end(cluster)
            return result.result()
        finally:
            with self._lock:
                self._jobs.pop(tag, None)
                self._progress.pop(tag, None)

    def progress(self, tag: str) -> Progress | None:
        """Return the last progress that the driver has sent for a job, or None if the driver has sent none."""
        return self._progress.get(tag)

    def is_alone(self, tag: str) -> bool:
        """Return whether a job is the only job of the driver."""
        with self._lock:
            return list(self._jobs) == [tag]

    def cancel(self, tag: str) -> None:
        """Stop a job on the cluster, if the job runs. The call is safe to repeat."""
        self._send("cancel", tag=tag)

    def close(self) -> None:
        """Stop the driver, and wait for its end."""
        self._finish(_CLOSED)
        self._ended.wait(2 * _END_LIMIT_S)

    def abandon(self) -> None:
        """Leave the driver to the parent process, which has started the driver. A forked process calls this method."""
        self._end = _End(JobError, "this process was forked when a driver ran already")
        self._listener.close()
        if self._channel is not None:
            # The stream must stay open, because the parent process uses it.
            self._channel.leave()

    def _end_idle(self) -> None:
        with self._lock:
            if self._users or self._end is not None:
                return
            self._end = _CLOSED
        log.info("Ending Spark on %s, which has had no job for %g seconds", self._master, self._idle_limit_s)
        self._finish(_CLOSED)

    def _receive(self) -> None:
        try:
            connection = self._accept()
            if connection is not None:
                self._channel = Channel(connection)
                for message in self._channel.messages():
                    self._take(message)
        finally:
            self._finish(None)
            self._clean_up()

    def _accept(self) -> socket.socket | None:
        """Return the connection of the driver, or None if the driver has ended before it connected."""
        self._listener.settimeout(_LOOK_INTERVAL_S)
        while self._process.poll() is None and self._end is None:
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(None)
                return connection
        return None

    def _take(self, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "started":
                self._submission.forget_configuration()
                self._output.level = logging.INFO
                log.info("Spark %(version)s runs as %(application)s", message)
                self._started.set_result(message)
            case "executors":
                self._executors = message["count"]
                self._hosts = message["hosts"] or self._hosts
                self._had_executors = self._had_executors or self._executors > 0
                self._without_since = time.monotonic()
            case "progress":
                self._progress[message["tag"]] = Progress(**message["counts"])
            case "result":
                if message["lost"]:
                    self._finish_later(_End(ClusterUnreachableError, "the cluster has ended its application"))
                with self._lock:
                    result = self._jobs.get(message["tag"])
                if result is not None:
                    result.set_result(message["document"])
            case "refused":
                self._finish_later(_End(JobError, message["reason"]))
            case "failed":
                self._finish_later(_end_of(message["document"]))

    def _check_executors(self) -> None:
        """End the driver if the cluster is lost, because the jobs would wait for executors for ever."""
        if self._executors:
            return
        if self._had_executors and time.monotonic() - self._without_since > self._executors_limit_s:
            self._finish(
                _End(
                    ClusterUnreachableError,
                    f"all executors were lost, and the cluster gave no others in {self._executors_limit_s:g} seconds. "
                    f"The last ones ran on {', '.join(self._hosts)}: check that they and this machine reach each "
                    "other, then run the statement again",
                )
            )
        self._check_reach()

    def _check_reach(self) -> None:
        """End the driver if it waits for a cluster manager that does not answer."""
        now = time.monotonic()
        with self._lock:
            if now - self._looked < _REACH_INTERVAL_S:
                return
            if now - self._looked > 2 * _REACH_INTERVAL_S:
                # The last check was long ago, so that the time before does not count.
                self._reached = now
            self._looked = now
        if masters.answers(self._master):
            self._reached = time.monotonic()
        elif time.monotonic() - self._reached > _AWAY_LIMIT_S:
            self._finish(
                _End(
                    ClusterUnreachableError,
                    f"{self._master} has not answered for {_AWAY_LIMIT_S:g} seconds; check that it runs and that this "
                    "machine reaches it, then run the statement again",
                )
            )

    def _finish_later(self, end: _End) -> None:
        """Refuse new jobs. When the driver closes the stream of its messages, :meth:`_finish` is called."""
        with self._lock:
            self._end = self._end or end

    def _finish(self, end: _End | None) -> None:
        """Refuse new jobs, end the process, and fail waiting jobs.

        ``end`` is None if the driver has ended by itself.
        """
        if end is not None:
            self._finish_later(end)
        if self._channel is not None:
            self._channel.close()
        elif self._process.poll() is None and end is not None:
            # The driver does not read messages yet, so that it would not notice the end of the stream.
            self._kill()
        if end is not None:
            return
        try:
            self._process.wait(_END_LIMIT_S)
        except TimeoutExpired:
            self._kill()
            self._process.wait()
        self._finish_later(_End(SparkProcessError, self._cause()))
        with self._lock:
            waiting: list[Future[Any]] = [self._started, *self._jobs.values()]
        for each in waiting:
            if not each.done():
                each.set_exception(RuntimeError("the driver has ended"))

    def _cause(self) -> str:
        code = self._process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"
        cause = self._output.cause() or (self._output.last_line() if not self._started.done() else "")
        return f"the driver of its jobs {how}{f' ({cause})' if cause else ''}. The next statement starts a new one."

    def _kill(self) -> None:
        # spark-submit, its Java process and the driver are a group of their own.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _clean_up(self) -> None:
        # The driver may run for a moment longer than its Java process.
        self._kill()
        if self._channel is not None:
            self._channel.free()
        self._listener.close()
        self._submission.remove()
        _DRIVERS.discard(self)
        self._ended.set()

    def _send(self, kind: str, **content: Any) -> None:
        channel = self._channel
        if channel is not None:
            # The thread that receives messages notices the end of the driver.
            with suppress(OSError):
                channel.send(kind, **content)

    def _raise_end(self, cluster: str) -> None:
        if self._end is not None:
            raise self._end.error(cluster, self._end.message)


def _end_of(document: str) -> _End:
    try:
        documents.result_from_json(document, "")
    except JobError as error:
        return _End(type(error), str(error.facts[-1]))
    return _End(JobError, "Spark did not start")


_DRIVERS: weakref.WeakSet[DriverProcess] = weakref.WeakSet()


def close_all() -> None:
    """Stop the drivers of this process."""
    for each in list(_DRIVERS):
        each.close()


def _leave_to_parent() -> None:
    for each in list(_DRIVERS):
        each.abandon()
    _DRIVERS.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_leave_to_parent)


_STOP_LIMIT_S = 10.0
"""The time in seconds after which the driver of a cancelled job is ended, if the job has not stopped."""


class SubmitRunner:
    """A runner of plans on one cluster manager. Several threads are allowed to run plans at the same time."""

    def __init__(self, master: str, conf: Mapping[str, str] | None = None) -> None:
        """Create the runner. ``conf`` is Spark's configuration, which the configuration of a plan overrides."""
        self._master = master
        self._conf = dict(conf or {})
        self._jobs = RunningJobs()
        self._lock = threading.Lock()
        self._drivers: dict[str, DriverProcess] = {}
        self._process = os.getpid()

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan; see ``runners.Runner``.

        Raises:
            AnalysisError: Spark refuses the statement, or the columns of an INSERT.
            JobCancelledError: :meth:`cancel` was called for the plan's tag, before or while the job ran.
            ClusterUnreachableError: the cluster manager does not answer, or the executors were lost; no rows were
                written.
            SparkProcessError: the driver has ended; no rows were written.
            JobError: any other failure, such as an overflow, or a Spark that is not installed on this machine.
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
        """Stop the job with a tag, and wait at most a minute for its end. A job that has not begun never begins."""
        self._jobs.cancel(tag)

    def health(self, cluster: str) -> Health:
        """Return whether this machine has Java, and the cluster manager accepts connections or has given executors.

        The call takes a dozen seconds at most for each address of the job tracker.
        """
        try:
            home = submission.spark_home(cluster)
            check_java(cluster)
            # A running driver with executors does not need the cluster manager.
            if not any(driver.has_executors for driver in list(self._drivers.values())):
                masters.check(self._master, cluster)
        except HivexError as error:
            return Health(error)
        return Health(version=submission.release_of(home))

    def _reserved(self, conf: Mapping[str, str], cluster: str) -> DriverProcess:
        """Return a driver with a configuration. The driver is reserved for a job.

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
    """The interrupt of a job, which stops the job, or the job's driver if the job does not stop in time."""

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
    """Return the hash of a configuration as its key, because the configuration can have secrets."""
    return hashlib.sha256(json.dumps(sorted(conf)).encode()).hexdigest()


log = logging.getLogger(__name__)
