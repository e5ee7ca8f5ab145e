"""The rules of the cleaner: which files it is allowed to delete, and its report.

Source: docs/reference/compaction.md, "Cleaner" (Hive Cleaner, CompactionCleaner, AbortedTxnCleaner).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from airflow_hivex.core.errors import NotEnoughHistoryError
from airflow_hivex.core.model.directories import (
    AcidDirectory,
    DirectoryKind,
    DirectoryState,
    directory_state,
    parse_directory,
)
from airflow_hivex.core.model.versions import is_beyond
from airflow_hivex.core.model.write_ids import ValidCleanerWriteIdList, ValidTxnList, ValidWriteIdList

NO_CLEANUP = "no_cleanup"
_STAGING = re.compile(r"_staging_(?:v([0-9]+)|([0-9]+)_[0-9]+)")


class CleaningOutcome(enum.Enum):
    """The outcome of cleaning after one compaction, or after the aborted transactions of one table or partition."""

    CLEANED = "cleaned"
    WAITING = "waiting"
    PAUSED = "paused"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Deletion:
    """A directory or file to delete: its cluster, its URI, and the reason, ``obsolete`` or ``aborted``."""

    cluster: str
    uri: str
    why: str


@dataclass(frozen=True, slots=True)
class Blocker:
    """An open transaction that possibly reads obsolete directories; ``agent_info`` names its DAG run and task.

    If directories are kept for a reason other than a transaction, ``txn_id`` is 0, and ``agent_info`` is the reason.
    """

    txn_id: int
    user: str
    host: str
    agent_info: str | None
    started_at: datetime

    def __str__(self) -> str:
        if not self.txn_id:
            return self.agent_info or ""
        of = f" ({self.agent_info})" if self.agent_info else ""
        user = self.user or "an unknown user"
        return f"transaction {self.txn_id} of {user} on {self.host}{of}, open since {self.started_at}"


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """The cleaning after one compaction or, if ``compaction_id`` is None, after aborted transactions.

    ``deleted`` are the deleted directories. ``waiting`` are the names of the obsolete directories that the transactions
    ``blockers`` possibly read. ``message`` is a remark, such as the reason why the task is paused, refused or failed.
    """

    compaction_id: int | None
    database: str
    table: str
    partition: str | None
    outcome: CleaningOutcome
    deleted: tuple[Deletion, ...] = ()
    waiting: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The limits of what a reader of a table sees: valid transactions, and write ids up to ``highest``.

    If the reader reads an old version of the table, ``later`` are the sorted write ids that were committed after this
    version. If the columns have changed after this version, ``columns_txn_id`` is the first transaction that has
    changed them.
    """

    valid_txns: ValidTxnList
    write_ids: ValidWriteIdList
    highest: int
    later: tuple[int, ...] = ()
    columns_txn_id: int | None = None


def obsolete(names: Iterable[str], view: View) -> frozenset[str]:
    """Return the directories of a table or partition that readers with this view, or a more recent one, do not read.

    A directory is obsolete only if the view sees the directories that replace it.
    """
    state = _state(names, view)
    return frozenset() if state is None else frozenset(state.obsolete)


def replacing(names: Iterable[str], view: View, gone: Collection[str]) -> frozenset[str]:
    """Return the directories that replace the obsolete directories ``gone`` for readers with the view.

    These are the base, and each delta whose range of write ids includes the range of an obsolete directory.
    """
    state = _state(names, view)
    if state is None or not gone:
        return frozenset()
    spans = [(each.min_write_id, each.max_write_id) for name in gone if (each := parse_directory(name)) is not None]
    deltas = [each for name in state.deltas if (each := parse_directory(name)) is not None]
    found = {
        each.name for each in deltas if any(each.min_write_id <= lo and hi <= each.max_write_id for lo, hi in spans)
    }
    return frozenset(found if state.base is None else {*found, state.base})


def _state(names: Iterable[str], view: View) -> DirectoryState | None:
    seen = [name for name in names if not _is_base_above(name, view.highest) and not _is_of_later(name, view)]
    write_ids = ValidCleanerWriteIdList.from_snapshot(view.write_ids, view.highest)
    try:
        return directory_state(seen, write_ids, view.valid_txns)
    except NotEnoughHistoryError:
        return None


def _is_base_above(name: str, highest: int) -> bool:
    found = parse_directory(name)
    return found is not None and found.kind is DirectoryKind.BASE and found.max_write_id > highest


def _is_of_later(name: str, view: View) -> bool:
    found = parse_directory(name)
    return bool(view.later) and found is not None and is_beyond(found, view.later, view.columns_txn_id)


def capped(valid_txns: ValidTxnList, highest: int) -> ValidTxnList:
    """Return the transaction list without the transactions above the id ``highest``."""
    if highest >= valid_txns.high_watermark:
        return valid_txns
    return ValidTxnList.of(
        highest,
        [txn_id for txn_id in valid_txns.open_ids if txn_id <= highest],
        [txn_id for txn_id in valid_txns.aborted_ids if txn_id <= highest],
    )


def settled_below(write_ids: ValidWriteIdList) -> int:
    """Return the highest write id up to which all write ids of a snapshot are committed or aborted."""
    return (
        write_ids.high_watermark
        if write_ids.min_open is None
        else min(write_ids.high_watermark, write_ids.min_open - 1)
    )


@dataclass(frozen=True, slots=True)
class Aborted:
    """The aborted writes to one table or partition: their transactions and write ids.

    ``compactions`` are the transactions of aborted compactions.
    """

    txn_ids: frozenset[int]
    write_ids: frozenset[int]
    compactions: frozenset[int]

    def leftover(self, name: str) -> AcidDirectory | None:
        """Return the parsed name of a directory if an aborted transaction has written to it, otherwise None."""
        found = parse_directory(name)
        if found is None:
            return None
        if found.visibility_txn_id:
            return found if found.visibility_txn_id in self.compactions else None
        if found.kind is DirectoryKind.BASE:
            return found if found.max_write_id in self.write_ids else None
        return found if self.of_batch(found) else None

    def of_batch(self, directory: AcidDirectory) -> list[int]:
        """Return the aborted write ids of a delta. The delta of a streaming batch can have several."""
        return sorted(each for each in self.write_ids if directory.min_write_id <= each <= directory.max_write_id)

    def is_staging(self, name: str) -> bool:
        """Return whether the name is that of a staging directory of an aborted write or compaction."""
        found = staging_ids(name)
        return found is not None and (found[0] in self.write_ids or found[1] in self.compactions)


def staging_ids(name: str) -> tuple[int | None, int | None] | None:
    """Return (write id, transaction of a compaction) from the name of a staging directory, or None for any other name.

    One value of the pair is None, because the name has only one of the two ids.
    """
    found = _STAGING.fullmatch(name)
    if found is None:
        return None
    txn_id, write_id = found.groups()
    return (None, int(txn_id)) if write_id is None else (int(write_id), None)


def is_settled(directory: AcidDirectory, write_ids: ValidWriteIdList) -> bool:
    """Return whether all write ids of a directory are committed or aborted, so that no transaction writes to it."""
    lo, hi = directory.min_write_id, directory.max_write_id
    return hi <= write_ids.high_watermark and not any(lo <= each <= hi for each in write_ids.open_ids)


def is_without_owner(name: str, write_ids: ValidWriteIdList, valid_txns: ValidTxnList) -> bool:
    """Return whether the transaction that has written an unregistered directory has ended.

    If so, the directory will never be registered, because only the commit of the transaction registers it.
    """
    staging = staging_ids(name)
    if staging is not None:
        write_id, txn_id = staging
        return _has_ended(write_id, write_ids) if txn_id is None else _has_ended(txn_id, valid_txns)
    directory = parse_directory(name)
    if directory is None or directory.max_write_id < 0:
        return False
    if directory.visibility_txn_id:
        return _has_ended(directory.visibility_txn_id, valid_txns)
    if directory.kind is DirectoryKind.BASE:
        return _has_ended(directory.max_write_id, write_ids)
    return is_settled(directory, write_ids)


def _has_ended(id: int | None, ids: ValidWriteIdList | ValidTxnList) -> bool:
    return id is not None and id <= ids.high_watermark and id not in ids.open_ids


def forbids_cleanup(*properties: Collection[tuple[str, str]]) -> bool:
    """Return whether the properties of a table or partition forbid the deletion of directories."""
    return any(name.lower() == NO_CLEANUP and value.lower() == "true" for each in properties for name, value in each)
