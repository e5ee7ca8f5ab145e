"""The cached metadata of one table in parts, each with a write id list and version, and the check before an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_hivex.core.cache.counting import Miss, first_new
from airflow_hivex.core.catalog.contents import TableContents
from airflow_hivex.core.catalog.pruning import allowed_values, matching
from airflow_hivex.core.model.objects import StorageDescriptor, StoredPartition, StoredTable
from airflow_hivex.core.model.predicates import Predicate
from airflow_hivex.core.model.snapshots import QualifiedName
from airflow_hivex.core.model.write_ids import TableMark, ValidWriteIdList, covers, with_committed

V = TypeVar("V")

_MOST_PREDICATES = 16
"""The largest number of predicates of a table whose contents are kept."""
_LONGEST_STEP = 10_000
"""The largest number of write ids by which a commit can raise the tag of a part. A larger step removes the tag."""

ContentsKey: TypeAlias = tuple[Predicate, frozenset[str]] | None
"""A predicate on partition keys, with the clusters whose copies are wanted. None stands for the whole table."""
# Sizes of objects in CPython in bytes, measured with tracemalloc on 64 bits (benchmarks/cache.py reports them).
OF_VIEW = 300
_OF_TABLE, _OF_COLUMN, _OF_TEXT = 1900, 230, 50
_OF_PARTITION, _OF_FOUND, _OF_DIRECTORY, _OF_COPY = 900, 260, 330, 110


@dataclass(slots=True)
class Part(Generic[V]):
    """A value that was read from the database.

    The value includes all commits that the write id list ``tag`` sees, and belongs to the table's ``version``. Without
    a ``tag``, the value answers only readers that know the version. ``has_write_ids`` is true if the table was
    transactional when it was read.
    """

    value: V
    version: int
    tag: ValidWriteIdList | None
    size: int
    has_write_ids: bool


@dataclass(slots=True)
class Definition:
    """A table as the database has it, and as clusters see it.

    ``views`` is a dict from cluster to the table as this cluster sees it; None stands for a client without a cluster.
    """

    table: StoredTable
    views: dict[str | None, StoredTable] = field(default_factory=dict)


def _id_of(partition: StoredPartition) -> int:
    return partition.id


def _values_of(partition: StoredPartition) -> Sequence[str]:
    return partition.values


@dataclass(slots=True)
class Partitions:
    """Partitions by their values, in the order of ids, as a client without a cluster sees them.

    ``is_complete`` is true if these are all partitions of the table.
    """

    by_values: dict[tuple[str, ...], StoredPartition]
    is_complete: bool
    names: Sequence[str] | None = None
    by_key: list[dict[str, list[StoredPartition]]] | None = None
    """An index: for each partition key, a dict from a value of the key to the partitions with this value."""

    def chosen(self, table: StoredTable, predicate: Predicate | None) -> Sequence[StoredPartition]:
        """Return the partitions whose rows can satisfy a predicate, in the order of ids."""
        if predicate is None:
            return list(self.by_values.values())
        index = self._index(len(table.partition_keys))
        allowed = allowed_values(table, predicate, index)
        candidates = [
            (sum(len(index[position][text]) for text in texts), position, texts)
            for position, texts in enumerate(allowed)
            if texts is not None
        ]
        if not candidates:
            rows = list(self.by_values.values())
        else:
            _, position, chosen = min(candidates, key=lambda each: each[0])
            rows = sorted((each for text in chosen for each in index[position][text]), key=_id_of)
        return matching(rows, table.partition_keys, predicate, _values_of)

    def _index(self, keys: int) -> list[dict[str, list[StoredPartition]]]:
        if self.by_key is None:
            index: list[dict[str, list[StoredPartition]]] = [{} for _ in range(keys)]
            for each in self.by_values.values():
                for position, text in enumerate(each.values):
                    index[position].setdefault(text, []).append(each)
            self.by_key = index
        return self.by_key

    def sorted_names(self) -> Sequence[str]:
        """Return the names of all partitions, sorted."""
        if self.names is None:
            self.names = sorted(each.name for each in self.by_values.values())
        return self.names


@dataclass(slots=True)
class Entry:
    """The cached parts of one table.

    ``unsettled`` has the announced changes of open transactions: a dict from transaction to the write id list after the
    change. ``is_used`` is true if a caller has read the table by a write id list; the follower then keeps the entry
    current. ``lists_partitions`` is true if callers have read all partitions.
    """

    id: int
    name: QualifiedName
    definition: Part[Definition] | None = None
    partitions: Part[Partitions] | None = None
    contents: dict[ContentsKey, Part[TableContents]] = field(default_factory=dict)
    unsettled: dict[int, ValidWriteIdList | None] = field(default_factory=dict)
    is_used: bool = False
    lists_partitions: bool = False
    size: int = 0

    def add_contents(self, key: ContentsKey, part: Part[TableContents]) -> None:
        """Keep contents for a key.

        Contents of another version or write id list are dropped. If there are too many keys, the oldest contents are
        dropped.
        """
        if key is None:
            self.contents = {None: part}
            return
        same: dict[ContentsKey, Part[TableContents]] = {
            other: kept
            for other, kept in self.contents.items()
            if other is not None and kept.version == part.version and kept.tag == part.tag
        }
        for oldest in list(same)[: len(same) - _MOST_PREDICATES + 1]:
            del same[oldest]
        self.contents = {**same, key: part}

    def settle(self, tag: ValidWriteIdList) -> list[int]:
        """Remove the announced changes that are committed in ``tag``, and return their transactions.

        ``tag`` is the list of the part that was just read: the definition or the partitions. If the other of these two
        parts lacks such a change, this method drops that part.
        """
        settled = [txn_id for txn_id, ids in self.unsettled.items() if ids is not None and covers(tag, ids)]
        for txn_id in settled:
            ids = self.unsettled.pop(txn_id)
            assert ids is not None
            if self.definition is not None and not _has(self.definition.tag, ids):
                self.definition.tag = None
            if self.partitions is not None and not _has(self.partitions.tag, ids):
                self.partitions = None
        return settled

    def has_all_of(self, ids: ValidWriteIdList) -> bool:
        """Return whether the cached definition and partitions were read after the commit of a change.

        ``ids`` is a write id list in which the change counts as committed. The result is true for changes of this
        process, because each process renews its own entries.
        """
        parts = [part for part in (self.definition, self.partitions) if part is not None]
        return bool(parts) and all(_has(part.tag, ids) for part in parts)

    def outdate(self) -> bool:
        """Drop the parts that answer readers with only a write id list.

        Return whether the entry had such parts, and such a reader has used the entry.
        """
        has_answers = self.partitions is not None
        if self.definition is not None:
            has_answers = has_answers or bool(self.definition.value.views)
            self.definition.tag = None
            self.definition.value.views.clear()
        self.partitions = None
        return has_answers and self.is_used

    def carry_on(self, write_id: int) -> None:
        """Add to the tags the write id of a commit that has not changed the definition or the partitions."""
        for part in (self.definition, self.partitions):
            if part is None or part.tag is None:
                continue
            is_near = write_id - part.tag.high_watermark <= _LONGEST_STEP
            part.tag = with_committed(part.tag, write_id) if is_near else None

    def refusal(
        self,
        part: Part[Any],
        ids: ValidWriteIdList | None,
        *,
        is_followed: bool,
        is_equivalent: Callable[[ValidWriteIdList, ValidWriteIdList], bool],
        mark: TableMark | None = None,
    ) -> tuple[Miss, str] | None:
        """Return the reason and detail why a part must not answer a reader, or None if the part is valid.

        Each answer from the cache is checked here. The rule compares first the id of the table, then the write id list,
        and then the version. ``mark`` is the id and version of the table in the reader's snapshot; by default, ``mark``
        is taken from the list ``ids``, if ``ids`` has a mark. ``is_followed`` is true if the notification log was read
        lately. If it is false, a reader without list and version gets no answer.
        """
        wanted = mark or (None if ids is None else ids.mark)
        if wanted is not None and wanted.id != self.id:
            return Miss.STALE, "another table has the name"
        if ids is not None:
            if part.tag is None:
                return Miss.COLD, ""
            if mark is None and self.unsettled:
                return Miss.UNCOMMITTED, ""
            if not is_equivalent(part.tag, ids):
                return Miss.STALE, first_new(part.tag, ids)
        elif part.has_write_ids:
            # Without a list, the wanted state of a table with write ids is unknown.
            return Miss.COLD, ""
        if wanted is not None and (wanted.version != part.version if mark else wanted.version > part.version):
            return Miss.STALE, f"version {wanted.version}"
        if wanted is None and not part.has_write_ids and not is_followed:
            return Miss.LAGGING, ""
        return None

    def measure(self) -> int:
        """Compute the size of all parts in bytes, and return the number of bytes by which it has grown."""
        parts: Iterable[Part[Definition] | Part[Partitions] | Part[TableContents] | None] = (
            self.definition,
            self.partitions,
            *self.contents.values(),
        )
        before, self.size = self.size, sum(part.size for part in parts if part is not None)
        return self.size - before


def _has(tag: ValidWriteIdList | None, ids: ValidWriteIdList) -> bool:
    return tag is not None and covers(tag, ids)


def _texts(values: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) + 2 * _OF_TEXT for key, value in values.items())


def _size_of_storage(storage: StorageDescriptor) -> int:
    copies = (storage.primary, *storage.secondaries)
    return (
        _OF_COLUMN * len(storage.columns)
        + _texts(storage.serde_parameters)
        + _texts(storage.parameters)
        + sum(_OF_COPY + len(copy.location) + len(copy.valid_write_ids or "") for copy in copies)
    )


def size_of_table(table: StoredTable) -> int:
    """Return the estimated size of a table in bytes."""
    texts = (table.view_original_text, table.view_expanded_text, table.comment)
    return (
        _OF_TABLE
        + _size_of_storage(table.storage)
        + _OF_COLUMN * len(table.partition_keys)
        + _texts(table.parameters)
        + sum(len(text) for text in texts if text)
    )


def size_of_partitions(found: Iterable[StoredPartition]) -> int:
    """Return the estimated size of partitions in bytes."""
    return sum(
        _OF_PARTITION
        + 2 * len(each.name)
        + len(each.location)
        + _texts(each.parameters)
        + (0 if each.storage is None else _size_of_storage(each.storage))
        for each in found
    )


def size_of_contents(contents: TableContents) -> int:
    """Return the estimated size of the contents of a table in bytes."""
    return (
        _OF_TEXT
        + sum(_OF_FOUND + 2 * len(each.name) for each in contents.partitions)
        + sum(_OF_DIRECTORY * len(each) for each in contents.directories.values())
        + sum(_OF_COPY * len(each) for each in contents.locations.values())
        + sum(_OF_COPY * len(each) for each in contents.held.values())
    )


T = TypeVar("T", bound=Hashable)

_DEFINITION, _PARTITIONS = "definition", "partitions"


class SharedDescriptors:
    """A store that keeps equal columns, SerDes and parameters of storage descriptors only once.

    Locations are not shared, since each storage descriptor has its own. An owner is the id of a table. Values are kept
    while the current definition or partitions of an owner use them. The cache calls the methods under its lock. Source:
    Hive SharedCache.StorageDescriptorWrapper.
    """

    def __init__(self) -> None:
        self._parts: dict[Hashable, Any] = {}
        self._holders: Counter[Hashable] = Counter()
        self._held: dict[tuple[int, str], set[Hashable]] = {}
        """A dict from owner and kind (definition or partitions) to the keys of the shared values that it uses."""

    def __len__(self) -> int:
        return len(self._parts)

    def table(self, owner: int, table: StoredTable) -> StoredTable:
        """Return a table whose columns, SerDe and parameters are shared objects: equal values are stored once.

        The values of the owner's earlier definition are released.
        """
        before = self._held.pop((owner, _DEFINITION), set())
        holder = (owner, _DEFINITION)
        shared = replace(
            table,
            storage=self._storage(holder, table.storage),
            partition_keys=self._part(holder, table.partition_keys),
        )
        self._leave(before)
        return shared

    def partitions(
        self, owner: int, found: Iterable[StoredPartition], *, replaces: bool = True
    ) -> list[StoredPartition]:
        """Return partitions whose columns, SerDe and parameters are shared objects: equal values are stored once.

        If ``replaces`` is true, the values of the owner's earlier partitions are released.
        """
        holder = (owner, _PARTITIONS)
        before = self._held.pop(holder, set()) if replaces else set()
        shared = [
            each if each.storage is None else replace(each, storage=self._storage(holder, each.storage))
            for each in found
        ]
        self._leave(before)
        return shared

    def release(self, owner: int) -> None:
        """Release all values of an owner. Values without another owner are removed."""
        for kind in (_DEFINITION, _PARTITIONS):
            self._leave(self._held.pop((owner, kind), set()))

    def release_partitions(self, owner: int) -> None:
        """Release the values of an owner's partitions. Values without another owner are removed."""
        self._leave(self._held.pop((owner, _PARTITIONS), set()))

    def _leave(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key], self._parts[key]

    def _storage(self, holder: tuple[int, str], storage: StorageDescriptor) -> StorageDescriptor:
        return replace(
            storage,
            columns=self._part(holder, storage.columns),
            serde=self._part(holder, storage.serde),
            serde_parameters=self._mapping(holder, storage.serde_parameters),
            parameters=self._mapping(holder, storage.parameters),
        )

    def _part(self, holder: tuple[int, str], part: T) -> T:
        return self._hold(holder, (type(part), part), part)  # type: ignore[no-any-return]

    def _mapping(self, holder: tuple[int, str], mapping: Mapping[str, str]) -> Mapping[str, str]:
        items: Sequence[tuple[str, str]] = tuple(sorted(mapping.items()))
        return self._hold(holder, (dict, items), mapping)  # type: ignore[no-any-return]

    def _hold(self, holder: tuple[int, str], key: Hashable, part: Any) -> Any:
        if key not in self._parts:
            self._parts[key] = part
        held = self._held.setdefault(holder, set())
        if key not in held:
            held.add(key)
            self._holders[key] += 1
        return self._parts[key]
