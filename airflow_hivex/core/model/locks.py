"""Locks: types, levels, the rules by which they conflict and wait, and the locks of each kind of statement.

This module has only rules. The held locks are in the metastore database; see ``transactions.locks``.
Source: docs/reference/locks.md (Hive AcidUtils).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from airflow_hivex.core.errors import InvalidLockRequestError, InvalidObjectError, InvalidTextError
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable, Table
from airflow_hivex.core.model.partitions import check_partition_name
from airflow_hivex.core.model.texts import check_values


class LockType(enum.Enum):
    """The types of locks with their stored letters, from the least strict to the strictest."""

    SHARED_READ = "r"
    SHARED_WRITE = "w"
    EXCL_WRITE = "x"
    EXCLUSIVE = "e"

    @property
    def strictness(self) -> int:
        """Return a number that is higher for a stricter type."""
        return _STRICTNESS[self]


_STRICTNESS = {letter: number for number, letter in enumerate(LockType)}


class LockLevel(enum.Enum):
    """The level of a locked object. Source: Hive LockLevel; the numbers are Thrift's."""

    DB = 1
    TABLE = 2
    PARTITION = 3


class LockState(enum.Enum):
    """The states of locks. Only acquired and waiting locks are stored; other states occur in responses."""

    ACQUIRED = "a"
    WAITING = "w"
    ABORT = "abort"
    NOT_ACQUIRED = "not acquired"


class DataOperation(enum.Enum):
    """The operation for which a statement needs a lock. Source: Hive DataOperationType."""

    SELECT = 1
    INSERT = 2
    UPDATE = 3
    DELETE = 4
    UNSET = 5
    NO_TXN = 6

    @property
    def writes(self) -> bool:
        """Return whether the operation writes data of a transactional table."""
        return self in (DataOperation.INSERT, DataOperation.UPDATE, DataOperation.DELETE)


_Place: TypeAlias = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class LockComponent:
    """One lock of a request: on a database, a table or a partition. Names are normalised.

    ``is_dynamic_partition_write`` is true if the written partitions are not known yet. ``is_new_table`` is true if the
    transaction will create the table, so that the table need not exist. The default operation of a SHARED_READ is
    SELECT. A lock of any other type in a transaction needs an operation.

    Raises:
        InvalidLockRequestError: a partition is given without its table, or a name is empty, too long or has a character
            that cannot be stored.
    """

    database: str
    table: str | None
    partition: str | None = None
    type: LockType = LockType.SHARED_READ
    operation: DataOperation = DataOperation.UNSET
    is_dynamic_partition_write: bool = False
    is_new_table: bool = False

    def __post_init__(self) -> None:
        if self.operation is DataOperation.UNSET and self.type is LockType.SHARED_READ:
            object.__setattr__(self, "operation", DataOperation.SELECT)
        object.__setattr__(self, "database", normalise(self.database))
        if self.table is not None:
            object.__setattr__(self, "table", normalise(self.table))
        if self.partition is not None:
            object.__setattr__(self, "partition", _normalise_partition(self.partition))
        names = (self.database, self.table, self.partition)
        if any(name is not None and not name for name in names):
            raise InvalidLockRequestError(f"one of the names {names} is empty")
        try:
            check_values("A name", names)
            check_partition_name(self.partition or "")
        except (InvalidTextError, InvalidObjectError) as error:
            raise InvalidLockRequestError(str(error).rstrip(".")) from error
        if self.partition is not None and self.table is None:
            raise InvalidLockRequestError(f"partition {self.partition} is named without its table")

    @property
    def level(self) -> LockLevel:
        """Return the level of the locked object."""
        if self.table is None:
            return LockLevel.DB
        return LockLevel.TABLE if self.partition is None else LockLevel.PARTITION

    @property
    def full_table(self) -> str:
        """Return ``database/table`` for a lock on a table or partition, and an empty text for a lock on a database."""
        return "" if self.table is None else f"{self.database}/{self.table}"

    @property
    def place(self) -> _Place:
        """Return the locked object as (database, table, partition)."""
        return self.database, self.table, self.partition

    @property
    def resource(self) -> str:
        """Return the locked object as ``database``, ``database/table`` or ``database/table/partition``."""
        return "/".join(part for part in (self.database, self.table, self.partition) if part is not None)

    @property
    def shown(self) -> str:
        """Return the locked object as ``database``, ``database.table`` or ``database.table partition``."""
        return shown_resource(self.resource)


def shown_resource(resource: str) -> str:
    """Return a stored resource as messages show it: ``database.table partition``, or fewer of these parts."""
    parts = resource.split("/", 2)
    return " ".join([".".join(parts[:2]), *parts[2:]])


def _normalise_partition(name: str) -> str:
    """Return a partition name with the keys in lower case (docs/reference/transactions.md, "Names")."""
    parts = (part.partition("=") for part in name.split("/"))
    return "/".join(f"{key.lower()}{equals}{value}" for key, equals, value in parts)


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A stored lock: the id of its request, its number in the request, its owner, and the lock that it waits for."""

    lock_id: int
    internal_id: int
    txn_id: int | None
    component: LockComponent
    state: LockState
    requested_at: datetime
    heartbeat_at: datetime | None
    acquired_at: datetime | None
    user: str
    host: str
    agent_info: str | None = None
    blocked_by: tuple[int, int] | None = None

    def describe(self) -> str:
        """Return a description for people: the owner of the lock, its time and its object."""
        does = "holds" if self.state is LockState.ACQUIRED else "waits for"
        since = self.acquired_at or self.requested_at
        who = f"{self.user} on {self.host}" + (f" ({self.agent_info})" if self.agent_info else "")
        owner = f"transaction {self.txn_id}" if self.txn_id else "no transaction"
        return (
            f"{who} {does} {self.component.type.name} on {self.component.resource} "
            f"since {since:%Y-%m-%d %H:%M:%S} UTC (lock {self.lock_id}.{self.internal_id}, {owner})"
        )


@dataclass(frozen=True, slots=True)
class LockResponse:
    """The response to a request: the id of the locks, or 0 after a refusal, and the first lock that conflicts."""

    lock_id: int
    state: LockState
    blocked_by: LockInfo | None = None
    message: str | None = None

    @property
    def is_acquired(self) -> bool:
        """Return whether all locks of the request are held."""
        return self.state is LockState.ACQUIRED


class LockAction(enum.Enum):
    """The result of comparing a lock request with a lock that was requested before.

    The request is granted, is compared with the next lock, or waits.
    """

    GRANT = "grant"
    KEEP_LOOKING = "keep looking"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class LockMatrix:
    """The rules by which one release of Hive compares a lock request with locks that were requested before.

    ``actions`` is a dict from (type of the request, type of the lock, state of the lock) to the action.
    ``strictest_first`` decides the order in which locks are compared with the request. If it is false, as in Hive 4,
    the locks are in the order of their requests. If it is true, as in Hive 2.3, the strictest waiting lock is the
    first, and the weakest acquired lock is the last. ``exclusive`` has the types that count as EXCLUSIVE in the
    exceptions for locks on databases.
    """

    name: str
    actions: Mapping[tuple[LockType, LockType, LockState], LockAction]
    strictest_first: bool
    exclusive: frozenset[LockType]
    blocking: Mapping[LockType, tuple[LockType, ...]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[LockType, dict[LockType, None]] = {requested: {} for requested in LockType}
        for (requested, ahead, _), action in self.actions.items():
            if action is LockAction.WAIT:
                found[requested][ahead] = None
        object.__setattr__(self, "blocking", {requested: tuple(ahead) for requested, ahead in found.items()})

    def walk(self, ahead: Iterable[LockInfo]) -> list[LockInfo]:
        """Return the locks ``ahead`` in the order in which a request is compared with them."""
        if self.strictest_first:
            return sorted(
                ahead,
                key=lambda lock: (
                    lock.state is LockState.WAITING,
                    lock.component.type.strictness,
                    lock.lock_id,
                    lock.internal_id,
                ),
                reverse=True,
            )
        return sorted(ahead, key=lambda lock: (lock.lock_id, lock.internal_id))

    def blocker(self, component: LockComponent, txn_id: int | None, ahead: Iterable[LockInfo]) -> LockInfo | None:
        """Return the first of the locks ``ahead`` for which ``component`` of transaction ``txn_id`` must wait, or None.

        The transaction's own locks never conflict with ``component``.
        """
        for lock in self.walk(ahead):
            if (txn_id and lock.txn_id == txn_id) or not meet(component, lock.component):
                continue
            action = self.actions[component.type, lock.component.type, lock.state]
            if action is LockAction.GRANT:
                return None
            if action is LockAction.WAIT and not self.is_harmless(component, lock.component):
                return lock
        return None

    def is_harmless(self, request: LockComponent, ahead: LockComponent) -> bool:
        """Return whether a request need not wait, because one lock is on a database and the other on an object in it.

        Source: docs/reference/locks.md, "Lock matrix".
        """
        if request.type is LockType.SHARED_READ and ahead.type in self.exclusive:
            return request.table is None and ahead.table is not None
        if request.type in self.exclusive and ahead.type is LockType.SHARED_READ:
            return request.table is not None and ahead.table is None
        return False


_R, _W, _X, _E = LockType
_OK, _KEEP, _WAIT = LockAction


def _any_state(
    table: Mapping[LockType, Sequence[LockAction]],
) -> dict[tuple[LockType, LockType, LockState], LockAction]:
    return {
        (requested, ahead, state): action
        for requested, actions in table.items()
        for ahead, action in zip(LockType, actions, strict=True)
        for state in (LockState.ACQUIRED, LockState.WAITING)
    }


# fmt: off
HIVE_4 = LockMatrix("4", _any_state({
    #    ahead: SHARED_READ SHARED_WRITE EXCL_WRITE EXCLUSIVE
    _R: (_KEEP, _KEEP, _KEEP, _WAIT),
    _W: (_KEEP, _KEEP, _WAIT, _WAIT),
    _X: (_KEEP, _WAIT, _WAIT, _WAIT),
    _E: (_WAIT, _WAIT, _WAIT, _WAIT),
}), strictest_first=False, exclusive=frozenset((_E,)))

# These releases have no EXCL_WRITE; such a request is treated as EXCLUSIVE.
HIVE_2_3 = LockMatrix("2.3", {
    **_any_state({
        _R: (_KEEP, _KEEP, _WAIT, _WAIT),
        _W: (_KEEP, _WAIT, _WAIT, _WAIT),
        _X: (_WAIT, _WAIT, _WAIT, _WAIT),
        _E: (_WAIT, _WAIT, _WAIT, _WAIT),
    }),
    # An acquired shared lock proves that no stricter lock was ahead of it.
    (_R, _R, LockState.ACQUIRED): _OK,
    (_R, _W, LockState.ACQUIRED): _OK,
}, strictest_first=True, exclusive=frozenset((_X, _E)))
# fmt: on

MATRICES = {matrix.name: matrix for matrix in (HIVE_4, HIVE_2_3)}
"""A dict from value of ``hivex.lock.matrix`` to lock matrix."""


def meet(one: LockComponent, other: LockComponent) -> bool:
    """Return whether both locks cover at least one common object (docs/reference/locks.md, "Locks that meet")."""
    if one.database != other.database:
        return False
    if one.table is None or other.table is None:
        return True
    if one.table != other.table:
        return False
    return one.partition is None or other.partition is None or one.partition == other.partition


def covers(held: LockComponent, request: LockComponent) -> bool:
    """Return whether a held lock excludes each lock that the requested lock would exclude."""
    if held.type is LockType.SHARED_READ and held.table is None and request.table is not None:
        # By the exceptions of LockMatrix.is_harmless it does not exclude an EXCLUSIVE on the tables of the database.
        return False
    return (
        held.type.strictness >= request.type.strictness
        and held.database == request.database
        and held.table in (None, request.table)
        and held.partition in (None, request.partition)
    )


class HeldLocks:
    """The locks of a transaction, and whether they cover a request."""

    def __init__(self) -> None:
        self._strictest: dict[_Place, LockComponent] = {}

    def add(self, held: LockComponent) -> None:
        """Add a lock of the transaction."""
        other = self._strictest.get(held.place)
        if other is None or other.type.strictness < held.type.strictness:
            self._strictest[held.place] = held

    def cover(self, request: LockComponent) -> bool:
        """Return whether one of the held locks covers the request (:func:`covers`)."""
        places = {request.place, (request.database, request.table, None), (request.database, None, None)}
        return any(covers(held, request) for place in places if (held := self._strictest.get(place)) is not None)


def find_circle(start: int, waits_for: Callable[[Collection[int]], Mapping[int, Collection[int]]]) -> tuple[int, ...]:
    """Return a shortest cycle of waiting transactions that contains ``start``, or an empty tuple if there is no cycle.

    ``waits_for`` takes transactions, and returns a dict from transaction to the transactions for which it waits.
    """
    came_from: dict[int, int] = {}
    frontier = [start]
    while frontier:
        edges = waits_for(frontier)
        following = []
        for node in frontier:
            for other in sorted(edges.get(node, ())):
                if other == start:
                    path = [node]
                    while path[-1] != start:
                        path.append(came_from[path[-1]])
                    return tuple(reversed(path))
                if other not in came_from:
                    came_from[other] = node
                    following.append(other)
        frontier = following
    return ()


SHOW_LOCKS_COLUMNS = (
    "lockid",
    "database",
    "table",
    "partition",
    "lock_state",
    "blocked_by",
    "lock_type",
    "transaction_id",
    "last_heartbeat",
    "acquired_at",
    "user",
    "hostname",
    "agent_info",
)


def show_row(lock: LockInfo) -> tuple[str | None, ...]:
    """Return a row of SHOW LOCKS: texts and NULL (docs/reference/locks.md, "SHOW LOCKS")."""
    component = lock.component
    return (
        f"{lock.lock_id}.{lock.internal_id}",
        component.database,
        component.table,
        component.partition,
        lock.state.name,
        " " * 12 if lock.blocked_by is None else "{}.{}".format(*lock.blocked_by),
        component.type.name,
        str(lock.txn_id) if lock.txn_id else None,
        _milliseconds(lock.heartbeat_at),
        _milliseconds(lock.acquired_at),
        lock.user,
        lock.host,
        lock.agent_info,
    )


def show_order(lock: LockInfo) -> tuple[bool, int, int, int]:
    """Return the sort key of SHOW LOCKS: acquired locks first, then sorted by strictness, then by ids."""
    return lock.state is not LockState.ACQUIRED, lock.component.type.strictness, lock.lock_id, lock.internal_id


def _milliseconds(time: datetime | None) -> str | None:
    return None if time is None else str(round(time.timestamp() * 1000))


_NONE = DataOperation.NO_TXN
_STRONGEST_FIRST = (DataOperation.UPDATE, DataOperation.DELETE)


class StatementLocks:
    """The locks that statements request. They depend on the settings of the metastore.

    Each method returns the locks of one kind of statement. ``partitions`` are the names of the read or written
    partitions, or None for the whole table.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._exclusive_writes = bool(settings["hive.txn.xlock.write"])
        self._exclusive_overwrites = bool(settings["hive.txn.xlock.iow"])
        self._exclusive_ctas = bool(settings["hive.txn.xlock.ctas"])
        self._lockless_reads = bool(settings["hive.acid.lockless.reads.enabled"])
        self._read_locks = bool(settings["hive.txn.read.locks"])
        self._plain_read_locks = bool(settings["hive.txn.nonacid.read.locks"])
        self._external_locks = bool(settings["hive.txn.ext.locking.enabled"])
        self._most_partitions = int(settings["hive.locks.max.partitions"])

    @property
    def zero_wait_reads(self) -> bool:
        """Return whether a read is refused at once if it would have to wait (docs/reference/locks.md, "Queue")."""
        return not (self._exclusive_overwrites and self._exclusive_writes)

    @property
    def exclusive_ctas(self) -> bool:
        """Return whether CREATE TABLE AS SELECT is refused while another statement creates a table of the same name.

        Source: docs/reference/locks.md, "Queue".
        """
        return self._exclusive_ctas

    def read(self, table: Table, partitions: Sequence[str] | None) -> list[LockComponent]:
        """Return the locks of a query on a table that the query reads."""
        if not self._read_locks or not self._is_locked(table):
            return []
        wanted = not self._lockless_reads if table.is_transactional else self._plain_read_locks
        return self._on(table, partitions, LockType.SHARED_READ, DataOperation.SELECT) if wanted else []

    def insert(self, table: Table, partition: str | None) -> list[LockComponent]:
        """Return the locks of INSERT INTO. If ``partition`` is None, the values of each row decide its partition.

        External tables are locked with any value of ``hive.txn.ext.locking.enabled``.
        """
        shared = self._exclusive_writes and not self._lockless_reads
        lock_type = LockType.SHARED_READ if shared else LockType.SHARED_WRITE
        return [self._write(table, partition, lock_type, DataOperation.INSERT)]

    def insert_overwrite(self, table: Table, partition: str | None) -> list[LockComponent]:
        """Return the locks of INSERT OVERWRITE, which counts as an update."""
        alone = self._exclusive_writes and self._exclusive_overwrites and not self._lockless_reads
        # Readers of an external table have no snapshot of the deleted files.
        alone = alone or not table.is_transactional
        lock_type = LockType.EXCLUSIVE if alone else LockType.EXCL_WRITE
        return [self._write(table, partition, lock_type, DataOperation.UPDATE)]

    def change_rows(
        self, table: Table, partitions: Sequence[str] | None, operations: Collection[DataOperation]
    ) -> list[LockComponent]:
        """Return the locks of UPDATE, DELETE or MERGE on the table that is changed.

        ``operations`` are the operations of the statement on rows. ``partitions`` are the partitions of the changed
        rows, or None if they are not known before the statement runs. A MERGE that only inserts has the locks of an
        INSERT.
        """
        operation = next((each for each in _STRONGEST_FIRST if each in operations), DataOperation.INSERT)
        if operation is DataOperation.INSERT:
            return self.insert(table, None)
        lock_type = LockType.EXCL_WRITE if self._exclusive_writes else LockType.SHARED_WRITE
        if partitions is None or 0 <= self._most_partitions < len(partitions) or DataOperation.INSERT in operations:
            # An INSERT of a MERGE may go to any partition.
            return [self._write(table, None, lock_type, operation)]
        return [self._write(table, each, lock_type, operation) for each in partitions]

    def truncate(self, table: Table, partitions: Sequence[str] | None) -> list[LockComponent]:
        """Return the locks of TRUNCATE TABLE.

        Unlike in Hive, TRUNCATE counts as an update. So TRUNCATE conflicts with an UPDATE that runs at the same time.
        """
        if partitions is None or 0 <= self._most_partitions < len(partitions):
            return [self._write(table, None, LockType.EXCL_WRITE, DataOperation.UPDATE)]
        return [self._write(table, each, LockType.EXCL_WRITE, DataOperation.UPDATE) for each in partitions]

    def create_table(self, database: str) -> list[LockComponent]:
        """Return the locks of CREATE TABLE."""
        return [LockComponent(database, None, type=LockType.SHARED_READ, operation=_NONE)]

    def create_table_as_select(self, database: str, name: str) -> list[LockComponent]:
        """Return the locks on the new table of CREATE TABLE AS SELECT."""
        # The write to a new table is noted once the table exists.
        return [LockComponent(database, name, type=LockType.EXCL_WRITE, operation=_NONE, is_new_table=True)]

    def drop_table(self, table: Table) -> list[LockComponent]:
        """Return the locks of DROP TABLE."""
        return [*self.create_table(table.database), *self._change(table, None, LockType.EXCLUSIVE)]

    def replace_table(self, table: Table) -> list[LockComponent]:
        """Return the locks of a statement that replaces a table, managed or external, by a new table."""
        exclusive = LockComponent(table.database, table.name, type=LockType.EXCLUSIVE, operation=_NONE)
        return [*self.create_table(table.database), exclusive]

    def create_link(self, database: str, source: Table) -> list[LockComponent]:
        """Return the locks of CREATE LINK. While they are held, no statement drops the database or the source."""
        return [*self.create_table(database), *self._change(source, None, LockType.SHARED_READ)]

    def drop_database(self, name: str) -> list[LockComponent]:
        """Return the locks of DROP DATABASE."""
        return [LockComponent(name, None, type=LockType.EXCLUSIVE, operation=_NONE)]

    def drop_partitions(self, table: Table, partitions: Sequence[str]) -> list[LockComponent]:
        """Return the locks of ALTER TABLE DROP PARTITION."""
        return self._change(table, partitions, LockType.EXCL_WRITE if self._lockless_reads else LockType.EXCLUSIVE)

    def rename_partition(self, table: Table, partitions: Sequence[str]) -> list[LockComponent]:
        """Return the locks of ALTER TABLE PARTITION RENAME. ``partitions`` are the old name and the new name."""
        return self._change(table, partitions, LockType.EXCL_WRITE if self._lockless_reads else LockType.EXCLUSIVE)

    def add_partitions(self, table: Table, partitions: Sequence[str], *, if_not_exists: bool) -> list[LockComponent]:
        """Return the locks of ALTER TABLE ADD PARTITION."""
        alone = if_not_exists and table.is_transactional
        return self._change(table, partitions, LockType.EXCL_WRITE if alone else LockType.SHARED_READ)

    def alter_table(self, table: Table) -> list[LockComponent]:
        """Return the locks of ALTER TABLE RENAME or ADD COLUMNS."""
        return self._change(table, None, LockType.EXCL_WRITE if self._lockless_reads else LockType.EXCLUSIVE)

    def merge_schema(self, table: Table) -> list[LockComponent]:
        """Return the lock of an INSERT that adds columns. The lock keeps other statements from changing the columns.

        Readers do not wait for the lock.
        """
        return [LockComponent(table.database, table.name, type=LockType.EXCL_WRITE, operation=_NONE)]

    def copy_into(self, table: StoredTable) -> list[LockComponent]:
        """Return the lock that only COPY INTO requests, so that two statements never load one file into a table.

        Other statements that read or write the table do not wait for the lock.
        """
        # A name that no table has: a lock on the table itself would stop its writers.
        name = f"hivex_copy_into_{table.id}"
        return [LockComponent(table.database, name, type=LockType.EXCL_WRITE, operation=_NONE, is_new_table=True)]

    def convert_table(self, table: Table) -> list[LockComponent]:
        """Return the locks of an ALTER TABLE that makes a table, managed or external, transactional."""
        return [LockComponent(table.database, table.name, type=LockType.EXCLUSIVE, operation=_NONE)]

    def set_properties(self, table: Table) -> list[LockComponent]:
        """Return the locks of ALTER TABLE SET or UNSET TBLPROPERTIES."""
        return self._change(table, None, LockType.SHARED_READ)

    def _is_locked(self, table: Table) -> bool:
        return self._external_locks or not table.is_external

    def _change(self, table: Table, partitions: Sequence[str] | None, type: LockType) -> list[LockComponent]:
        return self._on(table, partitions, type, _NONE) if self._is_locked(table) else []

    def _write(self, table: Table, partition: str | None, type: LockType, operation: DataOperation) -> LockComponent:
        return LockComponent(
            table.database,
            table.name,
            partition,
            type=type,
            operation=operation if table.is_transactional else _NONE,
            is_dynamic_partition_write=table.is_transactional and table.is_partitioned and partition is None,
        )

    def _on(
        self, table: Table, partitions: Sequence[str] | None, type: LockType, operation: DataOperation
    ) -> list[LockComponent]:
        if partitions is None or 0 <= self._most_partitions < len(partitions):
            return [LockComponent(table.database, table.name, type=type, operation=operation)]
        return [LockComponent(table.database, table.name, each, type=type, operation=operation) for each in partitions]
