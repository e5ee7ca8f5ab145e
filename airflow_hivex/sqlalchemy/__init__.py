"""The dialect ``hivex`` of SQLAlchemy, over the database API of the warehouse.

    >>> engine = create_engine("hivex:////data/metastore.db?database=shop")

The entry points of the package register the dialect, so that nothing of this package needs an import.
"""

from __future__ import annotations

from airflow_hivex.sqlalchemy.dialect import HivexDialect
from airflow_hivex.sqlalchemy.types import MAP, STRING, STRUCT, TINYINT

__all__ = ["MAP", "STRING", "STRUCT", "TINYINT", "HivexDialect"]
