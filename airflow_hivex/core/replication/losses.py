"""The losses of a forced change of the primary cluster: which directories remain, and which are lost. Pure.

A write is kept or lost as a whole, in all partitions of which the cluster has a copy. Two cases are exceptions, since
keeping the rest is worth more: partitions of which the cluster has no copy, and writes whose rows a compaction has
merged with others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_hivex.core.catalog.bound_tables import bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.model.directories import AcidDirectory, parse_directory
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.replication import LostDirectory, LostReason
from airflow_hivex.core.model.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Remainder:
    """The directories that a cluster can serve, by partition id (None: a table without), and the losses.

    ``withdrawn`` are ids of directories that the cluster has, and that must not be read.
    """

    kept: Mapping[int | None, Sequence[RegisteredDirectory]]
    lost: tuple[LostDirectory, ...]
    withdrawn: frozenset[int]


def remainder(
    table: StoredTable,
    contents: TableContents,
    snapshot: Snapshot,
    available: Collection[int],
    copied: Collection[int | None],
    floors: Mapping[int | None, int],
) -> Remainder:
    """Return the remainder of a table whose primary cluster is lost.

    Args:
        table: the table.
        contents: all of its partitions and directories.
        snapshot: the current snapshot.
        available: the ids of the directories that the new primary has or can get.
        copied: the partitions of which it has a copy.
        floors: for each partition, up to which write id directories were removed after others had replaced them.
    """
    names: dict[int | None, str | None] = {None: None}
    if table.is_partitioned:
        names = {each.id: each.name for each in contents.partitions}
    if not table.is_transactional:
        lost = [LostDirectory(names[id_], "", LostReason.NO_COPY) for id_ in names if id_ not in copied]
        return Remainder({}, tuple(lost), frozenset())
    kept: dict[int | None, list[RegisteredDirectory]] = {}
    losses: list[LostDirectory] = []
    spread: set[int] = set()
    for id_, name in names.items():
        registered = contents.directories.get(id_, ())
        candidates = [each for each in registered if each.id in available or _counts(each, floors.get(id_, 0))]
        while lacking := [
            each for each in _read(table, contents, snapshot, id_, candidates) if each.id not in available
        ]:
            candidates = [each for each in candidates if each not in lacking]
            reason = LostReason.LOST if id_ in copied else LostReason.NO_COPY
            losses += [_loss(name, each, reason) for each in lacking]
            if id_ in copied:
                spread |= _writes(lacking)
        kept[id_] = [each for each in candidates if each.id in available]
    withdrawn: set[int] = set()
    for id_, name in names.items():
        for each in _written_by(kept[id_], spread):
            found = parse_directory(each.name)
            if found is not None and _is_merged(found):
                losses.append(_loss(name, each, LostReason.KEPT_IN_PART))
            else:
                losses.append(_loss(name, each, LostReason.WITHDRAWN))
                withdrawn.add(each.id)
        kept[id_] = [each for each in kept[id_] if each.id not in withdrawn]
    return Remainder(kept, tuple(losses), frozenset(withdrawn))


def _writes(lost: Iterable[RegisteredDirectory]) -> set[int]:
    """Return the write ids of directories that each have one."""
    found = (parse_directory(each.name) for each in lost)
    return {each.max_write_id for each in found if each is not None and not _is_merged(each)}


def _written_by(directories: Iterable[RegisteredDirectory], write_ids: Collection[int]) -> list[RegisteredDirectory]:
    """Return the directories that have rows of one of the write ids."""
    written = []
    for each in directories:
        found = parse_directory(each.name)
        if found is not None:
            first, last = _write_ids(found)
            if any(first <= write_id <= last for write_id in write_ids):
                written.append(each)
    return written


def _read(
    table: StoredTable,
    contents: TableContents,
    snapshot: Snapshot,
    partition_id: int | None,
    candidates: Iterable[RegisteredDirectory],
) -> tuple[RegisteredDirectory, ...]:
    """Return the directories of a partition that the current snapshot would read if only ``candidates`` existed."""
    partitions = [each for each in contents.partitions if each.id == partition_id]
    directories = {partition_id: list(candidates)}
    alone = replace(contents, partitions=partitions, directories=directories, locations={}, held={})
    return bind_table(table, alone, None, snapshot, ()).registered_directories


def _counts(directory: RegisteredDirectory, floor: int) -> bool:
    """Return whether a directory that is not available has rows that no other directory has.

    The directories that a compaction has merged are still registered unless some were removed since.
    """
    found = parse_directory(directory.name)
    return found is None or not found.visibility_txn_id or found.max_write_id <= floor


def _is_merged(found: AcidDirectory) -> bool:
    return found.visibility_txn_id > 0 or found.is_batch


def _write_ids(found: AcidDirectory) -> tuple[int, int]:
    """Return the first and the last write id of a directory."""
    # An INSERT OVERWRITE has one write id, and its base begins at 0; a compacted base has all up to its own.
    if found.min_write_id == 0 and not found.visibility_txn_id:
        return found.max_write_id, found.max_write_id
    return max(1, found.min_write_id), found.max_write_id


def _loss(partition: str | None, directory: RegisteredDirectory, reason: LostReason) -> LostDirectory:
    found = parse_directory(directory.name)
    ids = None if found is None else _write_ids(found)
    return LostDirectory(partition, directory.name, reason, ids, directory.rows, directory.size_bytes)
