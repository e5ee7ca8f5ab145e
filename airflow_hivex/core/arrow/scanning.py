"""A scan of a table's files as record batches. Several threads read; the batches keep the order of the files."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hivex.core.arrow.conditions import Condition, Range
from airflow_hivex.core.arrow.files import OrcReading, ParquetReading, Piece, Reading, readable
from airflow_hivex.core.arrow.typed_values import TypedValues
from airflow_hivex.core.arrow.visible_rows import Deleted, DeletedRows, VisibleRows, numbered_keys
from airflow_hivex.core.errors import (
    FolderExpectedError,
    InvalidOperationError,
    InvalidParametersError,
    NoSuchColumnError,
    StorageError,
)
from airflow_hivex.core.job.layout import FLAT, HIVE, ORIGINAL
from airflow_hivex.core.job.original_files import OriginalFile, files_of
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.job.values import arrow_type_of
from airflow_hivex.core.model.column_types import Array, ColumnType, Map, Primitive, Struct, primitives
from airflow_hivex.core.model.objects import Column
from airflow_hivex.core.model.partitions import nullable_values
from airflow_hivex.core.model.plans import Scan, ScanPart

_READERS = 16

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _File:
    """A data file: the values and deleted rows of its partition, and the row ids of an original file (``numbered``).

    If other programs can change the file, ``stamp`` is its state before its pieces were planned.
    """

    place: Place
    values: tuple[Any, ...]
    reading: Reading
    has_metadata: bool
    deleted: Deleted
    numbered: OriginalFile | None = None
    stamp: tuple[int | None, object] | None = None


class ArrowScan:
    """The rows of a scan that fulfil a condition, with the chosen columns."""

    def __init__(
        self,
        scan: Scan,
        values: TypedValues,
        columns: Sequence[str] | None = None,
        condition: Condition | None = None,
        filter: pc.Expression | None = None,
        threads: int | None = None,
    ) -> None:
        """Prepare the scan.

        ``values`` converts values as the session does; ``filter`` is a further condition, as an expression of pyarrow.

        Raises:
            NoSuchColumnError: the table does not have one of the columns.
            InvalidOperationError: only Spark can read the format, or the type of a column.
        """
        self._scan = scan
        self._values_of = values
        self._condition = condition
        self._filter = filter
        self._threads = threads or min(_READERS, (os.cpu_count() or 1) + 1)
        everything = (*scan.columns, *scan.partition_columns)
        self._columns = everything if columns is None else _chosen(everything, columns, scan.table)
        self.schema = pa.schema([pa.field(each.name, arrow_type(each, scan.table)) for each in self._columns])
        self._readings = _readings(scan)
        wanted = {each.name for each in self._columns}
        if condition is not None:
            wanted |= {each.name for each in everything if each.name.lower() in condition.columns}
        if filter is not None:
            # Only the text of a pyarrow expression has the names of its columns.
            wanted |= {each.name for each in everything if each.name in str(filter)}
        read = tuple(each for each in everything if each.name in wanted)
        self._read = tuple(each for each in read if each in scan.columns)
        self._keys = tuple(each for each in read if each in scan.partition_columns)
        values.check(read)
        self._types = {each.name: arrow_type(each, scan.table) for each in read}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches. At most four shares (``Share``) per thread are read ahead.

        Raises:
            StorageError: a file is missing or cannot be read.
        """
        deleted = DeletedRows(self._scan)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="hivex-arrow") as pool:
            try:
                listed = _ahead(pool, lambda part: self._files(part, deleted), self._scan.parts, _READERS)
                files = (file for found in listed for file in found)
                planned = _ahead(pool, self._pieces, files, 4 * self._threads)
                shares = (each for found in planned for file, piece in found for each in self._shares(file, piece))
                for batch in _ahead(pool, self._rows, shares, 4 * self._threads):
                    if batch is not None and batch.num_rows:
                        yield batch
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    # -- files ---------------------------------------------------------------------------

    def _files(self, part: ScanPart, deleted: DeletedRows) -> list[_File]:
        if part.layout == ORIGINAL:
            reading = self._readings[False]
            return [
                _File(
                    place(each.uri),
                    self._values(part, each.owner[0]),
                    reading,
                    has_metadata=False,
                    deleted=deleted.of(each.owner[0]),
                    numbered=each,
                )
                for each in files_of(self._scan.format, part)
            ]
        reading = self._readings[part.layout == HIVE]
        files: list[_File] = []
        found = 0
        for path in part.paths:
            has_metadata = part.layout in (FLAT, HIVE)
            gone = deleted.of(path.rpartition("/")[0]) if has_metadata else {}
            values = self._values(part, path)
            listed = _listed(path, is_folder=part.layout is None)
            found += len(listed)
            # Hive leaves empty files for buckets without rows.
            files += [_File(file, values, reading, has_metadata, gone) for file, size in listed if size]
        if part.files is not None and not (found == part.files or (part.growing and found > part.files)):
            raise StorageError(
                part.base_path,
                f"{self._scan.table} has {found} data files there where {part.files} were written: some were deleted "
                "or added by other means; restore them, or drop the table or partition",
            )
        return files

    def _values(self, part: ScanPart, path: str) -> tuple[Any, ...]:
        """Return the values of the partition columns for the files below ``path``."""
        keys = self._scan.partition_columns
        texts = part.values
        if texts is None:
            below = path[len(part.base_path) :].strip("/")
            texts = nullable_values("/".join(below.split("/")[: len(keys)])) if keys else ()
        try:
            return tuple(self._values_of.partition_value(text, key) for text, key in zip(texts, keys, strict=True))
        except ValueError as error:
            raise InvalidOperationError(
                "A read without Spark of", self._scan.table, f"{error}; use session.sql"
            ) from error

    def _pieces(self, file: _File) -> list[tuple[_File, Piece]]:
        known: dict[str, Range] = {}
        if self._condition is not None:
            for key, value in zip(self._scan.partition_columns, file.values, strict=True):
                if not isinstance(value, float):
                    known[key.name.lower()] = Range(value, value, has_null=value is None)
            if not self._condition.can_hold(known):
                return []
        keys = self._has_invisible(file)
        if not self._scan.is_transactional:
            # Another program may change the file before its pieces are read.
            with readable(file.place):
                file = replace(file, stamp=file.place.stamp())
        return [(file, piece) for piece in file.reading.pieces(file.place, self._read, self._condition, keys=keys)]

    def _shares(self, file: _File, piece: Piece) -> list[tuple[_File, Share]]:
        return [(file, share) for share in shares_of(piece, self._visible(file, piece), self._read)]

    # -- rows ----------------------------------------------------------------------------

    def _rows(self, task: tuple[_File, Share]) -> pa.RecordBatch | None:
        """Read a share of a piece. If it is the last share to be read, return the rows of the piece, otherwise None."""
        file, share = task
        rows = share.rows
        try:
            stored = file.reading.rows(file.place, rows.piece, share.columns, share.metadata)
        finally:
            _check_unchanged(file, self._scan.table)
        stay = None if rows.metadata else rows.stay({})
        columns = {name: stored[name] for name in share.metadata}
        columns |= self._conformed(file, rows.piece, stored, share.columns, stay)
        return self._finished(file, rows) if rows.add(columns) else None

    def _conformed(
        self,
        file: _File,
        piece: Piece,
        stored: Mapping[str, pa.Array],
        columns: Sequence[Column],
        stay: pa.Array | None,
    ) -> dict[str, pa.Array]:
        """Return columns converted to the types of the table, reduced to the rows for which ``stay`` is True."""
        count = piece.rows if stay is None else stay.true_count
        with readable(file.place):
            return {
                each.name: conform(
                    stored[each.name] if stay is None else stored[each.name].filter(stay),
                    self._types[each.name],
                    each.parsed_type,
                )
                if each.name in stored
                else pa.nulls(count, self._types[each.name])
                for each in columns
            }

    def _finished(self, file: _File, rows: PieceRows) -> pa.RecordBatch:
        stay = rows.stay(rows.columns)
        count = rows.piece.rows if stay is None else stay.true_count
        columns = [rows.columns[each.name] for each in self._read]
        if stay is not None and rows.metadata:
            columns = [each.filter(stay) for each in columns]
        columns += [self._partition_column(file, each, count) for each in self._keys]
        fields = [pa.field(each.name, self._types[each.name]) for each in (*self._read, *self._keys)]
        # A batch without columns has a number of rows, too.
        found = pa.RecordBatch.from_struct_array(
            pa.StructArray.from_buffers(pa.struct(fields), count, [None], children=columns)
        )
        for condition in (self._condition and self._condition.expression, self._filter):
            if condition is not None:
                found = _filtered(found, condition)
        return found.select(self.schema.names).cast(self.schema) if self.schema.names else found.select([])

    def _partition_column(self, file: _File, key: Column, rows: int) -> pa.Array:
        value = file.values[self._scan.partition_columns.index(key)]
        return pa.repeat(pa.scalar(value, self._types[key.name]), rows)

    def _visible(self, file: _File, piece: Piece) -> VisibleRows | None:
        """Return the visible rows of a piece, or None if all its rows are visible."""
        if file.numbered is not None:
            if not file.deleted:
                return None
            first = file.numbered.first_row_id + piece.first_row
            write_id, bucket = file.numbered.owner[1], file.numbered.bucket
            last = first + piece.rows - 1
            return VisibleRows(piece.rows, numbered_keys(write_id, bucket, first, last), file.deleted, None)
        if not self._has_invisible(file):
            return None
        return VisibleRows(piece.rows, piece.keys, file.deleted, self._scan.filter)

    def _has_invisible(self, file: _File) -> bool:
        return file.has_metadata and (bool(file.deleted) or self._scan.filter is not None)


def _readings(scan: Scan) -> dict[bool, Reading]:
    """Return the readers of a scan's files as a dict, with True for files whose rows are structs, and False for others.

    Raises:
        InvalidOperationError: only Spark can read the format.
    """
    if scan.format == "orc":
        return {each: OrcReading(scan.columns, is_nested=each) for each in (False, True)}
    if scan.format == "parquet":
        return {False: ParquetReading(scan.columns)}
    reason = f"its files have the format {scan.format}, which only Spark reads; use session.sql"
    raise InvalidOperationError("A read without Spark of", scan.table, reason)


def _chosen(columns: Sequence[Column], names: Sequence[str], table: str) -> tuple[Column, ...]:
    by_name = {column.name.lower(): column for column in columns}
    found = []
    for name in names:
        if name.lower() not in by_name:
            raise NoSuchColumnError(table, name, [column.name for column in columns])
        found.append(by_name[name.lower()])
    return tuple(dict.fromkeys(found))


def _listed(path: str, *, is_folder: bool) -> list[tuple[Place, int]]:
    """Return the data files in a directory, with their sizes. If ``is_folder`` is false, the path can also be a file.

    Raises:
        FolderExpectedError: the path is a file, but ``is_folder`` is true.
        StorageError: the directory cannot be listed.
    """
    where = place(path)
    began = time.monotonic()
    try:
        info = where.filesystem.get_file_info(where.path)
        if info.is_file and is_folder:
            raise FolderExpectedError(path)
        if info.is_file:
            return [(where, info.size)]
        found = where.files()
    except OSError as error:
        raise StorageError(path, where.describe(error, began)) from error
    # As in Spark, deeper files, and files of such names, have no rows.
    return [(where / name, size) for name, size in found if "/" not in name and not name.startswith(("_", "."))]


def _check_unchanged(file: _File, table: str) -> None:
    """Refuse a file that has changed since its pieces were planned: its rows would come from two versions of the file.

    Raises:
        StorageError: the file has changed, or was deleted.
    """
    if file.stamp is None:
        return
    with readable(file.place):
        is_unchanged = file.place.stamp() == file.stamp
    if not is_unchanged:
        raise StorageError(file.place.path, f"another program has changed it while {table} was read; read it again")


def _filtered(rows: pa.RecordBatch, condition: pc.Expression) -> pa.RecordBatch:
    try:
        found = pa.Table.from_batches([rows]).filter(condition).combine_chunks()
    except (pa.ArrowException, TypeError) as error:
        raise InvalidParametersError(f"{condition} is not a valid filter of these rows: {error}") from error
    return found.to_batches()[0] if found.num_rows else rows.slice(0, 0)


def _ahead(pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], most: int) -> Iterator[R]:
    """Yield the results of ``work`` for ``items``, in order; at most ``most`` calls run or wait at the same time."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) >= most:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


# The columns of a piece of a file in shares, so that few large pieces keep all threads busy.
#
# A table of some million rows has few stripes. If stripes were read as a whole, processors would be idle during the
# last ones.


VALUES = 1_000_000
"""The approximate number of values in a share.

Reading a share takes some hundredths of a second; opening the file for it takes much less.
"""


class PieceRows:
    """The columns of a piece that were read so far, and its visible rows. Safe to share between threads."""

    def __init__(self, piece: Piece, visible: VisibleRows | None, shares: int) -> None:
        self.piece = piece
        self.columns: dict[str, pa.Array] = {}
        self._visible = visible
        self._left = shares
        self._stay: pa.Array | None = None
        self._lock = Lock()

    @property
    def metadata(self) -> tuple[str, ...]:
        """Return the names of the metadata columns that decide which rows are visible."""
        return () if self._visible is None else self._visible.metadata

    def stay(self, metadata: Mapping[str, Any]) -> pa.Array | None:
        """Return a boolean array that is True for visible rows, or None if all rows are visible.

        ``metadata`` is a dict with the values of the metadata columns.
        """
        if self._visible is None:
            return None
        with self._lock:
            if self._stay is None:
                found = self._visible.among(metadata)
                if found is None or found.all():
                    self._visible = None
                    return None
                self._stay = pa.array(found)
            return self._stay

    def add(self, columns: Mapping[str, pa.Array]) -> bool:
        """Add the columns of a share. Return whether all shares of the piece are now read."""
        with self._lock:
            self.columns.update(columns)
            self._left -= 1
            return self._left == 0


@dataclass(frozen=True, slots=True)
class Share:
    """Some columns of a piece, which one thread reads at once. ``metadata`` names its metadata columns."""

    rows: PieceRows
    columns: Sequence[Column]
    metadata: Sequence[str] = ()


def shares_of(piece: Piece, visible: VisibleRows | None, columns: Sequence[Column]) -> list[Share]:
    """Return shares that together have all columns of a piece. The first share also has the metadata columns."""
    number = max(1, min(len(columns), piece.rows * len(columns) // VALUES))
    if any("." in each.in_files for each in columns):
        # The reader of nested rows would read the whole row for each share.
        number = 1
    rows = PieceRows(piece, visible, number)
    # Adjacent columns often have similar types, such as texts or numbers.
    return [Share(rows, columns[at::number], () if at else rows.metadata) for at in range(number)]


_TIMESTAMP = pa.timestamp("us", tz="UTC")
"""The type of a TIMESTAMP in Spark's ``toArrow``. The values in files have no zone."""


def arrow_type(column: Column, table: str) -> pa.DataType:
    """Return the type of a column in pyarrow, as in Spark's ``toArrow``.

    Raises:
        InvalidOperationError: pyarrow has no such type.
    """
    found = _arrow_type(column.parsed_type)
    if found is None:
        reason = f"column {column.name} has the type {column.type}, which only Spark reads; use session.sql"
        raise InvalidOperationError("A read without Spark of", table, reason)
    return found


def _arrow_type(declared: ColumnType) -> pa.DataType | None:
    match declared:
        case Primitive(name="timestamp"):
            return _TIMESTAMP
        case Primitive():
            return arrow_type_of(declared)
        case Array(element):
            found = _arrow_type(element)
            return None if found is None else pa.list_(pa.field("element", found))
        case Map(key, value):
            of_key, of_value = _arrow_type(key), _arrow_type(value)
            return None if of_key is None or of_value is None else pa.map_(of_key, of_value)
        case Struct(fields):
            types = [_arrow_type(each.type) for each in fields]
            if any(each is None for each in types):
                return None
            return pa.struct([pa.field(each.name, found) for each, found in zip(fields, types, strict=True)])
    return None


def conform(values: pa.Array, wanted: pa.DataType, declared: ColumnType) -> pa.Array:
    """Return values of a file converted to the table's type, which is ``wanted`` in pyarrow.

    Fields of structs match by name; a field that the file lacks becomes NULL. Texts of CHAR are padded, because some
    writers omit blanks at the end.

    Raises:
        pa.ArrowException: a value does not fit the type.
    """
    given = values.type
    has_char = any(each.name == "char" for each in primitives(declared))
    if given.equals(wanted) and not has_char:
        return values
    if isinstance(declared, Struct) and pa.types.is_struct(wanted) and pa.types.is_struct(given):
        places = {field.name.lower(): place for place, field in reversed(list(enumerate(given)))}
        fields = [
            conform(values.field(places[field.name.lower()]), field.type, part.type)
            if field.name.lower() in places
            else pa.nulls(len(values), field.type)
            for field, part in zip(wanted, declared.fields, strict=True)
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=values.is_null())
    if isinstance(declared, Array) and pa.types.is_list(wanted) and pa.types.is_list(given):
        items = conform(values.values, wanted.value_type, declared.element)
        return pa.ListArray.from_arrays(values.offsets, items, type=wanted, mask=values.is_null())
    if isinstance(declared, Map) and pa.types.is_map(wanted) and pa.types.is_map(given):
        keys = conform(values.keys, wanted.key_type, declared.key)
        items = conform(values.items, wanted.item_type, declared.value)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=values.is_null())
    # Files of ORC have nanoseconds, and no writer of ours or Spark's fills the last three digits.
    found = values if given.equals(wanted) else values.cast(wanted, safe=not pa.types.is_timestamp(given))
    return pc.utf8_rpad(found, declared.parameters[0]) if has_char and isinstance(declared, Primitive) else found
