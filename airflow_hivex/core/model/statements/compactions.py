"""Statements about compactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_hivex.core.model.compaction import CompactionState, CompactionType
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.model.statements.names import TableName
from airflow_hivex.core.model.statements.queries import Literal


@dataclass(frozen=True, slots=True)
class Compact:
    """ALTER TABLE name [PARTITION (...)] COMPACT 'type' [AND WAIT] [CLUSTERED INTO n BUCKETS] [ORDER BY ...] ...

    ... [POOL 'p'] [WITH OVERWRITE TBLPROPERTIES (...)].
    """

    table: TableName
    type: CompactionType
    partition: Mapping[str, Literal] | None = None
    wait: bool = False
    buckets: int | None = None
    order_by: tuple[SortColumn, ...] = ()
    pool: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShowCompactions:
    """SHOW COMPACTIONS [DATABASE | SCHEMA name | table [PARTITION (...)] | compactionid = n] [POOL 'p'] [TYPE 't'] ...

    ... [STATUS 's'] [ORDER BY ...] [LIMIT n]. ``order_by`` are columns, each with whether it rises.
    """

    database: str | None = None
    table: TableName | None = None
    partition: Mapping[str, Literal] | None = None
    id: int | None = None
    pool: str | None = None
    type: CompactionType | None = None
    state: CompactionState | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AbortCompactions:
    """ABORT COMPACTIONS 1 2 3; the ids in the order given, each once."""

    ids: tuple[int, ...]
