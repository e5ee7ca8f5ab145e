"""The directories of a transactional table of Hive, for their registration.

Hive lists folders to find the directories that its readers need; here the catalog has records of the directories. Only
the directories that a snapshot of Hive's transactions reads are registered. Source: docs/reference/directories.md,
"Directories of a snapshot".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import pyarrow as pa

from airflow_hivex.core.catalog.directories import NewDirectory
from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError, JobError, NotEnoughHistoryError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.job.layout import METADATA_COLUMNS
from airflow_hivex.core.job.orc_tail import read_tail
from airflow_hivex.core.job.orc_tail.nesting import ACID_FIELDS, STATISTICS
from airflow_hivex.core.job.orc_tail.types import children, names
from airflow_hivex.core.job.original_files import row_counts
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import (
    NO_BUCKET,
    AcidDirectory,
    DirectoryKind,
    bucket_number,
    directory_state,
    parse_directory,
)
from airflow_hivex.core.model.objects import FLAT_LAYOUT, HIVE_LAYOUT, ORIGINAL_LAYOUT, PLAIN_LAYOUT, Table
from airflow_hivex.core.model.row_ids import ORIGINAL_WRITE_ID, VERSION_SHIFT, hive_bucket
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList

_OPERATION = "An import of"
_LONGEST_NAME = 128
_LENGTHS = "_flush_length"
"""The ending of the names of Hive's side files, which store how many bytes of a streamed file are valid."""

_COMPACTED = "_metadata_acid"


@dataclass(frozen=True, slots=True)
class HiveDirectories:
    """The directories of a table to register.

    ``next_write_id`` is the first write id that Hive has not allocated. ``highest_txn_id`` is the highest id of a
    compaction's transaction in the names of the directories, or 0.
    """

    found: tuple[NewDirectory, ...]
    next_write_id: int
    highest_txn_id: int


@dataclass(slots=True)
class _Place:
    """The folder of a partition, or of a table without partitions.

    ``files`` is a dict from directory to (path, size) pairs of its files. ``originals`` are the files that are in no
    base or delta directory.
    """

    files: dict[str, list[tuple[str, int]]]
    originals: list[tuple[str, int]]


_Wanted: TypeAlias = tuple[str | None, AcidDirectory | str, list[tuple[str, int]]]
"""A directory or an original file to register: its partition, its directory or path, and (path, size) pairs."""


class DirectoryReader:
    """A reader of the directories of one table that Hive's snapshot sees."""

    def __init__(
        self,
        table: Table,
        cluster: Cluster,
        files: ClusterFiles,
        write_ids: ValidWriteIdList,
        valid_txns: ValidTxnList,
    ) -> None:
        self._table = table
        self._cluster = cluster
        self._files = files
        self._write_ids = write_ids
        self._valid_txns = valid_txns
        self._root = table.storage.primary.location

    def read(self, partitions: Sequence[str]) -> HiveDirectories:
        """Return the directories of the table to register. ``partitions`` are the names of the table's partitions.

        The method lists the table's folder once, and reads the tail of each ORC or Parquet file.

        Raises:
            InvalidOperationError: a directory has rows that are not committed, or that have an unsupported form.
            InvalidObjectError: a file cannot be read.
            StorageError: the file system cannot be read.
        """
        places = self._places(partitions)
        wanted: list[_Wanted] = []
        for partition, location in places.items():
            for entry in self._chosen(partition, location):
                directory = parse_directory(entry)
                if directory is None:
                    files = [each for each in location.originals if each[0] == entry]
                else:
                    files = location.files[entry]
                wanted.append((partition, directory or entry, files))
        described = self._described(wanted)
        found = tuple(self._registered(partition, entry, files, described) for partition, entry, files in wanted)
        if not self._table.is_insert_only:
            self._check_deleted_originals(wanted, found)
        highest = max((each.visibility_txn_id for each in found), default=0)
        return HiveDirectories(found, self._write_ids.high_watermark + 1, highest)

    # -- what lies there ----------------------------------------------------------------

    def _places(self, partitions: Sequence[str]) -> dict[str | None, _Place]:
        known: dict[str | None, _Place] = {
            name: _Place({}, []) for name in (partitions if self._table.is_partitioned else (None,))
        }
        depth = len(self._table.partition_keys)
        for path, size in self._files.walk(self._root):
            names = path.split("/")
            place = known.get("/".join(names[:depth]) if depth else None)
            below = names[depth:]
            # Hive sees no files outside of its partitions either.
            if place is None or not below or below[0].startswith((".", "_")):
                continue
            if parse_directory(below[0]) is None:
                if not any(name.startswith((".", "_")) for name in below):
                    place.originals.append(("/".join(below), size))
                continue
            within = place.files.setdefault(below[0], [])
            if not any(name.startswith((".", "_")) for name in below[1:]):
                within.append(("/".join(below[1:]), size))
        return known

    def _chosen(self, partition: str | None, place: _Place) -> list[str]:
        """Return the names of the entries that Hive reads in a folder: a base, original files, deltas.

        Raises:
            InvalidOperationError: the entries have rows that are not committed, or can still be committed.
        """
        where = self._of(partition)
        entries = [*place.files, *(name for name, _ in place.originals)]
        try:
            state = directory_state(
                entries, self._write_ids, self._valid_txns, compacted_bases=self._compacted_bases(partition, place)
            )
        except NotEnoughHistoryError as error:
            reason = f"a compaction of Hive has merged what is not committed: {str(error).rstrip('.')}"
            raise InvalidOperationError(_OPERATION, where, reason) from error
        if state.partial:
            reason = (
                f"{state.partial[0]} has rows of transactions that are aborted, or open, and of others; run a major "
                "compaction in Hive, and import the table again"
            )
            raise InvalidOperationError(_OPERATION, where, reason)
        self._check_not_open(where, place.files)
        return [*((state.base,) if state.base else ()), *state.originals, *state.deltas]

    def _check_not_open(self, where: str, names: Iterable[str]) -> None:
        """Refuse a folder to which a transaction of Hive is writing, since the import would lose the rows.

        Raises:
            InvalidOperationError: a transaction of Hive is writing to the folder.
        """
        opened = self._write_ids.open_ids
        for directory in filter(None, map(parse_directory, names)):
            first = directory.max_write_id if directory.kind is DirectoryKind.BASE else directory.min_write_id
            is_written = not directory.visibility_txn_id and any(
                first <= each <= directory.max_write_id for each in opened
            )
            is_late = directory.max_write_id > self._write_ids.high_watermark
            if is_written or (is_late and not directory.visibility_txn_id):
                reason = (
                    f"a transaction that is open in Hive has written {directory.name}; wait until it has ended, and "
                    "import the table again"
                )
                raise InvalidOperationError(_OPERATION, where, reason)

    def _compacted_bases(self, partition: str | None, place: _Place) -> list[str]:
        """Return the bases that a compaction has written, if their names do not show this.

        Only bases whose own write id is not committed are checked.
        """
        found = []
        for name in place.files:
            directory = parse_directory(name)
            if directory is None or directory.kind is not DirectoryKind.BASE or directory.visibility_txn_id:
                continue
            if self._write_ids.is_valid(directory.max_write_id):
                continue
            folder = "/".join(each for each in (self._root, partition, name) if each)
            if "compacted" in (self._files.read_text(f"{folder}/{_COMPACTED}") or ""):
                found.append(name)
        return found

    # -- what is registered ---------------------------------------------------------------

    def _described(self, wanted: Sequence[_Wanted]) -> Mapping[str, AcidFile]:
        """Return a dict from URI to description, for the files of all wanted entries."""
        sizes = {self._uri(partition, entry, name): size for partition, entry, files in wanted for name, size in files}
        found = list(sizes.items())
        if not self._table.is_insert_only:
            return dict(zip(sizes, read_acid_files(found), strict=True))
        counts = row_counts(self._table.storage.format, found)
        return {uri: AcidFile(rows) for uri, rows in zip(sizes, counts, strict=True)}

    def _uri(self, partition: str | None, entry: AcidDirectory | str, name: str) -> str:
        folder = entry.name if isinstance(entry, AcidDirectory) else None
        return self._cluster.uri("/".join(each for each in (self._root, partition, folder, name) if each))

    def _registered(
        self,
        partition: str | None,
        entry: AcidDirectory | str,
        files: Sequence[tuple[str, int]],
        described: Mapping[str, AcidFile],
    ) -> NewDirectory:
        """Return the directory or original file in the form in which the catalog registers it.

        Raises:
            InvalidOperationError: the files have an unsupported form.
        """
        of_files = {name: described[self._uri(partition, entry, name)] for name, _ in files}
        self._check_columns(partition, entry, of_files)
        size = sum(each for _, each in files)
        rows = sum(each.rows for each in of_files.values())
        if isinstance(entry, str):
            if len(entry) > _LONGEST_NAME:
                raise self._refused(partition, entry, f"its name is longer than {_LONGEST_NAME} characters; rename it")
            if any(each.is_nested or each.is_flat for each in of_files.values()):
                raise self._refused(partition, entry, "it has rows of a full ACID table, and lies outside of a delta")
            layout = PLAIN_LAYOUT if self._table.is_insert_only else ORIGINAL_LAYOUT
            return NewDirectory(
                partition, entry, "original", ORIGINAL_WRITE_ID, ORIGINAL_WRITE_ID, layout, 1, rows, size
            )
        return NewDirectory(
            partition=partition,
            name=entry.name,
            kind=entry.kind.value,
            min_write_id=entry.min_write_id,
            max_write_id=entry.max_write_id,
            row_layout=self._layout(partition, entry, of_files),
            files=len(files),
            rows=rows,
            size_bytes=size,
            statement_id=entry.statement_id,
            visibility_txn_id=entry.visibility_txn_id,
        )

    def _layout(self, partition: str | None, directory: AcidDirectory, files: Mapping[str, AcidFile]) -> str:
        if self._table.is_insert_only:
            return PLAIN_LAYOUT
        with_rows = {name: each for name, each in files.items() if each.rows or each.columns}
        if with_rows and all(each.is_flat for each in with_rows.values()):
            return FLAT_LAYOUT
        nested = {name: each for name, each in with_rows.items() if each.is_nested}
        if with_rows and not nested:
            # LOAD DATA of Hive has put plain files into a delta.
            return ORIGINAL_LAYOUT
        if len(nested) < len(with_rows):
            raise self._refused(partition, directory, "some of its files have Hive's metadata columns, and others not")
        for name, each in nested.items():
            if name.endswith(_LENGTHS) or bucket_number(name) == NO_BUCKET:
                reason = f"file {name} is not a bucket of a finished write; run a compaction in Hive"
                raise self._refused(partition, directory, reason)
            if directory.kind is not DirectoryKind.DELETE_DELTA and each.changes:
                reason = f"file {name} has updates as Hive 2 wrote them; run a major compaction in Hive"
                raise self._refused(partition, directory, reason)
        return HIVE_LAYOUT

    def _check_columns(self, partition: str | None, entry: AcidDirectory | str, files: Mapping[str, AcidFile]) -> None:
        """Refuse files with a column that the table does not have, because columns are found by name."""
        known = {column.name for column in self._table.columns}
        for name, each in files.items():
            strange = [column for column in each.columns if column not in known]
            if strange:
                reason = (
                    f"file {name} has a column {strange[0]} that the table does not have; columns are found by their "
                    "names here. Rewrite the rows in Hive, by INSERT OVERWRITE or a major compaction"
                )
                raise self._refused(partition, entry, reason)

    # -- row ids --------------------------------------------------------------------------

    def _check_deleted_originals(self, wanted: Sequence[_Wanted], found: Sequence[NewDirectory]) -> None:
        """Refuse delete events of Hive 2 in a bucket with several original files.

        A delete event of Hive 2 has the bucket and the row number of the deleted row. It does not say in which file of
        the bucket the row is (HIVE-16177).

        Raises:
            InvalidOperationError: the table has delete events of Hive 2 in a bucket with several original files.
        """
        files: dict[str | None, Counter[int | None]] = defaultdict(Counter)
        for (partition, entry, _), row in zip(wanted, found, strict=True):
            if row.row_layout == ORIGINAL_LAYOUT and isinstance(entry, str):
                files[partition][hive_bucket(entry)] += 1
        deletes = [
            (partition, entry, self._uri(partition, entry, name))
            for (partition, entry, of_entry), row in zip(wanted, found, strict=True)
            if row.kind == DirectoryKind.DELETE_DELTA.value and partition in files
            for name, size in of_entry
            if size
        ]
        writers = read_writers([uri for _, _, uri in deletes])
        for (partition, entry, _), of_file in zip(deletes, writers, strict=True):
            for write_id, bucket in of_file:
                count = files[partition][bucket]
                if write_id == ORIGINAL_WRITE_ID and bucket >> VERSION_SHIFT != 1 and count != 1:
                    reason = (
                        f"Hive 2 has deleted rows of bucket {bucket} in it, which has {count} files from before the "
                        "table was transactional; only of one file it is certain which rows these are. Run a major "
                        "compaction in Hive"
                    )
                    raise self._refused(partition, entry, reason)

    def _of(self, partition: str | None) -> str:
        return f"{self._table.full_name} {partition}" if partition else self._table.full_name

    def _refused(self, partition: str | None, entry: AcidDirectory | str, reason: str) -> InvalidOperationError:
        name = entry.name if isinstance(entry, AcidDirectory) else entry
        where = "/".join(each for each in (partition, name) if each)
        return InvalidOperationError(_OPERATION, f"{self._table.full_name} {where}", reason)


R = TypeVar("R")
T = TypeVar("T")

_READERS = 16
_WRITE_ID, _BUCKET = ACID_FIELDS[1], ACID_FIELDS[2]


@dataclass(frozen=True, slots=True)
class AcidFile:
    """An ORC file. With ``is_nested`` it has Hive's metadata columns, and the table's columns in a struct.

    With ``is_flat`` the metadata columns of this project come before the table's columns.

    ``columns`` are the names of the table's columns in the file, in lower case. The rows of a nested file are insert,
    update and delete events. ``changes`` is the number of updates and deletes, or 0 if the writer has not recorded this
    number.
    """

    rows: int
    columns: tuple[str, ...] = ()
    is_nested: bool = False
    changes: int = 0
    is_flat: bool = False


def read_acid_files(files: Sequence[tuple[str, int]]) -> list[AcidFile]:
    """Return the descriptions of files, given by URI and size. Only the tail of each file is read.

    A file of size 0 has no rows.

    Raises:
        InvalidObjectError: a file cannot be read as ORC.
    """
    return _each(_read, files)


def read_writers(uris: Sequence[str]) -> list[frozenset[tuple[int, int]]]:
    """Return for each file of Hive's layout the distinct (original write id, bucket property) pairs of its rows.

    Two columns of each file are read.

    Raises:
        InvalidObjectError: a file cannot be read as ORC.
    """
    return _each(_read_writers, uris)


def _each(read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, items))


def _read(file: tuple[str, int]) -> AcidFile:
    uri, size = file
    # Hive leaves empty files for buckets without rows.
    if not size:
        return AcidFile(0)
    try:
        tail = read_tail(place(uri))
        types = tail.types
        root = [name.lower() for name in names(types[0])]
        own = [column.name for column in METADATA_COLUMNS]
        if root[: len(own)] == own:
            return AcidFile(tail.rows, tuple(root[len(own) :]), is_flat=True)
        if root != [name.lower() for name in ACID_FIELDS]:
            return AcidFile(tail.rows, tuple(root))
        row = types[children(types[0])[-1]]
        counted = [int(text) for text in tail.user_metadata.get(STATISTICS, b"").decode().split(",") if text]
        return AcidFile(tail.rows, tuple(name.lower() for name in names(row)), True, changes=sum(counted[1:]))
    except (OSError, ValueError, IndexError, JobError, pa.ArrowException) as error:
        raise _unreadable(uri, error) from error


def _read_writers(uri: str) -> frozenset[tuple[int, int]]:
    from pyarrow import orc

    try:
        with place(uri).open() as data:
            found = orc.ORCFile(data).read(columns=[_WRITE_ID, _BUCKET])
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(uri, error) from error
    pairs = found.group_by([_WRITE_ID, _BUCKET]).aggregate([])
    return frozenset(zip(pairs[_WRITE_ID].to_pylist(), pairs[_BUCKET].to_pylist(), strict=True))


def _unreadable(uri: str, error: Exception) -> InvalidObjectError:
    return InvalidObjectError("file", uri, f"it cannot be read as ORC: {error}")
