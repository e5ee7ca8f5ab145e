"""The transaction of a replication, and its locks."""

from __future__ import annotations

import getpass
import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from airflow_hivex.core.errors import (
    CommitOutcomeUnknownError,
    HivexError,
    LockNotAcquiredError,
    TransactionAbortedError,
)
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.identifiers import MAX_NAME_LENGTH
from airflow_hivex.core.model.locks import DataOperation, LockComponent, LockType
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.replication.copying import StoppedError
from airflow_hivex.core.store.exchange import Call
from airflow_hivex.core.transactions.beginning import Begun
from airflow_hivex.core.transactions.heartbeats import heartbeats

log = logging.getLogger(__name__)

_TIMEOUT = "hivex.replication.timeout"
_NOT_IN_NAMES = re.compile(r"\W")


@dataclass(slots=True)
class RunningReplication:
    """The transaction of a replication, which is opened with its locks, or by the first use of its id.

    ``stop`` is set when the transaction ends for any reason.
    """

    opener: Callable[[Sequence[LockComponent], Sequence[Call]], Begun]
    opened_id: int | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    ended: TransactionAbortedError | None = None

    @property
    def txn_id(self) -> int:
        """Return the id of the transaction. If no use has opened the transaction yet, open it."""
        return self.opener((), ()).txn_id if self.opened_id is None else self.opened_id

    def end(self, error: TransactionAbortedError) -> None:
        """Stop the copying after the transaction has ended. The thread of the heartbeats calls this method."""
        self.ended = error
        self.stop.set()


class ReplicationTransactions:
    """The transactions of replications, and their locks."""

    def __init__(self, services: Foundation) -> None:
        self._settings = services.settings
        self._transactions = services.transactions
        self._locks = services.locks

    @contextmanager
    def open(self, user: str | None, agent_info: str | None) -> Iterator[RunningReplication]:
        """Yield a transaction with heartbeats. The block must commit it; an error in the block aborts it."""
        # Other transactions wait for its locks, so a dead process must be found earlier than for a query.
        timeout_s = min(int(self._settings[_TIMEOUT]), int(self._settings["hive.txn.timeout"]))
        facts: Any = {"user": user or getpass.getuser(), "agent_info": agent_info, "timeout": timeout_s}
        alive = ExitStack()

        def note(begun: Begun) -> None:
            running.opened_id = begun.txn_id
            alive.enter_context(heartbeats(self._transactions, begun.txn_id, timeout_s, running.end))

        def begin(components: Sequence[LockComponent], also: Sequence[Call]) -> Begun:
            if components:
                return self._locks.begin(components, note, also=also, **facts)
            begun = Begun(self._transactions.open(**facts)[0])
            note(begun)
            return begun

        running = RunningReplication(begin)
        try:
            with alive:
                yield running
        except BaseException as error:
            running.stop.set()
            if running.opened_id is not None and not isinstance(error, CommitOutcomeUnknownError):
                self._abort(running.opened_id, error)
            if isinstance(error, StoppedError) and running.ended is not None:
                raise running.ended from error
            raise

    def _abort(self, txn_id: int, error: BaseException) -> None:
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        try:
            self._transactions.abort(txn_id, reason[:1000])
        except HivexError as failure:
            # The caller needs the first error; the transaction times out, or has ended already.
            log.warning("Transaction %s of a replication could not be aborted: %s", txn_id, failure)

    def abort_dead(self, owners: Mapping[int, str]) -> None:
        """Abort the open transactions whose processes ran on this machine and have died.

        ``owners`` is a dict from transaction to process.
        """
        for txn_id, process in owners.items():
            if is_dead(process):
                log.warning("Transaction %s is aborted: %s has died", txn_id, shown(process))
                self._transactions.abort_many([txn_id], f"{shown(process)} has died")

    def try_lock(self, running: RunningReplication, tables: Iterable[tuple[str, int]], cluster: str) -> bool:
        """Lock tables against other replications to a cluster. Return False at once if such a replication is running.

        ``tables`` has a pair (database, id) for each table.
        """
        wanted = [_of_copy(database, table_id, cluster) for database, table_id in tables]
        return self._locks.acquire(wanted, running.txn_id, wait=False).is_acquired

    def commit(self, running: RunningReplication, changes: Callable[[Connection], None]) -> None:
        """Commit the transaction together with changes of the metastore.

        Raises:
            TransactionAbortedError: the transaction was aborted; nothing was changed.
        """
        self._transactions.commit(running.txn_id, changes)

    def give_up(self, running: RunningReplication, reason: str) -> None:
        """Abort the transaction."""
        self._transactions.abort(running.txn_id, reason)

    def begin(
        self, running: RunningReplication, tables: Iterable[StoredTable], cluster: str, also: Sequence[Call]
    ) -> Sequence[Sequence[Any]] | None:
        """Open the transaction, if possible with the locks of :meth:`lock`.

        The call takes one round trip. If the transaction gets the locks, return the answers to the queries ``also``,
        which run after the locks are granted. Otherwise return None.
        """
        begun = running.opener(_of_readers(tables, cluster), also)
        return None if begun.lock is None else begun.answers

    def lock(self, running: RunningReplication, tables: Iterable[StoredTable], cluster: str) -> None:
        """Lock tables for reading, and against other replications to the cluster.

        Raises:
            LockError, DeadlockError: the locks were not acquired.
        """
        self._acquire(running, _of_readers(tables, cluster))

    def lock_alone(
        self,
        running: RunningReplication,
        tables: Iterable[StoredTable],
        cluster: str,
        database: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Lock tables, or a whole database, against readers and writers, and against other replications.

        All locks are granted together or not at all. ``timeout_s`` limits the wait.

        Raises:
            LockError, DeadlockError: the locks were not acquired.
        """
        components = _components(tables, cluster, LockType.EXCLUSIVE, DataOperation.NO_TXN)
        if database is not None:
            components.append(LockComponent(database, None, type=LockType.EXCLUSIVE, operation=DataOperation.NO_TXN))
        self._acquire(running, components, timeout_s)

    def _acquire(
        self, running: RunningReplication, components: list[LockComponent], timeout_s: float | None = None
    ) -> None:
        if not components:
            return
        response = self._locks.acquire(components, running.txn_id, timeout=timeout_s)
        if not response.is_acquired:
            raise LockNotAcquiredError(response.message or "The locks are held by another transaction.")


def _of_readers(tables: Iterable[StoredTable], cluster: str) -> list[LockComponent]:
    return _components(tables, cluster, LockType.SHARED_READ, DataOperation.SELECT)


def _components(
    tables: Iterable[StoredTable], cluster: str, kind: LockType, operation: DataOperation
) -> list[LockComponent]:
    components = []
    for table in tables:
        if not table.is_view:
            components.append(LockComponent(table.database, table.name, type=kind, operation=operation))
            components.append(_of_copy(table.database, table.id, cluster))
    return components


def _of_copy(database: str, table_id: int, cluster: str) -> LockComponent:
    """Return the lock that only the replications of a table to a cluster request."""
    # A name that no table has: a lock on the table itself would stop its writers.
    name = _NOT_IN_NAMES.sub("_", f"hivex_replication_{table_id}_{cluster}")[:MAX_NAME_LENGTH]
    return LockComponent(database, name, type=LockType.EXCL_WRITE, operation=DataOperation.NO_TXN, is_new_table=True)


_PROC = Path("/proc")
_FACTS = 5


def this_process() -> str:
    """Return a text that identifies this process.

    The text has the host name, the boot id and the process id namespace of the system, the process id, and the start
    time of the process.
    """
    return " ".join((socket.gethostname().replace(" ", "_"), *_machine(), str(os.getpid()), _began(os.getpid())))


def is_dead(process: str) -> bool:
    """Return whether a process ran on this machine and has ended. ``process`` is a result of :func:`this_process`.

    The result is False for a process of another machine or container.
    """
    facts = process.split(" ")
    if len(facts) != _FACTS or "" in facts or tuple(facts[1:3]) != _machine() or not facts[3].isdecimal():
        return False
    return _began(int(facts[3])) != facts[4]


def shown(process: str) -> str:
    """Return a short text about a process for messages. ``process`` is a result of :func:`this_process`."""
    facts = process.split(" ")
    return f"process {facts[3]} on {facts[0]}" if len(facts) == _FACTS else "its process"


def _machine() -> tuple[str, str]:
    """Return the boot id and the process id namespace of this system, or two empty texts if they are not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return boot, str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return "", ""


def _began(pid: int) -> str:
    """Return the start time of a process in ticks since the boot, or an empty text if the process does not run."""
    try:
        # The name of the program may have blanks and brackets.
        state, *others = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in ("Z", "X") else others[18]
