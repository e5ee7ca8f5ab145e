"""Statements about databases, and about the current database of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from airflow_hivex.core.parser.statements.base import Folder, Named, ObjectKind, Role, Statement

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
    """A drop of a database and, with CASCADE, of the tables in the database."""

    KIND = "DROP DATABASE"
    SYNTAX = (f"DROP {_DATABASE} [IF EXISTS] <name database> [RESTRICT | CASCADE]",)
    IN_TRANSACTIONS = False

    name: Annotated[str, Named(Role.DROP, ObjectKind.DATABASE)]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """A change of the properties, the owner or the location of a database."""

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
    """The choice of the current database for later statements."""

    KIND = "USE"
    SYNTAX = (f"USE [{_WORDS}] <name database>",)
    REFUSED = (("USE CATALOG <name database>", "there is one catalog; namespaces are databases, and USE names one"),)

    name: Annotated[str, Named(Role.USE, ObjectKind.DATABASE)]


_NAMESPACE = "{DATABASE | SCHEMA | NAMESPACE} <database>"
_BY = "BY <by: TABLE | FORMAT | AGE>"


@dataclass(frozen=True, slots=True)
class ShowCapacity(Statement):
    """The bytes and rows of one namespace or of all namespaces, on each cluster."""

    KIND = "SHOW CAPACITY"
    SYNTAX = (f"SHOW CAPACITY [{_NAMESPACE}] [{_BY} & CLUSTER <cluster>]",)

    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE)] = None
    cluster: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.CLUSTER)] = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class SetQuota(Statement):
    """The quota of a namespace on a cluster, by default the default cluster. ``size_bytes`` is None for UNSET QUOTA."""

    KIND = "ALTER DATABASE SET QUOTA"
    SYNTAX = (
        f"ALTER {_NAMESPACE} SET QUOTA <size_bytes size> [WARNING <warning_percent percent>] [ON CLUSTER <cluster>]",
        f"ALTER {_NAMESPACE} UNSET QUOTA [ON CLUSTER <cluster>]",
    )
    IN_TRANSACTIONS = False

    database: Annotated[str, Named(Role.ALTER, ObjectKind.DATABASE)]
    size_bytes: int | None
    warning_percent: int | None = None
    cluster: Annotated[str | None, Named(Role.USE, ObjectKind.CLUSTER)] = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SetQuota:
        """Return the statement. UNSET QUOTA names no size."""
        return cls(**{"size_bytes": None, **values})
