"""The locks of the changes that clients ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_hivex.core.model.locks import LockComponent, LockResponse, LockState, covers
from airflow_hivex.core.statements.context import Services
from airflow_hivex.core.transactions.locks import LockManager


class ClientLocks(LockManager):
    """A lock manager for the statements of one client's call.

    A client of Hive acquires its locks itself, and then calls the metastore: the objects that its user has
    locked already are not locked again, as the call would wait for its own client. For other locks the call waits a
    short time only, because it keeps a thread of the server busy.
    """

    def __init__(self, services: Services, user: str, patience_s: float) -> None:
        super().__init__(services.store, services.settings, services.clock, services.transactions)
        self._user = user
        self._patience_s = patience_s

    def acquire(self, components: Sequence[LockComponent], txn_id: int | None = None, **given: Any) -> LockResponse:
        """Acquire the locks that the user of the client does not hold; see ``LockManager``.

        Raises:
            LockTimeoutError: somebody else holds a lock that is in the way.
        """
        needed = [each for each in components if not self._is_held(each)]
        if not needed:
            return LockResponse(0, LockState.ACQUIRED)
        return super().acquire(needed, txn_id, **{"timeout": self._patience_s, **given})

    def _is_held(self, wanted: LockComponent) -> bool:
        return bool(self._user) and any(
            each.user == self._user and each.state is LockState.ACQUIRED and covers(each.component, wanted)
            for each in self.show(wanted.database)
        )
