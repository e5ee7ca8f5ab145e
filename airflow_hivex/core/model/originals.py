"""The row ids of original files: plain files that lie in a table from before it was transactional.

They have no metadata columns. Their rows have operation 0 and the write id 0, or that of the delta in which a real
Hive's LOAD DATA has put the file; bucket and row id follow from the files' names and how many rows each has.
Source: docs/reference/directories.md, "Original files".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_hivex.core.model.buckets import MAX_WRITER_ID

ORIGINAL_WRITE_ID = 0
"""The write id of rows from before the table was transactional; every snapshot sees it."""

_HIVE_NAME = re.compile(r"([0-9]+)_[0-9]+(?:_copy_[0-9]+)?")


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """An original file: its rows have the row ids from ``first_row_id`` on, in the bucket ``bucket_id``."""

    name: str
    bucket_id: int
    first_row_id: int
    rows: int


def number_files(files: Iterable[tuple[str, int]]) -> tuple[NumberedFile, ...]:
    """Return how the rows of original files are numbered, given each file's name below the partition, and its rows.

    A name of Hive's form ``BBBBBB_A`` or ``BBBBBB_A_copy_N`` says the bucket; the rows of a bucket are
    numbered through its files in the order of their names, as Hive does. A file of any other name, such as Spark
    gives, is one of the bucket that its place among those files in name order says, behind the bucket's files of
    Hive's form.
    """
    in_order = sorted(files, key=lambda file: _java_order(file[0]))
    numbered = []
    rows_before: Counter[int] = Counter()
    others = []
    for name, rows in in_order:
        bucket_id = hive_bucket(name)
        if bucket_id is None:
            others.append((name, rows))
        else:
            numbered.append(NumberedFile(name, bucket_id, rows_before[bucket_id], rows))
            rows_before[bucket_id] += rows
    for place, (name, rows) in enumerate(others):
        bucket_id = place % (MAX_WRITER_ID + 1)
        numbered.append(NumberedFile(name, bucket_id, rows_before[bucket_id], rows))
        rows_before[bucket_id] += rows
    return tuple(numbered)


def hive_bucket(name: str) -> int | None:
    """Return the bucket that a file's name of Hive's form says; None for any other name, or one that fits no row id."""
    found = _HIVE_NAME.fullmatch(name.rpartition("/")[2])
    return int(found[1]) if found and int(found[1]) <= MAX_WRITER_ID else None


def _java_order(name: str) -> bytes:
    # Hive compares paths as Java does, by UTF-16 units.
    return name.encode("utf-16-be", "surrogatepass")
