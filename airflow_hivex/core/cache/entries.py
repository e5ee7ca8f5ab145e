"""The cached parts of one table, each with the state of the table that it belongs to; equal parts are kept once."""

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
"""The most predicates of a table for which contents are kept."""
_LONGEST_STEP = 10_000
"""A tag is not carried on over more unknown write ids than this."""

ContentsKey: TypeAlias = tuple[Predicate, frozenset[str]] | None
"""A predicate of partition keys with the clusters whose copies are wanted; None stands for all of the table."""

# Bytes that CPython takes, measured with tracemalloc on 64 bits (benchmarks/cache.py reports them).
OF_VIEW = 300
_OF_TABLE, _OF_COLUMN, _OF_TEXT = 1900, 230, 50
_OF_PARTITION, _OF_FOUND, _OF_DIRECTORY, _OF_COPY = 900, 260, 330, 110


@dataclass(slots=True)
class Part(Generic[V]):
    """A value that was read from the database.

    It has all that the write ids of ``tag`` have committed, and the table's ``version``. ``tag`` is None for a value
    that only a version can confirm. ``has_write_ids`` says that the table was transactional when it was read.
    """

    value: V
    version: int
    tag: ValidWriteIdList | None
    size: int
    has_write_ids: bool


@dataclass(slots=True)
class Definition:
    """A table as the database has it, and as clients on clusters see it (None: a client that knows no clusters)."""

    table: StoredTable
    views: dict[str | None, StoredTable] = field(default_factory=dict)


def _id_of(partition: StoredPartition) -> int:
    return partition.id


def _values_of(partition: StoredPartition) -> Sequence[str]:
    return partition.values


@dataclass(slots=True)
class Partitions:
    """Partitions as a client without a cluster sees them, by their values in the order of ids.

    ``is_complete`` says that the table has no others.
    """

    by_values: dict[tuple[str, ...], StoredPartition]
    is_complete: bool
    names: Sequence[str] | None = None
    by_key: list[dict[str, list[StoredPartition]]] | None = None
    """The partitions of each value of each key."""

    def chosen(self, table: StoredTable, predicate: Predicate | None) -> Sequence[StoredPartition]:
        """Return the partitions whose rows may satisfy a predicate, by id."""
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
    """The parts of one table.

    ``unsettled`` are transactions that have announced a change of it and not committed, with the write id lists of
    these changes. ``is_used`` says that a caller has read it by a write id list, so that the follower keeps it current;
    ``lists_partitions`` that they have read all of its partitions.
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
        """Keep contents; drop contents of another state, and the oldest ones of too many predicates."""
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
        """Forget announced changes that the database has committed, as the part that was read with ``tag`` has them.

        The other part of the entry may lack such a change, and the event of its commit would not show that any more.
        Returns the transactions of these changes.
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
        """Return whether definition and partitions were read after the commit of a change with this list.

        In its list the change counts as committed. So it is for a change of this process, which it keeps itself.
        """
        parts = [part for part in (self.definition, self.partitions) if part is not None]
        return bool(parts) and all(_has(part.tag, ids) for part in parts)

    def outdate(self) -> bool:
        """Let the entry answer nothing for a list alone; return whether it is read by a list."""
        has_answers = self.partitions is not None
        if self.definition is not None:
            has_answers = has_answers or bool(self.definition.value.views)
            self.definition.tag = None
            self.definition.value.views.clear()
        self.partitions = None
        return has_answers and self.is_used

    def carry_on(self, write_id: int) -> None:
        """Note the commit of a write id that has changed nothing of the definition and the partitions."""
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
        """Return why a part may not answer a reader, with a detail; None where it may. Every answer is asked here.

        The rule looks at the identity of the table, at the list, and at the version, in this order. ``mark`` is that
        of the reader's snapshot; without it the mark of the list counts, if the list has one. ``is_followed`` says
        that the notification log was read lately: a reader who knows neither a list nor a version depends on it.
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
            # Only a list says which state of a table with write ids is wanted.
            return Miss.COLD, ""
        if wanted is not None and (wanted.version != part.version if mark else wanted.version > part.version):
            return Miss.STALE, f"version {wanted.version}"
        if wanted is None and not part.has_write_ids and not is_followed:
            return Miss.LAGGING, ""
        return None

    def measure(self) -> int:
        """Note the size of all parts, and return by how much it has grown."""
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
    """Return about how many bytes a table takes."""
    texts = (table.view_original_text, table.view_expanded_text, table.comment)
    return (
        _OF_TABLE
        + _size_of_storage(table.storage)
        + _OF_COLUMN * len(table.partition_keys)
        + _texts(table.parameters)
        + sum(len(text) for text in texts if text)
    )


def size_of_partitions(found: Iterable[StoredPartition]) -> int:
    """Return about how many bytes partitions take."""
    return sum(
        _OF_PARTITION
        + 2 * len(each.name)
        + len(each.location)
        + _texts(each.parameters)
        + (0 if each.storage is None else _size_of_storage(each.storage))
        for each in found
    )


def size_of_contents(contents: TableContents) -> int:
    """Return about how many bytes the contents of a table take."""
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
    """Gives equal parts of storage descriptors as one object. Source: Hive SharedCache.StorageDescriptorWrapper.

    A storage descriptor has the location of one table, so that its columns, SerDe and parameters are shared instead of
    all of it. Each owner, a table by its id, holds the parts of its definition and those of its partitions, until these
    are replaced by others or the owner is released. The cache calls it under its lock.
    """

    def __init__(self) -> None:
        self._parts: dict[Hashable, Any] = {}
        self._holders: Counter[Hashable] = Counter()
        self._held: dict[tuple[int, str], set[Hashable]] = {}
        """The parts of the definition, and of the partitions, of each owner."""

    def __len__(self) -> int:
        return len(self._parts)

    def table(self, owner: int, table: StoredTable) -> StoredTable:
        """Return the same table with shared parts, in the place of its earlier definition."""
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
        """Return the same partitions; those with storage descriptors of their own with shared parts.

        ``replaces`` says that the owner keeps no others.
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
        """Forget the parts that only ``owner`` holds."""
        for kind in (_DEFINITION, _PARTITIONS):
            self._leave(self._held.pop((owner, kind), set()))

    def release_partitions(self, owner: int) -> None:
        """Forget the parts that only the partitions of ``owner`` hold."""
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
