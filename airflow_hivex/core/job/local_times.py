"""The storage of TIMESTAMP_NTZ in this package's ORC files: as numbers of microseconds, also in Spark's schema.

Spark compares the types of requested columns with the types of a file's columns by position, also within structs. It
refuses a TIMESTAMP at the position of a TIMESTAMP_NTZ, and the reverse. The positions differ if columns or fields are
pruned, or a table's columns have changed. Source: checkTimestampCompatibility in Spark's OrcUtils. Spark does not check
the parts of arrays and maps, which keep their types.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, LongType, StructField, StructType, TimestampNTZType

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import quoted

_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MICROSECOND = "INTERVAL '0.000001' SECOND"


def as_stored(fields: StructType) -> StructType:
    """Return the columns with their types in files."""
    return StructType([StructField(each.name, _stored(each.dataType), True, each.metadata) for each in fields.fields])


def holds_local_times(declared: DataType) -> bool:
    """Return whether a column's stored type differs from its declared type."""
    return _stored(declared) != declared


def store(rows: DataFrame, but: tuple[str, ...] = ()) -> DataFrame:
    """Return the rows with the types of columns in files. The columns ``but`` stay unchanged."""
    numbered = [each for each in rows.schema.fields if each.name not in but and holds_local_times(each.dataType)]
    if not numbered:
        # Spark Connect takes no empty list of columns.
        return rows
    return rows.withColumns({each.name: _numbered(F.col(quoted(each.name)), each.dataType) for each in numbered})


def restore(value: Expression, declared: DataType) -> Expression:
    """Return a column with its declared type, from its value in files.

    Conditions on the result are not pushed down to ORC.
    """
    if isinstance(declared, TimestampNTZType):
        return F.expr(_EPOCH) + value * F.expr(_MICROSECOND)
    return _within(value, declared, restore)


def _stored(declared: DataType) -> DataType:
    if isinstance(declared, TimestampNTZType):
        return LongType()
    return as_stored(declared) if isinstance(declared, StructType) else declared


def _numbered(value: Expression, declared: DataType) -> Expression:
    if isinstance(declared, TimestampNTZType):
        seconds = (value - F.expr(_EPOCH)).cast("interval second").cast("decimal(20,6)")
        return (seconds * F.lit(1_000_000)).cast("bigint")
    return _within(value, declared, _numbered)


def _within(value: Expression, declared: DataType, change: Callable[[Expression, DataType], Expression]) -> Expression:
    for each in declared.fields if isinstance(declared, StructType) else ():
        if holds_local_times(each.dataType):
            # Unlike a new struct, this form lets Spark prune the other fields.
            value = value.withField(quoted(each.name), change(value.getField(each.name), each.dataType))
    return value
