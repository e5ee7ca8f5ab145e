"""Writes of statements: their ids, batches of applications, and operations of the servers that run the jobs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from airflow_hivex.core.errors import InvalidParametersError
from airflow_hivex.core.model.directories import base_name, delete_delta_name, delta_name
from airflow_hivex.core.model.plans import WrittenDirectory
from airflow_hivex.core.model.transactions import Operation


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One statement's write to a table: its ids, its cluster, and its operation on existing rows.

    ``partition`` is the partition that the statement names. It is None if the table has no partitions, or if the values
    of each row decide the partition. ``operation`` is INSERT, or UPDATE or DELETE for a statement that changes rows. An
    INSERT OVERWRITE counts as UPDATE. ``batch`` is the first and the last write id of a streaming batch, whose
    transactions share a delta. ``statement`` is the kind of the statement. If ``counts_inserts`` is true, the inserted
    rows of a MERGE count as changed rows (hive.txn.xlock.mergeinsert). ``token`` is a unique text in the names of the
    files. It is empty unless the table is external.
    """

    txn_id: int
    write_id: int
    cluster: str
    statement_id: int = 0
    overwrite: bool = False
    partition: str | None = None
    operation: Operation = Operation.INSERT
    batch: tuple[int, int] | None = None
    statement: str = ""
    counts_inserts: bool = False
    token: str = ""

    @property
    def directory_names(self) -> tuple[str, ...]:
        """Return the possible names of the write's directories in each partition.

        The write must not be of a streaming batch.
        """
        ids = self.write_id, self.write_id, self.statement_id
        if self.overwrite:
            return (base_name(self.write_id),)
        if self.operation is Operation.INSERT:
            return (delta_name(*ids),)
        return delta_name(*ids), delete_delta_name(*ids)

    @property
    def staging_name(self) -> str:
        """Return the name of the staging directory of the write, in the table's folder."""
        return f"_hivex_{self.token}" if self.token else f"_staging_{self.write_id}_{self.statement_id}"

    def partitions(self, written: Collection[WrittenDirectory]) -> frozenset[str | None]:
        """Return the partitions of the written directories, and also the partition that the statement names.

        None stands for a table without partitions.
        """
        named = () if self.partition is None else (self.partition,)
        return frozenset(named) | {each.partition for each in written}

    def operations(self, written: Collection[WrittenDirectory]) -> frozenset[tuple[str | None, Operation]]:
        """Return a (partition, operation) pair for each written directory.

        The operation of a delete delta is that of this write. The operation of a delta or base is INSERT, or that of
        this write if ``overwrite`` or ``counts_inserts`` is true.
        """
        changes_all = self.overwrite or self.counts_inserts
        return frozenset(
            (each.partition, self.operation if changes_all or each.is_delete_delta else Operation.INSERT)
            for each in written
        )


_LONGEST = 128
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class BatchKey:
    """The key of a batch: the id of an application, and the id of a batch that it writes.

    Each batch is written to a table only once. An application must write its batches in the order of their ids.

    Raises:
        InvalidParametersError: the application's id is not a text of 1 to 128 printable characters, or the batch's id
            is not a whole number of 0 or more.
    """

    app_id: str
    batch_id: int

    def __str__(self) -> str:
        return f"batch {self.batch_id} of {self.app_id}"

    def __post_init__(self) -> None:
        if not isinstance(self.app_id, str) or not 1 <= len(self.app_id) <= _LONGEST or not self.app_id.isprintable():
            raise InvalidParametersError(f"app_id must be a text of 1 to {_LONGEST} printable characters.")
        if isinstance(self.batch_id, bool) or not isinstance(self.batch_id, int) or not 0 <= self.batch_id <= _LARGEST:
            raise InvalidParametersError(f"batch_id is {self.batch_id!r}; it must be a whole number of 0 or more.")


def batch_key(app_id: str | None, batch_id: int | None) -> BatchKey | None:
    """Return the key with the two ids, or None if neither id is given.

    Raises:
        InvalidParametersError: only one id is given, or an id is not valid.
    """
    if app_id is None and batch_id is None:
        return None
    if app_id is None or batch_id is None:
        raise InvalidParametersError("app_id and batch_id belong together; give both of them, or neither.")
    return BatchKey(app_id, batch_id)


@dataclass(frozen=True, slots=True)
class ServerOperation:
    """The ids of an operation of a Spark Connect server, of its session, and of the session's user."""

    session_id: str
    user_id: str
    operation_id: str


class ResumableWrite(Protocol):
    """The write of a statement whose job runs on a Spark Connect server, and continues if this process ends.

    Another process can continue the write until its files are moved into place.
    """

    @property
    def is_running(self) -> bool:
        """Return whether another process could continue the write, because its files are not in place yet."""

    @property
    def earlier(self) -> ServerOperation | None:
        """Return the operation that a previous process has begun for this write, or None."""

    def note(self, operation: ServerOperation) -> None:
        """Record the operation that runs for the write. It is safe to repeat the call.

        Raises:
            WriteTakenBackError: the write belongs to another process now.
        """

    def claim(self) -> None:
        """Record that this process moves the written files into place, so that no other process can do it.

        Raises:
            WriteTakenBackError: the write belongs to another process now.
        """
