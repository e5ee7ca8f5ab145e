"""Statements about databases, and the current one of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from airflow_hivex.core.parser.statements.base import Statement
from airflow_hivex.core.parser.statements.uses import Folder, Named, ObjectKind, Role

_WORDS = "DATABASE | SCHEMA | NAMESPACE"
_DATABASE = f"{{{_WORDS}}}"


@dataclass(frozen=True, slots=True)
class CreateDatabase(Statement):
    """A new database."""

    KIND = "CREATE DATABASE"
    SYNTAX = (
        f"CREATE {_DATABASE} [IF NOT EXISTS] <name database> "
        "[COMMENT <comment> & LOCATION <location> & WITH {DBPROPERTIES | PROPERTIES} <properties>]",
    )
    IN_TRANSACTIONS = False

    name: Annotated[str, Named(Role.CREATE, ObjectKind.DATABASE)]
    if_not_exists: bool = False
    comment: str | None = None
    location: Annotated[str | None, Folder()] = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropDatabase(Statement):
    """The end of a database, with CASCADE that of its tables, too."""

    KIND = "DROP DATABASE"
    SYNTAX = (f"DROP {_DATABASE} [IF EXISTS] <name database> [RESTRICT | CASCADE]",)
    IN_TRANSACTIONS = False

    name: Annotated[str, Named(Role.DROP, ObjectKind.DATABASE)]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """Other properties of a database, another owner or location."""

    KIND = "ALTER DATABASE"
    SYNTAX = (
        f"ALTER {_DATABASE} <name database> SET {{DBPROPERTIES | PROPERTIES}} <properties>",
        f"ALTER {_DATABASE} <name database> UNSET {{DBPROPERTIES | PROPERTIES}} [IF EXISTS] <unset keys>",
        f"ALTER {_DATABASE} <name database> SET OWNER USER <owner user>",
        f"ALTER {_DATABASE} <name database> SET LOCATION <location>",
    )
    REFUSED = (
        (
            f"ALTER {_DATABASE} <name database> SET MANAGEDLOCATION",
            "a database has one location for all of its tables; SET LOCATION changes it",
        ),
    )
    IN_TRANSACTIONS = False

    name: Annotated[str, Named(Role.ALTER, ObjectKind.DATABASE)]
    properties: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    location: Annotated[str | None, Folder()] = None
    unset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class UseDatabase(Statement):
    """The current database from now on."""

    KIND = "USE"
    SYNTAX = (f"USE [{_WORDS}] <name database>",)
    REFUSED = (("USE CATALOG <name database>", "there is one catalog; namespaces are databases, and USE names one"),)

    name: Annotated[str, Named(Role.USE, ObjectKind.DATABASE)]
