"""Statements about transactions and locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.statements.base import Statement
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import NOTHING, Role, Uses, named_uses


@dataclass(frozen=True, slots=True)
class StartTransaction(Statement):
    """START TRANSACTION [READ ONLY | READ WRITE] [, ISOLATION LEVEL SNAPSHOT], or BEGIN."""

    KIND = "START TRANSACTION"

    read_only: bool = False

    @property
    def uses(self) -> Uses:
        """Return no object is named."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    """COMMIT [WORK | TRANSACTION]."""

    KIND = "COMMIT"

    @property
    def uses(self) -> Uses:
        """Return no object is named."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """ROLLBACK [WORK | TRANSACTION]."""

    KIND = "ROLLBACK"

    @property
    def uses(self) -> Uses:
        """Return no object is named."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class AbortTransactions(Statement):
    """ABORT TRANSACTIONS 1 2 3; the ids in the order given, each once."""

    KIND = "ABORT TRANSACTIONS"

    ids: tuple[int, ...]

    @property
    def uses(self) -> Uses:
        """Return no object is named."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class ShowTransactions(Statement):
    """SHOW TRANSACTIONS."""

    KIND = "SHOW TRANSACTIONS"

    @property
    def uses(self) -> Uses:
        """Return no object is named."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class ShowLocks(Statement):
    """SHOW LOCKS [table [PARTITION (...)]] [EXTENDED], or SHOW LOCKS DATABASE | SCHEMA name [EXTENDED].

    ``partition`` has a value for each key that is named; None stands for NULL there.
    """

    KIND = "SHOW LOCKS"

    database: str | None = None
    table: TableName | None = None
    partition: Mapping[str, Literal] | None = None
    extended: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table or the database, if one is named."""
        return named_uses(self.database, self.table, Role.DESCRIBE)
