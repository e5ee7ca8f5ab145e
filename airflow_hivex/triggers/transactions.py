"""Wait for the end of a transaction, or for a commit to a table, by looking again and again.

The functions are one look each; sensors use them too.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hivex.core.errors import HivexError, NoSuchObjectError
from airflow_hivex.hooks.tasks import failure_of
from airflow_hivex.hooks.warehouse import WarehouseHook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

Answer: TypeAlias = "dict[str, Any]"


def look_at_transaction(hivex_conn_id: str, txn_id: int) -> Answer | None:
    """Return the result of a sensor once the transaction has committed, or None while it is open.

    :raises TransactionAbortedError: it was aborted
    :raises NoSuchTransactionError: no transaction has that id, or its record is gone already
    """
    from airflow_hivex.core.errors import TransactionAbortedError
    from airflow_hivex.core.model.transactions import TxnState

    found = WarehouseHook(hivex_conn_id).get_metastore().transactions.get(txn_id)
    if found.state is TxnState.ABORTED:
        raise TransactionAbortedError(txn_id, found.reason)
    return {"txn_id": txn_id} if found.state is TxnState.COMMITTED else None


def look_for_commit(
    hivex_conn_id: str, table: str, partition: str | None, since: int | Mapping[str, Any] | None
) -> Answer | None:
    """Return the result of a sensor once a table has a commit after ``since``, or None.

    :param table: ``table`` or ``database.table``
    :param since: a write id, a ``mark`` of an earlier answer, or None for any commit
    :raises HivexError: there is no such table, or nothing can be waited for in it
    """
    from airflow_hivex.core.catalog.commits import CommitMark

    hook = WarehouseHook(hivex_conn_id)
    database, _, name = table.rpartition(".")
    database = database or hook.get_configuration().database
    commits = hook.get_metastore().commits
    after = since if since is None or isinstance(since, int) else CommitMark.from_json(since)
    found = commits.after(database, name, partition, since=after)
    if found is None:
        return None
    return {
        "table": found.table,
        "partition": found.partition,
        "write_id": found.write_id,
        "txn_id": found.txn_id,
        "committed_at": found.committed_at.isoformat(),
        # Taken after the look: a task that starts now reads all of this, and needs no other event for it.
        "mark": commits.mark(database, name).to_json(),
    }


class Waiter(Protocol):
    """A sensor or a trigger that looks again and again."""

    check_existence: bool
    is_missing: bool

    @property
    def log(self) -> Any:
        """Return the logger."""


def look_once(waiter: Waiter, look: Callable[[], Answer | None]) -> Answer | None:
    """Return the answer of a sensor or trigger, or None if it must look again.

    An object that does not exist, or was dropped meanwhile, may be created later: it is waited for unless
    ``check_existence`` is set. The log names it once for each time that it is missing.

    :raises HivexError: waiting is of no use, or the look has failed
    """
    try:
        answer = look()
    except NoSuchObjectError as error:
        if waiter.check_existence:
            raise
        if not waiter.is_missing:
            waiter.log.info("Waiting until it is created: %s", error)
        waiter.is_missing = True
        return None
    waiter.is_missing = False
    return answer


class HivexTrigger(BaseTrigger):
    """Looks every ``poll_interval`` seconds, in a thread, until there is an answer.

    Its one event is ``{"answer": ...}``, or ``{"error": sentence}`` when waiting is of no use. A metastore that cannot
    be reached is waited for, and so is an object that does not exist. A trigger changes nothing, so that being killed
    or moved to another triggerer only ends or repeats the waiting.

    :param hivex_conn_id: the connection
    :param poll_interval: seconds between two looks
    :param check_existence: an object that does not exist is an error
    """

    def __init__(self, *, hivex_conn_id: str, poll_interval: float, check_existence: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.hivex_conn_id = hivex_conn_id
        self.poll_interval = poll_interval
        self.check_existence = check_existence
        self.is_missing = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and what to make it again with."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        own = {
            "hivex_conn_id": self.hivex_conn_id,
            "poll_interval": self.poll_interval,
            "check_existence": self.check_existence,
        }
        return path, own | self._arguments()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the one event."""
        while True:
            try:
                answer = await asyncio.to_thread(look_once, self, self._look)
            except HivexError as error:
                failure = failure_of(error)
                if failure is not None:
                    yield TriggerEvent({"error": str(failure)})
                    return
                self.log.warning("Looking again in %s s: %s", self.poll_interval, error)
                answer = None
            if answer is not None:
                yield TriggerEvent({"answer": answer})
                return
            await asyncio.sleep(self.poll_interval)

    async def on_kill(self) -> None:
        """Do nothing: a user has ended the task, and nothing was begun that is to be undone."""
        self.log.info("Waiting for %s was ended by a user; it continues undisturbed.", self._awaited())

    async def cleanup(self) -> None:
        """Do nothing: the connection to the metastore is the triggerer's."""

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor besides the connection and the interval."""

    @abstractmethod
    def _look(self) -> Answer | None:
        """Return the answer, if there is one now."""

    @abstractmethod
    def _awaited(self) -> str:
        """Return a short name of the awaited event."""


class HivexTransactionTrigger(HivexTrigger):
    """Waits until a transaction has committed.

    :param txn_id: the transaction
    """

    def __init__(self, *, txn_id: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.txn_id = txn_id

    def _arguments(self) -> dict[str, Any]:
        return {"txn_id": self.txn_id}

    def _look(self) -> Answer | None:
        return look_at_transaction(self.hivex_conn_id, self.txn_id)

    def _awaited(self) -> str:
        return f"transaction {self.txn_id}"


class HivexTableCommitTrigger(HivexTrigger):
    """Waits for a commit to a table or partition.

    :param table: ``table`` or ``database.table``
    :param partition: ``key=value/...``, or None for the whole table
    :param since: a write id, a ``mark`` of an earlier answer, or None for any commit
    """

    def __init__(
        self,
        *,
        table: str,
        partition: str | None = None,
        since: int | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.partition = partition
        self.since = since

    def _arguments(self) -> dict[str, Any]:
        return {"table": self.table, "partition": self.partition, "since": self.since}

    def _look(self) -> Answer | None:
        return look_for_commit(self.hivex_conn_id, self.table, self.partition, self.since)

    def _awaited(self) -> str:
        return f"a commit to {self.table}" + (f" ({self.partition})" if self.partition else "")
