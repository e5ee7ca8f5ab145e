"""The running jobs, which can be stopped by the tags of their plans."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_hivex.core.errors import HivexError, JobCancelledError
from airflow_hivex.core.model.plans import JobResult
from airflow_hivex.core.model.progress import Progress, ProgressReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_INTERVAL_S = 5.0
_UNCHANGED_INTERVAL_S = 60.0


class ProgressLog:
    """A report that logs the progress of one job: every five seconds while the job advances, otherwise every minute."""

    def __init__(self, whose: str) -> None:
        """Create the report. ``whose`` is the name of the job at the beginning of each line."""
        self._whose = whose
        self._logged: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Log the progress, unless the last line is younger than the interval."""
        if self._logged is not None:
            is_unchanged = replace(self._logged, elapsed_s=progress.elapsed_s) == progress
            interval_s = _UNCHANGED_INTERVAL_S if is_unchanged else _INTERVAL_S
            if progress.elapsed_s - self._logged.elapsed_s < interval_s:
                return
        self._logged = progress
        log.info("%s: %s", self._whose, progress.describe())


log = logging.getLogger(__name__)

_CANCEL_INTERVAL_S = 0.2
_CANCEL_LIMIT_S = 60.0
_REMEMBERED_TAGS = 1000
_QUIET_S = 3.0
_LOOK_INTERVAL_S = 1.0


@dataclass(slots=True)
class RunningJob:
    """A job, with its session and its events.

    ``look`` returns the progress of the job, and is None before the job has progress to report. Another thread calls
    ``look``. ``interrupt`` stops the running Spark jobs. If ``interrupt`` is None, the session stops the Spark jobs.
    """

    session: SparkSession | None = None
    look: Callable[[], Progress | None] | None = None
    interrupt: Callable[[], None] | None = None
    began: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)


Work = Callable[[RunningJob], JobResult]


_counted: Counter[str] = Counter()
_counting = threading.Lock()


def count_jobs(cluster: str) -> int:
    """Return the number of jobs that all runners of this process run on a cluster now."""
    return _counted[cluster]


@contextmanager
def _counted_job(cluster: str) -> Iterator[None]:
    with _counting:
        _counted[cluster] += 1
    try:
        yield
    finally:
        with _counting:
            _counted[cluster] -= 1


class RunningJobs:
    """The jobs of one runner.

    Each job runs in a thread of its own, so that an interrupt of the caller does not break the connection to the JVM.
    """

    def __init__(self, quiet_s: float = _QUIET_S, interval_s: float = _LOOK_INTERVAL_S) -> None:
        """Create the object. A job is first reported after ``quiet_s`` seconds, then every ``interval_s`` seconds."""
        self._quiet_s = quiet_s
        self._interval_s = interval_s
        # A signal handler may call cancel() in the thread that holds the lock.
        self._lock = threading.RLock()
        self._running: dict[str, RunningJob] = {}
        self._cancelled: OrderedDict[str, None] = OrderedDict()

    def run(self, tag: str, cluster: str, work: Work, report: ProgressReport | None = None) -> JobResult:
        """Return the result of ``work``. If the caller is interrupted, the job is stopped first.

        ``report`` is called with the progress of a job that takes longer than a few seconds.

        Raises:
            JobCancelledError: :meth:`cancel` was called for the tag, before or while the job ran.
            HivexError: the job failed.
        """
        job = RunningJob()
        with self._lock:
            if tag in self._cancelled:
                raise JobCancelledError(cluster)
            self._running[tag] = job
        result: Future[JobResult] = Future()

        def run() -> None:
            job.began.set()
            try:
                if job.cancelled.is_set():
                    raise JobCancelledError(cluster)
                with _counted_job(cluster):
                    found = work(job)
                result.set_result(found)
            except BaseException as error:
                result.set_exception(error)
            finally:
                job.done.set()

        began = time.monotonic()
        context = copy_context()
        try:
            threading.Thread(target=context.run, args=(run,), name=f"hivex-job-{tag}", daemon=True).start()
            if report is not None and not wait([result], self._quiet_s).done:
                watch = partial(copy_context().run, self._watch, job, report, began)
                threading.Thread(target=watch, name=f"hivex-progress-{tag}", daemon=True).start()
            return result.result()
        except HivexError as error:
            if job.cancelled.is_set() and not isinstance(error, JobCancelledError):
                raise JobCancelledError(cluster) from error
            raise
        except BaseException:
            if not result.done():
                log.warning("Job %s was interrupted and is stopped", tag)
                self.cancel(tag)
            raise
        finally:
            with self._lock:
                del self._running[tag]

    def _watch(self, job: RunningJob, report: ProgressReport, began: float) -> None:
        """Report the progress of a job until its end. An error of the report does not stop the job."""
        while not job.done.wait(self._interval_s):
            try:
                progress = None if job.look is None else job.look()
                if progress is not None and not job.done.is_set():
                    report(replace(progress, elapsed_s=time.monotonic() - began))
            except Exception:
                log.debug("The progress of a job is not known", exc_info=True)

    def cancel(self, tag: str) -> None:
        """Stop the job with a tag, and wait at most a minute for its end. A job that has not begun never begins."""
        with self._lock:
            job = self._running.get(tag)
            self._cancelled[tag] = None
            if len(self._cancelled) > _REMEMBERED_TAGS:
                self._cancelled.popitem(last=False)
        if job is None:
            return
        job.cancelled.set()
        if not job.began.is_set():
            # The job never begins. A signal handler may run in the thread that would begin it, so do not wait.
            return
        # The interrupted thread may have an unfinished call to the JVM, and a thread has only one connection.
        stopping = threading.Thread(target=_stop, args=(job, tag), name=f"hivex-cancel-{tag}", daemon=True)
        stopping.start()
        stopping.join()


def _stop(job: RunningJob, tag: str) -> None:
    """Ask a job to stop until the job ends, because one request between two Spark jobs of a plan has no effect."""
    for _ in range(int(_CANCEL_LIMIT_S / _CANCEL_INTERVAL_S)):
        if job.interrupt is not None:
            job.interrupt()
        elif job.session is not None:
            # The session has imported pyspark already; two threads cannot import it at the same time.
            from airflow_hivex.core.job.job import cancel

            cancel(job.session, tag)
        if job.done.wait(_CANCEL_INTERVAL_S):
            return
    log.warning("Job %s was cancelled %s seconds ago and still runs", tag, _CANCEL_LIMIT_S)
