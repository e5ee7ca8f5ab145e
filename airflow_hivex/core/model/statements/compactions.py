"""Statements about compactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.statements.base import Statement, StatementWithoutObjects
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.uses import Role, Uses, named_uses, table_uses


@dataclass(frozen=True, slots=True)
class Compact(Statement):
    """ALTER TABLE name [PARTITION (...)] COMPACT 'type' [AND WAIT] [CLUSTERED INTO n BUCKETS] [ORDER BY ...] ...

    ... [POOL 'p'] [WITH OVERWRITE TBLPROPERTIES (...)].

    With ``each_partition`` it is OPTIMIZE name ..., which asks for a compaction of every partition if it names none.
    """

    KIND = "ALTER TABLE COMPACT"
    IN_TRANSACTIONS = False

    table: TableName
    type: CompactionType
    partition: Mapping[str, Literal] | None = None
    wait: bool = False
    buckets: int | None = None
    order_by: tuple[SortColumn, ...] = ()
    pool: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    each_partition: bool = False

    @property
    def kind(self) -> str:
        """Return ALTER TABLE COMPACT or OPTIMIZE."""
        return "OPTIMIZE" if self.each_partition else self.KIND

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)


@dataclass(frozen=True, slots=True)
class ShowCompactions(Statement):
    """SHOW COMPACTIONS [DATABASE | SCHEMA name | table [PARTITION (...)] | compactionid = n] [POOL 'p'] [TYPE 't'] ...

    ... [STATUS 's'] [ORDER BY ...] [LIMIT n]. ``order_by`` are columns, each with whether it rises.
    """

    KIND = "SHOW COMPACTIONS"

    database: str | None = None
    table: TableName | None = None
    partition: Mapping[str, Literal] | None = None
    id: int | None = None
    pool: str | None = None
    type: CompactionType | None = None
    state: CompactionState | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None

    @property
    def uses(self) -> Uses:
        """Return the table or the database, if one is named."""
        return named_uses(self.database, self.table, Role.DESCRIBE)


@dataclass(frozen=True, slots=True)
class AbortCompactions(StatementWithoutObjects):
    """ABORT COMPACTIONS 1 2 3; the ids in the order given, each once."""

    KIND = "ABORT COMPACTIONS"

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """VACUUM name [DRY RUN]."""

    KIND = "VACUUM"
    IN_TRANSACTIONS = False

    table: TableName
    dry_run: bool = False

    @property
    def uses(self) -> Uses:
        """Return the table."""
        return table_uses(self.table, Role.ALTER)
