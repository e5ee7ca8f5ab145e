"""The metadata that all tables belong to, and the types of their columns."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, MetaData, String

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only for a primary key declared INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")

Name = String(128)

Cluster = String(128)
