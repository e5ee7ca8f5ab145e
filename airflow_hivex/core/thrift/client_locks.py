"""The locks of the changes that clients ask for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from threading import Lock
from typing import Any

from airflow_hivex.core.execution.context import Services
from airflow_hivex.core.model.locks import LockComponent, LockResponse, LockState, covers
from airflow_hivex.core.model.transactions import TxnType
from airflow_hivex.core.thrift.clients import Client
from airflow_hivex.core.transactions.beginning import Begun
from airflow_hivex.core.transactions.locks.manager import LockManager

_MOST_CLIENTS = 10_000
_MOST_OWNERS = 100


class LockOwners:
    """The users that the locks of clients have, which may be others than the users that the clients are.

    The library of Iceberg locks as the user of its process, and Trino as the owner of a query. Both may have named
    another user at the beginning of the connection, or none. A client may use several connections of one user.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[str, set[str]] = OrderedDict()
        self._guard = Lock()

    def owner_of(self, client: Client, given: str | None) -> str:
        """Return the user of a request for locks or transactions: ``given``, unless the client has logged in."""
        owner = client.user if client.is_authenticated else given or client.user
        with self._guard:
            known = self._owners.setdefault(_key(client), set())
            self._owners.move_to_end(_key(client))
            if len(known) < _MOST_OWNERS:
                known.add(owner)
            if len(self._owners) > _MOST_CLIENTS:
                self._owners.popitem(last=False)
        return owner

    def known_of(self, client: Client) -> frozenset[str]:
        """Return the users whose locks are the client's own."""
        with self._guard:
            return frozenset({client.user, *self._owners.get(_key(client), ())} - {""})


def _key(client: Client) -> str:
    return client.user or f"\0{client.peer}"


class ClientLocks(LockManager):
    """A lock manager for the statements of one client's call.

    A client of Hive acquires its locks itself, and then calls the metastore. The objects that it has locked already
    (``owners`` are the users of its locks) are not locked again, as the call would wait for its own client. For other
    locks the call waits a short time only, because it keeps a thread of the server busy.
    """

    def __init__(self, services: Services, owners: Collection[str], patience_s: float) -> None:
        super().__init__(services.store, services.settings, services.clock, services.transactions)
        self._owners = owners
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

    def begin(
        self,
        components: Sequence[LockComponent],  # noqa: ARG002 - they are asked for by the call's own rules
        begun: Callable[[Begun], object],
        *,
        write_ids_of: Sequence[int] = (),  # noqa: ARG002 - they come after the locks
        user: str = "",
        agent_info: str | None = None,
        type: TxnType = TxnType.DEFAULT,
    ) -> bool:
        """Open a transaction without its locks, which :meth:`acquire` takes; see ``LockManager``."""
        (txn_id,) = self._transactions.open(user=user, agent_info=agent_info, type=type)
        begun(Begun(txn_id))
        return False

    def _is_held(self, wanted: LockComponent) -> bool:
        return bool(self._owners) and any(
            each.user in self._owners and each.state is LockState.ACQUIRED and covers(each.component, wanted)
            for each in self.show(wanted.database)
        )
