"""Triggers that poll the metastore for the end of a transaction, or for a commit to a table.

Triggers and sensors call the functions for each check.
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
    """Return the result of the sensor if the transaction has committed, or None while it is open.

    :raises TransactionAbortedError: the transaction was aborted
    :raises NoSuchTransactionError: no transaction has the id, or its record is already deleted
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
    """Return the result of the sensor if a table has a commit after ``since``, or else None.

    :param table: ``table`` or ``database.table``
    :param since: a write id, or the ``mark`` of a previous result, or None for any commit
    :raises HivexError: the table does not exist, is not transactional, or cannot have such a partition
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
        # Read after the commit: a task that starts now reads all commits up to the mark, and needs no event for them.
        "mark": commits.mark(database, name).to_json(),
    }


class Waiter(Protocol):
    """A sensor or trigger that polls the metastore."""

    check_existence: bool
    is_missing: bool

    @property
    def log(self) -> Any:
        """Return the logger."""


def look_once(waiter: Waiter, look: Callable[[], Answer | None]) -> Answer | None:
    """Check once, and return the answer, or None if the sensor or trigger must continue to wait.

    If an object does not exist, return None, or raise the error with ``check_existence``. The log names the missing
    object only once.

    :raises HivexError: the awaited event cannot happen any more, or the check has failed
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
    """Poll the metastore every ``poll_interval`` seconds, in a thread, until the awaited event has happened.

    The only event is ``{"answer": ...}``, or ``{"error": sentence}`` if the awaited event cannot happen any more. If
    the metastore cannot be reached, or an object does not exist, the trigger continues to wait. It can be killed, or
    moved to another triggerer, at any time.

    :param hivex_conn_id: the id of the connection
    :param poll_interval: seconds between two checks
    :param check_existence: whether a missing object is an error
    """

    def __init__(self, *, hivex_conn_id: str, poll_interval: float, check_existence: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.hivex_conn_id = hivex_conn_id
        self.poll_interval = poll_interval
        self.check_existence = check_existence
        self.is_missing = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the path of the class, and the arguments of its constructor."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        own = {
            "hivex_conn_id": self.hivex_conn_id,
            "poll_interval": self.poll_interval,
            "check_existence": self.check_existence,
        }
        return path, own | self._arguments()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the only event."""
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
        """Do nothing after a user has ended the task, because a trigger changes nothing."""
        self.log.info("Waiting for %s was ended by a user; it continues undisturbed.", self._awaited())

    async def cleanup(self) -> None:
        """Do nothing. The metastore stays open for other triggers of this process."""

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor, except the connection and the interval."""

    @abstractmethod
    def _look(self) -> Answer | None:
        """Return the answer if the awaited event has happened, or else None."""

    @abstractmethod
    def _awaited(self) -> str:
        """Return a short name of the awaited event."""


class HivexTransactionTrigger(HivexTrigger):
    """Wait until a transaction has committed.

    :param txn_id: the id of the transaction
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
    """Wait for a commit to a table or partition.

    :param table: ``table`` or ``database.table``
    :param partition: ``key=value/...``, or None for the whole table
    :param since: a write id, or the ``mark`` of a previous result, or None for any commit
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
