"""DataFrames of a user's SparkSession that jobs there read as temporary views."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.job import job
from airflow_hivex.core.job.assignment import quoted
from airflow_hivex.core.job.shared_rows import Kept
from airflow_hivex.core.runners.given import GivenRunner, check_session, session_of


def check_frame(value: object, name: str, what: str) -> None:
    """Refuse a value that is not a DataFrame of Spark, such as one of pandas.

    Raises:
        InvalidParametersError: ``value`` is not one. ``name`` is its name, and ``what`` takes it.
    """
    if not isinstance(value, DataFrame):
        package = type(value).__module__.partition(".")[0]
        type_name = type(value).__name__ if package == "builtins" else f"{package}.{type(value).__name__}"
        raise InvalidParametersError(
            f"{name} is a {type_name}, and {what} takes a DataFrame of Spark. spark.createDataFrame makes one of rows, "
            "of a DataFrame of pandas or of a table of pyarrow; values are given as parameters of :name markers."
        )


def common_session(frames: Sequence[DataFrame]) -> SparkSession | None:
    """Return the session that all DataFrames are of, None without any.

    Raises:
        InvalidParametersError: they are of several.
    """
    sessions = [session_of(rows) for rows in frames]
    for session in sessions:
        check_session(session)
    if len({_session_id(session) for session in sessions}) > 1:
        raise InvalidParametersError("The DataFrames of a statement are of several SparkSessions; make them in one.")
    return sessions[0] if sessions else None


def temporary_view_of(spark: SparkSession, name: str) -> DataFrame | None:
    """Return the rows of a temporary view of a session, or None."""
    session: Any = spark
    is_there = session._jsparkSession.sessionState().catalog().getTempView(name).isDefined()
    return spark.table(quoted(name)) if is_there else None


@contextmanager
def frame_views(
    spark: SparkSession, frames: Sequence[DataFrame], kept_ones: Sequence[bool]
) -> Iterator[tuple[list[str], GivenRunner]]:
    """Yield the names of views of DataFrames while the block runs, and a runner of jobs that read them.

    The rows of each of ``kept_ones`` are computed now, once for all places that read them.
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
