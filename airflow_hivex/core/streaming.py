"""Streaming batches: many small transactions that are opened together, with one delta directory for all rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from airflow_hivex.core.commands.batch_writes import check_alone, close_batch, insert_rows, open_batch
from airflow_hivex.core.commands.frame_writes import FrameWrite, write_frame
from airflow_hivex.core.errors import HivexError, InvalidOperationError, InvalidParametersError
from airflow_hivex.core.execution.closed_names import check_name
from airflow_hivex.core.execution.context import BatchTransaction, Result, StatementContext
from airflow_hivex.core.execution.statement_record import recorded
from airflow_hivex.core.model.writes import BatchKey, batch_key
from airflow_hivex.core.parser.statements import Role, TableName

if TYPE_CHECKING:
    from airflow_hivex.core.runners.given import Frame

log = logging.getLogger(__name__)

Row = Sequence[object] | Mapping[str, object]


class TransactionBatch:
    """Transactions on one table that were opened together. Each :meth:`write` uses one of the transactions.

    :meth:`Session.transaction_batch` opens the batch.

    The rows are visible when ``write`` returns. A failed ``write`` leaves no rows, and the next ``write`` uses the next
    transaction. :meth:`close` ends the unused transactions. Source: Hive's streaming ingest, ``delta_W1_W2``.
    """

    def __init__(
        self,
        context: Callable[[Mapping[str, object] | None], StatementContext],
        name: TableName,
        count: int,
        app_id: str | None = None,
    ) -> None:
        self._context = context
        session = context(None).session
        is_temporary = session.objects.table(name) is not None
        # The name keeps its database, because the session may change to another database.
        self._name = name if is_temporary else replace(name, database=name.database or session.database)
        self._app_id = app_id
        self._resources = ExitStack()
        self._open = open_batch(context(None), self._name, count, self._resources)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def remaining(self) -> int:
        """Return the number of unused transactions."""
        return len(self._open)

    @property
    def txn_ids(self) -> list[int]:
        """Return the ids of the unused transactions, in the order in which they will be used."""
        return [transaction.txn_id for transaction in self._open]

    def write(self, rows: Sequence[Row] | Frame, batch_id: int | None = None) -> Result:
        """Commit rows in the batch's next transaction.

        Args:
            rows: sequences of values in the order of the table's columns, with the partition columns last; or mappings
                from column names to values, all with the same names, where missing columns become NULL; or, after
                :meth:`Session.warehouse`, a DataFrame with the table's columns.
            batch_id: the number of this write in a batch with an ``app_id``. The number must rise with each write. If
                the application has committed this number or a higher number to the table, the rows are skipped, and
                ``rows_written`` is 0.

        Raises:
            InvalidOperationError: no transaction is left, the batch was closed, or the session has an open transaction
                of its own, which must end first.
            InvalidParametersError: a value has no literal in SQL, or rows have different columns.
            NoSuchColumnError, ColumnCountMismatchError, TypeMismatchError: the rows do not have the table's columns.
            TransactionAbortedError: the transaction was aborted, for example after its time-out.
            HivexError: any other error of an INSERT.
        """
        if not self._open:
            raise InvalidOperationError(
                "A write to", f"a batch of transactions on {self._name}", "none of them is left; open another batch"
            )
        check_alone(self._context(None))
        check_name(self._context(None), self._name, role=Role.INSERT)
        key = batch_key(self._app_id, batch_id)
        transaction = self._open.pop(0)
        try:
            context = self._context(None)
            text, name = f"a write of a batch of transactions to {self._name}", context.session.full_name(self._name)
            with recorded(context.services, context.session, "The write", text, "INSERT", name) as ended:
                ended.result = self._write(rows, transaction, key)
                return ended.result
        except BaseException:
            self._end([transaction])
            raise

    def _write(self, rows: Sequence[Row] | Frame, transaction: BatchTransaction, key: BatchKey | None) -> Result:
        context = replace(self._context(None), batch=transaction, batch_key=key)
        if isinstance(rows, Sequence):
            return insert_rows(context, self._name, rows)
        if context.session.runner is None:
            raise InvalidParametersError("A DataFrame is written in a session with a warehouse; see Session.warehouse.")
        return write_frame(context, rows, FrameWrite(self._name))

    def close(self) -> None:
        """End the unused transactions, and the heartbeats of the batch."""
        left, self._open = self._open, []
        try:
            self._end(left)
        finally:
            self._resources.close()

    def _end(self, transactions: Sequence[BatchTransaction]) -> None:
        try:
            close_batch(self._context(None), transactions)
        except HivexError as error:
            log.warning("Transactions of a batch on %s are left to time out: %s", self._name, error)
