"""The comparison of registered directories with the entries of a disk. It reads no database and no files.

Files are written before they are registered, and deleted before they are unregistered. So if the disk is read after the
database, a registered directory that is not found is certainly missing. If the disk is read before the database, an
entry without a record is certainly unregistered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_hivex.core.doctor.disks import Entry
from airflow_hivex.core.doctor.registered import Registered, TableRows
from airflow_hivex.core.model.cleaning import Aborted, staging_ids
from airflow_hivex.core.model.clusters import Cluster
from airflow_hivex.core.model.directories import AcidDirectory, DirectoryKind, parse_directory
from airflow_hivex.core.model.findings import Finding, FindingKind

_OF_BATCH = re.compile(r"bucket_[0-9]+_([0-9]+)")
_CLEANING = "`hivex compaction clean` deletes it"
_REMOVABLE = "no query reads it, and it takes space; delete it if you do not need it"


@dataclass(frozen=True, slots=True)
class Difference:
    """A finding about a path, which is relative to the cluster's root.

    ``row`` is the registered directory, or None if the path is only on the disk.
    """

    finding: Finding
    path: str
    row: Registered | None = None

    @property
    def key(self) -> tuple[str, bool]:
        """Return a key that two checks share if both have found this difference."""
        return self.path, self.row is not None


def lost(rows: TableRows, cluster: Cluster, entries: Mapping[str, Entry]) -> Iterator[Difference]:
    """Yield a difference for each registered directory whose files are missing, or have another number or size.

    ``entries`` must have been read after the database.
    """
    loose = {path: size for entry in entries.values() if entry.acid is None for path, size in entry.each.items()}
    for path, place, row in rows.on(cluster.name):
        files, size_bytes = _there(rows, path, row, entries, loose)
        if (files, size_bytes) == (row.files, row.size_bytes):
            continue
        kind = FindingKind.MISSING if files == 0 else FindingKind.DIFFERENT
        registered = f"{_amount(row.files, row.size_bytes)} with {_count(row.rows, 'row')}"
        message = f"registered are {registered}, and found {_amount(files, size_bytes) if files else 'nothing'}"
        table = rows.table
        primary = table.storage.primary.cluster
        if cluster.name != primary:
            message += (
                f"; statements that are sent to this copy fail. Copy it again from cluster {primary} and register the "
                "copy again, or unregister it"
            )
        else:
            others = sorted(set(rows.copies.get(row.id, ())) - {primary})
            held = f" or from the copy on cluster {' or '.join(others)}" if others else ""
            message += f"; statements that read it fail, or lack the rows. Bring the files back from a backup{held}"
        finding = _finding(kind, rows, cluster, place.partition, path, message, files, size_bytes)
        yield Difference(finding, path, row)


def _there(
    rows: TableRows, path: str, row: Registered, entries: Mapping[str, Entry], loose: Mapping[str, int]
) -> tuple[int, int]:
    """Return a pair: the number of files of a registered directory that exist on disk, and the sum of their bytes."""
    named = parse_directory(row.name)
    if named is None:
        return (1, loose[path]) if path in loose else (0, 0)
    entry = entries.get(path)
    if entry is None:
        return 0, 0
    if not named.is_batch:
        return entry.files, entry.size_bytes
    # Other transactions may add files to the delta, or may have been aborted.
    sizes = [size for file, size in entry.each.items() if _is_of_commit(rows, named, file)]
    return len(sizes), sum(sizes)


def _is_of_commit(rows: TableRows, batch: AcidDirectory, file: str) -> bool:
    write_id = _write_id(batch, file)
    return write_id is None or rows.write_ids.is_valid(write_id)


def _write_id(batch: AcidDirectory, file: str) -> int | None:
    """Return the write id of a file in the delta of a streaming batch, or None if the file's name does not show it."""
    found = _OF_BATCH.fullmatch(file.rpartition("/")[2])
    return None if found is None else batch.min_write_id + int(found[1])


def unregistered(rows: TableRows, cluster: Cluster, entries: Mapping[str, Entry]) -> Iterator[Difference]:
    """Yield a difference for each entry that is not registered and that no process is writing.

    ``entries`` must have been read before the database.
    """
    known = {path for path, _, _ in rows.on(cluster.name)}
    judge = _Judge(rows, cluster)
    for entry in entries.values():
        if entry.path in known:
            if entry.acid is not None and entry.acid.is_batch:
                yield from judge.in_batch(entry, entry.acid)
        elif entry.acid is None and not known.isdisjoint(entry.each):
            # The folder also has registered original files.
            for path, size_bytes in entry.each.items():
                if path not in known:
                    yield from judge.entry(
                        Entry(entry.partition, entry.folder, path, None, 1, size_bytes, 1, size_bytes)
                    )
        else:
            yield from judge.entry(entry)


class _Judge:
    """The classification of unregistered entries of one table on one cluster, by their writers."""

    def __init__(self, rows: TableRows, cluster: Cluster) -> None:
        self._rows = rows
        self._cluster = cluster
        self._dropped = rows.dropped_paths(cluster.name)
        self._is_primary = cluster.name == rows.table.storage.primary.cluster

    @cached_property
    def _elsewhere(self) -> frozenset[tuple[str | None, str]]:
        """Return (partition, name) pairs of the registered directories, or an empty set on the primary cluster."""
        return frozenset() if self._is_primary else self._rows.registered_names()

    def entry(self, entry: Entry) -> Iterator[Difference]:
        """Yield the difference for an entry, unless another process writes or deletes it now."""
        found = self._named(entry)
        if found is not None:
            yield self._difference(*found, entry.partition, entry.path, entry.all_files, entry.all_bytes)

    def in_batch(self, entry: Entry, batch: AcidDirectory) -> Iterator[Difference]:
        """Yield a difference for each file of an aborted transaction in the registered delta of a streaming batch."""
        for path, size_bytes in entry.each.items():
            write_id = _write_id(batch, path)
            if write_id is None or not self._rows.write_ids.is_aborted(write_id):
                continue
            is_left = any(write_id in each.write_ids for each in self._aborted(entry.partition))
            kind, message = self._left(write_id) if is_left else (FindingKind.UNKNOWN, _REMOVABLE)
            yield self._difference(kind, message, entry.partition, path, 1, size_bytes)

    def _difference(
        self, kind: FindingKind, message: str, partition: str | None, path: str, files: int, size_bytes: int
    ) -> Difference:
        finding = _finding(kind, self._rows, self._cluster, partition, path, message, files, size_bytes)
        return Difference(finding, path)

    def _aborted(self, partition: str | None) -> list[Aborted]:
        found = [self._rows.aborted.get(key) for key in dict.fromkeys((partition, None))]
        return [each for each in found if each is not None]

    def _left(self, write_id: int) -> tuple[FindingKind, str]:
        return FindingKind.LEFT, f"the transaction of write id {write_id} was aborted; {_CLEANING}"

    def _named(self, entry: Entry) -> tuple[FindingKind, str] | None:
        staging = staging_ids(entry.name)
        if entry.acid is not None:
            found = self._of_directory(entry, entry.acid)
        elif staging is not None:
            write_id, txn_id = staging
            found = self._of_writer(entry, range(0) if write_id is None else range(write_id, write_id + 1), txn_id)
        else:
            found = self._without_owner(entry)
        return found

    def _of_directory(self, entry: Entry, acid: AcidDirectory) -> tuple[FindingKind, str] | None:
        if acid.visibility_txn_id:
            return self._of_writer(entry, range(0), acid.visibility_txn_id)
        lowest = acid.max_write_id if acid.kind is DirectoryKind.BASE else acid.min_write_id
        return self._of_writer(entry, range(lowest, acid.max_write_id + 1), None)

    def _of_writer(self, entry: Entry, write_ids: range, txn_id: int | None) -> tuple[FindingKind, str] | None:
        """Return the finding for an entry of a known writer, or None if the writer is active.

        ``write_ids`` are the ids of the write. If a compaction has written the entry, ``txn_id`` is its transaction.
        """
        rows = self._rows
        if self._is_at_work(write_ids, txn_id):
            return None
        # No statement writes to copies.
        if self._is_primary and write_ids and write_ids[-1] >= rows.next_write_id:
            return FindingKind.AHEAD, (
                f"write id {write_ids[-1]} has yet to be handed out for {rows.table.full_name}, and the statement that "
                "gets it will fail. It comes from elsewhere, or the metastore's database is older than it (was it "
                "restored from a backup?): move it out of the table's folder"
            )
        if self._is_primary and txn_id is not None and txn_id > rows.valid_txns.high_watermark:
            return FindingKind.AHEAD, (
                f"transaction {txn_id} has yet to be opened. It comes from elsewhere, or the metastore's database is "
                "older than it (was it restored from a backup?): move it out of the table's folder"
            )
        # A statement first writes below the folder of the table, for any partition.
        is_below_table = entry.partition is None and staging_ids(entry.name) is not None
        for aborted in rows.aborted.values() if is_below_table else self._aborted(entry.partition):
            if aborted.leftover(entry.name) is not None or aborted.is_staging(entry.name):
                who = f"compaction in transaction {txn_id}" if txn_id is not None else "transaction that wrote it"
                return FindingKind.LEFT, f"the {who} was aborted; {_CLEANING}"
        if txn_id is not None and txn_id in rows.cleaning.get(entry.partition, ()):
            message = f"the compaction in transaction {txn_id} has left it on its way; {_CLEANING}"
            return FindingKind.LEFT, message
        if any(each in write_ids for each in rows.pending):
            message = "its transaction has ended without it; the housekeeping deletes it (`hivex metastore housekeep`)"
            return FindingKind.LEFT, message
        return self._without_owner(entry)

    def _is_at_work(self, write_ids: range, txn_id: int | None) -> bool:
        rows = self._rows
        if txn_id is not None and txn_id <= rows.valid_txns.high_watermark and not rows.valid_txns.is_valid(txn_id):
            return not rows.valid_txns.is_aborted(txn_id)
        if not write_ids:
            return False
        is_open = any(write_ids[0] <= each <= write_ids[-1] for each in rows.write_ids.open_ids)
        return is_open or any(is_pending and each in write_ids for each, is_pending in rows.pending.items())

    def _without_owner(self, entry: Entry) -> tuple[FindingKind, str] | None:
        """Return the finding for an entry without a writer, or None if a statement is changing the folder now."""
        rows = self._rows
        if rows.changing and not rows.changing.isdisjoint((None, entry.partition)):
            return None
        if entry.path in self._dropped:
            message = "its partition was dropped, and no query reads it; delete it if that does not run any more"
            return FindingKind.DROPPED, message
        if (entry.partition, entry.name) in self._elsewhere:
            return FindingKind.UNREGISTERED_COPY, (
                f"the table has it on cluster {rows.table.storage.primary.cluster}, and it is not registered here;  "
                "register the copy (catalog.register_copy), or delete it"
            )
        return FindingKind.UNKNOWN, _REMOVABLE


def _finding(
    kind: FindingKind,
    rows: TableRows,
    cluster: Cluster,
    partition: str | None,
    path: str,
    message: str,
    files: int,
    size_bytes: int,
) -> Finding:
    table = rows.table
    return Finding(
        kind, cluster.name, table.database, table.name, partition, cluster.shown_uri(path), message, files, size_bytes
    )


def _amount(files: int, size_bytes: int) -> str:
    return f"{_count(files, 'file')} of {_count(size_bytes, 'byte')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
