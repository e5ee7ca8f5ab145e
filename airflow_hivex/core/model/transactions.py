"""States and types of transactions. Source: docs/reference/transactions.md, "States and types"."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

MAX_STATEMENT_ID = 4095
"""The highest statement id. Statement ids have twelve bits in the bucket property."""


class TxnState(enum.Enum):
    """The states of transactions, with their stored letters. COMMITTED and ABORTED are final."""

    OPEN = "o"
    ABORTED = "a"
    COMMITTED = "c"


class TxnType(enum.Enum):
    """The types of transactions, with their stored numbers."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


class Operation(enum.Enum):
    """The operations of a transaction on a table or partition, with their stored letters."""

    SELECT = "s"
    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
    COMPACT = "c"


class AbortReason(enum.Enum):
    """The reason of an abort: the reasons of Hive's TxnErrorMsg, and deadlocks."""

    NONE = (50000, "none")
    ABORT_QUERY = (50001, "aborted by ABORT TRANSACTIONS")
    CONCURRENT_COMMIT = (50002, "a concurrent transaction has committed")
    WRITE_CONFLICT = (50003, "write conflict")
    TIMEOUT = (50004, "its heartbeat timed out")
    ROLLBACK = (50005, "rollback")
    COMPACTION = (50006, "the compaction failed")
    MSCK = (50007, "the repair of partitions failed")
    MIGRATION = (50008, "the migration of managed tables failed")
    DEADLOCK = (59001, "deadlock")

    def __init__(self, number: int, words: str) -> None:
        self.number = number
        self.words = words


@dataclass(frozen=True, slots=True)
class HeartbeatRange:
    """The result of a heartbeat for a range of transactions.

    ``no_such`` are the ids that are unknown or committed. ``aborted`` are the ids that are aborted.
    """

    no_such: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Transaction:
    """The record of a transaction."""

    id: int
    state: TxnState
    type: TxnType
    started_at: datetime
    heartbeat_at: datetime
    timeout_s: int
    user: str
    host: str
    agent_info: str | None = None
    reason: str | None = None
    reason_code: int | None = None
