"""The original files of a scan, with their row counts and the ids of their rows; see ``originals``."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.plans import OriginalFiles, ScanPart
from airflow_hivex.core.model.row_ids import encode_bucket, number_files


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """An original file: a data file that was written before the table became transactional.

    The rows have consecutive row ids from ``first_row_id`` on, in the bucket with the property ``bucket``.
    """

    uri: str
    owner: tuple[str, int]
    bucket: int
    first_row_id: int
    rows: int


def files_of(format: str, part: ScanPart) -> list[OriginalFile]:
    """Return the original files of a part that have rows."""
    return [file for group in part.originals for file in _numbered(format, group) if file.rows]


def _numbered(format: str, group: OriginalFiles) -> list[OriginalFile]:
    root, files = group.place, group.files
    if group.folder is not None:
        root = f"{group.place}/{group.folder}"
        there = [(name, size) for name, size in place(root).files() if not name.startswith(("_", "."))]
        counts = row_counts(format, [(f"{root}/{name}", size) for name, size in there])
        files = tuple((name, rows) for (name, _), rows in zip(there, counts, strict=True))
    return [
        OriginalFile(
            f"{root}/{file.name}",
            (group.place, group.write_id),
            encode_bucket(file.bucket_id, group.statement_id),
            file.first_row_id,
            file.rows,
        )
        for file in number_files(files)
    ]


def plain_path(uri: str) -> str:
    """Return a URI in one spelling, as a key. Hadoop writes URIs of local files with one slash or three."""
    return re.sub(r"^file:/+", "/", uri)


log = logging.getLogger(__name__)

_READERS = 16
_REPORT_EACH = 1000
_ACID_FIELDS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")


def row_counts(format: str, files: Sequence[tuple[str, int]]) -> list[int]:
    """Return the number of rows of each file; ``files`` has (URI, size in bytes) pairs.

    The number is 0 for empty files, and for formats whose files do not record the number of rows.

    Raises:
        InvalidObjectError: a file cannot be read in the format, or has rows of a full ACID table of Hive.
    """
    reader = _FORMATS.get(format)
    if reader is None:
        return [0] * len(files)

    def count(file: tuple[str, int]) -> int:
        uri, size = file
        # Hive leaves empty files for buckets without rows.
        if not size:
            return 0
        try:
            return reader(place(uri))
        except (OSError, pa.ArrowException) as error:
            raise InvalidObjectError("file", uri, f"it cannot be read as {format}: {error}") from error

    counts = []
    with ThreadPoolExecutor(_READERS) as pool:
        for number, rows in enumerate(pool.map(count, files), 1):
            counts.append(rows)
            if number % _REPORT_EACH == 0:
                log.info("Read the footers of %s of %s files", number, len(files))
    return counts


def _orc(file: Place) -> int:
    from pyarrow import orc

    with file.open() as data:
        found = orc.ORCFile(data)
        if tuple(name.lower() for name in found.schema.names) == _ACID_FIELDS:
            raise pa.ArrowInvalid("it holds rows of a full ACID table of Hive's, with their metadata")
        return int(found.nrows)


def parquet_rows(file: Place) -> int:
    """Return the number of rows of a Parquet file."""
    from pyarrow import parquet

    with file.open() as data:
        return int(parquet.read_metadata(data).num_rows)


_FORMATS: Mapping[str, Callable[[Place], int]] = {"orc": _orc, "parquet": parquet_rows}
