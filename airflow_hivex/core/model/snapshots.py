"""What a reader sees: which transactions are committed, which tables there are, and which of their write ids count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.write_ids import ValidTxnList, ValidWriteIdList, equivalent

QualifiedName: TypeAlias = tuple[str, str]
"""The database and the name of a table."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of some tables at one moment, as one reader sees them; ``write_ids`` are by table id."""

    valid_txns: ValidTxnList
    tables: Mapping[QualifiedName, StoredTable]
    write_ids: Mapping[int, ValidWriteIdList]

    def list_of(self, table: StoredTable) -> ValidWriteIdList | None:
        """Return the write id list of a table, or None for one without transactions."""
        return self.write_ids[table.id] if table.is_transactional else None

    def agrees_with(self, earlier: Snapshot, table: StoredTable) -> bool:
        """Return whether what was read of a table of this snapshot for an ``earlier`` one is still what it has.

        It is where no transaction has committed to the table in between and its version is the same.
        Tables without transactions have versions alone.
        """
        then = earlier.tables.get((table.database, table.name))
        if then is None or (then.id, then.version) != (table.id, table.version):
            return False
        return not table.is_transactional or equivalent(earlier.write_ids[table.id], self.write_ids[table.id])


@dataclass(frozen=True, slots=True)
class Moment:
    """The snapshot of a replication, and the database's time of it; ``id`` is None as long as it is not stored."""

    taken_ms: int
    valid_txns: ValidTxnList
    id: int | None = None

    def has_settled(self, txn_id: int) -> bool:
        """Return whether a transaction had ended at the moment."""
        return txn_id <= self.valid_txns.high_watermark and txn_id not in self.valid_txns.open_ids
