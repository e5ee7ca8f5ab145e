"""The row ids of original files: plain files that were written before their table became transactional.

Spark's ORC reader does not return the position of a row in its file. If each task reads one whole file, and no filter
is pushed down, ``monotonically_increasing_id()`` counts the rows of the file; see :func:`one_file_a_task`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.layout import BUCKET, INSERT_OPERATION, OPERATION, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.original_files import OriginalFile, plain_path
from airflow_hivex.core.job.writes import ROW_ID_MASK
from airflow_hivex.core.model.plans import Plan

Owner = tuple[int, int, int, int]
"""A partition with row ids of its own: its number, the lowest and highest write id of the delete events, and a shift.

A write id of the partition plus the shift is a number that stands for the pair of partition and write id.
"""
NO_OWNER: Owner = (-1, 1, 0, 0)
"""The owner of rows in a partition without delete events."""
OWNER, LOWEST, HIGHEST, SHIFT = OWNER_COLUMNS = ("__owner", "__lowest", "__highest", "__shift")
"""The columns that rows get from their owner."""
_FILE = "__file"
_FIRST = "__first_row_id"
_ROWS = "__rows"
_START = "__start"

# More rows than any file has, but few enough for the sum over all files to have 64 bits.
_LARGEST_FILE = str(1 << 40)
_ONE_FILE_A_TASK = {
    "spark.sql.files.maxPartitionBytes": _LARGEST_FILE,
    "spark.sql.files.openCostInBytes": _LARGEST_FILE,
    "spark.sql.files.maxPartitionNum": str((1 << 31) - 1),
}


def needs_one_file_a_task(plan: Plan) -> bool:
    """Return whether the plan reads original files whose rows need ids."""
    return any(part.originals for scan in plan.scans for part in scan.parts)


@dataclass(slots=True)
class _Configured:
    """The number of a session's jobs that need one file per task, and the configuration before the first such job."""

    jobs: int = 0
    before: dict[str, str | None] = field(default_factory=dict)


_SESSIONS: WeakKeyDictionary[SparkSession, _Configured] = WeakKeyDictionary()
_LOCK = threading.Lock()


@contextmanager
def one_file_a_task(spark: SparkSession) -> Iterator[None]:
    """Have all jobs of the session read each file in a separate task during the block.

    Blocks of several threads can overlap.
    """
    with _LOCK:
        configured = _SESSIONS.setdefault(spark, _Configured())
        if not configured.jobs:
            configured.before = {key: spark.conf.get(key, None) for key in _ONE_FILE_A_TASK}
            for key, value in _ONE_FILE_A_TASK.items():
                spark.conf.set(key, value)
        configured.jobs += 1
    try:
        yield
    finally:
        with _LOCK:
            configured.jobs -= 1
            for key, old in configured.before.items() if not configured.jobs else ():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)


def with_row_ids(
    spark: SparkSession, rows: DataFrame, table: str, files: Sequence[OriginalFile], owners: Sequence[Owner]
) -> DataFrame:
    """Return the rows of original files with metadata columns, and with the columns of each file's owner.

    Raises:
        JobError: some of the files are missing.
    """
    known = as_spark_names_them(rows)
    missing = next((file.uri for file in files if plain_path(file.uri) not in known), None)
    if missing is not None:
        raise JobError("", f"{missing} of {table} is not there; restore it, or drop the table or partition.")
    lookup = spark.createDataFrame(
        pa.table(
            {
                _FILE: pa.array([known[plain_path(file.uri)] for file in files], pa.string()),
                **as_columns(owners),
                ORIGINAL_WRITE_ID: pa.array([file.owner[1] for file in files], pa.int64()),
                BUCKET: pa.array([file.bucket for file in files], pa.int32()),
                _FIRST: pa.array([file.first_row_id for file in files], pa.int64()),
                _ROWS: pa.array([file.rows for file in files], pa.int64()),
            }
        )
    )
    counted = rows.withColumns(
        {
            _FILE: F.input_file_name(),
            ROW_ID: F.monotonically_increasing_id().bitwiseAND(F.lit(ROW_ID_MASK)),
            _START: F.input_file_block_start(),
        }
    )
    wrong = F.raise_error(
        F.concat(
            F.col(_FILE), F.lit(f" of {table} has more rows than when the table was made transactional; restore it.")
        )
    )
    # Both conditions also fail if a task has read several files, or a part of a file.
    is_right = (F.col(ROW_ID) < F.col(_ROWS)) & (F.col(_START) == F.lit(0))
    return counted.join(F.broadcast(lookup), _FILE).withColumns(
        {
            OPERATION: F.lit(INSERT_OPERATION),
            WRITE_ID: F.col(ORIGINAL_WRITE_ID),
            ROW_ID: F.when(is_right, F.col(_FIRST) + F.col(ROW_ID)).otherwise(wrong.cast("bigint")),
        }
    )


def as_columns(owners: Sequence[Owner]) -> dict[str, pa.Array]:
    """Return a dict from name to column, with one column for each attribute of owners."""
    values = zip(*owners, strict=True) if owners else ((),) * len(OWNER_COLUMNS)
    return {name: pa.array(list(each), pa.int64()) for name, each in zip(OWNER_COLUMNS, values, strict=True)}


def as_spark_names_them(rows: DataFrame) -> dict[str, str]:
    """Return a dict from a file's path, as :func:`plain_path` returns it, to its name in ``input_file_name()``."""
    return {plain_path(unquote(name)): name for name in rows.inputFiles()}
