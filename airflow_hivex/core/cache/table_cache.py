"""The memory of the cache: entries of tables, when they may answer, and what makes room for others."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_hivex.core.cache.counting import Counting, Kind, Miss, first_new
from airflow_hivex.core.cache.entries import (
    OF_VIEW,
    ContentsKey,
    Definition,
    Entry,
    Part,
    Partitions,
    size_of_contents,
    size_of_partitions,
    size_of_table,
)
from airflow_hivex.core.cache.object_lists import ObjectLists
from airflow_hivex.core.cache.shared_descriptors import SharedDescriptors
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.model.objects import StoredPartition, StoredTable
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import ValidWriteIdList, covers, equivalent, with_committed

_MOST_REMEMBERED = 100_000
_MOST_PREDICATES = 16
"""The most predicates of a table for which contents are kept."""
_LONGEST_STEP = 10_000
"""A tag is not carried on over more unknown write ids than this."""


_caches: weakref.WeakSet[TableCache] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for cache in list(_caches):
        cache.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def _is_same(a: ValidWriteIdList | None, b: ValidWriteIdList | None) -> bool:
    return equivalent(a, b) if a is not None and b is not None else a is b


def _has(tag: ValidWriteIdList | None, ids: ValidWriteIdList) -> bool:
    return tag is not None and covers(tag, ids)


class TableCache:
    """Entries by table, the least recently used first. Safe to share between threads; no method waits for a database.

    An entry is filled from the database in three steps: :meth:`begin`, the reads, and a ``put``. The tag of a part is
    a list that was taken before the reads, so that it never claims a commit that the part does not have.
    """

    def __init__(self, lists: ObjectLists, most_bytes: int) -> None:
        self.lists = lists
        self.counting = Counting()
        self.used_bytes = 0
        self.most_bytes = most_bytes
        self.evictions = 0
        """The number of entries that made room for others."""
        self.followed_until = 0.0
        """The time, by the steady clock, up to which entries of tables without write ids are recent enough."""
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._ids: dict[QualifiedName, int] = {}
        self._shared = SharedDescriptors()
        self._lock = threading.Lock()
        self._evicted: OrderedDict[QualifiedName, None] = OrderedDict()
        self._sequence = 0
        self._changed: OrderedDict[int, int] = OrderedDict()
        """When a change of a table was announced last, counted by ``_sequence``."""
        self._changed_floor = 0
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def shared_parts(self) -> int:
        """Return the number of parts of storage descriptors that tables share."""
        return len(self._shared)

    # -- the two rules; a test takes each of them away and must notice

    def announce(self, entry: Entry, txn_id: int, ids: ValidWriteIdList) -> None:
        """Take the committed flag from an entry, of which a transaction has announced a change."""
        entry.unsettled[txn_id] = ids

    def is_equivalent(self, tag: ValidWriteIdList, seen: ValidWriteIdList) -> bool:
        """Return whether nothing was committed between the state of a part and that of a reader."""
        return equivalent(tag, seen)

    # -- answers for snapshots: confirmed by the version and list of the snapshot

    def known(self, names: Collection[QualifiedName]) -> list[StoredTable]:
        """Return the tables of these names that are kept; a snapshot says whether they have changed."""
        with self._lock:
            found = (self._entry(name) for name in names)
            return [each.definition.value.table for each in found if each is not None and each.definition is not None]

    def contents(
        self, table: StoredTable, ids: ValidWriteIdList | None, keys: Sequence[ContentsKey]
    ) -> TableContents | None:
        """Return contents of a table, of the first of ``keys``, that have all that a reader with this list sees."""
        with self._lock:
            entry = self._used(table.id)
            stale: Part[TableContents] | None = None
            for key in keys:
                part = None if entry is None else entry.contents.get(key)
                if part is None:
                    continue
                if part.version == table.version and (ids is None or (part.tag is not None and covers(part.tag, ids))):
                    self.counting.hit(Kind.CONTENTS)
                    return part.value
                stale = stale or part
            self._miss((table.database, table.name), Kind.CONTENTS, stale, table.version, ids)
            return None

    # -- answers for a list alone

    def definition(self, name: QualifiedName, ids: ValidWriteIdList | None, cluster: str | None) -> StoredTable | None:
        """Return a table as a cluster sees it, if it may be answered for this list (None: it has no write ids)."""
        with self._lock:
            entry = self._entry(name)
            part = None if entry is None else entry.definition
            if part is None or not self._may_answer(name, Kind.TABLE, entry, part, ids):
                self._miss_if_none(name, Kind.TABLE, part)
                return None
            view = part.value.views.get(cluster)
            if view is None:
                self.counting.miss(".".join(name), Kind.TABLE, Miss.COLD)
            else:
                self.counting.hit(Kind.TABLE)
            return view

    def partitions(self, name: QualifiedName, ids: ValidWriteIdList | None) -> tuple[StoredTable, Partitions] | None:
        """Return a table with those of its partitions that are kept, if they may be answered for this list.

        The caller counts the hit, or a miss where the wanted partition is not among them.
        """
        with self._lock:
            entry = self._entry(name)
            part = None if entry is None else entry.partitions
            if part is None or not self._may_answer(name, Kind.PARTITIONS, entry, part, ids):
                self._miss_if_none(name, Kind.PARTITIONS, part)
                return None
            if entry is None or entry.definition is None:
                self.counting.miss(".".join(name), Kind.PARTITIONS, Miss.COLD)
                return None
            return entry.definition.value.table, part.value

    def lists_partitions(self, name: QualifiedName) -> bool:
        """Return whether all partitions of a table were read for a list."""
        with self._lock:
            entry = self._entry(name)
            return entry is not None and entry.lists_partitions

    def has(self, table_id: int) -> bool:
        """Return whether something is kept of a table."""
        return table_id in self._entries

    def count(self, name: QualifiedName, kind: Kind, reason: Miss | None) -> None:
        """Count a hit, or a miss for a reason that the caller knows."""
        with self._lock:
            if reason is None:
                self.counting.hit(kind)
            else:
                self.counting.miss(".".join(name), kind, reason)

    def document(self) -> dict[str, Any]:
        """Return the size and the counts in JSON's types."""
        with self._lock:
            size = {"tables": len(self._entries), "used_bytes": self.used_bytes, "most_bytes": self.most_bytes}
            return {**size, **self.counting.document()}

    # -- filling

    def begin(self) -> int:
        """Return the moment before the reads of a fill."""
        with self._lock:
            return self._sequence

    def put_definition(
        self,
        begun: int,
        table: StoredTable,
        tag: ValidWriteIdList | None,
        views: Mapping[str | None, StoredTable] | None = None,
        *,
        is_used: bool = False,
    ) -> None:
        """Keep a table; without ``views`` for the next snapshots only, or with those that it has already."""
        if not self.lists.include(table.database, table.name):
            return
        with self._lock:
            entry = self._entry_to_fill(table)
            known = entry.definition
            if known is not None and (known.value.table is table or known.value.table == table):
                definition = known.value
            else:
                definition, known = Definition(self._shared.table(table.id, table)), None
            kept_tag = None if known is None else known.tag
            if self._is_unchanged(table.id, begun):
                definition.views.update(views or {})
                if tag is not None:
                    self._settle(entry, tag)
                if tag is None or (kept_tag is not None and covers(kept_tag, tag)):
                    tag = kept_tag
            else:
                tag = kept_tag
            size = size_of_table(table) + OF_VIEW * len(definition.views)
            entry.definition = Part(definition, table.version, tag, size)
            entry.is_used = entry.is_used or is_used
            self._weigh(entry)

    def put_partitions(
        self,
        begun: int,
        table: StoredTable,
        tag: ValidWriteIdList | None,
        found: Sequence[StoredPartition],
        *,
        is_complete: bool,
    ) -> None:
        """Keep partitions of a table, all or in addition to others of the same state."""
        if not self.lists.include(table.database, table.name):
            return
        with self._lock:
            if not self._is_unchanged(table.id, begun):
                return
            entry = self._entry_to_fill(table)
            shared = self._shared.partitions(table.id, found)
            by_values = {each.values: each for each in shared}
            known, size = entry.partitions, size_of_partitions(shared)
            if not is_complete and known is not None and known.version == table.version and _is_same(known.tag, tag):
                if known.value.is_complete:
                    return
                by_values = {**known.value.by_values, **by_values}
                size = size_of_partitions(by_values.values())
            entry.partitions = Part(Partitions(by_values, is_complete), table.version, tag, size)
            entry.lists_partitions = entry.lists_partitions or is_complete
            if tag is not None:
                self._settle(entry, tag)
            self._weigh(entry)

    def put_contents(
        self,
        table: StoredTable,
        tag: ValidWriteIdList | None,
        key: ContentsKey,
        contents: TableContents,
    ) -> None:
        """Keep contents of a table; those of another state make room for them."""
        if not self.lists.include(table.database, table.name):
            return
        with self._lock:
            entry = self._entry_to_fill(table)
            part = Part(contents, table.version, tag, size_of_contents(contents))
            if key is None:
                entry.contents = {None: part}
            else:
                same: dict[ContentsKey, Part[TableContents]] = {
                    other: kept
                    for other, kept in entry.contents.items()
                    if other is not None and kept.version == part.version and kept.tag == part.tag
                }
                for oldest in list(same)[: len(same) - _MOST_PREDICATES + 1]:
                    del same[oldest]
                entry.contents = {**same, key: part}
            self._weigh(entry)

    def predicates_of(self, table: StoredTable, tag: ValidWriteIdList | None) -> int:
        """Return for how many predicates contents of this state of a table are kept."""
        with self._lock:
            entry = self._entries.get(table.id)
            kept = () if entry is None else entry.contents.items()
            return sum(1 for key, part in kept if key is not None and part.version == table.version and part.tag == tag)

    # -- changes

    def forget(self, table_ids: Collection[int]) -> None:
        """Drop the entries of tables that this process has changed; what is being read of them is not kept."""
        with self._lock:
            for table_id in table_ids:
                self._note_change(table_id)
                self._drop(table_id)

    def note_change(self, table_id: int, name: QualifiedName, txn_id: int | None, ids: ValidWriteIdList | None) -> bool:
        """Apply the event of a change; return whether the entry is to be read again now.

        The change of a transaction marks the entry as uncommitted; any other one has happened.
        """
        with self._lock:
            other = self._ids.get(name)
            if other is not None and other != table_id:
                self._drop(other)
            self._note_change(table_id)
            entry = self._entries.get(table_id)
            if entry is None:
                return False
            known = entry.definition
            if txn_id is None or ids is None or (known is not None and not known.value.table.is_transactional):
                return self._outdate(entry)
            self.announce(entry, txn_id, ids)
            return False

    def note_commit(self, txn_id: int, write_ids: Mapping[int, int]) -> set[QualifiedName]:
        """Apply the event of a commit, with the write id of each table by its id.

        Returns the names of the tables whose entries are to be read again, since the transaction has changed them.
        """
        changed = set()
        with self._lock:
            for table_id, write_id in write_ids.items():
                entry = self._entries.get(table_id)
                if entry is None or txn_id in entry.unsettled:
                    continue
                for part in (entry.definition, entry.partitions):
                    if part is None or part.tag is None:
                        continue
                    is_near = write_id - part.tag.high_watermark <= _LONGEST_STEP
                    part.tag = with_committed(part.tag, write_id) if is_near else None
            for entry in [each for each in self._entries.values() if txn_id in each.unsettled]:
                del entry.unsettled[txn_id]
                if self._outdate(entry):
                    changed.add(entry.name)
        return changed

    def note_abort(self, txn_id: int) -> None:
        """Apply the event of an abort: entries that it has changed are dropped."""
        with self._lock:
            for entry in [each for each in self._entries.values() if txn_id in each.unsettled]:
                self._note_change(entry.id)
                self._drop(entry.id)

    def drop_named(self, database: str | None, table: str | None = None) -> None:
        """Drop the entries of a database, of one table, or with None of everything."""
        with self._lock:
            for entry in list(self._entries.values()):
                if database is None or entry.name == (database, table) or (table is None and entry.name[0] == database):
                    self._drop(entry.id)
            self._sequence += 1
            self._changed_floor = self._sequence

    def untag(self) -> None:
        """Let nothing be answered for a list alone until it was read again: events may have been missed.

        What a snapshot confirms by versions and its own lists stays.
        """
        with self._lock:
            self._sequence += 1
            self._changed_floor = self._sequence
            self._changed.clear()
            for entry in self._entries.values():
                self._outdate(entry)

    def leave_to_parent(self) -> None:
        """Go on in a forked process, which has no follower, and where another thread may have had the lock."""
        self._lock = threading.Lock()
        self.followed_until = 0.0
        self.untag()

    # -- the parts of these, under the lock

    def _entry(self, name: QualifiedName) -> Entry | None:
        table_id = self._ids.get(name)
        return None if table_id is None else self._used(table_id)

    def _used(self, table_id: int) -> Entry | None:
        entry = self._entries.get(table_id)
        if entry is not None:
            self._entries.move_to_end(table_id)
        return entry

    def _may_answer(
        self,
        name: QualifiedName,
        kind: Kind,
        entry: Entry | None,
        part: Part[Definition] | Part[Partitions],
        ids: ValidWriteIdList | None,
    ) -> bool:
        assert entry is not None
        entry.is_used = True
        if entry.definition is None:
            self.counting.miss(".".join(name), kind, Miss.COLD)
            return False
        if not entry.definition.value.table.is_transactional:
            if time.monotonic() < self.followed_until:
                return True
            self.counting.miss(".".join(name), kind, Miss.LAGGING)
            return False
        if part.tag is None or ids is None:
            self.counting.miss(".".join(name), kind, Miss.COLD)
            return False
        if entry.unsettled:
            self.counting.miss(".".join(name), kind, Miss.UNCOMMITTED)
            return False
        if ids.mark is not None and (ids.mark.id != entry.id or ids.mark.version > part.version):
            self.counting.miss(".".join(name), kind, Miss.STALE, "the table has changed without a write id")
            return False
        if not self.is_equivalent(part.tag, ids):
            self.counting.miss(".".join(name), kind, Miss.STALE, first_new(part.tag, ids))
            return False
        return True

    def _miss_if_none(self, name: QualifiedName, kind: Kind, part: object) -> None:
        if part is None:
            reason = Miss.EVICTED if name in self._evicted else Miss.COLD
            self.counting.miss(".".join(name), kind, reason)

    def _miss(
        self,
        name: QualifiedName,
        kind: Kind,
        stale: Part[TableContents] | None,
        version: int,
        ids: ValidWriteIdList | None,
    ) -> None:
        if stale is None:
            self._miss_if_none(name, kind, None)
        else:
            detail = f"version {version}" if stale.version != version else first_new(stale.tag, ids)
            self.counting.miss(".".join(name), kind, Miss.STALE, detail)

    def _entry_to_fill(self, table: StoredTable) -> Entry:
        name = (table.database, table.name)
        other = self._ids.get(name)
        if other is not None and other != table.id:
            self._drop(other)
        entry = self._entries.get(table.id)
        if entry is None:
            entry = self._entries[table.id] = Entry(table.id, name)
        elif entry.name != name:
            self._ids.pop(entry.name, None)
            entry.name = name
        self._ids[name] = table.id
        self._entries.move_to_end(table.id)
        return entry

    def _settle(self, entry: Entry, tag: ValidWriteIdList) -> None:
        """Forget announced changes that the database has committed, as what was read has them.

        The other part of the entry may lack such a change, and its event of the commit would not tell that any more.
        """
        for txn_id, ids in list(entry.unsettled.items()):
            if ids is None or not covers(tag, ids):
                continue
            del entry.unsettled[txn_id]
            if entry.definition is not None and not _has(entry.definition.tag, ids):
                entry.definition.tag = None
            if entry.partitions is not None and not _has(entry.partitions.tag, ids):
                entry.partitions = None

    def _outdate(self, entry: Entry) -> bool:
        """Let an entry answer nothing for a list alone; return whether it is read by a list."""
        had_views = False
        if entry.definition is not None:
            had_views = bool(entry.definition.value.views)
            entry.definition.tag = None
            entry.definition.value.views.clear()
        entry.partitions = None
        self.used_bytes += entry.measure()
        return had_views and entry.is_used

    def _note_change(self, table_id: int) -> None:
        self._sequence += 1
        self._changed[table_id] = self._sequence
        self._changed.move_to_end(table_id)
        if len(self._changed) > _MOST_REMEMBERED:
            _, self._changed_floor = self._changed.popitem(last=False)

    def _is_unchanged(self, table_id: int, begun: int) -> bool:
        return self._changed.get(table_id, self._changed_floor) <= begun and self._changed_floor <= begun

    def _weigh(self, entry: Entry) -> None:
        self.used_bytes += entry.measure()
        if self.most_bytes < 0:
            return
        if entry.size > self.most_bytes:
            # All others would make room for it, and in vain.
            self._evict(entry)
        while self.used_bytes > self.most_bytes and self._entries:
            self._evict(next(iter(self._entries.values())))

    def _evict(self, entry: Entry) -> None:
        self._drop(entry.id)
        self.evictions += 1
        self._evicted[entry.name] = None
        if len(self._evicted) > _MOST_REMEMBERED:
            self._evicted.popitem(last=False)

    def _drop(self, table_id: int) -> None:
        entry = self._entries.pop(table_id, None)
        if entry is None:
            return
        self.used_bytes -= entry.size
        self._shared.release(table_id)
        if self._ids.get(entry.name) == table_id:
            del self._ids[entry.name]
