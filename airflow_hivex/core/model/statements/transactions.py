"""Statements about transactions and locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.statements.base import Statement, StatementWithoutObjects
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import Role, Uses, named_uses


@dataclass(frozen=True, slots=True)
class StartTransaction(StatementWithoutObjects):
    """START TRANSACTION [READ ONLY | READ WRITE] [, ISOLATION LEVEL SNAPSHOT], or BEGIN."""

    KIND = "START TRANSACTION"

    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Commit(StatementWithoutObjects):
    """COMMIT [WORK | TRANSACTION]."""

    KIND = "COMMIT"


@dataclass(frozen=True, slots=True)
class Rollback(StatementWithoutObjects):
    """ROLLBACK [WORK | TRANSACTION]."""

    KIND = "ROLLBACK"


@dataclass(frozen=True, slots=True)
class AbortTransactions(StatementWithoutObjects):
    """ABORT TRANSACTIONS 1 2 3; the ids in the order given, each once."""

    KIND = "ABORT TRANSACTIONS"

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShowTransactions(StatementWithoutObjects):
    """SHOW TRANSACTIONS."""

    KIND = "SHOW TRANSACTIONS"


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
