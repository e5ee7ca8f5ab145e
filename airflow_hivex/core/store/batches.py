"""Long lists of values in statements of a size that both databases accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

# SQLite takes 32,766 bound values a statement, PostgreSQL 65,535.
BATCH_SIZE = 10_000


def batches(items: Sequence[T], size: int = BATCH_SIZE) -> Iterator[Sequence[T]]:
    """``items`` in order, in slices of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
