"""A thread that tells the metastore that a transaction's owner is alive."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_hivex.core.errors import HivexError, StoreUnavailableError, TransactionError
from airflow_hivex.core.transactions.manager import TransactionManager

log = logging.getLogger(__name__)


@contextmanager
def heartbeats(transactions: TransactionManager, txn_id: int, timeout_s: int) -> Iterator[None]:
    """While the block runs, beat every half time-out, first after a random part of that.

    A transaction that turns out to be aborted ends the beating, not the block: its commit is
    refused anyway. Source: Hive DbTxnManager.Heartbeater (2.5).
    """
    stop = threading.Event()
    period = timeout_s / 2

    def beat() -> None:
        delay = random.uniform(0, 0.75 * period)  # noqa: S311 - spreads load, keeps no secret
        while not stop.wait(delay):
            delay = period
            try:
                transactions.heartbeat(txn_id)
            except StoreUnavailableError as error:
                log.warning("Heartbeat of transaction %s failed, trying again: %s", txn_id, error)
                delay = min(period, 1)
            except TransactionError as error:
                log.warning("Heartbeats of transaction %s end: %s", txn_id, error)
                return
            except HivexError:
                log.exception("Heartbeats of transaction %s end", txn_id)
                return

    thread = threading.Thread(target=beat, name=f"hivex-heartbeat-{txn_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
