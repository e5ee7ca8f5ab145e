"""The facts of a write: known when a statement has its write id, and the same until they are registered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from airflow_hivex.core.model.directories import base_name, delete_delta_name, delta_name
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.transactions import Operation


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One statement's write to a table: under which ids, on which cluster, and what it does to the rows there.

    ``partition`` is the one that the statement names, None if the rows decide or the table has no partitions.
    ``operation`` is INSERT, or that of a statement that changes rows; INSERT OVERWRITE counts as UPDATE. ``batch`` has
    the first and last write id of a streaming batch, whose transactions share a delta. ``statement`` is the kind of the
    statement. With ``counts_inserts`` the rows that a change of rows inserts count as changed, too
    (hive.txn.xlock.mergeinsert). ``token`` is of a write to an external table, which has no write ids: no other write
    has it in its files' names.
    """

    txn_id: int
    write_id: int
    cluster: str
    statement_id: int = 0
    overwrite: bool = False
    partition: str | None = None
    operation: Operation = Operation.INSERT
    batch: tuple[int, int] | None = None
    statement: str = ""
    counts_inserts: bool = False
    token: str = ""

    @property
    def directory_names(self) -> tuple[str, ...]:
        """Return the names that its directories may have in every partition; of no streaming batch."""
        ids = self.write_id, self.write_id, self.statement_id
        if self.overwrite:
            return (base_name(self.write_id),)
        if self.operation is Operation.INSERT:
            return (delta_name(*ids),)
        return delta_name(*ids), delete_delta_name(*ids)

    @property
    def staging_name(self) -> str:
        """Return the hidden directory below the table's, where a job writes first."""
        return f"_hivex_{self.token}" if self.token else f"_staging_{self.write_id}_{self.statement_id}"

    def partitions(self, written: Collection[WrittenDirectory]) -> frozenset[str | None]:
        """Return the partitions that it writes to with these directories, None standing for a table without any."""
        named = () if self.partition is None else (self.partition,)
        return frozenset(named) | {each.partition for each in written}

    def operations(self, written: Collection[WrittenDirectory]) -> frozenset[tuple[str | None, Operation]]:
        """Return the operations of directories on their partitions. A change of rows without deletes is an insert."""
        changes_all = self.overwrite or self.counts_inserts
        return frozenset(
            (each.partition, self.operation if changes_all or each.is_delete_delta else Operation.INSERT)
            for each in written
        )
