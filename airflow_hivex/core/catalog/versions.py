"""Tables as of one of their versions: the record of their commits, and the directories that a version reads.

A version is read from directories that hold nothing of later commits. The result of a compaction that has merged some
of them is left out, as long as the directories before it are registered: the cleaner removes them when no version
within the retention needs them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, and_, select

from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.rows import columns_from_json
from airflow_hivex.core.clock import to_datetime
from airflow_hivex.core.errors import VersionExpiredError
from airflow_hivex.core.model.directories import parse_directory
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import Snapshot
from airflow_hivex.core.model.versions import RecordedVersion, TableVersion, is_beyond
from airflow_hivex.core.store.schema import partitions, table_commits, tables

_C = table_commits.c
_CREATES = "CREATE "


@dataclass(frozen=True, slots=True)
class RecordedCommit:
    """One commit to a table, as DESCRIBE HISTORY shows it; the creation of the table has no transaction.

    An update counts its rows as added and as deleted. An INSERT OVERWRITE does not count the rows that it replaces.
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

    The row of its creation is left out where the transaction that has created it is there.
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
    """Return the record of a table, oldest first. One round trip."""
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
    """Return the highest write ids of directories that have replaced others, by partition id. Two round trips.

    None stands for a table without partitions.
    """
    t, p = tables.c, partitions.c
    of_table = connection.execute(select(t.history_write_id).where(t.id == table_id)).scalar_one_or_none()
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
    """Return the table as of a version, with its columns of then, and its copies on ``clusters``. Pure.

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
    """Return the directories of a partition without those that hold rows, or lack them, because of later commits.

    Raises:
        VersionExpiredError: directories that the version would read instead are removed.
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
