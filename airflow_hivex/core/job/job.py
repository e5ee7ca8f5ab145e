"""The job: one plan document in, one result document out, on any Spark session.

This module and its imports are sent to a cluster unchanged. They need only the standard library, pyspark and pyarrow.
The job needs no access to the JVM, so Spark Connect can run it, too.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import HivexError, InvalidOperationError, JobError
from airflow_hivex.core.job import (
    compactions,
    documents,
    file_copies,
    loaded_files,
    originals,
    preludes,
    root_checks,
    row_changes,
    scans,
    view_queries,
    writes,
)
from airflow_hivex.core.job.configuration import configure, configured
from airflow_hivex.core.job.failures import as_error, with_table_names
from airflow_hivex.core.job.functions import functions_of, is_connect
from airflow_hivex.core.job.progress import DriverProgress
from airflow_hivex.core.job.staging import Save
from airflow_hivex.core.model.column_types import primitives
from airflow_hivex.core.model.job_configuration import TIME_ZONE, TIMESTAMP_TYPE
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.plans import JobResult, Plan, Write, WrittenDirectory

log = logging.getLogger(__name__)

_DESCRIPTION = "spark.job.description"
_POOL = "spark.scheduler.pool"
_ASKED_TASKS = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REFORM = datetime(1582, 10, 15, tzinfo=UTC)
_LOCAL = re.compile(r"local(?:\[.*\])?")
_TIME_ZONE_ZERO = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu")


def run(
    spark: SparkSession,
    plan_document: str,
    *,
    is_shared: bool = False,
    views: Sequence[str] = (),
    save: Save | None = None,
) -> str:
    """Run a plan, and return the document of its result. A failure also becomes a document, and no error is raised.

    The session gets the plan's SQL configuration. If ``is_shared``, the session belongs to a user, and the job restores
    the user's settings at its end. ``views`` are additional views of the session that the plan can read. ``save``
    replaces ``DataFrameWriter.save`` in a statement that writes one table.
    """
    try:
        plan = documents.plan_from_json(plan_document)
    except HivexError as error:
        return documents.error_to_json(error)
    try:
        with (
            functions_of(spark),
            _tagged(spark, plan),
            _configured(spark, plan, is_shared=is_shared),
            preludes.declared(spark, plan.prelude, is_shared=is_shared),
            root_checks.checked(spark, plan.roots),
        ):
            return documents.result_to_json(*_execute(spark, plan, views, save))
    except Exception as error:
        log.debug("Job %s failed", plan.name, exc_info=True)
        return documents.error_to_json(as_error(error, plan), error)


def frame(spark: SparkSession, plan: Plan, views: Sequence[str] = ()) -> DataFrame:
    """Return a DataFrame of a plan's query. Its rows are computed when they are used.

    For ``views`` see :func:`run`.

    Raises:
        AnalysisError: Spark refuses the query.
    """
    registered: list[str] = []
    try:
        _check_timestamp_type(spark, plan)
        with (
            functions_of(spark),
            configured(spark, plan.spark_conf),
            preludes.declared(spark, plan.prelude, is_shared=True),
        ):
            with root_checks.checked(spark, plan.roots):
                _check_time_zone(spark, plan)
            if originals.needs_one_file_a_task(plan):
                # The session may have another configuration when the DataFrame is computed, so its files are found now.
                with originals.one_file_a_task(spark):
                    return _query(spark, plan, registered, views).localCheckpoint()
            return _query(spark, plan, registered, views)
    except Exception as error:
        raise as_error(error, plan) from error
    finally:
        # The DataFrame has resolved these views already.
        drop_views(spark, registered)


def _configured(spark: SparkSession, plan: Plan, *, is_shared: bool) -> AbstractContextManager[None]:
    if is_shared:
        return configured(spark, plan.spark_conf)
    configure(spark, plan.spark_conf)
    return nullcontext()


def _query(spark: SparkSession, plan: Plan, registered: list[str], views: Sequence[str]) -> DataFrame:
    for scan in plan.scans:
        registered += scans.register(spark, scan)
    return view_queries.query(spark, plan.sql, _arguments(spark, plan.parameters), (*registered, *views))


def cancel(spark: SparkSession, tag: str) -> None:
    """Stop the running jobs with a plan's tag. The caller is another thread than the thread of the job."""
    if is_connect(spark):
        spark.interruptTag(tag)
    else:
        # Only the thread that set a session's tags knows them.
        spark.sparkContext.cancelJobsWithTag(tag)


def progress_of(spark: SparkSession, tag: str) -> DriverProgress:
    """Return the progress of a plan's jobs.

    This process must be the driver. Call the function in another thread than the jobs.
    """
    return DriverProgress(spark, tag)


def _execute(
    spark: SparkSession, plan: Plan, views: Sequence[str], save: Save | None
) -> tuple[JobResult, pa.Table | None]:
    _check_time_zone(spark, plan)
    with originals.one_file_a_task(spark) if originals.needs_one_file_a_task(plan) else nullcontext():
        return _run(spark, plan, views, save)


def _run(spark: SparkSession, plan: Plan, views: Sequence[str], save: Save | None) -> tuple[JobResult, pa.Table | None]:
    registered: list[str] = []
    try:
        if plan.compaction is not None:
            return JobResult(directories=compactions.compact(spark, plan, registered)), None
        if plan.copies is not None:
            return file_copies.copy_files(spark, plan.copies)
        if plan.command is not None:
            return view_queries.fetch(spark.sql(plan.command), None)
        for scan in plan.scans:
            registered += scans.register(spark, scan)
        if plan.loaded is not None:
            registered += loaded_files.register(spark, plan.loaded)
        arguments = _arguments(spark, plan.parameters)
        if plan.changes is not None and plan.explain is not None:
            assert plan.write is not None
            changed = row_changes.matched_rows(spark, plan.changes, plan.write, arguments, registered, views=views)
            return _explained([changed], plan, plan.explain)
        if plan.changes is not None:
            assert plan.write is not None
            return JobResult(
                directories=row_changes.change_rows(
                    spark, plan.changes, plan.write, arguments, registered, save, views=views
                )
            ), None
        if plan.inserts and plan.explain is not None:
            several = writes.queried(spark, plan.sources, plan.inserts, arguments, registered, views=views)
            return _explained(several, plan, plan.explain)
        if plan.inserts:
            return JobResult(
                inserted=writes.write_inserts(spark, plan.sources, plan.inserts, arguments, registered, views=views)
            ), None
        visible = (*registered, *views)
        if plan.write is not None and plan.explain is None:
            return JobResult(directories=_written(spark, plan, plan.write, arguments, visible, save)), None
        rows = view_queries.query(spark, plan.sql, arguments, visible)
        if plan.explain is not None:
            return _explained([rows], plan, plan.explain)
        return view_queries.fetch(rows, plan.max_rows)
    finally:
        drop_views(spark, registered)


def _written(
    spark: SparkSession, plan: Plan, write: Write, arguments: Mapping[str, Any], views: Sequence[str], save: Save | None
) -> tuple[WrittenDirectory, ...]:
    if plan.values is None:
        return writes.write_rows(view_queries.query(spark, plan.sql, arguments, views), write, save)
    rows, write, places = view_queries.spread(spark, plan.values, write, arguments, views)
    return writes.write_rows(rows, write, save, places)


def _explained(queries: Sequence[DataFrame], plan: Plan, mode: str) -> tuple[JobResult, pa.Table]:
    texts = [with_table_names(view_queries.explain(rows, mode), plan) for rows in queries]
    return JobResult((Column("plan", "string"),)), pa.table({"plan": texts})


def drop_views(spark: SparkSession, views: Sequence[str]) -> None:
    """Drop temporary views. In a session with a JVM, no cached rows are dropped.

    In a session of Spark Connect, the cached rows of an equal query are dropped, too, for example those of a DataFrame
    that a user has cached.
    """
    catalog: Any = spark.catalog
    if not is_connect(spark):
        session: Any = spark
        catalog = session._jsparkSession.sessionState().catalog()
    for view in views:
        catalog.dropTempView(view)


def _arguments(spark: SparkSession, parameters: Mapping[str, object]) -> dict[str, Any]:
    # A time without a zone is in the session's zone; pyspark would take this machine's zone.
    given = {
        name: _instant(spark, value) if isinstance(value, datetime) and value.tzinfo is None else value
        for name, value in parameters.items()
    }
    return given if is_connect(spark) else {name: _of_java(spark, value) for name, value in given.items()}


def _of_java(spark: SparkSession, value: object) -> Any:
    """Return an early date or time as an object of Java's calendar of today; py4j would take the one before 1582."""
    session: Any = spark
    if isinstance(value, datetime) and value.astimezone(UTC) < _REFORM:
        seconds, micros = divmod((value - _EPOCH) // timedelta(microseconds=1), 1_000_000)
        return session._jvm.java.time.Instant.ofEpochSecond(seconds, micros * 1000)
    if isinstance(value, date) and not isinstance(value, datetime) and value < _REFORM.date():
        return session._jvm.java.time.LocalDate.of(value.year, value.month, value.day)
    return value


def _instant(spark: SparkSession, value: datetime) -> datetime:
    """Return a local time of the session with its time zone, or in UTC if Python does not know this zone."""
    try:
        return value.replace(tzinfo=ZoneInfo(str(spark.conf.get(TIME_ZONE))))
    except (ZoneInfoNotFoundError, ValueError):
        # An offset such as +01:30 or UTC+3.
        query = f"SELECT unix_micros(TIMESTAMP_LTZ '{value.isoformat(' ')}')"
        return _EPOCH + timedelta(microseconds=spark.sql(query).collect()[0][0])


def _check_timestamp_type(spark: SparkSession, plan: Plan) -> None:
    """Refuse a DataFrame with TIMESTAMP columns from ORC files, which Spark would read as TIMESTAMP_NTZ.

    Raises:
        InvalidOperationError: the session's timestamp type is TIMESTAMP_NTZ.
    """
    if spark.conf.get(TIMESTAMP_TYPE) == "TIMESTAMP_NTZ":
        for scan in plan.scans:
            if scan.format == "orc" and any(_is_timestamp(column) for column in scan.columns):
                raise InvalidOperationError(
                    "A DataFrame of",
                    scan.table,
                    f"Spark's ORC reader takes its TIMESTAMP columns for TIMESTAMP_NTZ while {TIMESTAMP_TYPE} says so; "
                    "set it to TIMESTAMP_LTZ",
                )


def _is_timestamp(column: Column) -> bool:
    return any(each.kind.is_instant for each in primitives(column.parsed_type))


def _check_time_zone(spark: SparkSession, plan: Plan) -> None:
    """Refuse to read or write timestamps if they would change.

    ORC stores a TIMESTAMP as a local time of the writing process, which in Spark is the local time of the JVM. So all
    clusters must use the same zone, UTC.
    """
    columns = [
        column for scan in plan.scans if scan.is_transactional and scan.format == "orc" for column in scan.columns
    ]
    columns += [column for write in plan.writes if write.format == "orc" for column in write.columns]
    if any(_is_timestamp(column) for column in columns):
        zone = _jvm_time_zone(spark, str(spark.conf.get("spark.app.id")))
        if zone not in _TIME_ZONE_ZERO:
            raise JobError(
                "",
                f"Spark's processes run in time zone {zone}, where timestamps in ORC files would be shifted; start "
                "them with -Duser.timezone=UTC (spark.driver.extraJavaOptions and spark.executor.extraJavaOptions)",
            )


@lru_cache(maxsize=64)
def _jvm_time_zone(spark: SparkSession, application: str) -> str:  # noqa: ARG001 - the cache's key
    own = "reflect('java.lang.System', 'getProperty', 'user.timezone')"
    # If executors are separate processes, several tasks read their time zones.
    tasks = 1 if not is_connect(spark) and _LOCAL.fullmatch(str(spark.sparkContext.master)) else _ASKED_TASKS
    zones = spark.range(0, tasks, 1, tasks).selectExpr(own).collect()
    return next((str(zone) for (zone,) in zones if zone not in _TIME_ZONE_ZERO), "UTC")


@contextmanager
def _tagged(spark: SparkSession, plan: Plan) -> Iterator[None]:
    """Give the jobs that this thread starts in the block the plan's name and tag. Jobs are cancelled by their tag."""
    if is_connect(spark):
        spark.addTag(plan.tag)
        try:
            yield
        finally:
            spark.removeTag(plan.tag)
        return
    context = spark.sparkContext
    description = context.getLocalProperty(_DESCRIPTION)
    context.addJobTag(plan.tag)
    context.setLocalProperty(_DESCRIPTION, plan.name)
    pool = context.getLocalProperty(_POOL)
    if plan.scheduler_pool:
        context.setLocalProperty(_POOL, plan.scheduler_pool)
    try:
        yield
    finally:
        context.removeJobTag(plan.tag)
        context.setLocalProperty(_POOL, pool)  # type: ignore[arg-type]
        context.setLocalProperty(_DESCRIPTION, description)  # type: ignore[arg-type]
