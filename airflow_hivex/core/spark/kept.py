"""Rows that several parts of a job read: computed once, in memory or on the executors' disks."""

from __future__ import annotations

from typing import Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame

_LEVEL = StorageLevel(useDisk=True, useMemory=True, useOffHeap=False, deserialized=True)


class Kept:
    """What a job keeps in Spark until it ends."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for frame in self._frames:
            frame.unpersist()

    def keep(self, rows: DataFrame) -> DataFrame:
        """The same rows, computed when they are first read and not again."""
        self._frames.append(rows.persist(_LEVEL))
        return self._frames[-1]
