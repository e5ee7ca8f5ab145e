"""The change of a table's primary cluster: planned without a loss, or forced after the loss of a cluster.

Planned: a replication brings the new primary up to date. Then the table is locked exclusively, the remaining files are
copied, and both clusters change their roles in one commit. Forced: the new primary continues with the files that it has
or can copy from other clusters. The caller must confirm the losses.

Source: docs/reference/clusters.md, "Changes of the primary cluster".
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from airflow_hivex.core.catalog import history, primaries
from airflow_hivex.core.catalog.bound_tables import BoundTable, bind_table
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.directories import RegisteredDirectory
from airflow_hivex.core.catalog.table_events import of_table, record_table_event
from airflow_hivex.core.clusters.health import ClusterHealth
from airflow_hivex.core.errors import HivexError, InvalidOperationError, InvalidParametersError, WritesLostError
from airflow_hivex.core.events.notification_log import EventType
from airflow_hivex.core.files.filesystem import ClusterFiles, is_hidden
from airflow_hivex.core.foundation import Foundation
from airflow_hivex.core.model.directories import AcidDirectory, parse_directory
from airflow_hivex.core.model.identifiers import normalise
from airflow_hivex.core.model.objects import StoredTable
from airflow_hivex.core.model.replication import (
    CopyProgress,
    LostDirectory,
    LostReason,
    PrimaryChange,
    write_id_spans,
)
from airflow_hivex.core.model.snapshots import Moment, QualifiedName, Snapshot
from airflow_hivex.core.replication.copying import check_whole
from airflow_hivex.core.replication.planning import PlannedTable, registered_places
from airflow_hivex.core.replication.replicator import Replicator
from airflow_hivex.core.replication.running import ReplicationTransactions, RunningReplication
from airflow_hivex.core.replication.transfers import CopyOptions

log = logging.getLogger(__name__)

_OPERATION = "SET PRIMARY CLUSTER"
_MOST_IN_LINE = 10


class PrimaryClusters:
    """The changes of the primary clusters of tables. The object is safe to share between threads and processes."""

    def __init__(self, services: Foundation, replicator: Replicator) -> None:
        self._services = services
        self._running = ReplicationTransactions(services)
        self._replicator = replicator

    def change(
        self,
        table: str,
        cluster: str,
        *,
        force: bool = False,
        confirm: str | None = None,
        dry_run: bool = False,
        threads: int = 8,
        bytes_per_second: int | None = None,
        progress: Callable[[CopyProgress], object] | None = None,
        user: str | None = None,
        agent_info: str | None = None,
    ) -> PrimaryChange:
        """Make a cluster the primary of a table. The call is safe to repeat after an error or a kill.

        The former primary becomes a secondary with a current copy. A killed call has either only copied files to the
        new primary, or completed the change. Writers and readers wait only while the remaining files are copied.

        With ``force`` the former primary is treated as lost: no file is read there, and no copy stays registered there.

        Args:
            table: ``database.table``, or ``table`` for a table in the database ``default``.
            cluster: the new primary cluster.
            force: whether the former primary is lost.
            confirm: the ``confirmation`` in the WritesLostError of a forced call, or in the result of a forced dry run.
            dry_run: whether to return only the directories that would be copied or lost.
            threads: the number of files that are copied at the same time.
            bytes_per_second: the limit of written bytes.
            progress: called every few seconds, in this thread.
            user: the owner of the transactions.
            agent_info: a text for people that names the caller, such as a DAG run and task.

        Raises:
            UnknownClusterError: the cluster is not configured.
            NoSuchTableError: the table does not exist.
            InvalidOperationError: the object is a view, or ``force`` is set although the former primary can be used.
            WritesLostError: writes would be lost, and ``confirm`` is not the confirmation of exactly these writes.
            HivexError: for the reasons of :meth:`Replicator.replicate`.
        """
        if confirm is not None and not force:
            raise InvalidParametersError("confirm belongs to a forced change; a planned one loses nothing.")
        name = _name(table)
        target = self._services.clusters.get(cluster).name
        stored = self._services.catalog.snapshot([name]).tables[name]
        before = stored.storage.primary.cluster
        if stored.is_view:
            raise InvalidOperationError(_OPERATION, stored.full_name, "it is a view, which has no files")
        if before == target:
            return PrimaryChange(stored.full_name, before, target, is_changed=False)
        options = CopyOptions(threads, bytes_per_second, progress)
        if force:
            return self._force(name, target, confirm, options, dry_run=dry_run, user=user, agent_info=agent_info)
        caught_up = self._replicator.replicate(
            stored.full_name,
            target,
            dry_run=dry_run,
            threads=threads,
            bytes_per_second=bytes_per_second,
            progress=progress,
            user=user,
            agent_info=agent_info,
        )
        if dry_run:
            return PrimaryChange(stored.full_name, before, target, is_changed=False, replication=caught_up)
        last = self._replicator.replicate_alone(
            stored.full_name, target, self._switch, options, user=user, agent_info=agent_info
        )
        total = replace(
            caught_up,
            files_copied=caught_up.files_copied + last.files_copied,
            bytes_copied=caught_up.bytes_copied + last.bytes_copied,
        )
        log.info("The primary cluster of %s is %s now, after %s", stored.full_name, target, before)
        return PrimaryChange(stored.full_name, before, target, is_changed=True, replication=total, txn_id=last.txn_id)

    def _switch(self, connection: Connection, txn_id: int, planned: Sequence[PlannedTable], moment: Moment) -> None:
        (table,) = planned
        switch_table(connection, txn_id, table, moment, self._services.clock())

    # -- a lost cluster --------------------------------------------------------------

    def _force(
        self,
        name: QualifiedName,
        target: str,
        confirm: str | None,
        options: CopyOptions,
        *,
        dry_run: bool,
        user: str | None,
        agent_info: str | None,
    ) -> PrimaryChange:
        if dry_run:
            snapshot = self._services.catalog.snapshot([name])
            return self._survey(snapshot, name, target).shown(target)
        with self._running.open(user, agent_info) as running:
            stored = self._services.catalog.snapshot([name]).tables[name]
            self._running.lock_alone(running, [stored], target)
            survey = self._survey(self._services.catalog.snapshot([name], running.txn_id), name, target)
            if survey.remainder.lost and confirm != survey.confirmation:
                raise WritesLostError(
                    survey.table.full_name,
                    target,
                    _summary(survey.remainder.lost),
                    [each.describe() for each in survey.remainder.lost],
                    survey.confirmation,
                )
            self._services.roots.check(target)
            replication = self._rescue(survey, target, running, options)
            self._replace(survey, target, running, replication)
        self._delete_withdrawn(survey)
        log.warning(
            "The primary cluster of %s is %s now; cluster %s counts as lost, with %s",
            survey.table.full_name,
            target,
            survey.table.storage.primary.cluster,
            _directories(len(survey.remainder.lost)),
        )
        return replace(survey.shown(target), is_changed=True, txn_id=running.txn_id)

    def _survey(self, snapshot: Snapshot, name: QualifiedName, target: str) -> _Survey:
        """Find out what remains of a table, and what is lost, if its primary cluster is lost.

        Raises:
            InvalidOperationError: the primary cluster can be used, or the target is already the primary.
        """
        table = snapshot.tables[name]
        before = table.storage.primary.cluster
        if before == target:
            raise InvalidOperationError(_OPERATION, table.full_name, f"{target} is its primary cluster meanwhile")
        if self._can_be_used(before):
            reason = f"its primary cluster {before} can be used, so that nothing has to be lost; leave out FORCE"
            raise InvalidOperationError(f"{_OPERATION} ... FORCE", table.full_name, reason)
        names = self._services.clusters.names
        others = [each for each in names if each not in (before, target) and self._can_be_used(each)]
        sources = [target, *others]
        contents = self._services.catalog.contents(snapshot, table, None, sources)
        bounds = self._services.catalog.history(table, ())
        bound = bind_table(table, contents, None, snapshot, sources)
        whole = {cluster: self._whole(table, contents, cluster) for cluster in sources if cluster in contents.locations}
        available = {id_: cluster for cluster in reversed(sources) for id_ in whole.get(cluster, ())}
        copied = {id_ for cluster in sources for id_ in contents.locations.get(cluster, {})}
        if not table.is_transactional:
            # Files without registered directories cannot be distinguished: only the copy of the new primary counts.
            copied = set(contents.locations.get(target, {}))
        return _Survey(
            table, contents, bound, available, remainder(table, contents, snapshot, available, copied, bounds.floors)
        )

    def _can_be_used(self, cluster: str) -> bool:
        """Return whether the files of a cluster can be reached now. Cached results are not used."""
        if cluster not in self._services.clusters:
            return False
        return ClusterHealth(self._services.clusters, self._services.roots).of_root(cluster).problem is None

    def _whole(self, table: StoredTable, contents: TableContents, cluster: str) -> frozenset[int]:
        """Return the ids of the directories on a cluster whose files have the registered number and size."""
        files, held = self._services.files(cluster), contents.held.get(cluster, frozenset())
        found = set()
        for partition_id, location in contents.locations[cluster].items():
            for each in contents.directories.get(partition_id, ()):
                if each.id in held and _is_whole(table, files, cluster, location, each):
                    found.add(each.id)
        return frozenset(found)

    def _rescue(
        self, survey: _Survey, target: str, running: RunningReplication, options: CopyOptions
    ) -> Mapping[RegisteredDirectory, str]:
        """Copy directories that the target lacks from other clusters. Return a dict from directory to checksum."""
        contents = survey.contents
        names = {each.id: each for each in contents.partitions}
        plan = []
        for partition_id, kept in survey.remainder.kept.items():
            for each in kept:
                source = survey.available[each.id]
                if source == target:
                    continue
                partition = None if partition_id is None else names[partition_id].name
                plan.append((partition, each, source, contents.locations[source][partition_id]))
        return self._replicator.copy_directories(
            survey.bound, target, plan, registered_places(contents, target), running, options
        )

    def _replace(
        self, survey: _Survey, target: str, running: RunningReplication, rescued: Mapping[RegisteredDirectory, str]
    ) -> None:
        table = survey.table

        def changes(connection: Connection) -> None:
            if rescued:
                self._services.catalog.joining(connection).add_copies(
                    table,
                    target,
                    list(rescued),
                    {each.id: checksum for each, checksum in rescued.items()},
                    write_ids=survey.bound.write_ids,
                )
            self._replicator.finish_copies(connection, running)
            changed = primaries.replace_primary(connection, table, target, survey.remainder.withdrawn)
            history.begin_with(connection, table.id, running.txn_id, self._services.clock())
            message = of_table(
                changed,
                was=changed.name,
                primary_was=table.storage.primary.cluster,
                lost=[each.describe() for each in survey.remainder.lost],
            )
            now_ms = self._services.clock()
            record_table_event(connection, now_ms, EventType.ALTER_TABLE, changed, None, running.txn_id, message)

        self._running.commit(running, changes)

    def _delete_withdrawn(self, survey: _Survey) -> None:
        """Delete the files of withdrawn directories, which are not registered any more. Errors are only logged."""
        contents, withdrawn = survey.contents, survey.remainder.withdrawn
        for cluster, locations in contents.locations.items():
            files, held = self._services.files(cluster), contents.held.get(cluster, frozenset())
            for partition_id, location in locations.items():
                for each in contents.directories.get(partition_id, ()):
                    if each.id not in withdrawn or each.id not in held:
                        continue
                    try:
                        files.delete_directory(f"{location}/{each.name}")
                    except HivexError as error:
                        log.warning("%s of %s is still on %s: %s", each.name, survey.table.full_name, cluster, error)


def switch_table(connection: Connection, txn_id: int, planned: PlannedTable, moment: Moment, now_ms: int) -> None:
    """Make the target of a replication the primary cluster of a table, in the commit of the replication.

    Raises:
        HivexError: for the reasons of :func:`primaries.switch_primary`.
    """
    before = planned.table.storage.primary.cluster
    changed = primaries.switch_primary(
        connection, planned.table, planned.cluster, planned.bound.write_ids, moment, now_ms, planned.seen
    )
    message = of_table(changed, was=changed.name, primary_was=before)
    record_table_event(connection, now_ms, EventType.ALTER_TABLE, changed, None, txn_id, message)


@dataclass(frozen=True, slots=True)
class _Survey:
    """The data of a table that remains after the loss of its primary cluster.

    ``available`` is a dict from directory id to a cluster with the directory: the new primary, if it has the directory.
    """

    table: StoredTable
    contents: TableContents
    bound: BoundTable
    available: Mapping[int, str]
    remainder: Remainder

    @property
    def confirmation(self) -> str:
        """Return a text that identifies exactly the losses of this survey."""
        listed = "\n".join(sorted(each.describe() for each in self.remainder.lost))
        return hashlib.sha256(f"{self.table.id}\n{listed}".encode()).hexdigest()[:12]

    def shown(self, target: str) -> PrimaryChange:
        """Return the survey as a result for users."""
        lost = self.remainder.lost
        return PrimaryChange(
            self.table.full_name,
            self.table.storage.primary.cluster,
            target,
            is_changed=False,
            lost=lost,
            confirmation=self.confirmation if lost else None,
        )


def _is_whole(
    table: StoredTable, files: ClusterFiles, cluster: str, location: str, directory: RegisteredDirectory
) -> bool:
    place = f"{location}/{directory.name}" if directory.name else location
    try:
        data = {name: size for name, size in files.walk(place) if not is_hidden(name)}
        check_whole(table.full_name, cluster, place, data, (directory.files, directory.size_bytes))
    except HivexError as error:
        log.warning("%s", error)
        return False
    return True


def _summary(lost: Sequence[LostDirectory]) -> str:
    gone = [each for each in lost if each.reason is not LostReason.KEPT_IN_PART]
    spans = [str(first) if first == last else f"{first}-{last}" for first, last in write_id_spans(lost)]
    shown = ", ".join(spans[:_MOST_IN_LINE])
    more = f" and {len(spans) - _MOST_IN_LINE} more ranges" if len(spans) > _MOST_IN_LINE else ""
    word = "id" if len(spans) == 1 and "-" not in spans[0] else "ids"
    ids = f"rows of the write {word} {shown}{more}: " if spans else ""
    rows, size_bytes = sum(each.rows for each in gone), sum(each.size_bytes for each in gone)
    return f"{ids}{_directories(len(gone))}, {rows} rows, {size_bytes} bytes"


def _directories(number: int) -> str:
    return "1 directory" if number == 1 else f"{number} directories"


def _name(table: str) -> QualifiedName:
    database, _, name = table.rpartition(".")
    return normalise(database or "default"), normalise(name)


@dataclass(frozen=True, slots=True)
class Remainder:
    """The directories that remain readable, and the losses.

    ``kept`` is a dict from partition id (None for a table without partitions) to readable directories. ``withdrawn``
    are the ids of available directories that queries must not read.
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
    """Return the remaining directories and the losses of a table whose primary cluster is lost.

    A write is kept or lost as a whole in all partitions that the new primary has copies of. A partition without a copy
    does not cause the loss of a write in other partitions. If a compaction or a streaming batch has merged a lost write
    with other writes, the rows of the lost write in the merged directory are kept.

    Args:
        table: the table.
        contents: all partitions and directories of the table.
        snapshot: the current snapshot.
        available: the ids of the directories that the new primary has or can get.
        copied: the ids of the partitions that the new primary has a copy of.
        floors: a dict from partition id to the write id up to which replaced directories were removed.
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
    """Return the write ids of lost directories. Directories that merge several writes are left out."""
    found = (parse_directory(each.name) for each in lost)
    return {each.max_write_id for each in found if each is not None and not _is_merged(each)}


def _written_by(directories: Iterable[RegisteredDirectory], write_ids: Collection[int]) -> list[RegisteredDirectory]:
    """Return the directories that have rows of at least one of the write ids."""
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
    """Return whether the loss of a directory is a loss of rows.

    A compacted directory can be lost without a loss of rows as long as the directories that it has replaced still
    exist.
    """
    found = parse_directory(directory.name)
    return found is None or not found.visibility_txn_id or found.max_write_id <= floor


def _is_merged(found: AcidDirectory) -> bool:
    return found.visibility_txn_id > 0 or found.is_batch


def _write_ids(found: AcidDirectory) -> tuple[int, int]:
    """Return the first and the last write id whose rows a directory can have."""
    # An INSERT OVERWRITE has one write id, and its base begins at 0; a compacted base has all up to its own.
    if found.min_write_id == 0 and not found.visibility_txn_id:
        return found.max_write_id, found.max_write_id
    return max(1, found.min_write_id), found.max_write_id


def _loss(partition: str | None, directory: RegisteredDirectory, reason: LostReason) -> LostDirectory:
    found = parse_directory(directory.name)
    ids = None if found is None else _write_ids(found)
    return LostDirectory(partition, directory.name, reason, ids, directory.rows, directory.size_bytes)
