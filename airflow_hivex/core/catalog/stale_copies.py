"""Binding a table reference as of an earlier moment, on a cluster whose copies lag. Pure.

Directories of transactions that the moment does not see are left out. So is a compaction's result that the cluster
lacks, as long as the directories before it are registered: they have the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.history import TableHistory
from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import Moment, Snapshot
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList, ValidWriteIdList


class NotReadableError(Exception):
    """A table cannot be read as of a moment on a cluster; the message is the reason."""


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """A table as of a moment; ``write_id`` is the highest that it sees.

    ``unseen`` has the commits to the needed partitions that the moment does not see: the time of each transaction.
    """

    bound: BoundTable
    write_id: int = 0
    unseen: Mapping[int, int] | None = None


def bind_earlier(
    table: StoredTable,
    contents: TableContents,
    predicate: Predicate | None,
    history: TableHistory,
    moment: Moment,
    cluster: str,
) -> EarlierTable:
    """Return the table as of a moment, with all its needed directories on ``cluster``.

    A table without transactions has no moments; its copy is read as it is.

    Raises:
        NotReadableError: the history does not go back so far, or the cluster lacks directories.
    """
    name, is_primary = table.full_name, cluster == table.storage.primary.cluster
    there = {each: places for each, places in contents.locations.items() if each == cluster}
    contents = replace(contents, locations=there)
    if not table.is_transactional:
        seen = Snapshot(moment.valid_txns, {(table.database, table.name): table}, {})
        bound = bind_table(table, contents, predicate, seen, {cluster})
        _check_held(bound, cluster, is_primary=is_primary)
        return EarlierTable(bound)
    if history.created_ms > moment.taken_ms:
        raise NotReadableError(f"{name} was created after it")
    if history.changed_by is not None and not moment.has_settled(history.changed_by):
        raise NotReadableError(f"a partition of {name} was dropped or renamed, or its history was cut, after it")
    held = None if is_primary else contents.held.get(cluster, frozenset())
    wanted = [each.id for each in contents.partitions] if table.is_partitioned else [None]
    kept: dict[int | None, Sequence[RegisteredDirectory]] = {}
    unseen: dict[int, int] = {}
    for partition_id in wanted:
        registered = contents.directories.get(partition_id, ())
        floor = history.floors.get(partition_id, 0)
        kept[partition_id] = [each for each in registered if _is_read(each, name, history, moment, held, floor)]
        for each in registered:
            writer = history.writers.get(each.id)
            if writer is not None and not _is_compacted(each) and not moment.valid_txns.is_valid(writer):
                time_ms = history.registered_ms.get(each.id, moment.taken_ms)
                unseen[writer] = min(time_ms, unseen.get(writer, time_ms))
    filtered = replace(
        contents,
        partitions=[each for each in contents.partitions if kept[each.id]],
        directories=kept,
    )
    write_id = max((_max_write_id(each) for found in kept.values() for each in found), default=0)
    everything = Snapshot(
        ValidTxnList(MAX_ID), {(table.database, table.name): table}, {table.id: ValidWriteIdList(MAX_ID)}
    )
    bound = bind_table(table, filtered, predicate, everything, {cluster})
    if not bound.registered_directories:
        # A table without partitions that had no rows then needs no copy.
        location = table.storage.primary.location
        copies = {cluster: {each.name: location for each in bound.partitions}}
        bound = replace(bound, copies={} if is_primary else copies)
    _check_held(bound, cluster, is_primary=is_primary)
    return EarlierTable(replace(bound, write_ids=ValidWriteIdList(write_id)), write_id, unseen)


def _is_read(
    directory: RegisteredDirectory,
    name: str,
    history: TableHistory,
    moment: Moment,
    held: frozenset[int] | None,
    floor: int,
) -> bool:
    """Return whether a moment may read a directory.

    Raises:
        NotReadableError: what the moment would read instead of it is gone.
    """
    writer = history.writers.get(directory.id)
    is_seen = writer is not None and moment.valid_txns.is_valid(writer)
    if is_seen:
        is_needless = held is not None and directory.id not in held and _max_write_id(directory) > floor
        return not (_is_compacted(directory) and is_needless)
    if directory.is_growing:
        raise NotReadableError(f"streaming writers have added to {directory.name} of {name} after it")
    if _replaces(directory) and _max_write_id(directory) <= floor:
        raise NotReadableError(f"{directory.name} of {name} has replaced directories that were read then")
    return False


def _check_held(bound: BoundTable, cluster: str, *, is_primary: bool) -> None:
    if is_primary:
        return
    there = bound.copies.get(cluster, {})
    lacking = [each.name for each in bound.partitions if each.name not in there]
    if lacking:
        named = ", ".join(each for each in lacking[:3] if each is not None)
        of = f"partition {named} of {bound.table.full_name}" if named else bound.table.full_name
        more = f" and {len(lacking) - 3} more partitions" if len(lacking) > 3 else ""
        raise NotReadableError(f"cluster {cluster} lacks directories of {of}{more}")


def _is_compacted(directory: RegisteredDirectory) -> bool:
    found = parse_directory(directory.name)
    return found is not None and found.visibility_txn_id > 0


def _replaces(directory: RegisteredDirectory) -> bool:
    found = parse_directory(directory.name)
    return found is not None and (found.visibility_txn_id > 0 or found.kind is DirectoryKind.BASE)


def _max_write_id(directory: RegisteredDirectory) -> int:
    found = parse_directory(directory.name)
    return 0 if found is None else found.max_write_id
