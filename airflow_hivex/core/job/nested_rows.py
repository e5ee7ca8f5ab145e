"""Files of the row layout ``hive``, in which the row is one struct: read as if they were flat.

ORC knows such a file by its six root columns and then hands its reader another schema than the one asked for. So
every scan must read all six, none may have partition columns, and no filter on a root column may be pushed down to
ORC, which would look for the column among the user's. Source:
docs/reference/spark.md; ORC's SchemaEvolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from airflow_hivex.core.job import data_files, local_times
from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import field
from airflow_hivex.core.job.configuration import OWN_FILES_OPTIONS
from airflow_hivex.core.job.layout import HIVE_NAMES, METADATA_COLUMNS
from airflow_hivex.core.job.layout import HIVE_ROW as _ROW
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import DEFAULT_PARTITION

# Always true. Spark's optimizer sees through simpler forms, and then leaves columns out.
_READS_ALL = f"coalesce({', '.join(HIVE_NAMES.values())}, if({_ROW} is null, null, 0)) IS NOT NULL"


def load(
    spark: SparkSession, paths: Sequence[str], columns: Sequence[Column], keys: Sequence[Column] = ()
) -> DataFrame:
    """Return all rows below ``paths``.

    The metadata columns of a flat file, ``columns`` as files call them, then ``keys``.

    The values of the partition keys are the texts that stand in the paths, ``.../key=value/delta_.../bucket_...``.
    """
    declared = StructType([field(replace(column, name=column.in_files)) for column in columns])
    stored = local_times.as_stored(declared)
    metadata = [field(replace(column, name=HIVE_NAMES[column.name])) for column in METADATA_COLUMNS]
    reader = (
        spark.read.format("orc")
        .schema(StructType([*metadata, StructField(_ROW, stored)]))
        .option("__globPaths__", "false")
        # Nothing in a path becomes a column.
        .option("recursiveFileLookup", "true")
        .options(**OWN_FILES_OPTIONS)
    )
    rows = data_files.load(reader, paths)
    # Filters on an expression are not pushed down, and the values are never NULL.
    ids = [
        F.expr(f"coalesce({HIVE_NAMES[column.name]}, CAST(0 AS {column.type}))").alias(column.name)
        for column in METADATA_COLUMNS
    ]
    row = _row(stored)
    values = [
        local_times.restore(row.getField(item.name), item.dataType).alias(item.name, metadata=item.metadata or None)
        for item in declared.fields
    ]
    return rows.where(F.expr(_READS_ALL)).select(*ids, *values, *_partition_texts(keys))


def _row(fields: StructType) -> Expression:
    if all(item.name.lower() != _ROW for item in fields.fields):
        return F.col(_ROW)
    # A filter on a field of the row, or on the row itself, would be taken for one on the user's column of this
    # name. This form keeps all of them from ORC, at the price that all fields are read.
    nothing = F.struct(*(F.lit(None).cast(item.dataType).alias(item.name) for item in fields.fields))
    return F.coalesce(F.col(_ROW), nothing)


def _partition_texts(keys: Sequence[Column]) -> list[Expression]:
    return [_partition_text(len(keys) - at).alias(key.name) for at, key in enumerate(keys)]


def _partition_text(from_last: int) -> Expression:
    # The path is a URI; below that, Hive escapes a value in a way that URIs know, too. The value of a column
    # is looked up for each row, so that rare cases must cost little.
    folder = f"substring_index(substring_index(_metadata.file_path, '/', -{from_last + 2}), '/', 1)"
    value = f"substring({folder}, instr({folder}, '=') + 1)"
    decoded = value
    for _ in range(2):
        # What URLs write for a space is itself in a URI.
        decoded = f"url_decode(replace({decoded}, '+', '%2B'))"
    return F.expr(f"nullif(if(contains({value}, '%'), {decoded}, {value}), '{DEFAULT_PARTITION}')")
