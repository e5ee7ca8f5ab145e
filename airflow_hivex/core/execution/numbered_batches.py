"""Writes with an ``app_id`` and a ``batch_id``: a batch that the table has already is skipped."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Connection

from airflow_hivex.core.catalog import change_streams
from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.execution.context import Result, Running, StatementContext
from airflow_hivex.core.execution.transactions import in_transaction
from airflow_hivex.core.model.objects import StoredTable

log = logging.getLogger(__name__)


class BatchWrittenError(Exception):
    """The table has the statement's batch already: the statement writes nothing."""


def run_once(context: StatementContext, work: Callable[[Running], Result], skipped: Result) -> Result:
    """Return the result of ``work`` in a transaction, or ``skipped`` if the table has the statement's batch already.

    ``work`` calls :func:`check_is_new` when it has the table's locks, and :func:`record_batch` in its commit.

    Raises:
        InvalidOperationError: a statement with a batch is part of a transaction of several statements.
    """
    if context.batch_key is not None and context.session.transaction is not None:
        raise InvalidOperationError(
            "A write with app_id and batch_id in",
            f"transaction {context.session.transaction.txn_id}",
            "it is open, and the batch is recorded by a commit of its own; COMMIT or ROLLBACK comes first",
        )
    try:
        return in_transaction(context, work)
    except BatchWrittenError as error:
        log.info("Nothing is written: %s", error)
        return skipped


def check_is_new(context: StatementContext, table: StoredTable) -> None:
    """Refuse a batch that the table has already. One round trip if the statement has a batch, else none.

    Raises:
        BatchWrittenError: the table has the batch already.
    """
    key = context.batch_key
    if key is None:
        return
    with context.services.store.read() as connection:
        is_written = change_streams.is_written(connection, table.id, key)
    if is_written:
        raise BatchWrittenError(f"{table.full_name} has {key} already")


def record_batch(context: StatementContext, connection: Connection, table: StoredTable, txn_id: int) -> None:
    """Record the batch of a statement, if it has one, in the commit of its rows.

    Raises:
        BatchWrittenError: another statement has committed the batch meanwhile.
    """
    key = context.batch_key
    if key is not None and not change_streams.record(connection, table.id, key, txn_id):
        raise BatchWrittenError(f"another writer has written {key} to {table.full_name} meanwhile")
