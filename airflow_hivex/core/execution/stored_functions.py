"""Permanent functions in the catalog."""

from __future__ import annotations

from airflow_hivex.core.errors import NoSuchFunctionError
from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.model.permanent_functions import PermanentFunction


def find_function(services: Services, database: str, name: str) -> PermanentFunction | None:
    """Return a permanent function, or None. One round trip."""
    try:
        return services.catalog.get_function(database, name)
    except NoSuchFunctionError:
        return None
