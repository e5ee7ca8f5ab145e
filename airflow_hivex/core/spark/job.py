"""The job: one plan document in, one result document out, on any Spark session.

This module and what it imports go to a cluster as they are: standard library, pyspark and
pyarrow, nothing else. It needs no handle on the JVM, so Spark Connect can run it too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import HivexError, JobError
from airflow_hivex.core.model.plans import JobResult, Plan
from airflow_hivex.core.spark import (
    compactions,
    documents,
    multi_inserts,
    originals,
    row_changes,
    scans,
    selects,
    writes,
)
from airflow_hivex.core.spark.failures import as_error

log = logging.getLogger(__name__)

DEFAULT_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # Listing many directories in the driver takes milliseconds, as a Spark job the better part of a second.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Each task that writes needs one of 4096 bucket ids.
    "spark.sql.files.maxPartitionNum": "4000",
    # Of fields of structs as well: conditions on timestamps would lose rows (scans).
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet",
    # Small files share a task.
    "spark.sql.files.openCostInBytes": str(256 * 1024),
}
"""What every job runs with unless its cluster says otherwise."""

_FIXED_CONF = {"spark.sql.caseSensitive": "false"}
_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
# It computes the rows of VALUES, with the number of their task, before they are dealt out to tasks: rows would lie in
# the file of another bucket than the one in their ids, where Hive does not find what deletes them.
_EXCLUDED_RULE = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_DESCRIPTION = "spark.job.description"
_POOL = "spark.scheduler.pool"
_TIME_ZONE_ZERO = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu")


_CONFIGURED: WeakKeyDictionary[SparkSession, Mapping[str, str]] = WeakKeyDictionary()
"""The configuration that a session was given last."""


def run(spark: SparkSession, plan_document: str) -> str:
    """The result document of a plan; a failure is a document too, nothing is raised.

    The session's SQL configuration is set to what the plan asks for.
    """
    try:
        plan = documents.plan_from_json(plan_document)
    except HivexError as error:
        return documents.error_to_json(error)
    try:
        with _tagged(spark, plan):
            return documents.result_to_json(*_execute(spark, plan))
    except Exception as error:
        log.debug("Job %s failed", plan.name, exc_info=True)
        return documents.error_to_json(as_error(error, plan))


def frame(spark: SparkSession, plan: Plan) -> DataFrame:
    """The rows of a plan's query as a DataFrame, computed whenever the DataFrame is.

    Raises:
        AnalysisError: Spark refuses the query.
    """
    registered: list[str] = []
    try:
        _configure(spark, plan.spark_conf)
        _check_time_zone(spark, plan)
        if originals.needs_one_file_a_task(plan):
            # It may be computed when the session is configured otherwise, so its rows are found now.
            with originals.one_file_a_task(spark):
                return _query(spark, plan, registered).localCheckpoint()
        return _query(spark, plan, registered)
    except Exception as error:
        raise as_error(error, plan) from error
    finally:
        # The DataFrame has looked them up.
        for view in registered:
            spark.catalog.dropTempView(view)


def _query(spark: SparkSession, plan: Plan, registered: list[str]) -> DataFrame:
    for scan in plan.scans:
        registered += scans.register(spark, scan)
    return spark.sql(plan.sql, args=_arguments(spark, plan.parameters) or None)


def cancel(spark: SparkSession, tag: str) -> None:
    """Stop what runs under a plan's tag now; called from another thread than the job's."""
    if _is_connect(spark):
        spark.interruptTag(tag)
    else:
        # A session's own tags are known to the thread that set them alone.
        spark.sparkContext.cancelJobsWithTag(tag)


def _execute(spark: SparkSession, plan: Plan) -> tuple[JobResult, pa.Table | None]:
    _configure(spark, plan.spark_conf)
    _check_time_zone(spark, plan)
    with originals.one_file_a_task(spark) if originals.needs_one_file_a_task(plan) else nullcontext():
        return _run(spark, plan)


def _run(spark: SparkSession, plan: Plan) -> tuple[JobResult, pa.Table | None]:
    registered: list[str] = []
    try:
        if plan.compaction is not None:
            return JobResult(directories=compactions.compact(spark, plan, registered)), None
        for scan in plan.scans:
            registered += scans.register(spark, scan)
        arguments = _arguments(spark, plan.parameters)
        if plan.changes is not None:
            assert plan.write is not None
            return JobResult(
                directories=row_changes.change_rows(spark, plan.changes, plan.write, arguments, registered)
            ), None
        if plan.inserts:
            return JobResult(
                inserted=multi_inserts.write_inserts(spark, plan.sources, plan.inserts, arguments, registered)
            ), None
        rows = spark.sql(plan.sql, args=arguments or None)
        if plan.write is None:
            return selects.fetch(rows, plan.max_rows)
        return JobResult(directories=writes.write_rows(rows, plan.write)), None
    finally:
        for view in registered:
            spark.catalog.dropTempView(view)


def _configure(spark: SparkSession, conf: Mapping[str, str]) -> None:
    # Each key costs two calls of the JVM, so a session is configured again only for other values.
    if _CONFIGURED.get(spark) == conf:
        return
    _CONFIGURED[spark] = dict(conf)
    # A session that its user has brought may leave out others already.
    others = conf.get(_EXCLUDED_RULES) or spark.conf.get(_EXCLUDED_RULES, None) or ""
    excluded = ",".join(dict.fromkeys(filter(None, (*others.split(","), _EXCLUDED_RULE))))
    for key, value in {**DEFAULT_CONF, **conf, **_FIXED_CONF, _EXCLUDED_RULES: excluded}.items():
        # The others were fixed when the application started.
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)


def _arguments(spark: SparkSession, parameters: Mapping[str, object]) -> dict[str, Any]:
    zone = ZoneInfo(str(spark.conf.get("spark.sql.session.timeZone")))
    # A time without a zone is one of the session's; pyspark would take it for one of this machine's.
    return {
        name: value.replace(tzinfo=zone) if isinstance(value, datetime) and value.tzinfo is None else value
        for name, value in parameters.items()
    }


def _check_time_zone(spark: SparkSession, plan: Plan) -> None:
    """Refuse to read or write timestamps where they would change.

    ORC keeps a TIMESTAMP as a local time of the process that writes it, and Spark takes that to be
    the JVM's. All clusters must agree, and agree on UTC.
    """
    columns = [
        column for scan in plan.scans if scan.is_transactional and scan.format == "orc" for column in scan.columns
    ]
    columns += [column for write in plan.writes if write.format == "orc" for column in write.columns]
    if any("timestamp" in column.type.lower().replace("timestamp_ntz", "") for column in columns):
        zone = _jvm_time_zone(spark, str(spark.conf.get("spark.app.id")))
        if zone not in _TIME_ZONE_ZERO:
            raise JobError(
                "",
                f"Spark's processes run in time zone {zone}, where timestamps in ORC files would be shifted; start "
                "them with -Duser.timezone=UTC (spark.driver.extraJavaOptions and spark.executor.extraJavaOptions)",
            )


@lru_cache(maxsize=64)
def _jvm_time_zone(spark: SparkSession, application: str) -> str:  # noqa: ARG001 - the cache's key
    return str(spark.sql("SELECT reflect('java.lang.System', 'getProperty', 'user.timezone')").collect()[0][0])


@contextmanager
def _tagged(spark: SparkSession, plan: Plan) -> Iterator[None]:
    """Everything that this thread runs can be cancelled by the plan's tag and bears its name."""
    if _is_connect(spark):
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


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
