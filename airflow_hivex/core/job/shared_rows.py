"""Rows that several parts of a job read. Spark computes them once, and stores them in the executors' memory or disks.

If an executor is lost, the rows that it has stored are lost. Spark then computes the lost rows again, possibly with
different values or in a different order. If the driver runs in this process, the job checks whether executors with
stored rows were lost. With Spark Connect the rows are stored as a checkpoint, and a job that needs lost rows fails.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Self, TypeVar
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.functions import is_connect

log = logging.getLogger(__name__)

_LEVEL = StorageLevel(useDisk=True, useMemory=True, useOffHeap=False, deserialized=True)
_ATTEMPTS = 3
_DRIVER = "driver"
_CHECKPOINT_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

Done = TypeVar("Done")


class KeptRowsLostError(Exception):
    """The loss of an executor with stored rows. Spark would compute these rows again, possibly differently."""


class Kept:
    """The rows that a job stores in Spark until the job ends."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: list[DataFrame] = []
        self._holders: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._frames:
            frame.unpersist()

    def keep(self, rows: DataFrame) -> DataFrame:
        """Return the rows, computed only once: at the first read, or with Spark Connect during this call."""
        # Spark caches the rows of equal queries once for all sessions, and the first session that ends drops them for
        # all. This filter makes the query unique, and Spark leaves the filter out when it runs.
        own = rows.where(F.lit(uuid4().hex).isNotNull())
        if is_connect(self._spark):
            # Computed now. The server drops the checkpoint with the last reference to it.
            return own.localCheckpoint(storageLevel=_LEVEL)
        self._frames.append(own.persist(_LEVEL))
        return self._frames[-1]

    def check(self) -> None:
        """Ensure that no executor that had stored rows at a previous call has lost them.

        Raises:
            KeptRowsLostError: an executor has lost rows. The job must be repeated.
        """
        holders = _executors_with_rows(self._spark) if self._frames else set()
        if self._holders - holders:
            raise KeptRowsLostError
        self._holders |= holders


def with_kept(spark: SparkSession, work: Callable[[Kept], Done]) -> Done:
    """Return the result of ``work``, which is run again if an executor with stored rows was lost.

    Raises:
        JobError: executors were lost in every attempt.
    """
    for _ in range(_ATTEMPTS):
        with Kept(spark) as kept:
            try:
                return work(kept)
            except (KeptRowsLostError, PySparkException) as error:
                if isinstance(error, PySparkException) and _CHECKPOINT_LOST not in str(error):
                    raise
                log.warning("Executors that held rows of the statement were lost; the job is retried")
    raise JobError("", f"executors that held rows of the statement were lost {_ATTEMPTS} times; run it again")


def _executors_with_rows(spark: SparkSession) -> set[str]:
    """Return the ids of executors with stored rows. The set is empty if Spark does not report them."""
    if is_connect(spark):
        return set()
    # Not imported at the top: a client of Spark Connect may not have it.
    from py4j.protocol import Py4JError

    context: Any = spark.sparkContext
    try:
        if context._jsc.sc().isLocal():
            return set()
        found = getattr(context._jvm, "org.apache.spark.SparkEnv").get().blockManager().master().getStorageStatus()
        return {str(each.blockManagerId().executorId()) for each in found if each.rddBlocks().nonEmpty()} - {_DRIVER}
    except Py4JError:
        # Spark does not guarantee this interface.
        log.debug("Spark does not report which executors have kept rows", exc_info=True)
        return set()
