"""The entries of the cache, one for each table: look-ups, updates by events, and the removal of old entries."""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_hivex.core.cache.counting import Counting, Kind, Miss
from airflow_hivex.core.cache.valid_entries import (
    OF_VIEW,
    ContentsKey,
    Definition,
    Entry,
    Part,
    Partitions,
    SharedDescriptors,
    size_of_contents,
    size_of_partitions,
    size_of_table,
)
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.errors import InvalidSettingError
from airflow_hivex.core.model.objects import StoredPartition, StoredTable
from airflow_hivex.core.model.snapshots import History, QualifiedName
from airflow_hivex.core.model.write_ids import TableMark, ValidWriteIdList, covers, equivalent
from airflow_hivex.core.settings import Settings

_MOST_EVICTED = 100_000

_caches: weakref.WeakSet[TableCache] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for cache in list(_caches):
        cache.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def _is_same(a: ValidWriteIdList | None, b: ValidWriteIdList | None) -> bool:
    return equivalent(a, b) if a is not None and b is not None else a is b


class TableCache:
    """The entries of tables, the least recently used first.

    Safe to share between threads; no method queries the database.

    An entry has up to three parts: definition, partitions and contents. To fill a part, call :meth:`begin`, read from
    the database, and call a ``put`` method. The tag of a part is a write id list from before the read. The part has at
    least the commits that its tag has.
    """

    def __init__(self, lists: ObjectLists, most_bytes: int) -> None:
        self.lists = lists
        self.counting = Counting()
        self.used_bytes = 0
        self.most_bytes = most_bytes
        self.evictions = 0
        """The number of entries that were removed to make room for other entries."""
        self.followed_until = 0.0
        """The time (``time.monotonic``) until which tables without write ids are answered from memory."""
        self.history: History | None = None
        """The history of the database in the latest snapshot."""
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._ids: dict[QualifiedName, int] = {}
        self._shared = SharedDescriptors()
        self._lock = threading.Lock()
        self._evicted: OrderedDict[QualifiedName, None] = OrderedDict()
        self._changes = Changes()
        self._announced: dict[int, set[int]] = {}
        """A dict from transaction to the ids of the cached tables for which it has announced a change."""
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_followed(self) -> bool:
        """Return whether the notification log was read lately."""
        return time.monotonic() < self.followed_until

    @property
    def shared_parts(self) -> int:
        """Return the number of distinct columns, SerDes and parameters that the cache keeps for all its tables.

        Equal values are stored once.
        """
        return len(self._shared)

    # -- the two rules; a test removes each of them and must fail then

    def announce(self, entry: Entry, txn_id: int, ids: ValidWriteIdList) -> None:
        """Mark an entry as uncommitted, because an open transaction has announced a change of the table."""
        entry.unsettled[txn_id] = ids
        self._announced.setdefault(txn_id, set()).add(entry.id)

    def is_equivalent(self, tag: ValidWriteIdList, seen: ValidWriteIdList) -> bool:
        """Return whether the write id lists of a cached part, ``tag``, and a reader, ``seen``, see the same commits."""
        return equivalent(tag, seen)

    def note_history(self, before: History | None, now: History) -> bool:
        """Keep ``now`` as the history of the database; return whether ``now`` continues the earlier history ``before``.

        If the history does not continue, the database was restored from a backup, and all entries are dropped.
        """
        with self._lock:
            continues = before is None or now.continues(before)
            if continues and self.history is not None and now.incarnation != self.history.incarnation:
                continues = False
            elif continues and self.history is not None and not now.continues(self.history):
                # Another thread has kept a later history already.
                return True
            self.history = now
        if not continues:
            self.drop_named(None)
        return continues

    # -- answers for snapshots: confirmed by the version and list of the snapshot

    def known(self, names: Collection[QualifiedName]) -> list[StoredTable]:
        """Return the cached tables of these names. A snapshot shows whether they have changed."""
        with self._lock:
            found = (self._entry(name) for name in names)
            return [each.definition.value.table for each in found if each is not None and each.definition is not None]

    def contents(
        self, table: StoredTable, ids: ValidWriteIdList | None, keys: Sequence[ContentsKey]
    ) -> TableContents | None:
        """Return cached contents for a snapshot, or None if the database must be queried.

        ``ids`` is the write id list of the snapshot. The result belongs to the first of ``keys`` that has contents for
        this list and the version of ``table``.
        """
        mark = TableMark(table.id, table.version)
        name = (table.database, table.name)
        with self._lock:
            entry = self._used(table.id)
            refusal: tuple[Miss, str] | None = None
            for key in keys:
                part = None if entry is None else entry.contents.get(key)
                if entry is None or part is None:
                    continue
                refused = entry.refusal(part, ids, is_followed=True, is_equivalent=covers, mark=mark)
                if refused is None:
                    self.counting.hit(Kind.CONTENTS)
                    return part.value
                refusal = refusal or refused
            if refusal is None:
                self._miss_if_none(name, Kind.CONTENTS, None)
            else:
                self.counting.miss(".".join(name), Kind.CONTENTS, *refusal)
            return None

    # -- answers for readers with only a list

    def definition(self, name: QualifiedName, ids: ValidWriteIdList | None, cluster: str | None) -> StoredTable | None:
        """Return the cached table as a cluster sees it, or None if it is not cached or not valid for the list ``ids``.

        ``ids`` is None for a table without write ids.
        """
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
        """Return a table with its cached partitions, or None if they are not cached or not valid for the list ``ids``.

        The caller counts the hit, or a miss if the wanted partition is not cached.
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
            if not self._may_answer(name, Kind.PARTITIONS, entry, entry.definition, ids):
                return None
            return entry.definition.value.table, part.value

    def lists_partitions(self, name: QualifiedName) -> bool:
        """Return whether readers with a write id list have asked for all partitions of a table."""
        with self._lock:
            entry = self._entry(name)
            return entry is not None and entry.lists_partitions

    def has(self, table_id: int) -> bool:
        """Return whether a table has an entry."""
        return table_id in self._entries

    def count(self, name: QualifiedName, kind: Kind, reason: Miss | None) -> None:
        """Count a hit, or a miss for a reason that the caller knows."""
        with self._lock:
            if reason is None:
                self.counting.hit(kind)
            else:
                self.counting.miss(".".join(name), kind, reason)

    def document(self) -> dict[str, Any]:
        """Return the size and the counts as values of JSON."""
        with self._lock:
            size = {"tables": len(self._entries), "used_bytes": self.used_bytes, "most_bytes": self.most_bytes}
            return {**size, **self.counting.document()}

    # -- filling

    def begin(self) -> int:
        """Return the number of changes so far, with which a ``put`` method detects changes during the read."""
        with self._lock:
            return self._changes.now

    def put_definition(
        self,
        begun: int,
        table: StoredTable,
        tag: ValidWriteIdList | None,
        views: Mapping[str | None, StoredTable] | None = None,
        *,
        is_used: bool = False,
    ) -> None:
        """Cache a table. ``views`` is a dict from cluster to the table as the cluster sees it.

        Without any views, the entry answers only readers with a snapshot.
        """
        if not self.lists.include(table.database, table.name):
            return
        with self._lock:
            entry = self._entry_to_fill(table)
            known = entry.definition
            if known is not None and known.version > table.version:
                # The table was read before a change that is cached already.
                return
            if known is not None and (known.value.table is table or known.value.table == table):
                definition = known.value
            else:
                definition, known = Definition(self._shared.table(table.id, table)), None
            kept_tag = None if known is None else known.tag
            if self._changes.has_none_since(table.id, begun):
                definition.views.update(views or {})
                if tag is not None:
                    self._settle(entry, tag)
                if tag is None or (kept_tag is not None and covers(kept_tag, tag)):
                    tag = kept_tag
            else:
                tag = kept_tag
            size = size_of_table(table) + OF_VIEW * len(definition.views)
            entry.definition = Part(definition, table.version, tag, size, table.is_transactional)
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
        """Cache partitions of a table.

        If ``is_complete``, they are all partitions. Otherwise they are added to the cached partitions that have the
        same table version and write id list.
        """
        if not self.lists.include(table.database, table.name):
            return
        with self._lock:
            if not self._changes.has_none_since(table.id, begun):
                return
            entry = self._entry_to_fill(table)
            known = entry.partitions
            adds = not is_complete and known is not None and known.version == table.version
            adds = adds and known is not None and _is_same(known.tag, tag)
            if adds and known is not None and known.value.is_complete:
                return
            shared = self._shared.partitions(table.id, found, replaces=not adds)
            by_values, size = {each.values: each for each in shared}, size_of_partitions(shared)
            if adds and known is not None:
                by_values = {**known.value.by_values, **by_values}
                size = size_of_partitions(by_values.values())
            entry.partitions = Part(
                Partitions(by_values, is_complete), table.version, tag, size, table.is_transactional
            )
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
        """Cache contents of a table. Drop contents that were cached for another version or write id list."""
        if not self.lists.include(table.database, table.name):
            return
        with self._lock:
            entry = self._entry_to_fill(table)
            part = Part(contents, table.version, tag, size_of_contents(contents), table.is_transactional)
            entry.add_contents(key, part)
            self._weigh(entry)

    def predicates_of(self, table: StoredTable, tag: ValidWriteIdList | None) -> int:
        """Return the number of predicates with contents that are cached for the version of ``table`` and ``tag``."""
        with self._lock:
            entry = self._entries.get(table.id)
            kept = () if entry is None else entry.contents.items()
            return sum(1 for key, part in kept if key is not None and part.version == table.version and part.tag == tag)

    # -- changes

    def forget(self, table_ids: Collection[int]) -> None:
        """Drop the entries of tables that this process has changed. Results of reads that run now are not cached."""
        with self._lock:
            for table_id in table_ids:
                self._changes.note(table_id)
                self._drop(table_id)

    def note_change(self, table_id: int, name: QualifiedName, txn_id: int | None, ids: ValidWriteIdList | None) -> bool:
        """Apply the event of a change; return whether the entry must be read again now.

        If an open transaction made the change, the entry is only marked as uncommitted.
        """
        with self._lock:
            other = self._ids.get(name)
            if other is not None and other != table_id:
                self._drop(other)
            self._changes.note(table_id)
            entry = self._entries.get(table_id)
            if entry is None:
                return False
            known = entry.definition
            if txn_id is None or ids is None or (known is not None and not known.value.table.is_transactional):
                return self._outdate(entry)
            if not entry.has_all_of(ids):
                self.announce(entry, txn_id, ids)
            return False

    def note_commit(self, txn_id: int, write_ids: Mapping[int, int]) -> set[QualifiedName]:
        """Apply the event of a commit; return the names of the changed tables whose entries must be read again.

        ``write_ids`` is a dict from table id to the write id of the transaction.
        """
        changed = set()
        with self._lock:
            for table_id, write_id in write_ids.items():
                entry = self._entries.get(table_id)
                if entry is not None and txn_id not in entry.unsettled:
                    entry.carry_on(write_id)
            for table_id in self._announced.pop(txn_id, ()):
                entry = self._entries[table_id]
                del entry.unsettled[txn_id]
                if self._outdate(entry):
                    changed.add(entry.name)
        return changed

    def note_abort(self, txn_id: int) -> None:
        """Apply the event of an abort: drop the entries of tables whose change the transaction has announced."""
        with self._lock:
            for table_id in list(self._announced.get(txn_id, ())):
                self._changes.note(table_id)
                self._drop(table_id)

    def drop_named(self, database: str | None, table: str | None = None) -> None:
        """Drop the entry of a table, all entries of a database, or all entries if ``database`` is None."""
        with self._lock:
            for entry in list(self._entries.values()):
                if database is None or entry.name == (database, table) or (table is None and entry.name[0] == database):
                    self._drop(entry.id)
            self._changes.note_all()

    def untag(self) -> None:
        """Make entries answer only readers with a snapshot, until the tables are read again.

        Call this method if events were possibly missed. A snapshot shows by its list and version whether an entry is
        current.
        """
        with self._lock:
            self._changes.note_all()
            for entry in self._entries.values():
                self._outdate(entry)

    def leave_to_parent(self) -> None:
        """Reset the lock and the tags in a forked process.

        A thread of the parent process possibly held the lock, and the forked process has no follower.
        """
        self._lock = threading.Lock()
        self.followed_until = 0.0
        self.untag()

    # -- parts of these methods, called under the lock

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
        refusal = entry.refusal(part, ids, is_followed=self.is_followed, is_equivalent=self.is_equivalent)
        if refusal is not None:
            self.counting.miss(".".join(name), kind, *refusal)
        return refusal is None

    def _miss_if_none(self, name: QualifiedName, kind: Kind, part: object) -> None:
        if part is None:
            reason = Miss.EVICTED if name in self._evicted else Miss.COLD
            self.counting.miss(".".join(name), kind, reason)

    def _entry_to_fill(self, table: StoredTable) -> Entry:
        name = (table.database, table.name)
        other = self._ids.get(name)
        if other is not None and other != table.id:
            self._drop(other)
        entry = self._entries.get(table.id)
        if entry is None:
            entry = self._entries[table.id] = Entry(table.id, name)
        elif entry.name != name:
            if self._ids.get(entry.name) == table.id:
                del self._ids[entry.name]
            entry.name = name
        self._ids[name] = table.id
        self._entries.move_to_end(table.id)
        return entry

    def _settle(self, entry: Entry, tag: ValidWriteIdList) -> None:
        self._settled(entry.id, entry.settle(tag))
        if entry.partitions is None:
            self._shared.release_partitions(entry.id)

    def _settled(self, table_id: int, txn_ids: Collection[int]) -> None:
        for txn_id in txn_ids:
            tables = self._announced.get(txn_id, set())
            tables.discard(table_id)
            if not tables:
                self._announced.pop(txn_id, None)

    def _outdate(self, entry: Entry) -> bool:
        is_read = entry.outdate()
        self._shared.release_partitions(entry.id)
        self.used_bytes += entry.measure()
        return is_read

    def _weigh(self, entry: Entry) -> None:
        self.used_bytes += entry.measure()
        if self.most_bytes < 0:
            return
        if entry.size > self.most_bytes:
            # The entry alone exceeds the memory: it must not displace all others.
            self._evict(entry)
        while self.used_bytes > self.most_bytes and self._entries:
            self._evict(next(iter(self._entries.values())))

    def _evict(self, entry: Entry) -> None:
        self._drop(entry.id)
        self.evictions += 1
        self._evicted[entry.name] = None
        if len(self._evicted) > _MOST_EVICTED:
            self._evicted.popitem(last=False)

    def _drop(self, table_id: int) -> None:
        entry = self._entries.pop(table_id, None)
        if entry is None:
            return
        self.used_bytes -= entry.size
        self._settled(table_id, entry.unsettled)
        self._shared.release(table_id)
        if self._ids.get(entry.name) == table_id:
            del self._ids[entry.name]


_MOST_REMEMBERED = 100_000


class Changes:
    """The time of the last change of each table, as a count of changes. The cache calls the methods under its lock.

    A table whose last change is not known any more counts as changed.
    """

    def __init__(self) -> None:
        self.now = 0
        """The number of all changes so far, used as a clock."""
        self._last: OrderedDict[int, int] = OrderedDict()
        self._floor = 0

    def note(self, table_id: int) -> None:
        """Record a change of a table."""
        self.now += 1
        self._last[table_id] = self.now
        self._last.move_to_end(table_id)
        if len(self._last) > _MOST_REMEMBERED:
            _, self._floor = self._last.popitem(last=False)

    def note_all(self) -> None:
        """Record a change of all tables."""
        self.now += 1
        self._floor = self.now
        self._last.clear()

    def has_none_since(self, table_id: int, begun: int) -> bool:
        """Return whether a table has not changed since ``begun``, an earlier value of ``now``."""
        return max(self._last.get(table_id, 0), self._floor) <= begun


CATALOG = "hive"
"""The catalog in names of tables. Hive's clients see no other catalog."""

_MOST_KNOWN = 100_000


class ObjectLists:
    """White list and black list of tables to cache, as patterns of ``catalog.database.table``. The black list wins.

    A pattern matches the whole name: ``hive[.]sales[.].*`` matches the tables of the database ``sales``, and
    ``sales.*`` matches none of them. Source: Hive CachedStore.shouldCacheTable.
    """

    def __init__(self, settings: Settings) -> None:
        catalogs = settings["metastore.cached.rawstore.catalogs"]
        self._is_cached = not catalogs or CATALOG in catalogs
        self._white = _patterns(settings, "metastore.cached.rawstore.cached.object.whitelist")
        self._black = _patterns(settings, "metastore.cached.rawstore.cached.object.blacklist")
        self._known: dict[tuple[str, str], bool] = {}

    def include(self, database: str, table: str) -> bool:
        """Return whether the lists allow the cache to keep a table."""
        known = self._known.get((database, table))
        if known is None:
            name = f"{CATALOG}.{database}.{table}"
            known = (
                self._is_cached
                and not any(pattern.fullmatch(name) for pattern in self._black)
                and any(pattern.fullmatch(name) for pattern in self._white)
            )
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[database, table] = known
        return known


def _patterns(settings: Settings, name: str) -> Sequence[re.Pattern[str]]:
    """Return the regular expressions of a setting.

    Raises:
        InvalidSettingError: a pattern is not a regular expression.
    """
    patterns = []
    for text in settings[name]:
        try:
            patterns.append(re.compile(text, re.IGNORECASE))
        except re.error as error:
            raise InvalidSettingError(name, text, f"a list of regular expressions ({error})") from error
    return patterns
