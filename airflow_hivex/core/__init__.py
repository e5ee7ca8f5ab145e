"""The warehouse itself, without Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_hivex.core.errors import HivexError
    from airflow_hivex.core.metastore import Metastore
    from airflow_hivex.core.parser.inspection import Inspection, inspect
    from airflow_hivex.core.session import Result, Session

__all__ = ["HivexError", "Inspection", "Metastore", "Result", "Session", "inspect"]

# Resolved at first use: a cluster's job and a DAG file import only the values of this
# package, and must not load SQLAlchemy and sqlglot.
_HOMES = {
    "HivexError": "errors",
    "Inspection": "parser.inspection",
    "Metastore": "metastore",
    "Result": "session",
    "Session": "session",
    "inspect": "parser.inspection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
