"""The housekeeper: settles what dead clients left behind."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_hivex.core.transactions.manager import TransactionManager

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HousekeepingResult:
    """What one round did: the ids of transactions that had timed out and were aborted."""

    aborted: tuple[int, ...] = ()


class Housekeeper:
    """Runs the periodic tasks of Hive's AcidHouseKeeper, one round a call."""

    def __init__(self, transactions: TransactionManager) -> None:
        self._transactions = transactions

    def run(self) -> HousekeepingResult:
        """One round. Safe to run at any time and from several places at once."""
        aborted = self._transactions.abort_timed_out()
        if aborted:
            log.warning("Aborted %s transactions without heartbeat: %s", len(aborted), aborted)
        return HousekeepingResult(tuple(aborted))
