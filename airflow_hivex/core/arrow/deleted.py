"""The deleted rows of a scan, by partition and writer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from airflow_hivex.core.arrow.files import readable
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.job.delete_events import SOURCE, event_files, events_in
from airflow_hivex.core.job.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID
from airflow_hivex.core.job.row_keys import Writer, runs
from airflow_hivex.core.job.storage import place
from airflow_hivex.core.model.buckets import VERSION_SHIFT, WRITER_SHIFT
from airflow_hivex.core.model.originals import ORIGINAL_WRITE_ID as FIRST_WRITE_ID
from airflow_hivex.core.model.plans import Scan

Deleted = Mapping[Writer, Any]
"""The ids of the deleted rows of a partition, rising, by their writer."""


class DeletedRows:
    """The deleted rows of a scan: a delete delta lies next to the rows that it deletes."""

    def __init__(self, scan: Scan) -> None:
        """Read the delete deltas.

        Raises:
            StorageError: one cannot be read.
            InvalidOperationError: they have too many events for the memory of one process.
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
            # Hive 2 has the number of the bucket in the ids of rows of original files, and nothing else.
            is_plain = has_originals[places] & (keys[0] == FIRST_WRITE_ID) & (buckets >> VERSION_SHIFT == 0)
            buckets = np.where(is_plain, 1 << VERSION_SHIFT | buckets << WRITER_SHIFT, buckets)
        order = np.lexsort((keys[2], buckets, keys[0], places))
        places, write_ids, buckets, row_ids = places[order], keys[0][order], buckets[order], keys[2][order]
        by_number = list(numbers)
        for start, end in runs(places, write_ids, buckets):
            writer = int(write_ids[start]), int(buckets[start])
            self._by_place.setdefault(by_number[int(places[start])], {})[writer] = row_ids[start:end]

    def of(self, directory: str) -> Deleted:
        """Return the deleted rows of a partition, by the URI of its directory."""
        return self._by_place.get(place(directory).path.rstrip("/"), {}) if self._by_place else {}


def stays(deleted: Deleted, write_ids: Any, buckets: Any, row_ids: Any) -> Any:
    """Return for each row whether it is not deleted."""
    found = np.ones(len(row_ids), bool)
    for start, end in runs(write_ids, buckets):
        gone = deleted.get((int(write_ids[start]), int(buckets[start])))
        if gone is not None:
            ids = row_ids[start:end]
            at = np.searchsorted(gone, ids)
            at[at == len(gone)] = 0
            found[start:end] = gone[at] != ids
    return found
