"""Compactions: their types and states, requests, and entries of the queue or the history.

Source: docs/reference/compaction.md, "Queue and history" (Hive TxnStore, CompactionInfo, ShowCompactionsOperation).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from airflow_hivex.core.errors import InvalidObjectError, InvalidOperationError
from airflow_hivex.core.settings import ALLOW_CODE, Settings

DEFAULT_POOL = "default"
"""The name of the pool for compactions that name no pool."""
REFUSED_ID = -1
"""The id of a request that was refused."""
MANUALLY = "manual"
"""The value that replaces the name of the initiator's thread if a user has requested the compaction."""
JOB_QUEUE = "hive.compactor.job.queue"
JOB_PREFIX = "compactor."
TABLE_PROPERTY_PREFIX = "tblprops."


class CompactionType(enum.Enum):
    """The type of a compaction. Its value is the letter in the database."""

    MAJOR = "a"
    MINOR = "i"
    REBALANCE = "r"
    ABORT_CLEANUP = "c"

    @property
    def shown(self) -> str:
        """Return the word with which SHOW COMPACTIONS shows the type."""
        return self.name

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the type with the given name, in upper or lower case.

        Raises:
            InvalidObjectError: the text is not a type of compaction.
        """
        wanted = text.strip().upper().replace("-", "_").replace(" ", "_")
        if wanted not in cls.__members__:
            names = ", ".join(f"'{each.name.lower()}'" for each in cls)
            raise InvalidObjectError("compaction type", f"'{text}'", f"it is one of {names}")
        return cls[wanted]


REQUESTABLE = (CompactionType.MAJOR, CompactionType.MINOR, CompactionType.REBALANCE)
"""The types that users can request; only the cleaner makes a cleanup of aborted writes."""


class CompactionState(enum.Enum):
    """The state of a compaction. Its value is the letter in the database.

    An entry of the history with DID_NOT_INITIATE was never in the queue.
    """

    INITIATED = "i"
    WORKING = "w"
    READY_FOR_CLEANING = "r"
    SUCCEEDED = "s"
    FAILED = "f"
    DID_NOT_INITIATE = "a"
    REFUSED = "c"
    ABORTED = "x"

    @property
    def shown(self) -> str:
        """Return the words with which SHOW COMPACTIONS shows the state."""
        return self.name.lower().replace("_", " ")

    @property
    def is_over(self) -> bool:
        """Return whether the entry is in the history, and not in the queue."""
        return not NEXT[self]

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the state for a word of SHOW COMPACTIONS, in upper or lower case.

        Hive's older word "attempted" stands for DID_NOT_INITIATE.

        Raises:
            InvalidObjectError: ``text`` is not a valid state.
        """
        wanted = " ".join(text.lower().replace("_", " ").split())
        for each in cls:
            if each.shown == ("did not initiate" if wanted == "attempted" else wanted):
                return each
        names = ", ".join(f"'{each.shown}'" for each in cls)
        raise InvalidObjectError("compaction status", f"'{text}'", f"it is one of {names}")


_S = CompactionState
NEXT: Mapping[CompactionState, frozenset[CompactionState]] = {
    _S.INITIATED: frozenset({_S.WORKING, _S.ABORTED}),
    _S.WORKING: frozenset({_S.READY_FOR_CLEANING, _S.FAILED, _S.REFUSED, _S.INITIATED}),
    _S.READY_FOR_CLEANING: frozenset({_S.SUCCEEDED, _S.FAILED, _S.REFUSED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.DID_NOT_INITIATE: frozenset(),
    _S.REFUSED: frozenset(),
    _S.ABORTED: frozenset(),
}
"""A dict from state to the possible next states. An entry goes back to INITIATED when its worker is lost."""


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """A request to put a compaction of a table or partition into the queue.

    ``partition`` is the partition's name, or None. A ``pool`` of None is the default pool. ``buckets`` and ``order_by``
    are for rebalancing. ``high_watermark`` is the highest write id that the compaction would cover. If a compaction
    with the same high watermark waits for cleaning, the request does nothing.
    """

    table_id: int
    database: str
    table: str
    partition: str | None
    type: CompactionType
    properties: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None
    buckets: int | None = None
    order_by: str | None = None
    run_as: str | None = None
    high_watermark: int | None = None

    @property
    def name(self) -> str:
        """Return ``database.table`` or ``database.table partition``."""
        return resource_name(self.database, self.table, self.partition)


@dataclass(frozen=True, slots=True)
class CompactionResponse:
    """The response to a request: the id of the compaction. A refusal has :data:`REFUSED_ID` and a ``message``.

    If the request was refused because of an existing compaction, ``in_the_way`` is the id of this compaction. If the
    caller has waited for the compaction, ``state`` is its final state, and ``message`` is its error or None.
    """

    id: int
    state: CompactionState
    message: str | None = None
    in_the_way: int | None = None

    @property
    def is_accepted(self) -> bool:
        """Return whether the compaction is in the queue."""
        return self.id != REFUSED_ID


@dataclass(frozen=True, slots=True)
class Compaction:
    """An entry of the queue or of the history."""

    id: int
    table_id: int
    database: str
    table: str
    partition: str | None
    state: CompactionState
    type: CompactionType
    properties: Mapping[str, str]
    pool: str | None
    buckets: int | None
    order_by: str | None
    run_as: str | None
    initiator_id: str | None
    initiator_version: str | None
    enqueued_at: datetime
    worker_id: str | None
    worker_version: str | None
    started_at: datetime | None
    highest_write_id: int | None
    txn_id: int | None
    next_txn_id: int | None
    committed_at: datetime | None
    cleaner_started_at: datetime | None
    retry_retention_ms: int
    error_message: str | None
    job_id: str | None
    ended_at: datetime | None = None

    @property
    def name(self) -> str:
        """Return ``database.table`` or ``database.table partition``."""
        return resource_name(self.database, self.table, self.partition)


SHOW_COLUMNS = (
    "compactionid",
    "dbname",
    "tabname",
    "partname",
    "type",
    "state",
    "workerhost",
    "workerid",
    "enqueuetime",
    "starttime",
    "duration",
    "hadoopjobid",
    "errormessage",
    "initiatorhost",
    "initiatorid",
    "poolname",
    "txnid",
    "nexttxnid",
    "committime",
    "hightestwriteid",
)
"""The columns of SHOW COMPACTIONS, in Hive's spelling."""


def show_row(entry: Compaction) -> tuple[str | None, ...]:
    """Return a row of SHOW COMPACTIONS. All values are texts or NULL. Times are in milliseconds since the epoch."""
    worker_host, worker_thread = _host_and_thread(entry.worker_id)
    initiator_host, initiator_thread = _host_and_thread(entry.initiator_id)
    started, ended = to_milliseconds(entry.started_at), to_milliseconds(entry.ended_at)
    return (
        str(entry.id),
        entry.database,
        entry.table,
        entry.partition,
        entry.type.shown,
        entry.state.shown,
        worker_host,
        worker_thread,
        _text(to_milliseconds(entry.enqueued_at)),
        _text(started),
        None if started is None or ended is None else str(ended - started),
        entry.job_id,
        entry.error_message,
        initiator_host,
        initiator_thread,
        entry.pool or DEFAULT_POOL,
        _text(entry.txn_id),
        _text(entry.next_txn_id),
        _text(to_milliseconds(entry.committed_at)),
        _text(entry.highest_write_id),
    )


def to_milliseconds(time: datetime | None) -> int | None:
    """Return a time in milliseconds since the epoch, as the database stores it, or None if ``time`` is None."""
    return None if time is None else round(time.timestamp() * 1000)


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _host_and_thread(id: str | None) -> tuple[str | None, str | None]:
    """Return (host, thread) from a text ``host-thread``. The name of the host can have hyphens."""
    if id is None:
        return None, None
    host, _, thread = id.rpartition("-")
    return (host, thread) if host else (thread, None)


def resource_name(database: str, table: str, partition: str | None) -> str:
    """Return ``database.table`` or ``database.table partition``."""
    return f"{database}.{table} {partition}" if partition else f"{database}.{table}"


def pool_name(text: str | None) -> str | None:
    """Return the name of a pool as it is stored, or None if the text is empty or names the default pool."""
    name = (text or "").strip()
    return None if not name or name.lower() == DEFAULT_POOL else name


def job_properties(table: Mapping[str, str], request: Mapping[str, str]) -> dict[str, str]:
    """Return the ``compactor.`` properties of a compaction's job. Properties of the request override the table's."""
    return {
        name.removeprefix(JOB_PREFIX): value
        for properties in (table, request)
        for name, value in properties.items()
        if name.startswith(JOB_PREFIX)
    }


def table_properties(table: Mapping[str, str], request: Mapping[str, str]) -> dict[str, str]:
    """Return the table properties for a compaction's job.

    A property ``tblprops.X`` of the table or the request replaces the property ``X`` of the table.
    """
    own = {name: value for name, value in table.items() if not name.startswith(TABLE_PROPERTY_PREFIX)}
    return own | {
        name.removeprefix(TABLE_PROPERTY_PREFIX): value
        for properties in (table, request)
        for name, value in properties.items()
        if name.startswith(TABLE_PROPERTY_PREFIX)
    }


def job_queue(table: Mapping[str, str], request: Mapping[str, str], default: str) -> str:
    """Return the queue of a compaction's job: that of the request, else that of the table, else ``default``."""
    return job_properties(table, request).get(JOB_QUEUE) or default


# These options set resources, and cannot name a class, a file or a command.
_SAFE = re.compile(
    r"spark\.(?:"
    r"(?:driver|executor)\.(?:memory|memoryOverhead|memoryOverheadFactor|cores)|executor\.(?:instances|pyspark\.memory)|"
    r"cores\.max|default\.parallelism|task\.(?:cpus|maxFailures)|memory\.[\w.]+|speculation[\w.]*|"
    r"dynamicAllocation\.(?:enabled|minExecutors|maxExecutors|initialExecutors)|"
    r"yarn\.queue|scheduler\.pool|network\.timeout|reducer\.maxSizeInFlight|"
    r"sql\.(?:shuffle\.partitions|files\.maxPartitionBytes|files\.openCostInBytes|autoBroadcastJoinThreshold|"
    r"adaptive\.(?:enabled|coalescePartitions\.[\w.]+|skewJoin\.[\w.]+|advisoryPartitionSizeInBytes))"
    r")"
)


def check_spark_options(settings: Settings, table: str, properties: Mapping[str, str]) -> None:
    """Refuse ``compactor.spark.*`` properties by which a user could make Spark run arbitrary code.

    Only options that set resources are allowed. For example, ``compactor.spark.driver.extraJavaOptions`` is refused.

    Raises:
        InvalidOperationError: a property is refused, and ``hivex.allow.code.execution`` is off.
    """
    prefix = f"{JOB_PREFIX}spark."
    unsafe = [
        name for name in properties if name.startswith(prefix) and not _SAFE.fullmatch(name.removeprefix(JOB_PREFIX))
    ]
    if unsafe and not settings[ALLOW_CODE]:
        raise InvalidOperationError(
            f"Property {', '.join(sorted(unsafe))}",
            table,
            f"it could run any code on the cluster; set options of Spark in hive.cluster.properties, or let an "
            f"administrator allow it by the setting {ALLOW_CODE}",
        )
