"""The rows of a stripe that a snapshot sees.

Mostly the statistics of the stripe are sufficient, so that its metadata columns are not decoded: they have the ranges
of the write ids, buckets and row ids. Rows of one writer whose ids are as many as their range has are numbered without
gaps, as the rows of a file are in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from airflow_hivex.core.arrow.deleted import Deleted, stays
from airflow_hivex.core.job.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.orc_tail import Keys
from airflow_hivex.core.job.orc_tail.types import Range
from airflow_hivex.core.model.plans import WriteIdFilter

_KEY = (ORIGINAL_WRITE_ID, BUCKET, ROW_ID)


class VisibleRows:
    """The rows of a stripe that a snapshot sees; ``keys`` is None where the file has no statistics of the keys."""

    def __init__(self, rows: int, keys: Keys | None, deleted: Deleted, written_by: WriteIdFilter | None) -> None:
        self._rows = rows
        self._keys = keys
        self._written_by = written_by if written_by is None or not _sees_all(written_by, keys) else None
        self._deleted = deleted if keys is None else dict(_between(keys, deleted))

    @property
    def metadata(self) -> tuple[str, ...]:
        """Return the metadata columns that have to be read."""
        key = _KEY if self._deleted and not self._is_numbered else ()
        return key if self._written_by is None else (*key, WRITE_ID)

    def among(self, metadata: Mapping[str, Any]) -> Any:
        """Return for each row whether it is visible, given these columns; None where all are."""
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
        """Return whether the rows have one writer and no gaps between their ids."""
        keys = self._keys
        if keys is None or any(each.minimum != each.maximum for each in (keys.write_ids, keys.buckets)):
            return False
        return keys.row_ids.maximum - keys.row_ids.minimum + 1 == self._rows


def numbered_keys(write_id: int, bucket: int, first: int, last: int) -> Keys:
    """Return the keys of rows of one writer that are numbered without gaps."""
    return Keys(Range(write_id, write_id), Range(bucket, bucket), Range(first, last), Range(write_id, write_id))


def _sees_all(seen: WriteIdFilter, keys: Keys | None) -> bool:
    if keys is None or keys.written_by.maximum > seen.high_watermark:
        return False
    low, high = keys.written_by
    return not any(low <= each <= high for each in seen.exceptions)


def _between(keys: Keys, deleted: Deleted) -> Iterator[tuple[tuple[int, int], Any]]:
    """Yield the deleted rows that may be in a stripe."""
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
