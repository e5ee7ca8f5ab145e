"""What Hive's own classes find in the directories of a table, held against a model's rows. Not a test itself.

Tables are of row layout ``hive`` throughout. Hive 2.3 takes every base for a compaction's (``tests.hive_oracle``), so a
folder is looked at twice: as it is, where our choice by that rule must be Hive's; and under a list that lets Hive use
bases of overwrites as we do, for which those whose write id the snapshot does not have are out of its sight.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from airflow_hivex.core import Metastore
from airflow_hivex.core.commands.snapshot_files import SnapshotFiles
from airflow_hivex.core.errors import NotEnoughHistoryError
from airflow_hivex.core.model.directories import directory_state, parse_directory
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList
from tests import hive_oracle
from tests.acceptance.warehouse_model import Rows, Table, Value, typed
from tests.hive_oracle import HiveState

NOT_ENOUGH_HISTORY = "Not enough history"
_VISIBILITY = re.compile(r"_v[0-9]+$")
_EVERYTHING = ValidTxnList.parse(None)


class Visibility(enum.Enum):
    """What has become of a writer: as of a snapshot, later ones are open."""

    COMMITTED = "committed"
    OPEN = "open"
    ABORTED = "aborted"


_Tuples = Counter[tuple[Value, ...]]


class HiveReader:
    """Reads the tables of a metastore; ``scratch`` takes folders for Hive's eyes."""

    def __init__(self, metastore: Metastore, scratch: Path) -> None:
        self._metastore = metastore
        self._scratch = scratch
        self._seen: set[object] = set()
        self.read = Counter[str]()
        """How many folders were read, and what was special in them."""

    def counted(self) -> dict[str, int]:
        """Return what Hive has read, for the counts of a test."""
        return {f"{what} read by Hive": number for what, number in sorted(self.read.items())}

    def compare(self, table: Table, rows: Rows, planned: SnapshotFiles | None = None) -> None:
        """Hold a table's rows against what Hive finds in a snapshot.

        ``planned`` is our own choice of files in it; without, it is the current snapshot. It must be this folder by
        folder, and each folder must have the rows of its partition.
        """
        stored = self._metastore.catalog.get_table("default", table.name)
        if planned is None or planned.valid_write_ids is None:
            snapshot = self._metastore.transactions.valid_txns()
            write_ids = self._metastore.transactions.valid_write_ids([stored.full_name], snapshot)[stored.full_name]
        else:
            write_ids = ValidWriteIdList.parse(planned.valid_write_ids)
        folders = self._partitions(table) if table.keys else {_path(stored.location): ()}
        chosen: dict[Path, set[str]] = {}
        for file in () if planned is None else planned.files:
            path = _path(file.uri).parent
            chosen.setdefault(path.parent, set()).add(path.name)
            if table.keys:
                folders.setdefault(path.parent, _values(table, tuple(file.partition.values())))
        by_partition: dict[tuple[Value, ...], _Tuples] = {}
        for row, number in rows.items():
            values = dict(row)
            shown = tuple(values.get(column.key) for column in table.columns)
            by_partition.setdefault(table.partition(row), Counter())[shown] += number
        assert [column.name for column in stored.columns] == [column.name for column in table.columns]
        for folder, values in folders.items():
            expected = by_partition.pop(values, Counter())
            names = chosen.get(folder, set()) if planned is not None else None
            self._compare(folder, write_ids, stored.columns, expected, names)
        assert not by_partition, f"no folder has {by_partition}"

    def _partitions(self, table: Table) -> dict[Path, tuple[Value, ...]]:
        return {
            _path(partition.location): _values(table, nullable_values(partition.name))
            for batch in self._metastore.catalog.get_partitions("default", table.name)
            for partition in batch
        }

    def _compare(
        self,
        folder: Path,
        write_ids: ValidWriteIdList,
        columns: Sequence[Column],
        expected: _Tuples,
        chosen: set[str] | None,
    ) -> None:
        if not folder.exists():
            assert not expected, f"{folder} is not there, and should have {expected}"
            return
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith(("_", ".")))
        if any(_VISIBILITY.search(name) for name in names):
            # Hive 2.3 knows no results of compactions that not everybody sees.
            assert chosen is None, folder
            folder, names = self._without_suffixes(folder, names)
        transactions = hive_oracle.transactions(write_ids)
        context = f"{folder} with {names} for {write_ids}"
        ours = directory_state(names, write_ids, _EVERYTHING)
        taken = {name for name in (ours.base, *ours.deltas) if name is not None}
        if chosen is not None:
            # A truncated table's base has no files.
            assert chosen == {name for name in taken if any((folder / name).glob("bucket_*"))}, context
        # No process changes a directory, so what was found in these once is found again.
        visibilities = [_visibility(name, write_ids) for name in names]
        listed = folder, *zip(names, visibilities, map(write_ids.is_base_valid, map(_write_id, names)), strict=True)
        if listed not in self._seen:
            by_hives_rule = _state(names, write_ids, compacted_bases=names)
            assert _state_of_hive(folder, transactions) == by_hives_rule, context
            if by_hives_rule == NOT_ENOUGH_HISTORY:
                self.read["refused, as a base may hold what is open"] += 1
            self._seen.add(listed)
        seen = listed, tuple(columns), frozenset(expected.items())
        if seen in self._seen:
            return
        # Without open ids, Hive has no base that might hold what is open.
        settled = ValidWriteIdList.of("t", write_ids.high_watermark, aborted_ids=write_ids.exceptions)
        hidden = {
            name
            for name, visibility in zip(names, visibilities, strict=True)
            if name.startswith("base_") and visibility is not Visibility.COMMITTED
        }
        self.read["folders"] += 1
        self.read.update(f"with something {each.value}" for each in set(visibilities))
        if hidden:
            self.read["with such a base"] += 1
        shown = self._without(folder, names, hidden) if hidden else folder
        visible = _state([name for name in names if name not in hidden], write_ids)
        assert isinstance(visible, HiveState)
        assert (visible.base, visible.deltas) == (ours.base, ours.deltas), context
        settled_text = hive_oracle.transactions(settled)
        assert _state_of_hive(shown, settled_text) == visible, context
        found = hive_oracle.rows(_spark(), shown, settled_text, _as_stored(columns))
        ids = {(row.write_id, row.bucket, row.row_id) for row in found}
        assert len(ids) == len(found), f"{context}: row ids are not unique"
        rows = Counter(_tuple(row.values, columns) for row in found)
        assert rows == expected, f"Hive in {context}\n  too many: {rows - expected}\n  missing: {expected - rows}"
        self._seen.add(seen)

    def _without_suffixes(self, folder: Path, names: Iterable[str]) -> tuple[Path, list[str]]:
        """The same folder to Hive's eyes, where what compactions have made counts for all."""
        made = self._scratch / f"compacted{self.read['with results of compactions']}"
        self.read["with results of compactions"] += 1
        made.mkdir(parents=True)
        for name in names:
            (made / _VISIBILITY.sub("", name)).symlink_to(folder / name)
        return made, sorted(path.name for path in made.iterdir())

    def _without(self, folder: Path, names: Iterable[str], hidden: Collection[str]) -> Path:
        """The same folder to Hive's eyes, without some of its directories."""
        made = self._scratch / f"shown{self.read['folders']}"
        made.mkdir(parents=True)
        for name in names:
            if name not in hidden:
                (made / name).symlink_to(folder / name)
        return made


def _path(uri: str) -> Path:
    # Names in URIs of a cluster are as they are.
    return Path(uri.removeprefix("file://"))


def _spark() -> SparkSession:
    # The metastore's jobs run in this process.
    return SparkSession.builder.getOrCreate()


def _state_of_hive(folder: Path, transactions: str) -> HiveState | str:
    try:
        return hive_oracle.state(_spark(), folder, transactions)
    except Py4JJavaError as error:
        if NOT_ENOUGH_HISTORY not in str(error.java_exception):
            raise
        return NOT_ENOUGH_HISTORY


def _state(
    names: Collection[str], write_ids: ValidWriteIdList, compacted_bases: Collection[str] = ()
) -> HiveState | str:
    try:
        found = directory_state(names, write_ids, _EVERYTHING, compacted_bases=compacted_bases)
    except NotEnoughHistoryError:
        return NOT_ENOUGH_HISTORY
    return HiveState(found.base, found.deltas, tuple(sorted(found.obsolete)), tuple(sorted(found.originals)))


def _visibility(name: str, write_ids: ValidWriteIdList) -> Visibility:
    """What a snapshot knows of the one writer of a directory."""
    write_id = _write_id(name)
    if write_ids.is_valid(write_id):
        return Visibility.COMMITTED
    return Visibility.ABORTED if write_ids.is_aborted(write_id) else Visibility.OPEN


def _write_id(name: str) -> int:
    found = parse_directory(name)
    assert found is not None, name
    return found.max_write_id


def _values(table: Table, texts: Sequence[str | None]) -> tuple[Value, ...]:
    return tuple(typed(key, text) for key, text in zip(table.keys, texts, strict=True))


def _as_stored(columns: Iterable[Column]) -> list[Column]:
    """The columns by their names in files, for a reader that knows no renamed ones."""
    return [Column(column.in_files, column.type) for column in columns]


def _tuple(values: Mapping[str, Any] | str, columns: Sequence[Column]) -> tuple[Value, ...]:
    assert isinstance(values, Mapping), values
    return tuple(_value(values[column.in_files], _type(column.type)) for column in columns)


_TYPES: dict[str, spark_types.DataType] = {}


def _type(text: str) -> spark_types.DataType:
    if text not in _TYPES:
        _TYPES[text] = spark_types.StructType.fromDDL(f"c {text}")["c"].dataType
    return _TYPES[text]


_FROM_JSON: dict[type[spark_types.DataType], Callable[[Any], Value]] = {
    spark_types.DateType: dt.date.fromisoformat,
    spark_types.TimestampType: dt.datetime.fromisoformat,
    spark_types.FloatType: float,
    spark_types.DoubleType: float,
    spark_types.DecimalType: Decimal,
}


def _value(found: Any, of: spark_types.DataType) -> Value:
    """A value of Hive's JSON as rows of the model have it."""
    if found is None:
        return None
    if isinstance(of, spark_types.StructType):
        return tuple((field.name, _value(found[field.name], field.dataType)) for field in of.fields)
    if isinstance(of, spark_types.ArrayType):
        return tuple(_value(each, of.elementType) for each in found)
    if isinstance(of, spark_types.MapType):
        return tuple((key, _value(each, of.valueType)) for key, each in found.items())
    return _FROM_JSON.get(type(of), lambda value: value)(found)
