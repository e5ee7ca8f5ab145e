"""The transaction around one statement: opened, kept alive, and settled whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    TransactionAbortedError,
    TransactionCommittedError,
    TransactionNotOpenError,
)
from airflow_hivex.core.model.transactions import TxnState, TxnType
from airflow_hivex.core.statements.context import Running, StatementContext, new_tag
from airflow_hivex.core.transactions.heartbeats import heartbeats

log = logging.getLogger(__name__)


@contextmanager
def own_transaction(context: StatementContext, *, read_only: bool = False) -> Iterator[Running]:
    """A transaction for one statement. The block commits it; any error out of the block aborts it.

    Source: ``hive-semantics`` 2.1 for the type: read-only with ``hive.txn.readonly.enabled``.
    """
    session = context.session
    transactions = context.services.transactions
    kind = (
        TxnType.READ_ONLY if read_only and context.services.settings["hive.txn.readonly.enabled"] else TxnType.DEFAULT
    )
    (txn_id,) = transactions.open(user=session.user, agent_info=session.agent_info, type=kind)
    running = Running(txn_id, new_tag(txn_id))
    session.running = running
    try:
        with heartbeats(transactions, txn_id, int(context.services.settings["hive.txn.timeout"])):
            yield running
    except BaseException as error:
        # A commit that may have been applied is left for its owner to look up.
        if not isinstance(error, CommitOutcomeUnknownError) and _abort(context, txn_id, error):
            for undo in running.undo:
                undo()
        if isinstance(error, TransactionNotOpenError):
            raise _own_error(context, txn_id, error) from error
        raise
    finally:
        session.running = None


def _own_error(context: StatementContext, txn_id: int, error: TransactionNotOpenError) -> HivexError:
    """Why the statement's own transaction is not open any more."""
    transaction = context.services.transactions.get(txn_id)
    return TransactionAbortedError(txn_id, transaction.reason) if transaction.state is TxnState.ABORTED else error


def _abort(context: StatementContext, txn_id: int, error: BaseException) -> bool:
    """Abort the transaction, and tell whether it is certain to be aborted now."""
    reason = (str(error) or type(error).__name__).partition("\n")[0]
    try:
        context.services.transactions.abort(txn_id, reason[:1000])
    except TransactionCommittedError:
        # An interrupt, such as a signal's, that came between the commit and its answer.
        log.warning("Transaction %s had committed before it was interrupted", txn_id)
        return False
    except HivexError as failure:
        # The first error is the one to tell; the housekeeper aborts the transaction after its time-out.
        log.warning("Transaction %s could not be aborted and will time out: %s", txn_id, failure)
        return False
    return True
