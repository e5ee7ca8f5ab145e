"""The contents of the footers of data files, read in the process that runs the statement."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.job.storage import Place, place

log = logging.getLogger(__name__)

_READERS = 16
_REPORT_EACH = 1000
_ACID_FIELDS = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")


def row_counts(format: str, files: Sequence[tuple[str, int]]) -> list[int]:
    """Return how many rows each file has, given its URI and size.

    0 in formats whose files do not say it, and in empty files.

    Raises:
        InvalidObjectError: a file cannot be read as that format, or holds rows of a full ACID table of Hive's.
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


def _parquet(file: Place) -> int:
    from pyarrow import parquet

    with file.open() as data:
        return int(parquet.read_metadata(data).num_rows)


_FORMATS: Mapping[str, Callable[[Place], int]] = {"orc": _orc, "parquet": _parquet}
