"""The dialect of SQLAlchemy under the suite that SQLAlchemy has for dialects."""

from __future__ import annotations

from sqlalchemy.dialects import registry


def register() -> None:
    """Register the dialect as the entry points of an installed wheel do: an editable install may be older."""
    for name in ("hivex", "hivex.sqlite", "hivex.postgresql"):
        registry.register(name, "airflow_hivex.sqlalchemy", "HivexDialect")
