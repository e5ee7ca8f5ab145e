"""The records of the places to which replications write. A record is stored before the first file is written.

A place is the location of one copied directory on a cluster.

A place belongs to a table if the place is recorded for the table, or if a copy of the table is registered there. A
replication neither overwrites nor deletes files in other places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    delete,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from airflow_hivex.core.errors import InvalidOperationError
from airflow_hivex.core.files.filesystem import ClusterFiles
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.directories import UNFINISHED
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.transactions import TxnState
from airflow_hivex.core.replication.copying import There
from airflow_hivex.core.replication.planning import PlannedDirectory, PlannedTable
from airflow_hivex.core.replication.running import this_process
from airflow_hivex.core.store.batches import batches
from airflow_hivex.core.store.exchange import later, together
from airflow_hivex.core.store.schema import (
    cluster_storage_descriptors,
    copy_places,
    databases,
    partitions,
    tables,
    txns,
)

_PLACE = copy_places.c


@dataclass(frozen=True, slots=True)
class _Noted:
    """A row of ``copy_places``: its id, and the names of the files that replications have written to the place."""

    id: int
    files: frozenset[str]


class CopyPlaces:
    """The records of the places of copies. The object is safe to share between threads and processes."""

    def __init__(self, services: Foundation) -> None:
        self._store = services.store
        self._clock = services.clock

    def owners(self, table_ids: Collection[int], cluster: str) -> dict[int, str]:
        """Return a dict from transaction id to process for the open replications of some tables to a cluster."""
        with self._store.read() as connection:
            return {
                txn_id: process
                for batch in batches(sorted(table_ids))
                for txn_id, process in owners_of_places(
                    connection, _PLACE.cluster == cluster, _PLACE.table_id.in_(batch)
                ).items()
            }

    def unfinished(self, table_id: int, cluster: str) -> list[str]:
        """Return the recorded places of a table on a cluster whose copies are not registered yet."""
        query = select(_PLACE.location).where(_PLACE.table_id == table_id, _PLACE.cluster == cluster)
        with self._store.read() as connection:
            return list(connection.execute(query.where(~_PLACE.is_complete)).scalars())

    def take(
        self, txn_id: int, planned: Sequence[PlannedTable], files: Callable[[str], ClusterFiles]
    ) -> list[PlannedTable]:
        """Record the places of the directories to copy. Return the plan with the files that already exist there.

        The caller must lock the tables against other replications to the same clusters. Files that an earlier
        replication has left in these places, and that the plan does not have, are deleted.

        Raises:
            InvalidOperationError: a place has a file of another program, or belongs to another table.
        """
        return [self._take(txn_id, each, files) if each.lacking else each for each in planned]

    def _take(self, txn_id: int, planned: PlannedTable, files_of: Callable[[str], ClusterFiles]) -> PlannedTable:
        table, cluster = planned.table, planned.cluster
        files = files_of(cluster)
        of_table = select(_PLACE.id, _PLACE.location, _PLACE.files)
        of_table = of_table.where(_PLACE.table_id == table.id, _PLACE.cluster == cluster)
        with self._store.read() as connection:
            rows, places = together(connection, of_table, _placing(cluster))
        noted = {row.location: _Noted(row.id, frozenset(row.files)) for row in rows}
        _places_of_others(places, table).check(planned)
        taken: list[PlannedDirectory] = []
        needless: list[list[str]] = []
        for directory in planned.lacking:
            known = noted.get(directory.place)
            own = known.files if known is not None else frozenset()
            there, superfluous = _look(planned, directory, own, files, files_of(directory.source))
            taken.append(replace(directory, there=there))
            needless.append(superfluous)
        new_rows = [
            {
                "table_id": table.id,
                "cluster": cluster,
                "location": each.place,
                "directory_id": None if each.registered is None else each.registered.id,
                "files": sorted({*each.own_names, *superfluous}),
                "txn_id": txn_id,
                "process": this_process(),
                "noted_ms": self._clock(),
                "is_complete": False,
                "unused_txn_id": None,
                "unused_ms": None,
            }
            for each, superfluous in zip(taken, needless, strict=True)
        ]
        before = [noted[each.place].id for each in taken if each.place in noted]

        def note(connection: Connection) -> None:
            for batch in batches(before):
                later(connection, delete(copy_places).where(_PLACE.id.in_(batch)))
            for new in batches(new_rows, 1000):
                later(connection, insert(copy_places), new)

        self._store.write(note, name="note places")
        for each, superfluous in zip(taken, needless, strict=True):
            for name in superfluous:
                files.delete_file(each.place_of(name))
        return replace(planned, lacking=tuple(taken))

    def finish(self, connection: Connection, txn_id: int) -> None:
        """Record, in the caller's database transaction, that the copies of replication ``txn_id`` are registered."""
        own = _PLACE.txn_id == txn_id
        later(connection, delete(copy_places).where(own, _PLACE.directory_id.is_not(None)))
        later(connection, update(copy_places).where(own).values(is_complete=True))


def owners_of_places(connection: Connection, *conditions: ColumnElement[bool]) -> dict[int, str]:
    """Return a dict from transaction id to process for the open replications with a place that meets ``conditions``."""
    query = select(_PLACE.txn_id, _PLACE.process).join(txns, txns.c.id == _PLACE.txn_id).distinct()
    rows = connection.execute(query.where(txns.c.state == TxnState.OPEN.value, *conditions))
    return {row.txn_id: row.process for row in rows}


def _look(
    planned: PlannedTable,
    directory: PlannedDirectory,
    own: frozenset[str],
    files: ClusterFiles,
    source: ClusterFiles,
) -> tuple[dict[str, There], list[str]]:
    """Return a dict from file name to the kind of the file that exists at the place, and the names of files to delete.

    The files to delete were left by earlier replications, and are not in the plan.

    Raises:
        InvalidOperationError: a place has a file of another program, or is the place of the source file.
    """
    there: dict[str, There] = {}
    needless = []
    for name, size in files.walk(directory.place):
        expected = directory.files.get(name)
        if expected is not None and files.is_same_file(directory.place_of(name), source, directory.source_of(name)):
            # A drop of the copy would delete the source.
            where = f"{directory.place_of(name)} on cluster {planned.cluster}"
            reason = f"{where} is the file of cluster {directory.source} itself; give each cluster folders of its own"
            raise InvalidOperationError("REPLICATE", planned.table.full_name, reason)
        if expected is not None and (directory.is_held or name in own):
            there[name] = There.OWN
        elif expected == size:
            there[name] = There.SAME_SIZE
        elif name in own or directory.is_held or belongs_to(name, directory.files):
            needless.append(name)
        else:
            where = f"{directory.place_of(name)} on cluster {planned.cluster}"
            reason = f"{where} is in the place of the copy, and no replication has written it; move it away"
            raise InvalidOperationError("REPLICATE", planned.table.full_name, reason)
    return there, needless


def belongs_to(name: str, files: Collection[str]) -> bool:
    """Return whether a hidden file is the unfinished copy or the Hadoop checksum of one of ``files``."""
    folder, _, last = name.rpartition("/")
    if not last.startswith("."):
        return False
    prefix = f"{folder}/" if folder else ""
    if last.endswith(".crc"):
        return f"{prefix}{last[1:-4]}" in files
    # A hexadecimal number stands between the name and the ending.
    return last.endswith(UNFINISHED) and f"{prefix}{last[1:].removesuffix(UNFINISHED).rpartition('.')[0]}" in files


@dataclass(frozen=True, slots=True)
class _Places:
    """The locations on a cluster that belong to tables other than the replicated table."""

    tables: Mapping[str, str]
    in_order: Sequence[str]

    def check(self, planned: PlannedTable) -> None:
        """Ensure that no new place of a plan overlaps a location of another table.

        Raises:
            InvalidOperationError: a new place overlaps a location of another table.
        """
        known = set(planned.registered.values())
        for directory in planned.lacking:
            if directory.folder in known:
                continue
            for location in self._overlapping(directory.folder):
                reason = (
                    f"{directory.folder} on cluster {planned.cluster} is the place of the copy, and belongs to table "
                    f"{self.tables[location]}"
                )
                raise InvalidOperationError("REPLICATE", planned.table.full_name, reason)

    def _overlapping(self, place: str) -> Iterator[str]:
        names = place.split("/")
        above = ("/".join(names[:at]) for at in range(1, len(names) + 1))
        yield from (each for each in above if each in self.tables)
        at = bisect_left(self.in_order, f"{place}/")
        if at < len(self.in_order) and self.in_order[at].startswith(f"{place}/"):
            yield self.in_order[at]


def _places_of_others(rows: Iterable[Any], table: StoredTable) -> _Places:
    """Return the locations of all other tables, from the rows of :func:`_placing`."""
    found = {row.location: row.name for row in rows if row.id != table.id}
    return _Places(found, sorted(found))


def registered_places(connection: Connection, cluster: str) -> Iterator[tuple[int, str, str]]:
    """Yield (table id, table name, location) for each table on a cluster.

    Partitions outside of the folder of their table are yielded, too. The call takes one query.
    """
    for row in connection.execute(_placing(cluster)):
        yield row.id, row.name, row.location


def _placing(cluster: str) -> CompoundSelect[Any]:
    """Return the query for the rows of :func:`registered_places`."""
    t, p, d, c = tables.c, partitions.c, databases.c, cluster_storage_descriptors.c
    name = (d.name + "." + t.name).label("name")
    is_there = (~t.dropped, t.location != "")

    def is_apart(location: ColumnElement[str]) -> ColumnElement[bool]:
        return func.substr(location, 1, func.length(t.location) + 1) != t.location + "/"

    of_tables = select(t.id, name, t.location).join(databases, d.id == t.database_id)
    of_tables = of_tables.where(*is_there, t.primary_cluster == cluster)
    of_partitions = select(t.id, name, p.location).join_from(partitions, tables, t.id == p.table_id)
    of_partitions = of_partitions.join(databases, d.id == t.database_id)
    of_partitions = of_partitions.where(*is_there, t.primary_cluster == cluster, ~p.dropped, is_apart(p.location))
    of_copies = select(t.id, name, c.location).join_from(cluster_storage_descriptors, tables, t.id == c.table_id)
    of_copies = of_copies.join(databases, d.id == t.database_id).outerjoin(partitions, p.id == c.partition_id)
    of_copies = of_copies.where(
        *is_there,
        c.cluster == cluster,
        or_(c.partition_id.is_(None), (~p.dropped) & is_apart(c.location)),
    )
    return union_all(of_tables, of_partitions, of_copies)
