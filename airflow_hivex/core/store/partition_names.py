"""The partition of a table without partitions in columns that are never NULL; elsewhere it is None.

Those of locks and of compactions are a part of keys, in which NULL equals nothing.
"""

from __future__ import annotations


def partition_to_column(partition: str | None) -> str:
    """Return the value of such a column for a partition's name, or for none."""
    return "" if partition is None else partition


def partition_from_column(text: str) -> str | None:
    """Return the partition's name, or None, of what such a column has."""
    return text or None
