"""The driver of one client: a process, started by spark-submit, that runs the client's plans on a cluster.

It connects to the socket of its client, reports whether it has the client's files, starts Spark, and then runs each
plan that arrives. The driver ends with its client: when the stream of messages ends, the jobs and the application on
the cluster end within seconds, and the files of these jobs are not registered.

Spark's Java process has started this process. If one of the two processes ends, the other ends, too.
"""

from __future__ import annotations

import base64
import os
import pickle
import re
import shutil
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hivex.core.errors import ClusterUnreachableError, JobError
from airflow_hivex.core.job import channel, documents, storage
from airflow_hivex.core.job.channel import Channel
from airflow_hivex.core.model.plans import Plan

if TYPE_CHECKING:
    from airflow_hivex.core.job.progress import DriverProgress

_LOOK_INTERVAL_S = 0.5
_JAVA_LIMIT_S = 20.0
_QUIET_S = 2.0
"""The age in seconds from which on a job's progress is sent to the client.

The client reports progress only for jobs that take longer than three seconds.
"""
_MOST_SESSIONS = 64
_PORT = re.compile(r":\d+\Z")
_LOST = "the cluster has ended the application of this client; run it again"
_QUIET = "FATAL"
"""The default level of Spark's log once Spark runs. At ERROR the log would have the stack of each failed task."""


def main() -> None:
    """Run the plans of the client that listens at a socket."""
    address, expected, log_level = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    _Driver(Channel(connection), Path(address).parent).serve(expected, log_level)


class _Driver:
    def __init__(self, channel: Channel, folder: Path) -> None:
        self._channel = channel
        self._folder = folder
        self._java = os.getppid()
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._spark: Any = None
        self._sessions: dict[str, Any] = {}
        self._hosts: list[str] = []
        self._running: dict[str, tuple[float, DriverProgress]] = {}

    def serve(self, expected: str, log_level: str) -> None:
        """Run plans until the client has ended."""
        problem = channel.problem_with(expected)
        if problem is not None:
            self._channel.send("refused", reason=problem)
            self._end()
        # Also while Spark starts, which may take as long as the cluster is busy.
        threading.Thread(target=self._receive, name="hivex-messages", daemon=True).start()
        self._start(log_level)
        self._watch()

    def _start(self, log_level: str) -> None:
        from pyspark.sql import SparkSession

        try:
            self._spark = spark = SparkSession.builder.getOrCreate()
        except Exception as error:
            self._channel.send("failed", document=documents.error_to_json(_start_error(error), error))
            self._end()
        context: Any = spark.sparkContext
        context.setLogLevel(log_level or _QUIET)
        self._channel.send("started", application=context.applicationId, ui=context.uiWebUrl, version=spark.version)

    def _watch(self) -> None:
        """Report executors and the progress of jobs to the client, and end with the Java process."""
        before: tuple[int, list[str]] | None = None
        while True:
            # No event reports the end of a parent, nor the progress of jobs.
            time.sleep(_LOOK_INTERVAL_S)
            if os.getppid() != self._java:
                self._end()
            found = self._executors()
            if found != before:
                self._send("executors", count=found[0], hosts=found[1])
                before = found
            for tag, (began, progress) in list(self._running.items()):
                if time.monotonic() - began > _QUIET_S:
                    self._report(tag, progress)

    def _report(self, tag: str, progress: DriverProgress) -> None:
        with suppress(Exception):
            # An error here does not stop the job.
            found = progress.look()
            if found is not None:
                self._send("progress", tag=tag, counts=asdict(found))

    def _executors(self) -> tuple[int, list[str]]:
        """Return the current number of the driver's executors, 0 after the end of its application, and their hosts."""
        count = 0
        with suppress(Exception):
            context = self._spark.sparkContext._jsc.sc()
            count = int(context.getExecutorIds().size())
            if count != len(self._hosts):
                # Spark lists an executor a moment after it has counted the executor, and at first without a port.
                listed = context.statusStore().executorList(True)
                executors = [listed.apply(number) for number in range(listed.size())]
                self._hosts = [_PORT.sub("", each.hostPort()) for each in executors if each.id() != "driver"]
        return count, sorted(set(self._hosts))

    def _receive(self) -> None:
        for message in self._channel.messages():
            work = self._run if message["kind"] == "run" else self._cancel
            threading.Thread(target=work, args=(message,), name=f"hivex-{message['tag']}", daemon=True).start()
        self._end()

    def _run(self, message: dict[str, Any]) -> None:
        from airflow_hivex.core.job import job

        for root, filesystem in message["filesystems"].items():
            # The document comes from the client, which has started this process as the same user.
            storage.use_for(root, partial(pickle.loads, base64.b64decode(filesystem)))
        with self._lock:
            spark = self._sessions.get(message["session"])
            if spark is None:
                spark = self._sessions[message["session"]] = self._spark.newSession()
                if len(self._sessions) > _MOST_SESSIONS:
                    del self._sessions[next(iter(self._sessions))]
        tag = message["tag"]
        self._running[tag] = time.monotonic(), job.progress_of(spark, tag)
        try:
            result = job.run(spark, message["plan"])
        finally:
            del self._running[tag]
        has_ended = self._application_has_ended()
        if has_ended and documents.is_error(result):
            result = documents.error_to_json(ClusterUnreachableError("", _LOST))
        self._send("result", tag=tag, document=result, lost=has_ended)

    def _application_has_ended(self) -> bool:
        """Return whether the cluster has ended this application. If the Java process has ended, end this process."""
        from py4j.protocol import Py4JError

        context: Any = self._spark.sparkContext
        try:
            return context._jsc is None or bool(context._jsc.sc().isStopped())
        except (Py4JError, OSError):
            # The watch notices the end in a moment. The end of the stream reports it to the client.
            threading.Event().wait()
            raise

    def _cancel(self, message: dict[str, Any]) -> None:
        from airflow_hivex.core.job import job

        if self._spark is not None:
            with suppress(Exception):
                job.cancel(self._spark, message["tag"])

    def _send(self, kind: str, **content: Any) -> None:
        with suppress(OSError):
            # The client has ended; the thread that receives its messages ends this process.
            self._channel.send(kind, **content)

    def _end(self) -> None:
        """End this process and its Java process, and with it the application and its executors."""
        self._ending.acquire()
        self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        end = time.monotonic() + _JAVA_LIMIT_S
        number = signal.SIGTERM
        while os.getppid() == self._java:
            os.kill(self._java, number)
            number = signal.SIGTERM if time.monotonic() < end else signal.SIGKILL
            # A process can wait for its children only, not for its parent.
            time.sleep(_LOOK_INTERVAL_S)
        os._exit(1)


def _start_error(error: Exception) -> JobError:
    """Return the JobError for an error at the start of Spark."""
    from airflow_hivex.core.job.failures import as_error

    text = str(error)
    if "stopped while waiting" in text or "stopped SparkContext" in text or "SparkContext was shut down" in text:
        return ClusterUnreachableError("", "the cluster did not take the application of this client; run it again")
    found = as_error(error, Plan("", "", ""))
    kind = type(found) if isinstance(found, JobError) else JobError
    return kind("", f"Spark did not start: {found.facts[-1]}")
