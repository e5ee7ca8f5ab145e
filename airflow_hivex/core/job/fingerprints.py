"""Fingerprints of rows: they tell whether files give back the values that were written to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_hivex.core.job import functions as F  # noqa: N812 - the name every Spark program uses
from airflow_hivex.core.job.assignment import field, quoted
from airflow_hivex.core.model.objects import Column

ROWS = "rows"
"""The number of rows, among the aggregates of a fingerprint."""


class Fingerprint:
    """The number of rows that were written, and sums of hashes of each of their ``columns``."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._observation = F.new_observation()
        self._taken: Mapping[str, object] | None = None

    @property
    def aggregates(self) -> list[Expression]:
        """Return the aggregates to compute of rows in files that are compared with these: of all, or of parts."""
        return self._aggregates([column.in_files for column in self._columns])

    def observed(self, rows: DataFrame) -> DataFrame:
        """Return the same rows, whose fingerprint this is as soon as they were written."""
        return rows.observe(self._observation, *self._aggregates([column.name for column in self._columns]))

    def _aggregates(self, names: Sequence[str]) -> list[Expression]:
        sums = [
            F.expr(f"sum({half})").alias(title)
            for number, (column, name) in enumerate(zip(self._columns, names, strict=True))
            for title, half in zip(_names(number), _halves(column, name), strict=True)
        ]
        return [F.count(F.lit(1)).alias(ROWS), *sums]

    def take(self, values: Mapping[str, object]) -> None:
        """Take the values that another process has observed, which has begun the write."""
        self._taken = values

    def written(self) -> Mapping[str, object]:
        """Return the values of the rows that were written."""
        return self._observation.get if self._taken is None else self._taken

    def changed(self, parts: Iterable[Row]) -> list[str] | None:
        """Return the columns whose values differ in the parts of what was read; None if all rows are the same.

        Each part has the :attr:`aggregates` of some rows.
        """
        parts = list(parts)
        written = self.written()

        def differs(name: str) -> bool:
            return (written[name] or 0) != sum(part[name] or 0 for part in parts)

        columns = [column.name for number, column in enumerate(self._columns) if any(map(differs, _names(number)))]
        return columns if columns or differs(ROWS) else None


def _names(number: int) -> tuple[str, str]:
    return f"low_{number}", f"high_{number}"


def _halves(column: Column, name: str) -> tuple[str, str]:
    """Return the halves of the hash of a column's value, which rows have by that name: their sums have no overflow."""
    whole = f"xxhash64({_hashable(quoted(name), field(column).dataType, 0)})"
    return f"{whole} & 4294967295L", f"shiftrightunsigned({whole}, 32)"


def _hashable(value: str, type: DataType, level: int) -> str:
    """Return a value in a form of which the hash tells all: Spark's skips what is NULL, and takes no maps."""
    match type:
        case ArrayType():
            item = f"i{level}"
            items = f"transform({value}, {item} -> {_hashable(item, type.elementType, level + 1)})"
            return f"struct({value} IS NULL, size({value}), {items})"
        case MapType():
            entry = f"e{level}"
            key = _hashable(f"{entry}.key", type.keyType, level + 1)
            item = _hashable(f"{entry}.value", type.valueType, level + 1)
            items = f"transform(map_entries({value}), {entry} -> struct({key}, {item}))"
            return f"struct({value} IS NULL, size({value}), {items})"
        case StructType():
            fields = (_hashable(f"{value}.{quoted(item.name)}", item.dataType, level + 1) for item in type.fields)
            return f"struct({value} IS NULL, {', '.join(fields)})"
    return f"struct({value} IS NULL, {value})"
