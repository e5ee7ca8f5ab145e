"""Permanent functions: a class with the files that it is loaded from. Source: Hive's Thrift structure Function.

Nothing here runs these classes: they are kept for clients that do.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.frozen_dicts import freeze
from airflow_hivex.core.model.identifiers import check_name, normalise
from airflow_hivex.core.model.objects import OwnerType
from airflow_hivex.core.model.texts import check_length, check_text

_LONGEST_CLASS, _LONGEST_URI = 4000, 65_536
"""Hive keeps 4,000 characters of both. Spark keeps the queries of functions of SQL among the resources."""


class ResourceType(enum.Enum):
    """Kinds of files that a function needs. Source: Hive ResourceType."""

    JAR = "JAR"
    FILE = "FILE"
    ARCHIVE = "ARCHIVE"


@dataclass(frozen=True, slots=True)
class FunctionResource:
    """A file that a client loads before it calls the function; the URI is kept as it was given."""

    type: ResourceType
    uri: str


@dataclass(frozen=True, slots=True)
class PermanentFunction:
    """A function of a database, as clients of Hive create it."""

    database: str
    name: str
    class_name: str
    resources: tuple[FunctionResource, ...] = ()
    owner: str | None = None
    owner_type: OwnerType = OwnerType.USER
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        freeze(self, "resources")

    @property
    def full_name(self) -> str:
        """Return the name with that of the database, as it is stored."""
        return f"{normalise(self.database)}.{normalise(self.name)}"

    def check(self) -> None:
        """Check that the function can be stored.

        Raises:
            InvalidObjectError: the name is not a name, or there is no class.
            InvalidParametersError, InvalidTextError: a text is too long, or cannot be stored.
        """
        check_name("function", self.name)
        if not self.class_name:
            raise InvalidObjectError("function", self.full_name, "it has no class; name the class that computes it")
        _check_text("The class of a function", self.class_name, _LONGEST_CLASS)
        for resource in self.resources:
            if not resource.uri:
                kind = resource.type.value.lower()
                raise InvalidObjectError("function", self.full_name, f"a resource of type {kind} has no URI")
            _check_text("The URI of a resource", resource.uri, _LONGEST_URI)


def _check_text(what: str, text: str, most: int) -> None:
    check_text(what, check_length(what, text, most))
