"""Statements about compactions. Source: docs/reference/compaction.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from airflow_hivex.core.model.compaction import REQUESTABLE, CompactionState, CompactionType
from airflow_hivex.core.model.identifiers import TableName
from airflow_hivex.core.model.literals import Literal
from airflow_hivex.core.model.objects import SortColumn
from airflow_hivex.core.parser.statements.base import Named, ObjectKind, RefusedPart, Role, Statement

_CLAUSES = (
    "[AND WAIT !wait & CLUSTERED INTO <buckets> BUCKETS & ORDER BY <order_by sort_columns> & POOL <pool> "
    "& WITH OVERWRITE TBLPROPERTIES <properties>]"
)
_SHOWN = (
    "[POOL <pool> & TYPE <type compaction_type> & STATUS <state compaction_state> "
    "& ORDER BY <order_by compaction_order> & LIMIT <limit row_count>]"
)
_OPTIMIZE = "OPTIMIZE [TABLE] <table> [PARTITION <partition>]"


@dataclass(frozen=True, slots=True)
class Compact(Statement):
    """A request for a compaction.

    ``each_partition`` is true for OPTIMIZE, which requests a major compaction of every partition, or of the one
    partition in its PARTITION clause.
    """

    KIND = "ALTER TABLE COMPACT"
    SYNTAX = (
        f"ALTER TABLE <table> [PARTITION <partition>] COMPACT <type requested_type> {_CLAUSES}",
        f"{_OPTIMIZE} !each_partition {_CLAUSES}",
    )
    REFUSED = (
        (
            f"{_OPTIMIZE} WHERE",
            "OPTIMIZE ... WHERE is not of this release; PARTITION (...) names one partition",
        ),
        (
            f"{_OPTIMIZE} ZORDER",
            "OPTIMIZE ... ZORDER is not of this release; ALTER TABLE ... COMPACT 'rebalance' "
            "ORDER BY ... sorts the rows of a table",
        ),
        (
            f"{_OPTIMIZE} FULL",
            "OPTIMIZE ... FULL is not of this release; OPTIMIZE compacts all that is not compacted",
        ),
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    type: CompactionType
    partition: Mapping[str, Literal] | None = None
    wait: bool = False
    buckets: int | None = None
    order_by: tuple[SortColumn, ...] = ()
    pool: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    each_partition: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Compact:
        """Return the request for a compaction. Buckets and an order are only allowed for a rebalance."""
        wanted = values.get("type", CompactionType.MAJOR)
        if wanted not in REQUESTABLE:
            raise RefusedPart("type", "what can be asked for is 'major', 'minor' or 'rebalance'")
        for clause in ("buckets", "order_by"):
            if clause in values and wanted is not CompactionType.REBALANCE:
                reason = f"this clause is for COMPACT 'rebalance', not for '{wanted.name.lower()}'"
                raise RefusedPart(clause, reason)
        return cls(**{"type": wanted, **values})

    @property
    def kind(self) -> str:
        """Return ALTER TABLE COMPACT or OPTIMIZE."""
        return "OPTIMIZE" if self.each_partition else self.KIND


@dataclass(frozen=True, slots=True)
class ShowCompactions(Statement):
    """The queue and the history of compactions. ``order_by`` has pairs (column, is ascending)."""

    KIND = "SHOW COMPACTIONS"
    SYNTAX = (
        f"SHOW COMPACTIONS {_SHOWN}",
        f"SHOW COMPACTIONS {{DATABASE | SCHEMA}} <database> {_SHOWN}",
        f"SHOW COMPACTIONS COMPACTIONID {{'=' | '=='}} <id compaction_id> {_SHOWN}",
        f"SHOW COMPACTIONS <table> [PARTITION <partition>] {_SHOWN}",
    )

    database: Annotated[str | None, Named(Role.DESCRIBE, ObjectKind.DATABASE)] = None
    table: Annotated[TableName | None, Named(Role.DESCRIBE)] = None
    partition: Mapping[str, Literal] | None = None
    id: int | None = None
    pool: str | None = None
    type: CompactionType | None = None
    state: CompactionState | None = None
    order_by: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AbortCompactions(Statement):
    """An abort of compactions. The ids are in the given order, each once."""

    KIND = "ABORT COMPACTIONS"
    SYNTAX = ("ABORT COMPACTIONS <ids compaction_ids>",)

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Vacuum(Statement):
    """The deletion of those old files of a table that neither a transaction nor a kept version of the table reads."""

    KIND = "VACUUM"
    SYNTAX = ("VACUUM [TABLE] <table vacuumed_table> [DRY RUN]",)
    REFUSED = (
        (
            "VACUUM [TABLE] <table> {RETAIN | LITE | FULL | USING}",
            "VACUUM ... {word} is not of this release: files "
            "that a transaction, or a version within hivex.history.retention, may read stay; leave it out",
        ),
    )
    IN_TRANSACTIONS = False

    table: Annotated[TableName, Named(Role.ALTER)]
    dry_run: bool = False
