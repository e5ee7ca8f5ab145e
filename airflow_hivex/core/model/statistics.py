"""Statistics of tables, partitions and columns, and the snapshots for which they are exact. No I/O.

Source: Hive's ColumnStatisticsData has the statistics for each type of column.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from airflow_hivex.core.model.column_types import ColumnType, Family, Primitive
from airflow_hivex.core.model.objects import freeze
from airflow_hivex.core.model.write_ids import ValidWriteIdList, equivalent


class StatisticsKind(enum.Enum):
    """The kinds of column statistics; each kind of type has its own numbers."""

    BOOLEAN = "boolean"
    ORDERED = "ordered"
    TEXT = "text"
    BINARY = "binary"


_KINDS = {
    Family.BOOLEAN: StatisticsKind.BOOLEAN,
    **dict.fromkeys((Family.WHOLE, Family.FLOATING, Family.DECIMAL, Family.MOMENT), StatisticsKind.ORDERED),
    Family.TEXT: StatisticsKind.TEXT,
    Family.BINARY: StatisticsKind.BINARY,
}


def statistics_kind(type: ColumnType) -> StatisticsKind | None:
    """Return the kind of the statistics of a column, by its type, or None if the type has no statistics.

    Arrays, maps and structs have no statistics.
    """
    return _KINDS.get(type.family) if isinstance(type, Primitive) else None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column. A number is None if the type does not have it, or if the column has no value.

    ``low`` and ``high`` are the lowest and the highest value as Spark's texts. ``valid_write_ids`` is the snapshot
    (text form) of the numbers, or None for a table without transactions.
    """

    num_nulls: int
    num_distinct: int | None = None
    low: str | None = None
    high: str | None = None
    average_length: float | None = None
    longest: int | None = None
    num_true: int | None = None
    num_false: int | None = None
    valid_write_ids: str | None = None
    computed_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the known numbers as values of JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the statistics from a result of :meth:`to_json`."""
        return cls(**document)


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of a table or partition. ``num_rows`` is None if only sizes were counted.

    ``columns`` has the statistics of columns by their names in files, each with its own snapshot.
    """

    num_rows: int | None
    num_files: int
    total_size: int
    valid_write_ids: str | None = None
    computed_ms: int = 0
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "columns")

    def after(self, earlier: Statistics) -> Statistics:
        """Return these statistics, completed by ``earlier`` statistics.

        Missing columns are added. A missing number of rows is added only if the snapshots are the same.
        """
        num_rows = self.num_rows
        if num_rows is None and _is_same(self.valid_write_ids, earlier.valid_write_ids):
            num_rows = earlier.num_rows
        return replace(self, num_rows=num_rows, columns={**earlier.columns, **self.columns})


def is_exact(valid_write_ids: str | None, current: ValidWriteIdList | None) -> bool:
    """Return whether statistics of the snapshot ``valid_write_ids`` are exact for the snapshot ``current``, too.

    The result is False if a snapshot is None. A change of the table itself, such as a rename, also has a write id. So
    statistics are not exact after the change.
    """
    if valid_write_ids is None or current is None:
        return False
    return equivalent(ValidWriteIdList.parse(valid_write_ids), current)


def _is_same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and is_exact(one, ValidWriteIdList.parse(other))
