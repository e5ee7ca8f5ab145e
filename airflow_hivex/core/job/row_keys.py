"""The keys by which files of full ACID rows are sorted, as arrays: original write id, bucket property and row id.

Spark sends the code of this module to the executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

Writer = tuple[int, int]
"""The columns that identify the writer of a row: original write id and bucket property."""
Key = tuple[int, int, int]


def runs(*columns: Any) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each run of equal values in sorted columns of equal length."""
    changes = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for values in columns:
        changes |= np.diff(values) != 0
    return pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])] if len(columns[0]) else [0])


def writers(write_ids: Any, buckets: Any, row_ids: Any, after: Key | None = None) -> Iterator[tuple[Writer, slice]]:
    """Check the order of rows; yield (writer, slice of the arrays) for each run of adjacent rows from one writer.

    Raises:
        ValueError: the rows are not in the order of their keys, or the key of the first row is not greater than
            ``after``.
    """
    for start, end in runs(write_ids, buckets):
        writer = int(write_ids[start]), int(buckets[start])
        first = (*writer, int(row_ids[start]))
        if (after is not None and first <= after) or not np.all(np.diff(row_ids[start:end]) > 0):
            raise ValueError(
                f"its rows are not in the order of their ids: {first} comes after {after}, or one after it"
            )
        after = (*writer, int(row_ids[end - 1]))
        yield writer, slice(start, end)
