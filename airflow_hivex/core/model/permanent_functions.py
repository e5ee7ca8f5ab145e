"""Permanent functions, with a Java class or an SQL body.

Source: Hive's Thrift structure Function; Spark's SQLFunction and UserDefinedFunction, which store an SQL function under
a class with a fixed name.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_hivex.core.errors import InvalidObjectError
from airflow_hivex.core.model.identifiers import check_name, normalise
from airflow_hivex.core.model.objects import OwnerType, freeze
from airflow_hivex.core.model.texts import check_length, check_text

_LONGEST_CLASS, _LONGEST_URI = 4000, 65_536
"""The largest numbers of characters in a class name, and in the URI of a resource.

Hive stores at most 4,000 characters of a URI. Spark stores the queries of SQL functions as URIs of resources.
"""


class ResourceType(enum.Enum):
    """The kinds of files that a function needs. Source: Hive ResourceType."""

    JAR = "JAR"
    FILE = "FILE"
    ARCHIVE = "ARCHIVE"


@dataclass(frozen=True, slots=True)
class FunctionResource:
    """A file that a client loads before the client calls the function. The URI is stored unchanged."""

    type: ResourceType
    uri: str


@dataclass(frozen=True, slots=True)
class PermanentFunction:
    """A function of a database, with the fields of Hive's clients."""

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
        """Return ``database.name``, as stored."""
        return f"{normalise(self.database)}.{normalise(self.name)}"

    def check(self) -> None:
        """Check that the function can be stored.

        Raises:
            InvalidObjectError: the name is not a valid name, or the class is missing.
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


_CLASS = "sqlFunction."
_DATABASE = "catalogAndNamespace.part.1"
_NUMBER = 3
"""The number of digits of the number at the beginning of each resource. A resource has a part of the JSON text."""
_PART = 3900


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """The definition of an SQL function, in the texts that its creator wrote.

    ``database`` is the database of names that are written without a database. ``returns`` is the type of the result,
    the columns of a table function, or an empty text if Spark has to find the type. Either ``expression`` or ``query``
    is the body.
    """

    database: str
    parameters: str
    returns: str
    expression: str | None = None
    query: str | None = None
    is_table: bool = False
    is_deterministic: bool = True
    comment: str | None = None

    @property
    def body(self) -> str:
        """Return the text after RETURN."""
        return self.query or self.expression or ""

    def definition(self, body: str | None = None, parameters: str | None = None) -> str:
        """Return the text after the name in CREATE FUNCTION, with ``body`` and ``parameters`` if they are given."""
        returns = f"TABLE ({self.returns})" if self.is_table else self.returns
        returns = f" RETURNS {returns}" if returns else ""
        deterministic = "" if self.is_deterministic else " NOT DETERMINISTIC"
        return f"({parameters or self.parameters}){returns}{deterministic} RETURN {body or self.body}"

    def as_function(self, database: str, name: str, owner: str | None, created_ms: int) -> PermanentFunction:
        """Return the definition as a permanent function, in the form in which Spark stores SQL functions."""
        properties = {
            "sqlFunction.returnType": self.returns,
            "sqlFunction.isTableFunc": str(self.is_table).lower(),
            "sqlFunction.deterministic": str(self.is_deterministic).lower(),
            "sqlFunction.containsSQL": "true",
            "sqlFunction.createTime": str(created_ms),
            "sqlConfig.spark.sql.ansi.enabled": "true",
            "catalogAndNamespace.numParts": "2",
            "catalogAndNamespace.part.0": "spark_catalog",
            _DATABASE: self.database,
            **dict.fromkeys(("referredTempViewNames", "referredTempFunctionsNames", "referredTempVariableNames"), "[]"),
        }
        optional = {
            "inputParam": self.parameters or None,
            "expression": self.expression,
            "query": self.query,
            "comment": self.comment,
        }
        properties |= {f"{_CLASS}{key}": text for key, text in optional.items() if text is not None}
        text = json.dumps(properties)
        parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
        resources = tuple(
            FunctionResource(ResourceType.FILE, f"{number:0{_NUMBER}d}{part}") for number, part in enumerate(parts)
        )
        return PermanentFunction(database, name, _CLASS, resources, owner)


def sql_function(function: PermanentFunction) -> SqlFunction | None:
    """Return the definition of an SQL function, or None for a function with a class.

    Raises:
        InvalidObjectError: the resources do not define an SQL function.
    """
    if not function.class_name.startswith(_CLASS):
        return None
    parts = sorted(each.uri for each in function.resources if each.type is ResourceType.FILE)
    try:
        properties: Mapping[str, str] = json.loads("".join(part[_NUMBER:] for part in parts))
        return SqlFunction(
            database=properties.get(_DATABASE) or function.database,
            parameters=properties.get("sqlFunction.inputParam") or "",
            returns=properties.get("sqlFunction.returnType") or "",
            expression=properties.get("sqlFunction.expression"),
            query=properties.get("sqlFunction.query"),
            is_table=properties.get("sqlFunction.isTableFunc") == "true",
            is_deterministic=properties.get("sqlFunction.deterministic") != "false",
            comment=properties.get("sqlFunction.comment"),
        )
    except (ValueError, AttributeError) as error:
        reason = "its resources are not the properties of a function of SQL"
        raise InvalidObjectError("function", function.full_name, reason) from error
