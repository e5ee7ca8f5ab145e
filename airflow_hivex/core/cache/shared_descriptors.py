"""Storage descriptors that are kept once for all tables and partitions with the same content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from airflow_hivex.core.model.objects import StorageDescriptor, StoredPartition, StoredTable

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
