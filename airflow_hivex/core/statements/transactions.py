"""The transaction around one statement: opened, kept alive, and settled whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import CommitOutcomeUnknownError, HivexError
from airflow_hivex.core.model.transactions import TxnType
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
        if not isinstance(error, CommitOutcomeUnknownError):
            _abort(context, txn_id, error)
        raise
    finally:
        session.running = None


def _abort(context: StatementContext, txn_id: int, error: BaseException) -> None:
    reason = (str(error) or type(error).__name__).partition("\n")[0]
    try:
        context.services.transactions.abort(txn_id, reason[:1000])
    except HivexError as failure:
        # The first error is the one to tell; the housekeeper aborts the transaction after its time-out.
        log.warning("Transaction %s could not be aborted and will time out: %s", txn_id, failure)
