"""Statements about transactions and locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Literal


@dataclass(frozen=True, slots=True)
class StartTransaction:
    """START TRANSACTION [READ ONLY | READ WRITE] [, ISOLATION LEVEL SNAPSHOT], or BEGIN."""

    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT [WORK | TRANSACTION]."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK [WORK | TRANSACTION]."""


@dataclass(frozen=True, slots=True)
class AbortTransactions:
    """ABORT TRANSACTIONS 1 2 3; the ids in the order given, each once."""

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True, slots=True)
class ShowLocks:
    """SHOW LOCKS [table [PARTITION (...)]] [EXTENDED], or SHOW LOCKS DATABASE | SCHEMA name [EXTENDED].

    ``partition`` has a value for each key that is named; None stands for NULL there.
    """

    database: str | None = None
    table: TableName | None = None
    partition: Mapping[str, Literal] | None = None
    extended: bool = False
