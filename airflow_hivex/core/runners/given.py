"""Jobs in a SparkSession of the user, as in a notebook. The jobs read and write DataFrames of this session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.util import inheritable_thread_target

from airflow_hivex.core.errors import (
    InvalidObjectError,
    InvalidOperationError,
    InvalidParametersError,
    InvalidTypeError,
    JobError,
)
from airflow_hivex.core.job import documents, job
from airflow_hivex.core.job.assignment import quoted
from airflow_hivex.core.job.functions import is_connect
from airflow_hivex.core.job.shared_rows import Kept, KeptRowsLostError
from airflow_hivex.core.job.view_queries import type_text
from airflow_hivex.core.model.clusters import Health
from airflow_hivex.core.model.column_types import parse_type
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.model.progress import ProgressReport
from airflow_hivex.core.runners.running_jobs import RunningJob, RunningJobs

Frame: TypeAlias = DataFrame
GivenSession: TypeAlias = SparkSession


class GivenRunner:
    """A runner of plans in a SparkSession of the user.

    A job sets the SQL configuration of the session while it runs.
    """

    def __init__(self, spark: SparkSession, views: Sequence[str] = (), kept: Kept | None = None) -> None:
        """Create the runner.

        ``views`` are temporary views of the session that plans are allowed to read. ``kept`` has the DataFrames whose
        rows are computed once. A result is refused if an executor with such rows was lost.
        """
        self._spark = spark
        self._views = tuple(views)
        self._kept = kept
        self._jobs = RunningJobs()

    def run(self, plan: Plan, cluster: str, report: ProgressReport | None = None) -> JobResult:
        """Return the result of a plan; see ``runners.Runner``."""
        document = documents.plan_to_json(plan)
        run = self._as_in_this_thread(lambda: job.run(self._spark, document, is_shared=True, views=self._views))

        def work(running: RunningJob) -> JobResult:
            running.session = self._spark
            if not is_connect(self._spark):
                running.look = job.progress_of(self._spark, plan.tag).look
            result = documents.result_from_json(run(), cluster)
            self._check_kept(cluster)
            return result

        return self._jobs.run(plan.tag, cluster, work, report)

    def cancel(self, tag: str) -> None:
        """Stop the running job with a plan's tag, if there is one."""
        self._jobs.cancel(tag)

    def health(self, cluster: str) -> Health:  # noqa: ARG002 - it is the same for all
        """Return whether jobs can run. Jobs can run until the user stops the session."""
        if _is_stopped(self._spark):
            return Health(_stopped())
        return Health(version=self._spark.version)

    def _check_kept(self, cluster: str) -> None:
        """Refuse a result whose rows can have been computed twice.

        Raises:
            JobError: an executor with kept rows was lost.
        """
        try:
            if self._kept is not None:
                self._kept.check()
        except KeptRowsLostError as error:
            reason = "an executor was lost that held rows of a DataFrame that the statement reads several times"
            raise JobError(cluster, f"{reason}; run it again") from error

    def _as_in_this_thread(self, work: Callable[[], str]) -> Callable[[], str]:
        """Return ``work`` for another thread, to run there with the pool, job group and tags of this thread."""
        inheriting: object = inheritable_thread_target(self._spark)
        if inheriting is self._spark:
            # Without pinned threads there is nothing to inherit.
            return work
        return cast("Callable[[Callable[[], str]], Callable[[], str]]", inheriting)(work)


def check_session(spark: SparkSession) -> None:
    """Refuse a session of Spark Connect, and a stopped session.

    A server of Spark Connect resolves the views of a query when the rows are computed, after the views of the plan were
    dropped.

    Raises:
        InvalidOperationError: the session is a session of Spark Connect, or is stopped.
    """
    if is_connect(spark):
        raise InvalidOperationError(
            "A DataFrame of a table in",
            "a session of Spark Connect",
            "it needs a SparkSession whose Spark runs in this process; run statements with session.sql on a cluster "
            "with jobtracker sc://host:port",
        )
    if _is_stopped(spark):
        raise _stopped()


def _is_stopped(spark: SparkSession) -> bool:
    # PySpark forgets the context of Java when the session or the context is stopped.
    return not is_connect(spark) and spark.sparkContext._jsc is None


def _stopped() -> InvalidOperationError:
    reason = "it was stopped; make a new one, and call session.warehouse with it"
    return InvalidOperationError("A job in", "the SparkSession of the warehouse", reason)


def frame(spark: SparkSession, plan: Plan, views: Sequence[str] = ()) -> DataFrame:
    """Return a DataFrame of a plan's query, which computes the rows on use. For ``views`` see :class:`GivenRunner`.

    Raises:
        AnalysisError: Spark refuses the query.
    """
    return job.frame(spark, plan, views)


def session_of(rows: DataFrame) -> SparkSession:
    """Return the session of a DataFrame. A micro-batch of a stream has a clone of the user's session."""
    return rows.sparkSession


def columns_of(rows: DataFrame) -> tuple[Column, ...]:
    """Return the columns of a DataFrame with their types.

    Raises:
        InvalidObjectError: a table cannot have the type of a column.
    """
    found = []
    for field in rows.schema.fields:
        text = type_text(field.dataType)
        try:
            found.append(Column(field.name, str(parse_type(text))))
        except InvalidTypeError as error:
            reason = f"the DataFrame has it with type {text}, which tables do not have; convert it to another type"
            raise InvalidObjectError("column", field.name, reason) from error
    return tuple(found)


@contextmanager
def temporary_view(rows: DataFrame, columns: Sequence[str]) -> Iterator[str]:
    """Yield the name of a temporary view of ``rows``, which exists during the block.

    ``columns`` has an expression of Spark SQL for each column of the view.
    """
    view = f"hivex_frame_{uuid.uuid4().hex}"
    rows.selectExpr(*columns).createTempView(view)
    try:
        yield view
    finally:
        job.drop_views(rows.sparkSession, [view])


def check_frame(value: object, name: str, what: str) -> None:
    """Refuse a value that is not a DataFrame of Spark, such as a DataFrame of pandas.

    Args:
        value: the value.
        name: the name of the argument, for the error.
        what: the call that takes the argument, for the error.

    Raises:
        InvalidParametersError: the value is not a DataFrame of Spark.
    """
    if not isinstance(value, DataFrame):
        package = type(value).__module__.partition(".")[0]
        type_name = type(value).__name__ if package == "builtins" else f"{package}.{type(value).__name__}"
        raise InvalidParametersError(
            f"{name} is a {type_name}, and {what} takes a DataFrame of Spark. spark.createDataFrame makes one of rows, "
            "of a DataFrame of pandas or of a table of pyarrow; values are given as parameters of :name markers."
        )


def common_session(frames: Sequence[DataFrame]) -> SparkSession | None:
    """Return the common session of DataFrames, or None if there is no DataFrame.

    Raises:
        InvalidParametersError: the DataFrames have different sessions.
        InvalidOperationError: see :func:`check_session`.
    """
    sessions = [session_of(rows) for rows in frames]
    for session in sessions:
        check_session(session)
    if len({_session_id(session) for session in sessions}) > 1:
        raise InvalidParametersError("The DataFrames of a statement are of several SparkSessions; make them in one.")
    return sessions[0] if sessions else None


def temporary_view_of(spark: SparkSession, name: str) -> DataFrame | None:
    """Return a temporary view of a session as a DataFrame, or None if the view does not exist."""
    session: Any = spark
    is_there = session._jsparkSession.sessionState().catalog().getTempView(name).isDefined()
    return spark.table(quoted(name)) if is_there else None


@contextmanager
def frame_views(
    spark: SparkSession, frames: Sequence[DataFrame], kept_ones: Sequence[bool]
) -> Iterator[tuple[list[str], GivenRunner]]:
    """Create views of DataFrames for the block. Yield a pair: the names of the views, and a runner for jobs on them.

    ``kept_ones`` has True for each DataFrame whose rows are computed once, now, for all readers.
    """
    views: list[str] = []
    with Kept(spark) as kept:
        try:
            for rows, is_kept in zip(frames, kept_ones, strict=True):
                view = f"hivex_frame_{uuid.uuid4().hex}"
                (_filled(kept, rows) if is_kept else rows).createTempView(view)
                views.append(view)
            yield views, GivenRunner(spark, views, kept if any(kept_ones) else None)
        finally:
            job.drop_views(spark, views)


def _filled(kept: Kept, rows: DataFrame) -> DataFrame:
    own = kept.keep(rows)
    own.count()
    kept.check()
    return own


def _session_id(spark: SparkSession) -> str:
    session: Any = spark
    return str(session._jsparkSession.sessionUUID())
