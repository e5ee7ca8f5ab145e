"""The delete events of a scan, read by pyarrow in the process that needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_hivex.core.errors import JobError
from airflow_hivex.core.job.layout import BUCKET, HIVE_NAMES, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.storage import Place, place
from airflow_hivex.core.model.plans import Scan, WriteIdFilter

if TYPE_CHECKING:
    from pyarrow import orc

MOST_EVENTS = 50_000_000
"""The greatest number of delete events that the driver reads. With more events, Spark uses a join."""
SOURCE = "__source_file"
"""The column with the number of a delete event's file."""

_READERS = 16
_COLUMNS = [ORIGINAL_WRITE_ID, BUCKET, ROW_ID, WRITE_ID]


def event_files(scan: Scan) -> list[Place]:
    """Return the files with delete events.

    Raises:
        JobError: files are missing, so deleted rows would be visible again; or there are additional files.
    """

    def of(directory: str) -> list[Place]:
        where = place(directory)
        return [where / name for name, _ in where.files() if not name.startswith(("_", "."))]

    files: list[Place] = []
    with ThreadPoolExecutor(_READERS) as pool:
        for part in scan.deletes:
            found = list(chain.from_iterable(pool.map(of, part.paths)))
            if part.files is not None and len(found) != part.files:
                raise JobError(
                    "",
                    f"{scan.table} has {len(found)} files of delete deltas below {part.base_path} where {part.files} "
                    "were written: some were deleted or added by other means; restore them, or drop the table or "
                    "partition.",
                )
            files += found
    return files


@contextmanager
def _opened(file: Place) -> Iterator[orc.ORCFile]:
    """Open an ORC file.

    Raises:
        JobError: the file is not an ORC file, or cannot be read.
    """
    from pyarrow import orc

    try:
        with file.open() as data:
            yield orc.ORCFile(data)
    except (OSError, pa.ArrowException) as error:
        raise JobError("", f"{file.path} cannot be read: {error}") from error


def events_in(files: Sequence[Place], valid: WriteIdFilter | None) -> pa.Table | None:
    """Return the delete events that the snapshot sees, each with the number of its file in :data:`SOURCE`.

    The result is None if there are too many events for the driver.

    Raises:
        JobError: a file cannot be read.
    """
    return _events(files, valid) if _event_count(files) <= MOST_EVENTS else None


def _event_count(files: Sequence[Place]) -> int:
    def count(file: Place) -> int:
        with _opened(file) as data:
            return int(data.nrows)

    with ThreadPoolExecutor(_READERS) as pool:
        return sum(pool.map(count, files))


def _events(files: Sequence[Place], valid: WriteIdFilter | None) -> pa.Table:
    def read(file: Place) -> pa.Table:
        with _opened(file) as data:
            # Decided by the file itself, whatever the layout of the table is.
            names = _COLUMNS if ORIGINAL_WRITE_ID in data.schema.names else [HIVE_NAMES[name] for name in _COLUMNS]
            return data.read(columns=names).select(names).rename_columns(_COLUMNS)

    if not files:
        return pa.table({name: pa.array([], pa.int64()) for name in (*_COLUMNS, SOURCE)})
    with ThreadPoolExecutor(_READERS) as pool:
        tables = list(pool.map(read, files))
    sources = np.repeat(np.arange(len(tables), dtype=np.int32), [len(table) for table in tables])
    events = pa.concat_tables(tables).append_column(SOURCE, pa.array(sources))
    if valid is not None:
        write_ids = events.column(WRITE_ID).to_numpy()
        seen = (write_ids <= valid.high_watermark) & ~np.isin(write_ids, valid.exceptions)
        events = events.filter(pa.array(seen))
    return events
