"""Snapshots: the transactions that a reader sees, and the write ids of a table that a reader sees.

A list sees all ids up to a high watermark except its exceptions, which are open or aborted. Lists cannot be changed.

Source: docs/reference/snapshots.md.
"""

from __future__ import annotations

import enum
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from airflow_hivex.core.errors import InvalidWriteIdListError

MAX_ID = 2**63 - 1
"""The largest id. As a min open id it means: no id is open. As a high watermark it means: all ids are visible."""

_SHORTEST_RANGE = 5
# A snapshot has at most as many open transactions as hive.max.open.txns allows; a wider range is damaged, and its ids
# would fill the memory.
_WIDEST_RANGE = 10_000_000
_SINGLES = re.compile(r"(?:[0-9]+(?:,[0-9]+)*)?")
_RANGES = re.compile(r"(?:[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)?")


class TableMark(NamedTuple):
    """The identity of a table at one moment: its id and its version."""

    id: int
    version: int


class RangeResponse(enum.Enum):
    """The answer to the question whether the ids of a range are valid, or are aborted: ALL, SOME or NONE of them."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


def _how_many(count: int, lo: int, hi: int) -> RangeResponse:
    if count == 0:
        return RangeResponse.NONE
    return RangeResponse.ALL if count == hi - lo + 1 else RangeResponse.SOME


def _within(ids: tuple[int, ...], lo: int, hi: int) -> int:
    return bisect_right(ids, hi) - bisect_left(ids, lo)


def _contains(ids: tuple[int, ...], id: int) -> bool:
    at = bisect_left(ids, id)
    return at < len(ids) and ids[at] == id


def _sorted(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(ids)))


@dataclass(frozen=True, slots=True)
class _IdList:
    """The common part of transaction lists and write id lists. The ids are sorted and distinct."""

    high_watermark: int
    open_ids: tuple[int, ...] = ()
    aborted_ids: tuple[int, ...] = ()
    min_open: int | None = None
    exceptions: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.open_ids and self.aborted_ids:
            merged = tuple(sorted(self.open_ids + self.aborted_ids))
        else:
            merged = self.open_ids or self.aborted_ids
        object.__setattr__(self, "exceptions", merged)

    def is_valid(self, id: int) -> bool:
        """Return whether ``id`` is committed in this snapshot."""
        return id <= self.high_watermark and not _contains(self.exceptions, id)

    def is_range_valid(self, lo: int, hi: int) -> RangeResponse:
        """Return whether all, some or none of the ids from ``lo`` to ``hi`` (included) are valid.

        Source: docs/reference/snapshots.md, "Valid ids". If all exceptions are above ``hi``, the result is ALL, even if
        ``hi`` is above the high watermark. Lists of this project have no exceptions above the high watermark.
        """
        if lo > self.high_watermark:
            return RangeResponse.NONE
        if self.exceptions and self.exceptions[0] > hi:
            return RangeResponse.ALL
        bad = max(0, hi - self.high_watermark) + _within(self.exceptions, lo, hi)
        if bad == 0:
            return RangeResponse.ALL
        return RangeResponse.NONE if bad == hi - lo + 1 else RangeResponse.SOME

    def is_aborted(self, id: int) -> bool:
        """Return whether ``id`` is among the aborted ids of the list."""
        return _contains(self.aborted_ids, id)

    def is_range_aborted(self, lo: int, hi: int) -> RangeResponse:
        """Return whether all, some or none of the ids from ``lo`` to ``hi`` (included) are aborted."""
        if self.high_watermark < lo:
            return RangeResponse.NONE
        return _how_many(_within(self.aborted_ids, lo, hi), lo, hi)

    def is_base_valid(self, id: int) -> bool:
        """Return whether a base that was compacted up to ``id`` has only rows with valid ids."""
        return id <= self.high_watermark and (self.min_open is None or id < self.min_open)


def _number(text: str, name: str, field_text: str) -> int:
    if not (field_text.isascii() and field_text.isdigit()):
        raise InvalidWriteIdListError(text, f"{name} {field_text!r} is not a number")
    number = int(field_text) if len(field_text) <= len(str(MAX_ID)) else MAX_ID + 1
    if number > MAX_ID:
        raise InvalidWriteIdListError(text, f"{name} {field_text} is larger than 2^63-1")
    return number


def _read_ids(text: str, name: str, field_text: str, *, ranges: bool) -> tuple[int, ...]:
    if not (_RANGES if ranges else _SINGLES).fullmatch(field_text):
        form = "ids or ranges such as 4-8" if ranges else "ids"
        raise InvalidWriteIdListError(text, f"its {name} part is not a comma-separated list of {form}")
    ids: list[int] = []
    for item in field_text.split(",") if field_text else ():
        first, dash, last = item.partition("-")
        if not dash:
            ids.append(_number(text, "id", item))
            continue
        lo, hi = _number(text, "id", first), _number(text, "id", last)
        if not 0 <= hi - lo < _WIDEST_RANGE:
            raise InvalidWriteIdListError(text, f"{item} is not a range of ids")
        ids.extend(range(lo, hi + 1))
    return _sorted(ids)


_Parts = tuple[int, tuple[int, ...], tuple[int, ...], int | None]


def _read(text: str, fields: list[str], *, ranges: bool) -> _Parts:
    """Return the high watermark, open ids, aborted ids and min open id in a text.

    The text can lack the lists of ids.
    """
    if not 2 <= len(fields) <= 4:
        raise InvalidWriteIdListError(text, "it needs a high watermark, a min open id and at most two lists of ids")
    high_watermark = _number(text, "high watermark", fields[0])
    min_open = _number(text, "min open id", fields[1])
    open_ids, aborted_ids = (
        _read_ids(text, name, part, ranges=ranges)
        for name, part in zip(("open", "aborted"), [*fields[2:], "", ""], strict=False)
    )
    _refuse_both(text, open_ids, aborted_ids)
    return high_watermark, open_ids, aborted_ids, None if min_open == MAX_ID else min_open


def _refuse_both(text: str, open_ids: tuple[int, ...], aborted_ids: tuple[int, ...]) -> None:
    if open_ids and aborted_ids:
        both = set(open_ids).intersection(aborted_ids)
        if both:
            raise InvalidWriteIdListError(text, f"id {min(both)} is both open and aborted")


def _made(text: str, high_watermark: int, open_ids: Iterable[int], aborted_ids: Iterable[int]) -> _Parts:
    opened, aborted = _sorted(open_ids), _sorted(aborted_ids)
    _refuse_both(text, opened, aborted)
    return high_watermark, opened, aborted, opened[0] if opened else None


def _written(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _written_with_ranges(ids: tuple[int, ...]) -> str:
    """Return ids as a text. Five or more consecutive ids are written as ``first-last``."""
    parts: list[str] = []
    start = 0
    for at in range(1, len(ids) + 1):
        if at < len(ids) and ids[at] == ids[at - 1] + 1:
            continue
        run = ids[start:at]
        parts.extend([f"{run[0]}-{run[-1]}"] if len(run) >= _SHORTEST_RANGE else map(str, run))
        start = at
    return ",".join(parts)


@dataclass(frozen=True, slots=True)
class ValidTxnList(_IdList):
    """The transactions that a snapshot sees. The text form is ``hwm:minOpen:open:aborted``."""

    @classmethod
    def of(cls, high_watermark: int, open_ids: Iterable[int] = (), aborted_ids: Iterable[int] = ()) -> Self:
        """Return the list with these exceptions, in any order.

        Raises:
            InvalidWriteIdListError: an id is both open and aborted.
        """
        return cls(*_made(str(high_watermark), high_watermark, open_ids, aborted_ids))

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Return the list that a text form describes. For an empty text or None, the list sees all ids.

        Raises:
            InvalidWriteIdListError: the text is not a transaction list.
        """
        if not text:
            return cls(MAX_ID)
        return cls(*_read(text, text.strip().split(":"), ranges=True))

    def __str__(self) -> str:
        min_open = MAX_ID if self.min_open is None else self.min_open
        return (
            f"{self.high_watermark}:{min_open}:"
            f"{_written_with_ranges(self.open_ids)}:{_written_with_ranges(self.aborted_ids)}"
        )


@dataclass(frozen=True, slots=True)
class ValidWriteIdList(_IdList):
    """The write ids of one table that a reader sees. The text form is ``table:hwm:minOpen:open:aborted``.

    ``table`` is the full name, ``database.table``, or None. ``mark`` is the table's id and version in a snapshot, and
    not in the text form.
    """

    table: str | None = None
    mark: TableMark | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        table: str | None,
        high_watermark: int,
        open_ids: Iterable[int] = (),
        aborted_ids: Iterable[int] = (),
    ) -> Self:
        """Return the list with these exceptions, in any order.

        Raises:
            InvalidWriteIdListError: an id is both open and aborted.
        """
        return cls(*_made(f"{table}:{high_watermark}", high_watermark, open_ids, aborted_ids), table)

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Return the list that a text form describes. For an empty text or None, the list sees all ids.

        A caller that reads a managed table must refuse an empty text and None.

        Raises:
            InvalidWriteIdListError: the text is not a write id list.
        """
        if not text:
            return cls(MAX_ID)
        table, *fields = text.strip().split(":")
        if not table:
            raise InvalidWriteIdListError(text, "its table name is empty; null stands for no name")
        return cls(*_read(text, fields, ranges=False), None if table.lower() == "null" else table)

    def __str__(self) -> str:
        min_open = MAX_ID if self.min_open is None else self.min_open
        table = "null" if self.table is None else self.table
        return f"{table}:{self.high_watermark}:{min_open}:{_written(self.open_ids)}:{_written(self.aborted_ids)}"


@dataclass(frozen=True, slots=True)
class ValidCompactorWriteIdList(ValidWriteIdList):
    """The write ids that a compaction is allowed to merge: all ids below the lowest open id, except aborted ids.

    The high watermark is below the lowest open id. The list has no open ids, and no aborted ids above the high
    watermark.
    """

    def __post_init__(self) -> None:
        if self.open_ids:
            object.__setattr__(self, "high_watermark", min(self.high_watermark, self.open_ids[0] - 1))
            object.__setattr__(self, "open_ids", ())
            # The lowered high watermark is enough; Hive stores min open with exceptions only.
            object.__setattr__(self, "min_open", self.min_open if self.aborted_ids else None)
        kept = self.aborted_ids[: bisect_right(self.aborted_ids, self.high_watermark)]
        object.__setattr__(self, "aborted_ids", kept)
        object.__setattr__(self, "exceptions", kept)

    @classmethod
    def from_snapshot(cls, snapshot: ValidWriteIdList) -> Self:
        """Return the write ids of ``snapshot`` that a compaction is allowed to merge."""
        return cls(snapshot.high_watermark, snapshot.open_ids, snapshot.aborted_ids, snapshot.min_open, snapshot.table)

    def is_range_valid(self, lo: int, hi: int) -> RangeResponse:  # noqa: ARG002
        """Return ALL if all ids up to ``hi`` are committed or aborted, otherwise NONE.

        The result is never SOME, because no directory is compacted in part.
        """
        return RangeResponse.ALL if self.high_watermark >= hi else RangeResponse.NONE


@dataclass(frozen=True, slots=True)
class ValidCleanerWriteIdList(ValidWriteIdList):
    """A write id list for the cleaner. Its high watermark is at most the highest write id of a compaction.

    The cleaner deletes no directory above the high watermark.
    """

    @classmethod
    def from_snapshot(cls, snapshot: ValidWriteIdList, highest_write_id: int) -> Self:
        """Return ``snapshot`` with the high watermark lowered to ``highest_write_id``."""
        if highest_write_id >= snapshot.high_watermark:
            high_watermark, min_open = snapshot.high_watermark, snapshot.min_open
        else:
            high_watermark = highest_write_id
            min_open = min(MAX_ID if snapshot.min_open is None else snapshot.min_open, highest_write_id + 1)
        return cls(high_watermark, snapshot.open_ids, snapshot.aborted_ids, min_open, snapshot.table)

    def is_range_valid(self, lo: int, hi: int) -> RangeResponse:
        """Return NONE if ``hi`` is above the high watermark, otherwise the result of :class:`ValidWriteIdList`."""
        return RangeResponse.NONE if hi > self.high_watermark else ValidWriteIdList.is_range_valid(self, lo, hi)

    def is_aborted(self, id: int) -> bool:
        """Return whether ``id`` is among the aborted ids and not above the high watermark."""
        return id <= self.high_watermark and ValidWriteIdList.is_aborted(self, id)


@dataclass(frozen=True, slots=True)
class ValidTxnWriteIdList:
    """The write id lists of a transaction's tables. The text form is ``txnId$list$list...``.

    ``lists`` is a dict from the full name of a table, in lower case, to its write id list.
    """

    txn_id: int
    lists: Mapping[str, ValidWriteIdList]

    @classmethod
    def of(cls, txn_id: int, lists: Iterable[ValidWriteIdList]) -> Self:
        """Return an object with these lists, in the given order.

        Raises:
            InvalidWriteIdListError: a list has no table name, or two lists have the same name.
        """
        by_table: dict[str, ValidWriteIdList] = {}
        for write_ids in lists:
            if write_ids.table is None:
                raise InvalidWriteIdListError(str(write_ids), "a list of several tables needs every table's name")
            if write_ids.table.lower() in by_table:
                raise InvalidWriteIdListError(str(write_ids), "there is a second list for the same table")
            by_table[write_ids.table.lower()] = write_ids
        return cls(txn_id, by_table)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the object that a text form describes.

        Raises:
            InvalidWriteIdListError: the text is not of this form.
        """
        txn_id, *lists = text.strip().split("$")
        if "" in lists:
            raise InvalidWriteIdListError(text, "one of its lists is empty")
        return cls.of(_number(text, "transaction id", txn_id), map(ValidWriteIdList.parse, lists))

    def get(self, table: str) -> ValidWriteIdList | None:
        """Return the list of the table with a full name, in upper or lower case, or None for an unknown table."""
        return self.lists.get(table.lower())

    def __str__(self) -> str:
        return "$".join([str(self.txn_id), *map(str, self.lists.values())])


def compare(a: ValidWriteIdList, b: ValidWriteIdList) -> int:
    """Return 0 if both lists see the same committed ids, 1 if ``a`` sees more, -1 if ``b`` sees more.

    For lists of different tables, the result compares only the names of the tables. If each list sees an id that the
    other list lacks, the result is 1 or -1.

    Source: docs/reference/snapshots.md, "Comparing two lists" (Hive TxnIdUtils).
    """
    names = (a.table or "").lower(), (b.table or "").lower()
    if names[0] != names[1]:
        return 1 if names[0] > names[1] else -1
    left, right = _known_exceptions(a), _known_exceptions(b)
    common = min(len(left), len(right))
    if left[:common] != right[:common]:
        x, y = next((x, y) for x, y in zip(left, right, strict=False) if x != y)
        return 1 if x > y else -1
    if len(left) == len(right):
        return _sign(a.high_watermark - b.high_watermark)
    if len(left) < len(right):
        return _compare_shorter(a.high_watermark, b.high_watermark, right[common:])
    return -_compare_shorter(b.high_watermark, a.high_watermark, left[common:])


def equivalent(a: ValidWriteIdList, b: ValidWriteIdList) -> bool:
    """Return whether both lists see the same committed ids of the same table."""
    return compare(a, b) == 0


def covers(a: ValidWriteIdList, b: ValidWriteIdList) -> bool:
    """Return whether ``a`` sees each write id that ``b`` sees. Both must be lists of the same table."""
    hidden = _known_exceptions(b)
    if a.exceptions and a.exceptions != hidden:
        seen_elsewhere = set(hidden)
        if any(each not in seen_elsewhere for each in a.exceptions if each <= b.high_watermark):
            return False
    above = b.high_watermark - a.high_watermark
    return above <= 0 or _within(hidden, a.high_watermark + 1, b.high_watermark) == above


def with_committed(ids: ValidWriteIdList, write_id: int) -> ValidWriteIdList:
    """Return the list after the commit of ``write_id``. Ids between the high watermark and ``write_id`` become open.

    Source: docs/reference/snapshots.md, "Lists that are kept" (Hive MutableValidReaderWriteIdList).
    """
    if ids.is_valid(write_id):
        return ids
    between = range(ids.high_watermark + 1, write_id)
    open_ids = tuple(each for each in (*ids.open_ids, *between) if each != write_id)
    aborted_ids = tuple(each for each in ids.aborted_ids if each != write_id)
    high_watermark = max(ids.high_watermark, write_id)
    return ValidWriteIdList(high_watermark, open_ids, aborted_ids, open_ids[0] if open_ids else None, ids.table)


def _compare_shorter(shorter_high_watermark: int, longer_high_watermark: int, extra: tuple[int, ...]) -> int:
    """Return the result of :func:`compare` if only one list has additional exceptions, ``extra``."""
    below = extra[0] - 1
    if shorter_high_watermark != below:
        return _sign(shorter_high_watermark - below)
    consecutive = extra[-1] - extra[0] == len(extra) - 1
    return 0 if consecutive and extra[-1] == longer_high_watermark else -1


def _known_exceptions(ids: ValidWriteIdList) -> tuple[int, ...]:
    if not ids.exceptions or ids.exceptions[-1] <= ids.high_watermark:
        return ids.exceptions
    return ids.exceptions[: bisect_right(ids.exceptions, ids.high_watermark)]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
