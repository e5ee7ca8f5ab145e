"""Jobs on a Spark Connect server, for clusters whose job tracker is ``sc://host:port``.

This process is a thin client: it needs no Java, and starts in a second. One session of the server runs all jobs of this
process that have the same configuration. The code of this package is sent with the tasks. The client moves written
files to their places, so this machine must have the file system of the cluster under the same URI.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_hivex.core.errors import ClusterUnreachableError, HivexError, JobCancelledError, JobError
from airflow_hivex.core.errors.secrets import hide_in_uri
from airflow_hivex.core.model.clusters import ANSWER_TIMEOUT_S, Health
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.model.writes import ResumableWrite, ServerOperation
from airflow_hivex.core.runners import connect_server, pyspark_packages
from airflow_hivex.core.runners.connect_operations import ConnectOperation, is_known
from airflow_hivex.core.runners.connect_watch import ConnectWatch, answered_release, ask
from airflow_hivex.core.runners.kept_sessions import kept_session
from airflow_hivex.core.runners.masters import ANSWER_LIMIT_S, split_address
from airflow_hivex.core.runners.running_jobs import RunningJob, RunningJobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SILENCE_S = 60.0
"""The longest time in seconds without an answer from a server that runs a job."""
_RETRIES: dict[str, Any] = {"max_retries": 8, "max_backoff": 2000}
"""The retries after a lost connection, for a dozen seconds; pyspark's own default is ten minutes."""

_Key = tuple[tuple[str, str], ...]


class ConnectRunner:
    """A runner of plans on one Spark Connect server. Several threads are allowed to run plans at the same time."""

    def __init__(self, url: str, silence_s: float = SILENCE_S, patience_s: float = ANSWER_TIMEOUT_S) -> None:
        """Create the runner. ``silence_s`` is the longest time without an answer from a server that runs a job."""
        self._url = url
        self.patience_s = patience_s
        """The longest time in seconds for the first answer of a server that accepts connections."""
        self._silence_s = silence_s
        self._jobs = RunningJobs()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._sessions: dict[_Key, SparkSession] = {}
        self._left: list[tuple[str, str]] = []

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan; see ``runners.Runner``.

        Raises:
            AnalysisError: Spark refuses the statement, or the columns of an INSERT.
            JobCancelledError: :meth:`cancel` was called for the plan's tag, before or while the job ran.
            ClusterUnreachableError: the server does not answer, or ended while the job ran; no rows were written.
            JobError: any other failure, such as an overflow, or a server of another release of Spark.
        """
        return self._submit(plan, cluster, None, report)

    def run_resumable(
        self, plan: Plan, cluster: str, write: ResumableWrite, report: ProgressReport | None = None
    ) -> JobResult:
        """Return the result of a plan whose write another process can continue; see ``ResumingRunner``.

        Raises:
            WriteTakenBackError: another process has taken over the write. The files of the write are unchanged.
            HivexError: for the reasons of :meth:`run`.
        """
        return self._submit(plan, cluster, write, report)

    def _submit(
        self, plan: Plan, cluster: str, write: ResumableWrite | None, report: ProgressReport | None
    ) -> JobResult:
        with _libraries(cluster):
            from airflow_hivex.core.job import documents

            document = documents.plan_to_json(plan)

        def work(running: RunningJob) -> JobResult:
            return self._run(document, plan, cluster, running, write)

        return self._jobs.run(plan.tag, cluster, work, report)

    def _run(
        self, document: str, plan: Plan, cluster: str, running: RunningJob, write: ResumableWrite | None
    ) -> JobResult:
        session = self._session(plan, cluster)
        watch = ConnectWatch(session, self._silence_s)
        operation = None if write is None else ConnectOperation(session, write)

        def interrupt() -> None:
            watch.interrupt(plan.tag)
            if operation is not None:
                operation.interrupt()

        running.interrupt = interrupt
        running.session = session
        if running.cancelled.is_set():
            raise JobCancelledError(cluster)
        from airflow_hivex.core.job import documents, job
        from airflow_hivex.core.job.progress import ConnectProgress

        progress = ConnectProgress(session)
        running.look = progress.look
        try:
            with progress.of_this_thread(), watch.watching():
                save = None if operation is None else operation.save
                result = job.run(session, document, save=save)
            if operation is not None and operation.refused is not None:
                raise operation.refused
            return documents.result_from_json(result, cluster)
        except HivexError as error:
            if watch.lost is not None or isinstance(error, ClusterUnreachableError):
                # The next job makes a new session, whether the server was away or only the session has ended.
                self._forget(session)
            if watch.lost is not None:
                self._leave(session)
                raise ClusterUnreachableError(cluster, f"{watch.lost}{_nothing_written(plan)}") from error
            raise

    def cancel(self, tag: str) -> None:
        """Stop the job with a tag, and wait at most a minute for its end. A job that has not begun never begins."""
        self._jobs.cancel(tag)

    def has_operation(self, operation: ServerOperation, cluster: str) -> bool:
        """Return whether the server runs an operation, or has just completed it."""
        with _libraries(cluster):
            import grpc
            from pyspark.sql.connect.client.core import DefaultChannelBuilder
            from pyspark.sql.connect.proto import base_pb2_grpc
        builder = DefaultChannelBuilder(connect_server.with_token(self._url))
        try:
            with builder.toChannel() as channel:
                stub: Any = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
                return is_known(stub, operation, timeout=ANSWER_LIMIT_S, metadata=list(builder.metadata()))
        except grpc.RpcError as error:
            log.debug("Whether operation %s runs on %s is not known: %s", operation.operation_id, cluster, error)
            return False

    def health(self, cluster: str) -> Health:
        """Return whether the server answers and has the release of this client.

        The call takes 15 seconds at most if the server accepts no connection.
        """
        try:
            return Health(version=self._release(cluster))
        except HivexError as error:
            return Health(error)

    def _release(self, cluster: str) -> str:
        """Return the release of the server's Spark.

        Raises:
            ClusterUnreachableError: the server does not answer in time.
            JobError: the server has another release than this client, the libraries of the client are missing, or the
                server refuses the call.
        """
        with _libraries(cluster):
            import grpc
            import pyspark
            from pyspark.sql.connect.client.core import DefaultChannelBuilder
            from pyspark.sql.connect.proto import base_pb2_grpc
        builder = DefaultChannelBuilder(connect_server.with_token(self._url))
        address = split_address(urlsplit(self._url).netloc, connect_server.DEFAULT_PORT)
        user = builder.userId or os.environ.get("USER") or ""
        try:
            with builder.toChannel() as channel:
                stub: Any = base_pb2_grpc.SparkConnectServiceStub(channel)  # type: ignore[no-untyped-call]
                metadata: dict[str, Any] = {"metadata": list(builder.metadata())}
                server = answered_release(stub, user, address, self.patience_s, **metadata)
                self._release_left(stub, {"timeout": ANSWER_LIMIT_S, **metadata})
        except ConnectionError as error:
            raise ClusterUnreachableError(
                cluster,
                f"no Spark Connect server takes a connection at {hide_in_uri(self._url)}; start it, or mend the "
                "jobtracker",
            ) from error
        except grpc.RpcError as error:
            raise self._refusal(error, cluster) from error
        if server != pyspark.__version__:
            raise JobError(
                cluster,
                f"the Spark Connect server at {hide_in_uri(self._url)} runs Spark {server}, and this client has "
                f"pyspark {pyspark.__version__}. Install the server's release here, or start a server of this one",
            )
        return server

    def _refusal(self, error: Any, cluster: str) -> JobError:
        shown, state = hide_in_uri(self._url), error.code().name
        if state in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            return JobError(cluster, f"the Spark Connect server at {shown} refuses the token of its jobtracker")
        if state == "DEADLINE_EXCEEDED":
            return ClusterUnreachableError(
                cluster,
                f"the Spark Connect server at {shown} takes connections, and has not answered for {self.patience_s:g} "
                "s. If it has just started, repeat the statement, or raise hivex.cluster.answer.timeout; if it hangs, "
                "restart it",
            )
        return ClusterUnreachableError(
            cluster, f"no Spark Connect server answers at {shown} ({error.details()}); start it, or mend the jobtracker"
        )

    def _session(self, plan: Plan, cluster: str) -> SparkSession:
        """Return a session that the server knows, for jobs with the configuration and prelude of the plan.

        Raises:
            ClusterUnreachableError: the server does not answer.
            JobError: see :meth:`_release`.
        """
        key = plan.session_key
        with self._lock:
            if self._process != os.getpid():
                # A connection does not survive a fork.
                self._process = os.getpid()
                self._sessions.clear()
            session = self._sessions.get(key)
            if session is None or not _is_alive(session):
                self._release(cluster)
                self._sessions.pop(key, None)
            return kept_session(self._sessions, key, lambda: _new_session(connect_server.with_token(self._url)))

    def _leave(self, session: Any) -> None:
        """Remember a session whose server did not answer, because the session's job can still run on the server."""
        with self._lock:
            self._left.append((session.client._session_id, session.client._user_id or ""))

    def _release_left(self, stub: Any, limits: Mapping[str, Any]) -> None:
        """End the sessions that could not be ended while the server did not answer. Their jobs end, too."""
        from pyspark.sql.connect.proto import base_pb2

        while self._left:
            session_id, user = self._left.pop()
            context = base_pb2.UserContext(user_id=user)
            stub.ReleaseSession(base_pb2.ReleaseSessionRequest(session_id=session_id, user_context=context), **limits)

    def _forget(self, session: SparkSession) -> None:
        with self._lock:
            self._sessions = {key: each for key, each in self._sessions.items() if each is not session}


def _new_session(url: str) -> SparkSession:
    """Return a new session, made without pyspark's builder, which would turn the whole process to Spark Connect."""
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    from airflow_hivex.core.job.progress import count_reports

    # This logger writes each error of the server with its whole stack; our error has the message in a sentence.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)
    session: Any = SparkSession(connection=url)
    # At exit it would clear a cache of models at the server, in a thread that cannot start any more: a process with a
    # slow server would then wait for ever.
    atexit.unregister(session.client._on_exit)
    session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
    count_reports(session)
    return session  # type: ignore[no-any-return]


def _is_alive(session: Any) -> bool:
    """Return whether the server knows a session. The call waits only a short time for an answer."""
    import grpc

    if session.client.is_closed:
        return False
    try:
        ask(session, ANSWER_LIMIT_S)
    except (grpc.RpcError, ValueError):
        # The connection of the session may be closed.
        return False
    return True


def _nothing_written(plan: Plan) -> str:
    tables = ", ".join(dict.fromkeys(write.table for write in plan.writes))
    return f". Nothing was written to {tables}." if tables else ""


@contextmanager
def _libraries(cluster: str) -> Iterator[None]:
    """Turn an ImportError in the block into a JobError with a remedy. The block imports the client of Spark Connect.

    Raises:
        JobError: a library is missing, or the files of pyspark do not belong to its package.
    """
    pyspark_packages.check(cluster)
    try:
        yield
    except ImportError as error:
        raise JobError(
            cluster,
            f"the client of Spark Connect lacks a library ({error}). Install it: pip install airflow-provider-hivex",
        ) from error
