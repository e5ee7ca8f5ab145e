"""Statements about links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import Role, Uses, database_uses, table_uses


@dataclass(frozen=True, slots=True)
class CreateLink(Statement):
    """CREATE [STATIC] LINK | TABLELINK [IF NOT EXISTS] TO table@namespace [LINKPROPERTIES (...)]."""

    KIND = "CREATE LINK"
    IN_TRANSACTIONS = False

    link: TableName
    static: bool = False
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def uses(self) -> Uses:
        """Return the link, and the table that it shows."""
        source = TableName(self.link.name, self.link.namespace, span=self.link.span)
        return (*table_uses(self.link, Role.CREATE), *table_uses(source, Role.READ))


@dataclass(frozen=True, slots=True)
class DropLink(Statement):
    """DROP LINK | TABLELINK [IF EXISTS] [TO] table@namespace; the name of a table or view is refused later."""

    KIND = "DROP LINK"
    IN_TRANSACTIONS = False

    link: TableName
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the link."""
        return table_uses(self.link, Role.DROP)


@dataclass(frozen=True, slots=True)
class AddLinkPartitions(Statement):
    """ALTER LINK table@namespace ADD [IF NOT EXISTS] PARTITION (...) [PARTITION (...)]; a value of None is NULL."""

    KIND = "ALTER LINK ADD PARTITION"
    IN_TRANSACTIONS = False

    link: TableName
    partitions: tuple[Mapping[str, Literal], ...]
    if_not_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the link."""
        return table_uses(self.link, Role.ALTER)


@dataclass(frozen=True, slots=True)
class DropLinkPartitions(Statement):
    """ALTER LINK table@namespace DROP [IF EXISTS] PARTITION (...) [, PARTITION (...)], with comparisons of keys."""

    KIND = "ALTER LINK DROP PARTITION"
    IN_TRANSACTIONS = False

    link: TableName
    specifications: tuple[Predicate, ...]
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the link."""
        return table_uses(self.link, Role.ALTER)


@dataclass(frozen=True, slots=True)
class SetLinkProperties(Statement):
    """ALTER LINK table@namespace SET LINKPROPERTIES (...) | UNSET LINKPROPERTIES [IF EXISTS] (...)."""

    KIND = "ALTER LINK SET LINKPROPERTIES"
    IN_TRANSACTIONS = False

    link: TableName
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    if_exists: bool = False

    @property
    def uses(self) -> Uses:
        """Return the link."""
        return table_uses(self.link, Role.ALTER)


@dataclass(frozen=True, slots=True)
class ShowLinks(Statement):
    """SHOW LINKS [IN namespace] [LIKE 'pattern']."""

    KIND = "SHOW LINKS"

    database: str | None = None
    pattern: str | None = None

    @property
    def uses(self) -> Uses:
        """Return the namespace whose links are listed."""
        return database_uses(self.database, Role.DESCRIBE)
