"""SQLAlchemy's metadata for all tables, the types of their columns, and the counters that all clients share."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite generates row numbers only for a primary key declared INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")

Name = String(128)

Cluster = String(128)

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""Counters and other numbers that all clients share.

``txn``, ``event``, ``lock`` and ``compaction`` are the last allocated ids of each kind. The row of a counter stays
locked until the commit, so ids become visible in the order of their allocation. ``purged_event`` is the id of the last
purged event. ``hive.txn.timeout`` and ``hivex.namespace.mode`` are the values of these settings, which all clients
share. ``incarnation`` is a number that each restore from a backup changes.
"""


def partition_to_column(partition: str | None) -> str:
    """Return a partition's name, or an empty text for None, for a column that is never NULL.

    The column is part of a unique key, where NULL would not be equal to NULL.
    """
    return "" if partition is None else partition


def partition_from_column(text: str) -> str | None:
    """Return the partition's name for a value of :func:`partition_to_column`, or None for an empty text."""
    return text or None
