"""The rows of a stripe that a reader sees: written before its snapshot, and not deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from airflow_hivex.core.arrow.files import readable
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.job.delete_events import SOURCE, event_files, events_in
from airflow_hivex.core.job.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.orc_tail import Keys
from airflow_hivex.core.job.orc_tail.types import Range
from airflow_hivex.core.job.row_keys import Writer, runs
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.plans import Scan, WriteIdFilter
from airflow_hivex.core.model.row_ids import ORIGINAL_WRITE_ID as FIRST_WRITE_ID
from airflow_hivex.core.model.row_ids import VERSION_SHIFT, WRITER_SHIFT

_KEY = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


class VisibleRows:
    """The rows of a stripe that a snapshot sees. ``keys`` are the ranges of the row keys, or None if not known."""

    def __init__(self, rows: int, keys: Keys | None, deleted: Deleted, written_by: WriteIdFilter | None) -> None:
        self._rows = rows
        self._keys = keys
        self._written_by = written_by if written_by is None or not _sees_all(written_by, keys) else None
        self._deleted = deleted if keys is None else dict(_between(keys, deleted))

    @property
    def metadata(self) -> tuple[str, ...]:
        """Return the names of the metadata columns to read."""
        key = _KEY if self._deleted and not self._is_numbered else ()
        return key if self._written_by is None else (*key, WRITE_ID)

    def among(self, metadata: Mapping[str, Any]) -> Any:
        """Return a boolean array that is True for visible rows, or None if all rows are visible.

        ``metadata`` is a dict with the values of the columns that the property ``metadata`` names.
        """
        found = None
        if self._deleted and self._is_numbered:
            found = np.ones(self._rows, bool)
            (gone,) = self._deleted.values()
            assert self._keys is not None
            found[gone - self._keys.row_ids.minimum] = False
        elif self._deleted:
            found = stays(self._deleted, *(metadata[name].to_numpy() for name in _KEY))
        if self._written_by is None:
            return found
        own = metadata[WRITE_ID].to_numpy()
        seen = (own <= self._written_by.high_watermark) & ~np.isin(own, self._written_by.exceptions)
        return seen if found is None else found & seen

    @property
    def _is_numbered(self) -> bool:
        """Return whether all rows have the same writer and their row ids have no gaps."""
        keys = self._keys
        if keys is None or any(each.minimum != each.maximum for each in (keys.write_ids, keys.buckets)):
            return False
        return keys.row_ids.maximum - keys.row_ids.minimum + 1 == self._rows


def numbered_keys(write_id: int, bucket: int, first: int, last: int) -> Keys:
    """Return the key ranges of rows of one writer with the row ids ``first`` to ``last``, without gaps."""
    return Keys(Range(write_id, write_id), Range(bucket, bucket), Range(first, last), Range(write_id, write_id))


def _sees_all(seen: WriteIdFilter, keys: Keys | None) -> bool:
    if keys is None or keys.written_by.maximum > seen.high_watermark:
        return False
    low, high = keys.written_by
    return not any(low <= each <= high for each in seen.exceptions)


def _between(keys: Keys, deleted: Deleted) -> Iterator[tuple[tuple[int, int], Any]]:
    """Yield (writer, row ids) for the deleted rows whose keys lie in the ranges of a stripe."""
    for (write_id, bucket), row_ids in deleted.items():
        if not (
            keys.write_ids.minimum <= write_id <= keys.write_ids.maximum
            and keys.buckets.minimum <= bucket <= keys.buckets.maximum
        ):
            continue
        start = np.searchsorted(row_ids, keys.row_ids.minimum, "left")
        end = np.searchsorted(row_ids, keys.row_ids.maximum, "right")
        if start < end:
            yield (write_id, bucket), row_ids[start:end]


Deleted = Mapping[Writer, Any]
"""The ids of a partition's deleted rows, as a dict from writer (write id and bucket) to ascending row ids."""


class DeletedRows:
    """The deleted rows of a scan, by partition, from the delete deltas in the folder of each partition."""

    def __init__(self, scan: Scan) -> None:
        """Read the delete deltas.

        Raises:
            StorageError: a delete delta cannot be read.
            InvalidOperationError: there are too many delete events for the memory of one process.
        """
        self._by_place: dict[str, dict[Writer, Any]] = {}
        if not scan.deletes:
            return
        with readable(place(scan.base_path)):
            files = event_files(scan)
            events = events_in(files, scan.filter)
        if events is None:
            reason = "it has too many deleted rows for one process; compact it, or use session.sql"
            raise InvalidOperationError("A read without Spark of", scan.table, reason)
        groups = [group for part in scan.parts for group in part.originals if group.write_id == FIRST_WRITE_ID]
        with_originals = {place(group.place).path.rstrip("/") for group in groups}
        names = [re.sub(r"/delete_delta_[^/]+/.*", "", file.path) for file in files]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        of_file = np.array([numbers[name] for name in names], np.int64)
        places = of_file[events.column(SOURCE).to_numpy()] if names else np.zeros(0, np.int64)
        keys = [events.column(name).to_numpy() for name in (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)]
        has_originals = np.array([name in with_originals for name in numbers], bool)
        buckets = keys[1].astype(np.int64)
        if len(places):
            # In Hive 2 the bucket property of rows in original files is only the number of the bucket.
            is_plain = has_originals[places] & (keys[0] == FIRST_WRITE_ID) & (buckets >> VERSION_SHIFT == 0)
            buckets = np.where(is_plain, 1 << VERSION_SHIFT | buckets << WRITER_SHIFT, buckets)
        order = np.lexsort((keys[2], buckets, keys[0], places))
        places, write_ids, buckets, row_ids = places[order], keys[0][order], buckets[order], keys[2][order]
        by_number = list(numbers)
        for start, end in runs(places, write_ids, buckets):
            writer = int(write_ids[start]), int(buckets[start])
            self._by_place.setdefault(by_number[int(places[start])], {})[writer] = row_ids[start:end]

    def of(self, directory: str) -> Deleted:
        """Return the deleted rows of the partition whose directory has the URI ``directory``."""
        return self._by_place.get(place(directory).path.rstrip("/"), {}) if self._by_place else {}


def stays(deleted: Deleted, write_ids: Any, buckets: Any, row_ids: Any) -> Any:
    """Return a boolean array, True for each row that is not deleted. The other arrays are the keys of the rows."""
    found = np.ones(len(row_ids), bool)
    for start, end in runs(write_ids, buckets):
        gone = deleted.get((int(write_ids[start]), int(buckets[start])))
        if gone is not None:
            ids = row_ids[start:end]
            at = np.searchsorted(gone, ids)
            at[at == len(gone)] = 0
            found[start:end] = gone[at] != ids
    return found
