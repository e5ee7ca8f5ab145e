"""The history of a table: its commits, its versions, and the moments that were copied to other clusters.

A moment is the snapshot of a replication. A table is read as of a moment from the directories whose transactions the
moment sees. The rows as of a moment are complete unless directories were removed from the catalog after the moment.
Each removal stores a bound, from which a reader finds out whether the rows as of a moment are complete:

- The cleaner removes replaced directories. ``history_write_id`` is the highest write id of the directories that have
  replaced them. This bound is stored in the partition, or in the table if the table has no partitions. A moment must
  see all bases and results of compactions up to this id.
- A partition is dropped or renamed, a table becomes transactional, or writes are lost with a cluster.
  ``history_txn_id`` of the table is the transaction of the last such change. A moment must see this transaction.

Functions with a ``connection`` take part in the caller's database transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import Connection, and_, func, select, update

from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.rows import columns_from_json
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.errors import VersionExpiredError
from airflow_hivex.core.model.directories import DirectoryKind, parse_directory
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import Moment, Snapshot
from airflow_hivex.core.model.versions import RecordedVersion, TableVersion, is_beyond
from airflow_hivex.core.model.write_ids import MAX_ID, ValidTxnList, ValidWriteIdList
from airflow_hivex.core.store.exchange import later
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    copied_moments,
    counters,
    directories,
    directory_copies,
    partitions,
    table_commits,
    tables,
)
from airflow_hivex.core.transactions import commit_record


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The facts for reads as of a moment: the writers of a table's directories, its bounds, and its copied moments.

    ``changed_by`` is the table's ``history_txn_id``. ``writers`` is a dict from directory id to transaction id.
    ``registered_ms`` is a dict from directory id to the time of its first registration. ``floors`` is a dict from
    partition id (None: a table without partitions) to ``history_write_id``. ``moments`` is a dict from cluster to the
    moments of the table's copies, the newest first.
    """

    created_ms: int
    changed_by: int | None = None
    writers: Mapping[int, int] = field(default_factory=dict)
    registered_ms: Mapping[int, int] = field(default_factory=dict)
    floors: Mapping[int | None, int] = field(default_factory=dict)
    moments: Mapping[str, Sequence[Moment]] = field(default_factory=dict)


def read_history(connection: Connection, table: StoredTable, clusters: Collection[str]) -> TableHistory:
    """Return the history of a table. Four round trips."""
    t, d, held = tables.c, directories.c, directory_copies.c
    row = connection.execute(
        select(t.created_ms, t.history_txn_id, t.history_write_id).where(t.id == table.id)
    ).one_or_none()
    if row is None:
        return TableHistory(0)
    floors = _floors(connection, table.id, row.history_write_id)
    found = connection.execute(
        select(d.id, d.txn_id, func.min(held.registered_ms).label("registered_ms"))
        .select_from(directories.outerjoin(directory_copies, held.directory_id == d.id))
        .where(d.table_id == table.id)
        .group_by(d.id, d.txn_id)
    ).all()
    return TableHistory(
        row.created_ms,
        row.history_txn_id,
        {each.id: each.txn_id for each in found},
        {each.id: each.registered_ms for each in found if each.registered_ms is not None},
        floors,
        _read_moments(connection, table, clusters),
    )


def _read_moments(
    connection: Connection, table: StoredTable, clusters: Collection[str]
) -> dict[str, tuple[Moment, ...]]:
    c, m = cluster_storage_descriptors.c, copied_moments.c
    rows = connection.execute(
        select(c.cluster, m.id, m.taken_ms, m.valid_txns)
        .join(copied_moments, m.id == c.moment_id)
        .where(c.table_id == table.id, c.cluster.in_(sorted(clusters)))
        .distinct()
        .order_by(m.id.desc())
    ).all()
    found: dict[str, tuple[Moment, ...]] = {}
    for row in rows:
        moment = Moment(row.taken_ms, ValidTxnList.parse(row.valid_txns), row.id)
        found[row.cluster] = (*found.get(row.cluster, ()), moment)
    return found


def begin_with(connection: Connection, table_id: int, txn_id: int | None, now_ms: int) -> None:
    """Record that the moments and versions from before a change of the table cannot be read any more.

    ``txn_id`` is the transaction of the change, or None for a change without a transaction.
    """
    last = select(counters.c.value + 1).where(counters.c.name == "txn").scalar_subquery()
    first = last if txn_id is None else txn_id
    later(connection, update(tables).where(tables.c.id == table_id).values(history_txn_id=first))
    commit_record.record_break(connection, table_id, now_ms)


def raise_floor(connection: Connection, table_id: int, partition_id: int | None, write_id: int) -> None:
    """Record that replaced directories are removed; ``write_id`` is the highest write id of their replacements."""
    if partition_id is not None:
        p = partitions.c
        is_lower = func.coalesce(p.history_write_id, 0) < write_id
        of_partition = update(partitions).where(p.id == partition_id, is_lower)
        later(connection, of_partition.values(history_write_id=write_id))
        return
    t = tables.c
    is_lower = func.coalesce(t.history_write_id, 0) < write_id
    later(connection, update(tables).where(t.id == table_id, is_lower).values(history_write_id=write_id))


_C = table_commits.c
_CREATES = "CREATE "


@dataclass(frozen=True, slots=True)
class RecordedCommit:
    """A commit to a table, as DESCRIBE HISTORY shows it. The creation of an empty table has no transaction.

    ``rows_added`` and ``rows_deleted`` both count an updated row. Rows that an INSERT OVERWRITE replaces do not count
    as deleted.
    """

    write_id: int
    txn_id: int | None
    committed_at: datetime
    user: str
    agent_info: str | None
    operation: str
    rows_added: int
    rows_deleted: int
    size_bytes: int


def read_commits(connection: Connection, table_id: int, limit: int | None = None) -> list[RecordedCommit]:
    """Return the recorded commits of a table, the newest first. One round trip.

    CREATE TABLE AS has two records: the creation, which has no transaction, and the commit of the rows. Only the second
    is returned.
    """
    newer = table_commits.alias("newer").c
    is_repeated = and_(
        _C.txn_id.is_(None),
        select(newer.id)
        .where(newer.table_id == table_id, newer.txn_id.is_not(None), newer.operation.startswith(_CREATES))
        .exists(),
    )
    query = select(table_commits).where(_C.table_id == table_id, _C.write_id.is_not(None), ~is_repeated)
    return [
        RecordedCommit(
            row.write_id,
            row.txn_id,
            to_datetime(row.committed_ms),
            row.user,
            row.agent_info,
            row.operation,
            row.rows_added,
            row.rows_deleted,
            row.size_bytes,
        )
        for row in connection.execute(query.order_by(_C.id.desc()).limit(limit))
    ]


def read_record(connection: Connection, table_id: int) -> list[RecordedVersion]:
    """Return the recorded versions of a table, oldest first. One round trip."""
    columns = (_C.id, _C.write_id, _C.txn_id, _C.committed_ms, _C.columns_before)
    return [
        RecordedVersion(
            row.id,
            row.write_id,
            row.txn_id,
            row.committed_ms,
            None if row.columns_before is None else columns_from_json(json.loads(row.columns_before)),
        )
        for row in connection.execute(select(*columns).where(_C.table_id == table_id).order_by(_C.id))
    ]


def read_floors(connection: Connection, table_id: int) -> dict[int | None, int]:
    """Return a dict from partition id to the highest write id of directories that have replaced removed directories.

    This write id is ``history_write_id``. The id None stands for a table without partitions. Two round trips.
    """
    t = tables.c
    of_table = connection.execute(select(t.history_write_id).where(t.id == table_id)).scalar_one_or_none()
    return _floors(connection, table_id, of_table)


def _floors(connection: Connection, table_id: int, of_table: int | None) -> dict[int | None, int]:
    p = partitions.c
    of_partitions = select(p.id, p.history_write_id).where(p.table_id == table_id, p.history_write_id.is_not(None))
    floors: dict[int | None, int] = {} if of_table is None else {None: of_table}
    floors.update({row.id: row.history_write_id for row in connection.execute(of_partitions)})
    return floors


def bind_version(
    table: StoredTable,
    contents: TableContents,
    predicate: Predicate | None,
    snapshot: Snapshot,
    clusters: Collection[str],
    version: TableVersion,
    floors: Mapping[int | None, int],
) -> BoundTable:
    """Return the table as of a version, with the columns of this version, and with the copies on ``clusters``.

    The function reads no database. A version is read from directories without rows of later commits. If a compaction
    has merged rows of later commits into its result, the merged directories are read in place of the result. The
    cleaner keeps merged directories until no version within the retention needs them.

    Raises:
        VersionExpiredError: the cleaner has removed directories of the version.
    """
    wanted = [each.id for each in contents.partitions] if table.is_partitioned else [None]
    kept = {
        partition_id: _of_version(
            table, contents.directories.get(partition_id, ()), version, floors.get(partition_id, 0)
        )
        for partition_id in wanted
    }
    if version.columns is not None:
        table = replace(table, storage=replace(table.storage, columns=version.columns))
    write_ids = version.seen(snapshot.write_ids[table.id])
    then = Snapshot(snapshot.valid_txns, {(table.database, table.name): table}, {table.id: write_ids})
    return bind_table(table, replace(contents, directories=kept), predicate, then, clusters)


def _of_version(
    table: StoredTable, registered: Sequence[RegisteredDirectory], version: TableVersion, floor: int
) -> list[RegisteredDirectory]:
    """Return the directories of a partition that a version reads. They have no rows of later commits.

    ``floor`` is the partition's ``history_write_id``.

    Raises:
        VersionExpiredError: directories that the version needs have been removed.
    """
    later = sorted(version.later)
    kept = []
    for each in registered:
        found = parse_directory(each.name)
        if found is None or not is_beyond(found, later, version.columns_txn_id):
            kept.append(each)
        elif found.max_write_id <= floor:
            reason = f"the cleaner has removed directories that {each.name} has replaced"
            raise VersionExpiredError(table.full_name, f"version {version.write_id}", reason)
    return kept


class NotReadableError(Exception):
    """Error: a cluster cannot show a table as of a moment. The message is the reason."""


@dataclass(frozen=True, slots=True)
class EarlierTable:
    """A table as of a moment. ``write_id`` is the highest write id that the moment sees.

    ``unseen`` is a dict from transaction to commit time (ms). It has the commits to the needed partitions that the
    moment does not see.
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
    """Return the table as of a moment, as ``cluster`` can show it.

    The function reads no database. Directories of transactions that the moment does not see are skipped. If the cluster
    lacks the result of a compaction, the merged directories are read instead, as long as they are registered. A table
    that is not transactional has no moments; its copy is read as it is.

    Raises:
        NotReadableError: the history of the table begins after the moment, or the cluster lacks directories.
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
        # A table without partitions that had no rows at the moment needs no copy.
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
    """Return whether a read as of a moment uses a directory.

    Raises:
        NotReadableError: the moment needs directories that this directory has replaced, and they were removed.
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
