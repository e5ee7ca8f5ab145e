"""The order of changes and fills: a fill that a change has overtaken is not kept."""

from __future__ import annotations

from collections import OrderedDict

_MOST_REMEMBERED = 100_000


class Changes:
    """When a change of each table was announced last, counted by the changes. The cache calls it under its lock.

    Where it is not known any more, a table counts as changed.
    """

    def __init__(self) -> None:
        self.now = 0
        """The number of changes so far: the moment before the reads of a fill."""
        self._last: OrderedDict[int, int] = OrderedDict()
        self._floor = 0

    def note(self, table_id: int) -> None:
        """Note a change of a table."""
        self.now += 1
        self._last[table_id] = self.now
        self._last.move_to_end(table_id)
        if len(self._last) > _MOST_REMEMBERED:
            _, self._floor = self._last.popitem(last=False)

    def note_all(self) -> None:
        """Note that each table may have changed."""
        self.now += 1
        self._floor = self.now
        self._last.clear()

    def has_none_since(self, table_id: int, begun: int) -> bool:
        """Return whether no change of a table was announced since the moment ``begun``."""
        return max(self._last.get(table_id, 0), self._floor) <= begun
