"""Permanent functions of a Hive metastore as those of the catalog. Pure."""

from __future__ import annotations

from typing import Any

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.objects import OwnerType
from airflow_hivex.core.model.permanent_functions import FunctionResource, PermanentFunction, ResourceType

JAVA = 1
"""The one type of functions that Hive has. Source: Hive FunctionType."""
_OWNER_TYPES = {1: OwnerType.USER, 2: OwnerType.ROLE, 3: OwnerType.GROUP}
_RESOURCE_TYPES = {1: ResourceType.JAR, 2: ResourceType.FILE, 3: ResourceType.ARCHIVE}
OWNER_NUMBERS = {kind: number for number, kind in _OWNER_TYPES.items()}
RESOURCE_NUMBERS = {kind: number for number, kind in _RESOURCE_TYPES.items()}


def convert_function(hive: Any, database: str) -> PermanentFunction:
    """Return a function of Hive; ``database`` is the name of its database here.

    Raises:
        InvalidObjectError: it, or one of its resources, is of another type than Hive has.
    """
    full_name = f"{database}.{hive.functionName}"
    if hive.functionType not in (None, JAVA):
        raise InvalidObjectError("function", full_name, f"{hive.functionType} is not a valid type of a function")
    resources = []
    for each in hive.resourceUris or ():
        if each.resourceType not in _RESOURCE_TYPES:
            reason = f"{each.resourceType} is not a valid type of a resource"
            raise InvalidObjectError("function", full_name, reason)
        resources.append(FunctionResource(_RESOURCE_TYPES[each.resourceType], each.uri or ""))
    return PermanentFunction(
        database=database,
        name=hive.functionName or "",
        class_name=hive.className or "",
        resources=tuple(resources),
        owner=hive.ownerName or None,
        owner_type=_OWNER_TYPES.get(hive.ownerType, OwnerType.USER),
    )
