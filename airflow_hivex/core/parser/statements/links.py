"""Statements about links. Source: Hive HIVE-2989."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.parser.statements.base import Named, Role, Statement, Uses, database_uses, table_uses

_LINK = "{LINK | TABLELINK}"


@dataclass(frozen=True, slots=True)
class CreateLink(Statement):
    """A new link to a table of another namespace. A static link shows only partitions that are added to the link."""

    KIND = "CREATE LINK"
    SYNTAX = (f"CREATE [STATIC] {_LINK} [IF NOT EXISTS] TO <link> [LINKPROPERTIES <properties>]",)
    IN_TRANSACTIONS = False

    link: TableName
    static: bool = False
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def uses(self) -> Uses:
        """Return the link with the role CREATE, and the table of the link with the role READ."""
        source = TableName(self.link.name, self.link.namespace, span=self.link.span)
        return (*table_uses(self.link, Role.CREATE), *table_uses(source, Role.READ))


@dataclass(frozen=True, slots=True)
class DropLink(Statement):
    """A drop of a link. For the name of a table or view the statement fails when it runs."""

    KIND = "DROP LINK"
    SYNTAX = (f"DROP {_LINK} [IF EXISTS] [TO] <link table>",)
    IN_TRANSACTIONS = False

    link: Annotated[TableName, Named(Role.DROP)]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddLinkPartitions(Statement):
    """Partitions to add to a link, given by values or by comparisons of their keys. The value None means NULL."""

    KIND = "ALTER LINK ADD PARTITION"
    SYNTAX = (
        f"ALTER {_LINK} [TO] <link table> ADD [IF NOT EXISTS] <partitions static_partitions>",
        f"ALTER {_LINK} [TO] <link table> ADD [IF NOT EXISTS] <specifications>",
    )
    IN_TRANSACTIONS = False

    link: Annotated[TableName, Named(Role.ALTER)]
    partitions: tuple[Mapping[str, Literal], ...] = ()
    if_not_exists: bool = False
    specifications: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class DropLinkPartitions(Statement):
    """Partitions to remove from a link, given by comparisons of their keys."""

    KIND = "ALTER LINK DROP PARTITION"
    SYNTAX = (f"ALTER {_LINK} [TO] <link table> DROP [IF EXISTS] <specifications>",)
    IN_TRANSACTIONS = False

    link: Annotated[TableName, Named(Role.ALTER)]
    specifications: tuple[Predicate, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetLinkProperties(Statement):
    """A change of the properties of a link."""

    KIND = "ALTER LINK SET LINKPROPERTIES"
    SYNTAX = (
        f"ALTER {_LINK} [TO] <link table> SET LINKPROPERTIES <set properties>",
        f"ALTER {_LINK} [TO] <link table> UNSET LINKPROPERTIES [IF EXISTS] <unset keys>",
    )
    IN_TRANSACTIONS = False

    link: Annotated[TableName, Named(Role.ALTER)]
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowLinks(Statement):
    """The links of a namespace, or the links of all namespaces to one table."""

    KIND = "SHOW LINKS"
    SYNTAX = (
        "SHOW LINKS [{IN | FROM} <database>] [LIKE <pattern> | <pattern quoted_pattern>]",
        "SHOW LINKS TO <table>",
    )

    database: str | None = None
    pattern: str | None = None
    table: TableName | None = None

    @property
    def uses(self) -> Uses:
        """Return the table whose links are listed, or else the database, with the role DESCRIBE."""
        return (
            database_uses(self.database, Role.DESCRIBE) if self.table is None else table_uses(self.table, Role.DESCRIBE)
        )
