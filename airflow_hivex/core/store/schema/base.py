"""The metadata of all tables, the types of their columns, and the numbers that all clients share."""

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
"""Numbers that must become visible in the order of their allocation: ``txn``, ``event``, ``lock`` and
``compaction``; ``purged_event``, the last event that was purged; and ``hive.txn.timeout``, which all clients share."""


def partition_to_column(partition: str | None) -> str:
    """Return a partition's name, or an empty text for None, as the value of a column that is never NULL.

    Locks and compactions have such columns, since their keys have the column, and no NULL equals another in a key.
    """
    return "" if partition is None else partition


def partition_from_column(text: str) -> str | None:
    """Return the partition's name of such a column, or None for a table without partitions."""
    return text or None
