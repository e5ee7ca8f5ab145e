"""The visible rows of a stripe, with and without the statistics of its metadata columns."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_hivex.core.arrow.visible_rows import VisibleRows, numbered_keys
from airflow_hivex.core.job.layout import BUCKET, ORIGINAL_WRITE_ID, ROW_ID, WRITE_ID
from airflow_hivex.core.job.orc_tail import Keys
from airflow_hivex.core.job.orc_tail.types import Range
from airflow_hivex.core.model.plans import WriteIdFilter

BUCKETS = (1 << 29, 1 << 29 | 1 << 16)


def some_stripe(rng: random.Random) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return the keys of rows in their order, and the write ids that have written them."""
    write_ids = range(rng.randint(1, 3), rng.randint(4, 6)) if rng.random() < 0.5 else [rng.randint(1, 6)]
    buckets = BUCKETS if rng.random() < 0.3 else BUCKETS[:1]
    gaps = rng.random() < 0.5
    first = rng.choice([0, 7])
    row_ids = [number for number in range(first, first + 12) if not gaps or rng.random() < 0.7] or [first]
    keys = sorted((write_id, bucket, row_id) for write_id in write_ids for bucket in buckets for row_id in row_ids)
    return keys, [write_id + rng.choice([0, 0, 1]) for write_id, _, _ in keys]


def test_statistics_agree_with_the_rows_themselves() -> None:
    rng = random.Random(21)
    read_less = 0
    for _ in range(500):
        keys, written_by = some_stripe(rng)
        others = [(rng.randint(1, 7), rng.choice(BUCKETS), rng.randint(0, 30)) for _ in range(5)]
        gone = {key for key in [*keys, *others] if rng.random() < rng.choice([0, 0.2, 0.9])}
        deleted: dict[tuple[int, int], Any] = {}
        for write_id, bucket, row_id in sorted(gone):
            deleted.setdefault((write_id, bucket), []).append(row_id)
        deleted = {writer: np.array(row_ids) for writer, row_ids in deleted.items()}
        seen = rng.choice([None, WriteIdFilter(rng.randint(2, 9), tuple(rng.sample(range(1, 9), rng.randint(0, 2))))])
        columns = dict(zip((ORIGINAL_WRITE_ID, BUCKET, ROW_ID), map(list, zip(*keys, strict=True)), strict=True))
        columns[WRITE_ID] = written_by
        expected = [
            key not in gone and (seen is None or (by <= seen.high_watermark and by not in seen.exceptions))
            for key, by in zip(keys, written_by, strict=True)
        ]
        ranges = Keys(*(Range(min(values), max(values)) for values in columns.values()))
        for known in (ranges, None):
            visible = VisibleRows(len(keys), known, deleted, seen)
            found = visible.among({name: pa.array(columns[name]) for name in visible.metadata})
            assert (found.tolist() if found is not None else [True] * len(keys)) == expected
            read_less += known is not None and not visible.metadata
    assert read_less > 50


@pytest.mark.parametrize("row_ids", [[], [3, 4]])
def test_rows_of_one_writer_without_gaps_need_no_metadata(row_ids: list[int]) -> None:
    visible = VisibleRows(5, numbered_keys(1, BUCKETS[0], 2, 6), {(1, BUCKETS[0]): np.array(row_ids, int)}, None)
    assert visible.metadata == ()
    found = visible.among({})
    assert (found is None) if not row_ids else (found.tolist() == [True, False, False, True, True])
