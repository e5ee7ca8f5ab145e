"""The progress of a job, from Spark's counts in the driver process, or from the reports of a Spark Connect server.

A driver on a cluster sends the progress to the client as lines of JSON.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from airflow_hivex.core.model.progress import Progress


class DriverProgress:
    """The progress of a job whose driver is this process: its numbers of stages, tasks, rows and bytes.

    The numbers are equal to those in Spark's web UI, and are available even if the web UI is disabled.
    """

    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._context: Any = spark.sparkContext
        self._tag = tag
        self._finished: dict[int, tuple[int, int, int]] = {}

    def look(self) -> Progress | None:
        """Return the current numbers, or None if Spark has not begun a job with the ``tag`` of this object.

        Raises:
            Py4JError, OSError: the driver does not answer.
        """
        context = self._context._jsc.sc()
        jobs = list(context.statusTracker().getJobIdsForTag(self._tag))
        if not jobs:
            return None
        store = context.statusStore()
        counts = dict.fromkeys(("stages", "stages_done", "tasks", "tasks_done", "tasks_running", "tasks_failed"), 0)
        stages: set[int] = set()
        for number in jobs:
            job = store.job(number)
            found = [int(each) for each in str(job.stageIds().mkString(",")).split(",") if each]
            stages.update(found)
            skipped = int(job.numSkippedStages())
            counts["stages"] += len(found) - skipped
            counts["stages_done"] += int(job.numCompletedStages())
            counts["tasks"] += int(job.numTasks()) - int(job.numSkippedTasks())
            counts["tasks_done"] += int(job.numCompletedTasks())
            counts["tasks_running"] += int(job.numActiveTasks())
            counts["tasks_failed"] += int(job.numFailedTasks())
        rows = [self._rows(store, number) for number in sorted(stages)]
        return Progress(
            **counts,
            rows_read=sum(each[0] for each in rows),
            rows_written=sum(each[1] for each in rows),
            bytes_read=sum(each[2] for each in rows),
            link=self._context.uiWebUrl,
        )

    def _rows(self, store: Any, number: int) -> tuple[int, int, int]:
        """Return the numbers of rows that a stage has read and written, and of bytes that the stage has read."""
        if number in self._finished:
            return self._finished[number]
        from py4j.protocol import Py4JJavaError

        try:
            stage = store.lastStageAttempt(number)
        except Py4JJavaError:
            # Spark forgets old stages of an application with many stages.
            return 0, 0, 0
        rows = int(stage.inputRecords()), int(stage.outputRecords()), int(stage.inputBytes())
        if str(stage.status()) == "COMPLETE":
            self._finished[number] = rows
        return rows


class ConnectProgress:
    """The progress of a job on a Spark Connect server, from the server's reports to the thread that runs the job.

    The server counts tasks and bytes, but not rows.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._operations: dict[str, Progress] = {}
        self._link: str | None = None
        self._has_link = False

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """In the block, count the server's reports to the current thread as progress of this job."""
        token = _counted.set(self)
        try:
            yield
        finally:
            _counted.reset(token)

    def look(self) -> Progress | None:
        """Return the last reported numbers, or None before the first report.

        The first call after a report also asks the server for the address of its web UI.
        """
        with self._lock:
            found = list(self._operations.values())
        if not found:
            return None
        if not self._has_link:
            self._link = _link(self._spark)
            self._has_link = True
        return Progress(
            stages=sum(each.stages for each in found),
            stages_done=sum(each.stages_done for each in found),
            tasks=sum(each.tasks for each in found),
            tasks_done=sum(each.tasks_done for each in found),
            tasks_running=sum(each.tasks_running for each in found),
            bytes_read=sum(each.bytes_read or 0 for each in found),
            link=self._link,
        )

    def count(self, operation_id: str, progress: Progress) -> None:
        """Store the counts of one operation of the job."""
        with self._lock:
            self._operations[operation_id] = progress


_counted: ContextVar[ConnectProgress | None] = ContextVar("_counted", default=None)


def count_reports(spark: Any) -> None:
    """Have a new session of Spark Connect pass its server's reports to :class:`ConnectProgress`."""
    spark.registerProgressHandler(_on_report)


def _on_report(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
    """Store the numbers of a server's report as the progress of the current thread's job.

    Spark calls this function in the thread of the job. An error here would end the job, so the function raises none.
    """
    counted = _counted.get()
    found = list(stages or ())
    if counted is None or not found:
        return
    counted.count(
        operation_id or "",
        Progress(
            stages=len(found),
            stages_done=len(found) if done else sum(1 for stage in found if stage.done),
            tasks=sum(stage.num_tasks for stage in found),
            tasks_done=sum(stage.num_tasks if done else stage.num_completed_tasks for stage in found),
            tasks_running=0 if done else inflight_tasks,
            bytes_read=sum(stage.num_bytes_read for stage in found),
        ),
    )


def _link(spark: SparkSession) -> str | None:
    """Return the address of the server's web UI, or None if it is disabled, or its host or port is not configured."""
    conf: Any = spark.conf
    host, port = conf.get("spark.driver.host", None), conf.get("spark.ui.port", None)
    if conf.get("spark.ui.enabled", "true") != "true" or not host or not port or port == "0":
        return None
    return f"http://{host}:{port}"


def to_json(progress: Progress) -> str:
    """Return counts as one line of JSON."""
    return json.dumps(asdict(progress))


def from_json(text: str) -> Progress:
    """Return the counts in a line of JSON. Names that this release does not know are ignored.

    Raises:
        ValueError: the line was not made by :func:`to_json`.
    """
    found = json.loads(text)
    if not isinstance(found, Mapping):
        raise ValueError(f"{text[:100]!r} is not the progress of a job")
    known = Progress.__dataclass_fields__
    try:
        return Progress(**{name: value for name, value in found.items() if name in known})
    except TypeError as error:
        raise ValueError(f"{text[:100]!r} is not the progress of a job") from error
