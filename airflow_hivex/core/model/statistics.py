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
    """The kinds of column statistics. Each kind has its own numbers, and is for columns of certain types."""

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
    """Return the kind of the statistics of a column of this type, or None if the type has no statistics.

    Arrays, maps and structs have no statistics.
    """
    return _KINDS.get(type.family) if isinstance(type, Primitive) else None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column. A number is None if the column's type lacks it, or if the column has no value.

    ``low`` and ``high`` are the lowest and the highest value, as texts of Spark. ``valid_write_ids`` is the text of the
    write id list for which the numbers were computed, or None for a table without transactions.
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

    ``columns`` is a dict from the name of a column in files to the statistics of the column.
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
        """Return these statistics, completed by the statistics ``earlier``.

        Columns that only ``earlier`` has are added. A missing number of rows is added only if both are for the same
        snapshot.
        """
        num_rows = self.num_rows
        if num_rows is None and _is_same(self.valid_write_ids, earlier.valid_write_ids):
            num_rows = earlier.num_rows
        return replace(self, num_rows=num_rows, columns={**earlier.columns, **self.columns})


def is_exact(valid_write_ids: str | None, current: ValidWriteIdList | None) -> bool:
    """Return whether statistics that were computed for the snapshot ``valid_write_ids`` are exact for ``current``.

    The result is False if one of the snapshots is None. It is also False after a change of the table, such as a rename,
    because the change has a write id.
    """
    if valid_write_ids is None or current is None:
        return False
    return equivalent(ValidWriteIdList.parse(valid_write_ids), current)


def _is_same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and is_exact(one, ValidWriteIdList.parse(other))
