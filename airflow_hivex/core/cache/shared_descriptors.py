"""Storage descriptors that are kept once for all tables and partitions with the same content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from airflow_hivex.core.model.objects import StorageDescriptor, StoredPartition, StoredTable

T = TypeVar("T", bound=Hashable)


class SharedDescriptors:
    """Gives equal parts of storage descriptors as one object. Source: Hive SharedCache.StorageDescriptorWrapper.

    A storage descriptor has the location of one table, so that its columns, SerDe and parameters are shared instead of
    all of it. Each owner, a table by its id, holds a part until it is released. The cache calls it under its lock.
    """

    def __init__(self) -> None:
        self._parts: dict[Hashable, Any] = {}
        self._holders: Counter[Hashable] = Counter()
        self._held: dict[int, set[Hashable]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def table(self, owner: int, table: StoredTable) -> StoredTable:
        """Return the same table with shared parts."""
        return replace(
            table,
            storage=self._storage(owner, table.storage),
            partition_keys=self._part(owner, table.partition_keys),
        )

    def partitions(self, owner: int, found: Iterable[StoredPartition]) -> list[StoredPartition]:
        """Return the same partitions; those with storage descriptors of their own with shared parts."""
        return [
            each if each.storage is None else replace(each, storage=self._storage(owner, each.storage))
            for each in found
        ]

    def release(self, owner: int) -> None:
        """Forget the parts that only ``owner`` holds."""
        for key in self._held.pop(owner, ()):
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key], self._parts[key]

    def _storage(self, owner: int, storage: StorageDescriptor) -> StorageDescriptor:
        return replace(
            storage,
            columns=self._part(owner, storage.columns),
            serde=self._part(owner, storage.serde),
            serde_parameters=self._mapping(owner, storage.serde_parameters),
            parameters=self._mapping(owner, storage.parameters),
        )

    def _part(self, owner: int, part: T) -> T:
        return self._hold(owner, (type(part), part), part)  # type: ignore[no-any-return]

    def _mapping(self, owner: int, mapping: Mapping[str, str]) -> Mapping[str, str]:
        items: Sequence[tuple[str, str]] = tuple(sorted(mapping.items()))
        return self._hold(owner, (dict, items), mapping)  # type: ignore[no-any-return]

    def _hold(self, owner: int, key: Hashable, part: Any) -> Any:
        if key not in self._parts:
            self._parts[key] = part
        held = self._held.setdefault(owner, set())
        if key not in held:
            held.add(key)
            self._holders[key] += 1
        return self._parts[key]
