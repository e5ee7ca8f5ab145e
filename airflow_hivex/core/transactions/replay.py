"""Transactions of another warehouse, replayed here with ids of our own. Source: docs/reference/transactions.md."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from airflow_hivex.core.clock import Clock
from airflow_hivex.core.errors import InvalidTransactionRequestError, NoSuchObjectError
from airflow_hivex.core.model.texts import check_text, told
from airflow_hivex.core.model.transactions import AbortReason, TxnState, TxnType
from airflow_hivex.core.settings import Settings
from airflow_hivex.core.snapshots.txn_states import IS_OPEN
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.engine import Store
from airflow_hivex.core.store.schema import counters, next_write_ids, replayed_txns, txn_to_write_id, txns
from airflow_hivex.core.transactions import allocation
from airflow_hivex.core.transactions.allocation import is_id
from airflow_hivex.core.transactions.manager import TransactionManager
from airflow_hivex.core.transactions.table_names import read_table_id


class ReplayedTransactions:
    """The transactions that a replication policy replays, by their ids at the source.

    Every call may be repeated: a policy that stopped in the middle begins its events again.
    """

    def __init__(self, store: Store, settings: Settings, clock: Clock, transactions: TransactionManager) -> None:
        self._store = store
        self._timeout_s = max(1, int(settings["hive.repl.txn.timeout"] * 86_400))
        self._clock = clock
        self._transactions = transactions

    def open(
        self, policy: str, source_txn_ids: Sequence[int], *, user: str = "", agent_info: str | None = None
    ) -> dict[int, int]:
        """Our transaction for each of the source's, opened now where the policy had none yet.

        They stay open for ``hive.repl.txn.timeout`` without a heartbeat.

        Raises:
            InvalidTransactionRequestError: there is no policy, or an id that no transaction can have.
        """
        wanted = _checked(policy, source_txn_ids)

        def work(connection: Connection) -> dict[int, int]:
            # The counter's row first: of two that replay the same events, the second finds the first's.
            last = int(connection.execute(_COUNTER.with_for_update()).scalar_one())
            known = _targets(connection, policy, wanted)
            new = [source for source in wanted if source not in known]
            if not new:
                return known
            now = self._clock()
            lowest = connection.execute(_LOWEST_OPEN).scalar_one_or_none()
            targets = {source: last + number for number, source in enumerate(new, 1)}
            connection.execute(update(counters).where(counters.c.name == "txn").values(value=last + len(new)))
            rows = [
                {
                    "id": target,
                    "min_open_id": target if lowest is None else lowest,
                    "state": TxnState.OPEN.value,
                    "type": TxnType.REPL_CREATED.value,
                    "started_ms": now,
                    "heartbeat_ms": now,
                    "timeout_s": self._timeout_s,
                    "user": check_text("The name of a user", user)[:128],
                    "host": told(socket.gethostname(), 255),
                    "agent_info": None if agent_info is None else told(agent_info, 4096),
                }
                for target in targets.values()
            ]
            for batch in batches(rows, 1000):
                connection.execute(insert(txns), batch)
            mapping = [
                {"policy": policy, "source_txn_id": source, "txn_id": target} for source, target in targets.items()
            ]
            for map_batch in batches(mapping, 1000):
                connection.execute(insert(replayed_txns), map_batch)
            return known | targets

        return self._store.write(work, name="open")

    def allocate_write_ids(
        self, policy: str, write_ids: Mapping[int, int], database: str, table: str
    ) -> dict[int, int]:
        """Give our transactions the source's write ids (by source transaction) in a table; ours to write id.

        Ids follow each other. Where the table was going to hand out others, its earlier write ids
        are forgotten: the policy loads the table again.

        Raises:
            InvalidTransactionRequestError: the policy has not opened one of the transactions, or the
                write ids are not consecutive in the order of the transactions.
            TransactionNotOpenError: one of them has ended.
            NoSuchTableError: the table does not exist.
        """
        wanted = _checked(policy, list(write_ids))
        numbers = [write_ids[source] for source in wanted]
        if not all(map(is_id, numbers)) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise InvalidTransactionRequestError(
                f"The write ids {numbers} of the source's transactions {wanted} do not follow each other."
            )

        def work(connection: Connection) -> dict[int, int]:
            table_id = read_table_id(connection, database, table)
            targets = _targets(connection, policy, wanted)
            missing = [source for source in wanted if source not in targets]
            if missing:
                raise InvalidTransactionRequestError(
                    f"Policy {policy} has not opened the source's transactions {missing}; open them first."
                )
            allocation.check_writable(connection, sorted(targets.values()))
            mapping = txn_to_write_id.c
            found = {
                row.txn_id: int(row.write_id)
                for row in connection.execute(
                    select(mapping.txn_id, mapping.write_id).where(
                        mapping.table_id == table_id, mapping.txn_id.in_(list(targets.values()))
                    )
                )
            }
            if len(found) == len(targets):
                return found
            differing = [
                source for source in wanted if found.get(targets[source], write_ids[source]) != write_ids[source]
            ]
            if differing:
                raise InvalidTransactionRequestError(
                    f"Policy {policy} has given the source's transactions {differing} other write ids in "
                    f"{database}.{table} before; abort them, and begin with new ones."
                )
            following = connection.execute(
                select(next_write_ids.c.next).where(next_write_ids.c.table_id == table_id).with_for_update()
            ).scalar_one_or_none()
            if following is None:
                raise NoSuchObjectError(f"Table {database}.{table} was dropped; it gives no write ids any more.")
            new = [source for source in wanted if targets[source] not in found]
            if following != write_ids[new[0]]:
                connection.execute(delete(txn_to_write_id).where(mapping.table_id == table_id))
                found, new = {}, wanted
            connection.execute(
                update(next_write_ids).where(next_write_ids.c.table_id == table_id).values(next=numbers[-1] + 1)
            )
            allocated = {targets[source]: write_ids[source] for source in new}
            rows = [{"table_id": table_id, "txn_id": txn, "write_id": number} for txn, number in allocated.items()]
            connection.execute(insert(txn_to_write_id), rows)
            return found | allocated

        return self._store.write(work, name="allocate")

    def commit(
        self, policy: str, source_txn_id: int, changes: Callable[[Connection], None] | None = None
    ) -> int | None:
        """Commit our transaction for the source's; None if the policy has none any more, as it was settled before.

        The source has looked for write conflicts already.

        Raises:
            TransactionAbortedError: it was aborted here.
        """
        target = self._target(policy, source_txn_id)
        if target is None:
            return None

        def work(connection: Connection) -> None:
            if changes is not None:
                changes(connection)
            _forget(connection, policy, [source_txn_id])

        self._transactions.commit(target, work, exclusive_write_locks=True)
        return target

    def abort(self, policy: str, source_txn_ids: Sequence[int]) -> list[int]:
        """Abort our transactions for the source's; those that are settled, or never were, are ignored."""
        wanted = _checked(policy, source_txn_ids)

        def work(connection: Connection) -> list[int]:
            targets = sorted(_targets(connection, policy, wanted).values())
            aborted = self._transactions.abort_in(
                connection, targets, "the source has aborted it", AbortReason.ABORT_QUERY
            )
            _forget(connection, policy, wanted)
            return aborted

        return self._store.write(work, name="abort")

    def _target(self, policy: str, source_txn_id: int) -> int | None:
        with self._store.read() as connection:
            return _targets(connection, policy, _checked(policy, [source_txn_id])).get(source_txn_id)


_COUNTER = select(counters.c.value).where(counters.c.name == "txn")
_LOWEST_OPEN = select(func.min(txns.c.id)).where(IS_OPEN)


def _checked(policy: str, source_txn_ids: Sequence[int]) -> list[int]:
    if not policy or len(policy) > 256:
        raise InvalidTransactionRequestError(f"{policy!r} is not the name of a replication policy.")
    refused = [each for each in source_txn_ids if not is_id(each)]
    if refused or not source_txn_ids:
        raise InvalidTransactionRequestError(f"{refused} are not transactions that a source can have.")
    return sorted(set(source_txn_ids))


def _targets(connection: Connection, policy: str, source_txn_ids: Sequence[int]) -> dict[int, int]:
    mapping = replayed_txns.c
    return {
        int(row.source_txn_id): int(row.txn_id)
        for batch in batches(source_txn_ids)
        for row in connection.execute(
            select(mapping.source_txn_id, mapping.txn_id).where(
                mapping.policy == policy, mapping.source_txn_id.in_(batch)
            )
        )
    }


def _forget(connection: Connection, policy: str, source_txn_ids: Sequence[int]) -> None:
    mapping = replayed_txns.c
    for batch in batches(source_txn_ids):
        connection.execute(delete(replayed_txns).where(mapping.policy == policy, mapping.source_txn_id.in_(batch)))
