"""Jobs in this process, for clusters whose job tracker is ``local[...]``.

A process has one Spark for all such clusters, which differ only in their file systems. The first job starts Spark.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.errors import HivexError, JobCancelledError, JobError
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.runners import java, pyspark_packages
from airflow_hivex.core.runners.java import check_java
from airflow_hivex.core.runners.kept_sessions import kept_session
from airflow_hivex.core.runners.running_jobs import RunningJob, RunningJobs
from airflow_hivex.core.runners.submission import counts_at_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_DRIVER_MEMORY = "2g"
_START_INTERVAL_S = 0.1
_END_LIMIT_S = 2.0


class LocalRunner:
    """A runner of plans on the Spark of this process. Several threads are allowed to run plans at the same time."""

    def __init__(self, master: str) -> None:
        self._master = master
        self._jobs = RunningJobs()

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan; see ``runners.Runner``.

        Raises:
            AnalysisError: Spark refuses the statement, or the columns of an INSERT.
            JobCancelledError: :meth:`cancel` was called for the plan's tag, before or while the job ran.
            JobError: any other failure, such as an overflow, or a missing Java; no rows were written.
        """
        from airflow_hivex.core.job import documents

        document = documents.plan_to_json(plan)
        return self._jobs.run(plan.tag, cluster, lambda running: self._run(document, plan, cluster, running), report)

    def _run(self, document: str, plan: Plan, cluster: str, running: RunningJob) -> JobResult:
        running.session = _SPARK.session(self._master, plan, cluster, running.cancelled)
        if running.cancelled.is_set():
            raise JobCancelledError(cluster)
        from airflow_hivex.core.job import documents, job
        from airflow_hivex.core.runners import jvm

        running.look = job.progress_of(running.session, plan.tag).look
        try:
            return documents.result_from_json(job.run(running.session, document), cluster)
        except HivexError as error:
            if running.cancelled.is_set():
                raise
            # A Java process without a connection may need a moment to end.
            if isinstance(error, JobError) and jvm.has_ended(_END_LIMIT_S if _is_disconnected(error) else 0):
                raise jvm.end_as_error(cluster) from None
            raise

    def cancel(self, tag: str) -> None:
        """Stop the job with a tag, and wait at most a minute for its end. A job that has not begun never begins."""
        self._jobs.cancel(tag)

    def health(self, cluster: str) -> Health:
        """Return whether Spark runs in this process or, because Java is installed, can start."""
        if not _SPARK.has_started() and not _is_started_by_others():
            try:
                check_java(cluster)
            except JobError as error:
                return Health(error)
        return Health(version=pyspark_packages.release())


class _ProcessSpark:
    """The Spark of this process, with one session for each configuration."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: Future[SparkSession] | None = None
        self._process = os.getpid()
        self._sessions: dict[tuple[object, ...], SparkSession] = {}

    def session(self, master: str, plan: Plan, cluster: str, cancelled: threading.Event) -> SparkSession:
        """Return a session for jobs with the configuration and prelude of the plan. Start Spark if necessary.

        Raises:
            JobCancelledError: ``cancelled`` was set while Spark started. The start continues for other jobs.
            SparkProcessError: the process of Spark has ended during its start.
        """
        if self._base is not None and self._process != os.getpid():
            raise JobError(cluster, "Spark was started before this process was forked; start it in the child alone")
        with self._lock:
            if self._base is None or (self._base.done() and not _is_alive(self._base)):
                self._process = os.getpid()
                self._sessions.clear()
                self._base = self._start(master, plan.spark_conf, cluster)
            base = self._base
        while not wait([base], _START_INTERVAL_S).done:
            if cancelled.is_set():
                raise JobCancelledError(cluster)
        started = base.result()
        with self._lock:
            key = base, plan.session_key
            return kept_session(self._sessions, key, started.newSession)

    def has_started(self) -> bool:
        """Return whether this process has ever started Spark."""
        base = self._base
        return base is not None and self._process == os.getpid() and base.done() and base.exception() is None

    def _start(self, master: str, conf: Mapping[str, str], cluster: str) -> Future[SparkSession]:
        """Start Spark in a daemon thread, so that the process can end even if the start of Spark hangs."""
        starting: Future[SparkSession] = Future()

        def run() -> None:
            try:
                starting.set_result(_start(master, conf, cluster))
            except BaseException as error:
                starting.set_exception(error)

        threading.Thread(target=run, name="hivex-spark-start", daemon=True).start()
        return starting


_SPARK = _ProcessSpark()


def _is_started_by_others() -> bool:
    """Return whether other code of this process has started Spark, which jobs must then share."""
    pyspark: Any = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def _is_alive(started: Future[SparkSession]) -> bool:
    from py4j.protocol import Py4JError

    from airflow_hivex.core.runners import jvm

    if started.exception() is not None:
        return False
    context: Any = started.result().sparkContext
    if context._jsc is None or jvm.has_ended():
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError):
        return False


def _is_disconnected(error: JobError) -> bool:
    return any(
        word in str(error) for word in ("Answer from Java side is empty", "ConnectionRefusedError", "Py4JNetwork")
    )


def _start(master: str, conf: Mapping[str, str], cluster: str) -> SparkSession:
    check_java(cluster)
    pyspark_packages.check(cluster)
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from airflow_hivex.core.runners import jvm

    if jvm.has_ended():
        jvm.forget()
    if SparkContext._active_spark_context is not None:
        log.info("Using the Spark that runs in this process already")
        return SparkSession.builder.getOrCreate()
    log.info("Starting Spark on %s", master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # SQL configuration would apply to every cluster here; a job sets its own in its session.
    own = {key: value for key, value in conf.items() if counts_at_start(key)}
    try:
        with _utf8_locale():
            return jvm.start(master, {**_start_conf(master), **own}, cluster)
    except (PySparkException, Py4JError, OSError) as error:
        if jvm.has_ended(_END_LIMIT_S):
            raise jvm.end_as_error(cluster) from error
        raise JobError(cluster, f"Spark did not start: {error}") from error


@contextmanager
def _utf8_locale() -> Iterator[None]:
    """Set a locale of UTF-8 while Spark's JVM starts, so that the JVM uses file names in UTF-8.

    With another locale Java cannot create or find the directory of a partition such as ``city=Zürich``.
    """
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    effective = next((os.environ[name] for name in names if os.environ.get(name)), "")
    if effective.lower().replace("-", "").endswith("utf8"):
        yield
        return
    before = os.environ.get("LC_ALL")
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        if before is None:
            del os.environ["LC_ALL"]
        else:
            os.environ["LC_ALL"] = before


def _start_conf(master: str) -> dict[str, str]:
    cores = re.search(r"\[(\d+)", master)
    count = int(cores[1]) if cores else (os.cpu_count() or 1) if "*" in master else 1
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # At ERROR each failed task would log its whole stack; the error that we raise has the cause in a line.
        "spark.log.level": "FATAL",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": _DRIVER_MEMORY,
        # ORC's timestamps are local times of the JVM.
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {java.options_to_use()}".rstrip(),
        "spark.sql.warehouse.dir": _warehouse_folder(),
        "spark.sql.shuffle.partitions": str(2 * count),
        "spark.sql.adaptive.enabled": "true",
    }


@cache
def _warehouse_folder() -> str:
    """Return a private folder for the tables of Spark's own catalog, which is deleted when the process ends.

    The name of the folder is random, so that no other user can create the folder first.
    """
    folder = tempfile.mkdtemp(prefix="hivex-spark-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
