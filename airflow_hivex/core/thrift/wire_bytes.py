"""The bytes of tables and partitions as they go over the wire, kept next to the cache of metadata.

The cache returns the same object as long as nothing has changed, so bytes are those of an object, not of a name: no
rule of its own says when they are old.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class WireBytes:
    """Bytes that were made of objects of the cache, up to a number of bytes; the least recently used go first.

    Safe to share between threads.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, tuple[tuple[Any, ...], Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.used_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, *objects: Any) -> Any | None:
        """Return the value that was kept under a key, if it was made of these very objects."""
        found = self._kept.get(key)
        if found is None:
            return None
        for one, other in zip(found[0], objects, strict=True):
            if one is not other:
                return None
        return found[1]

    def keep(self, key: Hashable, value: Any, size: int, *objects: Any) -> None:
        """Keep a value of ``size`` bytes that was made of objects."""
        if size > self._most_bytes // 4:
            return
        with self._lock:
            self._drop(key)
            self._kept[key] = (objects, value, size)
            self.used_bytes += size
            while self.used_bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def made(self, key: Hashable, make: Callable[[], bytes], *objects: Any) -> bytes:
        """Return the bytes of objects, made now if they are not kept."""
        found: bytes | None = self.of(key, *objects)
        if found is None:
            found = make()
            self.keep(key, found, len(found) + _OF_ENTRY, *objects)
        return found

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.used_bytes -= found[2]


_OF_ENTRY = 400
"""Bytes that an entry takes besides its value."""
