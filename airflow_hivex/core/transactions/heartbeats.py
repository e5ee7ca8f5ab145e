"""A thread that tells the metastore that a transaction's owner is alive."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
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
    with _beating(lambda: transactions.heartbeat(txn_id), f"transaction {txn_id}", timeout_s):
        yield


@contextmanager
def batch_heartbeats(transactions: TransactionManager, lo: int, hi: int, timeout_s: int) -> Iterator[None]:
    """:func:`heartbeats` of all transactions from ``lo`` to ``hi``; those that have ended are passed over."""
    with _beating(lambda: transactions.heartbeat_range(lo, hi), f"transactions {lo} to {hi}", timeout_s):
        yield


@contextmanager
def _beating(heartbeat: Callable[[], object], whose: str, timeout_s: int) -> Iterator[None]:
    stop = threading.Event()
    period = timeout_s / 2

    def beat() -> None:
        delay = random.uniform(0, 0.75 * period)  # noqa: S311 - spreads load, keeps no secret
        while not stop.wait(delay):
            delay = period
            try:
                heartbeat()
            except StoreUnavailableError as error:
                log.warning("Heartbeat of %s failed, trying again: %s", whose, error)
                delay = min(period, 1)
            except TransactionError as error:
                log.warning("Heartbeats of %s end: %s", whose, error)
                return
            except HivexError:
                log.exception("Heartbeats of %s end", whose)
                return

    thread = threading.Thread(target=beat, name=f"hivex-heartbeat of {whose}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
