"""Columns that an INSERT adds to its table, in the commit of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.execution.context import Running, StatementContext
from airflow_hivex.core.execution.metadata_changes import apply_change
from airflow_hivex.core.model.locks import LockComponent
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.write_ids import ValidWriteIdList


class ColumnsChangedError(Exception):
    """The columns of the table are not those any more that the statement was made for."""


@dataclass(frozen=True, slots=True)
class SchemaMerge:
    """A table, and what it is with more columns."""

    before: StoredTable
    after: Table

    def locks(self, context: StatementContext) -> Sequence[LockComponent]:
        """Return the lock under which no other statement changes the columns."""
        return context.services.statement_locks.merge_schema(self.before)

    def merged(self, table: StoredTable) -> StoredTable:
        """Return the table, as the statement has it under its lock, with the new columns.

        Raises:
            ColumnsChangedError: another statement has changed its columns, or has replaced it.
        """
        if (table.id, table.columns, table.partition_keys) != (
            self.before.id,
            self.before.columns,
            self.before.partition_keys,
        ):
            raise ColumnsChangedError
        return self._with_columns(table)

    def storing(self, context: StatementContext, running: Running) -> Callable[[Connection], None]:
        """Return a change for the commit of the statement, which stores the columns."""
        catalog = context.services.catalog

        def change(connection: Connection, write_ids: ValidWriteIdList | None, txn_id: int | None) -> None:
            joining = catalog.joining(connection)
            current = self.merged(joining.get_table(self.before.database, self.before.name))
            joining.alter_table(current.database, current.name, current, write_ids, txn_id)

        return lambda connection: apply_change(context, connection, running, self.before, change)

    def _with_columns(self, table: StoredTable) -> StoredTable:
        return replace(table, storage=replace(table.storage, columns=self.after.columns))
